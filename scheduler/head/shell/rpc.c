/* SPDX-License-Identifier: Apache-2.0
 *
 * rpc.c - service Head: each unary call is an event with a number, each attached raylet a stream with a number.
 *
 * Owns:    struct call from request to answer; struct attach from the raylet's Attach to the end of its stream.
 * Thread:  the loop's.
 */
#include "core/rpc/codec.h"
#include "scheduler/head/core/core.h"
#include "scheduler/head/shell/backup.h"
#include "scheduler/head/shell/certify.h"
#include "scheduler/head/shell/heads.h"
#include "core/rpc/peer.h"

#include "core/base/log.h"
#include "core/io/private.h"
#include "core/proto/manta.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct call {
    struct rpc_gone  gone;
    struct shell    *sh;
    struct rpc_call *call;
    uint64_t         number;
    bool             has_ticket; /* and no more */
};

struct sent_on { /* a stream that is for the leader */
    struct rpc_stream_handler handler;
    struct shell             *sh;
};

static struct shell *shell_of(struct rpc_service *service)
{
    return mt_container_of(service, struct shell, service);
}

static void call_gone(struct rpc_gone *gone)
{
    struct call      *c = mt_container_of(gone, struct call, gone);
    struct shell     *sh = c->sh;
    struct head_event event = {.kind = HEAD_EV_CALL_GONE, .call_gone = {c->number}};
    mt_map_remove(&sh->calls, mt_map_key(c->number));
    /* Read only where it is we who leave: then the caller asks the next head. */
    rpc_call_fail(c->call, mt_error(MT_ECONN, 0, "the head ends"), NULL);
    free(c);
    head_shell_step(sh, &event);
}

/* ---- another head leads ---- */

/* Where it is, as far as is known; "leader=" while somebody is about to lead. */
static const char *leader_text(const struct shell *sh, char out[HEAD_PLACE_SIZE + 8])
{
    const struct head_role *role = sh->role;
    bool                    is_known = role->state == HEAD_STANDBY && role->seen.holder[0] && role->seen.at.run != role->gone_run;
    snprintf(out, HEAD_PLACE_SIZE + 8, "leader=%s", is_known && strcmp(role->seen.place, sh->address) != 0 ? role->seen.place : "");
    return out;
}

static void sent_on_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    char text[HEAD_PLACE_SIZE + 8];
    (void)message;
    rpc_stream_finish(stream, mt_error(MT_ENOTLEADER, 0, "another head leads"),
                      leader_text(mt_container_of(handler, struct sent_on, handler)->sh, text));
}

static void sent_on_ended(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    sent_on_message(handler, stream, mt_view_of(NULL, 0));
}

static void sent_on_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    (void)result;
    rpc_stream_free(stream);
    free(mt_container_of(handler, struct sent_on, handler));
}

/* By its first message it is told where the leader is. */
static struct rpc_stream_handler *send_on(struct shell *sh, struct rpc_stream *stream)
{
    struct sent_on *s = calloc(1, sizeof *s);
    (void)stream;
    if (!s)
        return NULL;
    *s = (struct sent_on){{sent_on_message, NULL, sent_on_ended, sent_on_closed}, sh};
    return &s->handler;
}

/* ---- calls ---- */

static void refuse_signed(struct rpc_call *call, enum head_method method, mt_status st)
{
    mt_buf    reply = {0};
    mt_status packed = head_shell_certify_refusal(method, st, &reply);
    if (packed.code)
        rpc_call_fail(call, packed, NULL);
    else
        rpc_call_reply(call, mt_buf_view(&reply));
    mt_buf_fini(&reply);
}

static void reply_signed(struct shell *sh, const struct call *c, const struct head_action *action)
{
    mt_buf    reply = {0};
    mt_status st = head_shell_certify(sh, action, c->has_ticket, &reply);
    if (st.code)
        rpc_call_fail(c->call, st, st.what);
    else
        rpc_call_reply(c->call, mt_buf_view(&reply));
    io_private_wipe(&reply);
}

static void take_call(struct rpc_service *service, struct rpc_call *call, mt_view request, enum head_method method)
{
    struct shell *sh = shell_of(service);
    char          leader[HEAD_PLACE_SIZE + 8];
    if (!sh->head) {
        rpc_call_fail(call, mt_error(MT_ENOTLEADER, 0, "another head leads"), leader_text(sh, leader));
        return;
    }
    uint64_t     asks, number = ++sh->next_number;
    mt_status    st = head_shell_certify_check(sh, method, request, &asks);
    struct call *c = st.code ? NULL : calloc(1, sizeof *c);
    if (st.code) {
        refuse_signed(call, method, st);
        return;
    }
    if (!c || mt_map_put_ptr(&sh->calls, mt_map_key(number), c).code != 0) {
        free(c);
        rpc_call_fail(call, mt_error(MT_ENOMEM, 0, "take a call"), "the head is out of memory: try again");
        return;
    }
    struct io_tls_who who;
    struct head_peer  peer = head_shell_peer(rpc_call_peer(call, &who) ? &who : NULL);
    *c = (struct call){{call_gone}, sh, call, number, peer.kind == HEAD_PEER_TICKET};
    struct head_event event = {.kind = HEAD_EV_CALL,
                               .call = {number, method, rpc_call_token(call), request.data, request.size, peer, asks}};
    head_shell_step(sh, &event);
    rpc_call_on_gone(call,
                     &c->gone); /* told at once where the caller has left already: so after the step, which reads the request */
}

