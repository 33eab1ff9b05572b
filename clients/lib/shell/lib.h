/* SPDX-License-Identifier: Apache-2.0
 *
 * lib.h - the shell of libmanta around its two pure halves: memory, sockets, threads and waiting.
 *
 * One struct lib a process. Its lock is "the owner lock": it guards own, wrk, the control lane, the store's client half
 * and every table below. User code never runs under it.
 *
 * Waiting: whoever waits leads, that is, serves everyone's completions while it waits; others that wait meanwhile follow
 * (they sleep on `followers`). When nobody waits, the helper thread looks once a millisecond while there is work, and
 * sleeps in the park page when there is none.
 */
#ifndef LIB_LIB_H
#define LIB_LIB_H

#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/lock/lock.h"
#include "clients/lib/manta.h"
#include "clients/lib/owner/own.h"
#include "clients/lib/worker/wrk.h"
#include "core/base/limits.h"
#include "core/base/rng.h"
#include "core/wire/event.h"
#include "objectstore/client/client.h"

#include <pthread.h>
#include <unistd.h>

enum lib_role {
    LIB_NONE = 0,
    LIB_DRIVER = 1,
    LIB_WORKER = 2,
    LIB_OVER = 3,
    LIB_FORKED = 4, /* a child of such a process, by fork: nothing here is its own; see lib_is_forked */
};
#define LIB_FORKED_TEXT \
    "this process was forked from one that uses Manta: only its parent may call it. Start a program of its " \
    "own (exec), or fork before manta_init"
#define LIB_OVER_TEXT "manta_shutdown has been called; manta_init joins a cluster again"
#define LIB_INTERRUPTED_TEXT \
    "a signal handler called Manta, and has interrupted a call of Manta's on its thread: no call is " \
    "async-signal-safe. Let it set a flag, or write to a pipe"

/* A request of the library itself that a thread waits for. On that thread's stack, in lib.requests meanwhile. */
struct lib_request {
    mt_id    id;
    bool     is_done;
    int32_t  code;
    uint16_t kind; /* of the record that answered */
    int      fds[2];
    int      fd_count;
    size_t   size;
    uint8_t  payload[LANE_RECORD_MAX];
};

/* Shared memory that is mapped here: a lane with its peer's park page. */
struct lib_mapping {
    void             *lane;
    struct lane_park *park;
};

struct lib_segment { /* memory of a segment, or its generations, mapped here */
    void  *data;
    size_t size;
};

struct lib_watch {
    uint64_t          number;
    mt_id             subject; /* the actor, or the monitor of a node */
    struct own_actor *actor;
    manta_death_fn    fn;
    void             *user;
};

struct lib_output { /* output.c: what workers print, on its way to standard error */
    bool     is_wanted;
    mt_buf   text;    /* to be printed, without the lock */
    uint64_t dropped; /* bytes, since that was last said */
    struct lib_repeat {
        uint64_t hash; /* of the line without its digits; 0: free */
        uint64_t since_ns;
        uint32_t count; /* of other workers' */
        int32_t  pid;
        uint32_t node;
        char     name[56], line[160];
    } repeats[64];
};

struct lib {
    struct lib_sleepers followers;
    uint32_t            follower_count;
    pthread_t           leader;
    bool                is_led;
    bool                has_helper, stop_helper;
    pthread_t           helper;
    uint64_t            calls; /* API calls so far: tells the helper whether the program is active */
    uint64_t            ticked_ns;
    uint32_t            cpu;        /* as our park page says, + 1 */
    uint64_t            checked_ns; /* when we last looked whether the raylet lives */

    enum lib_role            role;
    int32_t                  broken; /* not 0: every call fails with this code */
    char                     broken_text[256];
    uint32_t                 refused; /* submits since then */
    int                      socket, park_fd;
    void                    *ctl, *pins;
    struct lane_event_writer events; /* worker: what it has run */
    struct lane_park        *park, *switch_park;
    struct lane_producer     up;
    struct lane_consumer     down;
    uint32_t                 socket_seen;
    struct ctl_welcome       welcome;
    char                     name_space[CTL_NAME_SIZE];

