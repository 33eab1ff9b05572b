/* SPDX-License-Identifier: Apache-2.0
 *
 * gang.h - limits of gangs: programs that `manta run` starts together, a rank each.
 */
#ifndef MT_LIMITS_GANG_H
#define MT_LIMITS_GANG_H

enum {
    MT_GANG_RANKS_MAX = 1024,
    MT_GANG_BUNDLES_MAX = 128,        /* of what it reserves: as a placement group has at most */
    MT_GANG_NEWS_BYTES = 1024 * 1024, /* of a rank's output that wait for the driver; then the rank waits */
    MT_GANG_PIECE_BYTES = 4080,       /* of words, in one call: below MANTA_INLINE_MAX, so no object store is needed */
    MT_GANG_PART_BYTES = 64 * 1024,   /* read from a rank at a time; a longer line is cut there */
    MT_GANG_POLL_MS = 1000,           /* a supervisor without news says so this often */
    MT_GANG_TICK_MS = 50,             /* the driver looks so often for signals and limits */
    MT_GANG_LOOK_MS = 1000,           /* ... and for nodes that come and leave */
    MT_GANG_WHY_MS = 2000,            /* ranks that wait longer for room are told of */
    MT_GANG_TERM_MS = 10 * 1000,      /* from SIGTERM to SIGKILL, if not said */
    MT_GANG_LEAVE_MS = 5 * 1000,      /* from SIGKILL until a supervisor that says nothing is given up */
    MT_GANG_READY_MS = 60 * 1000,     /* for all supervisors to be there */
    MT_GANG_HIRES_MAX = 3,            /* so often in a row in vain */
    MT_GANG_WAIT_MS = 300 * 1000,     /* for nodes to come again, where too few are left */
    MT_GANG_FIT_MS = 2000,            /* for room that was seen free to be reserved */
    MT_GANG_SETTLE_MS = 1000,         /* for nodes to tell what is free again, before it begins with fewer than it may have */
    MT_GANG_GROW_MS = 5000,           /* room for more ranks must have been there so long */
    MT_GANG_TREE_MAX = 1024,          /* processes of a rank that are looked at */
    MT_GANG_IDLE_PERCENT = 1,         /* of a CPU: a rank that takes less, and prints nothing, does nothing */
    MT_GANG_TAIL_BYTES = 2048,        /* of what a rank that failed printed last */
    MT_GANG_TAIL_LINES = 10,
    MT_GANG_PMI_LINE_BYTES = 4096, /* of PMI-1; its client has as much */
    MT_GANG_PMI_KEY_BYTES = 64,    /* its end included, as in MPICH */
    MT_GANG_PMI_VALUE_BYTES = 1024,
    MT_GANG_PMI_NAME_BYTES = 256,
    MT_GANG_PMI_KEYS_MAX = 256 * 1024,      /* of a gang */
    MT_GANG_HTTP_HEAD_BYTES = 4096,         /* of a request to Horovod's rendezvous */
    MT_GANG_HTTP_VALUE_BYTES = 1024 * 1024, /* a rank puts 136 bytes for each other one */
    MT_GANG_HTTP_SPACE_BYTES = 384 * 1024 * 1024,
    MT_GANG_HTTP_KEYS_MAX = 64 * 1024,
    MT_GANG_HTTP_CONNS = MT_GANG_RANKS_MAX + 64, /* each rank has one at a time */
    MT_GANG_HTTP_WAIT_MS = 5 * 1000,             /* for the server to be there, before a rank begins */
    MT_GANG_MEET_MS = 60 * 1000,                 /* for ranks that go on without a dead one, in a call of their group */
    MT_GANG_GIVEN_UP_MAX = 10,                   /* generations of their group, of which nobody has died */
    MT_GANG_SAID_BYTES = 1024,                   /* of a line that such a rank says */
    MT_GANG_RESTARTS = 10,                       /* with --restart-rank, if not said */
    MT_GANG_PORT_MIN = 10000,                    /* from here to where the kernel's own choice begins */
    MT_GANG_PORT_TRIES = 4096,
    MT_GANG_NAME_BYTES_MAX = 64, /* its end included */
};

#endif
