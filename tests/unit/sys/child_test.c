/* SPDX-License-Identifier: Apache-2.0
 *
 * child_test.c - a child has what it was given: descriptors, limit, folder, session; and its end is its own.
 */
#include "core/sys/child.h"
#include "tests/unit/base/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a shell says that is started like that; `o` needs a place for one more descriptor. */
static const char *said(struct mt_child_opts *o, const char *words)
{
    static char text[2000];
    char       *argv[] = {"sh", "-c", (char *)(uintptr_t)words, NULL};
    int         ends[2], status;
    pid_t       pid;
    ssize_t     size, all = 0;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    o->program = "/bin/sh";
    o->argv = argv;
    o->env = environ;
    mt_child_give(o, ends[1], 1);
    assert_int_equal(mt_child_start(o, &pid).code, MT_OK);
    close(ends[1]);
    while ((size = read(ends[0], text + all, sizeof text - 1 - (size_t)all)) > 0)
        all += size;
    close(ends[0]);
    text[all] = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return text;
}

static void has_only_what_it_was_given(void **state)
{
    static const int     at[] = {3, 9, 300};
    struct mt_child_opts o = {.fds = {{MT_CHILD_NULL, 0}}, .fd_count = 1};
    int                  given[2];
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(dup2(2, at[i]), at[i]);
    assert_string_equal(said(&o, "ls /proc/$$/fd; readlink /proc/$$/fd/0"), "0\n1\n2\n/dev/null\n");
    assert_int_equal(pipe2(given, O_CLOEXEC), 0);
    o = (struct mt_child_opts){.fds = {{given[0], 4}, {9, 9}}, .fd_count = 2}; /* one of them under its own number */
    assert_string_equal(said(&o, "ls /proc/$$/fd; true"), "0\n1\n2\n4\n9\n");
    for (int i = 0; i < 3; i++)
        assert_int_equal(fcntl(at[i], F_GETFD), 0); /* ours are as they were */
    for (int i = 0; i < 3; i++)
        close(at[i]);
    close(given[0]), close(given[1]);
}

/* What is given first does not stand where something is that is given next. */
static void gets_what_has_a_number_of_another(void **state)
{
    struct mt_child_opts o = {.fds = {{3, 4}, {4, 3}}, .fd_count = 2};
    int                  first, second;
    (void)state;
    first = fcntl(open("/dev/null", O_RDWR | O_CLOEXEC), F_DUPFD_CLOEXEC, 10);
    second = fcntl(open("/dev/zero", O_RDWR | O_CLOEXEC), F_DUPFD_CLOEXEC, 10);
    assert_int_equal(dup2(first, 3), 3);
    assert_int_equal(dup2(second, 4), 4);
    assert_string_equal(said(&o, "readlink /proc/$$/fd/3; readlink /proc/$$/fd/4"), "/dev/zero\n/dev/null\n");
    for (int fd = 3; fd <= 4; fd++)
        close(fd);
    close(first), close(second);
}

static void has_a_limit_of_its_own(void **state)
{
    struct mt_child_opts o = {.fds_max = 77};
    struct rlimit        before, after;
    (void)state;
    getrlimit(RLIMIT_NOFILE, &before);
    assert_string_equal(said(&o, "ulimit -Sn"), "77\n");
    getrlimit(RLIMIT_NOFILE, &after);
    assert_int_equal(before.rlim_cur, after.rlim_cur);
}

static void handler(int number)
{
    (void)number;
}

static void is_not_told_of_our_signals(void **state)
{
    struct mt_child_opts o = {.dir = "/proc", .session = MT_CHILD_SESSION, .resets_signals = true};
    sigset_t             usr1, now;
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGUSR2, handler);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    /* (exec: a shell blocks all signals for the moment in which it starts a command) */
    assert_string_equal(said(&o, "pwd; exec grep -E 'Sig(Blk|Ign)' /proc/self/status"),
                        "/proc\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    o = (struct mt_child_opts){.dir = NULL};
    assert_string_equal(said(&o, "exec grep SigIgn /proc/self/status"), "SigIgn:\t0000000000000001\n"); /* as nohup wants it */
    o = (struct mt_child_opts){.session = MT_CHILD_GROUP, .resets_signals = true};
    assert_string_equal(said(&o, "exec grep SigIgn /proc/self/status"), "SigIgn:\t0000000000300000\n"); /* SIGTTIN, SIGTTOU */
    sigprocmask(SIG_SETMASK, NULL, &now);
    assert_true(sigismember(&now, SIGUSR1) == 1 && sigismember(&now, SIGUSR2) == 0);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &usr1, NULL);
}

