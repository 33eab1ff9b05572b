/* SPDX-License-Identifier: Apache-2.0
 *
 * living.h - which objects a library's user may name by a pointer: one that was freed before, or never was one, is told from
 * them before anything behind it is touched.
 *
 * For what a user holds as a pointer, since he reads its fields or it is lent to him. Where he holds only a name, handles.h
 * does more: here, an object that came to stand where a freed one stood is taken for it.
 *
 * Owns: the table, of a few pages at most, which is never freed. Zeroed it is empty. Thread: any; mt_living_has takes no lock.
 */
#ifndef MT_LIVING_H
#define MT_LIVING_H

#include "core/base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MT_LIVING_BLOCK = 62 };

struct mt_living_block {
    _Atomic(const void *)             at[MT_LIVING_BLOCK];
    _Atomic(struct mt_living_block *) next;
};
struct mt_living {
    pthread_mutex_t        lock;
    struct mt_living_block first;
};
#define MT_LIVING_INIT \
    { \
        .lock = PTHREAD_MUTEX_INITIALIZER \
    }

/* The object may be named from now on. ENOMEM. */
MT_MUST_USE mt_status mt_living_add(struct mt_living *living, const void *object);
/* Whether it may. */
bool mt_living_has(struct mt_living *living, const void *object);
/* No longer. False: it was not there, and is not the caller's to free. */
bool mt_living_remove(struct mt_living *living, const void *object);

#endif
