/* SPDX-License-Identifier: Apache-2.0
 *
 * raylet.h - limits of leases, processes, jobs, links, state that is asked for, and the switch.
 */
#ifndef MT_LIMITS_RAYLET_H
#define MT_LIMITS_RAYLET_H

enum {
    /* Raylet. */
    MT_RLT_HELLO_MS = 5000,      /* until another raylet says which link it carries on */
    MT_RLT_START_MS = 60 * 1000, /* until a program says CTL_HELLO: what it loads and does before manta_init included */
    MT_RLT_STATUS_MS = 500,      /* from the end of a socket to the wait status of its process */
    MT_RLT_STATUS_ASKED_MS = 50, /* of a worker whose zygote has not said it by then: from the question to what the system says */
    MT_RLT_SLICE_MS = 100,       /* a lease whose class others wait for is recalled after this */
    MT_RLT_RESERVE_MS = 5000, /* a lease that was asked back counts as room that comes for so long; longer where such came late */
    MT_RLT_OVER_NS = 500 * 1000, /* a lease has so long to begin something before it is asked back since more tasks run than may */
    MT_RLT_PRESS_MS = 300,       /* room made by the head's word is kept so long for the one who waits elsewhere, ... */
    MT_RLT_PRESS_MAX_MS = 10000, /* ... twice as long after each time that it was gone when the head came for it, up to this */
    MT_RLT_ACTOR_END_MS = 30 * 1000, /* an actor whose level fell to 0: from RECALL to SIGKILL, its destroy function in between */
    MT_RLT_ORPHAN_GRACE_MS = 2000,   /* a worker whose owner died: from RECALL to SIGKILL */
    MT_RLT_LEAVE_MS = 2000,          /* from CTL_SHUTDOWN to SIGKILL */
    MT_RLT_IDLE_MS = 10000,          /* a warm worker beyond the bound goes after this */
    MT_RLT_SPARE_MS = 50,            /* no warm worker for so long: fork one ahead of the next lease */
    MT_RLT_WORKERS_MAX = 10240,      /* processes forked on this node, if it does not say; its descriptors may allow fewer */
    MT_RLT_WISHES_MAX = 16,          /* of a process: what it would use beyond what it has */
    MT_RLT_PLACES_SAID = 1024,       /* of those that may still be forked the head is told no more */
    MT_RLT_TWO_WORKERS_FDS = 3, /* descriptors that a raylet keeps for two workers: their sockets, what one of 16 has for their park
                                      pages, what one that starts has for a moment */
    MT_RLT_OWN_FDS = 64,        /* ... and for itself */
    MT_RLT_LOOK_ROUND_MS = 10000, /* in which each worker is looked at once: whether it has ended, and its zygote did not say so */
    MT_RLT_FULL_MS = 10 * 1000,   /* every process is an actor's for so long: who waits for one is told */
    MT_RLT_BLOCKED_MAX = 128,     /* workers that wait inside a task and have lent their CPUs, if it does not say */
    MT_RLT_STARTING_MAX = 32,     /* workers of one job that start at a time: each has a share of the CPUs to greet */
    MT_RLT_CLASSES_MAX = 16384,   /* per owner: each actor has one */
    MT_RLT_WANTED_MAX = 65536,    /* leases one class may want */
    MT_RLT_MONITORS_MAX = 65536,  /* on one node */
    MT_RLT_DEATHS_KEPT = 32,      /* for monitors that come just too late */
    MT_RLT_REGIONS_MAX = 4096,
    MT_RLT_CALLERS_MAX = 65536,    /* lanes to actors of others */
    MT_RLT_SHUNNED_MAX = 4,        /* nodes on which no worker of a job could be started: then it is the job's fault */
    MT_RLT_START_FAILURES_MAX = 3, /* zygotes or workers of a job that die in a row before they greet */
    MT_RLT_LACKS_MAX = 8,          /* starts of workers of a job in a row for which the node had no memory or descriptors */
    MT_RLT_LACK_AGAIN_MS = 1000,   /* ... then who waits is told, and nobody tries again for so long */
    MT_RLT_PROCS_MAX = 16384,
    MT_RLT_PIDS_SHARE = 2,          /* of the machine's processes for all jobs of a node, as a divisor */
    MT_RLT_JOB_PIDS_PERCENT = 37,   /* ... for what one zygote or driver starts, if --job-pids does not say: MT_RLT_WORKERS_MAX and
                                      some threads of the 32,768 that many machines have, and a quarter of the half is for others */
    MT_RLT_JOB_PIDS_MIN = 16,       /* of --job-pids: a worker has threads too */
    MT_RLT_GROUP_END_MS = 5000,     /* for killed processes of a control group to be gone */
    MT_RLT_REPORT_MS = 50,          /* between two reports of changes */
    MT_RLT_ORPHAN_MS = 3600 * 1000, /* a node that its cluster has started leaves when it is without head and work for so long */
    MT_RLT_BEAT_MS = 1000,          /* a report without a change, as a sign of life */
    MT_RLT_BEAT_WAIT_MS = 200,      /* an unanswered datagram that says the same is sent again after so long, ... */
    MT_RLT_BEAT_TRIES = 3,          /* ... and after so many times a report goes by the stream */
    MT_RLT_BEATS_MAX = 8,           /* datagrams that say the same, with those that were only good for an answer */
    MT_RLT_USAGE_MS = 10 * 1000,    /* what jobs hold is told to the head each ... */
    MT_RLT_USAGE_SOON_MS = 50,      /* ... and so long after one has given up its last here */
    MT_RLT_USAGE_NEWS_MS = 500,     /* ... or since a driver came: whose it is */
    MT_RLT_USAGE_AGAIN_MS = 1000,   /* it is said again until the head acknowledges it */
    MT_RLT_USAGE_UNANSWERED = 4,    /* ... and no more is said while so many are not: it grows in the next */
    MT_RLT_SUBMITTED_MAX = 64,      /* drivers of submitted jobs on one node, beyond one for each of its CPUs */
    MT_RLT_WORDS_MS = 10,           /* words on jobs wait at most so long for others to travel with, ... */
    MT_RLT_WORDS_LATE = 6,          /* ... where so many jobs wait on the node: it has enough to do */
    MT_RLT_JOB_STOP_MS = 5000,      /* from SIGTERM to SIGKILL of a driver */
    MT_RLT_JOB_AGAIN_MS = 1000,     /* the end of a job is said again until the head acknowledges it */
    MT_RLT_LOG_WINDOW = 256 << 10,  /* bytes of a log sent to the head and not acknowledged */
    MT_RLT_LOG_CHUNK = 32 << 10,
    MT_RLT_PEER_TICK_MS = 250, /* a link is looked after this often */
    MT_RLT_PEER_ACK_MS = 2,    /* an acknowledgement waits at most so long for a record to travel with */
    MT_RLT_PEER_BEAT_MS = 500, /* something is said this often; a suspect node is dialled anew this often */
    MT_RLT_STREAMS_MAX = 4096,
    MT_RLT_ASKED_MAX = 4096,         /* requests to the head that wait for its answer */
    MT_RLT_HEAD_SILENT_MS = 500,     /* a report with wants is not answered: the head counts as away until it says something; or */
    MT_RLT_HEAD_SILENT_TIMES = 16,   /* ... so many times what its answers took lately, ... */
    MT_RLT_HEAD_SILENT_MIN_MS = 100, /* ... but no sooner than this */
    MT_RLT_ALONE_MS = 100,           /* the head is away: between two nodes that a waiting class asks by itself */
    MT_RLT_ASKED_MS = 30000,         /* ... at most so long, head away or not */
    MT_RLT_BUNDLES_MAX = 1024,       /* of placement groups on one node */
    MT_RLT_JOBS_GONE = 64,           /* the last jobs that ended: said again after each registration */
    MT_RLT_NODES_REPLY_MAX = 16,     /* nodes in one answer to CTL_OP_NODES */
    MT_RLT_RESOURCES_MAX = 16,       /* kinds on one node */
    MT_CPUS_MAX = 1024,              /* of one machine that a lease can be bound to */
    MT_RLT_GPUS_MAX = 16,            /* devices on one node */
    MT_RLT_HEAD_TURN_MS = 20,        /* between one head that does not lead, or is gone, and the next of the list */
    MT_RLT_HEAD_LEFT_MS = 2500,      /* a head that has said nothing for so long is left for another, where there is one */
    MT_RLT_HEAD_GAP_MS = 5000,       /* a node that is told to leave between two heads waits so long for the next one */
    MT_RLT_HEAD_RETRY_MS = 250,      /* between two attempts to attach */
    MT_RLT_HEAD_FILE_POLL_MS = 5,    /* while waiting for the file with its address */
    MT_RLT_HEAD_FILE_MS = 60 * 1000, /* ... at most; then a private cluster goes on without, another raylet gives up */
    MT_RLT_SOCKET_WAIT_MS = 5000,    /* for the last that a killed raylet has just started to let go of its socket */
    MT_RLT_JOB_LINGER_MS = 500,      /* after the driver's end: for output of processes that it left */

