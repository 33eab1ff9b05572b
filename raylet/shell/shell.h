/* SPDX-License-Identifier: Apache-2.0
 *
 * shell.h - the real world around the core: connections, memory, processes, threads. Private to raylet/.
 *
 * One loop thread runs the core and all of this; the switch thread (switcher.c) runs the switch. Everything that
 * happens becomes an event for rlt_step; everything the core says is an action that one of these files carries out.
 */
#ifndef RLT_SHELL_H
#define RLT_SHELL_H

#include "core/sys/cgroup.h"
#include "core/ds/map.h"
#include "core/ds/vec.h"
#include "core/io/io.h"
#include "core/io/listener.h"
#include "core/io/tls/tls.h"
#include "core/wire/event.h"
#include "core/lane/lane.h"
#include "core/wire/look.h"
#include "objectstore/server/store.h"
#include "raylet/core/core.h"
#include "raylet/shell/options.h"
#include "raylet/switch/switch.h"

enum {
    SH_SEND_QUEUE_MAX = 1024, /* messages that wait for one process to read its socket; beyond, it is given up */
    SH_CONNECTIONS_MAX = 1024,
    SH_END_MS = 500, /* at the end: for killed children to be gone */
};

struct sh;

/* One message that the socket would not take yet. */
struct sh_unsent {
    struct sh_unsent *next;
    int               fds[CTL_FDS_MAX]; /* duplicates, ours to close */
    uint32_t          fd_count;
    size_t            size;
    uint8_t           bytes[];
};

/* One process's connection, and the memory that it shares with this raylet. */
struct sh_conn {
    struct sh        *sh;
    uint64_t          conn;
    int               fd;
    struct io_watch   watch;
    bool              is_accepted; /* by the listener, which counts it */
    bool              is_shut;     /* its end has been told to the core */
    int               pidfd;       /* -1: none */
    struct io_watch   pid_watch;
    int32_t           pid;
    struct sh_unsent *unsent, **unsent_end;
    uint32_t          unsent_count;
    int               lane_fd, park_fd, pins_fd; /* -1 before the welcome */
    void             *lane;
    struct lane_park *park;
    void             *pins;
    struct sh_ring   *ring;    /* of its events; NULL: none */
    uint64_t          process; /* in the object store; 0: not (yet) */
    uint32_t          job;
    uint64_t          part; /* of a zygote: its part of the group; 0: none */
    struct sh_said   *said; /* of a zygote; NULL: it is not listened to */
};

struct sh_lane {
    uint64_t lane;
    int      fd;
    void    *memory;
};

struct sh_region {
    uint64_t number;
    int      fd;
};

/* What one worker has run: memory that it writes and this raylet reads, kept for a while after its end. */
struct sh_ring {
    uint64_t            number; /* in order of birth */
    uint64_t            process;
    int32_t             pid;
    int                 fd; /* -1 once its worker is over */
    uint32_t            capacity;
    struct lane_events *events;
    bool                is_over;
    uint64_t            over_ns; /* wall clock */
};

struct sh_switcher; /* the switch and its thread */
struct sh_said;
struct sh_store; /* the object store's server half */
struct sh_pulls; /* objects between nodes */
struct sh_spill; /* objects on disk */
struct os_local;
struct os_place;
struct sh_head;  /* the way to the head */
struct sh_job;   /* a submitted job */
struct sh_peers; /* the other raylets */
struct sh_envs;  /* unpacked files of runtime environments */
struct rpc;
struct rpc_channel;
struct io_token;

/* What holds all that jobs start here (group.c). */
struct sh_group {
    struct mt_group group;
    char            mark[MT_GROUP_MARK_SIZE];
    char            file[IO_UNIX_PATH_SIZE]; /* its record in the runtime folder; "": none */
    uint64_t        part_pids;
    uint64_t        next_part;
    pid_t           reaper; /* 0: none */
    int             pipe;   /* to it; -1: none */
    bool            has_warned;
    bool            is_made; /* it was tried */
};

