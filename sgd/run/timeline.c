/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.c - spans and recoveries as a file. Owns: its descriptor and what is not written yet. Thread: the driver's.
 */
#include "sgd/run/timeline.h"

#include "core/base/clock.h"
#include "core/base/limits/train.h"
#include "sgd/ground/file.h"
#include "sgd/run/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The run is one set of tracks; a rank's threads lie below one another. */
enum { SET = 1, TRACK_RECOVERIES = 0, TRACKS_A_RANK = 32, HEAD_BYTES = 256 };
#define ZERO_MEMBER "\"begunAtUnixNs\": "

static double micros(const struct sgd_timeline *t, int64_t ns)
{
    return (double)(ns - t->zero_ns) * 1e-3;
}

/* Without memory an event is half there: what was not written yet is dropped. */
static void take(struct sgd_timeline *t, mt_status st)
{
    if (st.code != 0)
        t->text.out.size = 0;
    else
        t->events++;
}

/* ---- the file ---- */

/* A timeline of an earlier driver of the run: goes on behind its last event. */
static bool file_goes_on(struct sgd_timeline *t)
{
    char        head[HEAD_BYTES] = "", tail[sizeof MT_TRACE_END] = "";
    struct stat info;
    size_t      tail_size = sizeof MT_TRACE_END - 1;
    const char *zero;
    if (fstat(t->fd, &info) != 0 || info.st_size < (off_t)sizeof head ||
        pread(t->fd, head, sizeof head - 1, 0) != sizeof head - 1 || !(zero = strstr(head, ZERO_MEMBER)) ||
        pread(t->fd, tail, tail_size, info.st_size - (off_t)tail_size) != (ssize_t)tail_size || strcmp(tail, MT_TRACE_END) != 0)
        return false;
    t->zero_ns = strtoll(zero + strlen(ZERO_MEMBER), NULL, 10) - (int64_t)mt_wall_ns() + mt_now_ns();
    t->end = info.st_size - (off_t)tail_size;
    t->text.has_events = true;
    return true;
}

static mt_status file_begin(struct sgd_timeline *t, const char *run)
{
    char other[HEAD_BYTES / 2];
    t->zero_ns = mt_now_ns();
    snprintf(other, sizeof other, ZERO_MEMBER "%llu, ", (unsigned long long)mt_wall_ns());
    MT_TRY(ftruncate(t->fd, 0) == 0 ? mt_ok() : sgd_file_error(errno, "empty the timeline"));
    MT_TRY(mt_trace_begin(&t->text, other));
    MT_TRY(mt_trace_name_set(&t->text, SET, run));
    return mt_trace_name_track(&t->text, SET, TRACK_RECOVERIES, "recoveries");
}

manta_status sgd_timeline_open(struct sgd_timeline *t, const char *path, const char *run, manta_error *e)
{
    char      text[SGD_TEXT_BYTES];
    mt_status st = mt_ok();
    *t = (struct sgd_timeline){.fd = -1};
    if (!path)
        return MANTA_OK;
    t->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (t->fd < 0)
        st = errno == ENOENT ? mt_error(MT_ENOENT, ENOENT, "there is no such folder") : sgd_file_error(errno, "open");
    if (st.code == 0 && !file_goes_on(t))
        st = file_begin(t, run);
    if (st.code == 0 && !sgd_timeline_flush(t))
        st = sgd_file_error(errno, "write");
    if (st.code == 0 && t->text.out.size) /* which is waited for only later */
        st = sgd_file_error(ENOSPC, "write");
    if (st.code == 0)
        return MANTA_OK;
    sgd_timeline_close(t);
    return sgd_fail(e, st.code, "run.timeline: %.200s: %s", path, sgd_status_text(st, text));
}

