/* SPDX-License-Identifier: Apache-2.0
 *
 * notice_test.c - what a notice file says of the machine's end, and what says nothing.
 */
#include "raylet/files/notice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { WRITTEN = 5000 };
static const uint64_t evening = UINT64_C(1795456800000); /* 2026-11-23T18:00:00Z */

static void a_number_is_seconds_from_when_it_was_written(void **state)
{
    (void)state;
    assert_int_equal(rlt_notice_time("120", WRITTEN), WRITTEN + 120000);
    assert_int_equal(rlt_notice_time(" 0.5 \n", WRITTEN), WRITTEN + 500);
    assert_int_equal(rlt_notice_time("0", WRITTEN), WRITTEN);
}

static void a_time_may_stand_in_any_text(void **state)
{
    (void)state;
    assert_int_equal(rlt_notice_time("2026-11-23T18:00:00Z", WRITTEN), evening);
    assert_int_equal(rlt_notice_time("{\"action\": \"terminate\", \"time\": \"2026-11-23T18:00:00Z\"}", WRITTEN), evening);
    assert_int_equal(rlt_notice_time("EventId 7, NotBefore 2026-11-23T18:00:01Z", WRITTEN), evening + 1000);
}

static void all_else_says_nothing_of_time(void **state)
{
    static const char *const texts[] = {"",
                                        "\n",
                                        "TRUE",
                                        "-5",
                                        "1e30",
                                        "nan",
                                        "inf",
                                        "12 monkeys",
                                        "2026-11-23T18:00:00",
                                        "2026-11-23",
                                        "0000-00-00T00:00:00Z",
                                        "2026-13-23T18:00:00Z",
                                        "1960-11-23T18:00:00Z",
                                        "2026-11-23T18:00:0Z"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(rlt_notice_time(texts[i], WRITTEN), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_is_seconds_from_when_it_was_written),
        cmocka_unit_test(a_time_may_stand_in_any_text),
        cmocka_unit_test(all_else_says_nothing_of_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
