/* SPDX-License-Identifier: Apache-2.0
 *
 * inspect.c - what the core knows, for those who look: processes, and classes that want more than they have, with why.
 *
 * Owns: nothing. Thread: the logic loop only.
 */
#include "raylet/core/core.h"
#include "raylet/core/links/links.h"

#include "core/text/labels.h"
#include "core/wire/look.h"

#include <stdio.h>

static enum lane_worker_state state_of(const struct rlt_proc *p)
{
    if (p->state != PROC_ALIVE)
        return p->state == PROC_GREETING ? LANE_WORKER_STARTING : LANE_WORKER_DYING;
    if (p->role != CTL_WORKER)
        return LANE_WORKER_ALIVE;
    if (!p->lease)
        return LANE_WORKER_IDLE;
    return p->is_blocked ? LANE_WORKER_BLOCKED : p->lease->kind == LEASE_ACTOR ? LANE_WORKER_ACTOR : LANE_WORKER_LEASED;
}

void rlt_each_proc(const struct rlt *r, void (*fn)(void *user, const struct rlt_proc_view *view), void *user)
{
    MT_MAP_EACH(&r->conns, entry) {
        const struct rlt_proc *p = entry->value.ptr;
        struct rlt_proc_view   view = {.process = p->process,
                                       .conn = p->conn,
                                       .pid = p->pid,
                                       .role = p->role,
                                       .state = lane_worker_states[state_of(p)],
                                       .job = p->job ? p->job->job : 0,
                                       .program = p->job ? p->job->name : ""};
        view.is_owner = p->state == PROC_ALIVE && (p->class_count || !rlt_list_is_empty(&p->owned));
        fn(user, &view);
    }
}

static void resources_text(const struct ctl_class *def, char *out, size_t size)
{
    size_t at = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < def->resource_count && at < size; i++) {
        const struct ctl_resource *want = &def->resources[i];
        bool                       is_bytes = strcmp(want->name, "memory") == 0;
        at += (size_t)snprintf(out + at, size - at, "%s%s:%g", i ? " " : "", want->name,
                               (double)want->milli / (is_bytes ? 1.0 : 1000.0));
    }
    if (!out[0])
        snprintf(out, size, "nothing");
}

/* What this node lacks now; false: nothing. */
static bool lacks_here(const struct rlt *r, const struct rlt_class *c, char *text, size_t size)
{
    size_t at = 0;
    for (uint32_t i = 0; i < c->def.resource_count && at < size; i++) {
        const struct ctl_resource *want = &c->def.resources[i];
        int                        k = rlt_ledger_find(&r->ledger, want->name);
        int64_t                    have = k < 0 ? 0 : r->ledger.free[k], total = k < 0 ? 0 : r->ledger.total[k].milli;
        double                     unit = strcmp(want->name, "memory") == 0 ? 1.0 : 1000.0;
        if (have >= want->milli)
            continue;
        at += (size_t)snprintf(text + at, size - at, "%s%s:%g is wanted, node %u has %g of %g free", at ? ", " : "", want->name,
                               (double)want->milli / unit, r->node, (double)have / unit, (double)total / unit);
    }
    return at > 0;
}

static void why_waiting(const struct rlt *r, const struct rlt_class *c, char *text, size_t size)
{
    uint32_t nodes = 0;
    size_t   at;
    MT_MAP_EACH(&r->nodes, entry)
        nodes += ((const struct rlt_node *)entry->value.ptr)->node != r->node &&
                 ((const struct rlt_node *)entry->value.ptr)->state == NODE_ALIVE;
    if (c->is_refused) {
        snprintf(text, size, "no node can ever satisfy it");
    } else if (ctl_class_is_grouped(&c->def)) {
        char group[MT_ID_TEXT_SIZE];
        snprintf(text, size, "waits for room in placement group %s", mt_id_text(c->def.group, group));
    } else if (!mt_selector_match(c->def.labels, r->config.labels)) {
        snprintf(text, size, "waits for a node with the labels \"%s\"", c->def.labels);
    } else if (c->def.policy == CTL_NODE && c->def.node != r->node) {
        snprintf(text, size, "waits for node %u", c->def.node);
    } else if (lacks_here(r, c, text, size)) {
        at = strlen(text);
        if (nodes && r->head.is_registered)
            snprintf(text + at, size - at, "; the head has found no room on %u other node%s", nodes, nodes == 1 ? "" : "s");
        else if (!r->head.is_registered && r->config.has_head && !r->config.is_private)
            snprintf(text + at, size - at, "; the head is away");
    } else if (c->held < c->wanted) {
        snprintf(text, size, "its turn has not come: other classes wait longer");
    } else {
        snprintf(text, size, "%u worker%s leased, all busy or starting", c->held, c->held == 1 ? "" : "s");
    }
}

