/* SPDX-License-Identifier: Apache-2.0
 *
 * ref.c - the life of a reference: from a place in the slabs until nobody holds it.
 *
 * Owns:   every struct own_ref, from slabs that are kept until the end.
 * Thread: the caller's, under the owner lock.
 * Always: a ref lives while it has a hold here, a borrower elsewhere, or a task that will make it.
 */
#include "clients/lib/owner/ref/ref.h"
#include "clients/lib/owner/ref/doubt.h"
#include "clients/lib/owner/ref/kept.h"

enum { REFS_AT_ONCE = 256 };

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
    own_ref_set_state(ref, OWN_REF_PENDING);
    ref->type = 'v';
    ref->flags = 0;
    own_ref_set_again(ref, OWN_AGAIN_NOT);
    ref->is_counted = 0;
    ref->why_not = OWN_WHY_NO_TASK;
    ref->is_heard = 0;
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
    bool is_there = own_ref_has_place(ref) || ref->again == OWN_AGAIN_SOUGHT; /* what nobody can reach may still stand there */
    if (MT_UNLIKELY(ref->is_counted))
        own->kept_bytes -= ref->value.place.size;
    ref->is_counted = 0;
    memory_free(own, ref);
    if (ref->state == OWN_REF_PLACE && is_there && !(ref->flags & (OWN_REF_BORROWED | OWN_REF_FREED)) && own->free_place)
        own->free_place(own, own_ref_place(own, ref), ref->flags & OWN_REF_ESCAPED);
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
        own_waiter_free(waiter);
    }
}

/* ---- the end ---- */

static void extras_free(struct own *own);

static void extra_drop(struct own *own, struct own_ref *ref)
{
    struct own_extra *extra = own_extra_of(own, ref);
    mt_map_remove(&own->extras, ref->id);
    ref->flags &= (uint8_t)~OWN_REF_EXTRA;
    own_failure_free(own, extra->lost);
    own_doubt_forget(own, extra);
    while (extra->on_free) {
        struct own_waiter *callback = extra->on_free;
        extra->on_free = callback->next;
        own_callback_due(own, callback);
    }
    extra->next = own->gone_extras;
    own->gone_extras = extra;
    extras_free(own);
}

/* Its value goes; it can be made again. */
static void let_go(struct own *own, struct own_ref *ref)
{
    own_ref_value_free(own, ref);
    own_ref_set_again(ref, OWN_AGAIN_GONE);
    if (ref->flags & OWN_REF_EXTRA)
        extra_drop(own, ref);
    if (ref->flags & OWN_REF_NAMED)
        mt_map_remove(&own->refs, ref->id);
    ref->flags &= (uint8_t)~OWN_REF_NAMED;
}

/* Nobody has the ref any more, but tasks that may run again: true: it stays for them. */
static bool lineage_holds(struct own *own, struct own_ref *ref)
{
    bool may_go = ref->state == OWN_REF_PLACE && !(ref->flags & OWN_REF_BORROWED) && ref->again <= OWN_AGAIN_MOVED &&
                  !(ref->flags & OWN_REF_FREED);
    if (own_is_item(ref) && own_items_unheld(own, ref))
        return false;
    if (ref->task && ref->task->state != OWN_KEPT)
        return true; /* it is about to run again, and to hold it */
    if (ref->task && !own_kept_is_wanted(ref->task, 0)) {
        own_lineage_give_up(own, ref->task);
        return true;
    }
    if (may_go && (ref->task || MT_PLANT(MT_PLANT_LINEAGE_UNHELD))) {
        let_go(own, ref);
    } else if (!ref->task && may_go && !ref->is_counted) {
        ref->is_counted = 1; /* only tasks that may run again keep it */
        own->kept_bytes += ref->value.place.size;
    }
    return true;
}

/* It has failed, and nobody was told. What the user has asked for himself is no news, nor is the end of the job; and what others
 * know of, they may have asked for. */
static void tell_unheard(struct own *own, const struct own_ref *ref)
{
    const struct own_failure *why = ref->value.failure;
    if (!(ref->flags & (OWN_REF_BORROWED | OWN_REF_NAMED)) && why->code != MT_ECANCELLED && why->code != MT_ECONN &&
        !why->is_wanted)
        own_out_unheard(&own->out, ref->id, why);
}

static void ref_free(struct own *own, struct own_ref *ref)
{
    if (MT_UNLIKELY((ref->task || ref->kept_by) && lineage_holds(own, ref)))
        return;
    if (MT_UNLIKELY(ref->state == OWN_REF_FAILED && !ref->is_heard))
        tell_unheard(own, ref);
    if (ref->flags & OWN_REF_NAMED)
        mt_map_remove(&own->refs, ref->id);
    if (ref->flags & OWN_REF_TOLD) {
        struct own_msg_ref message = {.id = ref->id, .process = own->process, .node = own->node};
        own_send_message(own, ref->id.process, own_ref_owner_node(own, ref), OWN_MSG_RELEASE, &message, sizeof message, NULL, 0);
    }
    own_ref_value_free(own, ref);
    if (MT_UNLIKELY(ref->flags & OWN_REF_EXTRA))
        extra_drop(own, ref);
    waiters_free(ref);
    MT_ASSERT(ref->handles == 0);
    ref->value.next_free = own->free_refs;
    own->free_refs = ref;
}

void own_ref_unhold(struct own *own, struct own_ref *ref)
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

/* What they declare may declare others: a list of values is walked by list, not by calls. */
static void extras_free(struct own *own)
{
    if (own->is_dropping_extras)
        return;
    own->is_dropping_extras = true;
    while (own->gone_extras) {
        struct own_extra *extra = own->gone_extras;
        own->gone_extras = extra->next;
        own_refs_drop(own, extra->declared, extra->declared_count);
        free(extra);
    }
    own->is_dropping_extras = false;
}

void own_refs_drop(struct own *own, struct own_ref **refs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        own_ref_unhold(own, refs[i]);
    free(refs);
}

/* ---- the end of a job ---- */

static void value_free(struct own *own, struct own_ref *ref)
{
    memory_free(own, ref);
    own_ref_set_state(ref, OWN_REF_PENDING);
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
