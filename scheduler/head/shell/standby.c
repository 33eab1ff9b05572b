/* SPDX-License-Identifier: Apache-2.0
 *
 * standby.c - the daemon while another head leads: it looks at the store, holds a stream to the leader, says where that is,
 * and claims the lead where role.h says so.
 *
 *   timer, the stream's end --> look (store's thread) --> role.h: free? --> claim (store's thread) --> sh->claimed: shell.c leads
 *
 * Owns:    struct standby. Thread: the loop's; *_work on the store's.
 */
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/io/dial.h"
#include "core/proto/manta.pb-c.h"
#include "core/rpc/codec.h"
#include "core/text/address.h"
#include "scheduler/head/shell/certify.h"
#include "scheduler/head/shell/heads.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPENING_MS = 10000, OPENING_STEP_MS = 200 };

struct standby {
    struct shell      *sh;
    struct head_watch *watch;
    struct io_timer    timer;
    struct io_job      job;              /* a look, or a claim */
    bool               is_busy, is_owed; /* owed: look again at once */
    bool               is_away;          /* the store was not reached by the last look */

    /* of the job */
    bool                    is_asked, is_refused; /* whether anybody is at the leader's place */
    struct head_said        said;
    struct head_store_redis how;
    struct head_store      *claimed;
    mt_status               status;
    char                    text[HEAD_STORE_TEXT_SIZE], place[HEAD_PLACE_SIZE];

    /* the leader */
    struct rpc_channel       *channel;
    struct rpc_stream        *stream;
    struct rpc_stream_handler handler;
    char                      dialled[HEAD_PLACE_SIZE];
    uint32_t                  renewals;     /* of our certificates, when the channel was opened */
    bool                      was_up;       /* it has said something on this stream */
    bool                      asks_machine; /* it was up, and is not: looks ask its machine too */
};

static void look(struct standby *b);
static void due(struct io_timer *timer);

static struct head_store_redis store_options(const struct shell *sh)
{
    const struct head_options *o = &sh->options;
    return (struct head_store_redis){.url = o->store,
                                     .auth_file = o->store_auth,
                                     .dir = sh->state,
                                     .cluster = sh->cluster,
                                     .must_match = true,
                                     .may_lose = o->store_may_lose,
                                     .place = sh->address,
                                     .is_follower = true};
}

/* ---- the stream to the leader ---- */

/* The leader lets them in; here they are told who leads. Any other may have been made a moment ago: the leader knows. */
static void hear_tokens(struct shell *sh, const Manta__V1__TokenList *list)
{
    struct head_token *items = list ? calloc(list->n_tokens + 1, sizeof *items) : NULL;
    size_t             count = 0;
    if (!items)
        return;
    for (size_t i = 0; i < list->n_tokens; i++) {
        const Manta__V1__Token *t = list->tokens[i];
        if (t->sha256.len != HEAD_SHA_SIZE || t->right > MT_MAY_ADMIN)
            continue;
        struct head_token *to = &items[count++];
        *to = (struct head_token){head_token_number(t->sha256.data), (enum mt_right)t->right, t->is_ended, "", {0}};
        snprintf(to->name, sizeof to->name, "%s", t->name);
        memcpy(to->sha256, t->sha256.data, HEAD_SHA_SIZE);
    }
    head_shell_let_in(sh, items, count, false);
    free(items);
}

static void leader_said(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    struct standby   *b = mt_container_of(handler, struct standby, handler);
    ProtobufCMessage *m = NULL;
    (void)stream;
    if (rpc_unpack(&manta__v1__heads_news__descriptor, message, MT_CONTROL_BYTES_MAX, &m).code)
        return;
    const Manta__V1__HeadsNews *news = (const Manta__V1__HeadsNews *)m;
    b->was_up = true;
    head_role_heard(b->sh->role, io_now_ms());
    b->asks_machine = false;
    head_shell_heads_set(b->sh, (const char *const *)news->heads, news->n_heads);
    hear_tokens(b->sh, news->tokens);
    if (news->shutdown)
        head_shell_end(b->sh, mt_ok());
    rpc_unpack_free(m);
}

/* Where it was up, its machine is asked whether anybody is still there. */
static void leader_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    struct standby *b = mt_container_of(handler, struct standby, handler);
    mt_log(MT_LOG_DEBUG, "leader_closed", "code=%s detail=\"%.200s\"", mt_code_name(result->status.code), result->detail);
    rpc_stream_free(stream);
    b->stream = NULL;
    head_role_lost(b->sh->role);
    b->asks_machine |= b->was_up;
    if (b->was_up && !b->sh->is_ending)
        due(&b->timer);
}

