/* SPDX-License-Identifier: Apache-2.0
 *
 * handles.h - what the user holds: numbers that are checked before anything behind them is touched.
 *
 *   63 ............ 32 31 .. 28 27 ......... 0
 *   generation         kind     number           of a reference: its place in the owner's range; of all others: a slot here
 *   code of an error   0        0                what stands for an error that had no memory, or no library, for more
 *
 * Thread: under the owner lock; without it only who alone has that handle looks it up.
 */
#ifndef LIB_HANDLES_H
#define LIB_HANDLES_H

#include "clients/lib/manta.h"
#include "clients/lib/owner/own.h"

#include <stdatomic.h>

enum lib_kind {
    LIB_OF_NOTHING = 0,
    LIB_OF_REF = 1,
    LIB_OF_ACTOR = 2,
    LIB_OF_GENERATOR = 3,
    LIB_OF_VIEW = 4,
    LIB_OF_BUFFER = 5,
    LIB_OF_PG = 6,
    LIB_OF_ENV = 7,
    LIB_OF_GROUP = 8,
    LIB_KINDS = 9,
};
enum { LIB_HANDLE_BITS = OWN_REF_BITS, LIB_SLOTS_MAX = 1 << LIB_HANDLE_BITS };

static inline uint64_t lib_handle_make(uint32_t generation, enum lib_kind kind, uint32_t number)
{
    return (uint64_t)generation << 32 | (uint64_t)kind << LIB_HANDLE_BITS | number;
}
/* The number; one that is too large for any where the handle is of another kind. */
static inline uint32_t lib_handle_number(const void *handle, enum lib_kind kind)
{
    return (uint32_t)(uintptr_t)handle - ((uint32_t)kind << LIB_HANDLE_BITS);
}
static inline uint32_t lib_handle_generation(const void *handle)
{
    return (uint32_t)((uint64_t)(uintptr_t)handle >> 32);
}

/* ---- errors: no lock ---- */
/* A handle that stands for an error. */
static inline void *lib_handle_error(manta_status code)
{
    return (void *)(uintptr_t)((uint64_t)(uint32_t)code << 32);
}
static inline manta_status lib_handle_code(const void *handle)
{
    return handle && (uint32_t)(uintptr_t)handle == 0 ? (manta_status)lib_handle_generation(handle) : MANTA_OK;
}
/* The text of a handle that stands for an error. */
const char *lib_handle_text(manta_status code);
/* Why `call` can't use it: EINVAL (NULL), EHANDLE, or the code of an error that it stands for. */
manta_status lib_handle_wrong(const void *handle, enum lib_kind kind, const char *call, manta_error *e);

/* ---- all but references ---- */
struct lib_slot {
    uint64_t handle; /* as the user has it; free: only its upper half, of the next one */
    union {
        void            *object;
        struct lib_slot *next_free;
    } is;
};
struct lib_slots {
    mt_range          memory; /* never moved, never freed */
    _Atomic(uint32_t) count;
    struct lib_slot  *first_free;
};
extern struct lib_slots lib_slots;
bool                    lib_slots_refill(void);

static inline struct lib_slot *lib_slot_of(const void *handle, enum lib_kind kind)
{
    uint32_t         number = lib_handle_number(handle, kind);
    struct lib_slot *slot;
    if (MT_UNLIKELY(number >= atomic_load_explicit(&lib_slots.count, memory_order_acquire)))
        return NULL;
    slot = (struct lib_slot *)lib_slots.memory.base + number;
    return MT_LIKELY(slot->handle == (uintptr_t)handle) ? slot : NULL;
}
/* A handle of its own for `object`; NULL: no memory. */
static inline void *lib_handle_new(enum lib_kind kind, void *object)
{
    struct lib_slot *slot = lib_slots.first_free;
    if (MT_UNLIKELY(!slot)) {
        if (!lib_slots_refill())
            return NULL;
        slot = lib_slots.first_free;
    }
    lib_slots.first_free = slot->is.next_free;
    slot->is.object = object;
    slot->handle |= lib_handle_make(0, kind, (uint32_t)(slot - (struct lib_slot *)lib_slots.memory.base));
    return (void *)(uintptr_t)slot->handle;
}
/* What it names; NULL: it was taken back, or is none of this kind. */
static inline void *lib_handle_of(const void *handle, enum lib_kind kind)
{
    const struct lib_slot *slot = lib_slot_of(handle, kind);
    return slot ? slot->is.object : NULL;
}
/* The same, and it names nothing from now on. */
static inline void *lib_handle_end(const void *handle, enum lib_kind kind)
{
    struct lib_slot *slot = lib_slot_of(handle, kind);
    void            *object = slot ? slot->is.object : NULL;
    if (!slot)
        return NULL;
    slot->handle = lib_handle_make(lib_handle_generation(handle) + 1, LIB_OF_NOTHING, 0);
    slot->is.next_free = lib_slots.first_free;
    lib_slots.first_free = slot;
    return object;
}

/* ---- references ---- */
void lib_handle_again(struct own_ref *ref);
/* The caller's hold of `ref` becomes the user's. */
static inline manta_ref *lib_handle_ref(struct own *own, struct own_ref *ref)
{
    if (MT_UNLIKELY(ref->handles))
        lib_handle_again(ref);
    else
        ref->handles = 1;
    return (manta_ref *)(uintptr_t)lib_handle_make(ref->generation, LIB_OF_REF, own_ref_number(own, ref));
}
static inline struct own_ref *lib_ref_in(const struct own *own, const manta_ref *handle)
{
    return own_ref_find(own, lib_handle_number(handle, LIB_OF_REF), lib_handle_generation(handle));
}
/* One handle of the user's goes. False: it is none. */
static inline bool lib_ref_end(struct own *own, const manta_ref *handle)
{
    struct own_ref *ref = lib_ref_in(own, handle);
    if (MT_UNLIKELY(!ref || !ref->handles)) /* none: a handle that nobody was given yet */
        return false;
    if (MT_LIKELY(ref->handles == 1)) {
        ref->handles = 0;
        ref->generation++;
        own_ref_drop(own, ref);
    } else if (ref->handles < OWN_HANDLES_MAX) {
        ref->handles--;
    }
    return true;
}
/* For a public call: what it names, or the call's error in *e. */
manta_status lib_ref(const manta_ref *handle, const char *call, struct own_ref **out, manta_error *e);

/* ---- given.c: what a call gives back ---- */
manta_ref *lib_failed_ref(const struct own_failure *f);
/* The failed ref of a call whose options have a word of `reserved` set. Takes the owner lock. */
manta_ref *lib_reserved_ref(const char *call);
/* Under the lock: what was submitted (`ref`, and call->more) becomes the user's; NULL: all of it fails with *f. NULL of a
 * generator, whose stream has its end. */
manta_ref *lib_called(const struct own_call *call, struct own_ref *ref, const struct own_failure *f);
/* Without the lock: the call can't be made. */
manta_ref *lib_refused_call(const struct own_call *call, manta_status code);

#endif
