/* SPDX-License-Identifier: Apache-2.0
 *
 * asha.c - manta-bench-asha, which `manta bench --asha` executes: how much sooner ASHA finds what random search finds, on a
 * real sweep: a perceptron on Fashion-MNIST.
 *
 *   manta-bench-asha [--promote] [TRIALS [SEEDS [FOLDER]]]       96 trials of random search, seeds 1 to 5
 *
 * --promote: ASHA in its promoting form, whose trials save their weights at each rung and go on from there.
 *
 * With a FOLDER the sweeps stay there, and those that it has are not run again: so the seeds can be run a few at a time.
 *
 * What is measured. The incumbent of a sweep at a moment is its best value so far, on 5,000 records that are held out:
 * intermediate values count, as in the paper on ASHA (Li et al., MLSys 2020). As in its figures, the incumbents of a method are
 * averaged over the seeds. The quality to reach is where random search's mean incumbent ends; the figure is the time at which
 * random search's mean incumbent is there, over that at which ASHA's is. Since the machine is not equally fast all the time, and
 * the two sweeps of a seed run one after the other, time counts in parts of what random search took with that seed. Beside it,
 * for each seed by itself: when random search had its best, and when ASHA had as good a one. One lucky draw of random search
 * early on decides the latter; the former has all seeds in it.
 *
 * Beside the time stands the work: samples trained with until then, in both sweeps. What else the machine does is not in it, nor
 * what a scheduler costs beside the training: saving, loading, empty places.
 *
 * A second line is of the quality a standard error of the held-out records below: two points closer than that can't be told apart.
 *
 * The space has the ranges that the paper's first benchmark gives to rate and weight decay, both from 5e-5 to 5, so that good
 * points are as rare as there; momentum, width and batch beside them.
 *
 * How. Two trials at a time. Random search trains each trial for 64 units of 2,048 samples. ASHA has Ray Tune's defaults for that
 * (eta 4, rungs at 1, 4, 16 and 64 units) and draws the same points in the same order, and more if need be; it goes on until a
 * third of random search's time is over and its incumbent is as good as that of random search's end, at most for random search's
 * time. Both evaluate at 1, 4, 16 and 64 units only. Times are those of the reports in the journals. samples/s stands beside that
 * of one such loop (width 64, batch 64) in two processes without a sweep. Thread: the main one; the trials' are the slots'.
 */
#include "tests/bench/bench.h"
#include "tests/bench/usage.h"

#include "sgd/model/mlp.h"
#include "sgd/model/optimizer.h"

#include <manta_sweep.h>

#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    UNITS = 64,
    UNIT_SAMPLES = 2048,
    HELD_OUT = 5000,
    BATCH_MAX = 128,
    SLOTS = 2,
    SEEDS_MAX = 20,
    FLOOR_UNITS = 32,
    FLOOR_WIDTH = 64
};
static const int report_at[] = {1, 4, 16, UNITS};

extern char **environ;

/* ---- a training run ---- */

/* Loaded once a process: a slot runs many trials. */
static struct sgd_dataset records;

struct training {
    const struct k_ops  *ops;
    struct sgd_model    *model;
    struct sgd_optimizer optimizer;
    float               *params, *gradient, *moment;
    uint8_t              batch[BATCH_MAX * 784], labels[BATCH_MAX];
    uint32_t             batch_size;
    uint64_t             step, seed;
};

struct point {
    double   rate, momentum, decay;
    uint32_t width, batch;
};

static mt_status training_init(struct training *t, const struct point *p, uint64_t seed)
{
    *t = (struct training){.batch_size = p->batch, .seed = seed};
    t->optimizer = (struct sgd_optimizer){.kind = SGD_MOMENTUM,
                                          .schedule = SGD_CONSTANT,
                                          .rate = (float)p->rate,
                                          .momentum = (float)p->momentum,
                                          .decay = (float)p->decay,
                                          .max_norm = HUGE_VALF};
    if (!records.records)
        MT_TRY(sgd_dataset_load_fashion(NULL, true, &records));
    MT_TRY(k_ops_choose(&(struct k_config){0}, &t->ops));
    MT_TRY(sgd_optimizer_resolve(&t->optimizer));
    MT_TRY(sgd_mlp_new(&(struct sgd_mlp_config){.ops = t->ops, .hidden = {p->width}, .batch_max = BATCH_MAX}, &t->model));
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
        float            metrics[SGD_METRICS];
        struct sgd_batch batch = {
            .records = records.records + (size_t)first * 784, .labels = records.labels + first, .count = 100, .record_size = 784};
        MT_TRY(t->model->ops->evaluate(t->model, t->params, &batch, metrics));
        correct += metrics[SGD_METRIC_CORRECT];
    }
    *out = correct / HELD_OUT;
    return mt_ok();
}

