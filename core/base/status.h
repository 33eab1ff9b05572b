/* SPDX-License-Identifier: Apache-2.0
 *
 * status.h - how every internal function reports failure: a value in two registers.
 *
 * Codes are the numbers of the public MANTA_E... (clients/lib/manta.h asserts that they agree), grouped by what
 * the caller does next. The function that first decides on an error logs it; everyone above passes it on.
 */
#ifndef MT_BASE_STATUS_H
#define MT_BASE_STATUS_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, number, text). The text is for people, and stands alone. */
/* clang-format off */
#define MT_CODES(X)                                                                                  \
    X(OK, 0, "success")                                                                              \
    /* fail this request: the caller must change it */                                               \
    X(EINVAL, 1, "invalid argument")                                                                 \
    X(ETYPE, 2, "argument count or type does not match the signature")                               \
    X(ENOFUNC, 3, "no such remote function or actor")                                                \
    X(EUNSCHEDULABLE, 4, "no node can ever satisfy the request")                                     \
    X(EWRONGJOB, 5, "the value belongs to a job of another user")                                    \
    X(ENOENT, 6, "not found")                                                                        \
    X(EEXIST, 7, "already exists")                                                                   \
    X(ETASK, 8, "the user's function reported an error")                                             \
    X(ECANCELLED, 9, "cancelled")                                                                    \
    X(EDEADLK, 10, "would wait for itself")                                                          \
    X(EEND, 11, "there is no further item")                                                          \
    X(EHANDLE, 12, "the handle was freed before, or is none")                                        \
    X(EFORKED, 13, "a forked child may not call Manta")                                              \
    X(EENV, 14, "the runtime environment cannot be made")                                            \
    /* somebody died */                                                                              \
    X(EWORKER_DIED, 20, "the worker process died")                                                   \
    X(EACTOR_DIED, 21, "the actor is dead")                                                          \
    X(EOWNER_DIED, 22, "the owner of the object died")                                               \
    X(EOBJ_LOST, 23, "every copy of the object is lost")                                             \
    X(ENODE_DIED, 24, "the node died")                                                               \
    X(EPG_REMOVED, 25, "the placement group was removed")                                            \
    X(EPREEMPTED, 26, "the node was drained, and its limit passed")                                  \
    /* wait, or relieve the node, and try again */                                                   \
    X(ETIMEDOUT, 40, "the wait's limit passed")                                                      \
    X(EAGAIN, 41, "a bound was reached; try again later")                                            \
    X(ENOMEM, 42, "out of memory")                                                                   \
    X(ESTORE_FULL, 43, "the object store is full")                                                   \
    X(EDISK_FULL, 44, "the disk is full")                                                            \
    X(EOOM, 46, "the node was short of memory and stopped the task")                                 \
    X(ECONN, 45, "the connection is down")                                                           \
    X(ENOTLEADER, 47, "another head leads the cluster")                                              \
    /* drop this peer */                                                                             \
    X(EPROTO, 60, "a peer broke the protocol")                                                       \
    X(EAUTH, 61, "the token is missing or wrong")                                                    \
    X(EVERSION, 62, "versions do not match")                                                         \
    X(EFENCED, 63, "from an earlier epoch or incarnation")                                           \
    X(ECORRUPT, 64, "a checksum or a format check failed")                                           \
    /* ours, the system's, the device's */                                                           \
    X(EINTERNAL, 80, "an internal check failed")                                                     \
    X(ESYS, 81, "a system call failed")                                                              \
    X(EDEVICE, 82, "the device failed")                                                              \
    X(EUNSUPPORTED, 83, "not supported")
/* clang-format on */

enum mt_code {
#define X(name, number, text) MT_##name = number,
    MT_CODES(X)
#undef X
};

typedef struct mt_status {
    int32_t     code; /* enum mt_code; 0 is success */
    int32_t     sys;  /* errno, cudaError_t, ... behind code; 0 if none */
    const char *what; /* string literal: the step that failed; never freed */
} mt_status;
static_assert(sizeof(mt_status) == 16, "returned in two registers");

#define MT_MUST_USE          __attribute__((warn_unused_result))
#define MT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define MT_NORETURN          __attribute__((noreturn))
#define MT_LIKELY(x)         __builtin_expect(!!(x), 1)
#define MT_UNLIKELY(x)       __builtin_expect(!!(x), 0)

static inline mt_status mt_ok(void)
{
    mt_status st = {0, 0, NULL};
    return st;
}

static inline mt_status mt_error(int32_t code, int32_t sys, const char *what)
{
    mt_status st = {code, sys, what};
    return st;
}

/* Passes a failure up where nothing is held. */
#define MT_TRY(expr) \
    do { \
        mt_status mt_try_st_ = (expr); \
        if (mt_try_st_.code != 0) \
            return mt_try_st_; \
    } while (0)

/* Passes a failure to the label that undoes what is held. */
#define MT_TRY_GOTO(st, expr, label) \
    do { \
        (st) = (expr); \
        if ((st).code != 0) \
            goto label; \
    } while (0)

/* The text of a code, never NULL; "unknown code" for a number that is none of ours. */
const char *mt_code_text(int32_t code);
/* The name of a code ("ETIMEDOUT"), never NULL. */
const char *mt_code_name(int32_t code);

/* Our own bugs only; on in every build. What a peer, a file or a retry can cause returns a status instead.
 * The hook decides what a failed check does: daemons abort, libmanta poisons itself and returns MT_EINTERNAL. */
typedef void (*mt_assert_hook)(const char *expr, const char *file, int line);
void mt_assert_set_hook(mt_assert_hook hook);
void mt_assert_fail(const char *expr, const char *file, int line);
#define MT_ASSERT(expr) \
    do { \
        if (MT_UNLIKELY(!(expr))) \
            mt_assert_fail(#expr, __FILE__, __LINE__); \
    } while (0)

#define mt_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
