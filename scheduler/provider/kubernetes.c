/* SPDX-License-Identifier: Apache-2.0
 *
 * kubernetes.c - nodes that are pods, one each, by kubectl: what it reaches without being asked is enough, a service account too.
 *
 *   of the provider, or of a type (which counts then):
 *   image         what the container is made of; Manta is installed in it. Needed
 *   prefix        ... there; default: it is in PATH
 *   service_account, pull_secret, priority_class    names; the pod gets no token of the account
 *   pull          Always, IfNotPresent or Never; default: as Kubernetes does
 *   node_selector K=V,... of the machine's labels        tolerate    keys of its taints, with commas between
 *   gpu           the resource that stands for one; default: nvidia.com/gpu
 *   user          the number of a user that is not root; default: the image's
 *   grace_s       so long it may drain when somebody else ends its pod; default: 60
 *   of the provider alone:
 *   kubectl, kubeconfig, context, namespace    default: kubectl's own
 *   pending_s     a pod that no machine can take is given up after that; default: 120
 *   request_s     of one kubectl; default: 15
 *
 * The pod is made before its secret, which is the pod's: whatever happens between the two, no ticket outlives its pod. The ticket
 * goes to kubectl's standard input, and to the node as a file of mode 0400. A volume's files are links, and root's: so a shell
 * opens it.
 */
#include "scheduler/provider/provider.h"

#include "core/text/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORDS_MAX = 24, NAME_SIZE = TEXT_SIZE + 8, GRACE_S = 60, PENDING_S = 120, REQUEST_S = 15, REQUEST_S_MAX = 17 };
#define FOLDER "/run/manta/node" /* a folder of its own: the volume itself is everybody's */

/* ---- kubectl ---- */

struct kubectl {
    const char  *words[WORDS_MAX];
    char         timeout[48];
    long         limit_s;
    struct child child;
};

static long number_of(const char *text, long otherwise)
{
    char *end;
    long  n = text ? strtol(text, &end, 10) : otherwise;
    return text && (end == text || *end || n < 0) ? otherwise : n;
}

/* kubectl's reason without what it says of itself. */
static void why_not(const struct child *child, char out[TEXT_SIZE])
{
    static const char *const empty[] = {"error: ", "Error from server ", "error when creating \"STDIN\": "};
    child_why(child, out);
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        char *at = strstr(out, empty[i]);
        if (at)
            memmove(at, at + strlen(empty[i]), strlen(at + strlen(empty[i])) + 1);
    }
}

/* Runs it with the words, up to NULL, and this as its input. What it has printed is in k->child, which the caller frees. */
static bool ask(const struct cluster *cluster, struct kubectl *k, const char *const *words, const char *input, struct said *said)
{
    static const char *const options[][2] = {
        {"kubeconfig", "--kubeconfig"}, {"context", "--context"}, {"namespace", "--namespace"}};
    const char *program = pairs_find(&cluster->settings, "kubectl");
    size_t      n = 0;
    k->limit_s = number_of(pairs_find(&cluster->settings, "request_s"), REQUEST_S);
    if (k->limit_s < 1 || k->limit_s > REQUEST_S_MAX) /* three of them within a launch */
        k->limit_s = REQUEST_S;
    snprintf(k->timeout, sizeof k->timeout, "--request-timeout=%lds", k->limit_s);
    k->words[n++] = program ? program : "kubectl";
    k->words[n++] = k->timeout;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *value = pairs_find(&cluster->settings, options[i][0]);
        if (value)
            k->words[n++] = options[i][1], k->words[n++] = value;
    }
    for (; *words; words++)
        k->words[n++] = *words;
    k->words[n] = NULL;
    k->child = (struct child){.argv = k->words, .input = input};
    children_run(&k->child, 1, (int)k->limit_s * 1000 + 500);
    if (k->child.status != 0)
        why_not(&k->child, said->text);
    return k->child.status == 0;
}

static void name_of(const char *id, char out[NAME_SIZE])
{
    snprintf(out, NAME_SIZE, "manta-%s", id);
}

/* ---- what there is ---- */

