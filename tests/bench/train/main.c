/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - manta-bench-train: how soon training goes on after a SIGKILL, phase by phase; and what it learns.
 *
 *   manta-bench-train [-n kills] [-w workers] [-e epochs] [-c | -l | -s | -r | -u | -z] [-o table|json]
 *                       -c: collectives and `overlap` only; -l: `overlap` only; -s: checkpoints only; -r: recovery of
 *                       one worker only; -u: of one that is stopped only; -z: the optimizer's state in shards, and
 *                       bfloat16, only
 *
 * Trains on Fashion-MNIST and kills workers in the middle, n times in each of several ways: one worker, whose place a new
 * process takes; one, for which a spare is ready; all of them, so that the state comes from a checkpoint; one stopped
 * rather than killed (n / 10 times, 10 at least, since a watchdog takes its time); 4 of 8 at once. Time runs from just before
 * kill(2) until the next step is completed by all. Then the same training without any of that, beside a hand-written loop. A
 * program of its own, not a case of manta-bench: that one's start and memory are figures too, and it must not load a BLAS.
 *
 * Thread: the main one.
 */
#include "tests/bench/bench.h"
#include "tests/bench/train/coll.h"
#include "tests/bench/train/byhand.h"
#include "tests/bench/train/overlap.h"
#include "tests/bench/train/save.h"
#include "tests/bench/train/zero.h"
#include "tests/bench/usage.h"

#include <manta_sgd.h>

#include <ftw.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 64, WORKERS_MAX = 8, KILLS_MAX = 1000, PAUSE_US_MAX = 10000, HUNG_MIN = 10 };

enum phase { TOTAL, DETECT, ABORT, PLACE, START, LOAD, SYNC, STEP, PHASES };
static const char *const phase_names[PHASES] = {"", ".detect", ".abort", ".place", ".start", ".load", ".sync", ".step"};

struct killing {
    const char *id;
    int         workers, together;   /* killed at a time */
    int         min_workers, signal; /* 0: workers, SIGKILL */
    int         left;
    int         pids[WORKERS_MAX];
    int64_t     killed_ns; /* 0: nobody is dead */
    int         count;
    double      ms[PHASES][KILLS_MAX];
    int64_t     spare_ready; /* events */
    bool        wants_spare;
};

static void kill_some(struct killing *k)
{
    int first = (int)(random() % k->workers);
    bench_sleep_us(random() % PAUSE_US_MAX); /* so that it comes at any point of a step */
    k->killed_ns = (int64_t)bench_now_ns();
    for (int i = 0; i < k->together; i++)
        if (k->pids[(first + i) % k->workers] > 1) /* 0, not heard of yet, would be everybody */
            kill(k->pids[(first + i) % k->workers], k->signal ? k->signal : SIGKILL);
    k->left--;
    k->spare_ready = 0;
}

static void recovered(struct killing *k, const manta_sgd_recovery *r)
{
    double detect = (double)(r->detected_ns - k->killed_ns) * 1e-9;
    double s[PHASES] = {detect + r->total_s, detect, r->abort_s, r->place_s, r->start_s, r->load_s, r->sync_s, r->step_s};
    k->killed_ns = 0;
    if (k->count == KILLS_MAX)
        return;
    for (int p = 0; p < PHASES; p++)
        k->ms[p][k->count] = s[p] * 1e3;
    k->count++;
}

static int on_event(void *user, const manta_sgd_event *event)
{
    struct killing *k = user;
    if (event->kind == MANTA_SGD_WORKER && event->rank < WORKERS_MAX)
        k->pids[event->rank] = event->pid;
    else if (event->kind == MANTA_SGD_SPARE)
        k->spare_ready = 1;
    else if (event->kind == MANTA_SGD_RECOVERED && k->killed_ns)
        recovered(k, event->recovery);
    else if (event->kind == MANTA_SGD_STEP && !k->killed_ns && k->left > 0 && (!k->wants_spare || k->spare_ready))
        kill_some(k);
    return 0;
}

/* ---- output ---- */
static void row_print(struct bench *b, const char *id, const char *suffix, const double *ms, int count, double quantile)
{
    char                 name[64];
    struct bench_samples samples;
    struct bench_row     row = {.unit = "ms", .floor = FLOOR_FUTEX_RTT};
    snprintf(name, sizeof name, "%s%s", id, suffix);
    row.id = name;
    row.floor_value = bench_floor(b, FLOOR_FUTEX_RTT);
    if (!bench_samples_init(&samples))
        return;
    for (int i = 0; i < count; i++)
        bench_samples_add(&samples, ms[i]);
    if (bench_samples_row(&samples, quantile, &row))
        bench_print_row(b, &row);
}

