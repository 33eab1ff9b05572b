/* SPDX-License-Identifier: Apache-2.0
 *
 * peer.h - who is at the other end of a server's calls and streams: by the certificates of their connections, and by their tokens;
 * and where a client's server is.
 */
#ifndef MT_RPC_PEER_H
#define MT_RPC_PEER_H

#include "core/base/rights.h"
#include "core/rpc/rpc.h"
#include "core/sha/sha256.h"

/* Whom the other end has shown to be, by its certificate: false in clear, or where it is gone. Loop thread. */
bool rpc_call_peer(const struct rpc_call *call, struct io_tls_who *out);
bool rpc_stream_peer(struct rpc_server *server, const struct rpc_stream *stream, struct io_tls_who *out);
/* Ends the connections of those who were revoked since they came (io_tls_revoke of the server's own). Any thread. */
void rpc_server_drop_revoked(struct rpc_server *server);

/* A named token beside the cluster's own: known by the hash of its text. */
struct rpc_token {
    uint64_t      number; /* not 0; the next token of the same name has another */
    enum mt_right right;  /* NOTHING: refused, in words */
    bool          is_ended;
    char          name[64];
    uint8_t       sha256[MT_SHA256_SIZE];
};
/* These are let in from now on, and no others: calls and streams of others are cut off. Where they are not all that there may be,
 * another server knows, and who shows an unknown one is sent on (ENOTLEADER). Copied. ENOMEM. Any thread. */
MT_MUST_USE mt_status rpc_server_tokens(struct rpc_server *server, const struct rpc_token *list, size_t count, bool are_all);
/* Of whoever made this call; 0: he has the cluster's own, or needed none. */
uint64_t rpc_call_token(const struct rpc_call *call);

/* Of a client's stream: the numeric address at which the server was reached. False: it was not yet, or it does not fit. */
bool rpc_stream_host(const struct rpc_stream *stream, char *out, size_t size);

#endif
