/* SPDX-License-Identifier: Apache-2.0
 *
 * handles.c - the slots behind all handles but references, and why a handle can't be used.
 *
 * Owns:   the slots, for ever. Thread: handles.h.
 */
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/state/state.h"

enum { SLOTS_AT_ONCE = 256 };
static_assert(SLOTS_AT_ONCE * sizeof(struct lib_slot) % 4096 == 0, "no gaps between them");

struct lib_slots lib_slots;

bool lib_slots_refill(void)
{
    struct lib_slot *slots;
    if (lib_slots.count + SLOTS_AT_ONCE > LIB_SLOTS_MAX ||
        mt_range_grow(&lib_slots.memory, SLOTS_AT_ONCE * sizeof *slots, LIB_SLOTS_MAX * sizeof *slots).code)
        return false;
    slots = (struct lib_slot *)lib_slots.memory.base + lib_slots.count;
    for (int i = SLOTS_AT_ONCE; i-- > 0;) {
        slots[i].handle = lib_handle_make((uint32_t)lib.own.process, LIB_OF_NOTHING, 0); /* another process's is none here */
        slots[i].is.next_free = lib_slots.first_free;
        lib_slots.first_free = &slots[i];
    }
    atomic_fetch_add_explicit(&lib_slots.count, SLOTS_AT_ONCE, memory_order_release);
    return true;
}

const char *lib_handle_text(manta_status code)
{
    switch (code) {
    case MANTA_ENOMEM: return "out of memory";
    case MANTA_EINVAL: return "manta_init has not been called in this process";
    case MANTA_ECONN: return LIB_OVER_TEXT;
    case MANTA_EFORKED: return LIB_FORKED_TEXT;
    case MANTA_EDEADLK: return LIB_INTERRUPTED_TEXT;
    default: return mt_code_text(code);
    }
}

static const char *const names[LIB_KINDS] = {
    [LIB_OF_REF] = "reference", [LIB_OF_ACTOR] = "actor",        [LIB_OF_GENERATOR] = "generator",     [LIB_OF_VIEW] = "view",
    [LIB_OF_BUFFER] = "buffer", [LIB_OF_PG] = "placement group", [LIB_OF_ENV] = "runtime environment", [LIB_OF_GROUP] = "group",
};

/* There is such a number: the handle was right once, or is of a time to come and made up. */
static bool was_freed(const void *handle, enum lib_kind kind)
{
    uint32_t count = kind == LIB_OF_REF ? lib.own.ref_count : lib_slots.count;
    return lib_handle_number(handle, kind) < count;
}

manta_status lib_handle_wrong(const void *handle, enum lib_kind kind, const char *call, manta_error *e)
{
    manta_status code = lib_handle_code(handle);
    if (!handle)
        return lib_error(e, MANTA_EINVAL, "%s: the %s is NULL", call, names[kind]);
    if (code)
        return lib_error(e, code, "%s", lib_handle_text(code));
    for (enum lib_kind other = LIB_OF_REF; other < LIB_KINDS; other++)
        if (other != kind && (other == LIB_OF_REF ? lib_ref_in(&lib.own, handle) != NULL : lib_slot_of(handle, other) != NULL))
            return lib_error(e, MANTA_EHANDLE, "%s: this is the handle of a %s, not of a %s", call, names[other], names[kind]);
    if (was_freed(handle, kind))
        return lib_error(e, MANTA_EHANDLE, "%s: this %s was freed before", call, names[kind]);
    return lib_error(e, MANTA_EHANDLE, "%s: this is no handle of a %s", call, names[kind]);
}

void lib_handle_again(struct own_ref *ref)
{
    ref->holds--; /* there is the one for all his handles */
    if (ref->handles < OWN_HANDLES_MAX)
        ref->handles++; /* else it stays for good */
}

manta_status lib_ref(const manta_ref *handle, const char *call, struct own_ref **out, manta_error *e)
{
    *out = lib_ref_in(&lib.own, handle);
    return MT_LIKELY(*out != NULL) ? MANTA_OK : lib_handle_wrong(handle, LIB_OF_REF, call, e);
}
