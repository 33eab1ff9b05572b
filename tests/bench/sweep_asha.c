/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep_asha.c - manta-bench-asha, which `manta bench --asha` executes: how much sooner ASHA finds what random search finds, on a
 * real sweep: a perceptron on Fashion-MNIST, its rate, momentum, width and batch; the metric is the accuracy on 1,000 records
 * held out.
 *
 *   manta-bench-asha [TRIALS [SEEDS]]       128 trials of random search, seeds 1 to 3
 *
 * Random search trains each trial for 81 units of 768 samples, two trials at a time. ASHA (eta 3, from 1 unit on) draws the same
 * points in the same order, goes on to draw more if need be, and ends when a report is as good as the best of random search. Times
 * are those of the reports in the journals. Both report after 1, 3, 9, 27 and 81 units. samples/s stands beside that of one
 * such loop (width 64, batch 64) in two processes without a sweep. Thread: the main one; the trials' are the slots'.
 */
#include "tests/bench/bench.h"

#include "sgd/mlp.h"
#include "sgd/optimizer.h"

#include <manta_sweep.h>

#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { UNITS = 81, UNIT_SAMPLES = 768, HELD_OUT = 1000, BATCH_MAX = 128, SLOTS = 2, FLOOR_UNITS = 64, FLOOR_WIDTH = 64 };
static const int report_at[] = {1, 3, 9, 27, 81};

extern char **environ;

/* ---- a training run ---- */

/* Loaded once a process: a slot runs many trials. */
static struct sgd_dataset records;

struct training {
    const struct k_ops *ops;
    struct sgd_model   *model;
    struct sgd_optimizer optimizer;
    float   *params, *gradient, *moment;
    uint8_t  batch[BATCH_MAX * 784], labels[BATCH_MAX];
    uint32_t batch_size;
    uint64_t step, seed;
};

static mt_status training_init(struct training *t, double rate, double momentum, uint32_t width, uint32_t batch, uint64_t seed)
{
    *t = (struct training){.batch_size = batch, .seed = seed};
    t->optimizer = (struct sgd_optimizer){.kind = SGD_MOMENTUM, .schedule = SGD_CONSTANT, .rate = (float)rate,
                                          .momentum = (float)momentum, .max_norm = HUGE_VALF};
    if (!records.records)
        MT_TRY(sgd_dataset_load_fashion(NULL, true, &records));
    MT_TRY(k_ops_choose(&(struct k_config){0}, &t->ops));
    MT_TRY(sgd_optimizer_resolve(&t->optimizer));
    MT_TRY(sgd_mlp_new(&(struct sgd_mlp_config){.ops = t->ops, .hidden = {width}, .batch_max = BATCH_MAX}, &t->model));
    size_t floats = t->model->params.floats;
    t->params = calloc(3 * floats, sizeof *t->params);
    if (!t->params)
        return mt_error(MT_ENOMEM, 0, "weights");
    t->gradient = t->params + floats;
    t->moment = t->gradient + floats;
    t->model->ops->init(t->model, seed, t->params);
    return mt_ok();
}

static void training_fini(struct training *t)
{
    if (t->model)
        t->model->ops->free(t->model);
    free(t->params);
}

/* One unit: samples drawn at random from those that are not held out. */
static mt_status train_unit(struct training *t)
{
    uint64_t indices[BATCH_MAX];
    for (uint32_t done = 0; done < UNIT_SAMPLES; done += t->batch_size) {
        float metrics[SGD_METRICS];
        for (uint32_t i = 0; i < t->batch_size; i++) {
            t->seed = t->seed * 6364136223846793005u + 1442695040888963407u;
            indices[i] = HELD_OUT + (t->seed >> 33) % (records.count - HELD_OUT);
        }
        sgd_dataset_gather(&records, indices, t->batch_size, t->batch, t->labels);
        struct sgd_batch batch = {.records = t->batch, .labels = t->labels, .count = t->batch_size, .record_size = 784};
        MT_TRY(t->model->ops->gradient(t->model, t->params, &batch, 1.0f / (float)t->batch_size, t->gradient, metrics));
        MT_TRY(sgd_optimizer_update(&t->optimizer, t->ops, t->optimizer.rate, t->step++, t->gradient, t->model->params.floats,
                                    t->params, (float *const[SGD_MOMENTS_MAX]){t->moment}));
    }
    return mt_ok();
}