void head_shell_reply(struct shell *sh, const struct head_action *action)
{
    bool         is_reply = action->kind == HEAD_ACT_REPLY;
    uint64_t     number = is_reply ? action->reply.call : action->refuse.call;
    struct call *c = mt_map_ptr(&sh->calls, mt_map_key(number));
    if (head_shell_join_take(sh, action) || !c)
        return; /* our own question, or the caller has left */
    mt_map_remove(&sh->calls, mt_map_key(number));
    if (is_reply && (action->reply.method == HEAD_CERTIFY || action->reply.method == HEAD_CREATE_TICKET))
        reply_signed(sh, c, action);
    else if (is_reply)
        rpc_call_reply(c->call, (mt_view){action->reply.bytes->data, action->reply.bytes->size});
    else
        rpc_call_fail(c->call, action->refuse.status, action->refuse.status.what);
    free(c);
}

/* ---- attached raylets ---- */

/* Pieces of log wait for a slow disk: until they are fewer, nobody who sends is read from. */
static void attach_unread(struct attach *a, bool is_unread)
{
    struct head_event event = {.kind = HEAD_EV_STREAM_UNREAD, .stream = {.number = a->number, .is_unread = is_unread}};
    if (a->is_unread == is_unread)
        return;
    a->is_unread = is_unread;
    (is_unread ? rpc_stream_pause : rpc_stream_resume)(a->stream);
    head_shell_step(a->sh, &event);
}

static void attach_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    struct attach *a = mt_container_of(handler, struct attach, handler);
    struct shell  *sh = a->sh;
    (void)stream;
    if (a->is_forgotten)
        return;
    if (sh->log_bytes > MT_HEAD_LOG_AHEAD_BYTES)
        attach_unread(a, true);
    struct head_event event = {.kind = HEAD_EV_STREAM_MESSAGE, .message = {a->number, message.data, message.size}};
    head_shell_step(sh, &event);
}

static void attach_ended(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    (void)handler;
    rpc_stream_finish(stream, mt_ok(), NULL);
}

static void said_drop(struct shell *sh, struct attach *a)
{
    struct attach **at = &sh->said;
    while (*at && *at != a)
        at = &(*at)->next_said;
    if (*at)
        *at = a->next_said;
    mt_buf_fini(&a->said);
}

static void attach_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    struct attach *a = mt_container_of(handler, struct attach, handler);
    struct shell  *sh = a->sh;
    (void)result;
    mt_map_remove(&sh->attached, mt_map_key(a->number));
    rpc_stream_free(stream);
    struct head_event event = {.kind = HEAD_EV_STREAM_CLOSED, .stream = {.number = a->number}};
    bool              is_news = !a->is_forgotten;
    said_drop(sh, a);
    free(a);
    if (is_news)
        head_shell_step(sh, &event);
}

static struct rpc_stream_handler *take_attach(struct rpc_service *service, struct rpc_stream *stream)
{
    struct shell  *sh = shell_of(service);
    struct attach *a = calloc(1, sizeof *a);
    uint64_t       number = ++sh->next_number;
    if (!a || mt_map_put_ptr(&sh->attached, mt_map_key(number), a).code != 0) {
        free(a);
        return NULL;
    }
    *a = (struct attach){
        .handler = {attach_message, NULL, attach_ended, attach_closed}, .sh = sh, .stream = stream, .number = number};
    rpc_stream_set_queue(stream, 4 * MT_STREAM_QUEUE_BYTES); /* a large cluster's view is megabytes */
    struct io_tls_who who;
    struct head_event event = {.kind = HEAD_EV_STREAM_OPENED,
                               .stream = {number, head_shell_peer(rpc_stream_peer(sh->server, stream, &who) ? &who : NULL), {0}}};
    head_shell_beats_terms(sh, &event.stream.beats);
    memcpy(a->beat_key, event.stream.beats.key, sizeof a->beat_key);
    head_shell_step(sh, &event);
    return &a->handler;
}

/* A raylet that does not read is cut off; it comes back and registers again. */
static void sent(struct attach *a, mt_status st)
{
    if (st.code != 0 && st.code != MT_ECONN) {
        mt_log_status(MT_LOG_WARN, "raylet_send", st);
        rpc_stream_cancel(a->stream);
    }
}

