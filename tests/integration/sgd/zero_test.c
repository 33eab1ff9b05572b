/* SPDX-License-Identifier: Apache-2.0
 *
 * zero_test.c - training with the optimizer's state in shards: the weights of a run without, with any number of workers on one node
 * and two, through deaths, and through checkpoints in both directions.
 *
 * The operator fits a plane. Gates let a test say how many workers may start: setup waits until there is one for it. Where a test
 * has blows to deal, the run waits for each (gates.h), so that a driver without a CPU is not too late for it.
 * Thread: the driver's main one; on_event runs there.
 */
#include "tests/integration/cluster/nodes.h"
#include "tests/integration/sgd/gates.h"

#include <manta_sgd.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INPUTS = 64, PARAMS = 6500, MANY = 530000, RECORDS = 640, BATCH = 64, PATH_SIZE = 400 };

/* ---- the operator ---- */
struct plane {
    float  *w, *g;
    int64_t n, slow_us;
};

static const char *gates_of(const char *folder)
{
    static char path[PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s/gates", folder);
    return path;
}

static const char *blows_of(const char *folder)
{
    static char path[PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s/blows", folder);
    return path;
}

static manta_status plane_setup(manta_sgd *t, void **self)
{
    struct plane *m = *self = manta_sgd_alloc(t, sizeof *m);
    char          path[PATH_SIZE + 32];
    const char   *folder = manta_sgd_conf_str(t, "folder", ".");
    m->n = manta_sgd_conf_i64(t, "n", PARAMS);
    m->slow_us = manta_sgd_conf_i64(t, "slow_us", 0);
    if (manta_sgd_conf_i64(t, "gates", 0) && !manta_sgd_is_driver(t))
        gates_pass(gates_of(folder));
    snprintf(path, sizeof path, "%s/plane.bin", folder);
    manta_sgd_param(t, "w", MANTA_SGD_F32, 1, &m->n, &m->w, &m->g);
    return manta_sgd_data(t, path, &(manta_sgd_data_opts){.record = INPUTS * sizeof(float), .shuffle = true});
}

static manta_status plane_batch(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    struct plane *m = self;
    const float  *x = b->data;
    double        loss = 0;
    for (int64_t r = 0; r < b->count; r++)
        for (int64_t i = 0; i < m->n; i++) {
            float error = m->w[i] - x[r * INPUTS + i % INPUTS] * (float)(i % 13);
            m->g[i] += 2 * error / (float)b->count;
            loss += (double)(error * error);
        }
    if (m->slow_us)
        usleep((useconds_t)m->slow_us);
    gates_hold(t);
    return manta_sgd_metric(t, "loss", loss / (double)b->count);
}
MANTA_SGD_OPERATOR(plane, .setup = plane_setup, .train_batch = plane_batch);

/* ---- a run ---- */
struct follow {
    char    folder[PATH_SIZE], storage[PATH_SIZE + 16];
    int     n, epochs, slow_us, pids[8], workers, begun, lost, stage, kills, stops;
    int64_t kill_at, stop_at, next_step, steps_lost;
    bool    has_gates, is_elastic, is_kept; /* is_kept: what was trained goes to `storage` */
    char    recovered[256];
};

/* 2 workers, then 1, 4, and 2 again. Of four, 0 and 1 have each other's shards nowhere: 2 and 3 have them. */
static void elastic_event(struct follow *f, const manta_sgd_event *event)
{
    if (event->kind != MANTA_SGD_STEP || event->step < f->next_step)
        return;
    if (f->stage == 0 && event->workers == 2)
        CHECK_EQ(kill(f->pids[1], SIGKILL), 0);
    else if (f->stage == 1 && event->workers == 1)
        gates_open(gates_of(f->folder), 3);
    else if (f->stage == 2 && event->workers == 4)
        CHECK_EQ(kill(f->pids[0], SIGKILL) | kill(f->pids[1], SIGKILL), 0);
    else
        return;
    gates_open(blows_of(f->folder), 1);
    f->stage++;
    f->next_step = event->step + 20;
}

static int on_event(void *user, const manta_sgd_event *event)
{
    struct follow *f = user;
    if (getenv("TEST_EVENTS"))
        fprintf(stderr, "%s\n", event->text);
    if (event->kind == MANTA_SGD_WORKER && event->rank < 8)
        f->pids[event->rank] = event->pid;
    f->workers = event->workers;
    f->lost += event->kind == MANTA_SGD_LOST;
    f->begun += event->kind == MANTA_SGD_BEGUN;
    if (event->kind == MANTA_SGD_RECOVERED) {
        f->steps_lost += event->recovery->steps_lost;
        f->kill_at = f->kills > 0 ? event->step + 10 : 0;
        snprintf(f->recovered, sizeof f->recovered, "%s", event->text);
    }
    if (f->is_elastic)
        elastic_event(f, event);
    if (event->kind == MANTA_SGD_STEP && f->kill_at && event->step >= f->kill_at && f->workers > 1) {
        f->kill_at = 0; /* reports of steps before the death may follow */
        CHECK_EQ(kill(f->pids[f->workers - 1], SIGKILL), 0);
        f->kills--;
        gates_open(blows_of(f->folder), 1);
    }
    bool stops = event->kind == MANTA_SGD_STEP && f->stop_at && event->step >= f->stop_at;
    if (stops && f->stops++ > 0) /* it knows of it: who waits in the middle, since we came late, may go on */
        gates_open(blows_of(f->folder), 1);
    return stops;
}

static void begin(struct follow *f)
{
    char     path[PATH_SIZE + 32];
    uint32_t state = 7;
    *f = (struct follow){.n = PARAMS, .epochs = 10};
    snprintf(f->folder, sizeof f->folder, "%s/zero", getenv("XDG_RUNTIME_DIR"));
    snprintf(f->storage, sizeof f->storage, "%s/storage", f->folder);
    snprintf(path, sizeof path, "%s/plane.bin", f->folder);
    CHECK_EQ(mkdir(f->folder, 0700), 0);
    FILE *file = fopen(path, "wbe");
    CHECK(file);
    for (int i = 0; i < RECORDS * INPUTS; i++) {
        state = state * 1664525u + 1013904223u;
        float x = (float)(state >> 16) / 65536.0f - 0.3f;
        CHECK_EQ(fwrite(&x, sizeof x, 1, file), 1);
    }
    CHECK_EQ(fclose(file), 0);
}

static void end(struct follow *f)
{
    char output[256];
    CHECK_EQ(test_program((char *[]){"rm", "-r", f->folder, NULL}, output, sizeof output), 0);
}

static manta_sgd_result run(struct follow *f, manta_sgd_opts opts)
{
    char        folder[PATH_SIZE + 8], n[32], slow[32], blows[2 * PATH_SIZE];
    int         count = f->is_elastic ? 3 : f->stop_at ? 1 : f->kill_at ? f->kills : 0;
    const char *config[] = {
        folder, n, slow, f->has_gates ? "gates=1" : "gates=0", f->is_elastic ? "lingers=1" : "lingers=0", count ? blows : NULL,
        NULL};
    manta_sgd_result r;
    manta_error      e;
    snprintf(folder, sizeof folder, "folder=%s", f->folder);
    snprintf(n, sizeof n, "n=%d", f->n);
    snprintf(slow, sizeof slow, "slow_us=%d", f->slow_us);
    opts.run.epochs = f->epochs;
    opts.run.batch = BATCH;
    opts.run.shards = 8;
    opts.run.log_steps = 2;
    opts.run.storage = f->is_kept ? f->storage : NULL;
    opts.failure.max_failures = -1;
    opts.optimizer.kind = MANTA_SGD_ADAMW;
    opts.optimizer.lr = 0.01;
    opts.optimizer.clip_norm = 300;
    opts.config = config;
    opts.on_event = on_event;
    opts.user = f;
    gates_blows(blows, sizeof blows, blows_of(f->folder), count, (int64_t)f->epochs * RECORDS / BATCH);
    CHECK(unlink(blows_of(f->folder)) == 0 || errno == ENOENT);
    f->begun = f->lost = f->stops = 0;
    f->steps_lost = 0;
    CHECK_CODE(manta_sgd_fit("plane", &opts, &r, &e), MANTA_OK, &e);
    return r;
}

/* What one worker without shards makes of it. */
static uint64_t wanted(struct follow *f)
{
    struct follow alone = *f;
    alone.kill_at = alone.stop_at = alone.slow_us = alone.kills = 0;
    alone.is_kept = alone.has_gates = alone.is_elastic = false;
    manta_sgd_result r = run(&alone, (manta_sgd_opts){.scaling.max_workers = 1});
    CHECK_EQ(r.optimizer_bytes, 2 * (int64_t)sizeof(float) * f->n);
    return r.weights;
}

/* ---- cases ---- */
static void zero_same_bits(void)
{
    struct follow f;
    begin(&f);
    uint64_t want = wanted(&f);
    for (int workers = 1; workers <= 4; workers *= 2)
        for (int backup = 0; backup < 2; backup++) {
            int              copies = backup && workers > 1 ? 2 : 1;
            manta_sgd_result r = run(&f, (manta_sgd_opts){.scaling = {.min_workers = workers, .max_workers = workers},
                                                          .optimizer = {.zero = 1, .zero_backup = backup}});
            CHECK_EQ(r.weights, want);
            /* To a block of 1024. */
            CHECK(r.optimizer_bytes <= copies * 2 * (int64_t)sizeof(float) * (PARAMS / workers + 1024));
        }
    end(&f);
}

static void zero_killed_with_backup(void)
{
    struct follow f;
    begin(&f);
    uint64_t want = wanted(&f);
    f.kill_at = 10, f.kills = 2, f.slow_us = 100;
    manta_sgd_result r = run(
        &f, (manta_sgd_opts){.scaling = {.min_workers = 3, .max_workers = 3}, .optimizer = {.zero = 1, .zero_backup = true}});
    CHECK_EQ(r.weights, want);
    CHECK_EQ(f.lost, 2);
    CHECK_EQ(f.begun, 1);
    CHECK_EQ(r.steps_lost, 0);
    end(&f);
}

/* The shard that died was the only one: the run goes back, and says how far. */
static void zero_killed(void)
{
    struct follow f;
    begin(&f);
    uint64_t want = wanted(&f);
    for (int is_kept = 0; is_kept < 2; is_kept++) {
        f.kill_at = 30, f.kills = 1, f.slow_us = 300, f.is_kept = is_kept;
        manta_sgd_result r = run(&f, (manta_sgd_opts){.scaling = {.min_workers = 2, .max_workers = 2},
                                                      .optimizer.zero = 1,
                                                      .checkpoint = {.every_steps = 8}});
        CHECK_EQ(r.weights, want);
        CHECK_EQ(f.lost, 1);
        CHECK_EQ(f.begun, 2);
        CHECK_EQ(r.steps_lost, f.steps_lost);
        CHECK(is_kept || r.steps_lost >= 30); /* else it may have died right behind a checkpoint */
        CHECK_SAYS(f.recovered, "steps lost=");
    }
    end(&f);
}

static void zero_elastic(void)
{
    struct follow f;
    begin(&f);
    f.epochs = 20;
    uint64_t want = wanted(&f);
    f.has_gates = f.is_elastic = true;
    f.slow_us = 200, f.next_step = 10;
    gates_open(gates_of(f.folder), 2);
    manta_sgd_result r = run(
        &f, (manta_sgd_opts){.scaling = {.min_workers = 1, .max_workers = 4}, .optimizer = {.zero = 1, .zero_backup = true}});
    CHECK_EQ(f.stage, 3);
    CHECK_EQ(r.restarts, 3);
    CHECK_EQ(f.workers, 2);
    CHECK_EQ(f.begun, 1);
    CHECK_EQ(r.weights, want);
    end(&f);
}

/* A run that was stopped is taken up again: from shards without, from whole with, from the shards of four by two. It is over, so
 * its weights are those that were saved. */
static void zero_checkpoints(void)
{
    struct follow f;
    begin(&f);
    f.is_kept = true, f.epochs = 40;
    for (int way = 0; way < 3; way++) {
        char output[256];
        f.stop_at = 20, f.slow_us = 2000; /* it stops a while after it was told to, and long before the end */
        manta_sgd_opts   opts = {.scaling.max_workers = way == 1 ? 2 : 4, .optimizer.zero = way != 1};
        manta_sgd_result first = run(&f, opts);
        CHECK(first.stopped && first.steps >= 20);
        f.stop_at = 0, f.slow_us = 0;
        manta_sgd_result r = run(&f, (manta_sgd_opts){.scaling.max_workers = 2, .optimizer.zero = way != 0});
        CHECK(r.first_step == first.steps && r.steps == first.steps && r.weights == first.weights);
        CHECK_EQ(test_program((char *[]){"rm", "-r", f.storage, NULL}, output, sizeof output), 0);
    }
    end(&f);
}

/* Two nodes: sums go to the node that wants them, in one piece or in buckets beside the work; and with a backup to both. */
static void zero_two_nodes(void)
{
    struct nodes  n;
    struct follow f;
    nodes_start(&n, 2, "4");
    begin(&f);
    for (int many = 0; many < 2; many++) {
        f.n = many ? MANY : PARAMS;
        f.epochs = many ? 1 : 6;
        f.kill_at = 0;
        uint64_t want = wanted(&f);
        for (int backup = 0; backup < 2; backup++) {
            manta_sgd_opts opts = {.scaling = {.min_workers = 3, .max_workers = 3, .cpus = 1, .nodes = 2},
                                   .optimizer = {.zero = 1, .zero_backup = backup}};
            f.kill_at = backup ? 4 : 0, f.kills = 1;
            manta_sgd_result r = run(&f, opts);
            CHECK_EQ(r.weights, want);
            CHECK_EQ(r.steps_lost, 0);
            CHECK_EQ(f.begun, 1);
        }
    }
    end(&f);
    nodes_stop(&n);
}

static void zero_bad(void)
{
    manta_error    e;
    manta_sgd_opts opts = {.optimizer.zero = 2};
    CHECK_CODE(manta_sgd_fit("plane", &opts, NULL, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "optimizer.zero is 2");
    opts.optimizer.zero = 0, opts.optimizer.zero_backup = true;
    CHECK_CODE(manta_sgd_fit("plane", &opts, NULL, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "optimizer.zero_backup");
}

static const struct test_case cases[] = {
    {"zero_same_bits", zero_same_bits, {.num_cpus = 4}, false, 0},
    {"zero_killed_with_backup", zero_killed_with_backup, {.num_cpus = 4}, false, 0},
    {"zero_killed", zero_killed, {.num_cpus = 4}, false, 0},
    {"zero_elastic", zero_elastic, {.num_cpus = 4}, false, 0},
    {"zero_checkpoints", zero_checkpoints, {.num_cpus = 4}, false, 0},
    {"zero_two_nodes", zero_two_nodes, {0}, true, 0},
    {"zero_bad", zero_bad, {.num_cpus = 2}, false, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
