/* SPDX-License-Identifier: Apache-2.0
 *
 * inline_test.c - MANTA_INLINE=1: everything in the driver's own process, with the same results and errors.
 *
 * Thread: the driver's main one, but for the case `threads`.
 */
#include "tests/integration/harness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

MANTA_TASK(int64_t, pid_of, (int64_t, x))
{
    return x + getpid();
}
MANTA_TASK(int64_t, add, (int64_t, a), (int64_t, b))
{
    return a + b;
}

static manta_status reflect(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_bytes(c, argv[0].y.data, argv[0].y.size);
}
MANTA_REGISTER(reflect, "y>y");

/* ---- actors ---- */
static int destroyed;

static manta_status sum_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    int64_t *sum = calloc(1, sizeof *sum);
    (void)argc;
    if (argv[0].l < 0)
        return free(sum), manta_fail(c, 9, "no sums below zero");
    *sum = argv[0].l;
    *self = sum;
    return MANTA_OK;
}
static void sum_free(void *self)
{
    destroyed++;
    free(self);
}
static manta_status sum_add(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, *(int64_t *)self += argv[0].l);
}
/* Asks another actor, or itself. */
static manta_status sum_ask(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_ref   *ref = manta_actor_call(argv[0].A, "add", MANTA_ARGS(manta_i64(*(int64_t *)self)));
    manta_error  e;
    int64_t      x;
    manta_status code = manta_get_i64(ref, 100, &x, &e);
    (void)argc;
    manta_free(ref);
    return code ? manta_fail(c, code, "%s", e.message) : manta_return_i64(c, x);
}
MANTA_ACTOR(sum, "l", sum_new, sum_free, {"add", "l>l", sum_add}, {"ask", "A>l", sum_ask});

static manta_ref *sum_call(manta_actor *actor, int64_t x)
{
    return manta_actor_call(actor, "add", MANTA_ARGS(manta_i64(x)));
}

static void no_process(void)
{
    static char large[300000];
    manta_error e;
    manta_view  view;
    char        path[64], text[8] = "";
    CHECK_I64(pid_of_remote(NULL, 5), getpid() + 5);
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (char)(i * 7);
    for (int i = 0; i < 50; i++) {
        manta_ref *put = manta_put(large, sizeof large), *ref = manta_call("reflect", NULL, MANTA_ARGS(manta_ref_arg(put)));
        CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        CHECK_EQ(view.size, sizeof large);
        CHECK(memcmp(view.data, large, sizeof large) == 0);
        manta_release(&view);
        manta_free(ref);
        manta_free(put);
    }
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    FILE *f = fopen(path, "r");
    CHECK(!f || fread(text, 1, 1, f) == 0); /* none was started */
    if (f)
        fclose(f);
    CHECK_EQ(manta_nodes(NULL, 0, &e), 1);
    unsigned char is_ready;
    manta_ref    *news = manta_nodes_news(MANTA_NEWS_NODES, &e);
    CHECK_EQ(manta_wait(&news, 1, 1, 0, &is_ready, &e), 0); /* nothing changes here */
    manta_free(news);
}

static void several_actors(void)
{
    manta_actor *a = manta_actor_new("sum", NULL, MANTA_ARGS(manta_i64(1)));
    manta_actor *b = manta_actor_new("sum", NULL, MANTA_ARGS(manta_i64(100)));
    manta_error  e;
    CHECK_I64(sum_call(a, 1), 2);
    CHECK_I64(sum_call(b, 1), 101);
    CHECK_I64(manta_actor_call(a, "ask", MANTA_ARGS(manta_actor_arg(b))), 103);
    CHECK_I64(sum_call(a, 1), 3);
    manta_actor *bad = manta_actor_new("sum", NULL, MANTA_ARGS(manta_i64(-1)));
    CHECK_FAILS(sum_call(bad, 1), MANTA_ETASK, &e);
    CHECK_EQ(e.user_code, 9);
    CHECK_FAILS(manta_actor_call(a, "no", MANTA_NO_ARGS), MANTA_ENOFUNC, &e);
    manta_actor_free(bad);
    manta_actor_free(a);
    CHECK_EQ(destroyed, 1);
    manta_actor_free(b);
    CHECK_EQ(destroyed, 2);
}

