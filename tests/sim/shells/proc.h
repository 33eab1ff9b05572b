/* SPDX-License-Identifier: Apache-2.0
 *
 * proc.h - one process: the shell around the owner and worker halves, and what it is busy with.
 */
#ifndef SIM_PROC_H
#define SIM_PROC_H

#include "clients/lib/owner/own.h"
#include "clients/lib/worker/wrk.h"
#include "tests/sim/load/group.h"
#include "tests/sim/load/object.h"
#include "tests/sim/oracle.h"

enum {
    SIM_CHILDREN_MAX = 6,
    SIM_HANDLES_MAX = 3,
    SIM_KEPT_MAX = 12, /* refs that a driver keeps for later arguments */
};

/* Cells of tasks of another process. */
struct sim_board {
    struct sim_mem *memory;
    uint64_t        owner; /* on another node: the board is of this one; 0: on this node */
};

/* The functions that workers know; numbers stand for the hashes of their names. */
enum sim_function {
    SIM_FN_LEAF = 1,   /* (l): f(x) */
    SIM_FN_NEST = 2,   /* (l): submits children, waits for them, adds them up */
    SIM_FN_ERROR = 3,  /* (l): fails by itself */
    SIM_FN_VALUE = 4,  /* (l, value of a ref): both, mixed; of an odd number as a value in the store */
    SIM_FN_BORROW = 5, /* (l, ref): asks the ref's owner for the value */
    SIM_FN_CALLER = 6, /* (l, actor): calls the actor and waits for the answer */
    SIM_FN_STREAM = 7, /* (l): yields items */
    SIM_FN_LARGE = 8,  /* (l): f(x), as a value in the store */
    SIM_FN_MIX = 10,   /* as SIM_FN_VALUE, of a class that stays on its node where it can */
    SIM_FN_LEND = 9,   /* (l): puts f(x), or has it made, and lends it to a task that borrows */
    SIM_FN_ACTOR = 100,
    SIM_FN_ADD = 101, /* method (l) */
};

struct sim_message { /* on the unix socket */
    struct lane_record record;
    uint8_t           *payload;
    struct sim_mem    *mem[2];
    uint64_t           fork_conn;
};

struct sim_mapping {
    struct sim_mem *lane, *park;
};

struct sim_item { /* what a driver or a running task waits for */
    struct own_ref     *ref;
    struct sim_task    *task;    /* NULL: a borrowed or lent value */
    struct sim_reading *read;    /* of a value in the store; NULL: not begun */
    uint64_t            read_at; /* not before */
};

enum sim_phase {
    SIM_RUN_ARGUMENT = 0, /* reads a value that came by place */
    SIM_RUN_COMPUTE = 1,
    SIM_RUN_LEND = 2, /* puts a value, to lend it */
    SIM_RUN_WAIT = 3, /* for its children */
    SIM_RUN_YIELD = 4,
    SIM_RUN_STORE = 5,  /* writes its result into the store */
    SIM_RUN_REPORT = 6, /* the outcome goes into the ring, when there is room */
};

/* The task that a worker runs. */
struct sim_run {
    bool                is_active;
    enum sim_phase      phase;
    int32_t             code; /* why it fails */
    struct wrk_run      run;
    struct sim_task    *task;
    uint64_t            until; /* virtual time at which the present phase of computing ends */
    uint64_t            began;
    int64_t             x, y;
    struct own_wait     wait;
    bool                is_probed;                  /* it is in `wait` */
    struct sim_item     children[SIM_CHILDREN_MAX]; /* what it waits for */
    int                 child_count;
    bool                is_waiting; /* as clients/lib/shell/wait has it: the CPU is given back meanwhile */
    struct sim_reading *argument;
    struct sim_writing  writing;
    struct sim_value   *written;
    struct own_ref     *lent;
    struct lane_ref     place; /* of a result in the store */
    bool                is_stored;
    bool                saves; /* a call after which the actor tells its creator a snapshot */
    mt_id               kept;  /* a borrowed ref that stays here; zero: none */
    struct own_actor   *actor;
    uint64_t            yielded;
};

struct sim_taking { /* a generator that a driver takes from */
    struct own_stream *stream;
    struct own_ref    *end;
    int64_t            x;
    uint64_t           next;
};

