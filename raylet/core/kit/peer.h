/* SPDX-License-Identifier: Apache-2.0
 *
 * peer.h - what raylets say to each other: records with kinds from 200 on, each with the struct beside its kind.
 *
 * They travel in frames of the link (link.h), so each arrives once and in order, or the link is over and everything that
 * was bound to the other node with it. A is the owner's node, B the worker's. A lease has one number on both nodes, drawn
 * by A; a route is the number under which a node knows its end of the lane.
 */
#ifndef RLT_PEER_H
#define RLT_PEER_H

#include "core/wire/ctl.h"

enum peer_kind {
    PEER_LEASE_REQ = 200,   /* A to B  peer_lease_req */
    PEER_LANE_REQ = 201,    /* A to B  peer_lane_req: a lane to an actor's worker; answered like a lease */
    PEER_LEASE_OK = 202,    /* B to A  peer_lease_ok */
    PEER_LEASE_NO = 203,    /* B to A  peer_lease_no */
    PEER_RECALL = 204,      /* both    peer_recall */
    PEER_KILL = 205,        /* A to B  ctl_lease */
    PEER_DROP = 206,        /* A to B  ctl_lease: its owner is gone, or does not want it any more */
    PEER_ENDED = 207,       /* B to A  peer_ended */
    PEER_MONITOR = 210,     /* ctl_monitor; id of the monitor */
    PEER_DEMONITOR = 211,   /* no payload; id */
    PEER_DEATH = 212,       /* ctl_death; id */
    PEER_MESSAGE = 213,     /* peer_message, then bytes; id */
    PEER_BOUNCE = 214,      /* peer_bounce; id */
    PEER_FILE_WANT = 220,   /* peer_file_want, to the driver's node, or the one that asks for a lease with an environment */
    PEER_FILE_CHUNK = 221,  /* peer_file_chunk, then bytes */
    PEER_FILE_NONE = 222,   /* peer_file: no such job or environment (any more) */
    PEER_JOB_END = 223,     /* peer_job: its driver has ended */
    PEER_OBJECT_DEAD = 224, /* lane_ref, to the node where the value is */
    PEER_OWNER_GONE = 225,  /* peer_owner, to all: a process that had leases elsewhere is dead, and all that it owned */
    PEER_ADOPT = 226,       /* ctl_moved, from a node that leaves: keep the value at `from`, which is mine */
    PEER_ADOPTED = 227,     /* ctl_moved, the answer: its owner knows that it is here now; or a code */
    PEER_MOVED = 228,       /* ctl_moved, to the owner's node, whose raylet or owner answers: */
    PEER_MOVED_HEARD = 229, /* ctl_moved */
    PEER_SEEK = 230,        /* ctl_moved, from the owner's node: the value at `from` is lost, a copy of yours is to be the value */
    PEER_SOUGHT = 231,      /* ctl_moved, the answer: its owner knows that it is here now; or a code */
    PEER_COPY = 232,        /* ctl_moved, to the owner's node: I have a copy of what stands at `from` */
};

struct peer_lease_req {
    uint64_t         lease;
    uint64_t         owner; /* process */
    uint64_t         job;
    uint32_t         job_node; /* of its driver */
    uint32_t         route;
    uint32_t         presses; /* how often the class was refused, holding nothing, while the head is away: room is to be made */
    uint32_t         reserved;
    char             job_name[CTL_NAME_SIZE];
    struct ctl_class def;
};
struct peer_lane_req {
    uint64_t lease;
    uint64_t caller;
    uint64_t worker;
    uint32_t incarnation;
    uint32_t route;
};
struct peer_lease_ok {
    uint64_t lease;
    uint64_t worker;
    uint32_t route;
    int32_t  pid;
    uint32_t gpu_count;
    uint16_t gpus[16];
};
struct peer_lease_no {
    uint64_t lease;
    int32_t  code;
    uint32_t reserved;
    char     text[CTL_TEXT_SIZE];
};
struct peer_recall {
    uint64_t lease;
    uint64_t grace_ms; /* 0: none */
};
struct peer_ended {
    struct ctl_ended ended;
    uint64_t         taken; /* tasks of higher sequence never reached the worker */
};
struct peer_message {
    uint64_t to, from; /* processes */
    uint32_t subject;
    uint32_t reserved;
};
struct peer_bounce {
    uint64_t          to; /* who had sent it */
    struct ctl_bounce bounce;
};
struct peer_owner {
    uint64_t process;
};
struct peer_job {
    uint64_t job;
};

/* A word of adoption between the object stores of two nodes; in an event `node` is who shall hear it, in an action who said it. */
struct rlt_moved {
    uint32_t         node;
    enum peer_kind   kind; /* PEER_ADOPT to PEER_COPY */
    struct ctl_moved word;
};

/* What one node fetches from another (fetch/fetch.h). */
enum peer_file_part {
    PEER_GREETING,   /* of the job's driver: ctl_hello and its strings */
    PEER_LIST,       /* of its program's files: struct peer_program_file, the program itself first */
    PEER_PROGRAM,    /* one of these files: index */
    PEER_DEFINITION, /* of a runtime environment: ctl_env and its strings */
    PEER_ARCHIVE,    /* its files */
};
struct peer_file {
    uint64_t job;
    uint64_t env; /* key; 0: it is the job's own */
    uint32_t part;
    uint32_t index;
};
struct peer_file_want {
    struct peer_file what;
    uint64_t         offset;
};
struct peer_file_chunk {
    struct peer_file what;
    uint64_t         offset;
    uint64_t         total;
    uint32_t         size;
    uint32_t         reserved;
};
struct peer_program_file {
    char     path[CTL_PROGRAM_PATH_SIZE]; /* relative; zeroes behind its end */
    uint64_t size;
    uint8_t  sha256[32];
};

#endif
