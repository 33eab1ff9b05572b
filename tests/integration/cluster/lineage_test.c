/* SPDX-License-Identifier: Apache-2.0
 *
 * lineage_test.c - results whose node dies, and the tasks that make them again.
 *
 * Each function counts its runs in a word of the test's board, so that a run too many shows. "victim" is node 1, which the
 * labels prefer; when it is dead the same call runs on its heir. What calls of actors and generators made: again_test.c.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cluster/lost.h"

#include <signal.h>
#include <stdio.h>

/* ---- what runs in the workers ---- */

/* (seed, board, word) */
static manta_status made(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    atomic_fetch_add(&test_board_map(argv[1].u)->words[argv[2].l], 1);
    return lost_give(c, argv[0].l);
}
MANTA_REGISTER(made, "lul>y");
/* (value, its seed, board, word): the value of the next seed */
static manta_status next(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    atomic_fetch_add(&test_board_map(argv[2].u)->words[argv[3].l], 1);
    if (lost_seen(argv[0].y.data, argv[0].y.size, argv[1].l) < 0)
        return manta_fail(c, 2, "not the value of seed %lld", (long long)argv[1].l);
    return lost_give(c, argv[1].l + 1);
}
MANTA_REGISTER(next, "ylul>y");
static manta_status pair(manta_ctx *c, int argc, const manta_arg *argv)
{
    static char data[SIZE];
    (void)argc;
    atomic_fetch_add(&test_board_map(argv[0].u)->words[0], 1);
    for (int i = 0; i < 2; i++) {
        nodes_fill(data, SIZE, 40 + i);
        if (manta_return_at(c, i, manta_bytes_of(data, SIZE)))
            return MANTA_ETASK;
    }
    return MANTA_OK;
}
MANTA_REGISTER(pair, "u>yy");
static manta_status checked(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, lost_seen(argv[0].y.data, argv[0].y.size, argv[1].l));
}
MANTA_REGISTER(checked, "yl>l");
static manta_status nothing(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, argv[0].l);
}
MANTA_REGISTER(nothing, "l>l");
/* Node 1 is worked with from here, so its end is noticed here at once. */
static manta_status meet(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_error e;
    int64_t     got;
    (void)argc;
    manta_ref   *ref = manta_call("nothing", &(manta_task_opts){AT(1)}, MANTA_ARGS(manta_i64(argv[0].l)));
    manta_status code = manta_get_i64(ref, TEST_WAIT_MS, &got, &e);
    manta_free(ref);
    return code ? manta_fail(c, code, "%s", e.message) : manta_return_i64(c, got);
}
MANTA_REGISTER(meet, "l>l");

static manta_status maker_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    return MANTA_OK;
}
static manta_status maker_make(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    return lost_give(c, argv[0].l);
}
MANTA_ACTOR(maker, "", maker_new, NULL, {"make", "l>y", maker_make});

/* ---- from the driver ---- */

static manta_ref *make(const char *labels, int64_t seed, int word, int retries)
{
    return manta_call("made", &(manta_task_opts){.labels = labels, .max_retries = retries},
                      MANTA_ARGS(manta_i64(seed), manta_u64(lost_board_number), manta_i64(word)));
}
static manta_ref *make_next(const char *labels, manta_ref *ref, int64_t seed, int word)
{
    return manta_call("next", &(manta_task_opts){.labels = labels},
                      MANTA_ARGS(manta_ref_arg(ref), manta_i64(seed), manta_u64(lost_board_number), manta_i64(word)));
}
/* ---- made again ---- */

static void lost_get(void)
{
    struct nodes n;
    manta_view   kept;
    manta_error  e;
    lost_begin(&n, 2);
    manta_ref *ref = make(lost_victim(), 5, 0, 0);
    lost_check_value(ref, 5); /* a copy of it is here, for as long as somebody reads it */
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &kept, &e), MANTA_OK, &e);
    manta_ref *other = make(lost_victim(), 6, 1, 0);
    lost_wait_made(other);
    lost_heir(&n);
    lost_kill(&n);
    lost_check_value(other, 6);
    lost_check_value(other, 6);
    CHECK_EQ(lost_board->words[1], 2);
    CHECK_EQ(lost_seen(kept.data, kept.size, 5), 5);
    manta_release(&kept);
    manta_free(ref), manta_free(other);
    nodes_stop(&n);
}

