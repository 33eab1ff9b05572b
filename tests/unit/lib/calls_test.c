/* SPDX-License-Identifier: Apache-2.0
 *
 * calls_test.c - calls of an actor with threads, seen from its worker.
 */
#include "clients/lib/worker/wrk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { LEASE = 3 };

static struct wrk           wrk;
static void                *memory;
static struct lane_park     park;
static struct lane_producer owner;

static void opened(void)
{
    struct ctl_grant   grant = {.lease = LEASE, .peer = 7, .peer_node = 1};
    struct lane_record record = {.length = LANE_RECORD_SIZE + sizeof grant, .kind = CTL_LANE};
    uint32_t           limit = 2;
    memory = calloc(1, LANE_BYTES);
    wrk_init(&wrk, 1);
    wrk_calls_start(&wrk, &limit, 1);
    assert_int_equal(wrk_control(&wrk, &record, (const uint8_t *)&grant, memory, &park).code, MT_OK);
    lane_producer_init(&owner, &lane_header_of(memory)->forward, lane_forward_of(memory));
}

static void called(uint32_t slot)
{
    struct lane_record record = {.length = LANE_RECORD_SIZE, .kind = LANE_CALL, .slot = slot, .sequence = slot + 1};
    lane_claim_set(&lane_claims_of(memory)[slot], record.sequence, record.attempt);
    assert_true(lane_ring_push(&owner, &record, NULL));
    lane_ring_publish(&owner);
}

/* A thread that waits for work while it holds the lock would never let in the one that comes back from its call. */
static void a_recalled_lane_is_no_work_while_its_calls_run(void **state)
{
    (void)state;
    opened();
    called(0);
    assert_true(wrk_has_work(&wrk));
    struct wrk_call *call = wrk_call_next(&wrk);
    assert_non_null(call);
    called(1);
    shm_store32(&lane_header_of(memory)->recall, 1);
    assert_false(wrk_has_work(&wrk));
    assert_null(wrk_call_next(&wrk)); /* the second one is its owner's again */
    assert_false(wrk_has_work(&wrk));
    assert_true(wrk_call_done(&wrk, call, 0, MT_OK, 0, NULL, 0, 0, 0));
    assert_true(wrk_has_work(&wrk));
    assert_null(wrk_call_next(&wrk));
    assert_int_equal(wrk.lanes.count, 0);
    assert_false(wrk_has_work(&wrk));
    wrk_fini(&wrk);
    free(memory);
}

/* An actor whose node leaves: the creator's lane, and that of another caller, which has a call there. */
struct leaving {
    void                *lanes[2];
    struct lane_producer owners[2];
    struct lane_consumer creator;
};

static void lane_of(struct leaving *l, int i, uint32_t flags)
{
    struct ctl_grant   grant = {.lease = LEASE + (uint64_t)i, .peer = 7 + (uint64_t)i, .peer_node = 1, .flags = flags};
    struct lane_record record = {.length = LANE_RECORD_SIZE + sizeof grant, .kind = CTL_LANE};
    l->lanes[i] = calloc(1, LANE_BYTES);
    assert_int_equal(wrk_control(&wrk, &record, (const uint8_t *)&grant, l->lanes[i], &park).code, MT_OK);
    lane_producer_init(&l->owners[i], &lane_header_of(l->lanes[i])->forward, lane_forward_of(l->lanes[i]));
}

static void calls(struct leaving *l, int i, uint32_t slot)
{
    memory = l->lanes[i];
    owner = l->owners[i];
    called(slot);
    l->owners[i] = owner;
}

static uint16_t next_kind(struct leaving *l)
{
    struct lane_record record;
    const uint8_t     *payload;
    bool               found = false;
    assert_int_equal(lane_ring_peek(&l->creator, &record, &payload, &found).code, MT_OK);
    if (found)
        lane_ring_consume(&l->creator);
    return found ? record.kind : 0;
}

/* It is asked for its state, once; no call begins any more; the state comes before the end of the lane. */
static void saves_and_ends(struct leaving *l)
{
    struct lane_value value = {.type = 'y'};
    struct wrk_run    run;
    assert_true(wrk_has_work(&wrk));
    assert_null(wrk_call_next(&wrk));
    assert_true(wrk_save_begin(&wrk));
    assert_false(wrk_save_begin(&wrk));
    assert_false(wrk.group_count ? wrk_call_next(&wrk) != NULL : wrk_next(&wrk, &run));
    assert_false(wrk_call_waits(&wrk));
    assert_true(wrk_tell_creator(&wrk, LANE_SAVED, &value, sizeof value));
    wrk_saved(&wrk);
    assert_true(wrk_has_work(&wrk));
    assert_false(wrk.group_count ? wrk_call_next(&wrk) != NULL : wrk_next(&wrk, &run));
    assert_true(wrk.is_over);
    assert_true(lane_claim_has_not_run(&lane_claims_of(l->lanes[1])[1], 2, 0));
    uint16_t kind = next_kind(l);
    kind = kind == LANE_DONE ? next_kind(l) : kind;
    assert_int_equal(kind, LANE_SAVED);
    assert_int_equal(next_kind(l), LANE_END);
    wrk_fini(&wrk);
    free(l->lanes[0]);
    free(l->lanes[1]);
}

static void leaves(struct leaving *l)
{
    wrk_init(&wrk, 1);
    lane_of(l, 0, CTL_CLASS_ACTOR);
    lane_of(l, 1, 0);
    lane_consumer_init(&l->creator, &lane_header_of(l->lanes[0])->back, lane_back_of(l->lanes[0]));
}

static void an_actor_that_leaves_saves_last(void **state)
{
    struct leaving l;
    struct wrk_run run;
    (void)state;
    leaves(&l);
    calls(&l, 1, 1);
    shm_store32(&lane_header_of(l.lanes[0])->recall, LANE_RECALL_SAVE);
    assert_false(wrk_save_begin(&wrk));
    assert_false(wrk_next(&wrk, &run));
    saves_and_ends(&l);
}

static void one_with_threads_waits_for_its_calls(void **state)
{
    struct leaving l;
    uint32_t       limit = 1;
    (void)state;
    leaves(&l);
    wrk_calls_start(&wrk, &limit, 1);
    calls(&l, 1, 0);
    struct wrk_call *call = wrk_call_next(&wrk);
    assert_non_null(call);
    calls(&l, 1, 1);
    shm_store32(&lane_header_of(l.lanes[0])->recall, LANE_RECALL_SAVE);
    assert_null(wrk_call_next(&wrk));
    assert_false(wrk_save_begin(&wrk)); /* a call of another caller runs */
    assert_false(wrk_has_work(&wrk));
    assert_true(wrk_call_done(&wrk, call, 0, MT_OK, 0, NULL, 0, 0, 0));
    saves_and_ends(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recalled_lane_is_no_work_while_its_calls_run),
        cmocka_unit_test(an_actor_that_leaves_saves_last),
        cmocka_unit_test(one_with_threads_waits_for_its_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
