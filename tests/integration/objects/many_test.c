/* SPDX-License-Identifier: Apache-2.0
 *
 * many_test.c - values of another node, many at a time: got together, fetched before they are read, waited for until they are here.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cluster/nodes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 3000, ARGUMENTS = 200 };

static manta_status make(manta_ctx *c, int argc, const manta_arg *argv)
{
    size_t       size = (size_t)argv[0].l;
    char        *data = malloc(size + 1);
    manta_status code;
    (void)argc;
    if (!data)
        return manta_fail(c, 1, "no memory");
    nodes_fill(data, size, argv[1].l);
    code = manta_return_bytes(c, data, size);
    free(data);
    return code;
}
MANTA_REGISTER(make, "ll>y");
static manta_status refuse(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_fail(c, 7, "on purpose");
}
MANTA_REGISTER(refuse, ">y");
/* How many of its arguments are what they should be. */
static manta_status count_right(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t right = 0;
    for (int i = 0; i < argc; i++)
        right += nodes_is_filled(argv[i].y.data, argv[i].y.size, i);
    return manta_return_i64(c, right);
}
MANTA_REGISTER(count_right, "*>l");

/* From nothing to 70,000 bytes: in the record, together with others, on a way of its own. */
static size_t size_of(int i)
{
    return i % 500 == 499 ? 70000 : i % 7 == 6 ? (size_t)(i % 100) : 8192 + (size_t)i;
}
static manta_ref *make_at(int node, int i)
{
    return manta_call("make", &(manta_task_opts){AT(node), .max_retries = MANTA_NO_RETRY},
                      MANTA_ARGS(manta_i64((int64_t)size_of(i)), manta_i64(i)));
}
static manta_ref *refs[COUNT];
static void       make_all(void)
{
    for (int i = 0; i < COUNT; i++)
        refs[i] = make_at(i % 100 != 99, i); /* some are here */
}
static void wait_all(void)
{
    manta_error e;
    CHECK_EQ(manta_wait(refs, COUNT, COUNT, TEST_WAIT_MS, NULL, &e), COUNT);
}
static void free_all(void)
{
    for (int i = 0; i < COUNT; i++)
        manta_free(refs[i]);
}
static void check_view(manta_view *view, int i)
{
    CHECK_EQ(view->size, size_of(i));
    CHECK(nodes_is_filled(view->data, view->size, i));
    manta_release(view);
}
static void get_each(int64_t timeout_ms)
{
    manta_error e;
    manta_view  view;
    for (int i = 0; i < COUNT; i++) {
        CHECK_CODE(manta_get(refs[i], timeout_ms, &view, &e), MANTA_OK, &e);
        check_view(&view, i);
    }
}

static void together(void)
{
    static manta_view views[COUNT];
    manta_error       e;
    make_all(); /* most are not ready yet */
    CHECK_CODE(manta_get_many(refs, COUNT, TEST_WAIT_MS, views, &e), MANTA_OK, &e);
    for (int i = COUNT - 1; i >= 0; i--)
        check_view(&views[i], i);
    CHECK_CODE(manta_get_many(refs, COUNT, TEST_WAIT_MS, views, &e), MANTA_OK, &e); /* from the copies, or anew */
    for (int i = 0; i < COUNT; i++)
        check_view(&views[i], i);
    free_all();
}

static void fetched_before(void)
{
    manta_error e;
    make_all();
    CHECK_CODE(manta_fetch(refs, COUNT, &e), MANTA_OK, &e);
    CHECK_CODE(manta_fetch(refs, COUNT / 2, &e), MANTA_OK, &e);
    get_each(TEST_WAIT_MS);
    free_all();
    make_all();
    wait_all();
    CHECK_CODE(manta_fetch(refs, COUNT, &e), MANTA_OK, &e);
    free_all(); /* nobody reads them */
}