/* A line for each pod. What others have written stands in quotes of Go, so that it stays on its line. */
static const char rows[] = "{{range .items}}{{index .metadata.labels "
                           "\"manta.instance\"}}\t{{.metadata.name}}\t{{.metadata.creationTimestamp}}\t{{.status.phase}}\t"
                           "{{range .status.conditions}}{{if eq .type \"PodScheduled\"}}{{.status}}{{with .message}}{{printf "
                           "\"%q\" .}}{{end}}{{end}}{{end}}\t"
                           "{{range .status.containerStatuses}}{{with .state.waiting}}{{.reason}}{{with .message}}{{printf \"%q\" "
                           ".}}{{end}}{{end}}{{end}}\t"
                           "{{with .status.reason}}{{.}}{{end}}{{with .status.message}}{{printf \"%q\" .}}{{end}}"
                           "{{range .status.containerStatuses}}{{with .state.terminated}}{{.reason}} (status {{.exitCode}})"
                           "{{with .message}}{{printf \"%q\" .}}{{end}}{{end}}{{end}}\n{{end}}";
enum { ROW_ID, ROW_NAME, ROW_MADE, ROW_PHASE, ROW_SCHEDULED, ROW_WAITS, ROW_ENDED, ROW_FIELDS };

/* REASON"TEXT" as "REASON: the last line of the text". Changes `field`. */
static const char *words_of(char *field, char out[TEXT_SIZE])
{
    char *quote = strchr(field, '"'), *to = quote, *line = quote;
    if (!quote)
        return snprintf(out, TEXT_SIZE, "%.250s", field), out;
    for (const char *c = quote + 1; *c && *c != '"'; c++) {
        bool is_escaped = *c == '\\' && c[1];
        c += is_escaped;
        if (!is_escaped || *c != 'n')
            *to++ = *c;
        else if (c[1] != '"') /* a line that is not the last */
            line = to;
    }
    *to = '\0';
    snprintf(out, TEXT_SIZE, "%.*s%s%.200s", quote - field < 50 ? (int)(quote - field) : 50, field, quote > field ? ": " : "",
             line);
    return out;
}

static bool is_hopeless(const char *waits)
{
    static const char *const reasons[] = {"ImagePullBackOff",           "InvalidImageName", "ErrImageNeverPull",
                                          "CreateContainerConfigError", "CrashLoopBackOff", "RunContainerError",
                                          "CreateContainerError"};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strncmp(waits, reasons[i], strlen(reasons[i])) == 0)
            return true;
    return false;
}

static double age_s(const char *made)
{
    struct tm tm = {0};
    char     *end = strptime(made, "%Y-%m-%dT%H:%M:%S", &tm);
    return end ? difftime(time(NULL), timegm(&tm)) : 0;
}

static void list_one(const struct cluster *cluster, char **fields, struct said *said)
{
    char why[TEXT_SIZE] = "", words[TEXT_SIZE];
    bool is_pending = strcmp(fields[ROW_PHASE], "Pending") == 0, is_placed = strncmp(fields[ROW_SCHEDULED], "True", 4) == 0;
    long pending_s = number_of(pairs_find(&cluster->settings, "pending_s"), PENDING_S);
    if (strcmp(fields[ROW_PHASE], "Failed") == 0 || strcmp(fields[ROW_PHASE], "Succeeded") == 0)
        snprintf(why, sizeof why, "its pod has ended: %.220s", words_of(fields[ROW_ENDED], words));
    else if (is_hopeless(fields[ROW_WAITS]))
        snprintf(why, sizeof why, "its container can't be started: %.200s", words_of(fields[ROW_WAITS], words));
    else if (is_pending && strncmp(fields[ROW_SCHEDULED], "False", 5) == 0 && age_s(fields[ROW_MADE]) >= (double)pending_s)
        snprintf(why, sizeof why, "no machine can take its pod: %.200s", words_of(fields[ROW_SCHEDULED] + 5, words));
    said_list(said, fields[ROW_ID], fields[ROW_NAME], is_pending && !is_placed && !why[0], why);
}

static bool list(const struct cluster *cluster, struct said *said)
{
    static struct kubectl k;
    char                  of[TEXT_SIZE + 16];
    const char           *words[] = {"get", "pods", "--selector", of, "--output", "go-template", "--template", rows, NULL};
    snprintf(of, sizeof of, "manta.cluster=%s", cluster->id);
    bool  is_fine = ask(cluster, &k, words, NULL, said);
    char *rest = (char *)k.child.out.data;
    for (char *line; is_fine && (line = strsep(&rest, "\n"));) {
        char  *fields[ROW_FIELDS];
        size_t n = 0;
        while (n < ROW_FIELDS && (fields[n] = strsep(&line, "\t")))
            n++;
        if (n == ROW_FIELDS && cluster_has(cluster, fields[ROW_ID]))
            list_one(cluster, fields, said);
    }
    children_free(&k.child, 1);
    return is_fine;
}

