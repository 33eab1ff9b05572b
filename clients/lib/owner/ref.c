/* SPDX-License-Identifier: Apache-2.0
 *
 * ref.c - the life of a reference: handles here, borrowers elsewhere, and its value.
 *
 * Owns:   every struct own_ref, from slabs that are kept until the end.
 * Thread: the caller's, under the owner lock.
 * Always: a ref lives while it has a hold here, a borrower elsewhere, or a task that will make it.
 *
 * Who hands a ref on tells its owner about the receiver before it lets go of its own: messages of one process to
 * another keep their order, so the owner never sees the count fall to nothing in between.
 */
#include "clients/lib/owner/lineage.h"

#include <stdarg.h>
#include <stdio.h>

enum { REFS_AT_ONCE = 256 };

void own_failure_set(struct own_failure *f, int32_t code, const char *format, ...)
{
    va_list args;
    memset(f, 0, sizeof *f);
    f->code = code;
    va_start(args, format);
    vsnprintf(f->message, sizeof f->message, format, args);
    va_end(args);
}

struct own_failure *own_failure_new(struct own *own, const struct own_failure *why)
{
    struct own_failure *copy;
    if (why->kept == why) {
        copy = (struct own_failure *)(uintptr_t)why;
        copy->holds++;
        return copy;
    }
    copy = mt_stash_take(&own->stash, sizeof *copy);
    if (!copy)
        return &own->no_memory;
    *copy = *why;
    copy->holds = 1;
    copy->kept = copy;
    return copy;
}

void own_failure_free(struct own *own, struct own_failure *failure)
{
    if (failure && failure != &own->no_memory && --failure->holds == 0)
        free(failure);
}

mt_id own_id_next(struct own *own)
{
    return mt_id_make(own->process, ++own->counter, 0);
}

/* The range grows by a quarter each time, as each time is a system call. */
static bool refs_refill(struct own *own)
{
    const size_t    more = REFS_AT_ONCE * sizeof(struct own_ref), has = own->ref_count * sizeof(struct own_ref);
    struct own_ref *refs;
    if (own->ref_count + REFS_AT_ONCE > OWN_REFS_MAX)
        return false;
    if (has + more > own->ref_memory.size &&
        mt_range_grow(&own->ref_memory, has / 4 > more ? has / 4 : more, OWN_REFS_MAX * sizeof *refs).code &&
        mt_range_grow(&own->ref_memory, more, OWN_REFS_MAX * sizeof *refs).code)
        return false;
    refs = (struct own_ref *)own->ref_memory.base + own->ref_count;
    own->ref_count += REFS_AT_ONCE;
    for (int i = REFS_AT_ONCE; i-- > 0;) {
        refs[i].generation = (uint32_t)own->process; /* another process's handle is none here */
        refs[i].value.next_free = own->free_refs;
        own->free_refs = &refs[i];
    }
    return true;
}

struct own_ref *own_ref_new(struct own *own, mt_id id)
{
    struct own_ref *ref = own->free_refs;
    if (!ref) {
        if (!refs_refill(own))
            return NULL;
        ref = own->free_refs;
    }
    own->free_refs = ref->value.next_free;
    ref->id = id;
    ref->holds = 1;
    ref->borrowers = 0;
    ref->handles = 0;
    ref->state = OWN_REF_PENDING;
    ref->type = 'v';
    ref->flags = 0;
    ref->again = OWN_AGAIN_NOT;
    ref->is_counted = 0;
    ref->why_not = OWN_WHY_NO_TASK;
    ref->kept_by = 0;
    ref->size = 0;
    ref->waiters = NULL;
    ref->task = NULL;
    return ref;
}

struct own_ref *own_ref_failed(struct own *own, const struct own_failure *failure)
{
    struct own_ref *ref = own_ref_new(own, own_id_next(own));
    if (ref)
        own_ref_set_failed(own, ref, failure);
    return ref;
}

void own_ref_hold(struct own_ref *ref)
{
    ref->holds++;
}

/* What of its value is this process's own memory. */
static inline void memory_free(struct own *own, struct own_ref *ref)
{
    if (ref->state == OWN_REF_INLINE && ref->flags & OWN_REF_HEAP)
        mt_spare_give(&own->spare, ref->value.heap, ref->size);
    else if (ref->state == OWN_REF_FAILED)
        own_failure_free(own, ref->value.failure);
}

