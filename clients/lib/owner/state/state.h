/* SPDX-License-Identifier: Apache-2.0
 *
 * state.h - all that the owner half of a process knows: struct own, and what hangs from it.
 *
 * Data and the smallest readers of it. Thread: as own.h.
 */
#ifndef OWN_STATE_H
#define OWN_STATE_H

#include "clients/lib/owner/state/actor.h"
#include "clients/lib/owner/state/stream.h"
#include "core/ds/map.h"
#include "core/ds/range.h"
#include "core/ds/spare.h"
#include "core/ds/stash.h"
#include "core/ds/vec.h"

/* What step wants done outside. The caller empties it after every call. */
/* Failures that nobody was told of, of one function. */
struct own_unheard {
    mt_id              task; /* whose the first one is */
    uint64_t           count;
    struct own_failure first;
};
enum { OWN_UNHEARD_MAX = 16 }; /* functions; the last one stands for all others, too */

struct own_out {
    struct lane_park *wake[32];
    uint32_t          wake_count;
    mt_buf            up; /* whole records, padded to 64, for the up ring */
    MT_VEC(void *) unmap; /* lanes that nobody uses any more */
    MT_VEC(struct own_death) deaths;
    MT_VEC(struct lane_ref) places;                 /* of values on other nodes, which are wanted here (OWN_WAITS_FETCH) */
    struct own_waiter  *callbacks, *callbacks_last; /* that are due, oldest first; each is the caller's to free */
    struct own_unheard *unheard;                    /* OWN_UNHEARD_MAX of them, once there was one; NULL: none yet, or no memory */
    uint32_t            unheard_count;
    bool                is_starved; /* something that others wait for was lost: no memory. The process can't go on */
};
struct own_death {            /* something watched has died */
    mt_id            subject; /* the actor; or the monitor of a node, as own_monitor gave it */
    bool             is_actor, restarting;
    uint32_t         incarnation;
    struct ctl_death death;
};

struct own_borrow { /* another process holds a ref of ours */
    mt_id    ref;
    uint64_t process;
};
enum own_watches {
    OWN_WATCHES_ACTOR = 1, /* an actor's worker, for its watches */
    OWN_WATCHES_PEER = 2,  /* an owner or a borrower */
    OWN_WATCHES_NODE = 3,
};
struct own_monitor {
    mt_id            id;
    enum own_watches kind;
    union {
        mt_id    actor;
        uint64_t peer;
        uint32_t node;
    } of;
};
/* The thread that runs this worker's tasks waits for a value. On that thread's stack. */
struct own_wait {
    struct own_wait   *outer; /* of a task that waits while it runs another one; NULL: none */
    struct own_ref    *ref;
    const char        *name;          /* of the task that waits */
    bool               is_deadlocked; /* it will never come: `failure` says why */
    uint64_t           since_ns, probed_ns, number;
    struct own_failure failure;
};

enum own_request_kind {
    OWN_REQUEST_LANE = 1,   /* CTL_LANE_WANT: a lane to its worker */
    OWN_REQUEST_NAME = 2,   /* CTL_OP_NAME_PUT: the head is to note its name */
    OWN_REQUEST_WARDEN = 3, /* CTL_OP_ACTOR: who answers for a detached one */
    OWN_REQUEST_VOID = 4,   /* CTL_OP_ACTOR, CTL_ACTOR_VOID: a strict one's lost lease is to be over */
};
struct own_request { /* of an actor, to the raylet or the head */
    mt_id                 actor;
    enum own_request_kind kind;
};

struct own_run {
    mt_id    id;
    uint32_t number; /* from 1 */
    uint64_t items;  /* a generator: that it has yielded */
};
/* A run that waits while the process runs another task. On the stack of the thread that runs both. */
struct own_outer_run {
    struct own_outer_run *outer; /* NULL: none */
    struct own_run        run;
    bool                  submits;
};
enum { OWN_PAST_RUNS = 32 };
enum { OWN_LACKING_TICKS = 2 }; /* so long a warm worker may take to come */

