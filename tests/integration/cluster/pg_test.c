/* SPDX-License-Identifier: Apache-2.0
 *
 * pg_test.c - placement groups through the public calls: one node and several, every strategy, deaths, bad input.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cluster/nodes.h"

#include <stdio.h>
#include <stdlib.h>

static manta_status where(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, manta_node());
}
MANTA_REGISTER(where, ">l");

/* Says that it runs (word 1 counts), and ends when word 0 says so. */
static manta_status held(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    atomic_fetch_add(&board->words[1], 1);
    return manta_return_i64(c, test_board_wait(&board->words[0], 1) ? manta_node() : 0);
}
MANTA_REGISTER(held, "u>l");

/* 1 in a placement group of one bundle, 0 in none. */
static manta_status is_grouped(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_error e;
    manta_pg   *pg = manta_pg_current(&e);
    bool        is_in = pg && manta_pg_count(pg) == 1;
    (void)argc, (void)argv;
    if (!is_in && e.code != MANTA_ENOENT)
        return manta_fail(c, 1, "%s", e.message);
    manta_pg_free(pg);
    return manta_return_i64(c, is_in);
}
MANTA_REGISTER(is_grouped, ">l");

/* Whether its child is in a group, and its child's child. */
static manta_status children(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_task_opts one = {.num_cpus = 1};
    manta_error     e;
    int64_t         is_in = -1, deeper = 0;
    manta_ref      *child = manta_call("is_grouped", argv[0].l % 2 ? &one : NULL, MANTA_NO_ARGS);
    (void)argc;
    if (manta_get_i64(child, TEST_WAIT_MS, &is_in, &e))
        return manta_fail(c, 2, "%s", e.message);
    manta_free(child);
    if (argv[0].l < 2) {
        child = manta_call("children", NULL, MANTA_ARGS(manta_i64(argv[0].l + 2)));
        if (manta_get_i64(child, TEST_WAIT_MS, &deeper, &e))
            return manta_fail(c, 3, "%s", e.message);
        manta_free(child);
    }
    return manta_return_i64(c, is_in + 10 * deeper);
}
MANTA_REGISTER(children, "l>l");

/* A group made by a task, which its job finds by name. */
static manta_status makes_group(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_error  e;
    manta_bundle one = {.num_cpus = 1};
    manta_pg    *pg = manta_pg_new(&one, 1, &(manta_pg_opts){.name = "made"}, &e);
    (void)argc, (void)argv;
    if (!pg || manta_pg_wait(pg, TEST_WAIT_MS, &e))
        return manta_fail(c, 1, "%s", e.message);
    manta_pg_free(pg);
    return manta_return_i64(c, manta_node());
}
MANTA_REGISTER(makes_group, ">l");

static manta_status place_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = NULL;
    return MANTA_OK;
}
static manta_status place_where(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self;
    return where(c, argc, argv);
}
MANTA_ACTOR(place, "", place_new, NULL, {"where", ">l", place_where});

static manta_status nap(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    test_sleep_ms((int)argv[0].l);
    return manta_return_i64(c, argv[0].l);
}
MANTA_REGISTER(nap, "l>l");

enum { NAPS = 32, NAP_MS = 50 };

static manta_ref *nap_call(const manta_task_opts *opts)
{
    return manta_call("nap", opts, MANTA_ARGS(manta_i64(NAP_MS)));
}

/* Work that has begun. */
static void naps_begin(manta_ref **naps, const manta_task_opts *opts)
{
    manta_error e;
    for (int i = 0; i < NAPS; i++)
        naps[i] = nap_call(opts);
    CHECK(manta_wait(naps, NAPS, 1, TEST_WAIT_MS, NULL, &e) >= 1);
}

/* And goes on, until it is so. */
static void naps_until(manta_ref **naps, const manta_task_opts *opts, bool (*is_so)(void *), void *arg)
{
    int64_t limit = test_now_ms() + TEST_WAIT_MS;
    while (!is_so(arg)) {
        manta_error   e;
        unsigned char is_ready[NAPS] = {0};
        CHECK(test_now_ms() < limit);
        CHECK(manta_wait(naps, NAPS, 1, NAP_MS, is_ready, &e) >= 0);
        for (int i = 0; i < NAPS; i++)
            if (is_ready[i]) {
                CHECK_I64(naps[i], NAP_MS);
                naps[i] = nap_call(opts);
            }
    }
}

