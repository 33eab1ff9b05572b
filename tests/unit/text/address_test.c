/* SPDX-License-Identifier: Apache-2.0
 *
 * address_test.c - host and port of a text, and what is none.
 */
#include "core/text/address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void good(const char *address, const char *host, const char *port)
{
    char        got[16];
    const char *got_port;
    assert_true(mt_address_split(address, got, sizeof got, &got_port));
    assert_string_equal(got, host);
    assert_string_equal(got_port, port);
}

static void splits(void **state)
{
    (void)state;
    good("10.0.0.1:6380", "10.0.0.1", "6380");
    good("[::1]:6380", "::1", "6380");
    good("localhost:0", "localhost", "0");
    good("::1:5", "::1", "5");
    good("[a:5", "[a", "5");
    good("fifteen-letters:", "fifteen-letters", "");
}

static void refuses(void **state)
{
    static const char *const bad[] = {"", ":", ":6380", "host", "[]:6380", "sixteen-letters-:1", "[sixteen-letters-]:1"};
    char                     got[16];
    const char              *port;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(mt_address_split(bad[i], got, sizeof got, &port));
}

static void any(void **state)
{
    (void)state;
    assert_true(mt_address_is_any("0.0.0.0") && mt_address_is_any("::"));
    assert_false(mt_address_is_any("127.0.0.1") || mt_address_is_any("::1") || mt_address_is_any(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(splits), cmocka_unit_test(refuses), cmocka_unit_test(any)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