static int measure(struct bench *b, struct killing *k, const manta_sgd_opts *base, int spares, const char *storage)
{
    manta_error      e;
    manta_sgd_result r;
    manta_sgd_opts   opts = *base;
    int              wanted = k->left;
    opts.scaling.max_workers = k->workers;
    opts.scaling.spares = spares;
    opts.scaling.min_workers = k->min_workers;
    opts.run.storage = storage;
    opts.run.name = k->id;
    opts.checkpoint.every_steps = 100;
    opts.user = k;
    k->wants_spare = spares > 0;
    if (manta_sgd_fit("mlp", &opts, &r, &e))
        return manta_perror(&e);
    if (k->count < wanted)
        fprintf(stderr, "manta-bench-train: %s: the run ended after %d of %d kills\n", k->id, k->count, wanted);
    for (int p = 0; p < PHASES; p++)
        row_print(b, k->id, phase_names[p], k->ms[p], k->count, 0.5);
    row_print(b, k->id, ".p99", k->ms[TOTAL], k->count, 0.99);
    return 0;
}

static int accuracy(struct bench *b, const manta_sgd_opts *base)
{
    manta_error      e;
    manta_sgd_result r;
    manta_sgd_opts   opts = *base;
    opts.run.epochs = 5;
    opts.on_event = NULL;
    if (manta_sgd_fit("mlp", &opts, &r, &e))
        return manta_perror(&e);
    struct bench_row row = {.id = "accuracy", .unit = "share", .value = r.accuracy, .n = 1, .floor = FLOOR_NONE};
    bench_print_row(b, &row);
    row = (struct bench_row){.id = "train_rate", .unit = "samples/s", .n = (uint64_t)r.steps, .floor = FLOOR_NONE};
    row.value = (double)r.steps * BATCH / r.wall_s;
    bench_print_row(b, &row);
    return 0;
}

/* The first report of a run, and the last. */
struct span {
    int64_t steps[2], ns[2];
};

/* Samples per second of a whole run, without its start: between the first report and the last. */
static int rate_event(void *user, const manta_sgd_event *event)
{
    struct span *span = user;
    if (event->kind != MANTA_SGD_STEP)
        return 0;
    int at = span->ns[0] != 0;
    span->steps[at] = event->step;
    span->ns[at] = (int64_t)bench_now_ns();
    return 0;
}

/* ddp_overhead: how much longer a step takes than in the hand-written loop; the best of three of each, taking turns. */
static int overhead(struct bench *b, const manta_sgd_opts *base, int workers)
{
    double ours = 0, by_hand = 0;
    for (int i = 0; i < 3; i++) {
        struct span    span = {{0}, {0}};
        manta_error    e;
        manta_sgd_opts opts = *base;
        opts.run.epochs = 2;
        opts.run.validate_epochs = 2;
        opts.on_event = rate_event;
        opts.user = &span;
        if (manta_sgd_fit("mlp", &opts, NULL, &e))
            return manta_perror(&e);
        double rate = (double)(span.steps[1] - span.steps[0]) * BATCH / ((double)(span.ns[1] - span.ns[0]) * 1e-9);
        double other = train_byhand(workers, BATCH, 2);
        ours = rate > ours ? rate : ours;
        by_hand = other > by_hand ? other : by_hand;
    }
    struct bench_row row = {.id = "ddp_overhead", .unit = "%", .n = 3, .floor = FLOOR_NONE};
    row.value = by_hand > 0 && ours > 0 ? (by_hand / ours - 1) * 100 : 0;
    bench_print_row(b, &row);
    row = (struct bench_row){.id = "ddp_by_hand", .unit = "samples/s", .value = by_hand, .n = 3, .floor = FLOOR_NONE};
    bench_print_row(b, &row);
    row = (struct bench_row){.id = "ddp_manta", .unit = "samples/s", .value = ours, .n = 3, .floor = FLOOR_NONE};
    bench_print_row(b, &row);
    return by_hand > 0 ? 0 : 1;
}

