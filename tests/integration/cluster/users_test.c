/* SPDX-License-Identifier: Apache-2.0
 *
 * users_test.c - jobs that run under users of their own (--job-users): what they are, and what they can't reach; and a user who is
 *                not root.
 *
 * Thread: the driver's main one. Skipped where this is not root, or where other users can't run the program.
 */
#include "tests/integration/cluster/nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST = 70000, LAST = 70999, LARGE = 300 * 1000 };
#define USERS "70000-70999"

/* ---- what a job sees ---- */
MANTA_TASK(int64_t, whoami, (int64_t, groups))
{
    return groups ? getgroups(0, NULL) : getuid() == geteuid() && getgid() == getuid() ? (int64_t)getuid() : -1;
}
static manta_status opens(manta_ctx *c, int argc, const manta_arg *argv) /* the error of it, or 0 */
{
    (void)argc;
    int fd = open((const char *)argv[0].y.data, O_RDONLY | O_CLOEXEC), err = errno;
    if (fd >= 0)
        close(fd);
    return manta_return_i64(c, fd < 0 ? err : 0);
}
MANTA_REGISTER(opens, "s>l");
MANTA_TASK(int64_t, writes, (int64_t, fd)) /* the error of it, or 0 */
{
    return pwrite((int)fd, "job", 3, 0) < 0 ? errno : 0;
}
MANTA_TASK(int64_t, holds, (const char *, path)) /* so many descriptors of this file */
{
    struct stat wanted, st;
    int64_t     count = stat(path, &wanted) < 0 ? 1000 : 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fstat(fd, &st) == 0 && st.st_dev == wanted.st_dev && st.st_ino == wanted.st_ino;
    return count;
}
MANTA_TASK(int64_t, signals, (int64_t, pid))
{
    return kill((pid_t)pid, 0) < 0 ? errno : 0;
}
static manta_status page(manta_ctx *c, int argc, const manta_arg *argv)
{
    static char data[LARGE];
    (void)argc;
    if (!nodes_is_filled(argv[0].y.data, argv[0].y.size, 3))
        return manta_fail(c, 1, "not what was put");
    nodes_fill(data, sizeof data, 4);
    return manta_return_bytes(c, data, sizeof data);
}
MANTA_REGISTER(page, "y>y");
static manta_status holder_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    return MANTA_OK;
}
static manta_status holder_size(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    return manta_return_i64(c, (int64_t)argv[0].y.size);
}
static manta_status holder_pid(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, getpid());
}
static manta_status holder_uid(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, (int64_t)getuid());
}
MANTA_ACTOR(holder, "", holder_new, NULL, {"size", "y>l", holder_size}, {"pid", ">l", holder_pid}, {"uid", ">l", holder_uid});

static int64_t opened(const char *path)
{
    return test_i64(manta_call("opens", NULL, MANTA_ARGS(manta_str(path))), __FILE__, __LINE__);
}
static int64_t opened_in(const char *folder, const char *name)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return opened(path);
}
static int64_t opened_memory(int64_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/mem", (long long)pid);
    return opened(path);
}
static int64_t uid_here(void)
{
    int64_t uid = test_i64(manta_call("whoami", NULL, MANTA_ARGS(manta_i64(0))), __FILE__, __LINE__);
    CHECK(uid >= FIRST && uid <= LAST);
    CHECK_I64(manta_call("whoami", NULL, MANTA_ARGS(manta_i64(1))), 0);
    return uid;
}

/* Whether other users can run this program, and load what it needs. */
static bool others_can_run_this(void)
{
    int   status = -1;
    pid_t child = geteuid() == 0 ? fork() : -1;
    if (child == 0) {
        char    path[4096];
        ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
        path[n > 0 ? n : 0] = 0;
        if (setgroups(0, NULL) < 0 || setgid(FIRST) < 0 || setuid(FIRST) < 0)
            _exit(1);
        execl(path, path, "--can-run", (char *)NULL);
        _exit(1);
    }
    if (child > 0)
        waitpid(child, &status, 0);
    return status == 0;
}

/* ---- cases ---- */

/* A placement group of this name that this job makes; NULL: *e says why. */
static manta_pg *group_new(bool detached, manta_error *e)
{
    const manta_bundle one = {.num_cpus = 0.1};
    return manta_pg_new(&one, 1, &(manta_pg_opts){.name = "mine", .name_space = "all", .detached = detached}, e);
}
/* Another job has one of this name: it is not seen here, and the name is free. */
static void check_group_apart(void)
{
    manta_error e;
    CHECK(!manta_pg_find("all", "mine", &e));
    CHECK_EQ(e.code, MANTA_ENOENT);
    CHECK(!group_new(true, &e));
    CHECK_EQ(e.code, MANTA_EUNSUPPORTED);
    CHECK_SAYS(e.message, "--job-users");
    manta_pg *made = group_new(false, &e), *found = manta_pg_find("all", "mine", &e);
    CHECK(made && found);
    CHECK_CODE(manta_pg_remove(found, &e), MANTA_OK, &e);
    CHECK_CODE(manta_pg_wait(made, TEST_WAIT_MS, &e), MANTA_EPG_REMOVED, &e);
    manta_pg_free(made), manta_pg_free(found);
}

