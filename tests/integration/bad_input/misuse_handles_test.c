/* SPDX-License-Identifier: Apache-2.0
 *
 * misuse_handles_test.c - handles that were freed, copied, made up or mixed up: each call that gets one says so, and what others
 * hold stays.
 *
 * Thread: the driver's main one. Each case is a process of its own (harness.h).
 */
#include "tests/integration/bad_input/misuse.h"

#include <pthread.h>

/* ---- references ---- */

static manta_ref *freed_ref(void)
{
    manta_ref *ref = ready_ref();
    CHECK_EQ(manta_free(ref), MANTA_OK);
    return ref;
}
static void get_after_free(void)
{
    manta_error e;
    manta_view  view;
    int64_t     x = 77;
    manta_ref  *ref = freed_ref();
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_EHANDLE, &e);
    CHECK_SAYS(e.message, "manta_get");
    CHECK_SAYS(e.message, "freed before");
    CHECK_CODE(manta_get_i64(ref, TEST_WAIT_MS, &x, &e), MANTA_EHANDLE, &e);
    CHECK_EQ(x, 77);
    goes_on();
}
/* Its place is another value's by then. */
static void get_after_free_and_reuse(void)
{
    manta_error e;
    int64_t     x;
    manta_ref  *ref = freed_ref(), *others[1000];
    for (int i = 0; i < 1000; i++)
        others[i] = add_remote(NULL, i, i);
    CHECK_CODE(manta_get_i64(ref, TEST_WAIT_MS, &x, &e), MANTA_EHANDLE, &e);
    CHECK_EQ(manta_free(ref), MANTA_EHANDLE);
    for (int i = 0; i < 1000; i++)
        CHECK_I64(others[i], 2 * i);
}
/* A generation is more than 16 bits: no number of reuses that a program makes by accident brings the handle back. */
static void get_after_free_and_many_uses(void)
{
    manta_ref *ref = manta_put("a", 1);
    CHECK_EQ(manta_free(ref), MANTA_OK);
    for (int i = 0; i < 200000; i++) {
        manta_ref *other = manta_put("b", 1);
        CHECK_EQ(manta_free(ref), MANTA_EHANDLE);
        CHECK_EQ(manta_free(other), MANTA_OK);
    }
    goes_on();
}
/* A number that is a right handle in the one process is none in another. */
static manta_status gets_a_number(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_ref   *mine[100];
    manta_view   view;
    manta_status code;
    (void)argc;
    for (int i = 0; i < 100; i++)
        mine[i] = manta_put("mine", 4);
    code = manta_get((manta_ref *)(uintptr_t)argv[0].u, 0, &view, NULL);
    for (int i = 0; i < 100; i++)
        manta_free(mine[i]);
    return manta_return_i64(c, code);
}
MANTA_REGISTER(gets_a_number, "u>l");
static void handle_of_another_process(void)
{
    manta_ref *ref = ready_ref();
    CHECK_I64(manta_call("gets_a_number", NULL, MANTA_ARGS(manta_u64((uintptr_t)ref))), MANTA_EHANDLE);
    CHECK_I64(ref, 3);
}
static void free_twice(void)
{
    manta_ref *ref = freed_ref();
    CHECK_EQ(manta_free(ref), MANTA_EHANDLE);
    goes_on();
}
/* The task still holds it: the second free must not take that hold. */
static void free_twice_while_it_runs(void)
{
    manta_ref *slow = add_remote(NULL, 1, 2), *sum = manta_call("add", NULL, MANTA_ARGS(manta_ref_arg(slow), manta_i64(1)));
    CHECK_EQ(manta_free(slow), MANTA_OK);
    CHECK_EQ(manta_free(slow), MANTA_EHANDLE);
    CHECK_I64(sum, 4);
    goes_on();
}
/* One of the two has it. */
struct race {
    manta_ref *refs[1000];
    atomic_int freed, refused, begun;
};
static void *frees_all(void *arg)
{
    struct race *r = arg;
    for (r->begun++; r->begun < 2;)
        continue;
    for (int i = 0; i < 1000; i++) {
        manta_status code = manta_free(r->refs[i]);
        r->freed += code == MANTA_OK;
        r->refused += code == MANTA_EHANDLE;
    }
    return NULL;
}
static void free_by_two_threads(void)
{
    static struct race r;
    pthread_t          other;
    for (int i = 0; i < 1000; i++)
        r.refs[i] = manta_put("x", 1);
    CHECK_EQ(pthread_create(&other, NULL, frees_all, &r), 0);
    frees_all(&r);
    pthread_join(other, NULL);
    CHECK_EQ(r.freed, 1000);
    CHECK_EQ(r.refused, 1000);
    goes_on();
}
static void free_more_often_than_dup(void)
{
    manta_ref *ref = ready_ref(), *same = manta_dup(ref);
    CHECK_EQ(manta_free(ref), MANTA_OK);
    CHECK_EQ(manta_free(same), MANTA_OK);
    CHECK_EQ(manta_free(ref), MANTA_EHANDLE);
    goes_on();
}
static void dup_after_free(void)
{
    manta_error e;
    CHECK_FAILS(manta_dup(freed_ref()), MANTA_EHANDLE, &e);
    goes_on();
}
static void wait_after_free(void)
{
    manta_error e;
    manta_ref  *refs[2] = {ready_ref(), freed_ref()};
    CHECK_EQ(manta_wait(refs, 2, 1, 0, NULL, &e), -MANTA_EHANDLE);
    CHECK_SAYS(e.message, "reference 1");
    manta_free(refs[0]);
    goes_on();
}
static void cancel_after_free(void)
{
    manta_error e;
    CHECK_CODE(manta_cancel(freed_ref(), NULL, &e), MANTA_EHANDLE, &e);
    goes_on();
}
static void free_now_after_free(void)
{
    manta_error e;
    manta_ref  *refs[2] = {ready_ref(), freed_ref()};
    CHECK_CODE(manta_free_now(refs, 2, &e), MANTA_EHANDLE, &e);
    CHECK_I64(refs[0], 3); /* nothing was freed */
    goes_on();
}
static void argument_after_free(void)
{
    manta_error e;
    CHECK_FAILS(manta_call("add", NULL, MANTA_ARGS(manta_ref_arg(freed_ref()), manta_i64(1))), MANTA_EHANDLE, &e);
    CHECK_SAYS(e.message, "argument 1");
    goes_on();
}
static void declared_after_free(void)
{
    manta_error e;
    manta_ref  *ref = freed_ref();
    CHECK_FAILS(manta_put_refs("x", 1, &ref, 1), MANTA_EHANDLE, &e);
    goes_on();
}
static void callback_after_free(void)
{
    manta_error e;
    CHECK_CODE(manta_on_ready(freed_ref(), nothing, NULL, &e), MANTA_EHANDLE, &e);
    goes_on();
}
static void frees_it(void *user, manta_ref *ref)
{
    manta_free(ref);
    *(atomic_int *)user = 1 + manta_free(ref);
}
static void free_inside_a_callback(void)
{
    atomic_int  told = 0;
    manta_error e;
    manta_ref  *ref = ready_ref();
    CHECK_CODE(manta_on_ready(ref, frees_it, &told, &e), MANTA_OK, &e);
    for (int i = 0; !told && i < TEST_WAIT_MS; i++, test_sleep_ms(1))
        manta_progress();
    CHECK(told);
    goes_on();
}
static void random_handles(void)
{
    static int  thing;
    uintptr_t   numbers[] = {1,
                             8,
                             4096,
                             0x7fffffff,
                             0xffffffff,
                             (uintptr_t)&thing,
                             (uintptr_t)test_argv,
                             0xdeadbeefdeadbeef,
                             UINTPTR_MAX,
                             UINTPTR_MAX - 1};
    manta_error e;
    manta_view  view;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        manta_ref *ref = (manta_ref *)numbers[i];
        CHECK_CODE(manta_get(ref, 0, &view, &e), MANTA_EHANDLE, &e);
        CHECK_EQ(manta_free(ref), MANTA_EHANDLE);
        CHECK_EQ(manta_actor_free((manta_actor *)numbers[i]), MANTA_EHANDLE);
        CHECK_EQ(manta_generator_free((manta_generator *)numbers[i]), MANTA_EHANDLE);
        CHECK_EQ(manta_pg_free((manta_pg *)numbers[i]), MANTA_EHANDLE);
        CHECK_EQ(manta_env_free((manta_env *)numbers[i]), MANTA_EHANDLE);
    }
    goes_on();
}
/* A handle of one kind where another is wanted. */
static void handles_of_another_kind(void)
{
    manta_error  e;
    manta_view   view;
    manta_ref   *ref = ready_ref();
    manta_actor *a = manta_actor_new("thing", NULL, MANTA_NO_ARGS);
    CHECK_FAILS(manta_actor_call((manta_actor *)ref, "one", MANTA_NO_ARGS), MANTA_EHANDLE, &e);
    CHECK_CODE(manta_get((manta_ref *)a, 0, &view, &e), MANTA_EHANDLE, &e);
    CHECK_CODE(manta_next((manta_generator *)a, 0, &view, &e), MANTA_EHANDLE, &e);
    CHECK_CODE(manta_pg_wait((manta_pg *)a, 0, &e), MANTA_EHANDLE, &e);
    CHECK_I64(manta_actor_call(a, "one", MANTA_NO_ARGS), 1);
    manta_actor_free(a);
    manta_free(ref);
}
static manta_status frees_its_argument(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t first = manta_free(argv[0].r), second = manta_free(argv[0].r);
    (void)argc;
    return manta_return_i64(c, first * 100 + second);
}
MANTA_REGISTER(frees_its_argument, "r>l");
static void free_of_an_argument(void)
{
    manta_ref *ref = ready_ref();
    CHECK_I64(manta_call("frees_its_argument", NULL, MANTA_ARGS(manta_ref_arg(ref))), MANTA_OK * 100 + MANTA_EHANDLE);
    CHECK_I64(ref, 3);
    goes_on();
}

