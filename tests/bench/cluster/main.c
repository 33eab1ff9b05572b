/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - manta-bench-cluster: what many nodes cost the head.
 *
 *   manta bench --cluster [-c case] [-o table|json]
 *
 *   join_1k, join_10k   so many nodes join, 100 each second, say each second that they live, and stay for 5 s: bytes that the head
 *                       sends to them.  .b: its CPU, percent of one, until the last has joined.  .c: the same while they stay.
 *   head_10k            10,000 nodes join a real head at once, of which up to 1,000 (.real) are raylet cores: until all have
 *                       joined.  .b: CPU of the head afterwards, percent of one.  .c: its memory; .empty: before.  .known: until
 *                       each knows all.  .cpu, .bytes: of the head until then.  .again: streams that were broken off, and began
 *                       again.  head_1k: the same of 1,000, 100 of them cores
 *   ha_redis            a leader is killed until a placement group stands by the head that stood by: the longest.  .b: the mean.
 *                       .lost: jobs that were acknowledged before, and are unknown after
 *   handover            the longest wait of a call under load while the lead is handed over.  .lost: as above
 *   tickets             tickets that were used, late, revoked or another cluster's, and were accepted all the same.  .b: from the
 *                       revocation of a node until no port takes its certificate, the longest.  .exchange: a ticket for a
 *                       certificate
 *   blackout_head       tasks, and calls of an actor, while no head lives for 60 s: their rate as a part of that before.
 *                       .b: the rate.  .failures: of them
 *   drain               a node leaves under load: tasks that failed.  .again: runs again.  .b: time until it has gone, beyond
 *                       its longest task.  .c: bytes a second that others adopt, against a plain pull of the same values
 *   broadcast           256 MiB read on three nodes at a time, against one node.  .one: of that one
 *   pull_tls            1 GiB of another node over TLS, as a part of what one TLS connection carries.  .b: in clear, of TCP.
 *                       .c: 10,000 values of 8 KiB over TLS, by one manta_get_many.  .d: in clear.  .e, .f: one manta_get after
 *                       the other, beside .ping: 8 KiB for a word over one such connection.  .fetch: likewise, after manta_fetch
 *   coll_tls            all-reduce of 64 MiB between two processes as between machines.  .b: of 64 bytes.  .both: see coll.c
 *   coll_many           sums of 4 MiB by 2, 3, 5, 8 and 64 members, each as a machine of its own: connections of the member that
 *                       has most.  .b: members whose bits are not the tree's.  .c: bytes sent over 2 (p - 1) / p of the vector, of
 *                       the member that sends most.  .d: a member of 64 is killed until the last of the others knows, the longest
 *   real_500            500 real raylets of this machine start at once: until the last has joined.  .b: 20,000 tasks of 20 ms
 *                       spread over them.  .c: the same again.  .wrong: results
 *   scale_local         from the submit of a task until it has run on a node that is started for it: the median.  .b: from the
 *                       start of a raylet by hand until it is a node.  .c: the ratio
 *   train_elastic       a training of 1 to 4 workers grows as nodes come, then all but one are drained: the longest time between
 *                       two of its steps.  .mean: of as many as there were changes.  .other: bits that differ from a run with
 *                       one worker.  .floor: the median time between two steps
 *   gang_1000           `manta run -n 4 --cpus 0 -- true`, one after another, a second.  .b: 64 at once.  .floor: a shell that
 *                       starts four `true` and waits
 *   gang_mpi            `manta run -n 4 --cpus 0 --as pmi1` of a program of MPICH that begins and ends.  .floor: mpiexec.hydra of
 *                       the same, in turn.  .b: a barrier of PMI-1 at 64 ranks.  .b.floor: the same under mpiexec.hydra.  .c: of
 *                       `true` instead, what the launcher costs.  .c.floor: likewise mpiexec.hydra
 *   gang_recover        a rank of two is killed until both are up again, the median.  .max.  .floor: a shell that prints a line
 *   gang_chaos          20 kills of a rank, of which 5 with a node, 2 with the head: times that the gang did not come back within
 *                       60 s.  .left: processes of it that outlive it.  .b: the longest recovery
 *   queue_100k          100,000 jobs wait: the head's decision when one ends, the median.  .max.  .floor: while one waits.
 *                       .submit: of an array of 10,000.  .memory: of the head.  .page: 100 rows of the queue.  .cli: `manta queue`,
 *                       beside `manta version`
 *   jobs                from the submit of a job until its driver runs, the median.  .floor: the same program by hand.  .noop: jobs
 *                       that do nothing, 64 CPUs.  .floor: xargs -P64.  .array: the same on two CPUs.  .floor: xargs -P2.  .submit:
 *                       durable submits of 64 clients.  .floor: fsync of one file
 *   account             CPU-seconds that 48 jobs are charged for, against the times that they print themselves, in per cent.  .gpu:
 *                       likewise.  .job: of the one of which it is most.  .told, .seen: CPU-seconds
 *   decide, pack        what a decision about new nodes costs, and how many it buys (scale.c)
 *
 * In join_N the head's core runs in this process on virtual time, with stand-ins for the nodes and a store that confirms at
 * once: what gRPC and the disk cost comes on top. The floor is each node's entry once to each node. Every node's view is checked
 * in the end.
 *
 * Thread: the main one.
 */
