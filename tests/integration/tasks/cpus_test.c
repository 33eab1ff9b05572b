/* SPDX-License-Identifier: Apache-2.0
 *
 * cpus_test.c - a node runs as many tasks as it has CPUs: those that read and return values of the store, and those that wait for
 * tasks of their own.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/harness.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { CPUS = 2, TILE = 512 * 1024, TILES = 16, ROUNDS = 12 };
enum { BIG = 8 << 20, BIGS = 100 };
enum { RUNNING, BEGUN, OVER, LEAVE, SENT, PIDS = 8, PIDS_MAX = 56 }; /* words of the board */

/* ---- values of the store ---- */

static manta_status tile(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    static char        bytes[TILE];
    (void)argc;
    atomic_fetch_add(&board->words[BEGUN], 1);
    if (atomic_fetch_add(&board->words[RUNNING], 1) >= CPUS)
        atomic_fetch_add(&board->words[OVER], 1);
    for (int i = 0; i < TILE; i++)
        bytes[i] = (char)(((const char *)argv[1].y.data)[i] + 1);
    manta_status code = manta_return_bytes(c, bytes, TILE);
    atomic_fetch_sub(&board->words[RUNNING], 1);
    return code;
}
MANTA_REGISTER(tile, "uy>y");

/* How many of 10 tasks, or fewer, began while others ran on all CPUs. */
static int64_t values_over(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_ref         *tiles[TILES];
    char              *zeros = calloc(1, TILE);
    for (int i = 0; i < TILES; i++)
        tiles[i] = manta_put(zeros, TILE);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < TILES; i++) {
            manta_ref *next = manta_call("tile", NULL, MANTA_ARGS(manta_u64(number), manta_ref_arg(tiles[i])));
            manta_free(tiles[i]);
            tiles[i] = next;
        }
    for (int i = 0; i < TILES; i++) {
        manta_error e;
        manta_view  view;
        CHECK_CODE(manta_get(tiles[i], TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        CHECK_EQ(((const char *)view.data)[TILE - 1], ROUNDS);
        manta_release(&view);
        manta_free(tiles[i]);
    }
    free(zeros);
    CHECK_EQ(board->words[BEGUN], TILES * ROUNDS);
    return (board->words[OVER] * 10 + board->words[BEGUN] - 1) / board->words[BEGUN];
}

/* Each task asks its raylet for room, and some for a segment: that lends no CPU. An answer that a loaded machine makes late does,
 * as it should: then it is tried again. */
static void cpus_values(void)
{
    for (int64_t over, limit = test_now_ms() + TEST_WAIT_MS; (over = values_over()) > 1;)
        if (test_now_ms() > limit)
            test_fail(__FILE__, __LINE__, "%lld of 10 tasks began while others ran on all CPUs", (long long)over);
}

/* ---- a question of a task in whose process another thread waits already ---- */

static manta_status held(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, test_board_wait(&test_board_map(argv[0].u)->words[LEAVE], 1));
}
MANTA_REGISTER(held, "u>l");

static void *wait_beside(void *ref)
{
    int64_t x;
    manta_get_i64(ref, MANTA_FOREVER, &x, NULL);
    manta_free(ref);
    return NULL;
}

/* Each of the puts asks the raylet for room, which the other thread hears first. */
static manta_status asks(manta_ctx *c, int argc, const manta_arg *argv)
{
    static manta_ref  *values[BIGS];
    struct test_board *board = test_board_map(argv[0].u);
    manta_task_opts    beside = {.no_cpu = true};
    char              *zeros = calloc(1, BIG);
    pthread_t          thread;
    (void)argc;
    CHECK(pthread_create(&thread, NULL, wait_beside, manta_call("held", &beside, MANTA_ARGS(argv[0]))) == 0);
    test_sleep_ms(50); /* it leads */
    atomic_store(&board->words[RUNNING], 1);
    CHECK(test_board_wait(&board->words[SENT], atomic_fetch_add(&board->words[BEGUN], 1) + 1));
    test_sleep_ms(50); /* the other task stands at the raylet */
    for (int i = 0; i < BIGS; i++)
        values[i] = manta_put(zeros, BIG);
    for (int i = 0; i < BIGS; i++)
        manta_free(values[i]);
    atomic_store(&board->words[RUNNING], 0);
    atomic_store(&board->words[LEAVE], 1);
    pthread_join(thread, NULL);
    free(zeros);
    return manta_return_i64(c, 0);
}
MANTA_REGISTER(asks, "u>l");

static manta_status begins(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    atomic_fetch_add(&board->words[OVER], atomic_load(&board->words[RUNNING]));
    return manta_return_i64(c, 0);
}
MANTA_REGISTER(begins, "u>l");

