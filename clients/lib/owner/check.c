/* SPDX-License-Identifier: Apache-2.0
 *
 * check.c - what must hold of the owner half between two events.
 *
 * Owns:   nothing, changes nothing. Thread: the caller's, under the owner lock.
 */
#include "clients/lib/owner/own.h"
#include "clients/lib/owner/ref/kept.h"

/* What was found in the places, to be held against what the slabs say. */
struct found {
    const struct own *own;
    const char       *wrong; /* the first breach; NULL: none */
    uint64_t          in[OWN_CREATED + 1], waiting_outside;
    uint64_t          waiters; /* of tasks, at refs */
    uint64_t          cell_users, ahead;
};

static void hold(struct found *f, bool is_so, const char *what)
{
    if (!is_so && !f->wrong)
        f->wrong = what;
}

/* ---- places ---- */

static bool is_unfinished(const struct own_task *task)
{
    return task->state == OWN_WAITING || task->state == OWN_WOKEN || task->state == OWN_QUEUED || task->state == OWN_SENT ||
           task->state == OWN_CREATED;
}

static void walk_queue(struct found *f, const struct own_queue *q, uint32_t states)
{
    const struct own_task *before = NULL;
    uint32_t               count = 0;
    for (const struct own_task *task = q->first; task && count <= q->count; task = task->next, count++) {
        hold(f, MT_STATE(task->state) & states, "a task stands in a queue that its state does not name");
        hold(f, task->prev == before, "a queue's links do not agree");
        f->in[task->state]++;
        before = task;
    }
    hold(f, count == q->count && q->last == before, "a queue has not the tasks that it counts");
}

static void walk_list(struct found *f, const struct own_task *first, enum own_task_state state)
{
    for (const struct own_task *task = first; task && !f->wrong; task = task->next) {
        hold(f, task->state == state, "a task stands in a list that its state does not name");
        f->in[state]++;
    }
}

static void walk_classes(struct found *f)
{
    const struct own *own = f->own;
    for (size_t i = 0; i < own->class_list.count; i++) {
        const struct own_class *cls = own->class_list.data[i];
        uint32_t                leveled = 0;
        walk_queue(f, &cls->queue, MT_STATE(OWN_QUEUED));
        for (uint32_t k = 0; k < cls->level_count; k++) {
            walk_queue(f, &cls->levels[k].queue, MT_STATE(OWN_QUEUED));
            leveled += cls->levels[k].priority ? cls->levels[k].queue.count : 0;
        }
        hold(f, leveled == cls->leveled, "a class miscounts the tasks of its levels");
        for (uint32_t k = 0; k < cls->lane_count; k++)
            hold(f, cls->lanes[k]->cls == cls, "a class has a lane that is another's");
    }
}

static void walk_lanes(struct found *f)
{
    const struct own *own = f->own;
    for (size_t i = 0; i < own->lanes.count; i++) {
        const struct own_lane *lane = own->lanes.data[i];
        uint32_t               inflight = 0;
        hold(f, lane->index == i, "a lane's index is another's");
        for (uint64_t slot = 0; slot < LANE_SLOTS; slot++) {
            const struct own_task *task = lane->tasks[slot];
            if (!task)
                continue;
            inflight++;
            f->in[task->state]++;
            hold(f, task->state == OWN_SENT && task->lane == lane, "a task stands in a slot, and says that it is elsewhere");
            hold(f, (task->sequence & (LANE_SLOTS - 1)) == slot, "a task stands in a slot that its sequence does not name");
        }
        hold(f, inflight == lane->inflight, "a lane miscounts the tasks in its slots");
    }
}

