/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.h - a whole cluster in one thread on virtual time: the very object files of the daemons and of libmanta, a shell
 * around each that turns their actions into events, faults, and an oracle that looks after every event.
 *
 *   sim.c           the world: queue of events by (time, sequence), random numbers, trace hash, failure
 *   shells/node.c   a raylet's shell: its core and switch, connections, lanes, descriptors
 *   shells/proc.c   processes: zygote, worker and driver shells around own.h and wrk.h
 *   load/work.c     what drivers submit and what functions and actors do
 *   oracle.c        what was accepted, run and answered, and the invariants I1 to I10
 *   twins/net.c     streams between raylets and to the head: delay, cuts, resets
 *   shells/head.c   the head's shell and its simulated disk
 *   load/job.c      submitted jobs: their clients, drivers and logs
 *   load/object.c   values in shared memory: put, get, pin, free; load/value.c what is known of them; load/hold.c who keeps them
 *   shells/store.c  the store's part of a raylet's shell; twins/io.c, memory.c, disk.c, wire.c: what stands behind it
 *   load/group.c    placement groups
 *   load/drain.c    nodes that are to leave
 *   fault.c         the faults of a seed
 *
 * Everything random comes from the seed, nothing from addresses, so one seed is one run.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "core/base/buf.h"
#include "core/ds/heap.h"
#include "core/ds/map.h"
#include "core/base/plant.h"
#include "core/base/rng.h"
#include "core/ds/vec.h"
#include "core/lane/lane.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>

#define SIM_US UINT64_C(1000)
#define SIM_MS UINT64_C(1000000)
#define SIM_S  UINT64_C(1000000000)

enum {
    SIM_NODES_MAX = 8,
    SIM_TEXT = 512,
};

struct io_loop;
struct sim;
struct sim_reading;
struct sim_node;
struct sim_proc;

/* ---- counters: proof that each path was taken ------------------------------------------------------------------- */
/* clang-format off */
#define SIM_COUNTERS(X) \
    /* faults */ \
    X(kill_worker) X(kill_worker_running) X(kill_worker_step) X(kill_driver) X(kill_asked_driver) X(kill_lender) X(kill_zygote) \
    X(kill_keeper) X(kill_again) X(kill_raylet) X(pause_worker) X(pause_raylet) X(pause_raylet_long) \
    X(kill_head) X(kill_head_writing) X(pause_head) X(head_short) X(head_full) \
    X(cut_head) X(cut_peer) X(cut_one_way) X(reset_stream) X(slow_path) \
    X(late_restart) X(long_absence) X(fork_failed) X(lane_failed) X(fault_total) \
    /* owners and workers */ \
    X(task_accepted) X(task_done) X(task_failed) X(task_died) X(task_retried) X(task_owner_gone) \
    X(task_user_error) X(task_not_run) X(task_withdrawn) X(nested) X(ref_argument) X(ref_borrowed) X(worker_blocked) X(actor_made) \
    X(actor_restarted) X(actor_killed) X(actor_borrowed) X(actor_saved) X(actor_saved_last) X(actor_loaded) \
    X(call_done) X(call_died) X(name_put) X(name_refused) \
    X(name_found) X(cancel_never) X(cancel_told) X(cancel_late) \
    X(task_ahead) X(value_by_cell) X(value_by_far_cell) X(cell_refused) \
    X(stream_made) X(stream_item) X(stream_blocked) X(stream_freed) X(stream_told_gone) \
    X(stream_again) X(strict_made) X(strict_frozen) X(strict_continued) X(strict_lost) \
    /* raylets */ \
    X(lease_granted) X(lease_recalled) X(lease_ended) X(bounced) X(death_news) X(fenced) X(raylet_restarted) \
    X(remote_lease) X(lease_alone) X(value_orphaned) \
    X(remote_run) X(remote_call) X(program_fetched) X(env_fetched) X(env_run) X(frame_replayed) X(message_lost) \
    /* head */ \
    X(head_restarted) X(head_lost_writes) X(head_no_room) X(node_dead) X(node_suspect) X(node_reconnected) X(node_new_epoch) \
    X(group_made) X(group_ready) X(group_waits) X(group_task) X(group_run) X(group_removed) X(group_ended) \
    X(group_lost) X(bundle_stale) \
    X(store_read_only) X(store_forgot) X(store_rewritten) X(store_reply_lost) X(store_late) \
    X(head_noticed_pause) X(name_outcome_repeated) X(job_accepted) X(job_attempt) X(job_succeeded) X(job_failed) \
    X(job_stopped) X(job_submit_repeated) X(job_deleted) X(job_fenced) \
    /* objects */ \
    X(segment_failed) X(disk_slow) X(disk_failed) X(disk_full) X(value_put) X(value_pinned) X(value_freed) \
    X(value_freed_here) X(value_freed_pinned) X(value_pulled) X(value_lost) X(value_away) X(value_kept) X(value_kept_read) \
    X(value_found_again) X(value_again) X(call_found_again) X(item_stored) X(item_found_again) \
    X(value_argument) X(value_returned) X(value_lent) X(owner_died) X(pin_lost) X(space_back) X(segment_back) \
    X(room_refused) X(pull_begun) X(pull_served) X(pull_refused) X(pull_cut) X(pull_broken) X(pull_doubted) \
    X(pull_relayed) X(pull_part) X(pull_part_waits) X(pull_resumed) \
    X(line_shared) X(line_reused) X(line_refused) X(line_broken) X(line_anew) X(line_ghost) \
    X(spilled) X(restored) \
    /* nodes that leave */ \
    X(drain_asked) X(drain_told) X(drain_refused) X(drain_left) X(drain_limit) X(drain_noticed) X(drain_sooner) \
    X(value_adopted) X(copy_told) X(copy_checked) X(copy_asked) X(copy_sought) X(value_rescued) X(view_compared) X(nodes_news)
