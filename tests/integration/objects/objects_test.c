/* SPDX-License-Identifier: Apache-2.0
 *
 * objects_test.c - values in shared memory: put, create and seal, views, sharing, reuse, the end of the room.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t KIB = 1024, MIB = 1024 * 1024;
static const size_t sizes[] = {
    0, 1, 8, 55, 56, 57, 64, 1000, 1024, 4095, 4096, 4097, 10000, 65536, 100001, 1 << 20, (4 << 20) + 1, 16 << 20, 64 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* ---- contents that are a function of (seed, position) ---- */
static void fill(void *data, size_t size, uint64_t seed)
{
    uint8_t *p = data;
    for (size_t i = 0; i < size; i++)
        p[i] = (uint8_t)((seed + i) * 31 + (i >> 8));
}
static bool is_filled(const void *data, size_t size, uint64_t seed)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < size; i++) {
        if (p[i] != (uint8_t)((seed + i) * 31 + (i >> 8)))
            return false;
    }
    return true;
}
static manta_ref *put_filled(size_t size, uint64_t seed)
{
    char *data = malloc(size + 1);
    CHECK(data);
    fill(data, size, seed);
    manta_ref *ref = manta_put(data, size);
    memset(data, 0, size); /* the put has copied */
    free(data);
    CHECK(ref);
    return ref;
}
static void check_filled(manta_ref *ref, size_t size, uint64_t seed)
{
    manta_error e;
    manta_view  view;
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(view.size, size);
    CHECK_EQ(view.type, 'y');
    CHECK(is_filled(view.data, size, seed));
    manta_release(&view);
}

/* ---- in one process ---- */
static void put_get(void)
{
    for (int i = 0; i < SIZES; i++) {
        manta_ref *ref = put_filled(sizes[i], (uint64_t)i);
        check_filled(ref, sizes[i], (uint64_t)i);
        check_filled(ref, sizes[i], (uint64_t)i);
        manta_free(ref);
    }
}

static void create_seal(void)
{
    for (int i = 1; i < SIZES; i++) {
        manta_error  e;
        manta_buffer buffer;
        CHECK_CODE(manta_create(sizes[i], &buffer, &e), MANTA_OK, &e);
        CHECK_EQ(buffer.size, sizes[i]);
        fill(buffer.data, sizes[i], 5);
        manta_ref *ref = manta_seal(&buffer);
        check_filled(ref, sizes[i], 5);
        manta_free(ref);
        CHECK_CODE(manta_create(sizes[i], &buffer, &e), MANTA_OK, &e);
        memset(buffer.data, 1, sizes[i]);
        manta_drop(&buffer);
    }
    manta_error         e;
    static manta_buffer left; /* neither sealed nor dropped: goes with the process */
    CHECK_CODE(manta_create(MIB, &left, &e), MANTA_OK, &e);
}

static void views(void)
{
    manta_error e;
    manta_view  a, b;
    manta_ref  *ref = put_filled(MIB, 3), *same = manta_dup(ref);
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &a, &e), MANTA_OK, &e);
    CHECK_CODE(manta_get(same, TEST_WAIT_MS, &b, &e), MANTA_OK, &e);
    CHECK(a.data == b.data); /* in place, not copied */
    CHECK_EQ((uintptr_t)a.data % 8, 0);
    manta_free(ref), manta_free(same);
    manta_release(&b);
    for (int i = 0; i < 50; i++) { /* the view keeps the value, so its place is not used again */
        ref = put_filled(MIB, 100 + (uint64_t)i);
        check_filled(ref, MIB, 100 + (uint64_t)i);
        manta_free(ref);
    }
    CHECK(is_filled(a.data, a.size, 3));
    manta_release(&a);
    manta_release(&a); /* twice is nothing */
}

/* ---- between processes ---- */
/* 'y': gets the value itself. */
static manta_status look(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    if (!is_filled(argv[0].y.data, argv[0].y.size, (uint64_t)argv[1].l))
        return manta_fail(c, 1, "wrong bytes");
    return manta_return_i64(c, (int64_t)argv[0].y.size);
}
MANTA_REGISTER(look, "yl>l");

