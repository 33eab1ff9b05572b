/* SPDX-License-Identifier: Apache-2.0
 *
 * generation.c - the states of a generation.
 *
 *   NONE --orders--> ORDERED --its first step--> GOING --more can work--> RESIZED --a death--> ENDED
 *                       |                          '--death, error, all back--------------------^
 *                       '--death, error, all back--> FAILED --a step of it is heard of late-----'
 *
 *   FAILED --orders--> ORDERED      RESIZED --orders--> ORDERED      ENDED --orders--> ORDERED
 *
 * Owns: fit->state. Thread: the one that trains.
 */
#include "sgd/run/fit.h"

#include "core/base/machine.h"

static const char *const generation_names[] = {
    [SGD_GEN_NONE] = "NONE",       [SGD_GEN_ORDERED] = "ORDERED", [SGD_GEN_GOING] = "GOING",
    [SGD_GEN_RESIZED] = "RESIZED", [SGD_GEN_FAILED] = "FAILED",   [SGD_GEN_ENDED] = "ENDED"};
static const uint32_t generation_next[] = {
    [SGD_GEN_NONE] = MT_STATE(SGD_GEN_ORDERED),
    [SGD_GEN_ORDERED] = MT_STATE(SGD_GEN_GOING) | MT_STATE(SGD_GEN_FAILED),
    [SGD_GEN_GOING] = MT_STATE(SGD_GEN_RESIZED) | MT_STATE(SGD_GEN_ENDED),
    [SGD_GEN_RESIZED] = MT_STATE(SGD_GEN_ENDED) | MT_STATE(SGD_GEN_ORDERED),
    [SGD_GEN_FAILED] = MT_STATE(SGD_GEN_ENDED) | MT_STATE(SGD_GEN_ORDERED),
    [SGD_GEN_ENDED] = MT_STATE(SGD_GEN_ORDERED),
};
static const struct mt_machine generation_machine = MT_MACHINE("generation", generation_names, generation_next);

static void generation_set_state(struct sgd_fit *fit, enum sgd_generation next)
{
    MT_TRANSITION(&generation_machine, fit->state, next);
    MT_ASSERT(fit->generation > 0 && fit->workers > 0);
    fit->state = next;
}

void sgd_generation_ordered(struct sgd_fit *fit)
{
    generation_set_state(fit, SGD_GEN_ORDERED);
}

void sgd_generation_stepped(struct sgd_fit *fit)
{
    if (fit->state == SGD_GEN_ORDERED)
        generation_set_state(fit, SGD_GEN_GOING);
    else if (fit->state == SGD_GEN_FAILED)
        generation_set_state(fit, SGD_GEN_ENDED);
}

void sgd_generation_resize(struct sgd_fit *fit)
{
    generation_set_state(fit, SGD_GEN_RESIZED);
}

void sgd_generation_over(struct sgd_fit *fit)
{
    if (fit->state == SGD_GEN_ORDERED)
        generation_set_state(fit, SGD_GEN_FAILED);
    else if (fit->state == SGD_GEN_GOING || fit->state == SGD_GEN_RESIZED)
        generation_set_state(fit, SGD_GEN_ENDED);
}

bool sgd_generation_lives(const struct sgd_fit *fit)
{
    return fit->state == SGD_GEN_ORDERED || fit->state == SGD_GEN_GOING;
}

bool sgd_generation_has_stepped(const struct sgd_fit *fit)
{
    return fit->state == SGD_GEN_GOING || fit->state == SGD_GEN_RESIZED || fit->state == SGD_GEN_ENDED;
}
