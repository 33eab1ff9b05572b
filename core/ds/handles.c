/* SPDX-License-Identifier: Apache-2.0
 *
 * handles.c - see handles.h.
 *
 *   63 ...... 32 31 .. 28 27 ......... 0
 *   generation   kind     place
 *
 * The same as in clients/lib/shell/handles, so a handle of one library is none of another's, by its kind.
 */
#include "core/ds/handles.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { KIND_SHIFT = 28, PLACES_MAX = 1 << 16, PLACES_FIRST = 16 };

/* Free for the next handle where it is not open and no call is under way. */
struct mt_handle_slot {
    bool                is_open;
    enum mt_handle_kind kind;
    uint32_t            generation; /* of the handle that it has or had; the next one has the next */
    uint32_t            calls;      /* under way, all of `thread` */
    pthread_t           thread;
    void               *object;
};

static void *handle_of(const struct mt_handles *h, const struct mt_handle_slot *slot)
{
    return (void *)(uintptr_t)((uint64_t)slot->generation << 32 | (uint64_t)slot->kind << KIND_SHIFT | (uint64_t)(slot - h->slots));
}

static struct mt_handle_slot *slot_of(const struct mt_handles *h, const void *handle)
{
    uint32_t place = (uint32_t)(uintptr_t)handle & ((1u << KIND_SHIFT) - 1);
    return place < h->count && handle_of(h, &h->slots[place]) == handle ? &h->slots[place] : NULL;
}

static struct mt_handle_slot *open_of(const struct mt_handles *h, enum mt_handle_kind kind, const void *handle)
{
    struct mt_handle_slot *slot = slot_of(h, handle);
    return slot && slot->is_open && slot->kind == kind ? slot : NULL;
}

mt_status mt_handles_usable(const struct mt_handles *h)
{
    pid_t process = __atomic_load_n(&h->process, __ATOMIC_ACQUIRE);
    return !process || process == getpid() ? mt_ok() : mt_error(MT_EFORKED, 0, "handles");
}

static mt_status slot_find(struct mt_handles *h, struct mt_handle_slot **out)
{
    for (uint32_t i = 0; i < h->count; i++)
        if (!h->slots[i].is_open && !h->slots[i].calls && h->slots[i].generation < UINT32_MAX) { /* a number never comes back */
            *out = &h->slots[i];
            return mt_ok();
        }
    if (h->count == h->capacity) {
        uint32_t               capacity = h->capacity ? 2 * h->capacity : PLACES_FIRST;
        struct mt_handle_slot *more = capacity > PLACES_MAX ? NULL : realloc(h->slots, capacity * sizeof *more);
        if (!more)
            return mt_error(MT_ENOMEM, 0, "handles");
        h->slots = more;
        h->capacity = capacity;
    }
    h->slots[h->count] = (struct mt_handle_slot){0};
    *out = &h->slots[h->count++];
    return mt_ok();
}

mt_status mt_handle_new(struct mt_handles *h, enum mt_handle_kind kind, void *object, void **out_handle)
{
    struct mt_handle_slot *slot = NULL;
    MT_TRY(mt_handles_usable(h));
    pthread_mutex_lock(&h->lock);
    mt_status st = slot_find(h, &slot);
    if (!st.code) {
        *slot = (struct mt_handle_slot){.is_open = true, .kind = kind, .generation = slot->generation + 1, .object = object};
        *out_handle = handle_of(h, slot);
        __atomic_store_n(&h->process, getpid(), __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&h->lock);
    return st;
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
        *out_object = slot->object;
    }
    pthread_mutex_unlock(&h->lock);
    return st;
}

void *mt_handle_leave(struct mt_handles *h, const void *handle)
{
    void *over = NULL;
    pthread_mutex_lock(&h->lock);
    struct mt_handle_slot *slot = slot_of(h, handle);
    if (slot && slot->calls && --slot->calls == 0 && !slot->is_open)
        over = slot->object;
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
        slot->is_open = false;
        over = slot->calls ? NULL : slot->object;
    }
    pthread_mutex_unlock(&h->lock);
    return over;
}
