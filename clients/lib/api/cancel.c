/* SPDX-License-Identifier: Apache-2.0
 *
 * cancel.c - taking back what was submitted.
 *
 * Owns:   nothing. Thread: any; takes the owner lock.
 */
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/state/state.h"

#include "core/base/reserved.h"

static manta_status told(enum own_cancelled how, const char *name, manta_error *e)
{
    switch (how) {
    case OWN_CANCELLED_NEVER:
    case OWN_CANCELLED_TOLD:
        lib_error(e, MANTA_OK, how == OWN_CANCELLED_NEVER ? "%s will not run" : "%s was asked to stop", name);
        if (e)
            e->outcome = how == OWN_CANCELLED_NEVER ? MANTA_DONE : MANTA_UNKNOWN;
        return MANTA_OK;
    case OWN_CANCELLED_FULL: return lib_error(e, MANTA_EAGAIN, "there was no room to tell the node that runs %s: try again", name);
    default: return lib_error(e, MANTA_ENOENT, "nothing is under way for this reference: its result stands");
    }
}

manta_status manta_cancel(manta_ref *handle, const manta_cancel_opts *opts, manta_error *e)
{
    struct own_ref *ref;
    uint32_t        flags = 0;
    manta_status    code;
    char            name[CTL_NAME_SIZE] = "the task";

    if (opts && MT_RESERVED_IS_USED(opts))
        return lib_error(e, MANTA_EINVAL, MT_RESERVED_TEXT, "manta_cancel");
    if (opts)
        flags = (opts->force ? OWN_CANCEL_FORCE : 0u) | (opts->recursive ? OWN_CANCEL_RECURSIVE : 0u);
    if ((code = lib_enter(e)) != MANTA_OK)
        return code;
    code = lib_check(e);
    if (code == MANTA_OK)
        code = lib_ref(handle, "manta_cancel", &ref, e);
    if (code == MANTA_OK && ref->task) {
        snprintf(name, sizeof name, "%s", ref->task->name);
        if (ref->task->actor && flags & OWN_CANCEL_FORCE)
            code = lib_error(e, MANTA_EINVAL,
                             "%s is a call of an actor, whose process can't be killed for one call: "
                             "cancel it without force, or use manta_actor_kill",
                             name);
    }
    if (code == MANTA_OK) {
        lib.calls++;
        lib.own.now_ns = lib_now_ns(); /* the moment that a worker has before it is killed begins now */
        code = told(own_cancel(&lib.own, ref, flags), name, e);
        if (lib.own.out.up.size || lib.own.out.wake_count)
            lib_act();
    }
    lib_unlock();
    return code;
}