/* In one write, over the end of the last one: who reads, or comes after a kill, finds a whole document. */
bool sgd_timeline_flush(struct sgd_timeline *t)
{
    size_t size = t->text.out.size;
    if (t->fd < 0 || size == 0)
        return true;
    if (mt_buf_append(&t->text.out, MT_TRACE_END, sizeof MT_TRACE_END - 1).code != 0)
        return true; /* later */
    for (size_t done = 0; done < t->text.out.size;) {
        ssize_t n = pwrite(t->fd, t->text.out.data + done, t->text.out.size - done, t->end + (off_t)done);
        if (n < 0 && errno != EINTR) {
            int why = errno;
            if (ftruncate(t->fd, t->end) == 0) /* what was there stays whole, if there is room for its end */
                (void)!pwrite(t->fd, MT_TRACE_END, sizeof MT_TRACE_END - 1, t->end);
            t->text.out.size = size;
            if (why == ENOSPC || why == EDQUOT)
                return true; /* it waits for room; its events are bounded */
            t->text.out.size = 0;
            sgd_timeline_close(t);
            errno = why;
            return false;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    t->end += (off_t)size;
    t->text.out.size = 0;
    return true;
}

void sgd_timeline_close(struct sgd_timeline *t)
{
    if (t->fd >= 0) {
        (void)sgd_timeline_flush(t);
        if (t->fd >= 0) /* a flush that fails closes it */
            close(t->fd);
    }
    mt_buf_fini(&t->text.out);
    t->fd = -1;
}

/* ---- spans ---- */

static void track_name(struct sgd_timeline *t, uint32_t rank, enum sgd_trace_track track, int64_t number)
{
    static const char *const of[SGD_TRACK_DEVICE] = {"", ": communication", ": checkpoints"};
    char                     text[64];
    if (rank >= 64 || t->named[track] >> rank & 1)
        return;
    t->named[track] |= 1ull << rank;
    if (track < SGD_TRACK_DEVICE)
        snprintf(text, sizeof text, "rank %u%s", rank, of[track]);
    else
        snprintf(text, sizeof text, "rank %u: device %u", rank, track - SGD_TRACK_DEVICE + 1);
    take(t, mt_trace_name_track(&t->text, SET, number, text));
}

void sgd_timeline_span(struct sgd_timeline *t, const struct sgd_span *span, enum sgd_trace_track track, int64_t shift_ns,
                       bool is_finished)
{
    struct mt_trace_arg   args[2];
    struct mt_trace_slice slice = {.category = is_finished ? "train" : "unfinished",
                                   .name = sgd_span_name(span->kind),
                                   .begin_us = micros(t, span->begin_ns + shift_ns),
                                   .length_us = span->end_ns > span->begin_ns ? (double)(span->end_ns - span->begin_ns) * 1e-3 : 0,
                                   .set = SET,
                                   .track = (int64_t)(span->rank + 1) * TRACKS_A_RANK + track,
                                   .args = args};
    if (t->fd < 0 || t->events >= MT_TRAIN_TIMELINE_EVENTS || span->rank >= MT_GROUP_MEMBERS_MAX)
        return;
    track_name(t, span->rank, track, slice.track);
    if (sgd_span_number(span->kind))
        args[slice.args_count++] = (struct mt_trace_arg){sgd_span_number(span->kind), NULL, (int64_t)span->number};
    if (!is_finished)
        args[slice.args_count++] = (struct mt_trace_arg){"ended", "its process died", 0};
    take(t, mt_trace_slice(&t->text, &slice));
}

int64_t sgd_timeline_row(struct sgd_timeline *t, const struct sgd_trace_row *row, uint32_t tracks, struct sgd_trace_cursor *cursor,
                         bool is_dead)
{
    struct sgd_span      span;
    enum sgd_trace_track track;
    int64_t              sign = 0, now = mt_now_ns();
    if (t->fd < 0 || !row)
        return 0;
    while (sgd_trace_next(row, tracks, cursor, &span, &track)) {
        sign = span.end_ns > sign ? span.end_ns : sign;
        sgd_timeline_span(t, &span, track, 0, true);
    }
    for (track = 0; is_dead && track < tracks; track++)
        for (uint32_t i = 0; sgd_trace_left_open(row, track, i, &span); i++) {
            sign = span.begin_ns > sign ? span.begin_ns : sign;
            span.end_ns = now;
            sgd_timeline_span(t, &span, track, 0, false);
        }
    return sign;
}

/* ---- recoveries ---- */

static void phase(struct sgd_timeline *t, const char *name, int64_t *at_ns, double seconds)
{
    struct mt_trace_slice slice = {.category = "recovery",
                                   .name = name,
                                   .begin_us = micros(t, *at_ns),
                                   .length_us = seconds * 1e6,
                                   .set = SET,
                                   .track = TRACK_RECOVERIES};
    *at_ns += (int64_t)(seconds * 1e9);
    take(t, mt_trace_slice(&t->text, &slice));
}

void sgd_timeline_recovery(struct sgd_timeline *t, const manta_sgd_recovery *r, int64_t sign_ns)
{
    int64_t at = sign_ns && sign_ns < r->detected_ns ? sign_ns : r->detected_ns, end = r->detected_ns;
    at = at < t->recovered_ns ? t->recovered_ns : at; /* recoveries lie beside each other */
    at = at < end ? at : end;
    struct mt_trace_arg   args[] = {{"workers lost", NULL, r->lost}, {"first step", NULL, r->step}};
    struct mt_trace_slice whole = {.category = "recovery",
                                   .name = "recovery",
                                   .begin_us = micros(t, at),
                                   .set = SET,
                                   .track = TRACK_RECOVERIES,
                                   .args = args,
                                   .args_count = 2};
    if (t->fd < 0)
        return;
    whole.length_us = (double)(end - at) * 1e-3 + r->total_s * 1e6;
    take(t, mt_trace_slice(&t->text, &whole));
    phase(t, "detect", &at, (double)(r->detected_ns - at) * 1e-9);
    phase(t, "abort", &at, r->abort_s);
    phase(t, "start", &at, r->start_s);
    phase(t, "load", &at, r->load_s);
    phase(t, "place", &at, r->place_s);
    phase(t, "sync", &at, r->sync_s);
    phase(t, "first step", &at, r->step_s);
    t->recovered_ns = at;
}