    MT_RLT_EVENTS = 32 * 1024, /* a worker's ring keeps so many, if MANTA_EVENTS does not say */
    MT_RLT_EVENTS_MIN = 1024,
    MT_RLT_EVENTS_MAX = 4 << 20,
    MT_RLT_EVENTS_OVER_BYTES = 32 << 20, /* of rings whose workers have ended; the oldest go first */
    MT_RLT_QUERY_EVENTS = 128 * 1024,    /* looked at for one answer: a few ms of the logic thread */
    MT_RLT_QUERY_BYTES = 1 << 20,        /* of rows in one answer */
    MT_RLT_QUERY_ROWS = 10000,
    MT_RLT_QUERIES_MAX = 256,         /* that wait for processes */
    MT_RLT_OUTPUT_BYTES = 256 * 1024, /* of one worker in a second go to its driver; what is beyond is dropped, and counted */
    MT_RLT_OUTPUT_LINE = 4096,        /* a longer line is cut into such */
    MT_RLT_OUTPUT_READ = 64 * 1024,   /* taken at a time */
    MT_RLT_STACKS = 16,               /* processes whose stacks are taken at a time */
    MT_RLT_STACK_MS = 5000,           /* for all of them to write theirs: who is asked this most often waits on a crowded machine */
    MT_RLT_STACK_POLL_MS = 5,
    MT_FRAMES_MS = 2000,     /* for the names of a stack's functions: symbols may be many, or lie on a slow disk */
    MT_CRASH_MS = 10 * 1000, /* a thread that crashes beside another one lets it tell so long */
    MT_RLT_LOOK_MS = 1000,   /* for a process to tell of itself; then the answer says that it does not */

    /* Switch of a raylet. */
    MT_SW_DOWN_MESSAGES_MAX = 1 << 20, /* bytes queued for one process, beyond which a CTL_MESSAGE bounces */
    MT_SW_DOWN_BYTES_MAX = 16 << 20,   /* bytes queued for one process, beyond which it is given up */
    MT_SW_POLL_RECORDS = 256,          /* taken from one ring in one round, so that none starves the others */
    MT_SW_BACKLOG_US = 500,            /* a ring that had no room is looked at again after so long */
    MT_SW_OUT_BYTES = 32 * 1024,       /* a run of records for a node is handed over when it is this long */
};

#endif
