/* SPDX-License-Identifier: Apache-2.0
 *
 * ends.c - a node dies, or its raylet was restarted: what ran there is over, for every table.
 */

#include "scheduler/head/core/account/account.h"
#include "scheduler/head/core/attached/attached.h"
#include "scheduler/head/core/calls/calls.h"
#include "scheduler/head/core/groups/groups.h"
#include "scheduler/head/core/jobs/attempts.h"
#include "scheduler/head/core/names/names.h"
#include "scheduler/head/core/nodes/nodes.h"
#include "core/base/limits/net.h"

#include <inttypes.h>

/* All that the node's processes were doing is over: its jobs are started elsewhere, its names are free. */
void head_attached_lose_work(struct head *h, struct node *n, const char *why)
{
    n->wants.count = 0;
    n->promises.count = 0;
    head_account_node_lost(h, n);
    head_attempts_node_lost(h, n->place.id, n->has_left, why);
    head_names_node_dead(h, n->place.id);
    head_groups_node_lost(h, n->place.id);
}

void head_attached_die(struct head *h, struct node *n, const char *why)
{
    mt_log(n->has_left ? MT_LOG_INFO : MT_LOG_WARN, n->has_left ? "node_left" : "node_dead", "node=%u epoch=%u why=\"%s\"",
           n->place.id, n->epoch, why);
    h->count.dead += !n->has_left;
    h->count.left += n->has_left;
    head_nodes_detach(h, n, why);
    n->drain.is_on = false;
    head_nodes_set_state(h, n, POLICY_DEAD, why);
    head_nodes_store(h, n);
    head_attached_lose_work(h, n, why);
    head_nodes_remember_dead(h, n->place.id);
}

/* It was drained, and nothing is there any more; or its limit has passed. It ends when the store knows. */
static void node_leave(struct head *h, struct stream *s, struct node *n)
{
    Manta__V1__HeadShutdown order = MANTA__V1__HEAD_SHUTDOWN__INIT;
    to_node                 message = MANTA__V1__HEAD_TO_NODE__INIT;
    char                    why[160];
    snprintf(why, sizeof why, "drained: %s", n->drain.reason);
    order.reason = why;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_SHUTDOWN;
    message.shutdown = &order;
    n->has_left = true;
    head_nodes_store(h, n); /* first: the order to end waits behind it */
    head_out_send(h, s, &message, true);
    head_attached_die(h, n, why);
}

void head_attached_drain(struct head *h, struct stream *s, struct node *n, const Manta__V1__DrainRequest *request)
{
    if (!n->drain.is_on)
        head_drain_begin(h, n, request->limit_ms, request->reason);
    else if (!request->is_empty)
        n->drain.ends_ms = h->now_ms + request->limit_ms;
    if (request->is_empty)
        node_leave(h, s, n);
}

static void node_tick(struct head *h, struct node *n)
{
    uint64_t silent = head_nodes_silent_ms(h, n), heard_ms = h->now_ms - silent;
    char     why[128];
    if (silent >= MT_NODE_DEAD_MS) {
        snprintf(why, sizeof why, "silent for %" PRIu64 " s", silent / 1000);
        head_attached_die(h, n, why);
        return;
    }
    if (silent >= MT_NODE_SUSPECT_MS && n->stream != 0)
        head_nodes_suspect(h, n, "silent");
    head_nodes_expire_promises(h, n, MT_HEAD_PROMISE_MS_MAX);
    head_nodes_look_at(h, heard_ms + (n->stream && n->place.state != POLICY_SUSPECT ? MT_NODE_SUSPECT_MS : MT_NODE_DEAD_MS));
    if (n->promises.count)
        head_nodes_look_at(h, n->promises.data[0].at_ms + MT_HEAD_PROMISE_MS_MAX);
}

/* All nodes are looked at when something may be due for the first of them: about once a second where each is heard that often. */
void head_attached_tick(struct head *h)
{
    if (h->now_ms < h->nodes_due_ms)
        return;
    h->nodes_due_ms = UINT64_MAX;
    MT_MAP_EACH(&h->nodes, entry) {
        struct node *n = entry->value.ptr;
        if (n->place.state != POLICY_DEAD)
            node_tick(h, n);
    }
}
