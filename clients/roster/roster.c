/* SPDX-License-Identifier: Apache-2.0
 *
 * roster.c - the cluster's nodes, as a program knows them. Owns: the list, and the wait for news. Thread: its owner's.
 */
#include "clients/roster/roster.h"

#include "core/base/clock.h"

#include <stdlib.h>

enum { ROOM = 64 }; /* nodes that a list has room for at first, and beyond those that were there the last time */

manta_node_info *roster_list(int *out_count, manta_error *e)
{
    for (int room = ROOM;; room = *out_count + ROOM) {
        manta_node_info *of = calloc((size_t)room, sizeof *of);
        *out_count = of ? manta_nodes(of, room, e) : -MANTA_ENOMEM;
        if (*out_count >= 0 && *out_count <= room)
            return of;
        free(of);
        if (*out_count < 0)
            return NULL;
    }
}

static bool is_due(struct roster *roster, int news_of, int64_t pace_ms)
{
    unsigned char is_ready = 0;
    if (roster->news && (manta_wait(&roster->news, 1, 1, 0, &is_ready, NULL) != 0 || news_of > roster->news_of)) {
        manta_free(roster->news);
        roster->news = NULL;
    }
    return !roster->news && (!roster->asked_ns || mt_now_ns() - roster->asked_ns >= pace_ms * 1000000);
}

bool roster_look(struct roster *roster, int news_of, int64_t pace_ms)
{
    int         count;
    manta_error e;
    if (!is_due(roster, news_of, pace_ms))
        return false;
    roster->news = manta_nodes_news(news_of, &e); /* first: what is not in the list yet is told */
    roster->news_of = news_of;
    roster->asked_ns = mt_now_ns();
    roster->asks++;
    manta_node_info *of = roster_list(&count, &e);
    if (!of) {
        manta_free(roster->news); /* again with the next look */
        roster->news = NULL;
        return false;
    }
    free(roster->of);
    roster->of = of;
    roster->count = count;
    return true;
}

void roster_doubt(struct roster *roster)
{
    manta_free(roster->news);
    roster->news = NULL;
    roster->asked_ns = 0;
}

const manta_node_info *roster_find(const struct roster *roster, uint32_t node)
{
    for (int i = 0; i < roster->count; i++)
        if (roster->of[i].node == node)
            return &roster->of[i];
    return NULL;
}

void roster_fini(struct roster *roster)
{
    manta_free(roster->news);
    free(roster->of);
    *roster = (struct roster){0};
}
