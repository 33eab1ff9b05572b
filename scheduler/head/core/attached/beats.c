/* SPDX-License-Identifier: Apache-2.0
 *
 * beats.c - nodes say by datagrams that they live, and that their last reports stand.
 *
 * Always:  the counter of what is taken grows; a node is heard only by a datagram that it made after an answer of the last
 *          MT_NODE_SUSPECT_MS. So one that comes again, or that somebody has held back, keeps nobody alive.
 *
 *   beat: unknown stream, or a counter that was there --> nothing
 *         no echo, or an old one                      --> answered: the next one will have it
 *         a fresh echo                                --> heard, and answered
 */
#include "core/base/plant.h"
#include "core/base/limits/net.h"
#include "scheduler/head/core/attached/attached.h"
#include "scheduler/head/core/nodes/nodes.h"

/* By the head's own clock: what is echoed it has said then. */
static bool is_fresh(const struct head *h, uint64_t echo)
{
    return echo && (h->now_ms - echo < MT_NODE_SUSPECT_MS || MT_PLANT(MT_PLANT_BEAT_LATE));
}

static void take(struct head *h, struct head_beat *beat)
{
    struct stream *s = head_nodes_stream_find(h, beat->stream);
    struct node   *n = s && s->node ? head_nodes_find(h, s->node) : NULL;
    beat->is_taken = n && n->stream == s->number && (beat->counter > s->beat_counter || MT_PLANT(MT_PLANT_BEAT_AGAIN));
    if (!beat->is_taken) {
        h->count.beat_stale++;
        return;
    }
    s->beat_counter = beat->counter;
    if (!is_fresh(h, beat->echo)) {
        h->count.beat_late++;
        return;
    }
    h->count.beat++;
    beat->is_heard = true;
    s->beat_ms = h->now_ms;
    head_nodes_heard(h, n);
    if (n->has_reported && n->report_version == beat->report)
        head_attached_stands(h, n);
}

void head_attached_beats(struct head *h, struct head_beat *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        take(h, &items[i]);
}
