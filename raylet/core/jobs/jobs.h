/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.h - what a job runs: its program and its runtime environments, here or on their way here. The door of this room.
 * Private to raylet/core/.
 */
#ifndef RLT_JOBS_H
#define RLT_JOBS_H

#include "raylet/core/state/state.h"

/* ---- job.c ---- */

void rlt_job_begin(struct rlt *r, struct rlt_job *job);         /* program and strings are here */
void rlt_job_close(struct rlt *r, struct rlt_job *job);         /* nothing more begins in it, its processes are killed */
void rlt_job_free_if_empty(struct rlt *r, struct rlt_job *job); /* its environments with it, once they are empty too */

/* ---- program.c: its files, where its driver is here ---- */

bool        rlt_program_file(struct rlt *r, struct rlt_proc *p,
                             const struct rlt_ev_socket *e); /* takes e->fd; false: it breaks the rules */
void        rlt_program_files_close(struct rlt *r, struct rlt_program_file *files, size_t count);
void        rlt_program_greeted(struct rlt *r, struct rlt_job *job, int program); /* its driver is here: takes the descriptor */
uint32_t    rlt_program_count(const struct rlt_job *job);                         /* of its files */
const char *rlt_program_path(const struct rlt_job *job, uint32_t index);
int         rlt_program_fd(const struct rlt_job *job, uint32_t index); /* -1: the cache has it */
bool        rlt_program_is_listed(struct rlt *r, struct rlt_job *job); /* false: RLT_EV_PROGRAM_LISTED follows */
const struct rlt_job *rlt_program_listed(struct rlt                         *r,
                                         const struct rlt_ev_program_listed *e); /* whose list it is; NULL: nobody's */
void                  rlt_program_fini(struct rlt_job *job);                     /* what of it is memory */

/* ---- source.c: its files, where its driver is on another node ---- */

bool rlt_program_want(struct rlt *r, struct rlt_job *job);  /* false: its driver's node is dead, the job is to be ended */
void rlt_program_again(struct rlt *r, struct rlt_job *job); /* what the cache had of it was not right */
/* The job whose driver has ended, which is to be ended; NULL: none. */
struct rlt_job *rlt_program_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload);
void            rlt_program_file_ready(struct rlt *r, const struct rlt_ev_file_ready *e); /* takes e->fd */
void            rlt_program_opened(struct rlt *r, const struct rlt_ev_program_opened *e); /* takes e->fd */

/* ---- env.c: runtime environments ---- */

void rlt_env_define(struct rlt *r, struct rlt_proc *p, const struct rlt_ev_socket *e); /* takes e->fd */
/* An environment whose definition and files are here; NULL: none of that key. Lives as long as the job. */
const struct rlt_env *rlt_env_whole(const struct rlt *r, const struct rlt_job *base, uint64_t key);
/* The workers of a job's environment; from: who can tell what it is, 0: a process of this node has said so. NULL: it is
 * not known, or there are too many. */
struct rlt_job *rlt_env_workers(struct rlt *r, struct rlt_job *base, uint64_t key, uint32_t from);
void            rlt_env_made(struct rlt *r, const struct rlt_ev_env_made *e);
void            rlt_env_file_ready(struct rlt *r, const struct rlt_ev_file_ready *e); /* takes e->fd */
void            rlt_env_node_lost(struct rlt *r, uint32_t node);
void            rlt_envs_fini(struct rlt *r);

#endif
