/* SPDX-License-Identifier: Apache-2.0
 *
 * streams_test.c - generators: items in order, each once, with back-pressure, through deaths on either side.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- what runs in the workers ---- */

static manta_status numbers(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_status st = MANTA_OK;
    (void)argc;
    for (int64_t i = 0; i < argv[0].l && st == MANTA_OK; i++)
        st = manta_yield(c, manta_i64(i));
    return st;
}
MANTA_REGISTER(numbers, "l>l");

/* One of each type and size. */
static manta_status mixed(manta_ctx *c, int argc, const manta_arg *argv)
{
    char *large = malloc(1 << 20);
    (void)argc, (void)argv;
    memset(large, 'L', 1 << 20);
    manta_yield(c, manta_f64(2.5));
    manta_yield(c, manta_bool(true));
    manta_yield(c, manta_str("text"));
    manta_yield(c, manta_bytes_of(NULL, 0));
    manta_yield(c, manta_bytes_of(large, 4096));
    manta_yield(c, manta_bytes_of(large, 4097));
    manta_yield(c, manta_bytes_of(large, 1 << 20));
    manta_yield(c, manta_u64(UINT64_MAX));
    free(large);
    return MANTA_OK;
}
MANTA_REGISTER(mixed, ">*");

/* Items until the consumer stops it; the board says how many were handed out, and how it ended. */
static manta_status endless(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    char               bytes[64] = {0};
    manta_status       st;
    (void)argc;
    atomic_store(&board->words[1], getpid());
    while ((st = manta_yield(c, manta_bytes_of(bytes, sizeof bytes))) == MANTA_OK)
        atomic_fetch_add(&board->words[0], 1);
    atomic_store(&board->words[2], st);
    return MANTA_OK;
}
MANTA_REGISTER(endless, "u>y");

/* Yields up to item `at`, large ones too, then dies in its first `deaths` attempts. */
static manta_status mortal(manta_ctx *c, int argc, const manta_arg *argv)
{
    char *large = calloc(1, 8192);
    (void)argc;
    for (int64_t i = 0; i < argv[0].l; i++) {
        if (i == argv[1].l && manta_attempt(c) < argv[2].l)
            raise(SIGKILL);
        memcpy(large, &i, sizeof i);
        if (manta_yield(c, manta_bytes_of(large, i % 5 ? 8 : 8192)))
            break;
    }
    free(large);
    return MANTA_OK;
}
MANTA_REGISTER(mortal, "lll>y");

static manta_status gives_up(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    for (int64_t i = 0; i < argv[0].l; i++)
        manta_yield(c, manta_i64(i));
    return manta_fail(c, 3, "no more after %lld", (long long)argv[0].l);
}
MANTA_REGISTER(gives_up, "l>l");

static manta_status wrong_type(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    manta_yield(c, manta_i64(1));
    return manta_yield(c, manta_f64(1));
}
MANTA_REGISTER(wrong_type, ">l");

static manta_status slow(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    manta_yield(c, manta_i64(1));
    manta_yield(c, manta_i64(2));
    test_board_wait(&board->words[0], 1);
    return manta_yield(c, manta_i64(3));
}
MANTA_REGISTER(slow, "u>l");

MANTA_TASK(int64_t, plus_one, (int64_t, x))
{
    return x + 1;
}
static manta_status size_of(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, (int64_t)argv[0].y.size);
}
MANTA_REGISTER(size_of, "y>l");

/* ---- the driver's side ---- */

static int64_t item_i64(manta_generator *g)
{
    manta_error e;
    manta_view  view;
    int64_t     value;
    CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(view.size, 8);
    memcpy(&value, view.data, sizeof value);
    manta_release(&view);
    return value;
}

static void ends(manta_generator *g)
{
    manta_error e;
    manta_view  view;
    CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_EEND, &e);
    CHECK_CODE(manta_next(g, 0, &view, &e), MANTA_EEND, &e);
    manta_generator_free(g);
}

static void stream(void)
{
    enum { N = 300000 };
    manta_generator *g = manta_call_stream("numbers", NULL, MANTA_ARGS(manta_i64(N)));
    for (int64_t i = 0; i < N; i++)
        CHECK_EQ(item_i64(g), i);
    ends(g);
    ends(manta_call_stream("numbers", NULL, MANTA_ARGS(manta_i64(0))));
}

