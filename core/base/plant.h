/* SPDX-License-Identifier: Apache-2.0
 *
 * plant.h - bugs on purpose, by number, for the tests that must find them.
 *
 * A test that has never failed proves little. Some test programs compile the very sources a second time with
 * MANTA_PLANTS defined and choose one bug at run time; each must be caught. In every other build MT_PLANT(n) is the
 * constant 0 and the compiler drops the branch.
 */
#ifndef MT_BASE_PLANT_H
#define MT_BASE_PLANT_H

enum mt_plant_number {
    MT_PLANT_NONE = 0,
    MT_PLANT_PARK_NO_FENCE = 1,    /* the sleeper looks at the rings before its ASLEEP is visible */
    MT_PLANT_CLAIM_BY_STORE = 2,   /* a slot is taken by load, compare, store instead of a compare-and-swap */
    MT_PLANT_PIN_NO_FENCE = 3,     /* a pin re-checks the generation with acquire only */
    MT_PLANT_RING_EARLY_HEAD = 4,  /* a record is shown before it is written */
    MT_PLANT_FINISH_LATE = 5,      /* a worker marks its slot DONE after the owner may have reused it */
};

#ifdef MANTA_PLANTS
extern int mt_plant; /* the bug planted in this process; the test program defines and sets it */
#define MT_PLANT(n) (mt_plant == (n))
#else
#define MT_PLANT(n) 0
#endif

#endif
