/* SPDX-License-Identifier: Apache-2.0
 *
 * crowd_test.c - a node on which no more workers may wait inside tasks: who waits for a task of its own runs that itself.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/harness.h"

#include <stdlib.h>
#include <unistd.h>

enum { FOR_EVER = -1, PIDS = 48 };

/* Notes which processes have run something, each once, in words 8 and up. */
static void note_pid(struct test_board *board)
{
    for (int i = 8; i < 8 + PIDS; i++) {
        int64_t free = 0;
        if (atomic_load(&board->words[i]) == getpid() || atomic_compare_exchange_strong(&board->words[i], &free, getpid()) ||
            free == getpid())
            return;
    }
}
static int pids(const struct test_board *board)
{
    int count = 0;
    for (int i = 8; i < 8 + PIDS; i++)
        count += board->words[i] != 0;
    return count;
}

/* ---- recursion ---- */

static manta_status tree(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t     depth = argv[1].l, a, b;
    manta_error e;
    (void)argc;
    note_pid(test_board_map(argv[0].u));
    if (depth == 0)
        return manta_return_i64(c, 1);
    manta_ref *x = manta_call("tree", NULL, MANTA_ARGS(argv[0], manta_i64(depth - 1)));
    manta_ref *y = manta_call("tree", NULL, MANTA_ARGS(argv[0], manta_i64(depth - 1)));
    bool       ok = manta_get_i64(x, FOR_EVER, &a, &e) == MANTA_OK && manta_get_i64(y, FOR_EVER, &b, &e) == MANTA_OK;
    manta_free(x), manta_free(y);
    return ok ? manta_return_i64(c, a + b) : manta_fail(c, e.code, "tree(%lld): %s", (long long)depth, e.message);
}
MANTA_REGISTER(tree, "ul>l");

static void crowd_tree(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    CHECK_I64(manta_call("tree", NULL, MANTA_ARGS(manta_u64(number), manta_i64(12))), 4096);
    if (pids(board) > 24)
        test_fail(__FILE__, __LINE__, "%d processes ran a tree that two CPUs and two waiting workers can run", pids(board));
}

/* ---- one chain, while as many wait as may ---- */

static manta_status held(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, test_board_wait(&test_board_map(argv[0].u)->words[0], 1));
}
MANTA_REGISTER(held, "u>l");

/* What it waits for takes no CPU. */
static manta_status waiter(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_task_opts none = {.no_cpu = true};
    manta_ref      *r = manta_call("held", &none, MANTA_ARGS(argv[0]));
    int64_t         x = 0;
    manta_error     e;
    (void)argc;
    atomic_fetch_add(&test_board_map(argv[0].u)->words[1], 1);
    manta_get_i64(r, FOR_EVER, &x, &e);
    manta_free(r);
    return manta_return_i64(c, x);
}
MANTA_REGISTER(waiter, "u>l");

static void crowd_end(uint64_t number, manta_ref *take_waiter)
{
    atomic_store(&test_board_map(number)->words[0], 1);
    CHECK_I64(take_waiter, 1);
}

static manta_status where(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, getpid());
}
MANTA_REGISTER(where, "l>l");

/* From here on one worker waits, which is all that may: what takes all CPUs begins when the raylet has lent that one's. */
static manta_ref *crowd_begin(uint64_t number)
{
    struct test_board *board = test_board_map(number);
    manta_task_opts    all = {.num_cpus = 4};
    manta_ref         *r = manta_call("waiter", NULL, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[1], 1));
    test_i64(manta_call("where", &all, MANTA_ARGS(manta_i64(0))), __FILE__, __LINE__);
    return r;
}

static manta_status big(manta_ctx *c, int argc, const manta_arg *argv)
{
    size_t       size = (size_t)argv[0].l;
    char        *bytes = malloc(size);
    manta_status code;
    (void)argc;
    memset(bytes, 7, size);
    code = manta_return_bytes(c, bytes, size);
    free(bytes);
    return code;
}
MANTA_REGISTER(big, "l>y");

static manta_status pair(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_arg second = manta_i64(argv[0].l + 1);
    (void)argc;
    manta_return_at(c, 0, argv[0]);
    return manta_return_at(c, 1, second);
}
MANTA_REGISTER(pair, "l>ll");

