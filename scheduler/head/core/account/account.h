/* SPDX-License-Identifier: Apache-2.0
 *
 * account.h - door: what users and jobs have spent of the cluster.
 *
 * The files form a list: table.c < count.c, list.c, users.c.
 */
#ifndef HEAD_ACCOUNT_H
#define HEAD_ACCOUNT_H

#include "scheduler/head/core/kit/kit.h"

/* ---- table.c ------------------------------------------------------------------------------------------------------- */

/* What a job has spent, in `out`, which is returned; NULL: nothing. */
Manta__V1__Spent     *head_account_of_job(const struct head *h, const char *id, Manta__V1__Spent *out);
void                  head_account_forget(struct head *h, const char *job); /* it is deleted; its user's sums stay */
MT_MUST_USE mt_status head_account_load(struct head *h, const Manta__Store__AccountRecord *record);
void                  head_account_fini(struct head *h);

/* ---- count.c ------------------------------------------------------------------------------------------------------- */

/* A node says what jobs have held of it. Acknowledged when the store has it; what can't be counted yet is not, and comes again. */
void head_account_usage(struct head *h, struct stream *s, struct node *n, const Manta__V1__Usage *usage);
/* Nothing more comes of it: what was held when it last said so is counted up to when it was last heard. */
void head_account_node_lost(struct head *h, const struct node *n);

/* By what its user is compared with others (scheduler/policy/share.h). It changes when he is charged, and with his weight. */
double head_account_share(const struct job *job);

/* ---- users.c: what a user may have at a time ----------------------------------------------------------------------- */

/* A job is in the table, its user known; its state has changed; it goes. */
void head_users_enter(struct head *h, struct job *job, const char *user);
void head_users_moved(struct job *job, enum job_state from);
void head_users_leave(struct job *job);
/* False: `why` says what its user has already. */
bool head_users_may_start(const struct job *job, char *why, size_t size);
/* MT_OK; EUNSCHEDULABLE (it could never start), EAGAIN (too many wait). */
int32_t     head_users_may_submit(const struct head *h, const char *user, const job_spec *spec, uint32_t count_new, char *text,
                                  size_t size);
void        head_users_set(struct head *h, uint64_t call, const Manta__V1__SetUserRequest *request);
void        head_users_list(struct head *h, uint64_t call);
const char *head_users_check(const struct head *h);

/* ---- list.c -------------------------------------------------------------------------------------------------------- */

void head_account_call(struct head *h, uint64_t call, const Manta__V1__AccountRequest *request);

#endif
