/* SPDX-License-Identifier: Apache-2.0
 *
 * groups_test.c - tasks that start processes of their own, as many as they can and such as leave their session: their number is
 * bounded, other jobs go on, and nothing of it outlives the node, not even one whose raylet is killed.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FORKS = 2000, PIDS = 64, PATH_SIZE = 512 };

static const manta_task_opts once = {.max_retries = MANTA_NO_RETRY};

MANTA_TASK(int64_t, add, (int64_t, a), (int64_t, b))
{
    return a + b;
}

/* The folder of the control group that this node has made for `pid`; false: there is none. */
static bool group_of(int pid, char out[PATH_SIZE])
{
    static const char *const mounts[] = {"/sys/fs/cgroup/pids", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    char                     path[64], line[PATH_SIZE];
    bool                     found = false;
    snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        char *name = strstr(line, "/manta-"), *below = strchr(line, '/');
        if (!name || strncmp(name, "/manta-memory", 13) == 0)
            continue;
        name[strcspn(name + 1, "/\n") + 1] = '\0'; /* the node's: the part of the program is below */
        for (int i = 0; i < 3 && !found; i++)
            found = snprintf(out, PATH_SIZE, "%s%s", mounts[i], below) < PATH_SIZE && access(out, F_OK) == 0;
    }
    if (file)
        fclose(file);
    return found;
}

static bool has_bound(const char *group)
{
    char path[PATH_SIZE + 16];
    snprintf(path, sizeof path, "%s/pids.max", group);
    return access(path, F_OK) == 0;
}

static void group_gone(const char *group)
{
    CHECK_SOON(access(group, F_OK) != 0);
}

/* ---- a fork bomb ---- */

/* Forks until it may not; how often it could, or minus the error that it did not expect. */
MANTA_TASK(int64_t, fork_bomb, (uint64_t, number))
{
    struct test_board *board = test_board_map(number);
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        if (pid < 0)
            return errno == EAGAIN ? i : -errno;
        if (pid == 0) {
            setsid();
            for (;;)
                pause();
        }
        atomic_store(&board->words[0], pid);
    }
    return FORKS;
}

MANTA_TASK(int64_t, who, (int64_t, nothing))
{
    return getpid() + nothing;
}

static int64_t worker_pid(void)
{
    int64_t     pid;
    manta_error e;
    manta_ref  *ref = who_remote(NULL, 0);
    CHECK_CODE(manta_get_i64(ref, TEST_WAIT_MS, &pid, &e), MANTA_OK, &e);
    manta_free(ref);
    return pid;
}

/* A job of its own at the raylet that MANTA_ADDRESS names. */
static void second_job(void)
{
    manta_error     e;
    manta_init_opts opts = {.address = getenv("GROUPS_ADDRESS")};
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
    for (int i = 0; i < 20; i++)
        CHECK_I64(add_remote(NULL, i, 1), i + 1);
    CHECK_EQ(manta_shutdown(), 0);
}

/* The private cluster's, into GROUPS_ADDRESS. */
static void folder_of_cluster(void)
{
    char   pattern[PATH_SIZE];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/manta/d*", getenv("XDG_RUNTIME_DIR"));
    CHECK_EQ(glob(pattern, 0, NULL, &found), 0);
    CHECK_EQ(found.gl_pathc, 1);
    setenv("GROUPS_ADDRESS", found.gl_pathv[0], 1);
    globfree(&found);
}

