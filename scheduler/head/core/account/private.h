/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what the files of this room share.
 */
#ifndef HEAD_ACCOUNT_PRIVATE_H
#define HEAD_ACCOUNT_PRIVATE_H

#include "scheduler/head/core/account/account.h"

/* ---- table.c ---- */

struct account *head_account_find(const struct head *h, const char *user);
/* Opens it where there is none. NULL: no memory, and the head is broken. */
struct account *head_account_of(struct head *h, const char *user);
/* A user has spent that, on this day, for a job ("": for none that is known). `usage`: what counts for his share, CPU-seconds.
 * head_account_store follows. */
void head_account_add(struct head *h, const char *user, const char *job, const struct spent *spent, double usage);
/* By the scale of now what is kept by that of the epoch. */
double head_account_usage_now(const struct head *h, const struct account *a);
/* What this step has added goes into its batch. */
void head_account_store(struct head *h);

/* Weight and bounds. */
void head_account_store_settings(struct head *h, const struct account *a, Manta__V1__User *settings);

struct payer *head_payer_find(const struct head *h, uint64_t number);
void          head_payer_know(struct head *h, uint64_t number, const char *user, const char *job);

struct meter *head_meter_find(const struct head *h, uint32_t node);
struct meter *head_meter_of(struct head *h, uint32_t node); /* NULL: no memory, and the head is broken */
void          head_meter_store(struct head *h, const struct meter *m);
void          head_meter_drop(struct head *h, struct meter *m);

void head_account_fill(const struct spent *from, Manta__V1__Spent *out);

#endif
