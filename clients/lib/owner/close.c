/* SPDX-License-Identifier: Apache-2.0
 *
 * close.c - the end of a job in this process, and the beginning of the next.
 *
 * Thread: one at a time (libmanta's owner lock).
 */
#include "clients/lib/owner/own.h"

void own_init(struct own *own, uint64_t process, uint32_t node, uint32_t epoch, uint32_t job)
{
    memset(own, 0, sizeof *own);
    own->process = process;
    own->node = node;
    own->epoch = epoch;
    own->job = job;
    own->kept_max = MT_LIB_LINEAGE_BYTES;
    own->edges.short_ns = OWN_EDGE_SHORT_NS;
    own_failure_set(&own->no_memory, MT_ENOMEM, "it failed, and there was no memory to keep the reason");
    own->no_memory.outcome = 2;
}

/* ---- refs that the user holds ---- */

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
        if (w->kind == OWN_WAITS_CALLBACK)
            ref->holds--; /* a callback that never runs */
        own_waiter_free(w);
    }
    if (ref->state == OWN_REF_PENDING)
        why = may_ask && ref->task && own_task_withdraw(ref->task) ? with->not_done : with->unknown;
    if (ref->state == OWN_REF_PENDING || ref->state == OWN_REF_PLACE) {
        own_ref_set_state(ref, OWN_REF_FAILED);
        ref->value.failure = own_failure_new(own, why);
        stay = 0;
    }
    ref->flags &= stay;
    ref->waiters = NULL;
    ref->task = NULL;
    ref->borrowers = 0;
    ref->kept_by = 0;
    own_ref_set_again(ref, OWN_AGAIN_NOT);
    ref->is_counted = 0;
}

static void refs_settle(struct own *own, int32_t code, const char *text)
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
            own_ref_set_state(&refs[i], OWN_REF_PENDING); /* which no other is any more */
    }
    own_failure_free(own, with.not_done);
    own_failure_free(own, with.unknown);
    own_failure_free(own, with.lost);
}

/* ---- what goes ---- */

static void map_free(mt_map *map)
{
    MT_MAP_EACH(map, entry)
        free(entry->value.ptr);
    mt_map_fini(map);
}

/* Holds that are not the user's go with who had them; what is left of a ref's count are handles and views. */
static void unhold(struct own_ref *const *refs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (refs[i])
            refs[i]->holds--;
}

/* Whatever place it is in. One that is kept, or was, holds nothing (lineage/again.c). */
static void task_end(struct own *own, struct own_task *task)
{
    struct own_results *r = task->results;
    bool                has_holds = task->state != OWN_KEPT && task->state != OWN_RERUN && task->state != OWN_GIVEN_UP;
    for (uint16_t i = 0; i < task->arg_count && has_holds; i++)
        unhold(&task->args[i].ref, 1);
    free(task->args);
    if (has_holds)
        unhold(&task->ref, 1);
    if (r && has_holds)
        unhold(r->more, r->count - 1);
    if (r) {
        unhold(r->declared, r->declared_count);
        free(r->declared);
    }
    free(r);
    own_blob_free(own, task);
}

static void tasks_end(struct own *own)
{
    for (size_t i = 0; i < own->task_chunks.count; i++) {
        struct own_task *chunk = own->task_chunks.data[i];
        for (int k = 0; k < OWN_TASKS_PER_CHUNK; k++)
            if (chunk[k].state != OWN_NO_TASK)
                task_end(own, &chunk[k]);
        free(chunk);
    }
    mt_vec_fini(&own->task_chunks);
}

static void lanes_end(struct own *own)
{
    for (size_t i = 0; i < own->lanes.count; i++)
        free(own->lanes.data[i]);
    for (size_t i = 0; i < own->class_list.count; i++) {
        struct own_class *cls = own->class_list.data[i];
        free(cls->levels);
        free(cls->lanes);
        free(cls);
    }
    mt_vec_fini(&own->lanes);
    mt_vec_fini(&own->class_list);
    mt_map_fini(&own->classes);
}

/* Callbacks that never ran go, with their holds. */
static void waiters_end(struct own_waiter *list)
{
    while (list) {
        struct own_waiter *next = list->next;
        if (list->kind == OWN_WAITS_CALLBACK)
            unhold(&list->of.callback.ref, 1);
        free(list);
        list = next;
    }
}

static void extras_end(struct own *own)
{
    MT_MAP_EACH(&own->extras, entry) {
        struct own_extra *extra = entry->value.ptr;
        unhold(extra->declared, extra->declared_count);
        free(extra->declared);
        own_failure_free(own, extra->lost);
        free(extra->left); /* nobody waits here any more, and own->doubts goes as a whole */
        waiters_end(extra->on_free);
    }
    map_free(&own->extras);
    waiters_end(own->out.callbacks);
}