static void fork_bomb_bounded(void)
{
    char               group[PATH_SIZE], text[4096];
    uint64_t           number;
    int64_t            forks;
    manta_error        e;
    struct test_board *board = test_board_new(&number);
    if (!group_of((int)worker_pid(), group) || !has_bound(group)) {
        manta_shutdown();
        test_skip("no control group that counts processes can be made here");
    }
    manta_ref *ref = fork_bomb_remote(&once, number);
    CHECK_CODE(manta_get_i64(ref, TEST_WAIT_MS, &forks, &e), MANTA_OK, &e);
    manta_free(ref);
    CHECK(forks > 0 && forks < PIDS);
    for (int i = 0; i < 20; i++) /* warm workers of this job go on beside it */
        CHECK_I64(add_remote(NULL, i, 1), i + 1);
    char *second[] = {test_argv[0], "--run", "second_job", NULL};
    folder_of_cluster();
    if (test_program(second, text, sizeof text) != 0) /* and so does another one */
        test_fail(__FILE__, __LINE__, "another job failed: %s", text);
    CHECK_EQ(manta_shutdown(), 0); /* (the harness does so again, which changes nothing) */
    CHECK(test_gone((int)board->words[0]));
    group_gone(group); /* the kernel removes none that anybody lives in */
}

/* ---- processes that leave ---- */

/* One in a session of its own, and one whose parent has ended besides. */
MANTA_TASK(int64_t, leave_behind, (uint64_t, number))
{
    struct test_board *board = test_board_map(number);
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            setsid();
            if (i && fork() != 0)
                _exit(0);
            for (int fd = 0; fd < 1024; fd++)
                close(fd);
            atomic_store(&board->words[i], getpid());
            for (;;)
                pause();
        }
    }
    return test_board_wait(&board->words[0], 1) && test_board_wait(&board->words[1], 1) ? getpid() : 0;
}

struct left {
    struct test_board *board;
    char               group[PATH_SIZE]; /* "": none */
};

static void make_left(struct left *left)
{
    uint64_t number;
    left->board = test_board_new(&number);
    int64_t     worker;
    manta_error e;
    manta_ref  *ref = leave_behind_remote(&once, number);
    CHECK_CODE(manta_get_i64(ref, TEST_WAIT_MS, &worker, &e), MANTA_OK, &e);
    manta_free(ref);
    if (!group_of((int)worker, left->group))
        left->group[0] = '\0';
    for (int i = 0; i < 2; i++)
        CHECK(kill((int)left->board->words[i], 0) == 0);
}

static void check_none(const struct left *left)
{
    for (int i = 0; i < 2; i++)
        CHECK(test_gone((int)left->board->words[i]));
    if (left->group[0])
        group_gone(left->group);
}

static int only_one(int root, const char *name)
{
    int pids[4], count = test_find(root, name, pids, 4);
    CHECK_EQ(count, 1);
    return pids[0];
}

static void killed_raylet(void)
{
    struct left left;
    make_left(&left);
    CHECK_EQ(kill(only_one(getpid(), "manta-raylet"), SIGKILL), 0);
    check_none(&left);
}

/* ---- nodes of `manta start` ---- */

static void run(const char *verb, const char *const *rest, const char *folder, char *text, size_t size)
{
    char program[PATH_SIZE * 2], *argv[16] = {program, (char *)(uintptr_t)verb, "--dir", (char *)(uintptr_t)folder};
    snprintf(program, sizeof program, "%s/manta", test_bin());
    for (int i = 4; *rest; i++)
        argv[i] = (char *)(uintptr_t)*rest++;
    if (test_program(argv, text, size) != 0)
        test_fail(__FILE__, __LINE__, "manta %s: %s", verb, text);
}

static const char *const no_group[] = {"--head", "--num-cpus", "2", "--cgroup", "none", NULL}, *const purge[] = {"--purge", NULL},
                         *const grouped[] = {"--head", "--num-cpus", "2", NULL};

struct started {
    char folder[PATH_SIZE], text[4096];
    int  raylet;
};

/* A cluster, and this process its driver. `pids`: the raylet's number is the last one that `manta start` printed. */
static void start(struct started *s, const char *const *how)
{
    snprintf(s->folder, sizeof s->folder, "%s/cluster", getenv("XDG_RUNTIME_DIR"));
    run("start", how, s->folder, s->text, sizeof s->text);
    const char *at = strstr(s->text, "raylet   pid ");
    CHECK(at != NULL);
    s->raylet = (int)strtol(at + 13, NULL, 10);
}

static void drive(const struct started *s)
{
    manta_error     e;
    manta_init_opts opts = {.address = s->folder};
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
}

