/* SPDX-License-Identifier: Apache-2.0
 *
 * tokens.h - private: the named tokens that a server lets in. Any thread.
 */
#ifndef MT_RPC_TOKENS_H
#define MT_RPC_TOKENS_H

#include "core/rpc/peer.h"
#include "core/rpc/runtime.h"

struct rpc_tokens {
    pthread_mutex_t   lock; /* of the rest; inside a scope's */
    struct rpc_token *list;
    size_t            count;
    uint64_t          version;
    bool              are_all; /* what is not in the list is no token */
};
void rpc_tokens_init(struct rpc_tokens *tokens, bool are_all);
void rpc_tokens_fini(struct rpc_tokens *tokens);
/* EAUTH: there is none with this text; ENOTLEADER: not here, and another head may know it. */
int32_t               rpc_tokens_find(struct rpc_tokens *tokens, const char *text, size_t size, struct rpc_token *out);
MT_MUST_USE mt_status rpc_tokens_set(struct rpc_tokens *tokens, const struct rpc_token *list, size_t count, bool are_all);
uint64_t              rpc_tokens_version(struct rpc_tokens *tokens);
/* Ends calls and streams of those that are not let in any more. */
void rpc_tokens_cut(struct rpc_tokens *tokens, struct rpc_scope *scope);

#endif
