/* SPDX-License-Identifier: Apache-2.0
 *
 * next_test.c - a generation that is made ready beside the one that computes, whose newcomers die while it waits: others come, and
 * the run ends with the weights of a calm one.
 *
 * The operator's values follow its data; each batch takes some time, until all has happened. Gates let the test say how many
 * workers may start, and which of them are doomed: those die soon after they are ready. Thread: the driver's main one; in a doomed
 * worker one more.
 */
#include "tests/integration/harness.h"
#include "tests/integration/sgd/gates.h"

#include <manta_sgd.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { RECORDS = 128, RECORD = 16, BATCH = 16, EPOCHS = 40, SHARDS = 8, SLOW_MS = 20, DOOMED_MS = 100, PATH_SIZE = 400 };
enum { FIRST = 2, DOOMED = 4 }; /* who may start at once, and who dies then; another one stays */

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
        int       gate = gates_pass(gates_of(data));
        m->is_last = gate == FIRST + DOOMED;
        if (gate >= FIRST && gate < FIRST + DOOMED)
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
        test_sleep_ms(SLOW_MS);
    return manta_sgd_metric(t, "loss", loss);
}
MANTA_SGD_OPERATOR(follower, .setup = follower_setup, .train_batch = follower_train);

/* ---- a run ---- */

static char data_config[PATH_SIZE + 8], *const data_path = data_config + sizeof "data=" - 1;

static struct {
    int stage, workers; /* workers: after the last change */
    int pid;            /* of rank 1 */
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

static manta_sgd_result fit(int workers, bool has_gates)
{
    manta_error      e;
    manta_sgd_result r;
    const char      *config[] = {data_config, has_gates ? "gates=1" : "gates=0", NULL};
    manta_sgd_opts   opts = {.scaling = {.min_workers = 1, .max_workers = workers},
                             .run = {.epochs = EPOCHS, .batch = BATCH, .shards = SHARDS, .log_steps = 1},
                             .failure.max_failures = -1,
                             .optimizer.lr = 0.05,
                             .config = config,
                             .on_event = has_gates ? on_event : NULL};
    CHECK_CODE(manta_sgd_fit("follower", &opts, &r, &e), MANTA_OK, &e);
    return r;
}

/* ---- cases ---- */

/* While the step takes longer that they wait for. */
static void next_ones_die(void)
{
    data_make();
    uint64_t wanted = fit(1, false).weights;
    gates_open(gates_of(data_path), FIRST);
    manta_sgd_result r = fit(2, true);
    CHECK_EQ(seen.stage, 2);
    CHECK_EQ(seen.workers, 2);
    CHECK(r.restarts >= 1 && r.restarts <= 1 + DOOMED); /* one that is a member before it dies counts */
    CHECK(r.weights == wanted);
    CHECK_EQ(unlink(data_path), 0);
    CHECK_EQ(unlink(gates_of(data_path)) | unlink(over_of(data_path)), 0);
}

static const struct test_case cases[] = {
    {"next_ones_die", next_ones_die, {.num_cpus = 2}, false, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
