/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what the files of this room need of each other beside the public calls.
 */
#ifndef SGD_COLL_TCP_PRIVATE_H
#define SGD_COLL_TCP_PRIVATE_H

#include "sgd/coll/tcp/move.h"

#include <stdatomic.h>

void coll_tcp_set_state(struct coll_tcp *g, enum coll_tcp_state next);
/* Ends the generation and tells everybody. */
mt_status coll_tcp_end(struct coll_tcp *g, enum mt_code reason, uint32_t rank);
/* A connection that has shown the secret finds its place. False: nobody waits for it, and it is closed. */
bool coll_tcp_admit(struct coll_tcp *g, struct coll_socket *socket, uint32_t rank, uint32_t channel);
/* Lets one in who has come to the listener, if one has. With few connections it stays: others may send messages at any time. */
MT_MUST_USE mt_status coll_tcp_strangers_take(struct coll_tcp *g);
/* The listener of this generation. */
static inline struct coll_door *coll_tcp_door(struct coll_tcp *g)
{
    return g->config.door ? g->config.door : &g->door;
}
/* What this member says first on a connection. */
struct coll_hello coll_tcp_hello(const struct coll_tcp *g, uint32_t rank, uint32_t channel);
/* Over which channel bytes go to a member, or come from it. To one that is not near, the first ones make a connection: that waits
 * until it is in a call of the group. */
MT_MUST_USE mt_status coll_tcp_way_to(struct coll_tcp *g, uint32_t peer, uint32_t *out_channel);
uint32_t              coll_tcp_way_from(const struct coll_tcp *g, uint32_t peer);
/* A connection to a member broke, or none could be made: why. */
mt_status          coll_tcp_lost(struct coll_tcp *g, uint32_t rank);
static inline bool coll_tcp_is_near(const struct coll_tcp *g, uint32_t peer)
{
    return g->near[g->config.rank] >> peer & 1;
}
/* Looks whether the generation has ended otherwise; the user is a struct coll_tcp. */
MT_MUST_USE mt_status coll_tcp_outside_look(void *user);

#endif
