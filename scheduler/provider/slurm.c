/* SPDX-License-Identifier: Apache-2.0
 *
 * slurm.c - nodes that are batch jobs, by sbatch, squeue and scancel. A job's name is its instance's tag: CLUSTER-5. Of a job with
 *           several nodes it has the numbers of all, CLUSTER-5.6.9, and each is a step of that job, with its own tag as its name.
 *
 *   sbatch --nodes=3 --> script on the first node --srun, one for each--> raylet of 5, of 6, of 9 --> the job ends with the last
 *
 * An instance of such a job is there as long as its ticket lies in the folder (it is to begin) or its step runs. Who is not to
 * begin any more has no ticket. Both are asked for in that order, and a step takes its ticket away: so none is missed between them.
 *
 *   of the provider, or of a type (which counts then):
 *   time_limit    of a job, as sbatch takes it: the node leaves before its end by itself. Needed
 *   options       more words for sbatch, with blanks between: --partition=gpu --account=me
 *   backlog       no more jobs wait in the queue; default: 8
 *   nodes_per_allocation  so many nodes that are wanted at once, at most, are one job; default: 1. One of them that is given back
 *                 goes back to Slurm at once, but the first, where the job's script runs: that goes with the last
 *   prefix        where Manta is installed on the machines; default: as here
 *   folder        that this machine and they share: scripts' output, and a ticket until its job has begun, mode 0600; default: the
 *                 folder `nodes` beside the head's file
 *   node_folder   on them, of nodes; default: /tmp
 *
 * Before the first job of a type Slurm is asked whether it would ever run (--test-only). What waits in the queue is listed as such.
 */
#include "scheduler/provider/provider.h"

#include "core/base/hash.h"
#include "core/ds/vec.h"
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

enum { WORDS_MAX = 48, TYPES_MAX = 64, BACKLOG = 8, NAME_SIZE = 1024, PATH_SIZE = FILE_SIZE + TEXT_SIZE + 16 };
#define LATE_S "30" /* who was told to end is ended after that */

struct sbatch { /* its command line */
    const char *words[WORDS_MAX];
    size_t      count;
    char        texts[PAIRS_MAX][PAIR_VALUE_SIZE + 64]; /* what words point to */
    size_t      text_count;
    char        options[PAIR_VALUE_SIZE];
};

/* ---- what there is ---- */

struct job {
    char id[40], name[NAME_SIZE], state[32];
};
struct member { /* an instance of a job */
    char   id[TEXT_SIZE];
    size_t job;
    bool   is_there;
    char   step[48]; /* "": it has none */
};
struct queue { /* this cluster's */
    MT_VEC(struct job) jobs;
    MT_VEC(struct member) members;
    bool has_several; /* some job has */
};

static void queue_free(struct queue *q)
{
    mt_vec_fini(&q->jobs);
    mt_vec_fini(&q->members);
}

/* What squeue prints; false: it does not say. The caller frees `child`. */
static bool ask(const char *const *words, struct child *child, struct said *said)
{
    *child = (struct child){.argv = words};
    children_run(child, 1, OTHER_LIMIT_MS);
    if (child->status != 0)
        child_why(child, said->text);
    return child->status == 0;
}

static void ticket_path(const char *folder, const char *id, char out[PATH_SIZE])
{
    snprintf(out, PATH_SIZE, "%s/%s.join", folder, id);
}

/* The instances that its name tells of. One alone is there as long as its job. */
static void members_add(struct queue *q, const struct job *job, const char *folder)
{
    size_t prefix = (size_t)(strrchr(job->name, '-') + 1 - job->name);
    bool   is_alone = strchr(job->name + prefix, '.') == NULL;
    q->has_several = q->has_several || !is_alone;
    for (const char *at = job->name + prefix; *at; at += strspn(at, ".")) {
        struct member one = {.job = q->jobs.count - 1};
        char          path[PATH_SIZE];
        size_t        digits = strspn(at, "0123456789");
        if (digits == 0)
            return; /* not a name of ours */
        snprintf(one.id, sizeof one.id, "%.*s%.*s", (int)prefix, job->name, (int)digits, at);
        ticket_path(folder, one.id, path);
        one.is_there = is_alone || access(path, F_OK) == 0;
        if (mt_vec_push(&q->members, one).code)
            exit(1); /* the head starts another */
        at += digits;
    }
}