static void naps_end(manta_ref **naps)
{
    for (int i = 0; i < NAPS; i++)
        CHECK_I64(naps[i], NAP_MS);
}

static bool is_placed(void *pg)
{
    manta_error e;
    return manta_pg_wait(pg, 0, &e) == MANTA_OK;
}

static bool is_there(void *ref)
{
    manta_error e;
    manta_ref  *one = ref;
    return manta_wait(&one, 1, 1, 0, NULL, &e) == 1;
}

static manta_pg *pg_of(const manta_bundle *bundles, int count, int strategy)
{
    manta_error e;
    manta_pg   *pg = manta_pg_new(bundles, count, &(manta_pg_opts){.strategy = strategy}, &e);
    if (!pg)
        test_fail(__FILE__, __LINE__, "no placement group: %s", e.message);
    return pg;
}

static manta_pg *pg_cpus(double cpus, int count, int strategy)
{
    manta_bundle bundles[8];
    for (int i = 0; i < count; i++)
        bundles[i] = (manta_bundle){.num_cpus = cpus};
    return pg_of(bundles, count, strategy);
}

static void ready(manta_pg *pg)
{
    manta_error e;
    CHECK_CODE(manta_pg_wait(pg, TEST_WAIT_MS, &e), MANTA_OK, &e);
}

static void over(manta_pg *take_pg)
{
    manta_error e;
    CHECK_CODE(manta_pg_remove(take_pg, &e), MANTA_OK, &e);
    CHECK_CODE(manta_pg_remove(take_pg, &e), MANTA_OK, &e); /* done again, nothing happens */
    manta_pg_free(take_pg);
}

/* Waits until so many CPUs are free, in all. */
static void free_cpus(double wanted)
{
    int64_t limit = test_now_ms() + TEST_WAIT_MS;
    double  have = -1;
    while (have != wanted) {
        manta_node_info info[8];
        manta_error     e;
        int             count = manta_nodes(info, 8, &e);
        have = 0;
        for (int i = 0; i < count; i++)
            have += info[i].alive ? info[i].cpus_free : 0;
        if (have != wanted && test_now_ms() > limit)
            test_fail(__FILE__, __LINE__, "%g CPUs are free instead of %g", have, wanted);
        test_sleep_ms(have == wanted ? 0 : 20);
    }
}

/* ---- one node: 2 CPUs ---- */

static void pg_one_node(void)
{
    manta_error     e;
    manta_pg       *pg = pg_cpus(1, 2, MANTA_PG_STRICT_PACK);
    uint32_t        nodes[4] = {9, 9, 9, 9};
    manta_task_opts any = {.pg = pg}, second = {.pg = pg, .bundle = 2};
    ready(pg);
    CHECK_EQ(manta_pg_nodes(pg, nodes, 4, &e), 2);
    CHECK_EQ(nodes[0], manta_node());
    CHECK_EQ(nodes[1], manta_node());
    CHECK_EQ(nodes[2], 9);
    for (int i = 0; i < 50; i++)
        CHECK_I64(manta_call("where", i % 2 ? &any : &second, MANTA_NO_ARGS), manta_node());
    manta_actor *actor = manta_actor_new("place", &(manta_actor_opts){.pg = pg, .bundle = 1, .num_cpus = 1}, MANTA_NO_ARGS);
    CHECK_I64(manta_actor_call(actor, "where", MANTA_NO_ARGS), manta_node());
    manta_actor_free(actor);
    free_cpus(0); /* all is the group's, at work or not */
    over(pg);
    free_cpus(2);
    CHECK_I64(manta_call("where", NULL, MANTA_NO_ARGS), manta_node());
}

