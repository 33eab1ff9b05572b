/* SPDX-License-Identifier: Apache-2.0
 *
 * wide_test.c - training over two nodes: the bits are those of one worker, whoever and whatever dies.
 *
 * The operator fits a line, and reports as metric "away" the share of samples that were computed on another node than the
 * driver's, and as "gpu" the number of its worker's device, -1 where that has none.
 * Thread: the driver's main one; on_event runs there.
 */
#include "tests/integration/cluster/nodes.h"
#include "tests/integration/sgd/gates.h"

#include <manta_sgd.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INPUTS = 700, RECORDS = 640, BATCH = 64, EPOCHS = 30, PATH_SIZE = 400, EPOCH_STEPS = RECORDS / BATCH };
/* Parameters of a model that is summed in buckets while its gradient is computed, in parts. */
enum { MANY = 530000, PART = 140000 };
enum { SPARES = 4 }; /* with four workers all CPUs of two nodes */

/* ---- the operator ---- */
struct plane {
    float  *w, *g;
    int64_t n, home, slow_us, bad_step;
};

/* The first worker that loads on that node stands still. */
static void stand_still(manta_sgd *t)
{
    int64_t node = manta_sgd_conf_i64(t, "stops_on", 0);
    if (manta_sgd_is_driver(t) || node != manta_node())
        return;
    int fd = open(manta_sgd_conf_str(t, "mark", ""), O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        CHECK_EQ(raise(SIGSTOP), 0);
}

static manta_status plane_setup(manta_sgd *t, void **self)
{
    struct plane *m = *self = manta_sgd_alloc(t, sizeof *m);
    stand_still(t);
    m->n = manta_sgd_conf_i64(t, "n", INPUTS);
    m->bad_step = manta_sgd_conf_i64(t, "bad_step", -1);
    m->home = manta_sgd_conf_i64(t, "home", 0);
    m->slow_us = manta_sgd_conf_i64(t, "slow_us", 0);
    manta_sgd_param(t, "w", MANTA_SGD_F32, 1, &m->n, &m->w, &m->g);
    manta_sgd_metric(t, "away", 0);
    manta_sgd_metric(t, "gpu", 0);
    manta_sgd_gpus(t, manta_sgd_conf_f64(t, "gpus", 0));
    return manta_sgd_data(t, manta_sgd_conf_str(t, "data", ""),
                          &(manta_sgd_data_opts){.record = INPUTS * sizeof(float), .shuffle = true});
}

static manta_status plane_batch(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    struct plane *m = self;
    const float  *x = b->data;
    double        loss = 0;
    for (int64_t end = m->n, begin; end > 0; end = begin) { /* as a backward pass does: the last part first */
        begin = end > PART ? end - PART : 0;
        for (int64_t r = 0; r < b->count; r++)
            for (int64_t i = begin; i < end; i++) {
                float error = m->w[i] - x[r * INPUTS + i % INPUTS];
                m->g[i] += 2 * error / (float)b->count;
                loss += (double)(error * error);
            }
        if (manta_sgd_ready(t, &m->g, begin, end - begin))
            return MANTA_EINVAL;
        if (manta_sgd_step(t) == m->bad_step && begin == 0 && manta_node() != m->home)
            return manta_sgd_fail(t, MANTA_ETASK, "step %lld went wrong", (long long)manta_sgd_step(t));
    }
    if (manta_node() != m->home && manta_sgd_step(t) % 10 == 0)
        fprintf(stderr, "far from home at step %lld\n", (long long)manta_sgd_step(t));
    if (m->slow_us)
        usleep((useconds_t)m->slow_us);
    gates_hold(t);
    const char *devices = getenv("CUDA_VISIBLE_DEVICES");
    manta_sgd_metric(t, "loss", loss / (double)b->count);
    manta_sgd_metric(t, "gpu", devices && devices[0] ? (double)strtol(devices, NULL, 10) : -1);
    return manta_sgd_metric(t, "away", manta_node() == m->home ? 0 : 1);
}
MANTA_SGD_OPERATOR(plane, .setup = plane_setup, .train_batch = plane_batch);

/* ---- a run ---- */
struct follow {
    struct nodes *nodes;
    char          data[PATH_SIZE], blows[PATH_SIZE];
    int           workers, pids[8], begun;
    double        away, gpu;                 /* of the last report */
    int64_t       kill_at;                   /* step; 0: never */
    bool          kill_node;                 /* else the worker of the last rank */
    bool          stop_spares;               /* first, those of the other node */
    bool          stop_post;                 /* of the other node */
    uint32_t      stops_on;                  /* node whose first worker stands still as it loads; 0: none */
    bool          none_killed;               /* those who are stopped are all */
    int           all;                       /* workers without whom no blow falls, though the run begins with fewer */
    int           lost, resized, hung, post; /* the latter: its process that was stopped */
    int64_t       last_step;                 /* of which the driver was told */
    int           spares[SPARES], spare_count;
    char          lost_text[512], hung_text[512];
    int64_t       add_at;                 /* by this clock another node comes, while steps are made; 0: none does */
    int           epochs, many, bad_step; /* 0: as usual */
    int           gpus;                   /* that the operator wants for each worker */
    bool          is_bad_anywhere;        /* else that step goes wrong away from home */
    bool          ends_away;              /* once a worker away from home has made a step */
    uint64_t      taker;                  /* board of a task that gets the CPU of a worker that is killed; 0: none */
    int           taken_at;               /* its node: 0 or 1 */
    bool          has_third;              /* a third node comes then, with a CPU */
    manta_ref    *taken;
};

static void data_make(struct follow *f)
{
    uint32_t state = 7;
    snprintf(f->data, sizeof f->data, "%s/plane.bin", getenv("XDG_RUNTIME_DIR"));
    snprintf(f->blows, sizeof f->blows, "%s/blows", getenv("XDG_RUNTIME_DIR"));
    FILE *file = fopen(f->data, "wbe");
    CHECK(file);
    for (int i = 0; i < RECORDS * INPUTS; i++) {
        state = state * 1664525u + 1013904223u;
        float x = (float)(state >> 16) / 65536.0f - 0.3f;
        CHECK_EQ(fwrite(&x, sizeof x, 1, file), 1);
    }
    CHECK_EQ(fclose(file), 0);
}

/* The spares of the second node stand still from now on; how many. */
static int spares_stop(const struct follow *f)
{
    int pids[64], stopped = 0, count = test_find(f->nodes->raylets[1], NULL, pids, 64);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < SPARES; k++)
            stopped += pids[i] == f->spares[k] && kill(pids[i], SIGSTOP) == 0;
    return stopped;
}