static void class_view(const struct rlt *r, const struct rlt_class *c, struct rlt_class_view *out)
{
    out->owner = c->owner->process;
    out->owner_pid = c->owner->pid;
    out->wanted = c->wanted;
    out->held = c->held;
    snprintf(out->name, sizeof out->name, "%.*s", CTL_NAME_SIZE - 1, c->def.name);
    resources_text(&c->def, out->resources, sizeof out->resources);
    why_waiting(r, c, out->why, sizeof out->why);
}

void rlt_each_waiting(const struct rlt *r, void (*fn)(void *user, const struct rlt_class_view *view), void *user)
{
    struct rlt_class_view view;
    MT_MAP_EACH(&r->processes, entry) {
        const struct rlt_proc *p = entry->value.ptr;
        for (struct rlt_list *link = p->classes.next; link != &p->classes; link = link->next) {
            const struct rlt_class *c = mt_container_of(link, struct rlt_class, in_owner);
            if (c->wanted <= c->held)
                continue;
            class_view(r, c, &view);
            fn(user, &view);
        }
    }
}

bool rlt_class_look(const struct rlt *r, uint64_t owner, uint32_t class_id, struct rlt_class_view *out)
{
    struct rlt_proc  *p = rlt_proc_of_process(r, owner);
    struct rlt_class *c = p ? rlt_class_find(p, class_id) : NULL;
    if (c)
        class_view(r, c, out);
    return c != NULL;
}

bool rlt_output_of(const struct rlt *r, uint64_t conn, struct rlt_output_view *out)
{
    const struct rlt_proc *p = rlt_proc_of_conn(r, conn);
    struct ctl_hello       h;
    if (!p || !p->job || !p->job->hello || p->job->hello_size < sizeof h)
        return false;
    memcpy(&h, p->job->hello, sizeof h);
    *out = (struct rlt_output_view){h.process, p->job->node, h.flags & CTL_HELLO_LOGS};
    return true;
}

size_t rlt_works_elsewhere(const struct rlt *r, uint64_t conn, const uint32_t **out)
{
    const struct rlt_proc *p = rlt_proc_of_conn(r, conn);
    *out = p && p->job ? p->job->served.data : NULL;
    return p && p->job ? p->job->served.count : 0;
}

/* Whether the end of a lease is among what the other node has not acknowledged. */
static bool holds_end(const struct rlt_link *l)
{
    for (const struct link_frame *f = l->first; f; f = f->next) {
        struct lane_record record;
        for (size_t at = 0; at < f->size; at += lane_record_padded(record.length)) {
            memcpy(&record, f->bytes + at, sizeof record);
            if (record.kind == PEER_ENDED)
                return true;
        }
    }
    return false;
}

void rlt_stats(const struct rlt *r, struct rlt_stats *out)
{
    *out = r->stats;
    out->node = r->node;
    out->epoch = r->epoch;
    out->processes = r->processes.count;
    out->workers = r->worker_count;
    out->jobs = r->jobs.count;
    MT_MAP_EACH(&r->peers, entry) {
        const struct rlt_peer *p = entry->value.ptr;
        out->peers += p->has_link;
        out->ends_unheard += p->has_link && holds_end(&p->link);
    }
    out->monitors = r->monitors.count;
    out->regions = r->regions.count;
    MT_MAP_EACH(&r->jobs, entry) {
        const struct rlt_job *job = entry->value.ptr;
        out->idle_workers += job->idle_count;
        out->starting_workers += job->starting_count;
    }
    for (struct rlt_list *link = r->all_leases.next; link != &r->all_leases; link = link->next) {
        const struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        out->leases += l->kind != LEASE_CALLER;
        out->leases_here += l->kind != LEASE_CALLER && l->worker_node == r->node;
        out->lanes += l->has_lane;
    }
    out->is_leaving = r->drain.is_on;
    out->values_stuck = r->drain.values_stuck;
    out->is_limit_over = r->drain.is_over;
    out->is_leave_over = r->drain.is_over && r->now >= r->drain.leave_by;
    out->is_told = r->drain.was_told;
    out->unheard_ms = r->head.heard_at ? (r->now - r->head.heard_at) / RLT_MS : UINT64_MAX;
    out->resource_count = r->ledger.count;
    for (uint32_t i = 0; i < r->ledger.count; i++) {
        out->total[i] = r->ledger.total[i].milli;
        out->free[i] = r->ledger.free[i];
        out->leased[i] = r->ledger.leased[i];
    }
}

