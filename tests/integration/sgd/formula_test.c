/* SPDX-License-Identifier: Apache-2.0
 *
 * formula_test.c - the updates of a whole run against what the papers say they sum up to: nothing in between
 * counts a step twice, or from the wrong end.
 *
 * The operator has one weight, whose gradient is always 1, and writes down which sample has found which
 * weight. Thread: the driver's main one.
 */
#include "tests/integration/harness.h"

#include <manta_sgd.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BATCH = 8, STEPS = 16, RECORDS = BATCH * STEPS, PATH_SIZE = 512 };

struct steady {
    float      *weight, *gradient;
    int64_t     one;
    const char *notes;
};

static manta_status steady_setup(manta_sgd *t, void **self)
{
    struct steady *m = *self = manta_sgd_alloc(t, sizeof *m);
    m->one = 1;
    m->notes = manta_sgd_conf_str(t, "notes", "");
    manta_sgd_param(t, "weight", MANTA_SGD_F32, 1, &m->one, &m->weight, &m->gradient);
    return manta_sgd_data(t, manta_sgd_conf_str(t, "data", ""), &(manta_sgd_data_opts){.record = 1});
}

static manta_status steady_train(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    struct steady *m = self;
    FILE          *f = fopen(m->notes, "ae");
    if (!f || fprintf(f, "%lld %.9g\n", (long long)b->sample, (double)m->weight[0]) < 0 || fclose(f) != 0)
        abort();
    m->gradient[0] = 1;
    return manta_sgd_metric(t, "loss", 1);
}
MANTA_SGD_OPERATOR(steady, .setup = steady_setup, .train_batch = steady_train);

static char notes[PATH_SIZE], data[PATH_SIZE];

static void run(const manta_sgd_opts *how)
{
    char             notes_text[PATH_SIZE + 16], data_text[PATH_SIZE + 16], records[RECORDS] = {0};
    const char      *config[] = {notes_text, data_text, NULL};
    manta_sgd_opts   opts = *how;
    manta_sgd_result r;
    manta_error      e;
    snprintf(notes, sizeof notes, "%s/notes", getenv("XDG_RUNTIME_DIR"));
    snprintf(data, sizeof data, "%s/data", getenv("XDG_RUNTIME_DIR"));
    snprintf(notes_text, sizeof notes_text, "notes=%s", notes);
    snprintf(data_text, sizeof data_text, "data=%s", data);
    FILE *f = fopen(data, "wbe");
    CHECK(f && fwrite(records, sizeof records, 1, f) == 1 && fclose(f) == 0);
    opts.run.epochs = 1, opts.run.batch = BATCH;
    opts.scaling.max_workers = 1;
    opts.config = config;
    CHECK_CODE(manta_sgd_fit("steady", &opts, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.steps, STEPS);
}

/* Each note: after as many steps the weight has gone as far as `way` says. */
static void check_way(double (*way)(int steps))
{
    long long sample;
    double    weight, first = 0;
    int       last = -1;
    FILE     *f = fopen(notes, "re");
    CHECK(f);
    while (fscanf(f, "%lld %lf", &sample, &weight) == 2) {
        last = (int)(sample / BATCH);
        first = sample == 0 ? weight : first;
        if (!(fabs(first - weight - way(last)) <= 1e-5))
            test_fail(__FILE__, __LINE__, "after %d steps the weight has gone %g instead of %g", last, first - weight, way(last));
    }
    CHECK_EQ(last, STEPS - 1);
    CHECK(fclose(f) == 0 && unlink(notes) == 0 && unlink(data) == 0);
}

enum { WARMUP = 5 };
static const double lr = 0.01;

/* The mean of gradients that are all 1 is 1, and so is that of their squares, once both are corrected for how
 * many there were: each step goes by its rate, first those of the warm-up. */
static double adamw_way(int steps)
{
    int warm = steps < WARMUP ? steps : WARMUP;
    return lr * (warm * (warm + 1) / 2.0 / WARMUP + steps - warm);
}

static void adamw_with_warmup(void)
{
    run(&(manta_sgd_opts){
        .optimizer = {
            .kind = MANTA_SGD_ADAMW, .lr = lr, .weight_decay = -1, .schedule = MANTA_SGD_LR_CONSTANT, .warmup_steps = WARMUP}});
    check_way(adamw_way);
}

/* The velocity after k steps is the sum of the first k powers of one half. */
static double momentum_way(int steps)
{
    double way = 0;
    for (int k = 1; k <= steps; k++)
        way += lr * (1 - pow(0.5, k)) / 0.5;
    return way;
}

static void momentum(void)
{
    run(&(manta_sgd_opts){.optimizer = {.lr = lr, .momentum = 0.5, .schedule = MANTA_SGD_LR_CONSTANT}});
    check_way(momentum_way);
}

#define ONE_CPU {.num_cpus = 1}, false, 0
static const struct test_case cases[] = {
    {"adamw_with_warmup", adamw_with_warmup, ONE_CPU},
    {"momentum", momentum, ONE_CPU},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
