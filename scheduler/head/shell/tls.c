/* SPDX-License-Identifier: Apache-2.0
 *
 * tls.c - when the head speaks TLS: its certificates, and the file that other machines join with.
 *
 * On loopback there is none. Beyond it there is, unless the user has spelled --insecure out. A private cluster has none.
 *
 * Owns:    the files in the certificates' folder (or the user does), and <dir>/join. Thread: the main loop's, before it serves.
 */
#include "core/text/address.h"
#include "core/io/tls/join.h"
#include "core/io/listener.h"
#include "core/io/private.h"
#include "core/io/tls/tls.h"
#include "core/base/log.h"
#include "core/base/rng.h"
#include "core/proto/manta.pb-c.h"
#include "core/rpc/codec.h"
#include "scheduler/head/shell/certify.h"
#include "scheduler/head/shell/heads.h"

#include <stdio.h>
#include <string.h>

static bool wants_tls(const struct shell *sh)
{
    const struct head_options *o = &sh->options;
    return !sh->is_private && !o->is_insecure && (o->tls_dir || !io_is_loopback(o->host));
}

/* Ours, and the one that clients and the raylet beside us show, in the files; and ours in what is shown from now on. */
static void renew(struct io_timer *timer)
{
    struct shell *sh = mt_container_of(timer, struct shell, renew);
    char          path[SHELL_PATH_SIZE + 16];
    mt_buf        text = {0};
    int64_t       before_s = io_tls_self(sh->tls).ends_s;
    snprintf(path, sizeof path, "%s/head.pem", sh->tls_dir);
    mt_status st = io_tls_make(sh->tls_dir, sh->cluster);
    if (!st.code)
        st = io_private_read(path, MT_TLS_FILE_BYTES_MAX, &text);
    if (!st.code)
        st = io_tls_renew(sh->tls, mt_buf_view(&text));
    io_private_wipe(&text);
    sh->renewals++;
    if (st.code)
        mt_log_status(MT_LOG_ERROR, "certificate_not_renewed", st);
    else if (io_tls_self(sh->tls).ends_s != before_s)
        mt_log(MT_LOG_INFO, "certificate_renewed", "ends_s=%lld", (long long)io_tls_self(sh->tls).ends_s);
    io_timer_start(sh->loop, &sh->renew, MT_TLS_LOOK_MS);
}

mt_status head_shell_tls_node(const struct shell *sh, struct io_tls **out)
{
    char path[SHELL_PATH_SIZE + 16];
    *out = NULL;
    snprintf(path, sizeof path, "%s/node.pem", sh->tls_dir);
    return sh->tls ? io_tls_load(path, out) : mt_ok();
}

/* Whoever has the folder beside the head has the authority's key too, so its own node can't be revoked. */
static mt_status open_authority(struct shell *sh)
{
    struct io_tls *node = NULL;
    mt_status      st = io_tls_authority_load(sh->tls_dir, sh->cluster, &sh->authority);
    if (st.code == MT_ENOENT && io_tls_self(sh->tls).id == 0)
        return mt_ok(); /* the user's own */
    if (st.code == MT_ENOENT)
        st = mt_error(MT_ENOENT, 0,
                      "ca.pem is missing: a head that may lead signs certificates; copy the whole folder of the leader");
    if (st.code)
        return head_shell_complain(st, "certificate authority in", sh->tls_dir);
    st = head_shell_tls_node(sh, &node);
    if (st.code)
        return head_shell_complain(st, "certificate node.pem in", sh->tls_dir);
    sh->own_member = io_tls_self(node).id;
    sh->renew.fire = renew;
    io_timer_start(sh->loop, &sh->renew, MT_TLS_LOOK_MS);
    io_tls_free(node);
    return st;
}

mt_status head_shell_tls_open(struct shell *sh)
{
    char path[SHELL_PATH_SIZE + 16];
    if (mt_address_is_any(sh->options.host))
        return head_shell_complain(mt_error(MT_EINVAL, 0, "name the one address that other machines reach this one by"), "--listen",
                                   sh->options.host);
    if (!wants_tls(sh))
        return mt_ok();
    mt_status st = sh->standby ? mt_ok() : io_tls_make(sh->tls_dir, sh->cluster); /* who stands by was given the cluster's */
    if (st.code)
        return head_shell_complain(st, "certificates in", sh->tls_dir);
    snprintf(path, sizeof path, "%s/head.pem", sh->tls_dir);
    st = io_tls_load(path, &sh->tls);
    if (!st.code && io_tls_role_of(sh->tls) != IO_TLS_HEAD)
        st = mt_error(MT_EAUTH, 0, "its certificate is not for head.CLUSTER.manta");
    return st.code ? head_shell_complain(st, "certificate", path) : open_authority(sh);
}

void head_shell_tls_line(const struct shell *sh, char *out, size_t size)
{
    if (sh->tls)
        snprintf(out, size, "tls_file=%s/node.pem\n", sh->tls_dir);
    else
        snprintf(out, size, "%s", io_is_loopback(sh->options.host) ? "" : "insecure=1\n");
}

void head_shell_tls_close(struct shell *sh)
{
    io_timer_stop(&sh->renew);
    io_timer_stop(&sh->cut);
    io_tls_free(sh->tls);
    io_tls_authority_free(sh->authority);
}

/* ---- the join file ---- */