/* What a trial that goes on must have: where it is, then weights and moments. */
struct place {
    uint64_t step, seed;
};

static manta_status training_save(manta_trial *trial, int unit, const struct training *t)
{
    size_t       floats = t->model->params.floats * sizeof *t->params;
    struct place place = {t->step, t->seed};
    char        *state = malloc(sizeof place + 2 * floats);
    manta_status code = MANTA_ENOMEM;
    if (state) {
        memcpy(mempcpy(mempcpy(state, &place, sizeof place), t->params, floats), t->moment, floats);
        code = manta_trial_save(trial, unit, state, sizeof place + 2 * floats);
    }
    free(state);
    return code;
}

/* The unit that it goes on behind; 0: it begins. */
static int training_load(manta_trial *trial, struct training *t)
{
    size_t       floats = t->model->params.floats * sizeof *t->params, size;
    struct place place;
    int64_t      unit;
    const char  *state = manta_trial_state(trial, &size, &unit);
    if (!state || size != sizeof place + 2 * floats)
        return 0;
    memcpy(&place, state, sizeof place);
    memcpy(t->params, state + sizeof place, floats);
    memcpy(t->moment, state + sizeof place + floats, floats);
    t->step = place.step;
    t->seed = place.seed;
    return (int)unit;
}

static manta_status run_units(manta_trial *trial, struct training *t, bool saves)
{
    size_t next = 0;
    int    unit = saves ? training_load(trial, t) : 0;
    while (unit >= report_at[next] && unit < UNITS)
        next++;
    for (unit++; unit <= UNITS; unit++) {
        double accuracy;
        if (train_unit(t).code != 0)
            return MANTA_OK; /* the weights have left the numbers: what was reported counts */
        if (unit != report_at[next])
            continue;
        next++;
        if (held_out_accuracy(t, &accuracy).code != 0 || (saves && unit < UNITS && training_save(trial, unit, t) != MANTA_OK))
            return manta_trial_fail(trial, "evaluation or saving failed");
        if (manta_trial_report(trial, unit, "accuracy", accuracy) == MANTA_TRIAL_STOP)
            break;
    }
    return MANTA_OK;
}

static manta_status train(manta_trial *trial, bool saves)
{
    struct training *t = malloc(sizeof *t);
    manta_status     code = MANTA_OK;
    struct point     p = {manta_trial_f64(trial, "lr"), manta_trial_f64(trial, "momentum"), manta_trial_f64(trial, "decay"),
                          (uint32_t)manta_trial_i64(trial, "width"), (uint32_t)manta_trial_i64(trial, "batch")};
    mt_status        st = t ? training_init(t, &p, manta_trial_seed(trial)) : mt_error(MT_ENOMEM, 0, "a training run");
    if (st.code != 0)
        code = manta_trial_fail(trial, "%s", st.what);
    else
        code = run_units(trial, t, saves);
    if (t)
        training_fini(t);
    free(t);
    return code;
}

static manta_status perceptron(manta_trial *trial)
{
    return train(trial, false);
}
MANTA_TRIAL(perceptron);

static manta_status saving(manta_trial *trial)
{
    return train(trial, true);
}
MANTA_TRIAL(saving);

/* samples/s of the loop alone, in a process of its own that writes it into the pipe. */
static bool floor_child(int to)
{
    struct training *t = calloc(1, sizeof *t);
    double           rate = 0, accuracy;
    struct point     p = {.rate = 0.01, .momentum = 0.9, .width = FLOOR_WIDTH, .batch = 64};
    bool             ok = t && training_init(t, &p, 1).code == 0 && train_unit(t).code == 0;
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
    manta_sweep_view *view;
    double            best, all_s; /* the incumbent at the end, and when that was */
    int64_t           best_trial, trials;
    double            samples;
};

static void outcome_fill(struct outcome *out)
{
    const manta_sweep_view *v = out->view;
    for (int64_t i = 0; i < v->report_count; i++) {
        out->all_s = v->reports[i].at_s;
        if (v->reports[i].value > out->best) {
            out->best = v->reports[i].value;
            out->best_trial = v->reports[i].trial;
        }
    }
    for (int64_t i = 0; i < v->count; i++) {
        out->trials += v->trials[i].reports > 0; /* others were only drawn */
        out->samples += (double)v->trials[i].step * UNIT_SAMPLES;
    }
}

static bool is_there(const char *storage, const char *name)
{
    manta_sweep_view *view = manta_sweep_look(storage, name, NULL);
    bool              is = view && strcmp(view->state, "unfinished") != 0;
    manta_sweep_view_free(view);
    return is;
}

struct asked {
    const char *storage;
    int64_t     trials;
    int         seeds;
    bool        promotes;
};

