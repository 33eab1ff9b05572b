/* SPDX-License-Identifier: Apache-2.0
 *
 * crash_test.c - what a daemon that crashes leaves in its log: where it was.
 */
#include "tests/unit/io/io_test.h"

#include "core/io/io.h"

#include <signal.h>
#include <sys/wait.h>

static void (*volatile nothing)(void);
__attribute__((noinline, visibility("default"))) void calls_nothing(void); /* a name that the trace can tell */

void calls_nothing(void)
{
    nothing();
    __asm__ volatile(""); /* no jump in place of the call */
}

/* What a child said that crashed by this. */
static const char *last_words(void (*how)(void), int *out_status)
{
    static char said[64 * 1024];
    int         ends[2];
    size_t      size = 0;
    ssize_t     n;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        for (int number = 1; number < NSIG; number++)
            signal(number, SIG_DFL); /* the test's own */
        io_say_crashes();
        how();
        _exit(0);
    }
    close(ends[1]);
    while ((n = read(ends[0], said + size, sizeof said - 1 - size)) > 0)
        size += (size_t)n;
    said[size] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(pid, out_status, 0), pid);
    return said;
}

static void a_call_through_null_says_who_called(void **state)
{
    int         status;
    const char *said = last_words(calls_nothing, &status);
    (void)state;
    assert_non_null(strstr(said, "by SIGSEGV; it was at\n"));
    assert_non_null(strstr(said, "calls_nothing"));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* theirs looks before it reads */
#define LOSES_ITS_STACK
static void loses_its_stack(void)
{
    __asm__ volatile("mov $8, %rsp; ud2");
}

static void a_stack_that_leads_nowhere_is_no_second_crash(void **state)
{
    int         status;
    const char *said = last_words(loses_its_stack, &status), *first = strstr(said, "by SIGILL; its stack can't be read\n");
    (void)state;
    assert_non_null(first);
    assert_null(strstr(first + 1, "crashed by"));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGILL);
}
#endif

static void who_aborts_says_so(void **state)
{
    int         status;
    const char *said = last_words(abort, &status);
    (void)state;
    assert_non_null(strstr(said, ": aborted: out of memory inside a library, or"));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_through_null_says_who_called),
#ifdef LOSES_ITS_STACK
        cmocka_unit_test(a_stack_that_leads_nowhere_is_no_second_crash),
#endif
        cmocka_unit_test(who_aborts_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