static void stream_types(void)
{
    static const size_t sizes[] = {8, 1, 4, 0, 4096, 4097, 1 << 20, 8};
    static const char   types[] = "dbsyyyyu";
    manta_error         e;
    manta_view          view;
    manta_generator    *g = manta_call_stream("mixed", NULL, MANTA_NO_ARGS);
    for (int i = 0; i < 8; i++) {
        CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        CHECK_EQ(view.type, types[i]);
        CHECK_EQ(view.size, sizes[i]);
        if (types[i] == 's')
            CHECK_STR((const char *)view.data, "text");
        if (sizes[i] > 100)
            CHECK(((const char *)view.data)[sizes[i] - 1] == 'L');
        manta_release(&view);
    }
    ends(g);
}

/* Items as refs: passed on, and outliving the generator. */
static void stream_refs(void)
{
    manta_error      e;
    manta_ref       *refs[8], *next;
    manta_generator *g = manta_call_stream("mixed", NULL, MANTA_NO_ARGS);
    for (int i = 0; i < 8; i++)
        CHECK_CODE(manta_next_ref(g, TEST_WAIT_MS, &refs[i], &e), MANTA_OK, &e);
    CHECK_CODE(manta_next_ref(g, TEST_WAIT_MS, &next, &e), MANTA_EEND, &e);
    manta_generator_free(g);
    for (int i = 3; i < 7; i++)
        CHECK_I64(manta_call("size_of", NULL, MANTA_ARGS(manta_ref_arg(refs[i]))), i == 3 ? 0 : i == 6 ? 1 << 20 : 4092 + i);
    for (int i = 0; i < 8; i++)
        manta_free(refs[i]);
}

/* Nobody takes: the producer stops at its bound, and goes on by as much as is taken. */
static void stream_blocks(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_task_opts    opts = {.backpressure = 10};
    manta_error        e;
    manta_view         view;
    manta_generator   *g = manta_call_stream("endless", &opts, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[0], 10));
    test_sleep_ms(50);
    CHECK_EQ(atomic_load(&board->words[0]), 10);
    for (int i = 0; i < 1000; i++) {
        CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        CHECK(atomic_load(&board->words[0]) <= i + 11);
        manta_release(&view);
    }
    manta_generator_free(g);
    CHECK(test_board_wait(&board->words[2], 1));
    CHECK_EQ(atomic_load(&board->words[2]), MANTA_ECANCELLED);
}

static void stream_freed(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_error        e;
    manta_view         view;
    manta_generator   *g = manta_call_stream("endless", NULL, MANTA_ARGS(manta_u64(number)));
    CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    manta_generator_free(g);
    CHECK(test_board_wait(&board->words[2], MANTA_ECANCELLED));
    CHECK_I64(plus_one_remote(NULL, 1), 2);                                                  /* the worker serves others */
    manta_generator_free(manta_call_stream("endless", NULL, MANTA_ARGS(manta_u64(number)))); /* before it begins */
    CHECK_I64(plus_one_remote(NULL, 1), 2);
    manta_generator_free(NULL);
}

/* The consumer is an actor that is killed; the producer, an actor too, hears of it and lives on. */
static manta_status box_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = calloc(1, sizeof(int64_t));
    return MANTA_OK;
}
static manta_status producer_endless(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self;
    return endless(c, argc, argv);
}
static manta_status producer_numbers(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    ++*(int64_t *)self;
    return numbers(c, argc, argv);
}
static manta_status producer_calls(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, *(int64_t *)self);
}
MANTA_ACTOR(producer, "", box_new, free, {"endless", "u>y", producer_endless}, {"numbers", "l>l", producer_numbers},
            {"calls", ">l", producer_calls});
static manta_status consumer_begin(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_error      e;
    manta_view       view;
    manta_generator *g = manta_actor_call_stream(argv[0].A, "endless", 5, MANTA_ARGS(argv[1]));
    (void)self, (void)argc;
    if (manta_next(g, TEST_WAIT_MS, &view, &e))
        return manta_fail(c, 1, "%s", e.message);
    manta_release(&view);
    return manta_return_i64(c, getpid());
}
MANTA_ACTOR(consumer, "", box_new, free, {"begin", "Au>l", consumer_begin});

