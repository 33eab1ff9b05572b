/* SPDX-License-Identifier: Apache-2.0
 *
 * next.c - the states of a generation that is made ready beside the present one. Drawn in next.h.
 *
 * Owns: next->state. Thread: one at a time per struct.
 */
#include "sgd/watch/next.h"

#include "core/base/machine.h"
#include "core/base/plant.h"

static const char *const next_names[] = {
    [SGD_NEXT_NONE] = "NONE", [SGD_NEXT_CONNECTING] = "CONNECTING", [SGD_NEXT_ORDERED] = "ORDERED", [SGD_NEXT_DROPPED] = "DROPPED"};
static const uint32_t next_of[] = {
    [SGD_NEXT_NONE] = MT_STATE(SGD_NEXT_CONNECTING),
    [SGD_NEXT_CONNECTING] = MT_STATE(SGD_NEXT_ORDERED) | MT_STATE(SGD_NEXT_DROPPED),
    [SGD_NEXT_ORDERED] = MT_STATE(SGD_NEXT_NONE) | MT_STATE(SGD_NEXT_DROPPED),
    [SGD_NEXT_DROPPED] = MT_STATE(SGD_NEXT_NONE),
};
static const struct mt_machine next_machine = MT_MACHINE("next generation", next_names, next_of);

static void next_set_state(struct sgd_next *next, enum sgd_next_state to)
{
    MT_TRANSITION(&next_machine, next->state, to);
    MT_ASSERT(next->generation > 0);
    next->state = to;
}

void sgd_next_begin(struct sgd_next *next, uint32_t generation, int64_t until_ns)
{
    next->generation = generation;
    next->until_ns = until_ns;
    next_set_state(next, SGD_NEXT_CONNECTING);
}

static enum sgd_next_act connecting_look(const struct sgd_next *next, const struct sgd_next_seen *seen, int64_t now_ns)
{
    if (!seen->lives || seen->failed || now_ns >= next->until_ns || seen->present == 0)
        return SGD_NEXT_DROP;
    return seen->connecting == 0 ? SGD_NEXT_ORDER : SGD_NEXT_WAIT;
}

static enum sgd_next_act ordered_look(const struct sgd_next_seen *seen)
{
    if (!seen->lives && !MT_PLANT(MT_PLANT_NEXT_KEPT))
        return SGD_NEXT_DROP;
    if (seen->present > 0)
        return SGD_NEXT_WAIT;
    return seen->has_left ? SGD_NEXT_TAKE : SGD_NEXT_DROP;
}

enum sgd_next_act sgd_next_look(const struct sgd_next *next, const struct sgd_next_seen *seen, int64_t now_ns)
{
    if (next->state == SGD_NEXT_CONNECTING)
        return connecting_look(next, seen, now_ns);
    if (next->state == SGD_NEXT_ORDERED)
        return ordered_look(seen);
    bool is_over = seen->connecting == 0 && seen->ordered == 0;
    if (next->state == SGD_NEXT_DROPPED && (is_over || MT_PLANT(MT_PLANT_NEXT_FORGOTTEN)))
        return SGD_NEXT_FORGET;
    return SGD_NEXT_WAIT;
}

void sgd_next_did(struct sgd_next *next, enum sgd_next_act act)
{
    if (act == SGD_NEXT_ORDER)
        next_set_state(next, SGD_NEXT_ORDERED);
    else if (act == SGD_NEXT_DROP)
        next_set_state(next, SGD_NEXT_DROPPED);
    else if (act != SGD_NEXT_WAIT)
        next_set_state(next, SGD_NEXT_NONE);
}

bool sgd_next_is_out(uint32_t after, uint32_t said)
{
    return said >= after || MT_PLANT(MT_PLANT_NEXT_EARLY);
}