static mt_status held_out_accuracy(struct training *t, double *out)
{
    double correct = 0;
    for (uint32_t first = 0; first < HELD_OUT; first += 100) {
        float metrics[SGD_METRICS];
        struct sgd_batch batch = {.records = records.records + (size_t)first * 784, .labels = records.labels + first, .count = 100,
                                  .record_size = 784};
        MT_TRY(t->model->ops->evaluate(t->model, t->params, &batch, metrics));
        correct += metrics[SGD_METRIC_CORRECT];
    }
    *out = correct / HELD_OUT;
    return mt_ok();
}

static manta_status run_units(manta_trial *trial, struct training *t)
{
    size_t next = 0;
    for (int unit = 1; unit <= UNITS; unit++) {
        double accuracy;
        if (train_unit(t).code != 0)
            return MANTA_OK; /* the weights have left the numbers: what was reported counts */
        if (unit != report_at[next])
            continue;
        next++;
        if (held_out_accuracy(t, &accuracy).code != 0)
            return manta_trial_fail(trial, "evaluation failed");
        if (manta_trial_report(trial, unit, "accuracy", accuracy) == MANTA_STOP)
            break;
    }
    return MANTA_OK;
}

static manta_status perceptron(manta_trial *trial)
{
    struct training *t = malloc(sizeof *t);
    manta_status     code = MANTA_OK;
    mt_status st = t ? training_init(t, manta_trial_f64(trial, "lr"), manta_trial_f64(trial, "momentum"),
                                     (uint32_t)manta_trial_i64(trial, "width"), (uint32_t)manta_trial_i64(trial, "batch"),
                                     manta_trial_seed(trial))
                     : mt_error(MT_ENOMEM, 0, "a training run");
    if (st.code != 0)
        code = manta_trial_fail(trial, "%s", st.what);
    else
        code = run_units(trial, t);
    if (t)
        training_fini(t);
    free(t);
    return code;
}
MANTA_TRIAL(perceptron);

/* samples/s of the loop alone, in a process of its own that writes it into the pipe. */
static bool floor_child(int to)
{
    struct training *t = calloc(1, sizeof *t);
    double           rate = 0, accuracy;
    bool             ok = t && training_init(t, 0.01, 0.9, FLOOR_WIDTH, 64, 1).code == 0 && train_unit(t).code == 0;
    uint64_t         began = bench_now_ns();
    for (int i = 0; ok && i < FLOOR_UNITS; i++)
        ok = train_unit(t).code == 0 && (i % 16 || held_out_accuracy(t, &accuracy).code == 0);
    rate = FLOOR_UNITS * UNIT_SAMPLES / ((double)(bench_now_ns() - began) * 1e-9);
    return ok && write(to, &rate, sizeof rate) == sizeof rate;
}

static double floor_rate(const char *program)
{
    double total = 0, rate;
    int    ends[2];
    char   fd[16];
    pid_t  pids[SLOTS];
    if (pipe(ends) != 0)
        return 0;
    snprintf(fd, sizeof fd, "%d", ends[1]);
    char *argv[] = {(char *)program, "--floor", fd, NULL};
    for (int i = 0; i < SLOTS; i++)
        if (posix_spawn(&pids[i], program, NULL, NULL, argv, environ) != 0)
            pids[i] = -1;
    close(ends[1]);
    while (read(ends[0], &rate, sizeof rate) == sizeof rate)
        total += rate;
    close(ends[0]);
    for (int i = 0; i < SLOTS; i++)
        if (pids[i] > 0)
            waitpid(pids[i], NULL, 0);
    return total;
}

/* ---- sweeps ---- */

struct outcome {
    double  best, reached_s, all_s, samples; /* reached_s: when a report was `best` or better; < 0: never */
    int64_t trials;
};

