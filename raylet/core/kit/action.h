/* SPDX-License-Identifier: Apache-2.0
 *
 * action.h - what the core wants done: the actions of one step.
 */
#ifndef RLT_ACTION_H
#define RLT_ACTION_H

#include "raylet/core/kit/action_body.h"

/* What each is about: the member of that name in struct rlt_action. */
enum rlt_action_kind {
    /* connections and processes */
    RLT_A_WELCOME = 1,  /* a ctl_welcome. Its code 0: make control lane, park page and (not for a zygote) pin table, give
                           them to the switch, send with fds; else send and close */
    RLT_A_SOCKET,       /* one message on the unix socket */
    RLT_A_CLOSE,        /* after what was sent; no event follows */
    RLT_A_SPAWN_ZYGOTE, /* a program of the cache is held against its list again before */
    RLT_A_FORK,         /* make a socketpair, keep one end as the worker's connection, send the other to the zygote */
    RLT_A_WATCH,        /* whom the connection's RLT_A_KILL is for: a worker. Its end is told by its socket or its zygote, after
                           some seconds by RLT_EV_EXITED if by neither */
    RLT_A_KILL,         /* SIGKILL to its process and no other; nothing if it is not known yet or is gone */
    RLT_A_STATUS,       /* how its process ends, of which its zygote says nothing: answered by RLT_EV_EXITED where the system
                           says it */
    RLT_A_CLOSE_FD,
    RLT_A_STRICT, /* the strict actor there may run until then; if it has been stopped for want of that, it goes on */

    /* shared memory */
    RLT_A_LANE_NEW,    /* LANE_BYTES, zeroed, sealed; its descriptor is there for RLT_A_SOCKETs of the same step only */
    RLT_A_LANE_RECALL, /* set the recall word, ring both bells */
    RLT_A_LANE_FREE,   /* unmap, close */
    RLT_A_CROWD,       /* into the park page of the switch, which every process sees */
    RLT_A_REGION_NEW,
    RLT_A_REGION_FREE,

    /* the switch (switch.h does these) */
    RLT_A_SW_DOWN,       /* a record into a process's down ring */
    RLT_A_SW_PROC_DRAIN, /* it is dead: read what it left, then forget it; answered by PROC_DRAINED */
    RLT_A_SW_LANE_OPEN,
    RLT_A_SW_LANE_DRAIN, /* the owner is elsewhere; its worker is done or dead: forward, take back, LANE_DRAINED */
    RLT_A_SW_LANE_CLOSE, /* forget it, once what waits behind it has gone; answered by LANE_CLOSED */
    RLT_A_SW_FRAME,      /* records with a route, from that node */
    RLT_A_SW_PAUSE,      /* stop taking records for that node from lanes, or go on */

    /* the head and the peers */
    RLT_A_HEAD_SEND,
    RLT_A_BEAT, /* a datagram to the head, by the terms of its last welcome */
    RLT_A_PEER_DIAL,
    RLT_A_PEER_SEND,
    RLT_A_PEER_CLOSE, /* no event follows */
    RLT_A_REVOKED,    /* whoever shows a certificate of that number is refused, and cut off */

    /* files and programs of jobs */
    RLT_A_FILE_READ,    /* at most RLT_FILE_CHUNK from there on: answered by FILE_BYTES */
    RLT_A_FILE_WRITE,   /* of a program: into the cache; else into memory */
    RLT_A_FILE_DROP,    /* what was written of it is not wanted any more */
    RLT_A_PROGRAM_LIST, /* answered by PROGRAM_LISTED */
    RLT_A_PROGRAM_OPEN, /* the job uses that program of the cache; answered by PROGRAM_OPENED. Asked again after each
                           file that was missing */
    RLT_A_PROGRAM_DROP, /* the job does not use its program of the cache any more; nothing, if it never did */
    RLT_A_PROGRAM_SEND, /* to the head, unless that has it; answered by PROGRAM_SENT */
    RLT_A_ENV_MAKE,     /* unpack the archive, unless that is done; answered by ENV_MADE */
    RLT_A_ENV_DROP,     /* its folder is not used any more; also before ENV_MADE, which then does not come */