static bool steps_read(struct queue *q, struct said *said)
{
    static const char *const words[] = {"squeue", "--me", "--steps", "--noheader", "--format=%i %j", NULL};
    struct child             child;
    char                     step[48], name[NAME_SIZE];
    bool                     is_fine = ask(words, &child, said);
    char                    *rest = (char *)child.out.data;
    for (char *line; is_fine && (line = strsep(&rest, "\n"));)
        for (size_t i = 0; i < q->members.count && sscanf(line, "%47s %1023s", step, name) == 2; i++) {
            struct member *m = &q->members.data[i];
            size_t         length = strlen(q->jobs.data[m->job].id);
            if (strcmp(m->id, name) != 0 || strncmp(step, q->jobs.data[m->job].id, length) != 0 || step[length] != '.')
                continue;
            m->is_there = true;
            snprintf(m->step, sizeof m->step, "%s", step);
        }
    children_free(&child, 1);
    return is_fine;
}

/* All jobs of this cluster, and what is there of each; false: Slurm does not say. The caller frees it in any case. */
static bool queue_read(const struct cluster *cluster, const char *folder, struct queue *q, struct said *said)
{
    static const char *const words[] = {"squeue", "--me", "--noheader", "--format=%i %j %T", NULL};
    struct child             child;
    struct job               job;
    bool                     is_fine = ask(words, &child, said);
    char                    *rest = (char *)child.out.data;
    for (char *line; is_fine && (line = strsep(&rest, "\n"));) {
        if (sscanf(line, "%39s %1023s %31s", job.id, job.name, job.state) != 3 || !cluster_has(cluster, job.name))
            continue;
        if (mt_vec_push(&q->jobs, job).code)
            exit(1);
        members_add(q, &job, folder);
    }
    children_free(&child, 1);
    return is_fine && (!q->has_several || steps_read(q, said));
}

static bool is_waiting(const struct job *job)
{
    return strcmp(job->state, "PENDING") == 0 || strcmp(job->state, "CONFIGURING") == 0;
}

/* The folder of scripts' output and tickets. */
static bool folder_make(const struct cluster *cluster, char out[FILE_SIZE], struct said *said)
{
    const char *named = pairs_find(&cluster->settings, "folder"), *slash = strrchr(cluster->head_file, '/');
    if (named)
        snprintf(out, FILE_SIZE, "%s", named);
    else
        snprintf(out, FILE_SIZE, "%.*s/nodes", slash ? (int)(slash - cluster->head_file) : 1, slash ? cluster->head_file : ".");
    if (mkdir(out, 0700) == 0 || errno == EEXIST)
        return true;
    return snprintf(said->text, sizeof said->text, "%.150s: %s", out, strerror(errno)), false;
}

