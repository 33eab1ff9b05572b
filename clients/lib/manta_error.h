/* SPDX-License-Identifier: Apache-2.0
 *
 * manta_error.h - status codes, the error struct, and what else every public header of Manta shares.
 */
#ifndef MANTA_ERROR_H
#define MANTA_ERROR_H

#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MANTA_API __attribute__((visibility("default")))

enum { MANTA_FOREVER = -1 }; /* a timeout_ms: no limit of the caller's own (deaths still end the wait) */

/* What the calls check of their caller:
 *   Handles (manta_ref, manta_actor, ..., and `hold` in views and buffers) are numbers, not addresses. A handle that was freed, is
 *   of another kind or process, or never was one gives MANTA_EHANDLE, and nothing is touched. A number is used again only after
 *   2^32 further handles in its place; until then a freed handle is never taken for a new one.
 *   After fork (or clone) every call in the child gives MANTA_EFORKED, and nothing of the parent is touched. The child may exec.
 *   No call but manta_status_name is async-signal-safe. A signal handler that has interrupted a call of Manta gets
 *   MANTA_EDEADLK from another one. A handler that has interrupted malloc is not detected. Let handlers set a flag, or write to a
 *   pipe. */

/* 0 is success. The headings say what the caller does next. */
typedef int manta_status;
enum {
    MANTA_OK = 0,
    /* change the request */
    MANTA_EINVAL = 1,
    MANTA_ETYPE = 2,          /* argument count or type does not match the signature */
    MANTA_ENOFUNC = 3,        /* no such remote function or actor; the message lists near names */
    MANTA_EUNSCHEDULABLE = 4, /* no node can ever satisfy the request; the message says which resource */
    MANTA_EWRONGJOB = 5,      /* the value is in the store of a job of another user (--job-users) */
    MANTA_ENOENT = 6,
    MANTA_EEXIST = 7,
    MANTA_ETASK = 8, /* the user's function reported an error: see user_code */
    MANTA_ECANCELLED = 9,
    MANTA_EDEADLK = 10,
    MANTA_EEND = 11,    /* a generator has no further item */
    MANTA_EHANDLE = 12, /* a handle that was freed before, or is none: the message names the call */
    MANTA_EFORKED = 13, /* this process was forked from one that uses Manta, and only its parent may call it */
    MANTA_EENV = 14,    /* a step of the runtime environment failed; the message names the step and the node */
    /* somebody died */
    MANTA_EWORKER_DIED = 20,
    MANTA_EACTOR_DIED = 21,
    MANTA_EOWNER_DIED = 22,
    MANTA_EOBJ_LOST = 23,
    MANTA_ENODE_DIED = 24,
    MANTA_EPG_REMOVED = 25, /* the placement group of the task or actor was removed, or its job has ended */
    MANTA_EPREEMPTED = 26,  /* its node was drained, and the limit passed; only of what may not run twice (MANTA_NO_RETRY) */
    /* wait, or relieve the node, and try again */
    MANTA_ETIMEDOUT = 40,
    MANTA_EAGAIN = 41,
    MANTA_ENOMEM = 42,
    MANTA_ESTORE_FULL = 43,
    MANTA_EDISK_FULL = 44,
    MANTA_ECONN = 45,
    MANTA_ENOTLEADER = 47, /* this head stands by, and knows of none that leads, or not this token */
    MANTA_EOOM = 46,       /* the node was short of memory and stopped the task, as often as it was tried */
    /* the other side is not what we expect */
    MANTA_EPROTO = 60,
    MANTA_EAUTH = 61,
    MANTA_EVERSION = 62,
    MANTA_EFENCED = 63,
    MANTA_ECORRUPT = 64,
    /* ours, the system's, the device's */
    MANTA_EINTERNAL = 80,
    MANTA_ESYS = 81,
    MANTA_EDEVICE = 82,
    MANTA_EUNSUPPORTED = 83
};

/* "ETIMEDOUT" for MANTA_ETIMEDOUT, as the command line prints it; "UNKNOWN" for a number that is no code. Static, never NULL. Any
 * thread, at any time; async-signal-safe. */
MANTA_API const char *manta_status_name(manta_status code);

/* Whether what was asked for has happened. NOT_DONE is a promise: it did not begin, and never will, so asking again does not do
 * it twice. UNKNOWN: it may have happened, or may go on. A get says UNKNOWN where it gave up waiting (ETIMEDOUT), and where the
 * outcome was lost with the raylet of this node (ECONN).
 *
 * A driver's job ends with that raylet: every later call fails with ECONN, except that values which are in this process can still
 * be read. Each submit after the first 64 waits 10 ms before it fails, so a loop that tries again does not fill a core. To go on,
 * call manta_shutdown, then manta_init until it succeeds: the process joins with a new job. What is left of the old one then:
 *   refs with values of at most MANTA_INLINE_MAX bytes that were there, and refs that had failed: as they were; they can be read,
 *     and be arguments in the new job (refs that such a value declares are not found in it any more);
 *   refs with larger values: EOBJ_LOST. They stood in the object store, and are not made again;
 *   refs whose value had not come: ECONN, e->outcome as above; generators: the same, or EOBJ_LOST where items were not taken;
 *   handles of actors: EACTOR_DIED. Detached actors live on, and are found by name;
 *   placement groups (they go when the head hears of the old job's end), runtime environments, regions, buffers that were not
 *     sealed: not to be used any more, only freed;
 *   callbacks, watches, the event descriptor: over, nothing is called any more. */
enum { MANTA_NOT_DONE = 0, MANTA_DONE = 1, MANTA_UNKNOWN = 2 };

/* Fixed size, no allocation, every string NUL-terminated. Unused fields are 0 or "". */
typedef struct manta_error {
    manta_status code;
    int32_t      user_code;     /* MANTA_ETASK: what the function gave to manta_fail */
    int32_t      outcome;       /* MANTA_NOT_DONE, MANTA_DONE or MANTA_UNKNOWN */
    int32_t      pid;           /* of the process that failed */
    int32_t      attempt;       /* of the task, from 0 */
    int32_t      signal_number; /* that killed the worker, 0 if none */
    char         function[64];  /* or actor.method */
    char         node[64];
    char         task[40];        /* id */
    char         where[96];       /* file:line or symbol, where known */
    char         message[512];    /* one or two sentences: what was wrong, where, what to do */
    char         backtrace[1536]; /* of a worker that crashed: one frame a line */
    uint64_t     reserved[8];
} manta_error;

/* manta_init_opts.on_error: `count` calls of first->function have failed, and nobody has asked for their results; this is the first
 * of them. The error is the library's, and valid until the function returns. */
typedef void (*manta_error_fn)(void *user, const manta_error *first, uint64_t count);

/* Prints the error to stderr in two lines (and the backtrace, if there is one). Returns the code: `return
 * manta_perror(&e);` ends main with it. */
static inline int manta_perror(const manta_error *e)
{
    fprintf(stderr, "manta: %s (%d): %s\n", manta_status_name(e->code), e->code, e->message);
    if (e->pid)
        fprintf(stderr, "manta:   in %s, node %s, pid %d, attempt %d, task %s\n", e->function, e->node, e->pid, e->attempt,
                e->task);
    else if (e->function[0]) /* it has run nowhere, or nobody knows where */
        fprintf(stderr, "manta:   in %s%s%s, task %s\n", e->function, e->node[0] ? ", node " : "", e->node, e->task);
    if (e->backtrace[0])
        fprintf(stderr, "%s", e->backtrace);
    return e->code;
}

#ifdef __cplusplus
}
#endif
#endif
