/* SPDX-License-Identifier: Apache-2.0
 *
 * heads.c - the head that leads, and those that stand by: each of them is a stream. Clients, nodes and files are told the list.
 *
 * Owns:    struct stander from StandBy to the end of its stream. Thread: the loop's.
 */
#include "core/base/log.h"
#include "core/proto/manta.pb-c.h"
#include "core/rpc/codec.h"
#include "core/rpc/peer.h"
#include "scheduler/head/shell/certify.h"
#include "scheduler/head/shell/heads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stander {
    struct rpc_stream_handler handler;
    struct shell             *sh;
    struct rpc_stream        *stream;
    struct stander           *next;
    char                      address[HEAD_PLACE_SIZE]; /* "": has not said yet */
};

/* `out` has room for all, and ends with as many pointers to them. */
static void tokens_fill(const struct shell *sh, Manta__V1__Token *out, Manta__V1__Token **list)
{
    for (size_t i = 0; i < sh->token_count; i++) {
        const struct head_token *t = &sh->tokens[i];
        list[i] = &out[i];
        out[i] = (Manta__V1__Token)MANTA__V1__TOKEN__INIT;
        out[i].name = (char *)(uintptr_t)t->name;
        out[i].right = t->right;
        out[i].is_ended = t->is_ended;
        out[i].sha256 = (ProtobufCBinaryData){HEAD_SHA_SIZE, (uint8_t *)(uintptr_t)t->sha256};
    }
}

static bool send_packed(const struct stander *s, Manta__V1__HeadsNews *news, bool has_tokens)
{
    Manta__V1__TokenList tokens = MANTA__V1__TOKEN_LIST__INIT;
    Manta__V1__Token    *items = calloc(s->sh->token_count + 1, sizeof *items);
    mt_buf               bytes = {0};
    tokens.tokens = calloc(s->sh->token_count + 1, sizeof(Manta__V1__Token *));
    bool is_sent = items && tokens.tokens;
    if (is_sent && has_tokens) {
        tokens_fill(s->sh, items, tokens.tokens);
        tokens.n_tokens = s->sh->token_count;
        news->tokens = &tokens;
    }
    is_sent = is_sent && !rpc_pack(&news->base, &bytes).code && !rpc_stream_send(s->stream, mt_buf_view(&bytes)).code;
    mt_buf_fini(&bytes);
    free(items);
    free(tokens.tokens);
    return is_sent;
}

static void send_news(const struct stander *s, bool is_shutdown, bool has_tokens)
{
    Manta__V1__HeadsNews news = MANTA__V1__HEADS_NEWS__INIT;
    char                *list[MT_HEADS_MAX];
    for (uint32_t i = 0; i < s->sh->head_count; i++)
        list[i] = s->sh->heads[i];
    news.heads = list;
    news.n_heads = s->sh->head_count;
    news.shutdown = is_shutdown;
    if (!send_packed(s, &news, has_tokens))
        rpc_stream_cancel(s->stream); /* it comes back, and is told anew */
}

void head_shell_tokens(struct shell *sh, const struct head_token *items, size_t count)
{
    head_shell_let_in(sh, items, count, true);
    for (const struct stander *s = sh->standers; s; s = s->next)
        send_news(s, false, true);
}

void head_shell_heads_set(struct shell *sh, const char *const *addresses, size_t count)
{
    sh->head_count = 0;
    for (size_t i = 0; i < count && i < MT_HEADS_MAX; i++)
        if (strlen(addresses[i]) < HEAD_PLACE_SIZE)
            snprintf(sh->heads[sh->head_count++], HEAD_PLACE_SIZE, "%s", addresses[i]);
    sh->is_heads_new = true;
}

void head_shell_heads_tell(struct shell *sh)
{
    const char       *list[MT_HEADS_MAX] = {sh->address};
    struct head_event event = {.kind = HEAD_EV_HEADS, .heads = {list, 1}};
    for (const struct stander *s = sh->standers; s && event.heads.count < MT_HEADS_MAX; s = s->next)
        if (s->address[0])
            list[event.heads.count++] = s->address;
    head_shell_heads_set(sh, list, event.heads.count);
    for (const struct stander *s = sh->standers; s; s = s->next)
        send_news(s, false, true);
    head_shell_step(sh, &event);
}

void head_shell_heads_beat(struct shell *sh)
{
    uint64_t now = io_now_ms();
    if (sh->doubt_ms || sh->away_ms || now - sh->beat_ms < MT_HEAD_BEAT_MS)
        return;
    sh->beat_ms = now;
    for (const struct stander *s = sh->standers; s; s = s->next)
        send_news(s, false, false);
}

