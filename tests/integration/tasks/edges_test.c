/* SPDX-License-Identifier: Apache-2.0
 *
 * edges_test.c - graphs of short tasks, most of which are sent before their arguments have come: values, failures, deaths, cancels.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cluster/nodes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

enum { ROWS = 300, WIDTH = 4, GRAPHS = 12, BAD = 1 << 20, DIES = 1 << 21, DIES_LATER = 1 << 22 };

static int64_t mix(int64_t at, int64_t a, int64_t b)
{
    uint64_t x = (uint64_t)(at & 0xfffff) * 0x9e3779b97f4a7c15u + (uint64_t)a * 3 + (uint64_t)b;
    return (int64_t)(x ^ x >> 29);
}

/* What it says of itself stands above its place in the graph. */
static manta_status cell(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t          at = argv[0].l;
    struct itimerval soon = {.it_value = {.tv_usec = 1 + (at & 0xfffff) * 7 % 300}};
    (void)argc;
    if (at & BAD)
        return manta_fail(c, 5, "a bad one");
    if (at & DIES && manta_attempt(c) == 0)
        raise(SIGKILL);
    if (at & DIES_LATER && manta_attempt(c) == 0)
        setitimer(ITIMER_REAL, &soon, NULL); /* after it has handed its value on, or told, or the next one runs */
    return manta_return_i64(c, mix(at, argv[1].l, argv[2].l));
}
MANTA_REGISTER(cell, "lll>l");

struct graph {
    manta_ref *refs[ROWS][WIDTH];
    int64_t    values[ROWS][WIDTH];
};

static int  graphs = GRAPHS;
static bool is_far;    /* all run on another node */
static bool is_across; /* half of them do, and each takes values of both halves */

/* These options, and where the tasks are to run. */
static manta_task_opts placed(const manta_task_opts *opts, int place)
{
    manta_task_opts out = opts ? *opts : (manta_task_opts){0};
    if (is_far || is_across) {
        out.resources = nodes_at(is_far ? 1 : place % 2);
        out.resource_count = 1;
    }
    return out;
}

static int64_t plain(int row, int place)
{
    return (int64_t)row * WIDTH + place;
}

static struct graph *submit(int64_t (*what)(int row, int place), const manta_task_opts *opts)
{
    struct graph   *g = calloc(1, sizeof *g);
    manta_task_opts sides[2] = {placed(opts, 0), placed(opts, 1)};
    CHECK(g != NULL);
    for (int row = 0; row < ROWS; row++) {
        for (int i = 0; i < WIDTH; i++) {
            int       left = (i + row) % WIDTH;
            int64_t   at = what(row, i);
            manta_arg a = row ? manta_ref_arg(g->refs[row - 1][i]) : manta_i64(1);
            manta_arg b = row ? manta_ref_arg(g->refs[row - 1][left]) : manta_i64(2);
            g->refs[row][i] = manta_call("cell", &sides[i % 2], MANTA_ARGS(manta_i64(at), a, b));
            g->values[row][i] = row ? mix(at, g->values[row - 1][i], g->values[row - 1][left]) : mix(at, 1, 2);
        }
    }
    return g;
}

static void check_all(struct graph *g)
{
    for (int row = ROWS; row-- > 0;)
        for (int i = 0; i < WIDTH; i++)
            CHECK_I64(g->refs[row][i], g->values[row][i]);
    free(g);
}

static void edges_values(void)
{
    for (int i = 0; i < graphs; i++)
        check_all(submit(plain, NULL));
}

static int64_t some_die(int row, int place)
{
    return plain(row, place) | (row % 97 == 50 && place == row % WIDTH ? DIES : 0);
}
static void edges_deaths(void)
{
    for (int i = 0; i < graphs; i++)
        check_all(submit(some_die, &(manta_task_opts){.max_retries = MANTA_WITHOUT_LIMIT}));
}

static int64_t some_die_later(int row, int place)
{
    return plain(row, place) | (row % 61 == 30 && place == row % WIDTH ? DIES_LATER : 0);
}
static void edges_deaths_anywhere(void)
{
    for (int i = 0; i < graphs; i++)
        check_all(submit(some_die_later, &(manta_task_opts){.max_retries = MANTA_WITHOUT_LIMIT}));
}

/* Without retries: what died is unknown, and so fails all that take it; what was told before stands. */
static void edges_death_without_retry(void)
{
    manta_task_opts once = {.max_retries = MANTA_NO_RETRY};
    for (int k = 0; k < graphs; k++) {
        struct graph *g = submit(some_die, &once);
        bool          failed[WIDTH] = {false};
        for (int row = 0; row < ROWS; row++) {
            bool was[WIDTH];
            memcpy(was, failed, sizeof was);
            for (int i = 0; i < WIDTH; i++) {
                manta_error e;
                int64_t     value;
                int         code = manta_get_i64(g->refs[row][i], TEST_WAIT_MS, &value, &e);
                bool        must = (row && (was[i] || was[(i + row) % WIDTH])) || some_die(row, i) & DIES;
                failed[i] = code != MANTA_OK;
                CHECK(!must || code == MANTA_EWORKER_DIED);
                CHECK(code == MANTA_OK || code == MANTA_EWORKER_DIED);
                CHECK(code || value == g->values[row][i]);
                manta_free(g->refs[row][i]);
            }
        }
        free(g);
    }
}

