/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.h - jobs' processes: one zygote a job, workers forked from it, some kept warm. The door of this room. Private to
 * raylet/core/. It knows nothing of leases but how many wait for a worker.
 */
#ifndef RLT_POOL_H
#define RLT_POOL_H

#include "raylet/core/state/state.h"

/* ---- proc.c: one process ---- */

struct rlt_proc *rlt_proc_new(struct rlt *r, uint64_t conn); /* it greets within MT_RLT_START_MS, or is given up */
void             rlt_proc_set_state(struct rlt_proc *p, enum rlt_proc_state next);
bool             rlt_hello_strings_ok(const struct ctl_hello *h, const uint8_t *strings, size_t size);
void             rlt_proc_leave(struct rlt *r, struct rlt_proc *p, uint64_t limit_ms,
                                const char *why); /* asks it to leave; SIGKILL if it has not by then */
void             rlt_proc_describe(const struct rlt *r, const struct rlt_proc *p, char *text, size_t size);
bool             rlt_pool_has_zygote(const struct rlt_proc *worker); /* the one that forked it lives */

/* ---- pool.c: a job's processes ---- */

struct rlt_job *rlt_job_new(struct rlt *r, uint64_t number, uint64_t key, uint32_t node, const char *name);
void            rlt_job_fail(struct rlt *r, struct rlt_job *job, int32_t code, const char *text); /* for good */
bool            rlt_job_is_broken(const struct rlt *r, struct rlt_job *job); /* nothing is started for it (now) */
/* Leases that wait for a worker of this job end with `code` before this step is over (rlt_leases_end_needy). */
void rlt_job_note_needy(struct rlt *r, struct rlt_job *job, int32_t code);

void             rlt_pool_begin(struct rlt *r, struct rlt_job *job);   /* program and strings are here: starts the zygote */
void             rlt_pool_balance(struct rlt *r, struct rlt_job *job); /* forks what needy leases wait for */
void             rlt_pool_zygote_ready(struct rlt *r, struct rlt_proc *zygote);
void             rlt_pool_start_failed(struct rlt *r, struct rlt_job *job, const char *what);
void             rlt_pool_lacks(struct rlt_proc *p, const char *what); /* its end follows; NULL: it lacked nothing */
struct rlt_proc *rlt_pool_take(struct rlt *r, struct rlt_job *job);    /* a warm one; NULL: there is none */
void             rlt_pool_keep(struct rlt *r, struct rlt_proc *worker);
void             rlt_pool_remove(struct rlt_proc *p);                /* it is not to be taken any more */
void             rlt_pool_kill(struct rlt *r, struct rlt_proc *p);   /* SIGKILL; it gets no lease any more */
void             rlt_pool_lost(struct rlt *r, struct rlt_proc *p);   /* a zygote or worker ended */
void             rlt_pool_timer(struct rlt *r, struct rlt_job *job); /* RLT_TIMER_JOB */
/* How many more leases would find a process: idle ones count, and those that leases wait for do not. */
int64_t rlt_pool_places(const struct rlt *r);
void    rlt_pool_tell_crowd(struct rlt *r); /* how many wait inside tasks, where that has changed */

#endif
