/* SPDX-License-Identifier: Apache-2.0
 *
 * context.c - what the running function says of itself, and what is asked of it: to stop, to be done in time.
 *
 * Owns:   lib_running. Thread: context.h; manta_is_cancelled takes no lock.
 */
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/state/state.h"

#include <stdarg.h>
#include <unistd.h>

LIB_THREAD_LOCAL manta_ctx *lib_running;

manta_status manta_fail(manta_ctx *c, int user_code, const char *format, ...)
{
    va_list args;
    if (!c || !format)
        return MANTA_ETASK;
    c->has_failed = true;
    memset(&c->failure, 0, sizeof c->failure);
    c->failure.code = MANTA_ETASK;
    c->failure.user_code = user_code;
    va_start(args, format);
    vsnprintf(c->failure.message, sizeof c->failure.message, format, args);
    va_end(args);
    return MANTA_ETASK;
}

int manta_attempt(const manta_ctx *c)
{
    return c ? (int)c->run->record.attempt : 0;
}

void manta_actor_exit(manta_ctx *c)
{
    if (c)
        c->wants_exit = true;
}

void manta_actor_save(manta_ctx *c)
{
    if (c)
        c->wants_save = true;
}

size_t lib_failure_payload(manta_ctx *c, manta_status code, uint8_t *out, size_t room)
{
    struct lane_failure head = {.pid = (int32_t)getpid(), .node = lib.own.node};
    int                 n;
    if (!c->has_failed)
        snprintf(c->failure.message, sizeof c->failure.message, "%s returned %d", c->name ? c->name : "it", code);
    memcpy(out, &head, sizeof head);
    n = snprintf((char *)out + sizeof head, room - sizeof head, "%s", c->failure.message);
    return sizeof head + (size_t)n;
}

void lib_fail_timed_out(manta_ctx *c)
{
    manta_fail(c, 0, "%s did not end within its timeout of %u ms", c->name ? c->name : "it", c->limits.timeout_ms);
}

/* ---- to stop ---- */

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
