/* SPDX-License-Identifier: Apache-2.0
 *
 * declared.c - values that declare refs: written, and their end read.
 *
 * Owns:   nothing. Thread: any; lib_declared_store takes the owner lock.
 *
 * Such a value always lives in the store, with its refs behind its data (record.h, lane_declared), so that it travels
 * and is read like any other. Who holds the value holds the refs: design in docs/design/results.md.
 */
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/segments/segments.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/values/values.h"

/* Reads the end of a value. False: it is not one that declares refs. */
bool lib_declared_end(const void *data, size_t size, struct lane_declared *out)
{
    if (size < sizeof *out)
        return false;
    memcpy(out, (const uint8_t *)data + size - sizeof *out, sizeof *out);
    return out->data_size <= size && out->count <= size / sizeof(struct lane_ref) &&
           lib_declared_offset(out->data_size) + out->count * sizeof(struct lane_ref) + sizeof *out == size;
}

size_t lib_declared_size(const struct lane_ref *place, const void *data)
{
    struct lane_declared end;
    return lib_declared_end(data, place->size, &end) ? end.data_size : place->size;
}

manta_status lib_declared_check(manta_ref *const *refs, size_t count, manta_error *e)
{
    if (count > MT_LIB_DECLARED_MAX || (count && !refs))
        return lib_error(e, MANTA_EINVAL, "%zu declared references at %s: at most %d are possible", count,
                         refs ? "an address" : "NULL", MT_LIB_DECLARED_MAX);
    for (size_t i = 0; i < count; i++) {
        struct own_ref *ref;
        char            what[48];
        if (!refs[i])
            return lib_error(e, MANTA_EINVAL, "declared reference %zu is NULL", i);
        snprintf(what, sizeof what, "declared reference %zu", i);
        manta_status code = lib_ref(refs[i], what, &ref, e);
        if (code)
            return code;
    }
    return MANTA_OK;
}

/* Under the lock: where the refs are, for others. */
static void refs_write(void *to, size_t data_size, manta_ref *const *refs, size_t count)
{
    uint8_t             *at = (uint8_t *)to + lib_declared_offset(data_size);
    struct lane_declared end = {.data_size = data_size, .count = (uint32_t)count};
    for (size_t i = 0; i < count; i++, at += sizeof(struct lane_ref)) {
        struct lane_ref wire;
        own_ref_wire(&lib.own, lib_ref_in(&lib.own, refs[i]), &wire);
        memcpy(at, &wire, sizeof wire);
    }
    memcpy(at, &end, sizeof end);
}

manta_status lib_declared_store(const void *data, size_t size, manta_ref *const *refs, size_t count, struct os_place *place,
                                void **out, size_t *out_size, manta_error *e)
{
    manta_status code;
    *out_size = lib_declared_offset(size) + count * sizeof(struct lane_ref) + sizeof(struct lane_declared);
    if (!data && size)
        return lib_error(e, MANTA_EINVAL, "a value of %zu bytes at NULL", size);
    if ((code = lib_enter(e)) != MANTA_OK)
        return code;
    code = lib_check(e);
    if (code == MANTA_OK)
        code = lib_declared_check(refs, count, e);
    if (code == MANTA_OK)
        code = lib_store_alloc(*out_size, place, out, e);
    lib_unlock();
    if (code)
        return code;
    lib_store_warm(place, *out);
    if (size)
        os_copy(*out, data, size);
    lib_lock();
    code = lib_declared_check(refs, count, e); /* another thread may have freed one meanwhile */
    if (code == MANTA_OK)
        refs_write(*out, size, refs, count);
    else
        (void)os_client_free(&lib.store, place->segment, place->offset, place->generation).code;
    lib_unlock();
    return code;
}