    struct own       own;
    struct wrk       wrk;
    struct os_client store;
    MT_VEC(struct lib_mapping) mappings;
    MT_VEC(struct lib_segment) segments;
    MT_VEC(void *) regions; /* mapped in the job of now: data of each */
    uint32_t session;       /* jobs that this process has been in before */
    uint64_t trim_at_ns;    /* when free memory is looked at again */
    MT_VEC(struct lib_request *) requests;
    MT_VEC(struct lib_watch) watches;
    uint64_t telling;                              /* the watch whose function runs just now; 0: none */
    MT_VEC(struct own_death) news;                 /* deaths whose callbacks are due */
    struct own_waiter *callbacks, *callbacks_last; /* that are due */
    uint64_t           callback_count;             /* not yet run */
    int                event_fd;                   /* -1: not asked for */
    uint64_t           event_seen;                 /* own.completed when manta_progress looked last */
    bool               is_rung;                    /* the descriptor is readable */
    bool               is_calling;                 /* callbacks run */
    uint64_t           watch_number;
    struct lib_output  output;
    struct lib_inline *inlined;         /* MANTA_INLINE=1; else NULL */
    struct lib_here   *here;            /* worker: it has run a task of its own; else NULL */
    const char        *stack_base;      /* worker: where the stack of the thread that runs tasks begins, ... */
    size_t             stack_bytes;     /* ... and how much of it may be in use when one more task is begun on it */
    int64_t            lease_cpu_milli; /* worker: CPUs of its lease */
    uint32_t           lease_gpus;
    mt_id              group;    /* worker: placement group of its lease; zero: none */
    mt_id              captured; /* the same, where what its tasks submit belongs to it; zero: it does not */
    bool               is_actors_lease;
    MT_VEC(void *) killed_states;        /* of actors, inline: lost on purpose, and no leak that a sanitizer is to report */
    struct lib_private *private_cluster; /* what manta_init started; NULL: a cluster of others */
    manta_ctx          *running;         /* worker: the task of the main thread; a concurrent actor has none */
    bool                runs_once;       /* worker: as its park page says */
    uint32_t            calls_waiting;   /* worker: running tasks and calls that wait inside the library */
    uint64_t            env;             /* key of the environment that our tasks are in unless they say otherwise; 0: none */
    char                code[4096];      /* path of the .so that it loads; "": none */
    pthread_t           main_thread;
    bool                has_set_checksum, has_set_lineage; /* manta_init: the environment variables of these options */
    bool                is_warden;                         /* driver: of a detached actor */
    bool                is_retiring; /* worker: a function has run max_calls times here; it takes nothing more */
};

extern struct lib lib;
/* Worker: the task or call that this thread runs; NULL outside of user code. */
extern LIB_THREAD_LOCAL manta_ctx *lib_running;
/* ---- lib.c ---- */
uint64_t lib_now_ns(void);
uint64_t lib_wall_ns(void); /* what makes wall clock of lib_now_ns */
/* How every public call begins: the lock. Or the call can't be made, and there is no lock to give back: EINVAL (no manta_init),
 * ECONN (after manta_shutdown), EFORKED, EDEADLK (from a signal handler in the midst of another call). */