/* 'r': gets the reference. */
MANTA_TASK(int64_t, open_it, (manta_ref *, ref), (int64_t, seed))
{
    manta_error e;
    manta_view  view;
    if (manta_get(ref, TEST_WAIT_MS, &view, &e) != MANTA_OK)
        return -e.code;
    int64_t size = is_filled(view.data, view.size, (uint64_t)seed) ? (int64_t)view.size : -1000;
    manta_release(&view);
    return size;
}

static manta_status make(manta_ctx *c, int argc, const manta_arg *argv)
{
    size_t size = (size_t)argv[0].l;
    char  *data = malloc(size + 1);
    (void)argc;
    if (!data)
        return manta_fail(c, 1, "no memory");
    fill(data, size, (uint64_t)argv[1].l);
    manta_status code = manta_return_bytes(c, data, size);
    free(data);
    return code;
}
MANTA_REGISTER(make, "ll>y");
static manta_ref *made(size_t size, int64_t seed)
{
    return manta_call("make", NULL, MANTA_ARGS(manta_i64((int64_t)size), manta_i64(seed)));
}

static void arguments(void)
{
    for (int i = 0; i < SIZES; i++) {
        manta_ref *ref = put_filled(sizes[i], (uint64_t)i);
        CHECK_I64(manta_call("look", NULL, MANTA_ARGS(manta_ref_arg(ref), manta_i64(i))), (int64_t)sizes[i]);
        CHECK_I64(open_it_remote(NULL, ref, i), (int64_t)sizes[i]);
        manta_free(ref);
    }
}

/* A large value as a plain argument goes through the store by itself. */
static void large_plain_argument(void)
{
    static char data[200000];
    fill(data, sizeof data, 9);
    CHECK_I64(manta_call("look", NULL, MANTA_ARGS(manta_bytes_of(data, sizeof data), manta_i64(9))), (int64_t)sizeof data);
    CHECK_I64(manta_call("look", NULL, MANTA_ARGS(manta_bytes_of(data, 5000), manta_i64(9))), 5000);
}

static void results(void)
{
    for (int i = 0; i < SIZES; i++) {
        manta_ref *ref = made(sizes[i], i);
        check_filled(ref, sizes[i], (uint64_t)i);
        CHECK_I64(manta_call("look", NULL, MANTA_ARGS(manta_ref_arg(ref), manta_i64(i))), (int64_t)sizes[i]);
        manta_free(ref);
    }
}

/* Ready or not, many workers read the same value; the driver lets go of it before they are done. */
static void many_readers(void)
{
    manta_ref *ref = made(4 * MIB, 1), *readers[20];
    for (int i = 0; i < 20; i++)
        readers[i] = i % 2 ? open_it_remote(NULL, ref, 1) : manta_call("look", NULL, MANTA_ARGS(manta_ref_arg(ref), manta_i64(1)));
    manta_free(ref);
    for (int i = 0; i < 20; i++)
        CHECK_I64(readers[i], (int64_t)(4 * MIB));
}

