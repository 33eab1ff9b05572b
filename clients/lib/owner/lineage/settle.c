/* SPDX-License-Identifier: Apache-2.0
 *
 * settle.c - the one place that moves on what was posted.
 *
 * Thread: the caller's, under the owner lock.
 *
 * How many tasks wait for each other is up to the user, and the stack is not: so who must tell many posts a note and
 * returns. Notes are lists: own->woken, woken_actors, to_rerun, given_up. What is moved on may post others; own_settle is
 * over when none is left, and never runs inside itself.
 */
#include "clients/lib/owner/lineage/lineage.h"

static void task_woken(struct own *own, struct own_task *task)
{
    own_task_set_state(task, OWN_WAITING);
    if (task->actor) {
        task->actor->pending_outside--;
        own_queue_push(own_actor_queue(task->actor, task), task);
        own_actor_post(own, task->actor);
    } else if (task->waiting_for) {
        if (own_ahead_go(own, task)) {
            own_ahead_next(own, task);
            own_class_pump(own, task->cls);
        }
    } else if (own_task_ready(own, task)) {
        struct own_class *cls = task->cls;
        own_class_push(own, cls, task);
        own_ahead_next(own, task);
        own_class_pump(own, cls);
    }
}

static void actor_woken(struct own *own, struct own_actor *actor)
{
    own->woken_actors = actor->next_woken;
    actor->is_woken = false;
    own_actor_take_failed(own, actor);
    own_actor_pump(own, actor);
}

void own_settle(struct own *own)
{
    MT_ASSERT(!own->is_settling);
    own->is_settling = true;
    own->is_posted = false;
    for (;;) {
        if (own->to_rerun) {
            struct own_task *task = own->to_rerun;
            own->to_rerun = task->next;
            own_lineage_again(own, task);
        } else if (own->given_up) {
            own_lineage_free_given_up(own);
        } else if (own->edges.is_over) {
            own_ahead_flush(own);
        } else if (own->woken.first) {
            task_woken(own, own_queue_pop(&own->woken));
        } else if (own->woken_actors) {
            actor_woken(own, own->woken_actors);
        } else {
            break;
        }
    }
    own->is_posted = false;
    own->is_settling = false;
}
