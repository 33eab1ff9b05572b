/* SPDX-License-Identifier: Apache-2.0
 *
 * lineage.c - values that were lost, and the tasks that make them again.
 *
 * Owns:   finished tasks whose values stand on another node (OWN_KEPT), in own->kept, oldest first.
 * Thread: the caller's, under the owner lock.
 * Always: a kept task has no hold on its results, which lead to it by ref->task; its arguments count it in ref->kept_by. A ref
 *         that has neither holds nor borrowers stays as long as one of the two does: without its value, where that can be made
 *         again itself.
 *
 *   SENT --values on another node, retries left--> KEPT --lost--> WAITING, one retry less --> QUEUED, SENT, KEPT ...
 *                                                   '--no ref of a value is left, or kept_max is reached--> gone
 */
#include "clients/lib/owner/lineage.h"

#include "core/base/plant.h"

#include <stdio.h>

/* ---- a task's results ---- */

static struct own_stream *stream_of(const struct own_task *task)
{
    return task->results ? task->results->stream : NULL;
}

/* Of a generator: its end; its items are apart (items.c). */
static uint32_t result_count(const struct own_task *task)
{
    return task->results ? task->results->count : 1;
}

static struct own_ref *result_at(const struct own_task *task, uint32_t i)
{
    return i ? task->results->more[i - 1] : task->ref;
}

static bool is_away(const struct own *own, const struct own_ref *ref)
{
    return ref->state == OWN_REF_PLACE && ref->value.place.node != own->node;
}

/* Its value is where its place says: neither lost nor let go. */
static bool is_there(const struct own_ref *ref)
{
    return ref->again == OWN_AGAIN_NOT || ref->again == OWN_AGAIN_MOVED;
}

/* `own_hold`: holds that are the task's own. */
static bool is_wanted(const struct own_task *task, uint32_t own_hold)
{
    if (stream_of(task))
        return stream_of(task)->item_count > 0;
    for (uint32_t i = 0; i < result_count(task); i++) {
        const struct own_ref *ref = result_at(task, i);
        if (ref->holds > own_hold || ref->borrowers || ref->kept_by)
            return true;
    }
    return false;
}

static uint64_t weight(const struct own_task *task)
{
    uint64_t bytes = sizeof *task + task->blob_size + task->arg_count * sizeof *task->args;
    for (uint32_t i = 0; i < task->arg_count; i++)
        bytes += task->args[i].ref ? 0 : task->args[i].size;
    return bytes + (task->results ? sizeof *task->results + task->results->count * sizeof task->results->more[0] : 0);
}

/* ---- giving up ---- */

static void arguments_let_go(struct own *own, struct own_task *task)
{
    for (uint32_t i = 0; i < task->arg_count; i++) {
        struct own_ref *ref = task->args[i].ref;
        task->args[i].ref = NULL;
        if (!ref)
            continue;
        task->args[i].data = NULL;
        ref->kept_by--;
        own_ref_unheld(own, ref);
    }
}

/* What hangs from it may hang from others: a chain of tasks is walked by list, not by calls. */
static void given_up_free(struct own *own)
{
    if (own->is_giving_up)
        return;
    own->is_giving_up = true;
    while (own->given_up) {
        struct own_task   *task = own->given_up;
        struct own_stream *stream = stream_of(task);
        own->given_up = task->next;
        for (uint32_t i = 0; i < result_count(task); i++)
            result_at(task, i)->task = NULL;
        for (uint32_t i = 0; i < result_count(task); i++)
            own_ref_unheld(own, result_at(task, i));
        if (stream)
            own_items_over(own, stream);
        arguments_let_go(own, task);
        free(task->results);
        task->results = NULL;
        if (task->actor)
            task->actor->kept_calls--;
        own_task_free(own, task);
    }
    own->is_giving_up = false;
}

static void leave(struct own *own, struct own_task *task)
{
    own_queue_remove(&own->kept, task);
    own->kept_bytes -= weight(task);
    task->state = OWN_WAITING;
}

void own_lineage_give_up(struct own *own, struct own_task *task)
{
    leave(own, task);
    task->next = own->given_up;
    own->given_up = task;
    given_up_free(own);
}

static void keep_within(struct own *own)
{
    while (own->kept_bytes > own->kept_max && own->kept.first) {
        struct own_task *oldest = own->kept.first;
        for (uint32_t i = 0; i < result_count(oldest); i++)
            result_at(oldest, i)->why_not = OWN_WHY_GIVEN_UP;
        if (stream_of(oldest))
            own_items_why(stream_of(oldest), OWN_WHY_GIVEN_UP);
        own_lineage_give_up(own, oldest);
    }
}

