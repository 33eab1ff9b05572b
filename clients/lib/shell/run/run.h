/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h - one claimed task or call, from its record to its outcome: arguments in, the user's function, values out.
 *
 * Owns: the state of the actor that lives in this process. Thread: the one that runs it; user code runs without the owner lock.
 */
#ifndef LIB_RUN_H
#define LIB_RUN_H

#include "clients/lib/shell/context/context.h"

/* An actor's own. With MANTA_INLINE=1 a driver has several, else a worker at most one. */
struct lib_actor {
    manta_actor_type *type; /* NULL: none was made */
    void             *self;
    bool              is_made;
};

/* The actor that this worker is, if it is one. */
extern struct lib_actor lib_actor_here;
uint32_t                lib_actor_concurrency(void); /* of its default concurrency group, as its creator asked */

struct lib_outcome { /* as LANE_DONE says it */
    manta_status code;
    int32_t      user_code;
    uint16_t     flags;
    uint8_t     *payload;
    size_t       size;
    manta_ctx   *context;      /* holds the payload; NULL: `failure` does */
    uint8_t      failure[256]; /* there was no memory for a context */
};

/* wrk_save_begin was true: its state goes to its creator, if its type can save and load. Under the lock, released meanwhile. */
void lib_actor_save_leaving(void);

/* How ps, top and perf call this worker: by its job and the function that it begins, or by its actor. */
void lib_name_process(const struct wrk_run *run, uint64_t now);
/* Runs one claimed task or call from its record to its outcome; `call` is NULL for one that still lies in the ring. Under
 * the lock when it begins and ends. *now is moved to the end; returns how long the function took. */
uint64_t lib_run(manta_ctx *c, struct wrk_run *run, struct wrk_call *call, uint64_t *now);
/* Runs one record in this process, which has submitted it as `task`; without the lock. `actor`: NULL of a task. Without memory
 * for it the outcome is ENOMEM. */
void lib_run_here(struct wrk_run *run, struct own_task *task, struct lib_actor *actor, struct lib_outcome *out);
void lib_outcome_free(struct lib_outcome *out);
/* Under the lock, which is released meanwhile: the completion ring had no room for the running task's record. False: its
 * owner is dead, and nobody will ever read it. */
bool lib_outcome_wait(const manta_ctx *c);

#endif
