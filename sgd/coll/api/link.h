/* SPDX-License-Identifier: Apache-2.0
 *
 * link.h - a member's way to the others, shared memory or TCP, behind one set of calls.
 *
 * Thread: one at a time, but for coll_link_abort. Blocking and errors: as in shm/shm.h; coll_link_fail says more.
 */
#ifndef SGD_COLL_LINK_H
#define SGD_COLL_LINK_H

#include "sgd/coll/api/id.h"
#include "sgd/coll/tcp/tcp.h"

struct coll_link {
    struct coll_id    id; /* of the generation that it is in, or tried to join */
    uint32_t          rank;
    manta_region      region; /* shared memory, of the raylet's where there is no `local` */
    struct coll_local local;
    struct coll_shm   shm;
    manta_actor      *meet;  /* TCP: where members find each other */
    struct coll_at    at;    /* TCP: where this member listens */
    manta_ref        *asked; /* a question to it that is not answered yet */
    uint32_t          round; /* of agreements in this generation */
    struct coll_tcp   tcp;
    struct coll_door  door; /* of one that meets the others by itself */
    bool              is_by_itself;
    manta_error       e; /* of the last failure that has a text of its own */
};

/* One that listens, and joins a generation by coll_link_meet: of members that meet by themselves. */
manta_status coll_link_listen(struct coll_link *link, const char *host);
manta_status coll_link_meet(struct coll_link *link, const struct coll_id *id, uint32_t rank, const struct coll_at *at);

/* Joins the generation of `id`. An error leaves a link that is given back with coll_link_close. */
manta_status coll_link_open(struct coll_link *link, const struct coll_id *id, uint32_t rank);
void         coll_link_close(struct coll_link *link);
/* A later generation. `from`: as in coll_shm_move. */
manta_status coll_link_move(struct coll_link *link, uint32_t generation, uint32_t rank, uint32_t members, const int8_t *from);
/* A buffer becomes a part of the heap, or is given back. Over TCP nothing happens. */
manta_status coll_link_register(struct coll_link *link, void *data, size_t size);
manta_status coll_link_unregister(struct coll_link *link, void *data);
manta_status coll_link_run(struct coll_link *link, const struct coll_call *call);
manta_status coll_link_exchange(struct coll_link *link, const struct coll_message *send, const struct coll_message *receive);
manta_status coll_link_decide(struct coll_link *link, uint64_t flags, struct coll_decision *out);
/* For a member that waits for a device: whether the generation goes on. Does not block. */
manta_status coll_link_look(struct coll_link *link);
void         coll_link_abort(struct coll_link *link);
/* The last error in words, into *e (which may be NULL); gives `code` back. */
manta_status coll_link_fail(const struct coll_link *link, manta_status code, manta_error *e);

/* member.c: a member's link, once what it has started is done. NULL: it has left. */
struct coll_link *coll_member_link(const manta_coll *handle);

#endif
