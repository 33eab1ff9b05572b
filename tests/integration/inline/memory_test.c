/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_test.c - a task that a process runs itself, and there is no memory to run it in: a typed error of that task alone.
 *
 * Its calloc stands in the place of libc's, and fails once when it is told to.
 */
#include "tests/integration/harness.h"

#include <stdlib.h>

enum { LARGE = 4096 }; /* nothing else of the size of a task's context is taken with calloc */

extern void *__libc_calloc(size_t count, size_t size); // NOLINT: libc's own name

static bool is_armed;

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size)
{
    if (is_armed && count == 1 && size > LARGE) {
        is_armed = false;
        return NULL;
    }
    return __libc_calloc(count, size);
}

static int runs;
MANTA_TASK(int64_t, count_run, (int64_t, x))
{
    runs++;
    return x;
}

static void no_context(void)
{
    manta_error e;
    is_armed = true;
    manta_ref *failed = count_run_remote(NULL, 7);
    CHECK(!is_armed);
    CHECK_FAILS(failed, MANTA_ENOMEM, &e);
    CHECK_SAYS(e.message, "no memory to run it");
    CHECK_EQ(runs, 0);
    CHECK_I64(count_run_remote(NULL, 8), 8);
    CHECK_EQ(runs, 1);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {{"no_context", no_context, {0}, false, 0}, {NULL, NULL, {0}, false, 0}};
    setenv("MANTA_INLINE", "1", 1);
    return test_main(argc, argv, cases);
}
