/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.h - door: jobs that wait for their turn, for others, or for somebody to release them; and arrays.
 */
#ifndef HEAD_QUEUE_H
#define HEAD_QUEUE_H

#include "scheduler/head/core/kit/kit.h"

/* ---- queue.c: jobs that wait --------------------------------------------------------------------------------------- */

/* Those that are PENDING, in their turn; valid until one comes or goes. */
struct job *const *head_queue(struct head *h, size_t *out_count);
/* What `after` of a new job says: MT_OK, or why it may not come in. Sets what holds already. */
int32_t head_queue_after(struct head *h, const job_spec *spec, uint64_t *out_met, char *text, size_t size);
/* Whether it may start, as far as others and its user are concerned; false: its reason says why not. */
bool head_queue_may_start(struct head *h, struct job *job);
/* Jobs have ended in this step: those that waited for them may start, or never will and end too. */
void head_queue_settle(struct head *h);
void head_queue_hold(struct head *h, struct job *job, bool is_held);
void head_queue_fini(struct head *h);

/* ---- array.c -------------------------------------------------------------------------------------------------------- */

/* Each job of the array, those that are there: `fn` may end them; NULL: only counts. Returns how many. */
size_t head_array_each(struct head *h, const char *id, void (*fn)(struct head *h, struct job *job, void *user), void *user);
/* The spec of one job of the array, for the caller to free. */
MT_MUST_USE mt_status head_array_spec(const job_spec *array, uint32_t index, job_spec **out_spec);

#endif
