/* SPDX-License-Identifier: Apache-2.0
 *
 * park_test.c - states of a park page, and a wake-up across threads.
 */
#include "core/base/clock.h"
#include "core/lane/park.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { SLEEPS = 1000 };
static const int64_t LIMIT_NS = 60000000000;

static void a_busy_process_is_not_woken(void **state)
{
    (void)state;
    static struct lane_park park;
    assert_false(lane_park_must_wake(&park));
    assert_false(lane_park_is_hungry(&park));
    lane_park_wake(&park);
    assert_int_equal(shm_load32(&park.bell), 0);
    shm_store32(&park.state, LANE_HUNGRY);
    assert_false(lane_park_must_wake(&park));
    assert_true(lane_park_is_hungry(&park));
}

static void one_wake_up_makes_it_busy(void **state)
{
    (void)state;
    static struct lane_park park;
    uint32_t                bell = lane_park_prepare(&park);
    assert_true(lane_park_must_wake(&park));
    lane_park_wake(&park);
    assert_false(lane_park_must_wake(&park));
    assert_int_equal(shm_load32(&park.bell), bell + 1);
    lane_park_sleep(&park, bell, 1000000000); /* returns at once: the bell has moved */
    assert_false(lane_park_is_hungry(&park));
}

static void a_cancelled_sleep_is_not_woken(void **state)
{
    (void)state;
    static struct lane_park park;
    lane_park_prepare(&park);
    lane_park_cancel(&park);
    assert_false(lane_park_must_wake(&park));
}

/* A sender that was late for one sleep does not take away the ASLEEP of the next. */
static void a_late_sender_spares_the_next_sleep(void **state)
{
    (void)state;
    static struct lane_park park;
    uint32_t                first = lane_park_prepare(&park);
    uint32_t                seen = shm_load32(&park.state);
    lane_park_wake(&park);
    lane_park_sleep(&park, first, 1000000000);
    lane_park_prepare(&park);
    shm_cas32(&park.state, seen, LANE_BUSY); /* what the late sender still has to do */
    assert_true(lane_park_must_wake(&park));
}

static void a_sleep_ends_at_its_limit(void **state)
{
    (void)state;
    static struct lane_park park;
    lane_park_sleep(&park, lane_park_prepare(&park), 1000000);
    assert_int_equal(shm_load32(&park.state), LANE_BUSY);
}

static void *ring_until_done(void *arg)
{
    struct lane_park *park = arg;
    while (shm_load32_acquire(&park->up_count) == 0)
        if (lane_park_must_wake(park))
            lane_park_wake(park);
    return NULL;
}

static void a_sleeper_is_woken(void **state)
{
    (void)state;
    static struct lane_park park;
    pthread_t               thread;
    assert_int_equal(pthread_create(&thread, NULL, ring_until_done, &park), 0);
    for (int i = 0; i < SLEEPS; i++) {
        int64_t since = mt_now_ns();
        lane_park_sleep(&park, lane_park_prepare(&park), LIMIT_NS);
        assert_true(mt_now_ns() - since < LIMIT_NS);
    }
    /* A sender between its ring of the bell and its wake-up may wake the next sleep for nothing: two sleeps a ring at most. */
    assert_true(shm_load32_acquire(&park.bell) >= SLEEPS / 2);
    shm_store32_release(&park.up_count, 1);
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_busy_process_is_not_woken),    cmocka_unit_test(one_wake_up_makes_it_busy),
        cmocka_unit_test(a_cancelled_sleep_is_not_woken), cmocka_unit_test(a_late_sender_spares_the_next_sleep),
        cmocka_unit_test(a_sleep_ends_at_its_limit),      cmocka_unit_test(a_sleeper_is_woken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
