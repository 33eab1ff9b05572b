/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_test.c - whose turn it is, over hours: owners with tasks of a known length, workers that run them one after the other
 * and end a lease that was asked back behind the task under way. Time goes to the next end of a task, or to what the raylet's own
 * timers say: a CPU that nobody looks at again stays free.
 */
#include "tests/unit/raylet/core_rig.h"

#include "raylet/core/leases/leases.h"
#include "raylet/core/schedule/schedule.h"

#include "core/base/rng.h"

#include <stdlib.h>

int mt_plant;

enum { LEASES = 64, CLASSES = 8, CPUS_MAX = 8 };
#define SECOND (1000 * MS)
#define HOUR   (3600 * SECOND)

/* Classes of one driver, numbered from 1. */
static struct {
    uint64_t task_ns;
    uint32_t granted;
    uint64_t granted_at; /* the last time */
} classes[CLASSES + 1];

static struct lease {
    uint64_t id, worker, ends_at;
    uint32_t class_id;
    bool     is_recalled;
} leases[LEASES];
static uint32_t lease_count, steps;
static uint64_t forks[LEASES];
static uint32_t fork_count, next_worker;
static uint64_t kept_since; /* room from somebody whom it fits, and nobody was granted any */
static uint32_t kept_granted;

/* What a step has brought: forks to be served later, leases that begin, leases that are asked back. */
static void take_note(void)
{
    const struct rlt_action *a;
    steps++;
    for (int i = 0; (a = action(RLT_A_FORK, i)); i++)
        forks[fork_count++] = a->fork.worker;
    for (int i = 0; (a = action(RLT_A_SOCKET, i)); i++) {
        if (a->socket.conn != DRIVER || a->socket.record.kind != CTL_GRANT)
            continue;
        const struct ctl_grant *g = (const void *)a->socket.payload;
        assert_true(lease_count < LEASES);
        struct lease *l = &leases[lease_count++];
        *l = (struct lease){.id = g->lease, .class_id = g->class_id};
        l->worker = rlt_lease_find(r, g->lease)->worker->conn;
        l->ends_at = now + classes[l->class_id].task_ns;
        classes[l->class_id].granted++;
        classes[l->class_id].granted_at = now;
    }
    for (int i = 0; (a = action(RLT_A_LANE_RECALL, i)); i++)
        for (uint32_t k = 0; k < lease_count; k++)
            leases[k].is_recalled |= leases[k].id == a->lane_recall.lane;
}

static void worker_begins(uint64_t conn)
{
    struct greeting g = greeting(CTL_WORKER, 300 + next_worker);
    greet(conn, &g, -1);
    take_note();
    forked(conn, (int32_t)(20 + next_worker++));
    take_note();
}

static void forks_served(void)
{
    while (fork_count)
        worker_begins(forks[--fork_count]);
}

static void wants(uint32_t class_id, uint32_t count)
{
    demand(class_id, count);
    take_note();
    forks_served();
}

static void class_is(uint32_t class_id, int64_t cpus, uint64_t task_ns)
{
    classes[class_id].task_ns = task_ns;
    define(class_id, cpus, 0);
    take_note();
}

static void ticks(void)
{
    step((struct rlt_event){.kind = RLT_EV_TICK});
    take_note();
    forks_served();
}

/* The owner of what came back lowers its level by it, as libmanta does; a stream of tasks goes on. */
static void lease_ends(uint32_t at)
{
    struct lease     l = leases[at];
    struct ctl_lease drained = {l.id};
    leases[at] = leases[--lease_count];
    up(l.worker, CTL_DRAINED, (mt_id){0, 0}, &drained, sizeof drained);
    take_note();
    forks_served();
}

/* Leases are asked back one slice after the other; from then on each counts for so long. */
static void nothing_is_kept_for_long(void)
{
    uint64_t patience;
    uint32_t granted = 0;
    for (uint32_t i = 1; i <= CLASSES; i++)
        granted += classes[i].granted;
    if (!rlt_keeps_room(r, &patience) || granted != kept_granted)
        kept_since = now;
    kept_granted = granted;
    if (now - kept_since > patience + (lease_count + 2) * MT_RLT_SLICE_MS * MS)
        fail_msg("somebody has waited for what is free for %llu ms", (unsigned long long)((now - kept_since) / MS));
}

/* The next thing that happens by itself, not later than `until`. */
static void goes_on(uint64_t until)
{
    uint64_t at = rlt_deadline(r);
    uint32_t first = LEASES;
    at = at < until ? at : until;
    for (uint32_t i = 0; i < lease_count; i++)
        if (leases[i].ends_at <= at)
            first = i, at = leases[i].ends_at;
    now = at > now ? at : now;
    if (first == LEASES) {
        ticks();
    } else if (leases[first].is_recalled) {
        lease_ends(first);
    } else {
        leases[first].ends_at += classes[leases[first].class_id].task_ns;
    }
    nothing_is_kept_for_long();
}