/* ASHA where `random` is given: what its sweep of the seed has found. */
static bool run_sweep(const struct asked *a, int seed, const struct outcome *random, struct outcome *out)
{
    const char        *storage = a->storage, *asha = a->promotes ? "asha_promote" : "asha";
    int64_t            trials = a->trials;
    manta_error        e;
    manta_sweep_result r;
    char               name[32], stop[128];
    snprintf(name, sizeof name, "%s%d", random ? asha : "random", seed);
    if (random)
        snprintf(stop, sizeof stop, "sweep_threshold,value=%.17g; sweep_time,limit=%.6f; all", random->best, random->all_s / 3);
    manta_sweep_opts o = {.name = name,
                          .storage = storage,
                          .metric = "accuracy",
                          .mode = MANTA_SWEEP_MAX,
                          .trials = random ? 64 * trials : trials,
                          .time_s = random ? random->all_s : 0,
                          .concurrency = SLOTS,
                          .sampler = "random",
                          .seed = (uint64_t)seed,
                          .scheduler = random ? asha : NULL,
                          .scheduler_opts = random ? "max_t=64,eta=4" : NULL,
                          .stop = random ? stop : NULL,
                          .space = MANTA_SWEEP_SPACE(MANTA_SWEEP_LOG_UNIFORM("lr", 5e-5, 5),
                                                     MANTA_SWEEP_UNIFORM("momentum", 0, 0.99),
                                                     MANTA_SWEEP_LOG_UNIFORM("decay", 5e-5, 5), MANTA_SWEEP_INT("width", 8, 128),
                                                     MANTA_SWEEP_ORDINAL("batch", MANTA_SWEEP_VALUES("16", "32", "64", "128")))};
    if (!is_there(storage, name) && manta_sweep_run(random && a->promotes ? "saving" : "perceptron", &o, &r, &e))
        return manta_perror(&e), false;
    *out = (struct outcome){.view = manta_sweep_look(storage, name, &e), .best_trial = -1};
    if (!out->view)
        return manta_perror(&e), false;
    outcome_fill(out);
    return true;
}

/* ---- what they say ---- */

/* When its incumbent was as good as `wanted`; < 0: never. */
static double reached_s(const manta_sweep_view *view, double wanted)
{
    for (int64_t i = 0; i < view->report_count; i++)
        if (view->reports[i].value >= wanted)
            return view->reports[i].at_s;
    return -1;
}

/* Samples trained with when its incumbent was as good as `wanted`, in thousands; < 0: never. */
static double reached_work(const manta_sweep_view *view, double wanted)
{
    double work = 0;
    for (int64_t i = 0; i < view->report_count; i++) {
        const manta_sweep_report *r = &view->reports[i];
        int64_t                   before = 0;
        for (size_t k = 0; report_at[k] < r->step; k++)
            before = report_at[k];
        work += (double)(r->step - before) * UNIT_SAMPLES * 1e-3;
        if (r->value >= wanted)
            return work;
    }
    return -1;
}

struct rise {
    double at, by;
};

