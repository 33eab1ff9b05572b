/* SPDX-License-Identifier: Apache-2.0
 *
 * status.c - texts of the codes, and what a failed check does.
 *
 * Owns: the assert hook, set once at start of a process. Thread: any.
 */
#include "core/base/status.h"

#include <stdio.h>
#include <stdlib.h>

static mt_assert_hook assert_hook;

const char *mt_code_text(int32_t code)
{
    switch (code) {
#define X(name, number, text) \
    case number: return text;
        MT_CODES(X)
#undef X
    default: return "unknown code";
    }
}

const char *mt_code_name(int32_t code)
{
    switch (code) {
#define X(name, number, text) \
    case number: return #name;
        MT_CODES(X)
#undef X
    default: return "UNKNOWN";
    }
}

void mt_assert_set_hook(mt_assert_hook hook)
{
    assert_hook = hook;
}

void mt_assert_fail(const char *expr, const char *file, int line)
{
    if (assert_hook) {
        assert_hook(expr, file, line);
        return;
    }
    fprintf(stderr, "%s:%d: check failed: %s\n", file, line, expr);
    abort();
}