/* What is said to be here is here: its node does not answer any more. */
static void waited_for(struct nodes *n)
{
    static unsigned char ready[COUNT];
    manta_error          e;
    make_all();
    CHECK_EQ(manta_wait_with(refs, COUNT, COUNT, TEST_WAIT_MS, &(manta_wait_opts){.fetch = true}, ready, &e), COUNT);
    kill(n->raylets[1], SIGSTOP);
    for (int i = 0; i < COUNT; i++)
        CHECK(ready[i]);
    get_each(TEST_WAIT_MS);
    kill(n->raylets[1], SIGCONT);
    free_all();
}

static void all_or_none(void)
{
    manta_view  views[5];
    manta_error e;
    manta_ref  *some[5] = {make_at(1, 0), make_at(1, 1), manta_call("refuse", &(manta_task_opts){AT(1)}, MANTA_NO_ARGS),
                           make_at(1, 3), make_at(1, 4)};
    CHECK_CODE(manta_get_many(some, 5, TEST_WAIT_MS, views, &e), MANTA_ETASK, &e);
    for (int i = 0; i < 5; i++)
        CHECK(!views[i].data && !views[i].hold);
    CHECK_CODE(manta_get_many(some, 2, TEST_WAIT_MS, NULL, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_get_many(NULL, 2, TEST_WAIT_MS, views, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_get_many(NULL, 0, TEST_WAIT_MS, NULL, &e), MANTA_OK, &e);
    CHECK_EQ(manta_wait_with(some, 2, 3, 0, NULL, NULL, &e), -MANTA_EINVAL);
    for (int i = 0; i < 5; i++)
        manta_free(some[i]);
    CHECK_CODE(manta_get_many(some, 2, TEST_WAIT_MS, views, &e), MANTA_EHANDLE, &e);
    CHECK_SAYS(e.message, "reference 0");
    CHECK_CODE(manta_fetch(some, 2, &e), MANTA_EHANDLE, &e);
}

/* So many references go in short: the worker asks their owner for all, then their node. */
static void as_arguments(void)
{
    manta_arg args[ARGUMENTS];
    for (int i = 0; i < ARGUMENTS; i++)
        args[i] = manta_ref_arg(refs[i] = make_at(i % 3 != 0, i));
    CHECK_I64(manta_call("count_right", &(manta_task_opts){AT(0)}, ARGUMENTS, args), ARGUMENTS);
    CHECK_I64(manta_call("count_right", &(manta_task_opts){AT(1)}, ARGUMENTS, args), ARGUMENTS);
    for (int i = 0; i < ARGUMENTS; i++)
        manta_free(refs[i]);
}

static void many_values(void)
{
    struct nodes n;
    nodes_start(&n, 2, "2");
    together();
    fetched_before();
    all_or_none();
    as_arguments();
    waited_for(&n);
    nodes_stop(&n);
}

/* The node goes while its values come: who waits is told, and those that had come are read. */
static void many_source_dies(void)
{
    static manta_view views[COUNT];
    struct nodes      n;
    manta_error       e;
    nodes_start(&n, 2, "2");
    make_all();
    wait_all();
    CHECK_CODE(manta_fetch(refs, COUNT, &e), MANTA_OK, &e);
    CHECK_CODE(manta_get(refs[0], TEST_WAIT_MS, &views[0], &e), MANTA_OK, &e);
    check_view(&views[0], 0);
    nodes_kill(&n.raylets[1]);
    manta_status code = manta_get_many(refs, COUNT, TEST_WAIT_MS, views, &e);
    CHECK(code == MANTA_OK || code == MANTA_EOBJ_LOST || code == MANTA_ENODE_DIED);
    for (int i = 0; i < COUNT; i++) {
        if (code == MANTA_OK)
            check_view(&views[i], i);
        CHECK(!views[i].hold);
    }
    free_all();
    nodes_stop(&n);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {{"many_values", many_values, {0}, true, 0},
                                             {"many_source_dies", many_source_dies, {0}, true, 0},
                                             {NULL, NULL, {0}, false, 0}};
    return test_main(argc, argv, cases);
}
