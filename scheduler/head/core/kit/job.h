/* SPDX-License-Identifier: Apache-2.0
 *
 * job.h - rows of the tables of jobs, of who waits for their ends, and of their files.
 */
#ifndef HEAD_JOB_H
#define HEAD_JOB_H

#include "core/ds/heap.h"
#include "core/ds/sorted.h"
#include "core/proto/manta.pb-c.h"
#include "scheduler/head/core/kit/asked.h"
#include "scheduler/head/core/kit/index.h"
#include "core/base/limits/scaler.h"
#include "scheduler/policy/policy.h"

typedef Manta__V1__JobInfo  job_info;
typedef Manta__V1__JobReply job_reply;
typedef Manta__V1__JobSpec  job_spec;

/* X(name, text on the wire) */
/* clang-format off */
#define JOB_STATES(X) \
    X(PENDING, "PENDING") X(STARTING, "PENDING") X(RUNNING, "RUNNING") \
    X(STOPPED, "STOPPED") X(SUCCEEDED, "SUCCEEDED") X(FAILED, "FAILED")
/* clang-format on */
enum job_state {
#define X(name, text) JOB_##name,
    JOB_STATES(X)
#undef X
        JOB_STATE_COUNT
};

struct account;

/* Jobs that have not ended of one user and one priority, and that want the same: those of them that wait are judged once. */
struct bucket {
    struct head_index_node at;
    char                  *key;
    struct policy_request  request;
    mt_sorted              ready, parked; /* those that wait, by order: for room alone, and for something else before */
    uint32_t               members;       /* all */
    bool                   is_full;       /* its first was tried, and found no room in what is free now */
    bool                   is_short;      /* the last that has ended ran for a moment only */
    bool                   is_over;       /* its user has what he may have, or its array: it is not tried */
    const struct array    *limited;       /* of which all of its jobs are, and which lets so many run; NULL: nothing does */
    struct job            *paced;         /* its only one, which has a deadline; NULL: they have none */
    char                   paced_why[MT_SCL_WHY_SIZE]; /* why it may not begin on any node; "": it may */
    uint64_t               promised;                   /* order of its job for which room is reserved, + 1; 0: of none */
    char                   promise[HEAD_TEXT_SIZE];
    char                   why[HEAD_TEXT_SIZE]; /* why not; "": none was tried yet */
};

struct array {
    struct head_index_node at;
    char                   id[HEAD_JOB_ID_SIZE];
    mt_sorted              jobs; /* that are there, by order, so by index */
    uint32_t               in[JOB_STATE_COUNT];
    uint32_t               waits; /* parked WaitJob calls */
    uint32_t               most;  /* of them that run at a time; 0: all that find room */
};

struct awaited { /* what jobs wait for: an end of a job, or those of an array */
    struct head_index_node at;
    char                   key[HEAD_JOB_ID_SIZE + 16]; /* kind and id */
    mt_sorted              waiters;
};
struct waiter { /* for spec->after[i] of the job */
    mt_sorted_node  node;
    struct awaited *of; /* NULL: it holds */
    struct job     *job;
};

struct job {
    struct head_index_node at;
    job_spec              *spec;
    struct account        *account; /* the user's */
    const char            *user;    /* whose token it was submitted with; "": a warden's. The account's text, or its own copy */
    enum job_state         state;
    bool                   stop_requested;
    bool                   is_ahead; /* STARTING: it waits on its node for room, and holds nothing; not stored */
    bool                   log_is_full;
    bool                   is_held;
    char                  *reason; /* of its last attempt, or its end; NULL: none. Of one that waits: head_turns_why */
    int32_t                exit_code, pid;
    uint32_t               attempt, node, failures;
    uint32_t               unfit[MT_RLT_SHUNNED_MAX];          /* nodes that can't run its program; 0: none; not stored */
    uint32_t               counted_on;                         /* the node among whose drivers it is; 0: none */
    uint64_t               submitted_ms, started_ms, ended_ms; /* wall clock */
    uint64_t               order;
    uint64_t               preempt_ms; /* monotonic: sent away by then; 0: it was not; not stored */
    uint64_t               retry_ms;   /* monotonic: not started before; not stored */
    uint64_t               worked_ms;  /* what earlier attempts have done of its work, where it has a deadline */
    uint64_t               log_size;
    int64_t                log_base;
    uint32_t               waits;     /* parked WaitJob calls */
    uint64_t               after_met; /* bit i: spec->after[i] holds */
    struct bucket         *bucket;    /* NULL: it has ended */
    mt_sorted             *line;      /* in which it stands (jobs/turns.c) */
    mt_sorted_node         in_line;   /* by order */
    mt_heap_node           retry;     /* in h->retries */
    struct array          *array;     /* NULL: of none */
    mt_sorted_node         in_array;  /* by order */
    struct waiter         *waiters;   /* one for each it waits for; NULL: for nobody */
};

struct wait {
    mt_heap_node  due;
    uint64_t      call;
    struct job   *job; /* one of them */
    struct array *array;
};

struct blob {
    struct head_index_node at;
    char                   hex[2 * HEAD_SHA_SIZE + 1];
    uint8_t                sha256[HEAD_SHA_SIZE];
    uint64_t               size;
    uint64_t               used_ms;
    uint32_t               needed_by; /* jobs that have not ended */
};

#endif