/* Values that a process holds: its own, results, and those that a worker goes on borrowing after the task that brought
 * them. */
struct sim_held {
    struct own_ref     *ref;
    int64_t             value;
    struct sim_reading *read;    /* a look at it that is under way, or a view that is kept */
    uint64_t            look_at; /* worker: it looks once more then, and lets go; UINT64_MAX: it did */
};
struct sim_hold {
    MT_VEC(struct sim_held) held;
    struct sim_writing put;
    struct sim_value  *putting; /* NULL: nothing */
};

struct sim_handle {
    struct own_actor *actor;
    mt_id             id;
};

enum { SIM_LISTED_MAX = 128 };
struct sim_listed {
    uint32_t node, epoch, state;
};
struct sim_listing {         /* what a driver knows of the nodes */
    struct own_ref   *news;  /* ready: the list is another; NULL: it is to be asked for */
    mt_id             asked; /* for the list; zero: it is here */
    struct sim_listed of[SIM_LISTED_MAX];
    uint32_t          count;
    uint64_t          next_at, check_at; /* it is asked for, and looked at, no sooner */
    uint64_t          stale_since;       /* 0: it is what its raylet knows */
};

struct sim_script { /* of a driver */
    uint32_t ops_left;
    uint64_t next_at;
    MT_VEC(struct sim_item) items;
    MT_VEC(struct sim_taking) streams;
    struct sim_item     kept[SIM_KEPT_MAX];
    int                 kept_count;
    struct sim_handle   handles[SIM_HANDLES_MAX];
    int                 handle_count;
    bool                is_leaving;
    uint64_t            stay_until; /* it does not leave before */
    bool                is_late;    /* started long after the last fault: it looks at the cluster */
    mt_id               find_id;    /* of the request for a name that is under way; zero: none */
    char                find_name[CTL_NAME_SIZE];
    uint64_t            find_at;
    mt_id               nodes_id;    /* of the request for the list of nodes */
    int                 nodes_alive; /* on the pages of it that have come */
    bool                has_looked;  /* at that list */
    struct sim_grouping grouping;
    struct sim_listing  listing;
    uint64_t            settled_at; /* late: nothing of its job is in any store then; 0: it has not let go yet */
};

/* The environment of a driver: its key is drawn from the process number. */
#define SIM_ENV_MIX     UINT64_C(0x5bd1e9955bd1e995)
#define SIM_ENV_REQUEST (UINT64_C(1) << 40) /* counter of the request that defines it */

struct sim_proc {
    struct sim      *s;
    uint64_t         serial;
    int32_t          pid;
    struct sim_node *n;
    uint64_t         conn, process, job;
    enum ctl_role    role;
    bool             is_ready; /* welcomed, with memory */
    bool             in_turn;
    int              killed_in_turn; /* signal that came meanwhile */
    uint64_t         zygote;         /* serial, of a worker */
    uint64_t         env_in;         /* environment that it runs in; 0: none */
    uint64_t         env;            /* driver: one that it has given to its raylet; 0: none (yet) */
    MT_VEC(uint64_t) children;       /* of a zygote */
    struct sim_mem      *lane, *park, *switch_park;
    struct lane_producer up;
    struct lane_consumer down;
    struct own           own;
    struct wrk           wrk;
    struct sim_objects   objects;
    struct sim_hold      hold;
    MT_VEC(struct sim_mapping) mappings;
    struct sim_mem *board;           /* of the cells of its own tasks; NULL: none yet */
    MT_VEC(struct sim_board) boards; /* of others, mapped for a lane */
    MT_VEC(struct sim_message) inbox;
    uint64_t            turn_at; /* of the turn that is due; 0: none */
    uint64_t            paused_until;
    mt_id               group;        /* worker: placement group of its lease; zero: none */
    bool                is_strict;    /* a strict actor's ... */
    uint64_t            strict_until; /* ... which runs until then, by its raylet's word */
    bool                is_frozen;
    uint64_t            ticked_at;
    uint32_t            crash_in; /* steps until it dies of itself; 0: not planned */
    struct sim_run      run;
    struct sim_script   script;
    struct sim_snapshot snapshot;    /* of the actor that lives here: what it is now */
    uint32_t            actor_saves; /* calls between two snapshots that its creator gets; 0: none */
    bool                actor_has_state;
    struct sim_actor   *actor; /* that lives here */
    uint32_t            actor_incarnation;
};

