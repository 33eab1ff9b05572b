/* SPDX-License-Identifier: Apache-2.0
 *
 * value.c - a value arrives, or its failure: once, and all who wait for it are told.
 *
 * Thread: the caller's, under the owner lock.
 * Always: the first outcome stands. Tasks and actors that waited are posted; own_settle moves them on.
 */
#include "clients/lib/owner/ref/ref.h"
#include "clients/lib/owner/edge/edge.h"
#include "clients/lib/owner/ref/kept.h"

#include <stdio.h>

static mt_status size_check(uint8_t type, uint64_t size)
{
    return lane_size_fits(type, size) ? mt_ok() : mt_error(MT_EPROTO, 0, "a result that no type has");
}

static mt_status place_check(const uint8_t *bytes, size_t size)
{
    struct lane_ref place;
    if (size != sizeof place)
        return mt_error(MT_EPROTO, 0, "a place that is not one");
    shm_read(&place, bytes, sizeof place);
    return size_check(place.type, place.size);
}

mt_status own_value_check(const struct lane_value *value, const uint8_t *bytes)
{
    if (MT_UNLIKELY(value->ref_count))
        return mt_error(MT_EPROTO, 0, "a result with refs behind it, which are to come before it");
    if (MT_UNLIKELY(value->flags & ~LANE_VALUE_SHARED))
        return mt_error(MT_EPROTO, 0, "a result that is to come from elsewhere");
    return value->flags ? place_check(bytes, value->size) : size_check(value->type, value->size);
}

/* From now on it is found by its id. */
static void name(struct own *own, struct own_ref *ref)
{
    if (ref->flags & OWN_REF_NAMED)
        return;
    if (mt_map_put_ptr(&own->refs, ref->id, ref).code)
        own->out.is_starved = true;
    else
        ref->flags |= OWN_REF_NAMED;
}

void own_ref_wire(struct own *own, struct own_ref *ref, struct lane_ref *out)
{
    if (ref->state == OWN_REF_PLACE && (ref->again == OWN_AGAIN_NOT || ref->again == OWN_AGAIN_MOVED)) {
        *out = *own_ref_place(own, ref);
        ref->flags |= OWN_REF_ESCAPED;
    } else {
        memset(out, 0, sizeof *out);
    }
    out->id = ref->id;
    out->owner_node = own_ref_owner_node(own, ref);
    out->job = own->job;
    out->type = ref->type;
    name(own, ref);
}

void own_ref_ask(struct own *own, struct own_ref *ref)
{
    struct own_msg_ref message = {.id = ref->id, .process = own->process, .node = own->node};
    if (!(ref->flags & OWN_REF_BORROWED) || ref->flags & OWN_REF_ASKED || own_ref_is_ready(ref))
        return;
    ref->flags |= OWN_REF_ASKED;
    own_watch_peer(own, ref->id.process, own_ref_owner_node(own, ref));
    own_send_message(own, ref->id.process, own_ref_owner_node(own, ref), OWN_MSG_WAIT, &message, sizeof message, NULL, 0);
}

static void answer_process(struct own *own, struct own_ref *ref, uint64_t process, uint32_t node)
{
    struct own_msg_value answer = {.kind = OWN_VALUE_INLINE};
    struct own_failure   freed;
    const void          *bytes = NULL;

    own_ref_wire(own, ref, &answer.ref);
    if (ref->flags & OWN_REF_FREED) {
        own_failure_freed(&freed);
        answer.kind = OWN_VALUE_FAILURE;
        answer.size = OWN_FAILURE_WIRE;
        bytes = &freed;
    } else if (ref->state == OWN_REF_INLINE) {
        answer.size = ref->size;
        bytes = own_ref_bytes(ref);
    } else if (ref->state == OWN_REF_PLACE && ref->again != OWN_AGAIN_LOST && ref->again != OWN_AGAIN_SOUGHT) {
        answer.kind = OWN_VALUE_PLACE;
    } else {
        answer.kind = OWN_VALUE_FAILURE;
        answer.size = OWN_FAILURE_WIRE;
        bytes = ref->state == OWN_REF_PLACE ? own_extra_of(own, ref)->lost : ref->value.failure;
    }
    own_send_message(own, process, node, OWN_MSG_VALUE, &answer, sizeof answer, bytes, answer.size);
}

