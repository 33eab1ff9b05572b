/* SPDX-License-Identifier: Apache-2.0
 *
 * limits.h - every limit of the project, by name: waits, queues, sizes, counts, default budgets.
 *
 * A number that bounds something stands here and nowhere else, with its unit as the last word of its name; only the
 * sizes of frozen layouts stand with their layout (core/lane: records, rings, claims). What must hold between two of
 * them is asserted at the end.
 */
#ifndef MT_BASE_LIMITS_H
#define MT_BASE_LIMITS_H

#include <assert.h>

enum mt_limit {
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
    MT_SPARE_BYTES_MAX = 2 * 1024 * 1024, /* of freed inline values, kept for the next ones */

    /* Objects. */
    MT_SEGMENT_WARM_BYTES_MAX = 16 * 1024 * 1024, /* free warm pages that a node keeps ... */
    MT_SEGMENT_WARM_MS = 10 * 1000,               /* ... beyond this long */
    MT_OBJECT_CHUNK_BYTES = 1024 * 1024,          /* an object travels in chunks of this size */
    MT_OBJECT_CHUNK_BYTES_MAX = 64 * 1024 * 1024, /* a larger chunk from a peer is refused */
    MT_OBJECT_DAMAGED_MAX = 3,                    /* a value that comes damaged so often in a row is given up */
    MT_OBJECT_FETCH_MS = 10 * 1000,               /* without progress this long, another copy is tried */

    /* Object store. */
    MT_OS_TICK_MS = 20,                    /* how often places that were still pinned are looked at again */
    MT_OS_TRANSFER_CONNECTIONS_MAX = 1024, /* incoming */
    MT_OS_IDLE_MS = 5 * 1000,              /* a connection to another node's data socket is kept so long after its last value; */
    MT_OS_IDLE_PEER_MAX = 4,               /* ... so many of one node, */
    MT_OS_IDLE_MAX = 128,                  /* ... and of all */
    MT_OS_FETCHES_MAX = 256,               /* outgoing */

    /* Nodes and connections. */
    MT_NODE_SUSPECT_MS = 2 * 1000,          /* silent this long: nothing new is placed there */
    MT_NODE_DEAD_MS = 10 * 1000,            /* silent this long: dead */
    MT_STRICT_LEASE_MS = 4 * 1000,          /* a strict actor runs so long after its raylet spoke to the head, then it freezes */
    MT_STRICT_WAIT_MS = 5 * 1000,           /* its next incarnation begins so long after the head has given the old one up */
    MT_NODES_MAX = 4096,                    /* raylets in one cluster */
    MT_DIAL_MS = 5 * 1000,                  /* from connect to a connection */
    MT_HANDSHAKE_MS = 5 * 1000,             /* from accept to an authenticated peer, and to its first request */
    MT_CONN_IDLE_MS = 10 * 60 * 1000,       /* a control connection without a call is closed */
    MT_CONNS_STRANGER_MAX = 32,             /* connections that have sent a greeting and not shown the token, all together */
    MT_CONN_STREAMS_MAX = 128,              /* calls at a time on one connection */
    MT_CALL_MS = 10 * 1000,                 /* a control call that does not say otherwise */
    MT_CONTROL_BYTES_MAX = 4 * 1024 * 1024, /* a larger control message is refused unread */
    MT_METADATA_BYTES_MAX = 8 * 1024,       /* of one call */
    MT_TOKEN_BYTES = 32,                    /* the cluster token: 256 bits */

    /* TLS. */
    MT_TLS_DAYS = 3650,                /* that a certificate of the cluster's authority is valid, and that one itself */
    MT_TLS_FILE_BYTES_MAX = 64 * 1024, /* of a file with certificates, or for joining a cluster */
    MT_TLS_PIECE_BYTES = 64 * 1024,    /* decrypted or encrypted before other connections get their turn */
    MT_TLS_AHEAD_BYTES = 128 * 1024,   /* read by one system call; held only while some of it is there */
    MT_TLS_FLUSH_MS = 200,             /* from the end of one side until what it sent last has reached the other */
    MT_TLS_STRANGER_MS_MIN = 300,      /* as MT_CONN_STRANGER_MS_MIN: a handshake takes round trips over a real network */

