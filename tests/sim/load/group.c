/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c - placement groups: drivers make them, run tasks and actors in them, and remove them, or end with them.
 *
 * A driver has one group at a time, so none ever waits for another while it holds something itself: all of them must be
 * placed in the end. Their bundles reserve a resource of their own ("G"), of which each node has as much.
 *
 * Owns: struct sim_groups, what is known of every group. Thread: one.
 */
#include "tests/sim/load/group.h"

#include "tests/sim/shells/node.h"
#include "tests/sim/shells/proc.h"

enum { SIM_BUNDLES_MAX = 3, SIM_VIEWS_MAX = 64, SIM_TWICE_MS = 1000, SIM_LOOK_EACH = 64 };

struct group {
    mt_id    id;
    uint32_t bundle_count;
    bool     is_removed;  /* its removal was asked for */
    uint64_t twice_since; /* a bundle of it was seen committed on two living nodes; 0: not */
};
struct sim_groups {
    mt_map   all; /* id -> group */
    uint64_t looks;
};

void sim_groups_new(struct sim *s)
{
    s->groups = sim_alloc(sizeof *s->groups);
}

void sim_groups_free(struct sim *s)
{
    if (!s->groups)
        return;
    MT_MAP_EACH(&s->groups->all, entry)
        free(entry->value.ptr);
    mt_map_fini(&s->groups->all);
    free(s->groups);
    s->groups = NULL;
}

