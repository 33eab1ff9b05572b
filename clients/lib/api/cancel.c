/* SPDX-License-Identifier: Apache-2.0
 *
 * cancel.c - taking back what was submitted, and what the running task sees of it.
 *
 * Thread: any; manta_is_cancelled takes no lock.
 */
#include "clients/lib/shell/lib.h"

#include "core/base/reserved.h"

#include <unistd.h>

static bool is_late(const manta_ctx *c)
{
    return c->deadline_ns && (int64_t)lib_now_ns() >= c->deadline_ns;
}

bool manta_is_cancelled(const manta_ctx *c)
{
    return c && c->run && (wrk_is_cancelled(c->run) || is_late(c));
}

bool lib_run_is_over(void)
{
    return lib.running && manta_is_cancelled(lib.running);
}

manta_status lib_error_run_over(manta_error *e)
{
    if (lib.running && !wrk_is_cancelled(lib.running->run))
        return lib_error(e, MANTA_ETIMEDOUT, "the running task has outlived its timeout of %u ms: it waits for nothing more",
                         lib.running->limits.timeout_ms);
    return lib_error(e, MANTA_ECANCELLED, "the running task was asked to stop: it waits for nothing more");
}

/* ---- the timeout of a run ---- */

int64_t lib_deadline_of_run(int64_t deadline_ns)
{
    int64_t run = lib.running ? lib.running->deadline_ns : 0;
    return run && run < deadline_ns ? run : deadline_ns;
}

int64_t lib_run_look_ns(void)
{
    const manta_ctx *c = lib.running;
    return c && c->deadline_ns ? c->deadline_ns + (int64_t)MT_LIB_TIMEOUT_GRACE_MS * 1000000 : INT64_MAX;
}

/* The function does not come back. Its outcome is told in its place, so that the owner need not guess why it died. */
void lib_run_check(uint64_t now_ns)
{
    manta_ctx *c = lib.running;
    uint8_t    payload[sizeof(struct lane_failure) + sizeof c->failure.message];
    size_t     size;
    if ((int64_t)now_ns < lib_run_look_ns())
        return;
    lib_fail_timed_out(c);
    size = lib_failure_payload(c, MANTA_ETIMEDOUT, payload, sizeof payload);
    if (!wrk_done(&lib.wrk, LANE_DONE_ERROR, MANTA_ETIMEDOUT, 0, payload, size, now_ns, 0))
        return; /* no room in the ring: again in a moment */
    wrk_flush(&lib.wrk);
    lib_act();
    _exit(MANTA_ETIMEDOUT);
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
        code = told(own_cancel(&lib.own, ref, flags), name, e);
        if (lib.own.out.up.size || lib.own.out.wake_count)
            lib_act();
    }
    lib_unlock();
    return code;
}