static void stream_consumer_dies(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_error        e;
    int64_t            pid;
    manta_actor       *producer = manta_actor_new("producer", NULL, MANTA_NO_ARGS);
    manta_actor       *consumer = manta_actor_new("consumer", NULL, MANTA_NO_ARGS);
    manta_ref         *r = manta_actor_call(consumer, "begin", MANTA_ARGS(manta_actor_arg(producer), manta_u64(number)));
    CHECK_CODE(manta_get_i64(r, TEST_WAIT_MS, &pid, &e), MANTA_OK, &e);
    manta_free(r);
    CHECK(test_board_wait(&board->words[0], 5));
    CHECK_EQ(atomic_load(&board->words[2]), 0);
    kill((pid_t)pid, SIGKILL);
    CHECK(test_board_wait(&board->words[2], 1));
    CHECK_EQ(atomic_load(&board->words[2]), MANTA_ECANCELLED);
    CHECK_I64(manta_actor_call(producer, "calls", MANTA_NO_ARGS), 0);
    manta_actor_free(producer);
    manta_actor_free(consumer);
}

static void stream_fails(void)
{
    manta_error      e;
    manta_view       view;
    manta_generator *g = manta_call_stream("gives_up", NULL, MANTA_ARGS(manta_i64(100)));
    for (int64_t i = 0; i < 100; i++)
        CHECK_EQ(item_i64(g), i);
    for (int i = 0; i < 3; i++) {
        CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_ETASK, &e);
        CHECK_EQ(e.user_code, 3);
        CHECK_STR(e.message, "no more after 100");
    }
    manta_generator_free(g);
    g = manta_call_stream("wrong_type", NULL, MANTA_NO_ARGS);
    CHECK_EQ(item_i64(g), 1);
    CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "item 1 is 'd', not 'l'");
    manta_generator_free(g);
}

/* Takes `count` items of mortal. */
static void take_mortal(manta_generator *g, int64_t from, int64_t count)
{
    for (int64_t i = from; i < from + count; i++) {
        manta_error e;
        manta_view  view;
        CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        CHECK_EQ(view.size, i % 5 ? 8 : 8192);
        CHECK(memcmp(view.data, &i, sizeof i) == 0);
        manta_release(&view);
    }
}

/* Deaths before, at and beyond what the consumer has taken; with the smallest window too. */
static void stream_retry(void)
{
    static const int behind[] = {1, 16, 0};
    for (int k = 0; k < 3; k++) {
        manta_task_opts  opts = {.backpressure = behind[k]};
        manta_generator *g = manta_call_stream("mortal", &opts, MANTA_ARGS(manta_i64(200), manta_i64(77), manta_i64(2)));
        take_mortal(g, 0, 200);
        ends(g);
    }
}

static void stream_no_retry(void)
{
    manta_task_opts  none = {.max_retries = MANTA_NO_RETRY};
    manta_error      e;
    manta_view       view;
    manta_generator *g = manta_call_stream("mortal", &none, MANTA_ARGS(manta_i64(200), manta_i64(77), manta_i64(1)));
    take_mortal(g, 0, 77);
    CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_EWORKER_DIED, &e);
    CHECK_EQ(e.signal_number, SIGKILL);
    manta_generator_free(g);
}

static void stream_of_actor(void)
{
    manta_error      e;
    manta_view       view;
    manta_actor     *producer = manta_actor_new("producer", NULL, MANTA_NO_ARGS);
    manta_generator *g = manta_actor_call_stream(producer, "numbers", 0, MANTA_ARGS(manta_i64(5000)));
    for (int64_t i = 0; i < 5000; i++)
        CHECK_EQ(item_i64(g), i);
    ends(g);
    CHECK_I64(manta_actor_call(producer, "calls", MANTA_NO_ARGS), 1);
    manta_actor_kill(producer, false);
    do {
        g = manta_actor_call_stream(producer, "numbers", 0, MANTA_ARGS(manta_i64(1)));
        CHECK(manta_next(g, TEST_WAIT_MS, &view, &e) == MANTA_OK || e.code == MANTA_EACTOR_DIED);
        manta_generator_free(g);
    } while (e.code != MANTA_EACTOR_DIED);
    manta_actor_free(producer);
}

/* Two at a time, taken in turns. */
static void stream_two(void)
{
    manta_generator *a = manta_call_stream("numbers", NULL, MANTA_ARGS(manta_i64(20000)));
    manta_generator *b = manta_call_stream("numbers", NULL, MANTA_ARGS(manta_i64(20000)));
    for (int64_t i = 0; i < 20000; i++) {
        CHECK_EQ(item_i64(a), i);
        CHECK_EQ(item_i64(b), i);
    }
    ends(a);
    ends(b);
}

