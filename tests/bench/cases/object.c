/* SPDX-License-Identifier: Apache-2.0
 *
 * object.c - put and get: small values per second, large ones in bytes per second.
 *
 * Thread: the main one.
 */
#include "tests/bench/functions.h"

#include "core/base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCK_SIZE = 64 * 1024, BLOCKS = 64 };
static const size_t GIGABYTE = 1ull << 30, RAY_PUT = 800 * 1000 * 1000;

struct object_step {
    struct bench_step    step;
    size_t               size;
    int                  count;
    char                *data;
    manta_ref           *held;
    struct bench_samples samples;
};

static bool view_is(manta_ref *ref, const void *data, size_t size)
{
    manta_error e;
    manta_view  view;
    if (manta_get(ref, BENCH_WAIT_MS, &view, &e) != MANTA_OK)
        return bench_say(&e, "a value is missing");
    bool same = view.size == size && memcmp(view.data, data, size) == 0;
    manta_release(&view);
    if (!same)
        fprintf(stderr, "manta-bench: a value is not what was put\n");
    return same;
}

/* ---- put ---- */
/* `count` puts, all held at once, each read back right; the first also by another process. */
static double step_puts(struct bench_step *step)
{
    struct object_step *o = mt_container_of(step, struct object_step, step);
    struct bench       *b = step->b;
    int64_t             first = b->next;
    bool                ok = true;
    b->next += o->count;
    for (int i = 0; i < o->count; i++) {
        int64_t x = first + i;
        memcpy(o->data, &x, sizeof x);
        b->refs[i] = manta_put(o->data, o->size);
    }
    for (int i = 0; i < o->count; i++) {
        int64_t x = first + i;
        memcpy(o->data, &x, sizeof x);
        ok = ok && view_is(b->refs[i], o->data, o->size);
        manta_free(b->refs[i]);
    }
    return ok ? o->count : -1;
}

/* A worker sees what was put: its block begins and ends with x. */
static bool check_elsewhere(struct object_step *o, int64_t x)
{
    manta_error e;
    int64_t     ns = -1;
    memset(o->data, 0, o->size);
    memcpy(o->data, &x, sizeof x);
    memcpy(o->data + o->size - sizeof x, &x, sizeof x);
    manta_ref   *value = manta_put(o->data, o->size);
    manta_ref   *ref = bench_fetch_task(value, x, (int64_t)o->size);
    manta_status code = manta_get_i64(ref, BENCH_WAIT_MS, &ns, &e);
    manta_free(ref);
    manta_free(value);
    if (code != MANTA_OK)
        return bench_say(&e, "get in another process");
    if (ns < 0)
        fprintf(stderr, "manta-bench: another process gets another value (%lld)\n", (long long)ns);
    return ns >= 0;
}

static bool run_puts(struct bench *b, struct bench_row *row, size_t size)
{
    struct object_step o = {.step = {step_puts, b}, .size = size, .count = BENCH_BATCH, .data = calloc(1, size)};
    bool               ok = o.data && bench_rate(&o.step, row, 1) && (size < 16 || check_elsewhere(&o, b->next++));
    free(o.data);
    return ok;
}
static bool run_put_calls(struct bench *b, struct bench_row *row)
{
    return run_puts(b, row, sizeof(int64_t));
}
static bool run_put_1k(struct bench *b, struct bench_row *row)
{
    return run_puts(b, row, 1024);
}

static double step_multi_put(struct bench_step *step)
{
    manta_ref *refs[10];
    bool       ok = true;
    for (int i = 0; i < 10; i++)
        refs[i] = bench_puts_task(100, 8);
    for (int i = 0; i < 10; i++)
        ok = bench_value(refs[i], 100) && ok;
    (void)step;
    return ok ? 1000 : -1;
}
static bool run_multi_put(struct bench *b, struct bench_row *row)
{
    struct object_step o = {.step = {step_multi_put, b}};
    return bench_rate(&o.step, row, 1);
}

/* Ten tasks, each puts 80 MB ten times. As in Ray's case the array is zeroed, so its reads hit one page of zeros. */
static double step_multi_put_large(struct bench_step *step)
{
    manta_ref *refs[10];
    bool       ok = true;
    for (int i = 0; i < 10; i++)
        refs[i] = bench_puts_task(10, RAY_PUT / 10);
    for (int i = 0; i < 10; i++)
        ok = bench_value(refs[i], 10) && ok;
    (void)step;
    return ok ? 8.0 : -1;
}
static bool run_multi_put_gigabytes(struct bench *b, struct bench_row *row)
{
    struct object_step o = {.step = {step_multi_put_large, b}};
    return bench_rate(&o.step, row, 1);
}

/* ---- get ---- */
static double step_gets(struct bench_step *step)
{
    struct object_step *o = mt_container_of(step, struct object_step, step);
    int64_t             zero = 0;
    for (int i = 0; i < BENCH_BATCH; i++) {
        if (!view_is(o->held, &zero, sizeof zero))
            return -1;
    }
    return BENCH_BATCH;
}
static bool run_get_calls(struct bench *b, struct bench_row *row)
{
    int64_t            zero = 0;
    struct object_step o = {.step = {step_gets, b}, .held = manta_put(&zero, sizeof zero)};
    bool               ok = bench_rate(&o.step, row, 1);
    manta_free(o.held);
    return ok;
}

