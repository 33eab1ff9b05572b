/* SPDX-License-Identifier: Apache-2.0
 *
 * handles.c - see handles.h.
 *
 *   63 ...... 32 31 .. 28 27 ......... 0
 *   generation   kind     place
 *
 * The same as in clients/lib/shell/handles, so a handle of one library is none of another's, by its kind.
 *
 * Slots stand in blocks, each twice as large as the one before, that never move: mt_handle_look reads them without the lock.
 */
#include "core/ds/handles.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { KIND_SHIFT = 28, BLOCK_FIRST = 16, PLACES_MAX = BLOCK_FIRST * ((1 << MT_HANDLE_BLOCKS) - 1) };

/* Free for the next handle where it is not open and no call is under way. */
struct mt_handle_slot {
    _Atomic(void *)        open;   /* the handle that names it; NULL: none does */
    _Atomic(void *)        object; /* written only while `open` is NULL */
    void                  *last;   /* the handle that it has or had; the next one has the next generation */
    struct mt_handle_slot *next;   /* of the free ones */
    uint32_t               calls;  /* under way, all of `thread` */
    pthread_t              thread;
};

static uint32_t place_of(const void *handle)
{
    return (uint32_t)(uintptr_t)handle & ((1u << KIND_SHIFT) - 1);
}

/* The slot of a place, whether it was ever used or not. NULL: there is none. */
static struct mt_handle_slot *slot_at(const struct mt_handles *h, uint32_t place)
{
    uint32_t number = place / BLOCK_FIRST + 1, block = 31 - (uint32_t)__builtin_clz(number);
    if (place >= PLACES_MAX)
        return NULL;
    struct mt_handle_slot *slots = atomic_load_explicit(&h->blocks[block], memory_order_acquire);
    return slots ? slots + (place - BLOCK_FIRST * ((1u << block) - 1)) : NULL;
}

/* The lock is held. */
static struct mt_handle_slot *slot_of(const struct mt_handles *h, const void *handle)
{
    struct mt_handle_slot *slot = handle ? slot_at(h, place_of(handle)) : NULL;
    return slot && slot->last == handle ? slot : NULL;
}

static bool is_of(const void *handle, enum mt_handle_kind kind)
{
    return ((uint32_t)(uintptr_t)handle >> KIND_SHIFT) == (uint32_t)kind;
}

static struct mt_handle_slot *open_of(const struct mt_handles *h, enum mt_handle_kind kind, const void *handle)
{
    struct mt_handle_slot *slot = slot_of(h, handle);
    return slot && is_of(handle, kind) && atomic_load_explicit(&slot->open, memory_order_relaxed) == handle ? slot : NULL;
}

mt_status mt_handles_usable(const struct mt_handles *h)
{
    pid_t process = __atomic_load_n(&h->process, __ATOMIC_ACQUIRE);
    return !process || process == getpid() ? mt_ok() : mt_error(MT_EFORKED, 0, "handles");
}

/* A slot that is free, and its place; `last` is of its former handle. */
static mt_status slot_find(struct mt_handles *h, struct mt_handle_slot **out, uint32_t *out_place)
{
    if (h->free) {
        *out = h->free;
        *out_place = place_of(h->free->last);
        h->free = h->free->next;
        return mt_ok();
    }
    *out_place = h->count;
    *out = slot_at(h, h->count);
    if (!*out) {
        uint32_t               block = 31 - (uint32_t)__builtin_clz(h->count / BLOCK_FIRST + 1);
        struct mt_handle_slot *slots = h->count < PLACES_MAX ? calloc((size_t)BLOCK_FIRST << block, sizeof *slots) : NULL;
        if (!slots)
            return mt_error(MT_ENOMEM, 0, "handles");
        atomic_store_explicit(&h->blocks[block], slots, memory_order_release);
        *out = slots;
    }
    h->count++;
    return mt_ok();
}

/* It is closed and no call is under way: the next handle may have it, unless its numbers are used up. */
static void *slot_free(struct mt_handles *h, struct mt_handle_slot *slot)
{
    void *object = atomic_load_explicit(&slot->object, memory_order_relaxed);
    if ((uint64_t)(uintptr_t)slot->last >> 32 < UINT32_MAX) {
        slot->next = h->free;
        h->free = slot;
    }
    return object;
}

mt_status mt_handle_new(struct mt_handles *h, enum mt_handle_kind kind, void *object, void **out_handle)
{
    struct mt_handle_slot *slot = NULL;
    uint32_t               place;
    MT_TRY(mt_handles_usable(h));
    pthread_mutex_lock(&h->lock);
    mt_status st = slot_find(h, &slot, &place);
    if (!st.code) {
        uint64_t generation = ((uint64_t)(uintptr_t)slot->last >> 32) + 1;
        slot->last = (void *)(uintptr_t)(generation << 32 | (uint64_t)kind << KIND_SHIFT | place);
        atomic_store_explicit(&slot->object, object, memory_order_release);
        atomic_store_explicit(&slot->open, slot->last, memory_order_release);
        *out_handle = slot->last;
        if (!h->process)
            __atomic_store_n(&h->process, getpid(), __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&h->lock);
    return st;
}

void *mt_handle_look(const struct mt_handles *h, enum mt_handle_kind kind, const void *handle)
{
    struct mt_handle_slot *slot = is_of(handle, kind) ? slot_at(h, place_of(handle)) : NULL;
    if (!slot || atomic_load_explicit(&slot->open, memory_order_acquire) != handle)
        return NULL;
    void *object = atomic_load_explicit(&slot->object, memory_order_acquire);
    return atomic_load_explicit(&slot->open, memory_order_relaxed) == handle ? object : NULL; /* else it is another's by now */
}

mt_status mt_handle_enter(struct mt_handles *h, enum mt_handle_kind kind, const void *handle, void **out_object)
{
    mt_status st = handle ? mt_ok() : mt_error(MT_EINVAL, 0, "it is NULL");
    MT_TRY(st);
    MT_TRY(mt_handles_usable(h));
    pthread_mutex_lock(&h->lock);
    struct mt_handle_slot *slot = open_of(h, kind, handle);
    if (!slot) {
        st = mt_error(MT_EHANDLE, 0, "it was closed before, is of another kind, or never was one");
    } else if (slot->calls && !pthread_equal(slot->thread, pthread_self())) {
        st = mt_error(MT_EAGAIN, 0, "another thread is inside a call with it: make one for each thread");
    } else {
        slot->calls++;
        slot->thread = pthread_self();
        *out_object = atomic_load_explicit(&slot->object, memory_order_relaxed);
    }
    pthread_mutex_unlock(&h->lock);
    return st;
}

void *mt_handle_leave(struct mt_handles *h, const void *handle)
{
    void *over = NULL;
    pthread_mutex_lock(&h->lock);
    struct mt_handle_slot *slot = slot_of(h, handle);
    if (slot && slot->calls && --slot->calls == 0 && !atomic_load_explicit(&slot->open, memory_order_relaxed))
        over = slot_free(h, slot);
    pthread_mutex_unlock(&h->lock);
    return over;
}

void *mt_handle_close(struct mt_handles *h, enum mt_handle_kind kind, const void *handle)
{
    void *over = NULL;
    if (!handle || mt_handles_usable(h).code)
        return NULL;
    pthread_mutex_lock(&h->lock);
    struct mt_handle_slot *slot = open_of(h, kind, handle);
    if (slot) {
        atomic_store_explicit(&slot->open, NULL, memory_order_release);
        over = slot->calls ? NULL : slot_free(h, slot);
    }
    pthread_mutex_unlock(&h->lock);
    return over;
}
