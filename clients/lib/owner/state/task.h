/* SPDX-License-Identifier: Apache-2.0
 *
 * task.h - tasks, the queues that they stand in, the lanes that carry them, and their scheduling classes.
 *
 * Data only. Thread: as own.h.
 */
#ifndef OWN_STATE_TASK_H
#define OWN_STATE_TASK_H

#include "clients/lib/owner/state/edge.h"
#include "clients/lib/owner/state/ref.h"

struct own_arg {
    char            type; /* of the function's signature */
    const void     *data; /* bytes of a value; NULL with `ref` */
    size_t          size;
    struct own_ref *ref; /* 'r': kept as reference; else its value is wanted */
};

/* Where a task is: in exactly one place. The drawing and the table are in machines.c. */
enum own_task_state {
    OWN_NO_TASK = 0,  /* in own->free_tasks */
    OWN_WAITING = 1,  /* its arguments are to come; a call in its order waits in its actor's queue, all others in none */
    OWN_QUEUED = 2,   /* in its class's or its actor's queue */
    OWN_SENT = 3,     /* in a slot of `lane` */
    OWN_KEPT = 4,     /* finished; in own->kept, to run again if its values are lost */
    OWN_WOKEN = 5,    /* its arguments are ready; in own->woken */
    OWN_RERUN = 6,    /* a value of it was lost; in own->to_rerun */
    OWN_GIVEN_UP = 7, /* no longer kept; in own->given_up */
    OWN_CREATED = 8,  /* an actor's creation that is over; at actor->create, for restarts */
};
enum { OWN_BLOB_SMALL = 40 /* two scalars */, OWN_BLOB_MEDIUM = 128 /* from slabs */ };

struct own_task {
    struct own_task    *next, *prev; /* in its class's or actor's queue */
    mt_id               id;
    uint64_t            function;
    const char         *name; /* for errors; lives as long as the process */
    struct own_class   *cls;
    struct own_actor   *actor;   /* a call of it; NULL: a task */
    struct own_ref     *ref;     /* its result; of a generator: ready when that has ended */
    struct own_lane    *lane;    /* while SENT */
    struct own_results *results; /* what few tasks have; NULL in all others */
    union {
        uint64_t sequence;  /* SENT: of its record */
        uint64_t ended_at;  /* KEPT: own->counter when it ended */
        uint64_t lost_node; /* RERUN: all that stood there is lost; 0: none */
    };
    uint64_t        submitted_ns; /* wall clock; 0: no events are kept */
    uint8_t         kind;         /* LANE_TASK, LANE_CREATE, LANE_CALL */
    uint8_t         state;        /* enum own_task_state */
    uint16_t        attempt;
    bool            retry_on_error : 1;
    bool            is_asked_back : 1; /* LANE_REVOKE was sent for it */
    bool            is_limited : 1;    /* its blob ends with lane_limits; they stand in `small` until there is one */
    bool            is_ahead : 1; /* QUEUED, SENT: its blob names cells of arguments that may not have come; `waiting_for` says */
    bool            feeds : 1;    /* SENT: its record names its cell */
    uint8_t         cancel;       /* 0, or OWN_CANCEL_ASKED with what was asked */
    uint8_t         group;        /* call: concurrency group */
    int8_t          priority;
    uint16_t        arg_count;    /* of `args`, while they wait or hold refs */
    uint16_t        waiting_for;  /* arguments that are not ready */
    uint32_t        cell;         /* that its result goes to, + 1; 0: none. Of QUEUED and SENT tasks alone */
    uint32_t        parent;       /* own->run.number of the task that submitted it; 0: none */
    int32_t         retries_left; /* < 0: without limit */
    uint32_t        blob_size;
    uint32_t        args_size;
    struct own_arg *args; /* only where refs are among them; then an own_waiter for each ref, then bytes: one block */
    uint8_t        *blob; /* payload of the record */
    uint8_t         small[OWN_BLOB_SMALL];
};

extern const struct mt_machine own_task_machine, own_lane_machine;
static inline void             own_task_set_state(struct own_task *task, enum own_task_state to)
{
    if (OWN_CHECKS_ALL || (to != OWN_NO_TASK && to != OWN_WAITING && to != OWN_QUEUED && to != OWN_SENT))
        MT_TRANSITION(&own_task_machine, task->state, to);
    task->state = (uint8_t)to;
}

/* More than one plain value. */
struct own_results {
    uint32_t           count; /* of values: task->ref, then `more` */
    struct own_stream *stream;
    struct own_ref   **declared; /* by the value that is to come, each with one hold */
    uint32_t           declared_count;
    struct own_ref    *more[];
};

struct own_queue {
    struct own_task *first, *last;
    uint32_t         count;
};

