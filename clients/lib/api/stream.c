/* SPDX-License-Identifier: Apache-2.0
 *
 * stream.c - generators for the user: calling one, and taking its items.
 *
 * Thread: a generator is one thread's at a time; what it has taken over from the rings it uses without the owner lock.
 */
#include "clients/lib/api/api.h"
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/here/here.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/values/values.h"

/* ---- calling ---- */

/* The stream of a call, or why there can be none. */
static manta_status begin(int backpressure, struct own_call *call, struct own_failure *f)
{
    manta_error  e;
    manta_status code = lib_enter(&e);
    if (code) {
        own_failure_set(f, code, "%s", e.message);
        return code;
    }
    call->stream = own_stream_new(&lib.own, (uint32_t)(backpressure > 0 ? backpressure : MT_LIB_STREAM_AHEAD));
    f->code = MANTA_OK;
    if (backpressure < 0 || backpressure > LANE_AHEAD_MAX)
        own_failure_set(f, MT_EINVAL, "backpressure %d: 0 (the default, %d) to %d are possible", backpressure, MT_LIB_STREAM_AHEAD,
                        LANE_AHEAD_MAX);
    else if (lib_check(&e))
        own_failure_set(f, e.code, "%s", e.message);
    if (call->stream && f->code)
        lib_called(call, NULL, f);
    lib_unlock();
    return call->stream ? MANTA_OK : (f->code = MANTA_ENOMEM);
}

static void end(struct own_stream *stream)
{
    own_stream_free(stream);
    lib_act();
}

/* The handle of a stream that has its end: the call was submitted, or has failed. */
static manta_generator *began(struct own_call *call)
{
    manta_status code = lib_enter(NULL);
    if (code)
        return lib_handle_error(code);
    manta_generator *handle = call->stream->end ? lib_handle_new(LIB_OF_GENERATOR, call->stream) : NULL;
    if (!handle)
        end(call->stream);
    lib_unlock();
    return handle ? handle : lib_handle_error(MANTA_ENOMEM);
}

manta_generator *manta_call_stream(const char *name, const manta_task_opts *opts, int argc, const manta_arg *argv)
{
    struct own_call    call = {.count = 1};
    struct own_failure f;
    if (begin(opts ? opts->backpressure : 0, &call, &f))
        return lib_handle_error(f.code);
    if (f.code == MANTA_OK)
        lib_call_name(name, opts, argc, argv, &call);
    return began(&call);
}

manta_generator *manta_actor_call_stream(manta_actor *actor, const char *method, int backpressure, int argc, const manta_arg *argv)
{
    struct own_call    call = {.count = 1};
    struct own_failure f;
    if (begin(backpressure, &call, &f))
        return lib_handle_error(f.code);
    if (f.code == MANTA_OK)
        lib_call_method(actor, method, argc, argv, &call);
    return began(&call);
}

manta_status manta_generator_free(manta_generator *g)
{
    struct own_stream *stream;
    manta_status       code;
    if (!g || lib_handle_code(g))
        return MANTA_OK;
    if ((code = lib_enter_held(NULL)) != MANTA_OK)
        return code;
    stream = lib_handle_end(g, LIB_OF_GENERATOR);
    if (stream)
        end(stream);
    lib_unlock();
    return stream ? MANTA_OK : MANTA_EHANDLE;
}

/* ---- taking ---- */

static bool has_news(void *arg)
{
    struct own_stream *stream = arg;
    return stream->in.size || own_ref_is_ready(stream->end);
}

struct item_wait {
    struct own_stream *stream;
    struct own_wait    wait; /* for its end: who makes that makes the items */
};

static bool item_wait_is_over(void *arg)
{
    const struct item_wait *w = arg;
    return has_news(w->stream) || w->wait.is_deadlocked || lib_run_is_over();
}

/* As for any value, a worker's one thread that runs tasks is watched for waiting in a circle. */
static manta_status wait_for_item(struct own_stream *stream, int64_t deadline_ns, manta_error *e)
{
    struct item_wait w = {.stream = stream};
    if (!lib_running || lib.wrk.group_count) {
        lib_wait_here(has_news, stream, deadline_ns);
        return MANTA_OK;
    }
    own_wait_begin(&lib.own, &w.wait, stream->end, lib_running->name);
    lib_wait_here(item_wait_is_over, &w, lib_deadline_of_run(deadline_ns));
    own_wait_end(&lib.own, &w.wait);
    if (has_news(stream))
        return MANTA_OK;
    if (w.wait.is_deadlocked)
        return lib_error_failure(e, &w.wait.failure, stream->id);
    return lib_run_is_over() ? lib_error_run_over(e) : MANTA_OK;
}

/* The end as the user sees it. */
static manta_status ended(struct own_stream *stream, manta_error *e)
{
    if (stream->end->state == OWN_REF_FAILED) {
        stream->end->is_heard = 1;
        return lib_error_failure(e, stream->end->value.failure, stream->end->id);
    }
    return lib_error(e, MANTA_EEND, "the generator has ended after %llu items", (unsigned long long)stream->used);
}

