/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - manta-bench-real: 500 nodes on this machine, each a real raylet (`manta bench --cluster -c real_500`).
 *
 *   head <-- raylet "home" without CPUs <-- this driver
 *        <-- NODES raylets of one CPU each, all started at once
 *
 * TASKS tasks that sleep for NAP_MS are spread over all, twice: the first time each node makes its worker.
 *
 * A program of its own, since each node starts it: like a user's it links libmanta, and not gRPC, which costs 20 ms of CPU a node.
 *
 * Owns: the children, and a folder that goes with them. Thread: the main one.
 */
#include "tests/bench/cluster/rig.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NODES = 500, TASKS = 20000, NAP_MS = 20, LIMIT_MS = 120000 };

struct real {
    struct rig_folder folder;
    pid_t             head, home, nodes[NODES];
};

static manta_status real_nap(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    bench_sleep_us(NAP_MS * 1000);
    return manta_return_i64(c, bench_mix(argv[0].l));
}
MANTA_REGISTER(real_nap, "l>l");

/* How many bytes, one of each raylet, come before the limit. */
static int ready_count(int fd)
{
    char   bytes[4096];
    int    lines = 0;
    double end = rig_now_ms() + LIMIT_MS;
    for (struct pollfd wait = {fd, POLLIN, 0}; lines < NODES && poll(&wait, 1, (int)(end - rig_now_ms())) == 1;) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n <= 0)
            break;
        for (ssize_t i = 0; i < n; i++)
            lines += bytes[i] == '\n';
    }
    return lines;
}

/* In ms, from the first fork until the last has joined; or -1. */
static double join(struct real *r)
{
    int    ready[2];
    char   name[32];
    double begun = rig_now_ms();
    if (pipe2(ready, O_CLOEXEC) != 0)
        return -1;
    for (int i = 0; i < NODES; i++) {
        snprintf(name, sizeof name, "node%d", i);
        r->nodes[i] = rig_raylet(&r->folder, &(struct rig_raylet){.name = name, .store = "8388608"}, ready[1]);
    }
    close(ready[1]);
    int    count = ready_count(ready[0]);
    double took = rig_now_ms() - begun;
    close(ready[0]);
    if (count == NODES)
        return took;
    fprintf(stderr, "real_500: %d of %d raylets have joined in %d s: see %s\n", count, NODES, LIMIT_MS / 1000, r->folder.dir);
    return -1;
}

/* In ms; *out_wrong grows by those that failed or came back wrong. */
static double spread(int *out_wrong)
{
    static manta_ref     *refs[TASKS];
    const manta_task_opts everywhere = {.spread = true};
    double                begun = rig_now_ms();
    for (int64_t i = 0; i < TASKS; i++)
        refs[i] = manta_call("real_nap", &everywhere, MANTA_ARGS(manta_i64(i)));
    for (int64_t i = 0; i < TASKS; i++) {
        manta_error e;
        int64_t     value;
        bool        ok = manta_get_i64(refs[i], LIMIT_MS, &value, &e) == MANTA_OK;
        if (!ok && (*out_wrong)++ == 0)
            bench_say(&e, "real_500: the first task that failed");
        *out_wrong += ok && value != bench_mix(i);
        manta_free(refs[i]);
    }
    return rig_now_ms() - begun;
}

static bool measure(struct bench *b, struct real *r, const char *home)
{
    manta_error     e;
    int             argc = 1, wrong = 0;
    char           *words[] = {"bench", NULL}, **argv = words;
    manta_init_opts opts = {.address = home, .timeout_ms = LIMIT_MS};
    double          joined = join(r);
    if (joined < 0 || (manta_init(&argc, &argv, &opts, &e) != MANTA_OK && !bench_say(&e, "manta_init")))
        return false;
    bench_print_value(b, "real_500", "s", joined / 1e3, NODES);
    bench_print_value(b, "real_500.b", "s", spread(&wrong) / 1e3, TASKS);
    bench_print_value(b, "real_500.c", "s", spread(&wrong) / 1e3, TASKS);
    bench_print_value(b, "real_500.wrong", "", wrong, 2 * TASKS);
    (void)manta_shutdown();
    return wrong == 0;
}

static bool run(struct bench *b)
{
    struct real r = {0};
    char        home[RIG_PATH];
    bool        ok = rig_folder_make(&r.folder) && (r.head = rig_head(&r.folder)) > 0;
    snprintf(home, sizeof home, "%.63s/home", r.folder.dir);
    ok = ok && (r.home = rig_raylet(&r.folder, &(struct rig_raylet){.name = "home", .cpus = "0"}, -1)) > 0 && measure(b, &r, home);
    for (int i = 0; i < NODES; i++)
        rig_end(&r.nodes[i], SIGKILL);
    rig_end(&r.home, SIGKILL);
    rig_end(&r.head, SIGKILL);
    if (ok)
        rig_folder_remove(&r.folder);
    return ok;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    if (getenv("MANTA_ROLE")) /* a node's */
        return manta_init(&argc, &argv, NULL, NULL) == MANTA_OK ? 0 : 1;
    if (argc == 3 && strcmp(argv[1], "-o") == 0 && strcmp(argv[2], "json") == 0)
        bench.options.output = BENCH_JSON;
    return run(&bench) ? 0 : 1;
}
