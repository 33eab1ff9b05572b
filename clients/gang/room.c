/* SPDX-License-Identifier: Apache-2.0
 *
 * room.c - see room.h. Owns: the placement group, and the list of berths.
 */
#include "clients/gang/room.h"

#include "core/base/clock.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- nodes ---- */

static bool is_used(const struct gng_layout *used, uint32_t node)
{
    for (int i = 0; used && i < used->count; i++)
        if (used->of[i].seat.node == node)
            return true;
    return false;
}

static bool has_room(const manta_node_info *node, const struct gng_plan *plan)
{
    int per_node = plan->per_node ? plan->per_node : 1;
    return node->alive && !node->draining && node->cpus_free + 1e-6 >= plan->cpus * per_node &&
           node->gpus_free + 1e-6 >= plan->gpus * per_node;
}

int gng_nodes_with_room(const struct roster *nodes, const struct gng_plan *plan, const struct gng_layout *used)
{
    int n = 0;
    for (int i = 0; i < nodes->count; i++)
        n += has_room(&nodes->of[i], plan) && !is_used(used, nodes->of[i].node);
    return n;
}

/* ---- what it waits for ---- */

static void why_tell(struct gng_room *room, const struct roster *nodes)
{
    const struct gng_plan *p = room->plan;
    char                  *at = room->why;
    size_t                 left = sizeof room->why;
    int                    parts = p->nodes_max ? p->nodes_min : p->ranks, per = p->per_node, n;
    if (p->nodes_max)
        n = snprintf(at, left, "%d node%s with room for %d rank%s", parts, parts == 1 ? "" : "s", per, per == 1 ? "" : "s");
    else
        n = snprintf(at, left, "room for %d rank%s", parts, parts == 1 ? "" : "s");
    if (gng_plan_reserves(p))
        n += snprintf(at + n, left - (size_t)n, " of %g CPU%s", p->cpus, p->cpus == 1 ? "" : "s");
    if (p->gpus > 0)
        n += snprintf(at + n, left - (size_t)n, " and %g GPU%s", p->gpus, p->gpus == 1 ? "" : "s");
    n += snprintf(at + n, left - (size_t)n, gng_plan_reserves(p) ? " each; free now:" : "; free now:");
    for (int i = 0, shown = 0; i < nodes->count && shown < 6 && (size_t)n < left - 200; i++) {
        const manta_node_info *node = &nodes->of[i];
        if (!node->alive && !node->draining)
            continue;
        n += snprintf(at + n, left - (size_t)n, "%s %.40s %g of %g CPUs", shown++ ? "," : "", node->name, node->cpus_free,
                      node->cpus);
        if (node->gpus > 0)
            n += snprintf(at + n, left - (size_t)n, " and %g of %g GPUs", node->gpus_free, node->gpus);
        if (node->draining)
            n += snprintf(at + n, left - (size_t)n, " (it is being drained)");
    }
    snprintf(at + n, left - (size_t)n,
             gng_plan_reserves(p) ? " (`manta scale explain` says whether nodes come)"
                                  : " (nothing is reserved, so nobody starts nodes for it)");
}

/* ---- the group ---- */

void gng_room_begin(struct gng_room *room)
{
    room->began_ns = mt_now_ns();
    room->is_told = false;
    room->why[0] = 0;
}

static void pg_drop(struct gng_room *room)
{
    manta_error e;
    if (!room->pg)
        return;
    (void)!manta_pg_remove(room->pg, &e);
    (void)!manta_pg_free(room->pg);
    room->pg = NULL;
}

void gng_room_drop(struct gng_room *room)
{
    pg_drop(room);
    free(room->berths);
    room->berths = NULL;
    room->count = 0;
}

static bool pg_make(struct gng_room *room, int parts, manta_error *e)
{
    const struct gng_plan *p = room->plan;
    int                    per = p->nodes_max ? p->per_node : 1;
    manta_pg_opts          opts = {.strategy = p->nodes_max ? MANTA_PG_STRICT_SPREAD : MANTA_PG_PACK};
    manta_bundle           bundles[MT_GANG_BUNDLES_MAX];
    for (int i = 0; i < parts; i++)
        bundles[i] = (manta_bundle){.num_cpus = p->cpus * per, .num_gpus = p->gpus * per};
    room->pg = manta_pg_new(bundles, parts, &opts, e);
    room->pg_parts = parts;
    room->pg_ns = mt_now_ns();
    return room->pg != NULL;
}

static enum gng_room_is never(struct gng_room *room, const char *text, const char *hint)
{
    snprintf(room->why, sizeof room->why, "%s%s", text, hint);
    return GNG_ROOM_NEVER;
}

