/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks.c - who has which rank in a generation, and its orders.
 *
 * Owns: nothing. Thread: the one that trains.
 */
#include "sgd/run/fit.h"

#include "core/base/rng.h"

int sgd_nodes_missing(const struct sgd_fit *fit, enum sgd_here how, uint64_t *out_places)
{
    *out_places = 0;
    for (const struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++)
        if (hand->state == SGD_HAND_READY ? how != SGD_HERE_WITH_RANK || hand->rank != SGD_NO_RANK
                                          : hand->state == SGD_HAND_STARTING && how == SGD_HERE)
            *out_places |= 1ull << hand->place;
    return fit->min_nodes - __builtin_popcountll(*out_places);
}

/* Its process is there, and may stay. */
static bool can_have_rank(const struct sgd_fit *fit, const struct sgd_hand *hand)
{
    return hand->state == SGD_HAND_READY && fit->places.of[hand->place].state == SGD_PLACE_OPEN && sgd_crew_fits(&fit->crew, hand);
}

/* Members are numbered node by node; on a node they keep their order. */
static void ranks_sort(struct sgd_fit *fit, int members)
{
    struct sgd_hand *by_rank[MT_GROUP_MEMBERS_MAX];
    int              next = 0;
    for (int rank = 0; rank < members; rank++)
        by_rank[rank] = sgd_crew_of_rank(&fit->crew, rank);
    for (int place = 0; place < SGD_PLACES_MAX; place++)
        for (int rank = 0; rank < members; rank++)
            if (by_rank[rank]->place == place)
                by_rank[rank]->rank = next++;
    MT_ASSERT(next == members); /* ranks have no gaps */
}

/* A spare for the next rank: on a node without a member as long as the run has too few of these. */
static struct sgd_hand *spare_choose(struct sgd_fit *fit)
{
    uint64_t         places;
    int              missing = sgd_nodes_missing(fit, SGD_HERE_WITH_RANK, &places);
    struct sgd_hand *any = NULL;
    for (struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++) {
        if (!can_have_rank(fit, hand) || hand->rank != SGD_NO_RANK)
            continue;
        if (missing <= 0 || !(places >> hand->place & 1))
            return hand;
        any = any ? any : hand;
    }
    return any;
}

int sgd_ranks_give(struct sgd_fit *fit)
{
    int members = 0;
    for (struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++)
        members += can_have_rank(fit, hand);
    members = members < fit->max ? members : fit->max;
    for (struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++)
        if (hand->rank >= members || !can_have_rank(fit, hand))
            hand->rank = SGD_NO_RANK;
    for (int rank = 0; rank < members; rank++)
        if (!sgd_crew_of_rank(&fit->crew, rank))
            spare_choose(fit)->rank = rank;
    ranks_sort(fit, members);
    return members;
}

int sgd_ranks_plan(struct sgd_fit *fit)
{
    int kept[SGD_HANDS_MAX];
    for (int i = 0; i < SGD_HANDS_MAX; i++)
        kept[i] = fit->crew.hands[i].rank;
    int members = sgd_ranks_give(fit);
    for (int i = 0; i < SGD_HANDS_MAX; i++) {
        struct sgd_hand *hand = &fit->crew.hands[i];
        hand->next_rank = hand->state == SGD_HAND_FREE ? SGD_NO_RANK : hand->rank;
        hand->rank = kept[i];
    }
    return members;
}

void sgd_ranks_place(struct sgd_fit *fit)
{
    for (int i = 0; i < SGD_PLACES_MAX; i++)
        fit->places.of[i].count = 0;
    for (uint32_t rank = (uint32_t)fit->workers; rank-- > 0;) {
        const struct sgd_hand *hand = sgd_crew_of_rank(&fit->crew, (int)rank);
        struct sgd_place      *place = &fit->places.of[hand->place];
        place->first = rank;
        place->count++;
        place->generation = fit->generation;
        fit->places.pids[rank] = hand->info.pid;
    }
}

manta_status sgd_order_make(struct sgd_fit *fit, uint32_t generation, struct sgd_hand *const *by_rank, int members,
                            struct sgd_order *order, manta_error *e)
{
    struct sgd_group_net *net = &order->net;
    int                   last = -1;
    *order = (struct sgd_order){.generation = generation, .members = (uint32_t)members};
    for (int rank = 0; rank < members; rank++) {
        const struct sgd_hand *hand = by_rank[rank];
        MT_ASSERT(hand->place >= last && net->nodes <= MT_GROUP_MEMBERS_MAX); /* node by node */
        if (hand->place == last)
            continue;
        last = hand->place;
        net->at[net->nodes] = hand->info.at;
        net->first[net->nodes++] = (uint8_t)rank;
    }
    net->first[net->nodes] = (uint8_t)members;
    net->group = fit->setup.run.group;
    order->is_wide = net->nodes > 1;
    mt_status st = order->is_wide ? mt_random_bytes(net->secret, sizeof net->secret) : mt_ok();
    return st.code ? sgd_fail(e, st.code, "no secret for the workers' connections: %s", st.what) : MANTA_OK;
}

struct sgd_order sgd_order_of(const struct sgd_order *order, int rank)
{
    struct sgd_order own = *order;
    own.rank = (uint32_t)rank;
    while (own.rank >= own.net.first[own.net.node + 1])
        own.net.node++;
    return own;
}