uint32_t rlt_bundles_each(const struct rlt *r, struct rlt_bundle_view *out, uint32_t room)
{
    uint32_t count = 0;
    for (struct rlt_list *link = r->bundles.next; link != &r->bundles; link = link->next) {
        const struct rlt_bundle *b = mt_container_of(link, struct rlt_bundle, in_all);
        if (count < room)
            out[count] = (struct rlt_bundle_view){b->group, b->index, b->state == BUNDLE_COMMITTED};
        count++;
    }
    return count;
}

bool rlt_may_adopt(const struct rlt *r, uint32_t node)
{
    return node != r->node && rlt_node_is_there(r, rlt_node_find(r, node));
}

bool rlt_some_node_is_suspect(const struct rlt *r)
{
    MT_MAP_EACH(&r->nodes, entry) {
        if (((const struct rlt_node *)entry->value.ptr)->state == NODE_SUSPECT)
            return true;
    }
    return false;
}

uint32_t rlt_adopter_after(const struct rlt *r, uint32_t after)
{
    uint32_t next = 0, first = 0;
    MT_MAP_EACH(&r->nodes, entry) {
        const struct rlt_node *n = entry->value.ptr;
        if (n->node == r->node || !rlt_node_is_there(r, n))
            continue;
        first = !first || n->node < first ? n->node : first;
        if (n->node > after && (!next || n->node < next))
            next = n->node;
    }
    return next ? next : first;
}

bool rlt_head_is_heard(const struct rlt *r, uint64_t since_ms)
{
    return !rlt_is_away(r) && r->head.heard_at >= since_ms * RLT_MS;
}

bool rlt_node_is_given_up(const struct rlt *r, uint32_t node)
{
    return rlt_peer_is_given_up(r, node);
}

mt_status rlt_node_data_address(const struct rlt *r, uint32_t node, uint32_t *out_epoch, char out[RLT_ADDRESS_SIZE])
{
    const struct rlt_node *n = rlt_node_find(r, node);
    if (!n && mt_map_find(&r->forgotten, mt_map_key(node)))
        return mt_error(MT_ENODE_DIED, 0, "the node that has the value is dead");
    if (!n || !n->data_address[0] || rlt_peer_is_newer(r, n))
        return mt_error(MT_ENOENT, 0, "the node that has the value is not known here (yet)");
    if (n->state == NODE_DEAD)
        return mt_error(MT_ENODE_DIED, 0, "the node that has the value is dead");
    if (n->state == NODE_SUSPECT &&
        rlt_peer_is_given_up(r, node)) /* one that the head hears is asked: two nodes may be parted for a while */
        return mt_error(MT_ENODE_DIED, 0, "the node that has the value can't be reached");
    *out_epoch = n->epoch;
    memcpy(out, n->data_address, RLT_ADDRESS_SIZE);
    return mt_ok();
}

bool rlt_node_look(const struct rlt *r, uint32_t node, struct rlt_node_view *out)
{
    const struct rlt_node *n = rlt_node_find(r, node);
    if (n)
        *out = (struct rlt_node_view){n->node, n->epoch, n->state, n->name, n->address, n->data_address, n->labels};
    return n != NULL;
}

uint64_t rlt_view_version(const struct rlt *r, uint32_t *out_count)
{
    *out_count = r->nodes.count;
    return r->head.is_registered && !r->head.is_view_new ? r->head.view_version : 0;
}
