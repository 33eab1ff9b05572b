/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead.c - the next generation, made ready beside the present one: who is in it, its calls, its orders. When, next.h says.
 *
 * Owns: fit->next. Thread: the one that trains.
 */
#include "sgd/run/fit.h"

#define EACH_HAND(fit, hand) for (struct sgd_hand *hand = (fit)->crew.hands; hand < (fit)->crew.hands + SGD_HANDS_MAX; hand++)

/* Who is back after its step begins with these orders when the others of its node are out of the present generation too. */
static struct sgd_order order_of(struct sgd_fit *fit, const struct sgd_hand *hand)
{
    const struct sgd_place *place = &fit->places.of[hand->place];
    struct sgd_order        order = sgd_order_of(&fit->next_order, hand->next_rank);
    order.after = fit->generation;
    order.after_first = place->first;
    order.after_last = place->first + place->count;
    return order;
}

/* All that stay are in it, each in its place among those of its node: nobody else has words of theirs. */
static bool is_possible(struct sgd_fit *fit, struct sgd_hand **by_rank, int members)
{
    uint64_t places = 0;
    int      first[SGD_PLACES_MAX];
    for (int rank = members; rank-- > 0;)
        places |= 1ull << by_rank[rank]->place, first[by_rank[rank]->place] = rank;
    EACH_HAND(fit, hand)
    {
        const struct sgd_place *place = &fit->places.of[hand->place];
        if (hand->state == SGD_HAND_FREE || hand->rank == SGD_NO_RANK || place->state != SGD_PLACE_OPEN)
            continue;
        if (hand->next_rank == SGD_NO_RANK || hand->next_rank - first[hand->place] != hand->rank - (int)place->first)
            return false;
    }
    return members >= fit->min && members > 0 && __builtin_popcountll(places) >= fit->min_nodes;
}

void sgd_fit_next_begin(struct sgd_fit *fit)
{
    struct sgd_hand *by_rank[MT_GROUP_MEMBERS_MAX];
    manta_error      e;
    int              members = sgd_ranks_plan(fit);
    EACH_HAND(fit, hand)
    if (hand->next_rank != SGD_NO_RANK && hand->state != SGD_HAND_FREE)
        by_rank[hand->next_rank] = hand;
    fit->next_tried = fit->generation;
    fit->has_next_stepped = false;
    if (!is_possible(fit, by_rank, members) ||
        sgd_order_make(fit, fit->generations + 1, by_rank, members, &fit->next_order, &e) != MANTA_OK) {
        EACH_HAND(fit, hand)
        hand->next_rank = SGD_NO_RANK;
        return;
    }
    sgd_next_begin(&fit->next, ++fit->generations, mt_now_ns() + MT_TRAIN_CONNECT_MS * 1000000ll);
    for (int rank = 0; rank < members; rank++) {
        struct sgd_order order = order_of(fit, by_rank[rank]);
        sgd_crew_connect(by_rank[rank], &order);
    }
}

static struct sgd_next_seen seen_of(struct sgd_fit *fit)
{
    struct sgd_next_seen seen = {.has_left = true};
    uint32_t             ready = 0; /* of the next one's: who has died may be buried already */
    EACH_HAND(fit, hand)
    {
        if (hand->state == SGD_HAND_FREE)
            continue;
        seen.present += hand->train != NULL;
        seen.connecting += hand->connect != NULL;
        seen.ordered += hand->next != NULL;
        seen.has_left = seen.has_left && (!hand->has_outcome || hand->rank == SGD_NO_RANK || hand->outcome.has_left);
        if (hand->next_rank != SGD_NO_RANK) {
            ready += hand->state == SGD_HAND_READY;
            seen.failed = seen.failed || hand->has_failed;
        }
    }
    seen.lives = sgd_generation_lives(fit) && ready == fit->next_order.members;
    return seen;
}

static void orders_give(struct sgd_fit *fit)
{
    EACH_HAND(fit, hand)
    if (hand->state != SGD_HAND_FREE && hand->next_rank != SGD_NO_RANK) {
        struct sgd_order order = order_of(fit, hand);
        sgd_crew_order_next(hand, &order);
    }
    fit->leave_ns = mt_now_ns();
    sgd_places_leave(&fit->places, fit->generation);
}

/* Whoever waits in it, or for it, comes back; the present one ends with it, since a later one has ended. */
static void orders_drop(struct sgd_fit *fit)
{
    sgd_places_abort(&fit->places, fit->next.generation, MT_EAGAIN, 0);
    if (fit->state == SGD_GEN_GOING)
        sgd_generation_resize(fit);
}

/* Who does not answer would be waited for: a spare that connects, not long; others as long as a first step may take. */
static void late_kill(struct sgd_fit *fit)
{
    int64_t late_ns = mt_now_ns() - fit->next_dropped_ns;
    EACH_HAND(fit, hand)
    {
        bool is_spare = hand->rank == SGD_NO_RANK && hand->connect;
        if (hand->state != SGD_HAND_READY || (!hand->connect && !hand->next))
            continue;
        if (late_ns > (is_spare ? MT_TRAIN_CONNECT_MS : MT_TRAIN_FIRST_MS) * 1000000ll)
            sgd_crew_kill(hand, "it did not come back from a generation that was given up, so it was killed");
    }
}

static void forget(struct sgd_fit *fit)
{
    EACH_HAND(fit, hand)
    if (hand->state != SGD_HAND_FREE)
        hand->next_rank = SGD_NO_RANK, hand->has_failed = false;
    fit->crew.is_next_dropped = false;
}

bool sgd_fit_next_look(struct sgd_fit *fit)
{
    struct sgd_next_seen seen = seen_of(fit);
    enum sgd_next_act    act = sgd_next_look(&fit->next, &seen, mt_now_ns());
    if (fit->next.state == SGD_NEXT_DROPPED && act == SGD_NEXT_WAIT)
        late_kill(fit);
    if (act == SGD_NEXT_WAIT || act == SGD_NEXT_TAKE)
        return fit->next.state == SGD_NEXT_CONNECTING || fit->next.state == SGD_NEXT_DROPPED;
    if (act == SGD_NEXT_ORDER)
        orders_give(fit);
    else if (act == SGD_NEXT_FORGET)
        forget(fit);
    else if (fit->next.state == SGD_NEXT_ORDERED)
        orders_drop(fit);
    fit->next_dropped_ns = act == SGD_NEXT_DROP ? mt_now_ns() : fit->next_dropped_ns;
    sgd_next_did(&fit->next, act);
    fit->crew.is_next_dropped = fit->next.state == SGD_NEXT_DROPPED;
    return fit->crew.is_next_dropped;
}

int sgd_fit_next_take(struct sgd_fit *fit)
{
    MT_ASSERT(fit->next.state == SGD_NEXT_ORDERED);
    EACH_HAND(fit, hand)
    if (hand->state != SGD_HAND_FREE)
        sgd_crew_next_take(hand);
    fit->order = fit->next_order;
    fit->generation = fit->next.generation;
    sgd_next_did(&fit->next, SGD_NEXT_TAKE);
    return (int)fit->order.members;
}
