/* SPDX-License-Identifier: Apache-2.0
 *
 * resume_test.c - checkpoints that a user asked for are all there, a run that is to pause leaves one, and what is taken up again is
 * what was left: whole, and of the same data.
 *
 * The operator's values follow its data, one step after another. Thread: the driver's main one.
 */
#include "tests/integration/harness.h"

#include <manta_sgd.h>

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORDS = 128, RECORD = 16, BATCH = 16, EPOCH_STEPS = RECORDS / BATCH, PATH_SIZE = 400 };

/* ---- the operator ---- */

struct follower {
    float  *w, *g;
    int64_t n, slow_us;
};

static manta_status follower_setup(manta_sgd *t, void **self)
{
    struct follower *m = *self = manta_sgd_alloc(t, sizeof *m);
    m->n = 4096;
    m->slow_us = manta_sgd_conf_i64(t, "slow_us", 0);
    manta_sgd_param(t, "w", MANTA_SGD_F32, 1, &m->n, &m->w, &m->g);
    return manta_sgd_data(t, manta_sgd_conf_str(t, "data", ""), &(manta_sgd_data_opts){.record = RECORD, .shuffle = true});
}

static manta_status follower_train(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    struct follower *m = self;
    double           loss = 0;
    for (int64_t r = 0; r < b->count; r++)
        for (int64_t i = 0; i < m->n; i++) {
            float error = m->w[i] - (float)((const uint8_t *)b->data)[r * RECORD + i % RECORD] / 256;
            m->g[i] += 2 * error / (float)b->count;
            loss += (double)(error * error) / (double)(b->count * m->n);
        }
    if (m->slow_us)
        usleep((useconds_t)m->slow_us);
    return manta_sgd_metric(t, "loss", loss);
}
MANTA_SGD_OPERATOR(follower, .setup = follower_setup, .train_batch = follower_train);

/* ---- a run ---- */

static char         folder[PATH_SIZE], data_config[PATH_SIZE + 32], slow_config[32];
static const char  *config[] = {data_config, slow_config, NULL};
static volatile int pause_flag;
static struct {
    int     saved, skipped, begun;
    int64_t pause_at, begun_step;
} seen;

static int on_event(void *user, const manta_sgd_event *event)
{
    (void)user;
    seen.saved += event->kind == MANTA_SGD_SAVED;
    seen.skipped += event->kind == MANTA_SGD_SKIPPED;
    seen.begun += event->kind == MANTA_SGD_BEGUN;
    seen.begun_step = event->kind == MANTA_SGD_BEGUN ? event->step : seen.begun_step;
    if (event->kind == MANTA_SGD_STEP && seen.pause_at && event->step >= seen.pause_at)
        pause_flag = 1;
    return 0;
}

