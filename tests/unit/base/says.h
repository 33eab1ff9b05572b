/* SPDX-License-Identifier: Apache-2.0
 *
 * says.h - what a check says of a statement that breaks it: the planted breach of a test. For one thread; what the statement held
 * stays held.
 */
#ifndef TESTS_UNIT_BASE_SAYS_H
#define TESTS_UNIT_BASE_SAYS_H

#include "core/base/status.h"

#include <setjmp.h>
#include <stdio.h>

static char    says_text[200];
static jmp_buf says_back;

static void says_jump(const char *expr, const char *file, int line)
{
    (void)file, (void)line;
    snprintf(says_text, sizeof says_text, "%s", expr);
    longjmp(says_back, 1);
}

/* Runs a statement: the words of the check that refused it, or "". */
#define SAYS(statement) \
    (says_text[0] = 0, mt_assert_set_hook(says_jump), setjmp(says_back) == 0 ? (void)(statement) : (void)0, \
     mt_assert_set_hook(NULL), says_text)

#endif
