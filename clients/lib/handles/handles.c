/* SPDX-License-Identifier: Apache-2.0
 *
 * handles.c - the table behind all handles but references, and the checks of both.
 *
 * Owns:   the table, for ever. Thread: handles.h.
 */
#include "clients/lib/lib.h"

#include <stdlib.h>

struct lib_slots lib_slots;

bool lib_slots_refill(void)
{
    struct lib_slot *chunk = lib_slots.chunk_count < LIB_SLOT_CHUNKS ? calloc(LIB_SLOTS, sizeof *chunk) : NULL;
    if (!chunk)
        return false;
    for (uint32_t i = 0; i < LIB_SLOTS; i++) {
        chunk[i].next = lib_slots.first_free;
        lib_slots.first_free = lib_slots.chunk_count * LIB_SLOTS + i + 1;
    }
    lib_slots.chunks[lib_slots.chunk_count++] = chunk;
    return true;
}

/* ---- errors ---- */

void *lib_handle_error(manta_status code)
{
    return (void *)(uintptr_t)((uint64_t)(uint32_t)code << 32);
}

const char *lib_handle_text(manta_status code)
{
    switch (code) {
    case MANTA_ENOMEM: return "out of memory";
    case MANTA_EINVAL: return "manta_init has not been called in this process";
    case MANTA_ECONN: return "manta_shutdown has been called";
    case MANTA_EFORKED: return LIB_FORKED_TEXT;
    case MANTA_EDEADLK: return LIB_INTERRUPTED_TEXT;
    default: return mt_code_text(code);
    }
}

static const char *const names[] = {
    [LIB_OF_REF] = "reference", [LIB_OF_ACTOR] = "actor", [LIB_OF_GENERATOR] = "generator", [LIB_OF_VIEW] = "view",
    [LIB_OF_BUFFER] = "buffer", [LIB_OF_PG] = "placement group", [LIB_OF_ENV] = "runtime environment", [LIB_OF_GROUP] = "group",
};

manta_status lib_handle_wrong(const void *handle, enum lib_kind kind, const char *call, manta_error *e)
{
    manta_status code = lib_handle_code(handle);
    if (!handle)
        return lib_error(e, MANTA_EINVAL, "%s: the %s is NULL", call, names[kind]);
    if (code)
        return lib_error(e, code, "%s", lib_handle_text(code));
    return lib_error(e, MANTA_EHANDLE, "%s: this is no handle of a %s, or one that was freed before", call, names[kind]);
}

/* ---- references ---- */

manta_ref *lib_handle_ref(struct own_ref *ref)
{
    if (ref->handles < OWN_HANDLES_MAX)
        ref->handles++; /* else it stays for good */
    return (manta_ref *)(uintptr_t)own_ref_number(ref);
}

struct own_ref *lib_ref_of(const manta_ref *handle)
{
    return own_ref_find(&lib.own, (uintptr_t)handle);
}

manta_status lib_ref(const manta_ref *handle, const char *call, struct own_ref **out, manta_error *e)
{
    *out = lib_ref_of(handle);
    return MT_LIKELY(*out != NULL) ? MANTA_OK : lib_handle_wrong(handle, LIB_OF_REF, call, e);
}

manta_status lib_ref_end(const manta_ref *handle)
{
    struct own_ref *ref = lib_ref_of(handle);
    if (!ref)
        return !handle || lib_handle_code(handle) ? MANTA_OK : MANTA_EHANDLE;
    if (ref->handles == OWN_HANDLES_MAX)
        return MANTA_OK;
    ref->handles--;
    own_ref_drop(&lib.own, ref);
    return MANTA_OK;
}
