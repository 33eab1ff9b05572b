/* SPDX-License-Identifier: Apache-2.0
 *
 * action.h - what the core wants done: the actions of one step.
 */
#ifndef RLT_ACTION_H
#define RLT_ACTION_H

#include "core/proto/manta.pb-c.h"
#include "raylet/core/kit/peer.h"

enum rlt_action_kind {
    /* connections and processes */
    RLT_A_WELCOME = 1,  /* conn, number (process), record, payload (ctl_welcome). code 0: make control lane, park page
                           and (not for a zygote: flag) pin table, give them to the switch, send with fds; else send
                           and close. */
    RLT_A_SOCKET,       /* conn, record, payload, fds: one message on the unix socket */
    RLT_A_CLOSE,        /* conn: after what was sent; no event follows */
    RLT_A_SPAWN_ZYGOTE, /* conn (new), job, fd (program, borrowed), pid (of the driver, 0: elsewhere), payload and size: a
                           ctl_hello and its strings. A program of the cache is held against its list again before */
    RLT_A_FORK,         /* peer (the zygote's conn), conn (new, the worker's), record, payload (ctl_fork): make a
                           socketpair, keep one end as conn, send the other */
    RLT_A_WATCH,        /* conn, fd (pidfd, taken), pid: RLT_EV_EXITED when it says so */
    RLT_A_KILL,         /* conn: SIGKILL by its pidfd; nothing if it has none yet or is gone */
    RLT_A_CLOSE_FD,     /* fd */
    RLT_A_STRICT,       /* conn, number (ns, the clock of `now`; UINT64_MAX: for ever): the strict actor there may run until
                           then; if it has been stopped for want of that, it goes on */

    /* shared memory */
    RLT_A_LANE_NEW,    /* lane: LANE_BYTES, zeroed, sealed; its descriptor is there for RLT_A_SOCKETs of the same step only */
    RLT_A_LANE_RECALL, /* lane; conn, peer (0: none): set the recall word, ring both bells */
    RLT_A_LANE_FREE,   /* lane: unmap, close */
    RLT_A_CROWD,       /* flags (enum lane_crowd): into the park page of the switch, which every process sees */
    RLT_A_REGION_NEW,  /* number, size */
    RLT_A_REGION_FREE, /* number */

    /* the switch (switch.h does these) */
    RLT_A_SW_DOWN,       /* conn, record, payload: into its down ring. lane != 0: the lane's worker, elsewhere, is gone;
                            tasks above `taken` never reached it; goes down once all it said is in the lane's ring */
    RLT_A_SW_PROC_DRAIN, /* conn: it is dead: read what it left, then forget it; answered by PROC_DRAINED */
    RLT_A_SW_LANE_OPEN,  /* lane, conn (its process here), number (its route here), node, peer (route there),
                            flags (enum rlt_side) */
    RLT_A_SW_LANE_DRAIN, /* lane (the owner is elsewhere): its worker is done or dead: forward, take back, LANE_DRAINED */
    RLT_A_SW_LANE_CLOSE, /* lane: forget it, once what waits behind it has gone; answered by LANE_CLOSED */
    RLT_A_SW_FRAME,      /* node, bytes: records with a route, from that node */
    RLT_A_SW_PAUSE,      /* node, flags: 1 stop taking records for it from lanes, 0 go on */

    /* the head and the peers; what they point to is borrowed until the actions are reset */
    RLT_A_HEAD_SEND,  /* to_head */
    RLT_A_PEER_DIAL,  /* stream (new), node, text (address) */
    RLT_A_PEER_SEND,  /* stream, frame */
    RLT_A_PEER_CLOSE, /* stream; no event follows */

    RLT_A_FILE_READ,  /* file, fd (borrowed), number (offset), node (comes back): answered by FILE_BYTES, at most RLT_FILE_CHUNK */
    RLT_A_FILE_WRITE, /* file, number (offset), total, bytes, sha256: of a program, into the cache; else into memory */
    RLT_A_FILE_DROP,  /* file: what was written of it is not wanted any more */
    RLT_A_PROGRAM_LIST, /* job, payload and size (struct rlt_program_file, descriptors borrowed): answered by PROGRAM_LISTED */
    RLT_A_PROGRAM_OPEN, /* job, payload and size (struct peer_program_file): the job uses that program of the cache; answered by
                           PROGRAM_OPENED. Asked again after each file that was missing */
    RLT_A_PROGRAM_DROP, /* job: it does not use its program of the cache any more; nothing, if it never did */
    RLT_A_PROGRAM_SEND, /* fd (borrowed; -1: the file of the cache that `file` names), record.id, number, sha256: to the head,
                           unless that has it; answered by PROGRAM_SENT */

