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
    /* Values and bundles. */
    MT_INLINE_VALUE_BYTES    = 4096,             /* a larger argument or result lives in a segment */
    MT_BUNDLE_BYTES_MIN      = 4 * 1024,         /* records between nodes travel in messages of this ... */
    MT_BUNDLE_BYTES_MAX      = 32 * 1024,        /* ... to this size */
    MT_PEER_REPLAY_BYTES_MAX = 64 * 1024 * 1024, /* sent to a peer node, not yet acknowledged */

    /* Waiting: poll, then sleep. */
    MT_SPIN_NS_MAX       = 100 * 1000, /* upper end of the adaptive polling budget: two slow futex round trips */
    MT_SPIN_NS_MIN       = 2 * 1000,   /* lower end */
    MT_PARK_MS_MAX       = 1000,       /* a sleeper looks around at least this often, should a wake-up be lost */
    MT_DEADLOCK_PROBE_MS = 1000,       /* blocked this long, a waiter has its waits-for edges followed */

    /* Leases, tasks and workers. */
    MT_LEASE_SLICE_MS            = 100,   /* a class that others wait for is recalled after this long */
    MT_TASK_RETRIES_DEFAULT      = 3,     /* max_retries, for system failures */
    MT_TASK_RETURNS_MAX          = 65535, /* width of an id's return index: frozen */
    MT_TASK_ARGS_MAX             = 16,    /* arguments of one call */
    MT_TASK_REFS_MAX             = 1024,  /* refs declared by one call or object */
    MT_OWNER_QUEUED_BYTES_MAX    = 1024 * 1024 * 1024, /* calls of one owner that wait for their turn */
    MT_OWNER_CLASSES_MAX         = 4096,  /* scheduling classes with calls in flight, one owner */
    MT_WORKER_START_MS           = 10 * 1000, /* from spawn to the worker's greeting */
    MT_WORKER_STOP_MS            = 2 * 1000,  /* from the request to leave to SIGKILL */
    MT_WORKER_IDLE_MS            = 60 * 1000, /* a warm worker of a living job that nobody leases goes after this */
    MT_WORKER_EXITED_DRAIN_MS    = 100,   /* descriptor close to exit status: which death it was */
    MT_BLOCKED_WORKERS_MAX       = 64,    /* max_blocked_workers: past it a blocked get runs its own children */
    MT_RESOURCES_MAX             = 32,    /* kinds of resource on one node */
    MT_RESOURCE_UNIT             = 10000, /* resources are counted in ten-thousandths */

    /* Objects. */
    MT_SEGMENT_WARM_BYTES_MAX = 16 * 1024 * 1024, /* free warm pages that a node keeps ... */
    MT_SEGMENT_WARM_MS        = 10 * 1000,        /* ... beyond this long */
    MT_OBJECT_CHUNK_BYTES     = 1024 * 1024,      /* an object travels in chunks of this size */
    MT_OBJECT_CHUNK_BYTES_MAX = 64 * 1024 * 1024, /* a larger chunk from a peer is refused */
    MT_OBJECT_FETCH_MS        = 10 * 1000,        /* without progress this long, another copy is tried */

    /* Nodes and connections. */
    MT_NODE_BEAT_MS           = 500,       /* raylet to head, when there is nothing else to say */
    MT_NODE_SUSPECT_MS        = 2 * 1000,  /* silent this long: nothing new is placed there */
    MT_NODE_DEAD_MS           = 10 * 1000, /* silent this long: dead */
    MT_NODE_REDIAL_MS         = 500,       /* while suspect, a fresh connection is dialled this often */
    MT_HEAD_LEASE_MS          = 7 * 1000,  /* a raylet without the head this long freezes its strict actors */
    MT_NODES_MAX              = 4096,      /* raylets in one cluster */
    MT_DIAL_MS                = 5 * 1000,  /* from connect to a connection */
    MT_HANDSHAKE_MS           = 5 * 1000,  /* from accept to an authenticated peer, and to its first request */
    MT_CONN_IDLE_MS           = 10 * 60 * 1000, /* a control connection without a call is closed */
    MT_CONNS_PER_PEER_MAX     = 64,
    MT_CONNS_STRANGER_MAX     = 32,        /* connections that have not shown the token yet, all together */
    MT_CONN_STREAMS_MAX       = 128,       /* calls at a time on one connection */
    MT_CALL_MS                = 10 * 1000, /* a control call that does not say otherwise */
    MT_CONTROL_BYTES_MAX      = 4 * 1024 * 1024, /* a larger control message is refused unread */
    MT_METADATA_BYTES_MAX     = 8 * 1024,  /* of one call */
    MT_TOKEN_BYTES            = 32,        /* the cluster token: 256 bits */
    MT_DRIVERS_MAX            = 1024,      /* on one node */

    /* Loops and listeners. */
    MT_LOOP_BATCH_MAX    = 1024,  /* messages run before descriptors and timers get their turn again */
    MT_JOBS_QUEUED_MAX   = 65536, /* largest bound of a disk thread's queue */
    MT_FDS_MAX           = 65536, /* descriptors that a daemon asks for at start */
    MT_FDS_SHARE_PERCENT = 80,    /* of the descriptor limit; a connection whose number lies above is refused */
    MT_LISTEN_BACKLOG    = 511,   /* connections that the kernel keeps for us */
    MT_LISTEN_BATCH_MAX  = 32,    /* accepted before others on the loop get their turn */
    MT_LISTEN_RETRY_MS   = 50,    /* pause after an accept that failed for want of memory or descriptors */
    MT_CONNS_MAX         = 8192,  /* of one listener */

    /* Calls and streams. */
    MT_CONN_STRANGER_MS_MIN  = 100,       /* what a stranger's connection has, even when others wait for its place */
    MT_CONN_SWEEP_MS         = 50,        /* how often strangers' time is looked at */
    MT_REDIAL_MS_MIN         = 100,       /* between attempts to connect (gRPC has no lower) */
    MT_REDIAL_MS_MAX         = 1000,
    MT_KEEPALIVE_MS          = 10 * 1000, /* a silent connection with calls is asked, ... */
    MT_KEEPALIVE_ANSWER_MS   = 5 * 1000,  /* ... and has this long to answer */
    MT_CALLS_OPEN_MAX        = 16384,     /* calls and streams that one server has open */
    MT_RPC_BYTES_MAX         = 512 * 1024 * 1024, /* that gRPC may hold for the connections of one server */
    MT_STREAM_QUEUE_BYTES    = 4 * 1024 * 1024,   /* bound of a stream's send queue, unless set */
    MT_STREAM_AHEAD_BYTES    = 1024 * 1024, /* received on a stream and not delivered: then no more is read */
    MT_STREAM_AHEAD_MAX      = 256,       /* the same in messages */
    MT_STREAM_BATCH_MAX      = 256,       /* callbacks of one stream before others on the loop get their turn */
    MT_READER_AHEAD_MAX      = 64,        /* messages kept for a caller that reads a stream without a loop */
    MT_SERVER_GRACE_MS       = 200,       /* a closing server waits this long for replies to be sent */
    MT_CLOSE_MS_MAX          = 10 * 1000, /* closing that takes longer is a bug of ours: a check fails */

    /* Training. */
    MT_GROUP_MEMBERS_MAX       = 64,        /* workers that share one memory region */
    MT_VRANKS_MAX              = 1024,      /* virtual ranks of one run: inputs of one sum */
    MT_GROUP_WAIT_MS           = 60 * 1000, /* backstop of a collective; a death is told by an abort, at once */
    MT_GROUP_SLEEP_MS          = 50,        /* a sleeper looks again this often, should its waker have died */
    MT_TENSOR_DIMS_MAX         = 8,
    MT_TENSORS_MAX             = 16384,     /* of one model or file */
    MT_LAYERS_MAX              = 16,        /* of a multilayer perceptron */
    MT_TENSOR_HEADER_BYTES_MAX = 100 * 1000 * 1000, /* safetensors' own limit */
    MT_MANIFEST_BYTES_MAX      = 8 * 1024 * 1024,
    MT_FILE_STEP_BYTES         = 1024 * 1024, /* asked of one read or write */
    MT_CHECKPOINTS_KEPT        = 2,         /* unless set */
    MT_CHECKPOINTS_MAX         = 4096,      /* in one folder */
    MT_CHECKPOINTS_NAMED_MAX   = 16,        /* passed over by a load and named in its report; more are counted */
    MT_DATA_FILE_MIB_MAX       = 8 * 1024,  /* of one data file, unpacked */
    MT_TRAIN_LOOK_MS           = 50,        /* how often a driver looks at its workers' progress */
    MT_TRAIN_PING_MS           = 200,       /* how often it asks its idle spares whether they live */
    MT_TRAIN_START_MS          = 60 * 1000, /* from asking for a worker until it has loaded model and data */
    MT_TRAIN_RETURN_MS         = 10 * 1000, /* from an abort until a survivor is back; then it is killed */
    MT_TRAIN_STARTS_MAX        = 3,         /* workers in a row that may die before they have started */
    MT_TRAIN_SPARES_MAX        = 16,
    MT_TRAIN_LOG_STEPS         = 50,        /* steps between two lines of progress, unless set */
    MT_TRAIN_CHECKPOINT_S      = 30,        /* between two checkpoints, unless set */

    /* Head: what it decides, and what it keeps. */
    MT_HEAD_PAUSE_MS       = 1000,    /* a longer gap between two steps is the head's own pause: not the nodes' silence */
    MT_HEAD_TICK_MS        = 250,     /* it is stepped at least so often */
    MT_HEAD_VIEW_MS        = 20,      /* membership changes reach the nodes after at most so long */
    MT_HEAD_VIEW_FREE_MS   = 1000,    /* changes of free resources, for up to 100 nodes; grows with the cluster */
    MT_HEAD_GRACE_MS       = 2000,    /* after a start nothing is called unschedulable: nodes are still registering */
    MT_HEAD_PROMISE_MS     = 100,     /* a promise stands until the node's first report after this age ... */
    MT_HEAD_PROMISE_MS_MAX = 1500,    /* ... and at most so long */
    MT_HEAD_REPLACE_MS     = 250,     /* a want that still stands so long after its Place is answered again */
    MT_HEAD_PLACE_MAX      = 256,     /* leases answered by one Place */
    MT_HEAD_WANTS_MAX      = 1024,    /* of one node */
    MT_HEAD_KINDS_MAX      = 4096,    /* names of resources in one cluster */
    MT_HEAD_NODES_DEAD_MAX = 256,     /* that are still listed; the oldest go first */
    MT_HEAD_NAMES_MAX      = 100000,
    MT_HEAD_OUTCOMES_MAX   = 16384,   /* remembered outcomes of name requests */
    MT_HEAD_GONE_MAX       = 16384,   /* remembered processes that have ended */
    MT_HEAD_JOBS_ACTIVE_MAX = 10000,  /* that have not ended */
    MT_HEAD_JOBS_ENDED_MAX = 2000,    /* that are still listed, with their logs; the oldest go first */
    MT_HEAD_JOB_ARGS_MAX   = 4096,
    MT_HEAD_JOB_FILES_MAX  = 4096,
    MT_HEAD_JOB_RETRY_MS   = 500,     /* before a failed or refused driver is started again */
    MT_HEAD_JOB_LOG_BYTES_MAX = 256 * 1024 * 1024, /* what comes after is dropped, and the log says so */
    MT_HEAD_WAITS_MAX      = 4096,    /* parked WaitJob calls */
    MT_HEAD_WAIT_MS_MAX    = 60 * 1000, /* a longer one is answered after this */
    MT_HEAD_LIST_BYTES_MAX = 3 * 1024 * 1024, /* of a list of jobs; the newest first */
    MT_HEAD_BLOBS_MAX      = 100000,
    MT_HEAD_BLOB_KEEP_MS   = 60 * 60 * 1000, /* an unneeded one is kept so long after its last use */
    MT_HEAD_BLOB_SWEEP_MS  = 10 * 1000,
    MT_HEAD_BLOB_SWEEP_MAX = 256,     /* dropped at a time */
    MT_HEAD_COMMITS_MAX    = 16,      /* on the store's thread */
    MT_HEAD_FILE_JOBS_MAX  = 65536,   /* on the files' thread */
    MT_HEAD_PIECE_BYTES    = 128 * 1024, /* of a log or a blob: read and sent at a time */
    MT_HEAD_LOG_AHEAD_BYTES = 16 * 1024 * 1024, /* of log on the way to the disk: then raylets are not read from */
    MT_HEAD_UPLOADS_MAX    = 64,      /* at a time */
    MT_HEAD_UPLOAD_MS      = 60 * 1000, /* a client that sends nothing for so long is cut off */
    MT_HEAD_FEEDS_MAX      = 1024,    /* followers and downloads at a time */

    /* Control client. */
    MT_CTL_PATIENCE_MS   = 30 * 1000, /* default patience with a head that is away */
    MT_CTL_HELLO_MS      = 5 * 1000,  /* opening fails sooner: a wrong address should not cost half a minute */
    MT_CTL_RETRY_MS_MIN  = 50,        /* pause between tries, doubled up to ... */
    MT_CTL_RETRY_MS_MAX  = 1000,
    MT_CTL_WAIT_MS       = 10 * 1000, /* one WaitJob; repeated */
    MT_CTL_UPLOAD_MS     = 60 * 1000, /* an upload that gets nothing through for so long is begun again */
    MT_CTL_PIECE_BYTES   = 256 * 1024,
    MT_CTL_HAS_MAX       = 1024,      /* files asked for in one call */
    MT_CTL_FOLDERS_DEEP_MAX = 64,

    /* Texts. */
    MT_NAME_BYTES_MAX  = 128,  /* of a function, actor, resource, name space, label, tensor; its end included */
    MT_ERROR_BYTES_MAX = 512,  /* message of an error; its end included */
    MT_LOG_LINE_BYTES  = 1024, /* a longer line is cut */
    MT_PATH_BYTES_MAX  = 4096,
    MT_CONFIG_TEXT_BYTES_MAX = 64 * 1024, /* a configuration file */
};