/* Read on node 1 itself, so that no copy is left when that dies. */
static void check_there(manta_ref *ref, int64_t seed)
{
    CHECK_I64(manta_call("checked", &(manta_task_opts){AT(1)}, MANTA_ARGS(manta_ref_arg(ref), manta_i64(seed))), seed);
}

/* The raylet is restarted: the node is there, its values are not. Twice. */
static void lost_restart(void)
{
    struct nodes n;
    lost_begin(&n, 2);
    manta_ref *ref = make("zone=z1", 7, 0, 2);
    for (int round = 1; round < 3; round++) {
        lost_wait_made(ref);
        lost_kill(&n);
        lost_bring_back(&n);
        check_there(ref, 7);
        CHECK_EQ(lost_board->words[0], round + 1);
    }
    lost_check_value(ref, 7);
    manta_free(ref);
    nodes_stop(&n);
}

static void lost_dependent(void)
{
    struct nodes n;
    lost_begin(&n, 3);
    CHECK_I64(manta_call("meet", &(manta_task_opts){AT(2)}, MANTA_ARGS(manta_i64(1))), 1);
    manta_ref *ref = make(lost_victim(), 8, 0, 0);
    lost_wait_made(ref);
    manta_ref *borrower = lost_borrow(2, ref, 8, SIZE);
    lost_heir(&n);
    lost_kill(&n);
    manta_ref *looks[3];
    for (int i = 0; i < 3; i++)
        looks[i] = manta_call("checked", i == 1 ? &(manta_task_opts){AT(0)} : &(manta_task_opts){AT(2)},
                              MANTA_ARGS(manta_ref_arg(ref), manta_i64(8)));
    lost_board->words[11] = 1;
    lost_wait_made(ref);
    CHECK_I64(borrower, 8);
    for (int i = 0; i < 3; i++)
        CHECK_I64(looks[i], 8);
    lost_check_value(ref, 8);
    CHECK_EQ(lost_board->words[0], 2); /* once, whoever asks */
    manta_free(ref);
    nodes_stop(&n);
}

/* The head is silent, so no verdict tells that the node is dead. A task that needs its value begins all the same: here, on a node
 * that has never spoken with the dead one, and wherever. */
static void lost_argument(void)
{
    struct nodes n;
    manta_ref   *refs[3];
    lost_begin(&n, 3);
    for (int i = 0; i < 3; i++)
        lost_wait_made(refs[i] = make(lost_victim(), 50 + i, i, 0));
    lost_heir(&n);
    CHECK_EQ(kill(n.head, SIGSTOP), 0);
    if (getenv("TEST_AWAY_S")) /* the row lost_arg: the head has been away for so long */
        test_sleep_ms(1000 * (int)strtol(getenv("TEST_AWAY_S"), NULL, 10));
    nodes_kill(&n.raylets[1]);
    for (int i = 0; i < 3; i++) {
        int64_t         since = test_now_ms();
        manta_task_opts opts = {0};
        if (i < 2)
            opts = (manta_task_opts){AT(i ? 2 : 0)};
        CHECK_I64(manta_call("checked", &opts, MANTA_ARGS(manta_ref_arg(refs[i]), manta_i64(50 + i))), 50 + i);
        CHECK_EQ(lost_board->words[i], 2);
        if (getenv("TEST_TIMES"))
            fprintf(stderr, "lost_argument %d: %lld ms\n", i, (long long)(test_now_ms() - since));
    }
    CHECK_EQ(kill(n.head, SIGCONT), 0);
    for (int i = 0; i < 3; i++)
        manta_free(refs[i]);
    nodes_stop(&n);
}

/* Each result is the next one's argument; of the second chain only the last is held. */
static void lost_chain(void)
{
    struct nodes n;
    lost_begin(&n, 3);
    manta_ref *held[3], *let_go[3];
    for (int i = 0; i < 3; i++) {
        held[i] = i ? make_next(lost_victim(), held[i - 1], 9 + i, i) : make(lost_victim(), 10, 0, 0);
        let_go[i] = i ? make_next(lost_victim(), let_go[i - 1], 19 + i, 3 + i) : make(lost_victim(), 20, 3, 0);
    }
    lost_wait_made(held[2]), lost_wait_made(let_go[2]);
    manta_free(let_go[0]), manta_free(let_go[1]);
    lost_heir(&n);
    lost_kill(&n);
    lost_check_value(held[2], 12);
    lost_check_value(let_go[2], 22);
    lost_check_value(held[0], 10), lost_check_value(held[1], 11);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(lost_board->words[i], 2);
    manta_free(let_go[2]);
    for (int i = 0; i < 3; i++)
        manta_free(held[i]);
    nodes_stop(&n);
}

