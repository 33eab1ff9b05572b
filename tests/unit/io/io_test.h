/* SPDX-License-Identifier: Apache-2.0
 *
 * io_test.h - what the tests of core/io share: cmocka, and a private folder that is gone afterwards.
 */
#ifndef TEST_IO_TEST_H
#define TEST_IO_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above */
#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define assert_ok(expr) assert_code(expr, MT_OK)
#define assert_code(expr, expected) \
    do { \
        mt_status st_ = (expr); \
        if (st_.code != (expected)) \
            fail_msg("%s: %s (%s), sys %d", #expr, mt_code_name(st_.code), st_.what ? st_.what : "", st_.sys); \
    } while (0)

static inline void temp_dir(char *out, size_t size)
{
    const char *parent = getenv("TMPDIR");
    snprintf(out, size, "%s/io-XXXXXX", parent ? parent : "/tmp");
    assert_non_null(mkdtemp(out));
}

#endif