static void runs_until(uint64_t until)
{
    while (now < until)
        goes_on(until);
}

/* Until a class has been given `granted` leases, or this time has come. */
static void runs_until_granted(uint32_t class_id, uint32_t granted, uint64_t until)
{
    while (now < until && classes[class_id].granted < granted)
        goes_on(until);
}

static void begin_with(uint32_t cpus, bool has_head)
{
    struct rlt_config config = {.has_head = has_head, .node = !has_head, .epoch = !has_head};
    struct greeting   g = greeting(CTL_ZYGOTE, 200);
    memset(classes, 0, sizeof classes);
    lease_count = fork_count = next_worker = steps = kept_granted = 0;
    config.total[0].milli = 1000 * (int64_t)cpus;
    begin_as(config);
    if (has_head)
        registered(7, 3);
    driver_begins();
    greet(zygote, &g, -1);
    take_note();
    forks_served();
    kept_since = now;
}

static bool is_recalled(uint32_t class_id)
{
    for (uint32_t i = 0; i < lease_count; i++)
        if (leases[i].class_id == class_id && leases[i].is_recalled)
            return true;
    return false;
}

enum { LONG = 1, WIDE = 2, SMALL = 3, OTHER = 4 };

/* Two CPUs. A task of an hour runs on one; its lease is asked back for a class that needs both, and a small one comes. Returns when
 * it was asked back. */
static uint64_t an_hour_is_asked_back(bool has_head)
{
    begin_with(2, has_head);
    class_is(LONG, 1000, HOUR);
    class_is(WIDE, 2000, 10 * MS);
    class_is(SMALL, 1000, 10 * MS);
    wants(LONG, 1);
    assert_int_equal(classes[LONG].granted, 1);
    runs_until(now + 500 * MS);
    wants(WIDE, 1);
    while (!is_recalled(LONG))
        goes_on(now + SECOND);
    uint64_t at = now;
    wants(LONG, 0);
    runs_until(now + 200 * MS);
    wants(SMALL, 1);
    return at;
}

static void asked_back_counts_as_room_for_so_long(bool has_head, bool is_head_away)
{
    uint64_t asked = an_hour_is_asked_back(has_head);
    if (is_head_away) {
        step((struct rlt_event){.kind = RLT_EV_HEAD_DOWN});
        take_note();
    }
    runs_until_granted(SMALL, 1, asked + 60 * SECOND);
    assert_int_equal(classes[SMALL].granted, 1);
    assert_in_range(classes[SMALL].granted_at, asked + MT_RLT_RESERVE_MS * MS, asked + MT_RLT_RESERVE_MS * MS + MS);
    assert_int_equal(classes[WIDE].granted, 0); /* it waits on */
    runs_until(asked + 600 * SECOND);
    assert_true(classes[SMALL].granted > 100); /* each of its leases is asked back, and none is waited for in vain */
    assert_int_equal(classes[WIDE].granted, 0);
}

static void a_lease_that_does_not_come_keeps_a_cpu_free_for_so_long(void **state)
{
    (void)state;
    asked_back_counts_as_room_for_so_long(false, false);
}

static void so_it_is_beside_a_head(void **state)
{
    (void)state;
    asked_back_counts_as_room_for_so_long(true, false);
}

static void so_it_is_while_the_head_is_away(void **state)
{
    (void)state;
    asked_back_counts_as_room_for_so_long(true, true);
}

/* ... however many small tasks came meanwhile. */
static void the_wide_class_has_its_room_when_the_lease_comes_at_last(void **state)
{
    (void)state;
    an_hour_is_asked_back(false);
    uint64_t ends = leases[0].ends_at;
    assert_int_equal(leases[0].class_id, LONG);
    runs_until_granted(WIDE, 1, ends + 10 * SECOND);
    assert_int_equal(classes[WIDE].granted, 1);
    assert_true(classes[WIDE].granted_at <= ends + MT_RLT_SLICE_MS * MS + 2 * classes[SMALL].task_ns);
    assert_true(classes[WIDE].granted_at >= ends);
}

/* A reservation that ends with nobody there who could use it: the raylet does not look again and again. */
static void nobody_looks_where_nobody_waits(void **state)
{
    (void)state;
    uint64_t asked = an_hour_is_asked_back(false);
    wants(SMALL, 0);
    runs_until(asked + 10 * SECOND);
    uint32_t before = steps;
    runs_until(asked + 1000 * SECOND);
    assert_true(steps - before < 400); /* workers that are idle, looks at those that are not */
}

