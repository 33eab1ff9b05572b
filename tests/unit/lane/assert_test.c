/* SPDX-License-Identifier: Apache-2.0
 *
 * assert_test.c - what one side of a lane alone decides is asserted: each rule is broken once, and the check says so.
 */
#define MT_DEBUG 1 /* the checks of inline calls, in every build */
#include "tests/unit/base/says.h"
#include "tests/unit/base/test.h"

#include "core/lane/claim.h"
#include "core/lane/ring.h"
#include "core/wire/look.h"

#include <stdlib.h>
#include <string.h>

static _Alignas(64) struct lane_ring_words words;
static uint8_t             *data;
static struct lane_producer p;
static struct lane_consumer c;

static int ring_new(void **state)
{
    (void)state;
    memset(&words, 0, sizeof words);
    data = aligned_alloc(4096, (LANE_RING_BYTES + 4095) / 4096 * 4096);
    if (!data)
        return -1;
    memset(data, 0, LANE_RING_AREA0);
    lane_producer_init(&p, &words, data);
    lane_consumer_init(&c, &words, data);
    return 0;
}

static int ring_end(void **state)
{
    (void)state;
    free(data);
    return 0;
}

static void a_commit_has_a_reservation_as_large(void **state)
{
    (void)state;
    assert_string_not_equal(SAYS(lane_ring_commit(&p, LANE_RECORD_SIZE)), "");
    assert_non_null(lane_ring_reserve(&p, 200));
    assert_string_not_equal(SAYS(lane_ring_commit(&p, 257)), "");
    assert_string_equal(SAYS(lane_ring_commit(&p, 100)), ""); /* less is fine */
    assert_string_not_equal(SAYS(lane_ring_commit(&p, 100)), "");
}

static void what_was_published_stays_so(void **state)
{
    (void)state;
    assert_non_null(lane_ring_reserve(&p, 64));
    lane_ring_commit(&p, 64);
    assert_string_equal(SAYS(lane_ring_publish(&p)), "");
    p.head -= 64;
    assert_string_not_equal(SAYS(lane_ring_publish(&p)), "");
}

static void a_record_is_consumed_once(void **state)
{
    struct lane_record record = {.length = LANE_RECORD_SIZE, .kind = LANE_DONE};
    const uint8_t     *payload;
    bool               found;
    (void)state;
    assert_string_not_equal(SAYS(lane_ring_consume(&c)), ""); /* nothing was shown */
    assert_true(lane_ring_push(&p, &record, NULL));
    lane_ring_publish(&p);
    assert_int_equal(lane_ring_peek(&c, &record, &payload, &found).code, MT_OK);
    assert_true(found);
    assert_string_equal(SAYS(lane_ring_consume(&c)), "");
    assert_string_not_equal(SAYS(lane_ring_consume(&c)), "");
}

static void records_have_a_length_and_rings_an_alignment(void **state)
{
    (void)state;
    assert_string_not_equal(SAYS(lane_ring_reserve(&p, LANE_RECORD_SIZE - 1)), "");
    assert_string_not_equal(SAYS(lane_ring_reserve(&p, LANE_RECORD_MAX + 1)), "");
    assert_string_not_equal(SAYS(lane_producer_init(&p, &words, data + 4)), "");
    assert_string_not_equal(SAYS(lane_consumer_init(&c, &words, data + 4)), "");
}

static void a_claim_goes_where_the_drawing_has_an_arrow(void **state)
{
    shm_u64 slot;
    (void)state;
    lane_claim_set(&slot, 1, 0);
    assert_string_not_equal(SAYS(lane_claim_take(&slot, 1, 0, LANE_DONE_CLAIM)), "");
    assert_string_not_equal(SAYS(lane_claim_take(&slot, 1, 0, LANE_FREE)), "");
    assert_string_equal(SAYS(lane_claim_take(&slot, 1, 0, LANE_RUNNING)), "");
}

static void tables_are_not_left(void **state)
{
    static struct lane_tallies tallies;
    struct lane_look           look = {.kind = LANE_LOOK_KINDS};
    char                       text[64];
    (void)state;
    assert_string_not_equal(SAYS(lane_look_columns(LANE_LOOK_NONE)), "");
    assert_string_not_equal(SAYS(lane_look_column_count(LANE_LOOK_KINDS)), "");
    assert_string_not_equal(SAYS(lane_look_filter(&look, "a=b", text, sizeof text).code), "");
    tallies.count = LANE_TALLIES_MAX + 1;
    assert_string_not_equal(SAYS(lane_tallies_add(&tallies, 1, (enum lane_task_state)0, 1)), "");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, ring_new, ring_end)
    const struct CMUnitTest tests[] = {
        TEST(a_commit_has_a_reservation_as_large),
        TEST(what_was_published_stays_so),
        TEST(a_record_is_consumed_once),
        TEST(records_have_a_length_and_rings_an_alignment),
        TEST(a_claim_goes_where_the_drawing_has_an_arrow),
        TEST(tables_are_not_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
