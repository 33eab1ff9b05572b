/* SPDX-License-Identifier: Apache-2.0
 *
 * slurm.c - nodes that are batch jobs, one each, by sbatch, squeue and scancel. A job's name is its instance's tag.
 *
 *   of the provider, or of a type (which counts then):
 *   time_limit    of a job, as sbatch takes it: the node leaves before its end by itself. Needed
 *   options       more words for sbatch, with blanks between: --partition=gpu --account=me
 *   backlog       no more of them wait in the queue; default: 8
 *   prefix        where Manta is installed on the machines; default: as here
 *   folder        that this machine and they share: scripts' output, and a ticket until its job has begun, mode 0600; default: the
 *                 folder `nodes` beside the head's file
 *   node_folder   on them, of nodes; default: /tmp
 *
 * Before the first job of a type Slurm is asked whether it would ever run (--test-only). What waits in the queue is listed as such.
 */
#include "scheduler/provider/provider.h"

#include "core/base/hash.h"
#include "core/sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS_MAX = 48, TYPES_MAX = 64, BACKLOG = 8 };

struct sbatch { /* its command line */
    const char *words[WORDS_MAX];
    size_t      count;
    char        texts[PAIRS_MAX][PAIR_VALUE_SIZE + 64]; /* what words point to */
    size_t      text_count;
    char        options[PAIR_VALUE_SIZE];
};

/* ---- what there is ---- */

struct job {
    char id[TEXT_SIZE], name[TEXT_SIZE], state[32];
};

/* Calls fn with each job of this cluster. False: Slurm does not say. */
static bool jobs_each(const struct cluster *cluster, void (*fn)(void *user, const struct job *job), void *user, struct said *said)
{
    const char  *words[] = {"squeue", "--me", "--noheader", "--format=%i %j %T", NULL};
    struct child child = {.argv = words};
    struct job   job;
    children_run(&child, 1, OTHER_LIMIT_MS);
    if (child.status != 0)
        child_why(&child, said->text);
    char *rest = (char *)child.out.data;
    for (char *line; child.status == 0 && (line = strsep(&rest, "\n"));)
        if (sscanf(line, "%255s %255s %31s", job.id, job.name, job.state) == 3 && cluster_has(cluster, job.name))
            fn(user, &job);
    children_free(&child, 1);
    return child.status == 0;
}

static bool is_waiting(const struct job *job)
{
    return strcmp(job->state, "PENDING") == 0 || strcmp(job->state, "CONFIGURING") == 0;
}

static void list_one(void *user, const struct job *job)
{
    said_list(user, job->name, job->id, is_waiting(job), "");
}

static bool list(const struct cluster *cluster, struct said *said)
{
    return jobs_each(cluster, list_one, said, said);
}

struct seen {
    const char *id;
    char        handle[TEXT_SIZE]; /* of the job with that id; "": there is none */
    long        waiting;
};

static void see(void *user, const struct job *job)
{
    struct seen *s = user;
    s->waiting += is_waiting(job);
    if (strcmp(job->name, s->id) == 0)
        snprintf(s->handle, sizeof s->handle, "%s", job->id);
}

/* ---- a job's description ---- */

/* Seconds of "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours" and so on as sbatch reads them; < 0: it is none of
 * them. */
static long seconds_of(const char *text)
{
    long days = 0, parts[3] = {0}, n = 0;
    int  used = 0;
    bool has_days = sscanf(text, "%ld-%n", &days, &used) == 1 && used > 0;
    for (text += has_days ? used : 0; n < 3; n++) {
        char *end;
        parts[n] = strtol(text, &end, 10);
        if (end == text || parts[n] < 0)
            return -1;
        if (*end != ':') {
            n++;
            text = end;
            break;
        }
        text = end + 1;
    }
    if (*text)
        return -1;
    if (has_days)
        return ((days * 24 + parts[0]) * 60 + parts[1]) * 60 + parts[2];
    return n == 3 ? (parts[0] * 60 + parts[1]) * 60 + parts[2] : parts[0] * 60 + parts[1];
}

static void word(struct sbatch *b, const char *text)
{
    if (b->count + 1 < WORDS_MAX)
        b->words[b->count++] = text;
    b->words[b->count] = NULL;
}

static MT_PRINTF(2, 3) void word_made(struct sbatch *b, const char *format, ...)
{
    va_list args;
    if (b->text_count == PAIRS_MAX)
        return;
    va_start(args, format);
    vsnprintf(b->texts[b->text_count], sizeof b->texts[0], format, args);
    va_end(args);
    word(b, b->texts[b->text_count++]);
}