static void walk_actors(struct found *f)
{
    const uint32_t states = MT_STATE(OWN_WAITING) | MT_STATE(OWN_QUEUED);
    MT_MAP_EACH(&f->own->actors, entry) {
        const struct own_actor *actor = entry->value.ptr;
        walk_queue(f, &actor->queue, states);
        for (int i = 0; actor->groups && i < OWN_GROUPS; i++)
            walk_queue(f, &actor->groups[i], states);
        hold(f, !actor->lane || actor->lane->actor == actor, "an actor has a lane that is another's");
        hold(f, actor->state != OWN_ACTOR_DEAD || actor->failure, "a dead actor does not say why");
        hold(f, actor->state != OWN_ACTOR_DEAD || !own_actor_has_queued(actor), "a dead actor has calls in its queues");
        if (actor->create) {
            hold(f, actor->create->state == OWN_CREATED, "a creation that is over says that it is not");
            f->in[OWN_CREATED]++;
        }
        f->waiting_outside += actor->pending_outside;
    }
}

/* ---- tasks and refs ---- */

static bool has_begun(const struct own_task *task)
{
    return lane_claim_state_of(shm_load64(&task->lane->claims[task->sequence & (LANE_SLOTS - 1)])) != LANE_PENDING;
}

/* What a task that is ahead waits for comes by a cell, or a note says that it does not. */
static void check_edges(struct found *f, const struct own_task *task)
{
    const struct own *own = f->own;
    struct lane_edge  edge;
    bool              is_out = task->state == OWN_QUEUED || task->state == OWN_SENT;
    hold(f, is_out || (!task->is_ahead && !task->cell),
         "a task has a cell, or is ahead, and stands neither in a queue nor on a lane");
    f->cell_users += task->cell != 0;
    hold(f, task->cell <= own->edges.count, "a task has a cell that there is not");
    f->ahead += task->is_ahead;
    for (size_t at = 0; task->is_ahead && own_edge_next(task, &at, &edge);) {
        f->cell_users++;
        hold(f, edge.cell < own->edges.count && own->edges.cells[edge.cell].generation == edge.generation,
             "a task that is ahead names a cell that is another's by now");
    }
    for (uint32_t i = 0; task->is_ahead && !own->edges.is_over && i < task->arg_count; i++) {
        const struct own_ref  *ref = task->args[i].ref;
        const struct own_task *maker = ref && task->args[i].type != 'r' && !own_ref_is_ready(ref) ? ref->task : NULL;
        hold(f, !maker || task->state != OWN_SENT || maker->state == OWN_SENT || has_begun(task),
             "a task was sent before what it waits for");
    }
}

static void check_task(struct found *f, const struct own_task *task)
{
    const struct own *own = f->own;
    for (uint32_t i = 0; i < own_result_count(task); i++)
        hold(f, own_result_at(task, i)->task == task, "a result does not lead to the task that makes it");
    if (task->state == OWN_SENT)
        hold(f, task->lane != NULL, "a task was sent, and has no lane");
    if (task->state == OWN_SENT && task->lane &&
        !(task->lane->index < own->lanes.count && own->lanes.data[task->lane->index] == task->lane))
        f->in[OWN_SENT]++; /* it runs in this very process: the shell has it */
    bool is_outside = task->actor && task->kind == LANE_CALL && task->actor->any_order && task->waiting_for;
    if (task->state == OWN_WAITING && (!task->actor || is_outside))
        f->in[OWN_WAITING]++; /* it is found by its arguments alone */
    if (task->actor && (is_outside || task->state == OWN_WOKEN))
        f->waiting_outside--;
    hold(f, task->state != OWN_WAITING || task->actor || task->waiting_for, "a task waits, and no argument of it is to come");
    hold(f, !task->waiting_for || task->state == OWN_WAITING || task->state == OWN_WOKEN || task->is_ahead,
         "arguments are to come for a task that does not wait");
    check_edges(f, task);
    f->waiters -= task->waiting_for;
}