    /* the object store, which the shell keeps beside the core */
    RLT_A_OBJECT_DEAD, /* never named again. Of this node: the object; else the copy of it here */
    RLT_A_OWNER_GONE,  /* an owner is dead; said again when a worker of its has ended */
    RLT_A_OWNERS_GONE, /* all owners on that node are */
    RLT_A_JOB_OVER,    /* the job has ended, and every process of it here */
    RLT_A_LEAVE,       /* other nodes are to adopt the values that only this one has: answered by LEFT */
    RLT_A_MOVED,       /* another node says a word of adoption */

    /* submitted jobs */
    RLT_A_JOB_START,    /* fetch blobs, unpack, run; where it waits, not before JOB_GO */
    RLT_A_JOB_GO,       /* there is room for one that waits */
    RLT_A_JOB_KILL,     /* before it has started: JOB_FAILED follows */
    RLT_A_JOB_LOG_READ, /* answered by JOB_TEXT */
    RLT_A_JOB_KEEP,     /* its end, where it outlives this raylet, before it is said */
    RLT_A_JOB_FORGET,   /* after its end; its folder and log go, and its end */

    RLT_A_READY, /* once: this node has its number, processes are welcome */
    RLT_A_EXIT,  /* leave in order */
};

struct rlt_action {
    enum rlt_action_kind kind;
    union { /* by kind */
        struct rlt_a_welcome welcome;
        struct rlt_a_socket  socket;
        struct {
            uint64_t conn;
        } close;
        struct rlt_a_spawn_zygote spawn_zygote;
        struct rlt_a_fork         fork;
        struct rlt_a_watch        watch;
        struct {
            uint64_t conn;
        } kill, status;
        struct {
            int fd;
        } close_fd;
        struct rlt_a_strict strict;
        struct {
            uint64_t lane;
        } lane_new;
        struct rlt_a_lane_recall lane_recall;
        struct {
            uint64_t lane;
        } lane_free;
        struct {
            uint32_t is; /* enum lane_crowd */
        } crowd;
        struct {
            uint64_t region, size;
        } region_new;
        struct {
            uint64_t region;
        } region_free;
        struct rlt_a_sw_down sw_down;
        struct {
            uint64_t conn;
        } sw_proc_drain;
        struct rlt_a_sw_lane_open sw_lane_open;
        struct {
            uint64_t lane;
        } sw_lane_drain;
        struct {
            uint64_t lane;
        } sw_lane_close;
        struct rlt_a_sw_frame sw_frame;
        struct {
            uint32_t node;
            bool     is_paused;
        } sw_pause;
        struct {
            const Manta__V1__NodeToHead *message;
        } head_send;
        struct {
            uint64_t counter, echo, report; /* as in core/io/beat.h */
        } beat;
        struct rlt_a_peer_dial peer_dial;
        struct rlt_a_peer_send peer_send;
        struct {
            uint64_t stream;
        } peer_close;
        struct {
            uint64_t id, until_ms; /* wall clock */
        } revoked;
        struct rlt_a_file_read  file_read;
        struct rlt_a_file_write file_write;
        struct {
            struct peer_file file;
        } file_drop;
        struct rlt_a_program_list program_list;
        struct rlt_a_program_open program_open;
        struct {
            uint64_t job;
        } program_drop;
        struct rlt_a_program_send program_send;
        struct rlt_a_env_make     env_make;
        struct {
            uint64_t env;
        } env_drop;
        struct {
            struct lane_ref ref;
        } object_dead;
        struct {
            uint64_t process;
        } owner_gone;
        struct {
            uint32_t node;
        } owners_gone;
        struct {
            uint32_t job; /* as in refs */
        } job_over;
        struct rlt_moved          moved;
        struct rlt_a_job_start    job_start;
        struct rlt_a_job_kill     job_kill;
        struct rlt_a_job_log_read job_log_read;
        struct rlt_a_job_keep     job_keep;
        struct {
            const char *id;
        } job_go, job_forget;
        struct {
            enum mt_code code; /* MT_OK: in order */
            const char  *why;
        } exit;
    };
};
static_assert(sizeof(struct rlt_action) <= 160, "a step makes many of them: one that is large goes behind a pointer");

/* The actions of one step. Zeroed is empty and valid; rlt_actions_reset before each use keeps the memory. Everything
 * that an action points to lives until the next reset, but what came with the event (job_start.spec), which lives as long. */
struct rlt_actions {
    struct rlt_action *data;
    size_t             count, capacity;
    struct rlt_chunk  *chunks; /* private: where payloads and texts stand */
};
void rlt_actions_reset(struct rlt_actions *out);
void rlt_actions_fini(struct rlt_actions *out);

#endif
