/* SPDX-License-Identifier: Apache-2.0
 *
 * gate_test.c - what a TLS gate holds for a side that does not take it: a breach of its bound is named.
 *
 * gate.c is included: a copy of it in which a link can be made by hand.
 */
#include "core/io/tls/gate.c"

#include "tests/unit/base/says.h"

#include <stdarg.h>
#include <cmocka.h>

static ssize_t takes_none(struct link *l, const uint8_t *data, size_t size)
{
    (void)l, (void)data, (void)size;
    return 0;
}

static ssize_t takes_all(struct link *l, const uint8_t *data, size_t size)
{
    (void)l, (void)data;
    return (ssize_t)size;
}

static void a_side_whose_bytes_wait_is_not_read(void **state)
{
    static const char words[] = "(!rest->data || !size) && left <= sizeof l->gate->piece";
    struct io_gate   *gate = calloc(1, sizeof *gate);
    struct link       l = {.gate = gate};
    struct rest       rest = {0};
    (void)state;
    assert_true(pass(&l, &rest, sizeof gate->piece, takes_none)); /* one piece may wait */
    assert_int_equal(rest.to - rest.from, sizeof gate->piece);
    assert_string_equal(SAYS((void)pass(&l, &rest, 1, takes_none)), words); /* a byte was read beside it: it would be lost */
    assert_int_equal(rest.to - rest.from, sizeof gate->piece);
    assert_string_equal(SAYS((void)pass(&l, &rest, 0, takes_all)), "");
    assert_null(rest.data);
    assert_string_equal(SAYS((void)pass(&l, &rest, sizeof gate->piece + 1, takes_none)), words);
    free(gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_side_whose_bytes_wait_is_not_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