    /* Loops and listeners. */
    MT_LOOP_BATCH_MAX = 1024,   /* messages run before descriptors and timers get their turn again */
    MT_JOBS_QUEUED_MAX = 65536, /* largest bound of a disk thread's queue */
    MT_FDS_MAX = 65536,         /* descriptors that a daemon asks for at start */
    MT_FDS_MIN = 128,           /* with fewer a daemon does not start: gRPC ends a process that it finds without one */
    MT_FDS_SHARE_PERCENT = 80,  /* of the descriptor limit: for connections and memory of processes; what lies above is refused */
    MT_LISTEN_BACKLOG = 4096,   /* connections that the kernel keeps for us: beyond it even a node's own dial waits a second */
    MT_LISTEN_BATCH_MAX = 32,   /* accepted before others on the loop get their turn */
    MT_LISTEN_REST_MS = 10,     /* when strangers crowd, accept is called so often, and not for each of them: ... */
    MT_LISTEN_CROWD_MIN = 8,    /* ... if so many came meanwhile, ... */
    MT_LISTEN_CROWD_MAX = 256,  /* ... for so many at a time */
    MT_LISTEN_RETRY_MS = 50,    /* pause after an accept that failed for want of memory or descriptors */
    MT_LISTEN_TELL_MS = 10 * 1000,        /* between two lines of the log about refused connections */
    MT_CONNS_MAX = 8192,                  /* of one listener */
    MT_SILENT_MAX = 128,                  /* connections of one listener that have not sent their greeting */
    MT_GREETING_BYTES_MAX = 128,          /* what has to be there of it before anybody is bothered */
    MT_BOUND_BURST = 64,                  /* connections without the token that an address may open at a time, ... */
    MT_BOUND_PER_S = 16,                  /* ... and so many a second */
    MT_BOUND_KNOWN_MS = 24 * 3600 * 1000, /* an address from which one has shown the token has no bound for so long */
    MT_BOUND_ADDRESSES = 8192,            /* that are told apart; more than nodes */

    /* Calls and streams. */
    MT_CONN_STRANGER_MS_MIN = 100, /* what a stranger's connection has, even when others wait for its place */
    MT_CONN_SWEEP_MS = 50,         /* how often strangers' time is looked at */
    MT_REDIAL_MS_MIN = 100,        /* between attempts to connect (gRPC has no lower) */
    MT_REDIAL_MS_MAX = 1000,
    MT_KEEPALIVE_MS = 10 * 1000,             /* a silent connection with calls is asked, ... */
    MT_KEEPALIVE_ANSWER_MS = 5 * 1000,       /* ... and has this long to answer */
    MT_CALLS_OPEN_MAX = 16384,               /* calls and streams that one server has open */
    MT_RPC_BYTES_MAX = 512 * 1024 * 1024,    /* that gRPC may hold for the connections of one server */
    MT_STREAM_QUEUE_BYTES = 4 * 1024 * 1024, /* bound of a stream's send queue, unless set */
    MT_STREAM_AHEAD_BYTES = 1024 * 1024,     /* received on a stream and not delivered: then no more is read */
    MT_STREAM_AHEAD_MAX = 256,               /* the same in messages */
    MT_STREAM_BATCH_MAX = 256,               /* callbacks of one stream before others on the loop get their turn */
    MT_READER_AHEAD_MAX = 64,                /* messages kept for a caller that reads a stream without a loop */
    MT_SERVER_GRACE_MS = 200,                /* a closing server waits this long for replies to be sent */
    MT_CLOSE_MS_MAX = 10 * 1000,             /* closing that takes longer is a bug of ours: a check fails */

