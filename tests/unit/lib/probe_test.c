/* SPDX-License-Identifier: Apache-2.0
 *
 * probe_test.c - a probe for circles of waiters is handed on, or believed, only where what it follows has not ended.
 */
#include "clients/lib/worker/wrk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { US = 7, OTHER = 9, RUN = 1, STANDS = 2, OVER = 3 };

static struct own       own;
static struct wrk       wrk;
static struct own_wait  wait;
static struct own_ref  *awaited;
static void            *lane;
static struct lane_park park;

static mt_id id_of(uint64_t counter)
{
    return mt_id_make(OTHER, counter, 0);
}

static void stands_in_lane(uint16_t kind, mt_id id)
{
    struct lane_producer forward;
    struct lane_record   record = {.length = LANE_RECORD_SIZE, .kind = kind, .id = id, .sequence = 1, .slot = 1};
    struct ctl_grant     grant = {.lease = 1, .peer = OTHER, .peer_node = 1};
    uint8_t              bytes[sizeof grant];
    struct lane_record   told = {.length = LANE_RECORD_SIZE + sizeof grant, .kind = CTL_LANE};
    memcpy(bytes, &grant, sizeof grant);
    lane = calloc(1, LANE_BYTES);
    assert_int_equal(wrk_control(&wrk, &told, bytes, lane, &park).code, MT_OK);
    lane_producer_init(&forward, &lane_header_of(lane)->forward, lane_forward_of(lane));
    assert_true(lane_ring_push(&forward, &record, NULL));
    lane_ring_publish(&forward);
}

/* We run a task of somebody else's, and wait in it for a value of his. */
static int set_up(void **state)
{
    (void)state;
    struct lane_ref wire = {.id = mt_id_make(OTHER, 100, 1), .owner_node = 1};
    own_init(&own, US, 1, 1, 1);
    wrk_init(&wrk, 1);
    wrk_tie(&wrk, &own);
    own.now_ns = UINT64_C(1000000000);
    own_run_begin(&own, id_of(RUN));
    awaited = own_ref_borrow(&own, &wire);
    own_wait_begin(&own, &wait, awaited, "here");
    own.out.up.size = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    own_wait_end(&own, &wait);
    own_ref_drop(&own, awaited);
    own_fini(&own);
    wrk_fini(&wrk);
    free(lane);
    lane = NULL;
    return 0;
}

/* A probe of the waiter `sender` comes along the edge to what is believed to run here. */
static void comes(uint64_t sender, mt_id about, uint64_t items)
{
    struct own_msg_probe probe = {.sender = sender,
                                  .number = wait.number,
                                  .newest = sender,
                                  .newest_ns = wait.since_ns,
                                  .about = about,
                                  .items = items,
                                  .hops = 1,
                                  .path = "he"};
    own_probe_came(&own, (const uint8_t *)&probe, sizeof probe);
}

static bool is_handed_on(void)
{
    bool is = own.out.up.size > 0;
    own.out.up.size = 0;
    return is;
}

static void what_runs_and_waits_hands_it_on(void **state)
{
    (void)state;
    comes(OTHER, id_of(RUN), OWN_PROBE_ANY);
    assert_true(is_handed_on());
}

static void what_is_over_ends_it(void **state)
{
    (void)state;
    comes(OTHER, id_of(OVER), OWN_PROBE_ANY);
    assert_false(is_handed_on());
}

static void a_call_behind_the_run_hands_it_on(void **state)
{
    (void)state;
    stands_in_lane(LANE_CALL, id_of(STANDS));
    comes(OTHER, id_of(STANDS), OWN_PROBE_ANY);
    assert_true(is_handed_on());
}

/* It goes back to its owner, and runs elsewhere. */
static void a_task_behind_the_run_ends_it(void **state)
{
    (void)state;
    stands_in_lane(LANE_TASK, id_of(STANDS));
    comes(OTHER, id_of(STANDS), OWN_PROBE_ANY);
    assert_false(is_handed_on());
}

static void an_item_on_its_way_ends_it(void **state)
{
    (void)state;
    own.run.items = 2;
    comes(OTHER, id_of(RUN), 1);
    assert_false(is_handed_on());
    comes(OTHER, id_of(RUN), 2);
    assert_true(is_handed_on());
}

/* Our own comes back: a circle only where he waits for what we run now. */
static void ours_is_believed_for_what_runs(void **state)
{
    (void)state;
    comes(US, id_of(OVER), OWN_PROBE_ANY);
    assert_false(wait.is_deadlocked);
    comes(US, id_of(RUN), OWN_PROBE_ANY);
    assert_true(wait.is_deadlocked);
    assert_int_equal(wait.failure.code, MT_EDEADLK);
}

static void a_run_that_waits_beneath_another_counts(void **state)
{
    (void)state;
    struct own_outer_run outer;
    own_run_begin_inside(&own, id_of(STANDS), &outer);
    comes(OTHER, id_of(RUN), OWN_PROBE_ANY);
    assert_true(is_handed_on());
    own_run_end_inside(&own);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(what_runs_and_waits_hands_it_on),         CASE(what_is_over_ends_it),       CASE(a_call_behind_the_run_hands_it_on),
        CASE(a_task_behind_the_run_ends_it),           CASE(an_item_on_its_way_ends_it), CASE(ours_is_believed_for_what_runs),
        CASE(a_run_that_waits_beneath_another_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
