/* SPDX-License-Identifier: Apache-2.0
 *
 * heads.c - see heads.h.
 *
 *   redis-server (appendfsync always) <-- head 0, head 1 <-- raylet <-- this driver (placement groups)    this client (jobs)
 *
 * A group of one bundle is reserved by the head on the raylet, in two phases: so the time from the leader's death until a new group
 * stands has all of it: the death noticed, the lead claimed, the store loaded, the epoch stored, the raylet's redial, and the
 * reservation itself.
 *
 * Owns: the children, and a folder that goes with them. Thread: the main one.
 */
#include "tests/bench/cluster/heads.h"

#include "clients/control/manta_client.h"
#include "tests/bench/cluster/rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HEADS = 2, KILLS = 10, HANDOVERS = 10, JOBS_MAX = 20000, PATH = RIG_PATH, BLACKOUT_MS = 60000 };

struct rig {
    struct rig_folder folder;
    char              list[160], token[PATH], url[PATH + 64];
    char              address[HEADS][64];
    pid_t             redis, head[HEADS], raylet;
};

/* ---- children ---- */

static bool start_head(struct rig *r, int i, bool is_standby)
{
    char  program[PATH + 32], dir[PATH], log[32];
    char *argv[] = {
        program, "--dir", dir, "--ready-fd", "3", "--store", r->url, "--token-file", r->token, is_standby ? "--standby" : NULL,
        NULL};
    snprintf(program, sizeof program, "%s/manta-head", r->folder.bin);
    snprintf(dir, sizeof dir, "%s/head%d", r->folder.dir, i);
    snprintf(log, sizeof log, "head%d.log", i);
    r->head[i] = rig_spawn_ready(&r->folder, log, argv, r->address[i], sizeof r->address[i]);
    snprintf(r->list, sizeof r->list, "%s,%s", r->address[0], r->address[1]);
    return r->head[i] > 0;
}

static bool start_raylet(struct rig *r)
{
    char  program[PATH + 32], dir[PATH], line[128];
    char *argv[] = {program,  "--dir",      dir, "--ready-fd",     "3",        "--head", r->list, "--token-file",
                    r->token, "--num-cpus", "4", "--store-memory", "67108864", NULL};
    snprintf(program, sizeof program, "%s/manta-raylet", r->folder.bin);
    snprintf(dir, sizeof dir, "%s/node", r->folder.dir);
    r->raylet = rig_spawn_ready(&r->folder, "raylet.log", argv, line, sizeof line);
    return r->raylet > 0;
}

static bool start_redis(struct rig *r)
{
    char        socket[PATH], dir[PATH];
    struct stat st;
    char       *argv[] = {"redis-server", "--port",        "0",      "--unixsocket", socket, "--dir", dir, "--appendonly",
                          "yes",          "--appendfsync", "always", "--save",       "",     NULL};
    snprintf(dir, sizeof dir, "%s", r->folder.dir);
    snprintf(socket, sizeof socket, "%s/redis.sock", r->folder.dir);
    snprintf(r->url, sizeof r->url, "redis+unix://%s?cluster=bench", socket);
    r->redis = rig_spawn(&r->folder, "redis.log", -1, argv);
    for (int i = 0; i < 200 && stat(socket, &st) != 0; i++)
        bench_sleep_us(20000);
    return stat(socket, &st) == 0 || (fprintf(stderr, "redis-server does not start: see %s/redis.log\n", r->folder.dir), false);
}

/* ---- asking ---- */

static manta_client *client_of(const struct rig *r)
{
    manta_client_opts opts = {.address = r->list, .token_file = r->token, .timeout_ms = RIG_PATIENCE_MS};
    manta_error       e;
    manta_client     *c = NULL;
    for (double end = rig_now_ms() + RIG_PATIENCE_MS; !c && rig_now_ms() < end;)
        c = manta_client_open(&opts, &e);
    if (!c)
        bench_say(&e, "no head answers");
    return c;
}

