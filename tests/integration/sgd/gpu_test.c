/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_test.c - training jobs with config device=cuda, by real workers on an emulated device (tests/gpu/emulator): any number of
 * workers gives the same weights, after kills and from checkpoints too; a bad batch is named.
 *
 * ctest names the plugin and the driver's library of the emulator in the environment. The emulator is slow, so the models are
 * small. Thread: the driver's main one; on_event runs there.
 */
#include "tests/integration/harness.h"

#include <manta_sgd.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORDS = 96, INPUTS = 6, CLASSES = 3, BATCH = 48, PATH_SIZE = 400, TRIES = 20 };
enum { EPOCHS = TEST_SLOWER > 1 ? 1000 : 40 }; /* there is time for blows; under a sanitizer the kernels are the CPU's */

/* ---- data: two arrays of NumPy, and a text ---- */

static char folder[PATH_SIZE], data[PATH_SIZE + 32], labels[PATH_SIZE + 32], validate[PATH_SIZE + 32],
    validate_labels[PATH_SIZE + 48], text[PATH_SIZE + 32];
static float   records[RECORDS][INPUTS];
static uint8_t tags[RECORDS];

static void array_write(const char *config, const char *type, const char *shape, const void *bytes, size_t size)
{
    char  head[128];
    FILE *file = fopen(strchr(config, '=') + 1, "wbe");
    int   used = snprintf(head, sizeof head, "\x93NUMPY%c%cv%c{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", 1, 0, 0,
                          type, shape);
    CHECK(file && used > 0);
    memset(head + used, ' ', sizeof head - (size_t)used);
    head[8] = sizeof head - 10, head[9] = 0;
    head[sizeof head - 1] = '\n';
    CHECK(fwrite(head, sizeof head, 1, file) == 1 && fwrite(bytes, size, 1, file) == 1 && fclose(file) == 0);
}

static void records_write(void)
{
    char shape[32];
    snprintf(shape, sizeof shape, "%d, %d", RECORDS, INPUTS);
    array_write(data, "<f4", shape, records, sizeof records);
}

static void data_make(void)
{
    uint32_t state = 5;
    char     shape[32];
    CHECK_EQ(mkdir(folder, 0700), 0);
    snprintf(data, sizeof data, "data=%s/records.npy", folder);
    snprintf(labels, sizeof labels, "labels=%s/labels.npy", folder);
    snprintf(validate, sizeof validate, "validate=%s/records.npy", folder);
    snprintf(validate_labels, sizeof validate_labels, "validate_labels=%s/labels.npy", folder);
    snprintf(text, sizeof text, "data=%s/text", folder);
    for (int r = 0; r < RECORDS; r++) {
        tags[r] = (uint8_t)(r % CLASSES);
        for (int i = 0; i < INPUTS; i++) {
            state = state * 1664525u + 1013904223u;
            records[r][i] = (float)(state >> 16) / 65536.0f + (i == tags[r] ? 1.0f : 0.0f);
        }
    }
    records_write();
    snprintf(shape, sizeof shape, "%d,", RECORDS);
    array_write(labels, "|u1", shape, tags, sizeof tags);
    FILE *file = fopen(strchr(text, '=') + 1, "wbe");
    CHECK(file);
    for (int i = 0; i < 60; i++)
        CHECK(fprintf(file, "%d and %d is %d\n", i % 7, i % 5, i % 7 + i % 5) > 0);
    CHECK_EQ(fclose(file), 0);
}

static void data_clear(void)
{
    char output[256];
    CHECK_EQ(test_program((char *[]){"rm", "-r", folder, NULL}, output, sizeof output), 0);
}

/* ---- a run ---- */

static const char *mlp[] = {"device=cuda", data, labels, validate, validate_labels, "hidden=5", NULL};
static const char *gpt2[] = {"device=cuda", text, "precision=bfloat16", "layers=1", "width=64", "heads=1", "context=8", NULL};

static struct {
    int     pids[8], kills, saved, begun_at;
    int64_t kill_at, break_at;
    double  loss; /* of the last validation */
} followed;

