/* SPDX-License-Identifier: Apache-2.0
 *
 * watch_test.c - who hangs, who only waits, who is slow; and that our own pause is nobody's fault.
 */
#include "sgd/watch/load.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ll

enum { LIMIT_MS = 900 }; /* where the user sets one */

static struct sgd_watch      watch;
static struct sgd_pulse_seen pulses[4];
static int64_t               now;
static int                   straggler;

static void begin(uint32_t members)
{
    memset(&watch, 0, sizeof watch);
    memset(pulses, 0, sizeof pulses);
    now = 1000 * MS;
    sgd_watch_begin(&watch, now, members, pulses);
}

/* All but the members in `stuck` (bits) work for `ms`, in steps of `step_ms`; gives who hangs at the end. */
static uint64_t work(uint32_t members, uint64_t stuck, int64_t ms, int64_t step_ms)
{
    uint64_t hung = 0;
    for (int64_t t = 0; t < ms && !hung; t += 50) {
        now += 50 * MS;
        for (uint32_t m = 0; m < members; m++) {
            if (stuck >> m & 1)
                continue;
            bool has_stepped = stuck == 0 && (t + 50) % step_ms < 50;
            pulses[m].arrived += has_stepped ? 2 : 0;
            pulses[m].beats += stuck == 0;
            pulses[m].steps += has_stepped;
            pulses[m].step_us = (uint32_t)(step_ms * 1000);
        }
        hung = sgd_watch_look(&watch, now, pulses, &straggler);
    }
    return hung;
}

/* In how many of so many looks, each 50 ms behind the last, a process that loads is taken to work. */
static int loads(int looks, const struct sgd_pulse_seen *shows, uint32_t cpu_permille)
{
    struct sgd_load       load = {0};
    struct sgd_pulse_seen seen = *shows;
    int                   works = 0;
    int64_t               at = 500 * MS;
    (void)sgd_load_works(&load, at, &seen); /* it has just come */
    for (int i = 1; i <= looks; i++) {
        seen.process_ms = (uint32_t)i * 50 * cpu_permille / 1000 / 10 * 10; /* the kernel tells of hundredths */
        works += sgd_load_works(&load, at += 50 * MS, &seen);
    }
    return works;
}

static void one_that_loads_works_with_cpu_or_disk(void **state)
{
    struct sgd_load load = {0};
    (void)state;
    assert_true(sgd_load_works(&load, 500 * MS, &(struct sgd_pulse_seen){0}));
    assert_int_equal(loads(200, &(struct sgd_pulse_seen){0}, 0), 0);
    assert_int_equal(loads(200, &(struct sgd_pulse_seen){0}, 20), 0);   /* libmanta's own threads */
    assert_int_equal(loads(200, &(struct sgd_pulse_seen){0}, 250), 10); /* each second */
    assert_true(loads(200, &(struct sgd_pulse_seen){.on_disk = 1}, 0) >= 199);
    assert_true(loads(200, &(struct sgd_pulse_seen){.ready = 1}, 10) >= 199); /* others have the CPUs */
    sgd_load_works(&load, 550 * MS, &(struct sgd_pulse_seen){.on_disk = 1});
    assert_false(sgd_load_works(&load, 600 * MS, &(struct sgd_pulse_seen){0})); /* that was a moment */
}

static void one_that_loads_has_its_own_limit(void **state)
{
    (void)state;
    begin(1);
    assert_int_equal(sgd_watch_load_limit_ns(&watch), MT_TRAIN_START_MS * MS);
    watch.hang_after_ns = 2000 * MS;
    assert_int_equal(sgd_watch_load_limit_ns(&watch), MT_TRAIN_START_MS * MS);
    watch.hang_after_ns = 3600 * 1000 * MS;
    assert_int_equal(sgd_watch_load_limit_ns(&watch), 3600 * 1000 * MS);
    watch.hang_after_ns = -1;
    assert_int_equal(sgd_watch_load_limit_ns(&watch), INT64_MAX);
}

static void a_member_that_stands_still_hangs(void **state)
{
    (void)state;
    begin(3);
    assert_int_equal(work(3, 0, 2000, 50), 0);
    pulses[0].arrived++, pulses[2].arrived++; /* they wait for member 1 */
    assert_int_equal(work(3, 2, MT_TRAIN_HUNG_MS - 100, 50), 0);
    assert_int_equal(work(3, 2, 300, 50), 2);
}

