/* SPDX-License-Identifier: Apache-2.0
 *
 * cgroup_test.c - control groups of both versions, real ones, where this machine lets them be made: who is born inside, who is
 * ended, what the kernel counts. And what must not be touched.
 */
#include "tests/unit/base/test.h"

#include "core/base/clock.h"
#include "core/sys/cgroup.h"
#include "core/sys/child.h"
#include "core/sys/file.h"
#include "core/base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_MS = 20 * 1000 };

static uint64_t number(void)
{
    uint64_t n = 0;
    assert_ok(mt_random_bytes(&n, sizeof n));
    return n;
}

/* A child that says "in" if it was born in the group that was entered, and never ends; once it is told to go on it has one too,
 * in a session of its own, which says "on". */
static pid_t start_family(const struct mt_cgroup *g, int *out_pipe, int *out_go)
{
    static char *argv[] = {
        "sh", "-c", "grep -q /manta- /proc/$$/cgroup && echo in; read go; setsid sh -c 'echo on; exec sleep 600' & wait", NULL};
    int   ends[2], go[2];
    pid_t child;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    const struct mt_child_opts o = {
        .program = "/bin/sh", .argv = argv, .env = environ, .fds = {{go[0], 0}, {ends[1], 1}}, .fd_count = 2, .cgroup = g->entered};
    assert_ok(mt_child_start(&o, &child));
    close(ends[1]);
    close(go[0]);
    *out_pipe = ends[0];
    *out_go = go[1];
    return child;
}

static void check_said(int pipe, const char *word)
{
    char text[8] = "";
    for (size_t got = 0; got < strlen(word); got++)
        assert_int_equal(read(pipe, text + got, 1), 1);
    assert_string_equal(text, word);
}

