/* SPDX-License-Identifier: Apache-2.0
 *
 * placed_test.c - results that a function writes in place (manta_return_buffer).
 */
#include "tests/integration/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LARGE = 8 << 20, STORE = 96 << 20 };

static void fill(unsigned char *to, size_t size, int64_t seed)
{
    for (size_t i = 0; i < size; i++)
        to[i] = (unsigned char)((int64_t)(i * 31) + seed);
}

static void check_filled(const manta_view *view, size_t size, int64_t seed)
{
    const unsigned char *at = view->data;
    CHECK_EQ(view->size, size);
    CHECK_EQ(view->type, 'y');
    for (size_t i = 0; i<size; i += size> 100000 ? 997 : 1)
        CHECK_EQ(at[i], (unsigned char)((int64_t)(i * 31) + seed));
}

static void check_result(manta_ref *take, size_t size, int64_t seed)
{
    manta_error e;
    manta_view  view;
    CHECK_CODE(manta_get(take, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    check_filled(&view, size, seed);
    manta_release(&view);
    manta_free(take);
}

/* size, seed */
static manta_status tile(manta_ctx *c, int argc, const manta_arg *argv)
{
    void        *out;
    manta_status code = manta_return_buffer(c, 0, (size_t)argv[0].l, &out);
    (void)argc;
    if (code)
        return code;
    if ((uintptr_t)out % (argv[0].l > MANTA_INLINE_MAX ? 64 : 8))
        return manta_fail(c, 7, "it stands at %p", out);
    fill(out, (size_t)argv[0].l, argv[1].l);
    return MANTA_OK;
}
MANTA_REGISTER(tile, "ll>y");

static void placed(void)
{
    static const int64_t sizes[] = {0, 1, 8, 4095, 4096, 4097, 100000, 1 << 20, LARGE};
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            check_result(manta_call("tile", NULL, MANTA_ARGS(manta_i64(sizes[i]), manta_i64(round))), (size_t)sizes[i], round);
}

/* As an argument of another task, and read by it. */
static manta_status count_bytes(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t sum = 0;
    (void)argc;
    for (size_t i = 0; i < argv[0].y.size; i++)
        sum += ((const unsigned char *)argv[0].y.data)[i];
    return manta_return_i64(c, sum);
}
MANTA_REGISTER(count_bytes, "y>l");
static void placed_chain(void)
{
    int64_t        sum = 0;
    unsigned char *bytes = malloc(LARGE);
    manta_ref     *r = manta_call("tile", NULL, MANTA_ARGS(manta_i64(LARGE), manta_i64(5)));
    fill(bytes, LARGE, 5);
    for (size_t i = 0; i < LARGE; i++)
        sum += bytes[i];
    CHECK_I64(manta_call("count_bytes", NULL, MANTA_ARGS(manta_ref_arg(r))), sum);
    manta_free(r);
    free(bytes);
}

/* Several: in place, by value, in any order, small ones and large ones. */
static manta_status mixed(manta_ctx *c, int argc, const manta_arg *argv)
{
    void *first, *last;
    (void)argc, (void)argv;
    if (manta_return_buffer(c, 3, 300000, &last) || manta_return_at(c, 1, manta_i64(11)) ||
        manta_return_buffer(c, 0, 100, &first) || manta_return_at(c, 2, manta_str("two")))
        return MANTA_ETASK;
    fill(last, 300000, 3);
    fill(first, 100, 0);
    return MANTA_OK;
}
MANTA_REGISTER(mixed, ">ylsy");
static void placed_several(void)
{
    manta_ref  *refs[4];
    manta_error e;
    manta_view  view;
    CHECK_EQ(manta_call_n("mixed", NULL, MANTA_NO_ARGS, refs, 4), MANTA_OK);
    check_result(refs[0], 100, 0);
    CHECK_I64(refs[1], 11);
    CHECK_CODE(manta_get(refs[2], TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_STR((const char *)view.data, "two");
    manta_release(&view);
    manta_free(refs[2]);
    check_result(refs[3], 300000, 3);
}

/* ---- actors ---- */
struct maker {
    _Atomic int count;
};
static manta_status maker_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    void *out;
    (void)argc;
    *self = calloc(1, sizeof(struct maker));
    return argv[0].l ? manta_return_buffer(c, 0, 100, &out) : MANTA_OK;
}
static manta_status maker_tile(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    atomic_fetch_add(&((struct maker *)self)->count, 1);
    return tile(c, argc, argv);
}
static manta_status maker_none(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    void *out;
    (void)argc, (void)argv, (void)self;
    return manta_return_buffer(c, 0, 100, &out);
}
MANTA_ACTOR(maker, "l", maker_new, free, {"tile", "ll>y", maker_tile}, {"none", "", maker_none}, {"nothing", ">v", maker_none});

static void placed_actor(void)
{
    manta_error            e;
    const manta_actor_opts several = {.max_concurrency = 4};
    for (int i = 0; i < 2; i++) {
        manta_actor *a = manta_actor_new("maker", i ? &several : NULL, MANTA_ARGS(manta_i64(0)));
        manta_ref   *refs[16];
        for (int j = 0; j < 16; j++)
            refs[j] = manta_actor_call(a, "tile", MANTA_ARGS(manta_i64(1 << 18), manta_i64(j)));
        for (int j = 0; j < 16; j++)
            check_result(refs[j], 1 << 18, j);
        CHECK_FAILS(manta_actor_call(a, "nothing", MANTA_NO_ARGS), MANTA_ETYPE, &e);
        manta_actor_free(a);
    }
    manta_actor *bad = manta_actor_new("maker", NULL, MANTA_ARGS(manta_i64(1)));
    CHECK_FAILS(manta_actor_call(bad, "tile", MANTA_ARGS(manta_i64(1), manta_i64(1))), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "create");
    manta_actor_free(bad);
}

/* ---- what is wrong ---- */

/* Its first word says what it is to do; the code that the wrong call has returned is the result's. */
static manta_status wrongly(manta_ctx *c, int argc, const manta_arg *argv)
{
    const char *what = argv[0].y.data;
    void       *out, *again;
    (void)argc;
    if (strcmp(what, "index") == 0)
        return manta_return_buffer(c, 1, 8, &out);
    if (strcmp(what, "before") == 0)
        return manta_return_buffer(c, -1, 8, &out);
    if (strcmp(what, "nowhere") == 0)
        return manta_return_buffer(c, 0, 8, NULL);
    if (strcmp(what, "too large") == 0)
        return manta_return_buffer(c, 0, (size_t)4 << 40, &out);
    if (strcmp(what, "beyond all") == 0)
        return manta_return_buffer(c, 0, SIZE_MAX, &out);
    if (strcmp(what, "after value") == 0)
        return manta_return_bytes(c, "value", 5) ? MANTA_OK : manta_return_buffer(c, 0, 8, &out);
    size_t size = strstr(what, "large") ? LARGE : 8;
    if (manta_return_buffer(c, 0, size, &out))
        return MANTA_OK;
    memset(out, 1, size);
    if (strstr(what, "twice"))
        return manta_return_buffer(c, 0, size, &again);
    if (strstr(what, "value too"))
        return manta_return_bytes(c, "value", 5);
    if (strstr(what, "number too"))
        return manta_return_i64(c, 1);
    if (strstr(what, "fails"))
        return manta_fail(c, 9, "on purpose");
    if (strstr(what, "dies"))
        kill(getpid(), SIGKILL);
    return MANTA_OK;
}
MANTA_REGISTER(wrongly, "s>y");

static void refuses(const char *what, manta_status code, const char *says)
{
    manta_error e;
    CHECK_FAILS(manta_call("wrongly", NULL, MANTA_ARGS(manta_str(what))), code, &e);
    CHECK_SAYS(e.message, says);
}

static manta_status yields(manta_ctx *c, int argc, const manta_arg *argv)
{
    void *out;
    (void)argc, (void)argv;
    return manta_return_buffer(c, 0, 8, &out);
}
MANTA_REGISTER(yields, "l>y");
static manta_status plain_number(manta_ctx *c, int argc, const manta_arg *argv)
{
    void *out;
    (void)argc, (void)argv;
    return manta_return_buffer(c, 0, 8, &out);
}
MANTA_REGISTER(plain_number, "l>l");
static manta_status one_is_missing(manta_ctx *c, int argc, const manta_arg *argv)
{
    void *out;
    (void)argc, (void)argv;
    if (manta_return_at(c, 0, manta_bytes_of("", 0)) || manta_return_buffer(c, 1, LARGE, &out))
        return MANTA_ETASK;
    memset(out, 1, LARGE);
    return MANTA_OK;
}
MANTA_REGISTER(one_is_missing, ">yyy");

static void placed_wrong(void)
{
    manta_error e;
    manta_view  view;
    manta_ref  *refs[3];
    int64_t     item = 1;
    char        result[8];
    refuses("index", MANTA_EINVAL, "result 1 of 1");
    refuses("before", MANTA_EINVAL, "result -1 of 1");
    refuses("nowhere", MANTA_EINVAL, "");
    refuses("too large", MANTA_ESTORE_FULL, "a result of 4398046511104 bytes");
    refuses("beyond all", MANTA_ESTORE_FULL, "a result of 18446744073709551615 bytes");
    refuses("after value", MANTA_EEXIST, "has a value or a place already");
    refuses("twice", MANTA_EEXIST, "has a value or a place already");
    refuses("large twice", MANTA_EEXIST, "has a value or a place already");
    refuses("value too", MANTA_EINVAL, "written in place");
    refuses("large, value too", MANTA_EINVAL, "written in place");
    refuses("number too", MANTA_ETYPE, "returned 'l'");
    refuses("large fails", MANTA_ETASK, "on purpose");
    CHECK_FAILS(manta_call("plain_number", NULL, MANTA_ARGS(manta_i64(1))), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "only bytes can be written in place");
    manta_generator *g = manta_call_stream("yields", NULL, MANTA_ARGS(manta_i64(1)));
    CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "generator");
    manta_generator_free(g);
    CHECK_CODE(manta_map("yields", NULL, &item, 1, 8, 0, result, 8, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "manta_map");
    CHECK_EQ(manta_call_n("one_is_missing", NULL, MANTA_NO_ARGS, refs, 3), MANTA_OK);
    for (int i = 0; i < 3; i++)
        CHECK_FAILS(refs[i], MANTA_ETYPE, &e);
}

/* What fails, dies, or gives a value twice leaves nothing in the store: else it would be full long before the end. */
static manta_status returns_twice(manta_ctx *c, int argc, const manta_arg *argv)
{
    static char bytes[LARGE];
    (void)argc, (void)argv;
    if (manta_return_bytes(c, bytes, sizeof bytes) || manta_return_bytes(c, bytes, sizeof bytes))
        return MANTA_ETASK;
    return manta_return_bytes(c, bytes, 1);
}
MANTA_REGISTER(returns_twice, ">y");
static void placed_leaves_nothing(void)
{
    const manta_task_opts once = {.max_retries = MANTA_NO_RETRY};
    manta_error           e;
    manta_view            view;
    manta_ref            *refs[3];
    for (int i = 0; i < 3 * STORE / LARGE; i++) {
        CHECK_FAILS(manta_call("wrongly", NULL, MANTA_ARGS(manta_str("large fails"))), MANTA_ETASK, &e);
        CHECK_FAILS(manta_call("wrongly", &once, MANTA_ARGS(manta_str("large dies"))), MANTA_EWORKER_DIED, &e);
        CHECK_EQ(manta_call_n("one_is_missing", NULL, MANTA_NO_ARGS, refs, 3), MANTA_OK);
        for (int j = 0; j < 3; j++)
            CHECK_FAILS(refs[j], MANTA_ETYPE, &e);
        manta_ref *twice = manta_call("returns_twice", NULL, MANTA_NO_ARGS);
        CHECK_CODE(manta_get(twice, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        CHECK_EQ(view.size, 1);
        manta_release(&view);
        manta_free(twice);
    }
    check_result(manta_call("tile", NULL, MANTA_ARGS(manta_i64(STORE / 2), manta_i64(1))), STORE / 2, 1);
}

/* The pointer of before, after the result was given: not to be written, and so it is found where a sealed buffer's is. */
static unsigned char *kept;
static manta_status   keeps(manta_ctx *c, int argc, const manta_arg *argv)
{
    void        *out;
    manta_status code = manta_return_buffer(c, 0, (size_t)argv[0].l, &out);
    (void)argc;
    if (code == MANTA_OK)
        fill(kept = out, (size_t)argv[0].l, 1);
    return code;
}
MANTA_REGISTER(keeps, "l>y");
static manta_status writes_late(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_bool(c, test_write_faults(kept));
}
MANTA_REGISTER(writes_late, ">b");
static void placed_written_late(void)
{
    manta_error e;
    bool        faults;
    manta_ref  *r = manta_call("keeps", NULL, MANTA_ARGS(manta_i64(LARGE))), *late;
    CHECK_EQ(manta_wait(&r, 1, 1, TEST_WAIT_MS, NULL, &e), 1);
    late = manta_call("writes_late", NULL, MANTA_NO_ARGS); /* in the one worker that there is */
    CHECK_CODE(manta_get_bool(late, TEST_WAIT_MS, &faults, &e), MANTA_OK, &e);
    CHECK(faults);
    manta_free(late);
    check_result(r, LARGE, 1);
}

int main(int argc, char **argv)
{
    const manta_init_opts two = {.num_cpus = 2}, one = {.num_cpus = 1},
                          small = {.num_cpus = 1, .store_memory = STORE, .spill_dir = "none"};
    const struct test_case cases[] = {
        {.name = "placed", placed, .opts = two},
        {.name = "placed_chain", placed_chain, .opts = two},
        {.name = "placed_several", placed_several, .opts = two},
        {.name = "placed_actor", placed_actor, .opts = two},
        {.name = "placed_wrong", placed_wrong, .opts = two},
        {.name = "placed_leaves_nothing", placed_leaves_nothing, .opts = small},
        {.name = "placed_written_late", placed_written_late, .opts = one},
        {.name = NULL},
    };
    return test_main(argc, argv, cases);
}