    /* Training. */
    MT_GROUP_MEMBERS_MAX = 64,              /* workers that share one memory region */
    MT_VRANKS_MAX = 1024,                   /* virtual ranks of one run: inputs of one sum */
    MT_GROUP_WAIT_MS = 60 * 1000,           /* backstop of a collective; a death is told by an abort, at once */
    MT_GROUP_SLEEP_MS = 50,                 /* a sleeper looks again this often, should its waker have died */
    MT_GROUP_ASK_MS = 2,                    /* a trainer that waits for other nodes looks so often whether its own has given up */
    MT_COLL_WAIT_MS = 60 * 1000,            /* backstop of a public collective, unless its group sets another */
    MT_COLL_MAIL_BYTES = 64 * 1024,         /* what travels with the call itself, through shared memory */
    MT_COLL_CHUNK_BYTES = 256 * 1024,       /* what is larger travels in chunks of this size */
    MT_COLL_PIPE_BYTES = 16 * 1024,         /* a chunk between two members */
    MT_COLL_REGISTERED_MAX = 64,            /* buffers of its own that a member has made shared */
    MT_COLL_SEND_BYTES = 208 * 1024,        /* on the way to a member over TCP; the kernel doubles it */
    MT_COLL_PEEK_MS = 1000,                 /* from the end of a member's memory to the news of its death */
    MT_COLL_BUCKET_BYTES = 4 * 1024 * 1024, /* small tensors that are sent as one */
    MT_COLL_QUEUE_MAX = 1024,               /* asynchronous collectives of one member that are not finished */
    MT_COLL_ASK_MS = 100,                   /* a member that waits on TCP asks this often whether its group was aborted */
    MT_NCCL_ABORT_MS = 5000,                /* a communicator of NCCL that takes longer to end hangs, and is left behind */
    MT_NCCL_WARM_MS = 30 * 1000,            /* for a communicator of one, before a worker has a rank */
    MT_NCCL_NEWS_MS = 2000,                 /* from NCCL's failure to the news of the death that it comes from */
    MT_NCCL_YIELD_MS = 2,                   /* a wait for a device yields so long, then sleeps between two looks */
    MT_COLL_STRANGERS_MAX = 32,             /* connections that have not shown a group's secret */
    MT_TENSOR_DIMS_MAX = 8,
    MT_TENSORS_MAX = 16384,                         /* of one model or file */
    MT_LAYERS_MAX = 16,                             /* of a multilayer perceptron */
    MT_TENSOR_HEADER_BYTES_MAX = 100 * 1000 * 1000, /* safetensors' own limit */
    MT_MANIFEST_BYTES_MAX = 8 * 1024 * 1024,
    MT_FILE_STEP_BYTES = 1024 * 1024,            /* asked of one read or write */
    MT_CHECKPOINT_PIECE_BYTES = 4 * 1024 * 1024, /* of it that is read between two signs of life */
    MT_FILE_DIRECT_BYTES = 32 * 1024 * 1024,     /* a checkpoint from this size on goes past the page cache */
    MT_CHECKPOINT_PARTS_MS = 60 * 1000,          /* from a member's part of a checkpoint until all the others' are there */
    MT_CHECKPOINTS_KEPT = 2,                     /* unless set */
    MT_CHECKPOINTS_MAX = 4096,                   /* in one folder */
    MT_CHECKPOINTS_NAMED_MAX = 16,               /* passed over by a load and named in its report; more are counted */
    MT_DATA_FILE_MIB_MAX = 8 * 1024,             /* of one data file, unpacked */
    MT_TRAIN_LOOK_MS = 50,                       /* how often a driver looks at its workers' progress */
    MT_TRAIN_NODES_MS = 1000,                    /* how often a run that wants more nodes asks for them */
    MT_TRAIN_NODES_MAX = 256,                    /* nodes of a cluster that it looks at */
    MT_TRAIN_TIMELINE_EVENTS = 1000 * 1000,      /* in the file of run.timeline; then only recoveries are added */
    MT_TRAIN_DEVICES_MAX = 256,                  /* CPUs of one worker that compute at the same time */
    MT_TRAIN_PART_FLOATS = 16 * 1024,            /* the least of a sum or an update that is worth handing to another thread */
    MT_TRAIN_BUCKET_BYTES = 1024 * 1024,         /* of gradients that are summed at a time, while others are computed */
    MT_TRAIN_MORE_MS = 5,                        /* a driver waits for more of a board that it has not seen the end of */
    MT_TRAIN_WORDS_MS = 200,                     /* another node may take to say what a dead worker printed last */
    MT_TRAIN_PING_MS = 200,                      /* how often it asks its idle spares whether they live */
    MT_TRAIN_START_MS = 60 * 1000,               /* from asking for a worker until it has loaded model and data */
    MT_TRAIN_RETURN_MS = 10 * 1000,              /* from asking a spare for a sign of life until it is killed */
    MT_TRAIN_GATHER_MS = 250,                    /* at a run's start, for workers beyond the fewest that will do */
    MT_TRAIN_HUNG_MS = 10 * 1000,                /* a worker shows nothing for so long, and for 5 of the longest steps: it hangs */
    MT_TRAIN_STOPPED_MS = 900,                   /* the same of one that is stopped: with a replacement it is back within 1 s */
    MT_TRAIN_FIRST_MS = 60 * 1000,               /* the same before a generation's first step: what is used first takes longer */
    MT_TRAIN_STARVED_MS = 20 * 1000,             /* for so long more, where it would work but others have the CPUs */
    MT_TRAIN_SILENT_MS = 60 * 1000,              /* for so long a worker may write the last checkpoint, while all wait */
    MT_TRAIN_WINDOW_MS = 5000,                   /* over which the slowest worker is compared with the others */
    MT_TRAIN_BACKOFF_MS = 100,                   /* after a second failure without a step in between, unless set; then doubled */
    MT_TRAIN_BACKOFF_MAX_MS = 10 * 1000,
    MT_TRAIN_CONFIG_MAX = 256,          /* pairs of configuration of a run that outlives its driver */
    MT_TRAIN_OPTIONS_BYTES = 3072,      /* all its options */
    MT_TRAIN_EVENT_BYTES = 3072,        /* one of its events */
    MT_TRAIN_EVENTS_KEPT = 256,         /* newest ones, for drivers that come later */
    MT_TRAIN_NEWS_MS = 1000,            /* for so long a driver's question for events may wait for one */
    MT_TRAIN_NEWS_LIMIT_MS = 30 * 1000, /* an answer that takes longer: the actor hangs or can't be reached */
    MT_TRAIN_FOLLOWERS_MAX = 32,        /* drivers that may follow it at a time; more wait */
    MT_TRAIN_CONTROL_RESTARTS = 16,     /* of its actor */
    MT_TRAIN_STARTS_MAX = 3,            /* workers in a row that may die before they have started */
    MT_TRAIN_SPARES_MAX = 16,
    MT_TRAIN_LOG_STEPS = 50,    /* steps between two lines of progress, unless set */
    MT_TRAIN_CHECKPOINT_S = 30, /* between two checkpoints, unless set */

