/* SPDX-License-Identifier: Apache-2.0
 *
 * devices_test.c - workers that reserve several CPUs and compute with a thread for each: the same bits as with more workers, and
 * after a kill; an operator of one's own has an instance for each device; what is refused, with the reason.
 *
 * The operator fits a plane. It checks by itself in which threads it is called, and its first step waits until as many instances
 * as config "together" says are in it at the same time. Thread: the driver's main one.
 */
#include "tests/integration/harness.h"
#include "tests/integration/sgd/busy.h"

#include <manta_sgd.h>

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    INPUTS = 40000,
    RECORDS = 240,
    RECORD = 100,
    BATCH = 48,
    PATH_SIZE = 400,
    DEVICES_MAX = 8,
    KILLS_MAX = 2,
    TRIES = 30,
    STARVED_MS = 2500 /* longer than the watchdog waits for one that hangs */
};

/* ---- the operator ---- */

struct plane {
    float      *w, *g;
    int64_t     n, together, fails, slow_us;
    const char *files;   /* of trouble to come */
    double     *scratch; /* a state of its own, which no other instance may touch */
    pthread_t   thread;
    bool        has_thread;
};

/* Of this process: what all its instances share. */
static struct {
    _Atomic int       inside;
    _Atomic pthread_t threads[DEVICES_MAX];
} shared;

static manta_status plane_setup(manta_sgd *t, void **self)
{
    struct plane *m = *self = manta_sgd_alloc(t, sizeof *m);
    int           device = manta_sgd_device(t);
    shared.threads[device % DEVICES_MAX] = 0; /* this process may have had another run */
    shared.inside = 0;
    m->n = INPUTS + (device > 0 ? manta_sgd_conf_i64(t, "other_shape", 0) : 0);
    m->together = manta_sgd_conf_i64(t, "together", 1);
    m->fails = manta_sgd_conf_i64(t, "fails", -1);
    m->slow_us = manta_sgd_conf_i64(t, "slow_us", 0);
    m->files = manta_sgd_conf_str(t, "data", NULL);
    m->scratch = manta_sgd_alloc(t, RECORD * sizeof *m->scratch);
    if (manta_sgd_conf_i64(t, "alone", 0))
        manta_sgd_devices_max(t, 0);
    if (device >= manta_sgd_device_count(t) || device >= DEVICES_MAX || (manta_sgd_is_driver(t) && device != 0))
        return manta_sgd_fail(t, MANTA_EINVAL, "device %d of %d", device, manta_sgd_device_count(t));
    if (!manta_sgd_is_driver(t) && manta_sgd_device_count(t) != manta_sgd_conf_i64(t, "wanted", 1))
        return manta_sgd_fail(t, MANTA_EINVAL, "there are %d devices", manta_sgd_device_count(t));
    manta_sgd_param(t, "w", MANTA_SGD_F32, 1, &m->n, &m->w, &m->g);
    manta_sgd_data(t, manta_sgd_conf_str(t, "data", ""), &(manta_sgd_data_opts){.record = RECORD, .validate = true});
    return manta_sgd_data(t, manta_sgd_conf_str(t, "data", ""), &(manta_sgd_data_opts){.record = RECORD, .shuffle = true});
}

static manta_status plane_init(manta_sgd *t, void *self)
{
    struct plane *m = self;
    m->w[3] = 0.25f;
    return manta_sgd_device(t) == 0 ? MANTA_OK : manta_sgd_fail(t, MANTA_EINVAL, "init of device %d", manta_sgd_device(t));
}

/* An instance has one thread, and no other has it as well. */
static manta_status thread_check(manta_sgd *t, struct plane *m)
{
    int device = manta_sgd_device(t);
    if (!m->has_thread) {
        m->has_thread = true;
        m->thread = pthread_self();
        shared.threads[device] = m->thread;
    }
    for (int d = 0; d < manta_sgd_device_count(t); d++)
        if ((d == device) != pthread_equal(shared.threads[d], pthread_self()))
            return manta_sgd_fail(t, MANTA_EINVAL, "device %d is called in the thread of another", device);
    return MANTA_OK;
}

/* In the first batch of each: until all are in theirs. */
static manta_status all_inside(manta_sgd *t, struct plane *m)
{
    if (m->has_thread || m->together < 2)
        return MANTA_OK;
    shared.inside++;
    for (int64_t end = test_now_ms() + TEST_WAIT_MS; shared.inside < m->together; usleep(200))
        if (test_now_ms() > end)
            return manta_sgd_fail(t, MANTA_ETIMEDOUT, "%d of %d at the same time", (int)shared.inside, (int)m->together);
    return MANTA_OK;
}