/* Under the lock: until there is something to take. */
static manta_status await_items(struct own_stream *stream, int64_t timeout_ms, manta_error *e)
{
    own_stream_ack(stream, true); /* before we wait: the producer may be waiting for us */
    lib_act();
    if (own_stream_take(stream))
        return MANTA_OK;
    if (!own_ref_is_ready(stream->end)) {
        if (!lib_may_wait())
            return lib_error(e, MANTA_EDEADLK, "no item is there, and a callback may not wait for it");
        lib_pump_here();
        manta_status code = wait_for_item(stream, lib_deadline(timeout_ms), e);
        if (lib.broken && !own_stream_take(stream) && !own_ref_is_ready(stream->end))
            return lib_error_outcome_lost(stream->end, e);
        if (code)
            return code;
    }
    if (own_stream_take(stream))
        return MANTA_OK;
    if (own_ref_is_ready(stream->end))
        return ended(stream, e);
    return lib_error(e, MANTA_ETIMEDOUT, "no item was there within %lld ms", (long long)timeout_ms);
}

static manta_status next_item(struct own_stream *stream, int64_t timeout_ms, struct own_item *out, manta_error *e)
{
    manta_status code = MANTA_OK;
    if (MT_LIKELY(own_stream_next(stream, out))) {
        if (MT_UNLIKELY(stream->used - stream->acked >= stream->ahead / 4 + 1)) {
            lib_lock();
            own_stream_ack(stream, false);
            lib_act();
            lib_unlock();
        }
        return MANTA_OK;
    }
    if ((code = lib_enter(e)) != MANTA_OK)
        return code;
    code = lib_check(e);
    if (code && lib.broken && stream->end && !own_ref_is_ready(stream->end))
        code = lib_error_outcome_lost(stream->end, e);
    if (code == MANTA_OK)
        code = await_items(stream, timeout_ms, e);
    lib_unlock();
    if (code == MANTA_OK && !own_stream_next(stream, out))
        code = lib_error(e, MANTA_EINTERNAL, "an item was there and is not");
    return code;
}

/* A ref of an item, with one hold. */
static struct own_ref *item_ref(struct own_stream *stream, const struct own_item *item)
{
    struct own_ref *ref;
    if (item->value.flags & LANE_VALUE_SHARED)
        return own_items_take(stream, item->index);
    ref = own_ref_new(stream->own, item->id);
    if (ref)
        own_ref_set_inline(stream->own, ref, item->value.type, item->bytes, item->value.size);
    return ref;
}

/* Without the lock: one thread at a time has a generator, and its items are its own. */
static manta_status stream_of(manta_generator *g, const char *call, struct own_stream **out, manta_error *e)
{
    if (MT_UNLIKELY(!lib_door_is_open() && lib.role != LIB_OVER))
        return lib_check(e);
    *out = lib_handle_of(g, LIB_OF_GENERATOR);
    return MT_LIKELY(*out != NULL) ? MANTA_OK : lib_handle_wrong(g, LIB_OF_GENERATOR, call, e);
}

static manta_status view_place(struct own_stream *stream, const struct own_item *item, manta_view *out, manta_error *e)
{
    struct own_ref *ref;
    manta_status    code;
    lib_lock();
    ref = item_ref(stream, item);
    code = ref ? lib_view(ref, out, INT64_MAX, e) : lib_error(e, MANTA_ENOMEM, "no memory for a reference");
    if (ref)
        own_ref_drop(&lib.own, ref); /* the view has it */
    lib_act();
    lib_unlock();
    return code;
}

manta_status manta_next(manta_generator *g, int64_t timeout_ms, manta_view *out, manta_error *e)
{
    struct own_stream *stream;
    struct own_item    item;
    manta_status       code;
    if (!g || !out)
        return lib_error(e, MANTA_EINVAL, "manta_next of NULL, or without a place for the item");
    memset(out, 0, sizeof *out);
    code = stream_of(g, "manta_next", &stream, e);
    if (code == MANTA_OK)
        code = next_item(stream, timeout_ms, &item, e);
    if (code)
        return code;
    if (item.value.flags & LANE_VALUE_SHARED)
        return view_place(stream, &item, out, e);
    out->data = item.bytes;
    out->size = item.value.size - (item.value.type == 's');
    out->type = (char)item.value.type;
    return MANTA_OK;
}

manta_status manta_next_ref(manta_generator *g, int64_t timeout_ms, manta_ref **out, manta_error *e)
{
    struct own_stream *stream;
    struct own_item    item;
    manta_status       code;
    if (!g || !out)
        return lib_error(e, MANTA_EINVAL, "manta_next_ref of NULL, or without a place for the reference");
    *out = NULL;
    code = stream_of(g, "manta_next_ref", &stream, e);
    if (code == MANTA_OK)
        code = next_item(stream, timeout_ms, &item, e);
    if (code)
        return code;
    lib_lock();
    struct own_ref *ref = item_ref(stream, &item);
    *out = ref ? lib_handle_ref(&lib.own, ref) : NULL;
    lib_unlock();
    return *out ? MANTA_OK : lib_error(e, MANTA_ENOMEM, "no memory for a reference");
}
