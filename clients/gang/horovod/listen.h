/* SPDX-License-Identifier: Apache-2.0
 *
 * listen.h - where the supervisor of rank 0 serves Horovod's rendezvous to all ranks of its gang: sockets around rendezvous.h.
 *
 * Thread: the supervisor's own. Nothing blocks but gng_listen_wait.
 */
#ifndef GNG_LISTEN_H
#define GNG_LISTEN_H

#include "clients/gang/horovod/rendezvous.h"
#include "clients/gang/plan/wire.h"

struct gng_guest; /* a connection */

struct gng_listen {
    int                   epoll, listener; /* -1: it does not serve */
    struct gng_rendezvous space;
    struct gng_guest     *guests; /* MT_GANG_HTTP_CONNS of them */
    uint64_t              come;   /* connections so far */
};

/* Serves nothing yet. */
void gng_listen_init(struct gng_listen *l);
/* Serves a gang of so many ranks from now on, and one before no more. ESYS with the errno: nobody can listen there (EAFNOSUPPORT:
   Horovod's client knows no IPv6). ENOMEM. */
MT_MUST_USE mt_status gng_listen_begin(struct gng_listen *l, const struct gng_horovod *where, int size);
void                  gng_listen_end(struct gng_listen *l);
/* To be waited for: when it is readable, gng_listen_serve. -1: nothing is served. */
static inline int gng_listen_fd(const struct gng_listen *l)
{
    return l->epoll;
}
/* ENOMEM. */
MT_MUST_USE mt_status gng_listen_serve(struct gng_listen *l);

/* Waits until somebody listens there, at most MT_GANG_HTTP_WAIT_MS: a rank's first request would be refused else. */
void gng_listen_wait(const struct gng_horovod *where);
/* The network interface of this machine that has the address; "": there is none. */
void gng_interface_of(mt_view address, char *out, size_t size);

#endif