/* The head that leads, where another one stands by; waits for that. -1: none. */
static int leader_of(const struct rig *r, manta_client *c)
{
    manta_cluster_info  info;
    manta_cluster_node *nodes;
    size_t              count;
    manta_error         e;
    for (double end = rig_now_ms() + RIG_PATIENCE_MS; rig_now_ms() < end; bench_sleep_us(10000)) {
        if (manta_nodes_list(c, &nodes, &count, &info, &e) != MANTA_OK)
            continue;
        free(nodes);
        if (info.standbys[0])
            return strcmp(info.address, r->address[1]) == 0;
    }
    fprintf(stderr, "no head stands by\n");
    return -1;
}

static bool reserve(void)
{
    manta_error        e;
    const manta_bundle bundle = {.num_cpus = 0.001};
    manta_pg          *pg = manta_pg_new(&bundle, 1, NULL, &e);
    bool               ok = pg && manta_pg_wait(pg, RIG_PATIENCE_MS, &e) == MANTA_OK;
    if (!ok)
        bench_say(&e, "a placement group does not stand");
    if (pg && manta_pg_remove(pg, &e) != MANTA_OK)
        ok = false;
    manta_pg_free(pg);
    return ok;
}

static bool submit(manta_client *c, int number, manta_error *e)
{
    char              id[32];
    const char *const argv[] = {"true", NULL};
    manta_job         job = {.id = id, .argv = argv, .cpus = 3}; /* one at a time, and a CPU is left for the groups */
    snprintf(id, sizeof id, "job-%d", number);
    return manta_job_submit(c, &job, e) == MANTA_OK;
}

static int lost_of(const struct rig *r, int count)
{
    manta_client  *c = client_of(r);
    manta_job_info info;
    manta_error    e;
    char           id[32];
    int            lost = 0;
    for (int i = 0; i < count && c; i++) {
        snprintf(id, sizeof id, "job-%d", i);
        lost += manta_job_get(c, id, &info, &e) != MANTA_OK;
    }
    manta_client_close(c);
    return c ? lost : count;
}

/* ---- the rows ---- */

static void heads_end(struct rig *r, bool is_fine)
{
    rig_end(&r->raylet, SIGKILL);
    for (int i = 0; i < HEADS; i++)
        rig_end(&r->head[i], SIGKILL);
    rig_end(&r->redis, SIGKILL);
    if (is_fine)
        rig_folder_remove(&r->folder);
}

static bool heads_begin(struct rig *r)
{
    memset(r, 0, sizeof *r);
    if (!rig_folder_make(&r->folder))
        return false;
    snprintf(r->token, sizeof r->token, "%s/token", r->folder.dir);
    return start_redis(r) && start_head(r, 0, false) && start_head(r, 1, true) && start_raylet(r);
}

static bool kill_leaders(struct bench *b, struct rig *r, manta_client *c)
{
    manta_error e;
    double      longest = 0, sum = 0;
    int         jobs = 0;
    for (int i = 0; i < KILLS; i++) {
        int at = leader_of(r, c);
        if (at < 0 || !reserve())
            return false;
        for (double end = rig_now_ms() + 50; rig_now_ms() < end && jobs < JOBS_MAX; jobs++)
            if (!submit(c, jobs, &e))
                return bench_say(&e, "a job");
        double begun = rig_now_ms();
        rig_end(&r->head[at], SIGKILL);
        if (!reserve())
            return false;
        double took = rig_now_ms() - begun;
        longest = took > longest ? took : longest;
        sum += took;
        if (!start_head(r, at, true))
            return false;
    }
    int lost = lost_of(r, jobs);
    bench_print_value(b, "ha_redis", "ms", longest, KILLS);
    bench_print_value(b, "ha_redis.b", "ms", sum / KILLS, KILLS);
    bench_print_value(b, "ha_redis.lost", "", lost, (uint64_t)jobs);
    return lost == 0;
}

