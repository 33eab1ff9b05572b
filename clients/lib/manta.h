/* SPDX-License-Identifier: Apache-2.0
 *
 * manta.h - remote tasks, actors and objects from C.
 *
 * Conventions, for every call:
 *   pointers in are borrowed for the call; pointers out are the caller's to free, with the call named beside them;
 *   an options struct that is all zero (or NULL) means the defaults; name its members ({.num_cpus = 2}), which zeroes the others;
 *   `reserved` at the end of a struct must be 0 (EINVAL): later releases put new members there, and a program that is built already
 *   goes on running;
 *   a call that fails fills *e (which may be NULL) and returns its code;
 *   submitting returns a manta_ref always; where it has failed, the ref holds the error, and manta_get tells it;
 *   every call may be made from any thread; those that may block say so, and each of them has a limit;
 *   a handle that was freed before, or never was one, gives EHANDLE, and nothing is touched; NULL may be freed;
 *   no call but manta_status_name is async-signal-safe (manta_error.h). None works in a forked child: EFORKED;
 *   the library prints nothing, installs no signal handler in a driver, and never ends the process.
 */
#ifndef MANTA_H
#define MANTA_H

#include "manta_error.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For max_retries, max_task_retries and max_restarts, where 0 means the default. A smaller number is EINVAL. */
enum { MANTA_WITHOUT_LIMIT = -1, MANTA_NO_RETRY = -2 };
enum { MANTA_ARGS_MAX = 256, MANTA_RETURNS_MAX = 128, MANTA_INLINE_MAX = 4096 };

typedef struct manta_ref       manta_ref;       /* a value that is there, or will be */
typedef struct manta_actor     manta_actor;     /* a handle on a stateful process */
typedef struct manta_ctx       manta_ctx;       /* of the running task or method */
typedef struct manta_generator manta_generator; /* items that a task or method makes, one after the other */

/* ---- start and end --------------------------------------------------------------------------------------------- */

typedef struct manta_init_opts {
    const char *address;      /* NULL: MANTA_ADDRESS, else a private cluster for this process alone.
                              Else the runtime folder of a raylet here; or host:port of a head, where the raylet in
                              this user's runtime folder is a node of its cluster (else EINVAL). */
    double      num_cpus;     /* private cluster: 0 is what the machine has */
    double      num_gpus;     /* likewise: as many as have a device file, of which CUDA_VISIBLE_DEVICES may leave a part */
    int64_t     store_memory; /* bytes of object store of the private cluster, at least 1 MiB; 0: 30 % of memory */
    int64_t     job_memory;   /* bytes of the store that this job may use, at least 1 MiB; 0: all. A put beyond it waits for values
                               of the job to be freed. After 10 s it fails with ESTORE_FULL. Private cluster only; nodes of
                               other clusters have --job-memory */
    const char *spill_dir;    /* of the private cluster: where values go when the store is full; NULL: $TMPDIR, else
                              /var/tmp; "none": nowhere */
    int64_t     spill_bytes;  /* most of them there; 0: what the disk has */
    int         max_blocked_workers; /* of the private cluster: workers that may wait inside a task while others are started
                              in their place; 0: 128. When so many wait, manta_get with MANTA_FOREVER may run the task that
                              it waits for in the waiting process: if that task is its own, has not begun, and needs only CPUs */
    int         job_pids;      /* of the private cluster: processes and threads that the job may have in one environment, those that
                              tasks fork included; past it fork fails with EAGAIN. At least 16; 0: 37 % of the machine's.
                              Only where the raylet may make a control group (docs/design/groups.md) */
    bool        checksum;      /* values in the object store carry a 64-bit XXH3, which each reader compares. A get is ECORRUPT
                              where the bytes have changed. Writing and reading each take one more pass over the bytes. Sets
                              MANTA_CHECKSUM=1 for the job's workers, and may be set by that */
    int64_t     lineage_bytes; /* bytes that each process keeps for running finished tasks again when a node takes their results
                              along: the calls, and values that only they need. When it is used up, the oldest calls are
                              forgotten, and their results are EOBJ_LOST if they get lost. 0: 1 GiB; -1: nothing. Sets
                              MANTA_LINEAGE_BYTES for the job's workers, and may be set by that */
    const char *labels;        /* of the private cluster's node, "key=value,..."; NULL: none */
    const char *job_name;      /* for people; default: the program's name */
    const char *name_space;    /* of named actors; default: "default" */
    int64_t     timeout_ms;    /* to get a cluster; 0: 30 s */
    int         log_to_driver; /* what workers print goes to this process's standard error, with "(name pid=.., node=..)" in
                                  front; lines that several print are shown once, with a count. 1: yes; -1: no; 0: as
                                  MANTA_LOG_TO_DRIVER says (1, 0), else yes where standard error is a terminal, and in jobs */
    const struct manta_runtime_env *runtime_env; /* of all tasks and actors of the job; NULL: the driver's surroundings */
    manta_error_fn on_error; /* errors that nobody has asked for: the last handle on the result of a call that failed is freed,
                              and there was no manta_get of it, no manta_on_ready, no call that takes it. Not those of
                              cancelled calls, of calls that can't be made because the job has ended, and of results that other
                              processes know. It runs as callbacks do (see there), and inside manta_shutdown; in the driver
                              alone. NULL: the first one of each function is printed where workers' output goes
                              (log_to_driver), with its place; further ones are counted, and told every 10 s and at the
                              end. Workers print theirs on their own standard error */
    void          *on_error_user;
    uint64_t       reserved[14];
} manta_init_opts;

/* Connects this process to a cluster and makes it a driver. Blocks up to opts->timeout_ms. Call it first in main: Manta starts the
 * same executable again as its workers, and in a worker this call never returns. It may be called again after manta_shutdown.
 * Before it: what main does there is done for workers, too, with the same argc and argv, but once for many of them. So variables
 * may be set, and arguments and files read. Threads that are started there are not in workers, and what is printed comes more than
 * once. Of the calls here those that register, make a manta_arg or print an error work; so do manta_is_initialized (false),
 * manta_shutdown (0), and freeing NULL or the ref of a failed call. Any other is EINVAL: at once, or by manta_get of its ref.
 * With MANTA_INLINE=1 in the environment there is no cluster and no further process, for gdb and sanitizers. Each task and method
 * runs inside the call that submits it, one at a time. Results and errors are the same, with these exceptions: resources and
 * placement have no effect, a timeout only sets manta_is_cancelled, a kill loses the actor's state, and generators and runtime
 * environments fail with EUNSUPPORTED.
 * EINVAL: called twice; a bad option, or another name_space than before; two functions or actor types of one name (a definition
 * that two files include is one); a signature that can't be; arguments and environment of more than 128 KiB, which workers get.
 * ECONN, EAUTH, EVERSION, ETIMEDOUT, ENOMEM, ESYS. */
