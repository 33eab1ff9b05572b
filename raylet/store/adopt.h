/* SPDX-License-Identifier: Apache-2.0
 *
 * adopt.h - values of nodes that leave: take.c adopts them, leave.c offers those of this one.
 */
#ifndef SH_STORE_ADOPT_H
#define SH_STORE_ADOPT_H

#include "raylet/store/spill.h"

/* take.c: values adopted here */
void sh_take_heard(struct sh *sh, const struct rlt_moved *m);          /* PEER_ADOPT, PEER_SEEK, PEER_MOVED_HEARD */
void sh_take_owner_gone(struct sh *sh, uint64_t owner, uint32_t node); /* either may be 0 */
void sh_take_stop(struct sh *sh);

/* leave.c: this node leaves */
void sh_leave_begin(struct sh *sh);                            /* a look at all values; RLT_EV_LEFT tells what became of them */
void sh_leave_heard(struct sh *sh, const struct rlt_moved *m); /* PEER_ADOPTED */
void sh_leave_node_lost(struct sh *sh, uint32_t node);
void sh_leave_stop(struct sh *sh);

#endif
