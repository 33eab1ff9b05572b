/* SPDX-License-Identifier: Apache-2.0
 *
 * arguments.c - arguments, from a record to what the function gets, and given back.
 *
 * Owns:   what a function holds while it runs. Thread: the one that runs it; takes the owner lock where a line says so.
 */
#include "clients/lib/shell/ahead/ahead.h"
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/helper/helper.h"
#include "clients/lib/shell/run/inside.h"
#include "clients/lib/shell/segments/segments.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/values/values.h"
#include "clients/lib/shell/wait/wait.h"

#include <stdlib.h>

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
    a->holds[a->hold_count++] = (struct lib_hold){.kind = LIB_HOLD_PLACE, .of.place = ref};
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

/* A reference as it travels, whole or in short. */
static bool wire_of(const struct lane_value *value, const uint8_t *bytes, struct lane_ref *out)
{
    struct lane_asked asked;
    if (value->flags & LANE_VALUE_ASKED && value->size == sizeof asked) {
        memcpy(&asked, bytes, sizeof asked);
        *out = (struct lane_ref){.id = asked.id, .owner_node = asked.owner_node, .job = asked.job};
        return true;
    }
    if (value->flags & LANE_VALUE_ASKED || value->size != sizeof *out)
        return false;
    memcpy(out, bytes, sizeof *out);
    return true;
}

static bool take_ref(struct lib_arguments *a, manta_arg *to, const struct lane_value *value, const uint8_t *bytes)
{
    struct lane_ref wire;
    struct own_ref *ref;
    if (!wire_of(value, bytes, &wire))
        return false;
    lib_lock();
    ref = own_ref_borrow(&lib.own, &wire);
    to->r = ref ? lib_handle_ref(&lib.own, ref) : NULL;
    lib_helper_start();
    lib_unlock();
    if (ref) {
        a->holds[a->hold_count++] = (struct lib_hold){.kind = LIB_HOLD_REF, .of.ref = {wire.id, to->r}};
        a->kept_max += sizeof(mt_id);
    }
    return ref != NULL;
}

static bool take_actor(struct lib_arguments *a, manta_arg *to, const uint8_t *bytes, size_t size)
{
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
    if (to->A)
        a->holds[a->hold_count++] = (struct lib_hold){.kind = LIB_HOLD_ACTOR, .of.actor = to->A};
    return to->A != NULL;
}

static bool asked_is_there(void *ref)
{
    return own_ref_is_ready(ref) || lib_run_is_over();
}

/* Under the lock: the value of a reference that went in short, from its owner. */
static manta_status ask(const struct lane_ref *wire, manta_view *out, manta_error *e)
{
    const int64_t   deadline = lib_deadline_of_run(lib_deadline(MT_LIB_PULL_MS));
    struct own_ref *ref = own_ref_borrow(&lib.own, wire);
    manta_status    code = MANTA_OK;
    if (!ref)
        return lib_error(e, MANTA_ENOMEM, "no memory for an argument");
    own_ref_ask(&lib.own, ref);
    if (lib_running)
        lib_running->is_asking = true;
    (void)lib_wait(asked_is_there, ref, deadline);
    if (lib_running)
        lib_running->is_asking = false;
    if (ref->state == OWN_REF_FAILED)
        code = lib_error_failure(e, ref->value.failure, ref->id);
    else if (!own_ref_is_ready(ref))
        code = lib_run_is_over()
                   ? lib_error_run_over(e)
                   : lib_error(e, MANTA_ETIMEDOUT, "the owner of an argument did not give its value within %d ms", MT_LIB_PULL_MS);
    else
        code = lib_view(ref, out, deadline, e);
    own_ref_drop(&lib.own, ref);
    return code;
}

/* A letter that is none was written over on its way: that is nobody's mistake in a type. */
static bool type_is(const struct lib_arguments *a, char wanted, uint8_t type, manta_error *e)
{
    if (!lane_type_is_known(type))
        return lib_error(e, MANTA_EPROTO, "argument %d is malformed", a->count + 1), false;
    if (wanted != '*' && wanted != (char)type)
        return lib_error(e, MANTA_ETYPE, "argument %d is '%c', want '%c'", a->count + 1, type, wanted), false;
    return true;
}