static void bytes_release(void *bytes)
{
    head_bytes_unref(bytes);
}

static void send_alone(struct attach *a, struct head_bytes *bytes)
{
    atomic_fetch_add(&bytes->refs, 1);
    sent(a, rpc_stream_send_borrowed(a->stream, (mt_view){bytes->data, bytes->size}, bytes_release, bytes));
}

static void send_said(struct shell *sh, struct attach *a)
{
    if (a->said.size)
        sent(a, rpc_stream_send(a->stream, mt_buf_view(&a->said)));
    said_drop(sh, a);
}

void head_shell_send_said(struct shell *sh)
{
    while (sh->said)
        send_said(sh, sh->said);
}

/* Each message costs both ends some wake-ups, which is more than most are worth: what one round says to a raylet goes as one.
 * But what is said to many is not copied for each. */
void head_shell_send(struct shell *sh, const struct head_action *action)
{
    struct attach     *a = mt_map_ptr(&sh->attached, mt_map_key(action->send.stream));
    struct head_bytes *bytes = action->send.bytes;
    if (!a)
        return;
    bool may_wait = action->send.reads_more && bytes->size < MT_BUNDLE_BYTES && atomic_load(&bytes->refs) == 1;
    if (!may_wait || a->said.size + bytes->size > MT_BUNDLE_BYTES)
        send_said(sh, a);
    bool is_first = !a->said.size;
    if (!may_wait || rpc_bundle_add(&a->said, (mt_view){bytes->data, bytes->size}).code) {
        send_said(sh, a);
        send_alone(a, bytes);
    } else if (is_first) {
        a->next_said = sh->said;
        sh->said = a;
    }
}

void head_shell_close(struct shell *sh, const struct head_action *action)
{
    struct attach *a = mt_map_ptr(&sh->attached, mt_map_key(action->close.stream));
    if (!a)
        return;
    a->is_forgotten = true;
    send_said(sh, a);
    rpc_stream_finish(a->stream, mt_error(MT_ECONN, 0, "the head has ended the stream"), "the head has ended the stream");
}

void head_shell_resume_streams(struct shell *sh)
{
    MT_MAP_EACH(&sh->attached, entry)
        attach_unread(entry->value.ptr, false);
}

/* ---- the table ---- */

#define X(name, method, right) \
    static void unary_##name(struct rpc_service *service, struct rpc_call *call, mt_view request) \
    { \
        take_call(service, call, request, HEAD_##method); \
    }
HEAD_METHODS(X)
#undef X

static void unary_StepDown(struct rpc_service *service, struct rpc_call *call, mt_view request)
{
    char leader[HEAD_PLACE_SIZE + 8];
    if (shell_of(service)->is_stored)
        head_shell_step_down(service, call, request);
    else
        rpc_call_fail(call, mt_error(MT_ENOTLEADER, 0, "another head leads"), leader_text(shell_of(service), leader));
}

/* X(name, who takes the stream where this head leads, flags, what a token must be good for) */
#define STREAMS(X) \
    X(FollowJob, head_shell_follow, 0, MT_MAY_READ) \
    X(PutBlob, head_shell_put_blob, 0, MT_MAY_SUBMIT) \
    X(GetBlob, head_shell_get_blob, 0, MT_MAY_ADMIN) \
    X(Backup, head_shell_backup, 0, MT_MAY_ADMIN) \
    X(StandBy, head_shell_standby_came, 0, MT_MAY_ADMIN) \
    X(Attach, take_attach, RPC_METHOD_GREETS, MT_MAY_ADMIN)

#define X(name, take, flags, right) \
    static struct rpc_stream_handler *stream_##name(struct rpc_service *service, struct rpc_stream *stream) \
    { \
        return shell_of(service)->head ? take(service, stream) : send_on(shell_of(service), stream); \
    }
STREAMS(X)
#undef X

/* Who asks shows his certificate: a ticket has no token yet. */
static void unary_Certify(struct rpc_service *service, struct rpc_call *call, mt_view request)
{
    take_call(service, call, request, HEAD_CERTIFY);
}

static const struct rpc_method methods[] = {
#define X(name, method, right) {"/manta.v1.Head/" #name, 0, unary_##name, NULL, right},
    HEAD_METHODS(X)
#undef X
#define X(name, take, flags, right) {"/manta.v1.Head/" #name, flags, NULL, stream_##name, right},
        STREAMS(X)
#undef X
            {"/manta.v1.Head/StepDown", 0, unary_StepDown, NULL, MT_MAY_ADMIN},
    {"/manta.v1.Head/Certify", RPC_METHOD_TICKET, unary_Certify, NULL, MT_MAY_ADMIN},
    RPC_HEALTH,
};

void head_shell_rpc_init(struct shell *sh)
{
    sh->service = (struct rpc_service){methods, sizeof methods / sizeof *methods};
}