    RLT_A_ENV_MAKE, /* number, fd (archive, borrowed until ENV_MADE), total, sha256: unpack it, unless that is done */
    RLT_A_ENV_DROP, /* number: its folder is not used any more; also before ENV_MADE, which then does not come */

    /* the object store, which the shell keeps beside the core */
    RLT_A_OBJECT_DEAD, /* payload (lane_ref): never named again. Of this node: the object; else the copy of it here */
    RLT_A_OWNER_GONE,  /* number (process): an owner is dead; said again when a worker of its has ended */
    RLT_A_OWNERS_GONE, /* node: all owners on it are */
    RLT_A_JOB_OVER,    /* number (as in refs): the job has ended, and every process of it here */

    RLT_A_JOB_START,    /* name, job_spec, number (attempt), total (failures before it): fetch blobs, unpack, run */
    RLT_A_JOB_KILL,     /* name, flags (signal); before it has started: JOB_FAILED follows */
    RLT_A_JOB_LOG_READ, /* name, number (offset), size (at most): answered by JOB_TEXT */
    RLT_A_JOB_FORGET,   /* name: after its end; its folder and log go */

    RLT_A_READY, /* once: this node has its number, processes are welcome */
    RLT_A_EXIT,  /* text: leave in order */
};
enum { RLT_FILE_CHUNK = 15 * 1024 };

/* A file of a program whose driver is here. */
struct rlt_program_file {
    char path[CTL_PROGRAM_PATH_SIZE]; /* relative */
    int  fd;
};

/* Which end of a switched lane the switch plays. */
enum rlt_side {
    RLT_SIDE_WORKER = 1, /* the owner is here, the worker on `node`: the switch takes the claims */
    RLT_SIDE_OWNER = 2,  /* the worker is here, the owner on `node`: the switch sets the claims */
};

enum rlt_fd_kind {
    RLT_FD_LANE = 1,    /* of a lane, read-write: number */
    RLT_FD_PARK,        /* a process's park page: number is its conn */
    RLT_FD_SWITCH_PARK, /* the page on which the switch sleeps */
    RLT_FD_REGION,      /* number */
    RLT_FD_SEGMENT_RW,
    RLT_FD_SEGMENT_RO,
    RLT_FD_GENERATIONS, /* number of the segment */
};
enum { RLT_FDS = 4 }; /* descriptors of one socket message */
struct rlt_fd {
    enum rlt_fd_kind kind;
    uint64_t         number;
};

enum { RLT_WELCOME_ZYGOTE = 1 }; /* flag of RLT_A_WELCOME: no pin table, no rings */

struct rlt_action {
    enum rlt_action_kind         kind;
    uint32_t                     flags;
    uint64_t                     conn;
    uint64_t                     peer;
    uint64_t                     stream;
    uint64_t                     lane;
    uint64_t                     number;
    uint64_t                     total;
    uint64_t                     taken; /* SW_DOWN behind a lane: records of higher sequence never reached the worker */
    uint64_t                     job;
    uint32_t                     node;
    int32_t                      pid;
    int                          fd;
    struct lane_record           record;
    const uint8_t               *payload; /* record.length - LANE_RECORD_SIZE bytes */
    const uint8_t               *bytes;
    size_t                       size;
    uint32_t                     fd_count;
    struct rlt_fd                fds[RLT_FDS];
    const char                  *text;
    const char                  *name;
    struct peer_file             file;
    uint8_t                      sha256[32];
    const Manta__V1__NodeToHead *to_head;
    const Manta__V1__Frame      *frame;
    const Manta__V1__JobSpec    *job_spec;
};

/* The actions of one step. Zeroed is empty and valid; rlt_actions_reset before each use keeps the memory. Everything
 * that an action points to lives until the next reset, but what came with the event (job_spec), which lives as long. */
struct rlt_actions {
    struct rlt_action *data;
    size_t             count, capacity;
    struct rlt_chunk  *chunks; /* private: where payloads and texts stand */
};
void rlt_actions_reset(struct rlt_actions *out);
void rlt_actions_fini(struct rlt_actions *out);

#endif
