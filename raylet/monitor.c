/* SPDX-License-Identifier: Apache-2.0
 *
 * monitor.c - death is news: who wants to hear of whose end.
 *
 * Owns: every struct rlt_monitor, kept on the watched one's node. Thread: the logic loop only.
 * Always: a monitor fires once, and is spent. The last deaths of this node are kept for those who ask too late.
 */
#include "raylet/state.h"

#include "core/base/plant.h"

#include <stdio.h>
#include <stdlib.h>

void rlt_monitor_free(struct rlt *r, struct rlt_monitor *m)
{
    mt_map_remove(&r->monitors, m->id);
    rlt_list_out(&m->in_watcher);
    rlt_list_out(&m->in_all);
    free(m);
}

static void monitor_fire(struct rlt *r, struct rlt_monitor *m, const struct ctl_death *death)
{
    if (m->watcher && m->watcher->state == PROC_ALIVE)
        rlt_down(r->out, m->watcher->conn, CTL_DEATH, m->id, death, sizeof *death);
    rlt_monitor_free(r, m);
}

/* Who asks just after a death still hears how it was. */
static const struct ctl_death *recent_death(const struct rlt *r, uint64_t process, const struct ctl_death *unknown)
{
    for (uint32_t i = 0; i < RLT_DEATHS_KEPT; i++)
        if (r->deaths[i].process == process)
            return &r->deaths[i];
    return unknown;
}

void rlt_monitor_add(struct rlt *r, struct rlt_proc *watcher, mt_id id, const struct ctl_monitor *wanted)
{
    struct ctl_death death = {.process = wanted->process, .node = wanted->node, .code = MT_EWORKER_DIED};

    if (mt_id_is_zero(id) || mt_map_find(&r->monitors, id))
        return;
    if (r->monitors.count >= RLT_MONITORS_MAX) {
        rlt_down_reply(r->out, watcher->conn, id, MT_EAGAIN, "too many monitors on this node");
        return;
    }
    struct rlt_monitor *m = rlt_calloc(sizeof *m);
    m->id = id;
    m->watcher = watcher;
    m->watcher_node = r->node;
    m->process = wanted->process;
    m->node = wanted->node;
    rlt_list_init(&m->in_watcher);
    rlt_list_init(&m->in_all);
    rlt_list_append(&watcher->monitors, &m->in_watcher);
    rlt_list_append(&r->all_monitors, &m->in_all);
    rlt_map_put(&r->monitors, id, m);
    if (wanted->node != r->node) {
        death.code = MT_ENODE_DIED;
        snprintf(death.text, sizeof death.text, "node %u is not in the cluster", wanted->node);
        monitor_fire(r, m, &death);
    } else if (wanted->process && !rlt_proc_of_process(r, wanted->process)) {
        snprintf(death.text, sizeof death.text, "the process had ended before it was watched (node %u)", r->node);
        monitor_fire(r, m, recent_death(r, wanted->process, &death));
    }
}

void rlt_monitor_drop(struct rlt *r, struct rlt_proc *watcher, mt_id id)
{
    struct rlt_monitor *m = mt_map_ptr(&r->monitors, id);
    if (m && m->watcher == watcher)
        rlt_monitor_free(r, m);
}

void rlt_monitors_fire(struct rlt *r, const struct ctl_death *death)
{
    if (death->process && death->node == r->node)
        r->deaths[r->death_count++ % RLT_DEATHS_KEPT] = *death;
    RLT_LIST_EACH(&r->all_monitors, link) {
        struct rlt_monitor *m = mt_container_of(link, struct rlt_monitor, in_all);
        if (m->process == death->process && m->node == death->node && !MT_PLANT(MT_PLANT_DEATH_IS_SILENT))
            monitor_fire(r, m, death);
    }
}