static manta_status fails(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_fail(c, 42, "no %lld", (long long)argv[0].l);
}
MANTA_REGISTER(fails, "l>l");

static manta_status add(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, argv[0].l + argv[1].l);
}
MANTA_REGISTER(add, "ll>l");

/* A value that declares the reference which it was given, and one of its own. */
static manta_status declares(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_ref   *own = manta_put("own", 3), *refs[2] = {argv[0].r, own};
    manta_status code = manta_return_refs(c, "x", 1, refs, 2);
    (void)argc;
    manta_free(own);
    return code;
}
MANTA_REGISTER(declares, "r>y");

/* Whether the value of the declared ref `index` is `wanted`. */
static bool declared_is(manta_ref *r, size_t index, const char *wanted)
{
    manta_error e;
    manta_view  view, inner;
    bool        same = false;
    if (manta_get(r, FOR_EVER, &view, &e) != MANTA_OK)
        return false;
    manta_ref *refs[2];
    if (manta_view_refs(&view, refs, 2, &e) == 2) {
        same = manta_get(refs[index], FOR_EVER, &inner, &e) == MANTA_OK && inner.size == strlen(wanted) &&
               memcmp(inner.data, wanted, inner.size) == 0;
        manta_release(&inner);
        manta_free(refs[0]), manta_free(refs[1]);
    }
    manta_release(&view);
    return same;
}

static int64_t value(manta_ref *take_ref)
{
    int64_t     x = -1;
    manta_error e;
    if (manta_get_i64(take_ref, FOR_EVER, &x, &e) != MANTA_OK)
        x = -e.code;
    manta_free(take_ref);
    return x;
}

/* It runs its child itself. Where it had no CPU between call and wait, another worker was there first: then it tries again. */
static bool runs_child(void)
{
    for (int64_t limit = test_now_ms() + TEST_WAIT_MS; test_now_ms() < limit;)
        if (value(manta_call("where", NULL, MANTA_ARGS(manta_i64(0)))) == getpid())
            return true;
    return false;
}

/* Each of its children is run by itself, and what they give is what others would. A bit for each that is right. */
static manta_status parent(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_task_opts elsewhere = {.memory = 1 << 20};
    manta_ref      *two[2], *large = manta_call("big", NULL, MANTA_ARGS(manta_i64(1 << 20)));
    manta_ref      *given = manta_call("declares", NULL, MANTA_ARGS(argv[0]));
    manta_ref      *sum;
    manta_view      view;
    manta_error     e;
    int64_t         right = 0;
    (void)argc;
    right |= runs_child() << 0;
    right |= (manta_get(large, FOR_EVER, &view, &e) == MANTA_OK && view.size == 1 << 20 && ((const char *)view.data)[9] == 7) << 1;
    manta_release(&view);
    manta_free(large);
    manta_call_n("pair", NULL, MANTA_ARGS(manta_i64(5)), two, 2);
    right |= (value(two[1]) == 6 && value(two[0]) == 5) << 2;
    right |= (value(manta_call("fails", NULL, MANTA_ARGS(manta_i64(3)))) == -MANTA_ETASK) << 3;
    two[0] = manta_call("add", NULL, MANTA_ARGS(manta_i64(1), manta_i64(2)));
    sum = manta_call("add", NULL, MANTA_ARGS(manta_ref_arg(two[0]), manta_i64(4))); /* its argument is made first */
    right |= (value(sum) == 7) << 4;
    manta_free(two[0]);
    right |= (declared_is(given, 0, "given") && declared_is(given, 1, "own")) << 5;
    manta_free(given);
    sum = manta_call("where", &elsewhere, MANTA_ARGS(manta_i64(0)));
    right |= (value(sum) != getpid()) << 6; /* what needs more than CPUs goes to a worker of its own */
    return manta_return_i64(c, right);
}
MANTA_REGISTER(parent, "r>l");

static void crowd_values(void)
{
    uint64_t   number;
    manta_ref *waits, *given = manta_put("given", 5);
    test_board_new(&number);
    waits = crowd_begin(number);
    CHECK_I64(manta_call("parent", NULL, MANTA_ARGS(manta_ref_arg(given))), 0x7f);
    crowd_end(number, waits);
    manta_free(given);
}

/* ---- cancelling ---- */