static struct bench   bench;
static struct killing one = {.id = "recover", .together = 1};
static struct killing spare = {.id = "recover_spare", .together = 1};
static struct killing all = {.id = "recover_all"};
static struct killing hung = {.id = "replace_hung", .together = 1, .signal = SIGSTOP};
static struct killing half = {.id = "half_loss", .workers = 8, .together = 4, .min_workers = 4};

static int recovery(const manta_sgd_opts *opts, int workers, int kills)
{
    one.workers = spare.workers = workers;
    one.left = spare.left = kills;
    return measure(&bench, &one, opts, 0, NULL) | measure(&bench, &spare, opts, 1, NULL);
}

static int replacement(const manta_sgd_opts *opts, int workers, int kills)
{
    hung.workers = workers;
    hung.left = kills < 10 * HUNG_MIN ? HUNG_MIN : kills / 10;
    return measure(&bench, &hung, opts, 1, NULL);
}

static int run(const manta_sgd_opts *opts, int workers, int kills, const char *storage)
{
    int failed = 0;
    one.workers = spare.workers = all.workers = all.together = workers;
    one.left = spare.left = all.left = half.left = kills;
    failed |= measure(&bench, &one, opts, 0, NULL);
    failed |= measure(&bench, &spare, opts, 1, NULL);
    failed |= measure(&bench, &all, opts, 0, storage);
    failed |= replacement(opts, workers, kills);
    failed |= measure(&bench, &half, opts, 0, NULL);
    return failed | overhead(&bench, opts, workers) | accuracy(&bench, opts);
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)st, (void)type, (void)walk;
    return remove(path);
}

static int usage(bool is_help)
{
    return bench_usage(is_help, "--train [-n kills] [-w workers] [-e epochs] [-c|-l|-s|-r|-u|-z] [-o table|json]");
}

int main(int argc, char **argv)
{
    manta_error    e;
    manta_sgd_opts opts = {.run = {.epochs = 8, .batch = BATCH, .log_steps = 50}, .failure.max_failures = -1, .on_event = on_event};
    int            workers = 2, kills = 30;
    bool           is_collectives = false, is_overlap = false, is_saves = false, is_recovery = false, is_hung = false;
    bool           is_zero = false;

    if (bench_is_help(argc, argv))
        return usage(true);
    if (manta_init(&argc, &argv, NULL, &e))
        return manta_perror(&e);
    for (int o; (o = getopt(argc, argv, "n:w:e:clsruzo:")) != -1;) {
        if (o == 'n')
            kills = (int)strtol(optarg, NULL, 10);
        else if (o == 'w')
            workers = (int)strtol(optarg, NULL, 10);
        else if (o == 'e')
            opts.run.epochs = (int)strtol(optarg, NULL, 10);
        else if (o == 'c')
            is_collectives = true;
        else if (o == 'l')
            is_overlap = true;
        else if (o == 's')
            is_saves = true;
        else if (o == 'r')
            is_recovery = true;
        else if (o == 'z')
            is_zero = true;
        else if (o == 'u')
            is_hung = true;
        else if (o == 'o' && strcmp(optarg, "json") == 0)
            bench.options.output = BENCH_JSON;
        else if (o != 'o')
            return usage(false);
    }
    workers = workers < 1 ? 1 : workers > WORKERS_MAX ? WORKERS_MAX : workers;
    kills = kills > KILLS_MAX ? KILLS_MAX : kills;
    opts.scaling.max_workers = workers;

    bench_print_head(&bench);
    bool is_all = !is_saves && !is_recovery && !is_hung && !is_zero;
    if (is_all && !is_overlap)
        bench_collectives(&bench);
    if (is_all)
        bench_overlap(&bench);
    if (is_collectives || is_overlap) {
        manta_shutdown();
        return bench.failures ? 1 : 0;
    }
    char storage[] = "/tmp/manta-train-XXXXXX";
    if (!mkdtemp(storage))
        return perror(storage), 1;
    int failed = is_recovery ? recovery(&opts, workers, kills)
                 : is_hung   ? replacement(&opts, workers, kills)
                 : is_zero   ? bench_zero(&bench, workers, storage)
                             : bench_checkpoints(&bench, workers, storage);
    if (is_all)
        failed |= run(&opts, workers, kills, storage) | bench_zero(&bench, workers, storage);
    nftw(storage, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
    manta_shutdown();
    return failed || bench.failures ? 1 : 0;
}
