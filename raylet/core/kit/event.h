/* SPDX-License-Identifier: Apache-2.0
 *
 * event.h - what the core hears: one event a step.
 */
#ifndef RLT_EVENT_H
#define RLT_EVENT_H

#include "core/proto/manta.pb-c.h"
#include "raylet/core/kit/peer.h"

#include <stdbool.h>

/* Connections and streams that the shell accepts have numbers below; those that the core asks for are above. */
#define RLT_CONN_OURS (UINT64_C(1) << 32)

enum { RLT_LINE_MAX = 24 };

/* What each is about: the member of that name in struct rlt_event. */
enum rlt_event_kind {
    RLT_EV_TICK = 1,      /* time has passed */
    RLT_EV_ACCEPTED,      /* a process of our uid connected */
    RLT_EV_SOCKET,        /* a whole message on a unix socket */
    RLT_EV_CLOSED,        /* the socket ended or broke the rules */
    RLT_EV_EXITED,        /* the process behind a connection ended */
    RLT_EV_SPAWNED,       /* answer to SPAWN_ZYGOTE */
    RLT_EV_LANE_FAILED,   /* LANE_NEW found no memory */
    RLT_EV_REGION_FAILED, /* REGION_NEW found no memory */

    /* from the switch */
    RLT_EV_UP,           /* a control record from an up ring */
    RLT_EV_UP_BROKEN,    /* that ring broke the rules, or its reader let the down queue grow past its bound */
    RLT_EV_PROC_DRAINED, /* all that a dead process had published has been read */
    RLT_EV_UNDELIVERED,  /* a CTL_MESSAGE found the down queue full: what was to go down */
    RLT_EV_LANE_DRAINED, /* answer to SW_LANE_DRAIN */
    RLT_EV_LANE_CLOSED,  /* answer to SW_LANE_CLOSE: its memory may go */
    RLT_EV_LANE_BROKEN,  /* the process at the other end of a switched lane broke the rules */
    RLT_EV_OUT,          /* records for another node */

    /* the head */
    RLT_EV_HEAD_UP,   /* the stream to the head is open: the core registers */
    RLT_EV_HEAD_DOWN, /* it closed or was refused */
    RLT_EV_HEAD,      /* one message */
    RLT_EV_BEAT,      /* it has answered a datagram of this stream's, sealed as it must be */

    /* peers; a stream is a number drawn by the driver (accepted) or by the core (dialled, as with connections) */
    RLT_EV_PEER_OPEN,   /* a dial succeeded, or (below RLT_CONN_OURS) a stream was accepted */
    RLT_EV_PEER_CLOSED, /* it ended, or the dial failed */
    RLT_EV_PEER_FRAME,
    RLT_EV_PEER_DOUBT, /* nobody answers at the node's data socket. Is it there? */

    /* the object store */
    RLT_EV_MOVED, /* a word of adoption, for another node */
    RLT_EV_LEFT,  /* of LEAVE: how far it is, or that all there was is looked after */

    /* programs of jobs, moved between nodes */
    RLT_EV_FILE_BYTES,     /* answer to FILE_READ */
    RLT_EV_FILE_READY,     /* FILE_WRITE had the last byte and the hash is right; or it was refused */
    RLT_EV_PROGRAM_LISTED, /* answer to PROGRAM_LIST */
    RLT_EV_PROGRAM_OPENED, /* answer to PROGRAM_OPEN */
    RLT_EV_PROGRAM_SENT,   /* answer to PROGRAM_SEND */
    RLT_EV_ENV_MADE,       /* answer to ENV_MAKE */

    /* submitted jobs */
    RLT_EV_JOB_STARTED,
    RLT_EV_JOB_FAILED, /* could not be started */
    RLT_EV_JOB_LOG,    /* its log has grown */
    RLT_EV_JOB_TEXT,   /* answer to JOB_LOG_READ */
    RLT_EV_JOB_EXITED, /* it has ended and all its output is in the log */

    RLT_EV_MEMORY,   /* the node is short of memory */
    RLT_EV_SHUTDOWN, /* a signal, or the end of the driver of a private cluster */
    RLT_EV_NOTICE,   /* the machine goes at a known time */
};

