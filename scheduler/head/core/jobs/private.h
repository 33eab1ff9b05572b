/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what the files of this room share.
 */
#ifndef HEAD_JOBS_PRIVATE_H
#define HEAD_JOBS_PRIVATE_H

#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/policy/backfill.h"

/* ---- array.c ---- */

void head_array_enter(struct head *h, struct job *job);
void head_array_leave(struct head *h, struct job *job);
/* The spec as its driver is told it: of a job of an array with where it stands in that. A name that the user has set himself comes
 * first, and so counts. Borrows `spec`; the caller frees `env`. */
struct head_array_env {
    job_spec spec;
    char   **env; /* NULL: it is of no array */
    char     lines[3][HEAD_JOB_ID_SIZE + 32];
};
void head_array_env(struct head *h, const job_spec *spec, struct head_array_env *out);

/* ---- after.c: who waits for whom ---- */

void head_after_enter(struct head *h, struct job *job);
void head_after_leave(struct head *h, struct job *job);
/* One of those that wait in that way for that job or array; it does so no more: spec->after[*out_which]. NULL: nobody does. */
struct job *head_after_take(struct head *h, uint32_t kind, const char *id, size_t *out_which);

/* ---- turns.c ---- */

void head_turns_enter(struct head *h, struct job *job);
void head_turns_move(struct head *h, struct job *job); /* what it stands by has changed */
void head_turns_leave(struct head *h, struct job *job);
void head_turns_array_ended(struct head *h, const struct array *array); /* its last job has */
/* Whether its user, and its array, may have one more of it now. False: why not is said. */
bool head_turns_may_start(struct bucket *b);
/* Buckets that have a job which may start, the next turn first, where one of them was not found full since the capacity has
 * changed. Valid until the next call; none of them goes before all its jobs have ended. */
struct bucket **head_turns_open(struct head *h, size_t *out_count);
/* The first of the list has started a job: it takes its new place in the list. 1: it has no more; 0: else. */
size_t head_turns_again(struct bucket **list, size_t count);
/* Why the job waits, or how it ended: one sentence. May be written to `text`. */
const char *head_turns_why(const struct job *job, char *text, size_t size);

/* ---- reserve.c: room that is promised, in one round ---- */

struct head_reserve {
    struct policy_node      **nodes; /* that live: the caller's */
    uint32_t                  count;
    bool                      is_on;
    uint32_t                  tries;
    struct policy_reservation at;
    struct policy_node       *room, **shadow, **spare;
    const struct job         *waits_for;
    char                      for_whom[128];
};
/* Room is promised to the first job of the bucket, which found none, unless somebody was promised some before. */
bool head_reserve_job(struct head *h, struct head_reserve *r, struct bucket *b);
void head_reserve_group(struct head *h, struct head_reserve *r); /* to the first placement group that waits for room */
/* Takes room for the first job of the bucket on a node, where that keeps the promise. */
bool head_reserve_place(struct head *h, struct head_reserve *r, struct bucket *b, uint32_t *out_node);
/* It has room, but for the promise: its reason says so. */
bool head_reserve_keeps_back(const struct head_reserve *r, struct bucket *b);
void head_reserve_fini(struct head_reserve *r);

/* ---- jobs.c ---- */

/* `born`: PENDING, or as the store has it. */
MT_MUST_USE mt_status head_jobs_add(struct head *h, job_spec *take_spec, enum job_state born, struct job **out_job);
void                  head_jobs_store(struct head *h, const struct job *job);
/* All that is kept of it is set: it takes its place among the others. */
void head_jobs_enter(struct head *h, struct job *job);
void head_jobs_say(struct head *h, struct job *job, const char *format, ...) MT_PRINTF(3, 4); /* its reason */
/* Of one that names its node: ENOENT (it is not there), EINVAL (it is to leave), with a text; or MT_OK. */
int32_t head_jobs_node_check(const struct head *h, const job_spec *spec, char *text, size_t text_size);

/* ---- waits.c ---- */

void head_jobs_answer_waits(struct head *h, struct job *job); /* it has ended */

/* ---- end.c ---- */

/* Sets the reason, ends the job, answers who waits, and stores it. */
void head_jobs_end(struct head *h, struct job *job, enum job_state how, int32_t exit_code, const char *reason);

/* ---- log.c ---- */

void head_attempts_log_ack(struct head *h, struct job *job, uint64_t written);

/* ---- spec.c ---- */

/* EINVAL with a text that says what is wrong. */
MT_MUST_USE mt_status head_spec_check(const job_spec *spec, char *text, size_t text_size);
/* What its driver needs: resources, and the node that it names. EINVAL likewise. */
MT_MUST_USE mt_status head_spec_request(struct head *h, const job_spec *spec, struct policy_request *out, char *text,
                                        size_t text_size);
MT_MUST_USE mt_status head_spec_copy(const job_spec *spec, job_spec **out_spec);

#endif
