/* SPDX-License-Identifier: Apache-2.0
 *
 * amounts_test.c - resources as users write them.
 */
#include "core/text/amounts.h"
#include "tests/unit/base/test.h"

#include <stdio.h>
#include <string.h>

static void refused(const char *amounts, const char *why)
{
    struct mt_amounts a;
    char              text[128] = "";
    if (mt_amounts_read(amounts, &a, text, sizeof text).code != MT_EINVAL || !strstr(text, why))
        fail_msg("%s: %s", amounts, text);
}

static void pairs_are_read_in_order(void **state)
{
    struct mt_amounts a;
    char              text[128];
    (void)state;
    assert_int_equal(mt_amounts_read("gold=2,silver=0.5,tin=1e3", &a, text, sizeof text).code, 0);
    assert_int_equal(a.count, 3);
    assert_string_equal(a.list[1].name, "silver");
    assert_int_equal(a.list[0].milli, 2000);
    assert_int_equal(a.list[1].milli, 500);
    assert_int_equal(a.list[2].milli, 1000000);
    assert_int_equal(mt_amounts_read("memory=4e12", &a, text, sizeof text).code, 0); /* bytes */
    assert_int_equal(mt_amounts_read("", &a, text, sizeof text).code, 0);
    assert_int_equal(a.count, 0);
}

static void what_is_wrong_is_named(void **state)
{
    char many[32 * MT_RLT_RESOURCES_MAX] = "";
    (void)state;
    refused("gold", "\"gold\": NAME=N");
    refused("gold,tin=1", "\"gold\": NAME=N");
    refused("tin=1,=2", "\"=2\": NAME=N");
    refused("tin=1,,gold=2", "\"\": NAME=N");
    refused("gold=", "\"gold=\": an amount");
    refused("gold=two", "\"gold=two\": an amount");
    refused("gold=2x,tin=1", "\"gold=2x\": an amount");
    refused("gold=0", "an amount");
    refused("gold=0.0001", "an amount"); /* would be none */
    refused("gold=-1", "an amount");
    refused("gold=nan", "an amount");
    refused("gold=2e12", "an amount");
    refused("gold=1,go=1,gold=2", "\"gold=2\": this name stands there before");
    refused("a_name_that_is_too_long_by_one=1", "23 bytes");
    for (int i = 0; i <= MT_RLT_RESOURCES_MAX; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "r%d=1,", i);
    refused(many, "too many");
}

static void what_is_no_amount_is_refused(void **state)
{
    (void)state;
    assert_null(mt_amount_wrong("CPU", 0));
    assert_null(mt_amount_wrong("CPU", 0.001));
    assert_non_null(mt_amount_wrong("CPU", 0.0009));
    assert_non_null(mt_amount_wrong("CPU", -1));
    assert_non_null(mt_amount_wrong("CPU", 1e13));
    assert_non_null(mt_amount_wrong("CPU", 0.0 / 0.0));
    assert_null(mt_amount_wrong("memory", 1e15));
    assert_non_null(mt_amount_wrong("memory", 0.5));
    assert_null(mt_amount_wrong("GPU", 1.5)); /* a placement group's, say */
    assert_null(mt_amount_wrong_of_node("GPU", 2));
    assert_non_null(mt_amount_wrong_of_node("GPU", 1.5));
    assert_non_null(mt_amount_wrong_of_node("GPU", 0.5));
    assert_null(mt_amount_wrong_of_node("CPU", 1.5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_amount_is_refused),
        cmocka_unit_test(pairs_are_read_in_order),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