/* A reference that an actor keeps after the call holds the value. */
static manta_ref   *kept;
static manta_status keep_it(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    kept = manta_dup(argv[0].r);
    return manta_return_i64(c, 1);
}
/* That the call fails does not take back what the actor keeps. */
static manta_status keep_and_fail(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    kept = manta_dup(argv[0].r);
    return manta_fail(c, 5, "kept all the same");
}
/* Nor that nobody waits for it any more. */
static manta_status keep_cancelled(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map((uint64_t)argv[1].l);
    board->words[0] = 1;
    while (!manta_is_cancelled(c))
        usleep(1000);
    return keep_it(c, self, argc, argv);
}
/* A value of our own, that another keeper keeps as well. */
static manta_status lend_it(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    int64_t     pid = getpid(), ok = 0;
    manta_error e;
    (void)self, (void)argc;
    kept = put_filled(5000, 1);
    manta_ref *call = manta_actor_call(argv[0].A, "keep", MANTA_ARGS(manta_ref_arg(kept)));
    if (manta_get_i64(call, TEST_WAIT_MS, &ok, &e) != MANTA_OK)
        return manta_fail(c, e.code, "%s", e.message);
    manta_free(call);
    return manta_return_i64(c, pid);
}
static manta_status kept_size(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_error e;
    manta_view  view;
    (void)self, (void)argc;
    if (manta_get(kept, TEST_WAIT_MS, &view, &e) != MANTA_OK)
        return manta_fail(c, e.code, "%s", e.message);
    int64_t size = is_filled(view.data, view.size, (uint64_t)argv[0].l) ? (int64_t)view.size : -1;
    manta_release(&view);
    return manta_return_i64(c, size);
}
static manta_status drop_it(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    manta_free(kept);
    kept = NULL;
    return manta_return_i64(c, 1);
}
static manta_status keeper_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    return MANTA_OK;
}
MANTA_ACTOR(keeper, "", keeper_new, NULL, {"keep", "r>l", keep_it}, {"keep_and_fail", "rl>l", keep_and_fail},
            {"keep_cancelled", "rl>l", keep_cancelled}, {"lend", "A>l", lend_it}, {"size", "l>l", kept_size},
            {"drop", ">l", drop_it});

static void borrowed(void)
{
    static const size_t some[] = {100, 5000, 1 << 20};
    manta_actor        *a = manta_actor_new("keeper", NULL, MANTA_NO_ARGS);
    for (size_t i = 0; i < 3; i++) {
        manta_ref *ref = put_filled(some[i], i);
        CHECK_I64(manta_actor_call(a, "keep", MANTA_ARGS(manta_ref_arg(ref))), 1);
        manta_free(ref); /* the actor's hold is now the last */
        for (uint64_t k = 0; k < 20; k++)
            manta_free(put_filled(some[i], 50 + k));
        CHECK_I64(manta_actor_call(a, "size", MANTA_ARGS(manta_i64((int64_t)i))), (int64_t)some[i]);
        CHECK_I64(manta_actor_call(a, "drop", MANTA_NO_ARGS), 1);
    }
    manta_actor_free(a);
}

/* The same where the call that brought the ref fails, or is cancelled. */
static void borrowed_by_failures(void)
{
    static const struct {
        const char  *method;
        manta_status code;
    } calls[] = {{"keep_and_fail", MANTA_ETASK}, {"keep_cancelled", MANTA_ECANCELLED}};
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_actor       *a = manta_actor_new("keeper", NULL, MANTA_NO_ARGS);
    for (size_t i = 0; i < 2; i++) {
        manta_ref  *ref = put_filled(5000, i);
        manta_ref  *call = manta_actor_call(a, calls[i].method, MANTA_ARGS(manta_ref_arg(ref), manta_i64((int64_t)number)));
        manta_error e;
        int64_t     x;
        if (calls[i].code == MANTA_ECANCELLED) {
            CHECK(test_board_wait(&board->words[0], 1));
            CHECK_CODE(manta_cancel(call, NULL, &e), MANTA_OK, &e);
        }
        CHECK_CODE(manta_get_i64(call, TEST_WAIT_MS, &x, &e), calls[i].code, &e);
        manta_free(call);
        manta_free(ref);
        for (uint64_t k = 0; k < 20; k++)
            manta_free(put_filled(5000, 50 + k));
        CHECK_I64(manta_actor_call(a, "size", MANTA_ARGS(manta_i64((int64_t)i))), 5000);
        CHECK_I64(manta_actor_call(a, "drop", MANTA_NO_ARGS), 1);
    }
    manta_actor_free(a);
}

