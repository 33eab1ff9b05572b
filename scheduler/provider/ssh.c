/* SPDX-License-Identifier: Apache-2.0
 *
 * ssh.c - nodes on machines of a list, one on each, by the system's ssh: what ssh can reach without a password is enough.
 *
 *   hosts         names as ssh takes them, with blanks or commas between; a type's own `hosts` are a part of them
 *   prefix        where Manta is installed on them; default: as here
 *   folder        on them, of nodes; default: /tmp/manta-nodes-UID
 *   identity, known_hosts, config    files; default: ssh's own
 *   connect_s     limit of a connection; default: 5.    share_s    it is kept so long for the next one; default: 30, 0: it is not
 *
 * A host's key must be known, and nobody is asked for a password. What a host is asked is a script on the standard input of its
 * `sh`, so the ticket stands in no command line. What runs there is read from its /proc by labels, as local.c does.
 */
#include "scheduler/provider/provider.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HOSTS_MAX = 256, AT_ONCE = 64, WORDS_MAX = 40, IS_BUSY = 75, UNREACHED = 255, AVOIDED_S = 60 };

struct host {
    char   name[TEXT_SIZE];
    bool   is_busy;  /* as far as we know: only which one is tried first */
    time_t failed_s; /* likewise; 0: it did not */
};
static struct host hosts[HOSTS_MAX];
static size_t      host_count;

struct call { /* one host is asked */
    struct child child;
    const char  *words[WORDS_MAX];
};

/* ---- the hosts ---- */

static bool word_take(const char **at, char out[TEXT_SIZE])
{
    *at += strspn(*at, " \t,");
    size_t length = strcspn(*at, " \t,");
    snprintf(out, TEXT_SIZE, "%.*s", (int)(length < TEXT_SIZE ? length : TEXT_SIZE - 1), *at);
    *at += length;
    return length > 0;
}

static bool is_among(const char *names, const char *name)
{
    char word[TEXT_SIZE];
    while (word_take(&names, word))
        if (strcmp(word, name) == 0)
            return true;
    return false;
}

/* False: there are none, or one is none. What is known of those that stay is kept. */
static bool hosts_read(const struct cluster *cluster, struct said *said)
{
    static struct host before[HOSTS_MAX];
    const char        *at = pairs_find(&cluster->settings, "hosts");
    size_t             before_count = host_count;
    memcpy(before, hosts, sizeof before);
    host_count = 0;
    while (at && host_count < HOSTS_MAX && word_take(&at, hosts[host_count].name)) {
        struct host *h = &hosts[host_count++];
        h->is_busy = false;
        h->failed_s = 0;
        for (size_t i = 0; i < before_count; i++)
            if (strcmp(before[i].name, h->name) == 0)
                *h = before[i];
        if (h->name[0] == '-') /* an option of ssh */
            return snprintf(said->text, sizeof said->text, "provider.hosts: \"%.60s\" is no host", h->name), false;
    }
    if (host_count == 0 || !cluster->id[0])
        return snprintf(said->text, sizeof said->text, "the cluster file has no provider.hosts"), false;
    return true;
}

/* As it can stand in a label. */
static void handle_of(const struct host *h, char out[64])
{
    snprintf(out, 64, "%.60s", h->name);
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '.' && *c != '-')
            *c = '_';
}

/* ---- what a host is asked ---- */

static void words_of(const struct cluster *cluster, const struct host *h, struct call *call)
{
    static char         control[FILE_SIZE + 32], persist[64], connect[64], known[FILE_SIZE + 32];
    const struct pairs *s = &cluster->settings;
    const char         *identity = pairs_find(s, "identity"), *known_hosts = pairs_find(s, "known_hosts"),
               *config = pairs_find(s, "config");
    const char *limit = pairs_find(s, "connect_s"), *share = pairs_find(s, "share_s");
    const char *slash = strrchr(cluster->head_file, '/');
    size_t      n = 0;
    snprintf(connect, sizeof connect, "ConnectTimeout=%.20s", limit ? limit : "5");
    snprintf(persist, sizeof persist, "ControlPersist=%.20s", share ? share : "30");
    snprintf(known, sizeof known, "UserKnownHostsFile=%s", known_hosts ? known_hosts : "");
    snprintf(control, sizeof control, "ControlPath=%.*s/ssh-%%C", slash ? (int)(slash - cluster->head_file) : 1,
             slash ? cluster->head_file : ".");
    const char *fixed[] = {"ssh", "-T",
                           "-o",  "BatchMode=yes",
                           "-o",  "StrictHostKeyChecking=yes",
                           "-o",  connect,
                           "-o",  "ServerAliveInterval=5",
                           "-o",  "ServerAliveCountMax=2",
                           "-o",  "LogLevel=ERROR"};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        call->words[n++] = fixed[i];
    if (config)
        call->words[n++] = "-F", call->words[n++] = config;
    if (identity)
        call->words[n++] = "-i", call->words[n++] = identity, call->words[n++] = "-o", call->words[n++] = "IdentitiesOnly=yes";
    if (known_hosts)
        call->words[n++] = "-o", call->words[n++] = known;
    if (!share || strcmp(share, "0") != 0)
        call->words[n++] = "-o", call->words[n++] = "ControlMaster=auto", call->words[n++] = "-o", call->words[n++] = control,
        call->words[n++] = "-o", call->words[n++] = persist;
    call->words[n++] = "--", call->words[n++] = h->name, call->words[n++] = "sh", call->words[n++] = "-s";
    call->words[n] = NULL;
    call->child.argv = call->words;
}

