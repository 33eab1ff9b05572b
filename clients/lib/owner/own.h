/* SPDX-License-Identifier: Apache-2.0
 *
 * own.h - the owner half of a process: the tasks it submitted, the values it waits for, the actors it made.
 *
 * A pure state machine: no system call, thread or clock inside. Control records come in through own_control, time
 * through own_tick, completions through own_poll; what must be done outside stands in own->out afterwards: records for
 * the up ring and processes to wake. The lanes' memory is handed in with the lease and used directly.
 *
 * Thread: any one at a time; libmanta holds its owner lock.
 *
 *   own_task, own_result, own_stream: what comes back; own_extra: what only few refs have
 *
 *   a task:   WAITING --args ready--> WOKEN --> QUEUED --lane has room--> SENT --DONE record--> gone; its ref is ready
 *                                        ^------ returned, revoked, or its worker died: try again ------'
 *   own_lineage: a task whose values stand on another node is KEPT instead, and WAITING again when they are lost
 */
#ifndef OWN_OWN_H
#define OWN_OWN_H

#include "clients/lib/owner/message.h"
#include "core/base/buf.h"
#include "core/ds/map.h"
#include "core/ds/range.h"
#include "core/ds/spare.h"
#include "core/ds/stash.h"
#include "core/ds/vec.h"
#include "core/lane/lane.h"

struct own;
struct own_task;
struct own_class;
struct own_lane;

/* A failure as it travels and as manta_error shows it. */
struct own_failure {
    int32_t  code, user_code, outcome, pid, attempt, signal_number;
    uint32_t node;
    char     function[64];
    char     where[96];
    char     message[512];
    char     backtrace[1536];
    /* Of this process alone. */
    uint32_t                  holds; /* of one that own_failure_new gave */
    const struct own_failure *kept;  /* itself: own_failure_new gave it, and can share it; a copy of it differs */
};
enum { OWN_FAILURE_WIRE = offsetof(struct own_failure, holds) }; /* what travels */

/* ---- refs ---- */
enum own_ref_state { OWN_REF_PENDING = 0, OWN_REF_INLINE = 1, OWN_REF_PLACE = 2, OWN_REF_FAILED = 3 };
enum {
    OWN_REF_BORROWED = 1, /* another process owns it */
    OWN_REF_NAMED = 2,    /* in own->refs: other processes know it */
    OWN_REF_ASKED = 4,    /* borrowed: OWN_MSG_WAIT is under way */
    OWN_REF_ESCAPED = 8,  /* its place is known outside: the raylet decides when it is free */
    OWN_REF_HEAP = 16,    /* inline bytes in value.heap */
    OWN_REF_TOLD = 32,    /* borrowed: the owner knows that we hold it */
    OWN_REF_FREED = 128,  /* own_ref_free_now: whoever asks for its value is told so */
    OWN_REF_EXTRA = 64,   /* in own->extras: refs that its value declares, callbacks */
};
/* A value in the store that was lost: lineage.c. */
enum own_ref_again {
    OWN_AGAIN_NOT = 0,
    OWN_AGAIN_RUNS = 1,  /* its task runs again */
    OWN_AGAIN_MOVED = 2, /* it is at own_extra.moved now */
    OWN_AGAIN_LOST = 3,  /* for good: own_extra.lost says why */
    OWN_AGAIN_GONE = 4,  /* let go: only tasks that may run again need it, and it can be made again itself */
};
enum own_why_not { /* a lost value can't be made again */
                   OWN_WHY_NO_TASK = 0,
                   OWN_WHY_CALL = 1,
                   OWN_WHY_ONCE = 2,
                   OWN_WHY_USED_UP = 3,
                   OWN_WHY_GIVEN_UP = 4,
                   OWN_WHY_ITEM = 5, /* its generator has failed, or its run again has */
};
enum { OWN_SMALL = 56 };

struct own_waiter { /* who wants to know when a ref is ready */
    struct own_waiter *next;
    struct own_task   *task;    /* a task that has it as argument; NULL: another process */
    uint64_t           process; /* 0: a callback of this one */
    uint32_t           node;
    void (*fn)(void); /* the callback, as the shell knows it */
    void           *user;
    struct own_ref *ref; /* the callback's hold; NULL: of a ref that is gone */
};

