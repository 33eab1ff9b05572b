/* SPDX-License-Identifier: Apache-2.0
 *
 * callback.c - callbacks of refs, and the descriptor for a program's own loop.
 *
 * Owns:   callbacks that are due; the event descriptor. Thread: any, under the owner lock.
 * Always: a callback runs without the lock, on one thread at a time, and never inside a call that waits.
 */
#include "clients/lib/shell/lib.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

static manta_status callback_check(manta_ref *handle, const char *call, bool has_fn, struct own_ref **out, manta_error *e)
{
    manta_status code = lib_check(e);
    if (code == MANTA_OK && (!handle || !has_fn))
        code = lib_error(e, MANTA_EINVAL, "a callback needs a reference and a function");
    if (code == MANTA_OK && lib_handle_code(handle))
        code = lib_error(e, MANTA_EINVAL, "the reference holds an error from before manta_init, or of a lack of memory");
    if (code == MANTA_OK)
        code = lib_ref(handle, call, out, e);
    if (code == MANTA_OK && lib.callback_count >= MT_LIB_CALLBACKS_MAX)
        code = lib_error(e, MANTA_EAGAIN, "%d callbacks are due or waited for", MT_LIB_CALLBACKS_MAX);
    return code;
}

static manta_status callback_add(struct own_ref *ref, bool on_free, void (*fn)(void), void *user, manta_error *e)
{
    if (!own_ref_callback(&lib.own, ref, on_free, fn, user))
        return lib_error(e, MANTA_ENOMEM, "no memory for a callback");
    lib.callback_count++;
    lib.calls++;
    lib_helper_start();
    own_ref_ask(&lib.own, ref);
    lib_act();
    return MANTA_OK;
}

manta_status manta_on_ready(manta_ref *handle, manta_ready_fn fn, void *user, manta_error *e)
{
    struct own_ref *ref;
    manta_status    code = lib_enter(e);
    if (code)
        return code;
    code = callback_check(handle, "manta_on_ready", fn != NULL, &ref, e);
    if (code == MANTA_OK)
        code = callback_add(ref, false, (void (*)(void))fn, user, e);
    lib_unlock();
    return code;
}

manta_status manta_on_free(manta_ref *handle, manta_free_fn fn, void *user, manta_error *e)
{
    struct own_ref *ref;
    manta_status    code = lib_enter(e);
    if (code)
        return code;
    code = callback_check(handle, "manta_on_free", fn != NULL, &ref, e);
    if (code == MANTA_OK && ref->flags & OWN_REF_BORROWED)
        code = lib_error(e, MANTA_EUNSUPPORTED, "another process owns the value: only that one knows when it is gone");
    if (code == MANTA_OK)
        code = callback_add(ref, true, (void (*)(void))fn, user, e);
    lib_unlock();
    return code;
}

/* A callback may not wait, so what it would have to wait for to look at the value is done before: mapping its segment. */
static void make_readable(struct own_ref *ref)
{
    struct lane_ref place = ref->state == OWN_REF_PLACE ? *own_ref_place(&lib.own, ref) : (struct lane_ref){.node = 0};
    const void     *data;
    if (ref->state != OWN_REF_PLACE || ref->again == OWN_AGAIN_LOST || place.node != lib.own.node || !lib_may_wait())
        return;
    if (lib_store_pin(ref, &place, &data, lib_deadline(MT_LIB_REQUEST_MS), NULL) == MANTA_OK)
        lib_store_unpin(&place);
}

static void run(struct own_waiter *callback)
{
    struct own_ref *ref = callback->of.callback.ref;
    manta_ref      *handle = NULL;
    bool            before;
    if (ref) {
        make_readable(ref);
        handle = lib_handle_ref(&lib.own, ref); /* of the callback's own hold */
    }
    lib_unlock();
    before = lib_callback_enter(true);
    if (ref)
        ((manta_ready_fn)callback->of.callback.fn)(callback->of.callback.user, handle);
    else
        ((manta_free_fn)callback->of.callback.fn)(callback->of.callback.user);
    lib_callback_enter(before);
    lib_fork_check();
    lib_lock();
    if (ref && lib.role != LIB_OVER)
        (void)lib_ref_end(&lib.own, handle); /* what the function has freed is none of its business, and gone */
    lib.callback_count--;
    free(callback);
}

void lib_run_callbacks(void)
{
    if (lib.is_calling)
        return; /* another thread is at it, or a callback made progress itself */
    lib.is_calling = true;
    while (lib.callbacks) {
        struct own_waiter *callback = lib.callbacks;
        lib.callbacks = callback->next;
        run(callback);
    }
    lib.is_calling = false;
    lib_act();
}

void lib_callbacks_take(struct own_out *out)
{
    if (lib.callbacks)
        lib.callbacks_last->next = out->callbacks;
    else
        lib.callbacks = out->callbacks;
    lib.callbacks_last = out->callbacks_last;
    out->callbacks = out->callbacks_last = NULL;
}

void lib_callbacks_end(void)
{
    while (lib.callbacks) {
        struct own_waiter *callback = lib.callbacks;
        lib.callbacks = callback->next;
        if (callback->of.callback.ref)
            own_ref_drop(&lib.own, callback->of.callback.ref);
        free(callback);
    }
    lib.callback_count = 0;
    lib.is_rung = false;
    if (lib.event_fd >= 0)
        close(lib.event_fd);
    lib.event_fd = -1;
}

/* ---- the event descriptor ---- */

int manta_event_fd(manta_error *e)
{
    int          fd;
    manta_status code = lib_enter(e);
    if (code)
        return -code;
    if (lib_check(e) == MANTA_OK && lib.event_fd < 0) {
        lib.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (lib.event_fd < 0)
            lib_error(e, MANTA_ESYS, "the event descriptor could not be made: %s", strerror(errno));
        lib.event_seen = lib.own.completed;
        lib_helper_start();
    }
    fd = lib.event_fd >= 0 ? lib.event_fd : -MANTA_ESYS;
    lib_unlock();
    return fd;
}

bool lib_has_events(void)
{
    return lib.event_fd >= 0;
}

void lib_events_ring(void)
{
    uint64_t one = 1;
    if (lib.event_fd < 0 || lib.is_rung ||
        (lib.event_seen == lib.own.completed && !lib.callbacks && !lib.news.count && !lib.broken))
        return;
    lib.is_rung = write(lib.event_fd, &one, sizeof one) == sizeof one;
}

void lib_events_seen(void)
{
    uint64_t count;
    if (lib.event_fd < 0)
        return;
    lib.event_seen = lib.own.completed;
    if (lib.is_rung && read(lib.event_fd, &count, sizeof count) == sizeof count)
        lib.is_rung = false;
}
