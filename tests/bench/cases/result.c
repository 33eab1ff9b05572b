/* SPDX-License-Identifier: Apache-2.0
 *
 * result.c - what comes back in other ways: generators, several results, map, refs inside values, callbacks.
 *
 * Thread: the main one; callbacks in manta_progress or on the library's helper.
 */
#include "tests/bench/functions.h"

#include "core/base/status.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ITEM_BYTES = 64, ITEMS = 100000, REFS = 10000, MAPPED = 1000000, SEVERAL = 10, TILE_MAX = 8 << 20, TILES = 20000 };

/* ---- a generator of 64-byte items in another process ---- */

/* First item: who yields; then items that can be checked. */
static manta_status bench_items(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t      item[ITEM_BYTES / 8] = {getpid()};
    manta_status st = manta_yield(c, manta_bytes_of(item, sizeof item));
    (void)argc;
    for (int64_t i = 0; i < argv[1].l && st == MANTA_OK; i++) {
        item[0] = item[ITEM_BYTES / 8 - 1] = bench_mix(argv[0].l + i);
        st = manta_yield(c, manta_bytes_of(item, sizeof item));
    }
    return st;
}
MANTA_REGISTER(bench_items, "ll>y");

/* The next item's first word; *ok false where there is none of the right form. */
static int64_t take_item(manta_generator *g, bool *ok)
{
    int64_t     item[ITEM_BYTES / 8];
    manta_error e;
    manta_view  view;
    if (manta_next(g, BENCH_WAIT_MS, &view, &e)) {
        *ok = bench_say(&e, "an item is missing");
        return 0;
    }
    *ok = view.size == sizeof item;
    if (*ok)
        memcpy(item, view.data, sizeof item);
    manta_release(&view);
    return *ok ? item[0] : 0;
}

static double step_items(struct bench_step *step)
{
    struct bench    *b = step->b;
    int64_t          first = b->next;
    manta_generator *g = manta_call_stream("bench_items", NULL, MANTA_ARGS(manta_i64(first), manta_i64(ITEMS)));
    bool             ok = true;
    b->next += ITEMS;
    if (take_item(g, &ok) == getpid()) {
        fprintf(stderr, "manta-bench: a generator ran in the driver's own process\n");
        ok = false;
    }
    for (int64_t i = 0; ok && i < ITEMS; i++)
        ok = take_item(g, &ok) == bench_mix(first + i) && ok;
    manta_generator_free(g);
    return ok ? ITEMS : -1;
}

static bool run_generator(struct bench *b, struct bench_row *row)
{
    struct bench_step step = {step_items, b};
    return bench_rate(&step, row, 1);
}

/* ---- several results ---- */

static manta_status bench_several(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    for (int i = 0; i < SEVERAL; i++)
        manta_return_at(c, i, manta_i64(bench_mix(argv[0].l + i)));
    return MANTA_OK;
}
MANTA_REGISTER(bench_several, "l>*");

static double step_several(struct bench_step *step)
{
    struct bench *b = step->b;
    int64_t       first = b->next;
    bool          ok = true;
    b->next += BENCH_BATCH;
    for (int i = 0; i < BENCH_BATCH; i += SEVERAL)
        manta_call_n("bench_several", NULL, MANTA_ARGS(manta_i64(first + i)), &b->refs[i], SEVERAL);
    for (int i = 0; i < BENCH_BATCH; i++)
        ok = bench_value(b->refs[i], bench_mix(first + i)) && ok;
    return ok ? BENCH_BATCH : -1;
}

static bool run_several(struct bench *b, struct bench_row *row)
{
    struct bench_step step = {step_several, b};
    return bench_rate(&step, row, 1);
}

/* ---- tiles: large results, written in place or copied ---- */

static void tile_fill(int64_t *to, size_t size, int64_t x)
{
    for (size_t i = 0; i < size / sizeof *to; i++)
        to[i] = x + (int64_t)i;
}

/* bytes, x */
static manta_status bench_tile_placed(manta_ctx *c, int argc, const manta_arg *argv)
{
    void        *out;
    manta_status code = manta_return_buffer(c, 0, (size_t)argv[0].l, &out);
    (void)argc;
    if (code == MANTA_OK)
        tile_fill(out, (size_t)argv[0].l, argv[1].l);
    return code;
}
MANTA_REGISTER(bench_tile_placed, "ll>y");