static void named(void)
{
    manta_actor *a = manta_actor_new("sum", &(manta_actor_opts){.name = "till"}, MANTA_ARGS(manta_i64(1)));
    manta_actor *again = manta_actor_new("sum", &(manta_actor_opts){.name = "till"}, MANTA_ARGS(manta_i64(1)));
    manta_error  e;
    CHECK_FAILS(sum_call(again, 1), MANTA_EEXIST, &e);
    manta_actor *found = manta_actor_find("till", 1000, &e);
    CHECK(found);
    CHECK_I64(sum_call(found, 4), 5);
    CHECK(!manta_actor_find("nobody", 1000, &e));
    CHECK_EQ(e.code, MANTA_ENOENT);
    manta_actor_free(found), manta_actor_free(again), manta_actor_free(a);
}

static int  deaths;
static void on_death(void *user, const manta_death *death)
{
    (void)user;
    deaths += death->code == MANTA_EACTOR_DIED;
}

static void kills(void)
{
    manta_actor *a = manta_actor_new("sum", &(manta_actor_opts){.max_restarts = 1}, MANTA_ARGS(manta_i64(1)));
    manta_error  e;
    CHECK_CODE(manta_actor_watch(a, on_death, NULL, NULL, &e), MANTA_OK, &e);
    CHECK_I64(sum_call(a, 1), 2);
    manta_actor_kill(a, true);
    CHECK_I64(sum_call(a, 1), 2); /* it began anew */
    manta_actor_kill(a, true);
    CHECK_FAILS(sum_call(a, 1), MANTA_EACTOR_DIED, &e);
    CHECK_EQ(deaths, 2);
    manta_actor_free(a);
}

/* Who waits for itself is told. */
static void itself(void)
{
    manta_actor *a = manta_actor_new("sum", NULL, MANTA_ARGS(manta_i64(1)));
    manta_error  e;
    CHECK_FAILS(manta_actor_call(a, "ask", MANTA_ARGS(manta_actor_arg(a))), MANTA_ETASK, &e);
    CHECK_EQ(e.user_code, MANTA_EDEADLK);
    CHECK_I64(sum_call(a, 1), 3); /* the call that it had made ran when it was free */
    manta_actor_free(a);
}

static void *adds(void *arg)
{
    for (int i = 0; i < 300; i++)
        CHECK_I64(add_remote(NULL, i, (intptr_t)arg), i + (intptr_t)arg);
    return NULL;
}

static void threads(void)
{
    pthread_t ids[4];
    for (intptr_t i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&ids[i], NULL, adds, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(ids[i], NULL);
}

/* Resources are not looked at; what a task says of itself is. */
static void limits(void)
{
    static const manta_task_opts many = {.num_cpus = 1e6};
    manta_error                  e;
    CHECK_I64(add_remote(&many, 1, 2), 3);
    CHECK_FAILS(manta_call("add", NULL, MANTA_ARGS(manta_i64(1))), MANTA_ETYPE, &e);
    CHECK_FAILS(manta_call("ad", NULL, MANTA_NO_ARGS), MANTA_ENOFUNC, &e);
    CHECK_SAYS(e.message, "add");
}

/* The end hook of what is left runs at shutdown: sanitizers see no leak of the user's. */
static void ends(void)
{
    manta_actor *a = manta_actor_new("sum", NULL, MANTA_ARGS(manta_i64(1)));
    CHECK_I64(sum_call(a, 1), 2);
    manta_shutdown();
    CHECK_EQ(destroyed, 1);
}

static void refused(void)
{
    manta_error e;
    CHECK_CODE(manta_init(&test_argc, &test_argv, NULL, &e), MANTA_EINVAL, &e); /* twice */
    CHECK_FAILS(manta_put(NULL, 4), MANTA_EINVAL, &e);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"no_process", no_process, {0}, false, 0}, {"several_actors", several_actors, {0}, false, 0},
        {"named", named, {0}, false, 0},           {"kills", kills, {0}, false, 0},
        {"itself", itself, {0}, false, 0},         {"threads", threads, {0}, false, 0},
        {"limits", limits, {0}, false, 0},         {"ends", ends, {0}, false, 0},
        {"refused", refused, {0}, false, 0},       {NULL, NULL, {0}, false, 0},
    };
    setenv("MANTA_INLINE", "1", 1);
    return test_main(argc, argv, cases);
}