/* ---- manifests ---- */

static void text_add(mt_buf *m, const char *text)
{
    if (mt_json_put_text(m, text).code)
        exit(1); /* the head starts another */
}

/* ,"NAME":"VALUE" where there is one. */
static void member_add(mt_buf *m, const char *name, const char *value)
{
    if (!value)
        return;
    script_add(m, ",");
    text_add(m, name);
    script_add(m, ":");
    text_add(m, value);
}

/* Words of a command: Kubernetes puts variables in place of $(NAME). */
static void word_add(mt_buf *m, const char *word, bool is_first)
{
    mt_buf text = {0};
    for (const char *c = word; *c; c++) {
        char one[3] = {*c, *c == '$' ? '$' : '\0', '\0'};
        script_add(&text, one);
    }
    if (mt_buf_terminate(&text).code)
        exit(1);
    script_add(m, is_first ? "" : ",");
    text_add(m, (const char *)text.data);
    mt_buf_fini(&text);
}

static void words_add(mt_buf *m, const char *const *words)
{
    script_add(m, "[");
    for (size_t i = 0; words[i]; i++)
        word_add(m, words[i], i == 0);
    script_add(m, "]");
}

/* Calls `one` with each piece of "a,b,c", blanks apart. */
static void pieces_add(mt_buf *m, const char *text, void (*one)(mt_buf *m, char *piece))
{
    char  all[PAIR_VALUE_SIZE];
    bool  is_first = true;
    char *rest = all;
    snprintf(all, sizeof all, "%s", text);
    for (char *piece; (piece = strsep(&rest, ", "));) {
        if (!piece[0])
            continue;
        script_add(m, is_first ? "" : ",");
        is_first = false;
        one(m, piece);
    }
}

static void toleration_add(mt_buf *m, char *key)
{
    script_add(m, "{\"key\":");
    text_add(m, key);
    script_add(m, ",\"operator\":\"Exists\"}");
}

static void selector_add(mt_buf *m, char *pair)
{
    char *value = strchr(pair, '=');
    if (value)
        *value++ = '\0';
    text_add(m, pair);
    script_add(m, ":");
    text_add(m, value ? value : "");
}

static void metadata_add(mt_buf *m, const struct cluster *cluster, const struct request *r, const char *kind)
{
    char name[NAME_SIZE];
    name_of(r->id, name);
    script_add(m, "{\"apiVersion\":\"v1\",\"kind\":");
    text_add(m, kind);
    script_add(m, ",\"metadata\":{\"name\":");
    text_add(m, name);
    script_add(m, ",\"labels\":{\"app.kubernetes.io/name\":\"manta\",\"app.kubernetes.io/component\":\"node\"");
    member_add(m, "manta.cluster", cluster->id);
    member_add(m, "manta.instance", r->id);
    script_add(m, "}");
}

/* What the pod asks for is what it may have: so it is not the first to go where a machine runs short. */
static void resources_add(mt_buf *m, const struct cluster *cluster, const struct request *r)
{
    const char *cpus = pairs_find(&r->resources, "CPU"), *gpus = pairs_find(&r->resources, "GPU");
    const char *memory = pairs_find(&r->resources, "memory"), *gpu = setting_find(cluster, r, "gpu");
    char        bytes[48], whole[48];
    snprintf(bytes, sizeof bytes, "%.0f", memory ? strtod(memory, NULL) : 0);
    snprintf(whole, sizeof whole, "%.0f", gpus ? ceil(strtod(gpus, NULL)) : 0);
    for (int i = 0; i < 2; i++) {
        script_add(m, i == 0 ? ",\"resources\":{\"requests\":{" : "},\"limits\":{");
        script_add(m, "\"cpu\":");
        text_add(m, cpus && strtod(cpus, NULL) > 0 ? cpus : "100m");
        member_add(m, "memory", memory ? bytes : NULL);
        member_add(m, gpu ? gpu : "nvidia.com/gpu", gpus && strtod(gpus, NULL) > 0 ? whole : NULL);
    }
    script_add(m, "}}");
}