/* clang-format on */

struct sim_counters {
#define X(name) uint64_t name;
    SIM_COUNTERS(X)
#undef X
};

/* ---- events ----------------------------------------------------------------------------------------------------- */
struct sim_event {
    mt_heap_node node;
    void (*fire)(struct sim *s, struct sim_event *e);
    const char     *name;
    uint64_t        target; /* serial of what it is for: an event whose target is gone does nothing */
    uint64_t        arg;
    uint8_t        *bytes; /* owned */
    size_t          size;
    int             fd;
    struct sim_mem *mem[3]; /* a count each */
};

/* ---- shared memory ------------------------------------------------------------------------------------------------ */
struct sim_mem {
    uint8_t *base;
    size_t   size;
    uint32_t refs;
    uint64_t owner; /* park pages: serial of the process, or of the node for its switch */
};

/* ---- configuration of one run ------------------------------------------------------------------------------------ */
struct sim_config {
    uint64_t seed;
    int      nodes;
    bool     has_head;
    bool     trace;
    uint64_t faults_until; /* virtual time; then everything heals */
    uint64_t limit;        /* by then all work must be done */
    uint32_t drivers_at_a_time;
    uint32_t ops;        /* per driver */
    bool     is_short;   /* the stores are small: values go to disk */
    bool     fills_head; /* others fill the head's disk at times */
    bool     has_redis;  /* the head's store is on a server */
    bool     many_jobs;  /* short ones, of a CPU each, more than there is room for */
    bool     has_long;   /* some tasks take many seconds, and some need more than half of a node */
    bool     is_crossed; /* of tasks that take each other's values every other one is for another node */
};

