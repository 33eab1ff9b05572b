/* SPDX-License-Identifier: Apache-2.0
 *
 * machine_test.c - a machine goes where its table says, and nowhere else.
 */
#include "tests/unit/base/test.h"

#include "core/base/machine.h"

#include <stdio.h>
#include <string.h>

enum door { DOOR_SHUT, DOOR_OPEN, DOOR_GONE };
static const char *const door_names[] = {[DOOR_SHUT] = "SHUT", [DOOR_OPEN] = "OPEN", [DOOR_GONE] = "GONE"};
static const uint32_t    door_next[] = {
       [DOOR_SHUT] = MT_STATE(DOOR_OPEN), [DOOR_OPEN] = MT_STATE(DOOR_SHUT) | MT_STATE(DOOR_GONE), [DOOR_GONE] = 0};
static const struct mt_machine door_machine = MT_MACHINE("door", door_names, door_next);

static char told[160];
static void note(const char *expr, const char *file, int line)
{
    (void)file, (void)line;
    snprintf(told, sizeof told, "%s", expr);
}

static const char *told_by(enum door from, int to)
{
    told[0] = 0;
    mt_assert_set_hook(note);
    MT_TRANSITION(&door_machine, from, to);
    mt_assert_set_hook(NULL);
    return told;
}

static void what_the_table_allows_passes_in_silence(void **state)
{
    (void)state;
    assert_string_equal(told_by(DOOR_SHUT, DOOR_OPEN), "");
    assert_string_equal(told_by(DOOR_OPEN, DOOR_SHUT), "");
    assert_string_equal(told_by(DOOR_OPEN, DOOR_GONE), "");
}

static void what_it_does_not_is_named_with_both_states(void **state)
{
    (void)state;
    assert_string_equal(told_by(DOOR_GONE, DOOR_OPEN), "door: GONE -> OPEN is no transition");
    assert_string_equal(told_by(DOOR_SHUT, DOOR_SHUT), "door: SHUT -> SHUT is no transition");
    assert_string_equal(told_by(DOOR_SHUT, 3), "door: SHUT -> ? is no transition");
    assert_string_equal(told_by(DOOR_SHUT, -1), "door: SHUT -> ? is no transition");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_table_allows_passes_in_silence),
        cmocka_unit_test(what_it_does_not_is_named_with_both_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