struct sh_user {
    uint32_t uid, gid; /* uid 0: the raylet's own */
};
struct sh {
    struct rlt_options options;
    uint32_t           fds_before; /* this process's soft limit of descriptors before it was raised: that of its children */
    struct io_loop    *loop;
    struct rlt        *core;
    struct rlt_actions actions;
    bool               is_stepping;
    bool               is_exiting;
    MT_VEC(void *) kept;            /* sh_keep */
    MT_VEC(struct rlt_event) later; /* events without borrowed bytes, found while actions were carried out */
    struct io_timer    timer;
    struct io_timer    memory_timer;
    struct io_listener listener;
    bool               has_listener;
    struct io_signal   sigchld, sigterm, sigint;
    mt_map             conns, lanes, regions;
    MT_VEC(uint64_t) new_lanes; /* made in this step: their descriptors are given away in it, and closed after it */
    uint64_t            next_conn;
    struct sh_switcher *switcher;
    struct sh_store    *store;
    struct sh_spill    *spill;
    struct sh_pulls    *pulls;                                                         /* NULL: this node is alone */
    struct sh_head     *head;                                                          /* NULL: no head, no token */
    struct io_tls      *tls;                                                           /* NULL: in clear */
    char                listen_host[RLT_ADDRESS_SIZE], listen_shown[RLT_ADDRESS_SIZE]; /* as bound; as told (IPv6: in brackets) */
    struct io_bound    *bound;          /* of both TCP ports: who shows the token at one is known at the other; NULL: alone */
    struct sh_peers    *peers;          /* NULL: this node is alone */
    uint32_t            event_capacity; /* of a worker's ring; 0: no events are kept */
    uint64_t            next_ring;
    MT_VEC(struct sh_ring *) rings;    /* in order of number */
    struct sh_output         *outputs; /* of workers whose drivers want it */
    struct sh_stacks         *stacks;  /* being taken; NULL: none were yet */
    struct sh_looks          *looks;   /* questions that wait for processes */
    struct sh_envs           *envs;    /* NULL until the first */
    mt_map                    jobs;    /* number -> sh_job */
    struct sh_cache          *cache;   /* programs of other nodes; NULL until the first */
    struct sh_quotas         *quotas;  /* NULL until a job has had its quota */
    struct sh_program_upload *uploads; /* that are under way */
    uint64_t                  next_job;
    struct sh_group           group;
    mt_map                    users; /* job, as its driver drew it -> uid */
    uint32_t                  next_user;
    char                      job_folder[256]; /* "" until the first job */
    int                       folder_hold;     /* a private cluster's runtime folder (core/sys/folder.h); -1: none */
    uint32_t                  node;            /* ours, as the last welcome said */
    mt_status                 refused;         /* why it leaves, where the cluster will not have it */
};

/* shell.c: one event into the core, and all that follows from it. Loop thread; inside an action the event is kept
 * for after it (what it points to must then live that long). */
void                  sh_step(struct sh *sh, struct rlt_event *event);
MT_MUST_USE mt_status sh_random(struct sh *sh, uint64_t *out); /* a process number, or so: nobody can guess it */
void     *sh_keep(struct sh *sh, size_t size); /* until all that follows from the present step is done; NULL: no memory */
void      sh_event(struct rlt_event *event, enum rlt_event_kind kind); /* zeroed, fd -1 */
void      sh_lacks(struct sh *sh, uint64_t conn, mt_status st); /* the node has not what the process of conn needs: it ends */
mt_status sh_run(struct sh *sh);                                /* until told to leave; cleans up */

/* conn.c */
struct sh_conn       *sh_conn_find(const struct sh *sh, uint64_t conn);
MT_MUST_USE mt_status sh_conn_open(struct sh *sh, uint64_t conn, int take_fd, struct sh_conn **out_conn);
void                  sh_conn_close(struct sh_conn *c);
void sh_conn_send(struct sh_conn *c, const struct rlt_action *a, const int *fds, uint32_t fd_count); /* borrows fds */
void sh_conn_watch_pid(struct sh_conn *c, int take_pidfd, int32_t pid);
void sh_conn_kill(struct sh_conn *c);
void sh_conn_accepted(struct io_listener *listener, int fd, const struct io_peer *peer);
void sh_reap(struct sh *sh);

/* memory.c */
MT_MUST_USE mt_status sh_memory_welcome(struct sh_conn *c);
void                  sh_memory_given(struct sh_conn *c); /* the process has its descriptors: most are not needed here any more */
void                  sh_memory_forget(struct sh_conn *c);
/* Sealed memory, mapped. EAGAIN: too few descriptors are left. */
MT_MUST_USE mt_status sh_memory_make(const char *name, uint64_t size, int *out_fd, void **out_memory);
MT_MUST_USE mt_status sh_lane_new(struct sh *sh, uint64_t lane);
void                  sh_lanes_given(struct sh *sh); /* at the end of a step */
struct sh_lane       *sh_lane_find(const struct sh *sh, uint64_t lane);
void                  sh_lane_free(struct sh *sh, uint64_t lane);
MT_MUST_USE mt_status sh_region_new(struct sh *sh, uint64_t number, uint64_t size);
void                  sh_region_free(struct sh *sh, uint64_t number);
int                   sh_fd_of(const struct sh *sh, const struct rlt_fd *fd); /* borrowed; -1: none */
void                  sh_memory_fini(struct sh *sh);
void                  sh_strict(struct sh *sh, const struct rlt_action *a);