static bool run_sweep(const char *storage, const char *name, bool is_asha, int64_t trials, uint64_t seed, double wanted,
                      struct outcome *out)
{
    manta_error        e;
    manta_sweep_result r;
    char               stop[64];
    snprintf(stop, sizeof stop, "sweep_threshold,value=%.17g", wanted);
    manta_sweep_opts o = {.name = name, .storage = storage, .metric = "accuracy", .mode = MANTA_MAX, .trials = trials,
                          .concurrency = SLOTS, .sampler = "random", .seed = seed, .scheduler = is_asha ? "asha" : NULL,
                          .scheduler_opts = is_asha ? "max_t=81,eta=3" : NULL, .stop = is_asha ? stop : NULL,
                          .space = MANTA_SPACE(MANTA_LOGUNIFORM("lr", 1e-5, 1), MANTA_UNIFORM("momentum", 0, 0.99),
                                               MANTA_INT("width", 8, 128),
                                               MANTA_ORDINAL("batch", MANTA_VALUES("16", "32", "64", "128")))};
    if (manta_sweep_run("perceptron", &o, &r, &e))
        return manta_perror(&e), false;
    manta_sweep_view *view = manta_sweep_look(storage, name, &e);
    if (!view)
        return manta_perror(&e), false;
    *out = (struct outcome){.best = is_asha ? wanted : 0, .reached_s = -1, .all_s = r.seconds};
    for (int64_t i = 0; i < view->report_count && !is_asha; i++)
        out->best = fmax(out->best, view->reports[i].value);
    for (int64_t i = 0; i < view->report_count && out->reached_s < 0; i++)
        out->reached_s = view->reports[i].value >= out->best ? view->reports[i].at_s : -1;
    for (int64_t i = 0; i < view->count; i++) {
        out->trials += view->trials[i].reports > 0; /* others were only drawn */
        out->samples += (double)view->trials[i].step * UNIT_SAMPLES;
    }
    manta_sweep_view_free(view);
    if (out->reached_s < 0)
        fprintf(stderr, "manta-bench-asha: %s: no report of %lld trials is as good as %g\n", name,
                (long long)out->trials, out->best);
    return out->reached_s >= 0;
}

static void storage_clear(char *storage)
{
    pid_t pid;
    char *argv[] = {"rm", "-rf", storage, NULL};
    if (posix_spawnp(&pid, "rm", NULL, NULL, argv, environ) == 0)
        waitpid(pid, NULL, 0);
}

static bool compare_all(char *storage, int64_t trials, int seeds, double floor)
{
    bool   ok = true;
    double product = 1, product_all = 1;
    printf("%4s %8s %12s %10s %8s %10s %8s %8s %12s\n", "seed", "best", "random at s", "of all s", "ASHA s", "ASHA ran", "times",
           "of all", "samples/s");
    for (int seed = 1; seed <= seeds && ok; seed++) {
        struct outcome random, asha;
        char           names[2][32];
        snprintf(names[0], sizeof names[0], "random%d", seed);
        snprintf(names[1], sizeof names[1], "asha%d", seed);
        ok = run_sweep(storage, names[0], false, trials, (uint64_t)seed, 0, &random) &&
             run_sweep(storage, names[1], true, 16 * trials, (uint64_t)seed, random.best, &asha);
        if (!ok)
            break;
        product *= random.reached_s / asha.reached_s;
        product_all *= random.all_s / asha.reached_s;
        printf("%4d %8.4f %12.2f %10.2f %8.2f %10lld %8.1f %8.1f %12.0f\n", seed, random.best, random.reached_s, random.all_s,
               asha.reached_s, (long long)asha.trials, random.reached_s / asha.reached_s, random.all_s / asha.reached_s,
               random.samples / random.all_s);
        fflush(stdout);
    }
    if (ok)
        printf("geometric mean: %.1f times sooner than random search had its best, %.1f times sooner than it was done\n"
               "the loop alone: %.0f samples/s\n", pow(product, 1.0 / seeds), pow(product_all, 1.0 / seeds), floor);
    return ok;
}

int main(int argc, char **argv)
{
    manta_error     e;
    const char     *tmp = getenv("TMPDIR");
    char            storage[256], program[4096] = "";
    manta_init_opts init = {.num_cpus = SLOTS};
    if (argc == 3 && strcmp(argv[1], "--floor") == 0)
        return floor_child((int)strtol(argv[2], NULL, 10)) ? 0 : 1;
    if (manta_init(&argc, &argv, &init, &e))
        return manta_perror(&e), 1;
    int64_t trials = argc > 1 ? strtoll(argv[1], NULL, 10) : 128, seeds = argc > 2 ? strtoll(argv[2], NULL, 10) : 3;
    if (trials < 1 || seeds < 1 || seeds > 100) {
        fprintf(stderr, "usage: %s [TRIALS [SEEDS]]\n", argv[0]);
        return 2;
    }
    snprintf(storage, sizeof storage, "%.200s/manta-asha-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(storage) || readlink("/proc/self/exe", program, sizeof program - 1) < 0)
        return perror(storage), 1;
    bool ok = compare_all(storage, trials, (int)seeds, floor_rate(program));
    manta_shutdown();
    storage_clear(storage);
    return ok ? 0 : 1;
}
