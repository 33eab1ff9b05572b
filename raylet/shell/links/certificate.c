/* SPDX-License-Identifier: Apache-2.0
 *
 * certificate.c - our certificate ends: each day the head gives another, for a key that is made here and never leaves this machine.
 *
 * The new one is in the file before anything shows it. Connections that are there go on with the one that they showed.
 *
 * Owns: the question to the head, and the key that it is about. Thread: the loop.
 */
#include "raylet/shell/links/links.h"

#include "core/base/log.h"
#include "core/io/private.h"
#include "core/io/tls/issue.h"
#include "core/rpc/codec.h"
#include "core/rpc/rpc.h"

#include <stdlib.h>
#include <time.h>

struct sh_certificate {
    struct sh       *sh;
    struct io_timer  timer;
    struct rpc_unary asked;
    mt_buf           key; /* of the question under way */
};

static void certificate_free(struct sh_certificate *c)
{
    c->sh->certificate = NULL;
    free(c);
}

static void again(struct sh_certificate *c, uint64_t ms)
{
    io_timer_start(c->sh->loop, &c->timer, ms);
}

static mt_status take(struct sh_certificate *c, const Manta__V1__CertifyReply *reply)
{
    mt_buf    text = {0};
    mt_status st = reply->code ? mt_error(reply->code, 0, "the head refuses it") : mt_ok();
    if (!st.code)
        st = mt_buf_append(&text, reply->certificate.data, reply->certificate.len);
    if (!st.code)
        st = mt_buf_append(&text, c->key.data, c->key.size);
    if (!st.code)
        st = io_tls_renew(c->sh->tls, mt_buf_view(&text));
    if (!st.code)
        sh_head_certified(c->sh);
    if (!st.code) /* where that fails, the old one in the file is still good for days, and this is tried again */
        st = io_private_write(sh_head_tls_file(c->sh), mt_buf_view(&text), true);
    io_private_wipe(&text);
    return st;
}

static void answered(struct rpc_unary *unary, const struct rpc_result *result, mt_view reply)
{
    struct sh_certificate *c = mt_container_of(unary, struct sh_certificate, asked);
    ProtobufCMessage      *message;
    mt_status              st = result->status;
    if (!st.code)
        st = rpc_unpack(&manta__v1__certify_reply__descriptor, reply, MT_CONTROL_BYTES_MAX, &message);
    if (!st.code) {
        const Manta__V1__CertifyReply *r = (const Manta__V1__CertifyReply *)message;
        st = take(c, r);
        if (st.code)
            mt_log(MT_LOG_WARN, "certificate_not_renewed", "why=\"%.300s\"", r->code ? r->text : st.what);
        else
            mt_log(MT_LOG_INFO, "certificate_renewed", "ends_s=%lld", (long long)io_tls_self(c->sh->tls).ends_s);
        rpc_unpack_free(message);
    }
    io_private_wipe(&c->key);
    if (c->sh->is_exiting)
        certificate_free(c);
    else
        again(c, st.code ? MT_TLS_AGAIN_MS : MT_TLS_LOOK_MS);
}

static mt_status ask(struct sh_certificate *c, struct rpc_channel *channel)
{
    Manta__V1__CertifyRequest message = MANTA__V1__CERTIFY_REQUEST__INIT;
    mt_buf                    request = {0}, bytes = {0};
    mt_status                 st = io_tls_ask(&request, &c->key);
    message.request.data = request.data;
    message.request.len = request.size;
    if (!st.code)
        st = rpc_pack(&message.base, &bytes);
    if (!st.code)
        st = rpc_unary_start(channel, &c->asked, "/manta.v1.Head/Certify", mt_buf_view(&bytes), MT_CALL_MS, 0);
    mt_buf_fini(&request);
    mt_buf_fini(&bytes);
    if (st.code)
        io_private_wipe(&c->key);
    return st;
}

/* Looked at by the clock, often: clocks are set, and machines sleep. */
static void look(struct io_timer *timer)
{
    struct sh_certificate *c = mt_container_of(timer, struct sh_certificate, timer);
    struct rpc_channel    *channel = sh_head_channel(c->sh);
    uint32_t               node = 0, epoch = 0;
    rlt_self(c->sh->core, &node, &epoch);
    if (!channel || !node) { /* the head notes the new end at a node that it knows */
        again(c, MT_TLS_AGAIN_MS);
        return;
    }
    struct io_tls_who self = io_tls_self(c->sh->tls);
    bool              is_old = self.id && self.ends_s - (int64_t)time(NULL) < MT_TLS_VALID_S - MT_TLS_RENEW_S;
    mt_status         st = is_old ? ask(c, channel) : mt_ok();
    if (st.code)
        mt_log_status(MT_LOG_WARN, "certificate_not_renewed", st);
    if (!is_old || st.code)
        again(c, st.code ? MT_TLS_AGAIN_MS : MT_TLS_LOOK_MS);
}

void sh_certificate_start(struct sh *sh)
{
    struct sh_certificate *c = sh->head && sh->tls ? calloc(1, sizeof *c) : NULL;
    if (!c)
        return;
    c->sh = sh;
    c->timer.fire = look;
    c->asked.done = answered;
    sh->certificate = c;
    again(c, MT_TLS_AGAIN_MS);
}

void sh_certificate_stop(struct sh *sh)
{
    struct sh_certificate *c = sh->certificate;
    if (!c)
        return;
    io_timer_stop(&c->timer);
    if (c->asked.impl)
        rpc_unary_cancel(&c->asked); /* `answered` comes before gRPC is gone, and frees */
    else
        certificate_free(c);
}