MANTA_API manta_status manta_init(int *argc, char ***argv, const manta_init_opts *opts, manta_error *e);
/* Between manta_init and manta_shutdown, and in a worker. Any thread. (When this node's raylet ends: ECONN, manta_error.h.) */
MANTA_API bool manta_is_initialized(void);

/* Ends the job. Unfinished tasks are dropped, its actors end, and so does a private cluster. Blocks up to 5 s. Threads that wait in
 * another call get ECONN. No thread may be using a buffer, a region, or a view of the store.
 * Returns 0, so that main can end with it. EFORKED, EDEADLK: nothing was done.
 * Handles that are held may still be freed. Values and errors that are in this process may still be read (manta_get). Both hold
 * after another manta_init too, which begins a new job; manta_error.h says what is left of the old one. */
MANTA_API int manta_shutdown(void);

/* ---- values ---------------------------------------------------------------------------------------------------- */

typedef struct manta_bytes {
    const void *data;
    size_t      size;
} manta_bytes;

/* One argument, or a value. Types: 'l' int64, 'u' uint64, 'd' double, 'b' bool, 's' string, 'y' bytes, 'r' reference,
 * 'A' actor, 'v' none. Strings and bytes are borrowed. */
typedef struct manta_arg {
    char type;
    union {
        int64_t      l;
        uint64_t     u;
        double       d;
        bool         b;
        manta_bytes  y; /* also 's': size without the NUL, which is there */
        manta_ref   *r;
        manta_actor *A;
    };
} manta_arg;

static inline manta_arg manta_i64(int64_t x)
{
    manta_arg a;
    a.type = 'l', a.l = x;
    return a;
}
static inline manta_arg manta_u64(uint64_t x)
{
    manta_arg a;
    a.type = 'u', a.u = x;
    return a;
}
static inline manta_arg manta_f64(double x)
{
    manta_arg a;
    a.type = 'd', a.d = x;
    return a;
}
static inline manta_arg manta_bool(bool x)
{
    manta_arg a;
    a.type = 'b', a.b = x;
    return a;
}
static inline manta_arg manta_data(manta_bytes x)
{
    manta_arg a;
    a.type = 'y', a.y = x;
    return a;
}
static inline manta_arg manta_bytes_of(const void *data, size_t size)
{
    manta_bytes y = {data, size};
    return manta_data(y);
}
static inline manta_arg manta_str(const char *s)
{
    manta_arg a;
    a.type = 's', a.y.data = s, a.y.size = s ? __builtin_strlen(s) : 0;
    return a;
}
/* A reference as argument: where the signature says 'r' the function gets the reference itself; everywhere else it
 * gets the value, and starts only when that is there. */
static inline manta_arg manta_ref_arg(manta_ref *r)
{
    manta_arg a;
    a.type = 'r', a.r = r;
    return a;
}
static inline manta_arg manta_actor_arg(manta_actor *x)
{
    manta_arg a;
    a.type = 'A', a.A = x;
    return a;
}

/* A value in place, valid until manta_release. It must not be written. A value of more than MANTA_INLINE_MAX bytes is mapped
 * read-only from the object store, also in the process that made it: writing it is SIGSEGV. A smaller value is a copy in this
 * process's memory: a write is not caught, and changes what this process reads and passes on. Others have their own copy. */
typedef struct manta_view {
    const void *data;
    size_t      size;
    char        type;
    void       *hold; /* the library's */
} manta_view;

/* ---- remote functions ------------------------------------------------------------------------------------------ */

/* The general form of a remote function. Return MANTA_OK after manta_return_..., or what manta_fail gives. */
typedef manta_status (*manta_function)(manta_ctx *c, int argc, const manta_arg *argv);

/* Registered by the macros below, before main, and never freed. */
typedef struct manta_entry {
    const char    *name;
    const char    *signature; /* "ld>d": at most MANTA_ARGS_MAX arguments, '>', results; '*' as last argument: any further ones,
                                 references as values; as last result: as many as are asked for. Of a generator: the items' type */
    manta_function run;
    const char    *file;
    int            line;
    uint64_t       reserved[8];
    uint64_t       library[8]; /* the library's, from the registration on; 0 before */
} manta_entry;

MANTA_API void manta_register(manta_entry *entry);

typedef struct manta_resource {
    const char *name;
    double      amount; /* > 0 */
} manta_resource;

typedef struct manta_pg manta_pg; /* placement groups: see below */

typedef struct manta_task_opts {
    double                  num_cpus; /* 0: 1 CPU, unless no_cpu */
    bool                    no_cpu;
    double                  num_gpus; /* CUDA_VISIBLE_DEVICES of its process names the devices of the lease */
    int64_t                 memory;   /* bytes, for placement */
    const manta_resource   *resources;
    int                     resource_count;
    int                     max_retries;    /* after a system failure; 0: 3; MANTA_NO_RETRY: none; MANTA_WITHOUT_LIMIT: until
                                             it succeeds, fails for another reason, or is cancelled */
    bool                    retry_on_error; /* also when the function itself reports an error */
    bool                    spread;         /* over the nodes, instead of packing */
    uint32_t                node;           /* only there; 0: anywhere */
    bool                    node_soft;      /* there if possible */
    int                     backpressure;   /* manta_call_stream: items the producer may be ahead; 0: 1024; at most 2048 */
    const struct manta_env *env;            /* runtime environment; NULL: the job's, inside a task the task's own */
    int64_t                 timeout_ms;     /* of one run, from its start; 0: none. Past it manta_is_cancelled says so, waits
                                             inside it end, and the ref fails with ETIMEDOUT; a run that has not ended
                                             500 ms later is killed with its worker. Tried again with retry_on_error only */
    int                     priority;       /* -100 to 100: of this process's ready tasks with the same needs, higher ones
                                             begin first, equal ones in order. Lower ones may starve */
    const char             *labels;         /* what its node must have: "zone=a, disk in (ssd, nvme), arch!=arm, tier !in (x),
                                             gpu, !slow"; alternatives behind ';', earlier ones first where they have room.
                                             EUNSCHEDULABLE: no node can ever. NULL: any */
    bool                    pin;            /* its worker's threads are bound to CPUs that no other pinned worker has: of one NUMA
                                             node, if one has enough. num_cpus must be a whole number. A task that waits
                                             lends these CPUs to others */
    int                     max_calls;      /* a worker that has run this function so often is replaced by a fresh one: for
                                             functions that leak; 0: no limit */
    const manta_pg         *pg;             /* it runs on what this placement group has reserved. EINVAL: it wants more than its
                                             bundle has, or node, spread or labels as well; EPG_REMOVED */
    int                     bundle;         /* of pg, from 1; 0: any of them */
    bool                    pg_capture;     /* what the task submits belongs to pg as well, unless it says node, spread, labels or
                                             another pg */
    uint64_t                reserved[8];
} manta_task_opts;

