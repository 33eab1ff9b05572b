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
    RLT_EV_SHUTDOWN, /* a signal, or the end of the driver of a private cluster: text; total: ms in which it is to leave
                        politely, 0: at once */
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

#endif
