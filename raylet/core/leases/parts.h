/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.h - what lease.c needs of the other files of this room.
 */
#ifndef RLT_LEASES_PARTS_H
#define RLT_LEASES_PARTS_H

#include "raylet/core/leases/leases.h"

void rlt_lane_grant(struct rlt *r, const struct rlt_lease *l);        /* owner and worker are of this node */
void rlt_lane_grant_remote(struct rlt *r, const struct rlt_lease *l); /* its owner is on another node */
void rlt_lane_drain(struct rlt *r, struct rlt_lease *l, const struct ctl_ended *end);
void rlt_lease_give(struct rlt *r, struct rlt_lease *l); /* what rlt_lease_take took */
void rlt_lease_lend_cpu(struct rlt *r, struct rlt_lease *l, bool is_lent);
void rlt_strict_begin(struct rlt *r, struct rlt_lease *l); /* its worker is there */
void rlt_strict_end(struct rlt *r, struct rlt_lease *l);

#endif
