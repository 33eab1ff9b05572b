/* SPDX-License-Identifier: Apache-2.0
 *
 * check_test.c - the shared-memory protocols under the interleaving checker; planted bugs must be caught.
 *
 * check_test [--trace] [name]: one case; --trace prints a failing execution step by step.
 */
#include "tests/unit/lane/check_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

int  mt_plant;
bool check_tracing;

void check_expect_holds(struct check_result r)
{
    print_message("  %llu executions, %s, %llu abandoned\n", (unsigned long long)r.executions,
                  r.complete ? "all within the bound" : "not all within the bound", (unsigned long long)r.diverged);
    if (r.failed)
        fail_msg("%s", r.text);
    assert_true(r.executions > r.diverged * 10);
}

void check_expect_caught(struct check_result r, const char *text)
{
    print_message("  caught after %llu executions: %s\n", (unsigned long long)r.executions, r.text);
    assert_true(r.failed);
    if (text)
        assert_string_equal(r.text, text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_park_two),
        cmocka_unit_test(check_park_two_senders),
        cmocka_unit_test(check_park_killed_sender),
        cmocka_unit_test(check_park_planted_no_fence),
        cmocka_unit_test(check_ring_batches),
        cmocka_unit_test(check_ring_grows),
        cmocka_unit_test(check_ring_killed_producer),
        cmocka_unit_test(check_ring_planted_early_head),
        cmocka_unit_test(check_claim_one_winner),
        cmocka_unit_test(check_claim_slot_reused),
        cmocka_unit_test(check_claim_killed),
        cmocka_unit_test(check_claim_killed_before_publishing),
        cmocka_unit_test(check_claim_planted_early_finish),
        cmocka_unit_test(check_claim_planted_any),
        cmocka_unit_test(check_claim_planted_store),
        cmocka_unit_test(check_claim_planted_late_finish),
        cmocka_unit_test(check_edge_holds),
        cmocka_unit_test(check_edge_killed),
        cmocka_unit_test(check_edge_planted),
        cmocka_unit_test(check_pin_holds),
        cmocka_unit_test(check_pin_killed),
        cmocka_unit_test(check_pin_planted_no_fence),
        cmocka_unit_test(check_pin_planted_early_hand_back),
    };
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--trace"))
            check_tracing = true;
        else
            cmocka_set_test_filter(argv[i]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
