/* SPDX-License-Identifier: Apache-2.0
 *
 * get.c - results: waited for, read, copied, freed; many at a time: many.c.
 *
 * Owns:   nothing. Thread: any; takes the owner lock.
 */
#include "clients/lib/api/api.h"
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/due/due.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/helper/helper.h"
#include "clients/lib/shell/here/here.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/values/values.h"

#include <stdlib.h>

/* Takes the lock, where there is such a reference; after manta_shutdown too. */
static manta_status enter_with(manta_ref *handle, struct own_ref **out, manta_error *e)
{
    manta_status code = lib_enter_held(e);
    if (MT_UNLIKELY(code != MANTA_OK))
        return code;
    *out = lib_ref_in(&lib.own, handle);
    if (MT_LIKELY(*out != NULL))
        return MANTA_OK;
    code = lib_handle_wrong(handle, LIB_OF_REF, "manta_get", e);
    lib_unlock();
    return code;
}

static bool ref_is_ready(void *arg)
{
    return own_ref_is_ready(arg) || lib_run_is_over();
}

static bool wait_is_over(void *arg)
{
    const struct own_wait *wait = arg;
    return own_ref_is_ready(wait->ref) || wait->is_deadlocked || lib_run_is_over();
}

static bool wait_is_over_or_ours(void *arg)
{
    const struct own_wait *wait = arg;
    return wait_is_over(arg) || lib_here_may_run(wait->ref);
}

/* A worker's one thread that runs tasks is watched for waiting in a circle; other threads have others beside them. */
static bool wait_for_ref(struct own_ref *ref, int64_t deadline_ns, manta_status *code, manta_error *e)
{
    struct own_wait wait;
    bool            is_over, is_ours, may_run = deadline_ns == INT64_MAX; /* what we run ourselves might take longer than that */
    if (!lib_running || lib.wrk.group_count)
        return lib_wait_here(ref_is_ready, ref, deadline_ns) && own_ref_is_ready(ref);
    own_wait_begin(&lib.own, &wait, ref, lib_running->name);
    do {
        is_over = lib_wait_here(may_run ? wait_is_over_or_ours : wait_is_over, &wait, deadline_ns);
        is_ours = is_over && !wait_is_over(&wait);
        may_run = is_ours && lib_here_run(ref);
    } while (is_ours);
    own_wait_end(&lib.own, &wait);
    if (is_over && !own_ref_is_ready(ref) && wait.is_deadlocked)
        *code = lib_error_failure(e, &wait.failure, ref->id);
    return own_ref_is_ready(ref) || wait.is_deadlocked;
}

manta_status lib_await(struct own_ref *ref, int64_t deadline_ns, int64_t timeout_ms, manta_error *e)
{
    if (!own_ref_is_ready(ref)) {
        own_ref_ask(&lib.own, ref);
        if (!lib_may_wait())
            return lib_error(e, MANTA_EDEADLK, "the value is not there, and a callback may not wait for it");
        manta_status code = MANTA_OK;
        if (!wait_for_ref(ref, lib_deadline_of_run(deadline_ns), &code, e)) {
            if (lib.broken)
                return lib_error_outcome_lost(ref, e);
            if (lib_run_is_over())
                return lib_error_run_over(e);
            if (lib.inlined)
                return lib_error(e, MANTA_EDEADLK, "MANTA_INLINE=1: what would make this value waits for the caller itself");
            code = lib_error(e, MANTA_ETIMEDOUT, "the value was not there within %lld ms%s%s", (long long)timeout_ms,
                             ref->task ? ": waiting for " : "", ref->task ? ref->task->name : "");
            if (e)
                e->outcome = MANTA_UNKNOWN; /* it goes on */
            return code;
        }
        if (code)
            return code;
    }
    if (ref->state == OWN_REF_FAILED) {
        ref->is_heard = 1;
        return lib_error_failure(e, ref->value.failure, ref->id);
    }
    if (ref->flags & OWN_REF_FREED) {
        struct own_failure freed;
        own_failure_freed(&freed);
        return lib_error_failure(e, &freed, ref->id);
    }
    return MANTA_OK;
}

