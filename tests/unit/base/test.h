/* SPDX-License-Identifier: Apache-2.0
 *
 * test.h - what every unit test of base includes: cmocka and the headers that it needs in front.
 */
#ifndef TESTS_UNIT_BASE_TEST_H
#define TESTS_UNIT_BASE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the four above. */
#include <cmocka.h>

#define assert_ok(expr)         assert_int_equal((expr).code, 0)
#define assert_code(expr, want) assert_int_equal((expr).code, (want))

#endif