#include "tests/bench/cluster/values/broadcast.h"
#include "tests/bench/cluster/coll.h"
#include "tests/bench/cluster/crowd/crowd.h"
#include "tests/bench/cluster/crowd/stand_in.h"
#include "tests/bench/cluster/drain.h"
#include "tests/bench/cluster/elastic.h"
#include "tests/bench/cluster/gang.h"
#include "tests/bench/cluster/grow.h"
#include "tests/bench/cluster/heads.h"
#include "tests/bench/cluster/jobs/account.h"
#include "tests/bench/cluster/jobs/jobs.h"
#include "tests/bench/cluster/jobs/queue.h"
#include "tests/bench/cluster/values/pull.h"
#include "tests/bench/cluster/scale.h"
#include "tests/bench/cluster/tickets.h"
#include "tests/bench/usage.h"

#include "core/base/limits/raylet.h"
#include "core/proto/manta.pb-c.h"
#include "scheduler/head/core/core.h"

#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NODES_MAX = 10000, JOIN_MS = 10, STAY_MS = 5000, VIEWS = 64 };

struct stand_in {
    uint32_t known; /* nodes that it was told of */
    uint64_t version, report;
};

struct read_view {
    const struct head_bytes *bytes;
    uint64_t                 since, version;
    uint32_t                 nodes;
};

struct cluster {
    struct head        *head;
    struct read_view    views[VIEWS]; /* of this step: most nodes are sent the same one */
    size_t              view_count;
    struct head_actions actions;
    struct stand_in     nodes[NODES_MAX]; /* of stream i + 1 */
    uint32_t            count;
    uint64_t            now_ms;
    double              cpu_s;
    double              bytes, last_bytes; /* to all; to the one that joined last */
    bool                is_wrong;
};

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Not a view: nodes is 0. */
static const struct read_view *read_once(struct cluster *c, const struct head_bytes *bytes)
{
    for (size_t i = 0; i < c->view_count; i++)
        if (c->views[i].bytes == bytes)
            return &c->views[i];
    Manta__V1__HeadToNode *m = manta__v1__head_to_node__unpack(NULL, bytes->size, bytes->data);
    struct read_view      *view = &c->views[c->view_count < VIEWS ? c->view_count++ : VIEWS - 1];
    *view = (struct read_view){.bytes = bytes};
    c->is_wrong |= !m;
    if (m && m->kind_case == MANTA__V1__HEAD_TO_NODE__KIND_VIEW)
        *view = (struct read_view){bytes, m->view->since, m->view->version, (uint32_t)m->view->n_nodes};
    manta__v1__head_to_node__free_unpacked(m, NULL);
    return view;
}

