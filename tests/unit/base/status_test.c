/* SPDX-License-Identifier: Apache-2.0
 *
 * status_test.c - codes, ids and random numbers: texts, round trips, refusals.
 */
#include "tests/unit/base/test.h"

#include "core/base/id.h"
#include "core/base/rng.h"
#include "core/base/status.h"

#include <string.h>

static void every_code_has_a_name_and_a_text(void **state)
{
    (void)state;
    assert_string_equal(mt_code_name(MT_ETIMEDOUT), "ETIMEDOUT");
    assert_string_equal(mt_code_text(MT_OK), "success");
    assert_string_equal(mt_code_name(9999), "UNKNOWN");
    assert_string_equal(mt_code_text(-1), "unknown code");
}

static mt_status fail_at(int step)
{
    if (step == 2)
        return mt_error(MT_ESYS, 5, "step two");
    return mt_ok();
}

static mt_status climb(int *reached)
{
    for (int step = 0; step < 4; step++) {
        MT_TRY(fail_at(step));
        *reached = step;
    }
    return mt_ok();
}

static void a_failure_is_passed_up_unchanged(void **state)
{
    (void)state;
    int       reached = -1;
    mt_status st = climb(&reached);
    assert_int_equal(st.code, MT_ESYS);
    assert_int_equal(st.sys, 5);
    assert_string_equal(st.what, "step two");
    assert_int_equal(reached, 1);
}

static int  hook_calls;
static void count_call(const char *expr, const char *file, int line)
{
    (void)file, (void)line;
    assert_string_equal(expr, "1 == 2");
    hook_calls++;
}

static void a_failed_check_calls_the_hook(void **state)
{
    (void)state;
    mt_assert_set_hook(count_call);
    MT_ASSERT(1 == 1);
    MT_ASSERT(1 == 2);
    mt_assert_set_hook(NULL);
    assert_int_equal(hook_calls, 1);
}

static void an_id_survives_its_text_form(void **state)
{
    (void)state;
    char  text[MT_ID_TEXT_SIZE];
    mt_id id = mt_id_make(0x0123456789abcdefu, 0xfedcba987654u, 0xffff), back;
    assert_string_equal(mt_id_text(id, text), "0123456789abcdef-fedcba987654-ffff");
    assert_ok(mt_id_parse(text, &back));
    assert_true(mt_id_equal(id, back));
    assert_int_equal(mt_id_index(mt_id_with_index(id, 7)), 7);
    assert_true(mt_id_counter(id) == 0xfedcba987654u);
}

static void a_text_that_is_no_id_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "0",
                                        "0123456789abcdef-fedcba987654-fff",
                                        "0123456789abcdef-fedcba987654-fffff",
                                        "0123456789ABCDEF-fedcba987654-ffff",
                                        "0123456789abcdef_fedcba987654-ffff",
                                        "0123456789abcdeg-fedcba987654-ffff"};
    mt_id                    id = {1, 2};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_code(mt_id_parse(wrong[i], &id), MT_EINVAL);
    assert_true(id.process == 1 && id.counter_index == 2);
}

static void the_same_seed_gives_the_same_numbers(void **state)
{
    (void)state;
    mt_rng a = {42}, b = {42};
    for (int i = 0; i < 100; i++)
        assert_true(mt_rng_next(&a) == mt_rng_next(&b));
    for (int i = 0; i < 1000; i++)
        assert_in_range(mt_rng_below(&a, 7), 0, 6);
    /* The published first output of SplitMix64 for seed 0. */
    mt_rng zero = {0};
    assert_true(mt_rng_next(&zero) == 0xe220a8397b1dcdafu);
}

static void random_bytes_fill_all_of_the_buffer(void **state)
{
    (void)state;
    unsigned char a[64] = {0}, b[64] = {0};
    assert_ok(mt_random_bytes(a, sizeof a));
    assert_ok(mt_random_bytes(b, sizeof b));
    assert_memory_not_equal(a, b, sizeof a);
    assert_memory_not_equal(a + 56, "\0\0\0\0\0\0\0\0", 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_name_and_a_text),    cmocka_unit_test(a_failure_is_passed_up_unchanged),
        cmocka_unit_test(a_failed_check_calls_the_hook),       cmocka_unit_test(an_id_survives_its_text_form),
        cmocka_unit_test(a_text_that_is_no_id_is_refused),     cmocka_unit_test(the_same_seed_gives_the_same_numbers),
        cmocka_unit_test(random_bytes_fill_all_of_the_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
