/* SPDX-License-Identifier: Apache-2.0
 *
 * nodes_test.c - two nodes on one machine: tasks, actor calls and objects cross, and a node's death is told.
 *
 * Thread: the driver's main one; on_death runs on libmanta's helper.
 */
#include "tests/integration/cluster/nodes.h"
#include "tests/port.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t KIB = 1024, MIB = 1024 * 1024;

/* ---- what runs in the workers ---- */
MANTA_TASK(int64_t, add, (int64_t, a), (int64_t, b))
{
    return a + b;
}
MANTA_TASK(int64_t, where, (int64_t, x))
{
    return x * 1000 + manta_node();
}
/* Dies in its first `deaths` attempts. */
static manta_status fragile(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    if (manta_attempt(c) < argv[1].l)
        raise((int)argv[0].l);
    return manta_return_i64(c, manta_attempt(c) * 1000 + manta_node());
}
MANTA_REGISTER(fragile, "ll>l");
static manta_status refuse(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_fail(c, (int)argv[0].l, "not on node %u", manta_node());
}
MANTA_REGISTER(refuse, "l>l");
/* Says in word 0 that it has begun, then waits for word 1. */
static manta_status hold(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    atomic_fetch_add(&board->words[0], 1);
    return test_board_wait(&board->words[1], 1) ? manta_return_i64(c, manta_node()) : manta_fail(c, 1, "nobody came");
}
MANTA_REGISTER(hold, "u>l");

MANTA_TASK(int64_t, nap, (int64_t, ms))
{
    usleep((useconds_t)ms * 1000);
    return ms;
}

static manta_status look(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, nodes_is_filled(argv[0].y.data, argv[0].y.size, argv[1].l) ? (int64_t)argv[0].y.size : -1);
}
MANTA_REGISTER(look, "yl>l");
MANTA_TASK(int64_t, open_it, (manta_ref *, ref), (int64_t, seed))
{
    manta_error e;
    manta_view  view;
    if (manta_get(ref, TEST_WAIT_MS, &view, &e) != MANTA_OK)
        return -e.code;
    int64_t size = nodes_is_filled(view.data, view.size, seed) ? (int64_t)view.size : -1000;
    manta_release(&view);
    return size;
}
static manta_status make(manta_ctx *c, int argc, const manta_arg *argv)
{
    size_t size = (size_t)argv[0].l;
    char  *data = malloc(size + 1);
    (void)argc;
    nodes_fill(data, size, argv[1].l);
    manta_status code = manta_return_bytes(c, data, size);
    free(data);
    return code;
}
MANTA_REGISTER(make, "ll>y");

static manta_status counter_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc;
    *self = calloc(1, sizeof(int64_t));
    *(int64_t *)*self = argv[0].l;
    return MANTA_OK;
}
static manta_status counter_add(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, *(int64_t *)self += argv[0].l);
}
static manta_status counter_node(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, manta_node());
}
static manta_status counter_pid(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, getpid());
}
static manta_status counter_length(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    return manta_return_i64(c, (int64_t)argv[0].y.size);
}
MANTA_ACTOR(counter, "l", counter_new, free, {"add", "l>l", counter_add}, {"node", ">l", counter_node}, {"pid", ">l", counter_pid},
            {"length", "y>l", counter_length});
static manta_actor *counter_start(int at, int max_restarts, const char *name)
{
    return manta_actor_new("counter", &(manta_actor_opts){AT(at), .max_restarts = max_restarts, .name = name},
                           MANTA_ARGS(manta_i64(0)));
}
static manta_ref *count(manta_actor *a, int64_t x)
{
    return manta_actor_call(a, "add", MANTA_ARGS(manta_i64(x)));
}
/* Calls the actor `calls` times; how many of its replies came back in order. */
static manta_status caller(manta_ctx *c, int argc, const manta_arg *argv)
{
    enum { MOST = 500 };
    manta_ref *refs[MOST];
    int64_t    good = 0, before = 0;
    (void)argc;
    for (int64_t i = 0; i < argv[1].l; i++)
        refs[i] = count(argv[0].A, 1);
    for (int64_t i = 0; i < argv[1].l; i++) {
        int64_t x = test_i64(refs[i], __FILE__, __LINE__);
        good += x > before;
        before = x;
    }
    return manta_return_i64(c, good);
}
MANTA_REGISTER(caller, "Al>l");

