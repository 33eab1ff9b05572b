/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.h - the actors that serve trials, as the driver has them: one a slot.
 *
 *   hire -> ready (SLOT_UP) -> run, for ever; poll, again and again -> its events; tell, what was written for it
 *
 * Thread: the one that runs the sweep. swp_crew_look blocks up to its limit; nothing else does.
 */
#ifndef SWP_CREW_H
#define SWP_CREW_H

#include "clients/roster/roster.h"
#include "sweep/run/driver.h"
#include "sweep/manta_sweep.h"
#include "sweep/trial/wire.h"

struct swp_seat {
    manta_actor *actor; /* NULL: none */
    manta_ref   *wait;  /* its next news: of ready, then of poll */
    manta_ref   *run;
    mt_buf       words; /* to be told */
    bool         is_up;
    uint32_t     node;      /* where it is; 0: not known yet */
    unsigned     hires;     /* so often; the number of its file of ends */
    int64_t      killed_ns; /* 0: it was not */
};

struct swp_crew {
    struct swp_seat *seats;
    int              count;
    const char      *trial;
    mt_buf           setup;
    char             ends[MT_PATH_BYTES_MAX + 64]; /* what names of files of ends begin with */
    manta_ref       *data;
    manta_actor_opts opts;
    manta_wish       wish;  /* what a trial needs, or each rank of one that is a gang */
    int              parts; /* so often */
    manta_ref      **refs;  /* of swp_crew_look: as many as seats */
    int             *whose;
    unsigned char   *is_there;
    struct roster    nodes;
    int              wished, wished_room;      /* what the cluster was told */
    char             text[MT_ERROR_BYTES_MAX]; /* for people, why swp_crew_look failed; else "" */
};

/* `count` may grow to `most`. */
MT_MUST_USE mt_status swp_crew_init(struct swp_crew *crew, int count, int most, const char *trial, const manta_sweep_opts *opts,
                                    const char *folder);
/* Kills who is left, and frees all. */
void swp_crew_fini(struct swp_crew *crew);

void swp_crew_hire(struct swp_crew *crew, int slot);
void swp_crew_kill(struct swp_crew *crew, int slot);
/* Writes a word for a slot; it goes with swp_crew_send. ENOMEM. */
MT_MUST_USE mt_status swp_crew_write(struct swp_crew *crew, int slot, const struct swp_wire *word);
/* Where the process that served a slot last has noted its ends. */
enum { SWP_ENDS_PATH_SIZE = MT_PATH_BYTES_MAX + 96 };
void swp_crew_ends(const struct swp_crew *crew, int slot, char out[SWP_ENDS_PATH_SIZE]);

/* Waits for news of anyone, up to wait_ms, and hands each to `fn` as an event, with the bytes of a saved state beside it. The first
 * failure of `fn` ends it and is returned. */
typedef mt_status (*swp_crew_fn)(void *user, struct swp_event *event, mt_view state);
/* Sends what was written. A slot whose words find no room in the object store is killed, and `fn` told that it is down.
 * Blocks as manta_put does. */
MT_MUST_USE mt_status swp_crew_send(struct swp_crew *crew, swp_crew_fn fn, void *user);
MT_MUST_USE mt_status swp_crew_look(struct swp_crew *crew, int wait_ms, swp_crew_fn fn, void *user);

/* How many such trials the cluster has room for, at least 1; < 0 is -code, and *e is what libmanta says (this is a forked child,
 * manta_init was not called, ...). Blocks up to 5 s. */
int swp_crew_room(const manta_sweep_opts *opts, manta_error *e);
/* The same now, by the nodes as of the last news of them; and each seat on a node that leaves is told to `fn` as SWP_EV_LEAVE. */
int swp_crew_nodes(struct swp_crew *crew, const manta_sweep_opts *opts, swp_crew_fn fn, void *user, mt_status *out);
/* Tells the cluster that so many more trials could run, where that has changed; `room`: so many run now, at most. */
void swp_crew_wish(struct swp_crew *crew, const char *name, int count, int room);

#endif