static manta_actor *named_new(const char *name, bool for_all_jobs)
{
    return manta_actor_new("holder", &(manta_actor_opts){.name = name, .for_all_jobs = for_all_jobs}, MANTA_NO_ARGS);
}

/* Another job has had it killed, which nobody waits for. */
static void dies(manta_actor *actor)
{
    manta_status code = MANTA_OK;
    manta_error  e = {0};
    for (int i = 0; code == MANTA_OK && i < TEST_WAIT_MS / 10; i++) {
        manta_view view;
        manta_ref *ref = manta_actor_call(actor, "uid", MANTA_NO_ARGS);
        code = manta_get(ref, TEST_WAIT_MS, &view, &e);
        if (code == MANTA_OK)
            manta_release(&view);
        manta_free(ref);
        usleep(code == MANTA_OK ? 10000 : 0);
    }
    CHECK_CODE(code, MANTA_EACTOR_DIED, &e);
}

/* What another job has named is not found, and the name is free, but for what it has named for all. */
static void check_names_apart(void)
{
    manta_error e;
    CHECK(!manta_actor_find("own", TEST_WAIT_MS, &e));
    CHECK_EQ(e.code, MANTA_ENOENT);
    CHECK(!manta_actor_find("h", TEST_WAIT_MS, &e)); /* detached, and as much its creator's */
    CHECK_EQ(e.code, MANTA_ENOENT);
    CHECK(!manta_actor_find_in("default of job 0123456789abcdef", "own", TEST_WAIT_MS, &e)); /* what it is called inside */
    manta_actor *mine = named_new("own", false), *found = manta_actor_find("own", TEST_WAIT_MS, &e);
    CHECK(mine && found);
    CHECK_EQ(test_i64(manta_actor_call(found, "uid", MANTA_NO_ARGS), __FILE__, __LINE__), uid_here());
    manta_actor *shared = manta_actor_find("shared", TEST_WAIT_MS, &e);
    CHECK(shared);
    CHECK_I64(manta_actor_call(shared, "uid", MANTA_NO_ARGS), strtoll(getenv("FIRST_JOB"), NULL, 10));
    CHECK_FAILS(manta_actor_call(named_new("shared", true), "uid", MANTA_NO_ARGS), MANTA_EEXIST, &e);
    manta_actor_kill(shared, false);
    manta_actor_free(mine), manta_actor_free(found), manta_actor_free(shared);
}

static void other(void) /* another job, at the same time */
{
    manta_error e;
    char        address[256];
    snprintf(address, sizeof address, "%s/manta/c/n0", getenv("XDG_RUNTIME_DIR"));
    manta_init_opts opts = {.address = address};
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
    CHECK(uid_here() != strtoll(getenv("FIRST_JOB"), NULL, 10));
    check_group_apart();
    check_names_apart();
    manta_shutdown();
}

/* Root's file, open and to be inherited when the cluster is started. */
static int root_only(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/secret", getenv("XDG_RUNTIME_DIR"));
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && dup2(fd, 9) == 9);
    if (fd != 9)
        close(fd);
    unlink(path);
    return 9;
}

