/* SPDX-License-Identifier: Apache-2.0
 *
 * dial.c - a connection to whoever is the master now: a server that is named, or the one that Sentinels name.
 *
 *   each Sentinel in turn --"who is the master?"--> that server --ROLE--> it says so, too: there we are
 *        ^                                            '-- it does not: the failover is not over; ask the next one
 *        '-- it does not answer, or does not know
 */
#include "core/base/clock.h"
#include "core/redis/redis.h"

#include <stdio.h>

static mt_status refuse(struct rds *r, int32_t code, const char *who, const char *port, const char *said)
{
    char text[RDS_TEXT_SIZE];
    snprintf(text, sizeof text, "%.120s:%.7s: %.120s", who, port, said);
    snprintf(r->text, sizeof r->text, "%s", text);
    rds_hang_up(r);
    return mt_error(code, 0, "find the master of Redis");
}

/* ---- a Sentinel ---- */

static mt_status question(struct rds *r, const char *master, int limit_ms, struct rds_reply **out)
{
    mt_view args[] = {mt_view_text("SENTINEL"), mt_view_text("GET-MASTER-ADDR-BY-NAME"), mt_view_text(master)};
    return rds_call(r, args, 3, limit_ms, out);
}

/* Sentinels have no password mostly; one that wants one is shown that of the servers. */
static mt_status dial_sentinel(struct rds *r, const struct rds_place *sentinel, const char *auth_file, const char *master,
                               int limit_ms, struct rds_reply **out)
{
    MT_TRY(rds_dial_server(r, sentinel, NULL, limit_ms));
    mt_status st = question(r, master, limit_ms, out);
    if (st.code != MT_EAUTH || !auth_file)
        return st;
    MT_TRY(rds_dial_server(r, sentinel, auth_file, limit_ms));
    return question(r, master, limit_ms, out);
}

/* What one Sentinel says, as a server to dial. */
static mt_status ask(struct rds *r, const struct rds_place *place, unsigned which, const char *auth_file, int limit_ms,
                     struct rds_place *out)
{
    const struct rds_sentinel *s = &place->sentinels[which];
    struct rds_place           sentinel = {0};
    struct rds_reply          *reply = NULL;
    snprintf(sentinel.host, sizeof sentinel.host, "%s", s->host);
    snprintf(sentinel.port, sizeof sentinel.port, "%s", s->port);
    mt_status st = dial_sentinel(r, &sentinel, auth_file, place->master, limit_ms, &reply);
    if (st.code != 0)
        return refuse(r, st.code == MT_EINVAL ? MT_EUNSUPPORTED : st.code, s->host, s->port, r->text);
    *out = *place;
    out->sentinel_count = 0;
    int host = snprintf(out->host, sizeof out->host, "%s", (const char *)rds_text(rds_item(reply, 0)).data);
    int port = snprintf(out->port, sizeof out->port, "%s", (const char *)rds_text(rds_item(reply, 1)).data);
    rds_reply_free(reply);
    rds_hang_up(r);
    bool is_known = host > 0 && host < (int)sizeof out->host && port > 0 && port < (int)sizeof out->port;
    return is_known ? mt_ok() : refuse(r, MT_EAGAIN, s->host, s->port, "this Sentinel knows no master of that name");
}

/* ---- the master ---- */

static mt_status check_role(struct rds *r, const struct rds_place *server, int limit_ms)
{
    struct rds_reply *reply = NULL;
    mt_status         st = rds_call(r, (mt_view[]){mt_view_text("ROLE")}, 1, limit_ms, &reply);
    bool              is_master = st.code == 0 && mt_view_equal(rds_text(rds_item(reply, 0)), mt_view_text("master"));
    rds_reply_free(reply);
    if (st.code != 0)
        rds_hang_up(r); /* nobody uses what was not found to be the master */
    if (st.code != 0 || is_master)
        return st;
    return refuse(r, MT_EAGAIN, server->host, server->port, "the Sentinels name it, and it is no master (yet, or any more)");
}

static int left_of(int64_t end)
{
    int64_t left = end - mt_now_ms();
    return left > 0 ? (int)left : 0;
}

mt_status rds_dial(struct rds *r, const struct rds_place *place, const char *auth_file, int limit_ms)
{
    int64_t   end = mt_now_ms() + limit_ms;
    mt_status st = mt_error(MT_ETIMEDOUT, 0, "find the master of Redis");
    if (place->sentinel_count == 0)
        return rds_dial_server(r, place, auth_file, limit_ms);
    for (unsigned i = 0; i < place->sentinel_count && left_of(end) > 0; i++) {
        struct rds_place server;
        int              share = limit_ms / RDS_SENTINEL_SHARE;
        st = ask(r, place, i, auth_file, left_of(end) < share ? left_of(end) : share, &server);
        if (st.code == 0)
            st = rds_dial_server(r, &server, auth_file, left_of(end));
        if (st.code == 0)
            st = check_role(r, &server, left_of(end));
        if (st.code == 0)
            return st;
    }
    return st;
}
