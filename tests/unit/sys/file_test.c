/* SPDX-License-Identifier: Apache-2.0
 *
 * file_test.c - files read and written whole: pieces as the kernel gives them, ends that come early, trees that go.
 */
#include "tests/unit/base/test.h"

#include "core/sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MUCH = 1 << 20 }; /* more than a pipe takes at once */

static char out[MUCH], in[MUCH];

static void *write_much(void *arg)
{
    return (void *)(intptr_t)mt_write_all(*(int *)arg, out, sizeof out);
}

static void a_pipe_takes_it_in_pieces(void **state)
{
    (void)state;
    int       ends[2];
    pthread_t thread;
    void     *err;
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (char)(i * 31 >> 8);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pthread_create(&thread, NULL, write_much, &ends[1]), 0);
    assert_int_equal(mt_read_all(ends[0], in, sizeof in), sizeof in);
    assert_int_equal(pthread_join(thread, &err), 0);
    assert_int_equal((intptr_t)err, 0);
    assert_memory_equal(in, out, sizeof out);
    close(ends[1]);
    assert_int_equal(mt_read_all(ends[0], in, 10), 0); /* its end */
    close(ends[0]);
}

static void a_file_is_as_long_as_it_is(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    int fd = fileno(file);
    assert_int_equal(mt_pwrite_all(fd, "123456789", 9, 3), 0);
    assert_int_equal(mt_pread_all(fd, in, 100, 8), 4);
    assert_memory_equal(in, "6789", 4);
    assert_int_equal(mt_pread_all(fd, in, 5, 4), 5);
    assert_memory_equal(in, "23456", 5);
    assert_int_equal(mt_pread_all(fd, in, 5, 100), 0);
    assert_int_equal(mt_write_all(fd, "", 0), 0);
    fclose(file);
}

static void failures_are_told(void **state)
{
    (void)state;
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(mt_write_all(fd, "a", 1), ENOSPC);
    assert_int_equal(mt_pwrite_all(fd, "a", 1, 0), ENOSPC);
    assert_int_equal(mt_read_all(fd, in, 1), -1);
    assert_int_equal(errno, EBADF);
    close(fd);
    assert_int_equal(mt_pread_all(-1, in, 1, 0), -1);
}

static void a_tree_goes_and_what_it_links_to_stays(void **state)
{
    (void)state;
    char base[] = "/tmp/manta-file-test-XXXXXX", path[100], other[] = "/tmp/manta-file-other-XXXXXX";
    int  fd = mkstemp(other);
    assert_true(fd >= 0);
    close(fd);
    assert_non_null(mkdtemp(base));
    snprintf(path, sizeof path, "%s/a", base);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/a/link", base);
    assert_int_equal(symlink(other, path), 0);
    snprintf(path, sizeof path, "%s/a/file", base);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    mt_tree_remove(base);
    assert_int_equal(access(base, F_OK), -1);
    assert_int_equal(access(other, F_OK), 0);
    unlink(other);
    mt_tree_remove(base); /* nothing is there */
}

/* As a raylet's kept programs, or what a job may leave. Root is asked for no right: so another user does it. */
static void a_tree_goes_though_nobody_may_write_to_it(void **state)
{
    (void)state;
    enum { NOBODY = 65534 };
    char base[] = "/tmp/manta-file-test-XXXXXX", path[100];
    int  status;
    assert_non_null(mkdtemp(base));
    assert_int_equal(geteuid() == 0 ? chown(base, NOBODY, NOBODY) : 0, 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
            _exit(1);
        snprintf(path, sizeof path, "%s/top", base);
        if (mkdir(path, 0700) != 0)
            _exit(2);
        snprintf(path, sizeof path, "%s/top/shut", base);
        if (mkdir(path, 0700) != 0)
            _exit(3);
        snprintf(path, sizeof path, "%s/top/shut/file", base);
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0400));
        snprintf(path, sizeof path, "%s/top/shut", base);
        if (chmod(path, 0555) != 0)
            _exit(4);
        snprintf(path, sizeof path, "%s/top", base);
        mt_tree_remove(path);
        _exit(access(path, F_OK) == 0 ? 5 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    mt_tree_remove(base);
    assert_int_equal(access(base, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipe_takes_it_in_pieces),
        cmocka_unit_test(a_file_is_as_long_as_it_is),
        cmocka_unit_test(failures_are_told),
        cmocka_unit_test(a_tree_goes_and_what_it_links_to_stays),
        cmocka_unit_test(a_tree_goes_though_nobody_may_write_to_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