/* When the last one comes, the others have been silent for as long as they have waited. They are not awake yet. */
static void who_has_waited_for_others_has_time_to_wake_up(void **state)
{
    (void)state;
    begin(3);
    watch.hang_after_ns = LIMIT_MS * MS;
    assert_int_equal(work(3, 0, 2000, 50), 0);
    pulses[0].arrived++, pulses[2].arrived++; /* they wait for member 1, which works in a user's call */
    pulses[1].in_call = 1, pulses[1].ready = 1;
    assert_int_equal(work(3, 7, 60 * 1000, 50), 0);
    pulses[1].arrived++, pulses[1].in_call = 0;
    assert_int_equal(work(3, 7, LIMIT_MS - 100, 50), 0);
    pulses[1].ready = 0;
    assert_int_equal(work(3, 7, 300, 50), 5);
}

static void long_steps_are_given_time(void **state)
{
    (void)state;
    begin(2);
    assert_int_equal(work(2, 0, 100000, 4000), 0);
    assert_int_equal(work(2, 0, 10000, 1000), 0); /* the longest counts, not most of them */
    assert_int_equal(sgd_watch_limit_ns(&watch, &pulses[0]) / MS, 20000);
    pulses[0].arrived++;
    assert_int_equal(work(2, 3, 19900, 1000), 0);
    assert_int_equal(work(2, 3, 300, 1000), 2);
}

/* Of a run that goes back to an older state the first step is not done yet. */
static void going_back_is_no_step(void **state)
{
    (void)state;
    begin(2);
    assert_int_equal(work(2, 0, 2000, 50), 0);
    sgd_watch_begin(&watch, now, 2, pulses);
    pulses[0].steps -= 10;
    assert_int_equal(work(2, 3, MT_TRAIN_FIRST_MS - 100, 50), 0);
    assert_int_equal(work(2, 3, 300, 50), 3);
}

/* What the user has set holds from a generation's first step on, and for the stopped; negative: for ever. */
static void the_users_limit_holds(void **state)
{
    (void)state;
    begin(2);
    watch.hang_after_ns = 500 * MS;
    assert_int_equal(work(2, 3, MT_TRAIN_FIRST_MS - 100, 50), 0);
    begin(2);
    watch.hang_after_ns = 500 * MS;
    assert_int_equal(work(2, 0, 2000, 50), 0);
    assert_int_equal(work(2, 3, 500, 50), 0);
    assert_int_equal(work(2, 3, 100, 50), 3);
    begin(2);
    watch.hang_after_ns = -1;
    assert_int_equal(work(2, 0, 2000, 50), 0);
    pulses[0].is_stopped = 1;
    assert_int_equal(work(2, 3, 1000 * MT_TRAIN_HUNG_MS, 50), 0);
}

static void who_is_stopped_is_found_at_once(void **state)
{
    (void)state;
    begin(2);
    pulses[1].is_stopped = 1; /* also before the first step */
    assert_int_equal(work(2, 3, MT_TRAIN_STOPPED_MS - 100, 50), 0);
    assert_int_equal(work(2, 3, 300, 50), 2);
}

/* For a moment, as by a debugger that is attached, while it sleeps in a long call. */
static void who_slept_before_it_was_stopped_is_not_found_sooner(void **state)
{
    (void)state;
    begin(2);
    pulses[0].arrived++;
    for (int i = 0; i < 3; i++) {
        pulses[1].is_stopped = 0;
        assert_int_equal(work(2, 3, 2000, 50), 0);
        pulses[1].is_stopped = 1;
        assert_int_equal(work(2, 3, MT_TRAIN_STOPPED_MS - 100, 50), 0);
    }
    assert_int_equal(work(2, 3, 300, 50), 2);
}

/* A step that takes longer than the limit, each time: in the end it is given the time. Then the limit is the old one. */
static void a_step_that_hangs_again_gets_more_time(void **state)
{
    int64_t limit = MT_TRAIN_HUNG_MS;
    (void)state;
    begin(2);
    for (int i = 0; i < 4; i++, limit *= 2) {
        sgd_watch_begin(&watch, now, 2, pulses);
        watch.has_stepped = true;
        assert_int_equal(work(2, 3, limit - 100, 50), 0);
        assert_int_equal(work(2, 3, 300, 50), 3);
    }
    sgd_watch_begin(&watch, now, 2, pulses);
    assert_int_equal(work(2, 0, 1000, 50), 0);
    assert_int_equal(sgd_watch_limit_ns(&watch, &pulses[0]) / MS, MT_TRAIN_HUNG_MS);
}

static void all_that_stand_still_hang(void **state)
{
    (void)state;
    begin(2);
    assert_int_equal(work(2, 0, 2000, 50), 0);
    assert_int_equal(work(2, 3, MT_TRAIN_HUNG_MS + 100, 50), 3);
}