/* Blocks that a worker has put; only the first get of each is timed, with a look at both its ends. Returns the
 * nanoseconds of one get. */
static double step_get_local(struct bench_step *step)
{
    struct bench *b = step->b;
    int64_t       first = b->next;
    bool          ok = true;
    manta_view    views[BLOCKS];
    unsigned char ready[BLOCKS];
    manta_error   e;
    b->next += BLOCKS;
    for (int i = 0; i < BLOCKS; i++)
        b->refs[i] = manta_call("bench_block", NULL, MANTA_ARGS(manta_i64(first + i), manta_i64(BLOCK_SIZE)));
    if (manta_wait(b->refs, BLOCKS, BLOCKS, BENCH_WAIT_MS, ready, &e) != BLOCKS)
        ok = bench_say(&e, "get_local");
    uint64_t start = bench_now_ns();
    int      got = 0;
    while (ok && got < BLOCKS && (ok = manta_get(b->refs[got], BENCH_WAIT_MS, &views[got], &e) == MANTA_OK))
        got++;
    uint64_t ns = bench_now_ns() - start;
    if (!ok)
        bench_say(&e, "get_local");
    for (int i = 0; i < got; i++) {
        ok = bench_block_is(&views[i], first + i, BLOCK_SIZE) && ok;
        manta_release(&views[i]);
    }
    for (int i = 0; i < BLOCKS; i++)
        manta_free(b->refs[i]);
    return ok ? (double)ns / BLOCKS : -1;
}

/* The median of the batches, as a rate. */
static bool run_get_local(struct bench *b, struct bench_row *row)
{
    struct object_step o = {.step = {step_get_local, b}};
    if (!bench_latency(&o.step, row, 0.5, BENCH_SAMPLES_MAX))
        return false;
    row->sd = row->sd / row->value * (1e9 / row->value);
    row->value = 1e9 / row->value;
    row->n *= BLOCKS;
    return true;
}

/* ---- large ---- */
static double step_put_large(struct bench_step *step)
{
    struct object_step *o = mt_container_of(step, struct object_step, step);
    int64_t             x = step->b->next++;
    memcpy(o->data, &x, sizeof x);
    memcpy(o->data + o->size - sizeof x, &x, sizeof x);
    uint64_t     start = bench_now_ns();
    manta_ref   *ref = manta_put(o->data, o->size);
    double       ns = (double)(bench_now_ns() - start);
    manta_error  e;
    int64_t      get_ns = -1;
    manta_ref   *fetched = bench_fetch_task(ref, x, (int64_t)o->size);
    manta_status code = manta_get_i64(fetched, BENCH_WAIT_MS, &get_ns, &e);
    bool         ok = view_is(ref, o->data, o->size);
    manta_free(fetched);
    manta_free(ref);
    if (code != MANTA_OK)
        return bench_say(&e, "get of a large value in another process") - 1;
    if (o->samples.data)
        bench_samples_add(&o->samples, (double)get_ns / 1000);
    return ok && get_ns >= 0 ? (double)o->size / ns : -1; /* bytes per ns are GB/s */
}

/* GB/s of the put alone; the value is verified here and in another process, outside of the clock. */
static bool run_put_large(struct bench *b, struct bench_row *row, size_t size, bool is_get)
{
    struct object_step o = {.step = {step_put_large, b}, .size = size};
    o.data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (o.data == MAP_FAILED)
        return false;
    memset(o.data, 7, size);
    bool ok = step_put_large(&o.step) > 0; /* pages of the store become warm */
    ok = ok && (!is_get || bench_samples_init(&o.samples));
    ok = ok && bench_latency(&o.step, row, 0.5, 64);
    if (o.samples.data)
        ok = bench_samples_row(&o.samples, 0.5, row) && ok;
    munmap(o.data, size);
    return ok;
}
static bool run_put_gigabytes(struct bench *b, struct bench_row *row)
{
    return run_put_large(b, row, RAY_PUT, false);
}
static bool run_put_1g(struct bench *b, struct bench_row *row)
{
    return run_put_large(b, row, GIGABYTE, false);
}
static bool run_get_1g(struct bench *b, struct bench_row *row)
{
    return run_put_large(b, row, GIGABYTE, true);
}

const struct bench_case bench_object_cases[] = {
    {"single client get calls", "1/s", FLOOR_MEMCPY_1K, true, run_get_calls},
    {"single client put calls", "1/s", FLOOR_MEMCPY_1K, true, run_put_calls},
    {"multi client put calls", "1/s", FLOOR_MEMCPY_1K, true, run_multi_put},
    {"single client put gigabytes", "GB/s", FLOOR_NT_COPY, true, run_put_gigabytes},
    {"multi client put gigabytes", "GB/s", FLOOR_NT_COPY, true, run_multi_put_gigabytes},
    {"put_1k", "1/s", FLOOR_MEMCPY_1K, true, run_put_1k},
    {"get_local", "1/s", FLOOR_MEMCPY_1K, true, run_get_local},
    {"put_1g", "GB/s", FLOOR_NT_COPY, true, run_put_1g},
    {"get_1g", "us", FLOOR_RING_RTT, true, run_get_1g},
    {.id = NULL},
};
