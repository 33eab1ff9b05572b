/* SPDX-License-Identifier: Apache-2.0
 *
 * look.c - what an owner tells of its tasks that have not ended, and of its actors: how far, and why they wait.
 *
 * Owns:   nothing. Thread: the caller's, under the owner lock.
 *
 * Tasks are found by walking the slabs, a bounded number for one answer; the cursor is a place in them. Why a class has no
 * worker is for the raylet to say, which knows what is free: such a row says "\1", the class's number and a space instead.
 */
#include "clients/lib/owner/talk/talk.h"
#include "core/wire/look.h"

#include <inttypes.h>
#include <stdio.h>

enum { WHY_SIZE = 640 };

struct told { /* one answer in the making */
    struct own             *own;
    const struct lane_look *look;
    mt_buf                  rows;
    struct lane_looked      head;
};

/* ---- why a task waits ---- */

static void why_argument(const struct own *own, const struct own_task *task, char *why)
{
    char id[MT_ID_TEXT_SIZE];
    for (uint16_t i = 0; i < task->arg_count; i++) {
        const struct own_ref *ref = task->args[i].ref;
        if (!ref || task->args[i].type == 'r' || own_ref_is_there(ref))
            continue;
        mt_id_text(ref->id, id);
        if (ref->task)
            snprintf(why, WHY_SIZE, "waits for argument %d: %s of task %s", i + 1, id, ref->task->name);
        else if (ref->flags & OWN_REF_BORROWED)
            snprintf(why, WHY_SIZE, "waits for argument %d: %s of owner %016" PRIx64 " on node %u", i + 1, id, ref->id.process,
                     own_ref_owner_node(own, ref));
        else
            snprintf(why, WHY_SIZE, "waits for argument %d: %s of this process (%016" PRIx64 ")", i + 1, id, own->process);
        return;
    }
}

static void why_class(const struct own_class *cls, char *why)
{
    snprintf(why, WHY_SIZE, "\1%u %u leased, %u wanted", cls->wire.class_id, cls->lane_count, cls->wanted);
}

static void why_actor(const struct own_task *task, char *why)
{
    const struct own_actor *actor = task->actor;
    const struct own_task  *first = actor->queue.first;
    if (actor->state == OWN_ACTOR_STARTING && actor->is_mine && actor->cls && !actor->lane)
        why_class(actor->cls, why);
    else if (actor->state == OWN_ACTOR_STARTING)
        snprintf(why, WHY_SIZE, "its actor %s is starting", actor->name);
    else if (actor->state == OWN_ACTOR_RESTARTING)
        snprintf(why, WHY_SIZE, "its actor %s is being restarted", actor->name);
    else if (first && first != task && first->waiting_for)
        snprintf(why, WHY_SIZE, "an earlier call of %s waits for its arguments", first->name);
    else
        snprintf(why, WHY_SIZE, "earlier calls of the actor %s go first", actor->name);
}

/* ---- how far a task is ---- */

/* False: it is over, or a worker's events tell more of it. */
static bool sent_state(const struct own_task *task, enum lane_task_state *out, char *why)
{
    const struct own_lane *lane = task->lane;
    *out = LANE_TASK_SUBMITTED_TO_WORKER;
    if (lane->is_remote) {
        snprintf(why, WHY_SIZE, "sent to node %u", lane->node);
        return true;
    }
    switch (lane_claim_state_of(shm_load64(&lane->claims[task->sequence & (LANE_SLOTS - 1)]))) {
    case LANE_PENDING:
        if (task->cls && !task->actor && task->cls->wanted > task->cls->lane_count) { /* it goes to whichever is leased next */
            *out = LANE_TASK_PENDING_NODE_ASSIGNMENT;
            why_class(task->cls, why);
            return true;
        }
        snprintf(why, WHY_SIZE, "stands behind others at worker pid %d", lane->pid);
        return true;
    case LANE_RUNNING: *out = LANE_TASK_RUNNING; return true;
    default: return false;
    }
}

