/* SPDX-License-Identifier: Apache-2.0
 *
 * cancel_test.c - taking tasks back: before they begin, while they run, by force, with what they have submitted.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cancel/functions.h"
#include "tests/integration/harness.h"

#include <stdio.h>
#include <stdlib.h>

static manta_ref *call(const char *name, uint64_t board)
{
    return manta_call(name, NULL, MANTA_ARGS(manta_u64(board)));
}

static void is_cancelled(manta_ref *take_ref, int outcome)
{
    manta_error e;
    CHECK_FAILS(take_ref, MANTA_ECANCELLED, &e);
    CHECK_EQ(e.outcome, outcome);
}

/* ---- before it begins ---- */
static void queued(void)
{
    enum { COUNT = 200 };
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_ref         *gate = call("open_gate", number), *refs[COUNT];
    manta_error        e;
    CHECK(test_board_wait(&board->words[STARTED], 1));
    for (int i = 0; i < COUNT; i++)
        refs[i] = manta_call("count", NULL, MANTA_ARGS(manta_u64(number), manta_i64(i)));
    for (int i = 0; i < COUNT; i += 2) {
        CHECK_CODE(manta_cancel(refs[i], NULL, &e), MANTA_OK, &e);
        CHECK_EQ(e.outcome, MANTA_DONE);
        CHECK_SAYS(e.message, "count");
    }
    is_cancelled(refs[0], MANTA_NOT_DONE); /* at once, although the worker is busy */
    board->words[GATE] = 1;
    for (int i = 1; i < COUNT; i++) {
        if (i % 2)
            CHECK_I64(refs[i], i);
        else
            is_cancelled(refs[i], MANTA_NOT_DONE);
    }
    CHECK_EQ(board->words[RAN], COUNT / 2);
    manta_free(gate);
}

static void waiting(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_ref         *source = call("until_cancelled", number);
    manta_ref         *next = manta_call("count", NULL, MANTA_ARGS(manta_u64(number), manta_ref_arg(source)));
    manta_ref         *last = manta_call("count", NULL, MANTA_ARGS(manta_u64(number), manta_ref_arg(next)));
    manta_error        e;
    CHECK(test_board_wait(&board->words[STARTED], 1));
    CHECK_CODE(manta_cancel(next, NULL, &e), MANTA_OK, &e);
    is_cancelled(last, MANTA_NOT_DONE); /* what waits for it fails with it */
    is_cancelled(next, MANTA_NOT_DONE);
    CHECK_EQ(board->words[STOPPED], 0);
    CHECK_CODE(manta_cancel(source, NULL, &e), MANTA_OK, &e);
    is_cancelled(source, MANTA_UNKNOWN);
    CHECK_EQ(board->words[RAN], 0);
}

/* ---- while it runs ---- */
static void running(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_ref         *ref = call("until_cancelled", number);
    manta_error        e;
    CHECK(test_board_wait(&board->words[STARTED], 1));
    CHECK_CODE(manta_cancel(ref, NULL, &e), MANTA_OK, &e);
    CHECK_EQ(e.outcome, MANTA_UNKNOWN);
    CHECK_FAILS(ref, MANTA_ECANCELLED, &e);
    CHECK_STR(e.function, "until_cancelled");
    CHECK_SAYS(e.message, "while it ran");
    CHECK_EQ(board->words[STOPPED], 1);
    CHECK_I64(manta_call("count", NULL, MANTA_ARGS(manta_u64(number), manta_i64(3))), 3); /* its worker goes on */
    ref = call("until_cancelled", number); /* the mark is not for the next task of the slot */
    CHECK(test_board_wait(&board->words[STARTED], 2));
    test_sleep_ms(30);
    CHECK_EQ(board->words[STOPPED], 1);
    CHECK_CODE(manta_cancel(ref, NULL, NULL), MANTA_OK, &e);
    is_cancelled(ref, MANTA_UNKNOWN);
}

