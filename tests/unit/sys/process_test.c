/* SPDX-License-Identifier: Apache-2.0
 *
 * process_test.c - number and start name a process; a signal for one never reaches another.
 */
#include "core/sys/process.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t sleeper(void)
{
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    assert_true(pid > 0);
    return pid;
}

static void a_process_is_known_until_it_ends(void **state)
{
    (void)state;
    siginfo_t info;
    pid_t     pid = sleeper();
    uint64_t  start = mt_process_start(pid);
    assert_true(start > 0);
    assert_int_equal(mt_process_is(pid, start), MT_PROCESS_LIVES);
    assert_int_equal(mt_process_is(pid, start + 1), MT_PROCESS_ENDED); /* another one of that number */
    assert_int_equal(mt_process_status(pid, start), 0);
    assert_int_equal(mt_process_signal(pid, start, 0), 0);
    assert_int_equal(mt_process_signal(pid, start, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(mt_process_is(pid, start), MT_PROCESS_ENDED); /* nobody has reaped it */
    assert_int_equal(mt_process_start(pid), 0);
    assert_int_equal(mt_process_status(pid, start), SIGKILL);
    assert_int_equal(mt_process_status(pid, start + 1), 0);
    assert_int_equal(mt_process_signal(pid, start, SIGKILL), ESRCH);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(mt_process_is(pid, start), MT_PROCESS_ENDED);
    assert_int_equal(mt_process_status(pid, start), 0);
    assert_int_equal(mt_process_signal(pid, start, SIGKILL), ESRCH);
}

/* A disk can keep one that ends for a while. So can others the first one of a pid namespace, which waits, its files closed already,
 * until all there are gone: here one whose parent is elsewhere, and does not ask for it. */
static void how_a_process_ends_is_known_before_it_has(void **state)
{
    (void)state;
    siginfo_t info = {.si_pid = 0};
    int       ends[2], outside = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    char      byte;
    assert_int_equal(pipe(ends), 0);
    if (unshare(CLONE_NEWPID) < 0)
        skip(); /* not root */
    pid_t first = sleeper();
    close(ends[1]);
    pid_t    other = sleeper();
    uint64_t start = mt_process_start(first);
    assert_int_equal(setns(outside, CLONE_NEWPID), 0);
    assert_int_equal(mt_process_status(first, start), 0);
    assert_int_equal(kill(first, SIGKILL), 0);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* it has begun to end, ... */
    assert_int_equal(waitid(P_PID, (id_t)first, &info, WEXITED | WNOHANG | WNOWAIT), 0);
    assert_int_equal(info.si_pid, 0); /* ... and has not ended */
    assert_int_equal(mt_process_is(first, start), MT_PROCESS_LIVES);
    assert_int_equal(mt_process_status(first, start), SIGKILL);
    assert_int_equal(mt_process_status(first, start + 1), 0);
    assert_int_equal(waitpid(other, NULL, 0), other);
    assert_int_equal(waitpid(first, NULL, 0), first);
    close(ends[0]);
    close(outside);
}

static void what_the_kernel_says_of_a_process_and_its_threads(void **state)
{
    struct mt_process_stat of_process, of_thread;
    pid_t                  self = getpid(), child = fork();
    (void)state;
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(mt_process_stat(self, 0, &of_process) && mt_process_stat(self, self, &of_thread));
    assert_true(of_process.state == 'R' && of_thread.state == 'R'); /* it asks */
    assert_string_equal(of_process.name, "unit_sys_proces");        /* as much of it as the kernel keeps */
    assert_true(of_process.cpu_ms >= 0 && of_process.children_ms >= 0);
    assert_false(mt_process_stat(child, 0, &of_process));
    assert_false(mt_process_stat(self, child, &of_thread));
    assert_false(mt_process_stat(0, 0, &of_process));
}

static void all_processes_and_all_threads(void **state)
{
    pid_t child = sleeper(), number;
    int   seen = 0, threads = 0;
    (void)state;
    DIR *all = mt_process_all();
    while ((number = mt_process_next(all)))
        seen += number == getpid() || number == child;
    assert_int_equal(seen, 2);
    all = mt_process_threads(child);
    for (; (number = mt_process_next(all)); threads++)
        assert_int_equal(number, child);
    assert_int_equal(threads, 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_null(mt_process_threads(child));
    assert_int_equal(mt_process_next(NULL), 0);
}

static void a_signal_for_another_of_that_number_goes_nowhere(void **state)
{
    (void)state;
    pid_t    pid = sleeper();
    uint64_t start = mt_process_start(pid);
    assert_int_equal(mt_process_signal(pid, start + 1, SIGKILL), ESRCH);
    assert_int_equal(mt_process_signal(pid, start - 1, SIGKILL), ESRCH);
    assert_int_equal(mt_process_is(pid, start), MT_PROCESS_LIVES);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* "Not now" is another answer than "it has ended". */
static void without_a_descriptor_nothing_is_known(void **state)
{
    (void)state;
    struct rlimit before, none;
    pid_t         pid = sleeper();
    uint64_t      start = mt_process_start(pid);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(mt_process_signal(pid, start, SIGKILL), EMFILE);
    assert_int_equal(mt_process_is(pid, start), MT_PROCESS_UNKNOWN);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(mt_process_is(pid, start), MT_PROCESS_LIVES);
    assert_int_equal(mt_process_signal(pid, start, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void no_number_is_no_process(void **state)
{
    (void)state;
    assert_int_equal(mt_process_start(0), 0);
    assert_int_equal(mt_process_start(-1), 0);
    assert_int_equal(mt_process_is(-1, 7), MT_PROCESS_ENDED);
    assert_int_equal(mt_process_signal(-1, 7, SIGKILL), ESRCH);
    assert_int_equal(mt_process_signal(0, 0, SIGKILL), ESRCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_is_known_until_it_ends),
        cmocka_unit_test(how_a_process_ends_is_known_before_it_has),
        cmocka_unit_test(what_the_kernel_says_of_a_process_and_its_threads),
        cmocka_unit_test(all_processes_and_all_threads),
        cmocka_unit_test(a_signal_for_another_of_that_number_goes_nowhere),
        cmocka_unit_test(without_a_descriptor_nothing_is_known),
        cmocka_unit_test(no_number_is_no_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