    /* Sweeps. */
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
    MT_SWEEP_SHOW_MS = 250,                    /* between two calls of progress */
    MT_SWEEP_ROOM_MS = 100,                    /* a journal whose disk is full tries so often */
    MT_SWEEP_ROOM_LEAVE_MS = 5 * 1000,         /* ... and so long after the sweep was told to stop */
    MT_SWEEP_LEAVE_MS = 10 * 1000,             /* for slots to be gone at the end */
    MT_SWEEP_ENDS_WAIT_MS = 5000,              /* for the processes of a killed driver to be gone, before its sweep goes on */
    MT_SWEEP_TAIL_BYTES = 2048,                /* of what a failed command printed last */
    MT_SWEEP_LINE_BYTES = 4096,                /* a longer line of a command holds no metrics */
    MT_SWEEP_TERM_MS = 5000,                   /* from SIGTERM to SIGKILL of a command that is stopped */
    MT_SWEEP_NAME_BYTES_MAX = 64,              /* of a sweep; its end included */
    MT_SWEEP_ASK_MS = 60 * 1000,               /* for the answer of a sampler that is another program */
    MT_SWEEP_ASK_LEAVE_MS = 2000,              /* from the end of its input to SIGKILL */
    MT_SWEEP_JSON_BYTES_MAX = 4 * 1024 * 1024, /* of a space */
    MT_SWEEP_TREES = 64,                       /* of the forest that weighs parameters */
    MT_SWEEP_WEIGHED_MAX = 10 * 1000,          /* results that it looks at; of more as many are drawn */
    MT_SWEEP_WEIGHED_MIN = 10,                 /* with fewer nothing is said */
    MT_SWEEP_WEIGHED_BEST_MIN = 20,            /* the same where the best tenth is compared with all: two of them */

