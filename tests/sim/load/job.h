/* SPDX-License-Identifier: Apache-2.0
 *
 * job.h - submitted jobs: the client outside the cluster, the driver's process on a node, the log at the head.
 */
#ifndef SIM_JOB_H
#define SIM_JOB_H

#include "tests/sim/shells/node.h"

struct head_action;

void sim_jobs_new(struct sim *s);
void sim_jobs_free(struct sim *s);

/* ---- the node: RLT_A_JOB_... ---- */
void sim_job_act(struct sim *s, struct sim_node *n, const struct rlt_action *a);
void sim_jobs_of_node_die(struct sim *s, uint64_t node_serial);

/* ---- the head's shell ---- */
void sim_job_reply(struct sim *s, const struct head_action *a);
void sim_job_refused(struct sim *s, uint64_t call); /* its disk is full */
void sim_job_log_append(struct sim *s, const struct head_action *a);
void sim_job_log_drop(struct sim *s, const char *id);
/* The head has died: what it appended and was not told of may be gone. */
void sim_job_logs_crash(struct sim *s);
/* The head starts: each log with its size. */
void sim_job_logs_each(struct sim *s, void (*each)(struct sim *s, const char *id, uint64_t size));
/* A call of a client; false: the head is down. */
bool sim_head_call(struct sim *s, uint64_t call, int method, const uint8_t *bytes, size_t size);
void sim_head_log_written(struct sim *s, const char *id, uint64_t size);

/* At the end: every job that was accepted has ended, and nothing of any is left on a node. */
void sim_jobs_finish(struct sim *s);
bool sim_jobs_are_over(struct sim *s);

#endif
