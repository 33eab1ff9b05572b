/* SPDX-License-Identifier: Apache-2.0
 *
 * class.c - what owners want: classes, which nodes they shun, and who waits.
 *
 * Owns: every struct rlt_class. Thread: the logic loop only.
 * Always: a class stands in r->waiting while it wants more than it holds, unless that was refused.
 */
#include "raylet/core/jobs/jobs.h"
#include "raylet/core/leases/leases.h"

#include "core/base/log.h"
#include "core/text/labels.h"

#include <stdio.h>
#include <stdlib.h>

enum { CLASSES_SWEEP = 64 };

/* What it kept from others is theirs. */
static void waits_no_more(struct rlt *r, struct rlt_class *c)
{
    r->is_dirty |= !rlt_list_is_empty(&c->in_waiting);
    rlt_list_out(&c->in_waiting);
}

void rlt_class_unschedulable(struct rlt *r, struct rlt_class *c, int32_t code, const char *text)
{
    struct ctl_unschedulable u = {.class_id = c->def.class_id, .code = code};
    c->is_refused = true;
    waits_no_more(r, c);
    snprintf(u.text, sizeof u.text, "%s", text);
    rlt_down(r->out, c->owner->conn, CTL_UNSCHEDULABLE, (mt_id){0, 0}, &u, sizeof u);
}

static bool class_shuns(const struct rlt_class *c, uint32_t node)
{
    for (size_t i = 0; c->job && i < c->job->shunned.count; i++)
        if (c->job->shunned.data[i] == node)
            return true;
    return false;
}

bool rlt_node_could_ever(const struct rlt_node *n, const struct rlt_class *c)
{
    if (!mt_selector_match(c->def.labels, n->labels) || class_shuns(c, n->node))
        return false;
    for (uint32_t i = 0; i < c->def.resource_count; i++) {
        bool has = false;
        for (uint32_t k = 0; k < n->total_count; k++)
            has |= strcmp(n->total[k].name, c->def.resources[i].name) == 0 && n->total[k].milli >= c->def.resources[i].milli;
        if (!has)
            return false;
    }
    return true;
}

bool rlt_class_has_node_left(const struct rlt *r, const struct rlt_class *c)
{
    if (ctl_class_is_grouped(&c->def))
        return true; /* where its bundles are; the head knows */
    if (c->def.policy == CTL_NODE)
        return !class_shuns(c, c->def.node);
    if (!class_shuns(c, r->node) && mt_selector_match(c->def.labels, r->config.labels) &&
        rlt_ledger_could_ever(&r->ledger, c->def.resources, c->def.resource_count, NULL))
        return true;
    if (c->job->shunned.count >= MT_RLT_SHUNNED_MAX)
        return false;
    MT_MAP_EACH(&r->nodes, entry) {
        const struct rlt_node *n = entry->value.ptr;
        if (n->node != r->node && n->state == NODE_ALIVE && rlt_node_could_ever(n, c))
            return true;
    }
    return false;
}

static void shun(struct rlt *r, struct rlt_job *job, uint32_t node, int32_t code, const char *text)
{
    if (mt_vec_push(&job->shunned, node).code)
        rlt_out_of_memory();
    job->shun_code = code;
    snprintf(job->shun_text, sizeof job->shun_text, "%s", text);
    mt_log(MT_LOG_WARN, "node_shunned", "node=%u job=%s why=\"%.300s\"", node, job->name, text);
    r->is_dirty = true; /* the head is to look elsewhere */
}

void rlt_class_shun(struct rlt *r, struct rlt_class *c, uint32_t node, int32_t code, const char *text)
{
    if (!class_shuns(c, node) && c->job->shunned.count < MT_RLT_SHUNNED_MAX)
        shun(r, c->job, node, code, text);
    if (ctl_class_is_grouped(&c->def) || !rlt_class_has_node_left(r, c))
        rlt_class_unschedulable(r, c, code, text);
}

void rlt_shunned_node_lost(struct rlt *r, uint32_t node)
{
    MT_MAP_EACH(&r->jobs, entry) {
        struct rlt_job *job = entry->value.ptr;
        for (size_t i = job->shunned.count; i-- > 0;)
            if (job->shunned.data[i] == node)
                mt_vec_remove_swap(&job->shunned, i);
    }
}

void rlt_class_wait(struct rlt *r, struct rlt_class *c)
{
    if (c->is_refused || c->held >= c->wanted) {
        waits_no_more(r, c);
        return;
    }
    if (rlt_list_is_empty(&c->in_waiting)) {
        c->waiting_since = r->now;
        c->patience = 0;
        rlt_list_append(&r->waiting, &c->in_waiting);
    }
    r->is_dirty = true;
}

void rlt_class_drop(struct rlt *r, struct rlt_class *c)
{
    RLT_LIST_EACH(&c->leases, link) {
        mt_container_of(link, struct rlt_lease, in_class)->class = NULL;
        rlt_list_out(link);
    }
    waits_no_more(r, c);
    rlt_list_out(&c->in_owner);
    c->owner->class_count--;
    free(c);
}

/* An actor has a class of its own, and an owner may make any number of actors, one after the other; so with placement groups. */
static void classes_sweep(struct rlt *r, struct rlt_proc *owner)
{
    if (owner->class_count < owner->class_sweep_at)
        return;
    for (struct rlt_list *link = owner->classes.next, *next; link != &owner->classes; link = next) {
        struct rlt_class *c = mt_container_of(link, struct rlt_class, in_owner);
        next = link->next;
        bool is_over = c->version == CTL_DEMAND_LAST || (c->version && c->def.flags & CTL_CLASS_ACTOR);
        if (is_over && c->wanted == 0 && rlt_list_is_empty(&c->leases))
            rlt_class_drop(r, c);
    }
    owner->class_sweep_at = 2 * owner->class_count + CLASSES_SWEEP;
}

bool rlt_class_define(struct rlt *r, struct rlt_proc *owner, const uint8_t *payload)
{
    struct ctl_class def;
    char             text[CTL_TEXT_SIZE];
    memcpy(&def, payload, sizeof def);
    def.name[sizeof def.name - 1] = 0;
    def.labels[sizeof def.labels - 1] = 0;
    classes_sweep(r, owner);
    if (def.resource_count > CTL_RESOURCES || owner->class_count >= MT_RLT_CLASSES_MAX)
        return false;
    if (rlt_class_find(owner, def.class_id))
        return true; /* said twice */
    struct rlt_class *c = rlt_calloc(sizeof *c);
    c->owner = owner;
    c->job = def.env ? rlt_env_workers(r, rlt_job_base(owner->job), def.env, 0) : owner->job;
    c->def = def;
    rlt_list_init(&c->in_owner);
    rlt_list_init(&c->in_waiting);
    rlt_list_init(&c->leases);
    rlt_list_append(&owner->classes, &c->in_owner);
    owner->class_count++;
    if (mt_selector_check(c->def.labels, text, sizeof text).code ||
        rlt_request_check(c->def.resources, c->def.resource_count, text, sizeof text).code)
        rlt_class_unschedulable(r, c, MT_EINVAL, text);
    return true;
}