static bool hand_over(struct bench *b, struct rig *r, manta_client *c)
{
    manta_client *other = client_of(r);
    manta_error   e;
    double        longest = 0;
    int           jobs = 0;
    bool          ok = other != NULL;
    for (int i = 0; i < HANDOVERS && ok; i++) {
        ok = leader_of(r, c) >= 0;
        double begun = rig_now_ms(), asked = 0;
        while (ok && rig_now_ms() < begun + 600 && jobs < JOBS_MAX) {
            double from = rig_now_ms();
            ok = submit(c, jobs++, &e) || bench_say(&e, "a job");
            longest = rig_now_ms() - from > longest ? rig_now_ms() - from : longest;
            if (asked == 0 && rig_now_ms() > begun + 200) {
                asked = rig_now_ms();
                ok = ok && (manta_cluster_step_down(other, "bench", &e) == MANTA_OK || bench_say(&e, "step down"));
            }
        }
    }
    int lost = ok ? lost_of(r, jobs) : 0;
    bench_print_value(b, "handover", "ms", longest, HANDOVERS);
    bench_print_value(b, "handover.lost", "", lost, (uint64_t)jobs);
    manta_client_close(other);
    return ok && lost == 0;
}

/* Tasks, and calls of an actor, done in that time, each second; < 0: one failed. */
static double work_for(struct bench *b, manta_actor *actor, double ms)
{
    double begun = rig_now_ms(), done = 0;
    while (rig_now_ms() < begun + ms) {
        int64_t x = b->next++;
        if (bench_tasks(b, NULL, BENCH_BATCH) < 0 ||
            !bench_value(manta_actor_call(actor, "mix", MANTA_ARGS(manta_i64(x))), bench_mix(x)))
            return -1;
        done += BENCH_BATCH + 1;
    }
    return done / (rig_now_ms() - begun) * 1000;
}

/* Nobody leads, and nobody comes. Then a head does, and the node is its. */
static bool black_out(struct bench *b, struct rig *r, manta_client *c)
{
    manta_actor *actor = manta_actor_new("bench_actor", NULL, MANTA_NO_ARGS);
    double       before = work_for(b, actor, BLACKOUT_MS / 12) < 0 ? -1 : work_for(b, actor, BLACKOUT_MS / 6), during = -1;
    if (before > 0 && leader_of(r, c) >= 0) {
        for (int i = 0; i < HEADS; i++)
            rig_end(&r->head[i], SIGKILL);
        during = work_for(b, actor, BLACKOUT_MS);
    }
    manta_actor_free(actor);
    bench_print_value(b, "blackout_head", "", before > 0 && during > 0 ? during / before : 0, 1);
    bench_print_value(b, "blackout_head.b", "tasks/s", during > 0 ? during : 0, 1);
    bench_print_value(b, "blackout_head.failures", "", during < 0, 1);
    return during > 0 && start_head(r, 0, false) && reserve();
}

static bool with_rig(struct bench *b, bool (*run)(struct bench *b, struct rig *r, manta_client *c), bool wants_driver)
{
    struct rig      r;
    manta_error     e;
    char            node[PATH];
    int             argc = 1;
    char           *words[] = {"bench", NULL}, **argv = words;
    manta_init_opts opts = {.address = node};
    bool            ok = heads_begin(&r);
    snprintf(node, sizeof node, "%s/node", r.folder.dir);
    bool is_driver = ok && wants_driver && manta_init(&argc, &argv, &opts, &e) == MANTA_OK;
    if (ok && wants_driver && !is_driver)
        ok = bench_say(&e, "manta_init");
    manta_client *c = ok ? client_of(&r) : NULL;
    ok = c && run(b, &r, c);
    manta_client_close(c);
    if (is_driver)
        (void)manta_shutdown();
    heads_end(&r, ok);
    return ok;
}

bool bench_ha_redis(struct bench *b)
{
    return with_rig(b, kill_leaders, true);
}

bool bench_handover(struct bench *b)
{
    return with_rig(b, hand_over, false);
}

bool bench_blackout(struct bench *b)
{
    return with_rig(b, black_out, true);
}
