/* SPDX-License-Identifier: Apache-2.0
 *
 * drain.c - see drain.h.
 *
 *   head <-- raylet 0 <-- this driver
 *        <-- raylet 1, which leaves
 *
 * Load: TASKS tasks of up to LONGEST_MS each, on two CPUs of each node; what node 1 had not begun goes to node 0. Each run writes
 * one byte into a file, so that what ran twice is seen.
 *
 * Values: VALUES results that stand on node 1, of an owner on node 0. A plain pull is a get of each in turn; adoption is all from
 * the call until the raylet of node 1 has ended. Both in turn, the first round not counted: it makes the memory.
 *
 * Owns: the children, and a folder that goes with them. Thread: the main one.
 */
#include "tests/bench/cluster/drain.h"

#include "clients/control/manta_client.h"
#include "tests/bench/cluster/rig.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TASKS = 300,
    SHORTEST_MS = 21,
    LONGEST_MS = 100,
    BEGUN_MS = 300,
    VALUES = 64,
    VALUE_BYTES = 4 << 20,
    ROUNDS = 5,
    LIMIT_MS = 60000
};

/* (milliseconds, file) */
static manta_status drain_nap(manta_ctx *c, int argc, const manta_arg *argv)
{
    int fd = open(argv[1].y.data, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    (void)argc;
    if (fd < 0 || write(fd, "x", 1) != 1)
        return manta_fail(c, 1, "a run can't be counted");
    close(fd);
    bench_sleep_us((uint64_t)argv[0].l * 1000);
    return manta_return_i64(c, argv[0].l);
}
MANTA_REGISTER(drain_nap, "ls>l");

/* (seed, bytes) */
static manta_status drain_make(manta_ctx *c, int argc, const manta_arg *argv)
{
    char *data = malloc((size_t)argv[1].l);
    (void)argc;
    if (!data)
        return manta_fail(c, 1, "no memory");
    memset(data, (int)argv[0].l, (size_t)argv[1].l);
    manta_status code = manta_return_bytes(c, data, (size_t)argv[1].l);
    free(data);
    return code;
}
MANTA_REGISTER(drain_make, "ll>y");

struct drain {
    struct rig_folder folder;
    pid_t             head, raylet[2];
};

static void folder_of(const struct drain *d, int i, char out[RIG_PATH])
{
    snprintf(out, RIG_PATH, "%.63s/node%d", d->folder.dir, i);
}

static bool raylet(struct drain *d, int i)
{
    char name[16], labels[16];
    snprintf(name, sizeof name, "node%d", i);
    snprintf(labels, sizeof labels, "zone=z%d", i);
    d->raylet[i] = rig_raylet(&d->folder, &(struct rig_raylet){.name = name, .cpus = "2", .labels = labels, .store = "1073741824"},
                              -1);
    return d->raylet[i] > 0;
}

static bool start(struct drain *d)
{
    return rig_folder_make(&d->folder) && (d->head = rig_head(&d->folder)) > 0 && raylet(d, 0) && raylet(d, 1);
}

/* The living node of raylet 1. 0: none. */
static uint32_t node_1(manta_client *c)
{
    manta_cluster_node *nodes;
    size_t              count;
    manta_error         e;
    uint32_t            found = 0;
    if (manta_nodes_list(c, &nodes, &count, NULL, &e) != MANTA_OK)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (strstr(nodes[i].labels, "zone=z1") && nodes[i].state == 1)
            found = nodes[i].node;
    free(nodes);
    return found;
}

/* Until its raylet has ended; in ms, or -1. */
static double leave(struct drain *d, manta_client *c)
{
    manta_error e;
    int         status = 1;
    uint32_t    node = node_1(c);
    double      begun = rig_now_ms();
    if (!node || manta_node_drain(c, node, LIMIT_MS, "bench", &e) != MANTA_OK) {
        fprintf(stderr, "drain: node 1 can't be asked to leave\n");
        return -1;
    }
    while (waitpid(d->raylet[1], &status, WNOHANG) == 0 && rig_now_ms() < begun + LIMIT_MS + RIG_PATIENCE_MS)
        bench_sleep_us(200);
    double took = rig_now_ms() - begun;
    if (status == 0)
        d->raylet[1] = 0;
    else
        fprintf(stderr, "drain: node 1 has not left\n");
    return status == 0 ? took : -1;
}

static bool under_load(struct bench *b, struct drain *d, manta_client *c)
{
    manta_ref  *refs[TASKS];
    manta_error e;
    char        path[RIG_PATH];
    struct stat st = {0};
    int64_t     got;
    int         failed = 0;
    snprintf(path, sizeof path, "%.63s/runs", d->folder.dir);
    for (int i = 0; i < TASKS; i++)
        refs[i] = manta_call("drain_nap", NULL,
                             MANTA_ARGS(manta_i64(SHORTEST_MS + i * 37 % (LONGEST_MS - SHORTEST_MS + 1)), manta_str(path)));
    bench_sleep_us(BEGUN_MS * 1000);
    double took = leave(d, c);
    for (int i = 0; i < TASKS; i++) {
        failed += manta_get_i64(refs[i], RIG_PATIENCE_MS, &got, &e) != MANTA_OK;
        manta_free(refs[i]);
    }
    if (took < 0 || stat(path, &st) != 0)
        return false;
    bench_print_value(b, "drain", "", failed, TASKS);
    bench_print_value(b, "drain.again", "", (double)st.st_size - TASKS, TASKS);
    bench_print_value(b, "drain.b", "ms", took - LONGEST_MS, TASKS);
    return failed == 0;
}

static bool make(manta_ref *refs[VALUES])
{
    manta_error     e;
    unsigned char   ready[VALUES];
    manta_task_opts there = {.labels = "zone=z1", .max_retries = MANTA_NO_RETRY};
    for (int i = 0; i < VALUES; i++)
        refs[i] = manta_call("drain_make", &there, MANTA_ARGS(manta_i64(i), manta_i64(VALUE_BYTES)));
    return manta_wait(refs, VALUES, VALUES, 4 * RIG_PATIENCE_MS, ready, &e) == VALUES ||
           (fprintf(stderr, "drain: the values were not made\n"), false);
}

/* Each in turn, and lets it go; in ms, or -1. */
static double take(manta_ref *refs[VALUES])
{
    manta_error e;
    manta_view  view;
    bool        ok = true;
    double      begun = rig_now_ms();
    for (int i = 0; i < VALUES; i++) {
        if (manta_get(refs[i], RIG_PATIENCE_MS, &view, &e) != MANTA_OK) {
            ok = bench_say(&e, "a value");
            continue;
        }
        const char *bytes = view.data;
        ok = ok && view.size == VALUE_BYTES && bytes[0] == (char)i && bytes[VALUE_BYTES - 1] == (char)i;
        manta_release(&view);
    }
    double took = rig_now_ms() - begun;
    for (int i = 0; i < VALUES; i++)
        manta_free(refs[i]);
    return ok ? took : -1;
}

static bool with_values(struct bench *b, struct drain *d, manta_client *c)
{
    manta_ref *refs[VALUES];
    double     pulled = 0, adopted = 0;
    for (int i = 0; i <= ROUNDS; i++) {
        if (!raylet(d, 1) || !make(refs))
            return false;
        double pull = take(refs);
        if (pull < 0 || !make(refs))
            return false;
        double adopt = leave(d, c);
        if (take(refs) < 0 || adopt < 0)
            return false;
        pulled += i ? pull : 0;
        adopted += i ? adopt : 0;
    }
    bench_print_value(b, "drain.c", "x", pulled / adopted, ROUNDS);
    bench_print_value(b, "drain.c.pull", "GB/s", (double)ROUNDS * VALUES * VALUE_BYTES / pulled / 1e6, ROUNDS);
    bench_print_value(b, "drain.c.adopt", "GB/s", (double)ROUNDS * VALUES * VALUE_BYTES / adopted / 1e6, ROUNDS);
    return true;
}

bool bench_drain(struct bench *b)
{
    struct drain      d = {0};
    manta_error       e;
    char              node[RIG_PATH];
    int               argc = 1;
    char             *words[] = {"bench", NULL}, **argv = words;
    manta_init_opts   opts = {.address = node};
    manta_client_opts asks = {.address = d.folder.dir, .timeout_ms = RIG_PATIENCE_MS};
    bool              ok = start(&d);
    folder_of(&d, 0, node);
    bool          is_driver = ok && (manta_init(&argc, &argv, &opts, &e) == MANTA_OK || bench_say(&e, "manta_init"));
    manta_client *c = is_driver ? manta_client_open(&asks, &e) : NULL;
    ok = c && under_load(b, &d, c) && with_values(b, &d, c);
    if (is_driver && !c)
        bench_say(&e, "manta_client_open");
    manta_client_close(c);
    if (is_driver)
        (void)manta_shutdown();
    rig_end(&d.raylet[0], SIGKILL);
    rig_end(&d.raylet[1], SIGKILL);
    rig_end(&d.head, SIGKILL);
    if (ok)
        rig_folder_remove(&d.folder);
    return ok;
}