static void describe(const struct cluster *cluster, const struct request *r, const char *folder, struct sbatch *b)
{
    const char *cpus = pairs_find(&r->resources, "CPU"), *gpus = pairs_find(&r->resources, "GPU");
    const char *memory = pairs_find(&r->resources, "memory"), *options = setting_find(cluster, r, "options");
    word(b, "sbatch");
    word(b, "--parsable");
    word(b, "--nodes=1");
    word(b, "--ntasks=1");
    word(b, "--no-requeue");
    word(b, "--open-mode=append");
    word(b, "--chdir=/");
    word_made(b, "--job-name=%s", r->id);
    word_made(b, "--output=%.900s/%s.log", folder, strrchr(r->id, '-') + 1);
    word_made(b, "--time=%s", setting_find(cluster, r, "time_limit"));
    word_made(b, "--cpus-per-task=%.0f", cpus && strtod(cpus, NULL) > 1 ? ceil(strtod(cpus, NULL)) : 1);
    if (memory)
        word_made(b, "--mem=%.0fM", ceil(strtod(memory, NULL) / (1 << 20)));
    if (gpus && strtod(gpus, NULL) > 0)
        word_made(b, "--gres=gpu:%.0f", ceil(strtod(gpus, NULL)));
    snprintf(b->options, sizeof b->options, "%s", options ? options : "");
    char *rest = b->options;
    for (char *one; (one = strsep(&rest, " ")) != NULL;)
        if (one[0])
            word(b, one);
}

/* The raylet is a child of the script, which removes what it leaves. The ticket is gone from the folder before it is used. */
static void script(const struct cluster *cluster, const struct request *r, const char *ticket, mt_buf *out)
{
    struct options options = {.count = 0};
    char           prefix[FILE_SIZE] = "";
    const char    *named = setting_find(cluster, r, "prefix"), *folder = setting_find(cluster, r, "node_folder");
    if (named)
        snprintf(prefix, sizeof prefix, "%s/bin/manta", named);
    else
        (void)program_beside("manta", prefix);
    script_add(out, "#!/bin/sh\numask 077\nmanta=");
    script_add_word(out, prefix);
    script_add(out, "\nticket=");
    script_add_word(out, ticket);
    script_add(out, "\ndir=");
    script_add_word(out, folder ? folder : "/tmp");
    if (mt_buf_printf(out, "/manta-job-$SLURM_JOB_ID\nlimit=%ld\n", seconds_of(setting_find(cluster, r, "time_limit"))).code)
        exit(1);
    script_add(out, "[ -z \"$SLURM_JOB_END_TIME\" ] || limit=$((SLURM_JOB_END_TIME - $(date +%s)))\n"
                    "exec 3< \"$ticket\" || exit 1\n"
                    "rm -f \"$ticket\"\n"
                    "[ -x \"$manta\" ] || { echo \"there is no program $manta\"; exit 1; }\n"
                    "\"$manta\" start --foreground --join - --dir \"$dir\" --lifetime \"$limit\"");
    options_of(r, "", &options);
    script_add_options(out, &options);
    script_add(out, " <&3 3<&- &\n"
                    "raylet=$!\n"
                    "exec 3<&-\n"
                    "trap 'kill -TERM $raylet 2> /dev/null' TERM\n"
                    "while kill -0 $raylet 2> /dev/null; do wait $raylet; done\n"
                    "trap '' TERM\n" /* scancel sends it to rm too */
                    "rm -rf \"$dir\"\n");
    if (mt_buf_terminate(out).code)
        exit(1);
}

/* ---- launch ---- */

/* The folder of scripts' output and tickets. */
static bool folder_make(const struct cluster *cluster, char *out, size_t size, struct said *said)
{
    const char *named = pairs_find(&cluster->settings, "folder"), *slash = strrchr(cluster->head_file, '/');
    if (named)
        snprintf(out, size, "%s", named);
    else
        snprintf(out, size, "%.*s/nodes", slash ? (int)(slash - cluster->head_file) : 1, slash ? cluster->head_file : ".");
    if (mkdir(out, 0700) == 0 || errno == EEXIST)
        return true;
    return snprintf(said->text, sizeof said->text, "%.150s: %s", out, strerror(errno)), false;
}

