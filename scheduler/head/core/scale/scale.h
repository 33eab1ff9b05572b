/* SPDX-License-Identifier: Apache-2.0
 *
 * scale.h - door: nodes that are started and given back (scheduler/scaler), fed from the head's tables.
 */
#ifndef HEAD_SCALE_H
#define HEAD_SCALE_H

#include "scheduler/head/core/kit/kit.h"

/* A client asks: HEAD_SCALE. */
void head_scale_call(struct head *h, const struct head_event *event);
/* The provider has answered, or has not. */
void head_scale_provided(struct head *h, const struct head_provided *answer);
/* What has changed since the last round is told to the scaler, and its orders are carried out. */
void head_scale_round(struct head *h);

MT_MUST_USE mt_status head_scale_load(struct head *h, const Manta__Store__ScaleRecord *record);
void                  head_scale_started(struct head *h); /* what was loaded goes on */
void                  head_scale_fini(struct head *h);

#endif