void own_ref_value_free(struct own *own, struct own_ref *ref)
{
    bool is_there = ref->again == OWN_AGAIN_NOT || ref->again == OWN_AGAIN_MOVED;
    if (MT_UNLIKELY(ref->is_counted))
        own->kept_bytes -= ref->value.place.size;
    ref->is_counted = 0;
    memory_free(own, ref);
    if (ref->state == OWN_REF_PLACE && is_there && !(ref->flags & (OWN_REF_BORROWED | OWN_REF_FREED)) && own->free_place)
        own->free_place(own, own_ref_place(own, ref), ref->flags & OWN_REF_ESCAPED);
}

void own_failure_freed(struct own_failure *f)
{
    own_failure_set(f, MT_EOBJ_LOST, "the value was freed by manta_free_now");
}

bool own_ref_free_now(struct own *own, struct own_ref *ref)
{
    struct own_msg_ref message = {.id = ref->id, .process = own->process, .node = own->node};
    bool               is_ours = !(ref->flags & OWN_REF_BORROWED);
    if (is_ours && !own_ref_is_there(ref))
        return false;
    if (ref->flags & OWN_REF_FREED || ref->state == OWN_REF_FAILED || ref->again == OWN_AGAIN_LOST)
        return true;
    ref->flags |= OWN_REF_FREED; /* the place stays known: views of it are still to be released */
    if (!is_ours)
        own_send_message(own, ref->id.process, own_ref_owner_node(own, ref), OWN_MSG_FREE, &message, sizeof message, NULL, 0);
    else if (ref->state == OWN_REF_PLACE && own->free_place)
        own->free_place(own, own_ref_place(own, ref), ref->flags & OWN_REF_ESCAPED);
    return true;
}

static void waiters_free(struct own_ref *ref)
{
    while (ref->waiters) {
        struct own_waiter *waiter = ref->waiters;
        ref->waiters = waiter->next;
        free(waiter);
    }
}

/* ---- the end ---- */

static bool is_in_use(const struct own_ref *ref)
{
    return ref->holds || ref->borrowers || ref->kept_by || ref->task;
}

/* One failure stands for all refs that have ended alike: a copy for each of a million would be 2 GB. */
struct settling {
    struct own_failure *not_done, *unknown, *lost;
};

static void ending(struct own *own, int32_t code, int32_t outcome, const char *what, const char *text, struct own_failure **out)
{
    struct own_failure f;
    own_failure_set(&f, code, "%s: %s", what, text);
    f.outcome = outcome;
    *out = own_failure_new(own, &f);
}

static void settle(struct own *own, struct own_ref *ref, const struct settling *with, bool may_ask)
{
    struct own_failure *why = with->lost;
    uint8_t             stay = OWN_REF_HEAP | OWN_REF_FREED;
    for (struct own_waiter *w = ref->waiters, *next; w; w = next) {
        next = w->next;
        if (w->fn)
            ref->holds--; /* a callback that never runs */
        free(w);
    }
    if (ref->state == OWN_REF_PENDING)
        why = may_ask && ref->task && own_task_withdraw(ref->task) ? with->not_done : with->unknown;
    if (ref->state == OWN_REF_PENDING || ref->state == OWN_REF_PLACE) {
        ref->state = OWN_REF_FAILED;
        ref->value.failure = own_failure_new(own, why);
        stay = 0;
    }
    ref->flags &= stay;
    ref->waiters = NULL;
    ref->task = NULL;
    ref->borrowers = 0;
    ref->kept_by = 0;
    ref->again = OWN_AGAIN_NOT;
    ref->is_counted = 0;
}

void own_refs_settle(struct own *own, int32_t code, const char *text)
{
    struct settling with;
    ending(own, code, 0, "what makes this value did not begin, and will not", text, &with.not_done);
    ending(own, code, 2, "what makes this value may have run, and its outcome is lost", text, &with.unknown);
    ending(own, MT_EOBJ_LOST, 1, "the value stood in the object store, which this process has left", text, &with.lost);
    struct own_ref *refs = own->ref_memory.base;
    for (uint32_t i = 0; i < own->ref_count; i++) {
        if (is_in_use(&refs[i]))
            settle(own, &refs[i], &with, code != 0);
        else
            refs[i].state = OWN_REF_PENDING; /* which no other is any more */
    }
    own_failure_free(own, with.not_done);
    own_failure_free(own, with.unknown);
    own_failure_free(own, with.lost);
}

static void value_free(struct own *own, struct own_ref *ref)
{
    memory_free(own, ref);
    ref->state = OWN_REF_PENDING;
    ref->flags = 0;
}

/* Those that the user holds are left, and their numbers with them. */
void own_refs_pack(struct own *own)
{
    struct own_ref *refs = own->ref_memory.base;
    bool            any = false;
    own->free_refs = NULL;
    for (uint32_t i = own->ref_count; i-- > 0;) {
        if (refs[i].holds) {
            any = true;
            continue;
        }
        value_free(own, &refs[i]);
        refs[i].value.next_free = own->free_refs;
        own->free_refs = &refs[i];
    }
    if (!any)
        own_refs_fini(own);
}

