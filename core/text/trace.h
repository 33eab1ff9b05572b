/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.h - a Chrome trace as text, which Perfetto and chrome://tracing open: tracks in sets, slices, arrows.
 *
 *   {head "traceEvents": [ event, event, ... ]}      MT_TRACE_END behind any event makes it a whole JSON document
 *
 * A track is (set, track): `pid` and `tid` in the format's words. Slices of one track lie beside or inside each other. Times are
 * microseconds since whatever the writer counts from, so that a double keeps its nanoseconds. Text is escaped; bytes that are not
 * UTF-8 become '?'. Nothing here blocks; one thread at a time. All calls: ENOMEM leaves half an event behind, so the text is lost.
 */
#ifndef MT_BASE_TRACE_H
#define MT_BASE_TRACE_H

#include "core/base/buf.h"

#define MT_TRACE_END "\n]}\n"

struct mt_trace {
    mt_buf out;
    bool   has_events; /* the next one is put behind a comma; the writer clears it, not who empties `out` */
};

/* What a slice says beside its name: a text, or where that is NULL a number. */
struct mt_trace_arg {
    const char *name, *text;
    int64_t     number;
};

struct mt_trace_slice {
    const char                *category, *name;
    double                     begin_us, length_us;
    int64_t                    set, track;
    const struct mt_trace_arg *args;
    int                        args_count;
};

/* The document's head. `other`: further members, each with a comma behind it, or "". */
MT_MUST_USE mt_status mt_trace_begin(struct mt_trace *t, const char *other);
MT_MUST_USE mt_status mt_trace_name_set(struct mt_trace *t, int64_t set, const char *name);
MT_MUST_USE mt_status mt_trace_name_track(struct mt_trace *t, int64_t set, int64_t track, const char *name);
MT_MUST_USE mt_status mt_trace_slice(struct mt_trace *t, const struct mt_trace_slice *slice);
/* One end of an arrow, at begin_us of the slice that lies there; both ends have category, name and id in common. */
MT_MUST_USE mt_status mt_trace_arrow(struct mt_trace *t, const struct mt_trace_slice *at, const char *id, bool is_head);

#endif
