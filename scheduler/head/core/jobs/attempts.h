/* SPDX-License-Identifier: Apache-2.0
 *
 * attempts.h - drivers of jobs on nodes: their start, and what raylets say of them.
 */
#ifndef HEAD_JOBS_ATTEMPTS_H
#define HEAD_JOBS_ATTEMPTS_H

#include "scheduler/head/core/kit/kit.h"

void head_attempts_round(struct head *h);
void head_attempts_state(struct head *h, struct stream *s, const Manta__V1__JobState *state);
/* A raylet was killed on `was`, and the next one in its folder tells which of its jobs had ended. */
void head_attempts_forerunner(struct head *h, struct stream *s, const struct node *was, const Manta__V1__Forerunner *told);
void head_attempts_node_registered(struct head *h, struct node *n);
void head_attempts_loaded(struct head *h);
/* `was_planned`: it was drained, which costs no retry. */
void head_attempts_node_lost(struct head *h, uint32_t node, bool was_planned, const char *why);
void head_attempts_stop(struct head *h, struct job *job, const char *why);
/* Its processes get that signal, at most once. False: it does not run. */
bool head_attempts_signal(struct head *h, const struct job *job, int32_t signal);

#endif
