/* SPDX-License-Identifier: Apache-2.0
 *
 * again.c - finished tasks that are kept, and that run again for lost values.
 *
 * Owns:   finished tasks whose values stand on another node (OWN_KEPT), in own->kept, oldest first.
 * Thread: the caller's, under the owner lock.
 * Always: a ref that has neither holds nor borrowers stays as long as a kept task leads to it, or has it as an argument:
 *         without its value, where that can be made again itself.
 */
#include "clients/lib/owner/lineage/lineage.h"
#include "clients/lib/owner/ref/kept.h"

#include "core/base/plant.h"

#include <stdio.h>

/* ---- giving up ---- */

static void arguments_let_go(struct own *own, struct own_task *task)
{
    for (uint32_t i = 0; i < task->arg_count; i++) {
        struct own_ref *ref = task->args[i].ref;
        task->args[i].ref = NULL;
        if (!ref)
            continue;
        ref->kept_by--;
        own_ref_unheld(own, ref);
    }
}

/* What hangs from them may hang from others, which are posted meanwhile. */
void own_lineage_free_given_up(struct own *own)
{
    while (own->given_up) {
        struct own_task   *task = own->given_up;
        struct own_stream *stream = own_stream_of(task);
        own->given_up = task->next;
        for (uint32_t i = 0; i < own_result_count(task); i++)
            own_result_at(task, i)->task = NULL;
        for (uint32_t i = 0; i < own_result_count(task); i++)
            own_ref_unheld(own, own_result_at(task, i));
        if (stream)
            own_stream_over(own, stream);
        arguments_let_go(own, task);
        free(task->results);
        task->results = NULL;
        if (task->actor)
            task->actor->kept_calls--;
        own_task_free(own, task);
    }
}

static void keep_within(struct own *own)
{
    while (own->kept_bytes > own->kept_max && own->kept.first) {
        struct own_task *oldest = own->kept.first;
        for (uint32_t i = 0; i < own_result_count(oldest); i++)
            own_result_at(oldest, i)->why_not = OWN_WHY_GIVEN_UP;
        if (own_stream_of(oldest))
            own_items_why(own_stream_of(oldest), OWN_WHY_GIVEN_UP);
        own_lineage_give_up(own, oldest);
        own_lineage_free_given_up(own);
    }
}

/* ---- keeping ---- */

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
            own_ref_unhold(own, task->args[i].ref);
}

static bool is_away(const struct own *own, const struct own_ref *ref)
{
    return ref->state == OWN_REF_PLACE && ref->value.place.node != own->node;
}

/* Whether it has to be kept; what of its values can't be made again is told why. */
static bool is_to_keep(struct own *own, const struct own_task *task, enum own_why_not why)
{
    bool any = false;
    for (uint32_t i = 0; i < own_result_count(task); i++) {
        any |= is_away(own, own_result_at(task, i));
        own_result_at(task, i)->why_not = why;
    }
    return any && !why && own_kept_is_wanted(task, 1);
}

bool own_lineage_keep(struct own *own, struct own_task *task)
{
    enum own_why_not    why = why_not(own, task);
    enum own_items_left left = own_stream_of(task) ? own_items_settle(own, task, why) : OWN_ITEMS_HERE;
    if (own_stream_of(task) ? why || !left : !is_to_keep(own, task, why))
        return false;
    own->queued_bytes -= sizeof *task + task->blob_size;
    own->outstanding--;
    if (task->actor)
        task->actor->kept_calls++;
    else
        task->cls->outstanding--;
    if (task->waiting_for) /* it was ahead, and is told of before those that made what it took */
        own_task_wait_no_more(task);
    if (task->args)
        own_task_unencode(own, task);
    own_cell_drop(own, task);
    own_task_set_state(task, OWN_KEPT);
    task->ended_at = own->counter;
    own_queue_push(&own->kept, task);
    own->kept_bytes += own_kept_weight(task);
    arguments_keep(own, task);
    for (uint32_t i = 0; i < own_result_count(task); i++)
        own_ref_unhold(own, own_result_at(task, i));
    if (left == OWN_ITEMS_LOST) {
        own_kept_leave(own, task, OWN_RERUN);
        own_rerun_post(own, task, 0);
    }
    keep_within(own);
    return true;
}

/* ---- running again ---- */

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

void own_lineage_failure(struct own *own, const struct own_ref *ref, int32_t code, const char *text, struct own_failure *out)
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
static bool arguments_again(struct own *own, struct own_task *task, uint32_t node, struct own_failure *out)
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
        bool is_lost = ref->again == OWN_AGAIN_GONE || (node && ref->state == OWN_REF_PLACE && own_ref_has_place(ref) &&
                                                        !(ref->flags & OWN_REF_BORROWED) && own_ref_place(own, ref)->node == node);
        if (ref->flags & OWN_REF_FREED) {
            own_failure_freed(out);
            all = false;
        } else if (is_lost && own_lineage_seek(own, ref, MT_ENODE_DIED, text)) {
            continue; /* the run waits for it */
        } else if (is_lost && ref->task) {
            own_lineage_lose(own, ref, node);
        } else if (is_lost) {
            own_lineage_failure(own, ref, MT_EOBJ_LOST, text, out);
            all = false;
        }
    }
    return all;
}

void own_lineage_again(struct own *own, struct own_task *task)
{
    struct own_failure f;
    uint32_t           node = (uint32_t)task->lost_node;
    own_task_set_state(task, OWN_WAITING);
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
    for (uint32_t i = 0; i < own_result_count(task); i++)
        own_ref_hold(own_result_at(task, i));
    if (!arguments_again(own, task, node, &f)) {
        own_task_fail(own, task, &f);
        return;
    }
    if (task->arg_count)
        own_task_wait(own, task);
    if (task->actor) {
        own_actor_add_again(own, task->actor, task);
    } else if (!task->waiting_for && own_task_ready(own, task)) {
        own_class_push(own, task->cls, task);
        own_class_pump(own, task->cls);
    }
}

void own_lineage_node_died(struct own *own, uint32_t node)
{
    if (node != own->node)
        (void)mt_map_put_num(&own->lost_nodes, mt_map_key(node), ++own->counter).code; /* else its readers find out */
}
