/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_test.c - a node that runs short of memory stops the newest task that is tried again, else the newest, and says so;
 * under a real memory group. Skipped, with a word, where none can be made.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIMIT_MIB = 768, QUIET_MIB = 200 };
enum { LEFT_MIB = 16 }; /* the raylet acts when 38 are left, and the kernel when none is: in between nobody takes more */
static char group[256];

static bool write_file(const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", group, name);
    int  fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return done;
}

/* v1 first: where both are mounted, it has the memory controller. */
static bool enter_group(void)
{
    char limit[32], pid[16];
    snprintf(limit, sizeof limit, "%lld", (long long)LIMIT_MIB << 20);
    snprintf(pid, sizeof pid, "%d", getpid());
    snprintf(group, sizeof group, "/sys/fs/cgroup/memory/manta-memory-%d", getpid());
    if (mkdir(group, 0700) == 0 && write_file("memory.limit_in_bytes", limit) && write_file("cgroup.procs", pid))
        return true;
    rmdir(group);
    snprintf(group, sizeof group, "/sys/fs/cgroup/manta-memory-%d", getpid());
    if (mkdir(group, 0700) == 0 && write_file("memory.max", limit) && write_file("cgroup.procs", pid))
        return true;
    rmdir(group);
    return false;
}

static void leave_group(void)
{
    char pid[16], path[sizeof group];
    snprintf(pid, sizeof pid, "%d", getpid());
    snprintf(path, sizeof path, "%s", group);
    snprintf(strrchr(group, '/'), 2, "/");
    write_file("cgroup.procs", pid);
    for (int i = 0; i < 100 && rmdir(path) && errno == EBUSY; i++)
        test_sleep_ms(20);
}

static size_t read_file(const char *name, char *text, size_t size)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", getenv("TEST_GROUP"), name);
    int     fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, size - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got > 0 ? (size_t)got : 0;
}

/* That the group may still take. What the kernel would drop instead counts as free, as it does for the raylet. */
static int64_t left_mib(void)
{
    char        text[8192];
    const char *name = "\ntotal_inactive_file ", *found = NULL;
    if (!read_file("memory.usage_in_bytes", text, sizeof text)) {
        name = "\ninactive_file ";
        CHECK(read_file("memory.current", text, sizeof text) > 0);
    }
    int64_t used = strtoll(text, NULL, 10);
    CHECK(read_file("memory.stat", text, sizeof text) > 0 && (found = strstr(text, name)));
    return LIMIT_MIB - ((used - strtoll(found + strlen(name), NULL, 10)) >> 20);
}

static char *take(size_t mib)
{
    char *p = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < mib << 20; i += 4096)
        p[i] = 1;
    return p;
}

/* Holds some memory until the board's word 1 says enough. */
static manta_status quiet(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    take(QUIET_MIB);
    atomic_fetch_add(&board->words[0], 1);
    return manta_return_i64(c, test_board_wait(&board->words[1], 1));
}
MANTA_REGISTER(quiet, "u>l");

/* Takes a little more, where that is not too much. */
static void grow(void)
{
    if (left_mib() > LEFT_MIB)
        take(1);
    test_sleep_ms(40);
}

/* Takes more and more, and ever less is left than the raylet allows; from attempt `good` on, little. */
static manta_status greedy(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    if (manta_attempt(c) >= argv[1].l)
        return manta_return_i64(c, manta_attempt(c));
    take(LIMIT_MIB - QUIET_MIB - 150);
    for (int64_t end = test_now_ms() + TEST_WAIT_MS; test_now_ms() < end;)
        grow();
    return manta_return_i64(c, -1);
}
MANTA_REGISTER(greedy, "ul>l");

/* A cluster of its own in a memory group; where none can be made, the case is skipped. */
static void grouped_init(void)
{
    manta_error     e;
    manta_init_opts opts = {.num_cpus = 2, .store_memory = 32 << 20};
    bool            is_worker = getenv("MANTA_ROLE") != NULL, is_in = !is_worker && enter_group();
    if (!is_worker && !is_in)
        test_skip("no memory group can be made here");
    setenv("TEST_GROUP", group, !is_worker); /* workers have it from here */
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
}

static void newest_stopped(void)
{
    manta_error e;
    grouped_init();
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_task_opts    once = {.max_retries = MANTA_NO_RETRY};
    manta_ref         *older = manta_call("quiet", &once, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[0], 1));
    CHECK_I64(manta_call("greedy", NULL, MANTA_ARGS(manta_u64(number), manta_i64(1))), 1); /* tried again: it was stopped */
    manta_ref *fails = manta_call("greedy", &once, MANTA_ARGS(manta_u64(number), manta_i64(9)));
    CHECK_FAILS(fails, MANTA_EOOM, &e);
    CHECK_SAYS(e.message, "MiB of memory of its cgroup are in use");
    atomic_store(&board->words[1], 1);
    CHECK_I64(older, 1); /* it was never stopped */
    CHECK_EQ(manta_shutdown(), 0);
    leave_group();
}

/* Takes much the first time, little afterwards, and says when it is there. */
static manta_status patient(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    take(manta_attempt(c) ? 1 : QUIET_MIB);
    atomic_fetch_add(&board->words[0], 1);
    return manta_attempt(c) ? manta_return_i64(c, manta_attempt(c)) : manta_return_i64(c, -test_board_wait(&board->words[1], 1));
}
MANTA_REGISTER(patient, "u>l");

/* Takes more and more until the other one has begun for the second time. */
static manta_status only_once(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    take(LIMIT_MIB - QUIET_MIB - 150);
    for (int64_t end = test_now_ms() + TEST_WAIT_MS; atomic_load(&board->words[0]) < 2 && test_now_ms() < end;)
        grow();
    return manta_return_i64(c, atomic_load(&board->words[0]));
}
MANTA_REGISTER(only_once, "u>l");

/* The newer one is not tried again, so the older one, which is, makes room. */
static void retriable_first(void)
{
    grouped_init();
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_task_opts    once = {.max_retries = MANTA_NO_RETRY};
    manta_ref         *older = manta_call("patient", NULL, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[0], 1));
    CHECK_I64(manta_call("only_once", &once, MANTA_ARGS(manta_u64(number))), 2);
    CHECK_I64(older, 1);
    CHECK_EQ(manta_shutdown(), 0);
    leave_group();
}

static const struct test_case cases[] = {
    {"memory_newest_stopped", newest_stopped, {0}, true, 0},
    {"memory_retriable_first", retriable_first, {0}, true, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
