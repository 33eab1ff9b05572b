/* SPDX-License-Identifier: Apache-2.0
 *
 * lib.h - limits of libmanta: waiting, what it holds ready, what it queues.
 */
#ifndef MT_LIMITS_LIB_H
#define MT_LIMITS_LIB_H

enum {
    /* Waiting: poll, then sleep. */
    MT_DEADLOCK_PROBE_MS = 1000, /* blocked this long, and each time again, a waiter has its edges followed */
    MT_PROBE_HOPS_MAX = 256,     /* waiters in one chain */
    MT_SPIN_NS_MAX = 100 * 1000, /* upper end of the adaptive polling budget: two slow futex round trips */
    MT_SPIN_NS_MIN = 2 * 1000,   /* lower end */

    /* Memory set aside for what may not fail (stash.h): the largest of it is the owner's end of a lane. */
    MT_STASH_SMALL = 24,
    MT_STASH_SMALL_BYTES = 128,
    MT_STASH_LARGE = 3,
    MT_STASH_LARGE_BYTES = 9 * 1024,
    MT_SPARE_BYTES_MAX = 8 * 1024 * 1024, /* of freed inline values and arguments, kept for the next ones: those of 16,000 tasks */

    /* Library. */
    MT_LIB_SPIN_NS = 50 * 1000,      /* polling before sleeping: about two futex round trips */
    MT_LIB_PAUSE_NS = 5 * 1000,      /* of which so long without yielding */
    MT_LIB_AWAY_NS = 300 * 1000,     /* the same where others ran on this core for most of it */
    MT_LIB_CROWDED_NS = 200 * 1000,  /* a yield that takes longer gave the core to one who needs it: sleep instead */
    MT_LIB_YIELDED_NS = 2000,        /* a yield that takes less let nobody in, though somebody wanted */
    MT_LIB_EDGE_NS = 10 * 1000,      /* a worker looks so long whether what its next task needs comes from another worker */
    MT_LIB_EDGE_PAUSE_NS = 2 * 1000, /* of which so long without yielding */
    MT_LIB_BLOCK_NS = 50 * 1000,     /* a task that waits longer lends its CPU */
    MT_LIB_ASKED_BLOCK_NS = 20 * 1000 * 1000, /* the same of one that waits for its raylet, which answers within microseconds */
    MT_LIB_TICK_NS = 1000 * 1000,
    MT_LIB_CLAIMS_NS = 500 * 1000 * 1000, /* between two looks at the claims of a lane on which nothing moves */
    MT_LIB_SLEEP_NS = 500 * 1000 * 1000,  /* a sleeper looks around at least so often */
    MT_LIB_ACTIVE_NS = 50 * 1000 * 1000,  /* the helper ticks for so long after the last call */
    MT_LIB_REQUEST_MS = 10 * 1000,        /* an answer of the raylet or the head */
    MT_LIB_DETACH_MS = 60 * 1000,         /* the head's word that it has a detached actor, the program's upload included */
    MT_LIB_STRICT_LOOK_MS = 50,           /* a strict actor's process looks so often how long it may run */
    MT_LIB_WHERE_NS = 20 * 1000 * 1000,   /* between two questions to the head where a detached actor is */
    MT_LIB_ROOM_MS = 11 * 60 * 1000,      /* an answer to who wants room; the raylet's own limits come first */
    MT_LIB_PULL_MS = 10 * 60 * 1000,      /* a value of another node as an argument; the raylet's own limits come first */
    MT_LIB_CONNECT_MS = 30 * 1000,
    MT_LIB_SHUTDOWN_MS = 5 * 1000,
    MT_LIB_REFUSED_FREE = 64,                 /* submits that fail at once when the raylet is gone; each further one ... */
    MT_LIB_REFUSED_NAP_NS = 10 * 1000 * 1000, /* ... waits so long first */
    MT_FOLDER_LEAVE_MS = 5 * 1000,            /* who ends with the driver waits so long for others to let its folder go */
    MT_FOLDER_MAKING_S = 60,                  /* a runtime folder that has no name of its own after so long never gets one */
    MT_LIB_QUEUED_BYTES_MAX = 1 << 30,        /* submitted work that waits; more waits in submit */
    MT_LIB_LINEAGE_BYTES = 1 << 30,           /* what is kept to run finished tasks again, unless set; beyond it the oldest goes */
    MT_LIB_OUTPUT_BYTES_MAX = 1 << 20,        /* of workers' output that waits to be printed; more is dropped, and counted */
    MT_LIB_OUTPUT_REPEAT_NS = 5 * 1000 * 1000 * 1000LL, /* a line that other workers print too is counted for so long */
    MT_LIB_OUTPUT_LINGER_MS = 2000,                     /* at the end: for what workers of other nodes have just printed, at most */
    MT_LIB_UNHEARD_NS = 10 * 1000 * 1000 * 1000LL,      /* further failures of a function that nobody asked for: told so often */
    MT_LIB_NAMED_NS = 10 * 1000 * 1000,                 /* a worker that runs another function is called so after so long */
    MT_LIB_WATCHES_MAX = 4096,
    MT_LIB_FOREIGN_METHODS_MAX = 4096,        /* names of methods that a process calls and has not itself */
    MT_LIB_SPARE = 16,                        /* free places that each table of the library keeps, for what may not fail */
    MT_LIB_SPARE_BYTES = 32 * 1024,           /* the same of the messages to the raylet */
    MT_LIB_TOLD_NAP_NS = 50 * 1000,           /* between two looks whether a callback is back */
    MT_LIB_IDLE_NAP_NS = 50 * 1000 * 1000,    /* the helper of a worker that has nothing to do looks so often */
    MT_LIB_LED_NAP_NS = 4 * 1000 * 1000,      /* the same where it waits for its next task or call, and looks itself */
    MT_LIB_CONCURRENCY_MAX = 1024,            /* calls at a time of one actor, or of one of its concurrency groups */
    MT_ACTOR_GROUPS_MAX = 8,                  /* named concurrency groups of an actor type */
    MT_LIB_GROUP_MAX = 4096,                  /* actors of an actor group */
    MT_LIB_QUICK_NS = 20 * 1000,              /* a method that took less is run by the thread that serves the actor */
    MT_LIB_WATCH_NS = 1000 * 1000,            /* such a call that takes longer is left alone: another thread serves */
    MT_LIB_POOL_ACTIVE_NS = 50 * 1000 * 1000, /* somebody watches for so long after the last quick call */
    MT_LIB_CANCEL_GRACE_MS = 100,             /* forced, and recursive or far away: from telling the worker to SIGKILL */
    MT_LIB_TIMEOUT_GRACE_MS = 500,            /* past its timeout_ms a task is asked to stop; its worker ends after so long */
    MT_LIB_HERE_FOLLOWED_MAX = 64,            /* tasks looked at for one that a waiting task may run itself */
    MT_LIB_HERE_STACK_PERCENT = 50,           /* of its stack in use: it runs none any more */
    MT_LIB_HERE_STACK_BYTES = 8 << 20,        /* what counts as its stack where that has no limit */
    MT_LIB_GROUP_ASK_MS = 2 * 1000,           /* one request that waits for a placement group; repeated */
    MT_LIB_STREAM_AHEAD = 1024,               /* items a generator may be ahead of its consumer, unless set */
    MT_LIB_DECLARED_MAX = 65535,              /* refs that one value declares */
    MT_LIB_CALLBACKS_MAX = 1 << 20,           /* that are due or waited for */
    MT_LIB_COLD_BYTES = 64 * 1024,            /* from here on the pages of a place are made before it is written */
    MT_LIB_WARM_BYTES = 1 << 20,              /* free memory that a process keeps warm */
    MT_LIB_FREEZE_FROM = 1 << 20,             /* of a sealed buffer from this size on ... */
    MT_LIB_FREEZE_BYTES = 64 * 1024,          /* ... so much is read-only to its writer's old pointer, ... */
    MT_LIB_FROZEN_MAX = 1024,                 /* ... of so many buffers at a time: each may cost two mappings */

    MT_APPEND_WAIT_BYTES = 16 << 20, /* of a log whose disk is full; what is more is lost, and ends it */
};

#endif
