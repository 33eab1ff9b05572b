/* SPDX-License-Identifier: Apache-2.0
 *
 * again_test.c - what calls of actors and generators made on a node that dies: called, or run, again.
 *
 * Each method and generator counts its runs in a word of the test's board.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cluster/lost.h"

enum { ITEMS = 6, HELD = 3 };

/* ---- what runs in the workers ---- */

static void count(uint64_t board, int64_t word)
{
    atomic_fetch_add(&test_board_map(board)->words[word], 1);
}

static manta_status maker_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    return MANTA_OK;
}
/* (seed, board, word) */
static manta_status maker_make(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    count(argv[1].u, argv[2].l);
    return lost_give(c, argv[0].l);
}
/* (value, its seed, board, word): the value of the next seed */
static manta_status maker_next(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    count(argv[2].u, argv[3].l);
    if (lost_seen(argv[0].y.data, argv[0].y.size, argv[1].l) < 0)
        return manta_fail(c, 2, "not the value of seed %lld", (long long)argv[1].l);
    return lost_give(c, argv[1].l + 1);
}
static manta_status maker_look(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    return manta_return_i64(c, lost_seen(argv[0].y.data, argv[0].y.size, argv[1].l));
}

/* (first seed, board, fewer, stop): items of SIZE bytes and small ones in turn, `fewer` less in each later run; before item
 * `stop` it waits until word 11 says so. */
static manta_status yield_all(manta_ctx *c, const manta_arg *argv)
{
    static char        data[SIZE];
    struct test_board *board = test_board_map(argv[1].u);
    int64_t            runs = atomic_fetch_add(&board->words[0], 1);
    manta_status       code = MANTA_OK;
    for (int64_t i = 0; i < ITEMS - (runs ? argv[2].l : 0) && code == MANTA_OK; i++) {
        if (i == argv[3].l && !test_board_wait(&board->words[11], 1))
            return manta_fail(c, 1, "nobody came");
        nodes_fill(data, SIZE, argv[0].l + i);
        code = manta_yield(c, manta_bytes_of(data, SIZE));
        if (code == MANTA_OK)
            code = manta_yield(c, manta_bytes_of(&i, sizeof i));
    }
    return code;
}
static manta_status items(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return yield_all(c, argv);
}
MANTA_REGISTER(items, "lull>y");
static manta_status maker_items(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    return yield_all(c, argv);
}
MANTA_ACTOR(maker, "", maker_new, NULL, {"make", "lul>y", maker_make}, {"next", "ylul>y", maker_next}, {"look", "yl>l", maker_look},
            {"items", "lull>y", maker_items});

/* ---- from the driver: calls ---- */

static manta_actor *maker(int restarts, int retries)
{
    manta_actor_opts opts = {.labels = lost_victim(), .max_restarts = restarts, .max_task_retries = retries};
    return manta_actor_new("maker", &opts, 0, NULL);
}
static manta_ref *make(manta_actor *actor, int64_t seed, int word)
{
    return manta_actor_call(actor, "make", MANTA_ARGS(manta_i64(seed), manta_u64(lost_board_number), manta_i64(word)));
}
static manta_ref *make_next(manta_actor *actor, manta_ref *ref, int64_t seed, int word)
{
    return manta_actor_call(actor, "next",
                            MANTA_ARGS(manta_ref_arg(ref), manta_i64(seed), manta_u64(lost_board_number), manta_i64(word)));
}

/* The actor begins anew elsewhere, and makes what it had made before. */
static void lost_call(void)
{
    struct nodes n;
    lost_begin(&n, 3);
    manta_actor *actor = maker(1, 2);
    manta_ref   *first = make(actor, 1, 0), *second = make_next(actor, first, 1, 1);
    lost_wait_made(second);
    lost_heir(&n);
    lost_kill(&n);
    lost_check_value(second, 2);
    lost_check_value(first, 1);
    CHECK_EQ(lost_board->words[0], 2);
    CHECK_EQ(lost_board->words[1], 2);
    manta_free(first), manta_free(second);
    manta_actor_free(actor);
    nodes_stop(&n);
}

/* A call that has a lost value as its argument must not keep its actor from making that again. */
static void lost_call_order(void)
{
    struct nodes n;
    lost_begin(&n, 3);
    manta_actor *one = maker(1, 3), *two = maker(1, 3);
    manta_ref   *a = make(one, 1, 0), *b = make_next(two, a, 1, 1), *c = make_next(one, b, 2, 2);
    lost_wait_made(c);
    lost_heir(&n);
    lost_kill(&n);
    manta_ref *looks[2];
    for (int i = 0; i < 2; i++)
        looks[i] = manta_actor_call(i ? two : one, "look", MANTA_ARGS(manta_ref_arg(i ? b : c), manta_i64(3 - i)));
    for (int i = 0; i < 2; i++)
        CHECK_I64(looks[i], 3 - i);
    manta_free(b); /* only c's call needs it now */
    lost_check_value(a, 1), lost_check_value(c, 3);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(lost_board->words[i], 2);
    manta_free(a), manta_free(c);
    manta_actor_free(one), manta_actor_free(two);
    nodes_stop(&n);
}

static void lost_call_for_good(void)
{
    struct nodes n;
    lost_begin(&n, 2);
    manta_actor *dies = maker(0, 2), *once = maker(1, 0);
    manta_ref   *of_dead = make(dies, 1, 0), *of_once = make(once, 2, 1);
    lost_wait_made(of_dead), lost_wait_made(of_once);
    lost_heir(&n);
    lost_kill(&n);
    lost_check_gone(of_once, "max_task_retries");
    lost_check_gone(of_dead, "is dead");
    CHECK_EQ(lost_board->words[0], 1);
    CHECK_EQ(lost_board->words[1], 1);
    manta_free(of_dead), manta_free(of_once);
    manta_actor_free(dies), manta_actor_free(once);
    nodes_stop(&n);
}

