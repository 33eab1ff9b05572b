/* SPDX-License-Identifier: Apache-2.0
 *
 * monitor.c - death is news: who wants to hear of whose end.
 *
 * Owns: every struct rlt_monitor, kept on the watched one's node. Thread: the logic loop only.
 * Always: a monitor fires once, and is spent. The last deaths of this node are kept for those who ask too late.
 */
#include "raylet/core/links/links.h"
#include "raylet/core/procs/procs.h"

#include "core/base/plant.h"

#include <stdio.h>
#include <stdlib.h>

/* Without a word to anybody but the node that keeps its other half. */
void rlt_monitor_free(struct rlt *r, struct rlt_monitor *m)
{
    if (m->watcher && m->node != r->node && r->out)
        rlt_peer_send(r, m->node, PEER_DEMONITOR, m->id, NULL, 0);
    mt_map_remove(&r->monitors, m->id);
    rlt_list_out(&m->in_watcher);
    rlt_list_out(&m->in_all);
    free(m);
}

static void monitor_fire(struct rlt *r, struct rlt_monitor *m, const struct ctl_death *death)
{
    if (m->watcher && m->watcher->state == PROC_ALIVE)
        rlt_down(r->out, m->watcher->conn, CTL_DEATH, m->id, death, sizeof *death);
    else if (!m->watcher)
        rlt_peer_send(r, m->watcher_node, PEER_DEATH, m->id, death, sizeof *death);
    rlt_monitor_free(r, m);
}

/* Who asks just after a death still hears how it was. */
static const struct ctl_death *recent_death(const struct rlt *r, uint64_t process, const struct ctl_death *unknown)
{
    for (uint32_t i = 0; i < MT_RLT_DEATHS_KEPT; i++)
        if (r->deaths[i].process == process)
            return &r->deaths[i];
    return unknown;
}

static struct rlt_monitor *monitor_new(struct rlt *r, struct rlt_proc *watcher, uint32_t watcher_node, mt_id id,
                                       const struct ctl_monitor *wanted)
{
    struct rlt_monitor *m = rlt_calloc(sizeof *m);
    m->id = id;
    m->watcher = watcher;
    m->watcher_node = watcher_node;
    m->process = wanted->process;
    m->node = wanted->node;
    rlt_list_init(&m->in_watcher);
    rlt_list_init(&m->in_all);
    if (watcher)
        rlt_list_append(&watcher->monitors, &m->in_watcher);
    rlt_list_append(&r->all_monitors, &m->in_all);
    rlt_map_put(&r->monitors, id, m);
    return m;
}

/* Without its socket, but its exit status is not known yet: its monitors fire when it is. */
static bool is_dying(const struct rlt *r, uint64_t process)
{
    MT_MAP_EACH(&r->conns, entry) {
        const struct rlt_proc *p = entry->value.ptr;
        if (p->process == process)
            return true;
    }
    return false;
}

/* Of a process of this node: fires at once when it is not there (any more). */
static void monitor_check(struct rlt *r, struct rlt_monitor *m)
{
    struct ctl_death death = {.process = m->process, .node = m->node, .code = MT_EWORKER_DIED};
    if (!m->process || rlt_proc_of_process(r, m->process) || is_dying(r, m->process))
        return;
    snprintf(death.text, sizeof death.text, "the process had ended before it was watched (node %u)", r->node);
    monitor_fire(r, m, recent_death(r, m->process, &death));
}

void rlt_monitor_add(struct rlt *r, struct rlt_proc *watcher, mt_id id, const struct ctl_monitor *wanted)
{
    struct ctl_death death = {.process = wanted->process, .node = wanted->node, .code = MT_ENODE_DIED};

    if (mt_id_is_zero(id) || mt_map_find(&r->monitors, id))
        return;
    if (r->monitors.count >= MT_RLT_MONITORS_MAX) {
        rlt_down_reply(r->out, watcher->conn, id, MT_EAGAIN, "too many monitors on this node");
        return;
    }
    struct rlt_monitor *m = monitor_new(r, watcher, r->node, id, wanted);
    if (wanted->node == r->node) {
        monitor_check(r, m);
    } else if (!rlt_peer_send(r, wanted->node, PEER_MONITOR, id, wanted, sizeof *wanted)) {
        snprintf(death.text, sizeof death.text, "node %u %s", wanted->node,
                 rlt_node_is_drained(r, wanted->node) ? "was drained, and is gone" : "is not in the cluster");
        monitor_fire(r, m, &death);
    }
}

void rlt_monitor_drop(struct rlt *r, struct rlt_proc *watcher, mt_id id)
{
    struct rlt_monitor *m = mt_map_ptr(&r->monitors, id);
    if (!m || m->watcher != watcher)
        return;
    rlt_monitor_free(r, m);
}

void rlt_monitors_fire(struct rlt *r, const struct ctl_death *death)
{
    if (death->process && death->node == r->node)
        r->deaths[r->death_count++ % MT_RLT_DEATHS_KEPT] = *death;
    RLT_LIST_EACH(&r->all_monitors, link) {
        struct rlt_monitor *m = mt_container_of(link, struct rlt_monitor, in_all);
        if (m->process == death->process && m->node == death->node && !MT_PLANT(MT_PLANT_DEATH_IS_SILENT))
            monitor_fire(r, m, death);
    }
}

static void monitor_from(struct rlt *r, const struct rlt_peer *p, mt_id id, const struct ctl_monitor *wanted)
{
    if (mt_id_is_zero(id) || mt_map_find(&r->monitors, id) || wanted->node != r->node || r->monitors.count >= MT_RLT_MONITORS_MAX)
        return;
    monitor_check(r, monitor_new(r, NULL, p->node, id, wanted));
}

void rlt_monitor_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload)
{
    size_t              size = record->length - LANE_RECORD_SIZE;
    struct rlt_monitor *m = mt_map_ptr(&r->monitors, record->id);
    struct ctl_monitor  wanted;
    struct ctl_death    death;
    if (record->kind == PEER_MONITOR && size >= sizeof wanted) {
        memcpy(&wanted, payload, sizeof wanted);
        monitor_from(r, p, record->id, &wanted);
    } else if (record->kind == PEER_DEMONITOR && m && !m->watcher && m->watcher_node == p->node) {
        rlt_monitor_free(r, m);
    } else if (record->kind == PEER_DEATH && size >= sizeof death && m && m->watcher && m->node == p->node) {
        memcpy(&death, payload, sizeof death);
        death.text[sizeof death.text - 1] = 0;
        m->node = r->node; /* its other half is spent */
        monitor_fire(r, m, &death);
    }
}

void rlt_monitors_node_lost(struct rlt *r, uint32_t node, const char *why)
{
    RLT_LIST_EACH(&r->all_monitors, link) {
        struct rlt_monitor *m = mt_container_of(link, struct rlt_monitor, in_all);
        struct ctl_death    death = {.process = m->process, .node = node, .code = MT_ENODE_DIED};
        snprintf(death.text, sizeof death.text, "node %u is dead: %s", node, why);
        if (m->watcher && m->node == node) {
            m->node = r->node; /* there is no other half any more */
            monitor_fire(r, m, &death);
        } else if (!m->watcher && m->watcher_node == node) {
            rlt_monitor_free(r, m);
        }
    }
}
