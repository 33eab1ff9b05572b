/* SPDX-License-Identifier: Apache-2.0
 *
 * results_test.c - several results, values that declare refs, and manta_map.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- several results ---- */

/* Quotient and remainder, and what it did in words; results in no order. */
static manta_status divide(manta_ctx *c, int argc, const manta_arg *argv)
{
    char text[64];
    (void)argc;
    if (argv[1].l == 0)
        return manta_fail(c, 5, "%lld / 0", (long long)argv[0].l);
    snprintf(text, sizeof text, "%lld / %lld", (long long)argv[0].l, (long long)argv[1].l);
    manta_return_at(c, 2, manta_str(text));
    manta_return_at(c, 0, manta_i64(argv[0].l / argv[1].l));
    return manta_return_at(c, 1, manta_i64(argv[0].l % argv[1].l));
}
MANTA_REGISTER(divide, "ll>lls");

/* As many as are asked for: 0, 1, 2, ...; argument: how many to leave out at the end. */
static manta_status count_up(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    for (int i = 0; i < (int)argv[0].l; i++) {
        manta_status st = manta_return_at(c, i, manta_i64(i));
        if (st)
            return st;
    }
    return MANTA_OK;
}
MANTA_REGISTER(count_up, "l>*");

/* Two blocks, the second large. */
static manta_status blocks(manta_ctx *c, int argc, const manta_arg *argv)
{
    char *data = calloc(1, (size_t)argv[0].l);
    (void)argc;
    memset(data, 'x', (size_t)argv[0].l);
    manta_return_at(c, 0, manta_bytes_of(data, 3000));
    manta_return_at(c, 1, manta_bytes_of(data, (size_t)argv[0].l));
    manta_return_at(c, 2, manta_bytes_of(NULL, 0));
    free(data);
    return MANTA_OK;
}
MANTA_REGISTER(blocks, "l>yyy");

/* What gives one value gives the first of several. */
static manta_status first_then_second(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    manta_return_i64(c, argv[0].l);
    return manta_return_at(c, 1, manta_i64(2 * argv[0].l));
}
MANTA_REGISTER(first_then_second, "l>ll");

static manta_status two_after_death(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    manta_return_at(c, 0, manta_i64(manta_attempt(c)));
    if (manta_attempt(c) < argv[0].l)
        raise(SIGKILL);
    return manta_return_at(c, 1, manta_i64(7));
}
MANTA_REGISTER(two_after_death, "l>ll");

MANTA_TASK(int64_t, plus_one, (int64_t, x))
{
    return x + 1;
}