static bool list(const struct cluster *cluster, struct said *said)
{
    struct queue q = {0};
    char         folder[FILE_SIZE];
    bool         is_fine = folder_make(cluster, folder, said) && queue_read(cluster, folder, &q, said);
    for (size_t i = 0; i < q.members.count && is_fine; i++) {
        const struct member *m = &q.members.data[i];
        if (m->is_there)
            said_list(said, m->id, q.jobs.data[m->job].id, is_waiting(&q.jobs.data[m->job]), "");
    }
    queue_free(&q);
    return is_fine;
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

static double cpus_of(const struct request *r)
{
    const char *cpus = pairs_find(&r->resources, "CPU");
    return cpus && strtod(cpus, NULL) > 1 ? ceil(strtod(cpus, NULL)) : 1;
}

static const char *number_of(const struct request *r)
{
    return strrchr(r->id, '-') + 1;
}

/* The job's name: the first one's tag, and the numbers of the others. */
static void name_make(const struct request *const *all, size_t count, char out[NAME_SIZE])
{
    size_t used = (size_t)snprintf(out, NAME_SIZE, "%s", all[0]->id);
    for (size_t i = 1; i < count && used < NAME_SIZE; i++)
        used += (size_t)snprintf(out + used, NAME_SIZE - used, ".%s", number_of(all[i]));
}

static void describe(const struct cluster *cluster, const struct request *const *all, size_t count, const char *folder,
                     struct sbatch *b)
{
    const struct request *r = all[0];
    const char           *gpus = pairs_find(&r->resources, "GPU");
    const char           *memory = pairs_find(&r->resources, "memory"), *options = setting_find(cluster, r, "options");
    char                  name[NAME_SIZE];
    name_make(all, count, name);
    word(b, "sbatch");
    word(b, "--parsable");
    word_made(b, "--nodes=%zu", count);
    word_made(b, "--ntasks=%zu", count);
    word(b, "--ntasks-per-node=1");
    if (count > 1)
        word(b, "--no-kill"); /* one that fails does not end the others */
    word(b, "--no-requeue");
    word(b, "--open-mode=append");
    word(b, "--chdir=/");
    word_made(b, "--job-name=%s", name);
    word_made(b, "--output=%.900s/%s.log", folder, number_of(r));
    word_made(b, "--time=%s", setting_find(cluster, r, "time_limit"));
    if (r->learns)
        word(b, "--exclusive"); /* whole machines: what is learnt is theirs */
    else
        word_made(b, "--cpus-per-task=%.0f", cpus_of(r));
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

/* What one node does. The raylet is a child of the script, which removes what it leaves. The ticket is gone from the folder before
 * it is used. Who is told to end and has not after a while is ended. */
static void script_node(const struct cluster *cluster, const struct request *r, const char *folder_of_tickets, mt_buf *out)
{
    struct options options = {.count = 0};
    char           program[FILE_SIZE], ticket[PATH_SIZE];
    const char    *folder = setting_find(cluster, r, "node_folder");
    ticket_path(folder_of_tickets, r->id, ticket);
    script_add(out, "umask 077\nmanta=");
    script_add_word(out, manta_there(setting_find(cluster, r, "prefix"), program));
    script_add(out, "\nticket=");
    script_add_word(out, ticket);
    script_add(out, "\ndir=");
    script_add_word(out, folder ? folder : "/tmp");
    if (mt_buf_printf(out, "/manta-job-$SLURM_JOB_ID-%s\nlimit=%ld\n", number_of(r),
                      seconds_of(setting_find(cluster, r, "time_limit")))
            .code)
        exit(1);
    script_add(out, "[ -z \"$SLURM_JOB_END_TIME\" ] || limit=$((SLURM_JOB_END_TIME - $(date +%s)))\n"
                    "exec 3< \"$ticket\" || exit 1\n"
                    "rm -f \"$ticket\"\n"
                    "[ -x \"$manta\" ] || { echo \"there is no program $manta\"; exit 1; }\n"
                    "\"$manta\" start --foreground --join - --dir \"$dir\" --lifetime \"$limit\"");
    options_of(r, "", &options);
    script_add_options(out, &options);
    script_add(out, r->learns ? " --num-cpus \"$SLURM_CPUS_ON_NODE\"" : "");
    script_add(out, " <&3 3<&- &\n"
                    "raylet=$!\n"
                    "late=\n"
                    "exec 3<&-\n"
                    "end() {\n"
                    "    kill -TERM $raylet 2> /dev/null\n"
                    "    [ \"$late\" ] || { sleep " LATE_S " && kill -KILL $raylet 2> /dev/null & late=$!; }\n"
                    "}\n"
                    "trap end TERM\n"
                    "while kill -0 $raylet 2> /dev/null; do wait $raylet; done\n"
                    "trap '' TERM\n" /* scancel sends it to rm too */
                    "[ -z \"$late\" ] || kill $late 2> /dev/null\n"
                    "rm -rf \"$dir\"\n");
}

/* A step on the next node, if its ticket is still there; the node's name is printed when it has ended. */
static void script_step(const struct cluster *cluster, const struct request *r, const char *folder, mt_buf *out)
{
    mt_buf node = {0};
    char   ticket[PATH_SIZE];
    ticket_path(folder, r->id, ticket);
    script_node(cluster, r, folder, &node);
    if (mt_buf_terminate(&node).code)
        exit(1);
    script_add(out, "if [ -e ");
    script_add_word(out, ticket);
    script_add(out, " ]; then\n(srun --nodes=1 --ntasks=1 --nodelist=\"$1\" --job-name=");
    script_add_word(out, r->id);
    if (!r->learns && mt_buf_printf(out, " --cpus-per-task=%.0f", cpus_of(r)).code)
        exit(1);
    script_add(out, " --chdir=/ --open-mode=append --output=");
    script_add_word(out, folder);
    if (mt_buf_printf(out, "/%s.log sh -c ", number_of(r)).code)
        exit(1);
    script_add_word(out, (const char *)node.data);
    script_add(out, " < /dev/null >&2; echo \"$1\") &\nshift\nfi\n");
    mt_buf_fini(&node);
}

/* Several: a step for each. Nodes that have none any more go back to Slurm, but the first, where this script runs. */
static void script_steps(const struct cluster *cluster, const struct request *const *all, size_t count, const char *folder,
                         mt_buf *out)
{
    script_add(out, "trap : TERM\n"
                    "nodes=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\")\n"
                    "{\n"
                    "trap : TERM\n"
                    "set -- $nodes\n");
    for (size_t i = 0; i < count; i++)
        script_step(cluster, all[i], folder, out);
    script_add(out, "for node; do echo \"$node\"; done\n"
                    "until wait; do :; done\n"
                    "} | {\n"
                    "trap '' TERM\n"
                    "set -- $nodes\n"
                    "first=$1\n"
                    "while read -r node; do\n"
                    "    left=\n"
                    "    for one in $nodes; do [ \"$one\" = \"$node\" ] || left=\"$left $one\"; done\n"
                    "    list=$(echo $left | tr ' ' ,)\n"
                    "    [ \"$node\" != \"$first\" ] && scontrol update JobId=\"$SLURM_JOB_ID\" NodeList=\"$list\" && nodes=$left\n"
                    "done\n"
                    "}\n"
                    "rm -f");
    for (size_t i = 0; i < count; i++) { /* of those that could not begin */
        char ticket[PATH_SIZE];
        ticket_path(folder, all[i]->id, ticket);
        script_add(out, " ");
        script_add_word(out, ticket);
    }
    script_add(out, "\n");
}

static void script(const struct cluster *cluster, const struct request *const *all, size_t count, const char *folder, mt_buf *out)
{
    script_add(out, "#!/bin/sh\numask 077\n");
    if (count == 1)
        script_node(cluster, all[0], folder, out);
    else
        script_steps(cluster, all, count, folder, out);
    if (mt_buf_terminate(out).code)
        exit(1);
}

/* ---- launch ---- */

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
    const char *limit = setting_find(cluster, r, "time_limit"), *most = setting_find(cluster, r, "nodes_per_allocation");
    if (most && (strspn(most, "0123456789") != strlen(most) || strtol(most, NULL, 10) < 1 || strtol(most, NULL, 10) > TOGETHER_MAX))
        snprintf(said->text, sizeof said->text, "its nodes_per_allocation (%.60s) is no number from 1 to %d", most, TOGETHER_MAX);
    else if (!r->join[0])
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

/* The tickets, and the job that takes them. What came of it is said for all. */
static bool launch_job(const struct cluster *cluster, const struct request *const *all, size_t count, const char *folder,
                       struct said *said)
{
    static struct sbatch b;
    mt_buf               text = {0};
    char                 ticket[PATH_SIZE];
    memset(&b, 0, sizeof b);
    describe(cluster, all, count, folder, &b);
    script(cluster, all, count, folder, &text);
    bool is_fine = is_possible(&b, all[0], (const char *)text.data, said);
    for (size_t i = 0; i < count && is_fine; i++) {
        ticket_path(folder, all[i]->id, ticket);
        is_fine = ticket_write(ticket, all[i]->join, said);
    }
    is_fine = is_fine && submit(&b, (const char *)text.data, said->handle, said);
    for (size_t i = 0; i < count && !is_fine; i++) {
        ticket_path(folder, all[i]->id, ticket);
        unlink(ticket);
    }
    mt_buf_fini(&text);
    return is_fine;
}

static const struct member *member_find(const struct queue *q, const char *id)
{
    for (size_t i = 0; i < q->members.count; i++)
        if (strcmp(q->members.data[i].id, id) == 0)
            return &q->members.data[i];
    return NULL;
}

/* Whether one more job may wait. */
static bool has_room(const struct cluster *cluster, const struct request *r, const struct queue *q, struct said *said)
{
    const char *most = setting_find(cluster, r, "backlog");
    long        waiting = 0;
    for (size_t i = 0; i < q->jobs.count; i++)
        waiting += is_waiting(&q->jobs.data[i]);
    if (waiting < (most ? strtol(most, NULL, 10) : BACKLOG))
        return true;
    return snprintf(said->text, sizeof said->text, "%ld jobs wait in Slurm's queue already (backlog)", waiting), false;
}

static size_t together(const struct cluster *cluster, const struct request *r)
{
    const char *most = setting_find(cluster, r, "nodes_per_allocation");
    long        count = most ? strtol(most, NULL, 10) : 1;
    return count < 1 ? 1 : count > TOGETHER_MAX ? TOGETHER_MAX : (size_t)count;
}

static void launch_all(const struct cluster *cluster, const struct request *requests, size_t count, struct said *said, bool *ok)
{
    const struct request *fresh[TOGETHER_MAX];
    size_t                of[TOGETHER_MAX], fresh_count = 0;
    struct queue          q = {0};
    struct said           all = {0};
    char                  folder[FILE_SIZE];
    bool                  is_known = folder_make(cluster, folder, &all) && queue_read(cluster, folder, &q, &all);
    for (size_t i = 0; i < count; i++) {
        const struct member *m = is_known ? member_find(&q, requests[i].id) : NULL;
        if (m) /* asked twice */
            ok[i] = snprintf(said[i].handle, sizeof said[i].handle, "%s", q.jobs.data[m->job].id) > 0;
        else if (!is_known)
            said[i] = all;
        else if (cluster_has(cluster, requests[i].id) && check(cluster, &requests[i], &said[i]))
            of[fresh_count] = i, fresh[fresh_count++] = &requests[i];
    }
    bool is_fine = fresh_count > 0 && has_room(cluster, fresh[0], &q, &all) &&
                   launch_job(cluster, fresh, fresh_count, folder, &all);
    for (size_t i = 0; i < fresh_count; i++) {
        said[of[i]] = all;
        ok[of[i]] = is_fine;
    }
    queue_free(&q);
}

/* ---- terminate ---- */

static bool run_quietly(const char *const *words, struct said *said)
{
    struct child child;
    bool         is_fine = ask(words, &child, said);
    children_free(&child, 1);
    return is_fine;
}

/* Ends one instance of a job: with the job where no other is left there, else alone. Where it has not begun it has no ticket now,
 * and never will. */
static bool end_member(const struct queue *q, const struct member *m, struct said *said)
{
    const char *job = q->jobs.data[m->job].id;
    for (size_t i = 0; i < q->members.count; i++) {
        const struct member *other = &q->members.data[i];
        if (other->job != m->job || other == m || !other->is_there)
            continue;
        return !m->step[0] || run_quietly((const char *[]){"scancel", "--quiet", "--signal=TERM", m->step, NULL}, said);
    }
    return run_quietly((const char *[]){"scancel", "--quiet", job, NULL}, said);
}

static bool terminate(const struct cluster *cluster, const struct request *r, struct said *said)
{
    struct queue q = {0};
    char         folder[FILE_SIZE], ticket[PATH_SIZE];
    if (!cluster_has(cluster, r->id) || !folder_make(cluster, folder, said))
        return false;
    ticket_path(folder, r->id, ticket);
    unlink(ticket);
    bool is_fine = queue_read(cluster, folder, &q, said);
    for (size_t i = 0; i < q.members.count && is_fine; i++)
        if (strcmp(q.members.data[i].id, r->id) == 0)
            is_fine = end_member(&q, &q.members.data[i], said);
    queue_free(&q);
    return is_fine;
}

const struct provider provider_slurm = {.list = list, .terminate = terminate, .together = together, .launch_all = launch_all};
