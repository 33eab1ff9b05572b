/* SPDX-License-Identifier: Apache-2.0
 *
 * object.h - limits of values: their way between nodes, the object store, memory of a node, spilling to disk.
 */
#ifndef MT_LIMITS_OBJECT_H
#define MT_LIMITS_OBJECT_H

enum {
    /* Objects. */
    MT_SEGMENT_WARM_BYTES_MAX = 16 * 1024 * 1024, /* free warm pages that a node keeps ... */
    MT_SEGMENT_WARM_MS = 10 * 1000,               /* ... beyond this long */
    MT_OBJECT_CHUNK_BYTES = 1024 * 1024,          /* an object travels in chunks of this size */
    MT_OBJECT_SMALL_BYTES = 64 * 1024,            /* up to here many values share a connection */
    MT_OBJECT_CHUNK_BYTES_MAX = 64 * 1024 * 1024, /* a larger chunk from a peer is refused */
    MT_OBJECT_DAMAGED_MAX = 3,                    /* a value that comes damaged so often in a row is given up */
    MT_OBJECT_FETCH_MS = 10 * 1000,               /* without progress this long, another copy is tried */
    MT_OBJECT_SLOW_MS = 1000,                     /* how often is looked whether such a node sends less than half of what it gets */
    MT_OBJECT_RELAY_MS = 3 * 1000,                /* ... from a node that is sent it itself: the one that has it is asked again */

    /* Object store. */
    MT_OS_TICK_MS = 20,                    /* how often places that were still pinned are looked at again */
    MT_OS_TRANSFER_CONNECTIONS_MAX = 1024, /* incoming */
    MT_OS_IDLE_MS = 5 * 1000,              /* a connection to another node's data socket is kept so long after its last value; */
    MT_OS_IDLE_PEER_MAX = 8,               /* ... so many of one node: as many as carry its values at a time, */
    MT_OS_IDLE_MAX = 128,                  /* ... and of all */
    MT_OS_FETCHES_MAX = 256,               /* outgoing */

    /* Memory of a node. */
    MT_MEMORY_LOOK_MS_MIN = 100,    /* between two looks at it, where it is nearly used up, ... */
    MT_MEMORY_LOOK_MS_MAX = 1000,   /* ... and where there is plenty, or no process */
    MT_MEMORY_MIB_EACH_MS = 4,      /* no CPU takes it faster: so long lasts what is left, at least */
    MT_MEMORY_SHORT_PERMILLE = 950, /* of the cgroup's limit, or of the machine's memory: from here on tasks are stopped */
    MT_MEMORY_PAUSE_MS = 1000,      /* no lease is granted for so long after the last time that it was short */

    /* Spilling to disk. */
    MT_SPILL_FILE_BYTES = 64 << 20,  /* values are written together until a file has so many; a larger one has its own */
    MT_SPILL_VALUES_MAX = 16384,     /* in one file */
    MT_SPILL_FILES_MAX = 16384,      /* each has a descriptor */
    MT_SPILL_WRITES_MAX = 2,         /* files that are being written */
    MT_SPILL_READS_MAX = 64,         /* values that are being read back */
    MT_SPILL_WAITERS_MAX = 65536,    /* that wait for room or for a value */
    MT_SPILL_LOOK_MS = 20,           /* while somebody waits for room */
    MT_SPILL_GRACE_MS = 200,         /* a copy stays so long for who has just asked for it */
    MT_SPILL_AGAIN_MS = 1000,        /* a disk that refused is tried again after so long */
    MT_ROOM_MS = 10 * 1000,          /* a put waits so long for room while nothing gets free ... */
    MT_ROOM_MS_MAX = 10 * 60 * 1000, /* ... and so long in all */
};

#endif