#define THERE \
    &(manta_task_opts) \
    { \
        AT(1) \
    }

/* ---- tasks ---- */
static void tasks_cross(void)
{
    enum { COUNT = 5000 };
    static manta_ref *refs[COUNT];
    struct nodes      n;
    nodes_start(&n, 2, "2");
    CHECK(n.ids[1] && n.ids[1] != n.ids[0]);
    CHECK_I64(where_remote(THERE, 7), 7000 + n.ids[1]);
    CHECK_I64(where_remote(&(manta_task_opts){AT(0)}, 7), 7000 + n.ids[0]);
    CHECK_I64(where_remote(&(manta_task_opts){.node = n.ids[1]}, 8), 8000 + n.ids[1]);
    for (int i = 0; i < COUNT; i++)
        refs[i] = add_remote(THERE, i, 5);
    for (int i = 0; i < COUNT; i++)
        CHECK_I64(refs[i], i + 5);
    manta_ref *a = add_remote(THERE, 1, 2); /* a result from there as argument here, and the reverse */
    manta_ref *b = manta_call("add", &(manta_task_opts){AT(0)}, MANTA_ARGS(manta_ref_arg(a), manta_i64(10)));
    manta_ref *d = manta_call("add", THERE, MANTA_ARGS(manta_ref_arg(a), manta_ref_arg(b)));
    manta_free(a), manta_free(b);
    CHECK_I64(d, 16);
    nodes_stop(&n);
}

/* The bytes of all arguments, and how many there are. */
static manta_status bytes_of(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t sum = argc;
    for (int i = 0; i < argc; i++)
        sum += argv[i].type == 'y' ? (int64_t)argv[i].y.size : 1000000;
    return manta_return_i64(c, sum);
}
MANTA_REGISTER(bytes_of, "*>l");

/* So many references that they travel in short, and the node there asks for their values: made here and there, small and large. */
static void arguments_cross(void)
{
    static const char bytes[100 * 1000];
    struct nodes      n;
    manta_ref        *refs[MANTA_ARGS_MAX];
    manta_arg         args[MANTA_ARGS_MAX];
    int64_t           sum = MANTA_ARGS_MAX;
    nodes_start(&n, 2, "2");
    for (int i = 0; i < MANTA_ARGS_MAX; i++) {
        size_t size = i % 4 ? 100 : sizeof bytes;
        refs[i] = i & 1 ? manta_put(bytes, size)
                        : manta_call("make", i & 2 ? THERE : NULL, MANTA_ARGS(manta_i64((int64_t)size), manta_i64(i)));
        args[i] = manta_ref_arg(refs[i]);
        sum += (int64_t)size;
    }
    for (int i = 0; i < 2; i++)
        CHECK_I64(manta_call("bytes_of", &(manta_task_opts){AT(i)}, MANTA_ARGS_MAX, args), sum);
    for (int i = 0; i < MANTA_ARGS_MAX; i++)
        manta_free(refs[i]);
    nodes_stop(&n);
}

/* More than one node can do at a time is shared without being told to. */
static void tasks_spill_over(void)
{
    struct nodes n;
    uint64_t     number;
    manta_ref   *refs[4];
    bool         seen[2] = {false, false};
    nodes_start(&n, 2, "2");
    struct test_board *board = test_board_new(&number);
    for (int i = 0; i < 4; i++)
        refs[i] = manta_call("hold", NULL, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[0], 4)); /* all four run at once: two nodes of two CPUs */
    board->words[1] = 1;
    for (int i = 0; i < 4; i++)
        seen[test_i64(refs[i], __FILE__, __LINE__) == n.ids[1]] = true;
    CHECK(seen[0] && seen[1]);
    nodes_stop(&n);
}