static_assert(MT_INLINE_VALUE_BYTES < MT_BUNDLE_BYTES_MAX, "an inline value fits into a bundle");
static_assert(MT_BUNDLE_BYTES_MAX < MT_CONTROL_BYTES_MAX, "a bundle fits into a message");
static_assert(MT_BUNDLE_BYTES_MAX < MT_PEER_REPLAY_BYTES_MAX, "several bundles may be under way");
static_assert(MT_HEAD_LIST_BYTES_MAX < MT_CONTROL_BYTES_MAX, "a list of jobs fits into a message");
static_assert(MT_HEAD_PAUSE_MS > 2 * MT_HEAD_TICK_MS, "ticks as planned are no pause");
static_assert(MT_HEAD_PROMISE_MS_MAX > MT_HEAD_PROMISE_MS + 2 * MT_NODE_BEAT_MS, "a report comes before a promise ends");
static_assert(MT_NODE_BEAT_MS * 3 < MT_NODE_SUSPECT_MS, "two lost beats make nobody suspect");
static_assert(MT_NODE_REDIAL_MS * 4 <= MT_NODE_DEAD_MS - MT_NODE_SUSPECT_MS, "a suspect node is redialled often");
static_assert(MT_HEAD_LEASE_MS > MT_NODE_BEAT_MS * 3, "renewed several times before it runs out");
static_assert(MT_CONN_STRANGER_MS_MIN >= 2 * MT_CONN_SWEEP_MS, "a stranger's time is measured, roughly");
static_assert(MT_SERVER_GRACE_MS < MT_CLOSE_MS_MAX, "the grace is a part of closing");
static_assert(MT_NODE_DEAD_MS > MT_HEAD_LEASE_MS, "a raylet freezes its strict actors before they start elsewhere");

#endif
