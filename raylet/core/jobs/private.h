/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what the files of this room share.
 */
#ifndef RLT_JOBS_PRIVATE_H
#define RLT_JOBS_PRIVATE_H

#include "raylet/core/jobs/jobs.h"

/* ---- program.c ---- */

void rlt_program_wanted(struct rlt *r, uint32_t node, const struct peer_file_want *want);
void rlt_program_job_end(struct rlt *r, const struct rlt_job *job); /* its driver was here: tells the others */
void rlt_program_job_free(struct rlt *r, struct rlt_job *job);      /* what of it is the shell's */
void rlt_job_free(struct rlt *r, struct rlt_job *job);              /* the struct alone */

/* ---- env.c ---- */

void rlt_env_go_all(struct rlt *r, struct rlt_job *base); /* the job's program is there */
void rlt_env_wanted(struct rlt *r, uint32_t node, const struct peer_file_want *want);
void rlt_env_chunk(struct rlt *r, uint32_t node, const struct peer_file_chunk *c, const uint8_t *bytes);
void rlt_env_none(struct rlt *r, uint32_t node, const struct peer_file *what);
bool rlt_env_job_is_empty(const struct rlt *r, const struct rlt_job *base);
void rlt_env_job_free(struct rlt *r, struct rlt_job *base); /* all its environments, and their workers' structs */

#endif
