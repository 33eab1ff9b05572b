/* SPDX-License-Identifier: Apache-2.0
 *
 * edge_test.c - a task that is sent before its argument has come: owner and two workers in one process, each event by hand.
 */
#include "clients/lib/owner/outcome/outcome.h"
#include "tests/unit/lib/edge_world.h"

/* ---- the cases ---- */

static void a_value_goes_from_worker_to_worker(void **state)
{
    struct world *w = begin(0);
    (void)state;
    maps(w, 0);
    assert_false(takes(w, 1));
    assert_false(wrk_has_work(&w->workers[1])); /* it may sleep */
    assert_true(takes(w, 0));
    ends_shown(w, 0, 0, 42, 8, false); /* the owner knows nothing yet */
    assert_true(wrk_has_work(&w->workers[1]));
    assert_true(takes(w, 1));
    assert_int_equal(argument(w, 1), 42);
    ends(w, 1, 43);
    polled(w); /* the consumer's outcome comes first */
    assert_int_equal(value_of(w->taker), 43);
    wrk_flush(&w->workers[0]);
    polled(w);
    assert_int_equal(value_of(w->maker), 42);
    end(w);
}

static void a_sleeper_is_woken_by_its_owner(void **state)
{
    struct world *w = begin(0);
    (void)state;
    assert_false(takes(w, 1));
    lane_park_prepare(&w->parks[1]);
    assert_true(takes(w, 0)); /* its board is not mapped: the owner fills the cell */
    w->runs[0].cell = w->workers[0].run.cell = NULL;
    ends(w, 0, 42);
    w->own.out.wake_count = 0;
    polled(w);
    assert_int_equal(w->own.out.wake_count, 1);
    assert_ptr_equal(w->own.out.wake[0], &w->parks[1]);
    w->own.out.wake_count = 0;
    lane_park_cancel(&w->parks[1]);
    assert_true(takes(w, 1));
    assert_int_equal(argument(w, 1), 42);
    ends(w, 1, 43);
    polled(w);
    end(w);
}

static void what_fails_fails_those_that_wait(void **state)
{
    struct world *w = begin(0);
    (void)state;
    maps(w, 0);
    assert_false(takes(w, 1));
    assert_true(takes(w, 0));
    ends_shown(w, 0, MT_ETASK, 0, 0, false);
    assert_false(takes(w, 1)); /* gives it back */
    polled(w);
    assert_int_equal(w->taker->state, OWN_REF_FAILED);
    assert_int_equal(w->taker->value.failure->code, MT_ETASK);
    end(w);
}

static void a_value_too_large_for_a_cell_comes_from_the_owner(void **state)
{
    struct world *w = begin(0);
    (void)state;
    maps(w, 0);
    assert_true(takes(w, 0));
    ends_shown(w, 0, 0, 42, TOO_LARGE, true);
    assert_false(takes(w, 1));
    wrk_flush(&w->workers[1]);
    polled(w);
    int to = w->taker->task->lane->memory == w->lanes[1];
    assert_false(w->taker->task->is_ahead);
    assert_true(w->cls->edge_pause > 0); /* the next ones wait as ever */
    assert_true(takes(w, to));
    ends(w, to, 43);
    polled(w);
    assert_int_equal(value_of(w->taker), 43);
    end(w);
}

/* The maker runs: what has not begun does not see its value, though that comes. */
static void what_is_cancelled_is_not_taken(void **state)
{
    struct world *w = begin(0);
    (void)state;
    maps(w, 0);
    assert_false(takes(w, 1));
    assert_true(takes(w, 0));
    assert_int_equal(own_cancel(&w->own, w->maker, 0), OWN_CANCELLED_TOLD);
    sound(w);
    ends(w, 0, 42);
    assert_false(takes(w, 1));
    polled(w);
    assert_int_equal(w->maker->value.failure->code, MT_ECANCELLED);
    assert_int_equal(w->taker->value.failure->code, MT_ECANCELLED);
    assert_false(takes(w, 1));
    end(w);
}

