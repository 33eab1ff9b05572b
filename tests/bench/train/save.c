/* SPDX-License-Identifier: Apache-2.0
 *
 * save.c - what a checkpoint of 500 MB costs those who train, as rows of manta-bench-train.
 *
 * A perceptron so wide that its state (parameters and the two moments of AdamW) has 500 MB is trained; each step is told,
 * with its duration as rank 0 measured it. A step that was followed by a copy of the state makes the next one longer: that is
 * the stall, beside a memcpy of as many bytes in the same run. Steps that end before the checkpoint is on the disk, beside
 * the median of the others, give the speed while saving.
 *
 * Thread: the driver's main one.
 */
#include "tests/bench/train/save.h"

#include "tests/bench/train/images.h"

#include <manta_sgd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { WIDTH = 52400, BATCH_SIZE = 32, RECORDS = 8192, TESTS = 32, STEPS_MAX = 400, SAVES = 3, CALM_STEPS = 10 };
static const double STATE_BYTES = 3.0 * 4 * (785.0 * WIDTH + 10.0 * (WIDTH + 1));

enum { CALM, STALLED, SAVING };

struct saves {
    double  step_s[STEPS_MAX];
    char    what[STEPS_MAX];
    int     count, saved, calm; /* calm: steps since the last checkpoint was there */
    int     every;
    int64_t offered; /* the step whose state is being saved; 0: none */
    double  write_s[SAVES];
    int64_t offered_ns;
};

static void step_note(struct saves *s, const manta_sgd_event *event)
{
    int64_t now = (int64_t)bench_now_ns();
    s->calm++;
    if (event->samples_per_s > 0 && s->count < STEPS_MAX) {
        s->what[s->count] = s->offered ? (event->step == s->offered + 1 ? STALLED : SAVING) : CALM;
        s->step_s[s->count++] = BATCH_SIZE / event->samples_per_s;
    }
    if (!s->offered && event->step % s->every == 0) {
        s->offered = event->step;
        s->offered_ns = now;
    }
}

static int on_save_event(void *user, const manta_sgd_event *event)
{
    struct saves *s = user;
    if (event->kind == MANTA_SGD_STEP)
        step_note(s, event);
    if (event->kind == MANTA_SGD_SAVE_FAILED || event->kind == MANTA_SGD_HUNG || event->kind == MANTA_SGD_LOST)
        fprintf(stderr, "manta-bench-train: ckpt_stall: %s\n", event->text);
    if (event->kind == MANTA_SGD_SAVED && event->step >= s->offered) {
        if (s->saved < SAVES)
            s->write_s[s->saved++] = (double)((int64_t)bench_now_ns() - s->offered_ns) * 1e-9;
        s->offered = 0;
        s->calm = 0;
    }
    return s->count == STEPS_MAX || (s->saved == SAVES && s->calm >= CALM_STEPS);
}

/* ---- figures ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count ? values[count / 2] : 0;
}

static int pick(const struct saves *s, int what, double out[STEPS_MAX])
{
    int count = 0;
    for (int i = 1; i < s->count; i++)
        if (s->what[i] == what)
            out[count++] = s->step_s[i];
    return count;
}

/* Seconds of a memcpy of as many bytes into memory that is there; the best of three. */
static double copy_s(void)
{
    size_t   bytes = (size_t)STATE_BYTES;
    char    *from = malloc(bytes), *to = malloc(bytes);
    uint64_t best = UINT64_MAX;
    if (from && to) {
        memset(from, 1, bytes);
        memset(to, 2, bytes);
        for (int i = 0; i < 3; i++) {
            uint64_t start = bench_now_ns();
            memcpy(to, from, bytes);
            uint64_t took = bench_now_ns() - start;
            best = took < best ? took : best;
        }
    }
    free(from);
    free(to);
    return from && to ? (double)best * 1e-9 : 0;
}

static void row(struct bench *b, const char *id, const char *unit, double value, int n)
{
    struct bench_row out = {.id = id, .unit = unit, .value = value, .n = (uint64_t)n, .floor = FLOOR_MEMCPY};
    out.floor_value = bench_floor(b, FLOOR_MEMCPY);
    bench_print_row(b, &out);
}

static int rows_print(struct bench *b, struct saves *s)
{
    double calm[STEPS_MAX], some[STEPS_MAX], sum = 0, copy = copy_s();
    int    calms = pick(s, CALM, calm), stalls, saving;
    double usual = median(calm, calms);

    stalls = pick(s, STALLED, some);
    double stall = median(some, stalls) - usual;
    if (stalls == 0 || s->saved < SAVES || copy <= 0)
        return fprintf(stderr, "manta-bench-train: ckpt_stall: %d checkpoints in %d steps\n", s->saved, s->count), 1;
    saving = pick(s, SAVING, some);
    for (int i = 0; i < saving; i++)
        sum += some[i];
    row(b, "ckpt_stall", "x memcpy", stall / copy, stalls);
    row(b, "ckpt_stall.ms", "ms", stall * 1e3, stalls);
    row(b, "ckpt_stall.memcpy", "ms", copy * 1e3, 3);
    row(b, "ckpt_stall.step", "ms", usual * 1e3, calms);
    if (saving)
        row(b, "ckpt_stall.speed", "%", usual / (sum / saving) * 100, saving);
    row(b, "ckpt_stall.write", "GB/s", STATE_BYTES * 1e-9 / median(s->write_s, s->saved), s->saved);
    return 0;
}

int bench_checkpoints(struct bench *b, int workers, const char *storage)
{
    static struct saves s;
    char                folder[512], data[600], width[32];
    const char         *config[] = {data, width, "classes=10", NULL};
    manta_error         e;
    snprintf(folder, sizeof folder, "%s/data", storage);
    snprintf(data, sizeof data, "data=%s", folder);
    snprintf(width, sizeof width, "hidden=%d", WIDTH);
    if (!bench_images_write(folder, RECORDS, TESTS))
        return fprintf(stderr, "manta-bench-train: ckpt_stall: %s can't be written\n", folder), 1;
    s = (struct saves){.every = CALM_STEPS};
    manta_sgd_opts opts = {.scaling.max_workers = workers,
                           .scaling.min_workers = workers,
                           .run = {.name = "ckpt",
                                   .storage = storage,
                                   .epochs = 100,
                                   .batch = BATCH_SIZE,
                                   .shards = 2,
                                   .log_steps = 1,
                                   .validate_epochs = 100},
                           .checkpoint = {.every_steps = s.every, .keep = 1},
                           .optimizer = {.kind = MANTA_SGD_ADAMW, .lr = 1e-5},
                           .config = config,
                           .on_event = on_save_event,
                           .user = &s};
    if (manta_sgd_fit("mlp", &opts, NULL, &e))
        return manta_perror(&e);
    return rows_print(b, &s);
}
