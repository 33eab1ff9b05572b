/* SPDX-License-Identifier: Apache-2.0
 *
 * orphan.c - a node that reaches no head for a long time, and where nothing runs, leaves: the cluster that has started it may be
 *            gone, and a machine of a provider costs as long as it is there.
 *
 * Owns: r->orphan, the timer. Thread: the logic loop only.
 */
#include "raylet/core/head/head.h"
#include "raylet/core/head/private.h"

#include <inttypes.h>
#include <stdio.h>

void rlt_orphan_round(struct rlt *r)
{
    uint32_t tasks;
    uint64_t limit = r->config.orphan_ms * RLT_MS, heard = r->head.heard_at > r->started_at ? r->head.heard_at : r->started_at;
    if (!limit || r->config.is_private || r->drain.is_on || r->is_stopping)
        return;
    if (!rlt_is_away(r)) {
        rlt_timer_clear(r, &r->orphan);
    } else if (r->now < heard + limit) {
        rlt_timer_set(r, &r->orphan, heard + limit);
    } else if (rlt_drain_here(r, &tasks) == 0) {
        struct rlt_event e = {.kind = RLT_EV_NOTICE};
        char             why[96];
        snprintf(why, sizeof why, "no head was reached for %" PRIu64 " s, and nothing runs here", r->config.orphan_ms / 1000);
        e.notice.why = why;
        rlt_drain_event(r, &e);
    }
}
