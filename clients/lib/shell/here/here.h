/* SPDX-License-Identifier: Apache-2.0
 *
 * here.h - tasks that run in the process which submitted them: a worker's that waits for one of its own, and with
 *          MANTA_INLINE=1 all of a driver's.
 *
 * Thread: any, under the owner lock, which is released around user code.
 */
#ifndef LIB_HERE_H
#define LIB_HERE_H

#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/wait/wait.h"

/* Whether the running task, which waits for `ref`, is to run something of that itself; and does so. */
bool lib_here_may_run(const struct own_ref *ref);
bool lib_here_run(struct own_ref *ref);
void lib_here_stack(void); /* a worker begins: tasks run above this frame */

/* ---- inline.c ---- */
bool      lib_inline_wanted(void); /* without the lock */
mt_status lib_inline_start(void);  /* without the lock */
void      lib_inline_stop(void);
void      lib_inline_run(void); /* everything that may run */
bool      lib_inline_wait(lib_ready ready, void *arg, int64_t deadline_ns);
void      lib_inline_kill(struct own_actor *actor, bool restart);

/* What public calls wait with: what is to come may be this process's to run. */
static inline bool lib_wait_here(lib_ready ready, void *arg, int64_t deadline_ns)
{
    return MT_UNLIKELY(lib.inlined != NULL) ? lib_inline_wait(ready, arg, deadline_ns) : lib_wait(ready, arg, deadline_ns);
}
static inline void lib_pump_here(void)
{
    if (MT_UNLIKELY(lib.inlined != NULL))
        lib_inline_run();
    else
        lib_pump();
}

#endif