    /* Head: what it decides, and what it keeps. */
    MT_HEAD_PAUSE_MS = 1000,       /* a longer gap between two steps is the head's own pause: not the nodes' silence */
    MT_HEAD_TICK_MS = 250,         /* it is stepped at least so often */
    MT_HEAD_VIEW_MS = 20,          /* membership changes reach the nodes after at most so long */
    MT_HEAD_VIEW_FREE_MS = 1000,   /* changes of free resources, for up to 100 nodes; grows with the cluster */
    MT_HEAD_GRACE_MS = 2000,       /* after a start nothing is called unschedulable: nodes are still registering */
    MT_HEAD_PROMISE_MS = 100,      /* a promise stands until the node's first report after this age ... */
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
    MT_HEAD_OUTCOMES_MAX = 16384,    /* remembered outcomes of name requests */
    MT_HEAD_GONE_MAX = 16384,        /* remembered processes that have ended */
    MT_HEAD_JOBS_ACTIVE_MAX = 10000, /* that have not ended */
    MT_HEAD_JOBS_ENDED_MAX = 2000,   /* that are still listed, with their logs; the oldest go first */
    MT_HEAD_JOB_ARGS_MAX = 4096,
    MT_HEAD_JOB_FILES_MAX = 4096,
    MT_HEAD_JOB_RETRY_MS = 500,                    /* before a failed or refused driver is started again */
    MT_HEAD_JOB_LOG_BYTES_MAX = 256 * 1024 * 1024, /* what comes after is dropped, and the log says so */
    MT_HEAD_WAITS_MAX = 4096,                      /* parked WaitJob calls */
    MT_HEAD_WAIT_MS_MAX = 60 * 1000,               /* a longer one is answered after this */
    MT_HEAD_LIST_BYTES_MAX = 3 * 1024 * 1024,      /* of a list of jobs; the newest first */
    MT_HEAD_BLOBS_MAX = 100000,
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
    MT_HEAD_FILE_JOBS_MAX = 65536,              /* on the files' thread */
    MT_HEAD_PIECE_BYTES = 128 * 1024,           /* of a log or a blob: read and sent at a time */
    MT_HEAD_LOG_AHEAD_BYTES = 16 * 1024 * 1024, /* of log on the way to the disk: then raylets are not read from */
    MT_HEAD_UPLOADS_MAX = 64,                   /* at a time */
    MT_HEAD_UPLOAD_MS = 60 * 1000,              /* a client that sends nothing for so long is cut off */
    MT_HEAD_FEEDS_MAX = 1024,                   /* followers and downloads at a time */

    MT_HEAD_QUERIES_MAX = 1024,     /* that wait for their nodes' answers */
    MT_HEAD_QUERY_MS = 10 * 1000,   /* ... at most so long */
    MT_HEAD_GROUPS_MAX = 4096,      /* placement groups in one cluster */
    MT_HEAD_GROUP_WAITS_MAX = 1024, /* parked requests that wait for one of them */
    MT_HEAD_GROUP_AGAIN_MS = 50,    /* a group that found no room, or was refused, is tried again after this */
    MT_HEAD_GROUP_RESEND_MS = 1000, /* an order about bundles that was not answered is said again */
    MT_HEAD_GROUPS_OVER_MAX = 1024, /* remembered ids of groups that were removed */
    MT_GROUP_BUNDLES_MAX = 128,     /* of one placement group ... */
    MT_GROUP_RESOURCES_MAX = 384,   /* ... with so many resources in all: they fit into a record */

