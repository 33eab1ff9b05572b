/* SPDX-License-Identifier: Apache-2.0
 *
 * actor.h - actors, as their creator sees them and as every other caller does.
 *
 * Data only. Thread: as own.h.
 */
#ifndef OWN_STATE_ACTOR_H
#define OWN_STATE_ACTOR_H

#include "clients/lib/owner/state/task.h"

enum own_actor_state {
    OWN_ACTOR_NEW = 0,
    OWN_ACTOR_STARTING = 1, /* creator: waits for a lease or for create; caller: asks where it is */
    OWN_ACTOR_ALIVE = 2,
    OWN_ACTOR_RESTARTING = 3,
    OWN_ACTOR_DEAD = 4,
};

/* Second word of the payload of LANE_CREATE. */
enum {
    OWN_CREATE_CONCURRENCY = 0xffff, /* calls at a time */
    OWN_CREATE_SAVE_SHIFT = 16,      /* calls between two snapshots; 0: none */
    OWN_CREATE_SAVE_MAX = 0x7fff,
};
#define OWN_CREATE_HAS_STATE 0x80000000u /* behind the arguments stands the snapshot, a lane_value */
enum { OWN_GROUPS = 8 };                 /* named concurrency groups of an actor */

struct own_actor { /* the public manta_actor */
    mt_id               id;
    uint32_t            holds;
    uint32_t            state; /* enum own_actor_state */
    uint32_t            incarnation;
    int32_t             restarts_left;  /* < 0: without limit */
    bool                is_restartable; /* it was made with some: what its node's leave costs none of */
    int32_t             call_retries;
    bool                is_mine;
    bool                is_ending; /* the last handle is gone, or it was killed for good */
    bool                is_asking; /* caller: OWN_MSG_WHERE or CTL_LANE_WANT is under way */
    bool                any_order; /* calls go out as soon as their arguments are ready */
    bool                is_woken;  /* in own->woken_actors */
    struct own_actor   *next_woken;
    uint32_t            kept_calls;      /* of this process, that are made again if their values are lost (OWN_KEPT) */
    uint32_t            max_pending;     /* calls of this process that are not finished; 0: no limit */
    uint32_t            pending_outside; /* calls that are in no queue: their arguments come first (any_order) */
    uint64_t            owner;           /* the process that answers for it; 0: of a detached one, the head is asked */
    uint32_t            owner_node;
    bool                is_detached;
    bool                is_strict;  /* creator: no incarnation begins before the one before it has certainly ended */
    uint64_t            void_lease; /* strict: was lost with its node; the head is to make sure that it is over; 0: none */
    uint32_t            void_node;
    bool                is_voiding; /* the head has been asked */
    uint64_t            create_ns;  /* strict: not created again before */
    uint64_t            ask_ns;     /* detached: the head is not asked again before */
    uint64_t            type;
    char                name[CTL_NAME_SIZE]; /* of the type */
    char                public_name[CTL_NAME_SIZE];
    bool                is_for_all; /* whoever knows the name, of any job */
    char                space[CTL_NAME_SIZE];
    struct own_class   *cls; /* creator's */
    struct own_lane    *lane;
    struct own_lane    *next_lane;     /* granted before the news came that `lane` has ended */
    struct own_queue    queue;         /* calls not yet on the lane, in order */
    struct own_queue   *groups;        /* the same of each named concurrency group, OWN_GROUPS of them; NULL: none was called */
    struct own_task    *create;        /* creator's: kept for restarts */
    struct own_failure *create_failed; /* creator's: why the creation failed before it was sent; posted, own_actor_take_failed */
    uint32_t            create_options, create_size; /* size of its arguments alone */
    struct own_ref     *snapshot;                    /* creator's: what the next incarnation begins with; NULL: none */
    bool                is_named;                    /* creator: the head has noted its name */
    bool                has_exited;                  /* creator: it ended of its own will */
    bool                is_mourned;                  /* creator: the news of its end was told */
    struct own_failure *failure;                     /* why it is dead */
    uint64_t            worker;                      /* process, while alive */
    uint32_t            worker_node;
    int32_t             worker_pid;
    uint32_t            watch_count;
    struct own_waiter  *askers;  /* creator: who waits for OWN_MSG_AT; `node` then is theirs, task NULL */
    mt_id               monitor; /* caller or creator: of the worker, for watches; zero if none */
};

extern const struct mt_machine own_actor_machine;
static inline void             own_actor_set_state(struct own_actor *actor, enum own_actor_state to)
{
    MT_TRANSITION(&own_actor_machine, actor->state, to);
    actor->state = to;
}

#endif
