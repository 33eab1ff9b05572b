/* SPDX-License-Identifier: Apache-2.0
 *
 * spare.c - a node that is little used is given back where its work fits elsewhere: consolidation.
 *
 *   little used, and all of it can move --consolidate_ms--> its work fits twice --MT_SCL_SPARE_MS--> still so --> drained
 *                                             '--it does not: the time begins anew
 *
 * No flapping: it must have been little used all that time; as much again as it holds must be free on others in use, so that a
 * little more work starts no new node; and what is given back is one node, or one in ten, at a time. Elsewhere is a node with the
 * same labels, since nobody here knows which of them its work has asked for. Nothing is moved by force: what runs there ends in
 * peace.
 */
#include "scheduler/scaler/pack.h"

#include "core/base/plant.h"

enum { TWICE = 2, AT_A_TIME = 10 };

/* What is used there, as one request. */
static void used_of(const struct policy_node *n, struct policy_request *out)
{
    *out = (struct policy_request){.amount_count = n->resource_count};
    for (uint32_t i = 0; i < n->resource_count; i++) {
        int64_t used = n->resources[i].total - n->resources[i].free;
        out->amounts[i] = (struct policy_amount){n->resources[i].kind, used > 0 ? used : 0};
    }
}

/* So often its work fits on others that are in use. */
static uint32_t fits_elsewhere(const struct pack *p, const struct scl_known *n)
{
    struct policy_request used;
    uint32_t              times = 0;
    used_of(&n->place, &used);
    for (size_t at = 0; at < p->slots[SLOT_BUSY].count && times < TWICE; at++) {
        const struct slot *slot = &p->slots[SLOT_BUSY].data[at];
        uint32_t           others = slot->bucket == n->bucket ? slot->count - 1 : slot->count;
        if (others && strcmp(slot->like->labels, n->place.labels) == 0)
            times += others * scl_slot_fits(slot, &used, TWICE);
    }
    return times;
}

static bool is_needed(const struct scl *s, const struct scl_known *n, const struct scl_instance *i)
{
    const struct scl_bucket *b = n->bucket;
    return !b || b->requested || b->waited_for || scl_is_least(s, i) || scl_is_floor(s, i);
}

static uint32_t moving(const struct scl *s)
{
    uint32_t count = 0;
    MT_MAP_EACH(&s->instances, entry) {
        const struct scl_instance *i = entry->value.ptr;
        count += i->state == SCL_DRAINING && i->is_moved;
    }
    return count;
}

/* Whether it may go now. Where its time has not come, that is due later. */
static bool is_ripe(struct pack *p, struct scl_known *n, const struct scl_instance *i)
{
    struct scl *s = p->s;
    uint64_t    limit = scl_spare_limit(s, i->type_index), ripe = n->slack_ms + limit;
    uint64_t    second = limit < MT_SCL_SPARE_MS ? limit : MT_SCL_SPARE_MS, again = n->spare_ms + second;
    if (s->now_ms >= ripe && (is_needed(s, n, i) || (fits_elsewhere(p, n) < TWICE && !MT_PLANT(MT_PLANT_SPARE_TIGHT)))) {
        n->slack_ms = s->now_ms;
        n->spare_ms = 0;
    } else if (s->now_ms >= ripe && !n->spare_ms) {
        n->spare_ms = s->now_ms;
    } else if (s->now_ms >= ripe && s->now_ms >= again) {
        return true;
    }
    uint64_t next = n->spare_ms ? n->spare_ms + second : n->slack_ms + limit;
    s->slack_due_ms = next < s->slack_due_ms ? next : s->slack_due_ms;
    return false;
}

void scl_spare(struct pack *p)
{
    struct scl *s = p->s;
    int64_t     least = 0;
    if (!s->config.consolidate_ms || s->config.is_down)
        return;
    if (s->now_ms < s->slack_due_ms) {
        scl_due(s, s->slack_due_ms);
        return;
    }
    s->slack_due_ms = UINT64_MAX;
    MT_MAP_EACH(&s->slack, entry) {
        struct scl_known          *n = entry->value.ptr;
        const struct scl_instance *i = scl_find(s, n->instance);
        if (!i || i->state != SCL_JOINED || i->node != n->place.id || i->type_index == SCL_NO_TYPE || !is_ripe(p, n, i))
            continue;
        s->slack_due_ms = s->now_ms + MT_SCL_SPARE_MS; /* the others, after this one */
        int64_t use = scl_use_of_node(&n->place);
        if (n->is_busy && (!p->plan->spare || use < least)) {
            p->plan->spare = n->place.id;
            least = use;
        }
    }
    if (p->plan->spare && moving(s) * AT_A_TIME >= s->live && moving(s) > 0)
        p->plan->spare = 0;
    scl_due(s, s->slack_due_ms);
}
