/* SPDX-License-Identifier: Apache-2.0
 *
 * placed.c - results that a function writes in place.
 *
 *   none -- manta_return_buffer --> open -- the function returns MANTA_OK --> its result, sealed as a buffer of manta_seal
 *                                    |----- it fails ----> given back
 *                                    '----- its process dies ----> the raylet takes the place back, as all that had no value yet
 *
 * Owns:   places that are open. Thread: the one that runs the function; takes the owner lock.
 */
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/names/names.h"
#include "clients/lib/shell/run/inside.h"
#include "clients/lib/shell/segments/segments.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/values/values.h"

#include <stdlib.h>

struct lib_placed {
    struct lib_placed *next;
    uint32_t           index;
    void              *data; /* in the store; NULL: in the result's slot */
    size_t             size;
    struct os_place    place;
};

bool lib_is_placed(const manta_ctx *c, uint32_t index)
{
    for (const struct lib_placed *p = c->placed; p; p = p->next)
        if (p->index == index)
            return true;
    return false;
}

/* Whether the result may have a place. */
static manta_status check(manta_ctx *c, int index)
{
    char wanted = lib_result_letter(c->signature, (uint32_t)(index < 0 ? 0 : index));
    if (c->ahead || (c->into && c->into != c) || c->run->record.kind == LANE_CREATE)
        return manta_fail(c, 0,
                          "%s: no result can be written in place in a generator, in manta_map, and in an actor's create and save",
                          c->name),
               MANTA_EINVAL;
    if (index < 0 || (uint32_t)index >= c->results)
        return manta_fail(c, 0, "%s: result %d of %u (counted from 0)", c->name, index, c->results), MANTA_EINVAL;
    if ((wanted != 'y' && wanted != '*') || (c->results <= 1 && c->wanted == 'v'))
        return manta_fail(c, 0, "%s: result %d is not 'y' (\"%s\"), and only bytes can be written in place", c->name, index,
                          c->signature),
               MANTA_ETYPE;
    if (lib_is_placed(c, (uint32_t)index) || lib_result_is_given(c, (uint32_t)index))
        return manta_fail(c, 0, "%s: result %d has a value or a place already", c->name, index), MANTA_EEXIST;
    return MANTA_OK;
}

/* A place for it, in the store or in its slot. */
static manta_status place_make(manta_ctx *c, struct lib_placed *p, void **out)
{
    size_t       room;
    uint8_t     *slot = lib_result_slot(c, p->index, &room);
    manta_error  e;
    manta_status code;
    if (!slot)
        return manta_fail(c, 0, "no memory for %u results", c->results), MANTA_ENOMEM;
    *out = slot + sizeof(struct lane_value);
    if (p->size <= room)
        return MANTA_OK;
    lib_lock();
    code = lib_store_alloc(p->size, &p->place, out, &e);
    lib_unlock();
    if (code)
        return manta_fail(c, 0, "a result of %zu bytes: %s", p->size, e.message), code;
    p->data = *out;
    lib_store_warm(&p->place, p->data);
    return MANTA_OK;
}

manta_status manta_return_buffer(manta_ctx *c, int index, size_t size, void **out)
{
    struct lib_placed *p;
    manta_status       code;
    if (!c || !out)
        return MANTA_EINVAL;
    *out = NULL;
    if ((code = check(c, index)) != MANTA_OK)
        return code;
    p = calloc(1, sizeof *p);
    if (!p)
        return manta_fail(c, 0, "no memory for a result in place"), MANTA_ENOMEM;
    p->index = (uint32_t)index;
    p->size = size;
    if ((code = place_make(c, p, out)) != MANTA_OK) {
        *out = NULL;
        free(p);
        return code;
    }
    p->next = c->placed;
    c->placed = p;
    if (c->results <= 1)
        c->into = c;
    return MANTA_OK;
}

/* What stands there is the result from now on. */
static void finish(manta_ctx *c, const struct lib_placed *p)
{
    struct lane_value head = {.type = 'y', .size = (uint32_t)p->size};
    mt_id             id = mt_id_with_index(c->run->record.id, (uint16_t)(p->index + 1));
    struct lane_ref   wire;
    size_t            room;
    if (p->data) {
        os_client_publish(&lib.store, p->place, p->data, id, c->run->lane->owner_node, p->size, 'y', &wire);
        lib_lock();
        lib_store_freeze(p->place, p->data, p->size);
        lib_unlock();
        head.flags = LANE_VALUE_SHARED;
        head.size = sizeof wire;
        memcpy(lib_result_slot(c, p->index, &room) + sizeof head, &wire, sizeof wire);
    }
    lib_result_note(c, p->index, &head);
}

void lib_placed_end(manta_ctx *c, bool is_ok)
{
    while (c->placed) {
        struct lib_placed *p = c->placed;
        c->placed = p->next;
        if (is_ok)
            finish(c, p);
        if (!is_ok && p->data) {
            lib_lock();
            (void)os_client_free(&lib.store, p->place.segment, p->place.offset, p->place.generation).code;
            lib_unlock();
        }
        free(p);
    }
}