/* A place where a planned crash may happen. True: it did, and the process is gone for good: return at once. */
bool sim_proc_step(struct sim_proc *p);
/* The time of its lease is over: nothing in it runs. */
static inline bool sim_proc_is_frozen(const struct sim_proc *p)
{
    return p->is_strict && p->strict_until <= p->s->now;
}
/* It leaves in order. */
void sim_proc_exit(struct sim_proc *p);

/* ---- load/run.c ---- */
void     sim_worker_work(struct sim_proc *p);
uint64_t sim_run_due(const struct sim_proc *p);
/* Goes on to put what it has `written` into the store. WRITE_FAILED: the run has ended. */
enum sim_written { SIM_NOT_YET, SIM_WRITE_FAILED, SIM_WRITTEN };
enum sim_written sim_run_write(struct sim_proc *p, uint32_t owner_node, struct lane_ref *out_place);

/* ---- load/hold.c ---- */
void            sim_hold_add(struct sim_proc *p, struct own_ref *take_ref, int64_t value, struct sim_reading *take_read);
void            sim_hold_keep(struct sim_proc *p, struct own_ref *take_ref, int64_t value); /* a worker, a borrowed one */
void            sim_hold_op(struct sim_proc *p);
struct own_ref *sim_hold_any(struct sim_proc *p);                             /* NULL: it holds none */
void            sim_hold_drop(struct sim_proc *p, const struct own_ref *ref); /* if nobody reads it */
void            sim_hold_look_soon(struct sim_proc *p, struct sim_held *held);
void            sim_hold_work(struct sim_proc *p);
uint64_t        sim_hold_due(const struct sim_proc *p);
bool            sim_hold_leave(struct sim_proc *p); /* lets all go. False: something is under way */
void            sim_hold_gone(struct sim_proc *p);

/* ---- load/work.c ---- */
struct own_ref *sim_submit(struct sim_proc *p, int fn, const struct own_arg *args, int argc, struct own_actor *actor,
                           int32_t retries, struct sim_task **out_task);
/* A driver's task of that class (whose group is a placement group's), looked at in its turn. */
void            sim_submit_grouped(struct sim_proc *p, const struct own_class_spec *spec, struct sim_task **out_task);
struct own_ref *sim_submit_call(struct sim_proc *p, struct own_actor *actor, uint64_t order, int64_t x, struct sim_task **out_task);
/* Whether the outcome is there, with the bytes of a value that is elsewhere. */
bool sim_item_ready(struct sim_proc *p, struct sim_item *item);
/* What it is; *out_code is not 0 where it failed. */
int64_t sim_item_value(const struct sim_item *item, int32_t *out_code);
/* The outcome, told to the oracle. */
void sim_look_at(struct sim_proc *p, const struct sim_item *item);
void sim_driver_work(struct sim_proc *p);
void sim_driver_gone(struct sim_proc *p);
/* The answer to a request that the driver itself made. */
void sim_driver_replied(struct sim_proc *p, mt_id id, const struct ctl_reply *reply, const uint8_t *bytes, size_t size);
/* When there is something to do without being woken; UINT64_MAX: never. */
uint64_t sim_work_due(const struct sim_proc *p);
int64_t  sim_f(int64_t x);

/* ---- load/news.c ---- */
void sim_news_work(struct sim_proc *p); /* a driver's */
void sim_news_leave(struct sim_proc *p);
/* An answer. False: it is another's. */
bool sim_news_replied(struct sim_proc *p, mt_id id, const uint8_t *bytes, size_t size);

/* ---- load/stream.c ---- */
/* The running generator goes on. True: it has yielded all, or nobody wants more. */
bool sim_stream_yield(struct sim_proc *p);
void sim_stream_open(struct sim_proc *p, struct own_stream *stream, struct own_ref *end, int64_t x);
void sim_stream_work(struct sim_proc *p);

#endif