static void several(void)
{
    manta_error e;
    manta_ref  *r[3];
    manta_view  view;
    CHECK_EQ(manta_call_n("divide", NULL, MANTA_ARGS(manta_i64(47), manta_i64(5)), r, 3), MANTA_OK);
    CHECK_I64(r[0], 9);
    CHECK_I64(r[1], 2);
    CHECK_CODE(manta_get(r[2], TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_STR((const char *)view.data, "47 / 5");
    manta_release(&view);
    manta_free(r[2]);
}

/* Each is a ref of its own: waited for, passed on, freed before it is there, in any order. */
static void several_alone(void)
{
    enum { ROUNDS = 200, N = 10 };
    for (int round = 0; round < ROUNDS; round++) {
        manta_ref    *r[N], *next;
        manta_error   e;
        unsigned char ready[N];
        CHECK_EQ(manta_call_n("count_up", NULL, MANTA_ARGS(manta_i64(N)), r, N), MANTA_OK);
        manta_free(r[round % N]);
        r[round % N] = NULL;
        next = plus_one_remote(NULL, 0);
        manta_free(next);
        next = manta_call("plus_one", NULL, MANTA_ARGS(manta_ref_arg(r[(round + 3) % N])));
        r[round % N] = next;
        CHECK_EQ(manta_wait(r, N, N, TEST_WAIT_MS, ready, &e), N);
        for (int i = 0; i < N; i++)
            CHECK_I64(r[i], i == round % N ? (round + 3) % N + 1 : i);
    }
}

static void several_large(void)
{
    enum { SIZE = 3 << 20 };
    manta_error e;
    manta_ref  *r[3];
    manta_view  view;
    size_t      sizes[] = {3000, SIZE, 0};
    CHECK_EQ(manta_call_n("blocks", NULL, MANTA_ARGS(manta_i64(SIZE)), r, 3), MANTA_OK);
    for (int i = 2; i >= 0; i--) {
        CHECK_CODE(manta_get(r[i], TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        CHECK_EQ(view.size, sizes[i]);
        CHECK(view.size == 0 || ((const char *)view.data)[view.size - 1] == 'x');
        manta_release(&view);
        manta_free(r[i]);
    }
    manta_ref *many[MANTA_RETURNS_MAX];
    CHECK_EQ(manta_call_n("count_up", NULL, MANTA_ARGS(manta_i64(MANTA_RETURNS_MAX)), many, MANTA_RETURNS_MAX), MANTA_OK);
    for (int i = 0; i < MANTA_RETURNS_MAX; i++)
        CHECK_I64(many[i], i);
}

static void several_missing(void)
{
    manta_error e;
    manta_ref  *r[4];
    CHECK_EQ(manta_call_n("first_then_second", NULL, MANTA_ARGS(manta_i64(21)), r, 2), MANTA_OK);
    CHECK_I64(r[0], 21);
    CHECK_I64(r[1], 42);
    CHECK_EQ(manta_call_n("count_up", NULL, MANTA_ARGS(manta_i64(3)), r, 4), MANTA_OK);
    for (int i = 0; i < 4; i++)
        CHECK_FAILS(r[i], MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "without its result 3 of 4");
    CHECK_EQ(manta_call_n("count_up", NULL, MANTA_ARGS(manta_i64(5)), r, 4), MANTA_OK);
    for (int i = 0; i < 4; i++)
        CHECK_FAILS(r[i], MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "result 4 of 4");
}

static void several_wrong(void)
{
    manta_error e;
    manta_ref  *r[3];
    CHECK_FAILS(manta_call("divide", NULL, MANTA_ARGS(manta_i64(1), manta_i64(1))), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "returns 3 values");
    CHECK_EQ(manta_call_n("divide", NULL, MANTA_ARGS(manta_i64(1), manta_i64(1)), r, 2), MANTA_OK);
    CHECK_FAILS(r[0], MANTA_ETYPE, &e);
    CHECK_FAILS(r[1], MANTA_ETYPE, &e);
    CHECK_EQ(manta_call_n("no_such", NULL, MANTA_NO_ARGS, r, 3), MANTA_OK);
    for (int i = 0; i < 3; i++)
        CHECK_FAILS(r[i], MANTA_ENOFUNC, &e);
    CHECK_EQ(manta_call_n("divide", NULL, MANTA_ARGS(manta_i64(1)), r, 3), MANTA_OK);
    for (int i = 0; i < 3; i++)
        CHECK_FAILS(r[i], MANTA_ETYPE, &e);
    CHECK_EQ(manta_call_n("divide", NULL, MANTA_NO_ARGS, NULL, 3), MANTA_EINVAL);
    CHECK_EQ(manta_call_n("divide", NULL, MANTA_NO_ARGS, r, 0), MANTA_EINVAL);
    CHECK_EQ(manta_call_n("divide", NULL, MANTA_NO_ARGS, r, MANTA_RETURNS_MAX + 1), MANTA_EINVAL);
    CHECK_EQ(manta_call_n("divide", NULL, MANTA_NO_ARGS, r, -1), MANTA_EINVAL);
}

static void several_fail(void)
{
    manta_error e;
    manta_ref  *r[3], *next;
    CHECK_EQ(manta_call_n("divide", NULL, MANTA_ARGS(manta_i64(47), manta_i64(0)), r, 3), MANTA_OK);
    next = manta_call("plus_one", NULL, MANTA_ARGS(manta_ref_arg(r[1])));
    for (int i = 0; i < 3; i++) {
        CHECK_FAILS(r[i], MANTA_ETASK, &e);
        CHECK_EQ(e.user_code, 5);
        CHECK_STR(e.message, "47 / 0");
    }
    CHECK_FAILS(next, MANTA_ETASK, &e);
}

static void several_retry(void)
{
    manta_error     e;
    manta_ref      *r[2];
    manta_task_opts none = {.max_retries = MANTA_NO_RETRY};
    CHECK_EQ(manta_call_n("two_after_death", NULL, MANTA_ARGS(manta_i64(2)), r, 2), MANTA_OK);
    CHECK_I64(r[0], 2);
    CHECK_I64(r[1], 7);
    CHECK_EQ(manta_call_n("two_after_death", &none, MANTA_ARGS(manta_i64(1)), r, 2), MANTA_OK);
    CHECK_FAILS(r[0], MANTA_EWORKER_DIED, &e);
    CHECK_FAILS(r[1], MANTA_EWORKER_DIED, &e);
}

static manta_status box_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = calloc(1, sizeof(int64_t));
    return MANTA_OK;
}
static manta_status box_swap(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    int64_t *value = self;
    (void)argc;
    manta_return_at(c, 0, manta_i64(*value));
    *value = argv[0].l;
    return manta_return_at(c, 1, manta_i64(getpid()));
}
MANTA_ACTOR(box, "", box_new, free, {"swap", "l>ll", box_swap});

static void several_of_actor(void)
{
    manta_error  e;
    manta_actor *box = manta_actor_new("box", NULL, MANTA_NO_ARGS);
    manta_ref   *r[2];
    int64_t      pid = 0;
    for (int i = 1; i < 50; i++) {
        CHECK_EQ(manta_actor_call_n(box, "swap", MANTA_ARGS(manta_i64(i)), r, 2), MANTA_OK);
        CHECK_I64(r[0], i - 1);
        CHECK_CODE(manta_get_i64(r[1], TEST_WAIT_MS, &pid, &e), MANTA_OK, &e);
        manta_free(r[1]);
    }
    kill((pid_t)pid, SIGKILL);
    do {
        CHECK_EQ(manta_actor_call_n(box, "swap", MANTA_ARGS(manta_i64(1)), r, 2), MANTA_OK);
        manta_free(r[0]);
    } while (manta_get_i64(r[1], TEST_WAIT_MS, &pid, &e) == MANTA_OK && (manta_free(r[1]), true));
    CHECK_FAILS(r[1], MANTA_EACTOR_DIED, &e);
    CHECK_EQ(manta_actor_call_n(NULL, "swap", MANTA_ARGS(manta_i64(1)), r, 2), MANTA_OK);
    CHECK_FAILS(r[0], MANTA_EINVAL, &e);
    CHECK_FAILS(r[1], MANTA_EINVAL, &e);
    manta_actor_free(box);
}

/* ---- declared refs ---- */

static void free_all(manta_ref **refs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        manta_free(refs[i]);
}

static void declared_put(void)
{
    manta_error e;
    manta_ref  *inner[3], *out[4] = {0}, *outer, *plain;
    manta_view  view;
    char        large[10000];
    memset(large, 'z', sizeof large);
    inner[0] = plus_one_remote(NULL, 41);
    inner[1] = manta_put(large, sizeof large);
    inner[2] = manta_put("abc", 3);
    outer = manta_put_refs("hello", 5, inner, 3);
    free_all(inner, 3);
    CHECK_CODE(manta_get(outer, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(view.size, 5);
    CHECK(memcmp(view.data, "hello", 5) == 0);
    CHECK_EQ(manta_view_refs(&view, NULL, 0, &e), 3);
    CHECK_EQ(manta_view_refs(&view, out, 4, &e), 3);
    manta_release(&view);
    manta_free(outer);
    CHECK_I64(out[0], 42);
    CHECK_CODE(manta_get(out[1], TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK(view.size == sizeof large && memcmp(view.data, large, sizeof large) == 0);
    manta_release(&view);
    free_all(out + 1, 2);
    plain = manta_put("abc", 3);
    CHECK_CODE(manta_get(plain, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(manta_view_refs(&view, out, 4, &e), 0);
    manta_release(&view);
    manta_free(plain);
}

/* A task makes the values and returns them: they live on with what it returned. */
static manta_status make_many(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t      count = argv[0].l;
    manta_ref  **refs = calloc((size_t)count, sizeof *refs);
    manta_status st;
    (void)argc;
    for (int64_t i = 0; i < count; i++)
        refs[i] = manta_put(&i, sizeof i);
    st = manta_return_refs(c, &count, sizeof count, refs, (size_t)count);
    free_all(refs, (size_t)count);
    free(refs);
    return st;
}
MANTA_REGISTER(make_many, "l>y");

static void check_many(manta_ref *outer, int64_t count, int64_t step)
{
    manta_error e;
    manta_view  view;
    manta_ref **refs = calloc((size_t)count, sizeof *refs);
    CHECK_CODE(manta_get(outer, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(view.size, sizeof count);
    CHECK(memcmp(view.data, &count, sizeof count) == 0);
    CHECK_EQ(manta_view_refs(&view, refs, (size_t)count, &e), count);
    manta_release(&view);
    manta_free(outer);
    for (int64_t i = 0; i < count; i += step) {
        CHECK_CODE(manta_get(refs[i], TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        CHECK(view.size == sizeof i && memcmp(view.data, &i, sizeof i) == 0);
        manta_release(&view);
    }
    free_all(refs, (size_t)count);
    free(refs);
}

static void declared_returned(void)
{
    for (int64_t count = 1; count < 600; count = count * 2 + 1)
        check_many(manta_call("make_many", NULL, MANTA_ARGS(manta_i64(count))), count, 1);
}

static void declared_many(void)
{
    check_many(manta_call("make_many", NULL, MANTA_ARGS(manta_i64(10000))), 10000, 7);
}

/* Reads somebody else's value and keeps one of the refs in it; gives its value later. */
static manta_ref   *kept;
static manta_status keep_one(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_error e;
    manta_view  view;
    manta_ref  *refs[3];
    (void)self, (void)argc;
    if (manta_get(argv[0].r, TEST_WAIT_MS, &view, &e) || manta_view_refs(&view, refs, 3, &e) != 3)
        return manta_fail(c, 1, "%s", e.message);
    manta_release(&view);
    kept = refs[1];
    manta_free(refs[0]);
    manta_free(refs[2]);
    return manta_return_bool(c, true);
}
static manta_status give_one(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_error  e;
    manta_view   view;
    manta_status st;
    (void)self, (void)argc, (void)argv;
    if (manta_get(kept, TEST_WAIT_MS, &view, &e))
        return manta_fail(c, 2, "%s", e.message);
    st = manta_return_bytes(c, view.data, view.size);
    manta_release(&view);
    manta_free(kept);
    return st;
}
MANTA_ACTOR(keeper, "", box_new, free, {"keep", "r>b", keep_one}, {"give", ">y", give_one});

static void check_bytes(manta_ref *take_ref, const void *data, size_t size)
{
    manta_error e;
    manta_view  view;
    CHECK_CODE(manta_get(take_ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK(view.size == size && memcmp(view.data, data, size) == 0);
    manta_release(&view);
    manta_free(take_ref);
}

static void declared_elsewhere(void)
{
    enum { LARGE = 100000 };
    manta_error  e;
    manta_actor *keeper = manta_actor_new("keeper", NULL, MANTA_NO_ARGS);
    char        *large = calloc(1, LARGE);
    bool         b;
    memset(large, 'q', LARGE);
    for (int i = 0; i < 30; i++) {
        size_t     size = i % 2 ? LARGE : 100;
        manta_ref *inner[3] = {manta_put("a", 1), manta_put(large, size), manta_put("c", 1)};
        manta_ref *outer = manta_put_refs(large, 300, inner, 3);
        manta_ref *done = manta_actor_call(keeper, "keep", MANTA_ARGS(manta_ref_arg(outer)));
        free_all(inner, 3);
        manta_free(outer);
        CHECK_CODE(manta_get_bool(done, TEST_WAIT_MS, &b, &e), MANTA_OK, &e);
        manta_free(done);
        check_bytes(manta_actor_call(keeper, "give", MANTA_NO_ARGS), large, size);
    }
    manta_actor_free(keeper);
    free(large);
}

static void declared_wrong(void)
{
    manta_error e;
    manta_ref  *two[2] = {manta_put("a", 1), NULL};
    CHECK_FAILS(manta_put_refs("x", 1, two, 2), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "reference 1 is NULL");
    CHECK_FAILS(manta_put_refs("x", 1, NULL, 2), MANTA_EINVAL, &e);
    CHECK_FAILS(manta_put_refs(NULL, 1, two, 1), MANTA_EINVAL, &e);
    CHECK_FAILS(manta_put_refs("x", 1, two, 1 << 20), MANTA_EINVAL, &e);
    CHECK_EQ(manta_view_refs(NULL, NULL, 0, &e), -MANTA_EINVAL);
    manta_free(two[0]);
}

/* ---- map ---- */

MANTA_TASK(double, halve, (double, x))
{
    return x / 2;
}
MANTA_TASK(int64_t, square, (int64_t, x))
{
    return x * x;
}
static manta_status mark(manta_ctx *c, int argc, const manta_arg *argv)
{
    uint64_t number;
    (void)c, (void)argc;
    memcpy(&number, argv[0].y.data, sizeof number);
    atomic_fetch_add(&test_board_map(number)->words[0], 1);
    return MANTA_OK;
}
MANTA_REGISTER(mark, "y>");
static manta_status reverse(manta_ctx *c, int argc, const manta_arg *argv)
{
    char        text[5];
    const char *from = argv[0].y.data;
    (void)argc;
    for (int i = 0; i < 5; i++)
        text[i] = from[4 - i];
    return manta_return_bytes(c, text, 5);
}
MANTA_REGISTER(reverse, "y>y");
static manta_status not_777(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    if (argv[0].l == 777)
        return manta_fail(c, 9, "I do not like it");
    return manta_return_i64(c, argv[0].l);
}
MANTA_REGISTER(not_777, "l>l");
static manta_status deadly(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    if (argv[0].l == 42 && manta_attempt(c) < 1)
        raise(SIGKILL);
    return manta_return_i64(c, -argv[0].l);
}
MANTA_REGISTER(deadly, "l>l");

static void map(void)
{
    enum { N = 100000 };
    static const size_t chunks[] = {0, 1000, 1, N};
    manta_error         e;
    int64_t            *items = calloc(N, sizeof *items), *squares = calloc(N, sizeof *squares);
    double              few[3] = {1, 2, 3}, halves[3];
    for (int i = 0; i < N; i++)
        items[i] = i - 5000;
    for (int k = 0; k < 4; k++) {
        size_t n = chunks[k] == 1 ? 3000 : N;
        memset(squares, 0xff, N * sizeof *squares);
        CHECK_CODE(manta_map("square", NULL, items, n, 8, chunks[k], squares, 8, &e), MANTA_OK, &e);
        for (size_t i = 0; i < n; i++)
            CHECK_EQ(squares[i], items[i] * items[i]);
    }
    CHECK_CODE(manta_map("halve", NULL, few, 3, 8, 0, halves, 8, &e), MANTA_OK, &e);
    CHECK(halves[0] == 0.5 && halves[1] == 1 && halves[2] == 1.5);
    CHECK_CODE(manta_map("halve", NULL, NULL, 0, 8, 0, NULL, 8, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_map("halve", NULL, few, 0, 8, 0, halves, 8, &e), MANTA_OK, &e);
    free(items);
    free(squares);
}

static void map_void(void)
{
    manta_error        e;
    uint64_t           numbers[500];
    struct test_board *board = test_board_new(&numbers[0]);
    for (int i = 1; i < 500; i++)
        numbers[i] = numbers[0];
    CHECK_CODE(manta_map("mark", NULL, numbers, 500, 8, 0, NULL, 0, &e), MANTA_OK, &e);
    CHECK_EQ(atomic_load(&board->words[0]), 500);
}

static void map_bytes(void)
{
    manta_error e;
    char        text[] = "abcdefghijklmnopqrstuvwxy", back[25];
    CHECK_CODE(manta_map("reverse", NULL, text, 5, 5, 2, back, 5, &e), MANTA_OK, &e);
    CHECK(memcmp(back, "edcbajihgfonmlktsrqpyxwvu", 25) == 0);
    CHECK_CODE(manta_map("reverse", NULL, text, 5, 5, 2, back, 4, &e), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "item 0");
}

/* Its worker has room for the next chunk's record, and not for its results. */
static manta_status shrinks(manta_ctx *c, int argc, const manta_arg *argv)
{
    unsigned long pages = 0;
    FILE         *statm = fopen("/proc/self/statm", "re");
    (void)argc;
    if (!statm || fscanf(statm, "%lu", &pages) != 1)
        return manta_fail(c, 1, "statm");
    fclose(statm);
    struct rlimit limit = {.rlim_cur = pages * 4096 + (uint64_t)argv[0].l, .rlim_max = RLIM_INFINITY};
    return manta_return_i64(c, setrlimit(RLIMIT_AS, &limit));
}
MANTA_REGISTER(shrinks, "l>l");

static void map_no_memory(void)
{
    enum { ITEMS = 64, SIZE = 1 << 20, ROOM = 16 << 20 };
    manta_error e;
    char       *items = calloc(ITEMS, 1), *back = malloc((size_t)ITEMS * SIZE), text[] = "abcde", turned[5];
    CHECK_I64(manta_call("shrinks", NULL, MANTA_ARGS(manta_i64(ROOM))), 0);
    CHECK_CODE(manta_map("reverse", NULL, items, ITEMS, 1, ITEMS, back, SIZE, &e), MANTA_ENOMEM, &e);
    CHECK_SAYS(e.message, "no memory for 64 results");
    CHECK_CODE(manta_map("reverse", NULL, text, 1, 5, 1, turned, 5, &e), MANTA_OK, &e);
    CHECK(memcmp(turned, "edcba", 5) == 0);
    free(items);
    free(back);
}

static void map_fails(void)
{
    manta_error e;
    int64_t     items[1000], out[1000];
    for (int i = 0; i < 1000; i++)
        items[i] = i + 300;
    for (size_t chunk = 0; chunk < 200; chunk += 66) {
        CHECK_CODE(manta_map("not_777", NULL, items, 1000, 8, chunk, out, 8, &e), MANTA_ETASK, &e);
        CHECK_EQ(e.user_code, 9);
        CHECK_SAYS(e.message, "not_777, item 477: I do not like it");
        CHECK_STR(e.function, "not_777");
    }
    CHECK_CODE(manta_map("not_777", NULL, items, 1000, 8, 0, out, 8, NULL), MANTA_ETASK, &e);
}

static void map_dies(void)
{
    manta_error     e;
    manta_task_opts none = {.max_retries = MANTA_NO_RETRY};
    int64_t         items[100], out[100];
    for (int i = 0; i < 100; i++)
        items[i] = i;
    CHECK_CODE(manta_map("deadly", NULL, items, 100, 8, 10, out, 8, &e), MANTA_OK, &e);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(out[i], -i);
    CHECK_CODE(manta_map("deadly", &none, items, 100, 8, 10, out, 8, &e), MANTA_EWORKER_DIED, &e);
    CHECK_SAYS(e.message, "deadly, items ");
}

static void map_wrong(void)
{
    manta_error e;
    int64_t     items[4] = {0}, out[4];
    CHECK_CODE(manta_map("no_such", NULL, items, 4, 8, 0, out, 8, &e), MANTA_ENOFUNC, &e);
    CHECK_CODE(manta_map(NULL, NULL, items, 4, 8, 0, out, 8, &e), MANTA_ENOFUNC, &e);
    CHECK_CODE(manta_map("divide", NULL, items, 4, 8, 0, out, 8, &e), MANTA_ETYPE, &e);
    CHECK_CODE(manta_map("square", NULL, items, 4, 4, 0, out, 8, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_map("square", NULL, items, 4, 0, 0, out, 8, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_map("square", NULL, items, 4, 8, 0, out, 4, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_map("square", NULL, items, 4, 8, 0, NULL, 8, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_map("square", NULL, NULL, 4, 8, 0, out, 8, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_map("square", NULL, items, SIZE_MAX / 4, 8, 0, out, 8, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_map("mark", NULL, items, 4, 8, 0, out, 8, &e), MANTA_EINVAL, &e);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {.name = "several", .run = several},
        {.name = "several_alone", .run = several_alone, .opts = {.num_cpus = 2}},
        {.name = "several_large", .run = several_large},
        {.name = "several_missing", .run = several_missing},
        {.name = "several_wrong", .run = several_wrong},
        {.name = "several_fail", .run = several_fail},
        {.name = "several_of_actor", .run = several_of_actor},
        {.name = "several_retry", .run = several_retry},
        {.name = "declared_put", .run = declared_put},
        {.name = "declared_returned", .run = declared_returned},
        {.name = "declared_many", .run = declared_many},
        {.name = "declared_elsewhere", .run = declared_elsewhere},
        {.name = "declared_wrong", .run = declared_wrong},
        {.name = "map", .run = map, .opts = {.num_cpus = 2}},
        {.name = "map_void", .run = map_void, .opts = {.num_cpus = 2}},
        {.name = "map_bytes", .run = map_bytes},
        {.name = "map_no_memory", .run = map_no_memory, .opts = {.num_cpus = 1}},
        {.name = "map_fails", .run = map_fails, .opts = {.num_cpus = 2}},
        {.name = "map_dies", .run = map_dies, .opts = {.num_cpus = 2}},
        {.name = "map_wrong", .run = map_wrong},
        {.name = NULL},
    };
    return test_main(argc, argv, cases);
}