/* A task outside waits for what the group holds, and runs when that is removed. */
static void pg_waits_for_room(void)
{
    manta_error e;
    manta_pg   *first = pg_cpus(2, 1, MANTA_PG_PACK), *next;
    ready(first);
    manta_ref *outside = manta_call("where", NULL, MANTA_NO_ARGS);
    next = pg_cpus(1, 2, MANTA_PG_SPREAD);
    CHECK_CODE(manta_pg_wait(next, 300, &e), MANTA_ETIMEDOUT, &e);
    CHECK_SAYS(e.message, "was not placed within 300 ms");
    CHECK_CODE(manta_pg_wait(next, 0, &e), MANTA_ETIMEDOUT, &e);
    manta_ref *early = manta_call("where", &(manta_task_opts){.pg = next, .bundle = 1}, MANTA_NO_ARGS);
    over(first);
    ready(next);
    CHECK_I64(early, manta_node());
    over(next);
    CHECK_I64(outside, manta_node());
    free_cpus(2);
}

/* Leases that others keep busy are asked back for a group, as for a class of tasks: it does not wait for the end of their work. */
static void pg_presses(void)
{
    manta_ref *naps[NAPS];
    naps_begin(naps, NULL);
    manta_pg *pg = pg_cpus(2, 1, MANTA_PG_PACK);
    naps_until(naps, NULL, is_placed, pg);
    over(pg);
    naps_end(naps);
}

#ifdef SLOW_DISK_SO
/* So also where the head takes longer for its next word than a node first keeps room for it. */
static void pg_slow_head(void)
{
    manta_ref   *naps[NAPS];
    struct nodes n;
    if (!getenv("MANTA_ROLE")) {
        setenv("LD_PRELOAD", SLOW_DISK_SO, 1);
        setenv("SLOW_SYNC_MS", "400", 1);
    }
    nodes_start(&n, 1, "2");
    unsetenv("LD_PRELOAD");
    naps_begin(naps, NULL);
    manta_pg *pg = pg_cpus(2, 1, MANTA_PG_PACK);
    naps_until(naps, NULL, is_placed, pg);
    over(pg);
    naps_end(naps);
    nodes_stop(&n);
}
#endif

/* The children have the group's one CPU, which each lends while it waits. */
static void pg_captures(void)
{
    manta_pg       *pg = pg_cpus(1, 1, MANTA_PG_PACK);
    manta_task_opts captures = {.pg = pg, .pg_capture = true}, alone = {.pg = pg};
    for (int i = 0; i < 4; i++) {
        CHECK_I64(manta_call("children", &captures, MANTA_ARGS(manta_i64(i % 2))), 11);
        CHECK_I64(manta_call("children", &alone, MANTA_ARGS(manta_i64(i % 2))), 0);
        CHECK_I64(manta_call("is_grouped", &alone, MANTA_NO_ARGS), 1);
        CHECK_I64(manta_call("is_grouped", NULL, MANTA_NO_ARGS), 0);
    }
    over(pg);
    free_cpus(2);
}

/* Two kinds of work share one bundle: the second does not wait for the end of the first. */
static void pg_turns(void)
{
    manta_ref      *naps[NAPS];
    manta_pg       *pg = pg_of(&(manta_bundle){.num_cpus = 1, .memory = 1 << 20}, 1, MANTA_PG_PACK);
    manta_task_opts first = {.pg = pg}, second = {.pg = pg, .memory = 1 << 20};
    naps_begin(naps, &first);
    manta_ref *other = manta_call("where", &second, MANTA_NO_ARGS);
    naps_until(naps, &first, is_there, other);
    CHECK_I64(other, manta_node());
    naps_end(naps);
    over(pg);
}

/* One after the other, and many at a time. */
static void pg_many(void)
{
    enum { AT_A_TIME = 40 };
    manta_pg *all[AT_A_TIME];
    for (int i = 0; i < 16; i++) {
        manta_pg *pg = pg_cpus(1, 2, i % 4 == MANTA_PG_STRICT_SPREAD ? MANTA_PG_PACK : i % 4);
        CHECK_I64(manta_call("where", &(manta_task_opts){.pg = pg, .bundle = 2}, MANTA_NO_ARGS), manta_node());
        over(pg);
    }
    for (int i = 0; i < AT_A_TIME; i++)
        all[i] = pg_cpus(0.01, 3, MANTA_PG_PACK);
    for (int i = 0; i < AT_A_TIME; i++)
        ready(all[i]);
    for (int i = 0; i < AT_A_TIME; i++)
        over(all[i]);
    free_cpus(2);
}