/* Whoever has the place of a value hears that its owner has died, as one does who still waits for it. */
static void owner_dies(void)
{
    manta_actor *owner = manta_actor_new("keeper", NULL, MANTA_NO_ARGS);
    manta_actor *borrower = manta_actor_new("keeper", NULL, MANTA_NO_ARGS);
    manta_error  e;
    int64_t      x, pid = test_i64(manta_actor_call(owner, "lend", MANTA_ARGS(manta_actor_arg(borrower))), __FILE__, __LINE__);
    manta_status code = MANTA_OK;
    CHECK_EQ(kill((pid_t)pid, SIGKILL), 0);
    for (int64_t limit = test_now_ms() + TEST_WAIT_MS; code == MANTA_OK && test_now_ms() < limit;) {
        /* until the raylet has heard of the death as well */
        manta_ref *size = manta_actor_call(borrower, "size", MANTA_ARGS(manta_i64(1)));
        code = manta_get_i64(size, TEST_WAIT_MS, &x, &e);
        manta_free(size);
    }
    CHECK_EQ(code, MANTA_ETASK);
    CHECK_EQ(e.user_code, MANTA_EOWNER_DIED);
    CHECK_SAYS(e.message, "owned");
    manta_actor_free(owner);
    manta_actor_free(borrower);
}

/* ---- deaths ---- */
MANTA_TASK(int64_t, whoami, (int64_t, x))
{
    (void)x;
    return getpid();
}

/* What a dead worker left stays readable. */
static void writer_dies(void)
{
    manta_ref *ref = made(MIB, 4);
    check_filled(ref, MIB, 4);
    int64_t pid = test_i64(whoami_remote(NULL, 0), __FILE__, __LINE__); /* the one worker */
    CHECK_EQ(kill((pid_t)pid, SIGKILL), 0);
    CHECK(test_gone((int)pid));
    for (int i = 0; i < 20; i++)
        manta_free(put_filled(MIB, 60));
    check_filled(ref, MIB, 4);
    CHECK_I64(manta_call("look", NULL, MANTA_ARGS(manta_ref_arg(ref), manta_i64(4))), (int64_t)MIB);
    manta_free(ref);
}

/* A reader that dies with a view gives its hold back: the store does not fill up. */
static manta_status die_with_view(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    if (manta_attempt(c) == 0 && argv[0].y.size > 0)
        kill(getpid(), SIGKILL);
    return manta_return_i64(c, (int64_t)argv[0].y.size);
}
MANTA_REGISTER(die_with_view, "y>l");
static void reader_dies(void)
{
    for (uint64_t i = 0; i < 20; i++) {
        manta_ref *ref = put_filled(8 * MIB, i);
        CHECK_I64(manta_call("die_with_view", NULL, MANTA_ARGS(manta_ref_arg(ref))), (int64_t)(8 * MIB));
        check_filled(ref, 8 * MIB, i);
        manta_free(ref);
    }
}

/* ---- room ---- */
static void reuse(void)
{
    for (uint64_t i = 0; i < 2000; i++) { /* 2 GB in all through 64 MiB */
        manta_ref *ref = put_filled(i % 2 ? MIB : 10 * KIB, i);
        check_filled(ref, i % 2 ? MIB : 10 * KIB, i);
        manta_free(ref);
    }
    for (uint64_t i = 0; i < 200; i++) {
        manta_ref *ref = made(MIB, (int64_t)i);
        check_filled(ref, MIB, i);
        manta_free(ref);
    }
}

