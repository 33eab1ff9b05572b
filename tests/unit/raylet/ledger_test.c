/* SPDX-License-Identifier: Apache-2.0
 *
 * ledger_test.c - a node's resources: what is refused, what fits, and that nothing is lost or made up.
 */
#include "core/base/rng.h"
#include "raylet/core/kit/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct ctl_resource resource(const char *name, int64_t milli)
{
    struct ctl_resource r = {.milli = milli};
    snprintf(r.name, sizeof r.name, "%s", name);
    return r;
}

static struct rlt_ledger ledger(void)
{
    struct rlt_ledger   l;
    struct ctl_resource total[] = {resource("CPU", 4000), resource("GPU", 2000), resource("memory", 1 << 30)};
    assert_int_equal(rlt_ledger_init(&l, total, 3).code, MT_OK);
    return l;
}

static void senseless_amounts_are_refused(void **state)
{
    struct rlt_ledger   l;
    char                text[256];
    struct ctl_resource bad[] = {resource("CPU", 0), resource("CPU", -1), resource("", 1000), resource("GPU", 1500)};
    struct ctl_resource twice[] = {resource("CPU", 1000), resource("CPU", 1000)};
    struct ctl_resource unended;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(rlt_request_check(&bad[i], 1, text, sizeof text).code, MT_EINVAL);
        assert_int_equal(rlt_ledger_init(&l, &bad[i], 1).code, bad[i].name[0] ? MT_EINVAL : MT_OK);
    }
    assert_int_equal(rlt_request_check(twice, 2, text, sizeof text).code, MT_EINVAL);
    assert_non_null(strstr(text, "CPU"));
    assert_int_equal(rlt_ledger_init(&l, twice, 2).code, MT_EINVAL);
    memset(&unended, 'x', sizeof unended); /* a name without an end */
    unended.milli = 1;
    assert_int_equal(rlt_request_check(&unended, 1, text, sizeof text).code, MT_OK);
    assert_int_equal(strlen(unended.name), sizeof unended.name - 1);
}

static void all_or_nothing(void **state)
{
    struct rlt_ledger   l = ledger();
    struct rlt_hold     h, none = {0};
    struct ctl_resource request[] = {resource("CPU", 2000), resource("memory", (int64_t)2 << 30)};
    uint32_t            lacking = 9;
    (void)state;
    assert_false(rlt_ledger_take(&l, request, 2, &h));
    assert_memory_equal(&h, &none, sizeof h);
    assert_int_equal(l.free[0], 4000);
    assert_false(rlt_ledger_could_ever(&l, request, 2, &lacking));
    assert_int_equal(lacking, 1);
    request[1] = resource("gold", 1);
    assert_false(rlt_ledger_could_ever(&l, request, 2, &lacking));
}

static void a_fraction_goes_where_there_is_least_room(void **state)
{
    struct rlt_ledger   l = ledger();
    struct rlt_hold     half, quarter, whole, more;
    struct ctl_resource r;
    (void)state;
    r = resource("GPU", 500);
    assert_true(rlt_ledger_take(&l, &r, 1, &half));
    r = resource("GPU", 250);
    assert_true(rlt_ledger_take(&l, &r, 1, &quarter));
    assert_int_equal(quarter.gpus[0], half.gpus[0]);
    r = resource("GPU", 1000);
    assert_true(rlt_ledger_take(&l, &r, 1, &whole)); /* the other one is still whole */
    assert_int_not_equal(whole.gpus[0], half.gpus[0]);
    r = resource("GPU", 500);
    assert_false(rlt_ledger_take(&l, &r, 1, &more)); /* 250 are free, on one device */
    rlt_ledger_give(&l, &quarter);
    rlt_ledger_give(&l, &half);
    rlt_ledger_give(&l, &whole);
    r = resource("GPU", 2000);
    assert_true(rlt_ledger_take(&l, &r, 1, &whole));
    assert_int_equal(whole.gpu_count, 2);
}