/* Its worker takes the value from a cell, or as we send it, and may sleep. Where none came, the task comes back and fails. */
static void ahead_ready(struct own *own, struct own_task *task, const struct own_ref *ref)
{
    if (ref->state == OWN_REF_FAILED)
        own_ahead_over(own);
    else if (task->state == OWN_SENT && task->lane->is_remote)
        own_edges_give(own, task, ref);
    if (task->state == OWN_SENT && lane_park_must_wake(task->lane->peer))
        own_wake(own, task->lane->peer);
}

static void argument_ready(struct own *own, struct own_task *task, const struct own_ref *ref)
{
    struct own_actor *actor = task->actor;
    task->waiting_for--;
    if (MT_UNLIKELY(task->is_ahead)) {
        ahead_ready(own, task, ref);
        return;
    }
    if (task->waiting_for || task->state == OWN_WOKEN) /* WOKEN: posted already, to be sent ahead */
        return;
    if (actor && !(actor->any_order && task->kind == LANE_CALL)) {
        own_actor_post(own, actor); /* it stands in its queue all the while */
        return;
    }
    own_task_set_state(task, OWN_WOKEN);
    own_task_post(own, task);
}

/* Without memory it is fetched when it is read. */
static void want_here(struct own *own, const struct own_ref *ref)
{
    if (ref->state == OWN_REF_PLACE && ref->value.place.node != own->node)
        (void)mt_vec_push(&own->out.places, ref->value.place).code;
}

static void wake(struct own *own, struct own_ref *ref)
{
    struct own_waiter *waiter = ref->waiters;
    own->completed++;
    if (MT_LIKELY(!waiter))
        return;
    ref->waiters = NULL;
    while (waiter) {
        struct own_waiter *next = waiter->next;
        switch (waiter->kind) {
        case OWN_WAITS_CALLBACK: own_callback_due(own, waiter); break;
        case OWN_WAITS_TASK: argument_ready(own, waiter->of.task, ref); break;
        case OWN_WAITS_FETCH: want_here(own, ref); break;
        case OWN_WAITS_PROCESS: answer_process(own, ref, waiter->of.asker.process, waiter->of.asker.node); break;
        }
        if (waiter->kind != OWN_WAITS_CALLBACK) /* the shell has that one */
            own_waiter_free(waiter);
        waiter = next;
    }
}

void own_ref_set_inline(struct own *own, struct own_ref *ref, uint8_t type, const void *data, uint32_t size)
{
    uint8_t *to = ref->value.small;
    if (own_ref_is_ready(ref))
        return;                    /* published once: the first outcome stands */
    MT_ASSERT(size <= UINT16_MAX); /* a record's value, at most */
    if (size > (ref->flags & OWN_REF_BORROWED ? (uint32_t)OWN_SMALL_BORROWED : (uint32_t)OWN_SMALL)) {
        to = mt_spare_take(&own->spare, size);
        if (!to) {
            struct own_failure f;
            own_failure_set(&f, MT_ENOMEM, "no memory for a result of %u bytes", size);
            own_ref_set_failed(own, ref, &f);
            return;
        }
        ref->value.heap = to;
        ref->flags |= OWN_REF_HEAP;
    }
    if (size)
        memcpy(to, data, size);
    if (type == 's' && size)
        to[size - 1] = 0; /* whoever made it: a text ends */
    ref->type = type;
    ref->size = (uint16_t)size;
    own_ref_set_state(ref, OWN_REF_INLINE);
    wake(own, ref);
}

void own_ref_set_place(struct own *own, struct own_ref *ref, const struct lane_ref *place)
{
    if (own_ref_is_ready(ref))
        return;
    uint32_t owner_node = ref->flags & OWN_REF_BORROWED ? ref->value.place.owner_node : place->owner_node;
    ref->value.place = *place;
    ref->value.place.owner_node = owner_node;
    ref->type = place->type;
    own_ref_set_state(ref, OWN_REF_PLACE);
    if (place->node != own->node)
        name(own, ref); /* that node may leave, and say where the value is then */
    wake(own, ref);
}

void own_ref_set_failed(struct own *own, struct own_ref *ref, const struct own_failure *failure)
{
    if (own_ref_is_ready(ref))
        return;
    ref->value.failure = own_failure_new(own, failure);
    own_ref_set_state(ref, OWN_REF_FAILED);
    wake(own, ref);
}

void own_ref_add_waiter(struct own *own, struct own_ref *ref, struct own_waiter *waiter)
{
    if (own_ref_is_ready(ref) && waiter->kind == OWN_WAITS_CALLBACK) {
        own_callback_due(own, waiter);
        return;
    }
    if (own_ref_is_there(ref)) {
        answer_process(own, ref, waiter->of.asker.process, waiter->of.asker.node);
        free(waiter);
        return;
    }
    waiter->next = ref->waiters;
    ref->waiters = waiter;
    own_ref_ask(own, ref); /* where we are a borrower ourselves */
}

