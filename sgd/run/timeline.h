/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.h - the file of run.timeline: a Chrome trace of a run's steps, sums, saves and recoveries, while it goes on.
 *
 * A row for each rank's main thread, and one beneath it for each of its other threads that does something; recoveries, phase by
 * phase, stand above all. The file is a whole JSON document after each write, so also after the driver's death; its successor
 * goes on in it. It ends growing at MT_TRAIN_TIMELINE_EVENTS; recoveries still come. Thread: the driver's.
 */
#ifndef SGD_TIMELINE_H
#define SGD_TIMELINE_H

#include "core/text/trace.h"
#include "sgd/ground/trace.h"

#include <manta_sgd.h>

#include <sys/types.h>

struct sgd_timeline {
    int             fd;      /* -1: there is none, and nothing is done */
    struct mt_trace text;    /* events that are not written yet */
    off_t           end;     /* of those that are */
    int64_t         zero_ns; /* CLOCK_MONOTONIC at the trace's zero */
    uint64_t        events;
    int64_t         recovered_ns;          /* the end of the last recovery */
    uint64_t        named[SGD_TRACKS_MAX]; /* of each thread, a bit for each rank whose track has a name */
};

/* `path` NULL: no timeline. ENOENT, EDISK_FULL, ESYS: the file can't be made. */
manta_status sgd_timeline_open(struct sgd_timeline *t, const char *path, const char *run, manta_error *e);

/* Adds a span; `shift_ns` is what is to be added to the clock that it was read from. Not finished: of one who died in it. */
void sgd_timeline_span(struct sgd_timeline *t, const struct sgd_span *span, enum sgd_trace_track track, int64_t shift_ns,
                       bool is_finished);
/* All that a row of so many tracks has. Returns the row's last sign of life, if `is_dead`: then also what was left open, until
 * `now_ns`. */
int64_t sgd_timeline_row(struct sgd_timeline *t, const struct sgd_trace_row *row, uint32_t tracks, struct sgd_trace_cursor *cursor,
                         bool is_dead);

/* `sign_ns`: when who died was last seen to do something; 0: not known. */
void sgd_timeline_recovery(struct sgd_timeline *t, const manta_sgd_recovery *r, int64_t sign_ns);

/* Writes what there is; on a full disk that waits for room, until the timeline is closed. False: it failed, errno says why, and the
 * timeline has ended. */
bool sgd_timeline_flush(struct sgd_timeline *t);
void sgd_timeline_close(struct sgd_timeline *t);

#endif
