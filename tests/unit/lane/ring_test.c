/* SPDX-License-Identifier: Apache-2.0
 *
 * ring_test.c - growing, padding, wrapping, filling and batching of a ring, and both sides against a hostile peer.
 */
#include "core/base/rng.h"
#include "core/lane/lane.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

struct pair {
    struct lane_ring_words words;
    struct lane_producer   p;
    struct lane_consumer   c;
    uint8_t               *data;
    uint64_t               pushed, taken;
};

static int setup(void **state)
{
    struct pair *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->data = calloc(1, LANE_RING_BYTES);
    assert_non_null(r->data);
    lane_producer_init(&r->p, &r->words, r->data);
    lane_consumer_init(&r->c, &r->words, r->data);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    struct pair *r = *state;
    free(r->data);
    free(r);
    return 0;
}

/* The length of the n-th record, and its payload, are functions of n. */
static uint32_t length_of(uint64_t n, uint32_t length_max)
{
    struct mt_rng rng = {n};
    return LANE_RECORD_SIZE + (uint32_t)mt_rng_below(&rng, length_max - LANE_RECORD_SIZE + 1);
}

static bool push_next(struct pair *r, uint32_t length_max)
{
    uint8_t            payload[LANE_RECORD_MAX];
    struct lane_record record = {.length = length_of(r->pushed, length_max), .kind = LANE_TASK, .sequence = r->pushed};
    memset(payload, (int)(r->pushed & 0xff), sizeof payload);
    if (!lane_ring_push(&r->p, &record, payload))
        return false;
    r->pushed++;
    return true;
}

static bool take_next(struct pair *r, uint32_t length_max)
{
    struct lane_record record;
    const uint8_t     *payload;
    bool               found;
    assert_int_equal(lane_ring_peek(&r->c, &record, &payload, &found).code, MT_OK);
    if (!found)
        return false;
    assert_int_equal(record.sequence, r->taken);
    assert_int_equal(record.length, length_of(r->taken, length_max));
    for (uint32_t i = 0; i < record.length - LANE_RECORD_SIZE; i++)
        assert_int_equal(payload[i], r->taken & 0xff);
    lane_ring_consume(&r->c);
    r->taken++;
    return true;
}

static void an_empty_ring_has_nothing(void **state)
{
    struct pair *r = *state;
    assert_false(take_next(r, LANE_RECORD_MAX));
    assert_false(lane_ring_has_more(&r->c));
}

static void records_show_only_once_published(void **state)
{
    struct pair *r = *state;
    for (int i = 0; i < 5; i++)
        assert_true(push_next(r, 200));
    assert_true(lane_ring_has_unpublished(&r->p));
    assert_false(take_next(r, 200));
    lane_ring_publish(&r->p);
    assert_false(lane_ring_has_unpublished(&r->p));
    for (int i = 0; i < 5; i++)
        assert_true(take_next(r, 200));
    assert_false(take_next(r, 200));
}

static void grows_through_every_area_until_full(void **state)
{
    struct pair *r = *state;
    while (push_next(r, LANE_RECORD_MAX))
        ;
    assert_int_equal(r->p.area, LANE_RING_AREAS - 1);
    assert_true(r->pushed > 100);
    assert_false(push_next(r, LANE_RECORD_MAX)); /* and stays full */
    lane_ring_publish(&r->p);
    while (take_next(r, LANE_RECORD_MAX))
        ;
    assert_int_equal(r->taken, r->pushed);
    assert_int_equal(r->c.area, LANE_RING_AREAS - 1);
}

static void a_full_ring_has_room_after_release_only(void **state)
{
    struct pair *r = *state;
    while (push_next(r, LANE_RECORD_MAX))
        ;
    lane_ring_publish(&r->p);
    while (take_next(r, LANE_RECORD_MAX))
        ;
    assert_false(push_next(r, LANE_RECORD_MAX));
    lane_ring_release(&r->c);
    assert_true(push_next(r, LANE_RECORD_MAX));
}

static void a_small_load_stays_in_the_first_area(void **state)
{
    struct pair *r = *state;
    for (int i = 0; i < 10000; i++) {
        assert_true(push_next(r, 500));
        lane_ring_publish(&r->p);
        assert_true(take_next(r, 500));
        lane_ring_release(&r->c);
    }
    assert_int_equal(r->p.area, 0);
}

