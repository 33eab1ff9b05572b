/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what ops.c and join.c need of tcp.c beside the public calls.
 */
#ifndef SGD_COLL_TCP_PRIVATE_H
#define SGD_COLL_TCP_PRIVATE_H

#include "sgd/coll/tcp/move.h"

#include <stdatomic.h>

void coll_tcp_set_state(struct coll_tcp *g, enum coll_tcp_state next);
/* Ends the generation and tells everybody. */
mt_status coll_tcp_end(struct coll_tcp *g, enum mt_code reason, uint32_t rank);
/* Looks whether the generation has ended otherwise; the user is a struct coll_tcp. */
MT_MUST_USE mt_status coll_tcp_outside_look(void *user);

#endif