/* ---- keeping ---- */

static void run_again(struct own *own, struct own_task *task);

static enum own_why_not why_not(const struct own *own, const struct own_task *task)
{
    if (task->retries_left == 0)
        return task->attempt ? OWN_WHY_USED_UP : task->actor ? OWN_WHY_CALL : OWN_WHY_ONCE;
    return own->kept_max ? OWN_WHY_NO_TASK : OWN_WHY_GIVEN_UP;
}

static void arguments_keep(struct own *own, struct own_task *task)
{
    for (uint32_t i = 0; i < task->arg_count; i++)
        if (task->args[i].ref)
            task->args[i].ref->kept_by++;
    for (uint32_t i = 0; i < task->arg_count; i++)
        if (task->args[i].ref)
            own_ref_drop(own, task->args[i].ref);
}

/* Whether it has to be kept; what of its values can't be made again is told why. */
static bool is_to_keep(struct own *own, const struct own_task *task, enum own_why_not why)
{
    bool any = false;
    for (uint32_t i = 0; i < result_count(task); i++) {
        any |= is_away(own, result_at(task, i));
        result_at(task, i)->why_not = why;
    }
    return any && !why && is_wanted(task, 1);
}

bool own_lineage_keep(struct own *own, struct own_task *task)
{
    enum own_why_not    why = why_not(own, task);
    enum own_items_left left = stream_of(task) ? own_items_settle(own, task, why) : OWN_ITEMS_HERE;
    if (stream_of(task) ? why || !left : !is_to_keep(own, task, why))
        return false;
    own->queued_bytes -= sizeof *task + task->blob_size;
    own->outstanding--;
    if (task->actor)
        task->actor->kept_calls++;
    else
        task->cls->outstanding--;
    if (task->args)
        own_task_unencode(own, task);
    task->state = OWN_KEPT;
    task->sequence = own->counter;
    own_queue_push(&own->kept, task);
    own->kept_bytes += weight(task);
    arguments_keep(own, task);
    for (uint32_t i = 0; i < result_count(task); i++)
        own_ref_drop(own, result_at(task, i));
    if (left == OWN_ITEMS_LOST)
        run_again(own, task);
    keep_within(own);
    return true;
}

/* Its value goes; it can be made again. */
static void let_go(struct own *own, struct own_ref *ref)
{
    own_ref_value_free(own, ref);
    ref->again = OWN_AGAIN_GONE;
    if (ref->flags & OWN_REF_EXTRA)
        own_extra_drop(own, ref);
    if (ref->flags & OWN_REF_NAMED)
        mt_map_remove(&own->refs, ref->id);
    ref->flags &= (uint8_t)~OWN_REF_NAMED;
}