static inline manta_status lib_enter(manta_error *e);
/* The same of calls that give back or read what the user holds: after manta_shutdown too. */
static inline manta_status lib_enter_held(manta_error *e);
manta_status               lib_enter_slowly(bool is_held, manta_error *e);
/* Calls can be made from now on, or no more. Closing is done under the lock. */
void lib_open(enum lib_role role);
void lib_close(void);
/* Where user code has come back that we had called: a child that it has forked, and that came back as well, ends here. */
static inline void lib_fork_check(void);
/* Carries out what the halves want done: records up, wake-ups, unmapping. */
void lib_act(void);
/* A death whose callbacks are due. */
void lib_news(const struct own_death *news);
/* Looks at everything that may have come: control lane, socket, completions. True: something was there. */
bool lib_pump(void);
void lib_control(const struct lane_record *record, const uint8_t *payload, const int *fds, int fd_count);
/* What own_prepare does, for the shell's tables. */
mt_status lib_prepare(void);
/* Fails every later call; the library never ends the process. */
void lib_break(int32_t code, const char *text);
/* Fills *e (may be NULL) and returns code. */
manta_status lib_error(manta_error *e, int32_t code, const char *format, ...) MT_PRINTF(3, 4);
manta_status lib_error_failure(manta_error *e, const struct own_failure *f, mt_id task);
manta_status lib_error_status(manta_error *e, mt_status st);
/* ETIMEDOUT, ECONN...: whether the library can be used at all. */
manta_status lib_check(manta_error *e);
/* The library broke under what had been asked for already: it may have happened. */
manta_status lib_error_broken(manta_error *e);
/* The same of a value that has not come: whether its task had begun is told where that is sure. */
manta_status lib_error_outcome_lost(const struct own_ref *ref, manta_error *e);
/* What was submitted has failed, without the lock: once the raylet is gone each one beyond the first few waits a moment, so that a
 * loop which submits again what failed does not fill a core. */
void lib_refused_pause(void);

/* ---- wait.c: all under the lock, which is released while sleeping ---- */
typedef bool (*lib_ready)(void *arg);
/* Until ready(arg), or the deadline (lib_now_ns; INT64_MAX: none). True: ready. Inside a task the CPU is given back. */
bool lib_wait(lib_ready ready, void *arg, int64_t deadline_ns);
/* False inside a callback: nothing may wait there. */
bool lib_may_wait(void);
/* The calling thread is in a callback from now on, or not; what it was before. */
bool    lib_callback_enter(bool on);
int64_t lib_deadline(int64_t timeout_ms);
void    lib_helper_start(void);
void    lib_helper_stop(void);
/* Sends a request and waits for its answer. EPROTO, ETIMEDOUT, or the code of a CTL_REPLY (text then in *e). */
manta_status lib_call(struct lib_request *request, uint16_t kind, const void *payload, size_t size, int64_t timeout_ms,
                      manta_error *e);
/* Its two halves, for who does something else meanwhile; or the answer is wanted no more. Not inline. */
manta_status lib_call_send(struct lib_request *request, uint16_t kind, const void *payload, size_t size, manta_error *e);
manta_status lib_call_await(struct lib_request *request, int64_t timeout_ms, manta_error *e);
void         lib_call_forget(const struct lib_request *request);
/* The same on the socket, with a descriptor (-1: none; it stays the caller's). */
manta_status lib_call_socket(struct lib_request *request, uint16_t kind, const void *payload, size_t size, const void *more,
                             size_t more_size, int fd, int64_t timeout_ms, manta_error *e);
/* Waits until the function of this watch, which has been taken off the list, is back; not inside such a function. */
void lib_wait_told(uint64_t watch);
/* Runs callbacks of watches that are due; the lock is released around each. */
void lib_run_news(void);

/* ---- output.c ---- */
/* What the options and MANTA_LOG_TO_DRIVER say; EINVAL: neither. */
bool lib_output_choose(int option);
/* CTL_MESSAGE with LANE_OUTPUT_SUBJECT. Under the lock. True: it was one. */
bool lib_output_came(const struct lane_record *record, const uint8_t *payload);
/* Prints what is there; the lock is released meanwhile. `all`: repeated lines at once, too. */
void lib_output_print(bool all);

