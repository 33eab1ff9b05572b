/* SPDX-License-Identifier: Apache-2.0
 *
 * state_test.c - what a process is, and whether the library can be used, change by their drawings alone: every other step is
 * refused, and changes nothing.
 */
#include "clients/lib/shell/state/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static int  refused;
static char said[256];

static void note(const char *expr, const char *file, int line)
{
    (void)file, (void)line;
    refused++;
    snprintf(said, sizeof said, "%s", expr);
}

/* As the drawing in state.h has it. */
static const bool drawn[LIB_ROLES][LIB_ROLES] = {
    [LIB_NONE] = {[LIB_DRIVER] = true, [LIB_WORKER] = true},
    [LIB_DRIVER] = {[LIB_OVER] = true, [LIB_FORKED] = true},
    [LIB_WORKER] = {[LIB_FORKED] = true},
    [LIB_OVER] = {[LIB_DRIVER] = true},
};

static void roles(void **state)
{
    (void)state;
    mt_assert_set_hook(note);
    for (uint32_t from = 0; from < LIB_ROLES; from++)
        for (uint32_t to = 0; to < LIB_ROLES; to++) {
            lib.role = (enum lib_role)from;
            refused = 0;
            lib_role_set((enum lib_role)to);
            assert_int_equal(refused, !drawn[from][to]);
            assert_int_equal(lib.role, drawn[from][to] ? to : from);
        }
    lib.role = LIB_WORKER;
    lib_role_set(LIB_DRIVER);
    assert_string_equal(said, "libmanta: WORKER -> DRIVER is no transition");
    mt_assert_set_hook(NULL);
    lib.role = LIB_NONE;
}

static void first_reason_stands(void **state)
{
    (void)state;
    mt_assert_set_hook(note);
    refused = 0;
    lib_broken_set(MT_ECONN, "the raylet is gone");
    assert_int_equal(lib.broken, MT_ECONN);
    lib_break(MT_ENOMEM, "another one");
    assert_int_equal(refused, 0);
    assert_int_equal(lib.broken, MT_ECONN);
    lib_broken_set(MT_ENOMEM, "another one");
    assert_int_equal(refused, 1);
    assert_string_equal(lib.broken_text, "the raylet is gone");
    lib_broken_set(0, "");
    assert_int_equal(lib.broken, 0);
    assert_int_equal(refused, 1);
    mt_assert_set_hook(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(roles), cmocka_unit_test(first_reason_stands)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