static void pg_removed_under_work(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_error        e;
    manta_pg          *pg = pg_cpus(1, 2, MANTA_PG_PACK);
    manta_task_opts    opts = {.pg = pg, .max_retries = 5};
    manta_actor_opts   at = {.pg = pg, .num_cpus = 1, .max_restarts = 3};
    manta_actor       *actor = manta_actor_new("place", &at, MANTA_NO_ARGS);
    CHECK_I64(manta_actor_call(actor, "where", MANTA_NO_ARGS), manta_node());
    manta_ref *runs = manta_call("held", &opts, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[1], 1));
    manta_ref *queued = manta_call("held", &opts, MANTA_ARGS(manta_u64(number)));
    CHECK_CODE(manta_pg_remove(pg, &e), MANTA_OK, &e);
    CHECK_FAILS(runs, MANTA_EPG_REMOVED, &e);
    CHECK_SAYS(e.message, "was removed");
    CHECK_FAILS(queued, MANTA_EPG_REMOVED, &e);
    CHECK_FAILS(manta_actor_call(actor, "where", MANTA_NO_ARGS), MANTA_EPG_REMOVED, &e);
    CHECK_FAILS(manta_call("where", &opts, MANTA_NO_ARGS), MANTA_EPG_REMOVED, &e);
    CHECK_CODE(manta_pg_wait(pg, TEST_WAIT_MS, &e), MANTA_EPG_REMOVED, &e);
    CHECK_EQ(manta_pg_nodes(pg, NULL, 0, &e), -MANTA_EPG_REMOVED);
    CHECK_EQ(atomic_load(&board->words[1]), 1); /* neither was tried again */
    manta_actor_free(actor);
    manta_pg_free(pg);
    free_cpus(2);
    CHECK_I64(manta_call("where", NULL, MANTA_NO_ARGS), manta_node());
}

static void pg_names(void)
{
    manta_error   e;
    manta_bundle  half = {.num_cpus = 0.5};
    manta_pg_opts opts = {.name = "mine"};
    manta_pg     *pg = manta_pg_new(&half, 1, &opts, &e), *found;
    CHECK(pg != NULL);
    CHECK(manta_pg_new(&half, 1, &opts, &e) == NULL);
    CHECK_EQ(e.code, MANTA_EEXIST);
    CHECK_SAYS(e.message, "mine");
    CHECK(manta_pg_find(NULL, "yours", &e) == NULL);
    CHECK_EQ(e.code, MANTA_ENOENT);
    CHECK(manta_pg_find("elsewhere", "mine", &e) == NULL);
    CHECK_EQ(e.code, MANTA_ENOENT);
    CHECK((found = manta_pg_find(NULL, "mine", &e)) != NULL);
    CHECK_EQ(manta_pg_count(found), 1);
    CHECK_I64(manta_call("where", &(manta_task_opts){.pg = found, .num_cpus = 0.5}, MANTA_NO_ARGS), manta_node());
    over(pg);
    CHECK_CODE(manta_pg_wait(found, TEST_WAIT_MS, &e), MANTA_EPG_REMOVED, &e);
    manta_pg_free(found);
    CHECK(manta_pg_current(&e) == NULL);
    CHECK_EQ(e.code, MANTA_ENOENT);
}

static void refuses(const manta_bundle *bundles, int count, const manta_pg_opts *opts, const char *says)
{
    manta_error e;
    CHECK(manta_pg_new(bundles, count, opts, &e) == NULL);
    CHECK_EQ(e.code, MANTA_EINVAL);
    CHECK_SAYS(e.message, says);
}

