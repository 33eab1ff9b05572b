/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.c - deep queues: what a queued task weighs, how fast it is drained or taken back, and whether depth costs.
 *
 * Thread: the main one.
 */
#include "tests/bench/functions.h"

#include "core/base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CANCELS = 10000, MILLION = 1000000, HOLDS_MAX = 64 };

/* Tasks that keep every CPU until they are cancelled: nothing else may start meanwhile. */
struct holds {
    manta_ref *refs[HOLDS_MAX];
    int        count;
};

static bool holds_begin(struct bench *b, struct holds *h)
{
    h->count = b->cpus < HOLDS_MAX ? b->cpus : HOLDS_MAX;
    for (int i = 0; i < h->count; i++)
        h->refs[i] = bench_hold_task();
    bench_sleep_us(300 * 1000); /* the last of them has its worker by then; a late one only waits in the queue */
    return true;
}

static bool holds_end(struct holds *h)
{
    bool ok = true;
    for (int i = 0; i < h->count; i++) {
        manta_error e;
        if (manta_cancel(h->refs[i], NULL, &e) != MANTA_OK)
            ok = bench_say(&e, "cancel of a task that runs");
    }
    for (int i = 0; i < h->count; i++) {
        manta_error e;
        manta_view  view;
        if (ok && manta_get(h->refs[i], BENCH_WAIT_MS, &view, &e) != MANTA_ECANCELLED)
            ok = bench_say(&e, "a task that runs was not cancelled");
        manta_free(h->refs[i]);
    }
    return ok;
}

static manta_ref **refs_new(size_t count)
{
    manta_ref **refs = malloc(count * sizeof *refs);
    if (refs)
        memset(refs, 0xff, count * sizeof *refs); /* its pages are made now, and are not counted as the queue's */
    return refs;
}

/* ---- cancel: 10,000 queued tasks, first to last and last to first in turn ---- */
static double step_cancel(struct bench_step *step)
{
    struct bench *b = step->b;
    int64_t       first = b->next;
    bool          ok = true;
    b->next += CANCELS;
    for (int i = 0; i < CANCELS; i++)
        b->refs[i] = bench_task(NULL, first + i);
    uint64_t start = bench_now_ns();
    for (int i = 0; i < CANCELS && ok; i++) {
        manta_error e;
        if (manta_cancel(b->refs[first / CANCELS % 2 ? CANCELS - 1 - i : i], NULL, &e) != MANTA_OK)
            ok = bench_say(&e, "cancel");
    }
    double ms = (double)(bench_now_ns() - start) / 1e6;
    for (int i = 0; i < CANCELS; i++) {
        manta_error e;
        int64_t     x;
        if (ok && manta_get_i64(b->refs[i], BENCH_WAIT_MS, &x, &e) != MANTA_ECANCELLED)
            ok = bench_say(&e, "a queued task was not cancelled");
        manta_free(b->refs[i]);
    }
    return ok ? ms : -1;
}

static bool run_cancel(struct bench *b, struct bench_row *row)
{
    struct bench_step step = {step_cancel, b};
    struct holds      h;
    bool              ok = holds_begin(b, &h) && bench_latency(&step, row, 0.5, 20);
    return holds_end(&h) && ok;
}

/* ---- a million, none of which may start ---- */
static double resident_bytes(void)
{
    long  pages[2] = {0, 0};
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &pages[0], &pages[1]) != 2)
        pages[1] = 0;
    if (f)
        fclose(f);
    return (double)pages[1] * (double)sysconf(_SC_PAGESIZE);
}

/* Gets them all, in order, checks and frees them. */
static bool drain(manta_ref **refs, size_t count, int64_t first)
{
    bool ok = true;
    for (size_t i = 0; i < count; i++) {
        if (ok)
            ok = bench_value(refs[i], bench_mix(first + (int64_t)i));
        else
            manta_free(refs[i]);
    }
    return ok;
}

static bool million(struct bench *b, double *bytes_each, double *drained_s)
{
    struct holds h;
    manta_ref  **refs = refs_new(MILLION);
    int64_t      first = b->next;
    double       before;
    bool         ok;
    if (!refs || !holds_begin(b, &h))
        return false;
    b->next += MILLION;
    before = resident_bytes();
    for (size_t i = 0; i < MILLION; i++)
        refs[i] = bench_task(NULL, first + (int64_t)i);
    *bytes_each = (resident_bytes() - before) / MILLION;
    ok = holds_end(&h);
    uint64_t start = bench_now_ns();
    ok = drain(refs, MILLION, first) && ok;
    *drained_s = (double)(bench_now_ns() - start) / 1e9;
    free(refs);
    return ok;
}

