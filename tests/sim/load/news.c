/* SPDX-License-Identifier: Apache-2.0
 *
 * news.c - a driver that knows the cluster's nodes by news alone: it asks for the list once, and again when it is told to.
 *
 * I21: what it knows is what its raylet knows, at the latest a second after that has changed.
 *
 * Owns: struct sim_listing. Thread: one.
 */
#include "tests/sim/shells/node.h"
#include "tests/sim/shells/proc.h"

enum { CHECK_MS = 50, AGAIN_MS = 200, STALE_MS = 1000 };

static void ask(struct sim_proc *p, uint32_t after)
{
    struct ctl_request request = {.op = CTL_OP_NODES, .after = after};
    p->script.listing.asked = own_id_next(&p->own);
    own_send(&p->own, CTL_REQUEST, p->script.listing.asked, &request, sizeof request);
}

bool sim_news_replied(struct sim_proc *p, mt_id id, const uint8_t *bytes, size_t size)
{
    struct sim_listing *l = &p->script.listing;
    bool                is_full = size / sizeof(struct ctl_node) >= MT_RLT_NODES_REPLY_MAX;
    struct ctl_node     n = {0};
    if (mt_id_is_zero(l->asked) || !mt_id_equal(id, l->asked))
        return false;
    for (; size >= sizeof n; bytes += sizeof n, size -= sizeof n) {
        memcpy(&n, bytes, sizeof n);
        SIM_REQUIRE(p->s, l->count < SIM_LISTED_MAX, "more nodes than there can be");
        l->of[l->count++] = (struct sim_listed){n.node, n.epoch, n.state};
    }
    l->asked = (mt_id){0, 0};
    if (is_full)
        ask(p, n.node);
    return true;
}

/* Of itself a node says more than it was told. */
static bool is_as_known(const struct sim_proc *p)
{
    const struct sim_listing *l = &p->script.listing;
    struct rlt_node_view      known;
    uint32_t                  count, own = rlt_node_look(p->n->core, p->own.node, &known);
    (void)rlt_view_version(p->n->core, &count);
    if (l->count - 1 != count - own) /* its raylet comes first */
        return false;
    for (uint32_t i = 1; i < l->count; i++)
        if (!rlt_node_look(p->n->core, l->of[i].node, &known) || known.epoch != l->of[i].epoch || known.state != l->of[i].state)
            return false;
    return true;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void check(struct sim_proc *p)
{
    struct sim_listing *l = &p->script.listing;
    struct sim         *s = p->s;
    if (s->now < l->check_at || !sim_node_is_up(p->n))
        return;
    l->check_at = s->now + (uint64_t)CHECK_MS * SIM_MS;
    if (mt_id_is_zero(l->asked) && is_as_known(p)) {
        l->stale_since = 0;
        return;
    }
    l->stale_since = later(l->stale_since ? l->stale_since : s->now, later(p->paused_until, p->n->paused_until));
    l->stale_since = later(l->stale_since, l->next_at);
    SIM_REQUIRE(s, s->now < l->stale_since + (uint64_t)STALE_MS * SIM_MS,
                "I21: a driver on node %d was not told that the list of nodes is another", sim_node_index(p->n));
}

void sim_news_work(struct sim_proc *p)
{
    struct sim_listing *l = &p->script.listing;
    struct sim         *s = p->s;
    if (l->news && own_ref_is_ready(l->news)) {
        SIM_REQUIRE(s, l->news->state == OWN_REF_INLINE && l->news->size == 0, "I21: news of nodes that are none");
        s->counters.nodes_news++;
        sim_news_leave(p);
        l->next_at = s->now + sim_between(s, 0, AGAIN_MS) * SIM_MS;
    }
    if (!l->news && mt_id_is_zero(l->asked) && s->now >= l->next_at) {
        l->news = own_news_of_nodes(&p->own, sim_chance(s, 500000) ? CTL_NEWS_NODES : CTL_NEWS_FREE);
        SIM_REQUIRE(s, l->news, "news found no memory");
        l->count = 0;
        ask(p, 0);
    }
    check(p);
}

void sim_news_leave(struct sim_proc *p)
{
    if (p->script.listing.news)
        own_ref_drop(&p->own, p->script.listing.news);
    p->script.listing.news = NULL;
}