static void before_the_first_step_there_is_more_time(void **state)
{
    (void)state;
    begin(2);
    assert_int_equal(work(2, 3, MT_TRAIN_FIRST_MS - 100, 50), 0);
    assert_int_equal(work(2, 3, 300, 50), 3);
    begin(2);
    assert_int_equal(work(2, 0, 2000, 50), 0);
    sgd_watch_begin(&watch, now, 2, pulses); /* the next generation: the steps are known, the way to the first is not */
    assert_int_equal(work(2, 3, MT_TRAIN_FIRST_MS - 100, 50), 0);
    assert_int_equal(work(2, 3, 300, 50), 3);
}

/* The driver was slow to look: the first steps were over, and then somebody hung. */
static void steps_before_the_first_look_count(void **state)
{
    (void)state;
    memset(&watch, 0, sizeof watch);
    memset(pulses, 0, sizeof pulses);
    for (int m = 0; m < 2; m++)
        pulses[m] = (struct sgd_pulse_seen){.arrived = 10, .beats = 5, .steps = 5, .step_us = 20000};
    sgd_watch_begin(&watch, now, 2, pulses);
    pulses[0].arrived++;
    assert_int_equal(work(2, 3, MT_TRAIN_FIRST_MS - 100, 50), 0);
    assert_int_equal(work(2, 3, 300, 50), 2);
}

/* Silent for ms, in which member 1 uses each of these; who hangs then? */
static uint64_t silent(int64_t ms, uint32_t cpu_of_50, uint32_t ready, uint32_t on_disk, uint32_t in_call)
{
    uint64_t hung = 0;
    begin(2);
    assert_int_equal(work(2, 0, 2000, 50), 0);
    pulses[0].arrived++;
    pulses[1].in_call = in_call & 1, pulses[1].ready = ready & 1, pulses[1].on_disk = on_disk & 1;
    for (int64_t t = 0; t < ms && !hung; t += 50) {
        pulses[1].process_ms += cpu_of_50;
        pulses[1].cpu_ms += cpu_of_50;
        hung = work(2, 3, 50, 50);
    }
    return hung;
}

/* In a user's call, a fifth of a CPU is work, whichever of its threads does it; of an hour, not a sign is missed. */
static void who_works_in_a_users_call_does_not_hang(void **state)
{
    enum { HOUR_MS = 3600 * 1000 };
    (void)state;
    assert_int_equal(silent(HOUR_MS, 50, 1, 0, 1), 0);
    assert_int_equal(silent(HOUR_MS, 10, 0, 0, 1), 0);
    assert_int_equal(silent(HOUR_MS, 0, 1, 0, 1), 0);  /* it would work, and others have the CPUs */
    assert_int_equal(silent(HOUR_MS, 0, 0, 1, 0), 0);  /* the disk may keep anybody */
    assert_int_equal(silent(HOUR_MS, 50, 1, 0, 0), 2); /* our own code, in vain */
    assert_int_equal(silent(MT_TRAIN_HUNG_MS + 100, 0, 0, 0, 1), 2);
    assert_int_equal(silent(2 * MT_TRAIN_HUNG_MS, 1, 0, 0, 1), 2); /* what a helper of the library's uses is not work */
}

static void our_own_pause_is_not_theirs(void **state)
{
    (void)state;
    begin(2);
    assert_int_equal(work(2, 0, 2000, 50), 0);
    now += 60000 * MS; /* the driver slept, as did they */
    assert_int_equal(sgd_watch_look(&watch, now, pulses, &straggler), 0);
    assert_int_equal(work(2, 3, MT_TRAIN_HUNG_MS - 100, 50), 0);
    assert_int_equal(work(2, 3, 300, 50), 3);
}

/* Ready, and without a CPU for nine tenths of the time: not for ever, though. */
static void who_has_no_cpu_is_given_time(void **state)
{
    (void)state;
    int64_t most = LIMIT_MS + MT_TRAIN_STARVED_MS, silent = 0;
    begin(2);
    watch.hang_after_ns = LIMIT_MS * MS;
    assert_int_equal(work(2, 0, 2000, 50), 0);
    pulses[0].arrived++;
    pulses[1].ready = 1, pulses[1].cpu_ms = 1000;
    for (uint64_t hung = 0; hung == 0; silent += 50) {
        assert_true(silent <= most);
        pulses[1].cpu_ms += 5;
        hung = work(2, 3, 50, 50);
    }
    assert_in_range(silent, 9 * LIMIT_MS, 11 * LIMIT_MS);
    begin(2);
    watch.hang_after_ns = LIMIT_MS * MS;
    assert_int_equal(work(2, 0, 2000, 50), 0);
    pulses[0].arrived++;
    pulses[1].ready = 1, pulses[1].cpu_ms = 1000;
    assert_int_equal(work(2, 3, most - 100, 50), 0);
    assert_int_equal(work(2, 3, 300, 50), 2);
}