/* The worker dies; those that stood behind it run elsewhere, which costs them nothing. */
static void forced(void)
{
    enum { COUNT = 50 };
    static const manta_task_opts once = {.max_retries = MANTA_NO_RETRY};
    uint64_t                     number;
    struct test_board           *board = test_board_new(&number);
    manta_ref                   *ref = call("deaf", number), *refs[COUNT];
    manta_error                  e;
    CHECK(test_board_wait(&board->words[STARTED], 1));
    for (int i = 0; i < COUNT; i++)
        refs[i] = manta_call("count", &once, MANTA_ARGS(manta_u64(number), manta_i64(i)));
    CHECK_CODE(manta_cancel(ref, &(manta_cancel_opts){.force = true}, &e), MANTA_OK, &e);
    CHECK_EQ(e.outcome, MANTA_UNKNOWN);
    is_cancelled(ref, MANTA_UNKNOWN);
    for (int i = 0; i < COUNT; i++)
        CHECK_I64(refs[i], i);
    CHECK_EQ(board->words[RAN], COUNT);
    CHECK_EQ(board->words[STARTED], 1); /* it was not tried again */
}

static void forced_alone(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_error        e;
    for (int i = 1; i <= 5; i++) {
        manta_ref *ref = call("deaf", number);
        CHECK(test_board_wait(&board->words[STARTED], i));
        CHECK_CODE(manta_cancel(ref, &(manta_cancel_opts){.force = true}, &e), MANTA_OK, &e);
        is_cancelled(ref, MANTA_UNKNOWN);
    }
    CHECK_I64(manta_call("count", NULL, MANTA_ARGS(manta_u64(number), manta_i64(1))), 1);
}

static int64_t worker_pid(void)
{
    manta_ref  *ref = manta_call("whose", NULL, MANTA_NO_ARGS);
    int64_t     pid = 0;
    manta_error e;
    CHECK_CODE(manta_get_i64(ref, TEST_WAIT_MS, &pid, &e), MANTA_OK, &e);
    manta_free(ref);
    return pid;
}

/* `times` tasks, one after the other, that end in the moment which their worker has when they are cancelled by force. */
static void end_by_themselves(struct test_board *board, uint64_t number, int times, int pause_ms)
{
    int64_t     limit = test_now_ms() + TEST_WAIT_MS, pid = worker_pid();
    manta_error e;
    while (times > 0) {
        int64_t    started = board->words[STARTED], stopped = board->words[STOPPED];
        manta_ref *ref = call("until_cancelled", number);
        for (; board->words[STARTED] <= started; test_sleep_ms(1)) {
            manta_progress(); /* nobody else may be there to send it */
            CHECK(test_now_ms() < limit);
        }
        test_sleep_ms(pause_ms);
        int64_t from = test_now_ms();
        CHECK_CODE(manta_cancel(ref, &(manta_cancel_opts){.force = true, .recursive = true}, &e), MANTA_OK, &e);
        is_cancelled(ref, MANTA_UNKNOWN);
        bool is_in_time = test_now_ms() - from < MOMENT_MS;
        CHECK(is_in_time || test_now_ms() < limit);
        if (is_in_time) {
            CHECK_EQ(board->words[STOPPED], stopped + 1);
            CHECK_EQ(worker_pid(), pid);
            times--;
        }
        pid = worker_pid();
    }
}

/* Its worker gets a moment before it is killed, to tell its children. A task that ends in it leaves the worker, and its lane, to
 * those that come next: on one CPU there is no other. */
static void forced_ends_by_itself(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    end_by_themselves(board, number, 5, 0);
}

static void hold_helper(void *user, manta_ref *ref)
{
    struct test_board *board = user;
    (void)ref;
    board->words[HELD] = 1;
    test_board_wait(&board->words[GATE], 1);
}

/* The moment begins with the cancel, though nothing has looked at the clock for longer: the library's own thread is in a callback
 * of the program, and the program in something else. */
static void forced_after_a_pause(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_ref         *ref = manta_call("whose", NULL, MANTA_NO_ARGS);
    manta_error        e;
    CHECK_CODE(manta_on_ready(ref, hold_helper, board, &e), MANTA_OK, &e);
    CHECK(test_board_wait(&board->words[HELD], 1));
    end_by_themselves(board, number, 2, 2 * MOMENT_MS);
    board->words[GATE] = 1;
    manta_free(ref);
}

