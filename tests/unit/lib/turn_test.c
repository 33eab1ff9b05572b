/* SPDX-License-Identifier: Apache-2.0
 *
 * turn_test.c - one thread leads, one thread serves: each breach of that is named before anything else is done.
 *
 * pool.c is included: a copy of it whose state can be written.
 */
#include "clients/lib/shell/serve/pool.c"

#include "tests/unit/base/says.h"

#include <stdarg.h>
#include <cmocka.h>

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static void only_a_leader_parks(void **state)
{
    static const char words[] = "!ready || leads()";
    (void)state;
    lib.is_led = false;
    assert_string_equal(SAYS(lib_park(never, NULL, INT64_MAX, 0)), words); /* nobody leads */
    lib.is_led = true;
    lib.leader = (pthread_t)0;
    assert_string_equal(SAYS(lib_park(never, NULL, INT64_MAX, 0)), words); /* another thread does */
    lib.is_led = false;
}

static void only_the_server_serves(void **state)
{
    static const char words[] = "pool.server == c && !pool.is_waiting";
    manta_ctx        *mine = calloc(1, sizeof *mine), *other = calloc(1, sizeof *other);
    uint64_t          now = 0;
    (void)state;
    assert_string_equal(SAYS(serve(mine, &now)), words); /* it has not taken it over */
    pool.server = other;
    assert_string_equal(SAYS(serve(mine, &now)), words);
    pool.server = mine;
    pool.is_waiting = true;
    assert_string_equal(SAYS(serve(mine, &now)), words); /* another one waits in its stead */
    pool.server = NULL;
    pool.is_waiting = false;
    free(mine);
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_a_leader_parks), cmocka_unit_test(only_the_server_serves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