static void users_apart(void)
{
    struct nodes n;
    manta_error  e;
    manta_view   view;
    char         text[24], said[3000], *data = malloc(LARGE), *argv[] = {"/proc/self/exe", "--run", "other", NULL};
    int          secret = getenv("MANTA_ROLE") ? -1 : root_only();
    nodes_start_users(&n, 2, "2", USERS);
    int64_t uid = uid_here();
    CHECK_I64(manta_call("writes", NULL, MANTA_ARGS(manta_i64(secret))), EBADF);
    CHECK_I64(manta_call("holds", NULL, MANTA_ARGS(manta_str("/proc/self/exe"))), 0); /* what it was started from */
    CHECK_EQ(opened_in(n.folder, "token"), EACCES);
    CHECK_EQ(opened_in(n.folder, "n0/raylet.sock"), EACCES);
    CHECK_EQ(opened_memory(n.raylets[0]), EACCES);
    CHECK_I64(manta_call("signals", NULL, MANTA_ARGS(manta_i64(n.raylets[0]))), EPERM);
    nodes_fill(data, LARGE, 3); /* inside one job all is as ever, between nodes too */
    for (int i = 0; i < 2; i++) {
        manta_task_opts there = {.node = n.ids[i]};
        manta_ref      *ref = manta_call("page", &there, MANTA_ARGS(manta_data((manta_bytes){data, LARGE})));
        CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        CHECK(view.size == LARGE && nodes_is_filled(view.data, view.size, 4));
        manta_release(&view);
        manta_free(ref);
    }
    snprintf(text, sizeof text, "%lld", (long long)uid);
    setenv("FIRST_JOB", text, 1);
    manta_pg *group = group_new(false, &e);
    CHECK(group);
    manta_actor *own = named_new("own", false), *shared = named_new("shared", true);
    manta_actor *a = manta_actor_new("holder", &(manta_actor_opts){.detached = true, .name = "h"}, MANTA_NO_ARGS);
    CHECK_I64(manta_actor_call(own, "uid", MANTA_NO_ARGS), uid);
    CHECK_I64(manta_actor_call(shared, "uid", MANTA_NO_ARGS), uid);
    CHECK(test_i64(manta_actor_call(a, "uid", MANTA_NO_ARGS), __FILE__, __LINE__) != uid);
    int status = test_program(argv, said, sizeof said);
    if (status != 0)
        test_fail(__FILE__, __LINE__, "the other job ends with %d: %s", status, said);
    CHECK_CODE(manta_pg_wait(group, TEST_WAIT_MS, &e), MANTA_OK, &e); /* nobody has removed it */
    manta_pg_free(group);
    CHECK_I64(manta_actor_call(own, "uid", MANTA_NO_ARGS), uid); /* nobody has killed it */
    dies(shared);                                                /* that was allowed */
    manta_actor_free(own), manta_actor_free(shared);
    manta_actor *found = manta_actor_find("h", TEST_WAIT_MS, &e);
    CHECK(found);
    manta_actor_free(found);
    int64_t pid = test_i64(manta_actor_call(a, "pid", MANTA_NO_ARGS), __FILE__, __LINE__);
    CHECK_EQ(opened_memory(pid), EACCES);
    CHECK_I64(manta_actor_call(a, "size", MANTA_ARGS(manta_data((manta_bytes){"small", 5}))), 5);
    CHECK_FAILS(manta_actor_call(a, "size", MANTA_ARGS(manta_data((manta_bytes){data, LARGE}))), MANTA_EWRONGJOB, &e);
    CHECK_SAYS(e.message, "another user");
    manta_actor_kill(a, false);
    manta_actor_free(a);
    free(data);
    nodes_stop(&n);
}

/* A value that went to disk comes back for its job, also on another node, and for no other job. */
static void users_spilled(void)
{
    enum { VALUES = 12, SIZE = 2 << 20 };
    struct nodes n;
    manta_error  e;
    manta_ref   *values[VALUES];
    char        *data = malloc(SIZE);
    nodes_start_as(&n, &(struct nodes){.count = 2, .job_users = USERS, .is_spilling = true}, "2", 16);
    nodes_fill(data, SIZE, 3);
    for (int i = 0; i < VALUES; i++)
        values[i] = manta_put(data, SIZE);
    for (int node = 0; node < 2; node++) {
        manta_task_opts  there = {.node = n.ids[node]};
        manta_actor_opts alone = {.detached = true, .name = "h", AT(node)};
        manta_actor     *a = manta_actor_new("holder", &alone, MANTA_NO_ARGS);
        for (int i = 0; i < VALUES; i++) {
            manta_view view;
            manta_ref *ref = manta_call("page", &there, MANTA_ARGS(manta_ref_arg(values[i])));
            CHECK_FAILS(manta_actor_call(a, "size", MANTA_ARGS(manta_ref_arg(values[i]))), MANTA_EWRONGJOB, &e);
            CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
            CHECK(view.size == LARGE && nodes_is_filled(view.data, view.size, 4));
            manta_release(&view);
            manta_free(ref);
        }
        CHECK_SAYS(e.message, "another user");
        manta_actor_kill(a, false);
        manta_actor_free(a);
    }
    for (int i = 0; i < VALUES; i++)
        manta_free(values[i]);
    free(data);
    nodes_stop(&n);
}

static void submitted(void) /* a driver that the raylet has started */
{
    manta_error e;
    CHECK_CODE(manta_init(&test_argc, &test_argv, NULL, &e), MANTA_OK, &e);
    int64_t uid = uid_here();
    CHECK_EQ(uid, getuid());
    printf("driver and worker are user %lld\n", (long long)uid);
    CHECK_EQ(manta_shutdown(), 0);
}

