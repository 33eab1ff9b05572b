/* SPDX-License-Identifier: Apache-2.0
 *
 * handles.h - what a library's user holds in place of pointers: numbers that are checked before anything behind them is touched.
 *
 * A number holds its place, its kind and a generation, so one that was closed, is another's or never was one is told from a living
 * one. While a thread is inside a call with a handle, no other one may begin a call with it; the thread itself may, from a
 * callback. What is closed meanwhile lives until the outermost call ends. Where a call may not cost a lock, mt_handle_look tells
 * the same of a handle, and nothing of threads.
 *
 * Owns: the table. Thread: any.
 */
#ifndef MT_HANDLES_H
#define MT_HANDLES_H

#include "core/base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

/* 1 to 8 are libmanta's own (clients/lib/shell/handles): no two libraries have one in common. */
enum mt_handle_kind {
    MT_HANDLE_CLIENT = 9,
    MT_HANDLE_GROUP = 10, /* of collectives: this and the next three */
    MT_HANDLE_MEMBER = 11,
    MT_HANDLE_REQUEST = 12,
    MT_HANDLE_GPU = 13,
};
enum { MT_HANDLE_BLOCKS = 20 };

struct mt_handle_slot;
struct mt_handles {
    pthread_mutex_t                  lock;
    pid_t                            process; /* that made the first of them; 0: none yet */
    _Atomic(struct mt_handle_slot *) blocks[MT_HANDLE_BLOCKS];
    struct mt_handle_slot           *free;
    uint32_t                         count; /* of slots that were ever used */
};
#define MT_HANDLES_INIT \
    { \
        .lock = PTHREAD_MUTEX_INITIALIZER \
    }

/* EFORKED: this process was forked from one that has used the table. */
MT_MUST_USE mt_status mt_handles_usable(const struct mt_handles *handles);
/* A handle for `object`, until mt_handle_close. EFORKED, ENOMEM. */
MT_MUST_USE mt_status mt_handle_new(struct mt_handles *handles, enum mt_handle_kind kind, void *object, void **out_handle);
/* A call with it begins. EINVAL (NULL), EHANDLE (closed before, of another kind, or none), EFORKED, EAGAIN (another thread is
 * inside a call with it). */
MT_MUST_USE mt_status mt_handle_enter(struct mt_handles *handles, enum mt_handle_kind kind, const void *handle, void **out_object);
/* It ends. Gives what is to be freed now: NULL, or the object, since it was closed meanwhile. */
void *mt_handle_leave(struct mt_handles *handles, const void *handle);
/* What a handle names, without a lock: for a call that holds its object by other means. NULL: closed before, of another kind, or
 * none. */
void *mt_handle_look(const struct mt_handles *handles, enum mt_handle_kind kind, const void *handle);
/* It names nothing from now on. Gives what is to be freed now: the object; NULL where a call with it has not ended, or it is no
 * such handle (any more). */
void *mt_handle_close(struct mt_handles *handles, enum mt_handle_kind kind, const void *handle);

#endif
