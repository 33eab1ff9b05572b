/* SPDX-License-Identifier: Apache-2.0
 *
 * sentinel.h - two real redis-servers, one a replica of the other, and three real redis-sentinels that watch them, as children of a
 * test on ports of their own. Failures of the rig itself fail the test.
 */
#ifndef TESTS_REDIS_SENTINEL_H
#define TESTS_REDIS_SENTINEL_H

#include "tests/redis/redis.h"

/* For down_ms: nobody counts as down because the machine is busy. Who is to take over is said. */
enum { SENTINELS = 3, SENTINEL_NEVER_DOWN = 600 * 1000 };

struct redis_sentinels {
    struct redis_server servers[2];
    int                 down_ms;         /* silent for so long a server counts as down */
    int                 master;          /* which of them it was when it was last asked */
    struct redis_server each[SENTINELS]; /* the Sentinels: only socket, port and pid */
    char                url[256];        /* redis+sentinel://..., with cluster=test */
};

/* Returns when all of them know each other, and the replica has what the master has. */
void redis_sentinels_new(struct redis_sentinels *s, int down_ms);
/* The replica is to take over; the master may be dead. */
void redis_sentinels_failover(struct redis_sentinels *s);
/* Waits until the Sentinels name another server than `s->master`, and that one says so; it is `s->master` then. */
void redis_sentinels_switch(struct redis_sentinels *s);
/* Starts server `which` again on what it has, as a replica of the other one. */
void redis_sentinels_replica(struct redis_sentinels *s, int which);
/* Waits until the replica has what the master has. */
void redis_sentinels_in_step(struct redis_sentinels *s);
void redis_sentinels_free(struct redis_sentinels *s);

#endif
