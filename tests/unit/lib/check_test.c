/* SPDX-License-Identifier: Apache-2.0
 *
 * check_test.c - what must hold of the owner half between two events is checked, and each breach is found.
 */
#include "clients/lib/owner/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { PROCESS = 7, WORKER = 9, LEASE = 5 };

/* One task on a lane, one in the class's queue, one that waits for the first; an actor with a call that waits, too. */
struct world {
    struct own        own;
    void             *lane;
    struct lane_park  park;
    struct own_class *cls;
    struct own_ref   *sent, *queued, *waiting;
    struct own_actor *actor;
};

static struct own_ref *submit(struct world *w, struct own_actor *actor, struct own_ref *argument)
{
    struct own_arg  arg = {.type = 'y', .ref = argument};
    struct own_call call = {.name = "f",
                            .function = 1,
                            .kind = actor ? LANE_CALL : LANE_TASK,
                            .cls = actor ? NULL : w->cls,
                            .actor = actor,
                            .args = &arg,
                            .argc = argument != NULL};
    return own_submit(&w->own, &call);
}

static struct world *begin(void)
{
    struct world         *w = calloc(1, sizeof *w);
    struct own_class_spec spec = {.name = "f", .resource_count = 1, .resources = {{"CPU", 1000}}};
    struct own_call       create = {.name = "create", .function = 3};
    struct ctl_grant      grant = {.lease = LEASE, .class_id = 1, .peer = WORKER, .peer_node = 1};
    struct lane_record    record = {.length = LANE_RECORD_SIZE + sizeof grant, .kind = CTL_GRANT};
    own_init(&w->own, PROCESS, 1, 1, 1);
    w->lane = calloc(1, LANE_BYTES);
    w->cls = own_class_get(&w->own, &spec, (mt_id){0, 0});
    w->sent = submit(w, NULL, NULL);
    assert_int_equal(own_control(&w->own, &record, (const uint8_t *)&grant, w->lane, &w->park).code, MT_OK);
    own_lane_set_state(w->own.lanes.data[0], OWN_LANE_RECALLED); /* it takes no second one */
    w->queued = submit(w, NULL, NULL);
    w->waiting = submit(w, NULL, w->sent);
    spec.flags = CTL_CLASS_ACTOR;
    w->actor = own_actor_new(&w->own, &spec, "space", NULL, 0, 0, &create);
    (void)submit(w, w->actor, w->sent);
    assert_null(own_check(&w->own));
    return w;
}

static void end(struct world *w)
{
    own_fini(&w->own);
    free(w->lane);
    free(w);
}

/* Breaks what the check is to hold, and mends it again where `mend` is set. */
struct breach {
    const char *text;
    void (*make)(struct world *w, bool mend);
};

static void state_of_queued(struct world *w, bool mend)
{
    w->queued->task->state = mend ? OWN_QUEUED : OWN_SENT;
}

static void not_in_its_queue(struct world *w, bool mend)
{
    static struct own_task *task;
    if (mend)
        own_queue_push(&w->cls->queue, task);
    else
        task = own_queue_pop(&w->cls->queue);
}

static void in_two_places(struct world *w, bool mend)
{
    w->own.to_rerun = mend ? NULL : w->waiting->task;
    w->own.is_posted = !mend;
}

static void in_anothers_slot(struct world *w, bool mend)
{
    w->sent->task->sequence += mend ? -1 : 1;
}

static void slot_uncounted(struct world *w, bool mend)
{
    w->own.lanes.data[0]->inflight += mend ? 1 : -1;
}

static void links_broken(struct world *w, bool mend)
{
    w->queued->task->prev = mend ? NULL : w->waiting->task;
}

static void unfinished_miscounted(struct world *w, bool mend)
{
    w->cls->outstanding += mend ? -1 : 1;
}

static void bytes_miscounted(struct world *w, bool mend)
{
    w->own.queued_bytes += mend ? -8 : 8;
}

static void waits_for_more(struct world *w, bool mend)
{
    w->waiting->task->waiting_for = mend ? 1 : 2;
}

static void waits_for_nothing(struct world *w, bool mend)
{
    w->waiting->task->waiting_for = mend;
}

static void note_unseen(struct world *w, bool mend)
{
    w->own.woken_actors = mend ? NULL : w->actor;
}

