/* SPDX-License-Identifier: Apache-2.0
 *
 * rejoin_test.c - a process that is a driver again: after manta_shutdown, and after the death of its node's raylet.
 *
 * Thread: the driver's main one; `waiter` is a thread of its own.
 */
#include "tests/integration/cluster/nodes.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static const size_t LARGE = 100000;

MANTA_TASK(int64_t, add, (int64_t, a), (int64_t, b))
{
    return a + b;
}
/* 'r': as a reference, which its owner must answer for. */
MANTA_TASK(int64_t, read_ref, (manta_ref *, ref))
{
    int64_t     x;
    manta_error e;
    return manta_get_i64(ref, TEST_WAIT_MS, &x, &e) == MANTA_OK ? x : -e.code;
}
/* Says that it has begun, and stays. */
MANTA_TASK(int64_t, stay, (uint64_t, board))
{
    atomic_fetch_add(&test_board_map(board)->words[0], 1);
    test_sleep_ms(TEST_WAIT_MS);
    return 0;
}
MANTA_TASK(int64_t, sleep_for, (int64_t, ms))
{
    test_sleep_ms((int)ms);
    return ms;
}
static manta_status length(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, (int64_t)argv[0].y.size);
}
MANTA_REGISTER(length, "y>l");
static manta_status fails(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_fail(c, 17, "as it should");
}
MANTA_REGISTER(fails, ">l");
static manta_status numbers(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    for (int64_t i = 0; i < argv[0].l; i++)
        if (manta_yield(c, manta_i64(i)))
            return manta_fail(c, 1, "nobody wants it");
    return MANTA_OK;
}
MANTA_REGISTER(numbers, "l>l");

static manta_status counter_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    int64_t *x = calloc(1, sizeof *x);
    (void)c, (void)argc, (void)argv;
    *self = x;
    return MANTA_OK;
}
static manta_status counter_add(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, *(int64_t *)self += argv[0].l);
}
MANTA_ACTOR(counter, "", counter_new, free, {"add", "l>l", counter_add});

/* ---- what a driver may hold when its job ends ---- */
struct held {
    manta_ref       *small, *text, *failed, *large, *pending, *behind;
    manta_view       view; /* of `text` */
    manta_view       far;  /* of `large`: can only be released */
    manta_actor     *actor;
    manta_env       *env;
    manta_pg        *pg;
    manta_generator *items, *few; /* endless; of three */
    manta_buffer     buffer;
    manta_region     region;
};

static void hold(struct held *h)
{
    static char               text[3000], large[100000];
    static struct test_board *board;
    static uint64_t           number;
    manta_error               e;
    board = board ? board : test_board_new(&number);
    int64_t begun = board->words[0];
    memset(text, 'x', sizeof text);
    h->small = add_remote(NULL, 40, 2);
    h->text = manta_put(text, sizeof text);
    h->failed = manta_call("fails", NULL, MANTA_NO_ARGS);
    h->large = manta_put(large, LARGE);
    h->pending = stay_remote(NULL, number);
    h->behind = manta_call("add", NULL, MANTA_ARGS(manta_ref_arg(h->pending), manta_ref_arg(h->small)));
    h->actor = manta_actor_new("counter", NULL, MANTA_NO_ARGS);
    CHECK_I64(manta_actor_call(h->actor, "add", MANTA_ARGS(manta_i64(3))), 3);
    h->items = manta_call_stream("numbers", NULL, MANTA_ARGS(manta_i64(1000000)));
    h->few = manta_call_stream("numbers", NULL, MANTA_ARGS(manta_i64(3)));
    CHECK_CODE(manta_next(h->few, TEST_WAIT_MS, &h->view, &e), MANTA_OK, &e);
    CHECK_CODE(manta_next(h->items, TEST_WAIT_MS, &h->view, &e), MANTA_OK, &e);
    CHECK_CODE(manta_get(h->text, TEST_WAIT_MS, &h->view, &e), MANTA_OK, &e);
    CHECK_CODE(manta_get(h->large, TEST_WAIT_MS, &h->far, &e), MANTA_OK, &e);
    CHECK_CODE(manta_create(LARGE, &h->buffer, &e), MANTA_OK, &e);
    CHECK_CODE(manta_region_open(65536, 0, &h->region, &e), MANTA_OK, &e);
    h->env = manta_env_new(&(manta_runtime_env){.env_vars = (const char *const[]){"COLOUR=blue", NULL}}, &e);
    CHECK(h->env || manta_perror(&e));
    h->pg = manta_pg_new(&(manta_bundle){.num_cpus = 0.1}, 1, NULL, &e);
    CHECK_CODE(manta_pg_wait(h->pg, TEST_WAIT_MS, &e), MANTA_OK, &e);
    unsigned char ready[2];
    manta_ref    *both[] = {h->small, h->failed};
    CHECK_EQ(manta_wait(both, 2, 2, TEST_WAIT_MS, ready, &e), 2);
    CHECK(test_board_wait(&board->words[0], begun + 1)); /* so nobody knows what became of it */
}