struct own_ref { /* what a manta_ref names */
    mt_id              id;
    uint32_t           holds;        /* uses in this process; the user's handles, all together, are one of them */
    uint32_t           generation;   /* the upper half of the user's handles: another one when the last of them is freed */
    uint32_t           type : 8;     /* letter of the value */
    uint32_t           handles : 24; /* the user's: OWN_HANDLES_MAX of them are never counted down again */
    uint32_t           flags : 8;
    uint32_t           borrowers : 24; /* entries in own->borrows for it */
    uint8_t            state;          /* enum own_ref_state */
    uint8_t            again : 3;      /* enum own_ref_again */
    uint8_t            is_counted : 1; /* its bytes are in own->kept_bytes */
    uint8_t            why_not : 4;    /* enum own_why_not */
    uint16_t           size;           /* of an inline value */
    uint32_t           kept_by;        /* kept tasks (OWN_KEPT) that have it as an argument */
    struct own_waiter *waiters;
    struct own_task   *task; /* makes it, or may make it again (OWN_KEPT); NULL: none */
    union {
        uint8_t             small[OWN_SMALL];
        uint8_t            *heap;
        struct lane_ref     place; /* of a borrowed one `owner_node`, whatever else there is: own_ref_owner_node */
        struct own_failure *failure;
        struct own_ref     *next_free;
    } value;
};
enum { OWN_HANDLES_MAX = (1 << 24) - 1, OWN_REF_BITS = 28, OWN_REFS_MAX = 1 << OWN_REF_BITS };
enum { OWN_SMALL_BORROWED = offsetof(struct lane_ref, owner_node) }; /* larger inline values of others are in value.heap */
static_assert(sizeof(struct own_ref) == 112, "a queued task has one");

static inline bool own_ref_is_ready(const struct own_ref *ref)
{
    return ref->state != OWN_REF_PENDING;
}
/* Ready, and neither lost nor let go since. */
static inline bool own_ref_is_there(const struct own_ref *ref)
{
    return ref->state != OWN_REF_PENDING && ref->again != OWN_AGAIN_RUNS && ref->again != OWN_AGAIN_GONE;
}
/* The inline bytes; state is OWN_REF_INLINE. */
static inline const void *own_ref_bytes(const struct own_ref *ref)
{
    return ref->flags & OWN_REF_HEAP ? ref->value.heap : ref->value.small;
}

/* What only few refs have. */
struct own_extra {
    struct own_extra   *next;     /* in own->gone_extras */
    struct own_ref    **declared; /* each with one hold */
    uint32_t            declared_count;
    bool                is_taken;  /* the declared refs of a borrowed value: its owner knows that we hold them */
    bool                is_asking; /* ... and was asked to */
    struct own_waiter  *on_free;
    struct lane_ref     moved; /* node 0: it was not */
    struct own_failure *lost;
};

/* ---- tasks ---- */
struct own_arg {
    char            type; /* of the function's signature */
    const void     *data; /* bytes of a value; NULL with `ref` */
    size_t          size;
    struct own_ref *ref; /* 'r': kept as reference; else its value is wanted */
};

enum own_task_state {
    OWN_NO_TASK = 0,
    OWN_WAITING = 1,
    OWN_QUEUED = 2,
    OWN_SENT = 3,
    OWN_KEPT = 4, /* finished; in own->kept, to run again if its values are lost */
    OWN_WOKEN = 5 /* its arguments are ready; in own->woken, in no other queue */
};
enum { OWN_BLOB_SMALL = 40 /* two scalars */, OWN_BLOB_MEDIUM = 128 /* from slabs */ };