void own_refs_adopt(struct own *own)
{
    struct own_ref *refs = own->ref_memory.base;
    for (uint32_t i = 0; i < own->ref_count; i++)
        if (refs[i].holds)
            refs[i].id = mt_id_with_index(own_id_next(own), 1);
}

/* And what the user held: the process is about to end. */
void own_refs_fini(struct own *own)
{
    struct own_ref *refs = own->ref_memory.base;
    for (uint32_t i = 0; i < own->ref_count; i++)
        value_free(own, &refs[i]);
    mt_range_fini(&own->ref_memory);
    own->ref_count = 0;
    own->free_refs = NULL;
}

static void ref_free(struct own *own, struct own_ref *ref)
{
    if (MT_UNLIKELY((ref->task || ref->kept_by) && own_lineage_holds(own, ref)))
        return;
    if (ref->flags & OWN_REF_NAMED)
        mt_map_remove(&own->refs, ref->id);
    if (ref->flags & OWN_REF_TOLD) {
        struct own_msg_ref message = {.id = ref->id, .process = own->process, .node = own->node};
        own_send_message(own, ref->id.process, own_ref_owner_node(own, ref), OWN_MSG_RELEASE, &message, sizeof message, NULL, 0);
    }
    own_ref_value_free(own, ref);
    if (MT_UNLIKELY(ref->flags & OWN_REF_EXTRA))
        own_extra_drop(own, ref);
    waiters_free(ref);
    MT_ASSERT(ref->handles == 0);
    ref->value.next_free = own->free_refs;
    own->free_refs = ref;
}

void own_ref_drop(struct own *own, struct own_ref *ref)
{
    MT_ASSERT(ref->holds > 0);
    if (--ref->holds == 0 && ref->borrowers == 0)
        ref_free(own, ref);
}

void own_ref_unheld(struct own *own, struct own_ref *ref)
{
    if (ref->holds == 0 && ref->borrowers == 0)
        ref_free(own, ref);
}

/* ---- the value arrives ---- */

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
    } else if (ref->state == OWN_REF_PLACE && ref->again != OWN_AGAIN_LOST) {
        answer.kind = OWN_VALUE_PLACE;
    } else {
        answer.kind = OWN_VALUE_FAILURE;
        answer.size = OWN_FAILURE_WIRE;
        bytes = ref->state == OWN_REF_PLACE ? own_extra_of(own, ref)->lost : ref->value.failure;
    }
    own_send_message(own, process, node, OWN_MSG_VALUE, &answer, sizeof answer, bytes, answer.size);
}

void own_ref_wake(struct own *own, struct own_ref *ref)
{
    struct own_waiter *waiter = ref->waiters;
    own->completed++;
    if (MT_LIKELY(!waiter))
        return;
    ref->waiters = NULL;
    while (waiter) {
        struct own_waiter *next = waiter->next;
        if (waiter->fn) {
            own_callback_due(own, waiter);
            waiter = next;
            continue;
        }
        if (waiter->task)
            own_task_argument_ready(own, waiter->task);
        else
            answer_process(own, ref, waiter->process, waiter->node);
        free(waiter);
        waiter = next;
    }
    own_woken_move(own);
}

void own_actor_post(struct own *own, struct own_actor *actor)
{
    if (actor->is_woken)
        return;
    actor->is_woken = true;
    actor->next_woken = own->woken_actors;
    own->woken_actors = actor;
}

void own_woken_move(struct own *own)
{
    if (own->is_moving_woken)
        return;
    own->is_moving_woken = true;
    while (own->woken.first || own->woken_actors) {
        struct own_task  *task = own_queue_pop(&own->woken);
        struct own_actor *actor = task ? NULL : own->woken_actors;
        if (task) {
            own_task_woken(own, task);
            continue;
        }
        own->woken_actors = actor->next_woken;
        actor->is_woken = false;
        own_actor_pump(own, actor);
    }
    own->is_moving_woken = false;
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
    ref->type = type;
    ref->size = (uint16_t)size;
    ref->state = OWN_REF_INLINE;
    own_ref_wake(own, ref);
}

void own_ref_set_place(struct own *own, struct own_ref *ref, const struct lane_ref *place)
{
    if (own_ref_is_ready(ref))
        return;
    uint32_t owner_node = ref->flags & OWN_REF_BORROWED ? ref->value.place.owner_node : place->owner_node;
    ref->value.place = *place;
    ref->value.place.owner_node = owner_node;
    ref->type = place->type;
    ref->state = OWN_REF_PLACE;
    own_ref_wake(own, ref);
}