static int64_t one_is_bad(int row, int place)
{
    return plain(row, place) | (row == 100 && place == 1 ? BAD : 0);
}
static void edges_failure(void)
{
    for (int k = 0; k < graphs; k++) {
        struct graph *g = submit(one_is_bad, NULL);
        bool          failed[WIDTH] = {false};
        for (int row = 0; row < ROWS; row++) {
            bool was[WIDTH];
            memcpy(was, failed, sizeof was);
            for (int i = 0; i < WIDTH; i++) {
                manta_error e;
                failed[i] = (row == 100 && i == 1) || (row && (was[i] || was[(i + row) % WIDTH]));
                if (!failed[i]) {
                    CHECK_I64(g->refs[row][i], g->values[row][i]);
                    continue;
                }
                CHECK_FAILS(g->refs[row][i], MANTA_ETASK, &e);
                CHECK_EQ(e.user_code, 5);
            }
        }
        free(g);
    }
}

/* One in the middle is cancelled while the graph runs: it and all that take it fail with that, or all of it was done before. */
static void edges_cancel(void)
{
    for (int k = 0; k < graphs; k++) {
        struct graph *g = submit(plain, NULL);
        manta_error   e;
        bool          failed[WIDTH] = {false}, is_cancelled = manta_cancel(g->refs[ROWS / 2][k % WIDTH], NULL, &e) == MANTA_OK;
        for (int row = 0; row < ROWS; row++) {
            bool was[WIDTH];
            memcpy(was, failed, sizeof was);
            for (int i = 0; i < WIDTH; i++) {
                int64_t value;
                int     code = manta_get_i64(g->refs[row][i], TEST_WAIT_MS, &value, &e);
                bool    may = was[i] || was[(i + row) % WIDTH];
                if (row == ROWS / 2 && i == k % WIDTH)
                    CHECK_EQ(code, is_cancelled ? MANTA_ECANCELLED : MANTA_OK);
                else if (code)
                    CHECK(may && code == MANTA_ECANCELLED);
                failed[i] = code != MANTA_OK;
                CHECK(code || value == g->values[row][i]);
                manta_free(g->refs[row][i]);
            }
        }
        free(g);
    }
}

/* ---- what must not wait in line ---- */

/* Ends when word 0 is set. */
static manta_status slow(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    struct test_board *board = test_board_map(argv[0].u);
    return test_board_wait(&board->words[0], 1) ? manta_return_i64(c, 1) : manta_fail(c, 1, "nobody came");
}
MANTA_REGISTER(slow, "u>l");
static manta_status opens(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    struct test_board *board = test_board_map(argv[0].u);
    atomic_store(&board->words[0], 1);
    return manta_return_i64(c, 1);
}
MANTA_REGISTER(opens, "u>l");

/* A task waits for a slow one, which waits for one that was submitted later and stands behind it on its lane. */
static void edges_circle(void)
{
    for (int k = 0; k < graphs; k++) {
        uint64_t           number;
        struct test_board *board = test_board_new(&number);
        struct graph      *g = submit(plain, NULL);
        manta_ref         *first = manta_call("slow", NULL, MANTA_ARGS(manta_u64(number)));
        manta_ref         *after[2 * WIDTH];
        for (int i = 0; i < 2 * WIDTH; i++)
            after[i] = manta_call("cell", NULL, MANTA_ARGS(manta_i64(i), manta_ref_arg(first), manta_i64(i)));
        manta_ref *opener = manta_call("opens", NULL, MANTA_ARGS(manta_u64(number)));
        CHECK_I64(opener, 1);
        CHECK_I64(first, 1);
        for (int i = 0; i < 2 * WIDTH; i++)
            CHECK_I64(after[i], mix(i, 1, i));
        check_all(g);
        CHECK_EQ(atomic_load(&board->words[0]), 1);
    }
}

/* ---- on another node ---- */

/* The same graphs, with so many CPUs a node. */
static void on_two_nodes(const char *cpus)
{
    struct nodes n = {0};
    nodes_start(&n, 2, cpus);
    edges_values();
    edges_deaths();
    edges_deaths_anywhere();
    edges_death_without_retry();
    edges_failure();
    edges_cancel();
    nodes_stop(&n);
}

/* The driver's node runs none of their tasks: their values stay on the other one. */
static void edges_far(void)
{
    is_far = true;
    on_two_nodes("2");
}

/* Each half on a node of its own: values go from one node to the other, both ways. */
static void edges_across(void)
{
    is_across = true;
    graphs = 4; /* each value of every second task is a message between nodes */
    on_two_nodes("1");
}

/* Their node dies in the middle, and another one takes over. */
static void edges_far_node_dies(void)
{
    struct nodes n = {0};
    nodes_start(&n, 2, "2");
    is_far = true;
    check_all(submit(plain, NULL));
    struct graph *g = submit(plain, &(manta_task_opts){.max_retries = MANTA_WITHOUT_LIMIT});
    nodes_kill(&n.raylets[1]);
    n.raylets[1] = nodes_add(&n, 1, "2", NULL);
    CHECK(n.raylets[1] > 0);
    check_all(g);
    nodes_stop(&n);
}

static const struct test_case cases[] = {
    {"edges_values", edges_values, {.num_cpus = 2}, false, 0},
    {"edges_deaths", edges_deaths, {.num_cpus = 2}, false, 0},
    {"edges_deaths_anywhere", edges_deaths_anywhere, {.num_cpus = 3}, false, 0},
    {"edges_death_without_retry", edges_death_without_retry, {.num_cpus = 2}, false, 0},
    {"edges_failure", edges_failure, {.num_cpus = 2}, false, 0},
    {"edges_cancel", edges_cancel, {.num_cpus = 2}, false, 0},
    {"edges_circle", edges_circle, {.num_cpus = 2}, false, 0},
    {"edges_far", edges_far, {0}, true, 0},
    {"edges_across", edges_across, {0}, true, 0},
    {"edges_far_node_dies", edges_far_node_dies, {0}, true, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
