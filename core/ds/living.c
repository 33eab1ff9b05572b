/* SPDX-License-Identifier: Apache-2.0
 *
 * living.c - see living.h.
 */
#include "core/ds/living.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { PAGE = 4096, LIMIT_SHARE = 64 };

#define RING_BYTES ((size_t)4 << 30)

/* ---- the table ---- */

static struct mt_living_place *place_of(struct mt_living *living, const void *object)
{
    struct mt_living_block *block = &living->first;
    for (; block; block = atomic_load_explicit(&block->next, memory_order_acquire))
        for (int i = 0; i < MT_LIVING_BLOCK; i++)
            if (atomic_load_explicit(&block->at[i].object, memory_order_acquire) == object)
                return &block->at[i];
    return NULL;
}

/* The first whose memory touches these bytes; of NULL: the first that is free. The lock is held. */
static struct mt_living_place *place_at(struct mt_living *living, const char *memory, size_t size)
{
    struct mt_living_block *block = &living->first;
    for (; block; block = atomic_load_explicit(&block->next, memory_order_relaxed))
        for (int i = 0; i < MT_LIVING_BLOCK; i++) {
            struct mt_living_place *place = &block->at[i];
            if (memory ? place->memory && place->memory < memory + size && memory < place->memory + place->size : !place->memory)
                return place;
        }
    return NULL;
}

static struct mt_living_place *place_free(struct mt_living *living)
{
    struct mt_living_place *place = place_at(living, NULL, 0);
    struct mt_living_block *more = place ? NULL : calloc(1, sizeof *more);
    if (place || !more)
        return place;
    atomic_store_explicit(&more->next, atomic_load(&living->first.next), memory_order_relaxed);
    atomic_store_explicit(&living->first.next, more, memory_order_release);
    return &more->at[0];
}

/* ---- the ring ---- */

static size_t ring_bytes(void)
{
    struct rlimit limit;
    bool          is_bound = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur / LIMIT_SHARE < RING_BYTES;
    return is_bound ? limit.rlim_cur / LIMIT_SHARE : RING_BYTES;
}

/* Addresses that nobody has, from the turn on. NULL: there are none. */
static char *ring_take(struct mt_living *living, size_t size)
{
    if (!living->ring.base && mt_range_grow(&living->ring, 0, ring_bytes()).code)
        return NULL;
    for (bool is_round = false;;) {
        char *memory = (char *)living->ring.base + living->turn;
        if (living->turn + size > living->ring.room) {
            if (is_round)
                return NULL;
            is_round = true;
            living->turn = 0;
            continue;
        }
        struct mt_living_place *there = place_at(living, memory, size);
        if (!there) {
            living->turn += size;
            return memory;
        }
        living->turn = (size_t)(there->memory + there->size - (char *)living->ring.base);
    }
}

/* ---- calls ---- */

void *mt_living_new(struct mt_living *living, size_t size)
{
    char *memory = NULL;
    size = (size + PAGE - 1) & ~(size_t)(PAGE - 1);
    pthread_mutex_lock(&living->lock);
    struct mt_living_place *place = place_free(living);
    if (place)
        memory = ring_take(living, size);
    if (memory && mprotect(memory, size, PROT_READ | PROT_WRITE))
        memory = NULL;
    if (memory) {
        place->memory = memory;
        place->size = size;
        atomic_store_explicit(&place->object, memory, memory_order_release);
    }
    pthread_mutex_unlock(&living->lock);
    return memory;
}

bool mt_living_has(struct mt_living *living, const void *object)
{
    return object && place_of(living, object);
}

bool mt_living_remove(struct mt_living *living, const void *object)
{
    pthread_mutex_lock(&living->lock);
    struct mt_living_place *place = object ? place_of(living, object) : NULL;
    if (place)
        atomic_store_explicit(&place->object, NULL, memory_order_release);
    pthread_mutex_unlock(&living->lock);
    return place != NULL;
}

/* Fresh pages over its own, which nobody may touch: zeroed when they are used again, and counted against no limit on memory. */
void mt_living_free(struct mt_living *living, void *object)
{
    pthread_mutex_lock(&living->lock);
    struct mt_living_place *place = object ? place_at(living, object, 1) : NULL;
    if (place) {
        atomic_store_explicit(&place->object, NULL, memory_order_release);
        if (mmap(place->memory, place->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
            MAP_FAILED)
            place->memory = NULL; /* else it is never used again */
    }
    pthread_mutex_unlock(&living->lock);
}
