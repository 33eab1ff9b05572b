/* SPDX-License-Identifier: Apache-2.0
 *
 * hire.c - how crowded places are, and who waits too long on one. Owns: fit->moves. Thread: the one that trains.
 */
#include "sgd/run/hire.h"

#include <limits.h>

/* How bad it is to add a worker where there are so many: worst where there is never room for it, bad where it has to wait for
 * others to leave, and else the worse the more there are. */
static int crowding(const struct sgd_place *place, int count)
{
    return count + (count >= place->room ? SGD_HANDS_MAX : 0) + (count >= place->most ? 2 * SGD_HANDS_MAX : 0);
}

struct sgd_place *sgd_hire_place(struct sgd_fit *fit, int *out_index)
{
    int best = 0, least = INT_MAX;
    for (int i = 0; i < SGD_PLACES_MAX; i++) {
        const struct sgd_place *place = &fit->places.of[i];
        int                     worse = crowding(place, sgd_crew_count_at(&fit->crew, i));
        if (place->state != SGD_PLACE_OPEN && place->state != SGD_PLACE_OPENING)
            continue;
        if (worse < least)
            best = i, least = worse;
    }
    *out_index = best;
    return fit->places.of[best].state == SGD_PLACE_OPEN ? &fit->places.of[best] : NULL;
}

void sgd_hire_count(struct sgd_fit *fit)
{
    for (int i = 0; i < SGD_PLACES_MAX; i++)
        fit->places.of[i].placed = 0;
    for (const struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++)
        fit->places.of[hand->place].placed += sgd_crew_is_placed(hand);
}

/* How many more workers a place has room for; below 0: so many wait there for CPUs, or are being given them. */
static int room_left(const struct sgd_fit *fit, int index)
{
    const struct sgd_place *place = &fit->places.of[index];
    return (place->room < place->most ? place->room : place->most) - sgd_crew_count_at(&fit->crew, index);
}

/* For so long who is to move has waited. A process that is slow to come looks the same as one that has no CPUs, so each move makes
 * the next one wait for longer. */
static int64_t move_after_ns(const struct sgd_fit *fit)
{
    return MT_TRAIN_UNPLACED_MS * 1000000ll << (fit->moves < MT_TRAIN_UNPLACED_DOUBLED ? fit->moves : MT_TRAIN_UNPLACED_DOUBLED);
}

/* Who waits for CPUs where others have them is hired where there are some. */
static void waiting_move(struct sgd_fit *fit)
{
    int64_t waited_ns = move_after_ns(fit), elsewhere = 0;
    for (int i = 0; i < SGD_PLACES_MAX; i++)
        if (fit->places.of[i].state == SGD_PLACE_OPEN && room_left(fit, i) > 0)
            elsewhere += room_left(fit, i);
    for (int i = 0; i < SGD_PLACES_MAX; i++)
        while (elsewhere > 0 && fit->places.of[i].state == SGD_PLACE_OPEN && room_left(fit, i) < 0 &&
               sgd_crew_unplaced_drop(&fit->crew, i, waited_ns)) {
            elsewhere--;
            fit->moves++;
        }
}

/* A node where nobody is, and nobody can be now, makes place for one that has room. */
static void place_trade(struct sgd_fit *fit)
{
    int64_t waited_ns = move_after_ns(fit);
    for (int i = 1; i < SGD_PLACES_MAX; i++) {
        struct sgd_place *place = &fit->places.of[i];
        if (place->state != SGD_PLACE_OPEN || place->room > 0 || place->placed > 0 || !sgd_places_could_trade(&fit->places))
            continue;
        while (sgd_crew_unplaced_drop(&fit->crew, i, waited_ns))
            fit->moves++;
        if (sgd_crew_count_at(&fit->crew, i) == 0)
            sgd_place_close(place);
    }
}

void sgd_hire_move(struct sgd_fit *fit)
{
    waiting_move(fit);
    place_trade(fit);
}
