/* SPDX-License-Identifier: Apache-2.0
 *
 * train.h - limits of collectives, models, data, checkpoints, and the driver of a training.
 */
#ifndef MT_LIMITS_TRAIN_H
#define MT_LIMITS_TRAIN_H

enum {
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
    MT_COLL_DIRECT_MAX = 8,                 /* members over TCP of which each two are connected; more have few others each */
    MT_COLL_QUEUE_MAX = 1024,               /* asynchronous collectives of one member that are not finished */
    MT_COLL_ASK_MS = 100,                   /* a member that waits on TCP asks this often whether its group was aborted */
    MT_NCCL_ABORT_MS = 5000,                /* a communicator of NCCL that takes longer to end hangs, and is left behind */
    MT_NCCL_WARM_MS = 30 * 1000,            /* for a communicator of one, before a worker has a rank */
    MT_NCCL_NEWS_MS = 2000,                 /* from NCCL's failure to the news of the death that it comes from */
    MT_NCCL_YIELD_MS = 2,                   /* a wait for a device yields so long, then sleeps between two looks */
    MT_COLL_DIAL_MS = 2,                    /* who makes a connection for a message looks so often who wants one with it */
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
    MT_TRAIN_APART_MS = 20 * 1000,               /* for another machine's answer: which checkpoints it has, a piece of one */
    MT_CHECKPOINTS_KEPT = 2,                     /* unless set */
    MT_CHECKPOINTS_MAX = 4096,                   /* in one folder */
    MT_CHECKPOINTS_NAMED_MAX = 16,               /* passed over by a load and named in its report; more are counted */
    MT_DATA_FILE_MIB_MAX = 8 * 1024,             /* of one data file, unpacked */
    MT_TRAIN_DATA_MIB_MAX = 64 * 1024,           /* of other machines' data files that a node keeps for a user */
    MT_TRAIN_PIECE_BYTES = 4 * 1024 * 1024,      /* of such a file, that travel at a time */
    MT_TRAIN_DATA_MS = 10 * 60 * 1000,           /* for its sum, for a piece of it, for another process that fetches one */
    MT_TRAIN_LOOK_MS = 50,                       /* how often a driver looks at its workers' progress */
    MT_TRAIN_NODES_MS = 250,                     /* from one look at the cluster's nodes to the next, where there is news of them */
    MT_TRAIN_UNPLACED_MS = 1000,                 /* one that has not started for so long is hired elsewhere, if there is room */
    MT_TRAIN_UNPLACED_DOUBLED = 4,               /* so many times at most that doubles, once for each that was */
    MT_TRAIN_RATE_MS = 1000,                     /* over so long its speed is measured ... */
    MT_TRAIN_RATE_STEPS = 4,                     /* ... and so many steps */
    MT_TRAIN_NODES_MAX = 256,                    /* whose checkpoints a load of one in pieces knows */
    MT_TRAIN_TIMELINE_EVENTS = 1000 * 1000,      /* in the file of run.timeline; then only recoveries are added */
    MT_TRAIN_DEVICES_MAX = 256,                  /* CPUs of one worker that compute at the same time */
    MT_TRAIN_PART_FLOATS = 16 * 1024,            /* the least of a sum or an update that is worth handing to another thread */
    MT_TRAIN_BUCKET_BYTES = 1024 * 1024,         /* of gradients that are summed at a time, while others are computed */
    MT_TRAIN_MORE_MS = 5,                        /* a driver waits for more of a board that it has not seen the end of */
    MT_TRAIN_LEAVE_MS = 2 * 1000,                /* a generation that changes has so long to end its step; then the step is left */
    MT_TRAIN_CONNECT_MS = 2 * 1000,  /* the next one's members have so long to connect beside it; then they do so after it */
    MT_TRAIN_AWAY_MS = 3 * 1000,     /* a suspect node's post does not answer for so long: the run goes on without it */
    MT_TRAIN_WORDS_MS = 1000,        /* another node may take to say what a dead worker printed last */
    MT_TRAIN_DISMISS_MS = 1000,      /* for the end of workers that are killed when their run is over */
    MT_TRAIN_PING_MS = 200,          /* how often it asks its idle spares whether they live */
    MT_TRAIN_START_MS = 60 * 1000,   /* from asking for a worker until it is there; and while it loads, without work */
    MT_TRAIN_RETURN_MS = 10 * 1000,  /* from asking a spare for a sign of life until it is killed */
    MT_TRAIN_WAIT_S = 3600,          /* for the fewest workers in all, while nodes are being started for them, or may be */
    MT_TRAIN_WISH_MS = 1000,         /* how often the cluster is asked then */
    MT_TRAIN_WAITING_MS = 2000,      /* then who waits for workers is told how many are there */
    MT_TRAIN_GATHER_MS = 250,        /* at a run's start, for workers beyond the fewest that will do */
    MT_TRAIN_HUNG_MS = 10 * 1000,    /* a worker shows nothing for so long, and for 5 of the longest steps: it hangs */
    MT_TRAIN_STOPPED_MS = 900,       /* the same of one that is stopped: with a replacement it is back within 1 s */
    MT_TRAIN_FIRST_MS = 60 * 1000,   /* the same before a generation's first step: what is used first takes longer */
    MT_TRAIN_STARVED_MS = 20 * 1000, /* for so long more, where it would work but others have the CPUs */
    MT_TRAIN_SILENT_MS = 60 * 1000,  /* for so long a worker may write the last checkpoint, while all wait */
    MT_TRAIN_WINDOW_MS = 5000,       /* over which the slowest worker is compared with the others */
    MT_TRAIN_BACKOFF_MS = 100,       /* after a second failure without a step in between, unless set; then doubled */
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
};

#endif
