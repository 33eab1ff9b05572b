/* SPDX-License-Identifier: Apache-2.0
 *
 * living.h - objects that a library's user names by a pointer: one that was freed before, or never was one, is told from them
 * before anything behind it is touched.
 *
 * For what a user holds as a pointer, since he reads its fields or it is lent to him. Where he holds only a name, handles.h is the
 * cheaper way. The address is the generation: each object gets pages of its own, and addresses go round in a ring of 4 GiB (less
 * where the process may have few), so an object comes to stand where a freed one stood after a million others at the earliest. A
 * field that is read after the free is a fault of its own (SIGSEGV), and no rubbish.
 *
 * Owns: the ring and the table, which are never given back. Zeroed it is empty. Thread: any; mt_living_has takes no lock.
 */
#ifndef MT_LIVING_H
#define MT_LIVING_H

#include "core/ds/range.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MT_LIVING_BLOCK = 20 };

/* Free where it has no memory. */
struct mt_living_place {
    _Atomic(const void *) object; /* NULL: it may not be named any more */
    char                 *memory;
    size_t                size;
};
struct mt_living_block {
    struct mt_living_place            at[MT_LIVING_BLOCK];
    _Atomic(struct mt_living_block *) next;
};
struct mt_living {
    pthread_mutex_t        lock;
    struct mt_range        ring;
    size_t                 turn; /* where the next object is looked for */
    struct mt_living_block first;
};
#define MT_LIVING_INIT \
    { \
        .lock = PTHREAD_MUTEX_INITIALIZER \
    }

/* Zeroed memory of an object that may be named from now on. NULL: no memory. */
void *mt_living_new(struct mt_living *living, size_t size);
/* Whether it may. */
bool mt_living_has(struct mt_living *living, const void *object);
/* No longer; its memory stays until mt_living_free. False: it was not there, and is not the caller's to free. */
bool mt_living_remove(struct mt_living *living, const void *object);
/* Gives the memory of one back that was removed, or is still there. NULL is allowed. */
void mt_living_free(struct mt_living *living, void *object);

#endif
