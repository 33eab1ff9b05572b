/* SPDX-License-Identifier: Apache-2.0
 *
 * cli.h - limits of the command line and the control client.
 */
#ifndef MT_LIMITS_CLI_H
#define MT_LIMITS_CLI_H

enum {
    /* Command line. */
    MT_CLI_START_MS = 30 * 1000,      /* for one daemon to be ready */
    MT_CLI_STOP_MS = 10 * 1000,       /* for all to leave when the head has asked them to */
    MT_CLI_NODES_MS = 60 * 1000,      /* for the nodes that the cluster has started, before */
    MT_CLI_TERM_MS = 10 * 1000,       /* after SIGTERM */
    MT_CLI_LEAVE_MS = 10 * 1000,      /* for a node that leaves, before another one starts in its folder */
    MT_CLI_KILL_MS = 5 * 1000,        /* after SIGKILL */
    MT_CLI_UNDO_MS = 2 * 1000,        /* for a daemon that did not get ready, before SIGKILL */
    MT_CLI_KEEPER_PAUSE_MS_MIN = 100, /* before a daemon that died is started again, doubled up to ... */
    MT_CLI_KEEPER_PAUSE_MS_MAX = 10 * 1000,
    MT_CLI_KEEPER_CALM_MS = 60 * 1000,  /* one that lived for so long has no pauses behind it */
    MT_CLI_KEEPER_SWEEP_MS = 10 * 1000, /* for a dead raylet's reaper to finish (2 * MT_RLT_GROUP_END_MS), before SIGKILL */
    MT_CLI_LOG_ROOM_BYTES = 64 * 1024,  /* with less room for its log a daemon that does not start may have said nothing */
    MT_CLI_LOG_BYTES_MAX = 64 << 20,    /* default of --log-max: what a daemon's log has beyond it is kept beside it, once */
    MT_CLI_LOG_BYTES_MIN = 64 << 10,
    MT_CLI_LOG_LOOK_MS = 5 * 1000,   /* between two looks at its size */
    MT_CLI_LOGS_KEPT = 4,            /* of each daemon, after `manta stop` ... */
    MT_CLI_LOG_KEPT_BYTES = 1 << 20, /* ... of each so much, its end */
    MT_CLI_GANG_STOP_MS = 30 * 1000, /* for a gang that was told to stop */
    MT_CLI_LIST_MAX = 256,           /* --file, --env: of each */

    /* Control client. */
    MT_CTL_PATIENCE_MS = 30 * 1000, /* default patience with a head that is away */
    MT_CTL_TRY_MS = 1000,           /* the first try at one of several heads; the next ones twice as long each */
    MT_CTL_HELLO_MS = 5 * 1000,     /* opening fails sooner: a wrong address should not cost half a minute */
    MT_CTL_RETRY_MS_MIN = 10,       /* pause between tries, doubled up to ... */
    MT_CTL_RETRY_MS_MAX = 1000,
    MT_CTL_WAIT_MS = 10 * 1000,   /* one WaitJob; repeated */
    MT_CTL_UPLOAD_MS = 60 * 1000, /* an upload that gets nothing through for so long is begun again */
    MT_CTL_PIECE_BYTES = 256 * 1024,
    MT_CTL_HAS_MAX = 1024, /* files asked for in one call */
    MT_CTL_FOLDERS_DEEP_MAX = 64,
};

#endif