static bool task_state(const struct own *own, const struct own_task *task, enum lane_task_state *out, char *why)
{
    why[0] = 0;
    if (task->state == OWN_KEPT || task->state == OWN_RERUN || task->state == OWN_GIVEN_UP || task->state == OWN_CREATED)
        return false;
    if (task->state == OWN_SENT)
        return sent_state(task, out, why);
    if (task->waiting_for) {
        *out = LANE_TASK_PENDING_ARGS_AVAIL;
        why_argument(own, task, why);
    } else if (task->actor && task->kind != LANE_CREATE) {
        *out = LANE_TASK_PENDING_ACTOR;
        why_actor(task, why);
    } else {
        const struct own_class *cls = task->actor ? task->actor->cls : task->cls;
        *out = LANE_TASK_PENDING_NODE_ASSIGNMENT;
        if (cls)
            why_class(cls, why);
    }
    return true;
}

static void wall_text(uint64_t ns, char out[24])
{
    snprintf(out, 24, "%" PRIu64, ns);
    if (!ns)
        out[0] = 0;
}

static void name_of(const struct own_task *task, char *out, size_t size)
{
    bool is_call = task->actor != NULL;
    snprintf(out, size, "%s%s%s", is_call ? task->actor->name : task->name, is_call ? "." : "",
             !is_call                    ? ""
             : task->kind == LANE_CREATE ? "create"
                                         : task->name);
}

static bool is_again(const struct own_task *task)
{
    for (uint32_t i = 0; task->results && i + 1 < task->results->count; i++)
        if (task->results->more[i]->again == OWN_AGAIN_RUNS)
            return true;
    return task->ref && task->ref->again == OWN_AGAIN_RUNS;
}

static mt_status tell_task(struct told *t, const struct own_task *task)
{
    char id[MT_ID_TEXT_SIZE], name[2 * CTL_NAME_SIZE + 2], attempt[8], node[12], pid[12], owner[20], submitted[24], why[WHY_SIZE];
    enum lane_task_state state;
    if (!task_state(t->own, task, &state, why))
        return mt_ok();
    if (is_again(task) && why[0] != '\1')
        snprintf(why, sizeof why, "a value of it was lost: it runs again");
    name_of(task, name, sizeof name);
    const struct own_lane *lane = state >= LANE_TASK_SUBMITTED_TO_WORKER ? task->lane : NULL;
    if (lane_look_hides(t->look, 2, lane_task_state_text(state)) || lane_look_hides(t->look, 1, name))
        return mt_ok(); /* before the rest is made */
    snprintf(attempt, sizeof attempt, "%u", task->attempt);
    snprintf(node, sizeof node, "%u", lane ? lane->node : 0);
    snprintf(pid, sizeof pid, "%d", lane ? lane->pid : 0);
    snprintf(owner, sizeof owner, "%016" PRIx64, t->own->process);
    wall_text(task->submitted_ns, submitted);
    const char *cells[LANE_LOOK_COLUMNS] = {mt_id_text(task->id, id),
                                            name,
                                            lane_task_state_text(state),
                                            attempt,
                                            lane ? node : NULL,
                                            lane ? pid : NULL,
                                            owner,
                                            submitted,
                                            NULL,
                                            NULL,
                                            NULL,
                                            why};
    return lane_look_row(t->look, cells, &t->rows, &t->head.row_count);
}

/* The task in one place of the slabs; NULL: none stands there. */
static const struct own_task *task_at(const struct own *own, uint64_t place)
{
    const struct own_task *task = &own->task_chunks.data[place / OWN_TASKS_PER_CHUNK][place % OWN_TASKS_PER_CHUNK];
    return task->state ? task : NULL;
}

static uint64_t task_places(const struct own *own)
{
    return own->task_chunks.count * OWN_TASKS_PER_CHUNK;
}

static mt_status tell_tasks(struct told *t)
{
    uint64_t at = t->look->cursor, end = task_places(t->own);
    for (uint32_t n = 0; at < end && n < LANE_LOOK_TASKS_MAX && t->rows.size < LANE_LOOK_ROWS_BYTES; at++, n++) {
        const struct own_task *task = task_at(t->own, at);
        if (task)
            MT_TRY(tell_task(t, task));
    }
    t->head.cursor = at < end ? at : 0;
    return mt_ok();
}