manta_status manta_get(manta_ref *handle, int64_t timeout_ms, manta_view *out, manta_error *e)
{
    struct own_ref *ref;
    int64_t         deadline = lib_deadline(timeout_ms);
    manta_status    code;

    if (!handle || !out)
        return lib_error(e, MANTA_EINVAL, "manta_get of NULL, or without a place for the value");
    memset(out, 0, sizeof *out);
    if ((code = enter_with(handle, &ref, e)) != MANTA_OK)
        return code;
    ref->holds++; /* another thread may free the handle while we wait */
    code = lib_await(ref, deadline, timeout_ms, e);
    if (code == MANTA_OK)
        code = lib_view(ref, out, deadline, e);
    if (MT_UNLIKELY(--ref->holds == 0))
        own_ref_unheld(&lib.own, ref);
    lib_unlock();
    return code;
}

static manta_status get_scalar(manta_ref *handle, char type, size_t size, int64_t timeout_ms, void *out, manta_error *e)
{
    struct own_ref *ref;
    manta_status    code;
    if (!handle || !out)
        return lib_error(e, MANTA_EINVAL, "manta_get of NULL, or without a place for the value");
    if ((code = enter_with(handle, &ref, e)) != MANTA_OK)
        return code;
    if (MT_LIKELY(ref->state == OWN_REF_INLINE && ref->type == type && ref->size == size && !(ref->flags & OWN_REF_FREED))) {
        memcpy(out, own_ref_bytes(ref), size); /* it is there */
        lib_unlock();
        return MANTA_OK;
    }
    ref->holds++; /* another thread may free the handle while we wait */
    code = lib_await(ref, lib_deadline(timeout_ms), timeout_ms, e);
    if (code == MANTA_OK) {
        if (ref->type == type && ref->state == OWN_REF_INLINE && ref->size == size)
            memcpy(out, own_ref_bytes(ref), size);
        else
            code = lib_error(e, MANTA_ETYPE, "the value is '%c', not '%c'", ref->type, type);
    }
    if (MT_UNLIKELY(--ref->holds == 0))
        own_ref_unheld(&lib.own, ref);
    lib_unlock();
    return code;
}

manta_status manta_get_i64(manta_ref *ref, int64_t timeout_ms, int64_t *out, manta_error *e)
{
    return get_scalar(ref, 'l', sizeof *out, timeout_ms, out, e);
}
manta_status manta_get_u64(manta_ref *ref, int64_t timeout_ms, uint64_t *out, manta_error *e)
{
    return get_scalar(ref, 'u', sizeof *out, timeout_ms, out, e);
}
manta_status manta_get_f64(manta_ref *ref, int64_t timeout_ms, double *out, manta_error *e)
{
    return get_scalar(ref, 'd', sizeof *out, timeout_ms, out, e);
}
manta_status manta_get_bool(manta_ref *ref, int64_t timeout_ms, bool *out, manta_error *e)
{
    return get_scalar(ref, 'b', sizeof *out, timeout_ms, out, e);
}

manta_ref *manta_dup(manta_ref *handle)
{
    struct own_ref *ref;
    manta_status    code;
    if (!handle || lib_handle_code(handle))
        return handle;
    if ((code = lib_enter_held(NULL)) != MANTA_OK)
        return lib_handle_error(code);
    ref = lib_ref_in(&lib.own, handle);
    if (ref) {
        own_ref_hold(ref);
        handle = lib_handle_ref(&lib.own, ref);
    } else {
        handle = lib_handle_error(MANTA_EHANDLE);
    }
    lib_unlock();
    return handle;
}

manta_status manta_free(manta_ref *handle)
{
    manta_status code;
    if (!handle || lib_handle_code(handle))
        return MANTA_OK;
    code = lib_enter_held(NULL);
    if (MT_UNLIKELY(code != MANTA_OK))
        return code;
    code = lib_ref_end(&lib.own, handle) ? MANTA_OK : MANTA_EHANDLE;
    if (MT_UNLIKELY(lib.own.out.unheard_count) && lib_door_is_open())
        lib_helper_start(); /* it tells of them */
    if (lib.own.out.up.size && lib_door_is_open())
        lib_act();
    lib_unlock();
    return code;
}

void manta_progress(void)
{
    if (lib_enter(NULL))
        return;
    lib.calls++;
    lib_pump_here();
    lib_run_news();
    lib_run_callbacks();
    lib_events_seen();
    lib_unlock();
}