static void says_why_it_cannot_be(void **state)
{
    char                *argv[] = {"no-such-program", NULL};
    struct mt_child_opts o = {.program = "/no/such-program", .argv = argv, .env = environ};
    pid_t                pid = -1;
    (void)state;
    assert_int_equal(mt_child_start(&o, &pid).code, MT_ENOENT);
    o.program = "/etc/passwd";
    mt_status st = mt_child_start(&o, &pid);
    assert_true(st.code == MT_ESYS && st.sys == EACCES);
    o.program = "/bin/true";
    o.dir = "/no/such/folder";
    assert_int_equal(mt_child_start(&o, &pid).code, MT_ENOENT);
    assert_true(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD); /* nothing is left of them */
}

/* As a shell finds it: in the PATH that the child gets, whatever ours is. */
static void is_found_by_its_own_path(void **state)
{
    char                  folder[] = "/tmp/child.XXXXXX", script[64], path[128], no_path[] = "HOME=/";
    char                 *argv[] = {"ours", NULL}, *env[] = {path, NULL}, *bare[] = {no_path, NULL};
    struct mt_child_opts  o = {.argv = argv, .env = env};
    static const char     text[] = "exit 7\n"; /* no #!: the shell runs it */
    static const uint32_t modes[] = {0600, 0700};
    static const int      codes[] = {MT_ESYS, MT_OK};
    int                   status = 0;
    pid_t                 pid = -1;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(script, sizeof script, "%s/ours", folder);
    snprintf(path, sizeof path, "PATH=/no/such:%s:/bin", folder);
    int fd = open(script, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(write(fd, text, sizeof text - 1) == sizeof text - 1 && close(fd) == 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(chmod(script, modes[i]), 0);
        mt_status st = mt_child_start(&o, &pid);
        assert_true(st.code == codes[i] && (st.code == MT_OK || st.sys == EACCES));
    }
    assert_true(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);
    o.dir = folder;
    snprintf(path, sizeof path, "PATH=:/bin"); /* an empty folder is the present one */
    assert_int_equal(mt_child_start(&o, &pid).code, MT_OK);
    assert_true(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);
    snprintf(path, sizeof path, "PATH=/bin:/usr/bin");
    assert_int_equal(mt_child_start(&o, &pid).code, MT_ENOENT);
    o.env = bare;
    argv[0] = "true"; /* found without a PATH, too */
    assert_int_equal(mt_child_start(&o, &pid).code, MT_OK);
    assert_true(waitpid(pid, &status, 0) == pid && status == 0);
    unlink(script), rmdir(folder);
}

static void has_each_variable_once(void **state)
{
    char   texts[][8] = {"A=1", "AB=2", "B=", "A=3", "B=4", "C=5"};
    char  *env[6] = {texts[0], texts[1], texts[2]}, *wanted[] = {texts[3], texts[1], texts[4], texts[5]};
    size_t count = 3;
    (void)state;
    for (int i = 3; i < 6; i++)
        count = mt_child_env_set(env, count, texts[i]);
    assert_int_equal(count, 4);
    assert_memory_equal(env, wanted, sizeof wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_only_what_it_was_given), cmocka_unit_test(gets_what_has_a_number_of_another),
        cmocka_unit_test(has_a_limit_of_its_own),     cmocka_unit_test(is_not_told_of_our_signals),
        cmocka_unit_test(says_why_it_cannot_be),      cmocka_unit_test(is_found_by_its_own_path),
        cmocka_unit_test(has_each_variable_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