static void users_submitted(void)
{
    struct nodes n;
    char         said[4000], manta[5000], program[4096];
    char        *argv[] = {manta, "submit", "--address", n.folder, "--follow", "--", program, "--run", "submitted", NULL};
    nodes_start_users(&n, 1, "2", USERS);
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
    CHECK(size > 0);
    program[size] = 0;
    snprintf(manta, sizeof manta, "%s/manta", test_bin());
    int status = test_program(argv, said, sizeof said);
    if (status != 0)
        test_fail(__FILE__, __LINE__, "exit status %d: %s", status, said);
    CHECK_SAYS(said, "driver and worker are user 70");
    nodes_stop(&n);
}

/* Wrong words are refused, with what is right. */
static void users_bad(void)
{
    static const char *const bad[] = {"root", "0", "5-3", "no_such_user_here", "1-99999999", "7-", "12x"};
    char                     said[4000], path[5000];
    snprintf(path, sizeof path, "%s/manta-raylet", test_bin());
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *argv[] = {path, "--dir", "/nowhere", "--job-users", (char *)(uintptr_t)bad[i], NULL};
        CHECK_EQ(test_program(argv, said, sizeof said), 2);
        CHECK_SAYS(said, "--job-users: a user other than root");
    }
}

/* Becomes another user, for good: one that no other run of this test is. */
static void leave_root(const char *home)
{
    uid_t user = 100000 + (uid_t)getpid();
    CHECK_EQ(chown(home, user, user), 0);
    CHECK(setgroups(0, NULL) == 0 && setgid(user) == 0 && setuid(user) == 0);
    CHECK_EQ(prctl(PR_SET_DUMPABLE, 1), 0); /* what is in /proc of it is its own again */
}

/* Where a container has no HOME that could be written. */
static void without_home(const manta_init_opts *opts)
{
    char        path[64];
    manta_error e;
    snprintf(path, sizeof path, "/tmp/manta-%u", geteuid());
    setenv("HOME", "/", 1);
    CHECK(mkdir(path, 0700) == 0 && chmod(path, 0755) == 0); /* as somebody may make it who waits for us there */
    CHECK_EQ(manta_init(&test_argc, &test_argv, opts, &e), MANTA_EAUTH);
    CHECK_SAYS(e.message, path);
    CHECK_SAYS(e.message, "it is no folder of this user's with mode 0700");
    CHECK_EQ(rmdir(path), 0);
    CHECK_CODE(manta_init(&test_argc, &test_argv, opts, &e), MANTA_OK, &e);
    CHECK_I64(manta_call("whoami", NULL, MANTA_ARGS(manta_i64(0))), geteuid());
    CHECK_EQ(manta_shutdown(), MANTA_OK);
    CHECK_SOON(rmdir(path) == 0);
}

/* A user without XDG_RUNTIME_DIR has the folder in HOME, and leaves nothing there; without HOME it is in /tmp, and his alone. */
static void users_at_home(void)
{
    static const char *const left[] = {"/.manta/run", "/.manta", ""};
    static char              home[] = "/tmp/manta-home-XXXXXX"; /* the driver's */
    const manta_init_opts    opts = {.num_cpus = 1};
    manta_error              e;
    unsetenv("XDG_RUNTIME_DIR");
    if (geteuid() == 0) { /* workers are started by who is another user already */
        CHECK(mkdtemp(home));
        leave_root(home);
        without_home(&opts);
        setenv("HOME", home, 1);
    }
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
    CHECK_I64(manta_call("whoami", NULL, MANTA_ARGS(manta_i64(0))), geteuid());
    CHECK_EQ(manta_shutdown(), MANTA_OK);
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        char    path[64];
        int64_t limit = test_now_ms() + TEST_GONE_MS;
        snprintf(path, sizeof path, "%s%s", home, left[i]);
        while (rmdir(path) != 0) {
            CHECK(errno == ENOTEMPTY && test_now_ms() < limit);
            test_sleep_ms(10);
        }
    }
}

#define OWN_INIT {0}, true, 0
static const struct test_case cases[] = {
    {"users_apart", users_apart, OWN_INIT},
    {"users_spilled", users_spilled, OWN_INIT},
    {"users_submitted", users_submitted, OWN_INIT},
    {"users_bad", users_bad, OWN_INIT},
    {"users_at_home", users_at_home, OWN_INIT},
    {NULL, NULL, {0}, false, 0},
    {"other", other, OWN_INIT}, /* started by the others only */
    {"submitted", submitted, OWN_INIT},
};

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--can-run") == 0)
        return 0;
    if (argc < 3 && !others_can_run_this()) {
        printf("not root, or other users can't run the programs of this build\n");
        return 77;
    }
    for (size_t i = 0; argc == 3 && i < sizeof cases / sizeof cases[0]; i++)
        if (cases[i].name && strcmp(argv[2], cases[i].name) == 0)
            return test_main(argc, argv, &cases[i]);
    return test_main(argc, argv, cases);
}