/* ---- connect.c ---- */
mt_status lib_socket_open(const char *path, int *out_fd);
mt_status lib_hello(int fd, enum ctl_role role, uint64_t process, uint64_t job, int argc, char **argv, const char *job_name);
/* Waits for CTL_WELCOME and maps what it brings; lib is ready afterwards. The text of a refusal in `text`. */
mt_status lib_welcome(int fd, uint64_t process, int64_t timeout_ms, char text[256]);
void      lib_disconnect(void);
/* A late step of a shutdown: nothing may look at shared memory afterwards. */
void lib_unmap_shared(void);
/* Messages on the unix socket. MT_EAGAIN where there is none. */
mt_status lib_socket_receive(int fd, void *bytes, size_t room, size_t *out_size, int *fds, int *out_fd_count);
mt_status lib_socket_send(int fd, uint16_t kind, mt_id id, const void *payload, size_t size, const void *more, size_t more_size,
                          int fd_to_pass);
void     *lib_map(int fd, size_t size, bool writable); /* closes fd; NULL on failure */
void      lib_socket_drain(void);
void      lib_socket_take(void); /* the same, whatever the park page says */
void      lib_unmap_lane(void *lane);

/* ---- private.c ---- */
mt_status lib_private_start(const manta_init_opts *opts, int *out_fd, char text[256]);
void      lib_private_up(void); /* the raylet serves: the folder is held by it from now on */
void      lib_private_stop(void);
void      lib_private_forget(void); /* a forked child: it is the parent's */
mt_status lib_runtime_folder(char *out, size_t size);

/* ---- zygote.c, worker.c: neither returns; crash.c ---- */
MT_NORETURN void lib_zygote_serve(int fd, int argc, char **argv);
MT_NORETURN void lib_worker_serve(int fd, int argc, char **argv);
void             lib_crash_handlers(void);
/* Tells the raylet why this worker, which has run nothing yet, leaves: some in a row, and it starts no more. */
void lib_worker_unable(int fd, int32_t code, const char *text);
/* Runs one claimed task or call from its record to its outcome; `call` is NULL for one that still lies in the ring. Under
 * the lock when it begins and ends. *now is moved to the end; returns how long the function took. */
uint64_t lib_run(manta_ctx *c, struct wrk_run *run, struct wrk_call *call, uint64_t *now);
/* The actor ends of its own will: its creator hears it, its state is destroyed, the process ends. Under the lock. */
MT_NORETURN void lib_actor_exit(void);
/* Destroys the actor, if there is one, and ends the process. Without the lock. */
MT_NORETURN void lib_leave(int code);

/* ---- pool.c: the threads of a concurrent actor ---- */
/* Serves the actor's calls for ever, with up to the sum of `limits` threads and one. Under the lock; never returns. */
MT_NORETURN void lib_pool_serve(manta_ctx *c, const uint32_t *limits, uint32_t count);

/* ---- api/registry.c ---- */
uint64_t lib_hash(const char *name);
/* How often something is tried again, from an option of the user's: < 0 is without limit. */
static inline int32_t lib_tries(int asked, int32_t when_zero)
{
    return asked == 0 ? when_zero : asked == MANTA_WITHOUT_LIMIT ? -1 : asked < 0 ? 0 : asked;
}
/* Before anything is called: names that two registrations have, and signatures that can't be. EINVAL: *e has the place. */
manta_status        lib_registry_check(manta_error *e);
manta_entry        *lib_entry_find(const char *name);
void                lib_entries_forget_classes(void); /* what calls without options need has changed */
manta_entry        *lib_entry_of_hash(uint64_t hash);
manta_actor_type   *lib_actor_type_find(const char *name);
manta_actor_type   *lib_actor_type_of_hash(uint64_t hash);
const manta_method *lib_method_find(const manta_actor_type *type, const char *name);
const manta_method *lib_method_of_hash(const manta_actor_type *type, uint64_t hash);
#define LIB_END "manta_actor_end" /* the method that every actor has: its end */
/* ENOFUNC with the near names. */
void lib_unknown_function(struct own_failure *f, const char *kind, const char *name);
void lib_unknown_method(struct own_failure *f, const char *actor, const manta_actor_type *type, const char *name);