/* ---- what rooms take apart themselves ---- */
struct rlt_ev_socket {
    uint64_t           conn;
    struct lane_record record;
    const uint8_t     *payload; /* record.length - LANE_RECORD_SIZE bytes, 8-aligned */
    int                fd;      /* -1: none came along */
};
struct rlt_ev_exited {
    uint64_t    conn;
    bool        has_status; /* the shell has reaped it */
    int32_t     status;     /* as waitpid gives it */
    const char *last_line;  /* that a zygote wrote before it greeted; or NULL */
};
struct rlt_ev_record {
    uint64_t           conn;
    struct lane_record record;
    const uint8_t     *payload; /* record.length - LANE_RECORD_SIZE bytes, 8-aligned */
};
struct rlt_ev_out {
    uint32_t       node;
    const uint8_t *bytes; /* whole records */
    size_t         size;
};
struct rlt_ev_peer_closed {
    uint64_t stream;
    bool     is_refused; /* nobody listens there any more */
};
struct rlt_ev_peer_frame {
    uint64_t                stream;
    const Manta__V1__Frame *frame;
};
struct rlt_ev_file_bytes {
    struct peer_file file;
    uint32_t         node; /* who asked for them */
    uint64_t         offset;
    uint64_t         total; /* the whole file's bytes */
    const uint8_t   *bytes;
    size_t           size;
};
struct rlt_ev_file_ready {
    struct peer_file file;
    bool             is_refused;
    const char      *why; /* refused; or NULL */
    int              fd;  /* -1: of a program, whose files stay in the cache; refused */
};
struct rlt_ev_program_listed {
    uint64_t                        job;
    bool                            is_refused;
    const char                     *why; /* refused */
    const struct peer_program_file *files;
    size_t                          count;
};
struct rlt_ev_program_opened {
    uint64_t    job;
    bool        is_refused;
    const char *remark;  /* refused: why; else what is to be said where no worker of it starts; or NULL */
    int         fd;      /* -1: a file is missing, or refused */
    uint64_t    missing; /* its index in the list */
};
struct rlt_ev_program_sent {
    mt_id       id; /* of PROGRAM_SEND, as the next one */
    uint64_t    index;
    bool        is_refused;
    const char *why;   /* refused */
    uint64_t    total; /* bytes */
    uint8_t     sha256[32];
};
struct rlt_ev_env_made {
    uint64_t    env;
    const char *folder;
    const char *wrong; /* which step failed, and why; NULL: it is made */
};
struct rlt_ev_job_text {
    const char    *id;
    uint64_t       offset;
    const uint8_t *bytes;
    size_t         size; /* 0: the log can't be read */
};
struct rlt_ev_job_exited {
    const char *id;
    int32_t     status;   /* as waitpid gives it */
    uint64_t    log_size; /* bytes */
    const char *loader;   /* what the system's loader said, which could not load its program here; NULL: nothing */
};
struct rlt_ev_memory {
    const char     *why;  /* how short */
    const uint64_t *once; /* conns of the workers whose task, if they run one, would not be tried again */
    size_t          once_count;
};

struct rlt_ev_left {
    bool     is_over; /* all that was there when LEAVE was said has been adopted, or is counted here */
    uint32_t left;    /* values under way; when it is over: those that are to be looked at again */
    uint32_t stuck;   /* values that no other node can take */
};

struct rlt_event {
    enum rlt_event_kind kind;
    uint64_t            now;    /* ns, monotonic */
    uint64_t            random; /* fresh for each event */
    union {                     /* by kind; what is pointed to is borrowed for the step. Texts end with a zero */
        struct {
            uint64_t conn;
            int32_t  pid;
            int32_t  line[RLT_LINE_MAX]; /* it, its process group, its parent, that one's group, and so on; 0 behind the last */
        } accepted;
        struct rlt_ev_socket socket;
        struct {
            uint64_t    conn;
            const char *lacked; /* what the node had not for the process; or NULL */
        } closed;
        struct rlt_ev_exited exited;
        struct {
            uint64_t conn;
            int32_t  pid; /* < 0: -errno; ESTALE: a file of the cache was not what it was */
        } spawned;
        struct {
            uint64_t    lane;
            const char *why; /* which call, and why; or NULL */
        } lane_failed;
        struct {
            uint64_t region;
        } region_failed;
        struct rlt_ev_record up;
        struct {
            uint64_t conn;
        } up_broken;
        struct {
            uint64_t    conn;
            const char *crash; /* what it left of its crash; or NULL */
        } proc_drained;
        struct rlt_ev_record undelivered;
        struct {
            uint64_t lane;
            uint64_t reached; /* sequence of the last record that is in the worker's ring */
        } lane_drained;
        struct {
            uint64_t lane;
        } lane_closed;
        struct {
            uint64_t lane;
        } lane_broken;
        struct rlt_ev_out out;
        struct {
            const Manta__V1__HeadToNode *message;
        } head;
        struct {
            uint64_t counter, echo;
            bool     is_heard;
        } beat; /* as in core/io/beat.h */
        struct {
            uint64_t stream;
        } peer_open;
        struct rlt_ev_peer_closed peer_closed;
        struct rlt_ev_peer_frame  peer_frame;
        struct {
            uint32_t node;
        } peer_doubt;
        struct rlt_moved             moved;
        struct rlt_ev_left           left;
        struct rlt_ev_file_bytes     file_bytes;
        struct rlt_ev_file_ready     file_ready;
        struct rlt_ev_program_listed program_listed;
        struct rlt_ev_program_opened program_opened;
        struct rlt_ev_program_sent   program_sent;
        struct rlt_ev_env_made       env_made;
        struct {
            const char *id;
            int32_t     pid;
        } job_started;
        struct {
            const char *id;
            const char *why;
            bool        is_unfit; /* this node can't run its program, now or later */
        } job_failed;
        struct {
            const char *id;
            uint64_t    size; /* bytes, all that was written so far */
        } job_log;
        struct rlt_ev_job_text   job_text;
        struct rlt_ev_job_exited job_exited;
        struct rlt_ev_memory     memory;
        struct {
            const char *why;
            uint64_t    drain_ms; /* in which it is to leave politely; 0: at once */
        } shutdown;
        struct {
            const char *why;
            uint64_t    limit_ms; /* what is here may run so long */
        } notice;
    };
};

#endif
