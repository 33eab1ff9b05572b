/* SPDX-License-Identifier: Apache-2.0
 *
 * zero.c - rows zero_* and gpt2_*: some steps of the small GPT-2 (6 layers, 256 wide, 128 of context) by the public calls.
 *
 * The floor of a step is the futex round trip, as for the other rows of a run; that of the state's bytes is all of it divided by
 * the workers, told as a row of its own.
 *
 * Thread: the main one.
 */
#include "tests/bench/train/zero.h"

#include <manta_sgd.h>

#include <stdio.h>

enum { BATCH = 4, CONTEXT = 128, WARM = 1, STEPS = 4, ROUNDS = 1, TEXT = 40000 };

struct way {
    const char *step, *bytes; /* rows; NULL: not wanted */
    const char *rate;
    int         zero;
    bool        has_backup, is_half;
    double      ms;
    int64_t     state;
};

struct span {
    int64_t begun_ns, ended_ns;
};

static int on_event(void *user, const manta_sgd_event *event)
{
    struct span *span = user;
    if (event->kind != MANTA_SGD_STEP)
        return 0;
    if (event->step == WARM)
        span->begun_ns = (int64_t)bench_now_ns();
    if (event->step == WARM + STEPS)
        span->ended_ns = (int64_t)bench_now_ns();
    return event->step >= WARM + STEPS;
}

static int measure(struct way *way, int workers, const char *text)
{
    const char *const full[] = {"context=128", text, NULL}, *const half[] = {"context=128", text, "precision=bfloat16", NULL};
    struct span      span = {0, 0};
    manta_error      e;
    manta_sgd_result r;
    manta_sgd_opts   opts = {.scaling = {.min_workers = workers, .max_workers = workers},
                             .run = {.batch = BATCH, .shards = BATCH, .log_steps = 1},
                             .optimizer = {.kind = MANTA_SGD_ADAMW, .zero = way->zero, .zero_backup = way->has_backup},
                             .config = way->is_half ? half : full,
                             .on_event = on_event,
                             .user = &span};
    if (manta_sgd_fit("gpt2", &opts, &r, &e))
        return manta_perror(&e);
    double ms = (double)(span.ended_ns - span.begun_ns) * 1e-6 / STEPS;
    way->ms = way->ms == 0 || ms < way->ms ? ms : way->ms;
    way->state = r.optimizer_bytes;
    return 0;
}

static void way_print(struct bench *b, const struct way *way)
{
    struct bench_row row = {.id = way->step,
                            .unit = "ms",
                            .value = way->ms,
                            .n = STEPS,
                            .floor = FLOOR_FUTEX_RTT,
                            .floor_value = bench_floor(b, FLOOR_FUTEX_RTT)};
    if (way->step)
        bench_print_row(b, &row);
    row = (struct bench_row){.id = way->bytes, .unit = "MB", .value = (double)way->state * 1e-6, .n = 1, .floor = FLOOR_NONE};
    if (way->bytes)
        bench_print_row(b, &row);
    row = (struct bench_row){
        .id = way->rate, .unit = "tokens/s", .value = BATCH * CONTEXT / (way->ms * 1e-3), .n = STEPS, .floor = FLOOR_NONE};
    if (way->rate)
        bench_print_row(b, &row);
}

/* Something to read: what it says does not count. */
static bool text_write(const char *path)
{
    uint32_t state = 1;
    FILE    *file = fopen(path, "wbe");
    for (int i = 0; file && i < TEXT; i++, state = state * 1664525u + 1013904223u)
        (void)fputc((int)('a' + (state >> 24) % 26), file);
    return file && fclose(file) == 0;
}

int bench_zero(struct bench *b, int workers, const char *folder)
{
    workers = workers < BATCH ? workers : BATCH;
    struct way ways[] = {{.step = "zero_off_step", .bytes = "zero_off_state", .rate = "gpt2_float32"},
                         {.step = "zero_step", .bytes = "zero_state", .zero = 1},
                         {.step = "zero_backup_step", .bytes = "zero_backup_state", .zero = 1, .has_backup = true},
                         {.rate = "gpt2_bf16", .is_half = true}};
    enum { WAYS = sizeof ways / sizeof *ways };
    char text[256];
    snprintf(text, sizeof text, "data=%.200s/text", folder);
    if (!text_write(text + 5))
        return perror(text + 5), 1;
    for (int round = 0; round < ROUNDS; round++)
        for (int w = 0; w < WAYS; w++)
            if (measure(&ways[w], workers, text))
                return 1;
    for (int w = 0; w < WAYS; w++)
        way_print(b, &ways[w]);
    struct bench_row row = {
        .id = "zero_state_floor", .unit = "MB", .value = (double)ways[0].state * 1e-6 / workers, .n = 1, .floor = FLOOR_NONE};
    bench_print_row(b, &row);
    return 0;
}