static void container_add(mt_buf *m, const struct cluster *cluster, const struct request *r, long grace_s)
{
    struct options options = {.count = 0};
    const char    *prefix = setting_find(cluster, r, "prefix");
    char           manta[FILE_SIZE + 16], drain_s[24];
    snprintf(manta, sizeof manta, "%.*s%smanta", FILE_SIZE - 1, prefix ? prefix : "", prefix ? "/bin/" : "");
    snprintf(drain_s, sizeof drain_s, "%ld", grace_s > 20 ? grace_s - 10 : (grace_s + 1) / 2);
    const char *first[] = {"sh",
                           "-c",
                           "exec \"$0\" \"$@\" < /run/manta-join/join",
                           manta,
                           "start",
                           "--foreground",
                           "--join",
                           "-",
                           "--dir",
                           FOLDER,
                           "--drain-limit",
                           drain_s};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        options.argv[options.count++] = first[i];
    options_of(r, "", &options);
    script_add(m, "{\"name\":\"node\"");
    member_add(m, "image", setting_find(cluster, r, "image"));
    member_add(m, "imagePullPolicy", setting_find(cluster, r, "pull"));
    script_add(m, ",\"command\":");
    words_add(m, options.argv);
    script_add(m, ",\"env\":[{\"name\":\"MANTA_ADDRESS\",\"value\":\"" FOLDER "\"}]");
    resources_add(m, cluster, r);
    script_add(m, ",\"securityContext\":{\"allowPrivilegeEscalation\":false,\"capabilities\":{\"drop\":[\"ALL\"]}}"
                  ",\"terminationMessagePolicy\":\"FallbackToLogsOnError\",\"lifecycle\":{\"preStop\":{\"exec\":{\"command\":");
    words_add(m, (const char *[]){manta, "drain", r->id, "--deadline", drain_s, "--reason", "Kubernetes ends its pod", NULL});
    script_add(m, "}}},\"readinessProbe\":{\"periodSeconds\":5,\"timeoutSeconds\":5,\"exec\":{\"command\":");
    words_add(m, (const char *[]){manta, "healthcheck", NULL});
    script_add(m,
               "}},\"volumeMounts\":[{\"name\":\"run\",\"mountPath\":\"/run/manta\"},{\"name\":\"shm\",\"mountPath\":\"/dev/shm\"},"
               "{\"name\":\"join\",\"mountPath\":\"/run/manta-join\",\"readOnly\":true}]}");
}

/* Shared memory is a volume, since a container's own has 64 MB. */
static void pod_make(mt_buf *m, const struct cluster *cluster, const struct request *r)
{
    const char *user = setting_find(cluster, r, "user"), *pull = setting_find(cluster, r, "pull_secret");
    const char *selector = setting_find(cluster, r, "node_selector"), *tolerate = setting_find(cluster, r, "tolerate");
    long        grace_s = number_of(setting_find(cluster, r, "grace_s"), GRACE_S), uid = number_of(user, 0);
    char        name[NAME_SIZE], numbers[192];
    name_of(r->id, name);
    metadata_add(m, cluster, r, "Pod");
    snprintf(numbers, sizeof numbers, "},\"spec\":{\"restartPolicy\":\"Never\",\"terminationGracePeriodSeconds\":%ld", grace_s);
    script_add(m, numbers);
    script_add(m, ",\"automountServiceAccountToken\":false,\"enableServiceLinks\":false");
    member_add(m, "serviceAccountName", setting_find(cluster, r, "service_account"));
    member_add(m, "priorityClassName", setting_find(cluster, r, "priority_class"));
    if (pull) {
        script_add(m, ",\"imagePullSecrets\":[{\"name\":");
        text_add(m, pull);
        script_add(m, "}]");
    }
    script_add(m, ",\"nodeSelector\":{");
    pieces_add(m, selector ? selector : "", selector_add);
    script_add(m, "},\"tolerations\":[");
    pieces_add(m, tolerate ? tolerate : "", toleration_add);
    script_add(m, "],\"securityContext\":{\"seccompProfile\":{\"type\":\"RuntimeDefault\"}");
    snprintf(numbers, sizeof numbers, ",\"runAsNonRoot\":true,\"runAsUser\":%ld,\"runAsGroup\":%ld,\"fsGroup\":%ld", uid, uid, uid);
    script_add(m, user ? numbers : "");
    script_add(m, "},\"containers\":[");
    container_add(m, cluster, r, grace_s);
    script_add(m, "],\"volumes\":[{\"name\":\"run\",\"emptyDir\":{}},{\"name\":\"shm\",\"emptyDir\":{\"medium\":\"Memory\"}},"
                  "{\"name\":\"join\",\"secret\":{\"defaultMode\":256,\"secretName\":"); /* 0400 */
    text_add(m, name);
    script_add(m, "}}]}}\n");
}