static void a_blocked_task_lends_its_cpus_only(void **state)
{
    struct rlt_ledger   l = ledger();
    struct rlt_hold     h, other;
    struct ctl_resource request[] = {resource("CPU", 4000), resource("GPU", 1000)};
    (void)state;
    assert_true(rlt_ledger_take(&l, request, 2, &h));
    rlt_ledger_lend_cpu(&l, &h);
    rlt_ledger_lend_cpu(&l, &h);
    assert_int_equal(l.free[0], 4000);
    assert_int_equal(l.free[1], 1000);
    assert_true(rlt_ledger_take(&l, request, 1, &other));
    rlt_ledger_retake_cpu(&l, &h);
    assert_int_equal(l.free[0], -4000); /* over, for as long as both run */
    rlt_ledger_lend_cpu(&l, &h);
    rlt_ledger_give(&l, &h); /* one that ends while blocked */
    rlt_ledger_give(&l, &other);
    assert_int_equal(l.free[0], 4000);
    assert_int_equal(l.leased[0], 0);
}

static void nothing_is_lost_whatever_the_order(void **state)
{
    struct rlt_ledger l = ledger();
    struct rlt_hold   held[64];
    mt_rng            rng = {42};
    int               count = 0;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        if (count < 64 && mt_rng_below(&rng, 2)) {
            struct ctl_resource request[] = {resource("CPU", 1 + (int64_t)mt_rng_below(&rng, 3000)),
                                             resource("GPU", mt_rng_below(&rng, 2) ? 1000 : 1 + (int64_t)mt_rng_below(&rng, 999))};
            count += rlt_ledger_take(&l, request, 1 + (uint32_t)mt_rng_below(&rng, 2), &held[count]);
        } else if (count) {
            int at = (int)mt_rng_below(&rng, (uint64_t)count);
            if (mt_rng_below(&rng, 3) == 0) {
                (held[at].is_cpu_out ? rlt_ledger_retake_cpu : rlt_ledger_lend_cpu)(&l, &held[at]);
            } else {
                rlt_ledger_give(&l, &held[at]);
                held[at] = held[--count];
            }
        }
        rlt_ledger_assert(&l);
    }
    while (count)
        rlt_ledger_give(&l, &held[--count]);
    for (uint32_t i = 0; i < l.count; i++)
        assert_int_equal(l.free[i], l.total[i].milli);
}

/* Two NUMA nodes of four CPUs, numbered as a machine with threads numbers them. */
static void pins_stay_in_one_node(void **state)
{
    static const uint16_t  numa[8] = {0, 1, 0, 1, 0, 1, 0, 1};
    struct ctl_resource    total[] = {resource("CPU", 8000)}, two = resource("CPU", 2000), three = resource("CPU", 3000);
    static struct rlt_pins pins;
    struct rlt_ledger      l;
    struct rlt_hold        a, b, c, d;
    (void)state;
    assert_int_equal(rlt_ledger_init(&l, total, 1).code, MT_OK);
    l.pins = &pins;
    pins.count = 8;
    for (uint16_t i = 0; i < 8; i++)
        pins.cpus[i] = (struct rlt_cpu){.cpu = i, .node = numa[i]};
    assert_true(rlt_ledger_take(&l, &three, 1, &a));
    rlt_ledger_pin(&l, &a);
    assert_int_equal(a.cpus[0], 0x15); /* 0, 2, 4 */
    assert_true(rlt_ledger_take(&l, &two, 1, &b));
    rlt_ledger_pin(&l, &b);
    assert_int_equal(b.cpus[0], 0x0a); /* one of node 0 is free, which is not enough */
    assert_true(rlt_ledger_take(&l, &three, 1, &c));
    rlt_ledger_pin(&l, &c);
    assert_int_equal(c.cpus[0], 0xe0); /* what is left, of both */
    rlt_ledger_lend_cpu(&l, &a);
    assert_true(rlt_ledger_take(&l, &three, 1, &d));
    rlt_ledger_pin(&l, &d);
    assert_int_equal(d.cpus[0], 0x15); /* lent */
    rlt_ledger_retake_cpu(&l, &a);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pins.cpus[i].held, 0x15 >> i & 1 ? 2 : 1);
    rlt_ledger_lend_cpu(&l, &b);
    rlt_ledger_give(&l, &a);
    rlt_ledger_give(&l, &b);
    rlt_ledger_give(&l, &c);
    rlt_ledger_give(&l, &d);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pins.cpus[i].held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pins_stay_in_one_node),
        cmocka_unit_test(senseless_amounts_are_refused),
        cmocka_unit_test(all_or_nothing),
        cmocka_unit_test(a_fraction_goes_where_there_is_least_room),
        cmocka_unit_test(a_blocked_task_lends_its_cpus_only),
        cmocka_unit_test(nothing_is_lost_whatever_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