static void errors_cross(void)
{
    struct nodes n;
    manta_error  e;
    nodes_start(&n, 2, "2");
    CHECK_FAILS(manta_call("refuse", THERE, MANTA_ARGS(manta_i64(9))), MANTA_ETASK, &e);
    CHECK_EQ(e.user_code, 9);
    CHECK_SAYS(e.message, "not on node");
    CHECK_I64(manta_call("fragile", THERE, MANTA_ARGS(manta_i64(SIGKILL), manta_i64(2))), 2000 + n.ids[1]);
    manta_task_opts once = {AT(1), .max_retries = MANTA_NO_RETRY};
    CHECK_FAILS(manta_call("fragile", &once, MANTA_ARGS(manta_i64(SIGSEGV), manta_i64(1))), MANTA_EWORKER_DIED, &e);
    CHECK_EQ(e.signal_number, SIGSEGV);
    CHECK_STR(e.function, "fragile");
    CHECK_SAYS(e.message, "SIGSEGV");
    CHECK_SAYS(e.backtrace, "(fragile"); /* its program stands in the node's cache there */
    CHECK(e.node[0]);
    manta_resource both[2] = {{"at0", 1}, {"at1", 1}}; /* each node has one of the two */
    CHECK_FAILS(add_remote(&(manta_task_opts){.resources = both, .resource_count = 2}, 1, 2), MANTA_EUNSCHEDULABLE, &e);
    CHECK_I64(add_remote(THERE, 1, 2), 3);
    nodes_stop(&n);
}

/* What a worker there had finished when it was killed, and not yet shown, comes back all the same. */
MANTA_TASK(int64_t, short_or_last, (int64_t, x))
{
    if (x == 0)
        raise(SIGKILL);
    return x;
}
static void finished_survive_there(void)
{
    enum { ROUNDS = 20, COUNT = 12 };
    manta_task_opts once = {AT(1), .max_retries = MANTA_NO_RETRY};
    manta_error     e;
    struct nodes    n;
    nodes_start(&n, 2, "1");
    for (int round = 0; round < ROUNDS; round++) {
        manta_ref *refs[COUNT], *last;
        for (int64_t i = 0; i < COUNT; i++)
            refs[i] = short_or_last_remote(&once, i + 1);
        last = short_or_last_remote(&once, 0);
        for (int64_t i = 0; i < COUNT; i++)
            CHECK_I64(refs[i], i + 1);
        CHECK_FAILS(last, MANTA_EWORKER_DIED, &e);
    }
    nodes_stop(&n);
}

/* ---- actors ---- */
static void actors_cross(void)
{
    enum { COUNT = 2000 };
    static manta_ref *refs[COUNT];
    struct nodes      n;
    nodes_start(&n, 2, "2");
    manta_actor *a = counter_start(1, 0, NULL), *b = counter_start(0, 0, NULL);
    CHECK_I64(manta_actor_call(a, "node", MANTA_NO_ARGS), n.ids[1]);
    CHECK_I64(manta_actor_call(b, "node", MANTA_NO_ARGS), n.ids[0]);
    for (int i = 0; i < COUNT; i++)
        refs[i] = count(a, 1);
    for (int i = 0; i < COUNT; i++)
        CHECK_I64(refs[i], i + 1);
    /* handles travel: from there to here, and from there to there */
    manta_ref *x = manta_call("caller", THERE, MANTA_ARGS(manta_actor_arg(b), manta_i64(300)));
    manta_ref *y = manta_call("caller", THERE, MANTA_ARGS(manta_actor_arg(a), manta_i64(300)));
    manta_ref *z = manta_call("caller", &(manta_task_opts){AT(0)}, MANTA_ARGS(manta_actor_arg(a), manta_i64(300)));
    CHECK_I64(x, 300);
    CHECK_I64(y, 300);
    CHECK_I64(z, 300);
    CHECK_I64(count(a, 0), COUNT + 600);
    CHECK_I64(count(b, 0), 300);
    manta_actor_free(a), manta_actor_free(b);
    nodes_stop(&n);
}

