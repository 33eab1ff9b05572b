/* SPDX-License-Identifier: Apache-2.0
 *
 * ground.h - what all rooms of the shell stand on: the raylet's shared state, and the queue by which they tell the core.
 *
 * A room's callback (a socket, a timer, a stream) posts an event and returns. The pump (raylet/shell/shell.c) takes the queue
 * once the loop has run its callbacks: it steps the core with one event after the other, and has its actions carried out.
 * So no room calls up, and no event is stepped while another's actions are under way. Loop thread only.
 */
#ifndef SH_GROUND_H
#define SH_GROUND_H

#include "core/ds/map.h"
#include "core/ds/rows.h"
#include "core/ds/vec.h"
#include "core/io/io.h"
#include "core/io/listener.h"
#include "core/wire/look.h"
#include "raylet/core/core.h"
#include "raylet/shell/ground/options.h"

#include <pthread.h>
#include <string.h>

struct io_bound;
struct io_tls;
struct io_token;
struct sh_cache;       /* programs of other nodes */
struct sh_copies;      /* of values of other nodes */
struct sh_known;       /* copies that other nodes have of values of owners here */
struct sh_takes;       /* values of nodes that leave, on their way to this one */
struct sh_leave;       /* values of this one, on their way to others */
struct sh_envs;        /* unpacked files of runtime environments */
struct sh_beats;       /* datagrams to it */
struct sh_certificate; /* ours, and the next one */
struct sh_cgroup;      /* what holds all that jobs start here */
struct sh_folders;     /* of jobs that have ended, for others */
struct sh_ends;        /* of jobs, which outlive this raylet */
struct sh_head;        /* the way to the head */
struct sh_looks;       /* questions that wait for processes */
struct sh_output;      /* what a worker prints */
struct sh_peers;       /* the other raylets */
struct sh_program_upload;
struct sh_pulls;    /* objects between nodes */
struct sh_serving;  /* likewise */
struct sh_quotas;   /* who waits for its job's share of the store */
struct sh_ring;     /* what a worker has run */
struct sh_spill;    /* objects on disk */
struct sh_stacks;   /* being taken */
struct sh_store;    /* the object store's server half */
struct sh_switcher; /* the switch and its thread */

/* In a zygote that was started: its socket, the program to become, the standard error that it has once it has greeted. */
enum { SH_CHILD_FD = 3, SH_PROGRAM_FD = 4, SH_STDERR_FD = 5 };

/* Memory that events of the queue point to. */
struct sh_kept {
    void *memory;
    void (*release)(void *memory);
};

struct sh {
    struct rlt_options options;
    uint32_t           fds_before; /* this process's soft limit of descriptors before it was raised: that of its children */
    struct io_loop    *loop;
    struct rlt        *core;
    pthread_mutex_t    in_core; /* held by whoever steps the core or speaks to other raylets: the loop, or the switch thread */
    /* Set by the pump. On the switch thread, which holds the switch and nothing else of the shell: records leave for another node
     * here and now. False: the loop is in the core. */
    bool (*records_out)(struct sh *sh, const struct rlt_ev_out *records);
    bool     is_exiting;
    uint32_t node; /* ours, as the last welcome said */

    MT_VEC(struct rlt_event) posted; /* the queue; the first `taken` are no longer in it */
    size_t taken;
    MT_VEC(struct sh_kept) kept;

    const struct io_token *token;   /* the cluster's; NULL: none */
    struct io_tls         *tls;     /* NULL: in clear */
    struct io_bound       *bound;   /* of both TCP ports: who shows the token at one is known at the other; NULL: alone */
    mt_status              refused; /* why it leaves, where the cluster will not have it */
    char listen_host[RLT_ADDRESS_SIZE], listen_shown[RLT_ADDRESS_SIZE]; /* as bound; as told (IPv6: in brackets) */

    mt_map conns, lanes, regions; /* conn/ */
    MT_VEC(uint64_t) new_lanes;   /* made in this step: their descriptors are given away in it, and closed after it */
    struct sh_parks    *parks;    /* where the next process gets its park page; NULL: the next one makes it */
    uint64_t            next_conn;
    struct io_listener  listener; /* processes connect to it */
    bool                has_listener;
    struct sh_switcher *switcher;
    uint32_t            event_capacity; /* of a worker's ring; 0: no events are kept */
    uint64_t            next_ring;
    MT_VEC(struct sh_ring *) rings; /* in order of number */
    struct sh_output *outputs;      /* of workers whose drivers want it */

