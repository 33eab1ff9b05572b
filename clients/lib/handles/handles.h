/* SPDX-License-Identifier: Apache-2.0
 *
 * handles.h - what the user holds: numbers that are checked before anything behind them is touched.
 *
 * Thread: looking up, any; giving out and taking back, under the owner lock.
 */
#ifndef LIB_HANDLES_H
#define LIB_HANDLES_H

#include "clients/lib/manta.h"
#include "clients/lib/own.h"

enum lib_kind {
    LIB_OF_REF = 0, /* in the owner's slabs */
    LIB_OF_ACTOR = 1,
    LIB_OF_GENERATOR = 2,
    LIB_OF_VIEW = 3,
    LIB_OF_BUFFER = 4,
    LIB_OF_PG = 5,
    LIB_OF_ENV = 6,
    LIB_OF_GROUP = 7,
};

struct lib_slot {
    void    *object; /* NULL: free */
    uint32_t uses;   /* the handle's upper half */
    uint32_t next;   /* free: the next free slot's number; else its kind */
};
enum { LIB_SLOTS = 256, LIB_SLOT_CHUNKS = 1 << 16 };
struct lib_slots {
    uint32_t         chunk_count;
    uint32_t         first_free; /* number of a slot, from 1; 0: none */
    struct lib_slot *chunks[LIB_SLOT_CHUNKS]; /* never moved, never freed */
};
extern struct lib_slots lib_slots;
bool lib_slots_refill(void);

static inline struct lib_slot *lib_slot_at(uint32_t number)
{
    return &lib_slots.chunks[(number - 1) / LIB_SLOTS][(number - 1) % LIB_SLOTS];
}
static inline struct lib_slot *lib_slot_of(const void *handle, enum lib_kind kind)
{
    uint32_t         number = (uint32_t)(uintptr_t)handle, uses = (uint32_t)((uint64_t)(uintptr_t)handle >> 32);
    struct lib_slot *slot = number && (number - 1) / LIB_SLOTS < lib_slots.chunk_count ? lib_slot_at(number) : NULL;
    return slot && slot->object && slot->uses == uses && slot->next == (uint32_t)kind ? slot : NULL;
}

/* A handle of its own for `object`; NULL: no memory. */
static inline void *lib_handle_new(enum lib_kind kind, void *object)
{
    uint32_t         number = lib_slots.first_free;
    struct lib_slot *slot;
    if (!number && !lib_slots_refill())
        return NULL;
    number = lib_slots.first_free;
    slot = lib_slot_at(number);
    lib_slots.first_free = slot->next;
    slot->object = object;
    slot->next = kind;
    slot->uses += 1 + (slot->uses == UINT32_MAX);
    return (void *)(uintptr_t)((uint64_t)slot->uses << 32 | number);
}
/* What it names; NULL: it was taken back, or is none of this kind. */
static inline void *lib_handle_of(const void *handle, enum lib_kind kind)
{
    const struct lib_slot *slot = lib_slot_of(handle, kind);
    return slot ? slot->object : NULL;
}
/* The same, and it names nothing from now on. */
static inline void *lib_handle_end(const void *handle, enum lib_kind kind)
{
    struct lib_slot *slot = lib_slot_of(handle, kind);
    void            *object = slot ? slot->object : NULL;
    if (!slot)
        return NULL;
    slot->object = NULL;
    slot->next = lib_slots.first_free;
    lib_slots.first_free = (uint32_t)(uintptr_t)handle;
    return object;
}
/* A handle that stands for an error. */
void *lib_handle_error(manta_status code);
/* Why `call` can't use it: EINVAL (NULL), EHANDLE, or the code of an error that it stands for. */
manta_status lib_handle_wrong(const void *handle, enum lib_kind kind, const char *call, manta_error *e);
/* The text of a handle that stands for an error. */
const char *lib_handle_text(manta_status code);
static inline manta_status lib_handle_code(const void *handle)
{
    return handle && (uint32_t)(uintptr_t)handle == 0 ? (manta_status)((uint64_t)(uintptr_t)handle >> 32) : MANTA_OK;
}

/* ---- references: all under the owner lock ---- */
/* The caller's hold of `ref` becomes the user's. */
manta_ref *lib_handle_ref(struct own_ref *ref);
struct own_ref *lib_ref_of(const manta_ref *handle); /* NULL: as lib_handle_of */
/* The same for a public call: its error in *e. */
manta_status lib_ref(const manta_ref *handle, const char *call, struct own_ref **out, manta_error *e);
/* The user's hold goes. EHANDLE: it is none. */
manta_status lib_ref_end(const manta_ref *handle);

#endif