static double distance(struct plane *m, const uint8_t *record, float *gradient, float count)
{
    double loss = 0;
    for (int64_t i = 0; i < RECORD; i++)
        m->scratch[i] = record[i] * 0.01;
    for (int64_t i = 0; i < m->n; i++) {
        float error = m->w[i] - (float)m->scratch[i % RECORD];
        if (gradient)
            gradient[i] += 2 * error / count;
        loss += (double)(error * error) / (double)m->n;
    }
    return loss;
}

static double all_records(struct plane *m, const manta_sgd_batch *b, float *gradient)
{
    double loss = 0;
    for (int64_t r = 0; r < b->count; r++)
        loss += distance(m, (const uint8_t *)b->data + r * RECORD, gradient, (float)b->count);
    return loss / (double)b->count;
}

/* In the last device's thread, in the middle of steps 6 and 13, where a file of that number says so. Whoever finds it takes it
 * away, so it happens once. */
static void trouble(const manta_sgd *t, const struct plane *m)
{
    static const int64_t steps[KILLS_MAX] = {5, 12};
    char                 path[PATH_SIZE + 32];
    for (int i = 0; m->files && i < KILLS_MAX && manta_sgd_device(t) == manta_sgd_device_count(t) - 1; i++) {
        if (manta_sgd_step(t) != steps[i])
            continue;
        snprintf(path, sizeof path, "%s.kill%d", m->files, i);
        if (unlink(path) == 0)
            raise(SIGKILL);
        snprintf(path, sizeof path, "%s.hang%d", m->files, i);
        if (unlink(path) == 0)
            for (;;) /* until the watchdog comes */
                pause();
        snprintf(path, sizeof path, "%s.spin%d", m->files, i);
        if (unlink(path) == 0)
            busy_spin(STARVED_MS);
        snprintf(path, sizeof path, "%s.starve%d", m->files, i);
        if (unlink(path) == 0)
            busy_starve(20, STARVED_MS);
    }
}

static manta_status plane_train(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    struct plane *m = self;
    manta_status  code = all_inside(t, m);
    if (code == MANTA_OK)
        code = thread_check(t, m);
    if (code != MANTA_OK)
        return code;
    if (m->fails >= 0 && b->sample >= (uint64_t)m->fails) /* several virtual ranks do, in all devices */
        return manta_sgd_fail(t, MANTA_ETASK, "sample %llu is bad", (unsigned long long)b->sample);
    if (m->slow_us)
        usleep((useconds_t)m->slow_us);
    trouble(t, m);
    return manta_sgd_metric(t, "loss", all_records(m, b, m->g));
}

static manta_status plane_validate(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    return manta_sgd_metric(t, "loss", all_records(self, b, NULL));
}
MANTA_SGD_OPERATOR(plane, .setup = plane_setup, .init = plane_init, .train_batch = plane_train, .validate_batch = plane_validate);

/* ---- a run ---- */

static char data_config[PATH_SIZE + 8], data_path[PATH_SIZE];

static struct {
    int     pid, lost, kills, hung;
    int64_t kill_at;
    double  loss; /* of the last validation */
} followed;

static int on_event(void *user, const manta_sgd_event *event)
{
    (void)user;
    if (event->kind == MANTA_SGD_WORKER && event->rank == event->workers - 1)
        followed.pid = event->pid;
    followed.lost += event->kind == MANTA_SGD_LOST;
    followed.hung += event->kind == MANTA_SGD_HUNG;
    followed.loss = event->kind == MANTA_SGD_VALIDATED ? event->loss : followed.loss;
    if (event->kind == MANTA_SGD_STEP && followed.kills > 0 && event->step >= followed.kill_at && followed.pid > 1) {
        CHECK_EQ(kill(followed.pid, SIGKILL), 0);
        followed.kills--;
        followed.pid = 0; /* until we hear of the next */
    }
    return 0;
}

static void data_make(void)
{
    uint8_t  record[RECORD];
    uint32_t state = 11;
    snprintf(data_path, sizeof data_path, "%s/plane.bin", getenv("XDG_RUNTIME_DIR"));
    snprintf(data_config, sizeof data_config, "data=%s", data_path);
    FILE *file = fopen(data_path, "wbe");
    CHECK(file);
    for (int r = 0; r < RECORDS; r++) {
        for (int i = 0; i < RECORD; i++) {
            state = state * 1664525u + 1013904223u;
            record[i] = (uint8_t)(state >> 24);
        }
        CHECK_EQ(fwrite(record, sizeof record, 1, file), 1);
    }
    CHECK_EQ(fclose(file), 0);
}

