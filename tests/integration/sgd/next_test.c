/* SPDX-License-Identifier: Apache-2.0
 *
 * next_test.c - a generation that is made ready beside the one that computes, whose newcomers die while it waits: others come, and
 * the run ends with the weights of a calm one. One that still starts when the run is over has ended when the driver goes on.
 *
 * The operator's values follow its data; each batch takes some time, until all has happened. Gates let the test say how many
 * workers may start, and which of them are doomed: those die soon after they are ready. Thread: the driver's main one; in a doomed
 * worker one more.
 */
#include "tests/integration/harness.h"
#include "tests/integration/sgd/gates.h"

#include <manta_sgd.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    RECORDS = 128,
    RECORD = 16,
    BATCH = 16,
    EPOCHS = 40,
    SHARDS = 8,
    STEPS = EPOCHS * RECORDS / BATCH,
    SLOW_MS = 20,
    SLOWER_MS = 100
};
enum { DOOMED_MS = 100, PATH_SIZE = 400 };
/* Who may start at once, and who dies then; another one stays. Of three in a row that were not ready when they died, as may be
 * where others have the CPUs, the run would hire no more. */
enum { FIRST = 2, DOOMED = 2, MOST = 8 };

/* ---- the operator ---- */

struct follower {
    float *w, *g;
    bool   is_slow, is_last; /* is_last: the one that comes behind the doomed ones */
};

