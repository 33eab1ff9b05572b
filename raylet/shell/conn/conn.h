/* SPDX-License-Identifier: Apache-2.0
 *
 * conn.h - the processes of this node: their sockets, the memory that they share with this raylet, the switch between them,
 * what they have run and what they print. Loop thread; the switch has one of its own.
 */
#ifndef SH_CONN_H
#define SH_CONN_H

#include "core/lane/lane.h"
#include "core/wire/event.h"
#include "core/wire/look.h"
#include "raylet/shell/ground/ground.h"

enum {
    SH_SEND_QUEUE_MAX = 1024, /* messages that wait for one process to read its socket; beyond, it is given up */
    SH_CONNECTIONS_MAX = 1024,
};

struct lane_park;
struct sh_parks;
struct sh_said;

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
    bool              is_over;     /* the end of its process has been told, with its status */
    int               pidfd;       /* -1: none */
    struct io_watch   pid_watch;
    int32_t           pid;
    bool              is_to_die; /* its SIGKILL could not be sent yet */
    uint64_t          start;     /* of a worker (core/sys/process.h), which has no pidfd: its zygote tells its end; 0: it has one */
    struct sh_unsent *unsent, **unsent_end;
    uint32_t          unsent_count;
    int               lane_fd, pins_fd; /* given away in the welcome; -1 else */
    void             *lane;
    struct sh_parks  *parks; /* where its park page is; NULL before the welcome */
    struct lane_park *park;
    void             *pins;
    struct sh_ring   *ring;    /* of its events; NULL: none */
    uint64_t          process; /* in the object store; 0: not (yet) */
    uint32_t          job;
    uint64_t          part; /* of a zygote: its part of the control group; 0: none */
    struct sh_said   *said; /* of a zygote; NULL: it is not listened to */
};

struct sh_lane {
    int   fd;
    void *memory;
};

struct sh_region {
    int fd;
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

/* conn.c */
struct sh_conn       *sh_conn_find(const struct sh *sh, uint64_t conn);
MT_MUST_USE mt_status sh_conn_open(struct sh *sh, uint64_t conn, int take_fd, struct sh_conn **out_conn);
void                  sh_conn_close(struct sh_conn *c); /* its socket, its queue; what others hold for it has gone (sh_conn_end) */
void                  sh_conn_send(struct sh_conn *c, const struct lane_record *record, const void *payload, const int *fds,
                                   uint32_t fd_count); /* borrows fds */
/* Of whom the connection is. The pidfd is kept, and its end told by it, ... */
void sh_conn_watch_pid(struct sh_conn *c, int take_pidfd, int32_t pid);
/* ... or, of a worker, closed: its zygote tells its end, and sh_conn_look sees it should the zygote not. */
void sh_conn_know_pid(struct sh_conn *c, int take_pidfd, int32_t pid);
void sh_conn_look(struct sh_conn *c);
/* Tells how it ends, or has ended, where nobody has reaped it yet. */
void sh_conn_status(struct sh_conn *c);
/* A signal to that process and no other. 0 or an errno: ESRCH where there is none (any more). */
int sh_conn_signal(struct sh_conn *c, int number);
/* SIGKILL, which is tried again (procs/watch.c) where it lacks a descriptor for it. */
void sh_conn_kill(struct sh_conn *c);
void sh_conn_accepted(struct io_listener *listener, int fd, const struct io_peer *peer);

/* cpus.c */
void sh_cpus_read(struct rlt_pins *out);

/* events.c: what workers have run */
mt_status             sh_events_start(struct sh *sh); /* EINVAL: MANTA_EVENTS is no number */
void                  sh_events_stop(struct sh *sh);
MT_MUST_USE mt_status sh_ring_new(struct sh_conn *c, uint64_t process);
void                  sh_ring_over(struct sh_conn *c); /* its worker is gone: the ring is kept, older ones may go */
/* Rows of events from *ring and *number on, the newest of a ring first; false: there are no more. */
MT_MUST_USE mt_status sh_events_rows(struct sh *sh, const struct lane_look *look, uint32_t rows_max, uint64_t *ring,
                                     uint64_t *number, struct mt_rows *rows, bool *out_more);
/* What a worker runs now, or ran last; "" where nothing is known. */
void sh_ring_running(const struct sh_ring *ring, char out[LANE_EVENT_NAME_SIZE]);

/* output.c: what workers print, on its way to their drivers */
int  sh_output_open(struct sh *sh, uint64_t conn); /* the end to print into, the caller's to close; -1: it is not wanted */
void sh_outputs_stop(struct sh *sh);
bool sh_output_record(struct sh *sh, const struct rlt_ev_record *event); /* false: it is not for us */

/* switcher.c */
MT_MUST_USE mt_status sh_switcher_start(struct sh *sh);
void                  sh_switcher_stop(struct sh *sh);
int                   sh_switcher_park_fd(const struct sh *sh);
void                  sh_switcher_crowd(struct sh *sh, uint32_t crowd); /* enum lane_crowd */
MT_MUST_USE mt_status sh_switcher_add(struct sh *sh, uint64_t conn, void *lane, struct lane_park *park);
void                  sh_switcher_act(struct sh *sh, const struct rlt_action *a, void *lane);
/* A record of ours to a process of this node, behind all that was sent to it before. */
static inline void sh_send_down(struct sh *sh, uint64_t conn, uint16_t kind, mt_id id, const void *payload, size_t size)
{
    struct rlt_action a = {.kind = RLT_A_SW_DOWN, .sw_down = {.conn = conn, .payload = payload}};
    a.sw_down.record = (struct lane_record){.length = (uint32_t)(LANE_RECORD_SIZE + size), .kind = kind, .id = id};
    sh_switcher_act(sh, &a, NULL);
}

#endif
