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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recalled_lane_is_no_work_while_its_calls_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
