/* SPDX-License-Identifier: Apache-2.0
 *
 * group.h - placement groups of drivers, and what must hold of them (I13).
 */
#ifndef SIM_GROUP_H
#define SIM_GROUP_H

#include "core/wire/ctl.h"
#include "tests/sim/sim.h"

/* The group of a driver. */
struct sim_grouping {
    mt_id    id;      /* zero: none */
    mt_id    request; /* under way; zero: none */
    uint32_t verb;    /* of that */
    uint32_t strategy, bundle_count;
    bool     is_there; /* acknowledged, and its removal not asked for */
    bool     is_over;  /* an answer did not come: this driver makes no more */
};

void sim_groups_new(struct sim *s);
void sim_groups_free(struct sim *s);
/* One operation of a driver. */
void sim_group_op(struct sim_proc *p);
/* True: it was an answer to one of those. */
bool  sim_group_replied(struct sim_proc *p, mt_id id, const struct ctl_reply *reply);
mt_id sim_group_any(const struct sim_proc *p); /* zero: it has none */
/* A worker runs something of that group (zero: of none); something of it has ended so. */
void sim_group_runs(struct sim_proc *p, mt_id group);
void sim_group_ends(struct sim *s, mt_id group, int32_t code);
/* After every event. */
void sim_groups_check(struct sim *s);

#endif