static void random_batches_keep_every_record(void **state)
{
    struct pair  *r = *state;
    struct mt_rng rng = {42};
    uint32_t      max = 3000;
    while (r->taken < 200000) {
        for (uint64_t n = mt_rng_below(&rng, 40); n > 0 && push_next(r, max); n--)
            if (mt_rng_below(&rng, 4) == 0)
                lane_ring_publish(&r->p);
        lane_ring_publish(&r->p);
        for (uint64_t n = mt_rng_below(&rng, 42); n > 0 && take_next(r, max); n--)
            ;
        if (mt_rng_below(&rng, 3) == 0)
            lane_ring_release(&r->c);
    }
}

static void the_largest_record_fits(void **state)
{
    struct pair       *r = *state;
    uint8_t            payload[LANE_RECORD_MAX] = {0};
    struct lane_record record = {.length = LANE_RECORD_MAX, .kind = LANE_TASK};
    const uint8_t     *at;
    bool               found;
    for (int i = 0; i < 200; i++) {
        assert_true(lane_ring_push(&r->p, &record, payload));
        lane_ring_publish(&r->p);
        assert_int_equal(lane_ring_peek(&r->c, &record, &at, &found).code, MT_OK);
        assert_true(found);
        assert_int_equal(record.length, LANE_RECORD_MAX);
        lane_ring_consume(&r->c);
        lane_ring_release(&r->c);
    }
}

/* ---- hostile peers ------------------------------------------------------------------------------------------------ */

/* Reads until the ring says that there is nothing, or that the peer broke the rules. Every record it shows lies inside
 * the mapping. */
static int32_t read_out(struct pair *r)
{
    struct lane_record record;
    const uint8_t     *payload;
    bool               found = true;
    for (int i = 0; i < LANE_RING_BYTES / LANE_RECORD_SIZE + 1; i++) {
        mt_status st = lane_ring_peek(&r->c, &record, &payload, &found);
        if (st.code != MT_OK || !found)
            return st.code;
        assert_in_range(record.length, LANE_RECORD_SIZE, LANE_RECORD_MAX);
        assert_true(payload >= r->data + LANE_RECORD_SIZE);
        assert_true(payload - LANE_RECORD_SIZE + record.length <= r->data + LANE_RING_BYTES);
        lane_ring_consume(&r->c);
    }
    fail_msg("more records than the ring has room for");
    return 0;
}

static int32_t read_one_forged(struct pair *r, struct lane_record forged, uint64_t head)
{
    lane_consumer_init(&r->c, &r->words, r->data);
    memcpy(r->data, &forged, sizeof forged);
    shm_store64_release(&r->words.head, head);
    return read_out(r);
}

static void forged_lengths_are_refused(void **state)
{
    struct pair *r = *state;
    uint32_t     bad[] = {0, 1, 63, 129, 4097, LANE_RECORD_MAX + 1, 0x7fffffff, 0xffffffff};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(read_one_forged(r, (struct lane_record){.length = bad[i], .kind = LANE_TASK}, 128), MT_EPROTO);
}

static void forged_heads_are_refused(void **state)
{
    struct pair       *r = *state;
    struct lane_record good = {.length = 64, .kind = LANE_TASK};
    uint64_t           bad[] = {1, 63, 65, LANE_RING_BYTES + 64, UINT64_MAX, UINT64_MAX - 63, 1ull << 63};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(read_one_forged(r, good, bad[i]), MT_EPROTO);
}

static void a_head_that_goes_back_is_refused(void **state)
{
    struct pair *r = *state;
    for (int i = 0; i < 4; i++)
        assert_true(push_next(r, 64));
    lane_ring_publish(&r->p);
    for (int i = 0; i < 4; i++)
        assert_true(take_next(r, 64));
    shm_store64_release(&r->words.head, 128);
    assert_int_equal(read_out(r), MT_EPROTO);
}

