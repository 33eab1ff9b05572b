/* SPDX-License-Identifier: Apache-2.0
 *
 * tokens.c - the named tokens that a server lets in beside the cluster's own. Only hashes are kept: what leaks of this table opens
 * nothing.
 *
 * Owns:    the list, under its lock. Thread: any; set by the loop's, looked at by the rpc thread for each call.
 * Always:  a call of a token that the list does not let in any more is cancelled, also one that came in while the list changed.
 */
#include "core/rpc/tokens.h"

#include "core/sha/sha256.h"

#include <stdlib.h>
#include <string.h>

void rpc_tokens_init(struct rpc_tokens *tokens, bool are_all)
{
    *tokens = (struct rpc_tokens){.are_all = are_all};
    pthread_mutex_init(&tokens->lock, NULL);
}

void rpc_tokens_fini(struct rpc_tokens *tokens)
{
    free(tokens->list);
    pthread_mutex_destroy(&tokens->lock);
}

/* Takes the same time wherever they differ. */
static bool is_same(const uint8_t a[MT_SHA256_SIZE], const uint8_t b[MT_SHA256_SIZE])
{
    unsigned differs = 0;
    for (size_t i = 0; i < MT_SHA256_SIZE; i++)
        differs |= (unsigned)a[i] ^ (unsigned)b[i];
    __asm__ volatile("" : "+r"(differs)); /* no early way out of the loop for the compiler to find */
    return differs == 0;
}

int32_t rpc_tokens_find(struct rpc_tokens *tokens, const char *text, size_t size, struct rpc_token *out)
{
    uint8_t   sum[MT_SHA256_SIZE];
    mt_sha256 sha;
    mt_sha256_init(&sha);
    mt_sha256_add(&sha, text, size);
    mt_sha256_end(&sha, sum);
    pthread_mutex_lock(&tokens->lock);
    int32_t code = tokens->are_all ? MT_EAUTH : MT_ENOTLEADER;
    for (size_t i = 0; i < tokens->count; i++) /* all of them: the time does not say which it was */
        if (is_same(tokens->list[i].sha256, sum)) {
            *out = tokens->list[i];
            code = MT_OK;
        }
    pthread_mutex_unlock(&tokens->lock);
    return code;
}

uint64_t rpc_tokens_version(struct rpc_tokens *tokens)
{
    pthread_mutex_lock(&tokens->lock);
    uint64_t version = tokens->version;
    pthread_mutex_unlock(&tokens->lock);
    return version;
}

static bool is_let_in(const struct rpc_tokens *tokens, uint64_t number)
{
    for (size_t i = 0; i < tokens->count; i++)
        if (tokens->list[i].number == number)
            return tokens->list[i].right != MT_MAY_NOTHING;
    return false;
}

void rpc_tokens_cut(struct rpc_tokens *tokens, struct rpc_scope *scope)
{
    pthread_mutex_lock(&scope->lock);
    pthread_mutex_lock(&tokens->lock);
    for (struct rpc_live *live = scope->first; live; live = live->next)
        if (live->token && !is_let_in(tokens, live->token))
            grpc_call_cancel_with_status(live->call, GRPC_STATUS_UNAUTHENTICATED, "the token was revoked, or has ended", NULL);
    pthread_mutex_unlock(&tokens->lock);
    pthread_mutex_unlock(&scope->lock);
}

mt_status rpc_tokens_set(struct rpc_tokens *tokens, const struct rpc_token *list, size_t count, bool are_all)
{
    struct rpc_token *copy = calloc(count + 1, sizeof *copy);
    if (!copy)
        return mt_error(MT_ENOMEM, 0, "take the named tokens");
    if (count)
        memcpy(copy, list, count * sizeof *copy);
    pthread_mutex_lock(&tokens->lock);
    free(tokens->list);
    tokens->list = copy;
    tokens->count = count;
    tokens->are_all = are_all;
    tokens->version++;
    pthread_mutex_unlock(&tokens->lock);
    return mt_ok();
}
