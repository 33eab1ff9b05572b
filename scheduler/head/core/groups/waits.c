/* SPDX-License-Identifier: Apache-2.0
 *
 * waits.c - who waits for a placement group, and what is answered to those who ask about one.
 */

#include "scheduler/head/core/groups/internal.h"

void head_groups_reply(struct head *h, struct stream *s, mt_id request, int32_t code, const char *text, const struct group *g)
{
    Manta__V1__GroupReply answer = MANTA__V1__GROUP_REPLY__INIT;
    Manta__V1__Bundle     bundles[MT_GROUP_BUNDLES_MAX], *all[MT_GROUP_BUNDLES_MAX];
    resource              items[MT_GROUP_RESOURCES_MAX], *pointers[MT_GROUP_RESOURCES_MAX];
    to_node               message = MANTA__V1__HEAD_TO_NODE__INIT;
    char                  space[HEAD_NAME_SIZE];
    const char           *name;
    answer.id_process = request.process;
    answer.id_counter = request.counter_index;
    answer.code = code;
    answer.text = (char *)(uintptr_t)text;
    if (g) {
        head_groups_fill_bundles(h, g, bundles, items, pointers);
        head_groups_split_name(g, space, &name);
        answer.group_process = g->id.process;
        answer.group_counter = g->id.counter_index;
        answer.space = space;
        answer.name = (char *)(uintptr_t)name;
        answer.strategy = g->strategy;
        answer.detached = g->is_detached;
        answer.ready = head_bundles_are_placed(g);
        for (uint32_t i = 0; i < g->bundle_count; i++)
            all[i] = &bundles[i];
        answer.bundles = all;
        answer.n_bundles = g->bundle_count;
    }
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_GROUP;
    message.group = &answer;
    head_out_send(h, s, &message, true);
}

void head_groups_answer_waits(struct head *h, struct group *g, int32_t code, const char *text)
{
    size_t kept = 0;
    for (size_t i = 0; i < g->waits.count; i++) {
        struct group_wait w = g->waits.data[i];
        struct stream    *s = mt_map_ptr(&h->streams, mt_map_key(w.stream));
        if (code == MT_ETIMEDOUT && w.due_ms > h->now_ms) {
            g->waits.data[kept++] = w;
            continue;
        }
        h->group_waits--;
        if (s)
            head_groups_reply(h, s, w.request, code, text, NULL);
    }
    g->waits.count = kept;
}

void head_groups_wait(struct head *h, struct stream *s, const Manta__V1__GroupRequest *r, struct group *g)
{
    struct group_wait w = {.request = {r->id_process, r->id_counter}, .stream = s->number};
    uint32_t          ms = r->wait_ms < MT_HEAD_WAIT_MS_MAX ? r->wait_ms : MT_HEAD_WAIT_MS_MAX;
    if (head_bundles_are_placed(g)) {
        head_groups_reply(h, s, w.request, MT_OK, "", NULL);
    } else if (g->why[0]) {
        head_groups_reply(h, s, w.request, MT_EUNSCHEDULABLE, g->why, NULL);
    } else if (h->group_waits >= MT_HEAD_GROUP_WAITS_MAX) {
        head_groups_reply(h, s, w.request, MT_EAGAIN, "too many wait for placement groups already: ask again later", NULL);
    } else {
        w.due_ms = h->now_ms + ms;
        HEAD_TRY(h, mt_vec_push(&g->waits, w));
        h->group_waits++;
        head_bundles_open(h, g);
    }
}

/* Those whose time is over are told so. Returns when the next one's is. */
uint64_t head_groups_tick_waits(struct head *h, struct group *g)
{
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < g->waits.count; i++)
        if (g->waits.data[i].due_ms < next)
            next = g->waits.data[i].due_ms;
    if (next <= h->now_ms)
        head_groups_answer_waits(h, g, MT_ETIMEDOUT, "");
    return next;
}