static bool is_worker(void)
{
    return getenv("MANTA_ROLE") != NULL;
}

/* A cluster, this process its driver, and what a task of it has left behind. A process for workers stays in here. */
static void begin(struct started *s, const char *const *how, struct left *left)
{
    if (is_worker())
        manta_init(&test_argc, &test_argv, NULL, NULL);
    start(s, how);
    drive(s);
    make_left(left);
}

/* The end of a job ends what its tasks have left, though the node goes on. */
static void ended_job(void)
{
    struct started s;
    struct left    left;
    begin(&s, grouped, &left);
    CHECK_EQ(manta_shutdown(), 0);
    for (int i = 0; left.group[0] && i < 2; i++) /* (without a group it ends with the node) */
        CHECK(test_gone((int)left.board->words[i]));
    CHECK(kill(s.raylet, 0) == 0);
    run("stop", purge, s.folder, s.text, sizeof s.text);
    check_none(&left);
}

/* Where no control group is made, the mark in the environment ends what is left. */
static void killed_without_group(void)
{
    struct started s;
    struct left    left;
    begin(&s, no_group, &left);
    CHECK(!left.group[0]);
    CHECK_EQ(kill(s.raylet, SIGKILL), 0);
    check_none(&left);
    CHECK_EQ(manta_shutdown(), 0);
    run("stop", purge, s.folder, s.text, sizeof s.text);
}

/* Nobody starts the daemon again. */
static void kill_keeper(int daemon)
{
    char path[64], line[256];
    int  keeper = 0;
    snprintf(path, sizeof path, "/proc/%d/status", daemon);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "PPid: %d", &keeper) == 1)
            break;
    CHECK(status && fclose(status) == 0 && keeper > 1);
    CHECK_EQ(kill(keeper, SIGKILL), 0);
    CHECK(test_gone(keeper));
}

/* Raylet and reaper killed: the next one to look after the node ends what is left. */
static void kill_both(const struct started *s)
{
    int reaper = only_one(s->raylet, "manta-reaper");
    CHECK_EQ(kill(reaper, SIGKILL), 0);
    CHECK_EQ(kill(s->raylet, SIGKILL), 0);
    CHECK(test_gone(s->raylet));
}

static void next_raylet(const char *const *how)
{
    struct started s;
    struct left    left;
    begin(&s, how, &left);
    kill_keeper(s.raylet);
    kill_both(&s);
    CHECK(kill((int)left.board->words[0], 0) == 0);
    start(&s, how); /* the head has gone on */
    check_none(&left);
    CHECK_EQ(manta_shutdown(), 0);
    run("stop", purge, s.folder, s.text, sizeof s.text);
}

static void next_raylet_group(void)
{
    next_raylet(grouped);
}

static void next_raylet_mark(void)
{
    next_raylet(no_group);
}

/* The reaper of the first raylet is late: it ends its work when the second has started programs of its own. Then that one and its
 * reaper are killed, too, and the third still finds what they have left. */
static void late_reaper(void)
{
    struct started s;
    struct left    first, second;
    begin(&s, grouped, &first);
    kill_keeper(s.raylet);
    int reaper = only_one(s.raylet, "manta-reaper");
    CHECK_EQ(kill(reaper, SIGSTOP), 0);
    CHECK_EQ(kill(s.raylet, SIGKILL), 0);
    CHECK(test_gone(s.raylet));
    CHECK_EQ(manta_shutdown(), 0);
    start(&s, grouped);
    check_none(&first);
    drive(&s);
    make_left(&second);
    CHECK_EQ(kill(reaper, SIGCONT), 0);
    CHECK(test_gone(reaper));
    kill_keeper(s.raylet);
    kill_both(&s);
    start(&s, grouped);
    check_none(&second);
    CHECK_EQ(manta_shutdown(), 0);
    run("stop", purge, s.folder, s.text, sizeof s.text);
}

static void stop_after_kill(void)
{
    struct started s;
    struct left    left;
    begin(&s, grouped, &left);
    kill_both(&s);
    run("stop", purge, s.folder, s.text, sizeof s.text);
    CHECK_SAYS(s.text, "Nothing is left.");
    check_none(&left);
    CHECK_EQ(manta_shutdown(), 0);
}

