/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep_demo.c - a hyperparameter sweep over a C function, with early stopping. Kill it and run it again: it resumes.
 *
 *   sweep_demo [TRIALS]     its journal is in $MANTA_SWEEPS/demo, else ~/.manta/sweeps/demo
 */
#include <manta_sweep.h>

#include <math.h>
#include <stdlib.h>

/* Stands for a model that learns: the loss falls towards a floor, which the two parameters decide. */
typedef struct {
    double loss;
} model;

static double epoch(model *m, double lr, int64_t width)
{
    double distance = log10(lr) + 2.5, floor_loss = 0.1 + 0.3 * distance * distance + 4.0 / (double)width;
    m->loss = m->loss == 0 ? 2.0 : floor_loss + (m->loss - floor_loss) * 0.9;
    return m->loss;
}

static manta_status trial(manta_trial *t)
{
    model   m = {0};
    int64_t i = manta_trial_load(t, &m, sizeof m); /* 0, or where PBT or a retry goes on */
    for (; i < 100; i++) {
        double loss = epoch(&m, manta_trial_f64(t, "lr"), manta_trial_i64(t, "width"));
        manta_trial_save(t, i + 1, &m, sizeof m);
        if (manta_trial_report(t, i, "loss", loss) == MANTA_TRIAL_STOP)
            break;
    }
    return MANTA_OK;
}
MANTA_TRIAL(trial);

int main(int argc, char **argv)
{
    manta_error        e;
    manta_sweep_result r;
    if (manta_init(&argc, &argv, NULL, &e))
        return manta_perror(&e);
    if (manta_sweep_run("trial",
                        &(manta_sweep_opts){.name = "demo",
                                            .metric = "loss",
                                            .mode = MANTA_SWEEP_MIN,
                                            .trials = argc > 1 ? strtol(argv[1], NULL, 10) : 200,
                                            .concurrency = 8,
                                            .sampler = "tpe",
                                            .scheduler = "asha",
                                            .cpus = 1,
                                            .seed = 1,
                                            .space = MANTA_SWEEP_SPACE(MANTA_SWEEP_LOG_UNIFORM("lr", 1e-5, 1e-1),
                                                                       MANTA_SWEEP_INT("width", 16, 512))},
                        &r, &e))
        return manta_perror(&e); /* run it again: it resumes */
    printf("best %g: %s\n", r.best, r.params_json);
    printf("%lld trials, %lld stopped early, %lld had ended before\n", (long long)r.trials, (long long)r.stopped,
           (long long)r.finished_before);
    return manta_shutdown();
}