struct own_task {
    struct own_task    *next, *prev; /* in its class's or actor's queue */
    mt_id               id;
    uint64_t            function;
    const char         *name; /* for errors; lives as long as the process */
    struct own_class   *cls;
    struct own_actor   *actor;        /* a call of it; NULL: a task */
    struct own_ref     *ref;          /* its result; of a generator: ready when that has ended */
    struct own_lane    *lane;         /* while SENT */
    struct own_results *results;      /* what few tasks have; NULL in all others */
    uint64_t            sequence;     /* of its record; KEPT: own->counter when it ended */
    uint64_t            submitted_ns; /* wall clock; 0: no events are kept */
    uint8_t             kind;         /* LANE_TASK, LANE_CREATE, LANE_CALL */
    uint8_t             state;        /* enum own_task_state */
    uint16_t            attempt;
    bool                retry_on_error;
    bool                is_asked_back; /* LANE_REVOKE was sent for it */
    uint8_t             cancel;        /* 0, or OWN_CANCEL_ASKED with what was asked */
    uint8_t             group;         /* call: concurrency group */
    uint8_t             arg_count;     /* of `args`, while they wait or hold refs */
    uint8_t             waiting_for;   /* arguments that are not ready */
    int8_t              priority;
    bool                is_limited;   /* its blob ends with lane_limits; they stand in `small` until there is one */
    uint32_t            parent;       /* own->run.number of the task that submitted it; 0: none */
    int32_t             retries_left; /* < 0: without limit */
    uint32_t            blob_size;
    struct own_arg     *args; /* only where refs are among them */
    uint8_t            *blob; /* payload of the record */
    uint8_t             small[OWN_BLOB_SMALL];
};

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
    uint64_t             kill_ns;     /* its worker is to be killed then (UINT64_MAX: it was); 0: not */
    uint64_t             progress_ns; /* when a completion last came, or the lane was idle */
    uint64_t             looked_ns;   /* when own_lane_look last read the claims */
    uint64_t             worker;
    uint32_t             node;
    int32_t              pid;
    uint32_t             index; /* in own->lanes */
    bool                 is_remote, is_recalled, is_broken;
    struct own_task     *tasks[LANE_SLOTS];
};

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
    uint64_t          task_ns; /* running mean of what a task takes */
    uint64_t          idle_since_ns;
    uint64_t          surplus_since_ns;
    bool              is_told; /* CTL_CLASS was sent */
    bool              is_over; /* its placement group was removed: it is freed when nothing of it is under way */
};

/* ---- actors ---- */
enum own_actor_state {
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
    int32_t             restarts_left; /* < 0: without limit */
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
    struct own_lane    *next_lane; /* granted before the news came that `lane` has ended */
    struct own_queue    queue;     /* calls not yet on the lane, in order */
    struct own_queue   *groups;    /* the same of each named concurrency group, OWN_GROUPS of them; NULL: none was called */
    struct own_task    *create;    /* creator's: kept for restarts */
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
    struct own         *own;
};

