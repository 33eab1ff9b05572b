/* SPDX-License-Identifier: Apache-2.0
 *
 * job.h - rows of the tables of jobs, of who waits for their ends, and of their files.
 */
#ifndef HEAD_JOB_H
#define HEAD_JOB_H

#include "core/ds/heap.h"
#include "core/proto/manta.pb-c.h"
#include "scheduler/head/core/kit/asked.h"
#include "scheduler/head/core/kit/index.h"
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

struct job {
    struct head_index_node at;
    job_spec              *spec;
    char                   user[HEAD_NAME_SIZE]; /* whose token it was submitted with; "": a warden's */
    struct policy_request  request;
    enum job_state         state;
    char                   reason[HEAD_TEXT_SIZE];
    int32_t                exit_code, pid;
    uint32_t               attempt, node, failures;
    bool                   stop_requested;
    uint64_t               submitted_ms, started_ms, ended_ms; /* wall clock */
    uint64_t               order;
    uint64_t               retry_ms; /* monotonic: not started before; not stored */
    uint64_t               log_size;
    int64_t                log_base;
    bool                   log_is_full;
    uint32_t               waits;     /* parked WaitJob calls */
    uint64_t               after_met; /* bit i: spec->after[i] holds */
    bool                   is_held;
};

struct wait {
    mt_heap_node due;
    uint64_t     call;
    struct job  *job;
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
