/* SPDX-License-Identifier: Apache-2.0
 *
 * error.c - errors as the user gets them.
 *
 * Owns:   nothing. Thread: any, under the lock.
 */
#include "clients/lib/shell/state/state.h"

#include <stdarg.h>
#include <time.h>
#include <unistd.h>

manta_status lib_error(manta_error *e, int32_t code, const char *format, ...)
{
    va_list args;
    if (!e)
        return code;
    memset(e, 0, sizeof *e);
    e->code = code;
    va_start(args, format);
    vsnprintf(e->message, sizeof e->message, format, args);
    va_end(args);
    return code;
}

manta_status lib_error_failure(manta_error *e, const struct own_failure *f, mt_id task)
{
    if (!e)
        return f->code;
    memset(e, 0, sizeof *e);
    e->code = f->code;
    e->user_code = f->user_code;
    e->outcome = f->outcome;
    e->pid = f->pid;
    e->attempt = f->attempt;
    e->signal_number = f->signal_number;
    snprintf(e->function, sizeof e->function, "%s", f->function);
    if (f->node)
        snprintf(e->node, sizeof e->node, "%u", f->node);
    mt_id_text(task, e->task);
    snprintf(e->where, sizeof e->where, "%s", f->where);
    snprintf(e->message, sizeof e->message, "%s", f->message);
    snprintf(e->backtrace, sizeof e->backtrace, "%s", f->backtrace);
    return f->code;
}

manta_status lib_error_status(manta_error *e, mt_status st)
{
    if (st.code == MT_OK)
        return MANTA_OK;
    if (st.sys)
        return lib_error(e, st.code, "%s: %s", st.what, strerror(st.sys));
    return lib_error(e, st.code, "%s: %s", mt_code_text(st.code), st.what);
}

manta_status lib_check(manta_error *e)
{
    if (lib_is_forked())
        return lib_error(e, MANTA_EFORKED, "%s", LIB_FORKED_TEXT);
    if (lib.broken)
        return lib_error(e, lib.broken, "%s", lib.broken_text);
    if (lib.role == LIB_NONE)
        return lib_error(e, MANTA_EINVAL, "manta_init has not been called in this process");
    if (lib.role == LIB_OVER)
        return lib_error(e, MANTA_ECONN, "%s", LIB_OVER_TEXT);
    return MANTA_OK;
}

manta_status lib_error_broken(manta_error *e)
{
    manta_status code = lib_check(e);
    if (e)
        e->outcome = MANTA_UNKNOWN;
    return code;
}

const char *manta_status_name(manta_status code)
{
    return mt_code_name(code);
}

void lib_refused_pause(void)
{
    const struct timespec pause = {.tv_nsec = MT_LIB_REFUSED_NAP_NS};
    lib_lock();
    bool is_many = (lib.broken || lib.role == LIB_OVER) && ++lib.refused > MT_LIB_REFUSED_FREE;
    lib_unlock();
    if (is_many)
        nanosleep(&pause, NULL);
}

manta_status lib_error_outcome_lost(const struct own_ref *ref, manta_error *e)
{
    const struct own_task *task = ref->task;
    struct own_failure     f = {.code = lib.broken, .outcome = MANTA_UNKNOWN, .node = lib.own.node};
    if (task) {
        f.outcome = own_task_withdraw(task) ? MANTA_NOT_DONE : MANTA_UNKNOWN;
        f.attempt = task->attempt;
        own_task_name(task, f.function, sizeof f.function);
    }
    snprintf(f.message, sizeof f.message, "%s %s: %s", task ? f.function : "what makes this value",
             f.outcome ? "may have run, and its outcome is lost" : "did not begin, and will not", lib.broken_text);
    return lib_error_failure(e, &f, ref->id);
}