/* ---- detached.c, warden.c ---- */
#define LIB_SOCKET "MANTA_SOCKET" /* in the environment of a submitted driver that runs as another user than the raylet */
#define LIB_WARDEN "MANTA_WARDEN" /* in the environment of a warden: restarts so far, then what it is to make, as hex */
bool             lib_is_warden(void);
char            *lib_warden_text(void); /* takes it out of the environment; malloc; NULL: this process is no warden */
MT_NORETURN void lib_warden_serve(char *take_text);
/* Under the lock, which is released meanwhile: hands the actor over to the head. NULL, and *f. */
struct own_actor *lib_detach(const manta_actor_type *type, const struct own_class_spec *spec, const manta_actor_opts *o,
                             const struct own_call *call, const manta_view *views, struct own_failure *f);
/* Outside the lock; blocks until the references among the arguments have their values: `args` has those in their place where
 * the signature wants a value, and `views` has all of them. NULL: *e. lib_carried_drop either way. */
struct lib_carried {
    manta_arg  args[MANTA_ARGS_MAX];
    manta_view views[MANTA_ARGS_MAX];
};
const manta_arg *lib_carry(struct lib_carried *c, const char *signature, int argc, const manta_arg *argv, manta_error *e);
void             lib_carried_drop(struct lib_carried *c);

/* ---- api/env.c, pack.c: outside the lock ---- */
struct manta_env { /* what manta_env_new gives */
    uint64_t key;
};
struct lib_packed {
    int      fd;
    uint64_t size;
    uint8_t  sha256[32];
};
#define LIB_CODE_FOLDER ".manta-code"
/* Packs working_dir and files, and the .so under code_name (NULL: none). EENV, with the step in words. */
manta_status lib_pack(const manta_runtime_env *env, const char *code_path, const char *code_name, struct lib_packed *out,
                      manta_error *e);
manta_status lib_env_make(const manta_runtime_env *env, uint64_t *out_key, manta_error *e);
manta_status lib_env_enter(manta_error *e); /* a zygote: takes over what its raylet has said of it */
manta_status lib_code_load(const char *path, manta_error *e);

/* ---- api/task.c ---- */
/* Checks arguments against a signature (up to '>') and turns them into own_args. ETYPE, EINVAL into *f. */
bool lib_args(const char *name, const char *signature, int argc, const manta_arg *argv, struct own_arg *out,
              struct own_actor_wire *wires, struct own_failure *f, const char *file, int line);
/* Resources of options into a class; EINVAL into *f. */
bool lib_class_spec(struct own_class_spec *spec, double cpus, double gpus, int64_t memory, const manta_resource *resources,
                    int count, struct own_failure *f);
/* Where: node, spread, labels. EINVAL into *f. */
bool lib_class_place(struct own_class_spec *spec, uint32_t node, bool node_soft, bool spread, const char *labels,
                     struct own_failure *f);
/* Its placement group, that of the options or the running task's; after all others of these. EINVAL into *f. */
bool lib_class_group(struct own_class_spec *spec, const manta_pg *pg, int bundle, bool captures, struct own_failure *f);
/* Its environment: the one given, or the job's. EHANDLE into *f. */
bool lib_env_key(struct own_class_spec *spec, const manta_env *env, struct own_failure *f);
/* It is bound to CPUs of its own. EINVAL into *f. */
bool lib_class_pin(struct own_class_spec *spec, double cpus, struct own_failure *f);
/* A ready value as the user sees it; the ref is held until manta_release. Under the lock. */
manta_status lib_view(struct own_ref *ref, manta_view *out, int64_t deadline_ns, manta_error *e);
/* The ref behind a view of a value in the store; NULL: inline, or an item. *out_place: what is pinned. */
struct own_ref *lib_view_ref(const manta_view *view, struct lane_ref *out_place);
/* Submits a task or a method; `call` says how many values are wanted (count, more), or brings the stream. All that comes back
 * may have failed. Takes the lock. */