static void post_stop(struct follow *f)
{
    CHECK_EQ(test_find(f->nodes->raylets[1], "w:manta_sgd_pos", &f->post, 1), 1);
    CHECK_EQ(kill(f->post, SIGSTOP), 0);
}

MANTA_TASK(int64_t, wide_hold, (uint64_t, number))
{
    struct test_board *board = test_board_map(number);
    atomic_store(&board->words[0], 1);
    return test_board_wait(&board->words[1], 1);
}

/* Before the run can hire another one there. */
static void room_take(struct follow *f)
{
    if (f->has_third)
        f->nodes->raylets[f->nodes->count++] = nodes_add(f->nodes, 2, "1", NULL);
    f->taken = wide_hold_remote(&(manta_task_opts){AT(f->taken_at)}, f->taker);
    CHECK_EQ(kill(f->pids[f->taken_at ? f->workers - 1 : 0], SIGKILL), 0);
    CHECK(test_board_wait(&test_board_map(f->taker)->words[0], 1));
}

static void strike(struct follow *f)
{
    f->kill_at = 0;
    if (f->taker)
        room_take(f);
    if (f->stop_post)
        post_stop(f);
    if (f->stop_spares)
        CHECK(spares_stop(f) > 0);
    if (f->kill_node) {
        nodes_kill(&f->nodes->raylets[1]);
    } else if (!f->none_killed) {
        CHECK(f->pids[f->workers - 1] > 1);
        CHECK_EQ(kill(f->pids[f->workers - 1], SIGKILL), 0);
    }
    gates_open(f->blows, 1);
}

