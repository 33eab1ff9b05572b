/* SPDX-License-Identifier: Apache-2.0
 *
 * get.c - results: waited for, read, copied, freed.
 *
 * Owns:   nothing. Thread: any; takes the owner lock.
 */
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
static manta_status enter_with(manta_ref *handle, const char *call, struct own_ref **out, manta_error *e)
{
    manta_status code = lib_enter_held(e);
    if (MT_UNLIKELY(code != MANTA_OK))
        return code;
    *out = lib_ref_in(&lib.own, handle);
    if (MT_LIKELY(*out != NULL))
        return MANTA_OK;
    code = lib_handle_wrong(handle, LIB_OF_REF, call, e);
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

/* Inside the lock: waits for the value. Fills *e with its failure. */
static manta_status await(struct own_ref *ref, int64_t deadline_ns, int64_t timeout_ms, manta_error *e)
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
    if ((code = enter_with(handle, "manta_get", &ref, e)) != MANTA_OK)
        return code;
    ref->holds++; /* another thread may free the handle while we wait */
    code = await(ref, deadline, timeout_ms, e);
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
    if ((code = enter_with(handle, "manta_get", &ref, e)) != MANTA_OK)
        return code;
    if (MT_LIKELY(ref->state == OWN_REF_INLINE && ref->type == type && ref->size == size && !(ref->flags & OWN_REF_FREED))) {
        memcpy(out, own_ref_bytes(ref), size); /* it is there */
        lib_unlock();
        return MANTA_OK;
    }
    ref->holds++; /* another thread may free the handle while we wait */
    code = await(ref, lib_deadline(timeout_ms), timeout_ms, e);
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

struct wait_many {
    struct own_ref **refs; /* NULL: a handle that stands for an error, which is ready */
    size_t           count, want, first_pending;
};

/* Slabs stay, so one that another thread has freed meanwhile may be read; who does that gets no promise. */
static inline bool is_ready_or_error(const struct own_ref *ref)
{
    return !ref || own_ref_is_ready(ref);
}

static bool enough_ready(void *arg)
{
    struct wait_many *w = arg;
    size_t            ready = w->first_pending;
    for (size_t i = w->first_pending; i < w->count && ready < w->want; i++)
        ready += is_ready_or_error(w->refs[i]);
    while (w->first_pending < w->count && is_ready_or_error(w->refs[w->first_pending]))
        w->first_pending++; /* a prefix that is ready stays ready: it is counted once */
    return ready >= w->want || lib_run_is_over();
}

/* Under the lock: what the handles name. */
static manta_status wait_for_these(manta_ref *const *handles, struct wait_many *w, manta_error *e)
{
    char call[48];
    for (size_t i = 0; i < w->count; i++) {
        struct own_ref *ref = w->refs[i] = lib_ref_in(&lib.own, handles[i]);
        if (MT_UNLIKELY(!ref && !lib_handle_code(handles[i]))) {
            snprintf(call, sizeof call, "manta_wait, reference %zu", i);
            return lib_handle_wrong(handles[i], LIB_OF_REF, call, e);
        }
        if (MT_UNLIKELY(ref && ref->flags & OWN_REF_BORROWED))
            own_ref_ask(&lib.own, ref);
    }
    return lib_check(e);
}

/* Under the lock. How many are ready, or -code. */
static int wait_many(struct wait_many *w, int64_t timeout_ms, unsigned char *ready, manta_error *e)
{
    int n = 0;
    lib_wait_here(enough_ready, w, lib_deadline_of_run(lib_deadline(timeout_ms)));
    for (size_t i = 0; i < w->count; i++) {
        bool is_ready = is_ready_or_error(w->refs[i]);
        if (ready)
            ready[i] = is_ready;
        n += is_ready;
    }
    return lib.broken ? -lib_error_broken(e) : n;
}

int manta_wait(manta_ref *const *refs, size_t count, size_t want, int64_t timeout_ms, unsigned char *ready, manta_error *e)
{
    struct own_ref  *few[64];
    struct wait_many w = {few, count, want, 0};
    manta_status     code;
    int              n;
    if (count && !refs)
        return -lib_error(e, MANTA_EINVAL, "manta_wait for %zu references at NULL", count);
    if (want > count)
        return -lib_error(e, MANTA_EINVAL, "manta_wait for %zu of %zu references", want, count);
    if (count > sizeof few / sizeof few[0] && !(w.refs = count < SIZE_MAX / sizeof few[0] ? malloc(count * sizeof few[0]) : NULL))
        return -lib_error(e, MANTA_ENOMEM, "no memory to wait for %zu references", count);
    code = lib_enter(e);
    n = -code;
    if (code == MANTA_OK) {
        code = wait_for_these(refs, &w, e);
        n = code ? -code : wait_many(&w, timeout_ms, ready, e);
        lib_unlock();
    }
    if (w.refs != few)
        free(w.refs);
    return n;
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
