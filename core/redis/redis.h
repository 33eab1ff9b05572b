/* SPDX-License-Identifier: Apache-2.0
 *
 * redis.h - the Redis door: one connection, and calls that end by their limit.
 *
 *     struct rds        r = RDS_NONE;
 *     struct rds_reply *reply;
 *     MT_TRY(rds_dial(&r, &place, auth_file, 1000));
 *     MT_TRY(rds_call(&r, (mt_view[]){mt_view_text("GET"), mt_view_text("key")}, 2, 1000, &reply));
 *     ... rds_text(reply) ...
 *     rds_reply_free(reply);
 *     rds_hang_up(&r);
 *
 * Every failure leaves its reason in `text`, in the server's own words where it has some, and is one of:
 *   ECONN, ETIMEDOUT, EPROTO  nobody knows whether the call had its effect; the connection is closed
 *   EAGAIN                    it had none, and may succeed later: LOADING, MISCONF, BUSY, READONLY (then the connection is
 *                             closed, since another server is the primary)
 *   EDISK_FULL                it had none: the server is at its maxmemory
 *   EAUTH                     the password is missing or wrong, or the user may not do that
 *   ENOENT                    NOSCRIPT
 *   EUNSUPPORTED              a command that the server does not have, or a Redis Cluster
 *   EINVAL                    another error in words; ENOMEM, ESYS
 *
 * Thread: one at a time.
 */
#ifndef REDIS_REDIS_H
#define REDIS_REDIS_H

#include "core/base/buf.h"
#include "core/redis/place.h"

struct redisReader;
struct rds_reply;

struct rds {
    int                 fd; /* -1: none */
    struct redisReader *reader;
    char                text[RDS_TEXT_SIZE]; /* of the last failure */
};
#define RDS_NONE ((struct rds){.fd = -1})

enum { RDS_SENTINEL_SHARE = 4 }; /* of the limit: as long as one Sentinel is waited for */

/* Connects to the server, or to the one that the Sentinels name, and that says itself that it is the master; names are looked up
 * each time. It is shown the password of `auth_file` (NULL: none; one line, mode 0600), which is read anew each time. A connection
 * that is there is closed first. Blocks at most `limit_ms`. */
MT_MUST_USE mt_status rds_dial(struct rds *r, const struct rds_place *place, const char *auth_file, int limit_ms);
/* The same of a server alone. */
MT_MUST_USE mt_status rds_dial_server(struct rds *r, const struct rds_place *place, const char *auth_file, int limit_ms);
void                  rds_hang_up(struct rds *r);

/* One command, and its reply, which is the caller's; an error as a reply is a failure. Blocks at most `limit_ms`. */
MT_MUST_USE mt_status rds_call(struct rds *r, const mt_view *args, size_t count, int limit_ms, struct rds_reply **out);
void                  rds_reply_free(struct rds_reply *reply);

/* Parts of a reply, borrowed. What is asked of another kind is empty, or NULL. */
size_t                  rds_count(const struct rds_reply *reply);
const struct rds_reply *rds_item(const struct rds_reply *reply, size_t index);
mt_view                 rds_text(const struct rds_reply *reply); /* with a NUL behind it */

#endif
