/* SPDX-License-Identifier: Apache-2.0
 *
 * private_test.c - the cluster of one driver: it works, it goes when the driver goes, and deaths of its parts are told.
 *
 * Thread: the driver's main one. That nothing is left is checked by the harness after each case.
 */
#include "tests/integration/harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

MANTA_TASK(int64_t, add, (int64_t, a), (int64_t, b))
{
    return a + b;
}
static manta_status sleeper(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    atomic_fetch_add(&board->words[0], 1);
    test_sleep_ms(TEST_WAIT_MS);
    return manta_return_i64(c, 0);
}
MANTA_REGISTER(sleeper, "u>l");

static manta_status nobody_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    return MANTA_OK;
}
static manta_status nobody_pid(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, getpid());
}
MANTA_ACTOR(nobody, "", nobody_new, NULL, {"pid", ">l", nobody_pid});

/* Tasks that run and wait, actors, objects: a bit of everything is under way. */
static void be_busy(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    char              *data = calloc(1, 8 << 20);
    for (int i = 0; i < 20; i++)
        manta_call("sleeper", NULL, MANTA_ARGS(manta_u64(number)));
    for (int i = 0; i < 3; i++)
        test_i64(manta_actor_call(manta_actor_new("nobody", NULL, MANTA_NO_ARGS), "pid", MANTA_NO_ARGS), __FILE__, __LINE__);
    manta_put(data, 8 << 20);
    CHECK(test_board_wait(&board->words[0], 2));
    free(data);
}

/* ---- the driver goes ---- */
static void shutdown_busy(void)
{
    be_busy();
}
static void killed_idle(void)
{
    CHECK_I64(add_remote(NULL, 1, 2), 3);
    kill(getpid(), SIGKILL);
}
static void killed_busy(void)
{
    be_busy();
    kill(getpid(), SIGKILL);
}
static void killed_at_once(void)
{
    kill(getpid(), SIGKILL);
}
static void exits_without_shutdown(void)
{
    be_busy();
    _exit(0);
}
static void held_handles(void)
{
    char         data[5000] = {1};
    manta_ref   *value = manta_put(data, sizeof data), *sum = add_remote(NULL, 1, 2), *done = add_remote(NULL, 1, 3);
    manta_actor *actor = manta_actor_new("nobody", NULL, MANTA_NO_ARGS);
    manta_error  e;
    int64_t      x;
    CHECK_CODE(manta_get_i64(done, TEST_WAIT_MS, &x, &e), MANTA_OK, &e);
    CHECK_EQ(manta_shutdown(), 0);
    manta_free(value), manta_free(sum), manta_free(done);
    manta_actor_free(actor);
    CHECK_EQ(manta_shutdown(), 0);
}

/* ---- parts go ---- */
static int part(const char *name)
{
    int pids[4];
    CHECK_EQ(test_find(getpid(), name, pids, 4), 1);
    return pids[0];
}

static void raylet_killed(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_error        e;
    manta_ref         *held = manta_call("sleeper", NULL, MANTA_ARGS(manta_u64(number)));
    manta_ref         *done = add_remote(NULL, 4, 5);
    int64_t            x;
    CHECK_CODE(manta_get_i64(done, TEST_WAIT_MS, &x, &e), MANTA_OK, &e);
    CHECK(test_board_wait(&board->words[0], 1));
    CHECK_EQ(kill(part("manta-raylet"), SIGKILL), 0);
    CHECK_FAILS(held, MANTA_ECONN, &e); /* told, not waited for */
    CHECK_FAILS(add_remote(NULL, 1, 2), MANTA_ECONN, &e);
    CHECK_CODE(manta_get_i64(done, 0, &x, &e), MANTA_OK, &e); /* what is here stays here */
    manta_free(done);
}

/* Without the head, tasks and actors go on. */
static void head_killed(void)
{
    manta_actor *a = manta_actor_new("nobody", NULL, MANTA_NO_ARGS);
    int64_t      pid = test_i64(manta_actor_call(a, "pid", MANTA_NO_ARGS), __FILE__, __LINE__);
    int          head = part("manta-head");
    CHECK_EQ(kill(head, SIGKILL), 0);
    CHECK(test_gone(head));
    for (int i = 0; i < 100; i++)
        CHECK_I64(add_remote(NULL, i, 1), i + 1);
    CHECK_I64(manta_actor_call(a, "pid", MANTA_NO_ARGS), pid);
    manta_actor *b = manta_actor_new("nobody", NULL, MANTA_NO_ARGS);
    CHECK(test_i64(manta_actor_call(b, "pid", MANTA_NO_ARGS), __FILE__, __LINE__) != pid);
    manta_actor_free(a), manta_actor_free(b);
}