static void pg_bad_input(void)
{
    manta_error          e;
    static manta_bundle  many[200];
    const manta_resource odd = {"gold", -1}, gold = {"gold", 3}, cpu = {"CPU", 1};
    manta_bundle         one = {.num_cpus = 1};
    refuses(&one, 0, NULL, "1 to 128 bundles, not 0");
    refuses(many, 200, NULL, "1 to 128 bundles, not 200");
    refuses(NULL, 1, NULL, "NULL");
    refuses(&(manta_bundle){0}, 1, NULL, "bundle 1 is empty");
    refuses((manta_bundle[]){one, {.num_cpus = -2}}, 2, NULL, "bundle 2: resource CPU: -2 is not an amount");
    refuses(&(manta_bundle){.resources = &odd, .resource_count = 1}, 1, NULL, "gold: -1");
    refuses(&(manta_bundle){.num_gpus = 1.5}, 1, NULL, "only whole ones");
    refuses(&(manta_bundle){.num_cpus = 1, .resources = &cpu, .resource_count = 1}, 1, NULL, "\"CPU\" is named twice");
    refuses(&one, 1, &(manta_pg_opts){.strategy = 7}, "strategy 7");
    refuses(&one, 1, &(manta_pg_opts){.name = ""}, "1 to 63 letters");
    refuses(&one, 1, &(manta_pg_opts){.detached = true}, "without a name");
    manta_pg *pg = pg_of(&(manta_bundle){.num_cpus = 1, .memory = 1 << 20}, 1, MANTA_PG_PACK);
    CHECK_FAILS(manta_call("where", &(manta_task_opts){.pg = pg, .bundle = 2}, MANTA_NO_ARGS), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "bundle 2 of a placement group with 1");
    CHECK_FAILS(manta_call("where", &(manta_task_opts){.pg = pg, .bundle = -1}, MANTA_NO_ARGS), MANTA_EINVAL, &e);
    CHECK_FAILS(manta_call("where", &(manta_task_opts){.pg = pg, .num_cpus = 2}, MANTA_NO_ARGS), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "wants 2 of \"CPU\"");
    CHECK_FAILS(manta_call("where", &(manta_task_opts){.pg = pg, .resources = &gold, .resource_count = 1}, MANTA_NO_ARGS),
                MANTA_EINVAL, &e);
    CHECK_FAILS(manta_call("where", &(manta_task_opts){.pg = pg, .spread = true}, MANTA_NO_ARGS), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "node, spread and labels can't be given as well");
    CHECK_FAILS(manta_call("where", &(manta_task_opts){.bundle = 1}, MANTA_NO_ARGS), MANTA_EINVAL, &e);
    CHECK_FAILS(manta_call("where", &(manta_task_opts){.pg_capture = true}, MANTA_NO_ARGS), MANTA_EINVAL, &e);
    CHECK_CODE(manta_pg_wait(NULL, 0, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_pg_remove(NULL, &e), MANTA_EINVAL, &e);
    over(pg);
    manta_pg_free(NULL);
}

/* What the nodes can never hold is said at once; other groups of the same job go on. */
static void pg_never(void)
{
    manta_error e;
    manta_pg   *large = pg_cpus(3, 1, MANTA_PG_PACK), *apart = pg_cpus(1, 2, MANTA_PG_STRICT_SPREAD);
    manta_ref  *ref = manta_call("where", &(manta_task_opts){.pg = large}, MANTA_NO_ARGS);
    CHECK_CODE(manta_pg_wait(large, TEST_WAIT_MS, &e), MANTA_EUNSCHEDULABLE, &e);
    CHECK_SAYS(e.message, "bundle 1 of 1");
    CHECK_SAYS(e.message, "CPU");
    CHECK_CODE(manta_pg_wait(apart, TEST_WAIT_MS, &e), MANTA_EUNSCHEDULABLE, &e);
    CHECK_SAYS(e.message, "STRICT_SPREAD");
    CHECK_FAILS(ref, MANTA_EUNSCHEDULABLE, &e);
    over(large);
    over(apart);
    CHECK_I64(manta_call("where", NULL, MANTA_NO_ARGS), manta_node());
}

/* ---- several nodes ---- */

static int different(const uint32_t *nodes, int count)
{
    int found = 0;
    for (int i = 0; i < count; i++) {
        bool is_first = nodes[i] != 0;
        for (int k = 0; k < i; k++)
            is_first &= nodes[k] != nodes[i];
        found += is_first;
    }
    return found;
}

static void stands(manta_pg *pg, uint32_t *out, int count)
{
    manta_error e;
    ready(pg);
    CHECK_EQ(manta_pg_nodes(pg, out, count, &e), count);
    for (int i = 0; i < count; i++)
        CHECK(out[i] != 0);
}

static void pg_strategies(void)
{
    struct nodes n;
    uint32_t     at[4];
    nodes_start(&n, 3, "2");
    manta_pg *pg = pg_cpus(1, 2, MANTA_PG_STRICT_PACK);
    stands(pg, at, 2);
    CHECK_EQ(different(at, 2), 1);
    over(pg);
    pg = pg_cpus(1, 2, MANTA_PG_PACK);
    stands(pg, at, 2);
    CHECK_EQ(different(at, 2), 1);
    over(pg);
    free_cpus(6);
    pg = pg_cpus(1, 3, MANTA_PG_STRICT_SPREAD);
    stands(pg, at, 3);
    CHECK_EQ(different(at, 3), 3);
    for (int i = 0; i < 3; i++) { /* a bundle is where its tasks and actors go */
        manta_task_opts task = {.pg = pg, .bundle = i + 1};
        manta_actor    *actor = manta_actor_new("place", &(manta_actor_opts){.pg = pg, .bundle = i + 1}, MANTA_NO_ARGS);
        CHECK_I64(manta_call("where", &task, MANTA_NO_ARGS), at[i]);
        CHECK_I64(manta_actor_call(actor, "where", MANTA_NO_ARGS), at[i]);
        manta_actor_free(actor);
    }
    over(pg);
    free_cpus(6);
    pg = pg_cpus(1, 4, MANTA_PG_SPREAD);
    stands(pg, at, 4);
    CHECK_EQ(different(at, 4), 3);
    over(pg);
    free_cpus(6);
    nodes_stop(&n);
}

/* Any bundle: work goes to all of them, also to those elsewhere. */
static void pg_any_bundle(void)
{
    struct nodes n;
    uint64_t     number;
    manta_ref   *refs[3];
    int64_t      seen[3];
    uint32_t     at[3];
    manta_error  e;
    nodes_start(&n, 3, "1");
    struct test_board *board = test_board_new(&number);
    manta_pg          *pg = pg_cpus(1, 3, MANTA_PG_STRICT_SPREAD);
    for (int i = 0; i < 3; i++)
        refs[i] = manta_call("held", &(manta_task_opts){.pg = pg}, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[1], 3)); /* all three at a time */
    atomic_store(&board->words[0], 1);
    for (int i = 0; i < 3; i++) {
        CHECK_CODE(manta_get_i64(refs[i], TEST_WAIT_MS, &seen[i], &e), MANTA_OK, &e);
        at[i] = (uint32_t)seen[i];
        manta_free(refs[i]);
    }
    CHECK_EQ(different(at, 3), 3);
    over(pg);
    nodes_stop(&n);
}