/* ---- views and buffers ---- */

static void release_twice(void)
{
    manta_error e;
    manta_ref  *ref = manta_put("0123456789", 10);
    manta_view  view, copy;
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    copy = view;
    CHECK_EQ(manta_release(&view), MANTA_OK);
    CHECK_EQ(manta_release(&view), MANTA_OK); /* it is empty by now */
    CHECK_EQ(manta_release(&copy), MANTA_EHANDLE);
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK(memcmp(view.data, "0123456789", 10) == 0);
    manta_release(&view);
    CHECK_EQ(manta_free(ref), MANTA_OK);
    goes_on();
}
/* The value that is looked at must not go with somebody's second free. */
static void free_twice_under_a_view(void)
{
    static char data[100000];
    manta_error e;
    manta_view  small, large;
    memset(data, 7, sizeof data);
    manta_ref *a = manta_put("0123456789", 10), *b = manta_put(data, sizeof data);
    CHECK_CODE(manta_get(a, TEST_WAIT_MS, &small, &e), MANTA_OK, &e);
    CHECK_CODE(manta_get(b, TEST_WAIT_MS, &large, &e), MANTA_OK, &e);
    CHECK_EQ(manta_free(a), MANTA_OK);
    CHECK_EQ(manta_free(b), MANTA_OK);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(manta_free(a), MANTA_EHANDLE);
        CHECK_EQ(manta_free(b), MANTA_EHANDLE);
        manta_free(manta_put("9876543210", 10));
        manta_free(manta_put(data + 1, sizeof data - 1));
    }
    CHECK(memcmp(small.data, "0123456789", 10) == 0);
    CHECK(memcmp(large.data, data, sizeof data) == 0);
    CHECK_EQ(manta_release(&small), MANTA_OK);
    CHECK_EQ(manta_release(&large), MANTA_OK);
}
static void release_of_a_reference(void)
{
    manta_error  e;
    manta_buffer buffer;
    manta_ref   *ref = ready_ref();
    CHECK_CODE(manta_create(10000, &buffer, &e), MANTA_OK, &e);
    CHECK_EQ(manta_release(&(manta_view){.hold = ref}), MANTA_EHANDLE);
    CHECK_EQ(manta_release(&(manta_view){.hold = buffer.hold}), MANTA_EHANDLE);
    CHECK_EQ(manta_drop(&buffer), MANTA_OK);
    CHECK_I64(ref, 3);
}
static void release_of_rubbish(void)
{
    manta_view view;
    memset(&view, 0x5a, sizeof view);
    CHECK_EQ(manta_release(&view), MANTA_EHANDLE);
    CHECK_EQ(manta_release(NULL), MANTA_OK);
    goes_on();
}
static void view_refs_of_a_released_view(void)
{
    manta_error e;
    manta_ref  *ref = ready_ref(), *out[1];
    manta_view  view, copy;
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    copy = view;
    manta_release(&view);
    CHECK_EQ(manta_view_refs(&copy, out, 1, &e), -MANTA_EHANDLE);
    manta_free(ref);
}
/* The value outlives its handle as long as it is looked at. */
static void view_after_free(void)
{
    static char data[100000];
    manta_error e;
    manta_view  view;
    memset(data, 7, sizeof data);
    manta_ref *ref = manta_put(data, sizeof data);
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    manta_free(ref);
    for (int i = 0; i < 10; i++)
        manta_free(manta_put(data + 1, sizeof data - 1));
    CHECK(memcmp(view.data, data, sizeof data) == 0);
    manta_release(&view);
}
static void seal_of_nothing(void)
{
    manta_error  e;
    manta_buffer empty = {0};
    CHECK_FAILS(manta_seal(NULL), MANTA_EINVAL, &e);
    CHECK_FAILS(manta_seal(&empty), MANTA_EINVAL, &e);
    CHECK_EQ(manta_drop(NULL), MANTA_OK);
    CHECK_EQ(manta_drop(&empty), MANTA_OK);
    goes_on();
}
static void seal_twice(void)
{
    manta_error  e;
    manta_buffer buffer, copy;
    CHECK_CODE(manta_create(10000, &buffer, &e), MANTA_OK, &e);
    memset(buffer.data, 1, 10000);
    copy = buffer;
    manta_ref *ref = manta_seal(&buffer);
    CHECK_FAILS(manta_seal(&buffer), MANTA_EINVAL, &e);
    CHECK_FAILS(manta_seal(&copy), MANTA_EHANDLE, &e);
    manta_free(ref);
    goes_on();
}
static void drop_after_seal(void)
{
    manta_error  e;
    manta_buffer buffer, copy;
    manta_view   view;
    CHECK_CODE(manta_create(10000, &buffer, &e), MANTA_OK, &e);
    memset(buffer.data, 1, 10000);
    copy = buffer;
    manta_ref *ref = manta_seal(&buffer);
    CHECK_EQ(manta_drop(&copy), MANTA_EHANDLE);
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(((const char *)view.data)[9999], 1);
    manta_release(&view);
    manta_free(ref);
}
static void drop_twice(void)
{
    manta_error  e;
    manta_buffer buffer, copy;
    CHECK_CODE(manta_create(10000, &buffer, &e), MANTA_OK, &e);
    copy = buffer;
    CHECK_EQ(manta_drop(&buffer), MANTA_OK);
    CHECK_EQ(manta_drop(&copy), MANTA_EHANDLE);
    CHECK_FAILS(manta_seal(&copy), MANTA_EINVAL, &e);
    goes_on();
}
static void seal_of_a_buffer_that_says_more(void)
{
    manta_error  e;
    manta_buffer buffer;
    manta_view   view;
    CHECK_CODE(manta_create(10000, &buffer, &e), MANTA_OK, &e);
    memset(buffer.data, 1, 10000);
    buffer.size = (size_t)1 << 40; /* what was reserved stays what it is */
    manta_ref *ref = manta_seal(&buffer);
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(view.size, 10000);
    manta_release(&view);
    manta_free(ref);
}
static void sizes_without_sense(void)
{
    manta_error  e;
    manta_buffer buffer;
    manta_region region;
    CHECK_FAILS(manta_put("x", SIZE_MAX), MANTA_ESTORE_FULL, &e);
    CHECK_EQ(manta_create(SIZE_MAX, &buffer, &e), MANTA_ESTORE_FULL);
    CHECK_EQ(manta_create(SIZE_MAX / 2, &buffer, &e), MANTA_ESTORE_FULL);
    CHECK_EQ(manta_region_open(0, 0, &region, &e), MANTA_EINVAL);
    CHECK_EQ(manta_region_open(10, 10, &region, &e), MANTA_EINVAL);
    CHECK_EQ(manta_region_open(10, 0, NULL, &e), MANTA_EINVAL);
    CHECK(manta_region_open(0, 12345, &region, &e) != MANTA_OK);
    manta_region_close(NULL);
    goes_on();
}

