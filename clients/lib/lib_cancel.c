/* SPDX-License-Identifier: Apache-2.0
 *
 * lib_cancel.c - taking back what was submitted, and what the running task sees of it.
 *
 * Thread: any; manta_is_cancelled takes no lock.
 */
#include "clients/lib/lib.h"

bool manta_is_cancelled(const manta_ctx *c)
{
    return c && c->run && wrk_is_cancelled(c->run);
}

bool lib_run_is_over(void)
{
    return lib.running && manta_is_cancelled(lib.running);
}

manta_status lib_error_run_over(manta_error *e)
{
    return lib_error(e, MANTA_ECANCELLED, "the running task was asked to stop: it waits for nothing more");
}

static manta_status told(enum own_cancelled how, const char *name, manta_error *e)
{
    switch (how) {
    case OWN_CANCELLED_NEVER:
    case OWN_CANCELLED_TOLD:
        lib_error(e, MANTA_OK, how == OWN_CANCELLED_NEVER ? "%s will not run" : "%s was asked to stop", name);
        if (e)
            e->outcome = how == OWN_CANCELLED_NEVER ? MANTA_DONE : MANTA_UNKNOWN;
        return MANTA_OK;
    case OWN_CANCELLED_FULL:
        return lib_error(e, MANTA_EAGAIN, "there was no room to tell the node that runs %s: try again", name);
    default:
        return lib_error(e, MANTA_ENOENT, "nothing is under way for this reference: its result stands");
    }
}

manta_status manta_cancel(manta_ref *handle, const manta_cancel_opts *opts, manta_error *e)
{
    struct own_ref *ref = (struct own_ref *)handle;
    uint32_t        flags = 0;
    manta_status    code;
    char            name[CTL_NAME_SIZE] = "the task";

    if (!ref)
        return lib_error(e, MANTA_EINVAL, "manta_cancel of NULL");
    if (opts)
        flags = (opts->force ? OWN_CANCEL_FORCE : 0u) | (opts->recursive ? OWN_CANCEL_RECURSIVE : 0u);
    lib_lock();
    code = lib_check(e);
    if (code == MANTA_OK && ref->task) {
        snprintf(name, sizeof name, "%s", ref->task->name);
        if (ref->task->actor && flags & OWN_CANCEL_FORCE)
            code = lib_error(e, MANTA_EINVAL, "%s is a call of an actor, whose process can't be killed for one call: "
                             "cancel it without force, or use manta_actor_kill", name);
    }
    if (code == MANTA_OK) {
        lib.calls++;
        code = told(own_cancel(&lib.own, ref, flags), name, e);
        if (lib.own.out.up.size || lib.own.out.wake_count)
            lib_act();
    }
    lib_unlock();
    return code;
}
