/* SPDX-License-Identifier: Apache-2.0
 *
 * callback.c - callbacks of refs, and the descriptor for a program's own loop.
 *
 * Owns:   nothing. Thread: any; takes the owner lock. What is due stands in ../shell/due, and runs in ../shell/helper.
 */
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/helper/helper.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/state/state.h"

#include <errno.h>
#include <sys/eventfd.h>

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
