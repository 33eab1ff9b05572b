/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what the files of this room share.
 */
#ifndef HEAD_ACCOUNT_PRIVATE_H
#define HEAD_ACCOUNT_PRIVATE_H

#include "scheduler/head/core/account/account.h"

/* ---- table.c ---- */

/* A user has spent that, on this day, for a job ("": for none that is known). head_account_store follows. */
void head_account_add(struct head *h, const char *user, const char *job, const struct spent *spent);
/* What this step has added goes into its batch. */
void head_account_store(struct head *h);

struct payer *head_payer_find(const struct head *h, uint64_t number);
void          head_payer_know(struct head *h, uint64_t number, const char *user, const char *job);

struct meter *head_meter_find(const struct head *h, uint32_t node);
struct meter *head_meter_of(struct head *h, uint32_t node); /* NULL: no memory, and the head is broken */
void          head_meter_store(struct head *h, const struct meter *m);
void          head_meter_drop(struct head *h, struct meter *m);

void head_account_fill(const struct spent *from, Manta__V1__Spent *out);

#endif