static void hang_up(struct standby *b)
{
    if (b->stream)
        rpc_stream_free(b->stream);
    head_role_lost(b->sh->role);
    if (b->channel)
        rpc_channel_close(b->channel);
    b->stream = NULL;
    b->channel = NULL;
    b->dialled[0] = '\0';
}

static mt_status say_hello(struct standby *b)
{
    Manta__V1__StandbyHello  hello = MANTA__V1__STANDBY_HELLO__INIT;
    struct rpc_stream_config config = {.method = "/manta.v1.Head/StandBy"};
    mt_buf                   bytes = {0};
    b->handler = (struct rpc_stream_handler){.message = leader_said, .closed = leader_closed};
    b->was_up = false;
    rpc_channel_kick(b->channel);
    MT_TRY(rpc_stream_open(b->channel, &config, &b->handler, &b->stream));
    hello.address = b->sh->address;
    mt_status st = rpc_pack(&hello.base, &bytes);
    if (!st.code)
        st = rpc_stream_send(b->stream, mt_buf_view(&bytes));
    mt_buf_fini(&bytes);
    return st;
}

static mt_status open_channel(struct standby *b, const char *place)
{
    struct shell  *sh = b->sh;
    struct io_tls *node;
    MT_TRY(head_shell_tls_node(sh, &node));
    struct rpc_channel_config config = {
        .target = place, .token = &sh->token, .tls = node, .peer = IO_TLS_HEAD, .is_insecure = sh->options.is_insecure};
    mt_status st = rpc_channel_open(sh->rpc, &config, &b->channel);
    io_tls_free(node);
    b->renewals = sh->renewals;
    return st;
}

/* To the place that the store names; it is dialled again with each look, as long as nobody answers there. A channel shows what was
 * in the file when it was opened, for ever. */
static void dial(struct standby *b)
{
    struct shell *sh = b->sh;
    const char   *place = sh->role->seen.place;
    if (strcmp(place, b->dialled) != 0 || (!b->stream && b->renewals != sh->renewals))
        hang_up(b);
    if (b->stream || !place[0] || strcmp(place, sh->address) == 0)
        return;
    mt_status st = b->channel ? mt_ok() : open_channel(b, place);
    if (!st.code) {
        snprintf(b->dialled, sizeof b->dialled, "%s", place);
        st = say_hello(b);
    }
    if (st.code)
        mt_log_status(MT_LOG_WARN, "leader_dial", st);
}

/* ---- looking, and claiming ---- */

static void claim_work(struct io_job *job)
{
    struct standby *b = mt_container_of(job, struct standby, job);
    b->status = head_store_redis_open(&b->how, b->text, &b->claimed);
}

static void claim_done(struct io_job *job)
{
    struct standby *b = mt_container_of(job, struct standby, job);
    struct shell   *sh = b->sh;
    b->is_busy = false;
    head_role_claimed(sh->role, b->status.code == 0);
    if (b->status.code)
        mt_log(MT_LOG_INFO, "lead_refused", "code=%s why=\"%.500s\"", mt_code_name(b->status.code), b->text);
    sh->claimed = b->claimed; /* shell.c takes it at the end of the round */
    b->claimed = NULL;
}

static void submit(struct standby *b, void (*work)(struct io_job *), void (*done)(struct io_job *))
{
    b->job = (struct io_job){.work = work, .done = done};
    b->is_busy = io_worker_submit(b->sh->store_worker, &b->job).code == 0;
}

static void claim(struct standby *b)
{
    struct head_role *role = b->sh->role;
    b->how = store_options(b->sh);
    b->how.seen = role->fence;
    b->how.dead_run = role->gone_run;
    mt_log(MT_LOG_INFO, "lead_claimed", "from=%s fence=%llu why=\"%s\"", role->seen.place, (unsigned long long)role->seen.at.fence,
           role->seen.holder[0] ? "its process is gone" : "its lock is gone");
    submit(b, claim_work, claim_done);
    if (!b->is_busy)
        head_role_claimed(role, false);
}

/* Nobody listens there, says its machine: who led there has ended. A machine that says nothing may only be far away. */
static bool is_refused_at(const char *place)
{
    char        host[HEAD_PLACE_SIZE];
    const char *port;
    int         fd = -1;
    if (!mt_address_split(place, host, sizeof host, &port))
        return false;
    mt_status st = io_dial(host, (uint16_t)strtoul(port, NULL, 10), &fd);
    if (!st.code) {
        struct pollfd wait = {fd, POLLOUT, 0};
        if (poll(&wait, 1, MT_HEAD_STANDBY_DIAL_MS) == 1)
            st = io_dialled(fd);
        close(fd);
    }
    return st.code == MT_ECONN && st.sys == ECONNREFUSED;
}

