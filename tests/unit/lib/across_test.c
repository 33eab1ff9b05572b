/* SPDX-License-Identifier: Apache-2.0
 *
 * across_test.c - a task that is sent before its argument has come, which is made on another node: each class has one worker.
 */
#include "tests/unit/lib/edge_world.h"

static struct world *begin_apart(uint32_t first, uint32_t second)
{
    struct world *w = world_new(first, second);
    w->other = class_of(w, 1);
    own_class_demand(&w->own, w->cls, 1);
    own_class_demand(&w->own, w->other, 1);
    granted(w, 0);
    granted(w, 1);
    /* The first that crosses tells that others may. */
    struct own_ref *before = submit(w, NULL, NULL, 0), *after = submit_to(w, w->other, before, NULL, 0);
    assert_false(after->task->is_ahead);
    own_flush(&w->own);
    assert_true(takes(w, 0));
    ends(w, 0, 1);
    polled(w);
    assert_true(takes(w, 1));
    ends(w, 1, 1);
    polled(w);
    own_ref_drop(&w->own, before);
    own_ref_drop(&w->own, after);
    w->maker = submit(w, NULL, NULL, 0);
    w->taker = submit_to(w, w->other, w->maker, NULL, 0);
    own_flush(&w->own);
    sound(w);
    assert_true(w->taker->task->is_ahead);
    assert_ptr_equal(w->taker->task->lane->memory, w->lanes[1]);
    assert_false(takes(w, 1));
    assert_false(wrk_has_work(&w->workers[1])); /* it may sleep */
    return w;
}

static void takes_and_ends(struct world *w)
{
    assert_true(wrk_has_work(&w->workers[1]));
    assert_true(takes(w, 1));
    assert_int_equal(argument(w, 1), 42);
    ends(w, 1, 43);
    polled(w);
    assert_int_equal(value_of(w->maker), 42);
    assert_int_equal(value_of(w->taker), 43);
    end(w);
}

static void across_a_value_is_sent_behind_its_task(void **state)
{
    static const uint32_t from[] = {HERE, ELSEWHERE};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct world *w = begin_apart(from[i], THERE);
        assert_true(takes(w, 0));
        w->own.out.wake_count = 0;
        lane_park_prepare(&w->owners);
        ends_shown(w, 0, 0, 42, 8, false);
        assert_int_equal(w->workers[0].out.wake_count, 1); /* it waits for that */
        lane_park_cancel(&w->owners);
        w->workers[0].out.wake_count = 0;
        lane_park_prepare(&w->parks[1]);
        polled(w);
        assert_int_equal(w->own.out.wake_count, 1);
        assert_ptr_equal(w->own.out.wake[0], &w->parks[1]);
        w->own.out.wake_count = 0;
        lane_park_cancel(&w->parks[1]);
        takes_and_ends(w);
    }
}

static void across_a_value_comes_to_our_node_by_a_cell(void **state)
{
    struct world *w = begin_apart(THERE, HERE);
    (void)state;
    assert_true(takes(w, 0));
    ends_shown(w, 0, 0, 42, 8, false);
    assert_false(takes(w, 1));
    polled(w); /* we fill it */
    takes_and_ends(w);
}

/* What is sent is not bound to a cell's size. */
static void across_a_long_value_is_sent_too(void **state)
{
    struct world *w = begin_apart(HERE, THERE);
    (void)state;
    assert_true(takes(w, 0));
    ends_shown(w, 0, 0, 42, TOO_LARGE, true);
    polled(w);
    assert_true(takes(w, 1));
    struct lane_value value;
    const uint8_t    *bytes = w->runs[1].payload + sizeof(struct lane_call_head) + sizeof value;
    assert_true(wrk_edge_value(&w->runs[1], bytes, &value, &bytes));
    assert_int_equal(value.size, TOO_LARGE);
    assert_int_equal(bytes[0], 42);
    ends(w, 1, 43);
    polled(w);
    end(w);
}

/* Of another task of the slot, another argument, and one that is cut short: none is the value. */
static void across_only_what_is_meant_is_taken(void **state)
{
    struct world    *w = begin_apart(HERE, THERE);
    struct own_lane *lane = w->taker->task->lane;
    uint8_t          payload[16] = {'l', 0, 0, 0, 8};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct lane_record record = {.length = LANE_RECORD_SIZE + (i == 2 ? 12 : 16),
                                     .kind = LANE_ARGUMENT,
                                     .slot = (uint32_t)w->taker->task->sequence,
                                     .sequence = w->taker->task->sequence + (i == 0 ? LANE_SLOTS : 0),
                                     .aux = i == 1};
        assert_true(lane_ring_push(&lane->forward, &record, payload));
        lane_ring_publish(&lane->forward);
        assert_false(takes(w, 1));
    }
    assert_true(takes(w, 0));
    ends(w, 0, 42);
    polled(w);
    takes_and_ends(w);
}

/* It is asked back, and comes to its owner with a switch's answer; there it fails as its maker did. */
static void across_what_fails_is_asked_back(void **state)
{
    struct world *w = begin_apart(HERE, THERE);
    (void)state;
    arrives(w, w->taker);
    leaves(w, w->taker);
    assert_true(takes(w, 0));
    ends_shown(w, 0, MT_ETASK, 0, 0, true);
    polled(w);
    assert_int_equal(w->maker->value.failure->code, MT_ETASK);
    assert_true(w->taker->task->is_asked_back);
    leave(w);
}

/* Its maker is to run again: behind that it may go once more. */
static void across_a_maker_is_recalled(void **state)
{
    struct world      *w = begin_apart(HERE, THERE);
    struct ctl_lease   lease = {.lease = 1};
    struct lane_record record = {.length = LANE_RECORD_SIZE + sizeof lease, .kind = CTL_RECALL};
    (void)state;
    assert_int_equal(own_control(&w->own, &record, (const uint8_t *)&lease, NULL, NULL).code, MT_OK);
    sound(w);
    assert_int_equal(w->maker->task->state, OWN_QUEUED);
    assert_int_equal(w->taker->task->state, OWN_WAITING);
    assert_false(takes(w, 1));
    leave(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(across_a_value_is_sent_behind_its_task), cmocka_unit_test(across_a_value_comes_to_our_node_by_a_cell),
        cmocka_unit_test(across_a_long_value_is_sent_too),        cmocka_unit_test(across_only_what_is_meant_is_taken),
        cmocka_unit_test(across_what_fails_is_asked_back),        cmocka_unit_test(across_a_maker_is_recalled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
