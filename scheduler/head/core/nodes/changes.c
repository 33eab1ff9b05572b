/* SPDX-License-Identifier: Apache-2.0
 *
 * changes.c - what has changed of the nodes, in order, for those who are told of it later (view.c).
 *
 * Always:  a node's last change stands in the log under its view_version; the log is no longer than head_changes_most; a node
 *          that is told of in another state than its own stands in view.late (head_check).
 */
#include "scheduler/head/core/nodes/nodes.h"
#include "scheduler/head/core/nodes/view.h"

#include "core/base/plant.h"

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

void head_view_pages_drop(struct head *h)
{
    for (size_t i = 0; i < h->view.pages.count; i++)
        head_bytes_unref(h->view.pages.data[i].bytes);
    mt_vec_fini(&h->view.pages);
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
            head_view_pages_drop(h); /* they may tell of it */
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
    return c.version;
}

static void tell_of(struct head *h, struct node *n)
{
    n->told = n->place.state;
    n->view_version = note(h, n->place.id);
    shorten_log(h);
}

void head_view_joined(struct head *h, struct node *n)
{
    tell_of(h, n);
    h->view.is_joined = true;
}

void head_view_changed(struct head *h, struct node *n)
{
    tell_of(h, n);
    h->view.is_due = true;
}

/* ---- who is suspect, and who is alive again ---- */

/* Entries for all nodes together: what that costs is the same in every cluster. */
static uint32_t states_each_round(const struct head *h)
{
    uint32_t most = MT_HEAD_VIEW_STATES / (h->nodes_living + 1);
    return h->config.states_each_round      ? h->config.states_each_round
           : most > MT_HEAD_VIEW_STATES_MIN ? most
                                            : MT_HEAD_VIEW_STATES_MIN;
}

static bool is_there_or_suspect(enum policy_state state)
{
    return state == POLICY_ALIVE || state == POLICY_SUSPECT;
}

void head_view_state_changed(struct head *h, struct node *n)
{
    bool may_wait = is_there_or_suspect(n->told) && is_there_or_suspect(n->place.state);
    if (!may_wait) {
        head_view_changed(h, n);
    } else if (!h->view.late.count && h->view.states_left) {
        h->view.states_left--;
        head_view_changed(h, n);
    } else if (!n->is_late) {
        HEAD_TRY(h, mt_vec_push(&h->view.late, n->place.id));
        n->is_late = true;
    }
}

void head_view_states_round(struct head *h)
{
    size_t taken = 0;
    h->view.states_left = states_each_round(h);
    for (; taken < h->view.late.count && h->view.states_left; taken++) {
        struct node *n = mt_map_ptr(&h->nodes, mt_map_key(h->view.late.data[taken]));
        if (!n)
            continue;
        n->is_late = false;
        if (n->told == n->place.state || MT_PLANT(MT_PLANT_STATE_UNTOLD)) /* it came back before anybody was told */
            continue;
        h->view.states_left--;
        head_view_changed(h, n);
    }
    h->view.late.count -= taken;
    if (h->view.late.count)
        memmove(h->view.late.data, h->view.late.data + taken, h->view.late.count * sizeof *h->view.late.data);
}

void head_view_forgot(struct head *h, uint32_t number)
{
    (void)note(h, number);
    h->view.is_due = true;
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
    mt_vec_fini(&h->view.late);
    head_bytes_unref(h->view.hints);
    head_view_pages_drop(h);
}