/* Items are there at once, also when the next is long in coming. */
static void stream_timeout(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_error        e;
    manta_view         view;
    manta_generator   *g = manta_call_stream("slow", NULL, MANTA_ARGS(manta_u64(number)));
    CHECK_EQ(item_i64(g), 1);
    CHECK_EQ(item_i64(g), 2);
    CHECK_CODE(manta_next(g, 0, &view, &e), MANTA_ETIMEDOUT, &e);
    CHECK_CODE(manta_next(g, 20, &view, &e), MANTA_ETIMEDOUT, &e);
    atomic_store(&board->words[0], 1);
    CHECK_EQ(item_i64(g), 3);
    ends(g);
}

/* Tasks that stood behind a generator in its worker's ring go elsewhere while it blocks. */
static void stream_beside_tasks(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_generator   *g = manta_call_stream("endless", NULL, MANTA_ARGS(manta_u64(number)));
    manta_ref         *refs[200];
    for (int i = 0; i < 200; i++)
        refs[i] = plus_one_remote(NULL, i);
    for (int i = 0; i < 200; i++)
        CHECK_I64(refs[i], i + 1);
    CHECK(test_board_wait(&board->words[0], 1024));
    manta_generator_free(g);
}

static void fails_with(manta_generator *g, manta_status code, const char *says)
{
    manta_error e;
    manta_view  view;
    manta_ref  *ref;
    CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), code, &e);
    CHECK_SAYS(e.message, says);
    CHECK_CODE(manta_next_ref(g, TEST_WAIT_MS, &ref, &e), code, &e);
    manta_generator_free(g);
}

static void stream_wrong(void)
{
    manta_error      e;
    manta_view       view;
    manta_task_opts  behind = {.backpressure = -1}, far = {.backpressure = 1 << 20};
    manta_generator *g;
    fails_with(manta_call_stream("no_such", NULL, MANTA_NO_ARGS), MANTA_ENOFUNC, "no_such");
    fails_with(manta_call_stream("numbers", NULL, MANTA_NO_ARGS), MANTA_ETYPE, "numbers");
    fails_with(manta_call_stream("numbers", &behind, MANTA_ARGS(manta_i64(1))), MANTA_EINVAL, "backpressure -1");
    fails_with(manta_call_stream("numbers", &far, MANTA_ARGS(manta_i64(1))), MANTA_EINVAL, "backpressure");
    fails_with(manta_actor_call_stream(NULL, "numbers", 0, MANTA_NO_ARGS), MANTA_EINVAL, "NULL");
    fails_with(manta_call_stream("plus_one", NULL, MANTA_ARGS(manta_i64(1))), MANTA_EINVAL, "returns no value");
    CHECK_FAILS(manta_call("numbers", NULL, MANTA_ARGS(manta_i64(1))), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "manta_call_stream");
    g = manta_call_stream("numbers", NULL, MANTA_ARGS(manta_i64(1)));
    CHECK_CODE(manta_next(g, TEST_WAIT_MS, NULL, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_next(NULL, TEST_WAIT_MS, &view, &e), MANTA_EINVAL, &e);
    CHECK_EQ(item_i64(g), 0);
    ends(g);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {.name = "stream", .run = stream},
        {.name = "stream_types", .run = stream_types},
        {.name = "stream_refs", .run = stream_refs},
        {.name = "stream_blocks", .run = stream_blocks},
        {.name = "stream_freed", .run = stream_freed, .opts = {.num_cpus = 1}},
        {.name = "stream_consumer_dies", .run = stream_consumer_dies},
        {.name = "stream_fails", .run = stream_fails},
        {.name = "stream_retry", .run = stream_retry},
        {.name = "stream_no_retry", .run = stream_no_retry},
        {.name = "stream_of_actor", .run = stream_of_actor},
        {.name = "stream_two", .run = stream_two, .opts = {.num_cpus = 2}},
        {.name = "stream_timeout", .run = stream_timeout},
        {.name = "stream_wrong", .run = stream_wrong},
        {.name = "stream_beside_tasks", .run = stream_beside_tasks, .opts = {.num_cpus = 1}},
        {.name = NULL},
    };
    return test_main(argc, argv, cases);
}