static bool ticket_write(const char *path, const char *text, struct said *said)
{
    unlink(path); /* of one that was asked for before */
    int  fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool is_fine = fd >= 0 && mt_write_all(fd, text, strlen(text)) == 0;
    if (!is_fine)
        snprintf(said->text, sizeof said->text, "%.150s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return is_fine;
}

/* Runs it; what it has printed is in `out`. */
static bool submit(struct sbatch *b, const char *text, char out[TEXT_SIZE], struct said *said)
{
    struct child child = {.argv = b->words, .input = text};
    children_run(&child, 1, OTHER_LIMIT_MS);
    if (child.status != 0)
        child_why(&child, said->text);
    snprintf(out, TEXT_SIZE, "%.*s", (int)strcspn((const char *)child.out.data, ";\r\n"), (const char *)child.out.data);
    children_free(&child, 1);
    return child.status == 0;
}

/* Would a job of this type ever run? Asked once for each, and again where its words have changed. */
static bool is_possible(struct sbatch *b, const struct request *r, const char *text, struct said *said)
{
    static struct {
        char     type[TEXT_SIZE];
        uint64_t words;
    } known[TYPES_MAX];
    static size_t next;
    uint64_t      words = MT_HASH_START;
    char          ignored[TEXT_SIZE];
    for (size_t i = 0; i < b->count; i++)
        if (strncmp(b->words[i], "--job-name=", 11) != 0 && strncmp(b->words[i], "--output=", 9) != 0)
            words = mt_hash_bytes(words, b->words[i], strlen(b->words[i]));
    for (size_t i = 0; i < TYPES_MAX; i++)
        if (strcmp(known[i].type, r->type) == 0 && known[i].words == words)
            return true;
    word(b, "--test-only");
    bool is_fine = submit(b, text, ignored, said);
    b->words[--b->count] = NULL;
    if (!is_fine)
        return false;
    known[next].words = words;
    snprintf(known[next++ % TYPES_MAX].type, TEXT_SIZE, "%s", r->type);
    next %= TYPES_MAX;
    return true;
}

/* Why it is not to be asked for; true: nothing is against it. */
static bool check(const struct cluster *cluster, const struct request *r, struct said *said)
{
    const char *limit = setting_find(cluster, r, "time_limit");
    if (!r->join[0])
        snprintf(said->text, sizeof said->text,
                 "this cluster speaks in clear: start its head with --bind, so that it gives tickets");
    else if (!limit || seconds_of(limit) <= 0)
        snprintf(said->text, sizeof said->text, "its settings have no time_limit as sbatch takes it, such as 1:00:00");
    else if ((uint64_t)seconds_of(limit) < r->boot_s)
        snprintf(said->text, sizeof said->text,
                 "its time_limit (%.60s) is shorter than its boot_s (%llu): it would end before it has joined", limit,
                 (unsigned long long)r->boot_s);
    else
        return true;
    return false;
}

static bool launch(const struct cluster *cluster, const struct request *r, struct said *said)
{
    static char          folder[FILE_SIZE], ticket[FILE_SIZE + TEXT_SIZE + 16];
    static struct sbatch b;
    struct seen          seen = {.id = r->id};
    const char          *most = setting_find(cluster, r, "backlog");
    mt_buf               text = {0};
    if (!cluster_has(cluster, r->id) || !check(cluster, r, said) || !folder_make(cluster, folder, sizeof folder, said) ||
        !jobs_each(cluster, see, &seen, said))
        return false;
    if (seen.handle[0]) /* asked twice */
        return snprintf(said->handle, sizeof said->handle, "%s", seen.handle), true;
    if (seen.waiting >= (most ? strtol(most, NULL, 10) : BACKLOG))
        return snprintf(said->text, sizeof said->text, "%ld jobs wait in Slurm's queue already (backlog)", seen.waiting), false;
    memset(&b, 0, sizeof b);
    snprintf(ticket, sizeof ticket, "%s/%s.join", folder, r->id);
    describe(cluster, r, folder, &b);
    script(cluster, r, ticket, &text);
    bool is_fine = is_possible(&b, r, (const char *)text.data, said) && ticket_write(ticket, r->join, said) &&
                   (submit(&b, (const char *)text.data, said->handle, said) || (unlink(ticket), false));
    mt_buf_fini(&text);
    return is_fine;
}

/* ---- terminate ---- */

static bool terminate(const struct cluster *cluster, const struct request *r, struct said *said)
{
    const char  *words[] = {"scancel", "--quiet", "--me", NULL, NULL};
    char         name[TEXT_SIZE + 16], folder[FILE_SIZE], ticket[FILE_SIZE + TEXT_SIZE + 16];
    struct child child = {.argv = words};
    if (!cluster_has(cluster, r->id) || !folder_make(cluster, folder, sizeof folder, said))
        return false;
    snprintf(name, sizeof name, "--name=%s", r->id);
    words[3] = name;
    snprintf(ticket, sizeof ticket, "%s/%s.join", folder, r->id);
    unlink(ticket);
    children_run(&child, 1, OTHER_LIMIT_MS);
    if (child.status != 0)
        child_why(&child, said->text);
    children_free(&child, 1);
    return child.status == 0;
}

const struct provider provider_slurm = {list, launch, terminate};
