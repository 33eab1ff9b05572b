/* SPDX-License-Identifier: Apache-2.0
 *
 * redis.h - the twin of scheduler/head/store/script.c: what Redis does for each request of a leading head, in plain memory. A test
 * holds the two against each other (unit.head.redis.twin). The lock is left out where there is one head.
 */
#ifndef SIM_TWIN_REDIS_H
#define SIM_TWIN_REDIS_H

#include "scheduler/head/store/ask.h"

enum { TWIN_LOCK_MS = 2000 };

struct twin_redis {
    bool                 is_there;
    char                 cluster[HEAD_CLUSTER_SIZE];
    struct head_position at;
    bool                 has_lock;   /* there are several heads: */
    char                 holder[64]; /* of the lock; "": nobody */
    char                 me[64];     /* who asks now, as in the lock */
    uint64_t             now;        /* ms: the server's own clock */
    uint64_t             held_until;
    uint64_t             count; /* of the records, as the head's key has it */
    struct head_shelf    records;
    struct {
        uint64_t seq, digest;
    } past[HEAD_PAST]; /* seq modulo it */
};

void twin_redis_do(struct twin_redis *r, const struct head_ask *ask, struct head_said *said);
void twin_redis_copy(struct twin_redis *to, const struct twin_redis *from);
void twin_redis_clear(struct twin_redis *r);

#endif