static void secret_make(mt_buf *m, const struct cluster *cluster, const struct request *r, const char *uid)
{
    char name[NAME_SIZE];
    name_of(r->id, name);
    metadata_add(m, cluster, r, "Secret");
    script_add(m, ",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":");
    text_add(m, name);
    member_add(m, "uid", uid);
    script_add(m, "}]},\"type\":\"Opaque\",\"immutable\":true,\"stringData\":{\"join\":");
    text_add(m, r->join);
    script_add(m, "}}\n");
}

/* ---- launch, terminate ---- */

static bool is_there_already(const struct kubectl *k)
{
    return strstr((const char *)k->child.wrong.data, "(AlreadyExists)") != NULL;
}

/* Makes what the manifest says; `out`: its uid. True also where it is there from before, `out` is empty then. */
static bool make(const struct cluster *cluster, mt_buf *manifest, char out[TEXT_SIZE], struct said *said)
{
    static struct kubectl    k;
    static const char *const words[] = {"create",   "--validate=false",         "--filename", "-",
                                        "--output", "jsonpath={.metadata.uid}", NULL};
    if (mt_buf_terminate(manifest).code)
        exit(1);
    bool is_made = ask(cluster, &k, words, (const char *)manifest->data, said);
    bool is_there = is_made || is_there_already(&k);
    snprintf(out, TEXT_SIZE, "%.*s", is_made ? (int)strcspn((const char *)k.child.out.data, "\r\n") : 0,
             (const char *)k.child.out.data);
    children_free(&k.child, 1);
    explicit_bzero(manifest->data, manifest->size); /* a ticket may be in it */
    mt_buf_fini(manifest);
    if (is_there)
        said->text[0] = '\0';
    return is_there;
}

/* The uid of a pod that was made before. */
static bool look_up(const struct cluster *cluster, const char *name, char out[TEXT_SIZE], struct said *said)
{
    static struct kubectl k;
    const char           *words[] = {"get", "pod", name, "--output", "jsonpath={.metadata.uid}", NULL};
    bool                  is_fine = ask(cluster, &k, words, NULL, said);
    snprintf(out, TEXT_SIZE, "%s", (const char *)k.child.out.data);
    children_free(&k.child, 1);
    return is_fine;
}

static bool check(const struct cluster *cluster, const struct request *r, struct said *said)
{
    static const char *const numbers[] = {"grace_s", "pending_s", "request_s", "user"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const char *value = setting_find(cluster, r, numbers[i]);
        if (value && number_of(value, -1) < 0)
            return snprintf(said->text, sizeof said->text, "its setting %s (%.60s) is no whole number", numbers[i], value), false;
    }
    if (!r->join[0])
        snprintf(said->text, sizeof said->text,
                 "this cluster speaks in clear: start its head with --bind, so that it gives tickets");
    else if (!setting_find(cluster, r, "image"))
        snprintf(said->text, sizeof said->text, "its settings have no image: what its container is made of");
    else
        return true;
    return false;
}

static bool terminate(const struct cluster *cluster, const struct request *r, struct said *said)
{
    static struct kubectl k;
    char                  pod[NAME_SIZE + 8], secret[NAME_SIZE + 8], name[NAME_SIZE];
    const char           *words[] = {"delete", pod, secret, "--ignore-not-found", "--wait=false", NULL};
    if (!cluster_has(cluster, r->id))
        return false;
    name_of(r->id, name);
    snprintf(pod, sizeof pod, "pod/%s", name);
    snprintf(secret, sizeof secret, "secret/%s", name);
    bool is_fine = ask(cluster, &k, words, NULL, said);
    children_free(&k.child, 1);
    return is_fine;
}

static bool launch(const struct cluster *cluster, const struct request *r, struct said *said)
{
    mt_buf      pod = {0}, secret = {0};
    char        uid[TEXT_SIZE], ignored[TEXT_SIZE], name[NAME_SIZE];
    struct said other = {0};
    if (!cluster_has(cluster, r->id) || !check(cluster, r, said))
        return false;
    name_of(r->id, name);
    snprintf(said->handle, sizeof said->handle, "%.*s", TEXT_SIZE - 1, name);
    pod_make(&pod, cluster, r);
    if (!make(cluster, &pod, uid, said) || (!uid[0] && !look_up(cluster, name, uid, said)))
        return false;
    secret_make(&secret, cluster, r, uid);
    if (make(cluster, &secret, ignored, said))
        return true;
    (void)terminate(cluster, r, &other);
    return false;
}

const struct provider provider_kubernetes = {.list = list, .launch = launch, .terminate = terminate};