static manta_status bench_tile_copied(manta_ctx *c, int argc, const manta_arg *argv)
{
    static int64_t *tile; /* warm from the first one on */
    (void)argc;
    if (!tile)
        tile = malloc(TILE_MAX);
    if (!tile)
        return MANTA_ENOMEM;
    tile_fill(tile, (size_t)argv[0].l, argv[1].l);
    return manta_return_bytes(c, tile, (size_t)argv[0].l);
}
MANTA_REGISTER(bench_tile_copied, "ll>y");

struct tile_step {
    struct bench_step step;
    const char       *function;
    size_t            size;
};

static double step_tile(struct bench_step *step)
{
    struct tile_step *t = mt_container_of(step, struct tile_step, step);
    int64_t           x = step->b->next++, last = 0;
    uint64_t          start = bench_now_ns();
    manta_ref        *ref = manta_call(t->function, NULL, MANTA_ARGS(manta_i64((int64_t)t->size), manta_i64(x)));
    manta_error       e;
    manta_view        view;
    manta_status      code = manta_get(ref, BENCH_WAIT_MS, &view, &e);
    double            us = (double)(bench_now_ns() - start) / 1000;
    if (code == MANTA_OK && view.size == t->size)
        memcpy(&last, (const uint8_t *)view.data + t->size - sizeof last, sizeof last);
    manta_release(&view);
    manta_free(ref);
    if (code != MANTA_OK)
        return bench_say(&e, "a tile") - 1;
    return last == x + (int64_t)(t->size / sizeof last) - 1 ? us : -1;
}

static bool run_tile(struct bench *b, struct bench_row *row, const char *function, size_t size)
{
    struct tile_step t = {{step_tile, b}, function, size};
    return bench_latency(&t.step, row, 0.5, TILES);
}
static bool run_tile_64k(struct bench *b, struct bench_row *row)
{
    return run_tile(b, row, "bench_tile_placed", 64 << 10);
}
static bool run_tile_64k_copied(struct bench *b, struct bench_row *row)
{
    return run_tile(b, row, "bench_tile_copied", 64 << 10);
}
static bool run_tile_512k(struct bench *b, struct bench_row *row)
{
    return run_tile(b, row, "bench_tile_placed", 512 << 10);
}
static bool run_tile_512k_copied(struct bench *b, struct bench_row *row)
{
    return run_tile(b, row, "bench_tile_copied", 512 << 10);
}
static bool run_tile_8m(struct bench *b, struct bench_row *row)
{
    return run_tile(b, row, "bench_tile_placed", TILE_MAX);
}
static bool run_tile_8m_copied(struct bench *b, struct bench_row *row)
{
    return run_tile(b, row, "bench_tile_copied", TILE_MAX);
}

/* ---- map ---- */

MANTA_TASK(int64_t, bench_mapped, (int64_t, x))
{
    return bench_mix(x);
}

struct map_step {
    struct bench_step step;
    int64_t          *items, *results;
};

static double step_map(struct bench_step *step)
{
    struct map_step *m = mt_container_of(step, struct map_step, step);
    manta_error      e;
    for (int64_t i = 0; i < MAPPED; i++)
        m->items[i] = step->b->next++;
    if (manta_map("bench_mapped", NULL, m->items, MAPPED, sizeof *m->items, 0, m->results, sizeof *m->results, &e))
        return bench_say(&e, "manta_map") - 1;
    for (int64_t i = 0; i < MAPPED; i++)
        if (m->results[i] != bench_mix(m->items[i]))
            return -1;
    return MAPPED;
}

static bool run_map(struct bench *b, struct bench_row *row)
{
    struct map_step m = {.step = {step_map, b}};
    m.items = malloc(2 * MAPPED * sizeof *m.items);
    m.results = m.items ? m.items + MAPPED : NULL;
    bool ok = m.items && bench_rate(&m.step, row, 1);
    free(m.items);
    return ok;
}

/* ---- a value that declares 10,000 refs ---- */

/* As in Ray's case, a task makes the values and returns what declares them. */
static manta_status bench_many_refs(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_ref  **refs = calloc(REFS, sizeof *refs);
    int64_t      one = 1;
    manta_status st;
    (void)argc, (void)argv;
    for (int i = 0; i < REFS; i++)
        refs[i] = manta_put(&one, sizeof one);
    st = manta_return_refs(c, &one, sizeof one, refs, REFS);
    for (int i = 0; i < REFS; i++)
        manta_free(refs[i]);
    free(refs);
    return st;
}
MANTA_REGISTER(bench_many_refs, "l>y");