/* The bundle of a dead node is placed anew, and what was there goes on there. */
static void pg_node_dies(void)
{
    struct nodes n;
    uint32_t     at[2], now[2];
    manta_error  e;
    nodes_start(&n, 3, "1");
    manta_bundle bundles[] = {{.num_cpus = 1, AT(0)}, {.num_cpus = 1}};
    manta_pg    *pg = pg_of(bundles, 2, MANTA_PG_STRICT_SPREAD);
    stands(pg, at, 2);
    CHECK_EQ(at[0], n.ids[0]);
    manta_actor *actor = manta_actor_new(
        "place", &(manta_actor_opts){.pg = pg, .bundle = 2, .num_cpus = 1, .max_restarts = 5, .max_task_retries = 5},
        MANTA_NO_ARGS);
    CHECK_I64(manta_actor_call(actor, "where", MANTA_NO_ARGS), at[1]);
    for (int i = 1; i < 3; i++)
        if (n.ids[i] == at[1])
            nodes_kill(&n.raylets[i]);
    int64_t limit = test_now_ms() + 2 * TEST_WAIT_MS;
    for (now[1] = at[1]; now[1] == at[1] || now[1] == 0;) {
        CHECK_EQ(manta_pg_nodes(pg, now, 2, &e), 2);
        CHECK(test_now_ms() < limit);
        test_sleep_ms(20);
    }
    CHECK_EQ(now[0], at[0]);
    CHECK(now[1] != at[0]);
    CHECK_I64(manta_actor_call(actor, "where", MANTA_NO_ARGS), now[1]);
    manta_actor_free(actor);
    CHECK_I64(manta_call("where", &(manta_task_opts){.pg = pg, .bundle = 2}, MANTA_NO_ARGS), now[1]);
    over(pg);
    nodes_stop(&n);
}