/* ---- values that were lost, and come again ---- */

static void heard_drop(struct own *own, struct own_ref *ref)
{
    struct own_extra *extra = ref->again == OWN_AGAIN_SOUGHT ? own_extra_of(own, ref) : NULL;
    if (!extra)
        return;
    own_failure_free(own, extra->lost);
    extra->lost = NULL;
}

bool own_lineage_seek(struct own *own, struct own_ref *ref, int32_t code, const char *text)
{
    struct ctl_moved   word = {.code = code};
    struct own_extra  *extra;
    struct own_failure heard;
    if (ref->state != OWN_REF_PLACE || !own_ref_has_place(ref) || ref->flags & (OWN_REF_BORROWED | OWN_REF_FREED) ||
        code == MT_ECORRUPT || own_ref_place(own, ref)->node == own->node)
        return false;
    extra = own_extra_get(own, ref);
    if (!extra)
        return false;
    own_failure_set(&heard, code, "%s", text);
    extra->lost = own_failure_new(own, &heard);
    word.from = *own_ref_place(own, ref);
    own_send(own, CTL_SEEK, own_id_next(own), &word, sizeof word);
    own_ref_set_again(ref, OWN_AGAIN_SOUGHT);
    return true;
}

void own_lineage_found(struct own *own, struct own_ref *ref, const struct lane_ref *place)
{
    bool was_sought = ref->again == OWN_AGAIN_SOUGHT;
    heard_drop(own, ref);
    own_ref_moved(own, ref, place);
    ref->flags |= OWN_REF_ESCAPED;
    if (was_sought)
        wake(own, ref);
}

void own_lineage_nowhere(struct own *own, struct own_ref *ref, const struct own_failure *why)
{
    struct own_extra *extra = own_extra_of(own, ref);
    own_failure_free(own, extra->lost);
    extra->lost = own_failure_new(own, why);
    wake(own, ref); /* processes hear why; tasks find out by themselves */
    heard_drop(own, ref);
    own_ref_set_again(ref, extra->moved.node ? OWN_AGAIN_MOVED : OWN_AGAIN_NOT);
}

bool own_lineage_mark(struct own *own, struct own_ref *ref, bool is_it, uint32_t node)
{
    bool was_there = own_ref_has_place(ref) || ref->again == OWN_AGAIN_SOUGHT;
    if (ref->state != OWN_REF_PLACE || ref->flags & OWN_REF_FREED ||
        (!is_it && !(was_there && node && own_ref_place(own, ref)->node == node)))
        return false;
    heard_drop(own, ref);
    own_ref_set_again(ref, OWN_AGAIN_RUNS);
    if (was_there && own->free_place)
        own->free_place(own, own_ref_place(own, ref), true);
    return true;
}

void own_lineage_value(struct own *own, struct own_ref *ref, const struct lane_value *value, const struct lane_ref *place)
{
    bool is_place = value->flags & LANE_VALUE_SHARED;
    if (ref->again != OWN_AGAIN_RUNS) {
        if (is_place && own->free_place)
            own->free_place(own, place, true); /* what was there is kept */
    } else if (is_place) {
        own_ref_moved(own, ref, place);
        ref->flags |= OWN_REF_ESCAPED;
        name(own, ref);
        wake(own, ref);
    } else {
        struct own_failure f;
        own_failure_set(&f, MT_EOBJ_LOST, "the run gave %u bytes where the first one gave a value of the store", value->size);
        own_lineage_failed(own, ref, &f);
    }
}

void own_lineage_failed(struct own *own, struct own_ref *ref, const struct own_failure *why)
{
    struct own_failure f = *why;
    struct own_extra  *extra;
    if (ref->again != OWN_AGAIN_RUNS)
        return; /* what was there is kept */
    extra = own_extra_get(own, ref);
    if (!extra) {
        own->out.is_starved = true;
        return;
    }
    if (why->outcome != 1 && why->code != MT_ECANCELLED)
        f.code = MT_EOBJ_LOST; /* the function itself did not fail */
    snprintf(f.message, sizeof f.message, "the value was lost, and running its task again failed: %.440s", why->message);
    extra->lost = own_failure_new(own, &f);
    own_ref_set_again(ref, OWN_AGAIN_LOST);
    wake(own, ref);
}
