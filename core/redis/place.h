/* SPDX-License-Identifier: Apache-2.0
 *
 * place.h - where a Redis server is, as a user writes it:
 *
 *     redis://[USER@]HOST[:PORT][/DATABASE]?cluster=NAME
 *     redis+unix://[USER@]/PATH?cluster=NAME[&db=DATABASE]
 *     redis+sentinel://[USER@]HOST[:PORT][,HOST[:PORT]...]/MASTER?cluster=NAME[&db=DATABASE]
 *
 * Thread: any; nothing is kept.
 */
#ifndef REDIS_PLACE_H
#define REDIS_PLACE_H

#include "core/base/status.h"

#include <stdbool.h>

enum {
    RDS_NAME_SIZE = 64,
    RDS_HOST_SIZE = 256,
    RDS_PATH_SIZE = 104,
    RDS_SHOWN_SIZE = 256,
    RDS_TEXT_SIZE = 256,
    RDS_SENTINELS_MAX = 9
};

struct rds_sentinel {
    char host[RDS_HOST_SIZE];
    char port[8];
};

struct rds_place {
    bool                is_unix;
    char                host[RDS_HOST_SIZE]; /* without brackets */
    char                port[8];
    char                path[RDS_PATH_SIZE]; /* of the socket */
    unsigned            sentinel_count;      /* not 0: they say where the server is that they call ... */
    char                master[RDS_NAME_SIZE];
    struct rds_sentinel sentinels[RDS_SENTINELS_MAX];
    char                user[RDS_NAME_SIZE]; /* "": the server's default */
    unsigned            database;
    char                cluster[RDS_NAME_SIZE]; /* what the keys are named after */
    char                shown[RDS_SHOWN_SIZE];  /* for people: HOST:PORT or the path, and the database; the Sentinels */
};

/* Reads it. On failure `text` (RDS_TEXT_SIZE bytes) says what is wrong and what to write instead, and never repeats a password:
 * EINVAL; EUNSUPPORTED (TLS). */
MT_MUST_USE mt_status rds_place_read(const char *url, struct rds_place *out, char *text);

#endif
