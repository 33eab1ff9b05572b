/* SPDX-License-Identifier: Apache-2.0
 *
 * procs.h - starts of zygotes and workers, the ends of all processes of this node, and its memory. Loop thread.
 */
#ifndef SH_PROCS_H
#define SH_PROCS_H

#include "raylet/shell/conn/conn.h"

/* spawn.c */
void sh_spawn_zygote(struct sh *sh, const struct rlt_a_spawn_zygote *a);
void sh_fork(struct sh *sh, const struct rlt_a_fork *a);

/* reap.c */
void sh_reap(struct sh *sh); /* every child that has ended, ours or inherited */
/* A connection ends: what each room holds for it goes, then it. */
void sh_conn_end(struct sh_conn *c);
/* At the end: kills every process that the raylet started, and waits for them: nothing of ours is left behind. */
void sh_processes_end(struct sh *sh);

/* watch.c */
void sh_watch_start(struct sh *sh);
void sh_watch_busy(struct sh *sh); /* a process may have come to a node without any */
void sh_watch_stop(struct sh *sh);

/* notice.c */
void sh_notice_start(struct sh *sh);
void sh_notice_stop(struct sh *sh);

#endif
