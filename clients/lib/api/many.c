/* SPDX-License-Identifier: Apache-2.0
 *
 * many.c - many results: waited for, brought here, read.
 *
 * Owns:   nothing. Thread: any; takes the owner lock.
 */
#include "clients/lib/api/api.h"
#include "clients/lib/shell/ahead/ahead.h"
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/helper/helper.h"
#include "clients/lib/shell/here/here.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/values/values.h"

#include <stdlib.h>

enum { FEW = 64, AHEAD = 16384 /* values that are on their way behind the one that is read */ };

/* What the handles name. NULL: a handle that stands for an error, which is ready. */
struct many {
    struct own_ref **refs, *few[FEW];
    size_t           count;
    const char      *call;
};

static manta_status many_init(struct many *m, manta_ref *const *handles, size_t count, const char *call, manta_error *e)
{
    m->refs = m->few;
    m->count = count;
    m->call = call;
    if (count && !handles)
        return lib_error(e, MANTA_EINVAL, "%s of %zu references at NULL", call, count);
    if (count > FEW && !(m->refs = count < SIZE_MAX / sizeof *m->refs ? malloc(count * sizeof *m->refs) : NULL))
        return lib_error(e, MANTA_ENOMEM, "no memory for %s of %zu references", call, count);
    return MANTA_OK;
}

static void many_fini(struct many *m)
{
    if (m->refs != m->few)
        free(m->refs);
}

/* Under the lock. */
static manta_status many_find(struct many *m, manta_ref *const *handles, manta_error *e)
{
    char call[64];
    for (size_t i = 0; i < m->count; i++) {
        struct own_ref *ref = m->refs[i] = lib_ref_in(&lib.own, handles[i]);
        if (MT_UNLIKELY(!ref && !lib_handle_code(handles[i]))) {
            snprintf(call, sizeof call, "%s, reference %zu", m->call, i);
            return lib_handle_wrong(handles[i], LIB_OF_REF, call, e);
        }
        if (MT_UNLIKELY(ref && ref->flags & OWN_REF_BORROWED))
            own_ref_ask(&lib.own, ref);
    }
    return lib_check(e);
}

/* Under the lock: those from `from` on, before `to`, come here. ENOMEM. */
static manta_status many_fetch(const struct many *m, size_t from, size_t to, manta_error *e)
{
    for (size_t i = from; i < to; i++)
        if (m->refs[i] && !lib_ahead_want(m->refs[i]))
            return lib_error(e, MANTA_ENOMEM, "no memory to wait for reference %zu", i);
    return MANTA_OK;
}

/* ---- waiting ---- */

struct wait_many {
    struct many many;
    size_t      want, first_pending;
    bool        fetch;
};

/* Slabs stay, so one that another thread has freed meanwhile may be read; who does that gets no promise. */
static inline bool is_ready_or_error(const struct wait_many *w, size_t i)
{
    const struct own_ref *ref = w->many.refs[i];
    if (!ref)
        return true;
    return own_ref_is_ready(ref) && !(w->fetch && ref->state == OWN_REF_PLACE && lib_ahead_is_coming(ref->id));
}

static bool enough_ready(void *arg)
{
    struct wait_many *w = arg;
    size_t            ready = w->first_pending;
    for (size_t i = w->first_pending; i < w->many.count && ready < w->want; i++)
        ready += is_ready_or_error(w, i);
    while (w->first_pending < w->many.count && is_ready_or_error(w, w->first_pending))
        w->first_pending++; /* a prefix that is ready stays ready: it is counted once */
    return ready >= w->want || lib_run_is_over();
}

/* Under the lock. How many are ready, or -code. */
static int wait_many(struct wait_many *w, int64_t timeout_ms, unsigned char *ready, manta_error *e)
{
    int n = 0;
    lib_wait_here(enough_ready, w, lib_deadline_of_run(lib_deadline(timeout_ms)));
    for (size_t i = 0; i < w->many.count; i++) {
        bool is_ready = is_ready_or_error(w, i);
        if (ready)
            ready[i] = is_ready;
        n += is_ready;
    }
    return lib.broken ? -lib_error_broken(e) : n;
}