static void check_tasks(struct found *f)
{
    const struct own *own = f->own;
    uint64_t          has[OWN_CREATED + 1] = {0}, outstanding = 0, bytes = 0, kept_bytes = 0, of_classes = 0;
    for (size_t i = 0; i < own->task_chunks.count; i++) {
        for (int k = 0; k < OWN_TASKS_PER_CHUNK; k++) {
            const struct own_task *task = &own->task_chunks.data[i][k];
            has[task->state]++;
            if (task->state == OWN_NO_TASK)
                continue;
            check_task(f, task);
            kept_bytes += task->state == OWN_KEPT ? own_kept_weight(task) : 0;
            if (!is_unfinished(task))
                continue;
            outstanding++;
            bytes += sizeof *task + task->blob_size;
            of_classes += !task->actor;
        }
    }
    for (uint32_t state = 0; state <= OWN_CREATED; state++)
        hold(f, has[state] == f->in[state], "a task is in no place, or in two");
    for (size_t i = 0; i < own->class_list.count; i++)
        of_classes -= own->class_list.data[i]->outstanding;
    hold(f, outstanding == own->outstanding && of_classes == 0, "tasks that are not finished are miscounted");
    hold(f, bytes == own->queued_bytes, "the bytes of tasks that are not finished are miscounted");
    hold(f, kept_bytes <= own->kept_bytes, "the bytes of kept tasks are miscounted");
    for (size_t i = 0; i < own->class_list.count; i++)
        f->ahead -= own->class_list.data[i]->ahead_count;
    for (uint32_t i = 0; i < own->edges.count; i++)
        f->cell_users -= own->edges.cells[i].users;
    hold(f, f->ahead == 0, "a class miscounts the tasks that are ahead");
    hold(f, f->cell_users == 0, "the users of cells are miscounted");
    hold(f, f->waiting_outside == 0, "an actor miscounts its calls that are in no queue");
}

/* A copy is sought of what stood on another node, and its loss is known until then. */
static void check_sought(struct found *f, const struct own_ref *ref)
{
    const struct own_extra *extra = ref->flags & OWN_REF_EXTRA ? mt_map_ptr(&f->own->extras, ref->id) : NULL;
    bool                    is_sought = ref->again == OWN_AGAIN_SOUGHT;
    hold(f, !is_sought || !(ref->flags & OWN_REF_BORROWED), "a copy is sought of a value that another process owns");
    hold(f, !is_sought || ref->flags & OWN_REF_NAMED, "a copy is sought, and its word would not find the ref");
    hold(f, !ref->again || !extra || !extra->lost == !(is_sought || ref->again == OWN_AGAIN_LOST),
         "a ref says why its value is lost, and it is not, or the other way round");
}

static void check_refs(struct found *f)
{
    const struct own_ref *refs = f->own->ref_memory.base;
    for (uint32_t i = 0; i < f->own->ref_count; i++) {
        const struct own_ref *ref = &refs[i];
        if (!ref->holds && !ref->borrowers && !ref->kept_by && !ref->task)
            continue; /* free */
        hold(f, !ref->task || ref->task->state != OWN_NO_TASK, "a ref leads to a task that is gone");
        hold(f, ref->handles == 0 || ref->holds > 0, "the user has a handle on a ref, and no hold");
        hold(f, ref->state != OWN_REF_FAILED || ref->value.failure, "a ref failed, and does not say why");
        hold(f, ref->again == OWN_AGAIN_NOT || ref->state == OWN_REF_PLACE, "a value is made again that was not in the store");
        check_sought(f, ref);
        for (const struct own_waiter *w = ref->waiters; w; w = w->next)
            f->waiters += w->kind == OWN_WAITS_TASK;
    }
}

const char *own_check(const struct own *own)
{
    struct found f = {.own = own};
    bool         has_notes = own->woken.first || own->woken_actors || own->to_rerun || own->given_up || own->edges.is_over;
    hold(&f, !has_notes || own->is_posted, "a note was posted that nobody takes up");
    walk_list(&f, own->free_tasks, OWN_NO_TASK);
    walk_list(&f, own->to_rerun, OWN_RERUN);
    walk_list(&f, own->given_up, OWN_GIVEN_UP);
    walk_queue(&f, &own->woken, MT_STATE(OWN_WOKEN));
    walk_queue(&f, &own->kept, MT_STATE(OWN_KEPT));
    walk_classes(&f);
    walk_lanes(&f);
    walk_actors(&f);
    check_tasks(&f);
    check_refs(&f);
    hold(&f, f.waiters == 0, "refs and tasks do not agree about who waits for whom");
    return f.wrong;
}