struct news {
    _Atomic int count;
    manta_death last;
};
static void on_death(void *user, const manta_death *death)
{
    struct news *news = user;
    news->last = *death;
    atomic_fetch_add(&news->count, 1);
}
static bool news_wait(struct news *news, int count_wanted)
{
    int64_t limit = test_now_ms() + TEST_WAIT_MS;
    while (atomic_load(&news->count) < count_wanted && test_now_ms() < limit)
        test_sleep_ms(1);
    return atomic_load(&news->count) >= count_wanted;
}

static void actor_dies_there(void)
{
    static struct news news;
    struct nodes       n;
    manta_error        e;
    uint64_t           watch;
    nodes_start(&n, 2, "2");
    manta_actor *a = counter_start(1, 1, NULL);
    int64_t      pid = test_i64(manta_actor_call(a, "pid", MANTA_NO_ARGS), __FILE__, __LINE__);
    CHECK_I64(count(a, 5), 5);
    CHECK_CODE(manta_actor_watch(a, on_death, &news, &watch, &e), MANTA_OK, &e);
    CHECK_EQ(kill((pid_t)pid, SIGKILL), 0);
    CHECK(news_wait(&news, 1));
    CHECK_EQ(news.last.pid, pid);
    CHECK_EQ(news.last.signal_number, SIGKILL);
    CHECK_EQ(news.last.node, n.ids[1]);
    CHECK(news.last.restarting);
    CHECK_I64(count(a, 3), 3); /* its second life */
    manta_actor_kill(a, false);
    CHECK(news_wait(&news, 2));
    CHECK_FAILS(count(a, 1), MANTA_EACTOR_DIED, &e);
    manta_actor_free(a);
    nodes_stop(&n);
}

MANTA_TASK(int64_t, use_named, (int64_t, x))
{
    manta_error  e;
    manta_actor *a = manta_actor_find("bank", TEST_WAIT_MS, &e);
    if (!a)
        return -e.code;
    int64_t y = test_i64(count(a, x), __FILE__, __LINE__);
    manta_actor_free(a);
    return y;
}
static void named_across(void)
{
    struct nodes n;
    nodes_start(&n, 2, "2");
    manta_actor *a = counter_start(0, 0, "bank");
    CHECK_I64(count(a, 5), 5);
    CHECK_I64(use_named_remote(THERE, 10), 15);
    CHECK_I64(use_named_remote(&(manta_task_opts){AT(0)}, 10), 25);
    manta_actor_free(a);
    nodes_stop(&n);
}