/* As above: an answer that a loaded machine makes late lends the CPU. */
static void cpus_thread_beside(void)
{
    enum { TIMES = 3 };
    manta_task_opts    fresh = {.max_calls = 1}, other = {.memory = 1 << 20};
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    int64_t            limit = test_now_ms() + TEST_WAIT_MS, times = 0;
    while (times - board->words[OVER] < TIMES) {
        manta_ref *first = manta_call("asks", &fresh, MANTA_ARGS(manta_u64(number)));
        CHECK(test_board_wait(&board->words[BEGUN], times + 1));
        manta_ref *second = manta_call("begins", &other, MANTA_ARGS(manta_u64(number)));
        board->words[SENT]++;
        CHECK_I64(first, 0);
        CHECK_I64(second, 0);
        atomic_store(&board->words[LEAVE], 0);
        times++;
        if (test_now_ms() > limit)
            test_fail(__FILE__, __LINE__, "%lld of %lld tasks began while another one ran on the only CPU",
                      (long long)board->words[OVER], (long long)times);
    }
}

/* ---- tasks that wait for their own ---- */

static manta_status branch(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    int64_t            depth = argv[1].l, sum = 0, got;
    manta_ref         *below[10];
    manta_error        e = {0};
    (void)argc;
    for (int i = PIDS; i < PIDS + PIDS_MAX; i++) {
        int64_t none = 0;
        if (atomic_compare_exchange_strong(&board->words[i], &none, getpid()) || none == getpid())
            break;
    }
    if (depth == 0)
        return manta_return_i64(c, 1);
    for (int i = 0; i < 10; i++)
        below[i] = manta_call("branch", NULL, MANTA_ARGS(argv[0], manta_i64(depth - 1)));
    for (int i = 0; i < 10; i++) {
        sum += manta_get_i64(below[i], MANTA_FOREVER, &got, &e) == MANTA_OK ? got : -1000000;
        manta_free(below[i]);
    }
    return e.code ? manta_fail(c, e.code, "%s", e.message) : manta_return_i64(c, sum);
}
MANTA_REGISTER(branch, "ul>l");

/* A node without a free CPU starts no process for a task that its own caller can run. */
static void cpus_tree(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    int                pids = 0;
    CHECK_I64(manta_call("branch", NULL, MANTA_ARGS(manta_u64(number), manta_i64(3))), 1000);
    for (int i = PIDS; i < PIDS + PIDS_MAX; i++)
        pids += board->words[i] != 0;
    if (pids > PIDS_MAX - 8)
        test_fail(__FILE__, __LINE__, "%d processes ran a tree of 1,111 tasks on two CPUs", pids);
}

static manta_status falls(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    abort();
}
MANTA_REGISTER(falls, ">l");

static manta_status careful(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_task_opts once = {.max_retries = MANTA_NO_RETRY};
    manta_ref      *child = manta_call("falls", &once, MANTA_NO_ARGS);
    manta_error     e = {0};
    int64_t         x;
    (void)argc, (void)argv;
    manta_get_i64(child, MANTA_FOREVER, &x, &e);
    manta_free(child);
    return manta_return_i64(c, e.code);
}
MANTA_REGISTER(careful, ">l");

/* A child that runs in its parent's place takes it along when it crashes; run again, the parent is told. */
static void cpus_crash(void)
{
    CHECK_I64(manta_call("careful", NULL, MANTA_NO_ARGS), MANTA_EWORKER_DIED);
}

/* ---- leases without work ---- */

static manta_status busy(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t end = test_now_ms() + argv[0].l;
    (void)argc;
    while (test_now_ms() < end)
        ;
    return manta_return_i64(c, 0);
}
MANTA_REGISTER(busy, "l>l");

/* A class whose tasks have ended holds all CPUs. Another one gets them in milliseconds, not after a slice of 100, or as soon as a
 * loaded machine lets it. */
static void cpus_other_class(void)
{
    enum { TIMES = 4, LONG_MS = 50 };
    manta_task_opts both = {.num_cpus = CPUS};
    int64_t         limit = test_now_ms() + TEST_WAIT_MS;
    for (int times = 0, late = 0; times - late < TIMES; times++) {
        manta_ref *first = manta_call("busy", NULL, MANTA_ARGS(manta_i64(20)));
        manta_ref *second = manta_call("busy", NULL, MANTA_ARGS(manta_i64(20)));
        CHECK_I64(first, 0);
        CHECK_I64(second, 0);
        int64_t start = test_now_ms();
        CHECK_I64(manta_call("busy", &both, MANTA_ARGS(manta_i64(0))), 0);
        late += test_now_ms() - start >= LONG_MS * TEST_SLOWER;
        if (test_now_ms() > limit)
            test_fail(__FILE__, __LINE__, "%d of %d times another class waited %d ms beside leases without work", late, times + 1,
                      LONG_MS * TEST_SLOWER);
    }
}

static const struct test_case cases[] = {
    {"cpus_values", cpus_values, {.num_cpus = CPUS}, false, 0},
    {"cpus_thread_beside", cpus_thread_beside, {.num_cpus = 1}, false, 0},
    {"cpus_tree", cpus_tree, {.num_cpus = CPUS}, false, 0},
    {"cpus_other_class", cpus_other_class, {.num_cpus = CPUS}, false, 0},
    {"cpus_crash", cpus_crash, {.num_cpus = 1}, false, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