/* Counts of what does not run yet: what runs or ran is counted where it does. */
static mt_status tell_summary(struct told *t)
{
    struct lane_tallies tallies = {0};
    const char         *names[LANE_TALLIES_MAX];
    char                why[WHY_SIZE];
    uint64_t            at = t->look->cursor, end = task_places(t->own);
    for (uint32_t n = 0; at < end && n < LANE_LOOK_TASKS_MAX; at++, n++) {
        const struct own_task *task = task_at(t->own, at);
        enum lane_task_state   state;
        if (!task || !task_state(t->own, task, &state, why) || state >= LANE_TASK_RUNNING)
            continue;
        if (!lane_tallies_add(&tallies, task->function, state, 0))
            break; /* the next answer goes on with this task */
        names[tallies.last] = task->name;
    }
    for (uint32_t i = 0; i < tallies.count; i++) {
        struct lane_tally_row row;
        lane_tally_row_of(&tallies.items[i], names[i], &row);
        MT_TRY(lane_look_row(t->look, row.cells, &t->rows, &t->head.row_count));
    }
    t->head.cursor = at < end ? at : 0;
    return mt_ok();
}

/* ---- actors ---- */

static mt_status tell_actor(struct told *t, const struct own_actor *actor)
{
    char id[MT_ID_TEXT_SIZE], restarts[12], node[12], pid[12], owner[20], why[WHY_SIZE] = "";
    if (!actor->is_mine)
        return mt_ok(); /* its creator tells of it */
    snprintf(restarts, sizeof restarts, "%u", actor->incarnation > 1 ? actor->incarnation - 1 : 0);
    snprintf(node, sizeof node, "%u", actor->worker_node);
    snprintf(pid, sizeof pid, "%d", actor->worker_pid);
    snprintf(owner, sizeof owner, "%016" PRIx64, t->own->process);
    if (actor->failure)
        snprintf(why, sizeof why, "%s", actor->failure->message);
    else if (actor->state != OWN_ACTOR_ALIVE && actor->state != OWN_ACTOR_DEAD && actor->cls && !actor->lane)
        why_class(actor->cls, why);
    const char *cells[LANE_LOOK_COLUMNS] = {mt_id_text(actor->id, id),
                                            actor->name,
                                            actor->public_name,
                                            actor->state >= OWN_ACTOR_STARTING && actor->state <= OWN_ACTOR_DEAD
                                                ? lane_actor_states[actor->state - OWN_ACTOR_STARTING]
                                                : "",
                                            restarts,
                                            actor->worker_node ? node : NULL,
                                            actor->worker_pid ? pid : NULL,
                                            owner,
                                            why};
    return lane_look_row(t->look, cells, &t->rows, &t->head.row_count);
}

static mt_status tell_actors(struct told *t)
{
    uint64_t place = 0;
    MT_MAP_EACH(&t->own->actors, entry) {
        if (place++ < t->look->cursor)
            continue;
        if (t->rows.size >= LANE_LOOK_ROWS_BYTES) {
            t->head.cursor = place - 1;
            return mt_ok();
        }
        MT_TRY(tell_actor(t, entry->value.ptr));
    }
    return mt_ok();
}

mt_status own_looked_at(struct own *own, const struct lane_record *record, const uint8_t *payload)
{
    struct lane_look look;
    struct told      t = {.own = own, .look = &look};
    mt_status        st = mt_ok();
    mt_buf           answer = {0};
    if (record->length < LANE_RECORD_SIZE + sizeof look)
        return mt_error(MT_EPROTO, 0, "a question that is too short");
    shm_read(&look, payload, sizeof look);
    if (look.filter_count > LANE_LOOK_FILTERS)
        return mt_error(MT_EPROTO, 0, "a question with too many filters");
    if (look.kind == LANE_LOOK_TASKS)
        st = tell_tasks(&t);
    else if (look.kind == LANE_LOOK_TASK_SUMMARY)
        st = tell_summary(&t);
    else if (look.kind == LANE_LOOK_ACTORS)
        st = tell_actors(&t);
    if (st.code == 0)
        st = mt_buf_append(&answer, &t.head, sizeof t.head);
    if (st.code == 0 && t.rows.size)
        st = mt_buf_append(&answer, t.rows.data, t.rows.size);
    if (st.code == 0) /* without memory no answer comes: whoever asked has a limit */
        own_send(own, CTL_LOOKED, record->id, answer.data, answer.size);
    mt_buf_fini(&answer);
    mt_buf_fini(&t.rows);
    return mt_ok();
}
