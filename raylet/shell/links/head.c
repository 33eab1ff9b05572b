/* SPDX-License-Identifier: Apache-2.0
 *
 * head.c - finding the head, and the one stream to it.
 *
 * Owns: gRPC's runtime, the channel to the head, the attach stream, and a copy of the token. Thread: the loop.
 * Always: at most one stream; after it has ended another is tried, for ever: to the head that leads, as one that does not says,
 * else to each of the list in turn, and after all of them every MT_RLT_HEAD_RETRY_MS.
 *
 * gRPC is loaded only when there is a head's address: a private cluster runs its first tasks before that.
 */
#include "core/base/limits/head.h"
#include "core/base/limits/net.h"
#include "core/base/limits/raylet.h"
#include "raylet/shell/links/beat.h"
#include "raylet/shell/links/links.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/rpc/codec.h"
#include "core/rpc/rpc.h"
#include "core/text/address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HEAD_FILE_SIZE = 8192,
    HEADS_SIZE = MT_HEADS_MAX * RLT_ADDRESS_SIZE,
};

struct sh_head {
    struct sh                *sh;
    struct rpc               *rpc;
    struct rpc_channel       *channel;
    struct rpc_stream        *stream;
    struct rpc_stream_handler handler;
    struct io_timer           timer; /* the next look at the file, or the next attempt to attach */
    struct io_token           token; /* sh->token, once it is read */
    uint64_t                  give_up_ms;
    char                      address[RLT_ADDRESS_SIZE];      /* that is spoken to */
    char                      file_address[RLT_ADDRESS_SIZE]; /* that its file named */
    char                      heads[HEADS_SIZE];              /* all that are known: "HOST:PORT,..."; "": only that one */
    bool                      has_moved;                      /* the channel is to another address */
    uint32_t                  turned;                         /* heads that were tried since one answered */
    uint64_t                  heard_ms;                       /* when it last said something */
    struct io_timer           silence; /* where there are several: the next look whether this one says anything */
    char                      tls_file[MT_PATH_BYTES_MAX];
    bool                      is_certified; /* since the channel was made: it still shows the certificate before */
    bool                      reads_more;   /* it takes several messages as one */
    mt_buf                    said;         /* in this step, or beside one */
};

/* ---- the address and the token ------------------------------------------------------------------------------------ */

/* What stands behind "name=" in a line of its own, cut there; NULL: no such line. Lines before it must not be cut yet. */
static char *value_of(char *text, const char *name)
{
    size_t size = strlen(name);
    for (char *line = strchr(text, '\n'); line; line = strchr(line + 1, '\n'))
        if (strncmp(line + 1, name, size) == 0 && line[1 + size] == '=')
            return line + 2 + size;
    return NULL;
}

static mt_status secrets_read(struct sh_head *h, const char *token_file, const char *tls_file)
{
    if (token_file && !h->sh->token) {
        MT_TRY(io_token_read(token_file, &h->token));
        h->sh->token = &h->token;
    }
    if (!tls_file || h->sh->tls)
        return mt_ok();
    if (snprintf(h->tls_file, sizeof h->tls_file, "%s", tls_file) >= (int)sizeof h->tls_file)
        return mt_error(MT_EINVAL, 0, "the path of the TLS file is too long");
    return io_tls_load(tls_file, &h->sh->tls);
}

/* "host:port\n", then lines of name=value. False: not there yet. */
static bool address_file_read(struct sh_head *h, const char *path)
{
    char    text[HEAD_FILE_SIZE];
    int     fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (size <= 0)
        return false;
    text[size] = 0;
    char *end = strchr(text, '\n'), *token = value_of(text, "token_file"), *tls = value_of(text, "tls_file");
    char *heads = value_of(text, "heads");
    if (!end || end - text >= RLT_ADDRESS_SIZE)
        return false;
    *end = 0;
    if (token)
        token[strcspn(token, "\n")] = 0;
    if (tls)
        tls[strcspn(tls, "\n")] = 0;
    mt_status st = secrets_read(h, token, tls);
    if (st.code) {
        mt_log_status(MT_LOG_ERROR, "token_or_certificate_unreadable", st);
        return false;
    }
    if (heads)
        snprintf(h->heads, sizeof h->heads, "%.*s", (int)strcspn(heads, "\n"), heads);
    memcpy(h->file_address, text, sizeof h->file_address);
    if (!h->address[0])
        memcpy(h->address, h->file_address, sizeof h->address);
    return true;
}

const char *sh_head_address(const struct sh *sh)
{
    return sh->head ? sh->head->address : "";
}

const char *sh_head_tls_file(const struct sh *sh)
{
    return sh->head ? sh->head->tls_file : "";
}

