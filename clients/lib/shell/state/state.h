/* SPDX-License-Identifier: Apache-2.0
 *
 * state.h - the one struct lib of a process, who may enter it, and how its errors are told.
 *
 * Its lock is "the owner lock" (lock/): it guards own, wrk, the control lane, the store's client half and every table below. User
 * code never runs under it.
 */
#ifndef LIB_STATE_H
#define LIB_STATE_H

#include "clients/lib/manta.h"
#include "clients/lib/owner/own.h"
#include "clients/lib/shell/state/lock.h"
#include "clients/lib/worker/wrk.h"
#include "core/base/rng.h"
#include "core/wire/event.h"
#include "objectstore/client/client.h"

#include <pthread.h>
#include <unistd.h>

/* What this process is; lib_role_set is the only one that changes it.
 *
 *   NONE ---- manta_init ----> DRIVER <---- manta_init ---- OVER
 *     |                          |  '---- manta_shutdown ----^
 *     | a zygote's child         | fork                         A worker stays one until its process ends.
 *     v                          v
 *   WORKER ------ fork ------> FORKED   (a child of such a process: nothing here is its own; see lib_is_forked)
 */
enum lib_role {
    LIB_NONE = 0,
    LIB_DRIVER = 1,
    LIB_WORKER = 2,
    LIB_OVER = 3,
    LIB_FORKED = 4,
    LIB_ROLES = 5,
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

enum { LIB_AHEAD_LISTS = 3 }; /* one of each state */
struct lib_ahead {            /* ahead.c: values of other nodes that are on their way here before anybody reads them */
    mt_map all;               /* value's id -> struct ahead */
    struct lib_ahead_list {
        struct ahead *first, **last; /* valid while there are some */
        uint32_t      count;
    } lists[LIB_AHEAD_LISTS];
};

enum { LIB_UNHEARD_MAX = 16 };
struct lib_unheard { /* of one function */
    bool     is_used;
    char     function[64];
    uint64_t more, said_ns; /* failures that were not told; when some were last */
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
    int                      socket;
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
    struct lib_ahead ahead;
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
    manta_error_fn     on_error; /* of failures that nobody has asked for; NULL: they are printed */
    void              *on_error_user;
    struct lib_unheard unheard[LIB_UNHEARD_MAX]; /* what was printed; the last one stands for all other functions, too */
    uint64_t           unheard_more;             /* of all, not yet told */
    struct lib_inline *inlined;                  /* MANTA_INLINE=1; else NULL */
    struct lib_here   *here;            /* in the place of a lane for tasks that this process runs itself; NULL: none yet */
    const char        *stack_base;      /* worker: where the stack of the thread that runs tasks begins, ... */
    size_t             stack_bytes;     /* ... and how much of it may be in use when one more task is begun on it */
    int64_t            lease_cpu_milli; /* worker: CPUs of its lease */
    uint32_t           lease_gpus;
    mt_id              group;    /* worker: placement group of its lease; zero: none */
    mt_id              captured; /* the same, where what its tasks submit belongs to it; zero: it does not */
    bool               is_actors_lease;
    MT_VEC(void *) killed_states;        /* of actors, inline: lost on purpose, and no leak that a sanitizer is to report */
    struct lib_private *private_cluster; /* what manta_init started; NULL: a cluster of others */
    int                 watch_fd;        /* closes with us, so that it ends; -1: there is none */
    int                 hold_fd;         /* on its folder, until its raylet has one; -1: none */
    manta_ctx          *running;         /* worker: the task of the main thread; a concurrent actor has none */
    uint64_t            begun;           /* worker: tasks and methods, but not questions of LIB_QUIET */
    struct {
        uint64_t function; /* hash of the name as which ps, top and perf show this process, ... */
        uint64_t until_ns; /* ... and until when at least */
    } named;
    bool     runs_once;     /* worker: as its park page says */
    uint32_t calls_waiting; /* worker: running tasks and calls that wait inside the library */
    uint64_t env;           /* key of the environment that our tasks are in unless they say otherwise; 0: none */
    char     code[4096];    /* path of the .so that it loads; "": none */
    bool     has_set_checksum, has_set_lineage; /* manta_init: the environment variables of these options */
    bool     is_warden;                         /* driver: of a detached actor */
    bool     is_retiring;                       /* worker: a function has run max_calls times here; it takes nothing more */
};

extern struct lib lib;

/* ---- enter.c ---- */
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
/* Fails every later call; the library never ends the process. A worker ends. */
void lib_break(int32_t code, const char *text);
/* Tells the raylet why this worker, which has run nothing yet, leaves: some in a row, and it starts no more. */
void lib_unable(int fd, int32_t code, const char *text);

/* ---- state.c ---- */
/* One step of the drawing above; any other is a fault of ours. */
void lib_role_set(enum lib_role role);
/* Whether the library can be used: 0 ---- code: every call fails with it ----> code ---- 0, as the job ends ----> 0. Who breaks it
 * calls lib_break, but for manta_shutdown, which has nobody to wake. */
void lib_broken_set(int32_t code, const char *text);
void lib_disconnect(void);
void lib_fd_close(int *fd); /* -1: there is none; is -1 afterwards */
/* False inside a callback: nothing may wait there. */
bool lib_may_wait(void);
/* The calling thread is in a callback from now on, or not; what it was before. */
bool lib_callback_enter(bool on);
/* How often something is tried again, from an option of the user's: < 0 is without limit. */
static inline int32_t lib_tries(int asked, int32_t when_zero)
{
    return asked == 0 ? when_zero : asked == MANTA_WITHOUT_LIMIT ? -1 : asked < 0 ? 0 : asked;
}

/* ---- error.c ---- */
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
