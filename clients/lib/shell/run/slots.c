/* SPDX-License-Identifier: Apache-2.0
 *
 * slots.c - where the values that a function returns stand until it is over.
 *
 * Thread: the one that runs it, without the owner lock where no line says so.
 *
 * Of one value the bytes stand in the context itself. Several have equal slots in c->many, in any order until the
 * function has returned; then they are moved together. A value in the store has its place there.
 */
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/run/inside.h"
#include "clients/lib/shell/state/state.h"

#include <stdlib.h>

/* Several results, and every id of a reference that was kept, go into one record; each may be a place in the store. */
static_assert((LANE_RECORD_MAX - LANE_RECORD_SIZE - LIB_KEPT_SIZE) / LANE_RESULTS_MAX - 7 >=
                  (int)(sizeof(struct lane_value) + sizeof(struct lane_ref)),
              "a slot holds a place");

static size_t slot_size(const manta_ctx *c)
{
    return ((LANE_RECORD_MAX - LANE_RECORD_SIZE - c->kept_max) / c->results) & ~(size_t)7;
}

uint8_t *lib_result_slot(manta_ctx *c, uint32_t index, size_t *out_room)
{
    if (c->results <= 1) {
        *out_room = MANTA_INLINE_MAX;
        return c->bytes;
    }
    if (!c->many && !(c->many = malloc(LANE_RECORD_MAX)))
        return NULL;
    if (!c->has_value)
        for (uint32_t i = 0; i < c->results; i++)
            c->many[i * slot_size(c)] = 0; /* no type: missing */
    c->has_value = true;
    *out_room = slot_size(c) - sizeof(struct lane_value);
    if (*out_room > MANTA_INLINE_MAX)
        *out_room = MANTA_INLINE_MAX;
    return c->many + index * slot_size(c);
}

bool lib_result_is_given(manta_ctx *c, uint32_t index)
{
    return c->results <= 1 ? c->has_value : c->has_value && c->many[index * slot_size(c)] != 0;
}

void lib_result_note(manta_ctx *c, uint32_t index, const struct lane_value *head)
{
    if (c->results > 1) {
        memcpy(c->many + index * slot_size(c), head, sizeof *head);
        return;
    }
    c->type = (char)head->type;
    c->flags = head->flags;
    c->size = head->size;
    c->has_value = true;
    if (head->flags & LANE_VALUE_SHARED && !c->into)
        c->into = c; /* another value in its place has to give this one back */
}

/* Under the lock: the place of a result in the store, if it has one. */
static void stored_free(manta_ctx *c, uint32_t index)
{
    const uint8_t    *at = c->results <= 1 ? c->bytes : c->many + index * slot_size(c);
    struct lane_value head = {.type = 'y', .flags = c->flags};
    struct lane_ref   wire;
    if (c->results > 1)
        memcpy(&head, at, sizeof head);
    if (!head.type || !(head.flags & LANE_VALUE_SHARED))
        return;
    memcpy(&wire, at + sizeof head, sizeof wire);
    (void)os_client_free(&lib.store, wire.segment, wire.offset, wire.generation).code;
}

void lib_result_clear(manta_ctx *c, uint32_t index)
{
    if (!lib_result_is_given(c, index))
        return;
    lib_lock();
    stored_free(c, index);
    lib_unlock();
}

void lib_results_drop(manta_ctx *c)
{
    if (c->ahead || !c->has_value)
        return;
    for (uint32_t i = 0; i < c->results; i++)
        stored_free(c, i);
    c->has_value = false;
}

manta_status lib_returned(manta_ctx *c, size_t *out_size)
{
    size_t at = 0, room;
    for (uint32_t i = 0; i < c->results; i++) { /* before any is moved: what is there is to be found if one is missing */
        const uint8_t *slot = lib_result_slot(c, i, &room);
        if (!slot || !*slot)
            return manta_fail(c, 0, "%s returned without its result %u of %u (counted from 0)", c->name, i, c->results),
                   MANTA_ETYPE;
    }
    for (uint32_t i = 0; i < c->results; i++) {
        const uint8_t    *slot = c->many + i * slot_size(c);
        struct lane_value head;
        memcpy(&head, slot, sizeof head);
        room = sizeof head + ((head.size + 7u) & ~(size_t)7);
        memmove(c->many + at, slot, room);
        at += room;
    }
    *out_size = at;
    return MANTA_OK;
}