    /* Raylet. */
    MT_RLT_HELLO_MS = 5000,        /* from connect (or fork) to CTL_HELLO; a worker's start included */
    MT_RLT_STATUS_MS = 100,        /* from the end of a socket to the wait status of its process */
    MT_RLT_SLICE_MS = 100,         /* a lease whose class others wait for is recalled after this */
    MT_RLT_PRESS_MS = 300,         /* room made by the head's word is kept so long for the one who waits elsewhere */
    MT_RLT_ACTOR_GRACE_MS = 500,   /* an actor whose level fell to 0: from RECALL to SIGKILL */
    MT_RLT_ORPHAN_GRACE_MS = 2000, /* a worker whose owner died: from RECALL to SIGKILL */
    MT_RLT_LEAVE_MS = 2000,        /* from CTL_SHUTDOWN to SIGKILL */
    MT_RLT_IDLE_MS = 10000,        /* a warm worker beyond the bound goes after this */
    MT_RLT_SPARE_MS = 50,          /* no warm worker for so long: fork one ahead of the next lease */
    MT_RLT_WORKERS_MAX = 10240,    /* processes forked on this node, if it does not say; its descriptors may allow fewer */
    MT_RLT_PLACES_SAID = 1024,     /* of those that may still be forked the head is told no more */
    MT_RLT_WORKER_FDS = 3,         /* descriptors that a raylet keeps for a worker: its socket, its process, its park page */
    MT_RLT_OWN_FDS = 64,           /* ... and for itself */
    MT_RLT_FULL_MS = 10 * 1000,    /* every process is an actor's for so long: who waits for one is told */
    MT_RLT_BLOCKED_MAX = 128,      /* workers that wait inside a task and have lent their CPUs, if it does not say */
    MT_RLT_STARTING_MAX = 32,      /* workers of one job that start at a time: each has a share of the CPUs to greet */
    MT_RLT_CLASSES_MAX = 16384,    /* per owner: each actor has one */
    MT_RLT_WANTED_MAX = 65536,     /* leases one class may want */
    MT_RLT_MONITORS_MAX = 65536,   /* on one node */
    MT_RLT_DEATHS_KEPT = 32,       /* for monitors that come just too late */
    MT_RLT_REGIONS_MAX = 4096,
    MT_RLT_CALLERS_MAX = 65536,    /* lanes to actors of others */
    MT_RLT_SHUNNED_MAX = 4,        /* nodes on which no worker of a job could be started: then it is the job's fault */
    MT_RLT_START_FAILURES_MAX = 3, /* zygotes or workers of a job that die in a row before they greet */
    MT_RLT_LACKS_MAX = 8,          /* starts of workers of a job in a row for which the node had no memory or descriptors */
    MT_RLT_LACK_AGAIN_MS = 1000,   /* ... then who waits is told, and nobody tries again for so long */
    MT_RLT_PROCS_MAX = 16384,
    MT_RLT_PIDS_SHARE = 2,         /* of the machine's processes for all jobs of a node, as a divisor */
    MT_RLT_JOB_PIDS_SHARE = 4,     /* ... for what one zygote or driver starts, if --job-pids does not say */
    MT_RLT_JOB_PIDS_MIN = 16,      /* of --job-pids: a worker has threads too */
    MT_RLT_GROUP_END_MS = 5000,    /* for killed processes of a control group to be gone */
    MT_RLT_REPORT_MS = 50,         /* between two reports of changes */
    MT_RLT_BEAT_MS = 1000,         /* a report without a change, as a sign of life */
    MT_RLT_SUBMITTED_MAX = 64,     /* drivers of submitted jobs on one node */
    MT_RLT_JOB_STOP_MS = 5000,     /* from SIGTERM to SIGKILL of a driver */
    MT_RLT_JOB_AGAIN_MS = 1000,    /* the end of a job is said again until the head acknowledges it */
    MT_RLT_LOG_WINDOW = 256 << 10, /* bytes of a log sent to the head and not acknowledged */
    MT_RLT_LOG_CHUNK = 32 << 10,
    MT_RLT_PEER_TICK_MS = 250,    /* a link is looked after this often */
    MT_RLT_PEER_ACK_MS = 2,       /* an acknowledgement waits at most so long for a record to travel with */
    MT_RLT_PEER_BEAT_MS = 500,    /* something is said this often; a suspect node is dialled anew this often */
    MT_RLT_PEER_RESEND_MS = 1000, /* without an acknowledgement that moves */
    MT_RLT_STREAMS_MAX = 4096,
    MT_RLT_ASKED_MAX = 4096,         /* requests to the head that wait for its answer */
    MT_RLT_HEAD_SILENT_MS = 500,     /* a report with wants is not answered: the head counts as away until it says something */
    MT_RLT_ALONE_MS = 100,           /* the head is away: between two nodes that a waiting class asks by itself */
    MT_RLT_ASKED_MS = 30000,         /* ... at most so long, head away or not */
    MT_RLT_BUNDLES_MAX = 1024,       /* of placement groups on one node */
    MT_RLT_JOBS_GONE = 64,           /* the last jobs that ended: said again after each registration */
    MT_RLT_NODES_REPLY_MAX = 16,     /* nodes in one answer to CTL_OP_NODES */
    MT_RLT_RESOURCES_MAX = 16,       /* kinds on one node */
    MT_CPUS_MAX = 1024,              /* of one machine that a lease can be bound to */
    MT_RLT_GPUS_MAX = 16,            /* devices on one node */
    MT_RLT_HEAD_RETRY_MS = 250,      /* between two attempts to attach */
    MT_RLT_HEAD_FILE_POLL_MS = 5,    /* while waiting for the file with its address */
    MT_RLT_HEAD_FILE_MS = 60 * 1000, /* ... at most; then a private cluster goes on without, another raylet gives up */
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
    MT_RLT_STACK_MS = 300,            /* for all of them to write theirs */
    MT_RLT_STACK_POLL_MS = 5,
    MT_RLT_LOOK_MS = 1000, /* for a process to tell of itself; then the answer says that it does not */
    /* Memory of a node. */
    MT_MEMORY_LOOK_MS = 250,
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

