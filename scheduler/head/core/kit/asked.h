/* SPDX-License-Identifier: Apache-2.0
 *
 * asked.h - what clients ask of the head, who asks, and what he may.
 */
#ifndef HEAD_ASKED_H
#define HEAD_ASKED_H

#include "core/base/limits/head.h"
#include "core/base/limits/text.h"
#include "core/base/rights.h"

#include <stdbool.h>
#include <stdint.h>

enum { /* limits: core/base/limits/head.h */
       HEAD_SHA_SIZE = 32,
       HEAD_BEAT_KEY_SIZE = 16,
       HEAD_JOB_ID_SIZE = 64, /* [A-Za-z0-9_][A-Za-z0-9_.-]*, at most 63 bytes: it is also a file name */
       HEAD_CLUSTER_SIZE = 40,
       HEAD_TEXT_SIZE = MT_ERROR_BYTES_MAX,
};

/* X(name in service Head, method, what a token must be good for). Requests and replies are that service's, packed. A bearer of
 * SUBMIT has to do with his own jobs alone, one of READ changes nothing. */
/* clang-format off */
#define HEAD_METHODS(X)                                                                                                \
    X(Submit, SUBMIT, MT_MAY_SUBMIT) X(GetJob, GET_JOB, MT_MAY_READ) X(WaitJob, WAIT_JOB, MT_MAY_READ)                 \
    X(ListJobs, LIST_JOBS, MT_MAY_READ) X(StopJob, STOP_JOB, MT_MAY_SUBMIT) X(HasBlobs, HAS_BLOBS, MT_MAY_READ)        \
    X(ListNodes, LIST_NODES, MT_MAY_READ) X(Shutdown, SHUTDOWN, MT_MAY_ADMIN) X(Query, QUERY, MT_MAY_READ)             \
    X(HoldJob, HOLD_JOB, MT_MAY_SUBMIT) X(ReleaseJob, RELEASE_JOB, MT_MAY_SUBMIT)                                      \
    X(DeleteJob, DELETE_JOB, MT_MAY_SUBMIT) X(DrainNode, DRAIN_NODE, MT_MAY_ADMIN) X(Scale, SCALE, MT_MAY_READ)        \
    X(CreateTicket, CREATE_TICKET, MT_MAY_ADMIN) X(ListTickets, LIST_TICKETS, MT_MAY_ADMIN)                            \
    X(RevokeTicket, REVOKE_TICKET, MT_MAY_ADMIN) X(RevokeNode, REVOKE_NODE, MT_MAY_ADMIN)                              \
    X(CreateToken, CREATE_TOKEN, MT_MAY_ADMIN) X(ListTokens, LIST_TOKENS, MT_MAY_ADMIN)                                \
    X(RevokeToken, REVOKE_TOKEN, MT_MAY_ADMIN) X(SignalJob, SIGNAL_JOB, MT_MAY_SUBMIT)                    \
    X(Account, ACCOUNT, MT_MAY_READ) X(SetUser, SET_USER, MT_MAY_ADMIN) X(ListUsers, LIST_USERS, MT_MAY_READ)
/* clang-format on */
enum head_method {
    HEAD_NO_METHOD,
#define X(name, method, right) HEAD_##method,
    HEAD_METHODS(X)
#undef X
        HEAD_CERTIFY, /* who asks shows a ticket, or the cluster's own token */
};

enum head_scale_op { /* of ScaleRequest */
                     HEAD_SCALE_UP = 1,
                     HEAD_SCALE_DOWN,
                     HEAD_SCALE_STATUS,
                     HEAD_SCALE_EXPLAIN,
                     HEAD_SCALE_HISTORY,
                     HEAD_SCALE_WANT,
};

struct head_ticket {               /* what a ticket says */
    uint64_t id, made_ms, ends_ms; /* wall clock */
};

/* Whom the other end has shown to be, by its certificate. */
struct head_peer {
    enum { HEAD_PEER_NOBODY, HEAD_PEER_NODE, HEAD_PEER_TICKET } kind; /* NOBODY: in clear, or a certificate that names nobody */
    uint64_t id;
    uint64_t ends_ms; /* wall clock */
};

/* A named token, as the door of the shell must know it. */
struct head_token {
    uint64_t      number;
    enum mt_right right; /* NOTHING: its bearer is told why not */
    bool          is_ended;
    char          name[64];
    uint8_t       sha256[HEAD_SHA_SIZE]; /* of its text */
};
/* No other text has the same hash, so the next token of a name has another number. Not 0. */
static inline uint64_t head_token_number(const uint8_t sha256[HEAD_SHA_SIZE])
{
    uint64_t number = 0;
    for (int i = 0; i < 8; i++)
        number = number << 8 | sha256[i];
    return number | 1;
}

#endif