/* ---- actors ---- */

static void actor_after_free(void)
{
    manta_error  e;
    manta_actor *a = manta_actor_new("thing", NULL, MANTA_NO_ARGS);
    CHECK_I64(manta_actor_call(a, "one", MANTA_NO_ARGS), 1);
    CHECK_EQ(manta_actor_free(a), MANTA_OK);
    CHECK_EQ(manta_actor_free(a), MANTA_EHANDLE);
    CHECK_FAILS(manta_actor_call(a, "one", MANTA_NO_ARGS), MANTA_EHANDLE, &e);
    CHECK_FAILS(manta_actor_end(a), MANTA_EHANDLE, &e);
    CHECK_EQ(manta_actor_kill(a, false), MANTA_EHANDLE);
    CHECK_EQ(manta_actor_watch(a, (manta_death_fn)(void (*)(void))nothing, NULL, NULL, &e), MANTA_EHANDLE);
    CHECK_FAILS(manta_actor_call(manta_actor_dup(a), "one", MANTA_NO_ARGS), MANTA_EHANDLE, &e);
    goes_on();
}
static void actor_free_twice_with_a_dup(void)
{
    manta_actor *a = manta_actor_new("thing", NULL, MANTA_NO_ARGS), *b = manta_actor_dup(a);
    CHECK_EQ(manta_actor_free(a), MANTA_OK);
    CHECK_EQ(manta_actor_free(a), MANTA_EHANDLE);
    CHECK_I64(manta_actor_call(b, "one", MANTA_NO_ARGS), 1);
    manta_actor_free(b);
}
static manta_status uses_a_thing(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, manta_actor_free(argv[0].A) * 100 + manta_actor_free(argv[0].A));
}
MANTA_REGISTER(uses_a_thing, "A>l");
static void actor_argument_freed(void)
{
    manta_actor *a = manta_actor_new("thing", NULL, MANTA_NO_ARGS);
    CHECK_I64(manta_call("uses_a_thing", NULL, MANTA_ARGS(manta_actor_arg(a))), MANTA_OK * 100 + MANTA_EHANDLE);
    CHECK_I64(manta_actor_call(a, "one", MANTA_NO_ARGS), 1);
    manta_actor_free(a);
}
static void actor_argument_after_free(void)
{
    manta_error  e;
    manta_actor *a = manta_actor_new("thing", NULL, MANTA_NO_ARGS);
    manta_actor_free(a);
    CHECK_FAILS(manta_call("uses_a_thing", NULL, MANTA_ARGS(manta_actor_arg(a))), MANTA_EHANDLE, &e);
    goes_on();
}
static void actor_without_a_type(void)
{
    manta_error  e;
    manta_actor *a = manta_actor_new(NULL, NULL, MANTA_NO_ARGS), *b = manta_actor_new("thyng", NULL, MANTA_NO_ARGS);
    CHECK_FAILS(manta_actor_call(a, "one", MANTA_NO_ARGS), MANTA_ENOFUNC, &e);
    CHECK_FAILS(manta_actor_call(b, "one", MANTA_NO_ARGS), MANTA_ENOFUNC, &e);
    CHECK_SAYS(e.message, "thing");
    manta_actor_free(a);
    manta_actor_free(b);
    CHECK_FAILS(manta_actor_call(NULL, "one", MANTA_NO_ARGS), MANTA_EINVAL, &e);
    CHECK_FAILS(manta_actor_end(NULL), MANTA_EINVAL, &e);
    goes_on();
}
static void method_without_a_name(void)
{
    manta_error  e;
    manta_actor *a = manta_actor_new("thing", NULL, MANTA_NO_ARGS);
    CHECK_FAILS(manta_actor_call(a, NULL, MANTA_NO_ARGS), MANTA_EINVAL, &e);
    CHECK_FAILS(manta_actor_call(a, "ome", MANTA_NO_ARGS), MANTA_ENOFUNC, &e);
    CHECK_SAYS(e.message, "one");
    manta_actor_free(a);
}