static void a_consumer_is_cancelled(void **state)
{
    struct world *w = begin(0);
    (void)state;
    maps(w, 0);
    assert_false(takes(w, 1));
    assert_int_equal(own_cancel(&w->own, w->taker, 0), OWN_CANCELLED_NEVER);
    sound(w);
    assert_true(takes(w, 0));
    ends(w, 0, 42);
    assert_false(takes(w, 1));
    polled(w);
    assert_int_equal(value_of(w->maker), 42);
    end(w);
}

/* After its value was handed on, and before its outcome was told. */
static void a_maker_dies_after_handing_on(void **state)
{
    struct world *w = begin(0);
    (void)state;
    maps(w, 0);
    assert_true(takes(w, 0));
    ends_shown(w, 0, 0, 42, 8, false);
    assert_true(takes(w, 1));
    lease_ends(w, 0, MT_EWORKER_DIED);
    assert_int_equal(value_of(w->maker), 42);
    assert_int_equal(argument(w, 1), 42);
    ends(w, 1, 43);
    polled(w);
    assert_int_equal(value_of(w->taker), 43);
    end(w);
}

/* Its outcome stands in its ring, and the cell is empty: the owner fills it. */
static void a_maker_dies_before_handing_on(void **state)
{
    struct world *w = begin(0);
    (void)state;
    assert_false(takes(w, 1));
    assert_true(takes(w, 0));
    w->workers[0].run.cell = NULL;
    ends_shown(w, 0, 0, 42, 8, false);
    assert_false(takes(w, 1));
    lease_ends(w, 0, MT_EWORKER_DIED);
    assert_true(takes(w, 1));
    assert_int_equal(argument(w, 1), 42);
    ends(w, 1, 43);
    polled(w);
    assert_int_equal(value_of(w->taker), 43);
    end(w);
}

static void a_maker_dies_while_it_runs(void **state)
{
    struct world *w = begin(1);
    (void)state;
    assert_false(takes(w, 1));
    assert_true(takes(w, 0));
    lease_ends(w, 0, MT_EWORKER_DIED);
    assert_false(w->taker->task->is_ahead); /* it waits for the second attempt, which is sent behind it */
    polled(w);
    assert_true(takes(w, 1));
    assert_int_equal(w->runs[1].record.attempt, 1);
    ends(w, 1, 42);
    polled(w);
    assert_true(takes(w, 1));
    assert_int_equal(argument(w, 1), 42);
    assert_int_equal(w->runs[1].record.attempt, 0);
    ends(w, 1, 43);
    polled(w);
    assert_int_equal(value_of(w->taker), 43);
    end(w);
}

static void a_maker_that_died_has_no_retry(void **state)
{
    struct world *w = begin(0);
    (void)state;
    assert_false(takes(w, 1));
    assert_true(takes(w, 0));
    lease_ends(w, 0, MT_EWORKER_DIED);
    assert_int_equal(w->maker->value.failure->code, MT_EWORKER_DIED);
    assert_int_equal(w->taker->value.failure->code, MT_EWORKER_DIED);
    assert_false(takes(w, 1));
    end(w);
}

/* Before it began, or while it runs: `runs`. The value is the owner's to give, the second time. */
static void consumer_dies(bool runs, bool is_told)
{
    struct world *w = begin(1);
    maps(w, 0);
    assert_true(takes(w, 0));
    ends_shown(w, 0, 0, 42, 8, is_told);
    if (runs)
        assert_true(takes(w, 1));
    if (is_told)
        polled(w);
    lease_ends(w, 1, MT_EWORKER_DIED);
    wrk_flush(&w->workers[0]);
    polled(w);
    assert_true(takes(w, 0));
    assert_int_equal(w->runs[0].record.attempt, runs);
    assert_int_equal(argument(w, 0), 42);
    ends(w, 0, 43);
    polled(w);
    assert_int_equal(value_of(w->taker), 43);
    end(w);
}

static void a_consumer_dies(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        consumer_dies(i & 1, i & 2);
}

