/* SPDX-License-Identifier: Apache-2.0
 *
 * provider.h - door: the program that starts and ends nodes, as a child of the head. Requests and answers are lines of JSON
 *              (docs/design/scaler.md). The loop never waits for it: who does not answer in time is told of as such.
 *
 * Thread: the main loop's.
 */
#ifndef HEAD_PROVIDER_H
#define HEAD_PROVIDER_H

#include "core/base/buf.h"
#include "core/ds/vec.h"
#include "core/io/io.h"
#include "scheduler/head/core/kit/step.h"
#include "scheduler/scaler/scaler.h"

struct head_provider;

/* `head_file`: where the head's address is written; borrowed, as `cluster`. `answered` gets each answer on the loop, maybe from
 * inside head_provider_order. NULL: no memory. */
struct head_provider *head_provider_new(struct io_loop *loop, const char *cluster, const char *head_file,
                                        void (*answered)(void *user, const struct head_provided *answer), void *user);
/* Of HEAD_ACT_PROVIDE. `join`: what the instance joins with, a secret; empty: it needs none. */
void head_provider_order(struct head_provider *p, const struct head_action *action, mt_view join);
/* The program ends; what it has started runs on. */
void head_provider_free(struct head_provider *p);

#endif