/* The pipe ends when all that hold its other end have. */
static void check_ended(pid_t child, int pipe)
{
    char text[8];
    while (read(pipe, text, sizeof text) > 0)
        ;
    close(pipe);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static void round_trip(const char *place, bool is_v1)
{
    struct mt_cgroup g;
    int              pipe, go;
    mt_status        st = mt_cgroup_new(place, number(), 100, &g);
    if (st.code) { /* the folder may not be ours */
        assert_int_equal(st.code, MT_ENOENT);
        assert_string_equal(g.path, "");
        skip();
    }
    if (!place && g.is_v1 != is_v1) { /* most machines have one version only */
        assert_true(mt_cgroup_end(g.path, NULL, LIMIT_MS));
        skip();
    }
    assert_int_equal(g.is_v1, is_v1);
    assert_ok(mt_cgroup_enter(&g, "1", 10));
    pid_t child = start_family(&g, &pipe, &go);
    assert_ok(mt_cgroup_leave(&g));
    check_said(pipe, "in\n");
    assert_int_equal(write(go, "\n", 1), 1);
    check_said(pipe, "on\n");
    assert_false(mt_cgroup_is_empty(&g, "1"));
    close(go);
    assert_true(mt_cgroup_end(g.path, "1", LIMIT_MS));
    check_ended(child, pipe);
    assert_int_equal(access(g.path, F_OK), 0); /* the group itself, for other parts */
    assert_true(mt_cgroup_end(g.path, NULL, LIMIT_MS));
    assert_int_equal(access(g.path, F_OK), -1);
}

static void version_1(void **state)
{
    (void)state;
    round_trip(NULL, true);
}

static void version_2(void **state)
{
    (void)state;
    round_trip(access("/sys/fs/cgroup/unified", F_OK) == 0 ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup", false);
}

static void bound(void **state)
{
    struct mt_cgroup g;
    pid_t            pids[8] = {0};
    int              count = 0;
    (void)state;
    if (mt_cgroup_new(NULL, number(), 100, &g).code || !g.has_bound || !g.is_v1) {
        if (g.path[0])
            assert_true(mt_cgroup_end(g.path, NULL, LIMIT_MS));
        skip();
    }
    assert_ok(mt_cgroup_enter(&g, "1", 4)); /* this thread is one of them */
    while (count < 8 && (pids[count] = fork()) > 0)
        count++;
    if (count < 8 && pids[count] == 0)
        for (;;)
            pause();
    int err = errno;
    assert_ok(mt_cgroup_leave(&g));
#ifdef __SANITIZE_THREAD__
    assert_in_range(count, 1, 3); /* each process has a thread of the sanitizer's, and the kernel counts threads */
#else
    assert_int_equal(count, 3);
#endif
    assert_int_equal(err, EAGAIN);
    assert_false(mt_cgroup_is_empty(&g, "1"));
    assert_ok(mt_cgroup_enter(&g, "2", 4));
    assert_false(mt_cgroup_is_empty(&g, "2")); /* we are in it */
    assert_ok(mt_cgroup_leave(&g));
    assert_true(mt_cgroup_is_empty(&g, "2"));
    assert_false(mt_cgroup_is_empty(&g, "3")); /* there is none */
    assert_true(mt_cgroup_end(g.path, NULL, LIMIT_MS));
    for (int i = 0; i < count; i++)
        assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
}

/* A list as the kernel's, in a folder that is none of its: `pid` is said to live in that part. */
static void list_make(const char *place, const struct mt_cgroup *g, const char *part, pid_t pid, char *out_group, size_t size)
{
    char path[MT_GROUP_PATH_SIZE];
    snprintf(out_group, size, "%s%s", place, strrchr(g->path, '/'));
    (void)mkdir(out_group, 0700);
    snprintf(path, sizeof path, "%s/%s", out_group, part);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/%s/cgroup.procs", out_group, part);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "%d\n", (int)pid);
    assert_int_equal(fclose(file), 0);
}

/* Between the look at who lives in a part and the kill a number can become that of a process of another part. */
static void numbers_come_back(void **state)
{
    struct mt_cgroup g;
    char             place[] = "/tmp/manta-list-XXXXXX", listed[128];
    int              pipe, go;
    (void)state;
    if (mt_cgroup_new(NULL, number(), 100, &g).code)
        skip();
    assert_ok(mt_cgroup_enter(&g, "18", 10));
    pid_t child = start_family(&g, &pipe, &go);
    assert_ok(mt_cgroup_leave(&g));
    check_said(pipe, "in\n");
    assert_non_null(mkdtemp(place));
    list_make(place, &g, "1", child, listed, sizeof listed); /* which "18" begins with */
    assert_false(mt_cgroup_end(listed, "1", 50));
    assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    list_make(place, &g, "18", child, listed, sizeof listed);
    assert_false(mt_cgroup_end(listed, "18", 50));
    check_ended(child, pipe);
    close(go);
    mt_tree_remove(place);
    assert_true(mt_cgroup_end(g.path, NULL, LIMIT_MS));
}

static void mark(void **state)
{
    char  line[MT_GROUP_MARK_SIZE];
    pid_t child;
    (void)state;
    mt_cgroup_mark(number(), line);
    assert_int_equal(mt_cgroup_sweep(line, LIMIT_MS), 0);
    child = fork();
    if (child == 0) {
        char *argv[] = {"sleep", "1000", NULL}, *envp[] = {"A=b", line, NULL};
        execve("/bin/sleep", argv, envp);
        _exit(1);
    }
    for (int64_t end = mt_now_ms() + LIMIT_MS; waitpid(child, NULL, WNOHANG) == 0; mt_sleep_ms(1)) {
        assert_int_equal(mt_cgroup_sweep(line, LIMIT_MS), 0); /* from exec on it has the mark */
        assert_true(mt_now_ms() < end);
    }
}

/* A record that somebody has written names no group of this project: nothing happens to it. */
static void others(void **state)
{
    char folder[] = "/tmp/mt.XXXXXX", inside[64], file[64], none[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(inside, sizeof inside, "%s/empty", folder);
    snprintf(file, sizeof file, "%s/group", folder); /* as an earlier release called it */
    assert_true(mt_cgroup_record(folder, "MANTA_MARK=0", none, sizeof none));
    assert_false(mt_cgroup_record(folder, "MANTA_MARK=0", none, strlen(none)));
    assert_true(mt_cgroup_record(folder, "MANTA_MARK=0", none, sizeof none));
    assert_int_equal(mkdir(inside, 0700), 0);
    assert_int_equal(mt_cgroup_end_saved(folder, LIMIT_MS), 0); /* there is none */
    assert_ok(mt_cgroup_save(file, inside, "HOME=/root"));
    assert_ok(mt_cgroup_save(none, "", "MANTA_MARK=0"));
    assert_int_equal(mt_cgroup_end_saved(folder, LIMIT_MS), 1);
    assert_int_equal(access(inside, F_OK), 0);
    assert_int_equal(access(file, F_OK), 0);  /* to be tried again, ... */
    assert_int_equal(access(none, F_OK), -1); /* ... and this one is done */
    assert_ok(mt_cgroup_save(file, "", "MANTA_MARK=0"));
    assert_int_equal(mt_cgroup_end_saved(folder, LIMIT_MS), 0);
    assert_int_equal(access(file, F_OK), -1);
    rmdir(inside);
    assert_int_equal(rmdir(folder), 0);
    struct mt_cgroup g;
    assert_code(mt_cgroup_new("/tmp", 1, 10, &g), MT_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_1),         cmocka_unit_test(version_2), cmocka_unit_test(bound),
        cmocka_unit_test(numbers_come_back), cmocka_unit_test(mark),      cmocka_unit_test(others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