/* ---- what it has submitted ---- */
static manta_status parent(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    manta_ref         *refs[6];
    manta_error        e;
    manta_view         view;
    (void)c, (void)argc;
    for (int i = 0; i < 6; i++)
        refs[i] = manta_call(argv[1].y.data, NULL, MANTA_ARGS(manta_u64(argv[0].u)));
    board->words[CODE] = manta_get(refs[5], MANTA_FOREVER, &view, &e);
    for (int i = 0; i < 6; i++)
        manta_free(refs[i]);
    return MANTA_OK;
}
MANTA_REGISTER(parent, "us>");

static void children(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_ref         *ref = manta_call("parent", NULL, MANTA_ARGS(manta_u64(number), manta_str("until_cancelled")));
    manta_error        e;
    CHECK(test_board_wait(&board->words[STARTED], 1));
    CHECK_CODE(manta_cancel(ref, &(manta_cancel_opts){.recursive = true}, &e), MANTA_OK, &e);
    is_cancelled(ref, MANTA_UNKNOWN);
    CHECK(test_board_wait(&board->words[STOPPED], board->words[STARTED]));
    CHECK_EQ(board->words[CODE], MANTA_ECANCELLED);
    CHECK_I64(manta_call("count", NULL, MANTA_ARGS(manta_u64(number), manta_i64(3))), 3);
    CHECK(test_board_wait(&board->words[STOPPED], board->words[STARTED])); /* one that had just begun ends too, none began later */
}

static void children_forced(void)
{
    static const manta_task_opts no_cpu = {.no_cpu = true};
    uint64_t                     number;
    struct test_board           *board = test_board_new(&number);
    manta_ref                   *ref = manta_call("parent", &no_cpu, MANTA_ARGS(manta_u64(number), manta_str("deaf")));
    manta_error                  e;
    CHECK(test_board_wait(&board->words[STARTED], 1));
    CHECK_CODE(manta_cancel(ref, &(manta_cancel_opts){.force = true, .recursive = true}, &e), MANTA_OK, &e);
    is_cancelled(ref, MANTA_UNKNOWN);
    CHECK_I64(manta_call("count", NULL, MANTA_ARGS(manta_u64(number), manta_i64(3))), 3); /* the CPUs are free again */
}

/* A task that waits is woken. */
static void inside_get(void)
{
    static const manta_task_opts no_cpu = {.no_cpu = true};
    uint64_t                     number;
    struct test_board           *board = test_board_new(&number);
    manta_ref                   *ref = manta_call("parent", &no_cpu, MANTA_ARGS(manta_u64(number), manta_str("open_gate")));
    manta_error                  e;
    CHECK(test_board_wait(&board->words[STARTED], 1));
    test_sleep_ms(50); /* it sleeps by now */
    CHECK_CODE(manta_cancel(ref, NULL, &e), MANTA_OK, &e);
    is_cancelled(ref, MANTA_UNKNOWN);
    CHECK_EQ(board->words[CODE], MANTA_ECANCELLED);
    board->words[GATE] = 1;
}

/* ---- actors ---- */
static manta_status log_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    *self = board;
    return test_board_wait(&board->words[MAY_BEGIN], 1) ? MANTA_OK : manta_fail(c, 1, "nobody lets it begin");
}
static manta_status log_note(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct test_board *board = self;
    (void)c, (void)argc;
    board->words[ORDER + board->words[RAN]++] = argv[0].l;
    return MANTA_OK;
}
static manta_status log_gate(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct test_board *board = self;
    (void)argc, (void)argv;
    board->words[STARTED]++;
    while (!board->words[GATE] && !manta_is_cancelled(c))
        test_sleep_ms(1);
    return MANTA_OK;
}
MANTA_ACTOR(log_actor, "u", log_new, NULL, {"note", "l>", log_note}, {"gate", ">", log_gate});

static manta_ref *note(manta_actor *actor, int64_t x)
{
    return manta_actor_call(actor, "note", MANTA_ARGS(manta_i64(x)));
}