/* The wide class wants nothing any more: what it kept is free at once. */
static void room_that_is_not_wanted_any_more_is_given_at_once(void **state)
{
    (void)state;
    an_hour_is_asked_back(false);
    runs_until(now + 500 * MS);
    assert_int_equal(classes[SMALL].granted, 0);
    uint64_t at = now;
    wants(WIDE, 0);
    runs_until_granted(SMALL, 1, at + SECOND);
    assert_int_equal(classes[SMALL].granted, 1);
    assert_in_range(classes[SMALL].granted_at, at, at + MS);
}

/* Small tasks come without end, on as many CPUs as there are; the wide class wants `cpus` at a time. Returns how long it waited. */
static uint64_t wait_beside_a_stream(uint32_t node_cpus, int64_t cpus, uint64_t task_ns, uint64_t stagger_ns)
{
    begin_with(node_cpus, false);
    class_is(WIDE, 1000 * cpus, 10 * MS);
    class_is(SMALL, 1000, task_ns);
    for (uint32_t i = 1; i <= node_cpus; i++) {
        wants(SMALL, i);
        runs_until(now + stagger_ns);
    }
    assert_int_equal(lease_count, node_cpus);
    wants(SMALL, node_cpus + 8);
    wants(WIDE, 1);
    uint64_t at = now;
    runs_until_granted(WIDE, 1, at + 200 * task_ns + 600 * SECOND);
    if (!classes[WIDE].granted)
        fail_msg("%u CPUs, %lld wanted, tasks of %llu ms: starved", node_cpus, (long long)cpus, (unsigned long long)(task_ns / MS));
    uint64_t waited = classes[WIDE].granted_at - at;
    end(NULL);
    return waited;
}

static void a_stream_of_small_tasks_does_not_starve_a_wide_class(void **state)
{
    static const uint64_t lengths_ms[] = {1, 90, 700, 4000, 7000, 10000, 31000, 60000, 600000};
    (void)state;
    for (uint32_t cpus = 2; cpus <= CPUS_MAX; cpus += 2)
        for (size_t i = 0; i < sizeof lengths_ms / sizeof *lengths_ms; i++)
            for (int64_t wide = 2; wide <= cpus; wide += 2) {
                uint64_t task = lengths_ms[i] * MS, waited = wait_beside_a_stream(cpus, wide, task, task / cpus);
                if (waited > 4 * task + 2 * SECOND)
                    fail_msg("%u CPUs, %lld wanted, tasks of %llu ms: %llu ms", cpus, (long long)wide,
                             (unsigned long long)lengths_ms[i], (unsigned long long)(waited / MS));
            }
}

static bool has_lease(uint32_t class_id)
{
    for (uint32_t i = 0; i < lease_count; i++)
        if (leases[i].class_id == class_id && !leases[i].is_recalled)
            return true;
    return false;
}

/* Classes of any width, with tasks of any length, that want more and less: nothing that is free is kept for long from whom it fits
 * (goes_on looks), and when no other one changes its mind each that has none comes to a lease. */
static void each_has_its_turn(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        mt_rng   rng = {seed};
        uint32_t cpus = 2 + (uint32_t)mt_rng_below(&rng, CPUS_MAX - 1), count = 3 + (uint32_t)mt_rng_below(&rng, 4);
        uint64_t longest = 0;
        begin_with(cpus, false);
        for (uint32_t i = 1; i <= count; i++) {
            uint64_t task = (50 * MS << mt_rng_below(&rng, 13)) + mt_rng_below(&rng, 50) * MS; /* up to 3.5 minutes */
            class_is(i, 500 * (1 + (int64_t)mt_rng_below(&rng, 2 * cpus)), task);
            longest = task > longest ? task : longest;
        }
        for (int i = 0; i < 60; i++) {
            wants(1 + (uint32_t)mt_rng_below(&rng, count), (uint32_t)mt_rng_below(&rng, 5));
            runs_until(now + mt_rng_below(&rng, longest));
        }
        uint64_t at = now;
        uint32_t needs[CLASSES + 1];
        for (uint32_t i = 1; i <= count; i++) {
            needs[i] = classes[i].granted + !has_lease(i);
            wants(i, 2);
        }
        for (uint32_t i = 1; i <= count; i++)
            runs_until_granted(i, needs[i], at + 4 * count * longest + 60 * SECOND);
        for (uint32_t i = 1; i <= count; i++)
            if (classes[i].granted < needs[i])
                fail_msg("seed %llu: class %u has no turn", (unsigned long long)seed, i);
        end(NULL);
    }
}