void sh_head_certified(struct sh *sh)
{
    sh->head->is_certified = true;
}

struct rpc_channel *sh_head_channel(const struct sh *sh)
{
    return sh->head ? sh->head->channel : NULL;
}

/* ---- the stream --------------------------------------------------------------------------------------------------- */

static void attach(struct sh_head *h);

/* The head says which others there are. */
static void heads_take(struct sh_head *h, char *const *heads, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < count && i < MT_HEADS_MAX && at < sizeof h->heads; i++)
        at += (size_t)snprintf(h->heads + at, sizeof h->heads - at, "%s%s", i ? "," : "", heads[i]);
    if (count > 1 && !io_timer_is_started(&h->silence))
        io_timer_start(h->sh->loop, &h->silence, MT_RLT_HEAD_LEFT_MS / 4);
}

static void heads_hear(struct sh_head *h, const Manta__V1__HeadToNode *m)
{
    h->heard_ms = io_now_ms();
    h->turned = 0;
    if (m->kind_case == MANTA__V1__HEAD_TO_NODE__KIND_REGISTERED && m->registered->code == 0) {
        heads_take(h, m->registered->heads, m->registered->n_heads);
        h->reads_more = m->registered->reads_more;
    } else if (m->kind_case == MANTA__V1__HEAD_TO_NODE__KIND_HEADS) {
        heads_take(h, m->heads->heads, m->heads->n_heads);
    }
}

/* One that is stopped, or out of reach behind an open stream, may have been followed by another. */
static void silence_due(struct io_timer *timer)
{
    struct sh_head *h = mt_container_of(timer, struct sh_head, silence);
    if (mt_address_count(h->heads) < 2)
        return;
    io_timer_start(h->sh->loop, &h->silence, MT_RLT_HEAD_LEFT_MS / 4);
    uint64_t answered = sh_beats_heard_ms(h->sh), heard = answered > h->heard_ms ? answered : h->heard_ms;
    if (!h->stream || io_now_ms() - heard < MT_RLT_HEAD_LEFT_MS)
        return;
    mt_log(MT_LOG_WARN, "head_silent", "address=%s ms=%llu", h->address, (unsigned long long)(io_now_ms() - heard));
    rpc_stream_cancel(h->stream);
}

/* Where to go next: to whom a head has named as the leader, else to the next of the list. True: that is another address. */
static bool head_turn(struct sh_head *h, const struct rpc_result *result)
{
    static const char key[] = "leader=";
    char              next[RLT_ADDRESS_SIZE] = "";
    size_t            count = mt_address_count(h->heads);
    if (result->status.code == MT_ENOTLEADER && strncmp(result->detail, key, sizeof key - 1) == 0)
        snprintf(next, sizeof next, "%.*s", (int)sizeof next - 1, result->detail + sizeof key - 1);
    if (!next[0] && count > 1) {
        size_t at = mt_address_find(h->heads, h->address);
        (void)mt_address_at(h->heads, at == SIZE_MAX ? 0 : (at + 1) % count, next, sizeof next);
    }
    h->turned++;
    if (!next[0] || strcmp(next, h->address) == 0)
        return false;
    mt_log(MT_LOG_INFO, "head_next", "from=%s to=%s code=%s", h->address, next, mt_code_name(result->status.code));
    memcpy(h->address, next, sizeof h->address);
    return true;
}

static void message_free(void *message)
{
    rpc_unpack_free(message);
}

/* The message, which is kept until it was stepped; NULL: the stream ends. */
static const Manta__V1__HeadToNode *message_take(struct sh_head *h, struct rpc_stream *stream, mt_view message)
{
    ProtobufCMessage *m = NULL;
    struct rlt_event  e;
    mt_status         st = rpc_unpack(&manta__v1__head_to_node__descriptor, message, MT_CONTROL_BYTES_MAX, &m);
    if (st.code) {
        mt_log_status(MT_LOG_WARN, "head_message", st);
        rpc_stream_cancel(stream);
        return NULL;
    }
    const Manta__V1__HeadToNode *said = (const Manta__V1__HeadToNode *)m;
    heads_hear(h, said);
    if (said->kind_case == MANTA__V1__HEAD_TO_NODE__KIND_REGISTERED && said->registered->beats)
        sh_beats_begin(h->sh, said->registered->beats, stream);
    sh_event(&e, RLT_EV_HEAD);
    e.head.message = said;
    sh_keep_this(h->sh, m, message_free);
    sh_post(h->sh, &e);
    return said;
}

