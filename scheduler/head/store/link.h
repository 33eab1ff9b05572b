/* SPDX-License-Identifier: Apache-2.0
 *
 * link.h - requests of ask.h over a connection to Redis: packed for the script, and its answer unpacked.
 *
 * Owns the connection, dials it anew where it is gone, and speaks to no server that may lose what it acknowledges.
 * Thread: one at a time; blocks up to HEAD_LINK_MS for a call, and as long for dialling.
 */
#ifndef HEAD_LINK_H
#define HEAD_LINK_H

#include "core/redis/redis.h"
#include "scheduler/head/store/ask.h"

enum { HEAD_LINK_MS = 1000, HEAD_LINK_LOAD_MS = 30000, HEAD_LOCK_MS = 2000, HEAD_LINK_TEXT_SIZE = 640 };

struct head_link {
    struct rds_place place;
    const char      *auth_file; /* NULL: none */
    bool             may_lose;
    struct rds       rds;
    uint32_t         schema; /* of the store, after a write of ours */
    char             me[64]; /* in the lock */
    char             sha[48];
    char             keys[4][128];
    char             text[HEAD_LINK_TEXT_SIZE]; /* of the last failure: what and what to do */
};

/* A record of LOAD; the reply that it lies in lives as long as the call. */
struct head_link_reader {
    mt_status (*record)(struct head_link_reader *reader, mt_view field, mt_view value);
    void (*past)(struct head_link_reader *reader, uint64_t seq, uint64_t digest);
};

/* Dials where there is no connection, and asks. Failures of rds_call; EDEVICE: the server may lose what it acknowledges.
 * `reader`: of LOAD, else NULL. */
MT_MUST_USE mt_status head_link_ask(struct head_link *link, const struct head_ask *ask, struct head_said *said,
                                    struct head_link_reader *reader);
/* Bytes until the server's maxmemory; UINT64_MAX: it has none, or does not say. */
uint64_t head_link_room(struct head_link *link);
/* Reads the address; connects at the first question. EINVAL and others of rds_place_read, with `link->text`. */
MT_MUST_USE mt_status head_link_open(struct head_link *link, const char *url, const char *auth_file, bool may_lose);
/* What an answer means, for people. */
const char *head_word_text(enum head_word word);

#endif