static void forged_jumps_and_pads_are_refused(void **state)
{
    struct pair *r = *state;
    uint32_t     slots[] = {0, 2, LANE_RING_AREAS, 0xffffffff};
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
        assert_int_equal(read_one_forged(r, (struct lane_record){.length = 64, .kind = LANE_JUMP, .slot = slots[i]}, 64),
                         MT_EPROTO);
    assert_int_equal(read_one_forged(r, (struct lane_record){.length = 128, .kind = LANE_JUMP, .slot = 1}, 128), MT_EPROTO);
    assert_int_equal(read_one_forged(r, (struct lane_record){.length = 64, .kind = LANE_PAD}, 64), MT_EPROTO);
    /* A pad of a whole area: a peer that wrote nothing else would hold the reader for as long as it liked. */
    assert_int_equal(read_one_forged(r, (struct lane_record){.length = 4096, .kind = LANE_PAD}, 4096), MT_EPROTO);
}

/* Every field of a good record, every head, set to random or edge values: EPROTO or clean, never outside. */
static void random_damage_stays_inside(void **state)
{
    struct pair  *r = *state;
    struct mt_rng rng = {7};
    for (int round = 0; round < 20000; round++) {
        memset(&r->words, 0, sizeof r->words);
        lane_producer_init(&r->p, &r->words, r->data);
        lane_consumer_init(&r->c, &r->words, r->data);
        r->pushed = 0;
        for (uint64_t n = 1 + mt_rng_below(&rng, 12); n > 0; n--)
            assert_true(push_next(r, 3000));
        lane_ring_publish(&r->p);
        for (uint64_t n = 1 + mt_rng_below(&rng, 3); n > 0; n--) {
            uint64_t at = mt_rng_below(&rng, r->p.head / 4) * 4;
            uint64_t edge = mt_rng_below(&rng, 8) * 64 + mt_rng_below(&rng, 3) - 1;
            uint32_t x = (uint32_t)(mt_rng_below(&rng, 2) ? edge : mt_rng_next(&rng));
            memcpy(r->data + at, &x, sizeof x);
        }
        if (mt_rng_below(&rng, 4) == 0)
            shm_store64_release(&r->words.head, mt_rng_below(&rng, 2) ? mt_rng_next(&rng) : mt_rng_below(&rng, 9999));
        int32_t code = read_out(r);
        assert_true(code == MT_OK || code == MT_EPROTO);
    }
}

static void forged_tails_give_no_room(void **state)
{
    struct pair *r = *state;
    uint64_t     bad[] = {UINT64_MAX, 1ull << 63, 1 << 30, LANE_RING_BYTES * 4ull};
    while (push_next(r, LANE_RECORD_MAX))
        ;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        shm_store64_release(&r->words.tail, bad[i]);
        assert_false(push_next(r, LANE_RECORD_MAX));
    }
    shm_store64_release(&r->words.tail, r->p.head); /* not published yet: nobody can have read it */
    assert_false(push_next(r, LANE_RECORD_MAX));
    lane_ring_publish(&r->p);
    assert_true(push_next(r, LANE_RECORD_MAX));
}

static void any_tail_keeps_the_producer_inside(void **state)
{
    struct pair  *r = *state;
    struct mt_rng rng = {11};
    for (int i = 0; i < 100000; i++) {
        uint32_t length = LANE_RECORD_SIZE + (uint32_t)mt_rng_below(&rng, LANE_RECORD_MAX - LANE_RECORD_SIZE + 1);
        uint8_t *at = lane_ring_reserve(&r->p, length);
        if (at) {
            assert_true(at >= r->data && at + lane_record_padded(length) <= r->data + LANE_RING_BYTES);
            lane_ring_commit(&r->p, length);
            lane_ring_publish(&r->p);
        }
        uint64_t near = r->p.head - mt_rng_below(&rng, LANE_RING_BYTES);
        shm_store64(&r->words.tail, mt_rng_below(&rng, 2) ? near : mt_rng_next(&rng));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_empty_ring_has_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(records_show_only_once_published, setup, teardown),
        cmocka_unit_test_setup_teardown(grows_through_every_area_until_full, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_ring_has_room_after_release_only, setup, teardown),
        cmocka_unit_test_setup_teardown(a_small_load_stays_in_the_first_area, setup, teardown),
        cmocka_unit_test_setup_teardown(random_batches_keep_every_record, setup, teardown),
        cmocka_unit_test_setup_teardown(the_largest_record_fits, setup, teardown),
        cmocka_unit_test_setup_teardown(forged_lengths_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(forged_heads_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_head_that_goes_back_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(forged_jumps_and_pads_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(random_damage_stays_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(forged_tails_give_no_room, setup, teardown),
        cmocka_unit_test_setup_teardown(any_tail_keeps_the_producer_inside, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