/* What step wants done outside. The caller empties it after every call. */
struct own_out {
    struct lane_park *wake[32];
    uint32_t          wake_count;
    mt_buf            up; /* whole records, padded to 64, for the up ring */
    MT_VEC(void *) unmap; /* lanes that nobody uses any more */
    MT_VEC(struct own_death) deaths;
    struct own_waiter *callbacks, *callbacks_last; /* that are due, oldest first; each is the caller's to free */
    bool               is_starved;                 /* something that others wait for was lost: no memory. The process can't go on */
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
struct own_monitor {
    mt_id    id;
    mt_id    actor; /* whose worker it watches; zero: an owner, a borrower, or a node */
    uint64_t process;
    uint32_t node;
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

enum { OWN_REQUEST_VOID = 1 << 16 }; /* a CTL_OP_ACTOR with CTL_ACTOR_VOID */
struct own_request {                 /* of an actor, to the raylet or the head */
    mt_id    actor;
    uint32_t kind; /* CTL_LANE_WANT, CTL_OP_NAME_PUT, CTL_OP_ACTOR or OWN_REQUEST_VOID */
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

struct own {
    uint64_t              process;
    uint32_t              node, epoch, job;
    int32_t               pid;           /* for people; the shell sets it */
    uint32_t              cpus;          /* that this node's processes may use; 0: not known. The shell sets it */
    uint32_t              crowded_ticks; /* in a row that found two workers on one cpu and another without any */
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
    uint64_t          queued_bytes;
    struct own_queue  kept;                 /* finished tasks that may run again, oldest first */
    uint64_t          kept_bytes, kept_max; /* of them and of values that only they hold */
    mt_map            lost_nodes;           /* node -> number of the news that it died, drawn from `counter` */
    struct own_task  *given_up;             /* no longer kept, on their way to be freed, by `next` */
    bool              is_giving_up;         /* somebody up the stack frees them */
    struct own_queue  woken;                /* tasks and calls in any order whose arguments are ready */
    struct own_actor *woken_actors;         /* whose queues may move, last posted first */
    bool              is_moving_woken;      /* somebody up the stack takes them from there */
    struct own_extra *gone_extras;          /* of freed refs: what they declare is still to be dropped */
    bool              is_dropping_extras;   /* somebody up the stack does */
    uint64_t          again_count;          /* tasks that were run again for a lost value */
    struct own_out    out;
    struct own_wait  *wait; /* NULL: the tasks' thread does not wait, or may have others beside it */
    uint64_t          wait_count;
    mt_map            refs;       /* id -> own_ref: those that other processes know, or borrowed */
    mt_map            classes;    /* key -> own_class */
    mt_map            actors;     /* id -> own_actor */
    mt_map            borrows;    /* of (ref, process) -> own_borrow */
    mt_map            monitors;   /* monitor id -> own_monitor */
    mt_map            peers;      /* process -> monitor of an owner or borrower */
    mt_map            requests;   /* id -> own_request */
    mt_map            early_ends; /* lease -> ctl_ended that has overtaken its grant (rings and socket are not ordered) */
    mt_map            unwanted;   /* lease -> 1: given up when it was granted; its end is expected */
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

/* Sets memory aside for what may not fail: before each control record and at each tick. ENOMEM: as far as it went. */
mt_status own_prepare(struct own *own);
void      own_init(struct own *own, uint64_t process, uint32_t node, uint32_t epoch, uint32_t job);
/* The job is over: refs that the user holds are left with their inline values or failures, handles of actors and generators as dead
 * ones; all else is freed. What has not come fails with `code` and `text` (0: nobody will ask; the lanes may be unmapped). */
void own_close(struct own *own, int32_t code, const char *text);
/* own_init after own_close, or of zeroed memory: what was left is this process's own, under new ids. */
void own_reopen(struct own *own, uint64_t process, uint32_t node, uint32_t epoch, uint32_t job);
/* Frees everything; handles of the user must not be used afterwards. */
void own_fini(struct own *own);

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
/* The class for these needs, made at its first use; NULL only without memory. An actor's class is its own: `id`. */
struct own_class *own_class_get(struct own *own, const struct own_class_spec *spec, mt_id actor);
struct own_class *own_class_of_id(const struct own *own, uint32_t class_id); /* NULL: there is none any more */
/* The class of an actor that is gone: it is given up and freed. */
void own_class_retire(struct own *own, struct own_class *cls);
/* That placement group was removed: what its classes hold is freed in time. */
void own_group_over(struct own *own, mt_id pg);
/* Moves ready tasks to lanes and tells the raylet how many leases are wanted. */
void own_class_pump(struct own *own, struct own_class *cls);
void own_class_tick(struct own *own, struct own_class *cls);
/* A task that is ready: behind its equals, with a higher priority before what has not begun; or back at its place. */
void               own_class_push(struct own *own, struct own_class *cls, struct own_task *task);
void               own_class_push_back(struct own_class *cls, struct own_task *task);
void               own_class_remove(struct own_class *cls, struct own_task *task);
struct own_task   *own_class_pop(struct own_class *cls);
static inline bool own_class_has_queued(const struct own_class *cls)
{
    return cls->queue.first || cls->leveled;
}
void own_class_demand(struct own *own, struct own_class *cls, uint32_t wanted);
/* The process has finished what it was doing: leases of classes without work go back at once. */
void own_release_idle(struct own *own);
void own_class_refused(struct own *own, const struct ctl_unschedulable *why);

/* ---- tasks and refs: task.c, ref.c ---- */
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
/* Submits; the ref comes with one hold. NULL only without memory. */
struct own_ref *own_submit(struct own *own, const struct own_call *call);
/* A ref that is ready from the start: a put (place), a small value, or a failure (copied). NULL without memory. */
struct own_ref *own_ref_new(struct own *own, mt_id id);
struct own_ref *own_ref_failed(struct own *own, const struct own_failure *failure);
mt_id           own_id_next(struct own *own);
void            own_refs_settle(struct own *own, int32_t code, const char *text); /* of own_close: before all tasks go, ... */
void            own_refs_pack(struct own *own);                                   /* ... and after; of own_reopen; of own_fini */
void            own_refs_adopt(struct own *own);
void            own_refs_fini(struct own *own);
void            own_ref_hold(struct own_ref *ref);
void            own_ref_drop(struct own *own, struct own_ref *ref);
/* The value goes now, whoever holds the ref; of another's, its owner is told. False: there is none yet. */
bool own_ref_free_now(struct own *own, struct own_ref *ref);
void own_failure_freed(struct own_failure *f);
/* Nobody holds it any more: for who has changed one of the counts. */
void own_ref_unheld(struct own *own, struct own_ref *ref);
/* Tells all who wait for it. Tasks and actors among them are posted, and moved on before the outermost call returns: a chain
 * of tasks is as long as the user made it, and the stack is not. */
void own_ref_wake(struct own *own, struct own_ref *ref);
/* The actor's queues are looked at when own_woken_move is next there. */
void own_actor_post(struct own *own, struct own_actor *actor);
/* Moves on what was posted; nothing where somebody up the stack is at it. */
void own_woken_move(struct own *own);
/* The bytes of a value that nobody of this process or of others needs. */
void own_ref_value_free(struct own *own, struct own_ref *ref);
/* The value is there: wakes tasks and processes that wait for it. `data` is copied. */
void own_ref_set_inline(struct own *own, struct own_ref *ref, uint8_t type, const void *data, uint32_t size);
void own_ref_set_place(struct own *own, struct own_ref *ref, const struct lane_ref *place);
void own_ref_set_failed(struct own *own, struct own_ref *ref, const struct own_failure *failure);
/* A borrowed handle on somebody else's ref (or the ref itself, if it is ours), with one hold. NULL without memory. */
struct own_ref *own_ref_borrow(struct own *own, const struct lane_ref *wire);
/* The wire form; from now on other processes know it. */
void own_ref_wire(struct own *own, struct own_ref *ref, struct lane_ref *out);
/* Takes `waiter` (another process, or a callback): answered at once if the value is there, else when it comes. */
void own_ref_add_waiter(struct own *own, struct own_ref *ref, struct own_waiter *waiter);
/* A borrowed ref without value: ask its owner (once). */
void own_ref_ask(struct own *own, struct own_ref *ref);
/* A copy, or one more hold of what this has given before; without memory what stands for it. Never NULL; own_failure_free
 * takes it (NULL too). */
struct own_failure *own_failure_new(struct own *own, const struct own_failure *why);
void                own_failure_free(struct own *own, struct own_failure *failure);
void                own_failure_set(struct own_failure *f, int32_t code, const char *format, ...) MT_PRINTF(3, 4);

uint8_t *own_blob_new(struct own *own, struct own_task *task, size_t size); /* NULL without memory */
void     own_blob_free(struct own *own, struct own_task *task);
void     own_task_finish(struct own *own, struct own_task *task); /* frees it and what it holds */
void     own_task_fail(struct own *own, struct own_task *task, const struct own_failure *why);
/* The raylet is gone, and no answer comes any more. True: the task has not begun, and from now on it never will. False: it may
 * have run. */
bool own_task_withdraw(const struct own_task *task);
/* For errors: "function", or "actor.method". */
void own_task_name(const struct own_task *task, char *out, size_t room);
void own_task_retry_or_fail(struct own *own, struct own_task *task, const struct own_failure *why);
/* Its arguments are there: encodes them. False: one of them failed, and so did the task, which is gone. */
bool own_task_ready(struct own *own, struct own_task *task);
void own_task_argument_ready(struct own *own, struct own_task *task);
/* It was in own->woken: on to its class's or its actor's queue, or its ref fails. */
void      own_task_woken(struct own *own, struct own_task *task);
mt_status own_task_encode(struct own *own, struct own_task *task);
/* Its arguments are encoded anew before it is sent again. */
void own_task_unencode(struct own *own, struct own_task *task);
/* Notes the task with each argument whose value is still to come. False: no memory. */
bool own_task_wait(struct own *own, struct own_task *task);
/* Back among those that are free; its arguments and results are let go. */
void             own_task_free(struct own *own, struct own_task *task);
void             own_queue_push(struct own_queue *q, struct own_task *task);
void             own_queue_push_front(struct own_queue *q, struct own_task *task);
void             own_queue_insert(struct own_queue *q, struct own_task *task, struct own_task *before); /* NULL: at the end */
struct own_task *own_queue_pop(struct own_queue *q);
void             own_queue_remove(struct own_queue *q, struct own_task *task);

/* ---- cancelling: cancel.c ---- */
enum { OWN_CANCEL_ASKED = 8 }; /* in own_task.cancel, beside the flags of message.h */
enum own_cancelled {
    OWN_CANCELLED_NOT = 0,   /* it has finished, or nothing makes this value */
    OWN_CANCELLED_NEVER = 1, /* it will never run: its ref has failed */
    OWN_CANCELLED_TOLD = 2,  /* it runs, or its owner is elsewhere: that side has been told */
    OWN_CANCELLED_FULL = 3,  /* no room to tell it: try again */
};
enum own_cancelled own_cancel(struct own *own, struct own_ref *ref, uint32_t flags);
void               own_cancel_message(struct own *own, const uint8_t *bytes, size_t size);
void               own_cancel_tick(struct own *own, struct own_lane *lane);
/* The end of a task whose cancel was asked. */
void own_cancel_done(struct own *own, struct own_task *task);

/* ---- tasks that a waiting task runs itself: here.c ---- */
/* A task of ours that `ref` waits for (itself, or what it has as arguments), that has not begun and that needs nothing but
 * at most `cpu_milli` of CPU on this node. NULL: none. */
struct own_task *own_here_find(const struct own *own, const struct own_ref *ref, int64_t cpu_milli);
/* Takes that one out of its queue or its lane. False: it has begun meanwhile. */
bool own_here_take(struct own_task *task);

/* ---- what only few refs have: extra.c ---- */
struct own_extra *own_extra_of(struct own *own, const struct own_ref *ref); /* NULL: nothing */
struct own_extra *own_extra_get(struct own *own, struct own_ref *ref);      /* NULL: no memory */
void              own_extra_drop(struct own *own, struct own_ref *ref);
/* `ref` keeps the refs alive; `take_refs` (malloc) with one hold each. */
mt_status own_ref_declare(struct own *own, struct own_ref *ref, struct own_ref **take_refs, uint32_t count);
void      own_refs_drop(struct own *own, struct own_ref **take_refs, uint32_t count);
/* The refs that a place on its way to this process declares, borrowed; an array as own_ref_declare takes it. */
struct own_ref **own_refs_of_wire(struct own *own, const uint8_t *wire, uint32_t count);
/* Asks the owner of a borrowed value to know that we hold the refs which it declares. */
void own_declared_ask(struct own *own, struct own_ref *ref);
void own_declared_message(struct own *own, const struct ctl_message *from, const uint8_t *bytes, size_t size);
/* The callback is due when the ref is ready, or (on_free) when no process holds it. False: no memory. */
bool own_ref_callback(struct own *own, struct own_ref *ref, bool on_free, void (*fn)(void), void *user);
void own_callback_due(struct own *own, struct own_waiter *callback);

/* ---- lanes: lane.c ---- */
mt_status own_lane_open(struct own *own, const struct ctl_grant *grant, void *memory, struct lane_park *peer,
                        struct own_lane **out);
bool      own_lane_send(struct own *own, struct own_lane *lane, struct own_task *task); /* false: full */
void      own_lane_publish(struct own *own, struct own_lane *lane);
void      own_lane_poll(struct own *own, struct own_lane *lane);
void      own_lane_look(struct own *own, struct own_lane *lane); /* where nothing moves: do its claims make sense? */
/* What LANE_DONE says of a task that has left its slot. */
mt_status own_task_outcome(struct own *own, struct own_lane *lane, struct own_task *task, const struct lane_record *record,
                           const uint8_t *payload, size_t size);
/* The task has left its slot. */
void     own_lane_clear(struct own_lane *lane, struct own_task *task);
void     own_lane_recall(struct own *own, struct own_lane *lane);
uint32_t own_lane_revoke(struct own *own, struct own_lane *lane, uint32_t keep);
void     own_lane_ended(struct own *own, struct own_lane *lane, const struct ctl_ended *why);

/* ---- actors: actor.c ---- */
/* `create` brings function (hash of the type's name), arguments and name. NULL only without memory. */
/* Why a call of an actor that is dead fails. */
void              own_actor_failure(const struct own_actor *actor, const char *method, struct own_failure *out);
struct own_actor *own_actor_new(struct own *own, const struct own_class_spec *spec, const char *space, const char *public_name,
                                int32_t restarts, int32_t call_retries, const struct own_call *create);
struct own_actor *own_actor_borrow(struct own *own, const struct own_actor_wire *wire);
void              own_actor_wire(const struct own_actor *actor, struct own_actor_wire *out);
void              own_actor_drop(struct own *own, struct own_actor *actor);
/* The actor's own words to its creator: LANE_EXIT, LANE_SAVED. */
mt_status own_actor_says(struct own *own, struct own_actor *actor, const struct lane_record *record, const uint8_t *payload);
void      own_actor_kill(struct own *own, struct own_actor *actor, bool restart);
/* Calls in their queues, one a concurrency group: calls.c. */
struct own_queue *own_actor_queue(struct own_actor *actor, const struct own_task *task);
mt_status         own_actor_add(struct own *own, struct own_actor *actor, struct own_task *task);
/* A call that is made again for its lost value: before those that were made later, which may wait for it. */
void     own_actor_add_again(struct own *own, struct own_actor *actor, struct own_task *task);
uint32_t own_actor_pending(const struct own_actor *actor);
bool     own_actor_has_queued(const struct own_actor *actor);
void     own_actor_pump(struct own *own, struct own_actor *actor);
void     own_actor_fail_calls(struct own *own, struct own_actor *actor);
void     own_actor_ask_where(struct own *own, struct own_actor *actor);
void     own_actor_granted(struct own *own, struct own_actor *actor, struct own_lane *lane);
void     own_actor_created(struct own *own, struct own_actor *actor, struct own_task *create, const struct own_failure *failure);
void     own_actor_lane_ended(struct own *own, struct own_actor *actor, const struct ctl_ended *why);
void     own_actor_refused(struct own *own, struct own_actor *actor, int32_t code, const char *text);
void     own_actor_message(struct own *own, uint32_t subject, const struct ctl_message *from, const uint8_t *bytes, size_t size);
void     own_actor_watch(struct own *own, struct own_actor *actor, bool on);
void     own_actor_tick(struct own *own);
/* `bytes`: what stands behind the reply. */
void own_actor_reply(struct own *own, const struct own_request *request, const struct ctl_reply *reply, const uint8_t *bytes,
                     size_t size);
void own_actor_die_of(struct own *own, struct own_actor *actor, int32_t code, const char *text);
/* Of a detached one: detached.c. */
void own_detached_where(struct own *own, struct own_actor *actor); /* asks the head for its warden */
void own_detached_at(struct own *own, struct own_actor *actor, const struct ctl_reply *reply, const uint8_t *bytes, size_t size);
void own_detached_lost(struct own *own, struct own_actor *actor); /* its warden is gone: the head has or will have another */
/* Of a strict one, likewise: its lease was lost with its node. */
void               own_strict_lost(struct own *own, struct own_actor *actor, uint64_t lease, uint32_t node);
void               own_strict_replied(struct own *own, struct own_actor *actor, int32_t code);
void               own_strict_tick(struct own *own, struct own_actor *actor);
static inline bool own_strict_may_create(const struct own *own, const struct own_actor *actor)
{
    return !actor->void_lease && own->now_ns >= actor->create_ns;
}
void own_detached_tell(struct own *own, const struct own_actor *actor, enum ctl_actor_verb verb, const char *why);
void own_actor_worker_died(struct own *own, struct own_actor *actor, const struct ctl_death *death);
void own_actor_owner_died(struct own *own, struct own_actor *actor, int32_t code, const char *text);

/* ---- messages and monitors: message.c ---- */
/* Appends one record for the up ring. */
void own_out_record(struct own_out *out, uint16_t kind, uint32_t epoch, mt_id id, const void *payload, size_t size);
void own_out_death(struct own *own, const struct own_death *news);
void own_send(struct own *own, uint16_t kind, mt_id id, const void *payload, size_t size);
void own_send_message(struct own *own, uint64_t process, uint32_t node, uint32_t subject, const void *head, size_t head_size,
                      const void *rest, size_t rest_size);
/* The process is an owner or a borrower: its death ends what is bound to it. */
void own_watch_peer(struct own *own, uint64_t process, uint32_t node);
/* Process 0 watches the node itself. A zero id: no memory. */
mt_id     own_monitor_new(struct own *own, uint64_t process, uint32_t node, mt_id actor);
void      own_monitor_end(struct own *own, mt_id monitor);
void      own_message(struct own *own, const struct ctl_message *from, const uint8_t *bytes, size_t size);
void      own_bounced(struct own *own, const struct ctl_bounce *bounce);
void      own_died(struct own *own, mt_id monitor, const struct ctl_death *death);
mt_status own_request_new(struct own *own, mt_id id, mt_id actor, uint32_t kind);
void      own_ref_tell(struct own *own, struct own_ref *ref, uint64_t process, uint32_t node);
void      own_borrow_add(struct own *own, struct own_ref *ref, uint64_t process, uint32_t node);
void      own_borrow_remove(struct own *own, mt_id ref, uint64_t process);

/* ---- looking in: look.c ---- */
/* CTL_LOOK (payload: lane_look), answered by CTL_LOOKED. EPROTO: it is too short. */
MT_MUST_USE mt_status own_looked_at(struct own *own, const struct lane_record *record, const uint8_t *payload);

/* ---- who waits for whom: probe.c ---- */
/* Around a wait of the one thread that runs tasks; the two are nested. The wait is over as well when is_deadlocked. */
void own_wait_begin(struct own *own, struct own_wait *wait, struct own_ref *ref, const char *name);
void own_wait_end(struct own *own, const struct own_wait *wait);
void own_probe_tick(struct own *own);
void own_probe_came(struct own *own, const uint8_t *bytes, size_t size);

/* ---- events: own.c ---- */
/* A control record from the raylet. For CTL_GRANT the shell has mapped lane and park page (both NULL otherwise).
 * EPROTO: the raylet broke the protocol. Kinds that are not the owner's are ignored. */
MT_MUST_USE mt_status own_control(struct own *own, const struct lane_record *record, const uint8_t *payload, void *lane,
                                  struct lane_park *park);
/* Serves the completion rings of all lanes. Returns whether anything was there. */
bool own_poll(struct own *own);
/* Where the workers are for whose outcomes we wait, seen from this cpu (+ 1); 0: nothing is under way. */
enum own_where { OWN_HERE = 1, OWN_ELSEWHERE = 2 };
unsigned own_where_served(const struct own *own, uint32_t cpu);
/* At each tick: asks a worker to move (lane_park.leave) that has shared a cpu with another for some ticks, while there is
 * a cpu without any. */
void own_spread(struct own *own);
/* Shows every worker what was submitted. */
void own_flush(struct own *own);
/* About once a millisecond while there is work, else each time the process wakes. */
void own_tick(struct own *own, uint64_t now_ns);

static inline void own_wake(struct own *own, struct lane_park *park)
{
    struct own_out *out = &own->out;
    for (uint32_t i = 0; i < out->wake_count; i++)
        if (out->wake[i] == park)
            return;
    if (out->wake_count == sizeof out->wake / sizeof out->wake[0])
        lane_park_wake(out->wake[--out->wake_count]); /* more sleepers than room: rouse one early */
    out->wake[out->wake_count++] = park;
}

/* This process begins a task, and ends it. */
static inline void own_run_begin(struct own *own, mt_id id)
{
    own->run.id = id;
    own->run.number = ++own->run_count;
    own->run.items = 0;
    own->run_submits = false;
}
static inline void own_run_end(struct own *own)
{
    if (own->run_submits)
        own->past_runs[own->run.number % OWN_PAST_RUNS] = own->run;
    own->run.id = (mt_id){0, 0};
}
/* The same for a task that is run while another one waits. */
static inline void own_run_begin_inside(struct own *own, mt_id id, struct own_outer_run *outer)
{
    *outer = (struct own_outer_run){own->outer_runs, own->run, own->run_submits};
    own->outer_runs = outer;
    own_run_begin(own, id);
}
static inline void own_run_end_inside(struct own *own)
{
    const struct own_outer_run *outer = own->outer_runs;
    own_run_end(own);
    own->run = outer->run;
    own->run_submits = outer->submits;
    own->outer_runs = outer->outer;
}

#endif
