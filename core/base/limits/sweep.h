/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep.h - limits of spaces, samplers, trials, and the driver of a sweep.
 */
#ifndef MT_LIMITS_SWEEP_H
#define MT_LIMITS_SWEEP_H

enum {
    MT_SWEEP_PARAMS_MAX = 128,   /* of one space: what the direction numbers of Sobol's sequence are there for */
    MT_SWEEP_CHOICES_MAX = 4096, /* of one parameter */
    MT_SWEEP_CONSTRAINTS_MAX = 256,
    MT_SWEEP_DRAWS_MAX = 10 * 1000,       /* points drawn in vain before constraints are called contradictory */
    MT_SWEEP_GRID_MAX = 10 * 1000 * 1000, /* combinations */
    MT_SWEEP_CANDIDATES_MAX = 1024,       /* of one suggestion by TPE */
    MT_SWEEP_POPULATION_MAX = 65536,      /* of a generation */
    MT_SWEEP_GP_ROWS_MAX = 500,           /* trials that a Gaussian process stands on: time grows with their cube */
    MT_SWEEP_GP_RUNNING_MAX = 128,        /* running ones that it counts beside them */
    MT_SWEEP_WINDOW_MAX = 4096,           /* values that a plateau looks at */
    MT_SWEEP_AHEAD_MAX = 64,              /* trials that one slot has, the one that runs included */
    MT_SWEEP_STOCK = 1024,                /* points drawn ahead, where they don't depend on results */
    MT_SWEEP_SLOTS_MAX = 4096,
    MT_SWEEP_AHEAD_NS = 20 * 1000 * 1000, /* so much work may wait in a slot */
    MT_SWEEP_NEXT_NS = 200 * 1000 * 1000, /* a trial that takes less finds the next one in its slot */
    MT_SWEEP_STARTS_MAX = 3,              /* deaths of a slot's process in a row before it is up */
    MT_SWEEP_FAILURES_MAX = 16,           /* so many trials that fail, and none that does not: the sweep ends */
    MT_SWEEP_RETRIES = 2,                 /* of a trial that failed, if not said */
    MT_SWEEP_BUSY_MS = 5000,              /* for another process that has the journal locked */
    MT_SWEEP_WORDS_MS = 250,              /* between two looks for words from outside */
    MT_SWEEP_EVENTS_MAX = 16384,          /* of a trial that wait for the driver; then a report waits */
    MT_SWEEP_GATHER_MS = 10,              /* reports that nobody waits for travel together */
    MT_SWEEP_POLL_MS = 1000,              /* a slot without news says so this often */
    MT_SWEEP_DISK_LOOK_MS = 1,            /* the driver looks so often whether records are durable, while it waits for that */
    MT_SWEEP_TICK_MS = 100,
    MT_SWEEP_STILL_MS = 400,                   /* more between two ticks: the driver stood still */
    MT_SWEEP_NODES_MS = 100,                   /* between two looks at the nodes */
    MT_SWEEP_IDLE_MS = 1000,                   /* a slot that is not needed is let go after that */
    MT_SWEEP_SHOW_MS = 250,                    /* between two calls of progress */
    MT_SWEEP_ROOM_MS = 100,                    /* a journal whose disk is full tries so often */
    MT_SWEEP_ROOM_LEAVE_MS = 5 * 1000,         /* ... and so long after the sweep was told to stop */
    MT_SWEEP_LEAVE_MS = 10 * 1000,             /* for slots to be gone at the end */
    MT_SWEEP_ENDS_WAIT_MS = 5000,              /* for the processes of a killed driver to be gone, before its sweep goes on */
    MT_SWEEP_TAIL_BYTES = 2048,                /* of what a failed command printed last */
    MT_SWEEP_LINE_BYTES = 4096,                /* a longer line of a command holds no metrics */
    MT_SWEEP_TERM_MS = 5000,                   /* from SIGTERM to SIGKILL of a command that is stopped */
    MT_SWEEP_GANG_TERM_MS = 3000,              /* ... of the ranks of one that is a gang: less, so that the gang ends by itself */
    MT_SWEEP_NAME_BYTES_MAX = 64,              /* of a sweep; its end included */
    MT_SWEEP_ASK_MS = 60 * 1000,               /* for the answer of a sampler that is another program */
    MT_SWEEP_ASK_LEAVE_MS = 2000,              /* from the end of its input to SIGKILL */
    MT_SWEEP_JSON_BYTES_MAX = 4 * 1024 * 1024, /* of a space */
    MT_SWEEP_TREES = 64,                       /* of the forest that weighs parameters */
    MT_SWEEP_WEIGHED_MAX = 10 * 1000,          /* results that it looks at; of more as many are drawn */
    MT_SWEEP_WEIGHED_MIN = 10,                 /* with fewer nothing is said */
    MT_SWEEP_WEIGHED_BEST_MIN = 20,            /* the same where the best tenth is compared with all: two of them */
};

#endif