/* `text`: the head's word. It speaks of bundles, and of strategies that people can't choose here. */
static enum gng_room_is never_fits(struct gng_room *room, const struct roster *nodes, const char *text)
{
    const struct gng_plan *p = room->plan;
    char                   own[160];
    int                    alive = 0;
    for (int i = 0; i < nodes->count; i++)
        alive += nodes->of[i].alive && !nodes->of[i].draining;
    if (p->nodes_max && alive < p->nodes_min) {
        snprintf(own, sizeof own, "%d nodes are wanted, there %s %d, and nobody starts so many", p->nodes_min,
                 alive == 1 ? "is" : "are", alive);
        return never(room, own, "; fewer --nodes may fit");
    }
    if (p->gpus > 0)
        return never(room, text, "; fewer ranks, or fewer --gpus or --cpus of each, may fit");
    return never(room, text, "; fewer -n or --cpus may fit, and --cpus 0 reserves nothing");
}

static enum gng_room_is there(struct gng_room *room, const uint32_t *nodes, int parts)
{
    int per = room->plan->nodes_max ? room->plan->per_node : 1;
    room->count = room->plan->nodes_max ? parts * per : room->plan->ranks;
    free(room->berths);
    room->berths = calloc((size_t)room->count, sizeof *room->berths);
    if (!room->berths)
        return never(room, "no memory for a gang", "");
    for (int i = 0; i < room->count; i++)
        room->berths[i] = (struct gng_berth){room->pg, room->pg ? i / per + 1 : 0, nodes ? nodes[i / per] : 0};
    room->was_there = true;
    return GNG_ROOM_THERE;
}

/* Where nothing is reserved: nodes that are alive, whatever is free there. */
static enum gng_room_is bare_look(struct gng_room *room, const struct roster *nodes)
{
    const struct gng_plan *p = room->plan;
    uint32_t               of[MT_GANG_RANKS_MAX];
    int                    count = 0;
    if (!p->nodes_max)
        return there(room, NULL, p->ranks);
    for (int i = 0; i < nodes->count && count < p->nodes_max && count < MT_GANG_RANKS_MAX; i++)
        if (has_room(&nodes->of[i], p))
            of[count++] = nodes->of[i].node;
    return count >= p->nodes_min ? there(room, of, count) : GNG_ROOM_WAITS;
}

/* How many bundles to ask for now; 0: it waits a moment, since more may be free soon. */
static int parts_wanted(const struct gng_room *room, const struct roster *nodes)
{
    const struct gng_plan *p = room->plan;
    if (!p->nodes_max)
        return p->ranks;
    int fit = gng_nodes_with_room(nodes, p, NULL);
    if (fit >= p->nodes_max)
        return p->nodes_max;
    if (mt_now_ns() - room->began_ns < MT_GANG_SETTLE_MS * INT64_C(1000000))
        return 0;
    return fit > p->nodes_min ? fit : p->nodes_min;
}

static enum gng_room_is pg_look(struct gng_room *room, const struct roster *nodes)
{
    manta_error e;
    int         wanted = parts_wanted(room, nodes);
    bool        is_late = room->pg && mt_now_ns() - room->pg_ns > MT_GANG_FIT_MS * INT64_C(1000000);
    if (room->pg && is_late && wanted && wanted != room->pg_parts)
        pg_drop(room);
    if (!room->pg && wanted && !pg_make(room, wanted, &e))
        return never(room, e.message, "");
    if (!room->pg) {
        mt_sleep_ms(MT_GANG_TICK_MS);
        return GNG_ROOM_WAITS;
    }
    manta_status code = manta_pg_wait(room->pg, MT_GANG_TICK_MS, &e);
    if (code == MANTA_OK)
        return there(room, NULL, room->pg_parts);
    if (code == MANTA_ETIMEDOUT || code == MANTA_ECONN)
        return GNG_ROOM_WAITS;
    if (code == MANTA_EUNSCHEDULABLE && room->was_there) { /* nodes may come again */
        mt_sleep_ms(MT_GANG_TICK_MS);
        return GNG_ROOM_WAITS;
    }
    return code == MANTA_EUNSCHEDULABLE ? never_fits(room, nodes, e.message) : never(room, e.message, "");
}

enum gng_room_is gng_room_look(struct gng_room *room, struct roster *nodes)
{
    const struct gng_plan *p = room->plan;
    int64_t                waited_ms = (mt_now_ns() - room->began_ns) / 1000000, most_ms = p->wait_ms;
    bool                   wants_nodes = p->nodes_max || waited_ms > MT_GANG_WHY_MS;
    if (wants_nodes)
        roster_look(nodes, MANTA_NEWS_FREE, 0);
    enum gng_room_is is = gng_plan_reserves(p) ? pg_look(room, nodes) : bare_look(room, nodes);
    if (is != GNG_ROOM_WAITS)
        return is;
    if (!gng_plan_reserves(p))
        mt_sleep_ms(MT_GANG_TICK_MS);
    if (wants_nodes)
        why_tell(room, nodes);
    if (most_ms < 0 && room->was_there)
        most_ms = MT_GANG_WAIT_MS;
    return most_ms >= 0 && waited_ms > most_ms ? GNG_ROOM_NEVER : GNG_ROOM_WAITS;
}