static void add_set(mt_buf *script, const char *name, const char *value)
{
    script_add(script, name);
    script_add(script, "=");
    script_add_word(script, value);
    script_add(script, "\n");
}

/* `mine TAG`: the processes with an instance of that tag in their labels. The pattern does not match itself. */
static void script_begin(const struct cluster *cluster, const char *tag, mt_buf *script)
{
    static const char functions[] =
        "umask 077\n"
        "mine() {\n"
        "  for p in $(grep -als \"manta[.]instance=$1\" /proc/[0-9]*/cmdline); do\n"
        "    p=${p#/proc/}; p=${p%/cmdline}\n"
        "    case $(readlink /proc/$p/exe) in */manta-raylet|*/manta|*'/manta-raylet (deleted)') echo $p;; esac\n"
        "  done\n"
        "}\n"
        "[ -n \"$folder\" ] || folder=/tmp/manta-nodes-$(id -u)\n";
    const char *folder = pairs_find(&cluster->settings, "folder");
    add_set(script, "folder", folder ? folder : "");
    add_set(script, "tag", tag);
    script_add(script, functions);
}

static void script_list(const struct cluster *cluster, mt_buf *script)
{
    script_begin(cluster, cluster->id, script);
    script_add(script, "for p in $(mine \"$tag-\"); do\n"
                       "  tr '\\0,' '\\n\\n' < /proc/$p/cmdline | sed -n 's/.*manta[.]instance=//p'\n"
                       "done\n"
                       "exit 0\n");
}

static void script_launch(const struct cluster *cluster, const struct request *r, const struct host *h, mt_buf *script)
{
    struct options options = {.count = 0};
    char           program[FILE_SIZE], handle[64];
    script_begin(cluster, r->id, script);
    add_set(script, "manta", manta_there(pairs_find(&cluster->settings, "prefix"), program));
    script_add(script, "[ -x \"$manta\" ] || { echo \"there is no program $manta\" >&2; exit 1; }\n"
                       "mkdir -p \"$folder\" && [ -O \"$folder\" ] || { echo \"$folder is another user's\" >&2; exit 1; }\n"
                       "[ -z \"$(mine \"$tag,\")\" ] || exit 0\n"
                       "[ -z \"$(mine \"${tag%-*}-\")\" ] || exit 75\n"
                       "setsid \"$manta\" start --foreground --join - --dir \"$folder/${tag##*-}\"");
    handle_of(h, handle);
    options_of(r, handle, &options);
    script_add_options(script, &options);
    script_add(script, " >> \"$folder/${tag##*-}.log\" 2>&1 << 'END OF THE TICKET' &\n");
    script_add(script, r->join);
    script_add(script, "END OF THE TICKET\nexit 0\n"); /* it ends with a line */
}

/* The first time SIGINT, by which a raylet ends at once and well; when it is asked again for the same, SIGKILL. */
static void script_terminate(const struct cluster *cluster, const struct request *r, mt_buf *script)
{
    script_begin(cluster, r->id, script);
    script_add(script, "signal=INT\n"
                       "mark=$folder/${tag##*-}.ending\n"
                       "[ ! -e \"$mark\" ] || signal=KILL\n"
                       "for p in $(mine \"$tag,\"); do touch \"$mark\"; kill -$signal $p; done\n"
                       "for i in 1 2 3 4 5 6 7 8 9 10; do\n"
                       "  [ -n \"$(mine \"$tag,\")\" ] || { rm -rf \"$folder/${tag##*-}\" \"$mark\"; break; }\n"
                       "  sleep 0.1\n"
                       "done\n"
                       "exit 0\n");
}

/* ---- asking ---- */

