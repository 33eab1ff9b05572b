/* SPDX-License-Identifier: Apache-2.0
 *
 * peer.h - who is at the other end of a server's calls and streams, by the certificates of their connections.
 */
#ifndef MT_RPC_PEER_H
#define MT_RPC_PEER_H

#include "core/rpc/rpc.h"

/* Whom the other end has shown to be, by its certificate: false in clear, or where it is gone. Loop thread. */
bool rpc_call_peer(const struct rpc_call *call, struct io_tls_who *out);
bool rpc_stream_peer(struct rpc_server *server, const struct rpc_stream *stream, struct io_tls_who *out);
/* Ends the connections of those who were revoked since they came (io_tls_revoke of the server's own). Any thread. */
void rpc_server_drop_revoked(struct rpc_server *server);

#endif
