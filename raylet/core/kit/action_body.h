/* SPDX-License-Identifier: Apache-2.0
 *
 * action_body.h - what the actions of the core bring with them (action.h says which is whose).
 */
#ifndef RLT_ACTION_BODY_H
#define RLT_ACTION_BODY_H

#include "core/proto/manta.pb-c.h"
#include "raylet/core/kit/peer.h"

#include <stdbool.h>

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

/* ---- what rooms of the shell carry out ---- */
struct rlt_a_welcome {
    uint64_t           conn, process;
    bool               is_zygote; /* no pin table, no rings */
    struct lane_record record;
    const uint8_t     *payload; /* ctl_welcome */
};
struct rlt_a_socket {
    uint64_t           conn;
    uint32_t           fd_count;
    struct lane_record record;
    const uint8_t     *payload; /* record.length - LANE_RECORD_SIZE bytes */
    struct rlt_fd      fds[RLT_FDS];
};
struct rlt_a_spawn_zygote {
    uint64_t       conn; /* new */
    uint64_t       job;
    int            program;    /* descriptor, borrowed */
    int32_t        driver_pid; /* 0: it is elsewhere */
    const uint8_t *hello;      /* ctl_hello and its strings */
    size_t         hello_size;
};
struct rlt_a_fork {
    uint64_t           zygote; /* its conn */
    uint64_t           worker; /* new conn */
    struct lane_record record;
    const uint8_t     *payload; /* ctl_fork */
};
struct rlt_a_watch {
    uint64_t conn;
    int      pidfd; /* taken */
    int32_t  pid;
};
struct rlt_a_strict {
    uint64_t conn;
    uint64_t until; /* ns, the clock of `now`; UINT64_MAX: for ever */
};
struct rlt_a_lane_recall {
    uint64_t lane;
    uint64_t owner, worker; /* conns; 0: not of this node */
    uint32_t word;          /* LANE_RECALL, LANE_RECALL_SAVE */
};
struct rlt_a_sw_down {
    uint64_t           conn;
    uint64_t           lane;  /* != 0: the lane's worker, elsewhere, is gone; goes down once all it said is in the lane's ring */
    uint64_t           taken; /* with a lane: tasks of higher sequence never reached the worker */
    struct lane_record record;
    const uint8_t     *payload; /* record.length - LANE_RECORD_SIZE bytes */
};
struct rlt_a_sw_lane_open {
    uint64_t      lane;
    uint64_t      conn;              /* its process here */
    uint32_t      node;              /* of its other end */
    uint32_t      route, peer_route; /* its number here; there */
    enum rlt_side side;
};
struct rlt_a_sw_frame {
    uint32_t       node;
    const uint8_t *bytes;
    size_t         size;
};
struct rlt_a_peer_dial {
    uint64_t    stream; /* new */
    const char *address;
};
struct rlt_a_peer_send {
    uint64_t                stream;
    const Manta__V1__Frame *frame;
};
struct rlt_a_file_read {
    struct peer_file file;
    int              fd;   /* borrowed */
    uint32_t         node; /* who asks; comes back with the bytes */
    uint64_t         offset;
};
struct rlt_a_file_write {
    struct peer_file file;
    uint64_t         offset, total;
    const uint8_t   *bytes;
    size_t           size;
    uint8_t          sha256[32]; /* of the whole file */
};
struct rlt_a_program_list {
    uint64_t                       job;
    const struct rlt_program_file *files; /* descriptors borrowed */
    size_t                         count;
};
struct rlt_a_program_open {
    uint64_t                        job;
    const struct peer_program_file *files;
    size_t                          count;
};
struct rlt_a_program_send {
    struct peer_file file;
    int              fd; /* borrowed; -1: the file of the cache that `file` names */
    mt_id            id; /* both come back */
    uint64_t         index;
    uint8_t          sha256[32];
};
struct rlt_a_env_make {
    uint64_t env;
    int      archive; /* descriptor, borrowed until ENV_MADE */
    uint64_t size;    /* bytes of the archive */
    uint8_t  sha256[32];
};
struct rlt_a_job_start {
    const char               *id;
    uint32_t                  attempt;
    uint32_t                  failures; /* before it */
    bool                      waits;
    const Manta__V1__JobSpec *spec;
};
struct rlt_a_job_kill {
    const char *id;
    int         signal;
};
struct rlt_a_job_keep {
    const char *id, *word, *reason;
    uint32_t    attempt;
    int32_t     exit_code;
};
struct rlt_a_job_log_read {
    const char *id;
    uint64_t    offset;
    size_t      size; /* at most */
};

#endif
