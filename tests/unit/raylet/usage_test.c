/* SPDX-License-Identifier: Apache-2.0
 *
 * usage_test.c - what the raylet's logic tells of what jobs hold, against what was held: to the microsecond, each once, said again
 * until it is acknowledged.
 */
#include "tests/unit/raylet/core_rig.h"
#include "core/base/limits/raylet.h"

enum { SAID_MAX = 64 };
static struct {
    uint64_t number, cpu_us;
    uint32_t times;
} said[SAID_MAX];
static uint64_t last;

static uint64_t held_us, looked_at, leased_milli; /* by the ledger: CPU-microseconds */

/* Counts what the ledger has leased, and keeps by its number what was said in the last step: said again it is the same. */
static void look(void)
{
    struct rlt_stats s;
    rlt_stats(r, &s);
    held_us += leased_milli * ((now - looked_at) / 1000) / 1000;
    looked_at = now;
    leased_milli = (uint64_t)s.leased[0];
    for (size_t i = 0; i < out.count; i++) {
        const Manta__V1__NodeToHead *m = out.data[i].kind == RLT_A_HEAD_SEND ? out.data[i].head_send.message : NULL;
        if (!m || m->kind_case != MANTA__V1__NODE_TO_HEAD__KIND_USAGE)
            continue;
        const Manta__V1__Usage *u = m->usage;
        uint64_t                cpu_us = 0;
        assert_true(u->number < SAID_MAX && u->first <= u->number && u->boot == 5);
        for (size_t k = 0; k < u->n_of; k++)
            cpu_us += u->of[k]->cpu_us;
        if (said[u->number].times++)
            assert_int_equal(said[u->number].cpu_us, cpu_us);
        said[u->number].number = u->number;
        said[u->number].cpu_us = cpu_us;
        last = u->number > last ? u->number : last;
    }
}

static void pass(uint64_t ms)
{
    for (uint64_t end = now + ms * MS; now < end;) {
        now += 100 * MS - 1000; /* a step adds the rest */
        step((struct rlt_event){.kind = RLT_EV_TICK});
        look();
    }
}

static void ack(uint64_t number)
{
    Manta__V1__UsageAck   a = MANTA__V1__USAGE_ACK__INIT;
    Manta__V1__HeadToNode m = MANTA__V1__HEAD_TO_NODE__INIT;
    a.boot = 5;
    a.number = number;
    m.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_USAGE;
    m.usage = &a;
    head_says(&m);
    look();
}

static uint64_t sum(void)
{
    uint64_t all = 0;
    for (int i = 0; i < SAID_MAX; i++)
        all += said[i].cpu_us;
    return all;
}

static void start(void)
{
    memset(said, 0, sizeof said);
    begin(true);
    registered(7, 3);
    job_begins();
    held_us = leased_milli = last = 0;
    look();
}

static void ends(uint64_t conn, bool is_child)
{
    if (is_child)
        step((struct rlt_event){.kind = RLT_EV_EXITED, .exited = {.conn = conn, .has_status = true}});
    else
        step((struct rlt_event){.kind = RLT_EV_CLOSED, .closed = {.conn = conn}});
    look();
    step((struct rlt_event){.kind = RLT_EV_PROC_DRAINED, .proc_drained = {.conn = conn}});
    look();
}

static void all_end(void)
{
    ends(DRIVER, false);
    for (int i = 0; i < 2; i++)
        ends(workers[i], true);
}

/* The driver and the workers end. Then all that was held has been told, but for the rounding of each message. */
static void finish(void)
{
    all_end();
    for (int i = 0; i < 30; i++) {
        ack(last);
        pass(500);
    }
    assert_int_equal(leased_milli, 0);
    assert_true(held_us > 1000000);
    if (sum() > held_us + 50 || sum() + 50 < held_us)
        fail_msg("told %llu us, held %llu us", (unsigned long long)sum(), (unsigned long long)held_us);
}

static void what_is_held_is_told_to_the_microsecond(void **state)
{
    (void)state;
    start();
    define(1, 1000, 0);
    demand(1, 2); /* two CPUs from now on */
    look();
    pass(35000);
    up(workers[0], CTL_BLOCKED, (mt_id){0, 0}, NULL, 0); /* one is lent */
    look();
    assert_int_equal(leased_milli, 1000);
    pass(7000);
    up(workers[0], CTL_UNBLOCKED, (mt_id){0, 0}, NULL, 0);
    look();
    pass(2345);
    demand(1, 0);
    look();
    finish();
    assert_true(last >= 3);
}

static void nothing_is_lost_while_the_head_is_away(void **state)
{
    (void)state;
    start();
    define(1, 1000, 0);
    demand(1, 1);
    look();
    pass(25000); /* it does not acknowledge */
    assert_true(said[1].times > 5);
    step((struct rlt_event){.kind = RLT_EV_HEAD_DOWN});
    look();
    pass(200000);
    uint64_t before = last;
    uint32_t times = said[1].times;
    registered(7, 3);
    look();
    assert_int_equal(said[1].times, times + 1); /* said again at once, under its number */
    pass(50000);
    assert_true(last <= before + MT_RLT_USAGE_UNANSWERED); /* no more is kept than that; it grows in the next */
    finish();
}

/* The head had taken the node for dead, and has counted for itself until then. */
static void what_was_given_up_is_not_told(void **state)
{
    (void)state;
    start();
    define(1, 1000, 0);
    demand(1, 1);
    look();
    pass(12000);
    step((struct rlt_event){.kind = RLT_EV_HEAD_DOWN});
    pass(60000);
    uint64_t before = sum();
    registered(7, 4);
    look();
    all_end();
    pass(30000);
    assert_true(sum() - before < 1000000); /* until its workers have ended */
}

/* What a group has reserved is its job's, whether leases use it or not; a lease in it is not counted again. */
static void a_bundle_is_told_once(void **state)
{
    Manta__V1__Resource    cpu = MANTA__V1__RESOURCE__INIT, *has[] = {&cpu};
    Manta__V1__Bundle      bundle = MANTA__V1__BUNDLE__INIT, *bundles[] = {&bundle};
    Manta__V1__BundleOrder order = MANTA__V1__BUNDLE_ORDER__INIT;
    Manta__V1__HeadToNode  m = MANTA__V1__HEAD_TO_NODE__INIT;
    struct ctl_class       c = {.class_id = 1, .resource_count = 1, .group = {9, 0}};
    (void)state;
    start();
    cpu.name = "CPU";
    cpu.milli = 2000;
    bundle.resources = has;
    bundle.n_resources = 1;
    bundle.version = 1;
    order.group_process = 9;
    order.epoch = 3;
    order.job = JOB;
    order.bundles = bundles;
    order.n_bundles = 1;
    m.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_BUNDLE;
    m.bundle = &order;
    for (order.verb = 1; order.verb <= 2; order.verb++) {
        head_says(&m);
        look();
    }
    pass(3000);
    snprintf(c.resources[0].name, sizeof c.resources[0].name, "CPU");
    c.resources[0].milli = 1000;
    up(DRIVER, CTL_CLASS, (mt_id){0, 0}, &c, sizeof c);
    look();
    demand(1, 2);
    granted_lease();
    look();
    assert_int_equal(leased_milli, 2000);
    pass(20000);
    order.verb = 3;
    head_says(&m);
    look();
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_held_is_told_to_the_microsecond, end),
        cmocka_unit_test_teardown(nothing_is_lost_while_the_head_is_away, end),
        cmocka_unit_test_teardown(what_was_given_up_is_not_told, end),
        cmocka_unit_test_teardown(a_bundle_is_told_once, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