static int rise_compare(const void *a, const void *b)
{
    const struct rise *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* When the mean incumbent of these sweeps was as good as `wanted`, in parts of random search's time; < 0: never. */
static double mean_reached(const struct outcome *outcomes, const struct outcome *random, int count, double wanted)
{
    struct rise *rises;
    int64_t      rise_count = 0, most = 1;
    double       sum = 0, at = -1;
    for (int i = 0; i < count; i++)
        most += outcomes[i].view->report_count;
    if (!(rises = calloc((size_t)most, sizeof *rises)))
        return -1;
    for (int i = 0; i < count; i++) {
        const manta_sweep_view *v = outcomes[i].view;
        double                  best = 0;
        for (int64_t k = 0; k < v->report_count; k++)
            if (v->reports[k].value > best) {
                rises[rise_count++] = (struct rise){v->reports[k].at_s / random[i].all_s, (v->reports[k].value - best) / count};
                best = v->reports[k].value;
            }
    }
    qsort(rises, (size_t)rise_count, sizeof *rises, rise_compare);
    for (int64_t i = 0; i < rise_count && at < 0; i++) {
        sum += rises[i].by;
        at = sum >= wanted - 1e-9 ? rises[i].at : -1;
    }
    free(rises);
    return at;
}

/* How far ASHA let a trial go; 0: it did not begin it. */
static int64_t step_of(const manta_sweep_view *view, int64_t trial)
{
    return trial >= 0 && trial < view->count && view->trials[trial].reports > 0 ? view->trials[trial].step : 0;
}

static void row_print(int seed, const struct outcome *random, const struct outcome *asha)
{
    double had = reached_s(random->view, random->best), has = reached_s(asha->view, random->best);
    double work = reached_work(asha->view, random->best);
    printf("%4d %8.4f %6lld %9.2f %9.2f %9.2f %8lld %8lld %8.4f %8.1f %8.1f %12.0f\n", seed, random->best,
           (long long)random->best_trial, had, random->all_s, has, (long long)asha->trials,
           (long long)step_of(asha->view, random->best_trial), asha->best, has > 0 ? had / has : 0,
           work > 0 ? reached_work(random->view, random->best) / work : 0, random->samples / random->all_s);
    fflush(stdout);
}

static void summary_print(const struct outcome *random, const struct outcome *asha, int seeds)
{
    double wanted = 0, product = 1, work_product = 1;
    int    reached = 0;
    for (int i = 0; i < seeds; i++) {
        double had = reached_s(random[i].view, random[i].best), has = reached_s(asha[i].view, random[i].best);
        wanted += random[i].best / seeds;
        product *= had / (has > 0 ? has : random[i].all_s); /* never: the time that it had */
        reached += has > 0;
        double work = reached_work(asha[i].view, random[i].best);
        work_product *= reached_work(random[i].view, random[i].best) / (work > 0 ? work : random[i].samples * 1e-3);
    }
    const double levels[] = {wanted, wanted - sqrt(wanted * (1 - wanted) / HELD_OUT)};
    for (int i = 0; i < 2; i++) {
        double random_at = mean_reached(random, random, seeds, levels[i]), asha_at = mean_reached(asha, random, seeds, levels[i]);
        printf("mean incumbent %.4f%s: random search after %.3f of its time, ASHA ", levels[i], i ? ", a standard error below" : "",
               random_at);
        if (asha_at > 0)
            printf("after %.3f of that: %.1f times sooner\n", asha_at, random_at / asha_at);
        else
            printf("not within that time\n");
    }
    printf("each seed by itself: %d of %d had as good a one; geometric mean %.1f times sooner than random search had it, with %.1f "
           "times less work\n",
           reached, seeds, pow(product, 1.0 / seeds), pow(work_product, 1.0 / seeds));
}

static bool compare_all(const struct asked *a, double floor)
{
    struct outcome random[SEEDS_MAX], asha[SEEDS_MAX];
    bool           ok = true;
    int            count = 0;
    printf("%4s %8s %6s %9s %9s %9s %8s %8s %8s %8s %8s %12s\n", "seed", "best", "trial", "at s", "of s", "ASHA at s", "ASHA ran",
           "it to", "its best", "times", "by work", "samples/s");
    for (; count < a->seeds && ok; count++) {
        ok = run_sweep(a, count + 1, NULL, &random[count]) && run_sweep(a, count + 1, &random[count], &asha[count]);
        if (ok)
            row_print(count + 1, &random[count], &asha[count]);
    }
    if (ok)
        summary_print(random, asha, a->seeds);
    if (ok)
        printf("the loop alone: %.0f samples/s\n", floor);
    for (int i = 0; i < count; i++) {
        manta_sweep_view_free(random[i].view);
        manta_sweep_view_free(asha[i].view);
    }
    return ok;
}

static void storage_clear(char *storage)
{
    pid_t pid;
    char *argv[] = {"rm", "-rf", storage, NULL};
    if (posix_spawnp(&pid, "rm", NULL, NULL, argv, environ) == 0)
        waitpid(pid, NULL, 0);
}

static int usage(bool is_help)
{
    return bench_usage(is_help, "--asha [--promote] [TRIALS [SEEDS [FOLDER]]]");
}

int main(int argc, char **argv)
{
    manta_error     e;
    const char     *tmp = getenv("TMPDIR");
    char            storage[256], program[4096] = "";
    manta_init_opts init = {.num_cpus = SLOTS};
    if (argc == 3 && strcmp(argv[1], "--floor") == 0)
        return floor_child((int)strtol(argv[2], NULL, 10)) ? 0 : 1;
    if (bench_is_help(argc, argv))
        return usage(true);
    if (manta_init(&argc, &argv, &init, &e))
        return manta_perror(&e), 1;
    struct asked a = {.promotes = argc > 1 && strcmp(argv[1], "--promote") == 0};
    argc -= a.promotes, argv += a.promotes;
    a.trials = argc > 1 ? strtoll(argv[1], NULL, 10) : 96;
    a.seeds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 5;
    if (a.trials < 1 || a.seeds < 1 || a.seeds > SEEDS_MAX)
        return usage(false);
    snprintf(storage, sizeof storage, "%.200s/manta-asha-XXXXXX", tmp ? tmp : "/tmp");
    if ((argc < 4 && !mkdtemp(storage)) || readlink("/proc/self/exe", program, sizeof program - 1) < 0)
        return perror(storage), 1;
    a.storage = argc < 4 ? storage : argv[3];
    bool ok = compare_all(&a, floor_rate(program));
    manta_shutdown();
    if (argc < 4)
        storage_clear(storage);
    return ok ? 0 : 1;
}
