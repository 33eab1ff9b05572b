/* SPDX-License-Identifier: Apache-2.0
 *
 * living_test.c - objects that may be named: those that were added and not removed. Threads: a few.
 */
#include "core/ds/living.h"
#include "tests/unit/base/test.h"

#include <stdlib.h>

enum { COUNT = 1000, THREADS = 4 };

static char objects[COUNT];

static void those_that_live(void **state)
{
    static struct mt_living living = MT_LIVING_INIT;
    (void)state;
    assert_false(mt_living_has(&living, NULL));
    assert_false(mt_living_remove(&living, NULL));
    assert_false(mt_living_has(&living, &objects[0]));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(mt_living_add(&living, &objects[i]).code, 0);
    for (int i = 0; i < COUNT; i += 2) {
        assert_true(mt_living_remove(&living, &objects[i]));
        assert_false(mt_living_remove(&living, &objects[i])); /* twice */
    }
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(mt_living_has(&living, &objects[i]), i % 2);
    for (int i = 0; i < COUNT; i += 2)
        assert_int_equal(mt_living_add(&living, &objects[i]).code, 0); /* in the places of others */
    for (int i = 0; i < COUNT; i++)
        assert_true(mt_living_remove(&living, &objects[i]));
    assert_false(mt_living_has(&living, &objects[1]));
}

static struct mt_living shared = MT_LIVING_INIT;

static void *come_and_go(void *arg)
{
    char *mine = arg;
    for (int round = 0; round < 2000; round++) {
        for (int i = 0; i < 20; i++)
            if (mt_living_add(&shared, mine + i).code)
                abort();
        for (int i = 0; i < 20; i++)
            if (!mt_living_has(&shared, mine + i) || !mt_living_remove(&shared, mine + i) || mt_living_has(&shared, mine + i))
                abort();
    }
    return NULL;
}

static void of_several_threads(void **state)
{
    pthread_t threads[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, objects + 100 * (ptrdiff_t)i), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_live),
        cmocka_unit_test(of_several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