/* A generator that the user holds has only its end left: a failure, where items were still to be taken. */
static void streams_end(struct own *own)
{
    struct own_failure lost;
    own_failure_set(&lost, MT_EOBJ_LOST, "items of this generator that had not been taken went with its job");
    for (struct own_stream *s = own->streams, *next; s; s = next) {
        next = s->next;
        for (size_t i = 0; i < s->items.count; i++)
            if (!s->items.data[i].is_taken)
                unhold(&s->items.data[i].ref, 1);
        if (s->arrived > s->used && s->end->state == OWN_REF_INLINE) {
            own_ref_value_free(own, s->end);
            s->end->flags = 0;
            own_ref_set_state(s->end, OWN_REF_FAILED);
            s->end->value.failure = own_failure_new(own, &lost);
        }
        mt_buf_fini(&s->in);
        mt_buf_fini(&s->out);
        mt_vec_fini(&s->items);
        s->out_at = 0;
        s->item_count = 0;
        s->task = NULL;
        if (!s->is_free)
            continue;
        unhold(&s->end, 1);
        *s->link = s->next;
        if (s->next)
            s->next->link = s->link;
        free(s);
    }
}

/* A handle that the user holds is one of a dead actor. */
static void actors_end(struct own *own, struct own_failure *why)
{
    MT_MAP_EACH(&own->actors, entry) {
        struct own_actor *actor = entry->value.ptr, was = *actor;
        free(was.groups);
        unhold(&was.snapshot, 1);
        waiters_end(was.askers);
        own_failure_free(own, was.create_failed);
        if (was.holds == 0 || !was.failure) {
            own_failure_free(own, was.failure);
            was.failure = NULL;
        }
        *actor = (struct own_actor){.id = was.id,
                                    .holds = was.holds,
                                    .state = OWN_ACTOR_DEAD,
                                    .type = was.type,
                                    .incarnation = was.incarnation,
                                    .owner = was.owner,
                                    .owner_node = was.owner_node,
                                    .failure = was.failure ? was.failure : own_failure_new(own, why)};
        memcpy(actor->name, was.name, sizeof actor->name);
        if (was.holds)
            continue;
        own_failure_free(own, actor->failure);
        mt_map_remove(&own->actors, actor->id);
        free(actor);
    }
}

static void rest_end(struct own *own)
{
    struct own kept = {.no_memory = own->no_memory, .actors = own->actors, .streams = own->streams};
    map_free(&own->borrows);
    map_free(&own->monitors);
    map_free(&own->requests);
    map_free(&own->early_ends);
    mt_map_fini(&own->unwanted);
    mt_map_fini(&own->lost_nodes);
    mt_map_fini(&own->refs);
    mt_map_fini(&own->peers);
    mt_vec_fini(&own->out.unmap);
    mt_vec_fini(&own->out.deaths);
    mt_vec_fini(&own->out.places);
    free(own->out.unheard);
    mt_buf_fini(&own->out.up);
    for (size_t i = 0; i < own->chunks.count; i++)
        free(own->chunks.data[i]);
    mt_vec_fini(&own->chunks);
    mt_stash_fini(&own->stash);
    mt_spare_fini(&own->spare);
    kept.ref_memory = own->ref_memory;
    kept.ref_count = own->ref_count;
    kept.free_refs = own->free_refs;
    *own = kept;
    if (own->streams)
        own->streams->link = &own->streams;
}

void own_close(struct own *own, int32_t code, const char *text)
{
    struct own_failure f, *why;
    own_failure_set(&f, MT_EACTOR_DIED, "the actor has ended with the job of its handle: %s", text);
    why = own_failure_new(own, &f);
    refs_settle(own, code, text);
    unhold(own->news, CTL_NEWS);
    tasks_end(own);
    lanes_end(own);
    extras_end(own);
    streams_end(own);
    actors_end(own, why);
    own_edges_close(own);
    own_failure_free(own, why);
    own_refs_pack(own);
    rest_end(own);
}

void own_reopen(struct own *own, uint64_t process, uint32_t node, uint32_t epoch, uint32_t job)
{
    struct own kept = *own;
    own_init(own, process, node, epoch, job);
    own->actors = kept.actors;
    own->ref_memory = kept.ref_memory;
    own->ref_count = kept.ref_count;
    own->free_refs = kept.free_refs;
    own->spare = kept.spare;
    own->streams = kept.streams;
    if (own->streams)
        own->streams->link = &own->streams;
    own_refs_adopt(own);
}

void own_fini(struct own *own)
{
    own_close(own, 0, "");
    MT_MAP_EACH(&own->actors, entry) {
        struct own_actor *actor = entry->value.ptr;
        own_failure_free(own, actor->failure);
    }
    map_free(&own->actors);
    for (struct own_stream *s = own->streams, *next; s; s = next) {
        next = s->next;
        free(s);
    }
    own->streams = NULL;
    own_refs_fini(own);
    mt_spare_fini(&own->spare);
}