/* False: it was not reached, or could not; the reason, with its name, is said. */
static bool ask(const struct cluster *cluster, struct host *h, mt_buf *script, int *out_status, struct said *said)
{
    struct call call = {.child = {.argv = NULL}};
    char        why[TEXT_SIZE];
    if (mt_buf_terminate(script).code)
        exit(1);
    words_of(cluster, h, &call);
    call.child.input = (const char *)script->data;
    children_run(&call.child, 1, OTHER_LIMIT_MS);
    *out_status = call.child.status;
    h->failed_s = call.child.status == 0 || call.child.status == IS_BUSY ? 0 : time(NULL);
    child_why(&call.child, why);
    if (h->failed_s)
        snprintf(said->text, sizeof said->text, "%.80s: %.150s", h->name, why);
    children_free(&call.child, 1);
    explicit_bzero(script->data, script->size);
    mt_buf_fini(script);
    return *out_status == 0;
}

static void list_take(struct host *h, struct child *child, struct said *said)
{
    char handle[64], *rest = (char *)child->out.data;
    handle_of(h, handle);
    h->is_busy = false;
    for (char *line; (line = strsep(&rest, "\n"));)
        if (line[0]) {
            h->is_busy = true;
            said_list(said, line, handle, false, "");
        }
}

/* A host that can't be reached has nothing: what is there is found when it is back, and has no certificate any more by then. Where
 * none can be reached, it is us. */
static bool list(const struct cluster *cluster, struct said *said)
{
    static struct call  calls[AT_ONCE];
    static struct child children[AT_ONCE];
    mt_buf              script = {0};
    size_t              reached = 0;
    if (!hosts_read(cluster, said))
        return false;
    script_list(cluster, &script);
    if (mt_buf_terminate(&script).code)
        exit(1);
    for (size_t first = 0; first < host_count; first += AT_ONCE) {
        size_t n = host_count - first < AT_ONCE ? host_count - first : AT_ONCE;
        for (size_t i = 0; i < n; i++) {
            words_of(cluster, &hosts[first + i], &calls[i]);
            children[i] = (struct child){.argv = calls[i].words, .input = (const char *)script.data};
        }
        children_run(children, n, (int)(OTHER_LIMIT_MS / (host_count / AT_ONCE + 1)));
        for (size_t i = 0; i < n; i++) {
            if (children[i].status == 0)
                list_take(&hosts[first + i], &children[i], said);
            else {
                char why[TEXT_SIZE];
                child_why(&children[i], why);
                snprintf(said->text, sizeof said->text, "%.80s: %.150s", hosts[first + i].name, why);
            }
            reached += children[i].status == 0;
        }
        children_free(children, n);
    }
    mt_buf_fini(&script);
    return reached > 0;
}

/* Those that may be free first, then those that were not reached, then those that were in use. */
static int rank(const struct host *h)
{
    return h->is_busy ? 2 : h->failed_s && time(NULL) - h->failed_s < AVOIDED_S ? 1 : 0;
}

static bool launch_on(const struct cluster *cluster, const struct request *r, struct host *h, struct said *said)
{
    mt_buf script = {0};
    int    status;
    script_launch(cluster, r, h, &script);
    bool is_fine = ask(cluster, h, &script, &status, said);
    h->is_busy = is_fine || status == IS_BUSY;
    if (is_fine)
        handle_of(h, said->handle);
    return is_fine;
}

static bool launch(const struct cluster *cluster, const struct request *r, struct said *said)
{
    const char *named = pairs_find(&r->settings, "hosts");
    time_t      end_s = time(NULL) + (LAUNCH_LIMIT_MS - OTHER_LIMIT_MS) / 1000;
    bool        was_tried[HOSTS_MAX] = {false};
    if (!hosts_read(cluster, said))
        return false;
    if (!r->join[0]) {
        snprintf(said->text, sizeof said->text,
                 "this cluster speaks in clear: start its head with --bind, so that it gives tickets");
        return false;
    }
    for (int turn = 0; turn < 3; turn++)
        for (size_t i = 0; i < host_count && time(NULL) < end_s; i++) {
            if (was_tried[i] || rank(&hosts[i]) > turn || (named && !is_among(named, hosts[i].name)))
                continue;
            was_tried[i] = true;
            if (launch_on(cluster, r, &hosts[i], said))
                return said->text[0] = '\0', true;
        }
    if (!said->text[0])
        snprintf(said->text, sizeof said->text, "each of its hosts has a node already");
    return false;
}

static bool terminate(const struct cluster *cluster, const struct request *r, struct said *said)
{
    bool is_fine = true;
    char handle[64];
    if (!hosts_read(cluster, said) || !cluster_has(cluster, r->id))
        return false;
    for (size_t i = 0; i < host_count; i++) {
        mt_buf script = {0};
        int    status;
        handle_of(&hosts[i], handle);
        if (r->handle[0] && strcmp(handle, r->handle) != 0)
            continue;
        script_terminate(cluster, r, &script);
        bool is_done = ask(cluster, &hosts[i], &script, &status, said);
        hosts[i].is_busy = hosts[i].is_busy && !is_done;
        is_fine = is_fine && is_done;
    }
    return is_fine;
}

const struct provider provider_ssh = {.list = list, .launch = launch, .terminate = terminate};
