/* SPDX-License-Identifier: Apache-2.0
 *
 * serve.h - the life of a worker: what is claimed is run, by one thread or several; then it leaves.
 */
#ifndef LIB_SERVE_H
#define LIB_SERVE_H

#include "clients/lib/shell/context/context.h"

MT_NORETURN void lib_worker_serve(int fd, int argc, char **argv);

/* ---- pool.c: the threads of a concurrent actor ---- */
/* Serves the actor's calls for ever, with up to the sum of `limits` threads and one. Under the lock; never returns. */
MT_NORETURN void lib_pool_serve(manta_ctx *c, const uint32_t *limits, uint32_t count);

/* ---- board.c ---- */
/* Between tasks: maps what records named, unmaps what no lane uses any more. Under the lock; may wait for the raylet. */
void lib_board_serve(void);

/* ---- leave.c ---- */
/* The actor ends of its own will: its creator hears it, its state is destroyed, the process ends. Under the lock. */
MT_NORETURN void lib_actor_exit(void);
/* Destroys the actor, if there is one, and ends the process. Without the lock. */
MT_NORETURN void lib_leave(void);

#endif