static int on_event(void *user, const manta_sgd_event *event)
{
    struct follow *f = user;
    if (getenv("TEST_EVENTS"))
        fprintf(stderr, "%s\n", event->text);
    if (event->kind == MANTA_SGD_WORKER && event->rank < 8)
        f->pids[event->rank] = event->pid;
    if (event->kind == MANTA_SGD_SPARE && f->spare_count < SPARES)
        f->spares[f->spare_count++] = event->pid;
    if (event->kind == MANTA_SGD_HUNG)
        f->hung++, snprintf(f->hung_text, sizeof f->hung_text, "%s", event->text);
    f->lost += event->kind == MANTA_SGD_LOST;
    if (event->kind == MANTA_SGD_LOST)
        snprintf(f->lost_text, sizeof f->lost_text, "%s", event->text);
    f->resized += event->kind == MANTA_SGD_RESIZED;
    f->begun += event->kind == MANTA_SGD_BEGUN;
    f->workers = event->workers;
    f->last_step = event->kind == MANTA_SGD_STEP ? event->step : f->last_step;
    if (event->kind == MANTA_SGD_STEP) {
        f->away = event->values[2];
        f->gpu = event->values[3];
        if (f->add_at && test_now_ms() >= f->add_at) {
            f->nodes->raylets[f->nodes->count++] = nodes_add(f->nodes, 1, "4", NULL);
            f->add_at = 0;
        }
    }
    /* Where a spare comes late, the workers hold already, and no further step is told. */
    bool is_time = event->kind == MANTA_SGD_STEP || event->kind == MANTA_SGD_SPARE;
    if (is_time && f->kill_at && f->last_step >= f->kill_at && f->workers >= f->all &&
        (!f->stop_spares || f->spare_count == SPARES))
        strike(f);
    return f->ends_away && f->away > 0; /* that is all it was for */
}

static manta_status run_for(struct follow *f, manta_sgd_opts opts, int slow_us, manta_sgd_result *r, manta_error *e)
{
    char home[32], slow[32], many[32], bad[32], gpus[32], data[PATH_SIZE + 8], blows[PATH_SIZE + 32], stops_on[32],
        mark[PATH_SIZE + 8];
    int64_t     steps = EPOCH_STEPS * (f->epochs ? f->epochs : EPOCHS);
    const char *config[] = {
        home, slow, many, bad, gpus, data, stops_on, mark, f->all ? "lingers=1" : "lingers=0", f->kill_at ? blows : NULL, NULL};
    CHECK(unlink(f->blows) == 0 || errno == ENOENT);
    f->last_step = 0;
    gates_blows(blows, sizeof blows, f->blows, 1, steps);
    snprintf(stops_on, sizeof stops_on, "stops_on=%u", f->stops_on);
    snprintf(mark, sizeof mark, "mark=%s", f->blows);
    snprintf(gpus, sizeof gpus, "gpus=%d", f->gpus);
    snprintf(many, sizeof many, "n=%d", f->many ? f->many : INPUTS);
    snprintf(bad, sizeof bad, "bad_step=%d", f->bad_step ? f->bad_step : -1);
    snprintf(home, sizeof home, "home=%u", f->is_bad_anywhere ? 0 : manta_node());
    snprintf(slow, sizeof slow, "slow_us=%d", slow_us);
    snprintf(data, sizeof data, "data=%s", f->data);
    opts.run.epochs = f->epochs ? f->epochs : EPOCHS;
    opts.run.batch = BATCH;
    opts.run.shards = 8;
    opts.run.log_steps = f->many ? 2 : 10;
    opts.optimizer.lr = 0.01;
    opts.config = config;
    opts.on_event = on_event;
    opts.user = f;
    return manta_sgd_fit("plane", &opts, r, e);
}