static void actor_calls(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_actor       *actor = manta_actor_new("log_actor", NULL, MANTA_ARGS(manta_u64(number)));
    manta_ref         *early = note(actor, 99), *gate, *refs[20];
    manta_error        e;
    manta_view         view;
    CHECK_CODE(manta_cancel(early, NULL, &e), MANTA_OK, &e);
    CHECK_EQ(e.outcome, MANTA_DONE);
    board->words[MAY_BEGIN] = 1;
    gate = manta_actor_call(actor, "gate", MANTA_NO_ARGS);
    CHECK(test_board_wait(&board->words[STARTED], 1));
    board->words[RAN] = 0;
    for (int i = 0; i < 20; i++)
        refs[i] = note(actor, i);
    for (int i = 0; i < 20; i += 3)
        CHECK_CODE(manta_cancel(refs[i], NULL, &e), MANTA_OK, &e);
    board->words[GATE] = 1;
    for (int i = 0; i < 20; i++) {
        if (i % 3 == 0) {
            is_cancelled(refs[i], MANTA_NOT_DONE);
            continue;
        }
        CHECK_CODE(manta_get(refs[i], TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        manta_release(&view);
        manta_free(refs[i]);
    }
    CHECK_EQ(board->words[RAN], 13);
    for (int i = 0, at = 0; i < 20; i++)
        if (i % 3)
            CHECK_EQ(board->words[ORDER + at++], i);
    is_cancelled(early, MANTA_NOT_DONE);
    manta_free(gate);
    manta_actor_free(actor);
}

static void actor_running(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_actor       *actor = manta_actor_new("log_actor", NULL, MANTA_ARGS(manta_u64(number)));
    manta_ref         *gate = manta_actor_call(actor, "gate", MANTA_NO_ARGS), *next = note(actor, 5);
    manta_error        e;
    manta_view         view;
    board->words[MAY_BEGIN] = 1;
    CHECK(test_board_wait(&board->words[STARTED], 1));
    CHECK_CODE(manta_cancel(gate, &(manta_cancel_opts){.force = true}, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "manta_actor_kill");
    CHECK_CODE(manta_cancel(gate, NULL, &e), MANTA_OK, &e);
    is_cancelled(gate, MANTA_UNKNOWN);
    CHECK_CODE(manta_get(next, TEST_WAIT_MS, &view, &e), MANTA_OK, &e); /* the actor lives */
    manta_release(&view);
    manta_free(next);
    CHECK_EQ(board->words[ORDER], 5);
    manta_actor_free(actor);
}

/* ---- what cancel says ---- */
static void finished(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_ref         *ref = manta_call("count", NULL, MANTA_ARGS(manta_u64(number), manta_i64(5)));
    manta_error        e;
    int64_t            x;
    CHECK_CODE(manta_get_i64(ref, TEST_WAIT_MS, &x, &e), MANTA_OK, &e);
    CHECK_CODE(manta_cancel(ref, NULL, &e), MANTA_ENOENT, &e);
    CHECK_SAYS(e.message, "its result stands");
    CHECK_CODE(manta_cancel(ref, &(manta_cancel_opts){.force = true, .recursive = true}, &e), MANTA_ENOENT, &e);
    CHECK_CODE(manta_cancel(ref, NULL, NULL), MANTA_ENOENT, &e);
    CHECK_I64(ref, 5);
    CHECK_EQ(board->words[RAN], 1);
    ref = manta_put(&x, sizeof x);
    CHECK_CODE(manta_cancel(ref, NULL, &e), MANTA_ENOENT, &e);
    manta_free(ref);
    ref = manta_call("no_such_function", NULL, MANTA_NO_ARGS);
    CHECK_CODE(manta_cancel(ref, NULL, &e), MANTA_ENOENT, &e);
    CHECK_FAILS(ref, MANTA_ENOFUNC, &e);
}

static manta_status cancel_it(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_error  e;
    manta_view   view;
    manta_status code = manta_cancel(argv[0].r, NULL, &e);
    (void)argc;
    if (code)
        return manta_fail(c, code, "%s", e.message);
    return manta_return_i64(c, manta_get(argv[0].r, TEST_WAIT_MS, &view, &e));
}
MANTA_REGISTER(cancel_it, "r>l");

static void borrowed(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_ref         *ref = call("until_cancelled", number);
    CHECK(test_board_wait(&board->words[STARTED], 1));
    CHECK_I64(manta_call("cancel_it", NULL, MANTA_ARGS(manta_ref_arg(ref))), MANTA_ECANCELLED);
    is_cancelled(ref, MANTA_UNKNOWN);
}

static void twice(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_ref         *ref = call("deaf", number);
    manta_error        e;
    CHECK(test_board_wait(&board->words[STARTED], 1));
    CHECK_CODE(manta_cancel(ref, NULL, &e), MANTA_OK, &e);
    CHECK_CODE(manta_cancel(ref, NULL, &e), MANTA_OK, &e);
    CHECK_CODE(manta_cancel(ref, &(manta_cancel_opts){.force = true}, &e), MANTA_OK, &e); /* patience has its end */
    manta_status again = manta_cancel(ref, &(manta_cancel_opts){.force = true}, &e);
    CHECK(again == MANTA_OK || again == MANTA_ENOENT); /* its worker may be dead by now */
    is_cancelled(ref, MANTA_UNKNOWN);
}

static void bad_input(void)
{
    manta_error e;
    uint64_t    number;
    test_board_new(&number);
    CHECK_CODE(manta_cancel(NULL, NULL, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_cancel(NULL, NULL, NULL), MANTA_EINVAL, &e);
    CHECK(!manta_is_cancelled(NULL));
    manta_ref *ref = manta_call("count", NULL, MANTA_ARGS(manta_u64(number), manta_i64(1)));
    manta_shutdown();
    CHECK_CODE(manta_cancel(ref, NULL, &e), MANTA_ECONN, &e);
}

static void ten_thousand(void)
{
    enum { COUNT = 10000 };
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_ref         *gate = call("open_gate", number), **refs = malloc(COUNT * sizeof *refs);
    manta_error        e;
    CHECK(refs && test_board_wait(&board->words[STARTED], 1));
    for (int i = 0; i < COUNT; i++)
        refs[i] = manta_call("count", NULL, MANTA_ARGS(manta_u64(number), manta_i64(i)));
    for (int i = COUNT - 1; i >= 0; i--)
        CHECK_CODE(manta_cancel(refs[i], NULL, &e), MANTA_OK, &e);
    board->words[GATE] = 1;
    for (int i = 0; i < COUNT; i++)
        is_cancelled(refs[i], MANTA_NOT_DONE);
    CHECK_I64(manta_call("count", NULL, MANTA_ARGS(manta_u64(number), manta_i64(4))), 4);
    CHECK_EQ(board->words[RAN], 1);
    manta_free(gate);
    free(refs);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"queued", queued, {.num_cpus = 1}, false, 0},
        {"waiting", waiting, {.num_cpus = 2}, false, 0},
        {"running", running, {.num_cpus = 1}, false, 0},
        {"forced", forced, {.num_cpus = 1}, false, 0},
        {"forced_alone", forced_alone, {.num_cpus = 1}, false, 0},
        {"forced_ends_by_itself", forced_ends_by_itself, {.num_cpus = 1}, false, 0},
        {"forced_after_a_pause", forced_after_a_pause, {.num_cpus = 1}, false, 0},
        {"children", children, {.num_cpus = 2}, false, 0},
        {"children_forced", children_forced, {.num_cpus = 2}, false, 0},
        {"inside_get", inside_get, {.num_cpus = 6}, false, 0},
        {"actor_calls", actor_calls, {.num_cpus = 1}, false, 0},
        {"actor_running", actor_running, {.num_cpus = 1}, false, 0},
        {"finished", finished, {.num_cpus = 1}, false, 0},
        {"borrowed", borrowed, {.num_cpus = 2}, false, 0},
        {"twice", twice, {.num_cpus = 1}, false, 0},
        {"bad_input", bad_input, {.num_cpus = 1}, false, 0},
        {"ten_thousand", ten_thousand, {.num_cpus = 1}, false, 0},
        {NULL, NULL, {0}, false, 0},
    };
    return test_main(argc, argv, cases);
}