static void zygote_killed(void)
{
    int pids[64], workers = 0;
    CHECK_I64(add_remote(NULL, 1, 2), 3);
    int raylet = part("manta-raylet"), count = test_find(raylet, NULL, pids, 64);
    for (int i = 0; i < count; i++)
        workers += kill(pids[i], SIGKILL) == 0; /* the zygote and each of its workers */
    CHECK(workers > 0);
    for (int i = 0; i < 100; i++)
        CHECK_I64(add_remote(NULL, i, 1), i + 1);
}

/* ---- what it says about itself ---- */
static void nodes(void)
{
    manta_node_info info[4];
    manta_error     e;
    int64_t         limit = test_now_ms() + TEST_WAIT_MS;
    int             count;
    do { /* the head may still be on its way */
        count = manta_nodes(info, 4, &e);
        if (count < 1)
            test_sleep_ms(5);
    } while (count < 1 && test_now_ms() < limit);
    CHECK_EQ(count, 1);
    CHECK_EQ(info[0].node, manta_node());
    CHECK(info[0].alive && info[0].cpus == 3 && info[0].gpus == 0 && info[0].name[0]);
    CHECK_EQ(manta_nodes(info, 0, &e), 1);
}

/* ---- a process without standard streams: nothing of ours is mistaken for one ---- */
static void closed_streams(void)
{
    manta_error e;
    int         saved = fcntl(2, F_DUPFD_CLOEXEC, 100);
    close(0), close(1), close(2);
    manta_status code = manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 2}, &e);
    manta_ref   *ref = code ? NULL : add_remote(NULL, 20, 3);
    int64_t      x = 0;
    if (!code)
        code = manta_get_i64(ref, TEST_WAIT_MS, &x, &e);
    manta_free(ref);
    manta_shutdown();
    dup2(saved, 2);
    CHECK_CODE(code, MANTA_OK, &e);
    CHECK_EQ(x, 23);
}

/* What the driver has open is its own: no daemon, zygote or worker has it too, and a lock goes when the
 * driver lets it go. */
static void own_descriptors(void)
{
    static const int at[] = {3, 9, 300};
    manta_error e;
    char path[300];
    int fd = -1;
    snprintf(path, sizeof path, "%s/held", getenv("XDG_RUNTIME_DIR"));
    for (int i = 0; i < 3 && !getenv("MANTA_ROLE"); i++) { /* the program of the workers is this one */
        fd = open(path, O_RDWR | O_CREAT, 0600);
        CHECK_EQ(dup2(fd, at[i]), at[i]);
        if (fd != at[i])
            close(fd);
    }
    CHECK(getenv("MANTA_ROLE") || flock(9, LOCK_EX) == 0);
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 2}, &e), MANTA_OK, &e);
    CHECK_I64(add_remote(NULL, 1, 2), 3);
    manta_actor *a = manta_actor_new("nobody", NULL, MANTA_NO_ARGS);
    CHECK(test_i64(manta_actor_call(a, "pid", MANTA_NO_ARGS), __FILE__, __LINE__) > 0);
    CHECK_EQ(test_holders(path), 0);
    for (int i = 0; i < 3; i++)
        close(at[i]);
    fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
    close(fd);
    unlink(path);
    manta_actor_free(a);
    CHECK_EQ(manta_shutdown(), 0);
}

/* Descriptors run out in the driver: an error, not a hang. */
static void no_descriptors(void)
{
    manta_error   e;
    struct rlimit few = {8, 8};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    int last = -1, fd;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0) {
        last = fd;
    }
    CHECK(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 2, .timeout_ms = 2000}, &e) != MANTA_OK);
    CHECK(e.message[0]);
    close(last); /* AddressSanitizer needs one to look for leaks */
}

#define TWO_CPUS {.num_cpus = 2}, false
static const struct test_case cases[] = {
    {"shutdown_busy", shutdown_busy, TWO_CPUS, 0},
    {"killed_idle", killed_idle, TWO_CPUS, SIGKILL},
    {"killed_busy", killed_busy, TWO_CPUS, SIGKILL},
    {"killed_at_once", killed_at_once, TWO_CPUS, SIGKILL},
    {"exits_without_shutdown", exits_without_shutdown, TWO_CPUS, 0},
    {"held_handles", held_handles, TWO_CPUS, 0},
    {"raylet_killed", raylet_killed, TWO_CPUS, 0},
    {"head_killed", head_killed, TWO_CPUS, 0},
    {"zygote_killed", zygote_killed, TWO_CPUS, 0},
    {"nodes", nodes, {.num_cpus = 3}, false, 0},
    {"closed_streams", closed_streams, {0}, true, 0},
    {"own_descriptors", own_descriptors, {0}, true, 0},
    {"no_descriptors", no_descriptors, {0}, true, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
