/* SPDX-License-Identifier: Apache-2.0
 *
 * core.h - the raylet's logic as a state machine: events in, actions out.
 *
 * The core makes no system call, has no thread, clock, random source or global of its own; the shell (raylet/main.c)
 * and the simulation drive the very same objects. It never touches shared memory either: lanes, parks, regions and
 * connections are numbers to it. What moves records is the switch (switch.h), a second state machine: the driver
 * hands it the actions of the RLT_A_SW_ group and feeds the events it answers with back in.
 *
 *            events                        actions                     RLT_A_SW_ group
 *   shell ------------> rlt_step (core) ------------> shell, head, peers ------------> switch
 *     ^                                                                                  |
 *     '------------------------- RLT_EV_UP, _DRAINED, _OUT ... --------------------------'
 *
 * Rules for whoever drives it:
 *   - Actions are carried out in the order given, all of them, before the next event is stepped.
 *   - `now` never goes back. rlt_deadline says when RLT_EV_TICK is due at the latest.
 *   - Connections that the shell accepts have numbers below RLT_CONN_OURS; those that the core asks for are above.
 *   - Descriptors are opaque numbers; an fd that an event brings belongs to the core until an action gives it back
 *     (RLT_A_CLOSE_FD) or away (RLT_A_WATCH, RLT_A_SPAWN_ZYGOTE borrows).
 */
#ifndef RLT_CORE_H
#define RLT_CORE_H

#include "core/base/limits.h"
#include "core/wire/ctl.h"
#include "core/proto/manta.pb-c.h"
#include "raylet/core/links/peer.h"
#include "raylet/core/leases/pins.h"

#include <stdbool.h>

struct rlt;

enum {
    RLT_ADDRESS_SIZE = CTL_NAME_SIZE,
    RLT_FDS = 4, /* descriptors of one socket message */
};
#define RLT_CONN_OURS (UINT64_C(1) << 32)

struct rlt_config {
    char                node_name[CTL_NAME_SIZE];
    char                address[RLT_ADDRESS_SIZE];      /* where Peer is served */
    char                data_address[RLT_ADDRESS_SIZE]; /* of the data socket */
    char                head_address[RLT_ADDRESS_SIZE]; /* for CTL_WELCOME */
    char                labels[MT_LABELS_BYTES_MAX];
    uint64_t            boot;        /* random; the driver of the state machine draws it */
    uint32_t            node, epoch; /* of a private cluster: 1, 1 from the start; else 0 until the head has answered */
    bool                has_head;    /* a head exists or will: wants, names and nodes go to it */
    bool                is_private;  /* one driver owns this raylet: when its connection ends, so does the raylet */
    bool                jobs_apart;  /* each job has a user of its own: what it makes at the head is its own */
    uint32_t            resource_count;
    struct ctl_resource total[MT_RLT_RESOURCES_MAX]; /* CPU, GPU (whole devices), memory, custom */
    struct rlt_pins     cpus;                        /* of the machine; none: nobody is bound to any */
    uint32_t            workers_max;                 /* processes forked on this node at a time; 0: the default */
    uint32_t            blocked_max; /* workers that have lent their CPUs at a time; more run tasks of their own. 0: the default */
    uint32_t            idle_workers_max; /* per job, kept warm; 0: CPUs + 2 */
};

/* ---- events ------------------------------------------------------------------------------------------------- */

enum rlt_event_kind {
    RLT_EV_TICK = 1,      /* time has passed */
    RLT_EV_ACCEPTED,      /* a process of our uid connected: conn, pid */
    RLT_EV_SOCKET,        /* a whole message on a unix socket: conn, record, payload, fd (or -1) */
    RLT_EV_CLOSED,        /* the socket ended or broke the rules: conn; text (or NULL): what the node lacked for the process */
    RLT_EV_EXITED,        /* the process behind conn ended: status if the shell reaped it (has_status); text (or NULL): the last
                             line that a zygote wrote before it greeted */
    RLT_EV_SPAWNED,       /* answer to SPAWN_ZYGOTE: conn, pid (< 0: -errno; ESTALE: a file of the cache was not what it was) */
    RLT_EV_LANE_FAILED,   /* LANE_NEW found no memory: lane, text (which call, why; or NULL) */
    RLT_EV_REGION_FAILED, /* REGION_NEW found no memory: number */

