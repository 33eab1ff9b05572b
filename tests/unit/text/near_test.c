/* SPDX-License-Identifier: Apache-2.0
 *
 * near_test.c - how far words are apart.
 */
#include "core/text/near.h"
#include "tests/unit/base/test.h"

#include <string.h>

static void apart(const char *a, const char *b, size_t wanted)
{
    assert_int_equal(mt_letters_apart(a, b), wanted);
    assert_int_equal(mt_letters_apart(b, a), wanted);
}

static void words(void **state)
{
    (void)state;
    apart("", "", 0);
    apart("", "abc", 3);
    apart("start", "start", 0);
    apart("strat", "start", 1); /* swapped */
    apart("stat", "start", 1);  /* left out */
    apart("stop", "step", 1);
    apart("kitten", "sitting", 3);
    apart("ca", "abc", 3); /* no letter is touched twice */
}

static void long_words_are_cut(void **state)
{
    char a[200], b[200];
    (void)state;
    memset(a, 'x', sizeof a);
    memset(b, 'x', sizeof b);
    a[199] = b[199] = 0;
    b[150] = 'y';
    apart(a, b, 0);
    b[10] = 'y';
    apart(a, b, 1);
}

static void known_words(void **state)
{
    static const char *const states[] = {"PENDING", "RUNNING", "FAILED", NULL};
    char                     text[60];
    (void)state;
    assert_true(mt_word_is_of("FAILED", states, text, sizeof text));
    assert_false(mt_word_is_of("", states, text, sizeof text));
    assert_string_equal(text, "there are PENDING, RUNNING and FAILED");
    assert_false(mt_word_is_of("runing", states, text, sizeof text));
    assert_string_equal(text, "did you mean RUNNING? There are PENDING, RUNNING and FAILED");
    assert_false(mt_word_is_of("pend", states, text, sizeof text));
    assert_false(mt_word_is_of("FAILDE", states, text, 24));
    assert_string_equal(text, "did you mean FAILED? Th");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(known_words),
        cmocka_unit_test(long_words_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
