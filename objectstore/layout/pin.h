/* SPDX-License-Identifier: Apache-2.0
 *
 * pin.h - the pin protocol: a reader never reads a place that is being written again. Frozen.
 *
 *   reader (any process of the job)            raylet (its owner has said: dead)
 *   P1  slot = place                           R1  generation[place] = g + 1
 *   P2  full fence                             R2  full fence
 *   P3  generation[place] == g?                R3  some slot == place?
 *         yes: read the value                        yes: keep it on a list, do R2 and R3 again later
 *         no:  slot = 0, the object is gone          no:  hand the place back to the segment's writer
 *   P4  slot = 0 (release)
 *
 * Why it is right. Suppose the raylet handed the place back and the reader reads the value. R3 did not see P1's store
 * and P3 did not see R1's. The two fences are ordered: if P2 comes before R2, R3 must see P1 (or a later value of the
 * slot, which is P4: the reader is done, and R3's acquire orders its reads before the hand-back); if R2 comes before
 * P2, P3 must see R1. Either way one of them has seen the other. Without the fences both stores may still stand in
 * store buffers when both loads are done: then both go on, and the reader reads what the writer overwrites.
 *
 * A reader killed at any point leaves a slot that is set; the raylet drops the whole table when it learns of the death.
 */
#ifndef OS_PIN_H
#define OS_PIN_H

#include "core/base/plant.h"
#include "objectstore/layout/layout.h"

/* P1..P3. True: the place stays as it is until os_pin_drop. The slot is free and this process's. */
static inline bool os_pin_hold(struct os_pins *pins, uint32_t slot, uint64_t place, shm_u32 *generation, uint32_t expected)
{
    if (slot >= shm_load32(&pins->high))
        shm_store32(&pins->high, slot + 1);        /* before the fence, like the slot: the raylet looks below it */
    shm_store64_release(&pins->slot[slot], place); /* release: after the reads of what the slot named before */
    if (!MT_PLANT(MT_PLANT_PIN_NO_FENCE))
        shm_fence();
    if (shm_load32_acquire(generation) == expected)
        return true;
    shm_store64_release(&pins->slot[slot], 0);
    return false;
}

/* P4. */
static inline void os_pin_drop(struct os_pins *pins, uint32_t slot)
{
    shm_store64_release(&pins->slot[slot], 0);
}

/* R1: the raylet alone writes generations. */
static inline void os_generation_bump(shm_u32 *generation)
{
    shm_store32(generation, shm_load32(generation) + 1);
}

/* R2: once, between the last bump and the first look. */
static inline void os_pins_before_look(void)
{
    shm_fence();
}

/* R3, one slot. The peer's `high` is not trusted. */
static inline uint32_t os_pins_high(struct os_pins *pins)
{
    uint32_t high = shm_load32_acquire(&pins->high);
    return high < OS_PIN_SLOTS ? high : OS_PIN_SLOTS;
}
static inline uint64_t os_pins_look(struct os_pins *pins, uint32_t slot)
{
    return shm_load64_acquire(&pins->slot[slot]);
}

#endif