/* Of a task's two results one is held, then both: it runs once more for all that is lost. */
static void lost_several(void)
{
    struct nodes n;
    manta_ref   *refs[2];
    lost_begin(&n, 3);
    manta_task_opts opts = {.labels = lost_victim()};
    manta_call_n("pair", &opts, MANTA_ARGS(manta_u64(lost_board_number)), refs, 2);
    lost_wait_made(refs[1]);
    lost_heir(&n);
    lost_kill(&n);
    lost_check_value(refs[1], 41), lost_check_value(refs[0], 40);
    CHECK_EQ(lost_board->words[0], 2);
    manta_free(refs[0]), manta_free(refs[1]);
    nodes_stop(&n);
}

/* ---- not made again ---- */

static void lost_for_good(void)
{
    struct nodes n;
    manta_error  e;
    lost_begin(&n, 2);
    manta_actor_opts there = {AT(1)};
    manta_actor     *actor = manta_actor_new("maker", &there, 0, NULL);
    manta_ref       *called = manta_actor_call(actor, "make", MANTA_ARGS(manta_i64(1)));
    manta_ref       *once = make(lost_victim(), 2, 0, MANTA_NO_RETRY), *twice = make("zone=z1", 3, 1, 1);
    manta_ref       *freed = make(lost_victim(), 4, 2, 0);
    lost_wait_made(called), lost_wait_made(once), lost_wait_made(twice), lost_wait_made(freed);
    CHECK_CODE(manta_free_now(&freed, 1, &e), MANTA_OK, &e);
    lost_kill(&n);
    lost_bring_back(&n);
    lost_check_gone(called, "max_task_retries");
    lost_check_gone(once, "MANTA_NO_RETRY");
    lost_check_gone(freed, "manta_free_now");
    check_there(twice, 3);
    lost_kill(&n);
    lost_check_gone(twice, "max_retries");
    manta_ref *dependent = manta_call("checked", NULL, MANTA_ARGS(manta_ref_arg(twice), manta_i64(3)));
    CHECK_FAILS(dependent, MANTA_EOBJ_LOST, &e);
    CHECK_EQ(lost_board->words[0], 1);
    CHECK_EQ(lost_board->words[1], 2);
    CHECK_EQ(lost_board->words[2], 1);
    manta_free(called), manta_free(once), manta_free(twice), manta_free(freed);
    manta_actor_free(actor);
    nodes_stop(&n);
}

static void lost_bound(void)
{
    enum { COUNT = 40 };
    struct nodes n;
    manta_ref   *refs[COUNT];
    setenv("MANTA_LINEAGE_BYTES", "4000", 1);
    lost_begin(&n, 2);
    for (int i = 0; i < COUNT; i++) {
        refs[i] = make(lost_victim(), i, i, 0);
        lost_wait_made(refs[i]);
    }
    lost_heir(&n);
    lost_kill(&n);
    lost_check_gone(refs[0], "lineage_bytes (4000)");
    lost_check_value(refs[COUNT - 1], COUNT - 1);
    CHECK_EQ(lost_board->words[0], 1);
    CHECK_EQ(lost_board->words[COUNT - 1], 2);
    for (int i = 0; i < COUNT; i++)
        manta_free(refs[i]);
    nodes_stop(&n);
}

static void lost_wrong_option(void)
{
    manta_error     e;
    manta_init_opts opts = {.lineage_bytes = -2};
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "lineage_bytes");
}

int main(int argc, char **argv)
{
    const struct test_case cases[] = {
        {"lost_get", lost_get, .no_init = true},
        {"lost_restart", lost_restart, .no_init = true},
        {"lost_dependent", lost_dependent, .no_init = true},
        {"lost_argument", lost_argument, .no_init = true},
        {"lost_chain", lost_chain, .no_init = true},
        {"lost_several", lost_several, .no_init = true},
        {"lost_for_good", lost_for_good, .no_init = true},
        {"lost_bound", lost_bound, .no_init = true},
        {"lost_wrong_option", lost_wrong_option, .no_init = true},
        {.name = NULL},
    };
    return test_main(argc, argv, cases);
}
