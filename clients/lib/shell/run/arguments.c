/* SPDX-License-Identifier: Apache-2.0
 *
 * arguments.c - arguments, from a record to what the function gets, and given back.
 *
 * Owns:   what a function holds while it runs. Thread: the one that runs it; takes the owner lock where a line says so.
 */
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/helper/helper.h"
#include "clients/lib/shell/run/inside.h"
#include "clients/lib/shell/segments/segments.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/values/values.h"

bool lib_arguments_shared(struct lib_arguments *a, manta_arg *to, char type, const uint8_t *bytes, size_t size, manta_error *e)
{
    struct lane_ref ref;
    const void     *data;
    bool            declares;
    if (size != sizeof ref)
        return lib_error(e, MANTA_EPROTO, "a place that is not one"), false;
    memcpy(&ref, bytes, sizeof ref);
    declares = ref.flags & LANE_REF_DECLARES;
    lib_lock();
    if (lib_store_pin(NULL, &ref, &data, lib_deadline(MT_LIB_PULL_MS), e)) {
        lib_unlock();
        return false;
    }
    lib_unlock();
    a->pinned[a->pinned_count++] = ref;
    if (declares)
        ref.size = lib_declared_size(&ref, data);
    to->type = type == '*' ? (char)ref.type : type;
    if (to->type == 's' || to->type == 'y') {
        to->y.data = data;
        to->y.size = ref.size - (to->type == 's');
    } else {
        memcpy(&to->l, data, ref.size < 8 ? ref.size : 8);
    }
    return true;
}

static bool take_handle(struct lib_arguments *a, manta_arg *to, char type, const uint8_t *bytes, size_t size)
{
    if (type == 'r') {
        struct lane_ref wire;
        struct own_ref *ref;
        if (size != sizeof wire)
            return false;
        memcpy(&wire, bytes, sizeof wire);
        lib_lock();
        ref = own_ref_borrow(&lib.own, &wire);
        to->r = ref ? lib_handle_ref(&lib.own, ref) : NULL;
        lib_helper_start();
        lib_unlock();
        a->held[a->ref_count] = wire.id;
        a->refs[a->ref_count++] = to->r;
        return ref != NULL;
    }
    struct own_actor_wire wire;
    struct own_actor     *found;
    if (size != sizeof wire)
        return false;
    memcpy(&wire, bytes, sizeof wire);
    lib_lock();
    found = own_actor_borrow(&lib.own, &wire);
    to->A = found ? lib_handle_new(LIB_OF_ACTOR, found) : NULL;
    if (found && !to->A)
        own_actor_drop(&lib.own, found);
    lib_helper_start();
    lib_unlock();
    a->actors[a->actor_count++] = to->A;
    return to->A != NULL;
}

static bool take_argument(struct lib_arguments *a, char wanted, const struct lane_value *value, const uint8_t *bytes,
                          manta_error *e)
{
    manta_arg *to = &a->args[a->count];
    char       type = (char)value->type;
    if (value->flags & LANE_VALUE_SHARED)
        return lib_arguments_shared(a, to, wanted, bytes, value->size, e);
    if (wanted != '*' && wanted != type)
        return lib_error(e, MANTA_ETYPE, "argument %d is '%c', want '%c'", a->count + 1, type, wanted), false;
    to->type = type;
    switch (type) {
    case 'l':
    case 'u':
    case 'd':
        if (value->size == 8)
            return memcpy(&to->l, bytes, 8), true;
        break;
    case 'b':
        if (value->size == 1)
            return to->b = bytes[0] != 0, true;
        break;
    case 's':
        to->y.data = bytes;
        to->y.size = value->size - 1;
        if (value->size && bytes[value->size - 1] == 0)
            return true;
        break;
    case 'y':
        to->y.data = bytes;
        to->y.size = value->size;
        return true;
    case 'r':
    case 'A':
        if (take_handle(a, to, type, bytes, value->size))
            return true;
        break;
    default: break;
    }
    return lib_error(e, MANTA_EPROTO, "argument %d is malformed", a->count + 1), false;
}

/* What the function is to return, from where its arguments end in the signature. */
static char wanted_after(const char *arguments_end)
{
    const char *at = arguments_end + (*arguments_end == '*');
    return *at != '>' ? '*' : at[1] && at[1] != '@' ? at[1] : 'v';
}

bool lib_arguments_take(struct lib_arguments *a, const char *signature, const struct wrk_run *run, manta_error *e)
{
    uint32_t count = 0;
    size_t   at = 8;
    if (run->size >= 8)
        memcpy(&count, run->payload, sizeof count);
    if (count > MANTA_ARGS_MAX)
        return lib_error(e, MANTA_EPROTO, "%u arguments", count), false;
    for (; (uint32_t)a->count < count; a->count++) {
        struct lane_value value;
        char              wanted = *signature;
        size_t            padded;
        if (at + sizeof value > run->size)
            return lib_error(e, MANTA_EPROTO, "the arguments are cut short"), false;
        memcpy(&value, run->payload + at, sizeof value);
        at += sizeof value;
        padded = ((size_t)value.size + 7) & ~(size_t)7;
        if (padded > run->size - at)
            return lib_error(e, MANTA_EPROTO, "the arguments are cut short"), false;
        if (value.ref_count)
            return lib_error(e, MANTA_EUNSUPPORTED, "argument %d declares refs inside its value", a->count + 1), false;
        if (wanted == '>' || wanted == '@' || wanted == 0)
            return lib_error(e, MANTA_ETYPE, "%u arguments are too many", count), false;
        if (!take_argument(a, wanted, &value, run->payload + at, e))
            return false;
        at += padded;
        signature += wanted != '*';
    }
    a->end = at;
    a->wanted = wanted_after(signature);
    if (*signature && !strchr(">@*", *signature))
        return lib_error(e, MANTA_ETYPE, "%u arguments are too few", count), false;
    return true;
}

/* Under the lock. Writes the ids of refs that the function kept behind the value; returns how many bytes. NULL: nobody else
 * is to be told. */
size_t lib_arguments_give_back(struct lib_arguments *a, uint8_t *held)
{
    size_t size = 0;
    for (int i = 0; i < a->pinned_count; i++)
        lib_store_unpin(&a->pinned[i]);
    for (int i = 0; i < a->actor_count; i++) {
        struct own_actor *found = lib_handle_end(a->actors[i], LIB_OF_ACTOR);
        if (found)
            own_actor_drop(&lib.own, found);
    }
    for (int i = 0; i < a->ref_count; i++) {
        struct own_ref *ref = lib_ref_in(&lib.own, a->refs[i]);
        if (!ref)
            continue; /* the function has freed what was not its own */
        if (held && (ref->holds > 1 || ref->handles > 1) && ref->flags & OWN_REF_BORROWED && !(ref->flags & OWN_REF_TOLD)) {
            ref->flags |= OWN_REF_TOLD; /* our submitter tells the owner before it lets go of its own hold */
            memcpy(held + size, &a->held[i], sizeof(mt_id));
            size += sizeof(mt_id);
        }
        (void)lib_ref_end(&lib.own, a->refs[i]);
    }
    return size;
}