static void a_consumer_is_recalled(void **state)
{
    struct world      *w = begin(0);
    struct ctl_lease   lease = {.lease = 2};
    struct lane_record record = {.length = LANE_RECORD_SIZE + sizeof lease, .kind = CTL_RECALL};
    (void)state;
    assert_false(takes(w, 1));
    assert_int_equal(own_control(&w->own, &record, (const uint8_t *)&lease, NULL, NULL).code, MT_OK);
    sound(w);
    assert_false(w->taker->task->lane && w->taker->task->lane->memory == w->lanes[1]);
    assert_true(takes(w, 0));
    ends(w, 0, 42);
    assert_false(takes(w, 1));
    polled(w);
    assert_true(takes(w, 0));
    assert_int_equal(argument(w, 0), 42);
    ends(w, 0, 43);
    polled(w);
    end(w);
}

/* Its worker gives all of the lane back, the makers too. */
static void a_maker_is_recalled_before_it_runs(void **state)
{
    struct world *w = begin(0);
    (void)state;
    assert_false(takes(w, 1));
    shm_store32(&lane_header_of(w->lanes[0])->recall, 1);
    own_lane_set_state(w->maker->task->lane, OWN_LANE_RECALLED);
    assert_false(takes(w, 0));
    polled(w);
    assert_int_equal(w->taker->task->state, OWN_WAITING);
    assert_ptr_equal(w->maker->task->lane->memory, w->lanes[1]);
    assert_true(takes(w, 1));
    ends(w, 1, 42);
    polled(w);
    assert_true(takes(w, 1));
    assert_int_equal(argument(w, 1), 42);
    ends(w, 1, 43);
    polled(w);
    lease_ends(w, 0, MT_OK);
    end(w);
}

static void a_worker_without_the_board_gives_back(void **state)
{
    struct world *w = begin(0);
    (void)state;
    assert_false(wrk_next(&w->workers[1], &w->runs[1]));
    wrk_board_open(&w->workers[1], wrk_board_asked(&w->workers[1])->lease, &(struct wrk_board){0});
    assert_false(wrk_next(&w->workers[1], &w->runs[1]));
    polled(w);
    assert_int_equal(w->taker->task->state, OWN_WAITING);
    assert_true(takes(w, 0));
    ends(w, 0, 42);
    polled(w);
    int to = w->taker->task->lane->memory == w->lanes[1];
    assert_true(takes(w, to));
    assert_int_equal(argument(w, to), 42);
    ends(w, to, 43);
    polled(w);
    end(w);
}

/* Both lanes end before the memory of the cells that they name is mapped: nobody needs it any more, and the workers may sleep. */
static void a_board_that_no_lane_wants_is_no_work(void **state)
{
    struct world *w = begin(0);
    (void)state;
    assert_true(wrk_next(&w->workers[0], &w->runs[0]));  /* its result would go to a cell */
    assert_false(wrk_next(&w->workers[1], &w->runs[1])); /* its argument would come from one */
    ends_shown(w, 0, 0, 42, 8, false);
    for (int i = 0; i < 2; i++) {
        struct wrk *wrk = &w->workers[i];
        assert_int_equal(wrk_board_asked(wrk)->board_asked, BOARD);
        assert_true(wrk_has_work(wrk));
        shm_store32_release(&lane_header_of(w->lanes[i])->recall, 1);
        assert_false(wrk_next(wrk, &w->runs[i]));
        assert_int_equal(wrk->lanes.count, 0);
        assert_null(wrk_board_asked(wrk));
        assert_false(wrk_has_work(wrk));
        wrk_board_open(wrk, (uint64_t)i + 1, &(struct wrk_board){0}); /* the answer to a question asked before: for nobody */
        assert_false(wrk_has_work(wrk));
    }
    polled(w);
    assert_int_equal(value_of(w->maker), 42);
    lease_ends(w, 0, MT_OK);
    lease_ends(w, 1, MT_OK);
    end(w);
}

