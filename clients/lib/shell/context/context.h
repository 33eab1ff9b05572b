/* SPDX-License-Identifier: Apache-2.0
 *
 * context.h - the running task or call, as its function and those who wait for it see it.
 *
 * Thread: a context is the thread's that runs it; what takes no context is under the owner lock.
 */
#ifndef LIB_CONTEXT_H
#define LIB_CONTEXT_H

#include "clients/lib/shell/state/state.h"

struct lib_actor;
/* Ids of refs that a function has kept stand behind what it returns. */
enum { LIB_KEPT_SIZE = MANTA_ARGS_MAX * sizeof(mt_id) };
struct manta_ctx {
    const char        *name; /* of the running function */
    const char        *signature;
    struct wrk_run    *run;
    struct lib_actor  *actor; /* whose call it is; NULL: a task in the process that has submitted it */
    struct own_task   *here;  /* it runs in the process that has submitted it, as this; else NULL */
    struct lane_limits limits;
    int64_t            deadline_ns; /* of the run; 0: none */
    manta_error        failure;     /* what manta_fail said */
    bool               has_failed, has_value;
    bool               is_waiting;             /* inside the library */
    bool               is_asking;              /* it waits for an answer of the raylet */
    bool               wants_exit, wants_save; /* the method asked for it */
    uint32_t           kept_max;               /* bytes of ids of refs that it may keep */
    uint32_t           results;                /* values that are wanted, from 1 */
    uint32_t           ahead;                  /* of a generator: items beyond what is used; 0: it is none */
    uint8_t           *many;                   /* more than one value: each in a slot of its own; made at first use, kept */
    void              *into;                   /* manta_map: where the value goes, as bytes of this size; this context itself: a
                                                  value takes the long way (returned.c) */
    size_t             into_size;
    uint64_t           yielded;
    struct lib_placed *placed;      /* results that the function writes in place; NULL: none */
    uint8_t            flags;       /* LANE_VALUE_... */
    char               wanted;      /* letter of the (first) result; 'v': none is; '*': any */
    bool               is_mistyped; /* another one was returned; `failure` says so */
    char               type;
    uint32_t           size;
    uint8_t            bytes[sizeof(struct lane_value) + MANTA_INLINE_MAX + LIB_KEPT_SIZE];
};

/* Worker: the task or call that this thread runs; NULL outside of user code. */
extern LIB_THREAD_LOCAL manta_ctx *lib_running;

/* LANE_DONE's payload of a failure; returns its size. */
size_t lib_failure_payload(manta_ctx *c, manta_status code, uint8_t *out, size_t room);
void   lib_fail_timed_out(manta_ctx *c);
/* Whether the task that runs in this process is asked to stop: then it waits for nothing more. */
bool lib_run_is_over(void);
/* The error of a wait that ended so. */
manta_status lib_error_run_over(manta_error *e);
/* No wait of a task outlives its timeout_ms. */
int64_t lib_deadline_of_run(int64_t deadline_ns);
/* When the helper has to look at the running task again; INT64_MAX: it has no timeout_ms. */
int64_t lib_run_look_ns(void);

#endif
