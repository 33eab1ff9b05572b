/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead.h - jobs that wait on a node for the end of others like them. Private to this room.
 */
#ifndef HEAD_JOBS_AHEAD_H
#define HEAD_JOBS_AHEAD_H

#include "scheduler/head/core/jobs/private.h"

/* The first job of the bucket, for which there is no room, may wait on that node for the end of another of the bucket. */
bool head_ahead_place(struct head *h, const struct head_reserve *r, const struct bucket *b, uint32_t *out_node);
void head_ahead_set(struct head *h, struct job *job, bool is_ahead); /* its node is set */
void head_ahead_began(struct head *h, struct job *job);              /* if it is ahead: it has room there now */
void head_ahead_ended(struct head *h, struct job *ended);            /* an attempt, whose room is given back */

#endif