/* A lane on which nothing moves gets its tasks taken back: what its first one waits for may wait for one behind it. */
static void a_lane_that_stands_still_is_emptied(void **state)
{
    struct world *w = begin(0);
    (void)state;
    assert_false(takes(w, 1));
    assert_true(takes(w, 0)); /* and runs for long */
    own_tick(&w->own, w->own.now_ns + MS);
    assert_true(w->taker->task->is_ahead); /* not at once */
    for (int i = 0; i <= OWN_EDGE_STUCK_TICKS; i++)
        own_tick(&w->own, w->own.now_ns + MS);
    sound(w);
    assert_int_equal(w->taker->task->state, OWN_WAITING);
    ends(w, 0, 42);
    polled(w);
    int to = w->taker->task->lane->memory == w->lanes[1];
    assert_true(takes(w, to));
    ends(w, to, 43);
    polled(w);
    end(w);
}

/* Each row of two takes both of the row before: all stand on the lanes at once, and each lane waits for the other in turn. */
static void lanes_that_wait_for_each_other_do_not_stand_still(void **state)
{
    enum { ROWS = 6 };
    struct own_ref *rows[ROWS][2];
    struct world   *w = begin(0);
    uint32_t        ran = 0;
    (void)state;
    maps(w, 0);
    maps(w, 1);
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < 2; i++)
            rows[row][i] = row ? submit(w, rows[row - 1][0], rows[row - 1][1], 0) : submit(w, w->maker, w->taker, 0);
    own_flush(&w->own);
    sound(w);
    assert_true(rows[ROWS - 1][1]->task->is_ahead);
    for (int round = 0; round < 4 * ROWS; round++)
        for (int which = 1; which >= 0; which--)
            if (takes(w, which)) {
                ends_shown(w, which, 0, ran++, 8, false);
            }
    assert_int_equal(ran, 2 + 2 * ROWS); /* nobody asked the owner */
    for (int i = 0; i < 2; i++)
        wrk_flush(&w->workers[i]);
    polled(w);
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < 2; i++)
            own_ref_drop(&w->own, rows[row][i]);
    end(w);
}

/* ---- workers of another node: what is read of its lanes, and done to their claims, is the switches' ---- */

static void far_a_value_goes_from_worker_to_worker(void **state)
{
    struct world *w = begin_both(THERE, 0);
    (void)state;
    assert_false(wrk_next(&w->workers[0], &w->runs[0])); /* nobody else would fill its cell: not before it is mapped */
    assert_true(wrk_has_work(&w->workers[0]));
    assert_false(takes(w, 1));
    assert_false(wrk_has_work(&w->workers[1]));
    assert_true(takes(w, 0));
    ends_shown(w, 0, 0, 42, 8, false); /* the owner knows nothing yet */
    assert_true(takes(w, 1));
    assert_int_equal(argument(w, 1), 42);
    ends(w, 1, 43);
    wrk_flush(&w->workers[0]);
    polled(w);
    assert_int_equal(value_of(w->maker), 42);
    assert_int_equal(value_of(w->taker), 43);
    end(w);
}

/* Its outcome came, its cell is empty, and the owner can't fill it: what waits for it is asked back, and comes with its value. */
static void free_place(struct own *own, const struct lane_ref *place, bool escaped)
{
    (void)own, (void)place, (void)escaped;
}

/* Its value is in the store of its node, so it is kept, to be made again; its maker's outcome comes later, by another lane. */
static void far_one_that_is_kept_is_told_of_first(void **state)
{
    struct world *w = begin_both(THERE, 1);
    struct {
        struct lane_value head;
        struct lane_ref   place;
    } value = {.head = {.type = 'y', .flags = LANE_VALUE_SHARED, .size = sizeof value.place},
               .place = {.node = THERE, .segment = 1, .offset = 64, .size = 1 << 20, .type = 'y'}};
    (void)state;
    w->own.free_place = free_place;
    w->own.kept_max = 1 << 20;
    assert_true(takes(w, 0));
    ends_shown(w, 0, 0, 42, 8, false);
    assert_true(takes(w, 1));
    assert_true(wrk_done(&w->workers[1], 0, 0, 0, &value, sizeof value, w->own.now_ns, 1000));
    wrk_flush(&w->workers[1]);
    own_lane_poll(&w->own, w->taker->task->lane);
    own_settle_posted(&w->own);
    sound(w);
    assert_int_equal(w->taker->state, OWN_REF_PLACE);
    assert_int_equal(w->taker->task->state, OWN_KEPT);
    assert_int_equal(w->maker->state, OWN_REF_PENDING);
    wrk_flush(&w->workers[0]);
    polled(w);
    assert_int_equal(value_of(w->maker), 42);
    end(w);
}

