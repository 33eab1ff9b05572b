/* SPDX-License-Identifier: Apache-2.0
 *
 * roster.h - the cluster's nodes, as a program knows them that acts on what changes: all of them, however many, asked for anew only
 * where there is news.
 *
 * Over libmanta's public API. Thread: the owner's of a roster.
 */
#ifndef ROSTER_H
#define ROSTER_H

#include <manta.h>

#include <stdbool.h>
#include <stdint.h>

/* Zeroed at first. */
struct roster {
    manta_node_info *of; /* NULL: they have never been known */
    int              count;
    manta_ref       *news;     /* ready: they are others now; NULL: they are to be asked for. Who waits waits for this, too */
    int              news_of;  /* MANTA_NEWS_... */
    int64_t          asked_ns; /* when they were last asked for; 0: with the next look, whatever the pace */
    int64_t          asks;     /* so often they were */
};

/* All nodes; free() them. NULL: *out_count is -code, and *e says why: ENOMEM, and as manta_nodes. Blocks as that does. */
manta_node_info *roster_list(int *out_count, manta_error *e);

/* Asks for the nodes where there is news of them, or where news_of (MANTA_NEWS_...) is more than was waited for so far; pace_ms
 * after the last time at the soonest. True: the list is new. False: it is as it was; also where they could not be asked for, which
 * the next look does again. Blocks as manta_nodes does. */
bool roster_look(struct roster *roster, int news_of, int64_t pace_ms);

/* What is known does not hold any more: the next look asks, whether or not there is news. */
void roster_doubt(struct roster *roster);

/* NULL: it is not among them. */
const manta_node_info *roster_find(const struct roster *roster, uint32_t node);

void roster_fini(struct roster *roster);

#endif
