/* SPDX-License-Identifier: Apache-2.0
 *
 * crash_test.c - several threads that crash at once: the first one says where, and is heard to its end.
 */
#include "core/sys/crash.h"
#include "tests/unit/base/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int         to_parent;
static atomic_int  told; /* how often */
static atomic_bool may_crash;

static void *crashes_beside(void *unused)
{
    (void)unused;
    while (!may_crash)
        ;
    raise(SIGFPE);
    return NULL;
}

/* While the first one is here, the second has ample time to crash as well. */
static void tell(int number, const struct mt_frames *frames)
{
    char byte = frames->count ? '1' : '2'; /* the second one would have no frames */
    (void)number;
    atomic_fetch_add(&told, 1);
    may_crash = true;
    for (int i = 0; i < 300 && told < 2; i++)
        usleep(1000);
    (void)!write(to_parent, &byte, 1);
}

static void crash_twice(void)
{
    static const int numbers[] = {SIGILL, SIGFPE};
    pthread_t        beside;
    for (int i = 0; i < 2; i++)
        signal(numbers[i], SIG_DFL); /* the test's own */
    mt_crash_handlers(tell);
    if (pthread_create(&beside, NULL, crashes_beside, NULL) == 0)
        raise(SIGILL);
}

static void the_first_to_crash_is_heard_to_its_end(void **state)
{
    char    said[8];
    int     ends[2], status;
    ssize_t size;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        to_parent = ends[1];
        crash_twice();
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    size = read(ends[0], said, sizeof said);
    close(ends[0]);
    assert_int_equal(size, 1);
    assert_int_equal(said[0], '1');
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_to_crash_is_heard_to_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
