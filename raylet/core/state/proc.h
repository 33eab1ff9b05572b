/* SPDX-License-Identifier: Apache-2.0
 *
 * proc.h - the processes of this node, who hears of their ends, and the memory that they share.
 */
#ifndef RLT_STATE_PROC_H
#define RLT_STATE_PROC_H

#include "core/ds/vec.h"
#include "raylet/core/kit/action.h"
#include "raylet/core/kit/list.h"
#include "raylet/core/state/timer.h"

struct rlt_job;
struct rlt_lease;

typedef MT_VEC(struct rlt_program_file) rlt_program_files;

enum rlt_proc_state {
    PROC_GREETING, /* connected or forked; CTL_HELLO has not come */
    PROC_ALIVE,
    PROC_DYING, /* its end is known; its rings are being read, its status is awaited */
};

struct rlt_wish { /* what it would use beyond what it has, and what the head said of that last */
    struct ctl_wish      asked;
    struct ctl_wish_news news;
};

struct rlt_proc {
    uint64_t            conn;
    uint64_t            process; /* 0 before CTL_HELLO */
    enum rlt_proc_state state;
    uint32_t            role;    /* enum ctl_role; 0 before CTL_HELLO */
    uint32_t            version; /* spoken with it; 0 before CTL_HELLO */
    int32_t             pid;
    int32_t             leader;   /* the first process of the submitted job that it comes from; 0: of none */
    bool                is_child; /* zygote or worker: a wait status will come */
    bool                has_status;
    bool                is_asked; /* RLT_A_STATUS was said */
    bool                is_drained;
    bool                has_names;  /* it has put a name at the head */
    bool                has_remote; /* it has had leases on other nodes: what it owns may lie there */
    bool                is_leaving; /* CTL_SHUTDOWN was sent */
    bool                is_unable;  /* a worker that could not take over what it was given; `crash` says why */
    bool                is_lacking; /* a zygote or worker for which the node had no memory or descriptors; `crash` says what */
    bool                is_keeper;  /* the driver that a private raylet is for: it ends with it, greeted or not */
    int32_t             status;
    char               *crash; /* what it wrote when it died; NULL: nothing */
    char   *stopped; /* why it is being stopped: the node is short of memory, its placement group was removed; NULL: it is not */
    int32_t stopped_code;
    struct rlt_timer timer; /* greeting, dying or leaving */
    struct rlt_job  *job;

    struct rlt_list classes;                     /* rlt_class.in_owner */
    uint32_t        class_count, class_sweep_at; /* at that count, actors' classes that are over are looked for */
    struct rlt_list owned;                       /* rlt_lease.in_owner: it is the owner or caller */
    struct rlt_list served;                      /* rlt_lease.in_worker: it is the worker */
    struct rlt_list monitors;                    /* rlt_monitor.in_watcher */

    /* worker */
    uint64_t          forked_by; /* conn of its zygote */
    struct rlt_lease *lease;     /* task or actor; NULL: warm and idle, or starting */
    struct rlt_list   in_idle;
    uint64_t          idle_since;
    uint64_t          killed_at; /* when SIGKILL was last sent; its end is not known yet. 0: it was not */
    bool              is_ready;  /* it has greeted, and its zygote has said its pid */
    bool              is_blocked;
    bool              was_dirty; /* has served an actor or held a GPU: not given to others */

    rlt_program_files files; /* of a driver that has not greeted yet */
    MT_VEC(struct rlt_wish) wishes;
    mt_id news[CTL_NEWS]; /* requests that are answered with the next news of nodes; zero: none */
};

struct rlt_monitor {
    mt_id            id;
    struct rlt_proc *watcher; /* NULL: on another node */
    uint32_t         watcher_node;
    uint64_t         process; /* watched; 0: the node */
    uint32_t         node;    /* of the watched */
    struct rlt_list  in_watcher, in_all;
};

#define RLT_REGION_BYTES_MAX (UINT64_C(1) << 40)

struct rlt_region {
    uint32_t number;
    uint64_t size;
    uint64_t job;
    uint64_t owner;           /* whose cells it holds, a process of another node; 0: it holds none */
    MT_VEC(uint64_t) members; /* conns */
};

#endif
