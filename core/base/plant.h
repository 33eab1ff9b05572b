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
    MT_PLANT_RAN_IS_NOT_RUN = 6,   /* an owner takes what ran when its worker died for not run */
    MT_PLANT_RETRY_LAST = 7,       /* a call that is tried again goes behind later ones */
    MT_PLANT_LEASE_KEEPS = 8,      /* a lease whose worker died does not give its resources back */
    MT_PLANT_DEATH_IS_SILENT = 9,  /* a raylet does not tell who monitors a process that it died */
    MT_PLANT_EARLY_ACK = 10,       /* the head answers before its store has the change */
    MT_PLANT_FINISH_EARLY = 11,    /* a worker marks its slot DONE before the outcome is written */
};

#ifdef MANTA_PLANTS
extern int mt_plant; /* the bug planted in this process; the test program defines and sets it */
#define MT_PLANT(n) (mt_plant == (n))
#else
#define MT_PLANT(n) 0
#endif

#endif
