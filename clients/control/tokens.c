/* SPDX-License-Identifier: Apache-2.0
 *
 * tokens.c - named tokens: made here, so that the head gets the hash of a new one and never its text; listed, revoked.
 */
#include "clients/control/control.h"

#include "core/base/reserved.h"
#include "core/base/rights.h"
#include "core/base/rng.h"
#include "core/sha/sha256.h"

#include <stdlib.h>
#include <string.h>

static_assert((int)MANTA_TOKEN_READ == (int)MT_MAY_READ && (int)MANTA_TOKEN_SUBMIT == (int)MT_MAY_SUBMIT &&
                  (int)MANTA_TOKEN_ADMIN == (int)MT_MAY_ADMIN,
              "public rights are the head's");

enum { TEXT_SIZE = IO_TOKEN_HEX + 2 }; /* with the end of the line, and of the text */

static void token_copy(const Manta__V1__Token *from, manta_token *out)
{
    *out = (manta_token){.right = (int)from->right,
                         .is_revoked = from->is_revoked,
                         .is_ended = from->is_ended,
                         .made_ms = from->made_ms,
                         .ends_ms = from->ends_ms};
    snprintf(out->name, sizeof out->name, "%s", from->name);
}

/* A line with a new token, of the heap; NULL: no memory, or no random bits. */
static char *draw(uint8_t sha256[MT_SHA256_SIZE])
{
    unsigned char bits[IO_TOKEN_HEX / 2];
    char         *text = malloc(TEXT_SIZE);
    mt_sha256     sha;
    if (!text || mt_random_bytes(bits, sizeof bits).code) {
        free(text);
        return NULL;
    }
    for (size_t i = 0; i < sizeof bits; i++)
        snprintf(text + 2 * i, 3, "%02x", bits[i]);
    explicit_bzero(bits, sizeof bits);
    mt_sha256_init(&sha);
    mt_sha256_add(&sha, text, IO_TOKEN_HEX);
    mt_sha256_end(&sha, sha256);
    memcpy(text + IO_TOKEN_HEX, "\n", 2);
    return text;
}

static void wipe(char *text)
{
    explicit_bzero(text, TEXT_SIZE);
    free(text);
}

static manta_status create(struct ctl_client *c, const manta_token_opts *opts, const uint8_t sha256[MT_SHA256_SIZE],
                           manta_token *out, manta_error *e)
{
    Manta__V1__CreateTokenRequest request = MANTA__V1__CREATE_TOKEN_REQUEST__INIT;
    ProtobufCMessage             *message;
    request.name = (char *)(uintptr_t)opts->name;
    request.right = (uint32_t)opts->right;
    request.valid_ms = opts->valid_ms;
    request.sha256 = (ProtobufCBinaryData){MT_SHA256_SIZE, (uint8_t *)(uintptr_t)sha256};
    manta_status st = ctl_call(c, "/manta.v1.Head/CreateToken", &request.base, &manta__v1__create_token_reply__descriptor,
                               c->timeout_ms, MT_CALL_MS, &message, e);
    if (st != MANTA_OK)
        return st;
    const Manta__V1__CreateTokenReply *reply = (const Manta__V1__CreateTokenReply *)message;
    if (reply->code)
        st = ctl_fail(e, reply->code, MANTA_NOT_DONE, "%s", reply->text);
    else if (!reply->token)
        st = ctl_fail(e, MT_EPROTO, MANTA_UNKNOWN, "the head's answer has no token");
    else if (out)
        token_copy(reply->token, out);
    rpc_unpack_free(message);
    return st;
}

static manta_status token_create(struct ctl_client *c, const manta_token_opts *opts, char **out_text, manta_token *out,
                                 manta_error *e)
{
    uint8_t sha256[MT_SHA256_SIZE];
    if (!opts || !opts->name || !out_text)
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "manta_token_create: options, name and out_text are wanted");
    if (MT_RESERVED_IS_USED(opts))
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, MT_RESERVED_TEXT, "manta_token_create");
    char *text = draw(sha256);
    if (!text)
        return ctl_fail(e, MT_ENOMEM, MANTA_NOT_DONE, "no memory for a token");
    manta_status st = create(c, opts, sha256, out, e);
    if (st == MANTA_OK)
        *out_text = text;
    else
        wipe(text);
    return st;
}

manta_status manta_token_create(manta_client *client, const manta_token_opts *opts, char **out_text, manta_token *out_token,
                                manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter(client, "manta_token_create", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, token_create(c, opts, out_text, out_token, e));
}

static manta_status tokens_list(struct ctl_client *c, manta_token **out_tokens, size_t *out_count, manta_error *e)
{
    Manta__V1__ListTokensRequest request = MANTA__V1__LIST_TOKENS_REQUEST__INIT;
    ProtobufCMessage            *message;
    manta_status st = ctl_call(c, "/manta.v1.Head/ListTokens", &request.base, &manta__v1__list_tokens_reply__descriptor,
                               c->timeout_ms, MT_CALL_MS, &message, e);
    if (st != MANTA_OK)
        return st;
    const Manta__V1__ListTokensReply *reply = (const Manta__V1__ListTokensReply *)message;
    manta_token                      *tokens = calloc(reply->n_tokens + 1, sizeof *tokens);
    for (size_t i = 0; tokens && i < reply->n_tokens; i++)
        token_copy(reply->tokens[i], &tokens[i]);
    if (tokens) {
        *out_tokens = tokens;
        *out_count = reply->n_tokens;
    }
    rpc_unpack_free(message);
    return tokens ? MANTA_OK : ctl_fail(e, MT_ENOMEM, MANTA_NOT_DONE, "no memory for the list of tokens");
}

manta_status manta_tokens_list(manta_client *client, manta_token **out_tokens, size_t *out_count, manta_error *e)
{
    struct ctl_client *c;
    manta_status st = ctl_enter_given(client, "manta_tokens_list", out_tokens && out_count, "out_tokens and out_count", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, tokens_list(c, out_tokens, out_count, e));
}

static manta_status token_revoke(struct ctl_client *c, const char *name, manta_error *e)
{
    Manta__V1__RevokeTokenRequest request = MANTA__V1__REVOKE_TOKEN_REQUEST__INIT;
    if (!name)
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "manta_token_revoke: name is NULL");
    request.name = (char *)(uintptr_t)name;
    return ctl_revoke(c, "/manta.v1.Head/RevokeToken", &request.base, e);
}

manta_status manta_token_revoke(manta_client *client, const char *name, manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter(client, "manta_token_revoke", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, token_revoke(c, name, e));
}