/* ---- what a job starts in its first moment ---- */

/* Only the control group knows of it: it has left the job's process group and has nothing of its environment. It ends with the job,
 * though the node goes on. */
static void started_at_once(const char *const *how)
{
    static char    words[] = "env -i setsid sleep 600 >/dev/null 2>&1 & echo left=$!; cat /proc/self/cgroup";
    char           program[PATH_SIZE * 2];
    struct started s;
    start(&s, how);
    snprintf(program, sizeof program, "%s/manta", test_bin());
    char *argv[] = {program, "submit", "--address", s.folder, "--follow", "--", "/bin/sh", "-c", words, NULL};
    if (test_program(argv, s.text, sizeof s.text) != 0)
        test_fail(__FILE__, __LINE__, "manta submit: %s", s.text);
    const char *left = strstr(s.text, "left=");
    bool        has_group = strstr(s.text, "/manta-") != NULL;
    CHECK(left != NULL);
    int pid = (int)strtol(left + 5, NULL, 10);
    CHECK(pid > 1 && (!has_group || test_gone(pid)));
    CHECK(kill(s.raylet, 0) == 0);
    run("stop", purge, s.folder, s.text, sizeof s.text);
    if (has_group)
        return;
    (void)kill(pid, SIGKILL);
    if (how != grouped)
        test_fail(__FILE__, __LINE__, "a job of a node with a control group has none");
    test_skip("no control group can be made here");
}

static void started_at_once_group(void)
{
    started_at_once(grouped);
}

static void started_at_once_version_2(void)
{
    static const char *const roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
    char                     path[64];
    for (int i = 0; i < 2; i++) {
        const char *const how[] = {"--head", "--num-cpus", "2", "--cgroup", roots[i], NULL};
        snprintf(path, sizeof path, "%s/cgroup.subtree_control", roots[i]);
        if (access(path, W_OK) == 0)
            return started_at_once(how);
    }
    test_skip("no tree of control groups of version 2 is ours to change");
}

/* A folder that is none of the kernel's is refused with the reason, and so is too small a bound. */
static void bad_options(void)
{
    manta_error     e;
    manta_init_opts few = {.job_pids = 3};
    char            text[4096], program[PATH_SIZE * 2], folder[PATH_SIZE];
    snprintf(program, sizeof program, "%s/manta-raylet", test_bin());
    snprintf(folder, sizeof folder, "%s/cluster", getenv("XDG_RUNTIME_DIR"));
    char *argv[] = {program, "--dir", folder, "--cgroup", "/tmp", NULL};
    CHECK_EQ(test_program(argv, text, sizeof text), 1);
    CHECK_SAYS(text, "--cgroup /tmp: it is no folder of the tree of control groups");
    CHECK_EQ(manta_init(&test_argc, &test_argv, &few, &e), MANTA_EINVAL);
    CHECK_SAYS(e.message, "job_pids is 0 or at least 16");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"fork_bomb_bounded", fork_bomb_bounded, {.num_cpus = 2, .job_pids = PIDS}, false, 0},
        {"killed_raylet", killed_raylet, {.num_cpus = 2}, false, 0},
        {"ended_job", ended_job, {0}, true, 0},
        {"killed_without_group", killed_without_group, {0}, true, 0},
        {"next_raylet_group", next_raylet_group, {0}, true, 0},
        {"next_raylet_mark", next_raylet_mark, {0}, true, 0},
        {"late_reaper", late_reaper, {0}, true, 0},
        {"stop_after_kill", stop_after_kill, {0}, true, 0},
        {"started_at_once_group", started_at_once_group, {0}, true, 0},
        {"started_at_once_version_2", started_at_once_version_2, {0}, true, 0},
        {"group_options", bad_options, {0}, true, 0},
        {"second_job", second_job, {0}, true, 0},
        {NULL, NULL, {0}, false, 0},
    };
    return test_main(argc, argv, cases);
}
