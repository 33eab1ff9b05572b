/* SPDX-License-Identifier: Apache-2.0
 *
 * leave.c - a worker ends.
 *
 * Owns:   nothing. Thread: any of an actor's.
 */
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/run/run.h"
#include "clients/lib/shell/serve/serve.h"
#include "clients/lib/shell/state/state.h"

#include <stdlib.h>
#include <unistd.h>

/* Threads of an actor may all see that it is over, and its destroy function may take its time: whoever comes first ends the
 * process, the others wait for that. Without the lock. */
static void leave_alone(void)
{
    static atomic_flag is_leaving = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&is_leaving))
        pause();
}

MT_NORETURN static void leave(int code)
{
    const struct lib_actor *actor = &lib_actor_here;
    if (actor->type && actor->type->destroy && actor->self)
        actor->type->destroy(actor->self);
    exit(code);
}

void lib_actor_exit(void)
{
    lib_unlock();
    leave_alone();
    lib_lock();
    while (!wrk_tell_creator(&lib.wrk, LANE_EXIT, NULL, 0)) {
        lib_act();
        lib_unlock();
        sched_yield();
        lib_lock();
    }
    wrk_flush(&lib.wrk);
    lib_act();
    lib_unlock();
    leave(0);
}

MT_NORETURN void lib_leave(void)
{
    leave_alone();
    leave(0);
}
