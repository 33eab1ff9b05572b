/* SPDX-License-Identifier: Apache-2.0
 *
 * states.c - which state of a trial, a slot and the sweep's driver may follow which. Drawings: driver.h.
 *
 * Owns: the states, and how many trials and slots are in each. Thread: the driver's.
 */
#include "sweep/run/driver.h"

#include "core/base/machine.h"

static const char *const trial_names[] = {
    [SWP_TRIAL_WAITING] = "WAITING", [SWP_TRIAL_RUNNING] = "RUNNING", [SWP_TRIAL_PAUSED] = "PAUSED", [SWP_TRIAL_ENDED] = "ENDED"};
static const uint32_t trial_next[] = {
    /* again WAITING: a RESUME that is replayed, or an attempt of the driver before that has failed */
    [SWP_TRIAL_WAITING] = MT_STATE(SWP_TRIAL_WAITING) | MT_STATE(SWP_TRIAL_RUNNING) | MT_STATE(SWP_TRIAL_PAUSED) |
                          MT_STATE(SWP_TRIAL_ENDED),
    [SWP_TRIAL_RUNNING] = MT_STATE(SWP_TRIAL_WAITING) | MT_STATE(SWP_TRIAL_PAUSED) | MT_STATE(SWP_TRIAL_ENDED),
    [SWP_TRIAL_PAUSED] = MT_STATE(SWP_TRIAL_WAITING) | MT_STATE(SWP_TRIAL_ENDED),
    [SWP_TRIAL_ENDED] = 0,
};
static const struct mt_machine trial_machine = MT_MACHINE("trial", trial_names, trial_next);

static const char *const slot_names[] = {
    [SWP_SLOT_NONE] = "NONE", [SWP_SLOT_STARTING] = "STARTING", [SWP_SLOT_UP] = "UP", [SWP_SLOT_DYING] = "DYING"};
static const uint32_t slot_next[] = {
    [SWP_SLOT_NONE] = MT_STATE(SWP_SLOT_STARTING),
    [SWP_SLOT_STARTING] = MT_STATE(SWP_SLOT_UP) | MT_STATE(SWP_SLOT_DYING) | MT_STATE(SWP_SLOT_NONE),
    [SWP_SLOT_UP] = MT_STATE(SWP_SLOT_DYING) | MT_STATE(SWP_SLOT_NONE),
    [SWP_SLOT_DYING] = MT_STATE(SWP_SLOT_NONE),
};
static const struct mt_machine slot_machine = MT_MACHINE("slot", slot_names, slot_next);

static const char *const driver_names[] = {
    [SWP_DRIVER_REPLAYING] = "REPLAYING", [SWP_DRIVER_OPEN] = "OPEN", [SWP_DRIVER_LEAVING] = "LEAVING", [SWP_DRIVER_DONE] = "DONE"};
static const uint32_t driver_next[] = {
    [SWP_DRIVER_REPLAYING] = MT_STATE(SWP_DRIVER_OPEN),
    [SWP_DRIVER_OPEN] = MT_STATE(SWP_DRIVER_LEAVING),
    [SWP_DRIVER_LEAVING] = MT_STATE(SWP_DRIVER_DONE),
    [SWP_DRIVER_DONE] = 0,
};
static const struct mt_machine driver_machine = MT_MACHINE("sweep", driver_names, driver_next);

void swp_trial_set_state(struct swp_driver *d, int64_t number, enum swp_trial_state next)
{
    struct swp_trial *t = &d->trials.data[number];
    MT_TRANSITION(&trial_machine, t->state, next);
    d->running -= t->state == SWP_TRIAL_RUNNING;
    d->paused -= t->state == SWP_TRIAL_PAUSED;
    t->state = (uint8_t)next;
    d->running += t->state == SWP_TRIAL_RUNNING;
    d->paused += t->state == SWP_TRIAL_PAUSED;
    MT_ASSERT((t->state == SWP_TRIAL_RUNNING) == (t->slot >= 0)); /* it is in a slot's queue, or it does not run */
    MT_ASSERT(d->running + d->paused <= d->trials.count);
}

void swp_slot_set_state(struct swp_driver *d, int index, enum swp_slot_state next)
{
    struct swp_slot *slot = &d->slots[index];
    MT_TRANSITION(&slot_machine, slot->state, next);
    d->live -= slot->state != SWP_SLOT_NONE;
    d->up -= slot->state == SWP_SLOT_UP;
    slot->state = next;
    d->live += slot->state != SWP_SLOT_NONE;
    d->up += slot->state == SWP_SLOT_UP;
    MT_ASSERT(d->up <= d->live && d->live <= d->config.slots);
    MT_ASSERT(next != SWP_SLOT_STARTING || slot->count == 0); /* whose queue was given back when the one before was down */
}

void swp_driver_set_state(struct swp_driver *d, enum swp_driver_state next)
{
    MT_TRANSITION(&driver_machine, d->state, next);
    d->state = next;
    MT_ASSERT(next != SWP_DRIVER_DONE || d->live == 0); /* no process is left */
}