static void trouble_make(const char *kind, int count)
{
    for (int i = 0; i < count; i++) {
        char path[PATH_SIZE + 32];
        snprintf(path, sizeof path, "%s.%s%d", data_path, kind, i);
        FILE *file = fopen(path, "wbe");
        CHECK(file && fclose(file) == 0);
    }
}

struct shape {
    int    workers;
    double cpus;
};

static manta_sgd_opts options(struct shape shape, const char **config)
{
    followed.pid = followed.lost = followed.kills = followed.hung = 0;
    config[0] = data_config;
    return (manta_sgd_opts){.scaling = {.max_workers = shape.workers, .cpus = shape.cpus},
                            .run = {.epochs = 4, .batch = BATCH, .shards = 8, .log_steps = 5},
                            .failure.max_failures = -1,
                            .optimizer = {.lr = 0.01, .clip_norm = 3},
                            .config = config,
                            .seed = 7,
                            .on_event = on_event};
}

static manta_sgd_result fit(const char *name, const manta_sgd_opts *opts)
{
    manta_error      e;
    manta_sgd_result r;
    CHECK_CODE(manta_sgd_fit(name, opts, &r, &e), MANTA_OK, &e);
    return r;
}

static void refuse(const char *name, const manta_sgd_opts *opts, manta_status code, const char *word)
{
    manta_error      e;
    manta_sgd_result r;
    CHECK_CODE(manta_sgd_fit(name, opts, &r, &e), code, &e);
    CHECK_SAYS(e.message, word);
}

/* ---- cases ---- */

/* A model of the library's on a text, so that records are looked up; with precision as given. */
static void builtin_as(const char *precision)
{
    static char               path[PATH_SIZE + 16];
    const char               *config[] = {NULL, "layers=2", "width=32", "heads=2", "context=16", precision, NULL};
    static const struct shape shapes[] = {{1, 1}, {2, 1}, {1, 2}, {1, 2}};
    uint64_t                  wanted = 0;
    double                    loss = 0;
    snprintf(path, sizeof path, "data=%s.txt", data_path);
    FILE *file = fopen(path + strlen("data="), "wbe");
    CHECK(file);
    for (int i = 0; i < 600; i++)
        CHECK(fprintf(file, "%d and %d is %d\n", i % 7, i % 5, i % 7 + i % 5) > 0);
    CHECK_EQ(fclose(file), 0);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        manta_sgd_opts opts = options(shapes[s], config);
        config[0] = path;
        opts.run.epochs = 2;
        int is_killed = s == 3, restarts = 0;
        for (int i = 0; i < (is_killed ? TRIES : 1) && restarts == 0; i++) { /* it may be through before the blow comes */
            followed.kills = is_killed;
            followed.kill_at = 5;
            manta_sgd_result r = fit("gpt2", &opts);
            CHECK(s == 0 || r.weights == wanted);
            CHECK(s == 0 || followed.loss == loss);
            wanted = r.weights;
            loss = followed.loss;
            restarts = r.restarts;
        }
        CHECK_EQ(restarts, is_killed);
    }
    CHECK(isfinite(loss) && loss > 0);
    CHECK_EQ(unlink(path + strlen("data=")), 0);
}

static void devices_builtin(void)
{
    data_make();
    builtin_as("precision=float32");
    builtin_as("precision=bfloat16");
    CHECK_EQ(unlink(data_path), 0);
}

static void devices_own_operator(void)
{
    const char *config[] = {NULL, NULL, NULL, "slow_us=300", NULL};
    data_make();
    static const struct {
        struct shape shape;
        const char  *wanted, *together;
        int          kills, zero;
    } runs[] = {{{1, 1}, "wanted=1", "together=1", 0, 0}, {{2, 1}, "wanted=1", "together=1", 0, 0},
                {{1, 2}, "wanted=2", "together=2", 0, 0}, {{1, 2}, "wanted=2", "together=2", 2, 0},
                {{2, 0}, "wanted=1", "together=1", 0, 0}, {{1, 1.9}, "wanted=1", "together=1", 0, 0},
                {{1, 2}, "wanted=2", "together=2", 1, 1}};
    uint64_t wanted = 0;
    double   loss = 0;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        config[1] = runs[i].wanted;
        config[2] = runs[i].together;
        manta_sgd_opts opts = options(runs[i].shape, config);
        opts.optimizer.zero = runs[i].zero;
        trouble_make("kill", runs[i].kills);
        manta_sgd_result r = fit("plane", &opts);
        CHECK_EQ(r.restarts, runs[i].kills);
        CHECK(i == 0 || r.weights == wanted);
        CHECK(i == 0 || followed.loss == loss);
        wanted = r.weights;
        loss = followed.loss;
    }
    CHECK_EQ(unlink(data_path), 0);
}

