/* SPDX-License-Identifier: Apache-2.0
 *
 * living_test.c - objects that may be named: those that were made and not removed; how long an address stays away. Threads: a few.
 */
#include "core/ds/living.h"
#include "tests/unit/base/test.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 1000, THREADS = 4, PAGE = 4096 };

static void those_that_live(void **state)
{
    static struct mt_living living = MT_LIVING_INIT;
    static char            *objects[COUNT];
    (void)state;
    assert_false(mt_living_has(&living, NULL));
    assert_false(mt_living_remove(&living, NULL));
    assert_false(mt_living_has(&living, &living));
    mt_living_free(&living, NULL);
    for (int i = 0; i < COUNT; i++) {
        objects[i] = mt_living_new(&living, 100);
        assert_non_null(objects[i]);
        assert_false(mt_living_has(&living, objects[i] + 1));
        objects[i][99] = 1;
    }
    for (int i = 0; i < COUNT; i += 2) {
        assert_true(mt_living_remove(&living, objects[i]));
        assert_false(mt_living_remove(&living, objects[i])); /* twice */
        assert_int_equal(objects[i][99], 1);                 /* until it is given back */
        mt_living_free(&living, objects[i]);
        mt_living_free(&living, objects[i]);
    }
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(mt_living_has(&living, objects[i]), i % 2);
    for (int i = 1; i < COUNT; i += 2)
        mt_living_free(&living, objects[i]);
    assert_false(mt_living_has(&living, objects[1]));
}

static void an_address_does_not_come_back(void **state)
{
    static struct mt_living living = MT_LIVING_INIT;
    char                   *first = mt_living_new(&living, 100), *last = first;
    (void)state;
    mt_living_free(&living, first);
    for (int i = 0; i < 100000; i++) {
        char *next = mt_living_new(&living, 100);
        assert_non_null(next);
        assert_ptr_not_equal(next, last);
        assert_false(mt_living_has(&living, first));
        mt_living_free(&living, next);
        last = next;
    }
}

/* Of 8 pages: what lives is passed over, what comes again is zeroed, and one that finds no room says so. */
static void round_the_ring(void **state)
{
    static struct mt_living living = MT_LIVING_INIT;
    char                   *seen[8];
    (void)state;
    assert_int_equal(mt_range_grow(&living.ring, 0, 8 * PAGE).code, 0);
    char *stays = mt_living_new(&living, 3 * PAGE);
    memset(stays, 7, 3 * PAGE);
    for (int i = 0; i < 100; i++) {
        char *next = mt_living_new(&living, 2 * PAGE - 1);
        assert_non_null(next);
        assert_true(next + 2 * PAGE <= stays || next >= stays + 3 * PAGE);
        for (int k = 0; k < 2 * PAGE; k += 100)
            assert_int_equal(next[k], 0);
        memset(next, 9, 2 * PAGE);
        mt_living_free(&living, next);
    }
    for (int i = 0; i < 5; i++) {
        seen[i] = mt_living_new(&living, 1);
        assert_non_null(seen[i]);
    }
    assert_null(mt_living_new(&living, 1));
    assert_null(mt_living_new(&living, 9 * PAGE));
    mt_living_free(&living, seen[2]);
    assert_ptr_equal(mt_living_new(&living, PAGE), seen[2]);
    for (int i = 0; i < 3 * PAGE; i++)
        assert_int_equal(stays[i], 7);
    mt_range_fini(&living.ring);
}

static struct mt_living shared = MT_LIVING_INIT;

static void *come_and_go(void *arg)
{
    char *mine[20];
    (void)arg;
    for (int round = 0; round < 500; round++) {
        for (int i = 0; i < 20; i++) {
            mine[i] = mt_living_new(&shared, 5000);
            if (!mine[i] || mine[i][4999])
                abort();
            mine[i][4999] = 1;
        }
        for (int i = 0; i < 20; i++) {
            if (!mt_living_has(&shared, mine[i]) || !mt_living_remove(&shared, mine[i]) || mt_living_has(&shared, mine[i]))
                abort();
            mt_living_free(&shared, mine[i]);
        }
    }
    return NULL;
}

static void of_several_threads(void **state)
{
    pthread_t threads[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_live),
        cmocka_unit_test(an_address_does_not_come_back),
        cmocka_unit_test(round_the_ring),
        cmocka_unit_test(of_several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