static void heard(struct cluster *c, uint64_t stream, const struct head_bytes *bytes)
{
    struct stand_in        *node = &c->nodes[stream - 1];
    const struct read_view *view = read_once(c, bytes);
    c->bytes += (double)bytes->size;
    if (stream == c->count)
        c->last_bytes += (double)bytes->size;
    if (!view->nodes)
        return;
    c->is_wrong |= view->since != node->version;
    node->version = view->version;
    node->known += view->nodes;
}

static void step(struct cluster *c, struct head_event event)
{
    event.now_ms = c->now_ms;
    for (bool again = true; again;) {
        double   from = cpu_seconds();
        uint64_t stored = 0;
        c->is_wrong |= head_step(c->head, &event, &c->actions).code != 0;
        c->cpu_s += cpu_seconds() - from;
        for (size_t i = 0; i < c->actions.count; i++) {
            const struct head_action *a = &c->actions.items[i];
            if (a->kind == HEAD_ACT_SEND)
                heard(c, a->send.stream, a->send.bytes);
            else if (a->kind == HEAD_ACT_STORE)
                stored = a->store.token;
            else if (a->kind != HEAD_ACT_TOKENS) /* said once, at the start: there are none */
                c->is_wrong = true;
        }
        c->view_count = 0;
        head_actions_clear(&c->actions);
        again = stored != 0;
        event = (struct head_event){.kind = HEAD_EV_STORED, .now_ms = c->now_ms, .stored = {.token = stored}};
    }
}

static void say(struct cluster *c, uint64_t stream, const Manta__V1__NodeToHead *m)
{
    uint8_t bytes[512];
    size_t  size = protobuf_c_message_pack(&m->base, bytes);
    step(c, (struct head_event){.kind = HEAD_EV_STREAM_MESSAGE, .message = {stream, bytes, size}});
}

static void join(struct cluster *c)
{
    struct stand_in_says node;
    uint64_t             stream = ++c->count;
    stand_in_comes(&node, c->count, stream);
    step(c, (struct head_event){.kind = HEAD_EV_STREAM_OPENED, .stream = {stream}});
    say(c, stream, &node.message);
}

static void report(struct cluster *c, uint32_t index)
{
    struct stand_in_says node;
    stand_in_reports(&node, ++c->nodes[index].report);
    say(c, index + 1, &node.message);
}

/* JOIN_MS of the cluster's time: each node reports when its turn comes within a beat. */
static void pass(struct cluster *c)
{
    uint64_t slices = MT_RLT_BEAT_MS / JOIN_MS, slice = c->now_ms / JOIN_MS % slices;
    for (uint32_t i = (uint32_t)slice; i < c->count; i += (uint32_t)slices)
        report(c, i);
    c->now_ms += JOIN_MS;
    step(c, (struct head_event){.kind = HEAD_EV_TICK});
}

static void print(struct bench *b, const char *id, const char *suffix, const char *unit, double value, double floor, uint64_t n)
{
    char             text[64];
    struct bench_row row = {.id = text, .unit = unit, .value = value, .n = n};
    row.floor = floor > 0 ? FLOOR_VIEWS : FLOOR_NONE;
    row.floor_value = floor;
    snprintf(text, sizeof text, "%s%s", id, suffix);
    bench_print_row(b, &row);
}

static bool join_case(struct bench *b, const char *id, uint32_t nodes)
{
    struct cluster    *c = calloc(1, sizeof *c);
    struct head_config config = {.cluster = "bench", .seed = 1, .now_ms = 1000};
    if (!c || head_new(&config, &c->head).code || head_start(c->head, c->now_ms = 1000, &c->actions).code)
        return false;
    head_actions_clear(&c->actions);
    step(c, (struct head_event){.kind = HEAD_EV_STORED, .stored = {.token = 1}});
    while (c->count < nodes) {
        c->last_bytes = 0;
        join(c);
        pass(c);
    }
    double joined_s = c->cpu_s, seconds = (double)nodes * JOIN_MS / 1000;
    for (int i = 0; i < STAY_MS / JOIN_MS; i++)
        pass(c);
    for (uint32_t i = 0; i < nodes; i++)
        c->is_wrong |= c->nodes[i].known < nodes || c->nodes[i].version != c->nodes[0].version;
    if (c->is_wrong)
        fprintf(stderr, "%s: a node does not know all others\n", id);
    print(b, id, "", "MB", c->bytes / 1e6, c->last_bytes * nodes / 1e6, nodes);
    print(b, id, ".b", "%", 100 * joined_s / seconds, 0, nodes);
    print(b, id, ".c", "%", 100 * (c->cpu_s - joined_s) / (STAY_MS / 1000.0), 0, nodes);
    bool ok = !c->is_wrong;
    head_free(c->head);
    head_actions_fini(&c->actions);
    free(c);
    return ok;
}

