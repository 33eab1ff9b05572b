/* SPDX-License-Identifier: Apache-2.0
 *
 * claim_test.c - the states of a slot, and that many takers have one winner.
 */
#include "core/lane/claim.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { RACE_ROUNDS = 20000, RACE_TAKERS = 3 };

static void a_pending_slot_is_taken_once(void **state)
{
    (void)state;
    shm_u64 slot = {0};
    lane_claim_set(&slot, 7, 2);
    assert_int_equal(lane_claim_state_of(shm_load64(&slot)), LANE_PENDING);
    assert_true(lane_claim_take(&slot, 7, 2, LANE_RUNNING));
    assert_false(lane_claim_take(&slot, 7, 2, LANE_RUNNING));
    assert_false(lane_claim_take(&slot, 7, 2, LANE_REVOKED));
    lane_claim_finish(&slot, 7, 2);
    assert_int_equal(lane_claim_state_of(shm_load64(&slot)), LANE_DONE_CLAIM);
    lane_claim_clear(&slot);
    assert_int_equal(shm_load64(&slot), 0);
}

static void another_sequence_or_attempt_takes_nothing(void **state)
{
    (void)state;
    shm_u64 slot = {0};
    assert_false(lane_claim_take(&slot, 7, 2, LANE_RUNNING));
    lane_claim_set(&slot, 8, 2);
    assert_false(lane_claim_take(&slot, 7, 2, LANE_RUNNING));
    assert_false(lane_claim_take(&slot, 8, 1, LANE_RUNNING));
    assert_true(lane_claim_take(&slot, 8, 2, LANE_RETURNED_CLAIM));
}

static void the_word_keeps_forty_bits_of_sequence(void **state)
{
    (void)state;
    uint64_t word = lane_claim_word((1ull << 40) - 1, 0xffff, LANE_DONE_CLAIM);
    assert_int_equal(word >> 24, (1ull << 40) - 1);
    assert_int_equal(word >> 8 & 0xffff, 0xffff);
    assert_int_equal(lane_claim_state_of(word), LANE_DONE_CLAIM);
    assert_int_equal(lane_claim_word(3, 0x1ffff, LANE_PENDING), lane_claim_word(3, 0xffff, LANE_PENDING));
}

static void only_what_the_protocol_leaves_proves_that_it_has_not_run(void **state)
{
    (void)state;
    shm_u64 slot = {0};
    assert_false(lane_claim_has_not_run(&slot, 7, 2)); /* written over with zeros */
    lane_claim_set(&slot, 7, 2);
    assert_true(lane_claim_has_not_run(&slot, 7, 2));
    assert_false(lane_claim_has_not_run(&slot, 7, 1));
    assert_true(lane_claim_take(&slot, 7, 2, LANE_RETURNED_CLAIM));
    assert_true(lane_claim_has_not_run(&slot, 7, 2));
    lane_claim_set(&slot, 7, 2);
    assert_true(lane_claim_take(&slot, 7, 2, LANE_RUNNING));
    assert_false(lane_claim_has_not_run(&slot, 7, 2));
    shm_store64(&slot, UINT64_MAX);
    assert_false(lane_claim_has_not_run(&slot, 7, 2));
}

struct race {
    shm_u64           slots[RACE_ROUNDS];
    shm_u32           wins[RACE_ROUNDS];
    pthread_barrier_t start;
};

struct taker {
    struct race          *race;
    enum lane_claim_state to;
    pthread_t             thread;
};

static void *take_all(void *arg)
{
    struct taker *t = arg;
    pthread_barrier_wait(&t->race->start);
    for (uint32_t i = 0; i < RACE_ROUNDS; i++)
        if (lane_claim_take(&t->race->slots[i], i, 1, t->to))
            shm_add32(&t->race->wins[i], 1);
    return NULL;
}

static void worker_owner_and_recall_have_one_winner(void **state)
{
    (void)state;
    static struct race race;
    struct taker       takers[RACE_TAKERS] = {
              {.race = &race, .to = LANE_RUNNING}, {.race = &race, .to = LANE_REVOKED}, {.race = &race, .to = LANE_RETURNED_CLAIM}};
    pthread_barrier_init(&race.start, NULL, RACE_TAKERS);
    for (uint32_t i = 0; i < RACE_ROUNDS; i++)
        lane_claim_set(&race.slots[i], i, 1);
    for (int t = 0; t < RACE_TAKERS; t++)
        assert_int_equal(pthread_create(&takers[t].thread, NULL, take_all, &takers[t]), 0);
    for (int t = 0; t < RACE_TAKERS; t++)
        pthread_join(takers[t].thread, NULL);
    for (uint32_t i = 0; i < RACE_ROUNDS; i++) {
        assert_int_equal(shm_load32(&race.wins[i]), 1);
        assert_in_range(lane_claim_state_of(shm_load64(&race.slots[i])), LANE_RUNNING, LANE_REVOKED);
    }
    pthread_barrier_destroy(&race.start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pending_slot_is_taken_once),
        cmocka_unit_test(another_sequence_or_attempt_takes_nothing),
        cmocka_unit_test(the_word_keeps_forty_bits_of_sequence),
        cmocka_unit_test(only_what_the_protocol_leaves_proves_that_it_has_not_run),
        cmocka_unit_test(worker_owner_and_recall_have_one_winner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
