/* SPDX-License-Identifier: Apache-2.0
 *
 * backup_test.c - the state of a real manta-head as a file: made while it works, restored, moved to Redis and back, and refused
 * where it does not fit.
 */
#include "manta_client.h"
#include "tests/integration/head/rig.h"
#include "tests/redis/redis.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS = 40, SAID = 4096, PATH = 256 };

struct world {
    struct redis_server redis;
    struct daemon       head;
    char                dir[64], file[PATH], moved[PATH], back[PATH], state[PATH], said[SAID];
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    redis_server_new(&w->redis, NULL);
    daemon_init(&w->head);
    snprintf(w->dir, sizeof w->dir, "%s", w->head.folder);
    snprintf(w->file, PATH, "%s/backup", w->dir);
    snprintf(w->moved, PATH, "%s/moved", w->dir);
    snprintf(w->back, PATH, "%s/back", w->dir);
    snprintf(w->state, PATH, "%s/other", w->dir);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    daemon_fini(&w->head);
    redis_server_free(&w->redis);
    free(w);
    return 0;
}

/* Runs manta-head with these words, its output in `said`; whether it succeeded. `file_limit`: bytes that it may write to a file. */
static bool head_does(struct world *w, rlim_t file_limit, const char *const *words)
{
    char  *argv[RIG_ARGS] = {(char *)(uintptr_t)MANTA_HEAD};
    int    out[2], status, count = 1;
    size_t size = 0;
    while (*words)
        argv[count++] = (char *)(uintptr_t)*words++;
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGXFSZ, SIG_IGN);
        if (file_limit)
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){file_limit, file_limit});
        dup2(out[1], 1);
        dup2(out[1], 2);
        execv(MANTA_HEAD, argv);
        _exit(127);
    }
    close(out[1]);
    for (ssize_t n; (n = read(out[0], w->said + size, SAID - 1 - size)) > 0;)
        size += (size_t)n;
    w->said[size] = '\0';
    close(out[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
#define DOES(w, ...) \
    do { \
        if (!head_does((w), 0, (const char *const[]){__VA_ARGS__, NULL})) \
            fail_msg("%s", (w)->said); \
    } while (0)
#define REFUSES(w, why, ...) \
    do { \
        if (head_does((w), 0, (const char *const[]){__VA_ARGS__, NULL}) || !strstr((w)->said, why)) \
            fail_msg("\"%s\" lacks \"%s\"", (w)->said, why); \
    } while (0)

static manta_client *open_client(const struct world *w)
{
    manta_error       e;
    manta_client_opts opts = {.address = w->head.run, .timeout_ms = 15000};
    manta_client     *c = manta_client_open(&opts, &e);
    if (!c)
        fail_msg("%s", e.message);
    return c;
}

static void start(struct world *w, const char *const *more)
{
    if (!daemon_start(&w->head, more, NULL))
        fail_msg("the head does not start");
}

static void submit(struct world *w, int from, int count)
{
    manta_client *c = open_client(w);
    for (int i = from; i < from + count; i++) {
        manta_error e;
        char        id[32];
        snprintf(id, sizeof id, "job-%d", i);
        manta_job job = {.id = id, .argv = (const char *const[]){"x", NULL}};
        if (manta_job_submit(c, &job, &e) != MANTA_OK)
            fail_msg("%s", e.message);
    }
    manta_client_close(c);
}

/* All of the first `count` jobs are there, and none behind. */
static void check_jobs(struct world *w, int count)
{
    manta_client *c = open_client(w);
    for (int i = 0; i <= count; i++) {
        manta_error    e;
        manta_job_info info;
        char           id[32];
        snprintf(id, sizeof id, "job-%d", i);
        assert_int_equal(manta_job_get(c, id, &info, &e), i < count ? MANTA_OK : MANTA_ENOENT);
    }
    manta_client_close(c);
}

static manta_status backup(struct world *w, manta_error *e)
{
    manta_client *c = open_client(w);
    manta_status  st = manta_cluster_backup(c, w->file, e);
    manta_client_close(c);
    return st;
}

static void backup_ok(struct world *w)
{
    manta_error e;
    if (backup(w, &e) != MANTA_OK)
        fail_msg("%s", e.message);
}

static void a_head_that_works_is_backed_up(void **state)
{
    struct world *w = *state;
    manta_error   e;
    struct stat   info;
    start(w, NULL);
    submit(w, 0, JOBS);
    backup_ok(w);
    assert_int_equal(stat(w->file, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    submit(w, JOBS, 1); /* it goes on */
    DOES(w, "--check", w->file);
    assert_int_equal(backup(w, &e), MANTA_EEXIST);
    assert_non_null(strstr(e.message, "name another one"));
    REFUSES(w, "another head uses this state folder", "--check", w->file, "--state", w->head.state);
    assert_int_equal(daemon_end(&w->head, SIGTERM), 0);
    REFUSES(w, "the store differs", "--check", w->file, "--state", w->head.state);
    DOES(w, "--restore", w->file, "--state", w->state);
    DOES(w, "--check", w->file, "--state", w->state);
    start(w, (const char *const[]){"--state", w->state, NULL});
    check_jobs(w, JOBS);
}

static void a_backup_takes_the_place_of_what_is_there(void **state)
{
    struct world *w = *state;
    start(w, NULL);
    submit(w, 0, JOBS);
    backup_ok(w);
    submit(w, JOBS, 3);
    REFUSES(w, "another head uses this state folder", "--restore", w->file, "--state", w->head.state, "--replace");
    assert_int_equal(daemon_end(&w->head, SIGKILL), SIGKILL); /* its log is not copied into its file */
    REFUSES(w, "has a cluster already", "--restore", w->file, "--state", w->head.state);
    DOES(w, "--restore", w->file, "--state", w->head.state, "--replace");
    REFUSES(w, "earlier --replace", "--restore", w->file, "--state", w->head.state, "--replace");
    start(w, NULL);
    check_jobs(w, JOBS);
    assert_int_equal(daemon_end(&w->head, SIGTERM), 0);
    char old[PATH + 16];
    assert_int_equal(mkdir(w->state, 0700), 0);
    snprintf(old, sizeof old, "%s/state.db.old", w->head.state);
    snprintf(w->said, SAID, "%s/state.db", w->state);
    assert_int_equal(rename(old, w->said), 0); /* what was kept is a state, too */
    start(w, (const char *const[]){"--state", w->state, NULL});
    check_jobs(w, JOBS + 3);
}

static void a_cluster_moves_to_redis_and_back(void **state)
{
    struct world *w = *state;
    const char   *redis[] = {"--store", w->redis.url, NULL};
    start(w, NULL);
    submit(w, 0, JOBS);
    assert_int_equal(daemon_end(&w->head, SIGTERM), 0);
    DOES(w, "--backup", w->file, "--state", w->head.state);
    DOES(w, "--restore", w->file, "--state", w->head.state, "--replace", "--store", w->redis.url);
    DOES(w, "--check", w->file, "--store", w->redis.url);
    REFUSES(w, "something is there already", "--restore", w->file, "--state", w->state, "--store", w->redis.url);
    start(w, redis);
    check_jobs(w, JOBS);
    submit(w, JOBS, 5);
    DOES(w, "--backup", w->moved, "--store", w->redis.url); /* while it leads */
    REFUSES(w, "the store differs", "--check", w->file, "--store", w->redis.url);
    DOES(w, "--check", w->moved, "--store", w->redis.url);
    manta_error   e;
    manta_client *c = open_client(w);
    assert_int_equal(manta_cluster_backup(c, w->back, &e), MANTA_OK); /* from the head: the same */
    manta_client_close(c);
    DOES(w, "--check", w->back, "--store", w->redis.url);
    assert_int_equal(daemon_end(&w->head, SIGTERM), 0);
    DOES(w, "--restore", w->back, "--state", w->state);
    DOES(w, "--check", w->moved, "--state", w->state);
    start(w, (const char *const[]){"--state", w->state, NULL});
    check_jobs(w, JOBS + 5);
}

static void what_does_not_fit_is_refused(void **state)
{
    struct world *w = *state;
    manta_error   e;
    struct daemon other;
    struct rlimit before, small;
    start(w, NULL);
    submit(w, 0, JOBS);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){64, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    manta_status full = backup(w, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(full, MANTA_EDISK_FULL);
    assert_int_equal(access(w->file, F_OK), -1); /* no half of it */
    backup_ok(w);
    assert_int_equal(daemon_end(&w->head, SIGTERM), 0);
    assert_false(head_does(w, 64, (const char *const[]){"--backup", w->moved, "--state", w->head.state, NULL}));
    assert_non_null(strstr(w->said, "EDISK_FULL"));
    assert_int_equal(access(w->moved, F_OK), -1);
    assert_false(head_does(w, 8192, (const char *const[]){"--restore", w->file, "--state", w->state, NULL}));
    assert_non_null(strstr(w->said, "EDISK_FULL"));
    DOES(w, "--restore", w->file, "--state", w->state); /* nothing was left by that */
    REFUSES(w, "EEXIST", "--backup", w->file, "--state", w->state);
    REFUSES(w, "ENOENT", "--backup", w->back, "--state", "/nowhere");
    REFUSES(w, "ENOENT", "--backup", w->back, "--store", w->redis.url);
    REFUSES(w, "ENOENT", "--check", "/nowhere/backup");
    REFUSES(w, "EFENCED", "--check", w->file, "--cluster", "another");
    assert_int_equal(truncate(w->file, 500), 0);
    REFUSES(w, "ECORRUPT", "--restore", w->file, "--state", w->back);
    assert_non_null(strstr(w->said, "torn"));
    daemon_init(&other); /* another cluster's folder is not replaced */
    assert_true(daemon_start(&other, NULL, NULL));
    assert_int_equal(daemon_end(&other, SIGTERM), 0);
    DOES(w, "--backup", w->moved, "--state", w->head.state);
    REFUSES(w, "EFENCED", "--restore", w->moved, "--state", other.state, "--replace");
    REFUSES(w, "EFENCED", "--check", w->moved, "--state", other.state);
    daemon_fini(&other);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(a_head_that_works_is_backed_up),
        WITH(a_backup_takes_the_place_of_what_is_there),
        WITH(a_cluster_moves_to_redis_and_back),
        WITH(what_does_not_fit_is_refused),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