static manta_status endless(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    atomic_store(&board->words[3], getpid());
    atomic_fetch_add(&board->words[2], 1);
    while (!manta_is_cancelled(c))
        test_sleep_ms(1);
    atomic_fetch_add(&board->words[4], 1);
    return manta_return_i64(c, 0);
}
MANTA_REGISTER(endless, "u>l");

static manta_status outer(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    int64_t x = value(manta_call("endless", NULL, MANTA_ARGS(argv[0])));
    atomic_store(&board->words[5], atomic_load(&board->words[3]) == getpid() && x == -MANTA_ECANCELLED);
    return manta_return_i64(c, x);
}
MANTA_REGISTER(outer, "u>l");

/* Whether the child ran in the parent's process, and its ref said why. */
static bool is_cancelled_inside(uint64_t number)
{
    manta_cancel_opts  recursive = {.recursive = true};
    struct test_board *board = test_board_map(number);
    int64_t            begun = board->words[2], ended = board->words[4];
    manta_error        e;
    manta_ref         *r = manta_call("outer", NULL, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[2], begun + 1));
    CHECK_CODE(manta_cancel(r, &recursive, &e), MANTA_OK, &e);
    CHECK_FAILS(r, MANTA_ECANCELLED, &e);
    CHECK(test_board_wait(&board->words[4], ended + 1)); /* where that was another's, it may end a moment later */
    return board->words[5];
}

static void crowd_cancel(void)
{
    uint64_t number;
    test_board_new(&number);
    manta_ref *waits = crowd_begin(number);
    CHECK_SOON(is_cancelled_inside(number));
    crowd_end(number, waits);
}

/* ---- waiting in a circle ---- */

static manta_status ring_create(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = NULL;
    return MANTA_OK;
}
static manta_status ring_hold(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    int64_t     x = 0;
    manta_error e;
    (void)self, (void)argc;
    atomic_store(&test_board_map(argv[1].u)->words[2], 1);
    return manta_return_i64(c, manta_get_i64(argv[0].r, FOR_EVER, &x, &e));
}
static manta_status ring_ping(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, 1);
}
MANTA_ACTOR(ring, "", ring_create, NULL, {"hold", "ru>l", ring_hold}, {"ping", ">l", ring_ping});

static manta_status pings(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, value(manta_actor_call(argv[0].A, "ping", MANTA_NO_ARGS)));
}
MANTA_REGISTER(pings, "A>l");

static manta_status circle(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    if (!test_board_wait(&test_board_map(argv[1].u)->words[2], 1))
        return manta_fail(c, 0, "nobody waits");
    return manta_return_i64(c, value(manta_call("pings", NULL, MANTA_ARGS(argv[0]))));
}
MANTA_REGISTER(circle, "Au>l");

static void crowd_deadlock(void)
{
    uint64_t    number;
    manta_error e;
    test_board_new(&number);
    manta_ref   *waits = crowd_begin(number);
    manta_actor *a = manta_actor_new("ring", NULL, MANTA_NO_ARGS);
    manta_ref   *r = manta_call("circle", NULL, MANTA_ARGS(manta_actor_arg(a), manta_u64(number)));
    manta_ref   *hold = manta_actor_call(a, "hold", MANTA_ARGS(manta_ref_arg(r), manta_u64(number)));
    int64_t      held_code, circle_code;
    CHECK_CODE(manta_get_i64(hold, TEST_WAIT_MS, &held_code, &e), MANTA_OK, &e);
    CHECK_CODE(manta_get_i64(r, TEST_WAIT_MS, &circle_code, &e), MANTA_OK, &e);
    CHECK((held_code == MANTA_EDEADLK) != (circle_code == -MANTA_EDEADLK));
    manta_free(r), manta_free(hold), manta_actor_free(a);
    crowd_end(number, waits);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"crowd_tree", crowd_tree, {.num_cpus = 2, .max_blocked_workers = 2}, false, 0},
        {"crowd_values", crowd_values, {.num_cpus = 4, .max_blocked_workers = 1}, false, 0},
        {"crowd_cancel", crowd_cancel, {.num_cpus = 4, .max_blocked_workers = 1}, false, 0},
        {"crowd_deadlock", crowd_deadlock, {.num_cpus = 4, .max_blocked_workers = 1}, false, 0},
        {NULL, NULL, {0}, false, 0},
    };
    return test_main(argc, argv, cases);
}
