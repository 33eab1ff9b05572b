/* SPDX-License-Identifier: Apache-2.0
 *
 * room.h - where a gang's ranks may be: the nodes of the cluster, and the placement group that keeps their places.
 *
 * Between MIN and MAX nodes it takes as many as have room. While fewer than MIN have, a group of MIN stands in the head's
 * queue, where the cluster's scaler sees it.
 *
 * Thread: the driver's. gng_room_look blocks for MT_GANG_TICK_MS, else nothing but manta_nodes does, which is called where there
 * is news.
 */
#ifndef GNG_ROOM_H
#define GNG_ROOM_H

#include "clients/gang/crew.h"
#include "clients/gang/plan/plan.h"
#include "clients/roster/roster.h"

struct gng_room {
    const struct gng_plan *plan;
    manta_pg              *pg;
    int                    pg_parts; /* its bundles: nodes, or ranks */
    int64_t                began_ns, pg_ns;
    bool                   was_there; /* once: nodes may come back, then */
    bool                   is_told;   /* that it waits */
    struct gng_berth      *berths;    /* of the members, once they are there */
    int                    count;
    char                   why[1024]; /* for people: why it waits, or why it never can be */
};

enum gng_room_is { GNG_ROOM_WAITS, GNG_ROOM_THERE, GNG_ROOM_NEVER };

void gng_room_begin(struct gng_room *room);
/* `nodes`: the driver's list of them, looked at anew where it matters. */
enum gng_room_is gng_room_look(struct gng_room *room, struct roster *nodes);
/* Gives it back. */
void gng_room_drop(struct gng_room *room);

/* How many nodes beside those of `used` have room for as many ranks as one is to have. */
int gng_nodes_with_room(const struct roster *nodes, const struct gng_plan *plan, const struct gng_layout *used);

#endif