static int on_event(void *user, const manta_sgd_event *event)
{
    (void)user;
    if (event->kind == MANTA_SGD_WORKER)
        followed.pids[event->rank] = event->pid;
    followed.saved += event->kind == MANTA_SGD_SAVED;
    followed.begun_at = event->kind == MANTA_SGD_BEGUN ? (int)event->step : followed.begun_at;
    followed.loss = event->kind == MANTA_SGD_VALIDATED ? event->loss : followed.loss;
    if (event->kind == MANTA_SGD_STEP && followed.break_at && event->step >= followed.break_at) {
        FILE *file = fopen(getenv("EMULATOR_FAILS"), "wbe");
        CHECK(file && fclose(file) == 0);
        followed.break_at = 0;
    }
    int *victim = &followed.pids[event->workers - 1];
    if (event->kind == MANTA_SGD_STEP && followed.kills > 0 && event->step >= followed.kill_at && *victim > 1) {
        CHECK_EQ(kill(*victim, SIGKILL), 0);
        followed.kills--;
        *victim = 0; /* until we hear of the next */
    }
    return 0;
}

static manta_sgd_opts options(int workers, int epochs, const char **config)
{
    memset(&followed, 0, sizeof followed);
    return (manta_sgd_opts){.scaling.max_workers = workers,
                            .run = {.epochs = epochs, .batch = BATCH, .shards = 8, .log_steps = 1},
                            .failure.max_failures = -1,
                            .optimizer = {.kind = MANTA_SGD_ADAMW, .lr = 0.03, .clip_norm = 1},
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

/* ---- cases ---- */

static void gpu_emulated_same_bits(void)
{
    uint64_t wanted = 0;
    double   loss = 0;
    data_make();
    for (int workers = 1; workers <= 4; workers *= 2) {
        manta_sgd_opts   opts = options(workers, 6, mlp);
        manta_sgd_result r = fit("mlp", &opts);
        CHECK(workers == 1 || (r.weights == wanted && followed.loss == loss));
        wanted = r.weights;
        loss = followed.loss;
    }
    CHECK(loss > 0 && loss < 1.0); /* it has learned something: ln 3 is 1.1 */
    manta_sgd_opts opts = options(2, 6, mlp);
    opts.optimizer.zero = 1; /* in the host's memory: a length that is summed otherwise, so other bits, but the same learning */
    (void)fit("mlp", &opts);
    CHECK(fabs(followed.loss - loss) < 1e-3);
    mlp[0] = "device=cpu";
    opts = options(1, 6, mlp);
    (void)fit("mlp", &opts);
    CHECK(fabs(followed.loss - loss) < 1e-3);
    data_clear();
}

static void gpu_emulated_killed(void)
{
    data_make();
    manta_sgd_opts opts = options(1, EPOCHS, mlp);
    uint64_t       wanted = fit("mlp", &opts).weights;
    for (int workers = 1; workers <= 2; workers++) {
        int restarts = 0;
        for (int i = 0; i < TRIES && restarts < 2; i++) { /* it may be through before the blow comes */
            opts = options(workers, EPOCHS, mlp);
            followed.kills = 2;
            followed.kill_at = 20;
            manta_sgd_result r = fit("mlp", &opts);
            CHECK(r.weights == wanted);
            restarts = (int)r.restarts;
        }
        CHECK_EQ(restarts, 2);
    }
    data_clear();
}

/* The GPU of a worker fails in the middle: the worker is replaced, and the run ends as if nothing had been. */
static void gpu_emulated_fails(void)
{
    data_make();
    manta_sgd_opts opts = options(1, EPOCHS, mlp);
    uint64_t       wanted = fit("mlp", &opts).weights;
    for (int workers = 1; workers <= 2; workers++) {
        int restarts = 0;
        for (int i = 0; i < TRIES && restarts == 0; i++) { /* it may be through before anybody's device fails */
            opts = options(workers, EPOCHS, mlp);
            followed.break_at = 20;
            manta_sgd_result r = fit("mlp", &opts);
            CHECK(r.weights == wanted);
            restarts = (int)r.restarts;
            (void)unlink(getenv("EMULATOR_FAILS"));
        }
        CHECK_EQ(restarts, 1);
    }
    manta_error e;
    opts = options(1, EPOCHS, mlp);
    opts.failure.max_failures = 0;
    followed.break_at = 20;
    CHECK_CODE(manta_sgd_fit("mlp", &opts, NULL, &e), MANTA_EWORKER_DIED, &e);
    CHECK_SAYS(e.message, "its GPU has failed: wait for the emulated GPU (error 700 of the device's)");
    data_clear();
}

/* Only with an NCCL: that sums do go between the devices shows where a worker dies in one. */
static void gpu_emulated_dies_in_sum(void)
{
    manta_error     e;
    manta_init_opts init = {.num_cpus = 4, .num_gpus = 4};
    CHECK_EQ(setenv("NCCL_EMULATED", "data-dies", 1), 0);
    CHECK_CODE(manta_init(&test_argc, &test_argv, &init, &e), MANTA_OK, &e);
    data_make();
    manta_sgd_opts opts = options(2, 1000 * EPOCHS, mlp); /* it is over when the communicator is there */
    opts.failure.max_failures = 0;
    CHECK_CODE(manta_sgd_fit("mlp", &opts, NULL, &e), MANTA_EWORKER_DIED, &e);
    CHECK_SAYS(e.message, "SIGKILL");
    data_clear();
    manta_shutdown();
}

static void gpu_emulated_checkpoints(void)
{
    data_make();
    manta_sgd_opts opts = options(1, 6, mlp);
    uint64_t       wanted = fit("mlp", &opts).weights;
    opts = options(2, 3, mlp);
    opts.optimizer.schedule = MANTA_SGD_LR_CONSTANT;
    opts.run.storage = folder;
    opts.checkpoint.every_steps = 2;
    uint64_t half = fit("mlp", &opts).weights;
    CHECK(followed.saved >= 1 && half != wanted);
    opts = options(1, 6, mlp);
    opts.optimizer.schedule = MANTA_SGD_LR_CONSTANT;
    wanted = fit("mlp", &opts).weights;
    opts.run.storage = folder;
    CHECK(fit("mlp", &opts).weights == wanted);
    CHECK_EQ(followed.begun_at, 6);
    data_clear();
}

static void gpu_emulated_bad_batch(void)
{
    manta_error      e;
    manta_sgd_result r;
    data_make();
    records[40][2] = NAN;
    records_write();
    for (int workers = 1; workers <= 2; workers++) {
        manta_sgd_opts opts = options(workers, 1, mlp);
        CHECK_CODE(manta_sgd_fit("mlp", &opts, &r, &e), MANTA_ETASK, &e);
        CHECK_SAYS(e.message, "the loss is not finite");
        CHECK_SAYS(e.message, "from virtual rank ");
    }
    mlp[0] = "device=cuda:7";
    manta_sgd_opts opts = options(1, 1, mlp);
    CHECK_CODE(manta_sgd_fit("mlp", &opts, &r, &e), MANTA_ETASK, &e);
    CHECK_SAYS(e.message, "config device is \"cuda:7\": there is one emulated device");
    data_clear();
}

/* GPT-2 on bfloat16, of which the model keeps a copy of the parameters. */
static void gpu_emulated_language(void)
{
    uint64_t wanted = 0;
    data_make();
    for (int workers = 1; workers <= 2; workers++) {
        manta_sgd_opts opts = options(workers, 1, gpt2);
        opts.run.shards = 4, opts.run.batch = 8;
        manta_sgd_result r = fit("gpt2", &opts);
        CHECK(workers == 1 || r.weights == wanted);
        wanted = r.weights;
        CHECK(isfinite(followed.loss) && followed.loss < 5.5);
    }
    data_clear();
}

#define FOUR_GPUS {.num_cpus = 4, .num_gpus = 4}, false, 0
static const struct test_case cases[] = {
    {"gpu_emulated_same_bits", gpu_emulated_same_bits, FOUR_GPUS},
    {"gpu_emulated_killed", gpu_emulated_killed, FOUR_GPUS},
    {"gpu_emulated_fails", gpu_emulated_fails, FOUR_GPUS},
    {"gpu_emulated_dies_in_sum", gpu_emulated_dies_in_sum, {0}, true, 0},
    {"gpu_emulated_checkpoints", gpu_emulated_checkpoints, FOUR_GPUS},
    {"gpu_emulated_bad_batch", gpu_emulated_bad_batch, FOUR_GPUS},
    {"gpu_emulated_language", gpu_emulated_language, FOUR_GPUS},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char        fails[PATH_SIZE + 8];
    snprintf(folder, sizeof folder, "%s/gpu", runtime ? runtime : "");
    snprintf(fails, sizeof fails, "%s.fails", folder);
    setenv("EMULATOR_FAILS", fails, 1); /* for the workers, who inherit it */
    return test_main(argc, argv, cases);
}
