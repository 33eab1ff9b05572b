/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c - rings of spans. Owns: nothing; the memory is the caller's. Thread: one writer a ring, one reader.
 */
#include "sgd/ground/trace.h"

#include "core/base/status.h"

#include <string.h>

static const struct {
    const char *name, *number;
} kinds[] = {
#define X(name, text, number) {text, number},
    SGD_SPANS(X)
#undef X
};

const char *sgd_span_name(uint32_t kind)
{
    return kind < SGD_SPAN_KINDS ? kinds[kind].name : "?";
}

const char *sgd_span_number(uint32_t kind)
{
    return kind < SGD_SPAN_KINDS ? kinds[kind].number : NULL;
}

struct sgd_trace_row *sgd_trace_row_of(void *region, size_t region_size, struct sgd_trace_plan plan, uint32_t place)
{
    if (place >= plan.rows)
        return NULL;
    return (struct sgd_trace_row *)(void *)((char *)region + region_size - sgd_trace_size(plan) + place * sgd_trace_row_size(plan));
}

/* ---- the writer ---- */

void sgd_trace_attach(struct sgd_trace_row *row, uint32_t tracks, int32_t pid)
{
    if (!row)
        return;
    atomic_store(&row->pid, 0);
    row->tracks = tracks;
    for (uint32_t track = 0; track < tracks; track++) {
        atomic_store(&row->rings[track].head, 0);
        atomic_store(&row->rings[track].depth, 0);
    }
    atomic_store(&row->pid, pid);
}

void sgd_trace_rank(struct sgd_trace_row *row, uint32_t rank)
{
    if (row)
        atomic_store_explicit(&row->rank, rank, memory_order_relaxed);
}

static struct sgd_span span_of(struct sgd_trace_row *row, enum sgd_span_kind kind, uint64_t number, int64_t begin_ns)
{
    return (struct sgd_span){.begin_ns = begin_ns,
                             .kind = (uint16_t)kind,
                             .number = number,
                             .rank = (uint16_t)atomic_load_explicit(&row->rank, memory_order_relaxed)};
}

static void publish(struct sgd_trace_ring *ring, struct sgd_span span)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    span.end_ns = mt_now_ns();
    ring->spans[head % SGD_TRACE_SPANS] = span;
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

void sgd_trace_put_open(struct sgd_trace_row *row, enum sgd_trace_track track, enum sgd_span_kind kind, uint64_t number)
{
    struct sgd_trace_ring *ring = &row->rings[track];
    uint32_t               depth = atomic_load_explicit(&ring->depth, memory_order_relaxed);
    MT_ASSERT(depth < SGD_TRACE_DEPTH);
    ring->open[depth] = span_of(row, kind, number, mt_now_ns());
    atomic_store_explicit(&ring->depth, depth + 1, memory_order_release);
}

void sgd_trace_put_close(struct sgd_trace_row *row, enum sgd_trace_track track)
{
    struct sgd_trace_ring *ring = &row->rings[track];
    uint32_t               depth = atomic_load_explicit(&ring->depth, memory_order_relaxed);
    MT_ASSERT(depth > 0);
    publish(ring, ring->open[depth - 1]);
    atomic_store_explicit(&ring->depth, depth - 1, memory_order_release);
}

void sgd_trace_put_whole(struct sgd_trace_row *row, enum sgd_trace_track track, enum sgd_span_kind kind, int64_t begin_ns)
{
    publish(&row->rings[track], span_of(row, kind, 0, begin_ns));
}

bool sgd_trace_device(const struct sgd_trace_row *row, uint32_t device, enum sgd_trace_track *out)
{
    if (!row || (device && SGD_TRACK_DEVICE + device - 1 >= row->tracks))
        return false;
    *out = device ? (enum sgd_trace_track)(SGD_TRACK_DEVICE + device - 1) : SGD_TRACK_MAIN;
    return true;
}

void sgd_trace_unwind(struct sgd_trace_row *row, enum sgd_trace_track track)
{
    while (row && atomic_load_explicit(&row->rings[track].depth, memory_order_relaxed) > 0)
        sgd_trace_put_close(row, track);
}

/* ---- the reader ---- */

static bool ring_next(const struct sgd_trace_ring *ring, uint64_t *at, uint64_t *lost, struct sgd_span *out)
{
    for (;;) {
        uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
        if (head <= *at)
            return false;
        if (head - *at >= SGD_TRACE_SPANS) { /* the oldest may be half overwritten already */
            *lost += head - *at - SGD_TRACE_SPANS / 2;
            *at = head - SGD_TRACE_SPANS / 2;
        }
        *out = ring->spans[*at % SGD_TRACE_SPANS];
        atomic_thread_fence(memory_order_seq_cst);
        if (atomic_load(&ring->head) - *at >= SGD_TRACE_SPANS)
            continue;
        ++*at;
        return true;
    }
}

bool sgd_trace_next(const struct sgd_trace_row *row, uint32_t tracks, struct sgd_trace_cursor *cursor, struct sgd_span *out,
                    enum sgd_trace_track *out_track)
{
    int32_t pid = atomic_load(&row->pid);
    if (pid == 0)
        return false;
    if (pid != cursor->pid) {
        memset(cursor->at, 0, sizeof cursor->at);
        cursor->pid = pid;
    }
    for (uint32_t track = 0; track < tracks && track < SGD_TRACKS_MAX; track++)
        if (ring_next(&row->rings[track], &cursor->at[track], &cursor->lost, out)) {
            *out_track = (enum sgd_trace_track)track;
            return true;
        }
    return false;
}

bool sgd_trace_left_open(const struct sgd_trace_row *row, enum sgd_trace_track track, uint32_t index, struct sgd_span *out)
{
    const struct sgd_trace_ring *ring = &row->rings[track];
    uint32_t                     depth = atomic_load_explicit(&ring->depth, memory_order_acquire);
    if (index >= depth || index >= SGD_TRACE_DEPTH)
        return false;
    *out = ring->open[index];
    return true;
}