manta_ref *lib_call_task(manta_entry *entry, const manta_task_opts *opts, int argc, const manta_arg *argv, struct own_call *call);
manta_ref *lib_call_name(const char *name, const manta_task_opts *opts, int argc, const manta_arg *argv, struct own_call *call);
manta_ref *lib_call_method(manta_actor *actor, const char *method, int argc, const manta_arg *argv, struct own_call *call);
/* Under the lock: what was submitted (`ref`, and call->more) becomes the user's; NULL: all of it fails with *f. NULL of a
 * generator, whose stream has its end. */
manta_ref *lib_called(const struct own_call *call, struct own_ref *ref, const struct own_failure *f);
/* Without the lock: the call can't be made. */
manta_ref *lib_refused_call(const struct own_call *call, manta_status code);
/* How many values the caller wants against how many the signature gives; ETYPE into *f. */
bool lib_results_fit(const char *name, const char *signature, const struct own_call *call, const char *file, int line,
                     struct own_failure *f);
/* Under the lock: submits, once there is room, and wakes whom it must. NULL, and *f, only without memory. */
struct own_ref *lib_submit(const struct own_call *call, struct own_failure *f);
manta_ref      *lib_failed_ref(const struct own_failure *f);
/* Values among the arguments that are too large for a record go through the store, as references. Outside the lock.
 * Returns the arguments to use: argv itself where all are small. */
struct lib_spilled {
    manta_arg  args[MANTA_ARGS_MAX];
    manta_ref *puts[MANTA_ARGS_MAX];
    int        count;
};
bool             lib_may_spill(int argc, const manta_arg *argv); /* whatever the signature says */
const manta_arg *lib_spill(struct lib_spilled *s, const char *signature, int argc, const manta_arg *argv);
void             lib_spilled_drop(struct lib_spilled *s);

/* ---- api/pg.c ---- */
struct manta_pg {
    mt_id                 id;
    bool                  is_removed; /* by this handle */
    struct lib_pg_asking *early;      /* the first wait has been asked for already; NULL: it was answered, or there is none */
    int                   bundle_count;
    uint32_t              at[MT_GROUP_BUNDLES_MAX + 1]; /* of each bundle in `resources`, and where the last one ends */
    struct ctl_resource   resources[MT_GROUP_RESOURCES_MAX];
};
/* Whether the bundle (0: any) has, in all, what one lease of the class needs; `text`: why not. */
bool lib_pg_could_hold(const struct manta_pg *pg, int bundle, const struct own_class_spec *spec, char *text, size_t size);

/* ---- api/cancel.c ---- */
/* Whether the task that runs in this process is asked to stop: then it waits for nothing more. */
bool lib_run_is_over(void);
/* The error of a wait that ended so. */
manta_status lib_error_run_over(manta_error *e);
/* No wait of a task outlives its timeout_ms. */
int64_t lib_deadline_of_run(int64_t deadline_ns);
/* When the helper has to look at the running task again; INT64_MAX: it has no timeout_ms. */
int64_t lib_run_look_ns(void);
/* Helper, under the lock: reports a run that has outlived its timeout_ms and its grace, and ends this process. */
void lib_run_check(uint64_t now_ns);

/* ---- lease.c ---- */
/* A lease has come to this worker, under the lock: what the process shows of it. */
void lib_lease_begin(const struct ctl_grant *grant);

/* ---- here.c: all under the lock ---- */
struct lib_outcome;
struct lib_here { /* what stands in the place of a lane */
    struct own_lane owner_end;
    struct wrk_lane worker_end;
    uint64_t        sequence;
};
void lib_here_init(struct lib_here *h, void *memory); /* LANE_BYTES, zeroed; borrowed */
/* The task has left its queue: what lib_run_here is to run. Then its outcome; the task may be gone after. */
void lib_here_begin(struct lib_here *h, struct own_task *task, struct wrk_run *out);
void lib_here_end(struct lib_here *h, struct own_task *task, struct wrk_run *run, struct lib_outcome *out);
/* Whether the running task, which waits for `ref`, is to run something of that itself; and does so (the lock is released
 * meanwhile). */