struct sim {
    struct sim_config config;
    uint64_t          now; /* ns */
    mt_heap           events;
    uint64_t          event_count;
    uint64_t          hash; /* of everything that happened, in order */
    mt_rng            rng;
    uint64_t          next_serial;
    int32_t           next_pid;
    int               next_fd;
    uint64_t          jobs_waited; /* on a node, for the end of others */
    uint64_t          room_kept;   /* for a second, from somebody whom it fits, for another who waits for more */
    uint64_t          joined;      /* messages that travelled with others before them */
    uint64_t          values_sent; /* to another node, behind the tasks that take them */
    uint64_t          ends_told;   /* of jobs, by who follows a raylet that was killed */
    uint64_t          notices;     /* that jobs have had, of those that want one */
    uint64_t          unfits;      /* attempts of jobs on nodes that can't run them */
    mt_map            fds;         /* descriptors that are open in some raylet: number -> serial of its node */
    mt_map            procs;       /* serial -> sim_proc */
    mt_map            parks;       /* address of a park page -> sim_mem */
    uint64_t          mem_count;
    struct io_loop   *acting;   /* whose store acts; NULL: none */
    mt_map            memories; /* descriptor of a segment -> sim_mem */
    mt_map            mapped;   /* address of a segment -> sim_mem */
    mt_map            files;    /* descriptor -> spill file */
    mt_map            wires;    /* number -> connection of two data sockets */
    mt_map            values;   /* id -> sim_value */
    MT_VEC(struct sim_reading *) pinned;
    mt_map              died_at, died_on; /* number of a process -> when, and serial of its raylet (0: that hears of it late) */
    uint64_t            disk_full_until;
    struct sim_node    *nodes[SIM_NODES_MAX];
    struct sim_net     *net;
    struct sim_head    *head;
    struct sim_redis   *redis; /* NULL: the store is a disk */
    struct sim_jobs    *jobs;
    struct sim_groups  *groups;
    struct sim_oracle  *oracle;
    struct sim_drains  *drains;
    struct sim_counters counters;
    uint32_t            drivers_started, drivers_over, drivers_alive;
    uint32_t            drivers_late;  /* started when the cluster has had time to settle: they look whether it has */
    uint64_t            left_at;       /* when a node that was to leave did so last */
    uint32_t            drivers_after; /* started after the last fault: they must find everything in order */
    uint64_t            strict_until, strict_owner, strict_node; /* until then this process and this node are spared */
    uint64_t            head_spared_until;                       /* the head is not to be stopped: something longer is under way */
    bool                is_healed, is_over;
    jmp_buf             failed;
    char                failure[SIM_TEXT];
};

/* ---- sim.c -------------------------------------------------------------------------------------------------------- */
/* Runs one seed. True: every invariant held; else s->failure says which did not. `s` is the caller's, and is emptied by
 * sim_fini; after a failure what the cores hold is lost. */
bool sim_run(struct sim *s, const struct sim_config *config);
void sim_fini(struct sim *s);

struct sim *sim_running(void); /* for what has no place for a context */
/* An event `delay` from now; valid until it fires or the next call. */
struct sim_event *sim_after(struct sim *s, uint64_t delay, const char *name, void (*fire)(struct sim *, struct sim_event *),
                            uint64_t target);
uint64_t          sim_random(struct sim *s, uint64_t below);
bool              sim_chance(struct sim *s, uint32_t in_a_million);
uint64_t          sim_between(struct sim *s, uint64_t low, uint64_t high);
uint64_t          sim_serial(struct sim *s);
/* Mixes a fact into the trace hash. */
void sim_note(struct sim *s, const char *what, uint64_t a, uint64_t b);
/* Ends the run: an invariant does not hold. */
MT_NORETURN void sim_fail(struct sim *s, const char *format, ...) MT_PRINTF(2, 3);
#define SIM_REQUIRE(s, fact, ...) \
    do { \
        if (MT_UNLIKELY(!(fact))) \
            sim_fail((s), __VA_ARGS__); \
    } while (0)

struct sim_mem *sim_mem_new(struct sim *s, size_t size);
struct sim_mem *sim_mem_ref(struct sim_mem *m);
void            sim_mem_unref(struct sim *s, struct sim_mem *m); /* NULL is fine */
int             sim_fd_new(struct sim *s, uint64_t holder);
void            sim_fd_close(struct sim *s, int fd);
void           *sim_alloc(size_t size); /* zeroed; ends the program without memory */

