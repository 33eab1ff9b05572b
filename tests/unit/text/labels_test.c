/* SPDX-License-Identifier: Apache-2.0
 *
 * labels_test.c - what selectors ask of labels, and what can't be read.
 */
#include "tests/unit/base/test.h"

#include "core/text/labels.h"

#include <string.h>

static void terms(void **state)
{
    static const char labels[] = "zone=a, disk=ssd,rack=r-1.2/x";
    static const struct {
        const char *selector;
        unsigned    alternative;
    } cases[] = {
        {"", 1},
        {"  ", 1},
        {"zone=a", 1},
        {" zone = a ", 1},
        {"zone=b", 0},
        {"zone!=a", 0},
        {"zone != b", 1},
        {"tier!=x", 1},
        {"zone in (b, a)", 1},
        {"zone in(b)", 0},
        {"zone !in (b)", 1},
        {"zone !in (a,b)", 0},
        {"tier !in (a)", 1},
        {"tier in (a)", 0},
        {"disk", 1},
        {"gpu", 0},
        {"!gpu", 1},
        {"!disk", 0},
        {"in", 0},
        {"zone=a,disk=ssd,!gpu", 1},
        {"zone=a,disk=hdd", 0},
        {"rack=r-1.2/x", 1},
        {"zone=b;disk=ssd", 2},
        {"zone=b;disk=hdd;", 3},
        {"zone=b; tier", 0},
        {"zone=aa", 0},
        {"zon=a", 0},
        {"zone=a;zone=b", 1},
    };
    char text[300];
    (void)state;
    assert_int_equal(mt_labels_check(labels, text, sizeof text).code, MT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (mt_selector_match(cases[i].selector, labels) != cases[i].alternative)
            fail_msg("\"%s\" is not %u", cases[i].selector, cases[i].alternative);
        assert_int_equal(mt_selector_check(cases[i].selector, text, sizeof text).code, MT_OK);
    }
    assert_int_equal(mt_selector_match("!zone", ""), 1);
    assert_int_equal(mt_selector_match("zone", ""), 0);
}

static void what_cant_be_read(void **state)
{
    static const char *const selectors[] = {"=a",        "zone=",      "zone==a",    "zone=a disk=b", "zone in a",
                                            "zone in (", "zone in ()", "zone in (a", "!zone=a",       "zone=a,,disk",
                                            "zone!",     "zone=a,",    "zone=a)",    "z\xc3\xa4=1"};
    static const char *const labels[] = {"zone", "zone=", "=a", "zone=a,", "zone=a,zone=b", "zone=a;disk=b", "zone=a b"};
    char                     long_one[2 * MT_LABELS_BYTES_MAX], text[300];
    (void)state;
    for (size_t i = 0; i < sizeof selectors / sizeof selectors[0]; i++) {
        if (mt_selector_check(selectors[i], text, sizeof text).code != MT_EINVAL)
            fail_msg("\"%s\" is taken", selectors[i]);
        assert_int_equal(mt_selector_match(selectors[i], "zone=a"), 0);
        assert_non_null(strstr(text, "selector"));
    }
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++)
        if (mt_labels_check(labels[i], text, sizeof text).code != MT_EINVAL)
            fail_msg("\"%s\" is taken", labels[i]);
    memset(long_one, 'a', sizeof long_one);
    long_one[sizeof long_one - 1] = 0;
    assert_int_equal(mt_selector_check(long_one, text, sizeof text).code, MT_EINVAL);
    assert_int_equal(mt_labels_check(long_one, text, sizeof text).code, MT_EINVAL);
    assert_int_equal(mt_labels_check("", text, sizeof text).code, MT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terms),
        cmocka_unit_test(what_cant_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
