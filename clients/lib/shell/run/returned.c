/* SPDX-License-Identifier: Apache-2.0
 *
 * returned.c - values that a function returns.
 *
 * Thread: the one that runs it, without the owner lock.
 *
 * Each is written into its slot (slots.c). What is larger than a slot goes through the store.
 */
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/names/names.h"
#include "clients/lib/shell/run/inside.h"
#include "clients/lib/shell/segments/segments.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/values/values.h"

#include <stdlib.h>

manta_status lib_result_mistyped(manta_ctx *c, char type)
{
    bool is_none = c->wanted == 'v';
    c->is_mistyped = true;
    manta_fail(c, 0, "%s returned '%c', and its signature (\"%s\") says %s%c%s", c->name, type, c->signature,
               is_none ? "no value" : "'", is_none ? '\0' : c->wanted, is_none ? "" : "'");
    return MANTA_ETYPE;
}

static manta_status store_value(manta_ctx *c, mt_id id, char type, const void *data, size_t size, struct lane_ref *out)
{
    manta_error     e;
    struct os_place place;
    void           *to;
    manta_status    code;
    lib_lock();
    code = lib_store_alloc(size, &place, &to, &e);
    lib_unlock();
    if (code)
        return manta_fail(c, 0, "a result of %zu bytes: %s", size, e.message), code;
    lib_store_warm(&place, to);
    os_copy(to, data, size);
    os_client_publish(&lib.store, place, to, id, c->run->lane->owner_node, size, (uint8_t)type, out);
    return MANTA_OK;
}

manta_status lib_value_make(manta_ctx *c, mt_id id, const manta_arg *from, size_t room, struct lane_value *out, void *bytes)
{
    struct lane_ref place;
    const void     *data = &from->l;
    size_t          size = from->type == 'b' ? 1 : 8;
    manta_status    code;
    *out = (struct lane_value){.type = (uint8_t)from->type};
    if (from->type == 's' || from->type == 'y') {
        data = from->y.data;
        size = from->y.size + (from->type == 's');
    }
    if (!data && size)
        return manta_fail(c, 0, "%s: a value of type '%c' at NULL", c->name, from->type), MANTA_EINVAL;
    if (size <= room) {
        out->size = (uint32_t)size;
        if (size)
            memcpy(bytes, data, size);
        return MANTA_OK;
    }
    code = store_value(c, id, from->type, data, size, &place);
    if (code)
        return code;
    out->flags = LANE_VALUE_SHARED;
    out->size = sizeof place;
    memcpy(bytes, &place, sizeof place);
    return MANTA_OK;
}

/* manta_map's items: as bytes, where they belong. */
static manta_status keep_into(manta_ctx *c, const manta_arg *value)
{
    const void *data = value->type == 'y' || value->type == 's' ? value->y.data : &value->l;
    size_t      size = value->type == 'y' || value->type == 's' ? value->y.size : value->type == 'b' ? 1 : 8;
    if (c->wanted != value->type && c->wanted != '*')
        return lib_result_mistyped(c, value->type);
    if (size != c->into_size)
        return manta_fail(c, 0, "it returned %zu bytes, not the %zu of a result", size, c->into_size), MANTA_ETYPE;
    if (size)
        memcpy(c->into, data, size);
    c->has_value = true;
    return MANTA_OK;
}

static manta_status give(manta_ctx *c, uint32_t index, const manta_arg *value)
{
    struct lane_value head;
    size_t            room;
    uint8_t          *slot;
    manta_status      code;
    if (c->ahead)
        return manta_fail(c, 0, "%s was called by manta_call_stream: it yields its items, and returns no value", c->name),
               MANTA_EINVAL;
    if (c->into && c->into != c)
        return keep_into(c, value);
    if (c->placed && lib_is_placed(c, index))
        return manta_fail(c, 0, "%s: result %u is written in place (manta_return_buffer)", c->name, index), MANTA_EINVAL;
    slot = lib_result_slot(c, index, &room);
    if (!slot)
        return manta_fail(c, 0, "no memory for %u results", c->results), MANTA_ENOMEM;
    lib_result_clear(c, index); /* the last one counts */
    code = lib_value_make(c, mt_id_with_index(c->run->record.id, (uint16_t)(index + 1)), value, room, &head, slot + sizeof head);
    if (code)
        head = (struct lane_value){.type = 0};
    if (code == MANTA_OK || c->results > 1)
        lib_result_note(c, index, &head);
    else
        c->has_value = false;
    return code;
}