    struct sh_store   *store; /* raylet/store/ */
    struct sh_spill   *spill;
    struct sh_pulls   *pulls;   /* NULL: this node is alone */
    struct sh_serving *serving; /* likewise */
    struct sh_copies  *copies;  /* NULL: this node is alone */
    struct sh_known   *known;   /* likewise */
    struct sh_quotas  *quotas;
    struct sh_takes   *takes; /* NULL until the first value is adopted here */
    struct sh_leave   *leave; /* NULL until this node leaves */

    struct sh_head           *head;        /* links/; NULL: no head, no token */
    struct sh_beats          *beats;       /* links/; NULL: none were begun */
    struct sh_certificate    *certificate; /* NULL: in clear */
    struct sh_peers          *peers;       /* NULL: this node is alone */
    struct sh_program_upload *uploads;     /* that are under way */
    struct sh_cache          *cache;       /* NULL until the first program */

    struct sh_cgroup  *group;   /* jobs/ */
    struct sh_folders *folders; /* of jobs; NULL until the first has ended */
    struct sh_envs    *envs;    /* NULL until the first */
    mt_map             jobs;    /* number -> sh_job */
    struct sh_ends    *ends;
    uint64_t           boot;
    uint64_t           next_job;
    char               job_folder[256]; /* "" until the first job */
    mt_map             users;           /* job, as its driver drew it -> uid */
    uint32_t           next_user;

    struct sh_looks  *looks;  /* look/ */
    struct sh_stacks *stacks; /* NULL: none were taken yet */
    struct io_timer   memory_timer;
    bool              is_memory_idle; /* there was no process at the last look */
    struct io_timer   notice_timer;   /* procs/notice.c */
    uint64_t          notice_seen;    /* of the file, at the last look; 0: it was not there */
    bool              is_noticed, is_lifetime_over;
    uint64_t          machine_cpus;
    uint64_t          look_turn; /* up to which the workers have been looked at (procs/watch.c) */
};

/* An event of that kind, of which all else is zero. */
static inline void sh_event(struct rlt_event *event, enum rlt_event_kind kind)
{
    memset(event, 0, sizeof *event);
    event->kind = kind;
}
/* Puts a copy of the event into the queue. What it points to must live until it was stepped: see sh_keep. Aborts the process
 * where there is no memory: a lost event would be a lost task. While the raylet leaves, nothing. */
void sh_post(struct sh *sh, const struct rlt_event *event);
/* Memory until all events that are in the queue now were stepped. NULL: there is none. */
void *sh_keep(struct sh *sh, size_t size);
/* The same of what is already there: `release` gets it then. Aborts where there is no memory. */
void sh_keep_this(struct sh *sh, void *take_memory, void (*release)(void *memory));
/* A kept copy. Aborts where there is no memory, as sh_post. */
const char *sh_keep_text(struct sh *sh, const char *text);
/* Kept: what the node lacks, in words. */
const char *sh_keep_lack(struct sh *sh, mt_status st);
/* The node has not what the process of conn needs: it ends. */
void sh_lacks(struct sh *sh, uint64_t conn, mt_status st);
/* The first event of the queue. False: there is none, and what was kept for the last ones is gone. */
bool sh_take(struct sh *sh, struct rlt_event *out);
void sh_queue_fini(struct sh *sh);

/* Appends one row of what was asked for, unless a filter hides it. ENOMEM. */
MT_MUST_USE mt_status sh_row_add(const struct lane_look *look, const char *const *cells, struct mt_rows *rows);

/* A process number, or so: nobody can guess it. */
MT_MUST_USE mt_status sh_random(struct sh *sh, uint64_t *out);
/* Whether no job may read what another has in the store. */
static inline bool sh_jobs_are_apart(const struct sh *sh)
{
    return sh->options.users.count > 1;
}
/* The path of `name` in the runtime folder. False: there is no folder, or the path is too long. */
bool sh_folder_file(const struct sh *sh, const char *name, char *out, size_t size);

#endif