/* The first million is what a fresh process pays: later ones find the memory. */
static bool million_once(struct bench *b, double out[2])
{
    static double kept[2];
    if (kept[1] == 0 && !million(b, &kept[0], &kept[1]))
        return false;
    out[0] = kept[0], out[1] = kept[1];
    return true;
}

static bool run_million_bytes(struct bench *b, struct bench_row *row)
{
    double x[2];
    if (!million_once(b, x))
        return false;
    row->value = x[0];
    row->n = MILLION;
    return true;
}

static bool run_million_drain(struct bench *b, struct bench_row *row)
{
    double x[2];
    if (!million_once(b, x))
        return false;
    row->value = x[1];
    row->n = MILLION;
    return true;
}

/* ---- tasks_async at four depths ---- */
struct deep_step {
    struct bench_step step;
    manta_ref       **refs;
    size_t            depth;
};

static double step_deep(struct bench_step *step)
{
    struct deep_step *d = mt_container_of(step, struct deep_step, step);
    int64_t           first = step->b->next;
    step->b->next += (int64_t)d->depth;
    for (size_t i = 0; i < d->depth; i++)
        d->refs[i] = bench_task(NULL, first + (int64_t)i);
    return drain(d->refs, d->depth, first) ? (double)d->depth : -1;
}

static double curve[4]; /* rates so far, for queue_curve */

static bool run_depth(struct bench *b, struct bench_row *row, int which)
{
    static const size_t depths[4] = {2000, 20000, 200000, MILLION};
    struct deep_step    d = {.step = {step_deep, b}, .refs = refs_new(depths[which]), .depth = depths[which]};
    bool                ok = d.refs && bench_rate(&d.step, row, 1);
    free(d.refs);
    curve[which] = ok ? row->value : 0;
    return ok;
}

static bool run_2k(struct bench *b, struct bench_row *row)
{
    return run_depth(b, row, 0);
}
static bool run_20k(struct bench *b, struct bench_row *row)
{
    return run_depth(b, row, 1);
}
static bool run_200k(struct bench *b, struct bench_row *row)
{
    return run_depth(b, row, 2);
}
static bool run_1m(struct bench *b, struct bench_row *row)
{
    return run_depth(b, row, 3);
}

/* ---- chain: a million tasks, each with the result of the one before; the first fails when the last is submitted ---- */
static double chain_seconds(struct bench_board *board, uint64_t number)
{
    uint64_t     start = bench_now_ns();
    manta_ref   *last = manta_call("bench_fail", &(manta_task_opts){.max_retries = MANTA_NO_RETRY}, MANTA_ARGS(manta_u64(number)));
    manta_error  e;
    int64_t      got;
    manta_status code;
    for (int i = 0; i < MILLION; i++) {
        manta_ref *next = manta_call("bench_noop", NULL, MANTA_ARGS(manta_ref_arg(last)));
        manta_free(last);
        last = next;
    }
    board->may_fail = 1;
    code = manta_get_i64(last, BENCH_WAIT_MS, &got, &e);
    manta_free(last);
    if (code != MANTA_ETASK || e.user_code != BENCH_FAIL_CODE)
        return bench_say(&e, "the last of a chain has not the error of the first") - 1;
    return (double)(bench_now_ns() - start) / 1e9;
}

static bool run_chain(struct bench *b, struct bench_row *row)
{
    uint64_t            number;
    struct bench_board *board = bench_board_new(&number);
    (void)b;
    if (!board)
        return false;
    row->value = chain_seconds(board, number);
    row->n = MILLION;
    bench_board_free(board);
    return row->value >= 0;
}

/* By how much the slowest of the four falls behind the fastest, in percent. */
static bool run_curve(struct bench *b, struct bench_row *row)
{
    double low = curve[0], high = curve[0];
    (void)b;
    for (int i = 0; i < 4; i++) {
        if (curve[i] == 0)
            return true; /* only with all four */
        low = curve[i] < low ? curve[i] : low;
        high = curve[i] > high ? curve[i] : high;
    }
    row->value = 100 * (high - low) / high;
    row->n = 4;
    return true;
}

const struct bench_case bench_queue_cases[] = {
    {"cancel", "ms", FLOOR_NONE, true, run_cancel},
    {"queued_1m", "B", FLOOR_NONE, true, run_million_bytes},
    {"queued_1m_drain", "s", FLOOR_NONE, true, run_million_drain},
    {"queue_2k", "1/s", FLOOR_RING_RATE, true, run_2k},
    {"queue_20k", "1/s", FLOOR_RING_RATE, true, run_20k},
    {"queue_200k", "1/s", FLOOR_RING_RATE, true, run_200k},
    {"queue_1m", "1/s", FLOOR_RING_RATE, true, run_1m},
    {"queue_curve", "%", FLOOR_NONE, true, run_curve},
    {"chain", "s", FLOOR_NONE, true, run_chain},
    {NULL, NULL, FLOOR_NONE, false, NULL},
};