/* Whoever sleeps on this page is woken, if it sleeps. */
void sim_wake(struct sim *s, struct lane_park *park);

/* ---- shells/node.c --------------------------------------------------------------------------------------------------- */
struct rlt_event;
void             sim_node_new(struct sim *s, int index);
void             sim_node_free(struct sim *s, struct sim_node *n);
void             sim_node_crash(struct sim *s, struct sim_node *n);
void             sim_node_start(struct sim *s, struct sim_node *n);
void             sim_node_pause(struct sim *s, struct sim_node *n, uint64_t for_ns);
void             sim_node_dump(struct sim *s);
int              sim_node_index(const struct sim_node *n);
bool             sim_node_is_up(const struct sim_node *n);
struct sim_node *sim_node_of(struct sim *s, uint64_t serial); /* NULL: that incarnation is gone */
uint64_t         sim_node_serial(const struct sim_node *n);
void             sim_node_switch_wake(struct sim *s, struct sim_node *n);
/* A driver connects; the process says CTL_HELLO then. */
uint64_t sim_node_accept(struct sim *s, struct sim_node *n, struct sim_proc *p);
/* A message of a process on its unix socket arrives (fd: a descriptor of the raylet's from now on, or -1). */
void sim_node_socket(struct sim *s, struct sim_node *n, uint64_t conn, const struct lane_record *record, const void *payload,
                     int fd);
void sim_node_conn_closed(struct sim *s, struct sim_node *n, uint64_t conn);
void sim_node_exited(struct sim *s, struct sim_node *n, uint64_t conn, uint64_t late, bool has_status, int32_t status);
void sim_node_step(struct sim *s, struct sim_node *n, const struct rlt_event *e); /* copies what it points to */
/* The same of RLT_EV_HEAD or RLT_EV_PEER_FRAME, whose message is unpacked when it is stepped. */
void sim_node_packed(struct sim *s, struct sim_node *n, const struct rlt_event *e, const void *bytes, size_t size);
/* At the end: nothing of a process is left in the raylet. */
void sim_node_check_empty(struct sim *s, struct sim_node *n);

/* ---- shells/proc.c --------------------------------------------------------------------------------------------------- */
struct sim_proc *sim_proc_of(struct sim *s, uint64_t serial); /* NULL: dead */
void             sim_driver_start(struct sim *s, struct sim_node *n, bool is_late);
uint64_t         sim_proc_serial(const struct sim_proc *p);
int32_t          sim_proc_pid(const struct sim_proc *p);
uint64_t         sim_zygote_start(struct sim *s, struct sim_node *n, uint64_t conn, uint64_t job, uint64_t env, int32_t pid);
/* The raylet sends on the unix socket; the counts of mem pass to the process. */
void sim_proc_socket(struct sim *s, uint64_t serial, const struct lane_record *record, const void *payload,
                     struct sim_mem *const mem[2], uint64_t fork_conn);
void sim_proc_welcome(struct sim *s, uint64_t serial, const struct lane_record *record, const void *payload,
                      struct sim_mem *const mem[3], struct sim_mem *switch_park); /* control lane, park page, pin table */
void sim_proc_socket_closed(struct sim *s, uint64_t serial);                      /* the raylet closed its end */
void sim_proc_kill(struct sim *s, struct sim_proc *p, int signal);
void sim_proc_wake(struct sim *s, uint64_t serial);
void sim_proc_strict(struct sim *s, uint64_t serial, uint64_t until); /* its raylet lets it run until then */
void sim_procs_of_node_die(struct sim *s, struct sim_node *n);
/* Whether the process lives, and its actor is not dead for good. */
bool sim_proc_has_actor(struct sim *s, uint64_t serial, mt_id actor);
void sim_proc_dump(struct sim *s); /* prints what each process waits for */

/* ---- shells/head.c, twins/net.c ------------------------------------------------------------------------------------------ */
void sim_net_new(struct sim *s);
void sim_net_free(struct sim *s);

#endif
