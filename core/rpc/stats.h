/* SPDX-License-Identifier: Apache-2.0
 *
 * stats.h - what has become of a server's connections and calls so far.
 */
#ifndef MT_RPC_STATS_H
#define MT_RPC_STATS_H

#include "core/rpc/rpc.h"

struct rpc_server_stats {
    uint32_t connections, unauthenticated; /* now */
    uint64_t calls;                        /* that passed the check */
    uint64_t refused_token, refused_unknown, refused_busy;
    uint32_t silent;                  /* connections now that have sent nothing yet, and are not among the above */
    uint64_t dropped_unauthenticated; /* connections */
    uint64_t dropped_silent;          /* connections that sent nothing in their time, or made room for newer ones */
    uint64_t refused_bound;           /* connections, of an address that had opened too many without the token */
    uint64_t refused_fds;             /* connections, for want of descriptors */
    uint64_t refused_tls;             /* connections whose peer did not show that it is a node of this cluster */
};
/* Loop thread. */
void rpc_server_stats(struct rpc_server *server, struct rpc_server_stats *out);

#endif
