/* SPDX-License-Identifier: Apache-2.0
 *
 * ends.c - a node dies, or its raylet was restarted: what ran there is over, for every table.
 */

#include "scheduler/head/core/attached/attached.h"
#include "scheduler/head/core/groups/groups.h"
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/names/names.h"
#include "scheduler/head/core/nodes/nodes.h"
#include "core/base/limits/net.h"

#include <inttypes.h>

/* All that the node's processes were doing is over: its jobs are started elsewhere, its names are free. */
void head_attached_lose_work(struct head *h, struct node *n, const char *why)
{
    n->wants.count = 0;
    n->promises.count = 0;
    head_attempts_node_lost(h, n->place.id, why);
    head_names_node_dead(h, n->place.id);
    head_groups_node_lost(h, n->place.id);
}

static void node_die(struct head *h, struct node *n, const char *why)
{
    mt_log(MT_LOG_WARN, "node_dead", "node=%u epoch=%u why=\"%s\"", n->place.id, n->epoch, why);
    h->count.dead++;
    head_nodes_detach(h, n, why);
    head_nodes_set_state(h, n, POLICY_DEAD, why);
    head_nodes_store(h, n);
    head_attached_lose_work(h, n, why);
    head_nodes_remember_dead(h, n->place.id);
}

static void node_tick(struct head *h, struct node *n)
{
    uint64_t silent = h->now_ms - n->heard_ms;
    char     why[128];
    if (silent >= MT_NODE_DEAD_MS) {
        snprintf(why, sizeof why, "silent for %" PRIu64 " s", silent / 1000);
        node_die(h, n, why);
        return;
    }
    if (silent >= MT_NODE_SUSPECT_MS && n->stream != 0)
        head_nodes_suspect(h, n, "silent");
    head_nodes_expire_promises(h, n, MT_HEAD_PROMISE_MS_MAX);
}

void head_attached_tick(struct head *h)
{
    MT_MAP_EACH(&h->nodes, entry) {
        struct node *n = entry->value.ptr;
        if (n->place.state != POLICY_DEAD)
            node_tick(h, n);
    }
}
