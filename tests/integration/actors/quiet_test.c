/* SPDX-License-Identifier: Apache-2.0
 *
 * quiet_test.c - actors that talk to each other, and manta_group_quiet, which waits for the end of it.
 *
 * Thread: the driver's main one. The board counts what the actors have done: when the group is quiet, all of it is there.
 */
#include "tests/integration/actors/talker.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { SLOW = 1 }; /* word of the board */

MANTA_TASK(int64_t, slowly, (uint64_t, number), (int64_t, ms))
{
    test_sleep_ms((int)ms);
    return (int64_t)atomic_fetch_add(&test_board_map(number)->words[SLOW], 1);
}
/* A task that it leaves behind; with `then`, a callback of it that begins a round of hops. */
static void begin(void *user, manta_ref *ref)
{
    (void)ref;
    manta_free(manta_actor_call(((struct talker *)user)->next, "pass", MANTA_ARGS(manta_i64(20), manta_i64(7))));
}
static manta_status talker_leave(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_ref  *task = slowly_remote(NULL, argv[0].u, 50);
    manta_error e;
    (void)argc;
    manta_status code = argv[1].b ? manta_on_ready(task, begin, self, &e) : MANTA_OK;
    manta_free(task);
    return code ? manta_fail(c, 1, "%s", e.message) : MANTA_OK;
}
static manta_status talker_parent(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct talker *t = self;
    (void)argc;
    t->child = manta_actor_new("talker", &(manta_actor_opts){.max_restarts = 1}, MANTA_ARGS(argv[0]));
    manta_ref   *r = manta_actor_call(t->child, "pass", MANTA_ARGS(manta_i64(0), manta_i64(0)));
    manta_view   view = {.hold = NULL};
    manta_error  e;
    manta_status code = manta_get(r, TEST_WAIT_MS, &view, &e);
    manta_release(&view);
    manta_free(r);
    return code ? manta_fail(c, 1, "%s", e.message) : MANTA_OK;
}
static manta_status talker_ask(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct talker *t = self;
    manta_error    e;
    (void)argc;
    manta_group *g = manta_group_of(&t->next, 1, &e);
    manta_status code = manta_group_quiet(g, argv[0].l, &e);
    manta_group_free(g);
    return manta_return_i64(c, code);
}
MANTA_ACTOR(talker, "u", talker_new, talker_free, {"know", "A", talker_know}, {"pass", "ll", talker_pass},
            {"leave", "ub", talker_leave}, {"parent", "u", talker_parent}, {"ask", "l>l", talker_ask});

static struct test_board *board;
static uint64_t           number;

/* A ring of them. */
static manta_group *ring(const manta_actor_opts *opts)
{
    manta_error  e;
    manta_group *g;
    board = test_board_new(&number);
    g = manta_group_new("talker", opts, TALKERS, MANTA_ARGS(manta_u64(number)), &e);
    CHECK(g);
    talkers_join(g);
    return g;
}
static void talk(const manta_actor_opts *opts)
{
    manta_group *g = ring(opts);
    talkers_talk(g, board, 3000);
    manta_group_free(g);
}
static void quiet_talk(void)
{
    talk(&(manta_actor_opts){.max_restarts = 0});
}
static void quiet_talk_threads(void)
{
    talk(&(manta_actor_opts){.max_concurrency = 4});
}

/* What they have left behind counts: a task, and what its callback begins. Actors that they have made don't. */
static void quiet_left_behind(void)
{
    manta_group *g = ring(&(manta_actor_opts){.max_restarts = 0});
    manta_error  e;
    for (int i = 0; i < 2; i++) {
        manta_free(manta_actor_call(manta_group_actor(g, 1), "leave", MANTA_ARGS(manta_u64(number), manta_bool(i))));
        CHECK_CODE(manta_group_quiet(g, TEST_WAIT_MS, &e), MANTA_OK, &e);
        CHECK_EQ(atomic_load(&board->words[SLOW]), i + 1);
        CHECK_EQ(atomic_load(&board->words[TALKER_HOPS]), i ? 21 : 0);
    }
    for (int i = 0; i < TALKERS; i++)
        manta_free(manta_actor_call(manta_group_actor(g, i), "parent", MANTA_ARGS(manta_u64(number))));
    CHECK_CODE(manta_group_quiet(g, TEST_WAIT_MS, &e), MANTA_OK, &e);
    CHECK_EQ(atomic_load(&board->words[TALKER_HOPS]), 21 + TALKERS);
    manta_group_free(g);
}