/* cpus.c */
void sh_cpus_read(struct rlt_pins *out);

/* events.c: what workers have run */
mt_status             sh_events_start(struct sh *sh); /* EINVAL: MANTA_EVENTS is no number */
void                  sh_events_stop(struct sh *sh);
MT_MUST_USE mt_status sh_ring_new(struct sh_conn *c, uint64_t process);
void                  sh_ring_over(struct sh_conn *c); /* its worker is gone: the ring is kept, older ones may go */
/* Rows of events from *ring and *number on, the newest of a ring first; false: there are no more. */
MT_MUST_USE mt_status sh_events_rows(struct sh *sh, const struct lane_look *look, uint32_t rows_max, uint64_t *ring,
                                     uint64_t *number, mt_buf *rows, uint32_t *count, bool *out_more);
/* What a worker runs now, or ran last; "" where nothing is known. */
void sh_ring_running(const struct sh_ring *ring, char out[LANE_EVENT_NAME_SIZE]);

/* look.c: questions about the state of this node */
MT_MUST_USE mt_status sh_looks_start(struct sh *sh);
void                  sh_looks_stop(struct sh *sh);
void                  sh_look_order(struct sh *sh, const Manta__V1__QueryOrder *order);
bool                  sh_look_record(struct sh *sh, const struct rlt_event *event); /* false: it is not for us */

/* Answers one order; `next` NULL or stage 0: that was all. */
struct sh_cursor {
    char     stage;
    uint64_t at[2];
};
void sh_look_answer(struct sh *sh, uint64_t number, enum lane_look_kind kind, mt_buf *rows, uint32_t count,
                    const struct sh_cursor *next, const char *notice);
void sh_look_refuse(struct sh *sh, uint64_t number, int32_t code, const char *text);

/* output.c: what workers print, on its way to their drivers */
int  sh_output_open(struct sh *sh, uint64_t conn); /* the end to print into, the caller's to close; -1: it is not wanted */
void sh_outputs_stop(struct sh *sh);

/* stack.c: where the processes of this node are */
void sh_stacks(struct sh *sh, uint64_t number, const struct lane_look *look, struct sh_cursor at);
void sh_stacks_stop(struct sh *sh);

/* tell.c: what the raylet itself knows */
struct sh_page { /* one answer in the making */
    const struct lane_look *look;
    uint32_t                rows_max;
    uint64_t                at[2]; /* where it begins; afterwards, where the next one does */
    bool                    has_more;
    mt_buf                  rows;
    uint32_t                count;
};
MT_MUST_USE mt_status sh_tell_workers(struct sh *sh, struct sh_page *page);
MT_MUST_USE mt_status sh_tell_demands(struct sh *sh, struct sh_page *page);
MT_MUST_USE mt_status sh_tell_node(struct sh *sh, struct sh_page *page);
MT_MUST_USE mt_status sh_tell_objects(struct sh *sh, struct sh_page *page);

/* head.c */
void                   sh_head_answer(struct sh *sh, uint64_t number, Manta__V1__QueryReply *reply);
MT_MUST_USE mt_status  sh_head_find(struct sh *sh);      /* address and token; waits for --head-file */
MT_MUST_USE mt_status  sh_head_rpc_start(struct sh *sh); /* gRPC, before anything is served */
MT_MUST_USE mt_status  sh_head_start(struct sh *sh);
void                   sh_head_stop(struct sh *sh);
void                   sh_head_send(struct sh *sh, const struct rlt_action *a);
const char            *sh_head_address(const struct sh *sh);
const struct io_token *sh_head_token(const struct sh *sh); /* NULL: none */
struct rpc            *sh_head_rpc(const struct sh *sh);
struct rpc_channel    *sh_head_channel(const struct sh *sh);