/* ---- generators, placement groups, environments ---- */

static void generator_after_free(void)
{
    manta_error      e;
    manta_view       view;
    manta_ref       *ref;
    manta_generator *g = manta_call_stream("counts", NULL, MANTA_ARGS(manta_i64(10)));
    CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(manta_generator_free(g), MANTA_OK);
    CHECK_EQ(manta_generator_free(g), MANTA_EHANDLE);
    CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_EHANDLE, &e);
    CHECK_CODE(manta_next_ref(g, TEST_WAIT_MS, &ref, &e), MANTA_EHANDLE, &e);
    goes_on();
}
static void generator_of_a_plain_call(void)
{
    manta_error e;
    manta_view  view;
    CHECK_FAILS(manta_call("counts", NULL, MANTA_ARGS(manta_i64(10))), MANTA_EINVAL, &e);
    manta_generator *g = manta_call_stream("add", NULL, MANTA_ARGS(manta_i64(1), manta_i64(2)));
    CHECK(manta_next(g, TEST_WAIT_MS, &view, &e) != MANTA_OK);
    manta_generator_free(g);
    goes_on();
}
static void generator_past_its_end(void)
{
    manta_error      e;
    manta_view       view;
    manta_generator *g = manta_call_stream("counts", NULL, MANTA_ARGS(manta_i64(1)));
    CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    for (int i = 0; i < 3; i++)
        CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_EEND, &e);
    manta_generator_free(g);
}
static void placement_group_after_free(void)
{
    manta_error     e;
    manta_resource  cpu = {"CPU", 1};
    manta_bundle    bundle = {.resources = &cpu, .resource_count = 1};
    manta_pg       *pg = manta_pg_new(&bundle, 1, NULL, &e);
    manta_task_opts opts = {.pg = pg};
    uint32_t        node;
    CHECK(pg);
    CHECK_EQ(manta_pg_remove(pg, &e), MANTA_OK);
    CHECK_EQ(manta_pg_free(pg), MANTA_OK);
    CHECK_EQ(manta_pg_free(pg), MANTA_EHANDLE);
    CHECK_EQ(manta_pg_wait(pg, 0, &e), MANTA_EHANDLE);
    CHECK_EQ(manta_pg_remove(pg, &e), MANTA_EHANDLE);
    CHECK_EQ(manta_pg_count(pg), 0);
    CHECK_EQ(manta_pg_count(NULL), 0);
    CHECK_EQ(manta_pg_nodes(pg, &node, 1, &e), -MANTA_EHANDLE);
    CHECK_FAILS(add_remote(&opts, 1, 2), MANTA_EHANDLE, &e);
    goes_on();
}
static void environment_after_free(void)
{
    manta_error       e;
    const char       *vars[] = {"MISUSE=1", NULL};
    manta_runtime_env env = {.env_vars = vars};
    manta_env        *made = manta_env_new(&env, &e);
    manta_task_opts   opts = {.env = made};
    CHECK(made);
    CHECK_EQ(manta_env_free(made), MANTA_OK);
    CHECK_EQ(manta_env_free(made), MANTA_EHANDLE);
    CHECK_FAILS(add_remote(&opts, 1, 2), MANTA_EHANDLE, &e);
    CHECK(!manta_env_new(NULL, &e));
    goes_on();
}