static bool join_1k(struct bench *b)
{
    return join_case(b, "join_1k", 1000);
}

static bool join_10k(struct bench *b)
{
    return join_case(b, "join_10k", NODES_MAX);
}

/* Another program: this one is too heavy to be what 500 nodes start. */
static bool real_500(struct bench *b)
{
    char    path[PATH_MAX], name[] = "manta-bench-real", option[] = "-o", json[] = "json";
    char   *words[] = {name, b->options.output == BENCH_JSON ? option : NULL, json, NULL};
    int     status;
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof name);
    if (n <= 0)
        return false;
    path[n] = '\0';
    memcpy(strrchr(path, '/') + 1, name, sizeof name);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execv(path, words);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    static const struct {
        const char *id;
        bool (*run)(struct bench *b);
    } cases[] = {{"join_1k", join_1k},
                 {"join_10k", join_10k},
                 {"head_1k", bench_head_1k},
                 {"head_3k", bench_head_3k},
                 {"head_10k", bench_head_10k},
                 {"coll_tls", bench_coll_tls},
                 {"coll_many", bench_coll_many},
                 {"decide", scale_decide},
                 {"pack", scale_pack},
                 {"ha_redis", bench_ha_redis},
                 {"handover", bench_handover},
                 {"blackout_head", bench_blackout},
                 {"tickets", bench_tickets},
                 {"scale_local", bench_scale_local},
                 {"train_elastic", bench_train_elastic},
                 {"drain", bench_drain},
                 {"broadcast", bench_broadcast},
                 {"pull_tls", bench_pull_tls},
                 {"real_500", real_500},
                 {"gang_1000", bench_gang_1000},
                 {"gang_mpi", bench_gang_mpi},
                 {"gang_recover", bench_gang_recover},
                 {"gang_chaos", bench_gang_chaos},
                 {"queue_100k", bench_queue_100k},
                 {"jobs", bench_jobs},
                 {"account", bench_account}};
    const char *only = NULL;
    bool        ok = true, is_known = false;
    if (getenv("MANTA_ROLE")) /* the driver of ha_redis or scale_local: its raylet keeps a process of this program ready */
        return manta_init(&argc, &argv, NULL, NULL) == MANTA_OK ? 0 : 1;
    if (argc == 2 && strcmp(argv[1], "--pmi-barriers") == 0) /* a rank of gang_mpi */
        return bench_gang_barriers(200);
    bool is_help = bench_is_help(argc, argv);
    for (int o; !is_help && (o = getopt(argc, argv, "c:o:")) != -1;) {
        if (o == 'c')
            only = optarg;
        else if (o == 'o')
            bench.options.output = strcmp(optarg, "json") == 0 ? BENCH_JSON : BENCH_TABLE;
        else
            only = "";
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_known |= !only || strcmp(only, cases[i].id) == 0;
    if (is_help || !is_known) {
        char   words[1024] = "--cluster [-c CASE] [-o table|json]; CASE is";
        size_t n = strlen(words);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            n += (size_t)snprintf(words + n, sizeof words - n, " %s", cases[i].id);
        return bench_usage(is_help, words);
    }
    bench_print_head(&bench);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!only || strcmp(only, cases[i].id) == 0)
            ok = cases[i].run(&bench) && ok;
    return ok ? 0 : 1;
}
