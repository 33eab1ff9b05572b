/* SPDX-License-Identifier: Apache-2.0
 *
 * range_test.c - memory that grows in place: it stays where it is, comes zeroed, and ends where it has to. Thread: one.
 */
#include "core/ds/range.h"
#include "tests/unit/base/test.h"

#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

static void grows_in_place(void **state)
{
    mt_range range = {0};
    (void)state;
    assert_int_equal(mt_range_grow(&range, 1, 100 * PAGE).code, 0);
    assert_int_equal(range.size, PAGE);
    char *base = range.base;
    memset(base, 7, PAGE);
    for (size_t i = 1; i < 100; i++) {
        assert_int_equal(mt_range_grow(&range, PAGE, 100 * PAGE).code, 0);
        assert_ptr_equal(range.base, base);
        assert_int_equal(base[i * PAGE], 0);
        base[i * PAGE] = 7;
    }
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(base[i * PAGE], 7);
    assert_int_equal(mt_range_grow(&range, 1, 100 * PAGE).code, MT_ENOMEM);
    assert_int_equal(range.size, 100 * PAGE);
    mt_range_fini(&range);
    assert_null(range.base);
    mt_range_fini(&range);
}

/* A process that may have few addresses gives a quarter of them, and goes on. */
static void limited(void **state)
{
    int status;
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* a sanitizer's shadow alone is more */
#endif
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit limit = {(size_t)4 << 30, (size_t)4 << 30};
        mt_range      range = {0};
        bool          ok = setrlimit(RLIMIT_AS, &limit) == 0 && mt_range_grow(&range, PAGE, (size_t)64 << 30).code == 0;
        _exit(ok && range.room == (size_t)1 << 30 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_in_place),
        cmocka_unit_test(limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
