/* SPDX-License-Identifier: Apache-2.0
 *
 * serve.h - values that other nodes fetch from here, and the data socket, which pull.c uses too.
 */
#ifndef SH_STORE_SERVE_H
#define SH_STORE_SERVE_H

#include "objectstore/server/tree.h"
#include "objectstore/transfer/transfer.h"
#include "raylet/store/private.h"

struct sh_serving {
    struct sh         *sh;
    struct os_transfer transfer;
    struct os_trees    trees;  /* who sends on what stands here */
    mt_map             served; /* object id -> owner's node, job: another node has fetched it, and may keep a copy */
};

MT_MUST_USE mt_status sh_serving_start(struct sh *sh, char address[RLT_ADDRESS_SIZE]);
void                  sh_serving_stop(struct sh *sh);          /* fetches that are under way end */
bool                  sh_serving_was(struct sh *sh, mt_id id); /* fetched by others; and forgets it: the object is dead */
void                  sh_serving_node_lost(struct sh *sh, uint32_t node);
void sh_serving_owner_gone(struct sh *sh, uint64_t owner, uint32_t node); /* what it owned is not remembered any more */
void sh_serving_job_unserve(struct sh *sh, uint32_t job); /* its values are not sent any more through what it has here */
void sh_serving_job_over(struct sh *sh, uint32_t job);
#endif
