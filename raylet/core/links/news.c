/* SPDX-License-Identifier: Apache-2.0
 *
 * news.c - that the list of nodes is another: told once to each process that has asked for it.
 *
 *   process: CTL_OP_NODES_NEWS, then CTL_OP_NODES --a node comes, goes, changes--> the first is answered --> both again
 *
 * Both come by one ring, in their order. So what changes before the list is made is in the list, and what changes after it is told.
 *
 * Owns: each process's requests for news. Thread: the logic loop only.
 * Always: a request is answered by the end of the first step after it that has such news.
 */
#include "raylet/core/links/links.h"

#include "core/base/plant.h"

void rlt_news(struct rlt *r, enum ctl_news what)
{
    r->news[CTL_NEWS_FREE].is_due = true; /* who wants to know what is free wants to know of all */
    r->news[what].is_due = true;
}

static void answer(struct rlt *r, struct rlt_proc *p, enum ctl_news what)
{
    if (!mt_id_is_zero(p->news[what]))
        rlt_down_reply(r->out, p->conn, p->news[what], MT_OK, "");
    p->news[what] = (mt_id){0, 0};
}

void rlt_news_ask(struct rlt *r, struct rlt_proc *p, mt_id id, uint32_t what)
{
    if (what >= CTL_NEWS) {
        rlt_down_reply(r->out, p->conn, id, MT_EINVAL, "no such news");
        return;
    }
    answer(r, p, (enum ctl_news)what); /* one that was asked for before */
    p->news[what] = id;
    r->news[what].is_asked = true;
}

static void tell(struct rlt *r, enum ctl_news what)
{
    MT_MAP_EACH(&r->conns, entry)
        answer(r, entry->value.ptr, what);
    r->news[what].is_asked = false;
    if (MT_PLANT(MT_PLANT_NEWS_SPENT))
        r->news[CTL_NEWS_NODES].is_asked = false;
}

void rlt_news_round(struct rlt *r)
{
    r->news[CTL_NEWS_FREE].is_due |= r->news_changes != r->ledger.changes;
    r->news_changes = r->ledger.changes;
    for (int what = CTL_NEWS; what-- > 0;) {
        if (r->news[what].is_due && r->news[what].is_asked)
            tell(r, (enum ctl_news)what);
        r->news[what].is_due = false;
    }
}
