/* SPDX-License-Identifier: Apache-2.0
 *
 * read_only_test.c - a value does not change: whoever writes a view gets SIGSEGV, where the value was put too, and it is
 * unharmed. (Copies of other nodes' values: cluster/pull_test.c.)
 *
 * Thread: the driver's main one; an actor's calls run on threads of its own.
 */
#include "tests/integration/harness.h"

#include <stdlib.h>

static const size_t KIB = 1024, MIB = 1024 * 1024;
static const size_t sizes[] = {4097, 20000, 21697, 65536, 1 << 20, (4 << 20) + 1, 40 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0], FROZEN = 65536 - 64 /* of a sealed buffer of 1 MiB and more */ };

static void fill(void *data, size_t size, uint64_t seed)
{
    uint8_t *p = data;
    for (size_t i = 0; i < size; i++)
        p[i] = (uint8_t)((seed + i) * 31 + (i >> 8));
}
static bool is_filled(const void *data, size_t size, uint64_t seed)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < size; i++)
        if (p[i] != (uint8_t)((seed + i) * 31 + (i >> 8)))
            return false;
    return true;
}
static manta_ref *put_filled(size_t size, uint64_t seed)
{
    char *data = malloc(size);
    CHECK(data);
    fill(data, size, seed);
    manta_ref *ref = manta_put(data, size);
    free(data);
    return ref;
}

/* Writes at both ends and in the middle are stopped, and have changed nothing. */
static bool is_read_only(const manta_view *view, uint64_t seed)
{
    const char *data = view->data;
    return test_write_faults(data) && test_write_faults(data + view->size / 2) && test_write_faults(data + view->size - 1) &&
           is_filled(data, view->size, seed);
}
static bool ref_is_read_only(manta_ref *ref, uint64_t seed)
{
    manta_error e;
    manta_view  view;
    if (manta_get(ref, TEST_WAIT_MS, &view, &e) != MANTA_OK)
        return manta_perror(&e), false;
    bool is = is_read_only(&view, seed);
    manta_release(&view);
    return is;
}

static manta_status look(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    manta_view view = {.data = argv[0].y.data, .size = argv[0].y.size};
    return manta_return_i64(c, is_read_only(&view, argv[1].u));
}
MANTA_REGISTER(look, "yu>l");
static manta_status make(manta_ctx *c, int argc, const manta_arg *argv)
{
    char *data = malloc(argv[0].u);
    (void)argc;
    if (!data)
        return manta_fail(c, 1, "no memory");
    fill(data, argv[0].u, argv[1].u);
    manta_status code = manta_return_bytes(c, data, argv[0].u);
    free(data);
    return code;
}
MANTA_REGISTER(make, "uu>y");

static void put_by_itself(void)
{
    for (int i = 0; i < SIZES; i++) {
        manta_ref *ref = put_filled(sizes[i], (uint64_t)i);
        CHECK(ref_is_read_only(ref, (uint64_t)i));
        CHECK_I64(manta_call("look", NULL, MANTA_ARGS(manta_ref_arg(ref), manta_u64((uint64_t)i))), 1);
        manta_free(ref);
    }
}

/* The old pointer of a large one fails as well; the place can be written again when it is free again. */
static void sealed(void)
{
    for (int i = 0; i < 4 * SIZES; i++) {
        size_t       size = sizes[i % SIZES];
        manta_error  e;
        manta_buffer buffer;
        CHECK_CODE(manta_create(size, &buffer, &e), MANTA_OK, &e);
        fill(buffer.data, size, (uint64_t)i);
        const char *old = buffer.data;
        manta_ref  *ref = manta_seal(&buffer);
        if (size >= MIB)
            CHECK(test_write_faults(old) && test_write_faults(old + FROZEN - 1));
        CHECK(ref_is_read_only(ref, (uint64_t)i));
        CHECK_I64(manta_call("look", NULL, MANTA_ARGS(manta_ref_arg(ref), manta_u64((uint64_t)i))), 1);
        manta_view view;
        CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        manta_free(ref); /* the view holds the place */
        CHECK(is_read_only(&view, (uint64_t)i));
        manta_release(&view);
        ref = put_filled(size, 7); /* most of these come to the same place */
        CHECK(ref_is_read_only(ref, 7));
        manta_free(ref);
    }
}