static void full(void)
{
    enum { MOST = 100 };
    manta_ref   *held[MOST];
    manta_error  e;
    manta_view   view;
    manta_buffer buffer;
    int          count = 0;
    void        *data = calloc(1, 128 * MIB);
    manta_ref   *large = manta_put(data, 128 * MIB);
    free(data);
    CHECK_FAILS(large, MANTA_ESTORE_FULL, &e);
    CHECK_CODE(manta_create(128 * MIB, &buffer, &e), MANTA_ESTORE_FULL, &e);
    while (count < MOST) {
        held[count] = put_filled(4 * MIB, (uint64_t)count);
        if (manta_get(held[count], TEST_WAIT_MS, &view, &e) != MANTA_OK)
            break;
        manta_release(&view);
        count++;
    }
    CHECK(count > 2 && count < MOST); /* 32 MiB in all */
    CHECK_EQ(e.code, MANTA_ESTORE_FULL);
    manta_free(held[count]);
    for (int i = 0; i < count; i++) {
        check_filled(held[i], 4 * MIB, (uint64_t)i);
        manta_free(held[i]);
    }
    for (int round = 0; round < 20; round++) { /* and there is room again */
        manta_ref *ref = put_filled(4 * MIB, 7);
        check_filled(ref, 4 * MIB, 7);
        manta_free(ref);
    }
    CHECK_FAILS(made(128 * MIB, 1), MANTA_ESTORE_FULL, &e); /* in a worker */
}

/* ---- regions ---- */
static manta_status region_add(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_error  e;
    manta_region region;
    (void)argc;
    if (manta_region_open(0, argv[0].u, &region, &e) != MANTA_OK)
        return manta_fail(c, e.code, "%s", e.message);
    _Atomic int64_t *words = region.data;
    for (int i = 0; i < 1000; i++)
        atomic_fetch_add(&words[0], 1);
    manta_region_close(&region);
    return manta_return_i64(c, (int64_t)region.size);
}
MANTA_REGISTER(region_add, "u>l");

static void regions(void)
{
    manta_error  e;
    manta_region region, none;
    manta_ref   *refs[4];
    CHECK_CODE(manta_region_open(MIB, 0, &region, &e), MANTA_OK, &e);
    CHECK(region.size >= MIB && region.number && ((char *)region.data)[MIB - 1] == 0);
    for (int i = 0; i < 4; i++)
        refs[i] = manta_call("region_add", NULL, MANTA_ARGS(manta_u64(region.number)));
    for (int i = 0; i < 4; i++)
        test_i64(refs[i], __FILE__, __LINE__);
    CHECK_EQ(*(_Atomic int64_t *)region.data, 4000);
    CHECK(manta_region_open(0, region.number + 999, &none, &e) != MANTA_OK);
    manta_region_close(&region);
}

#define TWO_CPUS {.num_cpus = 2}, false, 0
/* ---- sums ---- */

static manta_status sum_of(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t sum = 0;
    (void)argc;
    for (size_t i = 0; i < argv[0].y.size; i++)
        sum += ((const unsigned char *)argv[0].y.data)[i];
    return manta_return_i64(c, sum);
}
MANTA_REGISTER(sum_of, "y>l");

static manta_status ones(manta_ctx *c, int argc, const manta_arg *argv)
{
    size_t size = (size_t)argv[0].l;
    char  *bytes = malloc(size);
    (void)argc;
    memset(bytes, 1, size);
    manta_status code = manta_return_bytes(c, bytes, size);
    free(bytes);
    return code;
}
MANTA_REGISTER(ones, "l>y");

