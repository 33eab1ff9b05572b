/* SPDX-License-Identifier: Apache-2.0
 *
 * demand.c - an owner's level of one class rises or falls.
 *
 * Owns: nothing of its own. Thread: the logic loop only.
 */
#include "raylet/core/leases/leases.h"
#include "raylet/core/schedule/schedule.h"

#include "core/text/labels.h"

/* Leases beyond the level go: first those that have no worker yet, then the youngest. */
static void class_shrink(struct rlt *r, struct rlt_class *c)
{
    for (int pass = LEASE_STARTING; pass <= LEASE_ACTIVE && c->held > c->wanted; pass++)
        for (struct rlt_list *link = c->leases.prev, *prev; link != &c->leases && c->held > c->wanted; link = prev) {
            struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_class);
            prev = link->prev;
            if ((int)l->state == pass)
                rlt_lease_recall(r, l, l->kind == LEASE_ACTOR ? MT_RLT_ACTOR_END_MS : 0);
        }
}

void rlt_demand(struct rlt *r, struct rlt_proc *owner, const struct ctl_demand *demand)
{
    struct rlt_class *c = rlt_class_find(owner, demand->class_id);
    char              text[CTL_TEXT_SIZE];
    if (!c || demand->version <= c->version)
        return;
    c->version = demand->version;
    c->placed_here = 0;
    c->wanted = demand->wanted < MT_RLT_WANTED_MAX ? demand->wanted : MT_RLT_WANTED_MAX;
    if (mt_selector_check(c->def.labels, text, sizeof text).code ||
        rlt_request_check(c->def.resources, c->def.resource_count, text, sizeof text).code) {
        if (c->wanted)
            rlt_class_unschedulable(r, c, MT_EINVAL, text);
        return;
    }
    c->is_refused = false; /* a new level is a new question */
    class_shrink(r, c);
    rlt_class_wait(r, c);
}
