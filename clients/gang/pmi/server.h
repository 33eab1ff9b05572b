/* SPDX-License-Identifier: Apache-2.0
 *
 * server.h - where a supervisor serves PMI to the ranks of its node: sockets around pmi.h.
 *
 * Each supervisor has a listening socket, an abstract one with a random name. Of a gang's node the one with the first rank serves:
 * the others connect for their ranks, say which one it is, and hand the connection down as PMI_FD. Only processes of the same user
 * are let in.
 *
 * Thread: the supervisor's own; gng_server_open before it begins.
 */
#ifndef GNG_SERVER_H
#define GNG_SERVER_H

#include "clients/gang/pmi/pmi.h"
#include "clients/gang/plan/wire.h"

#include <poll.h>

struct gng_server {
    int            listener;
    char           name[48];
    bool           is_on;
    uint32_t       attempt;
    struct gng_pmi pmi;
    int           *conns; /* by local rank; -1: none yet, or it has ended */
};

/* ESYS. */
MT_MUST_USE mt_status gng_server_open(struct gng_server *s);
void                  gng_server_close(struct gng_server *s);
/* Serves the ranks of `start` from now on, and those of the attempt before no more. ENOMEM. */
MT_MUST_USE mt_status gng_server_begin(struct gng_server *s, uint32_t attempt, const struct gng_start *start);
/* What it waits for; returns how many. `fds` has room for MT_GANG_RANKS_MAX + 1. */
int gng_server_fds(const struct gng_server *s, struct pollfd *fds);
/* Serves what is ready of them; FENCE and FAULT go to `news`. ENOMEM. */
MT_MUST_USE mt_status gng_server_serve(struct gng_server *s, const struct pollfd *fds, int count, mt_buf *news);
MT_MUST_USE mt_status gng_server_fenced(struct gng_server *s, mt_view puts, mt_buf *news);

/* A connection for a rank to the server of that name; < 0: -errno. */
int gng_server_connect(mt_view name, uint32_t attempt, uint32_t rank);

#endif