/* Between the two jobs and in the second: what is left of them. */
static void check_left(const struct held *h)
{
    manta_error e;
    manta_view  view;
    int64_t     x;
    CHECK_CODE(manta_get_i64(h->small, 0, &x, &e), MANTA_OK, &e);
    CHECK_EQ(x, 42);
    CHECK(((const char *)h->view.data)[2999] == 'x');
    CHECK_CODE(manta_get(h->text, 0, &view, &e), MANTA_OK, &e);
    CHECK_EQ(view.size, 3000);
    CHECK(((const char *)view.data)[2999] == 'x');
    manta_release(&view);
    CHECK_CODE(manta_get_i64(h->failed, 0, &x, &e), MANTA_ETASK, &e);
    CHECK_EQ(e.user_code, 17);
    CHECK_CODE(manta_get(h->large, 0, &view, &e), MANTA_EOBJ_LOST, &e);
    CHECK_SAYS(e.message, "object store");
    CHECK_CODE(manta_get_i64(h->pending, 0, &x, &e), MANTA_ECONN, &e);
    CHECK_EQ(e.outcome, MANTA_UNKNOWN);
    CHECK_CODE(manta_get_i64(h->behind, 0, &x, &e), MANTA_ECONN, &e);
    CHECK_EQ(e.outcome, MANTA_NOT_DONE);
    CHECK_CODE(manta_next(h->items, 0, &view, &e), MANTA_ECONN, &e);
    manta_status ended = manta_next(h->few, 0, &view, &e); /* as if all had been taken: never */
    CHECK(ended == MANTA_ECONN || ended == MANTA_EOBJ_LOST);
}

/* In the second job. */
static void use(struct held *h, bool is_another_cluster)
{
    manta_error e;
    check_left(h);
    CHECK_I64(manta_call("add", NULL, MANTA_ARGS(manta_ref_arg(h->small), manta_i64(1))), 43);
    CHECK_I64(read_ref_remote(NULL, h->small), 42);
    CHECK_I64(manta_call("length", NULL, MANTA_ARGS(manta_ref_arg(h->text))), 3000);
    CHECK_FAILS(manta_call("length", NULL, MANTA_ARGS(manta_ref_arg(h->large))), MANTA_EOBJ_LOST, &e);
    CHECK_FAILS(manta_actor_call(h->actor, "add", MANTA_ARGS(manta_i64(1))), MANTA_EACTOR_DIED, &e);
    CHECK_SAYS(e.message, "job");
    manta_actor *fresh = manta_actor_new("counter", NULL, MANTA_NO_ARGS);
    CHECK_I64(manta_actor_call(fresh, "add", MANTA_ARGS(manta_ref_arg(h->small))), 42);
    manta_actor_free(fresh);
    CHECK_FAILS(add_remote(&(manta_task_opts){.env = h->env}, 1, 1), MANTA_EENV, &e);
    if (is_another_cluster) /* else it is there until the head hears of the old job's end */
        CHECK_FAILS(add_remote(&(manta_task_opts){.pg = h->pg, .num_cpus = 0.1}, 1, 1), MANTA_EPG_REMOVED, &e);
    CHECK_FAILS(manta_seal(&h->buffer), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "manta_shutdown");
}

static void let_go(struct held *h)
{
    manta_release(&h->view);
    manta_release(&h->far);
    manta_ref *const refs[] = {h->small, h->text, h->failed, h->large, h->pending, h->behind};
    for (size_t i = 0; i < sizeof refs / sizeof refs[0]; i++)
        manta_free(refs[i]);
    manta_actor_free(h->actor);
    manta_env_free(h->env);
    manta_pg_free(h->pg);
    manta_generator_free(h->items), manta_generator_free(h->few);
    manta_drop(&h->buffer);
    manta_region_close(&h->region);
}

/* ---- a private cluster, three times; the last one's things outlive it ---- */
static void rejoin_private(void)
{
    manta_error     e;
    manta_init_opts opts = {.num_cpus = 2, .log_to_driver = -1};
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
    CHECK_EQ(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_EINVAL);
    for (int round = 0; round < 3; round++) {
        struct held h;
        hold(&h);
        manta_ref *freed_between = add_remote(NULL, 1, 1);
        CHECK_EQ(manta_shutdown(), 0);
        CHECK(!manta_is_initialized());
        check_left(&h);
        manta_free(freed_between);
        CHECK_FAILS(add_remote(NULL, 1, 2), MANTA_ECONN, &e);
        CHECK_SAYS(e.message, "manta_init");
        opts.name_space = "another";
        CHECK_EQ(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_EINVAL);
        CHECK_SAYS(e.message, "name_space");
        opts.name_space = NULL;
        CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
        CHECK_I64(add_remote(NULL, round, 1), round + 1);
        use(&h, true);
        let_go(&h);
    }
    struct held last;
    hold(&last);
    CHECK_EQ(manta_shutdown(), 0);
    check_left(&last);
    let_go(&last);
    CHECK_EQ(manta_shutdown(), 0);
}

