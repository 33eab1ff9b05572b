/* SPDX-License-Identifier: Apache-2.0
 *
 * living.c - see living.h.
 */
#include "core/ds/living.h"

#include <stdlib.h>

/* Where it stands, NULL: nowhere. Of NULL: a place that is free. */
static _Atomic(const void *) *place_of(struct mt_living *living, const void *object)
{
    struct mt_living_block *block = &living->first;
    for (; block; block = atomic_load_explicit(&block->next, memory_order_acquire))
        for (int i = 0; i < MT_LIVING_BLOCK; i++)
            if (atomic_load_explicit(&block->at[i], memory_order_acquire) == object)
                return &block->at[i];
    return NULL;
}

mt_status mt_living_add(struct mt_living *living, const void *object)
{
    mt_status st = mt_ok();
    pthread_mutex_lock(&living->lock);
    _Atomic(const void *) *place = place_of(living, NULL);
    if (!place) {
        struct mt_living_block *more = calloc(1, sizeof *more);
        if (more) {
            atomic_store_explicit(&more->next, atomic_load(&living->first.next), memory_order_relaxed);
            atomic_store_explicit(&living->first.next, more, memory_order_release);
            place = &more->at[0];
        }
    }
    if (place)
        atomic_store_explicit(place, object, memory_order_release);
    else
        st = mt_error(MT_ENOMEM, 0, "objects of the user's");
    pthread_mutex_unlock(&living->lock);
    return st;
}

bool mt_living_has(struct mt_living *living, const void *object)
{
    return object && place_of(living, object);
}

bool mt_living_remove(struct mt_living *living, const void *object)
{
    pthread_mutex_lock(&living->lock);
    _Atomic(const void *) *place = object ? place_of(living, object) : NULL;
    if (place)
        atomic_store_explicit(place, NULL, memory_order_release);
    pthread_mutex_unlock(&living->lock);
    return place != NULL;
}
