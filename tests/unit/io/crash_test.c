/* SPDX-License-Identifier: Apache-2.0
 *
 * crash_test.c - what a daemon that crashes leaves in its log: where it was.
 */
#include "tests/unit/io/io_test.h"

#include "core/io/io.h"

#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <sys/wait.h>

static void (*volatile nothing)(void);

__attribute__((noinline)) static void calls_nothing(void)
{
    nothing();
    __asm__ volatile(""); /* no jump in place of the call */
}

/* What a child said that crashed by this. */
static char *last_words(void (*how)(void), int *out_status)
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

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) /* theirs looks first, and has a word in a second crash */
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

/* The loader's list of files is the program's to overwrite as well. */
static void loses_its_files(void)
{
    for (struct link_map *file = _r_debug.r_map; file; file = file->l_next)
        file->l_name = (char *)8;
    calls_nothing();
}

static void a_crash_while_it_says_where_is_the_end(void **state)
{
    int         status;
    const char *said = last_words(loses_its_files, &status);
    (void)state;
    assert_non_null(strstr(said, "by SIGSEGV; it was at\n"));
    assert_non_null(strstr(said, "by SIGSEGV; its stack can't be read\n"));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}
#endif

__attribute__((noinline)) static void traps(void)
{
    __builtin_trap();
}

static void runs_into_it(void) /* whose address nobody takes has no mark for indirect calls in front */
{
    traps();
}

static void a_crash_at_the_first_instruction_is_of_that_function(void **state)
{
    int status;
    (void)state;
    assert_non_null(strstr(last_words(runs_into_it, &status), "(traps+0x"));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGILL);
}

/* Runs from a file that another build has replaced since. */
static void is_replaced(void)
{
    static char path[] = "/tmp/manta-crash-XXXXXX";
    char        bytes[4096];
    int         now = mkstemp(path), was = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    for (ssize_t n, at = 0; (n = read(was, bytes, sizeof bytes)) > 0; at += n) {
        if (at == 0)
            bytes[EI_PAD] = 1; /* as it would have another build id */
        (void)!write(now, bytes, (size_t)n);
    }
    _r_debug.r_map->l_name = path;
    traps();
}

static void another_build_s_names_are_not_taken(void **state)
{
    int   status;
    char *said = last_words(is_replaced, &status), *path = strstr(said, "/tmp/manta-crash-");
    (void)state;
    assert_non_null(path);
    assert_null(strstr(said, "(traps"));
    *strchr(path, '(') = 0;
    assert_int_equal(unlink(path), 0);
}

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
        cmocka_unit_test(a_crash_at_the_first_instruction_is_of_that_function),
        cmocka_unit_test(another_build_s_names_are_not_taken),
#ifdef LOSES_ITS_STACK
        cmocka_unit_test(a_stack_that_leads_nowhere_is_no_second_crash),
        cmocka_unit_test(a_crash_while_it_says_where_is_the_end),
#endif
        cmocka_unit_test(who_aborts_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