static void look_work(struct io_job *job)
{
    struct standby *b = mt_container_of(job, struct standby, job);
    b->is_refused = b->is_asked && is_refused_at(b->place);
    b->status = head_watch_look(b->watch, &b->said, b->text);
}

static void look_done(struct io_job *job)
{
    struct standby *b = mt_container_of(job, struct standby, job);
    struct shell   *sh = b->sh;
    b->is_busy = false;
    if (b->is_refused)
        head_role_gone(sh->role);
    if (b->status.code && !b->is_away)
        mt_log(MT_LOG_WARN, "store_away", "%s", b->text);
    b->is_away = b->status.code != 0;
    if (sh->is_ending || b->is_away)
        return;
    if (head_role_looked(sh->role, &b->said, io_now_ms()))
        claim(b);
    else
        dial(b);
    if (b->is_owed && !b->is_busy)
        look(b);
}

/* Not when it has the lead, from the end of this round on: the former leader's stream may end in the same round. */
static void look(struct standby *b)
{
    b->is_owed = b->is_busy;
    if (b->is_busy || b->sh->claimed)
        return;
    snprintf(b->place, sizeof b->place, "%s", b->dialled);
    b->is_asked = b->asks_machine;
    b->is_refused = false;
    submit(b, look_work, look_done);
}

static void due(struct io_timer *timer)
{
    struct standby *b = mt_container_of(timer, struct standby, timer);
    if (!b->is_busy)
        look(b);
    /* A process that dies may still take a connection while it does. */
    io_timer_start(b->sh->loop, &b->timer, b->asks_machine ? MT_HEAD_STANDBY_SOON_MS : MT_HEAD_STANDBY_LOOK_MS);
}

/* ---- begin and end ---- */

/* A server that reads its file, or is about to come, is waited for; a store without a cluster is nobody's to follow. */
static mt_status first_look(struct standby *b)
{
    for (int waited = 0;; waited += OPENING_STEP_MS) {
        mt_status st = head_watch_look(b->watch, &b->said, b->text);
        bool      is_away = st.code == MT_EAGAIN || st.code == MT_ECONN || st.code == MT_ETIMEDOUT;
        if (!st.code && b->said.word == HEAD_WORD_OK)
            return st;
        if (!is_away || waited >= OPENING_MS) {
            if (!st.code)
                snprintf(b->text, sizeof b->text,
                         "%s: there is no cluster to stand by for; its first head is started without --standby",
                         b->sh->options.store);
            return st.code ? st : mt_error(MT_ENOENT, 0, "stand by");
        }
        mt_sleep_ms(OPENING_STEP_MS);
    }
}

mt_status head_shell_standby_open(struct shell *sh)
{
    struct standby *b = sh->standby = calloc(1, sizeof *b);
    if (!b)
        return mt_error(MT_ENOMEM, 0, "stand by");
    b->sh = sh;
    b->timer.fire = due;
    struct head_store_redis how = store_options(sh);
    mt_status               st = head_watch_open(&how, b->text, &b->watch);
    if (!st.code)
        st = first_look(b);
    if (!st.code && sh->options.cluster && strcmp(sh->options.cluster, b->said.cluster) != 0) {
        snprintf(b->text, sizeof b->text, "the store is of cluster %s, not of %s", b->said.cluster, sh->options.cluster);
        st = mt_error(MT_EFENCED, 0, "stand by");
    }
    if (!st.code)
        st = io_worker_new(sh->loop, MT_HEAD_COMMITS_MAX, &sh->store_worker);
    if (st.code)
        fprintf(stderr, "manta-head: %s\n", b->text[0] ? b->text : st.what);
    else
        snprintf(sh->cluster, sizeof sh->cluster, "%s", b->said.cluster);
    return st;
}

void head_shell_standby_begin(struct shell *sh)
{
    mt_log(MT_LOG_INFO, "stands_by", "address=%s cluster=%s leader=%s", sh->address, sh->cluster, sh->standby->said.place);
    due(&sh->standby->timer);
}

void head_shell_standby_end(struct shell *sh)
{
    struct standby *b = sh->standby;
    if (!b)
        return;
    MT_ASSERT(!b->is_busy);
    io_timer_stop(&b->timer);
    hang_up(b);
    head_watch_close(b->watch);
    free(b);
    sh->standby = NULL;
}