/* What a process other than a driver has made by itself, on any of its threads; and results and arguments. */
MANTA_TASK(int64_t, own_value, (uint64_t, size), (uint64_t, seed))
{
    manta_ref *ref = put_filled(size, seed);
    int64_t    is = ref_is_read_only(ref, seed);
    manta_free(ref);
    return is;
}
static manta_status crowd_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = NULL;
    return MANTA_OK;
}
static manta_status crowd_own(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    return manta_return_i64(c, own_value(argv[0].u, argv[1].u));
}
MANTA_ACTOR(crowd, "", crowd_new, NULL, {"own", "uu>l", crowd_own});

static void in_workers(void)
{
    manta_actor_opts opts = {.max_concurrency = 4};
    manta_actor     *crowd = manta_actor_new("crowd", &opts, MANTA_NO_ARGS);
    manta_ref       *calls[8];
    CHECK(crowd);
    for (uint64_t i = 0; i < 8; i++)
        calls[i] = manta_actor_call(crowd, "own", MANTA_ARGS(manta_u64(64 * KIB << i % 5), manta_u64(i)));
    for (uint64_t i = 0; i < 5; i++) {
        size_t     size = 5000 << 2 * i;
        manta_ref *made = manta_call("make", NULL, MANTA_ARGS(manta_u64(size), manta_u64(i)));
        CHECK(ref_is_read_only(made, i));
        CHECK_I64(manta_call("look", NULL, MANTA_ARGS(manta_ref_arg(made), manta_u64(i))), 1);
        CHECK_I64(own_value_remote(NULL, size, i), 1);
        manta_free(made);
    }
    for (int i = 0; i < 8; i++)
        CHECK_I64(calls[i], 1);
    manta_actor_free(crowd);
}

static manta_status counted(manta_ctx *c, int argc, const manta_arg *argv)
{
    char *data = malloc(100 * KIB);
    (void)argc;
    manta_status code = data ? MANTA_OK : manta_fail(c, 1, "no memory");
    for (uint64_t i = 0; i < argv[0].u && code == MANTA_OK; i++) {
        fill(data, 100 * KIB, i);
        code = manta_yield(c, manta_bytes_of(data, 100 * KIB));
    }
    free(data);
    return code;
}
MANTA_REGISTER(counted, "u>y");

static void items(void)
{
    manta_error      e;
    manta_view       view;
    manta_generator *g = manta_call_stream("counted", NULL, MANTA_ARGS(manta_u64(5)));
    for (uint64_t i = 0; i < 5; i++) {
        CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        CHECK(is_read_only(&view, i));
        manta_release(&view);
    }
    manta_generator_free(g);
}

/* Three times the store, so most have been on disk when they are read. */
static void restored(void)
{
    enum { COUNT = 48 };
    manta_ref *refs[COUNT];
    for (uint64_t i = 0; i < COUNT; i++)
        refs[i] = put_filled(4 * MIB, i);
    for (uint64_t i = 0; i < COUNT; i++) {
        CHECK(ref_is_read_only(refs[i], i));
        manta_free(refs[i]);
    }
}

static const struct test_case cases[] = {
    {"put_by_itself", put_by_itself, {.num_cpus = 1}, false, 0},
    {"sealed", sealed, {.num_cpus = 1}, false, 0},
    {"in_workers", in_workers, {.num_cpus = 2}, false, 0},
    {"items", items, {.num_cpus = 1}, false, 0},
    {"restored", restored, {.num_cpus = 1, .store_memory = 64 << 20}, false, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