    /* from the switch */
    RLT_EV_UP,           /* a control record from an up ring: conn, record, payload */
    RLT_EV_UP_BROKEN,    /* that ring broke the rules, or its reader let the down queue grow past its bound: conn */
    RLT_EV_PROC_DRAINED, /* all that a dead process had published has been read: conn, text (its crash text) */
    RLT_EV_UNDELIVERED,  /* a CTL_MESSAGE found the down queue full: conn, record, payload */
    RLT_EV_LANE_DRAINED, /* answer to SW_LANE_DRAIN: lane, number (last sequence that reached the worker's ring) */
    RLT_EV_LANE_CLOSED,  /* answer to SW_LANE_CLOSE: lane; its memory may go */
    RLT_EV_LANE_BROKEN,  /* the process at the other end of a switched lane broke the rules: lane */
    RLT_EV_OUT,          /* records for another node: node, bytes */

    /* the head; payload structs are borrowed for the call */
    RLT_EV_HEAD_UP,   /* the stream to the head is open: the core registers */
    RLT_EV_HEAD_DOWN, /* it closed or was refused */
    RLT_EV_HEAD,      /* head: one message */

    /* peers; a stream is a number drawn by the driver (accepted) or by the core (dialled, as with connections) */
    RLT_EV_PEER_OPEN,   /* stream: a dial succeeded, or (below RLT_CONN_OURS) one was accepted */
    RLT_EV_PEER_CLOSED, /* stream: it ended, or the dial failed; refused: nobody listens there any more */
    RLT_EV_PEER_FRAME,  /* stream, frame */
    RLT_EV_PEER_DOUBT,  /* node: nobody answers at its data socket. Is it there? */

    /* programs of jobs, moved between nodes */
    RLT_EV_FILE_BYTES,     /* answer to FILE_READ: file, node, number (offset), bytes; total (whole size) */
    RLT_EV_FILE_READY,     /* FILE_WRITE had the last byte and the hash is right: file, fd (-1: of a program); or refused, text */
    RLT_EV_PROGRAM_LISTED, /* answer to PROGRAM_LIST: job, bytes and size (struct peer_program_file); or refused, text */
    RLT_EV_PROGRAM_OPENED, /* answer to PROGRAM_OPEN: job, fd; fd < 0: number (which file is missing); or refused, text */

    RLT_EV_PROGRAM_SENT, /* answer to PROGRAM_SEND: record.id, number, total (size), sha256; or refused, text */

    RLT_EV_ENV_MADE, /* answer to ENV_MAKE: number, text (the folder), or refused and text (which step, why) */

    /* submitted jobs */
    RLT_EV_JOB_STARTED, /* name (job id), pid */
    RLT_EV_JOB_FAILED,  /* could not be started: name, text */
    RLT_EV_JOB_LOG,     /* its log has grown: name, number (size) */
    RLT_EV_JOB_TEXT,    /* answer to JOB_LOG_READ: name, number (offset), bytes */
    RLT_EV_JOB_EXITED,  /* it has ended and all its output is in the log: name, status, number (size of the log) */

    RLT_EV_MEMORY,   /* the node is short of memory: text (how short); bytes, size: uint64_t conns of the workers whose
                      task, if they run one, would not be tried again */
    RLT_EV_SHUTDOWN, /* a signal, or the end of the driver of a private cluster: text */
};

struct rlt_event {
    enum rlt_event_kind          kind;
    uint64_t                     now;    /* ns, monotonic */
    uint64_t                     random; /* fresh for each event */
    uint64_t                     conn;
    uint64_t                     stream;
    uint64_t                     lane;
    uint64_t                     number;
    uint64_t                     total;
    uint64_t                     job;
    uint32_t                     node;
    int32_t                      pid;
    int32_t                      status; /* as waitpid gives it */
    bool                         has_status;
    bool                         refused;
    int                          fd; /* -1: none */
    struct lane_record           record;
    const uint8_t               *payload; /* record.length - LANE_RECORD_SIZE bytes, 8-aligned; borrowed for the call */
    const uint8_t               *bytes;   /* borrowed */
    size_t                       size;
    const char                  *text; /* NUL-terminated, borrowed, NULL if none */
    const char                  *name;
    struct peer_file             file;
    uint8_t                      sha256[32];
    const Manta__V1__HeadToNode *head;
    const Manta__V1__Frame      *frame;
};

/* ---- actions ------------------------------------------------------------------------------------------------ */

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

/* ---- the machine -------------------------------------------------------------------------------------------- */