void head_shell_heads_shutdown(struct shell *sh)
{
    for (const struct stander *s = sh->standers; s; s = s->next)
        send_news(s, true, false);
}

/* ---- StandBy ---- */

static void stander_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    struct stander   *s = mt_container_of(handler, struct stander, handler);
    ProtobufCMessage *m = NULL;
    if (rpc_unpack(&manta__v1__standby_hello__descriptor, message, MT_CONTROL_BYTES_MAX, &m).code) {
        rpc_stream_cancel(stream);
        return;
    }
    snprintf(s->address, sizeof s->address, "%s", ((const Manta__V1__StandbyHello *)m)->address);
    rpc_unpack_free(m);
    mt_log(MT_LOG_INFO, "standby_up", "address=%s", s->address);
    head_shell_heads_tell(s->sh);
}

static void stander_ended(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    (void)handler;
    rpc_stream_finish(stream, mt_ok(), NULL);
}

static void stander_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    struct stander  *s = mt_container_of(handler, struct stander, handler);
    struct shell    *sh = s->sh;
    struct stander **at = &sh->standers;
    (void)result;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    rpc_stream_free(stream);
    mt_log(MT_LOG_INFO, "standby_gone", "address=%s", s->address);
    free(s);
    if (!sh->is_ending)
        head_shell_heads_tell(sh);
}

/* Nodes and people have the token too, and what stands by is told to all: so it is who shows the certificate of the node beside the
 * heads. */
static bool is_head(const struct shell *sh, const struct rpc_stream *stream)
{
    struct io_tls_who who;
    return !sh->own_member || (rpc_stream_peer(sh->server, stream, &who) && who.id == sh->own_member);
}

struct rpc_stream_handler *head_shell_standby_came(struct rpc_service *service, struct rpc_stream *stream)
{
    struct shell    *sh = mt_container_of(service, struct shell, service);
    struct stander **end = &sh->standers;
    uint32_t         count = 1;
    for (; *end; end = &(*end)->next)
        count++;
    struct stander *s = count < MT_HEADS_MAX && is_head(sh, stream) ? calloc(1, sizeof *s) : NULL;
    if (!s)
        return NULL;
    *s = (struct stander){{stander_message, NULL, stander_ended, stander_closed}, sh, stream, NULL, ""};
    *end = s;
    return &s->handler;
}

/* ---- StepDown ---- */

static void step_down_reply(struct rpc_call *call, int32_t code, const char *text)
{
    Manta__V1__StepDownReply reply = MANTA__V1__STEP_DOWN_REPLY__INIT;
    mt_buf                   bytes = {0};
    reply.code = code;
    reply.text = (char *)(uintptr_t)text;
    if (rpc_pack(&reply.base, &bytes).code)
        rpc_call_fail(call, mt_error(MT_ENOMEM, 0, "answer"), NULL);
    else
        rpc_call_reply(call, mt_buf_view(&bytes));
    mt_buf_fini(&bytes);
}

/* Whether it is meant for this lead; a lead that has ended already needs no end. */
static bool is_meant(const struct shell *sh, mt_view request)
{
    ProtobufCMessage *m = NULL;
    if (rpc_unpack(&manta__v1__step_down_request__descriptor, request, MT_CONTROL_BYTES_MAX, &m).code)
        return false;
    const Manta__V1__StepDownRequest *r = (const Manta__V1__StepDownRequest *)m;
    bool                              is_it = r->head_epoch == 0 || r->head_epoch == head_epoch(sh->head);
    if (is_it)
        mt_log(MT_LOG_INFO, "step_down", "to=%s reason=\"%.200s\"", sh->head_count > 1 ? sh->heads[1] : "", r->reason);
    rpc_unpack_free(m);
    return is_it;
}

void head_shell_step_down(struct rpc_service *service, struct rpc_call *call, mt_view request)
{
    struct shell *sh = mt_container_of(service, struct shell, service);
    if (!is_meant(sh, request)) {
        step_down_reply(call, MT_EFENCED, "another head leads by now");
        return;
    }
    if (sh->head_count < 2) {
        step_down_reply(call, MT_ENOENT, "no other head stands by: start one by `manta start --head --standby --store URL`");
        return;
    }
    step_down_reply(call, 0, "");
    head_role_hand_over(sh->role);
    head_shell_end(sh, mt_ok());
}