static void group_after_free(void)
{
    manta_error  e;
    manta_ref   *refs[2];
    manta_view   views[2];
    int          failed;
    manta_arg    item = manta_i64(1);
    manta_group *group = manta_group_new("thing", NULL, 2, MANTA_NO_ARGS, &e);
    CHECK(group);
    CHECK_EQ(manta_group_free(group), MANTA_OK);
    CHECK_EQ(manta_group_free(group), MANTA_EHANDLE);
    CHECK_EQ(manta_group_size(group), 0);
    CHECK(!manta_group_actor(group, 0));
    CHECK_EQ(manta_group_call(group, "one", MANTA_NO_ARGS, refs), MANTA_EHANDLE);
    CHECK_EQ(manta_group_gather(group, "one", MANTA_NO_ARGS, 0, views, &failed, &e), MANTA_EHANDLE);
    CHECK_EQ(manta_group_map(group, "one", &item, 1, refs, &e), MANTA_EHANDLE);
    CHECK_EQ(manta_group_end(group, 0, &e), MANTA_EHANDLE);
    manta_group_unwatch(group);
    goes_on();
}
/* What manta_group_actor lends is freed by one who was not given it. */
static void member_of_a_group_freed(void)
{
    manta_error  e;
    manta_ref   *refs[2];
    manta_group *group = manta_group_new("thing", NULL, 2, MANTA_NO_ARGS, &e);
    CHECK(group);
    (void)manta_actor_free(manta_group_actor(group, 0));
    (void)manta_actor_free(manta_group_actor(group, 0));
    CHECK_EQ(manta_group_call(group, "one", MANTA_NO_ARGS, refs), MANTA_OK);
    CHECK_FAILS(refs[0], MANTA_EHANDLE, &e);
    CHECK_I64(refs[1], 1);
    CHECK_EQ(manta_group_free(group), MANTA_OK);
    goes_on();
}
static void group_of_freed_actors(void)
{
    manta_error  e;
    manta_ref   *ref;
    manta_actor *a = manta_actor_new("thing", NULL, MANTA_NO_ARGS);
    manta_actor_free(a);
    manta_group *group = manta_group_of(&a, 1, &e);
    if (group) { /* its calls say so */
        CHECK_EQ(manta_group_call(group, "one", MANTA_NO_ARGS, &ref), MANTA_OK);
        CHECK_FAILS(ref, MANTA_EHANDLE, &e);
        manta_group_free(group);
    }
    CHECK(!manta_group_of(NULL, 1, &e));
    CHECK(!manta_group_new("thing", NULL, -1, MANTA_NO_ARGS, &e));
    goes_on();
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(get_after_free),
        CASE(get_after_free_and_reuse),
        CASE(get_after_free_and_many_uses),
        CASE(handle_of_another_process),
        CASE(free_twice),
        CASE(free_twice_while_it_runs),
        CASE(free_by_two_threads),
        CASE(free_more_often_than_dup),
        CASE(dup_after_free),
        CASE(wait_after_free),
        CASE(cancel_after_free),
        CASE(free_now_after_free),
        CASE(argument_after_free),
        CASE(declared_after_free),
        CASE(callback_after_free),
        CASE(free_inside_a_callback),
        CASE(random_handles),
        CASE(handles_of_another_kind),
        CASE(free_of_an_argument),
        CASE(release_twice),
        CASE(free_twice_under_a_view),
        CASE(release_of_a_reference),
        CASE(release_of_rubbish),
        CASE(view_refs_of_a_released_view),
        CASE(view_after_free),
        CASE(seal_of_nothing),
        CASE(seal_twice),
        CASE(drop_after_seal),
        CASE(drop_twice),
        CASE(seal_of_a_buffer_that_says_more),
        CASE(sizes_without_sense),
        CASE(actor_after_free),
        CASE(actor_free_twice_with_a_dup),
        CASE(actor_argument_freed),
        CASE(actor_argument_after_free),
        CASE(actor_without_a_type),
        CASE(method_without_a_name),
        CASE(generator_after_free),
        CASE(generator_of_a_plain_call),
        CASE(generator_past_its_end),
        CASE(placement_group_after_free),
        CASE(environment_after_free),
        CASE(group_after_free),
        CASE(member_of_a_group_freed),
        CASE(group_of_freed_actors),
        {.name = NULL},
    };
    return test_main(argc, argv, cases);
}