/* Submits `name` with `argc` arguments, at most MANTA_ARGS_MAX (ETYPE: more, or others than its signature says); never NULL. Of
 * handles of actors about 145 fit (EINVAL). Does not block, but waits where 1 GiB of work is queued already.
 * Errors (told by manta_get): EINVAL, ETYPE, ENOFUNC, ENOMEM, EUNSCHEDULABLE. The ref is freed with manta_free. */
MANTA_API manta_ref *manta_call(const char *name, const manta_task_opts *opts, int argc, const manta_arg *argv);
/* The same for a registered entry: what the typed stubs call. */
MANTA_API manta_ref *manta_call_entry(manta_entry *entry, const manta_task_opts *opts, int argc, const manta_arg *argv);

/* Inside a task or method. Each copies; the last one counts. ENOMEM, ESTORE_FULL, ETYPE (not what the signature says). */
MANTA_API manta_status manta_return_i64(manta_ctx *c, int64_t x);
MANTA_API manta_status manta_return_u64(manta_ctx *c, uint64_t x);
MANTA_API manta_status manta_return_f64(manta_ctx *c, double x);
MANTA_API manta_status manta_return_bool(manta_ctx *c, bool x);
MANTA_API manta_status manta_return_str(manta_ctx *c, const char *s);
MANTA_API manta_status manta_return_bytes(manta_ctx *c, const void *data, size_t size);
/* Reports an error of the user's own: `user_code` and the text reach whoever gets the result. Returns MANTA_ETASK. */
MANTA_API manta_status manta_fail(manta_ctx *c, int user_code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* From 0: how often this task was started before, or this actor. After 65,535 a task counts from 1 again. */
MANTA_API int manta_attempt(const manta_ctx *c);
/* What the running task or method is, and where: for logs, and for finding it by `manta list tasks`. Fills *out; does not block.
 * ps -o comm, top and perf show a worker as w<job>:<function> (of a private cluster w:<function>), cut to 15 letters, or by the
 * type of its actor. A function that runs for less than 10 ms need not be seen there. */
typedef struct manta_runtime {
    char     task[40];     /* id, as in errors and lists */
    char     function[64]; /* or the method */
    char     actor[64];    /* type of the actor that lives in this process; "": none */
    uint32_t job, node;
    int      pid, attempt;
    double   num_cpus; /* of the lease */
    int      num_gpus; /* devices of the lease; CUDA_VISIBLE_DEVICES names them */
    uint64_t reserved[16];
} manta_runtime;
MANTA_API void manta_runtime_of(const manta_ctx *c, manta_runtime *out);

/* ---- cancel ---------------------------------------------------------------------------------------------------- */

typedef struct manta_cancel_opts {
    bool     force;     /* kill the worker that runs it (not for calls of actors: EINVAL) */
    bool     recursive; /* also what the running task has submitted, and what that has submitted */
    uint64_t reserved[4];
} manta_cancel_opts;

/* Takes a task or an actor's call back. From now on its ref fails with ECANCELLED: at once where it has not begun, else
 * when the function returns, whatever it returns, or its worker is dead. It is not tried again, and the order of an
 * actor's other calls is kept. Any holder of the ref may cancel. Does not block. After MANTA_OK, e->outcome says
 * more: MANTA_DONE, it will never run; MANTA_UNKNOWN, it runs (or another process owns it) and was asked to stop.
 * ENOENT: it has finished, or the ref is no task's result; nothing changed. EINVAL, EAGAIN (no room to tell the node). */
MANTA_API manta_status manta_cancel(manta_ref *ref, const manta_cancel_opts *opts, manta_error *e);
/* Inside a task or method, from any of its threads: whether it should return now, since it was cancelled or has outrun its
 * timeout_ms. One read of shared memory, and of the clock where it has a timeout_ms. manta_get and manta_wait of such a
 * task end at once (ECANCELLED, ETIMEDOUT). */
MANTA_API bool manta_is_cancelled(const manta_ctx *c);

/* ---- results --------------------------------------------------------------------------------------------------- */

/* Waits for the value, at most timeout_ms (ETIMEDOUT; 0 asks without waiting; many: manta_many.h). The view is released with
 * manta_release; the ref stays the caller's. Blocks; inside a task the CPU is given back meanwhile. The error of the task comes out
 * here: ETASK, EWORKER_DIED, EACTOR_DIED, EOWNER_DIED, EOBJ_LOST, ESTORE_FULL (no room for a copy of a value that is elsewhere),
 * EUNSCHEDULABLE... A task's result that was lost with its node is made again while the task has retries left, and the get takes
 * as long; EOBJ_LOST says why one can't be. */
MANTA_API manta_status manta_get(manta_ref *ref, int64_t timeout_ms, manta_view *out, manta_error *e);
MANTA_API manta_status manta_release(manta_view *view);
/* The same for scalars; ETYPE where the value is of another type. */
MANTA_API manta_status manta_get_i64(manta_ref *ref, int64_t timeout_ms, int64_t *out, manta_error *e);
MANTA_API manta_status manta_get_u64(manta_ref *ref, int64_t timeout_ms, uint64_t *out, manta_error *e);
MANTA_API manta_status manta_get_f64(manta_ref *ref, int64_t timeout_ms, double *out, manta_error *e);
MANTA_API manta_status manta_get_bool(manta_ref *ref, int64_t timeout_ms, bool *out, manta_error *e);

/* Waits until `want` of the `count` refs are ready, on whichever node (on this one: manta_wait_with), or failed, at most
 * timeout_ms. ready[i] becomes 1 or 0. Returns how many are ready, also after the limit; < 0 is -code. */
MANTA_API int manta_wait(manta_ref *const *refs, size_t count, size_t want, int64_t timeout_ms, unsigned char *ready,
                         manta_error *e);

/* Copies a value into the object store. Never NULL; manta_get tells ENOMEM, ESTORE_FULL or EDISK_FULL. In a full store it waits
 * while values that nobody reads go to disk: 10 s at most without any getting free. What is larger than the store fails at once. */
MANTA_API manta_ref *manta_put(const void *data, size_t size);
/* The same, and how it is kept; opts may be NULL. */
typedef struct manta_put_opts {
    bool     checksum; /* a value of more than MANTA_INLINE_MAX carries the XXH3 of its bytes, and each get of it compares them,
                      as manta_init_opts.checksum does for all values of a job: ECORRUPT where they have changed */
    uint64_t reserved[4];
} manta_put_opts;
MANTA_API manta_ref *manta_put_with(const void *data, size_t size, const manta_put_opts *opts);
/* Makes a value in place. manta_create gives room in shared memory (it waits and fails as manta_put does). manta_seal makes a value
 * of it; manta_drop gives it back. After either, buffer->data and copies of that pointer must not be used: a write could change the
 * value for everybody. Some such writes are caught: in a sealed buffer of 1 MiB or more the first 65,472 bytes are SIGSEGV, and
 * readers of values with checksums get ECORRUPT. */
typedef struct manta_buffer {
    void  *data;
    size_t size;
    void  *hold; /* the library's */
} manta_buffer;
MANTA_API manta_status manta_create(size_t size, manta_buffer *out, manta_error *e);
MANTA_API manta_status manta_create_with(size_t size, const manta_put_opts *opts, manta_buffer *out, manta_error *e);
MANTA_API manta_ref   *manta_seal(manta_buffer *buffer);
MANTA_API manta_status manta_drop(manta_buffer *buffer);

/* One more handle on the same value; freed on its own. */
MANTA_API manta_ref *manta_dup(manta_ref *ref);
/* Gives the handle up; NULL is allowed. The value goes when no process holds it. */
MANTA_API manta_status manta_free(manta_ref *ref);
/* Frees the values now, even where others hold refs on them. The handles stay the caller's to free. Views that are held stay valid.
 * Later gets of such a ref, in any process, and calls with it fail with EOBJ_LOST. If another process owns a value, it is told;
 * this call does not wait for that. EINVAL: a ref is NULL. EAGAIN: a ref has no value yet; the others are freed. */
MANTA_API manta_status manta_free_now(manta_ref *const *refs, size_t count, manta_error *e);
/* Serves completions without waiting, for a program with a loop of its own. */
MANTA_API void manta_progress(void);

/* ---- several results ------------------------------------------------------------------------------------------- */

/* Calls a function that returns `n` values ("l>dds": 3; with '*' as many as are asked for): each gets a ref of its own in
 * out[0..n-1], freed on its own. Where the call fails all of them say so in manta_get. Returns EINVAL, with failed refs,
 * for an n that is not 1 to MANTA_RETURNS_MAX; else 0. Blocks as manta_call does. */
MANTA_API manta_status manta_call_n(const char *name, const manta_task_opts *opts, int argc, const manta_arg *argv, manta_ref **out,
                                    int n);
/* The same for a method; where the actor is dead all refs fail. */
MANTA_API manta_status manta_actor_call_n(manta_actor *actor, const char *method, int argc, const manta_arg *argv, manta_ref **out,
                                          int n);
/* Inside a task or method: gives result `index`, from 0, in any order; copies. A function that returns MANTA_OK without
 * one of its results fails with ETYPE. EINVAL (no such result), ETYPE (the signature names another type), ENOMEM,
 * ESTORE_FULL. */
MANTA_API manta_status manta_return_at(manta_ctx *c, int index, manta_arg value);
/* Inside a task or method: room for result `index`, bytes ('y'), which the function writes in place: nothing is copied. *out has
 * `size` bytes of any content, aligned to 64 above MANTA_INLINE_MAX and to 8 up to there. What stands there when the function
 * returns MANTA_OK is the result: no call ends it. When the function fails or its process dies, the room is given back. After its
 * return *out is no more to be written than a sealed buffer: manta_create says what of that is caught. Waits for room as manta_put.
 * EINVAL: no such result; in a generator, in manta_map, in an actor's create or save. EEXIST: the result has room or a value. (A
 * manta_return_... of a result that has room is EINVAL.) ETYPE; ENOMEM; ESTORE_FULL, at once where it is larger than the store. */
MANTA_API manta_status manta_return_buffer(manta_ctx *c, int index, size_t size, void **out);

/* ---- generators ------------------------------------------------------------------------------------------------ */

/* Starts a function that yields items ("l>d": doubles) and has no other result. Never NULL. Does not block. Errors come out of
 * manta_next. One thread at a time; a generator is not passed to other processes. Freed with manta_generator_free.
 * When its worker dies, the function runs again from the start, as the options' retries say. Items that have arrived stay, and the
 * new run's items before that place are skipped: so it must yield the same items again. It also runs again when a node takes
 * items in the store along. */
MANTA_API manta_generator *manta_call_stream(const char *name, const manta_task_opts *opts, int argc, const manta_arg *argv);
/* The same for a method. `backpressure` as in manta_task_opts. Later calls of the actor wait until the generator ends. */
MANTA_API manta_generator *manta_actor_call_stream(manta_actor *actor, const char *method, int backpressure, int argc,
                                                   const manta_arg *argv);
/* Waits for the next item, at most timeout_ms. Its bytes are valid until the next manta_next of this generator or its
 * manta_generator_free, those of a value above MANTA_INLINE_MAX until manta_release as well (release every view).
 * EEND: the function has returned, all items were given. ETIMEDOUT: ask again. What made the function fail (ETASK,
 * EWORKER_DIED, ...) comes after the items that arrived before, and again each time. EDEADLK in a callback. Blocks. */
MANTA_API manta_status manta_next(manta_generator *g, int64_t timeout_ms, manta_view *out, manta_error *e);
/* The next item as a ref, which the caller frees: it can be passed on, and outlives the generator. */
MANTA_API manta_status manta_next_ref(manta_generator *g, int64_t timeout_ms, manta_ref **out, manta_error *e);
/* Lets go: items that were not taken are dropped, the producer's next manta_yield returns ECANCELLED. NULL is allowed. */
MANTA_API manta_status manta_generator_free(manta_generator *g);
/* Inside a generator: hands out one item (copied). Blocks while the consumer is `backpressure` items behind, the CPU is
 * given back meanwhile. ECANCELLED: nobody wants more (the consumer let go or is dead): return. EINVAL (called as no
 * generator), ETYPE, ENOMEM, ESTORE_FULL. */
MANTA_API manta_status manta_yield(manta_ctx *c, manta_arg item);

/* ---- map ------------------------------------------------------------------------------------------------------- */

/* Runs a function of one argument and at most one result over `count` items of `item_size` bytes, and writes the results
 * behind each other (`results` may be NULL where there is none). The argument is 'l', 'u', 'd' (items of 8 bytes), 'b' (1)
 * or 'y'; a result has result_size bytes (8, 1, or those of its 'y'). `chunk` items go to a worker at a time; 0: by
 * measured time. Items of a chunk run one after the other in one process and are retried together. Blocks until all is
 * done. An error names the first item, from 0, that failed; what was running then is dropped.
 * EINVAL, ETYPE, ENOFUNC, EDEADLK (in a callback), or the function's own. */
MANTA_API manta_status manta_map(const char *name, const manta_task_opts *opts, const void *items, size_t count, size_t item_size,
                                 size_t chunk, void *results, size_t result_size, manta_error *e);

/* ---- refs inside values ---------------------------------------------------------------------------------------- */

/* A value that declares the refs which it is about: whoever holds it holds them. Bytes inside a value keep nothing alive,
 * declared refs do. As manta_put; the refs stay the caller's. EINVAL: one is NULL. */
MANTA_API manta_ref *manta_put_refs(const void *data, size_t size, manta_ref *const *refs, size_t count);
/* The same as a task's or method's only result; at most once. */
MANTA_API manta_status manta_return_refs(manta_ctx *c, const void *data, size_t size, manta_ref *const *refs, size_t count);
/* Fills up to `max` handles of the refs that the value behind a view of manta_get declares; each is freed with manta_free.
 * Returns how many it declares, or -code. Blocks for one round trip where another process owns the value (the first
 * time): EOWNER_DIED, ETIMEDOUT, ENOMEM; EDEADLK in a callback. */
MANTA_API int64_t manta_view_refs(const manta_view *view, manta_ref **out, size_t max, manta_error *e);

/* ---- callbacks ------------------------------------------------------------------------------------------------- */

/* Callbacks run one at a time, on the library's helper thread or inside manta_progress, never inside another call; with an
 * event descriptor in manta_progress alone. They may call everything that does not wait: what would wait returns EDEADLK.
 * Those that are due when manta_shutdown begins do not run any more. */

/* `fn(user, ref)` once, when the value is there or has failed. The library holds the ref until fn has returned. EINVAL,
 * EAGAIN (2^20 callbacks are due or waited for), ENOMEM. */
typedef void (*manta_ready_fn)(void *user, manta_ref *ref);
MANTA_API manta_status manta_on_ready(manta_ref *ref, manta_ready_fn fn, void *user, manta_error *e);
/* `fn(user)` once, when no process holds the value any more. Only the process that made the ref can know:
 * EUNSUPPORTED elsewhere. */
typedef void (*manta_free_fn)(void *user);
MANTA_API manta_status manta_on_free(manta_ref *ref, manta_free_fn fn, void *user, manta_error *e);
/* A descriptor for the program's own loop: readable when something has come since the last manta_progress (a value, a
 * death, a callback that is due). The library's; do not read or close it. -code on failure (ESYS). */
MANTA_API int manta_event_fd(manta_error *e);

/* ---- actors ---------------------------------------------------------------------------------------------------- */

typedef struct manta_method {
    const char *name;
    const char *signature;
    manta_status (*run)(manta_ctx *c, void *self, int argc, const manta_arg *argv);
} manta_method;

/* How many calls of some methods may run at a time, on threads of the actor's process. A method belongs to the concurrency group
 * named behind its signature ("l>l@io"). Without a name it belongs to the default one, which max_concurrency bounds. */
typedef struct manta_concurrency_group {
    const char *name;
    int         limit; /* 1 to 1024 */
} manta_concurrency_group;

typedef struct manta_actor_type {
    const char *name;
    const char *signature; /* of create's arguments, without result: "l" */
    manta_status (*create)(manta_ctx *c, void **self, int argc, const manta_arg *argv);
    void (*destroy)(void *self);         /* may be NULL; at the end of an actor that is not killed */
    manta_method            methods[24]; /* the first with name NULL ends the list */
    manta_concurrency_group groups[8];   /* likewise */
    /* Gives the state, by manta_return_bytes, for a restarted actor: its creator keeps the newest snapshot, up to 4 KiB in
     * its own memory, larger ones in the store of the actor's node. A snapshot leaves before the answer of the call after
     * which it is taken. In a concurrent actor it may run beside methods. When its node is to leave, an actor that may restart
     * is asked as well, after the last call that it runs there. NULL: none. */
    manta_status (*save)(manta_ctx *c, void *self);
    /* Called after create in a later incarnation, with the newest snapshot. */
    manta_status (*load)(manta_ctx *c, void *self, const void *data, size_t size);
    const char *file;
    int         line;
    uint64_t    reserved[8];
    uint64_t    library[8]; /* the library's, from the registration on; 0 before */
} manta_actor_type;

MANTA_API void manta_register_actor(manta_actor_type *type);

typedef struct manta_actor_opts {
    double                  num_cpus; /* 0: none while it lives (as Ray) */
    double                  num_gpus;
    int64_t                 memory;
    const manta_resource   *resources;
    int                     resource_count;
    const char             *name;             /* found by manta_actor_find; NULL: unnamed */
    int                     max_restarts;     /* 0: none; MANTA_WITHOUT_LIMIT */
    int                     max_task_retries; /* of each call: when the actor dies under it, or its value is lost with a node (it
                                               is called again then); 0: none; at most 16,777,214, or MANTA_WITHOUT_LIMIT */
    bool                    spread;
    uint32_t                node;
    bool                    node_soft;
    const char             *labels;             /* as in manta_task_opts */
    bool                    pin;                /* as in manta_task_opts */
    const struct manta_env *env;                /* as in manta_task_opts */
    int                     max_concurrency;    /* calls at a time, on threads; 0: 1; at most 1024 */
    bool                    allow_out_of_order; /* a call whose arguments are not ready does not hold up later ones */
    int                     max_pending_calls;  /* of one process that are not finished; more fail with EAGAIN; 0: no limit */
    const char             *name_space;         /* of the name; NULL: the job's */
    bool                    get_if_exists;      /* an actor of that name is taken where there is one; blocks up to 10 s */
    int                     save_every;         /* calls between two snapshots; 0: only manta_actor_save takes them */
    bool                    detached;           /* it outlives its creator: see manta_actor_new */
    bool                    strict;             /* no two incarnations ever run at a time, not even on a node that is silent and
                                               alive. Its process is stopped while its node cannot reach the head for more
                                               than 4 s, and goes on afterwards; after the loss of a node the next incarnation
                                               begins 5 s later than others, and only with the head's word */
    const manta_pg         *pg;                 /* these three as in manta_task_opts; it ends with its placement group */
    int                     bundle;             /* (EPG_REMOVED), whatever its max_restarts */
    bool     pg_capture, for_all_jobs; /* the latter with --job-users A-B: other jobs too find it by name, call it, may end it */
    uint64_t reserved[16];
} manta_actor_opts;

/* Starts an actor; does not block; never NULL (a failure comes out of its calls). The process ends when the creator
 * frees its handle or ends.
 * With opts->detached (and a name) it is the cluster's: any later driver finds it by its name, it is restarted as its
 * max_restarts say, also on another node when its own dies, and it ends by manta_actor_kill without `restart`, by its own
 * will (manta_actor_end, manta_actor_exit), by `manta actor kill`, or with the cluster; a private cluster ends with its
 * driver. Then the call blocks until the cluster has stored it, 60 s at most (the first time the program is uploaded). Of
 * references among the arguments the values go along (what they make is waited for), and the actor's references name copies
 * that live as long as it; at most 500 MiB in all. EINVAL: a value that declares references, a handle of an actor that is not
 * detached. A call on the handle fails with EEXIST where the name is taken. What the
 * actor prints is in `manta job logs` of the job that the cluster keeps for it. A snapshot (save) outlives the actor's
 * process, not its node. */
MANTA_API manta_actor *manta_actor_new(const char *type, const manta_actor_opts *opts, int argc, const manta_arg *argv);
/* Calls a method. Calls of one caller run in the order in which they were made. Errors come out of manta_get:
 * EACTOR_DIED (with outcome MANTA_UNKNOWN where the call may have run), ENOFUNC, ETYPE, ETASK, EAGAIN (max_pending_calls).
 * A program that has not the actor's class names the method and gives arguments of its types: the actor's process checks them,
 * and the call runs in the default concurrency group.
 * With concurrency groups the order is kept in each of them; with more than one call at a time it is the order in which
 * they begin. */
MANTA_API manta_ref *manta_actor_call(manta_actor *actor, const char *method, int argc, const manta_arg *argv);
/* The same in another concurrency group than the method's own, or with retries of its own. EINVAL: the actor has
 * no such concurrency group; max_retries is none. */
typedef struct manta_actor_call_opts {
    const char *group;          /* concurrency group; NULL: the method's; "": the default one */
    int         max_retries;    /* of this call; 0: the actor's max_task_retries; else as in manta_task_opts */
    bool        retry_on_error; /* also when the method itself reports an error; calls made after it may run in between */
    uint64_t    reserved[4];
} manta_actor_call_opts;
MANTA_API manta_ref *manta_actor_call_with(manta_actor *actor, const char *method, const manta_actor_call_opts *opts, int argc,
                                           const manta_arg *argv);
/* Finds a named actor that is there, at most timeout_ms. NULL: *e says why (ENOENT, ETIMEDOUT, ECONN). No name_space: ours. */
MANTA_API manta_actor *manta_actor_find(const char *name, int64_t timeout_ms, manta_error *e);
MANTA_API manta_actor *manta_actor_find_in(const char *name_space, const char *name, int64_t timeout_ms, manta_error *e);
/* Ends the actor after the calls that this process has made before, whatever its restarts. The ref is ready (no value)
 * when they are done and its destroy function has run. Calls of others that have not begun fail with EACTOR_DIED. */
MANTA_API manta_ref *manta_actor_end(manta_actor *actor);
/* Inside a method: the actor ends when this call, and those that run beside it, are done; it is not restarted. */
MANTA_API void manta_actor_exit(manta_ctx *c);
/* Inside a method: a snapshot is taken after this call, before its answer leaves. */
MANTA_API void manta_actor_save(manta_ctx *c);
/* SIGKILL. With `restart` the actor's restarts apply, else it stays dead. Does not wait. */
MANTA_API manta_status manta_actor_kill(manta_actor *actor, bool restart);
MANTA_API manta_actor *manta_actor_dup(manta_actor *actor);
MANTA_API manta_status manta_actor_free(manta_actor *actor); /* creator's last one: as manta_actor_end; destroy has 30 s */

/* Why and where something died. */
typedef struct manta_death {
    manta_status code; /* EACTOR_DIED, EWORKER_DIED, ENODE_DIED */
    uint32_t     node;
    int          pid;
    int          signal_number;
    int          exit_status; /* where it exited by itself */
    bool         restarting;  /* an actor that will be back */
    uint32_t     incarnation; /* that died */
    char         message[512];
    uint64_t     reserved[16];
} manta_death;
/* Called once for each death of the actor (any process may watch; at once, if it is dead already), on the library's
 * helper thread or inside manta_progress: do not block there. The watch ends with manta_unwatch or the actor's end. */
typedef void (*manta_death_fn)(void *user, const manta_death *death);
MANTA_API manta_status manta_actor_watch(manta_actor *actor, manta_death_fn fn, void *user, uint64_t *out_watch, manta_error *e);
MANTA_API manta_status manta_node_watch(uint32_t node, manta_death_fn fn, void *user, uint64_t *out_watch, manta_error *e);
/* After it the function runs no more: it waits for one that runs just now, but not inside that one itself. */
MANTA_API void manta_unwatch(uint64_t watch);

/* ---- runtime environment --------------------------------------------------------------------------------------- */

/* Where tasks and actors run. What is NULL is as around it: of the job's environment (manta_init_opts), inside a task the
 * task's own, else the driver's variables and folder. Workers are shared among equal environments only. */
typedef struct manta_runtime_env {
    const char *const *env_vars;    /* "NAME=value", ended by NULL; they stand before the worker's program begins */
    const char        *working_dir; /* a folder here. Its files (at most 500 MiB; links that stay inside) are copied, unpacked
                                    once a node, and are the current folder of all these workers: read them, write
                                    elsewhere. They go with the job. */
    const char *const *files;       /* single files here, ended by NULL, put into the current folder under their last name */
    const char        *code;        /* a shared object (.so) here: loaded here and by the workers, where its constructors
                                    (MANTA_TASK, MANTA_REGISTER, MANTA_ACTOR) add functions, called by name. The program
                                    must link libmanta as a shared library. */
    const char *const *excludes;    /* what of working_dir is left out, ended by NULL: patterns of fnmatch(3), compared with the
                                    path inside the folder and with its last part: "*.o", "data/raw"; of a folder all */
    uint64_t           reserved[8];
} manta_runtime_env;
typedef struct manta_env manta_env;

/* Prepares an environment for manta_task_opts and manta_actor_opts: reads the files, hands them to the raylet. Equal
 * descriptions give the same environment. Blocks on the disk and up to 10 s. NULL: *e says why: EINVAL (a variable),
 * EENV (which step: set env_vars, make working_dir, copy files, load code), ENOMEM, ECONN. What fails only on the node
 * of a worker comes out of manta_get of its tasks: EENV, with step and node. Freed with manta_env_free, also before
 * the tasks that were submitted with it have run. A .so should be loaded before other threads make calls. */
MANTA_API manta_env   *manta_env_new(const manta_runtime_env *env, manta_error *e);
MANTA_API manta_status manta_env_free(manta_env *env);

/* ---- actor groups ----------------------------------------------------------------------------------------------- */

/* Several actors as one. An actor group belongs to one thread at a time; its members are actors as any other. */
typedef struct manta_group manta_group;
/* Makes `count` actors (1 to 4096), all with the same arguments; opts->name must be NULL. NULL: *e says why (EINVAL, ENOMEM).
 * Does not block; an actor that can't be made tells it by its calls. Freed with manta_group_free, and its actors with it. */
MANTA_API manta_group *manta_group_new(const char *type, const manta_actor_opts *opts, int count, int argc, const manta_arg *argv,
                                       manta_error *e);
/* An actor group of actors that are there; their handles stay the caller's. */
MANTA_API manta_group *manta_group_of(manta_actor *const *actors, int count, manta_error *e);
MANTA_API manta_status manta_group_free(manta_group *group);
MANTA_API int          manta_group_size(const manta_group *group);
/* Borrowed; NULL where there is no such member. */
MANTA_API manta_actor *manta_group_actor(const manta_group *group, int index);
/* The same call to every member; out[0 .. size-1] become refs, to be freed. Does not block. EINVAL. */
MANTA_API manta_status manta_group_call(manta_group *group, const char *method, int argc, const manta_arg *argv, manta_ref **out);
/* The same, and waits for every reply, at most timeout_ms in all: out[0 .. size-1] become views, to be released. On failure
 * none is left, *e is the first one's and *out_failed (may be NULL) its member. Blocks. */
MANTA_API manta_status manta_group_gather(manta_group *group, const char *method, int argc, const manta_arg *argv,
                                          int64_t timeout_ms, manta_view *out, int *out_failed, manta_error *e);
/* An actor pool: method(items[i]) for every item, by whichever member is idle; out[i] becomes its ref, in the order of the
 * items. Blocks until the last item is handed out. On failure (EINVAL, ENOMEM, ECONN) refs that were not made are NULL. */
MANTA_API manta_status manta_group_map(manta_group *group, const char *method, const manta_arg *items, size_t count,
                                       manta_ref **out, manta_error *e);
/* manta_actor_end for every member; waits for all, at most timeout_ms. A dead member counts as ended. Blocks. */
MANTA_API manta_status manta_group_end(manta_group *group, int64_t timeout_ms, manta_error *e);
/* Waits until what the members have begun between them has come to its end: no member runs a call or has one waiting, and none
 * waits for a task or call of its own. So nothing more will happen unless somebody outside calls. This process's calls to members
 * from before count, too, and so do callbacks that are due in members. Threads that a member's function has started are not known,
 * nor are calls that tasks or other actors make. Members are asked in rounds, behind the calls that wait there; two rounds without
 * any change are the end. It says nothing of whether calls have failed. Blocks, at most timeout_ms.
 * ETIMEDOUT (*e names a member that works), EACTOR_DIED, ECONN, EINVAL, ENOMEM. Inside a member: EDEADLK, or with
 * max_concurrency ETIMEDOUT, since that member works. */
MANTA_API manta_status manta_group_quiet(manta_group *group, int64_t timeout_ms, manta_error *e);
/* Called for each death of a member, as manta_actor_watch; until manta_group_unwatch or manta_group_free, which must not be
 * called inside. EINVAL, EEXIST (it is watched), EAGAIN, ENOMEM. */
typedef void (*manta_group_death_fn)(void *user, int index, const manta_death *death);
MANTA_API manta_status manta_group_watch(manta_group *group, manta_group_death_fn fn, void *user, manta_error *e);
MANTA_API void         manta_group_unwatch(manta_group *group);

/* ---- placement groups -------------------------------------------------------------------------------------------- */

/* Amounts reserved together on nodes of the cluster, for the tasks and actors that name the placement group. */
typedef struct manta_bundle { /* one part, which stands on one node; at least one amount is not 0 */
    double                num_cpus;
    double                num_gpus;
    int64_t               memory;
    const manta_resource *resources;
    int                   resource_count;
    uint64_t              reserved[4];
} manta_bundle;
enum {
    MANTA_PG_PACK = 0 /* on few nodes */,
    MANTA_PG_SPREAD = 1 /* on many */,
    MANTA_PG_STRICT_PACK = 2 /* on one */,
    MANTA_PG_STRICT_SPREAD = 3 /* each on a node of its own */
};
typedef struct manta_pg_opts {
    int         strategy;   /* MANTA_PG_PACK ...; the strict ones are kept to, or nothing is reserved yet */
    const char *name;       /* found by manta_pg_find; NULL: none */
    const char *name_space; /* of the name; NULL: the job's */
    bool        detached;   /* it stays when its job ends, until it is removed; it needs a name. EUNSUPPORTED where each job has a
                               user of its own (--job-users): placement groups and their names are the job's alone there */
    uint64_t    reserved[8];
} manta_pg_opts;

/* Makes a placement group of 1 to 128 bundles; all are reserved, or none. Does not wait until they are. With a name it blocks
 * until the cluster has noted it, up to 10 s; without one it does not. It goes with its job. When a node dies, its bundles are
 * placed anew by the same strategy, and so are the actors and tasks that were there, as their restarts and retries say.
 * NULL: *e says why: EINVAL (no bundle, an empty one, an amount that is none, strategy, name); of a named one also EEXIST, EAGAIN
 * (the cluster has 4,096 of them; without a name manta_pg_wait is EPG_REMOVED then), ETIMEDOUT. Freed with manta_pg_free, which
 * removes nothing. */
MANTA_API manta_pg *manta_pg_new(const manta_bundle *bundles, int count, const manta_pg_opts *opts, manta_error *e);
/* Waits until every bundle is reserved, at most timeout_ms. Tasks need not wait: theirs begin when it stands. ETIMEDOUT;
 * EUNSCHEDULABLE: the nodes that there are can never hold it (it stays, and is placed if others come);
 * EPG_REMOVED. Blocks; inside a task the CPU is given back meanwhile. */
MANTA_API manta_status manta_pg_wait(manta_pg *pg, int64_t timeout_ms, manta_error *e);
/* Another handle on a named placement group. NULL: ENOENT, ETIMEDOUT. name_space NULL: the job's. Blocks up to 10 s. */
MANTA_API manta_pg *manta_pg_find(const char *name_space, const char *name, manta_error *e);
/* The placement group that the running task or actor is in. NULL: ENOENT where it is in none. Blocks up to 10 s. */
MANTA_API manta_pg *manta_pg_current(manta_error *e);
MANTA_API int       manta_pg_count(const manta_pg *pg); /* of its bundles */
/* Where the bundles stand now: up to `max` nodes in order, 0 for one that is not reserved. Returns how many bundles there are,
 * or -code. Blocks up to 10 s. */
MANTA_API int manta_pg_nodes(const manta_pg *pg, uint32_t *out, int max, manta_error *e);
/* Gives everything back: its tasks and actors end with EPG_REMOVED, without retry or restart, and so does what is
 * submitted to it afterwards. Done again, nothing happens. Does not wait: without the head it is done when that is back. */
MANTA_API manta_status manta_pg_remove(manta_pg *pg, manta_error *e);
MANTA_API manta_status manta_pg_free(manta_pg *pg);

/* ---- the cluster ----------------------------------------------------------------------------------------------- */

typedef struct manta_node_info {
    uint32_t                         node;
    bool                             alive;
    double                           cpus, gpus; /* in all */
    double                           cpus_free, gpus_free;
    char                             name[64];
    char                             labels[256]; /* "key=value,..." */
    bool                             remote;   /* on another machine, so reached over the network; nodes of one address share one */
    __attribute__((aligned(8))) bool draining; /* about to leave: what runs there ends, nothing new comes to it; not `alive` */
    uint8_t                          reserved_draining[7];
    char                             address[64]; /* of its machine, "10.0.0.1" or "fd00::1"; "": it is reached from nowhere else */
    uint64_t                         reserved[23];
} manta_node_info;
/* Fills up to `max` entries; returns how many nodes there are, or -code. Blocks up to 5 s. (manta_nodes_news: when that changes) */
MANTA_API int manta_nodes(manta_node_info *out, int max, manta_error *e);
/* The node this process runs on. */
MANTA_API uint32_t manta_node(void);

/* What this process would use beyond what it has. worth: by which share its work gets quicker with one more: 1: twice as quick;
 * 1000: it stands without. The wish that is worth most is met first. */
typedef struct manta_wish {
    const char           *name, *labels; /* name: 1 to 63 letters, to change it by; labels: as in manta_task_opts; NULL: any */
    double                num_cpus, num_gpus, worth;
    int64_t               memory; /* bytes */
    const manta_resource *resources;
    int                   resource_count, count; /* count: so many of these; 0: none any more */
    uint64_t              reserved[8];
} manta_wish;
/* Tells the cluster, which may start nodes for it (manta up) once it has stood for a second and all that waits has its place. A
 * process has 16 at most. Blocks up to 5 s. EINVAL (name, count, worth, labels, resources), and as manta_nodes. */
MANTA_API manta_status manta_wish_tell(const manta_wish *wish, manta_error *e);
enum { MANTA_WISH_UNKNOWN, MANTA_WISH_MET, MANTA_WISH_COMING, MANTA_WISH_WAITS, MANTA_WISH_NEVER };
/* How a wish of this process stands by the head's last word: one of these, or -code. UNKNOWN: none yet, or no nodes start here.
 * `text`: why it WAITS, can NEVER be met, or what is COMING failed before. Blocks up to 5 s. EINVAL (no name), as manta_nodes. */
MANTA_API int manta_wish_look(const char *name, char *text, size_t text_size, manta_error *e);
/* Memory that all who know its number may write: for collectives. Freed when every member has dropped it or died. */
typedef struct manta_region {
    void    *data;
    size_t   size;
    uint64_t number; /* give it to the others; size 0 and this number: map the same memory (same node only) */
} manta_region;
MANTA_API manta_status manta_region_open(size_t size, uint64_t number, manta_region *out, manta_error *e);
MANTA_API void         manta_region_close(manta_region *region);

/* ---- macros ---------------------------------------------------------------------------------------------------- */

/* manta_call("name", NULL, MANTA_ARGS(manta_i64(1), manta_ref_arg(r))) */
#define MANTA_ARGS(...) \
    (int)(sizeof((const manta_arg[]){__VA_ARGS__}) / sizeof(manta_arg)), (const manta_arg[]) \
    { \
        __VA_ARGS__ \
    }
#define MANTA_NO_ARGS                    0, NULL
#define MANTA_REGISTER_BEFORE_MAIN(name) __attribute__((constructor)) static void manta_construct_##name(void)
/* Raw form: MANTA_REGISTER(train, "lyr>y"); with manta_status train(manta_ctx *, int, const manta_arg *). */
#define MANTA_REGISTER(fn, sig) \
    static manta_entry manta_entry_##fn = {#fn, sig, fn, __FILE__, __LINE__, {0}, {0}}; \
    MANTA_REGISTER_BEFORE_MAIN(fn) \
    { \
        manta_register(&manta_entry_##fn); \
    } \
    struct manta_entry /* takes the semicolon */

/* Everything an actor type may have, by name: MANTA_ACTOR_TYPE(store, .signature = "s", .create = store_new,
 * .methods = {{"get", "s>y@read", store_get}}, .groups = {{"read", 8}}); */
#define MANTA_ACTOR_TYPE(tag, ...) \
    static manta_actor_type manta_actor_type_##tag = {.name = #tag, .file = __FILE__, .line = __LINE__, __VA_ARGS__}; \
    MANTA_REGISTER_BEFORE_MAIN(tag) \
    { \
        manta_register_actor(&manta_actor_type_##tag); \
    } \
    struct manta_actor_type /* takes the semicolon */

/* MANTA_ACTOR(counter, "l", counter_new, counter_free, {"add", "l>l", counter_add}, {"get", ">l", counter_get}); */
#define MANTA_ACTOR(tag, sig, create_fn, destroy_fn, ...) \
    static manta_actor_type manta_actor_type_##tag = {.name = #tag, \
                                                      .signature = sig, \
                                                      .create = create_fn, \
                                                      .destroy = destroy_fn, \
                                                      .methods = {__VA_ARGS__}, \
                                                      .file = __FILE__, \
                                                      .line = __LINE__}; \
    MANTA_REGISTER_BEFORE_MAIN(tag) \
    { \
        manta_register_actor(&manta_actor_type_##tag); \
    } \
    struct manta_actor_type /* takes the semicolon */

#ifdef __cplusplus
}
#endif
#include "manta_many.h"
#include "manta_task.h"
#endif