void own_ref_set_failed(struct own *own, struct own_ref *ref, const struct own_failure *failure)
{
    if (own_ref_is_ready(ref))
        return;
    ref->value.failure = own_failure_new(own, failure);
    ref->state = OWN_REF_FAILED;
    own_ref_wake(own, ref);
}

/* ---- other processes ---- */

void own_ref_add_waiter(struct own *own, struct own_ref *ref, struct own_waiter *waiter)
{
    struct own_failure gone;
    if (own_ref_is_ready(ref) && waiter->fn) {
        own_callback_due(own, waiter);
        return;
    }
    if (ref->again == OWN_AGAIN_GONE)
        (void)own_ref_lost(own, ref, NULL, MT_EOBJ_LOST, "it was let go", &gone);
    if (own_ref_is_there(ref)) {
        answer_process(own, ref, waiter->process, waiter->node);
        free(waiter);
        return;
    }
    waiter->next = ref->waiters;
    ref->waiters = waiter;
    own_ref_ask(own, ref); /* where we are a borrower ourselves */
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
    if (ref->flags & OWN_REF_NAMED)
        return;
    if (mt_map_put_ptr(&own->refs, ref->id, ref).code)
        own->out.is_starved = true;
    else
        ref->flags |= OWN_REF_NAMED;
}

struct own_ref *own_ref_borrow(struct own *own, const struct lane_ref *wire)
{
    struct own_ref *ref = mt_map_ptr(&own->refs, wire->id);
    if (ref) {
        ref->holds++;
        return ref;
    }
    ref = own_ref_new(own, wire->id);
    if (!ref)
        return NULL;
    if (mt_map_put_ptr(&own->refs, ref->id, ref).code) {
        own_ref_drop(own, ref);
        return NULL;
    }
    ref->flags = OWN_REF_NAMED | OWN_REF_BORROWED | OWN_REF_ESCAPED;
    ref->value.place.owner_node = wire->owner_node;
    if (ref->id.process == own->process) { /* ours, and not known any more: nobody will ever answer */
        struct own_failure gone;
        own_failure_set(&gone, MT_EOBJ_LOST, "the value was freed before this reference to it came back");
        own_ref_set_failed(own, ref, &gone);
    } else if (wire->node) {
        ref->value.place = *wire;
        ref->type = wire->type;
        ref->state = OWN_REF_PLACE;
    }
    return ref;
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

/* Tells the owner that (process, node) holds the ref: of ours it is noted here, of others the owner is told. */
void own_ref_tell(struct own *own, struct own_ref *ref, uint64_t process, uint32_t node)
{
    struct own_msg_ref message = {.id = ref->id, .process = process, .node = node};
    if (!(ref->flags & OWN_REF_BORROWED))
        own_borrow_add(own, ref, process, node);
    else
        own_send_message(own, ref->id.process, own_ref_owner_node(own, ref), OWN_MSG_BORROW, &message, sizeof message, NULL, 0);
}

/* One entry for each (ref, process): a process says so once, whatever the number of its handles. */
static mt_id borrow_key(mt_id ref, uint64_t process)
{
    mt_id key = {ref.process ^ (process << 1 | process >> 63) ^ 1, ref.counter_index ^ process * 0x9e3779b97f4a7c15u};
    if (key.process == 0)
        key.process = 1;
    return key;
}

void own_borrow_add(struct own *own, struct own_ref *ref, uint64_t process, uint32_t node)
{
    mt_id              key = borrow_key(ref->id, process);
    struct own_borrow *borrow;
    if (mt_map_find(&own->borrows, key))
        return;
    borrow = mt_stash_take(&own->stash, sizeof *borrow);
    if (!borrow || mt_map_put_ptr(&own->borrows, key, borrow).code) {
        free(borrow);
        own->out.is_starved = true; /* the borrower would lose the value that it holds */
        return;
    }
    borrow->ref = ref->id;
    borrow->process = process;
    ref->borrowers++;
    own_watch_peer(own, process, node);
}

void own_borrow_remove(struct own *own, mt_id id, uint64_t process)
{
    struct own_ref    *ref = mt_map_ptr(&own->refs, id);
    mt_id              key = borrow_key(id, process);
    struct own_borrow *borrow = mt_map_ptr(&own->borrows, key);
    if (!borrow)
        return;
    mt_map_remove(&own->borrows, key);
    free(borrow);
    if (!ref)
        return;
    MT_ASSERT(ref->borrowers > 0);
    ref->borrowers--;
    own_ref_unheld(own, ref);
}