/* peer.c */
/* Takes --listen apart, before anything listens. EINVAL. */
MT_MUST_USE mt_status sh_listen_read(struct sh *sh);
MT_MUST_USE mt_status sh_peers_start(struct sh *sh, char address[RLT_ADDRESS_SIZE]);
void                  sh_peers_stop(struct sh *sh);
void                  sh_peer_dial(struct sh *sh, const struct rlt_action *a);
void                  sh_peer_doubt(struct sh *sh, uint32_t node); /* its data socket does not answer: steps the core */
void                  sh_peer_send(struct sh *sh, const struct rlt_action *a);
void                  sh_peer_close(struct sh *sh, const struct rlt_action *a);
void                  sh_file_read(struct sh *sh, const struct rlt_action *a);
void                  sh_file_write(struct sh *sh, const struct rlt_action *a);
void                  sh_file_drop(struct sh *sh, const struct rlt_action *a);

/* upload.c */
void sh_upload(struct sh *sh, const struct rlt_action *a);
void sh_uploads_stop(struct sh *sh);

/* job.c */
void sh_job_start(struct sh *sh, const struct rlt_action *a);
void sh_job_kill(struct sh *sh, const struct rlt_action *a);
void sh_job_log_read(struct sh *sh, const struct rlt_action *a);
void sh_job_forget(struct sh *sh, const struct rlt_action *a);
void sh_job_ends(struct sh *sh, pid_t pid); /* dead, but not reaped: its number is still its own */
void sh_job_reaped(struct sh *sh, pid_t pid, int status);
int  sh_job_output(const struct sh *sh, pid_t driver); /* where workers of that driver print; -1: where we do */
void sh_jobs_stop(struct sh *sh);

/* env.c */
void sh_env_make(struct sh *sh, const struct rlt_action *a);
void sh_env_drop(struct sh *sh, const struct rlt_action *a);
void sh_envs_stop(struct sh *sh);

/* store/store.c */
MT_MUST_USE mt_status sh_store_start(struct sh *sh);
void                  sh_store_stop(struct sh *sh);
MT_MUST_USE mt_status sh_store_welcome(struct sh_conn *c, uint64_t process, uint32_t job);
void                  sh_store_goodbye(struct sh_conn *c);
void                  sh_store_told(struct sh *sh, const struct rlt_action *a);      /* what the core has heard from other nodes */
bool                  sh_store_record(struct sh *sh, const struct rlt_event *event); /* false: it is for the core */
void                  sh_store_settle(struct sh *sh); /* after objects have died: hands their places back */
struct os_store      *sh_store_of(const struct sh *sh);
struct os_local      *sh_store_local(struct sh *sh, uint32_t job); /* NULL: no process of that job was here, or no memory */
MT_MUST_USE mt_status sh_store_local_alloc(struct sh *sh, struct os_local *local, uint64_t size, struct os_place *place,
                                           void **data, char *text);
void                  sh_store_send_down(struct sh *sh, uint64_t conn, uint16_t kind, mt_id id, const void *payload, size_t size);
void                  sh_store_refuse(struct sh *sh, uint64_t conn, mt_id id, mt_status st, const char *text);

/* Grants a segment, or says why not; only ESTORE_FULL and worse, in `text`, is left to be answered. */
mt_status sh_store_want_now(struct sh *sh, uint64_t conn, mt_id request, uint64_t size, char *text);
uint32_t  sh_store_victims(struct sh *sh, uint64_t bytes, struct lane_ref *out, uint32_t max);
void      sh_store_segment_close(const struct os_action *close);
void      sh_store_jobs_settle(struct sh *sh); /* ends jobs that had to wait for a thread of the disk */

void sh_store_want(struct sh *sh, struct sh_conn *c, mt_id id, uint64_t size);
void sh_store_ask_back(struct sh *sh, uint32_t job); /* whatever is empty of a job's segments */

/* store/quota.c: wants of jobs that have their quota */
void sh_quota_wait(struct sh *sh, struct sh_conn *c, mt_id request, uint64_t size, const char *text);
void sh_quota_conn_gone(struct sh *sh, uint64_t conn);
void sh_quotas_stop(struct sh *sh);