static const struct ctl_class one_cpu = {.resource_count = 1, .resources = {{.name = "CPU", .milli = 1000}}};

/* What is kept is kept from other nodes too, and told the head as not free; for as long. */
static void others_are_refused_what_is_kept(void **state)
{
    (void)state;
    uint64_t asked = an_hour_is_asked_back(true);
    wants(SMALL, 0);
    assert_int_equal(classes[SMALL].granted, 0);
    assert_false(rlt_others_may_have(r, &one_cpu, 0));
    assert_int_equal(rlt_free_for_others(r, 0), 0);
    runs_until(asked + MT_RLT_RESERVE_MS * MS + MS);
    assert_true(rlt_others_may_have(r, &one_cpu, 0));
    assert_int_equal(rlt_free_for_others(r, 0), 1000);
}

static void they_have_it_when_nobody_keeps_it_any_more(void **state)
{
    (void)state;
    an_hour_is_asked_back(true);
    wants(SMALL, 0);
    assert_false(rlt_others_may_have(r, &one_cpu, 0));
    wants(WIDE, 0);
    assert_true(rlt_others_may_have(r, &one_cpu, 0));
    assert_int_equal(rlt_free_for_others(r, 0), 1000);
}

static void a_guest_comes(int64_t cpus_milli)
{
    Manta__V1__Press      press = MANTA__V1__PRESS__INIT;
    Manta__V1__HeadToNode m = MANTA__V1__HEAD_TO_NODE__INIT;
    Manta__V1__Resource   cpus = MANTA__V1__RESOURCE__INIT;
    Manta__V1__Resource  *resources[] = {&cpus};
    cpus.name = "CPU";
    cpus.milli = cpus_milli;
    press.resources = resources;
    press.n_resources = 1;
    m.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_PRESS;
    m.press = &press;
    head_says(&m);
    take_note();
    forks_served();
}

/* Of a class that waits here and one of another node, which both hold nothing, the one that came first. */
static void a_guest_waits_for_who_came_before_it(void **state)
{
    (void)state;
    an_hour_is_asked_back(true);
    a_guest_comes(1000);
    assert_false(rlt_others_may_have(r, &one_cpu, 0));
    end(NULL);

    begin_with(2, true);
    class_is(LONG, 1000, HOUR);
    class_is(WIDE, 2000, 10 * MS);
    wants(LONG, 1);
    runs_until(now + 500 * MS);
    a_guest_comes(1000);
    wants(WIDE, 1);
    for (int i = 0; i < 10; i++) {
        runs_until(now + 100 * MS);
        a_guest_comes(1000);
        assert_true(rlt_others_may_have(r, &one_cpu, 0));
    }
}

/* A class of another node that the head tells of again and again: room is kept for it no longer either. */
static void a_guest_counts_on_it_no_longer(void **state)
{
    (void)state;
    begin_with(2, true);
    class_is(LONG, 1000, HOUR);
    class_is(SMALL, 1000, 10 * MS);
    wants(LONG, 1);
    runs_until(now + 500 * MS);
    uint64_t asked = now;
    for (int i = 0; i < 100; i++) {
        a_guest_comes(2000);
        if (i == 0) {
            assert_true(is_recalled(LONG));
            wants(LONG, 0);
            wants(SMALL, 1);
        }
        runs_until(now + 100 * MS);
    }
    assert_true(classes[SMALL].granted > 0);
    assert_true(leases[0].id > 0 && now >= asked + 10 * SECOND);
}

int main(int argc, char **argv)
{
    mt_plant = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_lease_that_does_not_come_keeps_a_cpu_free_for_so_long, end),
        cmocka_unit_test_teardown(so_it_is_beside_a_head, end),
        cmocka_unit_test_teardown(so_it_is_while_the_head_is_away, end),
        cmocka_unit_test_teardown(the_wide_class_has_its_room_when_the_lease_comes_at_last, end),
        cmocka_unit_test_teardown(nobody_looks_where_nobody_waits, end),
        cmocka_unit_test_teardown(room_that_is_not_wanted_any_more_is_given_at_once, end),
        cmocka_unit_test(a_stream_of_small_tasks_does_not_starve_a_wide_class),
        cmocka_unit_test(each_has_its_turn),
        cmocka_unit_test_teardown(others_are_refused_what_is_kept, end),
        cmocka_unit_test_teardown(they_have_it_when_nobody_keeps_it_any_more, end),
        cmocka_unit_test_teardown(a_guest_waits_for_who_came_before_it, end),
        cmocka_unit_test_teardown(a_guest_counts_on_it_no_longer, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