/* What is there goes on without the head; what was asked of it is answered by the next one, which knows every group. */
static void pg_head_dies(void)
{
    struct nodes n;
    uint32_t     at[2], now[2];
    manta_error  e;
    nodes_start(&n, 2, "2");
    manta_pg     *pg = pg_cpus(1, 2, MANTA_PG_STRICT_SPREAD), *second;
    manta_bundle  one = {.num_cpus = 1};
    manta_pg_opts named = {.name = "second", .detached = true};
    stands(pg, at, 2);
    for (int i = 0; i < 2; i++)
        CHECK_I64(manta_call("where", &(manta_task_opts){.pg = pg, .bundle = i + 1}, MANTA_NO_ARGS), at[i]);
    nodes_kill(&n.head);
    for (int i = 0; i < 20; i++)
        CHECK_I64(manta_call("where", &(manta_task_opts){.pg = pg, .bundle = at[0] == n.ids[0] ? 1 : 2}, MANTA_NO_ARGS), n.ids[0]);
    nodes_start_head(&n, "127.0.0.1:0");
    CHECK((second = manta_pg_new(&one, 1, &named, &e)) != NULL);
    ready(second);
    stands(pg, now, 2);
    CHECK_EQ(now[0], at[0]);
    CHECK_EQ(now[1], at[1]);
    nodes_kill(&n.head);
    nodes_start_head(&n, "127.0.0.1:0");
    manta_pg *found = manta_pg_find(NULL, "second", &e);
    CHECK(found != NULL);
    over(found);
    over(second);
    over(pg);
    nodes_wait_alive(2);
    free_cpus(4);
    nodes_stop(&n);
}

/* A task on another node makes it; it is its job's all the same. */
static void pg_from_task(void)
{
    struct nodes n;
    uint32_t     at;
    manta_error  e;
    nodes_start(&n, 2, "2");
    CHECK_I64(manta_call("makes_group", &(manta_task_opts){.no_cpu = true, AT(1)}, MANTA_NO_ARGS), n.ids[1]);
    manta_pg *found = manta_pg_find(NULL, "made", &e);
    CHECK(found != NULL);
    stands(found, &at, 1);
    CHECK_I64(manta_call("where", &(manta_task_opts){.pg = found, .bundle = 1}, MANTA_NO_ARGS), at);
    over(found);
    free_cpus(4);
    nodes_stop(&n);
}

/* A detached actor in a detached group: it runs in the bundle, and ends with the group. */
static void pg_detached_actor(void)
{
    struct nodes n;
    manta_error  e;
    nodes_start(&n, 2, "2");
    manta_bundle there = {.num_cpus = 1, AT(1)};
    manta_pg    *pg = manta_pg_new(&there, 1, &(manta_pg_opts){.name = "house", .detached = true}, &e);
    CHECK(pg != NULL);
    manta_actor_opts opts = {.name = "tenant", .detached = true, .pg = pg, .num_cpus = 1, .max_restarts = 3};
    manta_actor     *actor = manta_actor_new("place", &opts, MANTA_NO_ARGS);
    CHECK_I64(manta_actor_call(actor, "where", MANTA_NO_ARGS), n.ids[1]);
    over(pg);
    int64_t      limit = test_now_ms() + TEST_WAIT_MS;
    manta_actor *found;
    while ((found = manta_actor_find("tenant", TEST_WAIT_MS, &e))) { /* its name goes with it */
        manta_actor_free(found);
        CHECK(test_now_ms() < limit);
        test_sleep_ms(20);
    }
    CHECK_EQ(e.code, MANTA_ENOENT);
    manta_actor_free(actor);
    free_cpus(4);
    nodes_stop(&n);
}

