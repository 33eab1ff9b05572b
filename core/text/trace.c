/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c - events of a Chrome trace, one a line. Owns: nothing. Thread: any.
 */
#include "core/text/trace.h"

#include "core/text/json.h"

#include <inttypes.h>

mt_status mt_trace_begin(struct mt_trace *t, const char *other)
{
    t->has_events = false;
    return mt_buf_printf(&t->out, "{\"displayTimeUnit\": \"ns\", %s\"traceEvents\": [", other);
}

static mt_status event_begin(struct mt_trace *t, const char *phase)
{
    MT_TRY(mt_buf_printf(&t->out, "%s{\"ph\":\"%s\"", t->has_events ? ",\n" : "\n", phase));
    t->has_events = true;
    return mt_ok();
}

static mt_status text_member(mt_buf *out, const char *name, const char *text)
{
    MT_TRY(mt_buf_printf(out, ",\"%s\":", name));
    return mt_json_put_text(out, text);
}

static mt_status track_members(mt_buf *out, int64_t set, int64_t track)
{
    return mt_buf_printf(out, ",\"pid\":%" PRId64 ",\"tid\":%" PRId64, set, track);
}

static mt_status name_event(struct mt_trace *t, const char *what, int64_t set, int64_t track, const char *name)
{
    MT_TRY(event_begin(t, "M"));
    MT_TRY(text_member(&t->out, "name", what));
    MT_TRY(track_members(&t->out, set, track));
    MT_TRY(mt_buf_printf(&t->out, ",\"args\":{\"name\":"));
    MT_TRY(mt_json_put_text(&t->out, name));
    return mt_buf_append(&t->out, "}}", 2);
}

mt_status mt_trace_name_set(struct mt_trace *t, int64_t set, const char *name)
{
    return name_event(t, "process_name", set, 0, name);
}

mt_status mt_trace_name_track(struct mt_trace *t, int64_t set, int64_t track, const char *name)
{
    return name_event(t, "thread_name", set, track, name);
}

static mt_status args_members(mt_buf *out, const struct mt_trace_slice *slice)
{
    MT_TRY(mt_buf_printf(out, ",\"args\":{"));
    for (int i = 0; i < slice->args_count; i++) {
        const struct mt_trace_arg *arg = &slice->args[i];
        MT_TRY(mt_buf_printf(out, "%s\"%s\":", i ? "," : "", arg->name));
        MT_TRY(arg->text ? mt_json_put_text(out, arg->text) : mt_buf_printf(out, "%" PRId64, arg->number));
    }
    return mt_buf_append(out, "}", 1);
}

mt_status mt_trace_slice(struct mt_trace *t, const struct mt_trace_slice *slice)
{
    MT_TRY(event_begin(t, "X"));
    MT_TRY(text_member(&t->out, "cat", slice->category));
    MT_TRY(text_member(&t->out, "name", slice->name));
    MT_TRY(mt_buf_printf(&t->out, ",\"ts\":%.3f,\"dur\":%.3f", slice->begin_us, slice->length_us));
    MT_TRY(track_members(&t->out, slice->set, slice->track));
    if (slice->args_count)
        MT_TRY(args_members(&t->out, slice));
    return mt_buf_append(&t->out, "}", 1);
}

mt_status mt_trace_arrow(struct mt_trace *t, const struct mt_trace_slice *at, const char *id, bool is_head)
{
    MT_TRY(event_begin(t, is_head ? "f" : "s"));
    if (is_head)
        MT_TRY(text_member(&t->out, "bp", "e"));
    MT_TRY(text_member(&t->out, "cat", at->category));
    MT_TRY(text_member(&t->out, "name", at->name));
    MT_TRY(text_member(&t->out, "id", id));
    MT_TRY(mt_buf_printf(&t->out, ",\"ts\":%.3f", at->begin_us));
    MT_TRY(track_members(&t->out, at->set, at->track));
    return mt_buf_append(&t->out, "}", 1);
}
