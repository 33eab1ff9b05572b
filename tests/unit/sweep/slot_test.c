/* SPDX-License-Identifier: Apache-2.0
 *
 * slot_test.c - what a trial says reaches the driver, whatever is done to the machine's time meanwhile.
 */
#include "sweep/trial/trial.h"
#include "tests/unit/sweep/ahead.h"
#include "tests/unit/sweep/test.h"

static void a_report_comes_though_the_time_is_set_back(void **state)
{
    struct swp_slot_side slot = {.ends = {.fd = -1}};
    struct swp_wire      said = {.kind = SWP_WIRE_REPORT, .trial = 3, .run = 1, .step = 7, .text = mt_view_text("")}, got;
    mt_buf               bytes = {0};
    (void)state;
    swp_slot_init(&slot);
    assert_ok(swp_slot_fetch(&slot, &bytes)); /* there is none yet: it says so after a while */
    assert_int_equal(bytes.size, 0);
    swp_slot_say(&slot, &said, false); /* not urgent: others may come with it */
    assert_ok(swp_slot_fetch(&slot, &bytes));
    mt_reader r = mt_reader_of(mt_view_of(bytes.data, bytes.size));
    assert_true(swp_wire_take(&r, &got));
    assert_int_equal(got.step, 7);
    mt_buf_fini(&bytes);
    mt_vec_fini(&slot.news);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_report_comes_though_the_time_is_set_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