static manta_status return_plain(manta_ctx *c, uint32_t index, char type, const void *data, size_t size)
{
    manta_arg value = {.type = type};
    if (type == 'y' || type == 's')
        value.y = (manta_bytes){data, size - (type == 's')};
    else
        memcpy(&value.l, data, size);
    return give(c, index, &value);
}

manta_status manta_return_at(manta_ctx *c, int index, manta_arg value)
{
    if (!c)
        return MANTA_EINVAL;
    uint32_t count = c->ahead ? 0 : c->results;
    char     wanted = lib_result_letter(c->signature, (uint32_t)(index < 0 ? 0 : index));
    if (index < 0 || (uint32_t)index >= count)
        return manta_fail(c, 0, "%s: result %d of %u (counted from 0)", c->name, index, count), MANTA_EINVAL;
    if (!value.type || !strchr("ludbsy", value.type) || (wanted != '*' && wanted != value.type))
        return manta_fail(c, 0, "%s: result %d is '%c', not '%c' (\"%s\")", c->name, index, value.type, wanted, c->signature),
               MANTA_ETYPE;
    return give(c, (uint32_t)index, &value);
}

/* ---- one value ---- */

static manta_status returned_long(manta_ctx *c, char type, const void *data, size_t size)
{
    if (!c)
        return MANTA_EINVAL;
    bool is_checked = (c->into && c->into != c) || c->ahead; /* further on: what is wrong with it is something else there */
    if (!is_checked && c->wanted != type && c->wanted != '*')
        return lib_result_mistyped(c, type);
    return return_plain(c, 0, type, data, size);
}

/* One small value stands in the context; everything else is rarer. */
static manta_status keep(manta_ctx *c, char type, const void *data, size_t size)
{
    if (MT_UNLIKELY(!c))
        return MANTA_EINVAL;
    if (MT_UNLIKELY(c->results > 1 || c->into || size > MANTA_INLINE_MAX))
        return returned_long(c, type, data, size);
    if (MT_UNLIKELY(c->wanted != type && c->wanted != '*'))
        return lib_result_mistyped(c, type);
    c->type = type;
    c->has_value = true;
    c->flags = 0;
    memcpy(c->bytes + sizeof(struct lane_value), data, size);
    c->size = (uint32_t)size;
    return MANTA_OK;
}

manta_status manta_return_i64(manta_ctx *c, int64_t x)
{
    return keep(c, 'l', &x, sizeof x);
}
manta_status manta_return_u64(manta_ctx *c, uint64_t x)
{
    return keep(c, 'u', &x, sizeof x);
}
manta_status manta_return_f64(manta_ctx *c, double x)
{
    return keep(c, 'd', &x, sizeof x);
}
manta_status manta_return_bool(manta_ctx *c, bool x)
{
    return keep(c, 'b', &x, sizeof x);
}
manta_status manta_return_str(manta_ctx *c, const char *s)
{
    return s ? keep(c, 's', s, strlen(s) + 1) : returned_long(c, 's', NULL, 1);
}
manta_status manta_return_bytes(manta_ctx *c, const void *data, size_t size)
{
    return data && size ? keep(c, 'y', data, size) : returned_long(c, 'y', data, size);
}

manta_status lib_result_check(manta_ctx *c)
{
    bool is_any = c->wanted == '*' || c->wanted == 'v' || c->ahead || c->results > 1;
    if (c->is_mistyped)
        return MANTA_ETYPE;
    if (c->has_value || is_any)
        return MANTA_OK;
    return manta_fail(c, 0, "%s returned no value, and its signature (\"%s\") says '%c'", c->name, c->signature, c->wanted),
           MANTA_ETYPE;
}