    /* Switch of a raylet. */
    MT_SW_DOWN_MESSAGES_MAX = 1 << 20, /* bytes queued for one process, beyond which a CTL_MESSAGE bounces */
    MT_SW_DOWN_BYTES_MAX = 16 << 20,   /* bytes queued for one process, beyond which it is given up */
    MT_SW_POLL_RECORDS = 256,          /* taken from one ring in one round, so that none starves the others */
    MT_SW_BACKLOG_US = 500,            /* a ring that had no room is looked at again after so long */
    MT_SW_OUT_BYTES = 32 * 1024,       /* a run of records for a node is handed over when it is this long */

    /* Library. */
    MT_LIB_SPIN_NS = 50 * 1000,    /* polling before sleeping: about two futex round trips */
    MT_LIB_PAUSE_NS = 5 * 1000,    /* of which so long without yielding */
    MT_LIB_CROWDED_NS = 30 * 1000, /* a yield that takes longer gave the core to others: sleep instead */
    MT_LIB_YIELDED_NS = 2000,      /* a yield that takes less let nobody in, though somebody wanted */
    MT_LIB_BLOCK_NS = 50 * 1000,   /* a task that waits longer gives its CPU back */
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
    MT_LIB_OUTPUT_LINGER_MS = 50,                       /* at the end: for what workers have just printed */
    MT_LIB_WATCHES_MAX = 4096,
    MT_LIB_FOREIGN_METHODS_MAX = 4096,        /* names of methods that a process calls and has not itself */
    MT_LIB_SPARE = 16,                        /* free places that each table of the library keeps, for what may not fail */
    MT_LIB_SPARE_BYTES = 32 * 1024,           /* the same of the messages to the raylet */
    MT_LIB_TOLD_NAP_NS = 50 * 1000,           /* between two looks whether a callback is back */
    MT_LIB_IDLE_NAP_NS = 50 * 1000 * 1000,    /* the helper of a worker that has nothing to do looks so often */
    MT_LIB_CONCURRENCY_MAX = 1024,            /* calls at a time of one actor, or of one of its concurrency groups */
    MT_ACTOR_GROUPS_MAX = 8,                  /* named concurrency groups of an actor type */
    MT_LIB_GROUP_MAX = 4096,                  /* actors of a group */
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

    /* Command line. */
    MT_CLI_START_MS = 30 * 1000,      /* for one daemon to be ready */
    MT_CLI_STOP_MS = 10 * 1000,       /* for all to leave when the head has asked them to */
    MT_CLI_TERM_MS = 5 * 1000,        /* after SIGTERM */
    MT_CLI_KILL_MS = 5 * 1000,        /* after SIGKILL */
    MT_CLI_UNDO_MS = 2 * 1000,        /* for a daemon that did not get ready, before SIGKILL */
    MT_CLI_KEEPER_PAUSE_MS_MIN = 100, /* before a daemon that died is started again, doubled up to ... */
    MT_CLI_KEEPER_PAUSE_MS_MAX = 10 * 1000,
    MT_CLI_KEEPER_CALM_MS = 60 * 1000,  /* one that lived for so long has no pauses behind it */
    MT_CLI_KEEPER_SWEEP_MS = 10 * 1000, /* for a dead raylet's reaper to finish (2 * MT_RLT_GROUP_END_MS), before SIGKILL */
    MT_CLI_LOG_ROOM_BYTES = 64 * 1024,  /* with less room for its log a daemon that does not start may have said nothing */
    MT_CLI_LOGS_KEPT = 4,               /* of each daemon, after `manta stop` ... */
    MT_CLI_LOG_KEPT_BYTES = 1 << 20,    /* ... of each so much, its end */
    MT_CLI_LIST_MAX = 256,              /* --file, --env: of each */