static void stream_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    struct sh_head              *h = mt_container_of(handler, struct sh_head, handler);
    const Manta__V1__HeadToNode *m = message_take(h, stream, message);
    for (size_t i = 0; m && i < m->n_more; i++)
        if (!message_take(h, stream, mt_view_of(m->more[i].data, m->more[i].len)))
            return;
}

/* Without the right token there is nothing to wait for; a node that has been in the cluster goes on for those it serves. */
static void refused(struct sh_head *h)
{
    struct rlt_event e;
    mt_log(MT_LOG_ERROR, "head_refused", "why=\"the token is missing or wrong\"");
    if (h->sh->node)
        return;
    h->sh->refused = mt_error(MT_EAUTH, 0, "the head does not take this token: see --token-file");
    sh_event(&e, RLT_EV_SHUTDOWN);
    e.shutdown.why = "the head does not take the token";
    sh_post(h->sh, &e);
}

static void stream_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    struct sh_head  *h = mt_container_of(handler, struct sh_head, handler);
    struct rlt_event e;
    mt_log(MT_LOG_DEBUG, "head_detached", "code=%s detail=\"%.200s\"", mt_code_name(result->status.code), result->detail);
    if (result->status.code == MT_EAUTH)
        refused(h);
    h->stream = NULL;
    h->said.size = 0;
    rpc_stream_free(stream);
    sh_beats_end(h->sh);
    sh_event(&e, RLT_EV_HEAD_DOWN);
    sh_post(h->sh, &e);
    if (h->sh->is_exiting)
        return;
    h->has_moved |= head_turn(h, result);
    bool is_soon = h->has_moved && h->turned <= MT_HEADS_MAX;
    io_timer_start(h->sh->loop, &h->timer, is_soon ? MT_RLT_HEAD_TURN_MS : MT_RLT_HEAD_RETRY_MS);
}

static void attach(struct sh_head *h)
{
    struct rpc_stream_config config = {.method = "/manta.v1.Head/Attach"};
    struct rlt_event         e;
    h->handler.message = stream_message;
    h->handler.closed = stream_closed;
    h->heard_ms = io_now_ms();
    h->reads_more = false;
    rpc_channel_kick(h->channel);
    if (rpc_stream_open(h->channel, &config, &h->handler, &h->stream).code) {
        h->stream = NULL;
        io_timer_start(h->sh->loop, &h->timer, MT_RLT_HEAD_RETRY_MS);
        return;
    }
    sh_event(&e, RLT_EV_HEAD_UP);
    sh_post(h->sh, &e);
}

static void sent(struct sh_head *h, mt_status st)
{
    if (!st.code || st.code == MT_ECONN)
        return;
    /* Too much for the stream's queue, which holds megabytes: this head does not read. A fresh start says all that still counts. */
    mt_log_status(MT_LOG_WARN, "head_send", st);
    rpc_stream_cancel(h->stream);
}

void sh_head_flush(struct sh *sh)
{
    struct sh_head *h = sh->head;
    if (!h || !h->said.size)
        return;
    if (h->stream)
        sent(h, rpc_stream_send(h->stream, mt_buf_view(&h->said)));
    h->said.size = 0;
}

/* Each message costs both ends some wake-ups, which is more than most are worth: those of one step go as one. */
void sh_head_send(struct sh *sh, const Manta__V1__NodeToHead *m)
{
    struct sh_head *h = sh->head;
    mt_buf          bytes = {0};
    if (!h || !h->stream)
        return;
    mt_status st = rpc_pack(&m->base, &bytes);
    bool      may_wait = h->reads_more && bytes.size < MT_BUNDLE_BYTES;
    if (!may_wait || h->said.size + bytes.size > MT_BUNDLE_BYTES)
        sh_head_flush(sh);
    if (!st.code)
        st = may_wait ? rpc_bundle_add(&h->said, mt_buf_view(&bytes)) : rpc_stream_send(h->stream, mt_buf_view(&bytes));
    mt_buf_fini(&bytes);
    sent(h, st);
}

void sh_head_answer(struct sh *sh, uint64_t number, Manta__V1__QueryReply *reply)
{
    Manta__V1__NodeToHead  message = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__QueryAnswer answer = MANTA__V1__QUERY_ANSWER__INIT;
    answer.number = number;
    answer.reply = reply;
    message.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_ANSWER;
    message.answer = &answer;
    sh_head_send(sh, &message);
}

static mt_status connect_head(struct sh_head *h)
{
    struct rpc_channel_config config = {.target = h->address,
                                        .token = h->sh->token,
                                        .tls = h->sh->tls,
                                        .peer = IO_TLS_HEAD,
                                        .is_insecure = h->sh->options.is_insecure,
                                        .silent_ms = MT_KEEPALIVE_SERVER_MS};
    if (!h->rpc)
        MT_TRY(rpc_new(h->sh->loop, &h->rpc));
    MT_TRY(rpc_channel_open(h->rpc, &config, &h->channel));
    h->is_certified = false;
    attach(h);
    return mt_ok();
}