bool lib_here_may_run(const struct own_ref *ref);
bool lib_here_run(struct own_ref *ref);
void lib_here_stack(void); /* a worker begins: tasks run above this frame */

/* ---- inline.c: all under the lock but the first two ---- */
bool         lib_inline_wanted(void);
mt_status    lib_inline_start(void);
void         lib_inline_stop(void);
void         lib_inline_run(void); /* everything that may run; the lock is released around each */
bool         lib_inline_wait(lib_ready ready, void *arg, int64_t deadline_ns);
void         lib_inline_act(struct own_out *out);
manta_status lib_inline_call(struct lib_request *r, uint16_t kind, const void *payload, size_t size, manta_error *e);
bool         lib_inline_may_name(const char *name, struct own_failure *f); /* EEXIST */
void         lib_inline_kill(struct own_actor *actor, bool restart);

/* ---- api/object.c ---- */
/* manta_put of a value of another type; of an 's' its NUL belongs to it. */
manta_ref *lib_put(const void *data, size_t size, char type);
/* Room in a segment of ours; asks the raylet for segments as needed. Under the lock. */
manta_status lib_store_alloc(size_t size, struct os_place *place, void **data, manta_error *e);
/* Makes the pages of a fresh place in one go. Without the lock: it takes 0.3 s for a GiB. */
void lib_store_warm(const struct os_place *place, void *data);
/* Gives memory back that has been free for a while, a piece at a time. Under the lock. */
void lib_store_trim(uint64_t now_ns);
/* The value of a place, pinned; maps or pulls what is missing. Under the lock. *ref becomes the local copy's where it was
 * on another node: that is what is to be unpinned. */
manta_status lib_store_pin(struct own_ref *mine, struct lane_ref *ref, const void **data, int64_t deadline_ns, manta_error *e);
void         lib_store_unpin(const struct lane_ref *ref);
void         lib_segment_asked(uint32_t segment); /* CTL_SEGMENT_ASK */
void         lib_free_place(struct own *own, const struct lane_ref *place, bool escaped);
void         lib_space_back(const struct ctl_space *space);

/* ---- api/return.c: what a function returns ---- */
/* Writes one value as `*out` and, behind it, at most `room` bytes: inline, else a place with index `index` of the running
 * task. */
manta_status lib_value_make(manta_ctx *c, mt_id id, const manta_arg *from, size_t room, struct lane_value *out, void *bytes);
manta_status lib_return(manta_ctx *c, uint32_t index, char type, const void *data, size_t size);
/* All values of a function with several, behind each other in c->many. ETYPE (and c->failure): one is missing. */
manta_status lib_returned(manta_ctx *c, size_t *out_size);
/* The letter of a value in the signature; '*' where it does not say. */
char lib_result_letter(const char *signature, uint32_t index);
/* The same of the only one, as manta_ctx.wanted has it. */
char lib_result_wanted(const char *signature);
/* ETYPE: the running function has returned a value of a type that its signature does not name. */
manta_status lib_result_mistyped(manta_ctx *c, char type);
/* The function says that all went well: ETYPE where it has not returned what its signature says. */
manta_status lib_result_check(manta_ctx *c);
uint32_t     lib_result_count(const char *signature);

/* ---- api/stream.c ---- */
/* Under the lock, which is released meanwhile: the completion ring had no room for the running task's record. False: its
 * owner is dead, and nobody will ever read it. */
bool lib_outcome_wait(const manta_ctx *c);

/* ---- api/declared.c ---- */
/* Where the data of a value ends, whose last bytes may be declared refs. */
size_t lib_declared_size(const struct lane_ref *place, const void *data);
/* A value of `size` bytes and the refs that it declares, in the store. Takes and gives the lock. */
manta_status lib_declared_store(const void *data, size_t size, manta_ref *const *refs, size_t count, struct os_place *place,
                                void **out, size_t *out_size, manta_error *e);

