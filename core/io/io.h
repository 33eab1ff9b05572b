/* SPDX-License-Identifier: Apache-2.0
 *
 * io.h - the libuv door: one loop per thread, and what can happen on it: messages, timers, descriptors, signals,
 * and work done elsewhere. The daemons' shells turn these callbacks into events of their state machines, which
 * never see a clock, a thread or libuv. (listener.h: accepting connections; token.h: the cluster token.)
 *
 * Every struct that is embedded here (io_msg, io_timer, ...) belongs to the caller, starts zeroed, and stays where
 * it is while it is in use; get back to what embeds it with mt_container_of. Fields marked "private" are ours.
 */
#ifndef MT_IO_IO_H
#define MT_IO_IO_H

#include "core/base/limits/net.h"
#include "core/base/status.h"

#include <stdbool.h>

/* ---- the loop ---- */

struct io_loop;

/* Makes a loop; the thread that calls io_loop_run owns it. ENOMEM, ESYS. */
MT_MUST_USE mt_status io_loop_new(struct io_loop **out_loop);
/* Runs what is still posted, then frees. Every watch, signal, listener and worker must be closed before. Any
 * thread, but only while nobody runs the loop. */
void io_loop_free(struct io_loop *loop);
/* Blocks in the calling thread until io_loop_stop. Can be called again afterwards. */
void io_loop_run(struct io_loop *loop);
/* Any thread. The loop returns once the callback that runs now has ended; a stop before the run counts too. */
void io_loop_stop(struct io_loop *loop);
/* Is the caller the thread that runs the loop? (True also while nobody runs it: then it is being set up.) */
bool io_loop_is_mine(const struct io_loop *loop);
#define IO_ON_LOOP(loop) MT_ASSERT(io_loop_is_mine(loop))

/* Called after each round of callbacks, before the loop sleeps: where a daemon decides on all that has come in.
 * One per loop; NULL removes it. Loop thread. */
struct io_tick {
    void (*run)(struct io_tick *tick);
};
void io_loop_set_tick(struct io_loop *loop, struct io_tick *tick);

/* ---- messages from any thread ---- */

struct io_msg {
    void (*run)(struct io_msg *msg); /* on the loop's thread, once for each post; may free the message */
    struct io_msg *next;             /* private */
};
/* Any thread; never blocks, never fails. The message belongs to the loop until `run`. Messages of one thread run
 * in the order of their posts. The loop is only woken when nothing else was waiting. */
void io_loop_post(struct io_loop *loop, struct io_msg *msg);
/* Runs the messages that are posted now, inside a callback: for the few calls that close something and wait for
 * its last messages (rpc_server_close). Loop thread. */
void io_loop_drain(struct io_loop *loop);

/* ---- time ---- */

/* Monotonic. Any thread. */
uint64_t io_now_ns(void);
uint64_t io_now_ms(void);

struct io_timer {
    void (*fire)(struct io_timer *timer); /* on the loop, once for each start; may start or free the timer */
    struct io_loop  *loop;                /* private; NULL while stopped */
    uint64_t         due_ms;              /* private, as the rest: a pairing heap by due time */
    struct io_timer *child, *sibling, *back;
};
/* Fires once after at least timeout_ms (0 counts as 1). Starting a started timer moves it. Loop thread. */
void io_timer_start(struct io_loop *loop, struct io_timer *timer, uint64_t timeout_ms);
/* Nothing where it is not started. The memory is the caller's again at once. Loop thread. */
void               io_timer_stop(struct io_timer *timer);
static inline bool io_timer_is_started(const struct io_timer *timer)
{
    return timer->loop != NULL;
}
/* In `fire`, before it starts the timer again: moves *since_ms on by the time that this thread, or the whole machine, has stood
 * still since the timer was due, but not beyond now_ms. So a peer with a limit since then has had that time while somebody was
 * there to hear it. */
void io_timer_forgive(const struct io_timer *timer, uint64_t now_ms, uint64_t *since_ms);

/* ---- descriptors ---- */

enum {
    IO_READABLE = 1,
    IO_WRITABLE = 2,
    IO_HANGUP = 4, /* the peer has closed, or the descriptor failed: always the last event of a watch */
};
struct io_watch {
    void (*ready)(struct io_watch *watch, unsigned events);
    struct io_watch_impl *impl; /* private; NULL while stopped */
};
/* Calls `ready` whenever the descriptor is in one of the wanted states (level triggered). Makes it non-blocking;
 * does not own it; one watch per descriptor. ENOMEM, EEXIST, ESYS. Loop thread. */
MT_MUST_USE mt_status io_watch_start(struct io_loop *loop, struct io_watch *watch, int fd, unsigned events);
/* Changes what is wanted; 0 rests the watch. Cannot fail. Loop thread. */
void io_watch_set(struct io_watch *watch, unsigned events);
/* The descriptor may be closed and the memory reused at once. Nothing where it is stopped. Loop thread. */
void io_watch_stop(struct io_watch *watch);

struct io_signal {
    void (*caught)(struct io_signal *signal, int number);
    struct io_signal_impl *impl; /* private */
};
/* ENOMEM, ESYS. Loop thread. */
MT_MUST_USE mt_status io_signal_start(struct io_loop *loop, struct io_signal *signal, int number);
void                  io_signal_stop(struct io_signal *signal);

/* ---- work on a thread of its own: disk ---- */

/* One thread with a queue in order, for what blocks (fsync). A job's `work` runs on that thread, then its `done`
 * on the loop, both in the order of submission. */
struct io_worker;
struct io_job {
    void (*work)(struct io_job *job);
    void (*done)(struct io_job *job); /* may free the job */
    struct io_msg     msg;            /* private, as the rest */
    struct io_worker *worker;
    struct io_job    *next;
};
/* jobs_max bounds the jobs between submit and done. ENOMEM, EINVAL, ESYS. */
MT_MUST_USE mt_status io_worker_new(struct io_loop *loop, uint32_t jobs_max, struct io_worker **out_worker);
/* Finishes every job, `done` included, then frees. Blocks as long as the jobs take. Loop thread. */
void io_worker_free(struct io_worker *worker);
/* EAGAIN when the queue is full, ECANCELLED from a `done` that runs inside io_worker_free (the job then stays
 * the caller's). Loop thread. */
MT_MUST_USE mt_status io_worker_submit(struct io_worker *worker, struct io_job *job);

/* ---- the process ---- */

/* Opens /dev/null for each of the descriptors 0 to 2 that is closed, so that none of ours becomes one of them: libuv
 * refuses to close it, and a message to standard error would go into it. First thing in main. ESYS. */
MT_MUST_USE mt_status io_fill_standard_fds(void);
/* Closes every descriptor above 2 but those of `keep` (-1: none): what a daemon was not given is whoever's
 * started it, and would stay open, and locked, as long as the daemon lives. Before anything of ours is
 * opened. */
void io_close_inherited(const int *keep, size_t count);
/* Raises the soft limit of descriptors to the hard one, at most MT_FDS_MAX, and gives what held before and what
 * holds now. EAGAIN: the hard limit is below MT_FDS_MIN; ESYS. */
MT_MUST_USE mt_status io_raise_fd_limit(uint32_t *out_before, uint32_t *out_limit);
/* Descriptors below this number may be used for others; the rest of the limit is for what must not fail. */
uint32_t io_fd_share(void);
/* A process that crashes says where on standard error, and one that aborts says so: libraries do it without a word where they get
 * no memory. Call it on the main thread, which may then crash for want of stack, too. */
void io_say_crashes(void);

#endif