/* ---- two jobs ---- */

static void other_job(struct nodes *n)
{
    char path[300], output[8192];
    snprintf(path, sizeof path, "%s/n0", n->folder);
    CHECK_EQ(setenv("PG_CLUSTER", path, 1), 0);
    char *argv[] = {"/proc/self/exe", "--run", "leaves_groups", NULL};
    int   status = test_program(argv, output, sizeof output);
    if (status)
        test_fail(__FILE__, __LINE__, "another job ended with %d: %s", status, output);
}

static void leaves_groups(void)
{
    manta_error     e;
    manta_bundle    one = {.num_cpus = 1};
    manta_init_opts opts = {.address = getenv("PG_CLUSTER"), .name_space = "shared"};
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
    manta_pg *stays = manta_pg_new(&one, 1, &(manta_pg_opts){.name = "stays", .detached = true}, &e);
    CHECK(stays != NULL);
    manta_pg *goes = manta_pg_new(&one, 1, &(manta_pg_opts){.name = "goes"}, &e);
    CHECK(goes != NULL);
    ready(stays);
    ready(goes);
    CHECK_I64(manta_call("where", &(manta_task_opts){.pg = goes}, MANTA_NO_ARGS), manta_node());
    manta_pg_free(stays);
    manta_pg_free(goes);
    CHECK_EQ(manta_shutdown(), 0);
}

/* A group goes with its job; a detached one stays until somebody removes it. */
static void pg_jobs(void)
{
    struct nodes n;
    manta_error  e;
    nodes_start(&n, 1, "4");
    other_job(&n);
    manta_pg *found;
    int64_t   limit = test_now_ms() + TEST_WAIT_MS;
    while ((found = manta_pg_find("shared", "goes", &e))) {
        manta_pg_free(found);
        CHECK(test_now_ms() < limit);
        test_sleep_ms(20);
    }
    CHECK_EQ(e.code, MANTA_ENOENT);
    free_cpus(3);
    CHECK((found = manta_pg_find("shared", "stays", &e)) != NULL);
    CHECK_I64(manta_call("where", &(manta_task_opts){.pg = found, .bundle = 1}, MANTA_NO_ARGS), manta_node());
    over(found);
    free_cpus(4);
    nodes_stop(&n);
}

#define ONE      {.num_cpus = 2}, false, 0
#define OWN_INIT {0}, true, 0
static const struct test_case cases[] = {
    {"pg_one_node", pg_one_node, ONE},
    {"pg_waits_for_room", pg_waits_for_room, ONE},
    {"pg_presses", pg_presses, ONE},
    {"pg_captures", pg_captures, ONE},
    {"pg_turns", pg_turns, ONE},
    {"pg_many", pg_many, ONE},
    {"pg_removed_under_work", pg_removed_under_work, ONE},
    {"pg_names", pg_names, ONE},
    {"pg_bad_input", pg_bad_input, ONE},
    {"pg_never", pg_never, ONE},
    {"pg_strategies", pg_strategies, OWN_INIT},
    {"pg_any_bundle", pg_any_bundle, OWN_INIT},
    {"pg_node_dies", pg_node_dies, OWN_INIT},
    {"pg_head_dies", pg_head_dies, OWN_INIT},
    {"pg_from_task", pg_from_task, OWN_INIT},
    {"pg_detached_actor", pg_detached_actor, OWN_INIT},
    {"pg_jobs", pg_jobs, OWN_INIT},
#ifdef SLOW_DISK_SO
    {"pg_slow_head", pg_slow_head, OWN_INIT},
#endif
    {NULL, NULL, {0}, false, 0},
    {"leaves_groups", leaves_groups, OWN_INIT}, /* started by jobs only */
};

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[2], "leaves_groups") == 0)
        return test_main(argc, argv, &cases[sizeof cases / sizeof cases[0] - 1]);
    return test_main(argc, argv, cases);
}
