/* SPDX-License-Identifier: Apache-2.0
 *
 * few.h - door inside this room: calls among many members, each of which is connected with few others. See halving.h.
 */
#ifndef SGD_COLL_FEW_H
#define SGD_COLL_FEW_H

#include "sgd/coll/tcp/private.h"

/* Heads of all, from all; this member's stands there. */
MT_MUST_USE mt_status coll_few_heads(struct coll_tcp *g, struct coll_head heads[MT_GROUP_MEMBERS_MAX]);
/* Whose heads were equal: a sum, a gather or a broadcast. */
MT_MUST_USE mt_status coll_few_run(struct coll_tcp *g, const struct coll_call *call);

#endif