/* ---- from the driver: items ---- */

#define ITEM_ARGS(fewer, stop) MANTA_ARGS(manta_i64(20), manta_u64(lost_board_number), manta_i64(fewer), manta_i64(stop))

static manta_generator *generate(int retries, int fewer, int stop)
{
    return manta_call_stream("items", &(manta_task_opts){.labels = lost_victim(), .max_retries = retries}, ITEM_ARGS(fewer, stop));
}
/* Takes that item (a large one, then the small one behind it). */
static manta_ref *take(manta_generator *g, int64_t i)
{
    manta_error e;
    manta_view  small;
    manta_ref  *large;
    CHECK_CODE(manta_next_ref(g, TEST_WAIT_MS, &large, &e), MANTA_OK, &e);
    CHECK_CODE(manta_next(g, TEST_WAIT_MS, &small, &e), MANTA_OK, &e);
    CHECK(small.size == sizeof i && !memcmp(small.data, &i, sizeof i));
    manta_release(&small);
    return large;
}
static void check_end(manta_generator *g)
{
    manta_error e;
    manta_view  view;
    CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_EEND, &e);
}
static void check_items(manta_ref **refs, int from, int to)
{
    for (int i = from; i < to; i++) {
        lost_check_value(refs[i], 20 + i);
        manta_free(refs[i]);
    }
}

/* All were taken: one run more brings all that are held. */
static void lost_items(void)
{
    struct nodes n;
    manta_ref   *refs[ITEMS];
    lost_begin(&n, 3);
    manta_generator *g = generate(0, 0, -1);
    for (int i = 0; i < ITEMS; i++)
        refs[i] = take(g, i);
    check_end(g);
    manta_free(refs[0]);
    lost_heir(&n);
    lost_kill(&n);
    check_items(refs, 1, ITEMS);
    CHECK_EQ(lost_board->words[0], 2);
    check_end(g);
    manta_generator_free(g);
    nodes_stop(&n);
}

/* Some were not taken yet. */
static void lost_items_untaken(void)
{
    struct nodes n;
    manta_ref   *refs[ITEMS];
    lost_begin(&n, 3);
    manta_generator *g = generate(0, 0, ITEMS);
    for (int i = 0; i < HELD; i++)
        refs[i] = take(g, i);
    lost_heir(&n);
    lost_kill(&n);
    lost_board->words[11] = 1;
    check_items(refs, 0, HELD);
    for (int i = HELD; i < ITEMS; i++)
        refs[i] = take(g, i);
    check_end(g);
    check_items(refs, HELD, ITEMS);
    manta_generator_free(g);
    nodes_stop(&n);
}

/* It runs when its node dies: its next attempt brings what was taken before, too. */
static void lost_items_running(void)
{
    struct nodes n;
    manta_ref   *refs[ITEMS];
    lost_begin(&n, 3);
    manta_generator *g = generate(1, 0, HELD);
    for (int i = 0; i < HELD; i++)
        refs[i] = take(g, i);
    lost_heir(&n);
    lost_kill(&n);
    lost_board->words[11] = 1;
    for (int i = HELD; i < ITEMS; i++)
        refs[i] = take(g, i);
    check_end(g);
    manta_generator_free(g);
    check_items(refs, 0, ITEMS);
    CHECK_EQ(lost_board->words[0], 2);
    nodes_stop(&n);
}

static void lost_items_of_actor(void)
{
    struct nodes n;
    manta_ref   *refs[ITEMS];
    lost_begin(&n, 3);
    manta_actor     *actor = maker(1, 1);
    manta_generator *g = manta_actor_call_stream(actor, "items", 0, ITEM_ARGS(0, -1));
    for (int i = 0; i < ITEMS; i++)
        refs[i] = take(g, i);
    check_end(g);
    manta_generator_free(g);
    lost_heir(&n);
    lost_kill(&n);
    check_items(refs, 0, ITEMS);
    CHECK_EQ(lost_board->words[0], 2);
    manta_actor_free(actor);
    nodes_stop(&n);
}

static void lost_items_for_good(void)
{
    struct nodes n;
    manta_ref   *refs[ITEMS], *once;
    lost_begin(&n, 3);
    manta_generator *g = generate(0, 1, -1);
    for (int i = 0; i < ITEMS; i++)
        refs[i] = take(g, i);
    check_end(g);
    manta_generator_free(g);
    g = generate(MANTA_NO_RETRY, ITEMS - 1, -1);
    once = take(g, 0);
    check_end(g);
    manta_generator_free(g);
    lost_heir(&n);
    lost_kill(&n);
    lost_check_gone(refs[ITEMS - 1], "ended without this item"), manta_free(refs[ITEMS - 1]);
    lost_check_gone(once, "MANTA_NO_RETRY"), manta_free(once);
    check_items(refs, 0, ITEMS - 1);
    nodes_stop(&n);
}

int main(int argc, char **argv)
{
    const struct test_case cases[] = {
        {"lost_call", lost_call, .no_init = true},
        {"lost_call_order", lost_call_order, .no_init = true},
        {"lost_call_for_good", lost_call_for_good, .no_init = true},
        {"lost_items", lost_items, .no_init = true},
        {"lost_items_untaken", lost_items_untaken, .no_init = true},
        {"lost_items_running", lost_items_running, .no_init = true},
        {"lost_items_of_actor", lost_items_of_actor, .no_init = true},
        {"lost_items_for_good", lost_items_for_good, .no_init = true},
        {.name = NULL},
    };
    return test_main(argc, argv, cases);
}