/* A fresh raylet, or NULL when out of memory. The caller frees it. Borrows nothing of config. */
struct rlt *rlt_new(const struct rlt_config *config);
void        rlt_free(struct rlt *r);

/* Takes one event in and appends what is to be done to *out. Never blocks, never fails: what a peer can cause is
 * answered to that peer. Out of memory inside a step drops the connection or the request that needed it. */
void rlt_step(struct rlt *r, const struct rlt_event *event, struct rlt_actions *out);

/* Number and epoch of this node; 0 until the head has answered. */
void rlt_self(const struct rlt *r, uint32_t *out_node, uint32_t *out_epoch);

/* When the next RLT_EV_TICK is due (ns, the clock of `now`); UINT64_MAX: not before another event. */
uint64_t rlt_deadline(const struct rlt *r);

/* ---- looking in (status, tests, simulation) ------------------------------------------------------------------- */

/* There is a head, and it is away, or silent. */
bool rlt_is_alone(const struct rlt *r);
/* Whether the last link to a node was given up, and nothing has been heard from it since: to this node it is dead. */
bool rlt_node_is_given_up(const struct rlt *r, uint32_t node);
/* Where the data socket of another node is, as the head last said. ENOENT: no such node (yet). ENODE_DIED: by the head's
 * word, or it was given up here and is not heard by the head either. */
MT_MUST_USE mt_status rlt_node_data_address(const struct rlt *r, uint32_t node, uint32_t *out_epoch, char out[RLT_ADDRESS_SIZE]);

struct rlt_proc_view {
    uint64_t    process, conn, job; /* process 0: it has not greeted */
    int32_t     pid;
    uint32_t    role;     /* enum ctl_role; 0: it has not greeted */
    const char *state;    /* STARTING ALIVE IDLE LEASED ACTOR BLOCKED DYING */
    const char *program;  /* name of its job; borrowed for the call */
    bool        is_owner; /* it has submitted work: it can be asked of it */
};
void rlt_each_proc(const struct rlt *r, void (*fn)(void *user, const struct rlt_proc_view *view), void *user);

struct rlt_class_view {
    uint64_t owner; /* process */
    int32_t  owner_pid;
    uint32_t class_id;
    uint32_t wanted, held; /* leases */
    char     name[CTL_NAME_SIZE];
    char     resources[128]; /* of one lease: "CPU:1 GPU:0.5" */
    char     why[384];       /* it has no more */
};
/* Where what a worker prints goes. */
struct rlt_output_view {
    uint64_t worker, driver; /* processes */
    uint32_t node;           /* of the driver */
    bool     is_wanted;      /* by the driver */
};
/* Of the worker behind `conn`, which may not have greeted yet. False: there is none. */
bool rlt_output_of(const struct rlt *r, uint64_t conn, struct rlt_output_view *out);

/* Every class of this node's owners that wants more leases than it holds. */
void rlt_each_waiting(const struct rlt *r, void (*fn)(void *user, const struct rlt_class_view *view), void *user);
/* One class, waiting or not. False: it is not known here. */
bool rlt_class_look(const struct rlt *r, uint64_t owner, uint32_t class_id, struct rlt_class_view *out);

struct rlt_stats {
    uint32_t node, epoch;
    uint32_t processes, workers, idle_workers, starting_workers, jobs;
    uint32_t leases, lanes, monitors, regions;
    uint32_t peers;
    uint64_t grants, recalls, ended, worker_deaths, memory_stops, bounced, refused_grants, granted_alone, replayed_frames, fenced;
    int64_t  total[MT_RLT_RESOURCES_MAX], free[MT_RLT_RESOURCES_MAX], leased[MT_RLT_RESOURCES_MAX];
    uint32_t resource_count;
};
struct rlt_bundle_view { /* of a placement group, reserved here */
    mt_id    group;
    uint32_t index;
    uint64_t version;
    bool     is_committed;
    uint32_t lease_count;
};
/* Fills up to `room`; returns how many there are. */
uint32_t rlt_bundles_each(const struct rlt *r, struct rlt_bundle_view *out, uint32_t room);
void     rlt_stats(const struct rlt *r, struct rlt_stats *out);
/* Checks every invariant that can be seen from inside (free + leased = total, each lease in the lists of its two
 * ends, no lane without a holder). NULL when all hold, else the name of the one that does not. */
const char *rlt_check(const struct rlt *r);

#endif