/* A file that is there when all has happened. */
static const char *over_of(const char *data)
{
    static char path[PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s.over", data);
    return path;
}

static const char *gates_of(const char *data)
{
    static char path[PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s.gates", data);
    return path;
}

/* Where workers write down who they are; the driver makes the file. */
static const char *pids_of(const char *data)
{
    static char path[PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s.pids", data);
    return path;
}

static void pid_note(const char *path)
{
    FILE *file = access(path, F_OK) == 0 ? fopen(path, "ae") : NULL;
    CHECK(!file || (fprintf(file, "%d\n", (int)getpid()) > 0 && fclose(file) == 0));
}

static void *end_soon(void *unused)
{
    (void)unused;
    test_sleep_ms(DOOMED_MS);
    raise(SIGKILL);
    return NULL;
}

static manta_status follower_setup(manta_sgd *t, void **self)
{
    struct follower *m = *self = manta_sgd_alloc(t, sizeof *m);
    int64_t          n = RECORD;
    const char      *data = manta_sgd_conf_str(t, "data", NULL);
    m->is_slow = manta_sgd_conf_i64(t, "gates", 0);
    if (m->is_slow && !manta_sgd_is_driver(t)) {
        pthread_t thread;
        pid_note(pids_of(data));
        int gate = gates_pass(gates_of(data)), doomed = (int)manta_sgd_conf_i64(t, "doomed", 0);
        m->is_last = doomed && gate == FIRST + doomed;
        if (gate >= FIRST && gate < FIRST + doomed)
            CHECK_EQ(pthread_create(&thread, NULL, end_soon, NULL) || pthread_detach(thread), 0);
    }
    manta_sgd_param(t, "w", MANTA_SGD_F32, 1, &n, &m->w, &m->g);
    return manta_sgd_data(t, data, &(manta_sgd_data_opts){.record = RECORD, .shuffle = true});
}

static manta_status follower_train(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    struct follower *m = self;
    const char      *over = over_of(manta_sgd_conf_str(t, "data", NULL));
    double           loss = 0;
    for (int64_t r = 0; r < b->count; r++)
        for (int64_t i = 0; i < RECORD; i++) {
            float error = m->w[i] - (float)((const uint8_t *)b->data)[r * RECORD + i] / 256;
            m->g[i] += 2 * error / (float)b->count;
            loss += (double)(error * error) / (double)b->count;
        }
    if (m->is_last)
        gates_open(over, 1);
    m->is_last = false;
    m->is_slow = m->is_slow && access(over, F_OK) != 0;
    if (m->is_slow)
        test_sleep_ms(manta_sgd_step(t) < STEPS / 2 ? SLOW_MS : SLOWER_MS); /* where little is left more is made of it */
    return manta_sgd_metric(t, "loss", loss);
}
MANTA_SGD_OPERATOR(follower, .setup = follower_setup, .train_batch = follower_train);

/* ---- a run ---- */

static char data_config[PATH_SIZE + 8], *const data_path = data_config + sizeof "data=" - 1;

static struct {
    int stage, workers; /* workers: after the last change */
    int pid;            /* of rank 1 */
    int pids[MOST], resized;
} seen;

static void data_make(void)
{
    uint8_t bytes[RECORDS * RECORD];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * i / 7);
    snprintf(data_config, sizeof data_config, "data=%s/follower.bin", getenv("XDG_RUNTIME_DIR"));
    FILE *file = fopen(data_path, "wbe");
    CHECK(file && fwrite(bytes, sizeof bytes, 1, file) == 1 && fclose(file) == 0);
}

/* One of two is killed; of those that come for it some are doomed, the last is not. */
static int on_event(void *user, const manta_sgd_event *event)
{
    (void)user;
    if (event->kind == MANTA_SGD_WORKER && event->rank == 1)
        seen.pid = event->pid;
    if (event->kind == MANTA_SGD_RESIZED)
        seen.workers = event->workers;
    if (event->kind == MANTA_SGD_STEP && seen.stage == 0 && event->workers == 2) {
        CHECK_EQ(kill(seen.pid, SIGKILL), 0);
        seen.stage++;
    } else if (event->kind == MANTA_SGD_STEP && seen.stage == 1 && event->workers == 1) {
        gates_open(gates_of(data_path), DOOMED + 1);
        seen.stage++;
    }
    return 0;
}

/* Those that are written down; how many. */
static int pids_read(int pids[FIRST])
{
    int   count = 0;
    FILE *file = fopen(pids_of(data_path), "re");
    CHECK(file);
    while (count < FIRST && fscanf(file, "%d\n", &pids[count]) == 1)
        count++;
    CHECK_EQ(fclose(file), 0);
    return count;
}

/* The run is over when a second worker waits at its gate. */
static int on_event_of_two(void *user, const manta_sgd_event *event)
{
    int pids[FIRST];
    (void)user;
    if (event->kind == MANTA_SGD_WORKER && event->rank == 0)
        seen.pid = event->pid;
    if (event->kind == MANTA_SGD_STEP && seen.stage == 0 && pids_read(pids) == FIRST) {
        gates_open(over_of(data_path), 1);
        seen.stage++;
    }
    return 0;
}

/* Half of eight workers die; those that come for them start when the others have made a step. */
static int on_event_of_eight(void *user, const manta_sgd_event *event)
{
    (void)user;
    if (event->kind == MANTA_SGD_WORKER)
        seen.pids[event->rank] = event->pid;
    seen.resized += event->kind == MANTA_SGD_RESIZED;
    seen.workers = event->workers;
    if (event->kind != MANTA_SGD_STEP)
        return 0;
    if (seen.stage == 0 && event->workers == MOST) {
        for (int rank = 0; rank < MOST / 2; rank++)
            CHECK_EQ(kill(seen.pids[rank], SIGKILL), 0);
        seen.stage++;
    } else if (seen.stage == 1 && event->workers == MOST / 2) {
        gates_open(gates_of(data_path), MOST / 2);
        seen.stage++;
    } else if (seen.stage == 2 && event->workers == MOST) {
        gates_open(over_of(data_path), 1);
        seen.stage++;
    }
    return 0;
}

typedef int on_event_fn(void *user, const manta_sgd_event *event);

static manta_sgd_result fit(int least, int workers, const char *doomed, on_event_fn *on)
{
    manta_error      e;
    manta_sgd_result r;
    const char      *config[] = {data_config, on ? "gates=1" : "gates=0", doomed, NULL};
    manta_sgd_opts   opts = {.scaling = {.min_workers = least, .max_workers = workers},
                             .run = {.epochs = EPOCHS, .batch = BATCH, .shards = SHARDS, .log_steps = 1},
                             .failure.max_failures = -1,
                             .optimizer.lr = 0.05,
                             .config = config,
                             .on_event = on};
    CHECK_CODE(manta_sgd_fit("follower", &opts, &r, &e), MANTA_OK, &e);
    return r;
}

/* ---- cases ---- */

/* While the step takes longer that they wait for. */
static void next_ones_die(void)
{
    data_make();
    uint64_t wanted = fit(1, 1, NULL, NULL).weights;
    gates_open(gates_of(data_path), FIRST);
    manta_sgd_result r = fit(1, 2, "doomed=2", on_event);
    static_assert(DOOMED == 2, "as the run is told");
    CHECK_EQ(seen.stage, 2);
    CHECK_EQ(seen.workers, 2);
    CHECK(r.restarts >= 1 && r.restarts <= 1 + DOOMED); /* one that is a member before it dies counts */
    CHECK(r.weights == wanted);
    CHECK_EQ(unlink(data_path), 0);
    CHECK_EQ(unlink(gates_of(data_path)) | unlink(over_of(data_path)), 0);
}

static bool has_ended(int pid)
{
    struct pollfd p = {(int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0};
    bool          has = p.fd < 0 ? errno == ESRCH : poll(&p, 1, 0) == 1;
    if (p.fd >= 0)
        close(p.fd);
    return has;
}

/* In a user's setup, which may write: whoever clears away what it writes to need not wait for it. */
static void late_one_ends(void)
{
    int   pids[FIRST];
    FILE *file;
    data_make();
    CHECK((file = fopen(pids_of(data_path), "we")) && fclose(file) == 0);
    gates_open(gates_of(data_path), 1);
    manta_sgd_result r = fit(1, 2, NULL, on_event_of_two);
    CHECK_EQ(pids_read(pids), FIRST);
    CHECK(pids[0] == seen.pid || pids[1] == seen.pid);
    CHECK(has_ended(pids[0] == seen.pid ? pids[1] : pids[0]));
    CHECK_EQ(r.restarts, 0);
    CHECK_EQ(unlink(data_path) | unlink(pids_of(data_path)), 0);
    CHECK_EQ(unlink(gates_of(data_path)) | unlink(over_of(data_path)), 0);
}

/* The rest go on, and the others come back. */
static void half_killed(void)
{
    data_make();
    uint64_t wanted = fit(1, 1, NULL, NULL).weights;
    gates_open(gates_of(data_path), MOST);
    manta_sgd_result r = fit(MOST / 2, MOST, NULL, on_event_of_eight);
    CHECK_EQ(seen.stage, 3);
    CHECK_EQ(r.restarts, MOST / 2);
    CHECK(r.resizes >= 2 && seen.resized == r.resizes);
    CHECK_EQ(seen.workers, MOST);
    CHECK(r.weights == wanted);
    CHECK_EQ(unlink(data_path) | unlink(gates_of(data_path)) | unlink(over_of(data_path)), 0);
}

static const struct test_case cases[] = {
    {"next_ones_die", next_ones_die, {.num_cpus = 2}, false, 0},
    {"late_one_ends", late_one_ends, {.num_cpus = 2}, false, 0},
    {"half_killed", half_killed, {.num_cpus = 2}, false, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