static manta_sgd_result run(struct follow *f, manta_sgd_opts opts, int slow_us)
{
    manta_sgd_result r;
    manta_error      e;
    CHECK_CODE(run_for(f, opts, slow_us, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.steps, EPOCH_STEPS * (f->epochs ? f->epochs : EPOCHS));
    CHECK_EQ(f->last_step, r.steps); /* whichever node's worker had to tell it */
    return r;
}

/* What one worker alone makes of it. */
static manta_sgd_result alone(struct follow *f)
{
    return run(f, (manta_sgd_opts){.scaling.max_workers = 1}, 0);
}

MANTA_TASK(int64_t, wide_there, (int64_t, node))
{
    return node;
}

/* The program is on each node before a run begins: where a worker needs more than a second to start, another is hired elsewhere. */
static void start(struct nodes *n, struct follow *f, int count)
{
    nodes_start(n, count, "4");
    for (int i = 1; i < count; i++)
        CHECK_I64(wide_there_remote(&(manta_task_opts){AT(i)}, i), i);
    *f = (struct follow){.nodes = n};
    data_make(f);
}

/* Two nodes with so many CPUs each, the second joins later. */
static void start_two(struct nodes *n, struct follow *f, const char *here, const char *away)
{
    nodes_start(n, 1, here);
    *f = (struct follow){.nodes = n};
    data_make(f);
    n->raylets[n->count++] = nodes_add(n, 1, away, NULL);
    nodes_wait_alive(2);
    CHECK_I64(wide_there_remote(&(manta_task_opts){AT(1)}, 1), 1);
}

static void stop(struct nodes *n, struct follow *f)
{
    CHECK_EQ(unlink(f->data), 0);
    CHECK(unlink(f->blows) == 0 || errno == ENOENT);
    nodes_stop(n);
}

/* ---- cases ---- */
static void wide_same_bits(void)
{
    struct nodes  n;
    struct follow f;
    start(&n, &f, 2);
    uint64_t want = alone(&f).weights;
    for (int workers = 2; workers <= 5; workers++) {
        manta_sgd_opts opts = {.scaling = {.min_workers = workers, .max_workers = workers, .cpus = 1, .nodes = 2, .min_nodes = 2}};
        CHECK_EQ(run(&f, opts, 0).weights, want);
        CHECK(f.away > 0.5 / workers && f.away < 1 - 0.5 / workers); /* they did share it: a worker at least on either node */
    }
    CHECK_EQ(f.lost, 0);
    stop(&n, &f);
}

static void wide_worker_killed(void)
{
    struct nodes  n;
    struct follow f;
    start(&n, &f, 2);
    uint64_t want = alone(&f).weights;
    f.kill_at = 60;
    manta_sgd_opts opts = {.scaling = {.min_workers = 4, .max_workers = 4, .cpus = 1, .nodes = 2}, .failure.max_failures = 3};
    CHECK_EQ(run(&f, opts, 500).weights, want);
    CHECK_EQ(f.lost, 1);
    CHECK_EQ(f.begun, 2);                          /* of two runs: the state came from a peer */
    CHECK_SAYS(f.lost_text, "; it printed last:"); /* on another node than the driver's */
    CHECK_SAYS(f.lost_text, "far from home at step");
    CHECK(f.away > 0.2 && f.away < 0.8);
    stop(&n, &f);
}

/* One that stands still before it has its rank, on another node than the driver's, is found as soon as any that is stopped. There
 * alone is room for spares: here one worker has it all. */
static void wide_stopped_spare(void)
{
    struct nodes  n;
    struct follow f;
    start_two(&n, &f, "1", "7");
    uint64_t want = alone(&f).weights;
    f.kill_at = 60;
    f.stop_spares = true;
    manta_sgd_opts opts = {.scaling = {.min_workers = 4, .max_workers = 4, .cpus = 1, .nodes = 2, .min_nodes = 2, .spares = SPARES},
                           .failure.max_failures = -1};
    CHECK_EQ(run(&f, opts, 500).weights, want);
    CHECK(f.hung > 0);
    CHECK_SAYS(f.hung_text, "stopped by a signal");
    stop(&n, &f);
}

/* Spares that have given no sign of life when their run ends keep no room from the next one. */
static void wide_stopped_stay(void)
{
    struct nodes  n;
    struct follow f;
    start_two(&n, &f, "1", "7");
    uint64_t want = alone(&f).weights;
    f.kill_at = 60;
    f.stop_spares = f.none_killed = true;
    manta_sgd_opts opts = {
        .scaling = {.min_workers = 4, .max_workers = 4, .cpus = 1, .nodes = 2, .min_nodes = 2, .spares = SPARES}};
    CHECK_EQ(run(&f, opts, 3000).weights, want);
    CHECK_EQ(f.kill_at, 0);
    f.stop_spares = false;
    opts = (manta_sgd_opts){.scaling = {.min_workers = 8, .max_workers = 8, .cpus = 1, .nodes = 2}};
    CHECK_EQ(run(&f, opts, 0).weights, want);
    CHECK_EQ(f.lost, 0);
    stop(&n, &f);
}

/* Wherever one is stopped before it is ready, another takes its place. */
static void wide_stopped_start(void)
{
    struct nodes  n;
    struct follow f;
    start(&n, &f, 2);
    uint64_t want = alone(&f).weights;
    for (int i = 0; i < 2; i++) {
        manta_sgd_opts opts = {.scaling = {.min_workers = 4, .max_workers = 4, .cpus = 1, .nodes = 2, .min_nodes = 2}};
        f.stops_on = n.ids[i];
        CHECK_EQ(run(&f, opts, 0).weights, want);
        CHECK_EQ(f.lost, i + 1);
        CHECK_SAYS(f.lost_text, "stopped by a signal while it started");
    }
    stop(&n, &f);
}

/* A post that stands still when its run ends does not stay, as long as the driver lives. */
static void wide_stopped_post(void)
{
    struct nodes  n;
    struct follow f;
    start_two(&n, &f, "2", "2");
    uint64_t want = alone(&f).weights;
    f.kill_at = 60;
    f.stop_post = f.none_killed = true;
    manta_sgd_opts   opts = {.scaling = {.min_workers = 4, .max_workers = 4, .cpus = 1, .nodes = 2, .min_nodes = 2}};
    manta_sgd_result r;
    manta_error      e;
    CHECK_CODE(run_for(&f, opts, 0, &r, &e), MANTA_OK, &e); /* whose last words may be lost with it */
    CHECK_EQ(r.weights, want);
    CHECK_EQ(f.lost, 0); /* it was not missed before */
    CHECK(f.post > 0);
    CHECK(test_gone(f.post));
    stop(&n, &f);
}

static void wide_node_killed(void)
{
    struct nodes  n;
    struct follow f;
    start(&n, &f, 2);
    uint64_t want = alone(&f).weights;
    f.kill_at = 60;
    f.kill_node = true;
    f.all = 4;
    manta_sgd_opts opts = {.scaling = {.min_workers = 1, .max_workers = 4, .cpus = 1, .nodes = 2}, .failure.max_failures = -1};
    CHECK_EQ(run(&f, opts, 1000).weights, want);
    CHECK(f.lost >= 2);
    CHECK_EQ(f.begun, 2);
    CHECK(f.away == 0);
    stop(&n, &f);
}

/* Rows for the ranks of both nodes, and buckets beside the work of the node's leader. */
static void timeline_check(char *path)
{
    static char check[] = "import json, sys\n"
                          "events = json.load(open(sys.argv[1]))['traceEvents']\n"
                          "rows = {e['tid']: e['args']['name'] for e in events if e['name'] == 'thread_name'}\n"
                          "print(*sorted({rows[e['tid']] + ' ' + e['name'] for e in events if e['ph'] == 'X'}), sep='\\n')\n";
    char        output[8192];
    CHECK_EQ(test_program((char *[]){"python3", "-c", check, path, NULL}, output, sizeof output), 0);
    CHECK_SAYS(output, "rank 0: communication bucket all-reduce\n");
    CHECK_SAYS(output, "rank 2: communication bucket all-reduce\n");
    CHECK_SAYS(output, "rank 2 optimizer\n");
    CHECK_SAYS(output, "recoveries first step\n");
    CHECK_EQ(unlink(path), 0);
}

/* Sums go on beside the work: with the same bits, through a death, and an error in the middle ends it with its text. */
static void wide_overlap(void)
{
    struct nodes     n;
    struct follow    f;
    manta_error      e;
    manta_sgd_result r;
    char             path[PATH_SIZE];
    start(&n, &f, 2);
    f.epochs = 1, f.many = MANY;
    uint64_t       want = alone(&f).weights;
    manta_sgd_opts opts = {.scaling = {.min_workers = 3, .max_workers = 3, .cpus = 1, .nodes = 2}, .failure.max_failures = 3};
    f.kill_at = 2;
    snprintf(path, sizeof path, "%s/timeline.json", getenv("XDG_RUNTIME_DIR"));
    opts.run.timeline = path;
    CHECK_EQ(run(&f, opts, 0).weights, want);
    CHECK_EQ(f.lost, 1);
    timeline_check(path);
    opts.run.timeline = NULL;
    f.bad_step = 5;
    CHECK_CODE(run_for(&f, opts, 0, &r, &e), MANTA_ETASK, &e);
    CHECK_SAYS(e.message, "step 5 went wrong");
    stop(&n, &f);
}

/* The same with a worker of two devices on each node: what both have made is summed. */
static void wide_devices(void)
{
    struct nodes     n;
    struct follow    f;
    manta_error      e;
    manta_sgd_result r;
    start(&n, &f, 2);
    f.epochs = 1, f.many = MANY;
    uint64_t       want = alone(&f).weights;
    manta_sgd_opts opts = {.scaling = {.min_workers = 2, .max_workers = 2, .cpus = 2, .nodes = 2}, .failure.max_failures = 3};
    f.kill_at = 2;
    CHECK_EQ(run(&f, opts, 0).weights, want);
    CHECK_EQ(f.lost, 1);
    f.is_bad_anywhere = true; /* both workers may have found room at home */
    f.bad_step = 5;
    CHECK_CODE(run_for(&f, opts, 0, &r, &e), MANTA_ETASK, &e);
    CHECK_SAYS(e.message, "step 5 went wrong");
    stop(&n, &f);
}

/* Workers with a GPU each: on the node that has two, which is not the driver's, each its own, also after a death. */
static void wide_gpus(void)
{
    struct nodes     n;
    struct follow    f;
    manta_error      e;
    manta_sgd_result r;
    start(&n, &f, 1);
    uint64_t want = alone(&f).weights;
    f.gpus = 1;
    manta_sgd_opts opts = {.scaling = {.min_workers = 2, .max_workers = 2}, .failure.max_failures = 3};
    CHECK_CODE(run_for(&f, opts, 0, &r, &e), MANTA_EUNSCHEDULABLE, &e); /* there is no GPU at all */
    CHECK_SAYS(e.message, "GPU");
    n.gpus = "2";
    n.raylets[n.count++] = nodes_add(&n, 1, "4", NULL);
    nodes_wait_alive(2);
    opts.scaling.nodes = 2;
    f.kill_at = 60;
    CHECK_EQ(run(&f, opts, 500).weights, want);
    CHECK_EQ(f.lost, 1);
    CHECK(f.away == 1 && f.gpu == 0.5); /* half of the samples by device 0, half by 1 */
    opts.scaling.gpus = 0.5;
    CHECK_EQ(run(&f, opts, 0).weights, want);
    CHECK(f.away == 1 && (f.gpu == 0 || f.gpu == 1)); /* both on one */
    opts.scaling.gpus = -1;
    CHECK_EQ(run(&f, opts, 0).weights, want);
    CHECK(f.gpu == -1);
    stop(&n, &f);
}

/* A run that wants more than its node has grows as soon as another one joins. It is told of it: in the seconds before, it asks
 * nobody. */
static void wide_node_comes(void)
{
    enum { ALONE_MS = 3000, POLLED_MS = 250 };
    struct nodes     n;
    struct follow    f;
    manta_error      e;
    manta_sgd_result r;
    nodes_start(&n, 1, "2");
    f = (struct follow){.nodes = &n, .epochs = 1000 * 1000, .add_at = test_now_ms() + ALONE_MS, .ends_away = true};
    data_make(&f);
    manta_sgd_opts opts = {.scaling = {.min_workers = 1, .max_workers = 3, .cpus = 1, .nodes = 2}};
    CHECK_CODE(run_for(&f, opts, 500, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.stopped, 1);
    CHECK(f.resized >= 1 && f.workers == 3 && f.lost == 0);
    CHECK(r.node_looks >= 2 && r.node_looks < ALONE_MS / POLLED_MS);
    stop(&n, &f);
}

/* Three workers on a node of one CPU and one of two, each where it has room, also after a death. */
static double away_of_three(const char *here, const char *away)
{
    struct nodes  n;
    struct follow f;
    start_two(&n, &f, here, away);
    uint64_t       want = alone(&f).weights;
    manta_sgd_opts opts = {.scaling = {.min_workers = 3, .max_workers = 3, .cpus = 1, .nodes = 2}, .failure.max_failures = 3};
    f.kill_at = 60;
    CHECK_EQ(run(&f, opts, 500).weights, want);
    CHECK_EQ(f.lost, 1);
    stop(&n, &f);
    return f.away;
}

static void wide_room_away(void)
{
    CHECK(away_of_three("1", "2") > 0.5);
}

static void wide_room_here(void)
{
    CHECK(away_of_three("2", "1") < 0.5);
}

/* One of so many workers dies, and its CPU is another's until the run is over. */
static void run_taken(struct follow *f, int workers)
{
    uint64_t           want = alone(f).weights;
    struct test_board *board = test_board_new(&f->taker);
    manta_sgd_opts     opts = {.scaling = {.min_workers = workers, .max_workers = workers, .cpus = 1, .nodes = 2},
                               .failure.max_failures = 3};
    f->kill_at = 60;
    f->none_killed = true;
    CHECK_EQ(run(f, opts, 500).weights, want);
    CHECK_EQ(f->lost, 1);
    atomic_store(&board->words[1], 1);
    CHECK_I64(f->taken, 1); /* 0: it had let go before */
}

/* The room of one that died is another's now: it is hired where there is more, not waited for. */
static void wide_room_taken(void)
{
    struct nodes  n;
    struct follow f;
    start_two(&n, &f, "2", "4");
    run_taken(&f, 4);
    CHECK(f.away > 0.7); /* three of four */
    stop(&n, &f);
}

/* The same where its node has no room left at all: the run, which may be on two, goes to a third one. */
static void wide_room_third(void)
{
    struct nodes  n;
    struct follow f;
    start_two(&n, &f, "1", "1");
    f.has_third = true;
    f.taken_at = 1;
    run_taken(&f, 2);
    CHECK(f.away > 0.4); /* one of two */
    stop(&n, &f);
}

static void wide_bad(void)
{
    static const double gpus[] = {1.5, 17, NAN, INFINITY};
    manta_error         e;
    manta_sgd_opts      opts = {.optimizer.lr = 0.1};
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        opts.scaling.gpus = gpus[i];
        CHECK_CODE(manta_sgd_fit("plane", &opts, NULL, &e), MANTA_EINVAL, &e);
        CHECK_SAYS(e.message, "scaling.gpus is ");
    }
    opts = (manta_sgd_opts){.scaling.nodes = -1};
    CHECK_CODE(manta_sgd_fit("plane", &opts, NULL, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "scaling.nodes");
    opts = (manta_sgd_opts){.scaling = {.max_workers = 2, .nodes = 2, .min_nodes = 3}};
    CHECK_CODE(manta_sgd_fit("plane", &opts, NULL, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "scaling.min_nodes is 3");
    opts = (manta_sgd_opts){.scaling.nodes = 65};
    CHECK_CODE(manta_sgd_fit("plane", &opts, NULL, &e), MANTA_EINVAL, &e);
}

static const struct test_case cases[] = {
    {"wide_same_bits", wide_same_bits, {0}, true, 0},
    {"wide_worker_killed", wide_worker_killed, {0}, true, 0},
    {"wide_stopped_spare", wide_stopped_spare, {0}, true, 0},
    {"wide_stopped_stay", wide_stopped_stay, {0}, true, 0},
    {"wide_stopped_start", wide_stopped_start, {0}, true, 0},
    {"wide_stopped_post", wide_stopped_post, {0}, true, 0},
    {"wide_node_killed", wide_node_killed, {0}, true, 0},
    {"wide_overlap", wide_overlap, {0}, true, 0},
    {"wide_devices", wide_devices, {0}, true, 0},
    {"wide_gpus", wide_gpus, {0}, true, 0},
    {"wide_room_away", wide_room_away, {0}, true, 0},
    {"wide_room_here", wide_room_here, {0}, true, 0},
    {"wide_room_taken", wide_room_taken, {0}, true, 0},
    {"wide_room_third", wide_room_third, {0}, true, 0},
    {"wide_node_comes", wide_node_comes, {0}, true, 0},
    {"wide_bad", wide_bad, {.num_cpus = 2}, false, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
