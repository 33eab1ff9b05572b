/* SPDX-License-Identifier: Apache-2.0
 *
 * comma.c - a program as one writes it for people who write 0,5: it takes its user's locale, and then uses Manta.
 *
 *   cluster    a cluster of its own with half a CPU more than one
 *   training   an operator that asks for a real number, checkpoints with scores, taken up again
 *   sweep      reals as choices, in a constraint, and what is exported
 *   report     a trial of `manta sweep`, by manta_report.h
 */
#include <manta_report.h>
#include <manta_sgd.h>
#include <manta_sweep.h>

#include <locale.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *what, const manta_error *e)
{
    fprintf(stderr, "%s: %s\n", what, e ? e->message : "wrong");
    return 1;
}

/* ---- cluster ---- */

MANTA_TASK(double, half, (double, x))
{
    return x / 2;
}

static int cluster(void)
{
    manta_error     e;
    double          y = 0;
    manta_task_opts opts = {.num_cpus = 1.5};
    manta_ref      *ref = half_remote(&opts, 3.0);
    if (manta_get_f64(ref, MANTA_FOREVER, &y, &e))
        return fail("half", &e);
    manta_free(ref);
    return y == 1.5 ? 0 : fail("half of 3", NULL);
}

/* ---- training ---- */

static manta_status setup(manta_sgd *t, void **self)
{
    float  *m = *self = manta_sgd_alloc(t, 2 * sizeof(float));
    int64_t one = 1;
    if (manta_sgd_conf_f64(t, "scale", 0) != 0.25)
        return manta_sgd_fail(t, MANTA_EINVAL, "scale is not 0.25");
    manta_sgd_param(t, "w", MANTA_SGD_F32, 1, &one, &m, &m + 1);
    return manta_sgd_data(t, "records", &(manta_sgd_data_opts){.record = sizeof(float)});
}

static manta_status batch(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    (void)self;
    (void)b;
    return manta_sgd_metric(t, "loss", 0.5);
}
MANTA_SGD_OPERATOR(constant, .setup = setup, .train_batch = batch, .validate_batch = batch);

static int training(int epochs)
{
    manta_error      e;
    manta_sgd_result r;
    manta_sgd_opts   opts = {.run = {.epochs = epochs, .batch = 4, .storage = "kept", .tracking = "tracked"},
                             .checkpoint = {.keep_best = 1, .every_steps = 4},
                             .optimizer = {.lr = 0.05},
                             .config = (const char *[]){"scale=0.25", NULL}};
    if (manta_sgd_fit("constant", &opts, &r, &e))
        return fail("training", &e);
    return r.steps == 4 * epochs ? 0 : fail("steps", NULL);
}

/* ---- sweep ---- */

static manta_status sums(manta_trial *t)
{
    manta_trial_report(t, 1, "loss", manta_trial_f64(t, "a") + manta_trial_f64(t, "b"));
    return MANTA_OK;
}
MANTA_TRIAL(sums);

static int sweep(void)
{
    manta_error        e;
    manta_sweep_result r;
    manta_sweep_axis   space[] = {MANTA_SWEEP_GRID("a", MANTA_SWEEP_VALUES("0.25", "0.5")), MANTA_SWEEP_UNIFORM("b", 0, 1), {0}};
    manta_sweep_opts   opts = {.name = "commas",
                               .storage = "sweeps",
                               .metric = "loss",
                               .trials = 4,
                               .space = space,
                               .constraints = (const char *[]){"1.5*b <= 0.75", NULL}};
    if (manta_sweep_run("sums", &opts, &r, &e))
        return fail("sweep", &e);
    manta_sweep_view *v = manta_sweep_look("sweeps", "commas", &e);
    FILE             *csv = fopen("commas.csv", "w"), *jsonl = fopen("commas.jsonl", "w");
    int failed = !v || !csv || !jsonl || manta_sweep_export(v, "csv", csv, &e) || manta_sweep_export(v, "jsonl", jsonl, &e);
    if (csv)
        fclose(csv);
    if (jsonl)
        fclose(jsonl);
    manta_sweep_view_free(v);
    return failed ? fail("export", &e) : 0;
}

/* ---- a trial ---- */

static int report(void)
{
    double x = manta_report_param("x", -1);
    manta_report(1, "loss", x / 2);
    return manta_report_done(2, "loss", x);
}

int main(int argc, char **argv)
{
    manta_error     e;
    char            text[8];
    const char     *what = argc > 1 ? argv[1] : "";
    manta_init_opts opts = {.num_cpus = strcmp(what, "cluster") == 0 ? 2.5 : 2};
    setlocale(LC_ALL, ""); /* workers do it too: they are this program */
    setlocale(LC_NUMERIC, "");
    snprintf(text, sizeof text, "%.1f", 0.5);
    if (strcmp(text, "0,5") != 0)
        return fail("this locale has no comma", NULL);
    if (strcmp(what, "report") == 0)
        return report();
    if (manta_init(&argc, &argv, &opts, &e))
        return manta_perror(&e), 1;
    int status = strcmp(what, "cluster") == 0 ? cluster() : strcmp(what, "training") == 0 ? training(1) || training(2) : sweep();
    return manta_shutdown() || status;
}
