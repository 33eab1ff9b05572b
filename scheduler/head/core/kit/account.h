/* SPDX-License-Identifier: Apache-2.0
 *
 * account.h - rows of what was spent: by whom, for which job, on which day; and how far each node's word is counted.
 */
#ifndef HEAD_KIT_ACCOUNT_H
#define HEAD_KIT_ACCOUNT_H

#include "core/ds/map.h"
#include "core/ds/vec.h"
#include "scheduler/head/core/kit/asked.h"
#include "scheduler/head/core/kit/index.h"

/* In the units of Spent (manta.proto). */
struct spent {
    uint64_t cpu_us, gpu_us, memory_mib_ms, cost_micro;
};

struct account_day {
    uint32_t     day; /* since 1970, UTC */
    struct spent spent;
    bool         is_changed;
};
enum user_bound { USER_CPU, USER_GPU, USER_MEMORY, USER_RUNNING, USER_WAITING, USER_BOUNDS };
#define USER_NO_BOUND UINT64_MAX

struct account { /* of a user */
    struct head_index_node at;
    char                   user[HEAD_NAME_SIZE]; /* "": nobody's */
    double                 usage;                /* by the scale of head_account.epoch_ms (scheduler/policy/share.h) */
    uint64_t               weight_milli;
    uint64_t               bounds[USER_BOUNDS];    /* of what he may have at a time */
    uint64_t               wished[USER_BOUNDS];    /* by his jobs that were started; how many; and how many wait. Not stored */
    uint64_t               measured[USER_RUNNING]; /* what all that is his holds, by the nodes' last word. Not stored */
    struct spent           spent;                  /* ever */
    bool                   is_changed;             /* in this step */
    MT_VEC(struct account_day) days;               /* in their order; the oldest go */
};

struct bill { /* of a job that is in the table of jobs */
    struct head_index_node at;
    char                   job[HEAD_JOB_ID_SIZE];
    struct spent           spent;
};

struct payer { /* who pays for what is held under the number that a driver has drawn */
    uint64_t number;
    char     user[HEAD_NAME_SIZE], job[HEAD_JOB_ID_SIZE]; /* job "": a program that was started by hand */
};

struct meter_rate { /* what somebody held when his node last said so */
    char     user[HEAD_NAME_SIZE], job[HEAD_JOB_ID_SIZE];
    uint64_t cpu_milli, gpu_milli, memory_mib, node_milli;
};
struct meter { /* of a node that is not dead */
    uint32_t node;
    uint64_t boot, said;             /* of its raylet; the last message of that one that is counted */
    uint64_t counted_ms;             /* when that came; not stored */
    uint64_t unknown_ms;             /* since then its next message names somebody of whom nobody says who he is; 0: it does not */
    MT_VEC(struct meter_rate) rates; /* not stored */
};

struct head_account {
    uint64_t          epoch_ms;   /* wall clock: what is used then counts once; 0: nothing was counted yet */
    struct head_index users;      /* struct account */
    struct head_index bills;      /* by job */
    mt_map            payers;     /* number -> struct payer */
    MT_VEC(uint64_t) payer_order; /* the longest known first */
    mt_map meters;                /* node -> struct meter */
};

#endif