struct own {
    uint64_t              process;
    uint32_t              node, epoch, job;
    int32_t               pid;           /* for people; the shell sets it */
    uint32_t              cpus;          /* that this node's processes may use; 0: not known. The shell sets it */
    uint32_t              crowded_ticks; /* in a row that found two workers on one cpu and another without any */
    uint32_t              lacking_ticks; /* in a row that found a class with work and without a lease */
    bool                  is_lacking;    /* there is one, as far as the last tick and what was submitted since say */
    uint64_t              counter;       /* of ids */
    uint64_t              now_ns;        /* as last told */
    uint64_t              wall_ns;       /* what makes wall clock of it; 0: no events are kept */
    struct own_run        run;           /* what this process runs; tasks submitted meanwhile have its number as parent */
    struct own_run        past_runs[OWN_PAST_RUNS]; /* that have submitted some: a cancel may come when they are over */
    bool                  run_submits;
    mt_stash              stash;      /* for what may not fail */
    mt_spare              spare;      /* inline values that were freed */
    struct own_failure    no_memory;  /* stands for a failure that could not be kept */
    uint32_t              run_count;  /* the last number of a run */
    struct own_outer_run *outer_runs; /* innermost first */
    struct wrk           *wrk;        /* of the same process, which knows what stands behind the run; NULL: none (wrk_tie) */
    bool (*call_stands)(const struct wrk *wrk, mt_id call); /* whether it waits there */
    uint64_t          completed;                            /* refs that became ready: waiters compare it */
    uint32_t          outstanding;                          /* tasks not finished */
    uint64_t          submitted;                            /* tasks and calls, ever */
    uint64_t          queued_bytes;
    struct own_queue  kept;                 /* finished tasks that may run again, oldest first */
    uint64_t          kept_bytes, kept_max; /* of them and of values that only they hold */
    mt_map            lost_nodes;           /* node -> number of the news that it died, drawn from `counter` */
    bool              is_posted;            /* a note may stand in one of the next four lists: own_settle is due */
    bool              is_settling;          /* it is under way */
    struct own_queue  woken;                /* tasks and calls in any order whose arguments are ready */
    struct own_actor *woken_actors;         /* whose queues may move, last posted first */
    struct own_task  *to_rerun;             /* whose values were lost, last posted first, by `next` */
    struct own_task  *given_up;             /* no longer kept, on their way to be freed, by `next` */
    struct own_extra *gone_extras;          /* of freed refs: what they declare is still to be dropped */
    bool              is_dropping_extras;   /* somebody up the stack does */
    uint64_t          again_count;          /* tasks that were run again for a lost value */
    struct own_edges  edges;
    struct own_out    out;
    struct own_wait  *wait; /* NULL: the tasks' thread does not wait, or may have others beside it */
    uint64_t          wait_count;
    mt_map            refs;           /* id -> own_ref: those that other processes know, or borrowed */
    mt_map            classes;        /* key -> own_class */
    mt_map            actors;         /* id -> own_actor */
    mt_map            borrows;        /* of (ref, process) -> own_borrow */
    mt_map            monitors;       /* monitor id -> own_monitor */
    mt_map            peers;          /* process -> monitor of an owner or borrower */
    mt_map            requests;       /* id -> own_request */
    struct own_ref   *news[CTL_NEWS]; /* asked for, and not come; NULL: nobody asks */
    mt_map            early_ends;     /* lease -> ctl_ended that has overtaken its grant (rings and socket are not ordered) */
    mt_map            unwanted;       /* lease -> 1: given up when it was granted; its end is expected */
    MT_VEC(struct own_class *) class_list;
    uint32_t last_class; /* number of the newest; none is used again */
    MT_VEC(struct own_lane *) lanes;
    mt_map             extras; /* id of a ref with OWN_REF_EXTRA -> own_extra */
    struct own_stream *streams;
    struct own_doubt  *doubts;
    struct own_ref    *free_refs;
    struct own_task   *free_tasks;
    void              *free_blobs;         /* of OWN_BLOB_MEDIUM bytes, linked by their first word */
    MT_VEC(void *) chunks;                 /* of blobs, kept until the end */
    MT_VEC(struct own_task *) task_chunks; /* of tasks, likewise */
    mt_range ref_memory;                   /* of refs, likewise: ref_count of them */
    uint32_t ref_count;
    void (*free_place)(struct own *own, const struct lane_ref *place, bool escaped); /* an object nobody holds */
};

/* The ref of that number and generation; NULL: the user has no handle on it. */
static inline struct own_ref *own_ref_find(const struct own *own, uint32_t number, uint32_t generation)
{
    struct own_ref *ref = (struct own_ref *)own->ref_memory.base + number;
    return MT_LIKELY(number < own->ref_count) && MT_LIKELY(ref->generation == generation) ? ref : NULL;
}
static inline uint32_t own_ref_number(const struct own *own, const struct own_ref *ref)
{
    return (uint32_t)(ref - (const struct own_ref *)own->ref_memory.base);
}
static inline uint32_t own_ref_owner_node(const struct own *own, const struct own_ref *ref)
{
    return ref->flags & OWN_REF_BORROWED ? ref->value.place.owner_node : own->node;
}

#endif
