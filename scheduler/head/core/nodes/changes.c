/* SPDX-License-Identifier: Apache-2.0
 *
 * changes.c - what has changed of the nodes, in order, for those who are told of it later (view.c).
 *
 * Always:  a node's last change stands in the log under its view_version; the log is no longer than head_changes_most
 *          (head_check).
 */
#include "scheduler/head/core/nodes/nodes.h"
#include "scheduler/head/core/nodes/view.h"

enum { LOG_SLACK = 64 };

bool head_changes_is_last(const struct head *h, const struct view_change *c, struct node **out_node)
{
    *out_node = mt_map_ptr(&h->nodes, mt_map_key(c->node));
    return !*out_node || (*out_node)->view_version == c->version;
}

/* Twice what is needed, so that it is seldom shortened. */
size_t head_changes_most(const struct head *h)
{
    return 2 * (h->nodes.count + MT_HEAD_NODES_DEAD_MAX) + LOG_SLACK;
}

/* Overtaken changes go, and all but the last nodes that were forgotten. */
static void shorten_log(struct head *h)
{
    size_t       kept = 0, forgotten = 0, most = MT_HEAD_NODES_DEAD_MAX;
    struct node *n;
    if (h->view.log.count <= head_changes_most(h))
        return;
    for (size_t i = 0; i < h->view.log.count; i++)
        forgotten += head_changes_is_last(h, &h->view.log.data[i], &n) && !n;
    for (size_t i = 0; i < h->view.log.count; i++) {
        const struct view_change c = h->view.log.data[i];
        bool                     is_kept = head_changes_is_last(h, &c, &n);
        if (is_kept && !n && forgotten-- > most) {
            h->view.floor = c.version;
            is_kept = false;
        }
        if (is_kept)
            h->view.log.data[kept++] = c;
    }
    h->view.log.count = kept;
}

static uint64_t note(struct head *h, uint32_t number)
{
    struct view_change c = {.version = ++h->view.version, .node = number};
    mt_status          st = mt_vec_push(&h->view.log, c);
    if (st.code)
        head_broken(h, st);
    h->view.is_due = true;
    return c.version;
}

void head_view_changed(struct head *h, struct node *n)
{
    n->view_version = note(h, n->place.id);
    shorten_log(h);
}

void head_view_forgot(struct head *h, uint32_t number)
{
    (void)note(h, number);
    shorten_log(h);
}

uint64_t head_view_news(struct head *h)
{
    h->view.is_due = true;
    return ++h->view.version;
}

void head_view_free_changed(struct head *h, struct node *n)
{
    if (n->is_free_due)
        return;
    HEAD_TRY(h, mt_vec_push(&h->view.free, n->place.id));
    n->is_free_due = true;
}

void head_view_fini(struct head *h)
{
    mt_vec_fini(&h->view.log);
    mt_vec_fini(&h->view.free);
}