/* A head that was started again may listen elsewhere: its file says where. */
static mt_status attach_again(struct sh_head *h)
{
    char old[RLT_ADDRESS_SIZE];
    memcpy(old, h->file_address, sizeof old);
    if (h->sh->options.head_file && address_file_read(h, h->sh->options.head_file) && strcmp(old, h->file_address) != 0) {
        mt_log(MT_LOG_INFO, "head_moved", "from=%s to=%s", h->address, h->file_address);
        h->has_moved = strcmp(h->address, h->file_address) != 0;
        memcpy(h->address, h->file_address, sizeof h->address);
    }
    if (!h->has_moved && !h->is_certified) {
        attach(h);
        return mt_ok();
    }
    h->has_moved = false;
    rpc_channel_close(h->channel);
    h->channel = NULL;
    return connect_head(h);
}

static void timer_fired(struct io_timer *timer)
{
    struct sh_head *h = mt_container_of(timer, struct sh_head, timer);
    mt_status       st = mt_ok();
    if (h->channel) {
        st = h->stream ? mt_ok() : attach_again(h);
    } else if (h->address[0] || address_file_read(h, h->sh->options.head_file)) {
        st = connect_head(h);
    } else if (io_now_ms() < h->give_up_ms) {
        io_timer_start(h->sh->loop, &h->timer, MT_RLT_HEAD_FILE_POLL_MS);
    } else {
        st = mt_error(MT_ETIMEDOUT, 0, "the file with the head's address has not appeared");
    }
    if (st.code)
        mt_log_status(MT_LOG_ERROR, "no_head", st);
    if (st.code && st.code != MT_ETIMEDOUT && !h->channel) /* what it lacked may be there again */
        io_timer_start(h->sh->loop, &h->timer, MT_RLT_HEAD_RETRY_MS);
}

/* ---- start and end -------------------------------------------------------------------------------------------------- */

mt_status sh_head_find(struct sh *sh)
{
    const struct rlt_options *o = &sh->options;
    struct sh_head           *h;
    if (!o->head && !o->head_file && !o->token_file)
        return mt_ok();
    h = sh->head = calloc(1, sizeof *h);
    if (!h)
        return mt_error(MT_ENOMEM, 0, "head");
    h->sh = sh;
    h->timer.fire = timer_fired;
    h->silence.fire = silence_due;
    h->give_up_ms = io_now_ms() + MT_RLT_HEAD_FILE_MS;
    MT_TRY(secrets_read(h, o->token_file, o->tls_file));
    if (o->head && (snprintf(h->heads, sizeof h->heads, "%s", o->head) >= (int)sizeof h->heads ||
                    !mt_address_at(h->heads, 0, h->address, sizeof h->address)))
        return mt_error(MT_EINVAL, 0, "--head: the address is too long");
    if (h->address[0] || !o->head_file || o->driver_fd >= 0)
        return mt_ok();
    while (!address_file_read(h, o->head_file)) { /* nothing runs yet that this could hold up */
        if (io_now_ms() >= h->give_up_ms)
            return mt_error(MT_ETIMEDOUT, 0, "the file with the head's address has not appeared");
        mt_sleep_ms(MT_RLT_HEAD_FILE_POLL_MS);
    }
    return mt_ok();
}

mt_status sh_head_rpc_start(struct sh *sh)
{
    struct sh_head *h = sh->head;
    return h && !h->rpc ? rpc_new(sh->loop, &h->rpc) : mt_ok();
}

mt_status sh_head_start(struct sh *sh)
{
    struct sh_head *h = sh->head;
    if (!h || (!sh->options.head && !sh->options.head_file))
        return mt_ok();
    if (h->address[0])
        return connect_head(h);
    io_timer_start(sh->loop, &h->timer, MT_RLT_HEAD_FILE_POLL_MS);
    return mt_ok();
}

void sh_head_stop(struct sh *sh)
{
    struct sh_head *h = sh->head;
    if (!h)
        return;
    io_timer_stop(&h->timer);
    io_timer_stop(&h->silence);
    sh_beats_end(sh);
    if (h->stream)
        rpc_stream_free(h->stream);
    if (h->channel)
        rpc_channel_close(h->channel);
    if (h->rpc)
        rpc_free(h->rpc);
    sh->token = NULL;
    io_token_wipe(&h->token);
    mt_buf_fini(&h->said);
    free(h);
    sh->head = NULL;
}