static bool take_asked(struct lib_arguments *a, manta_arg *to, char wanted, const struct lane_value *value, const uint8_t *bytes,
                       manta_error *e)
{
    struct lib_hold hold = {.kind = LIB_HOLD_VIEW};
    struct lane_ref wire;
    manta_status    code;
    if (!wire_of(value, bytes, &wire))
        return lib_error(e, MANTA_EPROTO, "argument %d is malformed", a->count + 1), false;
    lib_lock();
    code = ask(&wire, &hold.of.view, e);
    lib_unlock();
    if (code)
        return false;
    a->holds[a->hold_count++] = hold;
    to->type = hold.of.view.type;
    if (to->type == 's' || to->type == 'y')
        to->y = (manta_bytes){hold.of.view.data, hold.of.view.size};
    else
        memcpy(&to->l, hold.of.view.data, hold.of.view.size < 8 ? hold.of.view.size : 8);
    return type_is(a, wanted, (uint8_t)to->type, e);
}

/* A value in the store says of which type it is, as one in the record does: bytes without a NUL are no text. */
static bool take_shared(struct lib_arguments *a, manta_arg *to, char wanted, const uint8_t *bytes, size_t size, manta_error *e)
{
    struct lane_ref ref;
    if (size == sizeof ref) {
        memcpy(&ref, bytes, sizeof ref);
        if (!type_is(a, wanted, ref.type, e))
            return false;
    }
    return lib_arguments_shared(a, to, wanted, bytes, size, e);
}

