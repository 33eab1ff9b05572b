/* SPDX-License-Identifier: Apache-2.0
 *
 * known.h - copies that other nodes have of what processes of this node own.
 */
#ifndef SH_STORE_KNOWN_H
#define SH_STORE_KNOWN_H

#include "raylet/store/private.h"

MT_MUST_USE mt_status sh_known_start(struct sh *sh);
void                  sh_known_stop(struct sh *sh);
/* This node has fetched the value at `ref`: its owner's node is to know. */
void sh_known_fetched(struct sh *sh, const struct lane_ref *ref);
/* A node has fetched a value of an owner here, which stood at `place`. */
void sh_known_copy(struct sh *sh, uint32_t node, const struct lane_ref *place);
/* Its owner can't have it there. It hears CTL_MOVED if another node has it, else CTL_SEEK. */
void sh_known_seek(struct sh *sh, const struct lane_ref *place);
void sh_known_heard(struct sh *sh, const struct rlt_moved *m);   /* PEER_SOUGHT; PEER_MOVED: an owner here has taken a new place */
void sh_known_dead(struct sh *sh, const struct lane_ref *place); /* its owner says so */
void sh_known_owner_gone(struct sh *sh, uint64_t owner);
bool sh_known_has(const struct sh *sh, mt_id id);
void sh_known_node_lost(struct sh *sh, uint32_t node); /* what stood there is sought at once, before the copies age */
#endif
