/* SPDX-License-Identifier: Apache-2.0
 *
 * scaler.h - limits of clusters that grow and shrink by themselves.
 */
#ifndef MT_LIMITS_SCALER_H
#define MT_LIMITS_SCALER_H

enum {
    MT_SCL_TYPES_MAX = 64,
    MT_SCL_INSTANCES_MAX = 16384, /* at a time, in all states */
    MT_SCL_DEMANDS_MAX = 4096,    /* different ones that are looked at; the rest waits */
    MT_SCL_NAME_SIZE = 64,        /* of a type, a handle, a demand; the end included */
    MT_SCL_WHY_SIZE = 256,
    MT_SCL_LAUNCHING_MAX = 64,           /* at the provider at a time; the others wait as WANTED */
    MT_SCL_LIST_MS = 10 * 1000,          /* between two listings */
    MT_SCL_LIST_SOON_MS = 500,           /* ... where something is in doubt */
    MT_SCL_STRANGER_LISTINGS = 2,        /* good ones that show what nobody knows, before it is ended */
    MT_SCL_MISSING_LISTINGS = 3,         /* good ones without what is known, before that is gone */
    MT_SCL_AGAIN_MS = 5 * 1000,          /* TERMINATE is said again while a listing shows it */
    MT_SCL_BACK_OFF_MS = 1000,           /* a type that failed is not launched again for so long, ... */
    MT_SCL_BACK_OFF_MS_MAX = 300 * 1000, /* ... twice as long each time, at most */
    MT_SCL_AVOID_MS = 60 * 1000,         /* a spot type of which a node was taken away comes after others for so long, ... */
    MT_SCL_AVOID_MS_MAX = 900 * 1000,    /* ... twice as long where that happens again soon, at most */
    MT_SCL_PACED_MAX = 64,               /* jobs that leave their nodes in one decision */
    MT_SCL_ZONES_MAX = 16,               /* of a type */
    MT_SCL_LAUNCH_MS = 60 * 1000,        /* the provider has so long for its answer to a launch ... */
    MT_SCL_ANSWER_MS = 30 * 1000,        /* ... and to all else */
    MT_SCL_CONSOLIDATE_MS = 600 * 1000,  /* default of consolidate_s */
    MT_SCL_SPARE_MS = 15 * 1000,         /* that a node's work fits elsewhere is looked at again after that, before it goes */
    MT_SCL_LITTLE = 500,                 /* of a node's resources, in thousandths, that are used: little */
    MT_SCL_PACE_LATE_MS = 30 * 1000,     /* beyond what a change of place takes: until somebody has noticed that it must be */
    MT_SCL_PACE_STOP_MS = 10 * 1000,     /* a job that goes on elsewhere may end within that */
    MT_SCL_DOWN_MS = 30 * 1000,          /* what runs on a node may end within that when the cluster goes down */
    MT_SCL_HISTORY = 100,                /* decisions that are kept for people */
    MT_SCL_REQUESTS_MAX = 1024,
    MT_SCL_WISH_MS = 1000, /* so long a wish has no place before a node is started for it: what its owner took is told by then */
    MT_SCL_IDLE_MS_MIN = 2000,   /* longer than a promise of the head: what was placed there is there by then, or waits again */
    MT_SCL_BOOT_MS = 300 * 1000, /* defaults of a type */
    MT_SCL_IDLE_MS = 60 * 1000,
    MT_SCL_LINE_MAX = 4 * 1024 * 1024, /* of a provider's answer, in bytes */
};

#endif