static struct group *group_of(struct sim *s, mt_id id)
{
    return mt_map_ptr(&s->groups->all, id);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static void ask(struct sim_proc *p, enum ctl_group_verb verb)
{
    struct sim_grouping *g = &p->script.grouping;
    struct {
        struct ctl_request request;
        struct ctl_group   group;
        struct {
            struct ctl_bundle   head;
            struct ctl_resource resource;
        } bundles[SIM_BUNDLES_MAX];
    } message = {.request = {.op = CTL_OP_GROUP}, .group = {.id = g->id, .verb = verb, .strategy = g->strategy}};
    size_t size = offsetof(__typeof__(message), bundles);
    message.group.wait_ms = (uint32_t)sim_random(p->s, 300);
    snprintf(message.group.space, sizeof message.group.space, "sim");
    for (uint32_t i = 0; i < g->bundle_count && verb == CTL_GROUP_NEW; i++) {
        message.bundles[i].head.resource_count = 1;
        snprintf(message.bundles[i].resource.name, sizeof message.bundles[i].resource.name, "G");
        /* room for tasks, and for all actors that the driver may have there */
        message.bundles[i].resource.milli = 100 * (1 + (int64_t)((g->id.counter_index >> 16 ^ i) % 3)) + 50 * SIM_HANDLES_MAX;
        message.group.bundle_count++;
        size += sizeof message.bundles[i];
    }
    g->verb = verb;
    g->request = own_id_next(&p->own);
    own_send(&p->own, CTL_REQUEST, g->request, &message, size);
}

static void make(struct sim_proc *p)
{
    struct sim_grouping *g = &p->script.grouping;
    struct group        *known = sim_alloc(sizeof *known);
    g->id = own_id_next(&p->own);
    g->strategy = (uint32_t)sim_random(p->s, 4);
    g->bundle_count = 1 + (uint32_t)sim_random(p->s, SIM_BUNDLES_MAX);
    g->is_there = false;
    known->id = g->id;
    known->bundle_count = g->bundle_count;
    if (mt_map_put_ptr(&p->s->groups->all, g->id, known).code)
        abort();
    ask(p, CTL_GROUP_NEW);
}

/* Whether the head may have taken this process for dead, with its node. */
static bool is_given_up(const struct sim_proc *p)
{
    uint32_t node, epoch;
    rlt_self(p->n->core, &node, &epoch);
    return node != p->own.node || epoch != p->own.epoch;
}

static void answered(struct sim_proc *p, int32_t code)
{
    struct sim_grouping *g = &p->script.grouping;
    struct sim          *s = p->s;
    bool                 is_late = code == MT_ETIMEDOUT;
    sim_note(s, "group", g->id.counter_index, (uint64_t)code << 8 | g->verb);
    if (is_given_up(p))
        return;
    switch (g->verb) {
    case CTL_GROUP_NEW:
        SIM_REQUIRE(s, code == MT_OK || is_late || code == MT_EDISK_FULL, "I8: a placement group is refused: %s",
                    mt_code_name(code));
        if (code == MT_EDISK_FULL)
            g->id = (mt_id){0, 0}; /* it never was */
        g->is_there = code == MT_OK;
        g->is_over = is_late; /* nobody knows whether it is there: it goes with its job */
        s->counters.group_made += code == MT_OK;
        break;
    case CTL_GROUP_REMOVE:
        SIM_REQUIRE(s, code == MT_OK || is_late, "I8: a placement group is not removed: %s", mt_code_name(code));
        g->is_over = is_late;
        if (!is_late)
            g->id = (mt_id){0, 0};
        s->counters.group_removed += code == MT_OK;
        break;
    default:
        is_late |= code == MT_EUNSCHEDULABLE; /* too few nodes live just now */
        SIM_REQUIRE(s, code == MT_OK || is_late, "I8: a placement group was acknowledged, and %s is said of it",
                    mt_code_name(code));
        s->counters.group_ready += g->verb == CTL_GROUP_WAIT && code == MT_OK;
        s->counters.group_waits += g->verb == CTL_GROUP_WAIT && is_late;
    }
}

bool sim_group_replied(struct sim_proc *p, mt_id id, const struct ctl_reply *reply)
{
    struct sim_grouping *g = &p->script.grouping;
    if (mt_id_is_zero(id) || !mt_id_equal(id, g->request))
        return false;
    g->request = (mt_id){0, 0};
    answered(p, reply->code);
    return true;
}

/* ---- what drivers do --------------------------------------------------------------------------------------------- */

static void remove_it(struct sim_proc *p)
{
    struct group *g = group_of(p->s, p->script.grouping.id);
    g->is_removed = true;
    p->script.grouping.is_there = false;
    ask(p, CTL_GROUP_REMOVE);
}

static void submit(struct sim_proc *p)
{
    const struct sim_grouping *g = &p->script.grouping;
    struct own_class_spec      spec = {.name = "grouped", .group = SIM_FN_LEAF, .resource_count = 1, .pg = g->id};
    struct sim_task           *task;
    snprintf(spec.resources[0].name, sizeof spec.resources[0].name, "G");
    spec.resources[0].milli = 100;
    spec.bundle = (uint32_t)sim_random(p->s, g->bundle_count + 1);
    for (uint64_t count = sim_between(p->s, 1, 8); count > 0; count--) {
        sim_submit_grouped(p, &spec, &task);
        task->pg = g->id;
        p->s->counters.group_task++;
    }
}

void sim_group_op(struct sim_proc *p)
{
    struct sim_grouping *g = &p->script.grouping;
    if (!p->s->config.has_head || g->is_over || !mt_id_is_zero(g->request))
        return;
    if (mt_id_is_zero(g->id)) {
        make(p);
        return;
    }
    if (!g->is_there)
        return;
    switch (sim_random(p->s, 8)) {
    case 0: remove_it(p); break;
    case 1:
    case 2: ask(p, CTL_GROUP_WAIT); break;
    case 3: ask(p, CTL_GROUP_FIND); break;
    default: submit(p);
    }
}

mt_id sim_group_any(const struct sim_proc *p)
{
    return p->script.grouping.is_there ? p->script.grouping.id : (mt_id){0, 0};
}

/* ---- what must hold ---------------------------------------------------------------------------------------------- */

void sim_group_runs(struct sim_proc *p, mt_id group)
{
    SIM_REQUIRE(p->s, mt_id_equal(p->group, group), "I13: a task runs outside of its placement group, or inside of another's");
    p->s->counters.group_run += !mt_id_is_zero(group);
}

void sim_group_ends(struct sim *s, mt_id group, int32_t code)
{
    const struct group *g;
    if (code != MT_EPG_REMOVED || mt_id_is_zero(group))
        return; /* a call of an actor in one, or what had the outcome of such as an argument */
    g = group_of(s, group);
    SIM_REQUIRE(s, g && g->is_removed, "I1: something ended with a placement group that nobody has removed");
    s->counters.group_ended++;
}

struct seen {
    struct rlt_bundle_view view;
    const struct sim_node *n;
};

/* Committed bundles of nodes that nobody has given up. */
static uint32_t look(struct sim *s, struct seen out[SIM_VIEWS_MAX])
{
    uint32_t count = 0;
    for (int i = 0; i < s->config.nodes; i++) {
        struct rlt_bundle_view views[SIM_VIEWS_MAX];
        const struct sim_node *n = s->nodes[i];
        uint32_t               node = 0, epoch = 0, held = n->serial ? rlt_bundles_each(n->core, views, SIM_VIEWS_MAX) : 0;
        if (held)
            rlt_self(n->core, &node, &epoch);
        if (held == 0 || sim_oracle_is_over(s, node, epoch))
            continue;
        for (uint32_t k = 0; k < held && k < SIM_VIEWS_MAX && count < SIM_VIEWS_MAX; k++)
            if (views[k].is_committed)
                out[count++] = (struct seen){views[k], n};
    }
    return count;
}

/* I13: no bundle stands on two living nodes. What the head has decided a moment ago may not be known everywhere. */
void sim_groups_check(struct sim *s)
{
    struct seen seen[SIM_VIEWS_MAX];
    if (!s->config.has_head || s->groups->looks++ % SIM_LOOK_EACH)
        return;
    uint32_t count = look(s, seen);
    for (uint32_t i = 0; i < count; i++) {
        struct group *g = group_of(s, seen[i].view.group);
        bool          is_twice = false;
        SIM_REQUIRE(s, g && seen[i].view.index < g->bundle_count, "I13: a bundle is reserved that nobody asked for");
        for (uint32_t k = 0; k < count; k++)
            is_twice |= k != i && mt_id_equal(seen[k].view.group, g->id) && seen[k].view.index == seen[i].view.index;
        if (seen[i].view.index > 0 && !is_twice)
            continue; /* of the others of its group that is said in their turn */
        if (!is_twice)
            g->twice_since = 0;
        else if (!g->twice_since)
            g->twice_since = s->now;
        SIM_REQUIRE(s, !is_twice || s->now < g->twice_since + SIM_TWICE_MS * SIM_MS,
                    "I13: bundle %u of a placement group stands on node %d and on another one", seen[i].view.index,
                    seen[i].n->index);
    }
}