/* With certificates of the user's own: the token, and the one certificate that all nodes share. */
static mt_status write_shared(const struct shell *sh)
{
    char           path[SHELL_PATH_SIZE + 16];
    struct io_join join = {.token = sh->token};
    mt_buf         certificates = {0}, text = {0};
    snprintf(path, sizeof path, "%s/node.pem", sh->tls_dir);
    head_shell_heads_line(sh, join.address, sizeof join.address);
    mt_status st = io_private_read(path, MT_TLS_FILE_BYTES_MAX, &certificates);
    join.certificates = mt_buf_view(&certificates);
    if (!st.code)
        st = io_join_write(&join, &text);
    if (!st.code)
        st = io_private_write(sh->join_file, mt_buf_view(&text), true);
    io_private_wipe(&certificates);
    io_private_wipe(&text);
    io_token_wipe(&join.token);
    return st;
}

static void join_done(struct shell *sh, mt_status st)
{
    sh->join = SHELL_JOIN_DONE;
    if (st.code)
        mt_log_status(MT_LOG_ERROR, "no_join_file", st);
}

/* The ticket in the file that lies there; false: there is none. *out points into `text`, which is to be wiped in any case. */
static bool read_file(const struct shell *sh, mt_buf *text, struct io_join *out)
{
    return !io_private_read(sh->join_file, MT_TLS_FILE_BYTES_MAX, text).code && !io_join_read(mt_buf_view(text), out).code &&
           (out->is_ticket || (io_token_wipe(&out->token), false));
}

/* The ticket in the file that lies there, if it is one of this authority's. 0: none. */
static uint64_t ticket_of_file(const struct shell *sh)
{
    struct io_join join;
    struct io_tls *tls = NULL;
    uint64_t       id = 0;
    mt_buf         text = {0};
    if (read_file(sh, &text, &join) && !io_tls_parse(join.certificates, &tls).code &&
        strcmp(io_tls_texts_of(tls).authority, io_tls_texts_of(sh->tls).authority) == 0)
        id = io_tls_self(tls).id;
    io_tls_free(tls);
    io_private_wipe(&text);
    return id;
}

mt_status head_shell_join_write(const struct shell *sh)
{
    struct io_join join;
    mt_buf         text = {0}, next = {0};
    char           heads[IO_JOIN_ADDRESS_SIZE];
    mt_status      st = mt_ok();
    if (!sh->tls || !sh->authority)
        return sh->tls ? write_shared(sh) : st;
    head_shell_heads_line(sh, heads, sizeof heads);
    if (sh->join == SHELL_JOIN_DONE && read_file(sh, &text, &join) && strcmp(join.address, heads) != 0) {
        memcpy(join.address, heads, sizeof heads);
        st = io_join_write(&join, &next);
        if (!st.code)
            st = io_private_write(sh->join_file, mt_buf_view(&next), true);
    }
    io_private_wipe(&text);
    io_private_wipe(&next);
    return st;
}

static void ask(struct shell *sh, uint64_t id)
{
    Manta__V1__CreateTicketRequest request = MANTA__V1__CREATE_TICKET_REQUEST__INIT;
    mt_buf                         bytes = {0};
    mt_status                      st = id ? mt_ok() : mt_random_bytes(&id, sizeof id);
    request.id = id | 1;
    request.uses = MT_JOIN_USES;
    request.valid_ms = MT_JOIN_MS;
    request.name = (char *)(uintptr_t) "join file";
    if (!st.code)
        st = rpc_pack(&request.base, &bytes);
    if (st.code) {
        join_done(sh, st);
        return;
    }
    sh->join = SHELL_JOIN_ASKED;
    sh->join_call = ++sh->next_number;
    struct head_event event = {
        .kind = HEAD_EV_CALL,
        .call = {.number = sh->join_call, .method = HEAD_CREATE_TICKET, .bytes = bytes.data, .size = bytes.size}};
    head_shell_step(sh, &event);
    mt_buf_fini(&bytes);
}

void head_shell_join_begin(struct shell *sh)
{
    if (!sh->authority) /* in clear, or all show the same: nobody is asked */
        sh->join = SHELL_JOIN_DONE;
    else
        ask(sh, sh->join_ticket = ticket_of_file(sh));
}

/* The file as the head makes it for anybody who asks for a ticket. */
static mt_status write_ticket(struct shell *sh, const struct head_action *action)
{
    mt_buf            bytes = {0};
    ProtobufCMessage *message;
    mt_status         st = head_shell_certify(sh, action, false, &bytes);
    if (!st.code)
        st = rpc_unpack(&manta__v1__create_ticket_reply__descriptor, mt_buf_view(&bytes), MT_CONTROL_BYTES_MAX, &message);
    io_private_wipe(&bytes);
    if (st.code)
        return st;
    const Manta__V1__CreateTicketReply *reply = (const Manta__V1__CreateTicketReply *)message;
    if (reply->code)
        st = mt_error(reply->code, 0, "the core refuses a ticket for the join file");
    else if (reply->ticket->id != sh->join_ticket) /* else it is the one that lies there */
        st = io_private_write(sh->join_file, mt_view_of(reply->join.data, reply->join.len), true);
    rpc_unpack_free(message);
    return st;
}

bool head_shell_join_take(struct shell *sh, const struct head_action *action)
{
    bool is_reply = action->kind == HEAD_ACT_REPLY;
    if (sh->join != SHELL_JOIN_ASKED || (is_reply ? action->reply.call : action->refuse.call) != sh->join_call)
        return false;
    mt_status st = is_reply ? write_ticket(sh, action) : action->refuse.status;
    if (is_reply && st.code == MT_EEXIST && sh->join_ticket) { /* used up, revoked, or its time is over */
        sh->join_ticket = 0;
        ask(sh, 0);
        return true;
    }
    join_done(sh, st);
    return true;
}