static void far_a_maker_dies_before_handing_on(void **state)
{
    struct world *w = begin_both(THERE, 0);
    (void)state;
    assert_false(takes(w, 1));
    assert_true(takes(w, 0));
    w->workers[0].run.cell = NULL;
    ends(w, 0, 42);
    polled(w);
    assert_false(takes(w, 1));
    assert_false(w->taker->task->is_asked_back);
    arrives(w, w->taker);
    leaves(w, w->taker);
    lease_ends(w, 0, MT_EWORKER_DIED);
    assert_true(w->taker->task->is_asked_back);
    leave(w);
}

/* What has been sent and does not name its cell fills none. */
static void far_only_what_feeds_is_waited_for_there(void **state)
{
    struct world *w = begin_at(THERE, ELSEWHERE, 0);
    (void)state;
    assert_false(w->taker->task->is_ahead); /* no memory is of both nodes */
    assert_false(w->maker->task->feeds);
    lease_ends(w, 1, MT_OK);
    struct own_ref *late = submit(w, w->maker, NULL, 0);
    assert_false(late->task->is_ahead);
    struct own_ref *second = submit(w, NULL, NULL, 0), *after = submit(w, second, NULL, 0);
    assert_true(second->task->feeds);
    assert_true(after->task->is_ahead);
    sound(w);
    leave(w);
}

/* What is ahead there does not go on to a worker here. */
static void far_what_is_ahead_stays_on_its_node(void **state)
{
    struct world *w = begin_at(THERE, HERE, 0);
    (void)state;
    assert_false(w->taker->task->is_ahead);
    lease_ends(w, 1, MT_OK);
    struct own_ref *second = submit(w, NULL, NULL, 0), *after = submit(w, second, NULL, 0);
    assert_true(after->task->is_ahead);
    assert_int_equal(w->cls->ahead_node, THERE);
    free(w->lanes[1]);
    wrk_fini(&w->workers[1]);
    granted(w, 1);
    struct own_ref *third = submit(w, after, NULL, 0);
    own_flush(&w->own);
    assert_false(third->task->is_ahead);
    sound(w);
    leave(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_goes_from_worker_to_worker),
        cmocka_unit_test(a_sleeper_is_woken_by_its_owner),
        cmocka_unit_test(what_fails_fails_those_that_wait),
        cmocka_unit_test(a_value_too_large_for_a_cell_comes_from_the_owner),
        cmocka_unit_test(what_is_cancelled_is_not_taken),
        cmocka_unit_test(a_consumer_is_cancelled),
        cmocka_unit_test(a_maker_dies_after_handing_on),
        cmocka_unit_test(a_maker_dies_before_handing_on),
        cmocka_unit_test(a_maker_dies_while_it_runs),
        cmocka_unit_test(a_maker_that_died_has_no_retry),
        cmocka_unit_test(a_consumer_dies),
        cmocka_unit_test(a_consumer_is_recalled),
        cmocka_unit_test(a_maker_is_recalled_before_it_runs),
        cmocka_unit_test(a_worker_without_the_board_gives_back),
        cmocka_unit_test(a_board_that_no_lane_wants_is_no_work),
        cmocka_unit_test(a_lane_that_stands_still_is_emptied),
        cmocka_unit_test(lanes_that_wait_for_each_other_do_not_stand_still),
        cmocka_unit_test(far_a_value_goes_from_worker_to_worker),
        cmocka_unit_test(far_one_that_is_kept_is_told_of_first),
        cmocka_unit_test(far_a_maker_dies_before_handing_on),
        cmocka_unit_test(far_only_what_feeds_is_waited_for_there),
        cmocka_unit_test(far_what_is_ahead_stays_on_its_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