/* Two workers of two devices each, one of which dies, and whose place the other takes at first: 4 parts a device, then 8. */
static void devices_shrink_and_grow(void)
{
    const char *config[] = {NULL, "wanted=1", "slow_us=300", NULL};
    data_make();
    manta_sgd_opts opts = options((struct shape){1, 1}, config);
    uint64_t       wanted = fit("plane", &opts).weights;
    config[1] = "wanted=2";
    opts = options((struct shape){2, 2}, config);
    opts.scaling.min_workers = 1;
    trouble_make("kill", 2);
    manta_sgd_result r = fit("plane", &opts);
    CHECK_EQ(r.restarts, 2);
    CHECK(r.weights == wanted);
    CHECK_EQ(unlink(data_path), 0);
}

/* One thread of a worker hangs, asleep, the others wait for it: the worker shows no more life, and is replaced. One that works for
 * longer than the limit, or gets no CPU, is waited for. */
static void devices_hang(void)
{
    static const char *const kinds[] = {"hang", "spin", "starve"};
    const char              *config[] = {NULL, "wanted=1", NULL};
    data_make();
    manta_sgd_opts opts = options((struct shape){1, 1}, config);
    uint64_t       wanted = fit("plane", &opts).weights;
    config[1] = "wanted=2";
    for (int i = 0; i < 3; i++) {
        bool hangs = i == 0;
        trouble_make(kinds[i], 1);
        opts = options((struct shape){1, 2}, config);
        opts.failure.hang_after = 0.9;
        manta_sgd_result r = fit("plane", &opts);
        CHECK_EQ(followed.hung > 0, hangs);
        CHECK_EQ(r.restarts > 0, hangs);
        CHECK(r.weights == wanted);
    }
    CHECK_EQ(unlink(data_path), 0);
}

static void devices_few_parts(void)
{
    const char *config[] = {NULL, "wanted=2", "together=2", NULL};
    data_make();
    manta_sgd_opts opts = options((struct shape){1, 4}, config); /* of a step there are 2 parts */
    opts.run.shards = 2;
    (void)fit("plane", &opts);
    config[1] = "wanted=1", config[2] = "together=1";
    opts = options((struct shape){2, 2}, config);
    opts.run.shards = 2;
    (void)fit("plane", &opts);
    const char *alone[] = {NULL, "wanted=1", "alone=1", NULL};
    opts = options((struct shape){1, 2}, alone); /* the operator wants no more */
    (void)fit("plane", &opts);
    CHECK_EQ(unlink(data_path), 0);
}

static void devices_bad(void)
{
    const char *config[] = {NULL, "wanted=2", NULL, NULL};
    data_make();
    manta_sgd_opts opts = options((struct shape){1, 2}, config);
    config[2] = "fails=720"; /* step 16; all of it is bad */
    refuse("plane", &opts, MANTA_ETASK, "sample 720 is bad");
    config[2] = "fails=755"; /* of step 16, samples 720 to 767 in parts of 6: in the last two parts */
    refuse("plane", &opts, MANTA_ETASK, "sample 756 is bad");
    config[2] = "other_shape=1";
    refuse("plane", &opts, MANTA_ETASK, "the setup of device 1 named other parameters");
    config[1] = config[2] = NULL;
    static const double cpus[] = {-1, NAN, INFINITY, 1e9};
    for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++) {
        opts.scaling.cpus = cpus[i];
        refuse("plane", &opts, MANTA_EINVAL, "scaling.cpus is ");
    }
    opts.scaling.cpus = 64; /* the node has 4 */
    refuse("plane", &opts, MANTA_EUNSCHEDULABLE, "CPU");
    CHECK_EQ(unlink(data_path), 0);
}

#define FOUR_CPUS {.num_cpus = 4}, false, 0
static const struct test_case cases[] = {
    {"devices_builtin", devices_builtin, FOUR_CPUS},
    {"devices_own_operator", devices_own_operator, FOUR_CPUS},
    {"devices_shrink_and_grow", devices_shrink_and_grow, FOUR_CPUS},
    {"devices_hang", devices_hang, FOUR_CPUS},
    {"devices_few_parts", devices_few_parts, FOUR_CPUS},
    {"devices_bad", devices_bad, FOUR_CPUS},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
