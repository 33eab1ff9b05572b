/* SPDX-License-Identifier: Apache-2.0
 *
 * head.h - limits of what the head decides, and what it keeps.
 */
#ifndef MT_LIMITS_HEAD_H
#define MT_LIMITS_HEAD_H

enum {
    MT_HEAD_PAUSE_MS = 1000,               /* a longer gap between two steps is the head's own pause: not the nodes' silence */
    MT_HEAD_TICK_MS = 250,                 /* it is stepped at least so often */
    MT_HEAD_VIEW_MS = 20,                  /* changes of nodes reach the others after at most so long, for each 100 nodes ... */
    MT_HEAD_VIEW_MS_MAX = 400,             /* ... at most */
    MT_HEAD_VIEW_JOIN_MS_MAX = 1500,       /* ... and where nothing is told but who has joined, at most that */
    MT_HEAD_VIEW_NODES = 512,              /* in one message */
    MT_HEAD_VIEW_STATES = 100 * 1000,      /* words of nodes that turn suspect, or are back, to all nodes in one round of these */
    MT_HEAD_VIEW_STATES_MIN = 8,           /* ... each word to all of them: at least of so many nodes */
    MT_HEAD_VIEW_BYTES = 8 * 1024 * 1024,  /* of changes to all nodes together in one step, ... */
    MT_HEAD_VIEW_MESSAGE_BYTES = 8 * 1024, /* each message counts for so many more: a thousand small ones are a step */
    MT_HEAD_HINTS_EACH_STEP = 1000,        /* nodes that are told of what is free in one step */
    MT_HEAD_VIEW_STEP_MS = 10,             /* ... and the rest so much later */
    MT_HEAD_VIEW_FREE_MS = 1000,           /* between two hints at what is free, for each 100 nodes */
    MT_HEAD_FREE_HINTS = 64,               /* nodes in one of them */
    MT_HEAD_WALK_NODES = 100, /* a millisecond for each so many is between two rounds of placements, and of looking who is silent */
    MT_HEAD_LOOK_MS = 1000,   /* who waits and found no room is tried again after so long, where there is not more of it before */
    MT_HEAD_GRACE_MS = 2000,  /* after a start nothing is called unschedulable: nodes are still registering */
    MT_HEAD_PROMISE_MS = 100, /* a promise stands until the node's first report after this age ... */
    MT_HEAD_PROMISE_MS_MAX = 1500, /* ... and at most so long */
    MT_HEAD_REPLACE_MS = 250,      /* a want that still stands so long after its Place is answered again */
    MT_HEAD_PRESS_MS = 100,        /* a class that holds nothing has waited so long: a busy node is asked to make room */
    MT_HEAD_PLACE_MAX = 256,       /* leases answered by one Place */
    MT_HEAD_VOID_MAX = 256,        /* given up leases of strict actors on one node; the oldest go first */
    MT_HEAD_STRICT_MAX = 4096,     /* strict actors in one report */
    MT_HEAD_WANTS_MAX = 1024,      /* of one node */
    MT_HEAD_KINDS_MAX = 4096,      /* names of resources in one cluster */
    MT_HEAD_NODES_DEAD_MAX = 256,  /* that are still listed; the oldest go first */
    MT_HEAD_NAMES_MAX = 100000,
    MT_HEAD_OUTCOMES_MAX = 16384,       /* remembered outcomes of name requests */
    MT_HEAD_GONE_MAX = 16384,           /* remembered processes that have ended */
    MT_HEAD_JOBS_ACTIVE_MAX = 200000,   /* that have not ended */
    MT_HEAD_ARRAY_MAX = 10000,          /* jobs of one array: they come in one batch */
    MT_HEAD_ARRAY_INDEX_MAX = 999999,   /* six digits: the array's id has room for them */
    MT_HEAD_JOBS_ENDED_MAX = 2000,      /* that are still listed, with their logs; the oldest go first */
    MT_HEAD_RESERVE_TRIES = 4,          /* whose room is looked for in a round, of those that find none, to reserve it */
    MT_HEAD_PREEMPT_MS = 30 * 1000,     /* from SIGTERM to SIGKILL of one that makes room for another; its own notice wins */
    MT_HEAD_NOTICE_MS_MAX = 600 * 1000, /* of a job's own notice: so long others wait for its room */
    MT_HEAD_JOBS_KEPT_MAX = 100000,     /* ... and of arrays that have not ended: their sums need them */
    MT_HEAD_HALF_LIFE_MS = 7 * 24 * 3600 * 1000, /* what was used so long ago counts half for the share of its user */
    MT_HEAD_ACCOUNTS_MAX = 4096,                 /* users that have ever spent something */
    MT_HEAD_ACCOUNT_DAYS = 400,                  /* so many days of each are told apart */
    MT_HEAD_PAYERS_MAX = 65536,                  /* drivers of which it is remembered who pays for what they hold on other nodes */
    MT_HEAD_PAYER_WAIT_MS = 10 * 1000,           /* a node's word on one that nobody knows is counted after that, as nobody's */
    MT_HEAD_JOB_ARGS_MAX = 4096,
    MT_HEAD_JOB_AFTER_MAX = 64,      /* jobs and arrays that one waits for: bits of a word */
    MT_HEAD_JOB_PRIORITY_MAX = 1000, /* and the least is as far below 0 */
    MT_HEAD_JOB_FILES_MAX = 4096,
    MT_HEAD_PACED_MAX = 1024,                      /* jobs with a deadline that have not ended */
    MT_HEAD_PACE_S_MAX = 10 * 365 * 86400,         /* until a deadline */
    MT_HEAD_PACE_MS = 30 * 1000,                   /* what is left of their work is told to the scaler again after that */
    MT_HEAD_AHEAD_MAX = 16,                        /* jobs that wait on one node for the end of others like them */
    MT_HEAD_AHEAD_RUN_MS = 200,                    /* one that runs longer lets none be sent ahead */
    MT_HEAD_AHEAD_WAIT_MS = 2000,                  /* who has waited there so long comes back */
    MT_HEAD_JOB_RETRY_MS = 500,                    /* before a failed or refused driver is started again */
    MT_HEAD_JOB_LOG_BYTES_MAX = 256 * 1024 * 1024, /* what comes after is dropped, and the log says so */
    MT_HEAD_WAITS_MAX = 4096,                      /* parked WaitJob calls */
    MT_HEAD_WAIT_MS_MAX = 60 * 1000,               /* a longer one is answered after this */
    MT_HEAD_LIST_BYTES_MAX = 3 * 1024 * 1024,      /* of a list of jobs; the newest first */
    MT_HEAD_BLOBS_MAX = 100000,
    MT_HEAD_JOB_SIGNAL_MAX = 64,           /* signals have such numbers */
    MT_HEAD_JOB_METADATA_BYTES = 1024,     /* of a job, a byte for the end of each entry included */
    MT_HEAD_BLOB_KEEP_MS = 60 * 60 * 1000, /* an unneeded one is kept so long after its last use */
    MT_HEAD_BLOB_SWEEP_MS = 10 * 1000,
    MT_HEAD_BLOB_SWEEP_MAX = 256,            /* dropped at a time */
    MT_HEAD_COMMITS_MAX = 16,                /* on the store's thread */
    MT_HEAD_RESERVE_BYTES = 8 * 1024 * 1024, /* of disk, set aside for changes of what the head has taken in ... */
    MT_HEAD_RESERVE_SHARE = 8,               /* ... at most this part of the disk */
    MT_HEAD_RESERVE_COPIES = 4,              /* there must be room for so many of what is new: its changes, in log and database */
    MT_HEAD_LOG_SPARE_BYTES = 64 * 1024 * 1024, /* jobs' output leaves so much of a disk free ... */
    MT_HEAD_LOG_SPARE_SHARE = 8,                /* ... at most this part of it */
    MT_HEAD_ROOM_MS = 1000,                     /* between two looks at the room on the disk */
    MT_HEAD_FULL_MS = 200,                      /* the same, and between two tries to store, while it is full */
    MT_HEAD_STORE_LOOK_MS = 300,                /* a store on a server is looked at, and its lock renewed, so often */
    MT_HEAD_STORE_AWAY_MS = 5000,               /* a store that was not reached for so long: who asks is refused, with the reason */
    MT_HEAD_HEADS_MS = 1000,                    /* a node hears at least so often which heads there are, where there are several */
    MT_HEADS_MAX = 8,                           /* one that leads, and those that stand by */
    MT_HEAD_STANDBY_LOOK_MS = 100,              /* one that stands by looks at the store so often */
    MT_HEAD_STANDBY_SOON_MS = 10,               /* ... and so often, while the leader's connection is lost */
    MT_HEAD_STANDBY_DIAL_MS = 200,              /* ... and waits so long for the leader's machine to refuse it */
    MT_HEAD_BEAT_MS = 500,                      /* a leader tells them so often that it leads ... */
    MT_HEAD_HEARD_MS = 1500,                    /* ... and is left its lead for so long, though the store has forgotten its lock */
    MT_HEAD_HANDED_MS = 3000,                   /* one that has stepped down leaves the lead to the others for so long */
    MT_HEAD_STORE_SPARE_BYTES = 8 * 1024 * 1024, /* of a server's memory, left for changes of what is there */
    MT_HEAD_FILE_JOBS_MAX = 65536,               /* on the files' thread */
    MT_HEAD_PIECE_BYTES = 128 * 1024,            /* of a log or a blob: read and sent at a time */
    MT_HEAD_LOG_AHEAD_BYTES = 16 * 1024 * 1024,  /* of log on the way to the disk: then raylets are not read from */
    MT_HEAD_UPLOADS_MAX = 64,                    /* at a time */
    MT_HEAD_UPLOAD_MS = 60 * 1000,               /* a client that sends nothing for so long is cut off */
    MT_HEAD_BACKUPS_MAX = 2,                     /* at a time: each is in memory once more */
    MT_HEAD_FEEDS_MAX = 1024,                    /* followers and downloads at a time */

    MT_HEAD_QUERIES_MAX = 1024,     /* that wait for their nodes' answers */
    MT_HEAD_QUERY_MS = 10 * 1000,   /* ... at most so long */
    MT_HEAD_GROUPS_MAX = 4096,      /* placement groups in one cluster */
    MT_HEAD_GROUP_WAITS_MAX = 1024, /* parked requests that wait for one of them */
    MT_HEAD_GROUP_AGAIN_MS = 50,    /* a placement group that found no room, or was refused, is tried again after this */
    MT_HEAD_GROUP_RESEND_MS = 1000, /* an order about bundles that was not answered is said again */
    MT_HEAD_GROUPS_OVER_MAX = 1024, /* remembered ids of placement groups that were removed */
    MT_GROUP_BUNDLES_MAX = 128,     /* of one placement group ... */
    MT_GROUP_RESOURCES_MAX = 384,   /* ... with so many resources in all: they fit into a record */
};

#endif
