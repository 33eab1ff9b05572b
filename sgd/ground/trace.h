/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.h - what the threads of workers did and when, in shared memory: the driver finds it also when a worker is dead.
 *
 *   row, one for each worker's place:  [main][communication][saver][device 1][device 2]...     a ring of spans for each thread
 *
 * Spans of a thread lie beside or inside each other. A ring has one writer, its thread; the reader misses what was overwritten
 * and is told how much. What was open when a process died stays readable. A row that is NULL: tracing is off, and open and close
 * do nothing. The rows lie at the end of a run's region (board.h), where run.timeline asks for them.
 */
#ifndef SGD_TRACE_H
#define SGD_TRACE_H

#include "core/base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Device 0's is MAIN. Of a worker with more devices the last ones have no track. */
enum sgd_trace_track { SGD_TRACK_MAIN, SGD_TRACK_SUMS, SGD_TRACK_SAVER, SGD_TRACK_DEVICE, SGD_TRACKS_MAX = SGD_TRACK_DEVICE + 15 };

/* Kind, its name in a trace, and what its number is (NULL: it has none). */
/* clang-format off */
#define SGD_SPANS(X)                                         \
    X(STEP, "step", "step")                                  \
    X(DATA_WAIT, "data wait", NULL)                          \
    X(COMPUTE, "forward and backward", "virtual rank")       \
    X(SUM, "all-reduce", "bytes")                            \
    X(SUM_WAIT, "wait for buckets", NULL)                    \
    X(BUCKET, "bucket all-reduce", "bytes")                  \
    X(UPDATE, "optimizer", NULL)                             \
    X(VALIDATE, "validation", NULL)                          \
    X(STATE, "state", NULL)                                  \
    X(SAVE_COPY, "copy for a checkpoint", NULL)              \
    X(SAVE, "save", "step")
/* clang-format on */
enum sgd_span_kind {
#define X(name, text, number) SGD_SPAN_##name,
    SGD_SPANS(X)
#undef X
        SGD_SPAN_KINDS
};

enum { SGD_TRACE_SPANS = 2048, SGD_TRACE_DEPTH = 4, SGD_TRACE_LEAST_NS = 10000 };

struct sgd_span {
    int64_t  begin_ns, end_ns; /* CLOCK_MONOTONIC */
    uint16_t kind, rank;
    uint32_t reserved;
    uint64_t number;
};

struct sgd_trace_ring {
    _Alignas(64) _Atomic uint64_t head; /* spans that were ever closed */
    _Atomic uint32_t depth;             /* of `open` */
    struct sgd_span  open[SGD_TRACE_DEPTH];
    struct sgd_span  spans[SGD_TRACE_SPANS];
};

struct sgd_trace_row {
    _Alignas(64) _Atomic int32_t pid; /* 0: nobody yet */
    _Atomic uint32_t      rank;       /* that spans get which are opened now */
    uint32_t              tracks;     /* the writer's */
    struct sgd_trace_ring rings[];
};

/* Of a run: what its workers and its driver agree on. */
struct sgd_trace_plan {
    uint32_t rows;   /* places; 0: tracing is off */
    uint32_t tracks; /* of each, SGD_TRACK_DEVICE to SGD_TRACKS_MAX */
};

static inline size_t sgd_trace_row_size(struct sgd_trace_plan plan)
{
    return sizeof(struct sgd_trace_row) + plan.tracks * sizeof(struct sgd_trace_ring);
}
static inline size_t sgd_trace_size(struct sgd_trace_plan plan)
{
    return plan.rows * sgd_trace_row_size(plan);
}

/* The row of a worker's place, at the end of the region; NULL: there is none. */
struct sgd_trace_row *sgd_trace_row_of(void *region, size_t region_size, struct sgd_trace_plan plan, uint32_t place);

/* The writer's. A process takes its row over from the last one of this place. */
void sgd_trace_attach(struct sgd_trace_row *row, uint32_t tracks, int32_t pid);
void sgd_trace_rank(struct sgd_trace_row *row, uint32_t rank);
void sgd_trace_put_open(struct sgd_trace_row *row, enum sgd_trace_track track, enum sgd_span_kind kind, uint64_t number);
void sgd_trace_put_close(struct sgd_trace_row *row, enum sgd_trace_track track);
/* A span of which it is known only now that it is worth it. */
void sgd_trace_put_whole(struct sgd_trace_row *row, enum sgd_trace_track track, enum sgd_span_kind kind, int64_t begin_ns);
/* Where a device's spans go; false: nowhere. */
bool sgd_trace_device(const struct sgd_trace_row *row, uint32_t device, enum sgd_trace_track *out);
/* Closes what an error left open. */
void sgd_trace_unwind(struct sgd_trace_row *row, enum sgd_trace_track track);

static inline void sgd_trace_open(struct sgd_trace_row *row, enum sgd_trace_track track, enum sgd_span_kind kind, uint64_t number)
{
    if (row)
        sgd_trace_put_open(row, track, kind, number);
}

static inline void sgd_trace_close(struct sgd_trace_row *row, enum sgd_trace_track track)
{
    if (row)
        sgd_trace_put_close(row, track);
}

/* The reader's place in one row; zeroed at first. */
struct sgd_trace_cursor {
    int32_t  pid;
    uint64_t at[SGD_TRACKS_MAX];
    uint64_t lost; /* overwritten before they were read */
};
/* The next span that is there, of a row of so many tracks. False: there is none. */
bool sgd_trace_next(const struct sgd_trace_row *row, uint32_t tracks, struct sgd_trace_cursor *cursor, struct sgd_span *out,
                    enum sgd_trace_track *out_track);
/* The index-th of what a dead process had open; end_ns is not set. False: there are no more. */
bool sgd_trace_left_open(const struct sgd_trace_row *row, enum sgd_trace_track track, uint32_t index, struct sgd_span *out);

const char *sgd_span_name(uint32_t kind);
/* NULL: it has no number. */
const char *sgd_span_number(uint32_t kind);

#endif
