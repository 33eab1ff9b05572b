/* SPDX-License-Identifier: Apache-2.0
 *
 * heads.c - which heads there are: the nodes keep the list for the day on which this one is gone.
 */
#include "scheduler/head/core/attached/attached.h"

#include <stdio.h>

static void tell(struct head *h, struct stream *s)
{
    Manta__V1__HeadsNews news = MANTA__V1__HEADS_NEWS__INIT;
    to_node              message = MANTA__V1__HEAD_TO_NODE__INIT;
    news.heads = h->head_list;
    news.n_heads = h->head_count;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_HEADS;
    message.heads = &news;
    head_out_send(h, s, &message, false);
}

/* `unheard`: only who was not answered by a datagram since the last time. */
static void tell_all(struct head *h, bool unheard)
{
    h->heads_told_ms = h->now_ms;
    MT_MAP_EACH(&h->streams, entry) {
        struct stream *s = entry->value.ptr;
        if (s->node != 0 && (!unheard || h->now_ms - s->beat_ms > 2 * MT_HEAD_HEADS_MS))
            tell(h, s);
    }
}

void head_attached_heads(struct head *h, const char *const *addresses, uint32_t count)
{
    h->head_count = count < MT_HEADS_MAX ? count : MT_HEADS_MAX;
    for (uint32_t i = 0; i < h->head_count; i++) {
        snprintf(h->heads[i], sizeof h->heads[i], "%s", addresses[i]);
        h->head_list[i] = h->heads[i];
    }
    tell_all(h, false);
}

void head_attached_heads_spoken(struct head *h, struct stream *s)
{
    if (h->head_count > 1 && s->beat_ms)
        tell(h, s);
    s->beat_ms = 0;
}

void head_attached_heads_tick(struct head *h)
{
    bool is_hinted = h->nodes_living <= 100; /* each second, by what is free (nodes/view.c) */
    if (h->head_count > 1 && !is_hinted && h->now_ms - h->heads_told_ms >= MT_HEAD_HEADS_MS)
        tell_all(h, true);
}
