/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep_fashion_mnist.c - hyperparameters of a network on Fashion-MNIST: TPE draws them, ASHA stops what does not pay. Each trial
 * is a data-parallel training job of its own, whose workers are packed over all nodes, and which survives their deaths.
 *
 *   sweep_fashion_mnist [TRIALS [EPOCHS [DATA]]]      Debian's package dataset-fashion-mnist, or DATA: a folder with its files
 */
#include <manta_sgd.h>
#include <manta_sweep.h>

#include <stdlib.h>

typedef struct {
    manta_trial *trial;
    int64_t      epoch;
} follower;

static int follow(void *user, const manta_sgd_event *event)
{
    follower *f = user;
    if (event->kind != MANTA_SGD_VALIDATED)
        return 0;
    return manta_trial_report(f->trial, ++f->epoch, "accuracy", event->accuracy) == MANTA_TRIAL_STOP;
}

/* The trial holds a CPU, and its workers run on that: so trials are packed over all nodes, each with its workers beside it. */
static manta_status train(manta_trial *t)
{
    char             hidden[32], data[512];
    manta_error      e;
    manta_sgd_result r;
    follower         f = {t, 0};
    snprintf(hidden, sizeof hidden, "hidden=%lld", (long long)manta_trial_i64(t, "hidden"));
    snprintf(data, sizeof data, "data=%s", manta_trial_str(t, "data"));
    if (manta_sgd_fit(
            "mlp",
            &(manta_sgd_opts){.scaling = {.max_workers = 2},
                              .failure.max_failures = -1,
                              .run = {.epochs = (int)manta_trial_i64(t, "epochs"), .batch = (int)manta_trial_i64(t, "batch")},
                              .optimizer = {.kind = MANTA_SGD_MOMENTUM,
                                            .lr = manta_trial_f64(t, "lr"),
                                            .momentum = manta_trial_f64(t, "momentum")},
                              .config = (const char *const[]){hidden, manta_trial_str(t, "data")[0] == '-' ? NULL : data, NULL},
                              .on_event = follow,
                              .user = &f},
            &r, &e))
        return manta_trial_fail(t, "%s", e.message);
    return MANTA_OK;
}
MANTA_TRIAL(train);

int main(int argc, char **argv)
{
    manta_error        e;
    manta_sweep_result r;
    if (manta_init(&argc, &argv, NULL, &e))
        return manta_perror(&e);
    if (manta_sweep_run(
            "train",
            &(manta_sweep_opts){
                .name = "fashion",
                .metric = "accuracy",
                .mode = MANTA_SWEEP_MAX,
                .trials = argc > 1 ? strtol(argv[1], NULL, 10) : 16,
                .concurrency = 2,
                .cpus = 1,
                .sampler = "tpe",
                .scheduler = "asha",
                .scheduler_opts = "max_t=9,eta=3",
                .seed = 1,
                .space = MANTA_SWEEP_SPACE(MANTA_SWEEP_LOG_UNIFORM("lr", 1e-3, 3e-1), MANTA_SWEEP_UNIFORM("momentum", 0.5, 0.99),
                                           MANTA_SWEEP_ORDINAL("hidden", MANTA_SWEEP_VALUES("32", "64", "128", "256")),
                                           MANTA_SWEEP_ORDINAL("batch", MANTA_SWEEP_VALUES("32", "64", "128")),
                                           MANTA_SWEEP_CONST("epochs", argc > 2 ? argv[2] : "9"),
                                           MANTA_SWEEP_CONST("data", argc > 3 ? argv[3] : "-"))},
            &r, &e))
        return manta_perror(&e);
    printf("best accuracy %.4f: %s\n", r.best, r.params_json);
    printf("%lld trials, %lld stopped early, %.1f s\n", (long long)r.trials, (long long)r.stopped, r.seconds);
    return manta_shutdown();
}