static void data_write(const char *name, int records, uint32_t state)
{
    char path[PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wbe");
    CHECK(file);
    for (int i = 0; i < records * RECORD; i++) {
        state = state * 1664525u + 1013904223u;
        CHECK(fputc((int)(state >> 24), file) != EOF);
    }
    CHECK_EQ(fclose(file), 0);
}

static void data_use(const char *name)
{
    snprintf(data_config, sizeof data_config, "data=%s/%s", folder, name);
}

static void folder_make(void)
{
    snprintf(folder, sizeof folder, "%s/resume", getenv("XDG_RUNTIME_DIR"));
    CHECK_EQ(mkdir(folder, 0700), 0);
    data_write("data.bin", RECORDS, 5);
    data_use("data.bin");
}

static void folder_clear(void)
{
    char output[256];
    CHECK_EQ(test_program((char *[]){"rm", "-r", folder, NULL}, output, sizeof output), 0);
}

static manta_sgd_opts options(int workers, int epochs)
{
    memset(&seen, 0, sizeof seen);
    pause_flag = 0;
    snprintf(slow_config, sizeof slow_config, "slow_us=0");
    return (manta_sgd_opts){.scaling.max_workers = workers,
                            .run = {.storage = folder, .epochs = epochs, .batch = BATCH, .log_steps = 1},
                            .optimizer.lr = 0.05,
                            .config = config,
                            .on_event = on_event};
}

static manta_sgd_result fit(const manta_sgd_opts *opts)
{
    manta_error      e;
    manta_sgd_result r;
    CHECK_CODE(manta_sgd_fit("follower", opts, &r, &e), MANTA_OK, &e);
    return r;
}

static int checkpoints(void)
{
    char command[PATH_SIZE + 64], output[64];
    snprintf(command, sizeof command, "ls -d %s/train/step-* | wc -l", folder);
    CHECK_EQ(test_program((char *[]){"sh", "-c", command, NULL}, output, sizeof output), 0);
    return (int)strtol(output, NULL, 10);
}

/* ---- cases ---- */

/* As many as there are steps, however long the disk takes for one; of a state in shards too. */
static void every_step_kept(void)
{
    for (int zero = 0; zero < 2; zero++) {
        folder_make();
        manta_sgd_opts opts = options(2, 1);
        opts.checkpoint.every_steps = 1, opts.checkpoint.keep = EPOCH_STEPS;
        opts.optimizer.zero = zero;
        (void)fit(&opts);
        CHECK_EQ(checkpoints(), EPOCH_STEPS);
        CHECK_EQ(seen.saved, EPOCH_STEPS);
        folder_clear();
    }
}

/* Fails, with this code and word. */
static void refused(const manta_sgd_opts *opts, manta_status code, const char *word)
{
    manta_error      e;
    manta_sgd_result r;
    CHECK_CODE(manta_sgd_fit("follower", opts, &r, &e), code, &e);
    CHECK_SAYS(e.message, word);
}

/* Where nothing that is left is whole, the training of days does not begin anew by itself. */
static void all_damaged(void)
{
    folder_make();
    manta_sgd_opts opts = options(1, 1);
    opts.checkpoint.every_steps = 1;
    uint64_t want = fit(&opts).weights;
    CHECK_EQ(checkpoints(), 2);
    char command[PATH_SIZE + 64], output[64];
    snprintf(command, sizeof command, "truncate -s 100 %s/train/step-*/model.safetensors", folder);
    CHECK_EQ(test_program((char *[]){"sh", "-c", command, NULL}, output, sizeof output), 0);
    opts = options(1, 1);
    refused(&opts, MANTA_ECORRUPT, "none of 2 checkpoints is whole");
    refused(&opts, MANTA_ECORRUPT, "checkpoint.restart_damaged");
    CHECK_EQ(seen.skipped, 4);
    CHECK_EQ(seen.begun, 0);
    opts.checkpoint.restart_damaged = true;
    CHECK(fit(&opts).weights == want);
    CHECK(seen.begun == 1 && seen.begun_step == 0);
    folder_clear();
}

/* Other records, or another number of them: what the checkpoint says of its place in the data is not true there. */
static void other_data(void)
{
    folder_make();
    data_write("changed.bin", RECORDS, 6);
    data_write("fewer.bin", RECORDS / 2, 5);
    manta_sgd_opts opts = options(1, 1);
    double         loss = fit(&opts).loss;
    opts = options(1, 2);
    data_use("changed.bin");
    refused(&opts, MANTA_EINVAL, "other data");
    data_use("fewer.bin");
    refused(&opts, MANTA_EINVAL, "checkpoint.other_data");
    opts.checkpoint.other_data = true;
    manta_sgd_result r = fit(&opts); /* two epochs of half the data are done already */
    CHECK(seen.begun_step == EPOCH_STEPS && r.steps == EPOCH_STEPS);
    CHECK(r.loss == loss && loss > 0);
    data_use("data.bin");
    opts = options(1, 2);
    CHECK_EQ(fit(&opts).first_step, EPOCH_STEPS); /* the same data goes on, wherever it lies */
    folder_clear();
}

/* Pausing does not wait for an epoch's end, loses no step, and is not the end. */
static void pauses(void)
{
    folder_make();
    enum { LONG_EPOCHS = 200 }; /* of which few are made before it pauses */
    manta_sgd_opts opts = options(1, LONG_EPOCHS);
    uint64_t       want = fit(&opts).weights;
    folder_clear();
    for (int workers = 1; workers <= 2; workers++) {
        folder_make();
        opts = options(workers, LONG_EPOCHS);
        opts.pause = &pause_flag;
        snprintf(slow_config, sizeof slow_config, "slow_us=3000");
        seen.pause_at = 21;
        manta_sgd_result r = fit(&opts);
        CHECK_EQ(r.stopped, MANTA_SGD_PAUSED);
        CHECK(r.steps >= 21 && r.steps < LONG_EPOCHS * EPOCH_STEPS);
        CHECK(isfinite(r.loss) && r.loss > 0);
        opts = options(3 - workers, LONG_EPOCHS);
        opts.pause = &pause_flag;
        int64_t          done = r.steps;
        manta_sgd_result rest = fit(&opts);
        CHECK_EQ(rest.first_step, done);
        CHECK(rest.weights == want && !rest.stopped && rest.steps == LONG_EPOCHS * EPOCH_STEPS);
        folder_clear();
    }
}

#define TWO_CPUS {.num_cpus = 2}, false, 0
static const struct test_case cases[] = {
    {"every_step_kept", every_step_kept, TWO_CPUS},
    {"all_damaged", all_damaged, TWO_CPUS},
    {"other_data", other_data, TWO_CPUS},
    {"pauses", pauses, TWO_CPUS},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