static bool take_argument(struct lib_arguments *a, char wanted, const struct lane_value *value, const uint8_t *bytes,
                          manta_error *e)
{
    manta_arg *to = &a->args[a->count];
    char       type = (char)value->type;
    if (value->flags & LANE_VALUE_SHARED)
        return take_shared(a, to, wanted, bytes, value->size, e);
    if (value->flags & LANE_VALUE_ASKED && type != 'r')
        return take_asked(a, to, wanted, value, bytes, e);
    if (!type_is(a, wanted, value->type, e))
        return false;
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
        if (take_ref(a, to, value, bytes))
            return true;
        break;
    case 'A':
        if (take_actor(a, to, bytes, value->size))
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

/* Room for so many, and what they hold. */
static bool room_for(struct lib_arguments *a, uint32_t count)
{
    size_t size = (size_t)count * sizeof *a->args + ((size_t)count + 1) * sizeof *a->holds;
    a->args = a->few;
    a->holds = a->few_holds;
    if (MT_LIKELY(count <= LIB_FEW_ARGUMENTS))
        return true;
    if (!(a->block = malloc(size)))
        return false;
    a->holds = a->block;
    a->args = (manta_arg *)(a->holds + count + 1);
    return true;
}

/* One that went in short is asked for at its owner, and comes here once that has said where it is. */
static struct own_ref *ask_ahead(const struct lane_value *value, const uint8_t *bytes)
{
    struct lane_ref wire;
    struct own_ref *ref = wire_of(value, bytes, &wire) ? own_ref_borrow(&lib.own, &wire) : NULL;
    if (ref) {
        own_ref_ask(&lib.own, ref);
        (void)lib_ahead_want(ref);
    }
    return ref;
}

/* The argument at `at` does not stand in the record: it, and all that follow and do not either, are brought here meanwhile, all at
 * a time. Those that were asked for at their owners are in a->ahead. */
static void take_ahead(struct lib_arguments *a, const struct wrk_run *run, size_t at, uint32_t left)
{
    struct lane_value value;
    struct lane_ref   ref;
    lib_lock();
    a->is_ahead = true;
    a->ahead = calloc(left, sizeof(struct own_ref *)); /* without memory one is asked for after the other */
    for (; left && at + sizeof value <= run->size; left--) {
        memcpy(&value, run->payload + at, sizeof value);
        at += sizeof value;
        if (value.size > run->size - at)
            break; /* it is told when its turn comes */
        if (value.flags & LANE_VALUE_SHARED && value.size == sizeof ref) {
            memcpy(&ref, run->payload + at, sizeof ref);
            lib_ahead_ask(&ref);
        } else if (a->ahead && value.flags & LANE_VALUE_ASKED && value.type != 'r') {
            struct own_ref *asked = ask_ahead(&value, run->payload + at);
            if (asked)
                a->ahead[a->ahead_count++] = asked;
        }
        at += ((size_t)value.size + 7) & ~(size_t)7;
        if (at > run->size)
            break;
    }
    lib_unlock();
}

static void ahead_over(struct lib_arguments *a)
{
    if (!a->ahead)
        return;
    lib_lock();
    while (a->ahead_count)
        own_ref_drop(&lib.own, a->ahead[--a->ahead_count]);
    lib_unlock();
    free(a->ahead);
    a->ahead = NULL;
}

static bool take_all(struct lib_arguments *a, const char *signature, const struct wrk_run *run, manta_error *e)
{
    uint32_t count = 0;
    size_t   at = 8;
    if (run->size >= 8)
        memcpy(&count, run->payload, sizeof count);
    if (count > MANTA_ARGS_MAX)
        return lib_error(e, MANTA_EPROTO, "%u arguments", count), false;
    if (!room_for(a, count))
        return lib_error(e, MANTA_ENOMEM, "no memory for %u arguments", count), false;
    for (; (uint32_t)a->count < count; a->count++) {
        struct lane_value value;
        const uint8_t    *bytes;
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
        bytes = run->payload + at;
        if (MT_UNLIKELY(value.flags & LANE_VALUE_EDGE) &&
            (value.size != sizeof(struct lane_edge) || !wrk_edge_value(run, bytes, &value, &bytes)))
            return lib_error(e, MANTA_EPROTO, "argument %d has not come", a->count + 1), false;
        if (MT_UNLIKELY(value.flags & (LANE_VALUE_SHARED | LANE_VALUE_ASKED) && !a->is_ahead && a->count + 1 < (int)count))
            take_ahead(a, run, at - sizeof value, count - (uint32_t)a->count);
        if (!take_argument(a, wanted, &value, bytes, e))
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

bool lib_arguments_take(struct lib_arguments *a, const char *signature, const struct wrk_run *run, manta_error *e)
{
    bool ok = take_all(a, signature, run, e);
    ahead_over(a);
    return ok;
}

/* Returns the bytes written: the id of a reference that the function has kept. */
static size_t ref_give_back(const struct lib_hold *hold, uint8_t *held)
{
    struct own_ref *ref = lib_ref_in(&lib.own, hold->of.ref.handle);
    size_t          size = 0;
    if (!ref)
        return 0; /* the function has freed what was not its own */
    if (held && (ref->holds > 1 || ref->handles > 1) && ref->flags & OWN_REF_BORROWED && !(ref->flags & OWN_REF_TOLD)) {
        ref->flags |= OWN_REF_TOLD; /* our submitter tells the owner before it lets go of its own hold */
        memcpy(held, &hold->of.ref.id, sizeof(mt_id));
        size = sizeof(mt_id);
    }
    (void)lib_ref_end(&lib.own, hold->of.ref.handle);
    return size;
}

size_t lib_arguments_give_back(struct lib_arguments *a, uint8_t *held)
{
    size_t size = 0;
    for (int i = 0; i < a->hold_count; i++) {
        struct lib_hold  *hold = &a->holds[i];
        struct own_actor *found;
        switch (hold->kind) {
        case LIB_HOLD_PLACE: lib_store_unpin(&hold->of.place); break;
        case LIB_HOLD_REF: size += ref_give_back(hold, held ? held + size : NULL); break;
        case LIB_HOLD_VIEW: lib_view_end(&hold->of.view); break;
        case LIB_HOLD_ACTOR:
            found = lib_handle_end(hold->of.actor, LIB_OF_ACTOR);
            if (found)
                own_actor_drop(&lib.own, found);
            break;
        }
    }
    free(a->block);
    a->block = NULL;
    return size;
}