/* Memory is damaged: by force, since views can't be written. */
static void flip(manta_ref *r, size_t at)
{
    manta_view  view;
    manta_error e;
    CHECK_CODE(manta_get(r, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    char *byte = (char *)(uintptr_t)view.data + at;
    void *page = byte - (uintptr_t)byte % 4096;
    CHECK_EQ(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
    *byte ^= 1;
    CHECK_EQ(mprotect(page, 4096, PROT_READ), 0);
    manta_release(&view);
}

/* A stray store into a value that was put is noticed by whoever reads it. */
static void sums(void)
{
    static char bytes[200000];
    manta_error e;
    manta_view  view;
    manta_ref  *r = manta_put(bytes, sizeof bytes), *result = manta_call("ones", NULL, MANTA_ARGS(manta_i64(100000)));
    CHECK_I64(manta_call("sum_of", NULL, MANTA_ARGS(manta_ref_arg(r))), 0);
    CHECK_I64(manta_call("sum_of", NULL, MANTA_ARGS(manta_ref_arg(result))), 100000);
    CHECK_CODE(manta_get(result, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(view.size, 100000);
    manta_release(&view);
    flip(r, 77777);
    CHECK_CODE(manta_get(r, TEST_WAIT_MS, &view, &e), MANTA_ECORRUPT, &e);
    CHECK_SAYS(e.message, "its bytes in shared memory have changed");
    CHECK_FAILS(manta_call("sum_of", NULL, MANTA_ARGS(manta_ref_arg(r))), MANTA_ECORRUPT, &e);
    manta_free(r), manta_free(result);
}

/* The same for one value, put or made in place, in a job that has no sums. */
static void sums_of_some(void)
{
    static char    bytes[200000];
    manta_put_opts opts = {.checksum = true};
    manta_error    e;
    manta_view     view;
    manta_buffer   buffer;
    CHECK_CODE(manta_create_with(sizeof bytes, &opts, &buffer, &e), MANTA_OK, &e);
    memset(buffer.data, 0, sizeof bytes);
    manta_ref *refs[] = {manta_put_with(bytes, sizeof bytes, &opts), manta_seal(&buffer)};
    for (int i = 0; i < 2; i++) {
        CHECK_I64(manta_call("sum_of", NULL, MANTA_ARGS(manta_ref_arg(refs[i]))), 0);
        flip(refs[i], 77777);
        CHECK_CODE(manta_get(refs[i], TEST_WAIT_MS, &view, &e), MANTA_ECORRUPT, &e);
        CHECK_FAILS(manta_call("sum_of", NULL, MANTA_ARGS(manta_ref_arg(refs[i]))), MANTA_ECORRUPT, &e);
        manta_free(refs[i]);
    }
    manta_ref *small = manta_put_with("small", 6, &opts), *plain = manta_put_with(bytes, sizeof bytes, NULL);
    CHECK_CODE(manta_get(small, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_STR((const char *)view.data, "small");
    manta_release(&view);
    flip(plain, 1);
    CHECK_I64(manta_call("sum_of", NULL, MANTA_ARGS(manta_ref_arg(plain))), 1);
    manta_free(small), manta_free(plain);
}

/* Who has not asked for sums pays for none, and is not told. */
static void no_sums(void)
{
    static char bytes[200000];
    manta_ref  *r = manta_put(bytes, sizeof bytes);
    flip(r, 77777);
    CHECK_I64(manta_call("sum_of", NULL, MANTA_ARGS(manta_ref_arg(r))), 1);
    manta_free(r);
}

static const struct test_case cases[] = {
    {"put_get", put_get, TWO_CPUS},
    {"create_seal", create_seal, TWO_CPUS},
    {"views", views, TWO_CPUS},
    {"arguments", arguments, TWO_CPUS},
    {"large_plain_argument", large_plain_argument, TWO_CPUS},
    {"results", results, TWO_CPUS},
    {"many_readers", many_readers, TWO_CPUS},
    {"borrowed", borrowed, TWO_CPUS},
    {"borrowed_by_failures", borrowed_by_failures, TWO_CPUS},
    {"owner_dies", owner_dies, TWO_CPUS},
    {"writer_dies", writer_dies, {.num_cpus = 1}, false, 0},
    {"reader_dies", reader_dies, {.num_cpus = 1, .store_memory = 64 << 20}, false, 0},
    {"reuse", reuse, {.num_cpus = 1, .store_memory = 64 << 20}, false, 0},
    {"full", full, {.num_cpus = 1, .store_memory = 32 << 20, .spill_dir = "none"}, false, 0},
    {"regions", regions, TWO_CPUS},
    {"sums", sums, {.num_cpus = 2, .checksum = true}, false, 0},
    {"sums_of_some", sums_of_some, {.num_cpus = 2}, false, 0},
    {"no_sums", no_sums, {.num_cpus = 2}, false, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
