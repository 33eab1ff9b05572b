/* SPDX-License-Identifier: Apache-2.0
 *
 * folder_test.c - private runtime folders: who goes last removes, the next one sweeps, and nothing of others
 * is touched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "core/sys/folder.h"

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char base[64];

static int setup(void **state)
{
    (void)state;
    snprintf(base, sizeof base, "/tmp/mt-folder-XXXXXX");
    return mkdtemp(base) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(base); /* each test leaves it empty */
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static void fill(const char *folder)
{
    char path[200];
    snprintf(path, sizeof path, "%s/state", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/state/token", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    snprintf(path, sizeof path, "%s/out", folder);
    assert_int_equal(symlink("/", path), 0); /* is not followed */
}

static void the_last_one_removes_it(void **state)
{
    char        folder[100];
    int         driver, head;
    struct stat st;
    (void)state;
    assert_int_equal(mt_folder_new(base, folder, sizeof folder, &driver).code, MT_OK);
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(mt_folder_hold(folder, &head).code, MT_OK);
    fill(folder);
    mt_folder_leave(folder, driver, 0);
    assert_true(is_there(folder));
    mt_folder_leave(folder, -1, 20); /* looks again: somebody is still there */
    assert_true(is_there(folder));
    mt_folder_leave(folder, head, 0);
    assert_false(is_there(folder));
    mt_folder_leave(folder, -1, 0); /* nothing is left to do */
    assert_int_equal(mt_folder_hold(folder, &head).code, MT_ESYS);
}

/* A process that holds the folder until it is killed. */
static pid_t holder(const char *folder)
{
    int   ready[2], fd;
    char  byte;
    pid_t pid;
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (mt_folder_hold(folder, &fd).code == MT_OK && write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void killed_ones_are_swept_living_ones_are_not(void **state)
{
    char dead[100], living[100];
    int  dead_fd, living_fd;
    (void)state;
    assert_int_equal(mt_folder_new(base, dead, sizeof dead, &dead_fd).code, MT_OK);
    assert_int_equal(mt_folder_new(base, living, sizeof living, &living_fd).code, MT_OK);
    fill(dead);
    pid_t pid = holder(dead);
    close(dead_fd);
    mt_folder_sweep(base);
    assert_true(is_there(dead) && is_there(living));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    mt_folder_sweep(base);
    assert_false(is_there(dead));
    assert_true(is_there(living));
    mt_folder_leave(living, living_fd, 0);
}

static void who_ends_waits_for_others_that_end(void **state)
{
    char folder[100];
    int  fd;
    (void)state;
    assert_int_equal(mt_folder_new(base, folder, sizeof folder, &fd).code, MT_OK);
    pid_t pid = holder(folder);
    pid_t killer = fork();
    assert_true(killer >= 0);
    if (killer == 0) {
        close(fd);
        usleep(50 * 1000);
        _exit(kill(pid, SIGKILL));
    }
    mt_folder_leave(folder, fd, 20 * 1000);
    assert_false(is_there(folder));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(waitpid(killer, NULL, 0), killer);
}

static void others_things_are_left_alone(void **state)
{
    static const char *const names[] = {"mine", "d0123456", "d012345678", "D01234567", "d0123456z"};
    char                     path[100], link[100];
    int                      fd;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", base, names[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    snprintf(link, sizeof link, "%s/d89abcdef", base); /* a fitting name, and no folder */
    snprintf(path, sizeof path, "%s/mine", base);
    assert_int_equal(symlink(path, link), 0);
    mt_folder_sweep(base);
    assert_true(is_there(link));
    unlink(link);
    assert_int_equal(mt_folder_hold(path, &fd).code, MT_OK);
    snprintf(link, sizeof link, "%s/mine/file", base);
    assert_int_equal(mkdir(link, 0700), 0);
    mt_folder_leave(path, fd, 0); /* not made by us, and not empty */
    assert_true(is_there(link));
    rmdir(link);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", base, names[i]);
        assert_int_equal(rmdir(path), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_last_one_removes_it, setup, teardown),
        cmocka_unit_test_setup_teardown(killed_ones_are_swept_living_ones_are_not, setup, teardown),
        cmocka_unit_test_setup_teardown(who_ends_waits_for_others_that_end, setup, teardown),
        cmocka_unit_test_setup_teardown(others_things_are_left_alone, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