struct refs_step {
    struct bench_step step;
    manta_ref        *outer;
};

/* Get, a handle on each, and all given up again. */
static double step_refs(struct bench_step *step)
{
    struct refs_step *r = mt_container_of(step, struct refs_step, step);
    struct bench     *b = step->b;
    manta_error       e;
    manta_view        view;
    int64_t           count;
    if (manta_get(r->outer, BENCH_WAIT_MS, &view, &e))
        return bench_say(&e, "the value with refs is missing") - 1;
    count = manta_view_refs(&view, b->refs, REFS, &e);
    manta_release(&view);
    for (int i = 0; i < count && i < REFS; i++)
        manta_free(b->refs[i]);
    return count == REFS ? 1 : -1;
}

static bool run_refs(struct bench *b, struct bench_row *row)
{
    struct refs_step r = {.step = {step_refs, b}};
    manta_error      e;
    manta_view       view;
    bool             ok;
    r.outer = manta_call("bench_many_refs", NULL, MANTA_ARGS(manta_i64(0)));
    ok = bench_rate(&r.step, row, 1);
    if (ok && manta_get(r.outer, BENCH_WAIT_MS, &view, &e) == MANTA_OK) { /* the refs name what they should */
        ok = manta_view_refs(&view, b->refs, REFS, &e) == REFS;
        manta_release(&view);
        for (int i = 0; i < REFS; i++) {
            int64_t one = 0;
            if (ok && i % 1000 == 7 && (ok = manta_get(b->refs[i], BENCH_WAIT_MS, &view, &e) == MANTA_OK)) {
                memcpy(&one, view.data, sizeof one);
                ok = one == 1;
                manta_release(&view);
            }
            manta_free(b->refs[i]);
        }
    }
    manta_free(r.outer);
    return ok;
}

/* ---- callbacks: registered, and run when the value is gone ---- */

static _Atomic int64_t fired;
static void            on_free(void *user)
{
    (void)user;
    atomic_fetch_add(&fired, 1);
}

static double step_callbacks(struct bench_step *step)
{
    struct bench *b = step->b;
    int64_t       wanted = atomic_load(&fired) + BENCH_BATCH;
    uint64_t      limit = bench_now_ns() + (uint64_t)BENCH_WAIT_MS * 1000000;
    manta_error   e;
    for (int i = 0; i < BENCH_BATCH; i++) {
        b->refs[i] = manta_put(&i, sizeof i);
        if (manta_on_free(b->refs[i], on_free, NULL, &e))
            return bench_say(&e, "a callback") - 1;
    }
    for (int i = 0; i < BENCH_BATCH; i++)
        manta_free(b->refs[i]);
    while (atomic_load(&fired) < wanted && bench_now_ns() < limit)
        manta_progress();
    return atomic_load(&fired) == wanted ? BENCH_BATCH : -1;
}

static bool run_callbacks(struct bench *b, struct bench_row *row)
{
    struct bench_step step = {step_callbacks, b};
    return bench_rate(&step, row, 1);
}

const struct bench_case bench_result_cases[] = {
    {"generator", "1/s", FLOOR_RING_RATE, true, run_generator},
    {"several_results", "1/s", FLOOR_RING_RATE, true, run_several},
    {"tile_64k", "us", FLOOR_MEMCPY, true, run_tile_64k},
    {"tile_64k_copied", "us", FLOOR_MEMCPY, true, run_tile_64k_copied},
    {"tile_512k", "us", FLOOR_MEMCPY, true, run_tile_512k},
    {"tile_512k_copied", "us", FLOOR_MEMCPY, true, run_tile_512k_copied},
    {"tile_8m", "us", FLOOR_MEMCPY, true, run_tile_8m},
    {"tile_8m_copied", "us", FLOOR_MEMCPY, true, run_tile_8m_copied},
    {"map", "1/s", FLOOR_RING_RATE, true, run_map},
    {"single client get object containing 10k refs", "1/s", FLOOR_NONE, true, run_refs},
    {"out_of_scope_callbacks", "1/s", FLOOR_NONE, true, run_callbacks},
    {.id = NULL},
};