/* ---- api/callback.c: all under the lock ---- */
/* Runs what is due, on the calling thread; the lock is released around each. */
void lib_run_callbacks(void);
void lib_callbacks_take(struct own_out *out);
void lib_callbacks_end(void);
/* With an event descriptor callbacks run in manta_progress alone. */
bool lib_has_events(void);
/* Makes the descriptor readable, if something came since manta_progress looked last. */
void lib_events_ring(void);
void lib_events_seen(void);

/* ---- strict.c ---- */
/* This process is a strict actor's from now on. Blocks until the head says that it may begin; ends the process where it
 * can't be stopped. Without the lock would be of no use: nothing else is to run. */
void lib_strict_begin(void);

/* ---- worker.c ---- */
struct lib_outcome { /* as LANE_DONE says it */
    manta_status   code;
    int32_t        user_code;
    uint16_t       flags;
    const uint8_t *payload;
    size_t         size;
    manta_ctx     *context; /* holds the payload */
};
void lib_outcome_free(struct lib_outcome *out);
/* Runs one record in this process, which has submitted it as `task`; without the lock. Of an actor, its state is in *type
 * and *self. */
void lib_run_here(struct wrk_run *run, struct own_task *task, manta_actor_type **type, void **self, struct lib_outcome *out);
/* LANE_DONE's payload of a failure; returns its size. */
size_t lib_failure_payload(manta_ctx *c, manta_status code, uint8_t *out, size_t room);
void   lib_fail_timed_out(manta_ctx *c);
struct manta_ctx {
    const char        *name; /* of the running function */
    const char        *signature;
    struct wrk_run    *run;
    struct own_task   *here; /* it runs in the process that has submitted it, as this; else NULL */
    struct lane_limits limits;
    int64_t            deadline_ns; /* of the run; 0: none */
    manta_error        failure;     /* what manta_fail said */
    bool               has_failed, has_value;
    bool               is_waiting;             /* inside the library */
    bool               wants_exit, wants_save; /* the method asked for it */
    uint32_t           results;                /* values that are wanted, from 1 */
    uint32_t           ahead;                  /* of a generator: items beyond what is used; 0: it is none */
    uint8_t           *many;                   /* more than one value: each in a slot of its own; made at first use, kept */
    void              *into;                   /* manta_map: where the value goes, as bytes of this size */
    size_t             into_size;
    uint64_t           yielded;
    uint8_t            flags;       /* LANE_VALUE_... */
    char               wanted;      /* letter of the (first) result; 'v': none is; '*': any */
    bool               is_mistyped; /* another one was returned; `failure` says so */
    char               type;
    uint32_t           size;
    uint8_t bytes[sizeof(struct lane_value) + MANTA_INLINE_MAX + MANTA_ARGS_MAX * sizeof(mt_id)]; /* and refs that stay */
};

/* A child of a process that uses Manta, whatever system call made it. */
static inline bool lib_is_forked(void)
{
    if (lib_door_is_open())
        return false;
    return lib.role == LIB_FORKED || lib.role == LIB_DRIVER || lib.role == LIB_WORKER; /* lib_close says so before */
}
static inline void lib_fork_check(void)
{
    if (MT_UNLIKELY(lib_is_forked()))
        _exit(MANTA_EFORKED);
}
static inline bool lib_enter_try(void)
{
    if (MT_UNLIKELY(lib_thread.is_waiting) || MT_UNLIKELY(!lib_lock_try()))
        return false;
    if (MT_LIKELY(lib_door_is_open()))
        return true;
    lib_unlock();
    return false;
}
static inline manta_status lib_enter(manta_error *e)
{
    return MT_LIKELY(lib_enter_try()) ? MANTA_OK : lib_enter_slowly(false, e);
}
static inline manta_status lib_enter_held(manta_error *e)
{
    return MT_LIKELY(lib_enter_try()) ? MANTA_OK : lib_enter_slowly(true, e);
}

#endif