    /* Control client. */
    MT_CTL_PATIENCE_MS = 30 * 1000, /* default patience with a head that is away */
    MT_CTL_HELLO_MS = 5 * 1000,     /* opening fails sooner: a wrong address should not cost half a minute */
    MT_CTL_RETRY_MS_MIN = 50,       /* pause between tries, doubled up to ... */
    MT_CTL_RETRY_MS_MAX = 1000,
    MT_CTL_WAIT_MS = 10 * 1000,   /* one WaitJob; repeated */
    MT_CTL_UPLOAD_MS = 60 * 1000, /* an upload that gets nothing through for so long is begun again */
    MT_CTL_PIECE_BYTES = 256 * 1024,
    MT_CTL_HAS_MAX = 1024, /* files asked for in one call */
    MT_CTL_FOLDERS_DEEP_MAX = 64,

    /* Runtime environments. */
    MT_RLT_USERS_MAX = 1 << 20,        /* of --job-users */
    MT_ENV_MIB_MAX = 500,              /* of files in one (working_dir, files and code); Ray's limit too */
    MT_ENV_FILES_MAX = 100 * 1000,     /* entries of one archive */
    MT_ENV_VARS_BYTES_MAX = 32 * 1024, /* of env_vars, those of the environments that it builds on included */
    MT_ENV_FOLDERS_DEEP_MAX = 64,
    MT_ENVS_MAX = 64,                    /* of one job on one node */
    MT_ENV_CACHE_MIB_MAX = 8 * 1024,     /* of unpacked files on one node; what nobody uses is removed at once */
    MT_ENV_JOBS_MAX = 4096,              /* archives that wait to be unpacked or removed on one node */
    MT_ENV_READ_BYTES = 256 * 1024,      /* read or written at a time */
    MT_PROGRAM_LIBRARIES_MAX = 128,      /* shared libraries that travel with a job's program */
    MT_PROGRAM_MIB_MAX = 4 * 1024,       /* a program and its libraries */
    MT_PROGRAM_CACHE_MIB_MAX = 8 * 1024, /* of other nodes' programs on one node; those that nobody runs go first */
    MT_PROGRAM_CHECKS_MAX = 4096,        /* checks of program files that wait for the thread of the disk */
    MT_ENV_TEXT_BYTES_MAX = 400,         /* of what went wrong; its end included */

    /* Texts. */
    MT_NAME_BYTES_MAX = 128,   /* of a function, actor, resource, name space, label, tensor; its end included */
    MT_LABELS_BYTES_MAX = 256, /* of all labels of a node, or of a selector; its end included */
    MT_ERROR_BYTES_MAX = 512,  /* message of an error; its end included */
    MT_LOG_LINE_BYTES = 1024,  /* a longer line is cut */
    MT_PATH_BYTES_MAX = 4096,
};

static_assert(MT_HEAD_LIST_BYTES_MAX < MT_CONTROL_BYTES_MAX, "a list of jobs fits into a message");
static_assert(MT_HEAD_PAUSE_MS > 2 * MT_HEAD_TICK_MS, "ticks as planned are no pause");
static_assert(MT_HEAD_PROMISE_MS_MAX > MT_HEAD_PROMISE_MS + MT_RLT_BEAT_MS, "a report comes before a promise ends");
static_assert(MT_RLT_PEER_BEAT_MS * 3 < MT_NODE_SUSPECT_MS, "two lost beats make nobody suspect");
static_assert(MT_STRICT_LEASE_MS < MT_NODE_DEAD_MS && MT_STRICT_LEASE_MS >= 3 * MT_RLT_BEAT_MS,
              "strict: frozen before the node is dead, not by two lost beats");
static_assert(MT_STRICT_WAIT_MS > MT_STRICT_LEASE_MS + 20 * MT_HEAD_VIEW_MS, "strict: the news are there, the lease is over");
static_assert(MT_RLT_SLICE_MS < MT_RLT_BEAT_MS, "a class is served in turns between two reports");
static_assert(MT_CONN_STRANGER_MS_MIN >= 2 * MT_CONN_SWEEP_MS, "a stranger's time is measured, roughly");
static_assert(MT_BOUND_ADDRESSES >= 2 * MT_NODES_MAX, "each node has a place of its own");
static_assert(MT_LIB_ROOM_MS > MT_ROOM_MS_MAX, "the raylet answers before its asker gives up");
static_assert(MT_SERVER_GRACE_MS < MT_CLOSE_MS_MAX, "the grace is a part of closing");

#endif