bool own_lineage_holds(struct own *own, struct own_ref *ref)
{
    bool may_go = ref->state == OWN_REF_PLACE && !(ref->flags & OWN_REF_BORROWED) && ref->again <= OWN_AGAIN_MOVED &&
                  !(ref->flags & OWN_REF_FREED);
    if (own_is_item(ref) && own_items_unheld(own, ref))
        return false;
    if (ref->task && ref->task->state != OWN_KEPT)
        return true; /* it is about to run again, and to hold it */
    if (ref->task && !is_wanted(ref->task, 0)) {
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

/* ---- running again ---- */

bool own_lineage_mark(struct own *own, struct own_ref *ref, bool is_it, uint32_t node)
{
    bool was_there = is_there(ref);
    if (ref->state != OWN_REF_PLACE || ref->flags & OWN_REF_FREED ||
        (!is_it && !(was_there && node && own_ref_place(own, ref)->node == node)))
        return false;
    ref->again = OWN_AGAIN_RUNS;
    if (was_there && own->free_place)
        own->free_place(own, own_ref_place(own, ref), true);
    return true;
}

/* It is lost: its task leaves own->kept for `todo`. `node`: all that stood there is. */
static void mark(struct own *own, struct own_ref *ref, uint32_t node, struct own_task **todo)
{
    struct own_task *task = ref->task;
    if (stream_of(task))
        own_items_mark(own, task, ref, node);
    else
        for (uint32_t i = 0; i < result_count(task); i++)
            (void)own_lineage_mark(own, result_at(task, i), result_at(task, i) == ref, node);
    if (task->state != OWN_KEPT)
        return;
    leave(own, task);
    task->next = *todo;
    *todo = task;
}

static const char *why_text(const struct own *own, const struct own_ref *ref, char *out, size_t room)
{
    static const char *const texts[] = {
        [OWN_WHY_NO_TASK] = "no task of another node made it: it was put, or it stood on its owner's own node",
        [OWN_WHY_CALL] = "an actor's call made it, and the actor has no max_task_retries: set them, and the call is made again",
        [OWN_WHY_ONCE] = "its task was called with MANTA_NO_RETRY: let it have max_retries",
        [OWN_WHY_USED_UP] = "its task has used up its max_retries (an actor's call: max_task_retries): let it have more, or "
                            "MANTA_WITHOUT_LIMIT",
        [OWN_WHY_ITEM] = "its generator failed, or was run again for it and failed",
    };
    snprintf(out, room, "%s", ref->why_not == OWN_WHY_GIVEN_UP ? "" : texts[ref->why_not]);
    if (ref->why_not == OWN_WHY_GIVEN_UP)
        snprintf(out, room,
                 "what running its task again needs was given up, since manta_init_opts.lineage_bytes (%llu) was "
                 "reached: set more",
                 (unsigned long long)own->kept_max);
    return out;
}

static void failure_of(struct own *own, const struct own_ref *ref, int32_t code, const char *text, struct own_failure *out)
{
    char why[256];
    bool is_here = ref->state == OWN_REF_PLACE && own_ref_place(own, ref)->node == own->node;
    if (is_here && (code == MT_ENODE_DIED || code == MT_ETIMEDOUT)) /* it is not lost */
        own_failure_set(out, code, "the value is on its owner's node, which the reader's could not reach: %s", text);
    else
        own_failure_set(out, code == MT_ECORRUPT ? MT_ECORRUPT : MT_EOBJ_LOST, "the value is lost (%s) and can't be made again: %s",
                        text[0] ? text : "it is not where it was", why_text(own, ref, why, sizeof why));
    out->outcome = 1; /* it was made */
}

/* Its arguments are its own again; those that are known to be lost are made again as well. False: one of them can't be. */
static bool arguments_again(struct own *own, struct own_task *task, uint32_t node, struct own_task **todo, struct own_failure *out)
{
    bool all = true;
    for (uint32_t i = 0; i < task->arg_count; i++) {
        struct own_ref *ref = task->args[i].ref;
        char            text[64];
        if (!ref)
            continue;
        ref->kept_by--;
        own_ref_hold(ref);
        snprintf(text, sizeof text, "argument %u of its task %s is gone", i + 1, task->name);
        bool is_lost = ref->again == OWN_AGAIN_GONE || (node && ref->state == OWN_REF_PLACE && is_there(ref) &&
                                                        !(ref->flags & OWN_REF_BORROWED) && own_ref_place(own, ref)->node == node);
        if (ref->flags & OWN_REF_FREED) {
            own_failure_freed(out);
            all = false;
        } else if (is_lost && ref->task) {
            mark(own, ref, node, todo);
        } else if (is_lost) {
            failure_of(own, ref, MT_EOBJ_LOST, text, out);
            all = false;
        }
    }
    return all;
}

static void again(struct own *own, struct own_task *task, uint32_t node, struct own_task **todo)
{
    struct own_failure f;
    own->again_count++;
    own->outstanding++;
    own->queued_bytes += sizeof *task + task->blob_size;
    if (task->actor)
        task->actor->kept_calls--;
    else
        task->cls->outstanding++;
    task->attempt = (uint16_t)(task->attempt == UINT16_MAX ? 1 : task->attempt + 1);
    task->retries_left -= task->retries_left > 0 && !MT_PLANT(MT_PLANT_AGAIN_UNCOUNTED);
    task->cancel = 0;
    if (task->results)
        own_results_again(own, task);
    for (uint32_t i = 0; i < result_count(task); i++)
        own_ref_hold(result_at(task, i));
    if (!arguments_again(own, task, node, todo, &f)) {
        own_task_fail(own, task, &f);
    } else if (!own_task_wait(own, task)) {
        own_failure_set(&f, MT_ENOMEM, "no memory to run %s again", task->name);
        own_task_fail(own, task, &f);
    } else if (task->actor) {
        own_actor_add_again(own, task->actor, task);
    } else if (!task->waiting_for && own_task_ready(own, task)) {
        own_class_push(own, task->cls, task);
        own_class_pump(own, task->cls);
    }
}

static void all_again(struct own *own, uint32_t node, struct own_task *todo)
{
    while (todo) {
        struct own_task *task = todo;
        todo = task->next;
        again(own, task, node, &todo);
    }
    own_woken_move(own);
}

static void run_again(struct own *own, struct own_task *task)
{
    leave(own, task);
    task->next = NULL;
    all_again(own, 0, task);
}

enum own_lost own_ref_lost(struct own *own, struct own_ref *ref, const struct lane_ref *at, int32_t code, const char *text,
                           struct own_failure *out)
{
    struct own_task *todo = NULL;
    bool             is_node_gone = code == MT_ENODE_DIED || code == MT_ETIMEDOUT;
    if (ref->flags & OWN_REF_FREED) {
        own_failure_freed(out);
        return OWN_LOST_FAILED;
    }
    if (ref->state == OWN_REF_PENDING || ref->again == OWN_AGAIN_RUNS)
        return OWN_LOST_WAIT;
    if (ref->state == OWN_REF_FAILED || ref->again == OWN_AGAIN_LOST) {
        *out = ref->state == OWN_REF_FAILED ? *ref->value.failure : *own_extra_of(own, ref)->lost;
        return OWN_LOST_FAILED;
    }
    if (at && ref->state == OWN_REF_PLACE && ref->again != OWN_AGAIN_GONE && !own_place_is(at, own_ref_place(own, ref)))
        return OWN_LOST_MOVED;
    if (!ref->task || ref->state != OWN_REF_PLACE) {
        failure_of(own, ref, code, text, out);
        return OWN_LOST_FAILED;
    }
    mark(own, ref, at && is_node_gone ? at->node : 0, &todo);
    all_again(own, at && is_node_gone ? at->node : 0, todo);
    if (ref->again != OWN_AGAIN_LOST)
        return OWN_LOST_WAIT;
    *out = *own_extra_of(own, ref)->lost;
    return OWN_LOST_FAILED;
}

void own_lineage_node_died(struct own *own, uint32_t node)
{
    if (node != own->node)
        (void)mt_map_put_num(&own->lost_nodes, mt_map_key(node), ++own->counter).code; /* else its readers find out */
}

/* Ours, and made by a task that can run again, on a node that has died since. */
static bool is_known_lost(const struct own *own, const struct own_ref *ref)
{
    const mt_map_entry *news;
    if (ref->state != OWN_REF_PLACE || !ref->task || ref->task->state != OWN_KEPT || !is_there(ref))
        return false;
    news = mt_map_find(&own->lost_nodes, mt_map_key(own_ref_place((struct own *)own, ref)->node));
    return news && news->value.num > ref->task->sequence;
}

bool own_lineage_waits(struct own *own, struct own_task *call)
{
    struct own_failure f;
    bool               any = false;
    call->waiting_for++; /* calls that are put before it now must not let it pass */
    for (uint32_t i = 0; i < call->arg_count; i++) {
        struct own_ref *ref = call->args[i].ref;
        if (ref && is_known_lost(own, ref))
            (void)own_ref_lost(own, ref, own_ref_place(own, ref), MT_ENODE_DIED, "its node has died", &f);
        any |= ref && call->args[i].type != 'r' && !own_ref_is_there(ref);
    }
    call->waiting_for--;
    if (!any)
        return false;
    own->queued_bytes -= call->blob_size;
    if (call->blob_size)
        own_task_unencode(own, call); /* with the places of the lost ones */
    (void)own_task_wait(own, call);   /* without memory its worker finds out */
    return call->waiting_for > 0;
}

/* ---- what comes of it ---- */

const struct lane_ref *own_ref_place(struct own *own, const struct own_ref *ref)
{
    const struct own_extra *extra = ref->again ? own_extra_of(own, ref) : NULL;
    return extra && extra->moved.node ? &extra->moved : &ref->value.place;
}

void own_ref_moved(struct own *own, struct own_ref *ref, const struct lane_ref *place)
{
    struct own_extra *extra = own_extra_get(own, ref);
    if (!extra) {
        own->out.is_starved = true;
        return;
    }
    extra->moved = *place;
    ref->again = OWN_AGAIN_MOVED;
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
        own_ref_wake(own, ref);
    } else {
        struct own_failure f;
        own_failure_set(&f, MT_EOBJ_LOST, "the run gave %u bytes where the first one gave a value of the store", value->size);
        own_lineage_failed(own, ref, &f);
    }
}

mt_status own_lineage_declare(struct own *own, struct own_ref *ref, struct own_ref **refs, uint32_t count)
{
    struct own_extra *extra = ref->again == OWN_AGAIN_RUNS ? own_extra_of(own, ref) : NULL;
    if (ref->again != OWN_AGAIN_RUNS) {
        own_refs_drop(own, refs, count);
        return mt_ok();
    }
    if (extra) {
        struct own_ref **before = extra->declared;
        uint32_t         before_count = extra->declared_count;
        extra->declared = NULL;
        extra->declared_count = 0;
        own_refs_drop(own, before, before_count);
    }
    return own_ref_declare(own, ref, refs, count);
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
    ref->again = OWN_AGAIN_LOST;
    own_ref_wake(own, ref);
}
