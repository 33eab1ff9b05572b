/* SPDX-License-Identifier: Apache-2.0
 *
 * move.h - door: bytes to several members and from them at the same time, for who has an order of its own (../../sum).
 */
#ifndef SGD_COLL_TCP_MOVE_H
#define SGD_COLL_TCP_MOVE_H

#include "sgd/coll/tcp/tcp.h"

#include <sys/uio.h>

/* Bytes to one member: a head, then what one place or several hold; and from it, into one place or several. */
struct coll_flow {
    uint32_t            peer, channel; /* 0: COLL_DATA */
    const void         *out[2];
    size_t              out_size[2], out_done;
    const struct iovec *outs; /* NULL: out[1] is one place. Else out_size[1] bytes, from these one after the other */
    void               *in;
    const struct iovec *ins; /* NULL: `in` is one place */
    size_t              in_size, in_done;
};

/* Moves all of them at the same time; returns when all are done. */
MT_MUST_USE mt_status coll_tcp_move(struct coll_tcp *g, struct coll_flow *flows, uint32_t count);
/* The same, but returns as soon as all that they receive is there; what they send goes on with the next call. */
MT_MUST_USE mt_status coll_tcp_move_in(struct coll_tcp *g, struct coll_flow *flows, uint32_t count);
/* OK while the generation lives. EINVAL: none was joined. */
MT_MUST_USE mt_status coll_tcp_alive(struct coll_tcp *g);
/* Members disagree: ends the generation and tells everybody, with the text as it stands. */
mt_status coll_tcp_end_with(struct coll_tcp *g, uint32_t rank);

#endif