/* The same in short, for MANTA_INLINE=1 too. */
static void rejoin_in_short(void)
{
    manta_error     e;
    manta_init_opts opts = {.num_cpus = 1};
    for (int64_t round = 0; round < 3; round++) {
        static char large[100000];
        int64_t     x;
        manta_view  view;
        CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
        manta_ref   *small = add_remote(NULL, 1, round), *far = manta_put(large, LARGE);
        manta_ref   *failed = manta_call("fails", NULL, MANTA_NO_ARGS);
        manta_actor *actor = manta_actor_new("counter", NULL, MANTA_NO_ARGS);
        CHECK_I64(manta_actor_call(actor, "add", MANTA_ARGS(manta_i64(3))), 3);
        CHECK_CODE(manta_get(far, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        manta_release(&view);
        CHECK_CODE(manta_get_i64(small, TEST_WAIT_MS, &x, &e), MANTA_OK, &e);
        CHECK_CODE(manta_get_i64(failed, TEST_WAIT_MS, &x, &e), MANTA_ETASK, &e);
        CHECK_EQ(manta_shutdown(), 0);
        CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
        CHECK_I64(manta_call("add", NULL, MANTA_ARGS(manta_ref_arg(small), manta_i64(1))), 2 + round);
        CHECK_CODE(manta_get(far, TEST_WAIT_MS, &view, &e), MANTA_EOBJ_LOST, &e);
        CHECK_CODE(manta_get_i64(failed, TEST_WAIT_MS, &x, &e), MANTA_ETASK, &e);
        CHECK_FAILS(manta_actor_call(actor, "add", MANTA_ARGS(manta_i64(1))), MANTA_EACTOR_DIED, &e);
        CHECK_EQ(manta_shutdown(), 0);
        unsigned char ready;
        CHECK_EQ(manta_wait(&small, 1, 1, 0, &ready, &e), -MANTA_ECONN);
        manta_free(small), manta_free(far), manta_free(failed);
        manta_actor_free(actor);
    }
}

/* ---- the raylet ends, and comes back ---- */
static void until_gone(void)
{
    manta_error e;
    int64_t     x;
    for (manta_status code = MANTA_OK; code != MANTA_ECONN;) { /* a worker that still lives may serve a few */
        manta_ref *ref = add_remote(NULL, 1, 2);
        code = manta_get_i64(ref, TEST_WAIT_MS, &x, &e);
        manta_free(ref);
    }
    CHECK_FAILS(add_remote(NULL, 1, 2), MANTA_ECONN, &e);
    CHECK_SAYS(e.message, "manta_shutdown, then manta_init");
}

static void raylet_comes_back(struct nodes *n, int number, const manta_init_opts *opts, const struct held *h)
{
    manta_error e;
    if (number == SIGKILL) {
        nodes_kill(&n->raylets[0]);
    } else {
        CHECK_EQ(kill(n->raylets[0], number), 0);
        CHECK(test_gone(n->raylets[0]));
    }
    until_gone();
    CHECK_EQ(manta_shutdown(), 0);
    for (int i = 0; i < 3; i++) { /* as often as one likes, while nobody is there */
        check_left(h);
        CHECK_CODE(manta_init(&test_argc, &test_argv, opts, &e), MANTA_ECONN, &e);
    }
    n->raylets[0] = nodes_add(n, 0, "2", NULL);
    CHECK(n->raylets[0]);
}

/* `number` 0: it lives on, and so does a detached actor. */
static void raylet_ends(int number)
{
    struct nodes n;
    manta_error  e;
    nodes_start(&n, 2, "2");
    char address[256];
    snprintf(address, sizeof address, "%s/n0", n.folder);
    manta_init_opts  opts = {.address = address, .timeout_ms = TEST_WAIT_MS};
    manta_actor_opts lasting = {.name = "lasting", .detached = true};
    manta_actor     *actor = number ? NULL : manta_actor_new("counter", &lasting, MANTA_NO_ARGS);
    if (actor)
        CHECK_I64(manta_actor_call(actor, "add", MANTA_ARGS(manta_i64(5))), 5);
    for (int round = 0; round < 2; round++) {
        struct held h;
        hold(&h);
        CHECK_I64(add_remote(&(manta_task_opts){AT(1)}, 1, 1), 2);
        if (number)
            raylet_comes_back(&n, number, &opts, &h);
        else
            CHECK_EQ(manta_shutdown(), 0);
        check_left(&h);
        CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
        use(&h, false);
        nodes_wait_alive(2);
        CHECK_I64(add_remote(&(manta_task_opts){AT(1)}, 20, 1), 21);
        let_go(&h);
        if (number)
            continue;
        manta_actor_free(actor);
        actor = manta_actor_find("lasting", TEST_WAIT_MS, &e);
        CHECK(actor || manta_perror(&e));
        CHECK_I64(manta_actor_call(actor, "add", MANTA_ARGS(manta_i64(1))), 6 + round);
    }
    manta_actor_kill(actor, false);
    manta_actor_free(actor);
    nodes_stop(&n);
}
static void rejoin_same_raylet(void)
{
    raylet_ends(0);
}
static void rejoin_raylet_killed(void)
{
    raylet_ends(SIGKILL);
}
static void rejoin_raylet_stopped(void)
{
    raylet_ends(SIGINT); /* at once: after SIGTERM it would wait for its driver (drain_test.c) */
}

/* ---- threads that wait hear of it ---- */
static void *waiter(void *ref)
{
    manta_error e;
    int64_t     x;
    return (void *)(intptr_t)manta_get_i64(ref, MANTA_FOREVER, &x, &e);
}
static void rejoin_threads(void)
{
    enum { THREADS = 4 };
    manta_error     e;
    manta_init_opts opts = {.num_cpus = 2};
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
    for (int round = 0; round < 3; round++) {
        pthread_t  threads[THREADS];
        manta_ref *refs[THREADS];
        void      *code;
        for (int i = 0; i < THREADS; i++) {
            refs[i] = sleep_for_remote(NULL, 60000);
            CHECK_EQ(pthread_create(&threads[i], NULL, waiter, refs[i]), 0);
        }
        test_sleep_ms(round * 20);
        CHECK_EQ(manta_shutdown(), 0);
        for (int i = 0; i < THREADS; i++) {
            CHECK_EQ(pthread_join(threads[i], &code), 0);
            CHECK_EQ((intptr_t)code, MANTA_ECONN);
        }
        CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
        CHECK_I64(add_remote(NULL, 1, 2), 3);
        for (int i = 0; i < THREADS; i++)
            CHECK_FAILS(refs[i], MANTA_ECONN, &e);
    }
    CHECK_EQ(manta_shutdown(), 0);
}

/* ---- what was to be told is told no more, and nothing of it reaches into the next job ---- */
static int  told;
static void ready_told(void *user, manta_ref *ref)
{
    (void)user, (void)ref;
    told++;
}
static void free_told(void *user)
{
    (void)user;
    told++;
}
static void death_told(void *user, const manta_death *death)
{
    (void)user, (void)death;
    told++;
}
static void rejoin_callbacks(void)
{
    manta_error     e;
    manta_init_opts opts = {.num_cpus = 2, .checksum = true};
    for (int round = 0; round < 3; round++) {
        uint64_t watch;
        opts.checksum = round != 1;
        CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
        manta_ref   *never = sleep_for_remote(NULL, 60000), *value = manta_put("value", 6);
        manta_actor *actor = manta_actor_new("counter", NULL, MANTA_NO_ARGS);
        CHECK_I64(manta_actor_call(actor, "add", MANTA_ARGS(manta_i64(3))), 3);
        CHECK_CODE(manta_on_ready(never, ready_told, NULL, &e), MANTA_OK, &e);
        CHECK_CODE(manta_on_free(value, free_told, NULL, &e), MANTA_OK, &e);
        CHECK_CODE(manta_actor_watch(actor, death_told, NULL, &watch, &e), MANTA_OK, &e);
        CHECK_EQ(manta_shutdown(), 0);
        CHECK(!getenv("MANTA_CHECKSUM"));
        manta_free(never), manta_free(value);
        manta_actor_free(actor);
    }
    CHECK_EQ(told, 0);
}

#define OWN_INIT {0}, true, 0
static const struct test_case cases[] = {
    {"rejoin_private", rejoin_private, OWN_INIT},
    {"rejoin_in_short", rejoin_in_short, OWN_INIT},
    {"rejoin_same_raylet", rejoin_same_raylet, OWN_INIT},
    {"rejoin_raylet_killed", rejoin_raylet_killed, OWN_INIT},
    {"rejoin_raylet_stopped", rejoin_raylet_stopped, OWN_INIT},
    {"rejoin_callbacks", rejoin_callbacks, OWN_INIT},
    {"rejoin_threads", rejoin_threads, OWN_INIT},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