static void dead_without_reason(struct world *w, bool mend)
{
    w->actor->state = mend ? OWN_ACTOR_STARTING : OWN_ACTOR_DEAD;
}

static void leads_elsewhere(struct world *w, bool mend)
{
    w->queued->task = mend ? w->cls->queue.first : w->sent->task;
}

static void handle_without_hold(struct world *w, bool mend)
{
    static uint32_t holds;
    if (!mend)
        holds = w->queued->holds;
    w->queued->handles = !mend;
    w->queued->holds = mend ? holds : 0;
}

static void again_without_place(struct world *w, bool mend)
{
    w->queued->again = mend ? OWN_AGAIN_NOT : OWN_AGAIN_RUNS;
}

static void outside_miscounted(struct world *w, bool mend)
{
    w->actor->pending_outside = !mend;
}

static void lane_of_another(struct world *w, bool mend)
{
    w->own.lanes.data[0]->cls = mend ? w->cls : NULL;
}

static void index_of_another(struct world *w, bool mend)
{
    w->own.lanes.data[0]->index = !mend;
}

static void each_breach_is_found(void **state)
{
    static const struct breach breaches[] = {
        {"a task stands in a queue that its state does not name", state_of_queued},
        {"a task is in no place, or in two", not_in_its_queue},
        {"a task stands in a list that its state does not name", in_two_places},
        {"a task stands in a slot that its sequence does not name", in_anothers_slot},
        {"a lane miscounts the tasks in its slots", slot_uncounted},
        {"a queue's links do not agree", links_broken},
        {"tasks that are not finished are miscounted", unfinished_miscounted},
        {"the bytes of tasks that are not finished are miscounted", bytes_miscounted},
        {"refs and tasks do not agree about who waits for whom", waits_for_more},
        {"a task waits, and no argument of it is to come", waits_for_nothing},
        {"a note was posted that nobody takes up", note_unseen},
        {"a dead actor does not say why", dead_without_reason},
        {"a result does not lead to the task that makes it", leads_elsewhere},
        {"the user has a handle on a ref, and no hold", handle_without_hold},
        {"a value is made again that was not in the store", again_without_place},
        {"an actor miscounts its calls that are in no queue", outside_miscounted},
        {"a class has a lane that is another's", lane_of_another},
        {"a lane's index is another's", index_of_another},
    };
    struct world *w = begin();
    (void)state;
    for (size_t i = 0; i < sizeof breaches / sizeof breaches[0]; i++) {
        breaches[i].make(w, false);
        assert_non_null(own_check(&w->own));
        assert_string_equal(own_check(&w->own), breaches[i].text);
        breaches[i].make(w, true);
        assert_null(own_check(&w->own));
    }
    end(w);
}

/* ---- states ---- */

static char told[200];
static void note(const char *expr, const char *file, int line)
{
    (void)file, (void)line;
    snprintf(told, sizeof told, "%s", expr);
}

/* A change that no table allows is refused, and says so. */
static void no_machine_goes_where_its_table_does_not(void **state)
{
    struct own_task  task = {.state = OWN_SENT};
    struct own_ref   ref = {.state = OWN_REF_FAILED, .again = OWN_AGAIN_LOST};
    struct own_lane  lane = {.state = OWN_LANE_ENDING};
    struct own_actor actor = {.state = OWN_ACTOR_DEAD};
    (void)state;
    mt_assert_set_hook(note);
    own_task_set_state(&task, OWN_WOKEN);
    assert_string_equal(told, "task: SENT -> WOKEN is no transition");
    own_ref_set_state(&ref, OWN_REF_PLACE);
    assert_string_equal(told, "ref: FAILED -> PLACE is no transition");
    own_ref_set_again(&ref, OWN_AGAIN_MOVED);
    assert_string_equal(told, "ref made again: LOST -> MOVED is no transition");
    own_lane_set_state(&lane, OWN_LANE_RECALLED);
    assert_string_equal(told, "lane: ENDING -> RECALLED is no transition");
    own_actor_set_state(&actor, OWN_ACTOR_ALIVE);
    assert_string_equal(told, "actor: DEAD -> ALIVE is no transition");
    mt_assert_set_hook(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_breach_is_found),
        cmocka_unit_test(no_machine_goes_where_its_table_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