static void who_sleeps_or_works_in_vain_is_not(void **state)
{
    (void)state;
    begin(2);
    watch.hang_after_ns = LIMIT_MS * MS;
    assert_int_equal(work(2, 0, 2000, 50), 0);
    pulses[0].arrived++;
    pulses[1].ready = 1, pulses[1].cpu_ms = 1000;
    for (int64_t t = 0; t < LIMIT_MS; t += 50) {
        assert_int_equal(work(2, 3, 50, 50), 0);
        pulses[1].ready = t % 100 == 0; /* asleep at every second look */
        pulses[1].cpu_ms += 50;
    }
    assert_int_equal(work(2, 3, 150, 50), 2);
}

/* One of several threads has no CPU: the others sleep, or work on their own. And one that has them all, in vain. */
static void each_of_a_members_threads_counts(void **state)
{
    (void)state;
    for (uint32_t working = 0; working < 3; working++) {
        begin(2);
        watch.hang_after_ns = LIMIT_MS * MS;
        assert_int_equal(work(2, 0, 2000, 50), 0);
        pulses[0].arrived++;
        pulses[1].ready = (1 + working) & 3, pulses[1].cpu_ms = 1000;
        for (int64_t t = 0; t < 3 * LIMIT_MS; t += 50) {
            pulses[1].cpu_ms += 50 * working;
            assert_int_equal(work(2, 3, 50, 50), 0);
        }
        uint64_t hung = 0;
        for (int64_t t = 0; t < 2 * LIMIT_MS && hung == 0; t += 50) {
            pulses[1].cpu_ms += 50 * (working + 1);
            hung = work(2, 3, 50, 50);
        }
        assert_int_equal(hung, 2);
    }
}

static void who_does_not_come_back_is_late(void **state)
{
    (void)state;
    begin(2);
    watch.hang_after_ns = LIMIT_MS * MS;
    assert_int_equal(work(2, 0, 2000, 50), 0);
    pulses[1].ready = 1, pulses[1].cpu_ms = 1000;
    for (int64_t t = 0; t <= LIMIT_MS; t += 50) {
        assert_int_equal(sgd_watch_late(&watch, now, pulses), 0);
        now += 50 * MS;
        pulses[1].cpu_ms += 5;
    }
    assert_int_equal(sgd_watch_late(&watch, now, pulses), 1);
}

static void the_slow_one_is_named(void **state)
{
    (void)state;
    int found = -1;
    begin(3);
    for (int i = 0; i < 400 && found < 0; i++) {
        pulses[0].work_ns += 10 * (uint64_t)MS;
        pulses[1].work_ns += 12 * (uint64_t)MS;
        pulses[2].work_ns += 30 * (uint64_t)MS;
        assert_int_equal(work(3, 0, 50, 50), 0);
        found = straggler;
    }
    assert_int_equal(found, 2);
    begin(2);
    for (int i = 0; i < 400; i++) {
        pulses[0].work_ns += 10 * (uint64_t)MS;
        pulses[1].work_ns += 15 * (uint64_t)MS;
        assert_int_equal(work(2, 0, 50, 50), 0);
        assert_int_equal(straggler, -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_loads_works_with_cpu_or_disk),
        cmocka_unit_test(one_that_loads_has_its_own_limit),
        cmocka_unit_test(a_member_that_stands_still_hangs),
        cmocka_unit_test(long_steps_are_given_time),
        cmocka_unit_test(all_that_stand_still_hang),
        cmocka_unit_test(before_the_first_step_there_is_more_time),
        cmocka_unit_test(who_has_waited_for_others_has_time_to_wake_up),
        cmocka_unit_test(steps_before_the_first_look_count),
        cmocka_unit_test(going_back_is_no_step),
        cmocka_unit_test(the_users_limit_holds),
        cmocka_unit_test(who_is_stopped_is_found_at_once),
        cmocka_unit_test(who_slept_before_it_was_stopped_is_not_found_sooner),
        cmocka_unit_test(a_step_that_hangs_again_gets_more_time),
        cmocka_unit_test(who_works_in_a_users_call_does_not_hang),
        cmocka_unit_test(our_own_pause_is_not_theirs),
        cmocka_unit_test(who_has_no_cpu_is_given_time),
        cmocka_unit_test(who_sleeps_or_works_in_vain_is_not),
        cmocka_unit_test(each_of_a_members_threads_counts),
        cmocka_unit_test(who_does_not_come_back_is_late),
        cmocka_unit_test(the_slow_one_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