/* ---- objects ---- */
static void objects_cross(void)
{
    const size_t sizes[] = {100, 4 * KIB, 5000, 100 * KIB, MIB + 1, 16 * MIB};
    struct nodes n;
    nodes_start(&n, 2, "2");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t     seed = (int64_t)i, size = (int64_t)sizes[i];
        char       *data = malloc(sizes[i]);
        manta_error e;
        manta_view  view;
        nodes_fill(data, sizes[i], seed);
        manta_ref *put = manta_put(data, sizes[i]);
        CHECK_I64(manta_call("look", THERE, MANTA_ARGS(manta_ref_arg(put), manta_i64(seed))), size);
        CHECK_I64(open_it_remote(THERE, put, seed), size);
        manta_free(put);
        manta_ref *made = manta_call("make", THERE, MANTA_ARGS(manta_i64(size), manta_i64(seed)));
        CHECK_I64(manta_call("look", &(manta_task_opts){AT(0)}, MANTA_ARGS(manta_ref_arg(made), manta_i64(seed))), size);
        CHECK_I64(manta_call("look", THERE, MANTA_ARGS(manta_ref_arg(made), manta_i64(seed))), size);
        CHECK_CODE(manta_get(made, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        CHECK_EQ(view.size, sizes[i]);
        CHECK(nodes_is_filled(view.data, view.size, seed));
        manta_release(&view);
        manta_free(made);
        free(data);
    }
    nodes_stop(&n);
}

/* Several readers there of one value here, at once; and the store does not fill up: 256 MiB in each node. */
static void objects_again_and_again(void)
{
    struct nodes n;
    char        *data = malloc(16 * MIB);
    nodes_start(&n, 2, "2");
    nodes_fill(data, 16 * MIB, 3);
    for (int round = 0; round < 20; round++) {
        manta_ref *put = manta_put(data, 16 * MIB), *readers[4];
        for (int i = 0; i < 4; i++)
            readers[i] = manta_call("look", THERE, MANTA_ARGS(manta_ref_arg(put), manta_i64(3)));
        manta_free(put);
        for (int i = 0; i < 4; i++)
            CHECK_I64(readers[i], (int64_t)(16 * MIB));
        manta_ref  *made = manta_call("make", THERE, MANTA_ARGS(manta_i64(8 << 20), manta_i64(round)));
        manta_error e;
        manta_view  view;
        CHECK_CODE(manta_get(made, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        CHECK(nodes_is_filled(view.data, view.size, round));
        manta_release(&view);
        manta_free(made);
    }
    free(data);
    nodes_stop(&n);
}

/* ---- a node dies ---- */
static void node_dies(void)
{
    static struct news node_news, actor_news;
    struct nodes       n;
    manta_error        e;
    uint64_t           number, watch, actor_watch;
    nodes_start(&n, 2, "2");
    struct test_board *board = test_board_new(&number);
    manta_actor       *a = counter_start(1, 0, NULL);
    CHECK_I64(count(a, 1), 1);
    CHECK_CODE(manta_node_watch(n.ids[1], on_death, &node_news, &watch, &e), MANTA_OK, &e);
    CHECK_CODE(manta_actor_watch(a, on_death, &actor_news, &actor_watch, &e), MANTA_OK, &e);
    unsigned char   ready; /* first, while that node has a CPU to spare */
    manta_task_opts left_there = {AT(1), .max_retries = MANTA_NO_RETRY};
    manta_ref      *left = manta_call("make", &left_there, MANTA_ARGS(manta_i64(1 << 20), manta_i64(1)));
    CHECK_EQ(manta_wait(&left, 1, 1, TEST_WAIT_MS, &ready, &e), 1);
    manta_resource     any = {"any", 1}, any_here[2] = {{"at0", 1}, {"any", 1}};
    manta_task_opts    here = {.resources = any_here, .resource_count = 2}, either = {.resources = &any, .resource_count = 1};
    manta_task_opts    once = {.node = n.ids[1], .max_retries = MANTA_NO_RETRY};
    uint64_t           other;
    struct test_board *held = test_board_new(&other);
    manta_ref         *holder = manta_call("hold", &here, MANTA_ARGS(manta_u64(other)));
    CHECK(test_board_wait(&held->words[0], 1)); /* so the next one has to go there */
    manta_ref *again = manta_call("hold", &either, MANTA_ARGS(manta_u64(number)));
    manta_ref *lost = manta_call("hold", &once, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[0], 2));
    nodes_kill(&n.raylets[1]);
    CHECK(news_wait(&node_news, 1));
    CHECK_EQ(node_news.last.code, MANTA_ENODE_DIED);
    CHECK_EQ(node_news.last.node, n.ids[1]);
    CHECK(news_wait(&actor_news, 1));
    held->words[1] = 1;
    CHECK_I64(holder, n.ids[0]);
    CHECK(test_board_wait(&board->words[0], 3)); /* the one that may run elsewhere runs again, here */
    board->words[1] = 1;
    CHECK_I64(again, n.ids[0]);
    manta_view   view;
    manta_status code = manta_get(lost, TEST_WAIT_MS, &view, &e);
    CHECK(code == MANTA_EWORKER_DIED || code == MANTA_ENODE_DIED);
    CHECK_EQ(e.outcome, MANTA_UNKNOWN);
    manta_free(lost);
    CHECK_FAILS(count(a, 1), MANTA_EACTOR_DIED, &e);
    int64_t limit = test_now_ms() + TEST_WAIT_MS; /* its only copy was there, and it may not run again: a typed error */
    do {
        test_sleep_ms(50);
        code = manta_get(left, TEST_WAIT_MS, &view, &e);
    } while (code == MANTA_ECONN && test_now_ms() < limit); /* "try again": until the node is known to be dead */
    if (code != MANTA_OK && code != MANTA_EOBJ_LOST && code != MANTA_ENODE_DIED && code != MANTA_EUNSCHEDULABLE)
        test_fail(__FILE__, __LINE__, "a lost value gives error %d: %s", code, e.message);
    if (code == MANTA_EOBJ_LOST || code == MANTA_ENODE_DIED)
        CHECK_EQ(e.outcome, MANTA_DONE); /* the task ran; only what it made is gone */
    if (code == MANTA_OK)
        manta_release(&view);
    manta_free(left);
    manta_actor_free(a);
    nodes_wait_alive(1);
    CHECK_I64(add_remote(NULL, 1, 2), 3);
    nodes_stop(&n);
}

/* The list is asked for once, and again after each news of it: a change that is not told is waited for in vain. */
static void alive_by_news(int count)
{
    for (int alive = -1; alive != count;) {
        manta_node_info info[8];
        manta_error     e;
        unsigned char   is_ready;
        manta_ref      *news = manta_nodes_news(MANTA_NEWS_NODES, &e);
        CHECK(news);
        alive = 0;
        for (int i = 0, all = manta_nodes(info, 8, &e); i < all; i++)
            alive += info[i].alive;
        if (alive != count)
            CHECK_EQ(manta_wait(&news, 1, 1, TEST_WAIT_MS, &is_ready, &e), 1);
        manta_free(news);
    }
}

/* It comes back under its old name and takes work again. */
static void node_returns(void)
{
    struct nodes n;
    nodes_start(&n, 2, "2");
    CHECK_I64(where_remote(THERE, 1), 1000 + n.ids[1]);
    nodes_kill(&n.raylets[1]);
    alive_by_news(1);
    n.raylets[1] = nodes_add(&n, 1, "2", NULL);
    CHECK(n.raylets[1]);
    alive_by_news(2);
    CHECK_I64(add_remote(THERE, 20, 3), 23);
    nodes_stop(&n);
}

/* Without the head, what is known goes on. */
static void head_dies(void)
{
    struct nodes n;
    nodes_start(&n, 2, "2");
    manta_actor *a = counter_start(1, 0, NULL);
    CHECK_I64(count(a, 1), 1);
    CHECK_I64(add_remote(THERE, 1, 1), 2);
    nodes_kill(&n.head);
    test_sleep_ms(800); /* leases without work are given up: new ones are had without the head */
    for (int i = 0; i < 200; i++) {
        CHECK_I64(add_remote(THERE, i, 1), i + 1);
        CHECK_I64(count(a, 1), i + 2);
        CHECK_I64(add_remote(&(manta_task_opts){AT(0)}, i, 2), i + 2);
    }
    manta_actor_free(a);
    nodes_stop(&n);
}

/* A head that is stopped, and whose connections stand: leases are had without it too. */
static void head_silent(void)
{
    struct nodes n;
    nodes_start(&n, 2, "2");
    CHECK_I64(add_remote(THERE, 1, 1), 2);
    CHECK_EQ(kill(n.head, SIGSTOP), 0);
    for (int i = 0; i < 3; i++) {
        test_sleep_ms(500); /* leases without work are given up */
        CHECK_I64(add_remote(THERE, i, 1), i + 1);
    }
    CHECK_EQ(kill(n.head, SIGCONT), 0);
    CHECK_I64(add_remote(THERE, 1, 1), 2);
    nodes_stop(&n);
}

/* A class that has work without end: so many tasks are under way at a time, the i-th of them for first_ms + i * more_ms. */
struct stream {
    const manta_task_opts *opts;
    int                    under_way;
    int64_t                first_ms, more_ms;
    manta_ref             *naps[8];
};

static void nap_begins(struct stream *s, int i)
{
    s->naps[i] = nap_remote(s->opts, s->first_ms + i * s->more_ms);
}

static void nap_ends(struct stream *s, int i)
{
    CHECK_I64(s->naps[i], s->first_ms + i * s->more_ms);
}

static void stream_begins(struct stream *s)
{
    for (int i = 0; i < s->under_way; i++)
        nap_begins(s, i);
}

/* The stream goes on until `waits`, which is 3, has had its turn. */
static void has_its_turn(struct stream *s, manta_ref *waits)
{
    manta_error   e;
    unsigned char ready = 0;
    int64_t       until = test_now_ms() + TEST_WAIT_MS;
    for (int i = 0; !ready && test_now_ms() < until; i++) {
        nap_ends(s, i % s->under_way);
        nap_begins(s, i % s->under_way);
        manta_wait(&waits, 1, 1, 0, &ready, &e);
    }
    CHECK(ready);
    CHECK_I64(waits, 3);
    for (int i = 0; i < s->under_way; i++)
        nap_ends(s, i);
}

/* It does not keep the only CPU of another node from a class that has none. */
static void one_cpu_by_turns(const manta_task_opts *without_end, const manta_task_opts *other)
{
    struct stream s = {.opts = without_end, .under_way = 4, .first_ms = 5};
    stream_begins(&s);
    has_its_turn(&s, add_remote(other, 1, 2));
}

static void turns_there(void)
{
    struct nodes n;
    nodes_start(&n, 2, "1");
    CHECK_I64(nap_remote(THERE, 5), 5);
    manta_task_opts other = {AT(1), .num_cpus = 0.5}; /* what one may do in place of another would stand in one line */
    one_cpu_by_turns(THERE, &other);
    nodes_stop(&n);
}

/* Submits on its node a task that needs both CPUs of it, and waits for it. */
MANTA_TASK(int64_t, asks_for_both, (int64_t, ms))
{
    manta_task_opts both = {.num_cpus = 2, .node = manta_node()};
    int64_t         slept = -1;
    manta_error     e;
    manta_ref      *ref = nap_remote(&both, ms);
    if (manta_get_i64(ref, TEST_WAIT_MS, &slept, &e) != MANTA_OK)
        slept = -e.code;
    manta_free(ref);
    return slept;
}

/* Another node's stream, of which each task needs one CPU, does not keep both from a task of node `owner`. */
static void wide_has_its_turn(int owner)
{
    manta_task_opts asks = {AT(1), .no_cpu = true}, both = {AT(1), .num_cpus = 2};
    struct stream   s = {.opts = THERE, .under_way = 8, .first_ms = 300, .more_ms = 50};
    stream_begins(&s);
    has_its_turn(&s, owner ? asks_for_both_remote(&asks, 3) : nap_remote(&both, 3));
}

static void turns_wide_there(void)
{
    struct nodes n;
    nodes_start(&n, 2, "2");
    wide_has_its_turn(1);
    nodes_stop(&n);
}

static void turns_wide_from_afar(void)
{
    struct nodes n;
    nodes_start(&n, 2, "2");
    wide_has_its_turn(0);
    nodes_stop(&n);
}

static void head_gone_turns(void)
{
    struct nodes   n;
    manta_resource there[2];
    nodes_start(&n, 2, "1");
    for (int i = 0; i < 2; i++) { /* two classes, of one CPU each */
        there[i] = *nodes_at(1);
        there[i].amount *= i + 1;
    }
    manta_task_opts opts[2] = {{.resources = &there[0], .resource_count = 1}, {.resources = &there[1], .resource_count = 1}};
    CHECK_I64(add_remote(&opts[0], 1, 1), 2);
    nodes_kill(&n.head);
    one_cpu_by_turns(&opts[0], &opts[1]);
    nodes_stop(&n);
}

/* A head that comes back somewhere else is found by its file: the raylets register anew, and names work again. */
static void head_moves(void)
{
    struct nodes n;
    manta_error  e;
    char         listen[40];
    int          port = port_hold();
    nodes_start(&n, 2, "2");
    nodes_kill(&n.head);
    snprintf(listen, sizeof listen, "127.0.0.1:%d", port_of(port));
    nodes_start_head(&n, listen);
    close(port);
    nodes_wait_alive(2);
    manta_actor *a = counter_start(1, 0, "found");
    CHECK_I64(count(a, 1), 1);
    manta_actor *found = manta_actor_find("found", TEST_WAIT_MS, &e);
    CHECK(found);
    CHECK_I64(count(found, 1), 2);
    CHECK_I64(add_remote(THERE, 1, 1), 2);
    manta_actor_free(found);
    manta_actor_free(a);
    nodes_stop(&n);
}

/* ---- strangers ---- */
static void wrong_token(void)
{
    struct nodes n;
    char         path[256];
    nodes_start(&n, 1, "2");
    snprintf(path, sizeof path, "%s/wrong-token", n.folder);
    FILE *f = fopen(path, "w");
    CHECK(f);
    for (int i = 0; i < 64; i++)
        fputc("0123456789abcdef"[i * 7 % 16], f);
    fclose(f);
    chmod(path, 0600);
    CHECK_EQ(nodes_add(&n, 2, "2", path), 0);
    manta_node_info info[8];
    manta_error     e;
    CHECK_EQ(manta_nodes(info, 8, &e), 1);
    CHECK_EQ(nodes_add(&n, 3, "2", "/nowhere/token"), 0);
    CHECK_I64(add_remote(NULL, 1, 2), 3);
    nodes_stop(&n);
}

/* Another job finds our actor by its name, and may call it, with references of its own too. */
static void stranger(void)
{
    manta_error e;
    char        address[256];
    snprintf(address, sizeof address, "%s/manta/c/n0", getenv("XDG_RUNTIME_DIR"));
    manta_init_opts opts = {.address = address};
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
    manta_actor *a = manta_actor_find("bank", TEST_WAIT_MS, &e);
    CHECK(a);
    CHECK_I64(count(a, 3), 3);
    char      *data = calloc(1, 100000);
    manta_ref *ours = manta_put(data, 100000);
    CHECK_I64(manta_actor_call(a, "length", MANTA_ARGS(manta_ref_arg(ours))), 100000);
    free(data);
    manta_free(ours);
    CHECK_I64(count(a, 1), 4);
    manta_actor_free(a);
    manta_shutdown();
}
static void another_job(void)
{
    struct nodes n;
    char         said[2000];
    nodes_start(&n, 1, "2");
    manta_actor *a = counter_start(0, 0, "bank");
    CHECK_I64(count(a, 0), 0);
    char *argv[] = {"/proc/self/exe", "--run", "stranger", NULL};
    if (test_program(argv, said, sizeof said) != 0)
        test_fail(__FILE__, __LINE__, "the other driver: %s", said);
    CHECK_I64(count(a, 1), 5);
    manta_actor_free(a);
    nodes_stop(&n);
}

#define OWN_INIT {0}, true, 0
static const struct test_case cases[] = {
    {"tasks_cross", tasks_cross, OWN_INIT},
    {"arguments_cross", arguments_cross, OWN_INIT},
    {"tasks_spill_over", tasks_spill_over, OWN_INIT},
    {"errors_cross", errors_cross, OWN_INIT},
    {"finished_survive_there", finished_survive_there, OWN_INIT},
    {"actors_cross", actors_cross, OWN_INIT},
    {"actor_dies_there", actor_dies_there, OWN_INIT},
    {"named_across", named_across, OWN_INIT},
    {"objects_cross", objects_cross, OWN_INIT},
    {"objects_again_and_again", objects_again_and_again, OWN_INIT},
    {"node_dies", node_dies, OWN_INIT},
    {"node_returns", node_returns, OWN_INIT},
    {"head_dies", head_dies, OWN_INIT},
    {"head_silent", head_silent, OWN_INIT},
    {"head_gone_turns", head_gone_turns, OWN_INIT},
    {"head_moves", head_moves, OWN_INIT},
    {"turns_there", turns_there, OWN_INIT},
    {"turns_wide_there", turns_wide_there, OWN_INIT},
    {"turns_wide_from_afar", turns_wide_from_afar, OWN_INIT},
    {"wrong_token", wrong_token, OWN_INIT},
    {"another_job", another_job, OWN_INIT},
    {NULL, NULL, {0}, false, 0},
    {"stranger", stranger, OWN_INIT}, /* started by another_job only */
};

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[2], "stranger") == 0)
        return test_main(argc, argv, &cases[sizeof cases / sizeof cases[0] - 1]);
    return test_main(argc, argv, cases);
}