int manta_wait_with(manta_ref *const *refs, size_t count, size_t want, int64_t timeout_ms, const manta_wait_opts *opts,
                    unsigned char *ready, manta_error *e)
{
    struct wait_many w = {.want = want, .fetch = opts && opts->fetch};
    if (want > count)
        return -lib_error(e, MANTA_EINVAL, "manta_wait for %zu of %zu references", want, count);
    manta_status code = many_init(&w.many, refs, count, "manta_wait", e);
    if (code)
        return -code;
    code = lib_enter(e);
    int n = -code;
    if (code == MANTA_OK) {
        code = many_find(&w.many, refs, e);
        if (code == MANTA_OK && w.fetch)
            code = many_fetch(&w.many, 0, count, e);
        n = code ? -code : wait_many(&w, timeout_ms, ready, e);
        lib_unlock();
    }
    many_fini(&w.many);
    return n;
}

int manta_wait(manta_ref *const *refs, size_t count, size_t want, int64_t timeout_ms, unsigned char *ready, manta_error *e)
{
    return manta_wait_with(refs, count, want, timeout_ms, NULL, ready, e);
}

/* ---- bringing here, reading ---- */

manta_status manta_fetch(manta_ref *const *refs, size_t count, manta_error *e)
{
    struct many  m;
    manta_status code = many_init(&m, refs, count, "manta_fetch", e);
    if (code)
        return code;
    code = lib_enter(e);
    if (code == MANTA_OK) {
        code = many_find(&m, refs, e);
        if (code == MANTA_OK)
            code = many_fetch(&m, 0, count, e);
        lib_helper_start(); /* it looks for what comes, and asks for more, while the program does something else */
        lib.calls++;
        lib_act();
        lib_unlock();
    }
    many_fini(&m);
    return code;
}

/* Under the lock: the value of one. */
static manta_status view_one(const struct many *m, manta_ref *handle, size_t i, int64_t deadline_ns, int64_t timeout_ms,
                             manta_view *out, manta_error *e)
{
    struct own_ref *ref = m->refs[i];
    manta_status    code = ref ? lib_await(ref, deadline_ns, timeout_ms, e) : lib_handle_wrong(handle, LIB_OF_REF, m->call, e);
    return code ? code : lib_view(ref, out, deadline_ns, e);
}

/* Under the lock. */
static manta_status views_get(const struct many *m, manta_ref *const *handles, int64_t timeout_ms, manta_view *out, manta_error *e)
{
    int64_t      deadline = lib_deadline(timeout_ms);
    size_t       asked = 0, i;
    manta_status code = MANTA_OK;
    for (i = 0; i < m->count && code == MANTA_OK; i++) {
        if (asked < m->count && asked <= i + AHEAD / 2) {
            size_t to = i + AHEAD < m->count ? i + AHEAD : m->count;
            code = many_fetch(m, asked, to, e);
            asked = to;
        }
        if (code == MANTA_OK)
            code = view_one(m, handles[i], i, deadline, timeout_ms, &out[i], e);
    }
    while (code && i > 0)
        if (out[--i].hold)
            (void)lib_view_end(&out[i]);
    return code;
}

/* Another thread may free a handle while we wait. */
static manta_status held_get(const struct many *m, manta_ref *const *handles, int64_t timeout_ms, manta_view *out, manta_error *e)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->refs[i])
            own_ref_hold(m->refs[i]);
    manta_status code = views_get(m, handles, timeout_ms, out, e);
    for (size_t i = 0; i < m->count; i++)
        if (m->refs[i])
            own_ref_drop(&lib.own, m->refs[i]);
    return code;
}

manta_status manta_get_many(manta_ref *const *refs, size_t count, int64_t timeout_ms, manta_view *out, manta_error *e)
{
    struct many m;
    if (count && !out)
        return lib_error(e, MANTA_EINVAL, "manta_get_many without a place for the values");
    manta_status code = many_init(&m, refs, count, "manta_get_many", e);
    if (code)
        return code;
    if (count)
        memset(out, 0, count * sizeof *out);
    code = lib_enter(e);
    if (code == MANTA_OK) {
        code = many_find(&m, refs, e);
        if (code == MANTA_OK)
            code = held_get(&m, refs, timeout_ms, out, e);
        lib_unlock();
    }
    if (code && count)
        memset(out, 0, count * sizeof *out);
    many_fini(&m);
    return code;
}