/* ---- lanes: the owner's end ---- */
enum own_lane_state {
    OWN_LANE_OPEN = 0,
    OWN_LANE_RECALLED = 1, /* takes no more tasks: its worker is wanted elsewhere */
    OWN_LANE_BROKEN = 2,   /* nothing that stands there is believed any more */
    OWN_LANE_ENDING = 3,   /* what stood in its slots is being settled */
};
struct own_lane {
    uint64_t             lease;
    struct own_class    *cls;   /* whose tasks it carries; NULL for an actor's */
    struct own_actor    *actor; /* whose calls it carries */
    void                *memory;
    struct lane_park    *peer; /* of the worker, or of the switch */
    shm_u64             *claims;
    struct lane_producer forward;
    struct lane_consumer back;
    uint64_t             next_sequence;
    uint32_t             inflight;
    uint32_t             unpublished;
    uint64_t             kill_ns;       /* its worker is to be killed then (UINT64_MAX: it was); 0: not */
    uint64_t             progress_ns;   /* when a completion last came, or the lane was idle */
    uint64_t             looked_ns;     /* when own_lane_look last read the claims */
    uint64_t             ahead_seen_ns; /* progress_ns at the last tick with tasks ahead */
    uint8_t              ahead_ticks;   /* since then, without any */
    uint64_t             worker;
    uint32_t             node;
    int32_t              pid;
    uint32_t             index; /* in own->lanes */
    bool                 is_remote;
    uint8_t              state; /* enum own_lane_state */
    struct own_task     *tasks[LANE_SLOTS];
};

static inline void own_lane_set_state(struct own_lane *lane, enum own_lane_state to)
{
    MT_TRANSITION(&own_lane_machine, lane->state, to);
    lane->state = (uint8_t)to;
}

/* ---- scheduling classes ---- */
struct own_level { /* tasks of one priority other than 0 */
    int32_t          priority;
    struct own_queue queue;
};
enum { OWN_PRIORITY_MAX = 100 }; /* and no less than its negative */

struct own_class {
    mt_id             key;
    struct ctl_class  wire;
    struct own_queue  queue;  /* priority 0, which is all there is unless `levels` say otherwise */
    struct own_level *levels; /* highest first; never removed */
    uint32_t          level_count;
    uint32_t          leveled;  /* tasks that stand in them */
    int32_t           sent_low; /* with levels: at most the lowest priority of what has not begun on a lane */
    struct own_lane **lanes;
    uint32_t          lane_count, lane_room;
    uint32_t          outstanding; /* queued and sent */
    uint32_t          wanted;      /* as told to the raylet */
    uint64_t          version;
    uint64_t          task_ns;       /* running mean of what a task takes */
    uint64_t          idle_since_ns; /* the first tick that found nothing to do, unless is_busy */
    uint64_t          surplus_since_ns;
    uint32_t          edge_tasks;  /* the next so many tasks get a cell */
    uint32_t          told_tasks;  /* ... and of so many the outcome is told at once: tasks on another node wait for them */
    uint32_t          edge_pause;  /* ticks until tasks are sent ahead again */
    uint32_t          ahead_count; /* tasks with is_ahead */
    uint32_t          ahead_node;  /* whose memory their cells are in: that of all lanes when the first of them went ahead */
    uint32_t          turn;        /* lane that got a task with a cell last */
    bool              is_busy;     /* it had work since the last tick that found none */
    bool              is_told;     /* CTL_CLASS was sent */
    bool              is_over;     /* its placement group was removed: it is freed when nothing of it is under way */
};

/* ---- classes: class.c ---- */
struct own_class_spec {
    const char         *name;
    uint64_t            group; /* function or actor type */
    uint32_t            flags, policy, node;
    uint64_t            env; /* key of a runtime environment; 0: our own */
    uint32_t            resource_count;
    struct ctl_resource resources[CTL_RESOURCES];
    const char         *labels; /* selector, checked; NULL: any node */
    mt_id               pg;     /* placement group; zero: none */
    uint32_t            bundle; /* of it, from 1; 0: any */
};

struct own_call {
    struct own_class        *cls;
    struct own_actor        *actor; /* NULL: a task */
    uint64_t                 function;
    const char              *name;
    int                      argc;
    const struct own_arg    *args;
    int32_t                  retries;
    bool                     retry_on_error;
    uint8_t                  kind;
    uint8_t                  group;          /* call: concurrency group, 0 is the default one */
    uint32_t                 create_options; /* create: OWN_CREATE_... */
    const struct own_warden *warden;         /* create: this process is the warden of a detached actor; NULL: it makes its own */
    const char              *group_name;     /* the same by name, for whoever finds the number; NULL: the method's own */
    int8_t                   priority;
    struct lane_limits       limits;
    uint32_t                 count;  /* values; 0 is 1 */
    struct own_ref         **more;   /* out: those after the first, each with one hold */
    struct own_stream       *stream; /* of a generator */
};
struct own_warden {
    mt_id    actor;    /* its id, drawn by its creator */
    uint32_t restarts; /* that other wardens have made or were */
};

enum { OWN_TASKS_PER_CHUNK = 128 };
enum { OWN_CANCEL_ASKED = 8 }; /* in own_task.cancel, beside the flags of message.h */

#endif