/* One is killed and comes back: what it had begun may be lost, the end is found all the same. */
static void quiet_restarted(void)
{
    manta_group *g = ring(&(manta_actor_opts){.max_restarts = 3});
    manta_error  e;
    talkers_send(g, 0, 2000, 97);
    CHECK_EQ(manta_actor_kill(manta_group_actor(g, 2), true), MANTA_OK);
    CHECK_CODE(manta_group_quiet(g, TEST_WAIT_MS, &e), MANTA_OK, &e);
    uint64_t done = atomic_load(&board->words[TALKER_HOPS]);
    test_sleep_ms(50);
    CHECK_EQ(atomic_load(&board->words[TALKER_HOPS]), done);
    manta_group_free(g);
}

static void quiet_bad(void)
{
    manta_group *g = ring(&(manta_actor_opts){.max_restarts = 0});
    manta_error  e;
    CHECK_EQ(manta_group_quiet(NULL, 10, &e), MANTA_EINVAL);
    CHECK_CODE(manta_group_quiet(g, 0, &e), MANTA_ETIMEDOUT, &e); /* nobody can have answered */
    talkers_send(g, 0, INT64_MAX, 0);
    CHECK_CODE(manta_group_quiet(g, 100, &e), MANTA_ETIMEDOUT, &e);
    CHECK_SAYS(e.message, "of the group still works after 100 ms");
    manta_group_free(g);

    g = ring(&(manta_actor_opts){.max_restarts = 0}); /* from inside: one that waits for itself, one that asks another */
    manta_actor *alone = manta_actor_new("talker", &(manta_actor_opts){.max_restarts = 0}, MANTA_ARGS(manta_u64(number)));
    manta_free(manta_actor_call(alone, "know", MANTA_ARGS(manta_actor_arg(alone))));
    CHECK_I64(manta_actor_call(alone, "ask", MANTA_ARGS(manta_i64(MANTA_FOREVER))), MANTA_EDEADLK);
    CHECK_I64(manta_actor_call(manta_group_actor(g, 0), "ask", MANTA_ARGS(manta_i64(TEST_WAIT_MS))), MANTA_OK);
    manta_actor_free(alone);
    CHECK_EQ(manta_actor_kill(manta_group_actor(g, 3), false), MANTA_OK);
    manta_view   nothing;
    manta_status code;
    do { /* it may answer until the signal has come */
        manta_ref *r = manta_actor_call(manta_group_actor(g, 3), "pass", MANTA_ARGS(manta_i64(0), manta_i64(0)));
        code = manta_get(r, TEST_WAIT_MS, &nothing, &e);
        manta_release(&nothing);
        manta_free(r);
    } while (code == MANTA_OK);
    CHECK_CODE(manta_group_quiet(g, TEST_WAIT_MS, &e), MANTA_EACTOR_DIED, &e);
    manta_group_free(g);
}

int main(int argc, char **argv)
{
    const manta_init_opts  two = {.num_cpus = 2};
    const struct test_case cases[] = {
        {.name = "quiet_talk", quiet_talk, .opts = two},
        {.name = "quiet_talk_threads", quiet_talk_threads, .opts = two},
        {.name = "quiet_left_behind", quiet_left_behind, .opts = two},
        {.name = "quiet_restarted", quiet_restarted, .opts = two},
        {.name = "quiet_bad", quiet_bad, .opts = two},
        {.name = NULL},
    };
    return test_main(argc, argv, cases);
}
