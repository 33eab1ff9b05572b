/* SPDX-License-Identifier: Apache-2.0
 *
 * group_private.h - what collective.c needs of group.c beside the public calls.
 */
#ifndef SGD_GROUP_PRIVATE_H
#define SGD_GROUP_PRIVATE_H

#include "sgd/group.h"

/* A word of each member: set before a barrier, read by the others after it. */
void sgd_group_vote_set(struct sgd_group *group, uint64_t vote);
uint64_t sgd_group_vote_get(const struct sgd_group *group, uint32_t rank);

#endif