/* store/spill.c, store/restore.c */
MT_MUST_USE mt_status sh_spill_start(struct sh *sh);
void                  sh_spill_stop(struct sh *sh);
bool     sh_spill_wait(struct sh *sh, uint64_t conn, mt_id request, uint64_t size); /* false: nothing can be spilled here */
bool     sh_spill_is_awaited(const struct sh *sh);                                  /* others wait for room already */
bool     sh_spill_is_making_room(struct sh *sh, uint64_t size);                     /* for a value of another node; begins it */
uint64_t sh_spill_kept(const struct sh *sh); /* bytes of the store that are for values that come back from disk */
void     sh_spill_conn_gone(struct sh *sh, uint64_t conn);
void     sh_spill_dead(struct sh *sh, const struct lane_ref *ref);
void     sh_spill_owner_gone(struct sh *sh, uint64_t owner, uint32_t node); /* either may be 0 */
bool     sh_spill_job_over(struct sh *sh, uint32_t job);                    /* false: a thread is still at it; ask again */
bool     sh_spill_keeps(struct sh *sh, const struct os_action *close);      /* true: the segment is closed later */
bool     sh_spill_shed(struct sh *sh, uint64_t bytes); /* gives copies of that many bytes up; false: there are none */
/* Values on disk by place (os_place_word), those after `after`, at most `room`. */
uint32_t sh_spill_look(const struct sh *sh, uint64_t after, struct os_seen *out, uint32_t room);
uint64_t sh_spill_bytes(const struct sh *sh); /* on disk, as they are stored there */
void     sh_spill_get(struct sh *sh, const struct sh_conn *c, mt_id request, const struct lane_ref *ref);
/* The copy of a value here, for another node. EAGAIN: it is being read from disk. EOBJ_LOST. */
MT_MUST_USE mt_status sh_spill_serve(struct sh *sh, const struct lane_ref *ref, struct lane_ref *here);

/* watch.c */
void sh_watch_start(struct sh *sh);
void sh_watch_stop(struct sh *sh);

/* store/pull.c */
MT_MUST_USE mt_status sh_pulls_start(struct sh *sh, char address[RLT_ADDRESS_SIZE]);
void                  sh_pulls_stop(struct sh *sh);
bool                  sh_pull_was_served(struct sh *sh, mt_id id); /* and forgets it: the object is dead */
void                  sh_pulls_registered(struct sh *sh);
void                  sh_pulls_node_lost(struct sh *sh, uint32_t node);
void sh_pulls_owner_gone(struct sh *sh, uint64_t owner, uint32_t node); /* what it owned is not remembered as fetched any more */
void sh_pulls_job_unserve(struct sh *sh, uint32_t job); /* its values are not sent any more through what it has here */
void sh_pulls_job_over(struct sh *sh, uint32_t job);
void sh_pulls_shed(struct sh *sh); /* gives every copy up that is not being read */
void sh_pull_request(struct sh *sh, const struct sh_conn *c, mt_id request, const struct lane_ref *ref);

/* group.c: the control group and the mark of all that jobs start. Between sh_group_enter, which gives the number of a new part,
 * and sh_group_leave the loop thread starts one program; `started` 0: it could not. */
MT_MUST_USE mt_status sh_group_start(struct sh *sh);
uint64_t              sh_group_enter(struct sh *sh);
void                  sh_group_leave(struct sh *sh, uint64_t part, pid_t started);
void                  sh_group_over(struct sh *sh, uint64_t part); /* its program has ended: so does all that it started */
void                  sh_group_stop(struct sh *sh);

/* spawn.c */
/* users.c, with --job-users: the user of a job's processes. False: all of a range are taken. */
/* In the child: its socket, the program to become, the standard error that it has once it has greeted. */
enum { SH_CHILD_FD = 3, SH_PROGRAM_FD = 4, SH_STDERR_FD = 5 };
MT_MUST_USE bool sh_user_new(struct sh *sh, struct sh_user *out);
MT_MUST_USE bool sh_user_of_job(struct sh *sh, uint64_t job, pid_t driver, struct sh_user *out);
/* In the child, before it is the program: UID GID ARGV..., UID GID SOCKET. They return only when it can't be, the exit status;
 * sh_users_enter returns 0 as that user. */
int sh_users_run_zygote(char **argv);
int sh_users_enter(char **argv);
/* Of the submitted job with that driver. False: none, or it has none of its own. */
bool sh_job_user(const struct sh *sh, pid_t driver, struct sh_user *out);
/* Whether no job may read what another has in the store. */
static inline bool sh_jobs_are_apart(const struct sh *sh)
{
    return sh->options.users.count > 1;
}
void sh_spawn_zygote(struct sh *sh, const struct rlt_action *a);
void sh_fork(struct sh *sh, const struct rlt_action *a);

/* switcher.c */
MT_MUST_USE mt_status sh_switcher_start(struct sh *sh);
void                  sh_switcher_stop(struct sh *sh);
int                   sh_switcher_park_fd(const struct sh *sh);
void                  sh_switcher_crowd(struct sh *sh, const struct rlt_action *a);
MT_MUST_USE mt_status sh_switcher_add(struct sh *sh, uint64_t conn, void *lane, struct lane_park *park);
void                  sh_switcher_act(struct sh *sh, const struct rlt_action *a, void *lane);

#endif
