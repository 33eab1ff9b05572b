/* SPDX-License-Identifier: Apache-2.0
 *
 * account_test.c - what nodes say that jobs have held is counted once, through kills of the head before and after its writes, lost
 * acknowledgements and new connections; who pays; nodes that are lost; days, and jobs that are deleted. With a number: that bug is
 * planted (core/base/plant.h).
 */
#include "core/base/limits/head.h"
#include "core/base/plant.h"
#include "core/base/rng.h"
#include "tests/unit/head/rig.h"

#include <stdio.h>

#ifdef MANTA_PLANTS
int mt_plant;
#endif

#define KIND(name) MANTA__V1__HEAD_TO_NODE__KIND_##name
#define DAY_MS     (UINT64_C(24) * 3600 * 1000)

/* ---- what is said and asked ---- */

static uint64_t tokens[3]; /* of users, from 1 on; 0: the cluster's own */

static void submit_as(struct rig *rig, uint8_t user, const char *id)
{
    rig->token = tokens[user];
    rig_submit(rig, id, 0, 0);
    rig->token = 0;
}

enum { ITEMS = 3, QUEUE = 4 };
struct item {
    const char *id; /* NULL: of another node's driver */
    uint64_t    job, cpu_us, gpu_us, node_us, cpu_milli;
};
struct message {
    uint64_t    number;
    struct item items[ITEMS];
};
struct machine { /* a node, and what it has said and heard no answer to */
    struct rig_node node;
    uint64_t        said;
    struct message  queue[QUEUE];
    size_t          count;
};

static void say(struct rig *rig, const struct machine *m, const struct message *what)
{
    Manta__V1__NodeToHead out = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__Usage      usage = MANTA__V1__USAGE__INIT;
    Manta__V1__UsageOf    of[ITEMS], *list[ITEMS];
    usage.boot = m->node.boot;
    usage.number = what->number;
    usage.first = m->count ? m->queue[0].number : what->number;
    usage.of = list;
    for (size_t i = 0; i < ITEMS && (what->items[i].job || what->items[i].id); i++) {
        const struct item *from = &what->items[i];
        list[usage.n_of++] = &of[i];
        of[i] = (Manta__V1__UsageOf)MANTA__V1__USAGE_OF__INIT;
        of[i].job = from->job;
        of[i].is_known = from->id != NULL;
        of[i].id = from->id ? (char *)(uintptr_t)from->id : of[i].id;
        of[i].cpu_us = from->cpu_us;
        of[i].gpu_us = from->gpu_us;
        of[i].node_us = from->node_us;
        of[i].cpu_milli = from->cpu_milli;
        of[i].node_milli = from->cpu_milli / 2;
    }
    out.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_USAGE;
    out.usage = &usage;
    if (!rig->has_crashed)
        rig_say(rig, m->node.stream, &out);
}

static uint64_t acked(struct rig *rig, const struct machine *m)
{
    const Manta__V1__HeadToNode *ack = rig_last(rig, m->node.stream, KIND(USAGE));
    return ack ? ack->usage->number : 0;
}

/* Says the next one, and whether it was acknowledged. */
static bool tell(struct rig *rig, struct machine *m, struct item item)
{
    struct message what = {.number = ++m->said, .items = {item}};
    say(rig, m, &what);
    return acked(rig, m) == what.number;
}

static struct rig *rig_with(struct machine *m, size_t count)
{
    struct rig *rig = rig_new();
    tokens[1] = rig_user(rig, "ann", 1);
    tokens[2] = rig_user(rig, "bob", 2);
    submit_as(rig, 1, "a");
    submit_as(rig, 2, "b");
    for (size_t i = 0; i < count; i++) {
        m[i] = (struct machine){.node = {.boot = 11 + i, .cpus = 4000}};
        rig_register(rig, &m[i].node);
    }
    return rig;
}

struct told {
    uint64_t cpu_us, gpu_us, cost_micro;
    size_t   rows;
};

static struct told told_by(struct rig *rig, const char *user, uint64_t since_ms, bool by_day)
{
    Manta__V1__AccountRequest r = MANTA__V1__ACCOUNT_REQUEST__INIT;
    struct told               told = {0};
    r.user = (char *)(uintptr_t)user;
    r.since_ms = since_ms;
    r.by_day = by_day;
    Manta__V1__AccountReply *reply = rig_reply_to(rig, rig_call(rig, HEAD_ACCOUNT, &r.base), &manta__v1__account_reply__descriptor);
    assert_non_null(reply);
    told.rows = reply->n_rows;
    for (size_t i = 0; i < reply->n_rows; i++) {
        assert_true(!user[0] || strcmp(reply->rows[i]->user, user) == 0);
        told.cpu_us += reply->rows[i]->spent->cpu_us;
        told.gpu_us += reply->rows[i]->spent->gpu_us;
        told.cost_micro += reply->rows[i]->spent->cost_micro;
    }
    manta__v1__account_reply__free_unpacked(reply, NULL);
    return told;
}

static uint64_t cpu_of(struct rig *rig, const char *user)
{
    return told_by(rig, user, 0, false).cpu_us;
}

static uint64_t cpu_of_job(struct rig *rig, const char *id)
{
    Manta__V1__JobReply *reply;
    rig_job(rig, id, &reply);
    uint64_t cpu_us = reply && reply->job && reply->job->spent ? reply->job->spent->cpu_us : 0;
    manta__v1__job_reply__free_unpacked(reply, NULL);
    return cpu_us;
}

/* ---- counted once ---- */

static void a_word_counts_once(void **state)
{
    struct machine m;
    (void)state;
    struct rig    *rig = rig_with(&m, 1);
    struct message first = {1, {{.id = "a", .job = 5, .cpu_us = 700, .gpu_us = 30}}};
    say(rig, &m, &first);
    say(rig, &m, &first);
    rig_restart(rig);
    rig_register(rig, &m.node);
    say(rig, &m, &first); /* its acknowledgement was lost */
    assert_int_equal(acked(rig, &m), 1);
    assert_int_equal(cpu_of(rig, "ann"), 700);
    assert_int_equal(told_by(rig, "ann", 0, false).gpu_us, 30);
    assert_int_equal(cpu_of_job(rig, "a"), 700);
    struct message third = {3, {{.id = "a", .job = 5, .cpu_us = 1}}}, second = {2, {{.id = "a", .job = 5, .cpu_us = 40}}};
    m.queue[m.count++] = second;
    say(rig, &m, &third); /* before the second: it is said again */
    assert_int_equal(acked(rig, &m), 1);
    say(rig, &m, &second);
    say(rig, &m, &third);
    assert_int_equal(cpu_of(rig, "ann"), 741);
    rig_free(rig);
}

/* Two nodes, each of which says again what was not acknowledged, and kills of the head before and after its writes. */
static void kills_lose_and_double_nothing(void **state)
{
    static const char *const users[] = {"ann", "bob"}, *const jobs[] = {"a", "b"};
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        mt_rng         rng = {seed};
        struct machine m[2];
        struct rig    *rig = rig_with(m, 2);
        uint64_t       want[2] = {0};
        for (int round = 0; round < 60; round++) {
            struct machine *n = &m[mt_rng_below(&rng, 2)];
            if (mt_rng_below(&rng, 5) == 0) {
                rig->crash_at = rig->batches + 1 + mt_rng_below(&rng, 2);
                rig->crash = mt_rng_below(&rng, 2) ? RIG_AFTER_WRITE : RIG_BEFORE_WRITE;
            }
            if (n->count < QUEUE) {
                size_t   who = mt_rng_below(&rng, 2);
                uint64_t us = 1 + mt_rng_below(&rng, 1000000);
                want[who] += us;
                n->queue[n->count++] = (struct message){++n->said, {{.id = jobs[who], .job = 70 + who, .cpu_us = us}}};
            }
            for (size_t i = 0; i < n->count; i++)
                if (mt_rng_below(&rng, 4))
                    say(rig, n, &n->queue[i]);
            if (rig->has_crashed) {
                rig->crash = RIG_NO_CRASH;
                rig_restart(rig);
                rig_register(rig, &m[0].node);
                rig_register(rig, &m[1].node);
            }
            for (uint64_t up_to = acked(rig, n); n->count && n->queue[0].number <= up_to;)
                memmove(n->queue, n->queue + 1, --n->count * sizeof n->queue[0]);
            if (mt_rng_below(&rng, 3) == 0)
                rig_forget(rig);
        }
        rig->crash = RIG_NO_CRASH;
        for (int k = 0; k < 2; k++)
            for (size_t i = 0; i < m[k].count; i++)
                say(rig, &m[k], &m[k].queue[i]);
        rig_restart(rig);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(cpu_of(rig, users[k]), want[k]);
            assert_int_equal(cpu_of_job(rig, jobs[k]), want[k]);
        }
        rig_free(rig);
    }
}

/* ---- who pays ---- */

static void leases_on_other_nodes_are_the_users(void **state)
{
    struct machine m[2];
    (void)state;
    struct rig    *rig = rig_with(m, 2);
    struct message far = {1, {{.job = 99, .cpu_us = 1000}}};
    say(rig, &m[1], &far); /* the driver's own node has not spoken yet */
    assert_int_equal(acked(rig, &m[1]), 0);
    assert_true(tell(rig, &m[0], (struct item){.id = "b", .job = 99}));
    say(rig, &m[1], &far);
    assert_int_equal(acked(rig, &m[1]), 1);
    assert_int_equal(cpu_of(rig, "bob"), 1000);
    rig_restart(rig); /* it is known for good */
    rig_register(rig, &m[0].node);
    rig_register(rig, &m[1].node);
    m[1].said = 1;
    assert_true(tell(rig, &m[1], (struct item){.job = 99, .cpu_us = 24}));
    assert_int_equal(cpu_of(rig, "bob"), 1024);
    assert_int_equal(cpu_of_job(rig, "b"), 1024);
    assert_true(tell(rig, &m[0], (struct item){.id = "", .job = 98, .cpu_us = 5})); /* somebody's who runs the node */
    assert_int_equal(cpu_of(rig, "admin"), 5);
    assert_false(tell(rig, &m[1], (struct item){.job = 97, .cpu_us = 7})); /* nobody ever says whose that is */
    struct message again = {3, {{.job = 97, .cpu_us = 7}}};
    for (int i = 0; i < MT_HEAD_PAYER_WAIT_MS / 1000 + 1; i++) {
        rig_pass(rig, 1000);
        for (int k = 0; k < 2; k++)
            rig_report(rig, &m[k].node, 4000, NULL, 0);
        say(rig, &m[1], &again);
    }
    assert_int_equal(acked(rig, &m[1]), 3);
    assert_int_equal(told_by(rig, "", 0, false).rows, 3); /* bob, admin, nobody */
    rig_free(rig);
}

/* ---- nodes that are lost ---- */

static void what_a_lost_node_held_is_counted_to_its_end(void **state)
{
    struct machine m;
    (void)state;
    struct rig *rig = rig_with(&m, 1);
    assert_true(tell(rig, &m, (struct item){.id = "a", .job = 5, .cpu_us = 100, .cpu_milli = 1500}));
    for (int i = 0; i < 4; i++) {
        rig_pass(rig, 1000);
        rig_report(rig, &m.node, 2500, NULL, 0);
    }
    rig_pass(rig, 700);
    rig_close(rig, m.node.stream); /* killed, 4.7 s after it has said what is held */
    rig_pass(rig, 300);
    assert_int_equal(cpu_of(rig, "ann"), 100); /* it may come back and say it */
    m.node.boot = 12;
    rig_register(rig, &m.node); /* another raylet under its number */
    assert_int_equal(cpu_of(rig, "ann"), 100 + 1500 * 4700);
    assert_int_equal(cpu_of_job(rig, "a"), 100 + 1500 * 4700);
    m.said = 0;
    assert_true(tell(rig, &m, (struct item){.id = "a", .job = 5, .cpu_us = 11}));
    rig_pass(rig, 12000); /* silent: dead. Nothing was held */
    assert_int_equal(cpu_of(rig, "ann"), 111 + 1500 * 4700);
    rig_free(rig);
}

/* ---- prices ---- */

static void scale_up(struct rig *rig, int64_t price_milli)
{
    Manta__V1__ScaleRequest r = MANTA__V1__SCALE_REQUEST__INIT;
    Manta__V1__ScaleConfig  config = MANTA__V1__SCALE_CONFIG__INIT;
    Manta__V1__ScaleType    type = MANTA__V1__SCALE_TYPE__INIT, *types[] = {&type};
    Manta__V1__Resource     cpu = MANTA__V1__RESOURCE__INIT, *has[] = {&cpu};
    cpu.name = "CPU";
    cpu.milli = 4000;
    type.name = "small";
    type.resources = has;
    type.n_resources = 1;
    type.max = 1;
    type.idle_ms = 600000;
    type.boot_ms = 60000;
    type.price_milli = price_milli;
    config.provider = "local";
    config.types = types;
    config.n_types = 1;
    r.op = HEAD_SCALE_UP;
    r.config = &config;
    rig_call(rig, HEAD_SCALE, &r.base);
}

static void a_node_with_a_price_costs_it(void **state)
{
    struct machine m = {.node = {.boot = 31, .cpus = 4000, .labels = "manta.type=small,disk=ssd"}}, plain;
    (void)state;
    struct rig *rig = rig_with(&plain, 1);
    scale_up(rig, 2500);
    rig_register(rig, &m.node);
    /* Half of that node for an hour; and a whole one without a price. */
    assert_true(tell(rig, &m, (struct item){.id = "a", .job = 5, .cpu_us = 1, .node_us = UINT64_C(1800) * 1000000}));
    assert_true(tell(rig, &plain, (struct item){.id = "a", .job = 5, .cpu_us = 1, .node_us = UINT64_C(3600) * 1000000}));
    assert_int_equal(told_by(rig, "ann", 0, false).cost_micro, 1250000);
    rig_free(rig);
}

/* ---- history ---- */

static void days_stay_when_jobs_are_deleted(void **state)
{
    struct machine m;
    (void)state;
    struct rig *rig = rig_with(&m, 1);
    for (int day = 0; day < 5; day++) {
        assert_true(tell(rig, &m, (struct item){.id = "a", .job = 5, .cpu_us = 10}));
        assert_true(tell(rig, &m, (struct item){.id = "a", .job = 5, .cpu_us = 1}));
        rig->wall_ahead_ms += DAY_MS;
    }
    rig_job_state(rig, &m.node, "a", 1, "SUCCEEDED", 0, "");
    Manta__V1__JobRequest r = MANTA__V1__JOB_REQUEST__INIT;
    r.id = "a";
    rig_call(rig, HEAD_DELETE_JOB, &r.base);
    assert_int_equal(cpu_of_job(rig, "a"), 0);
    assert_true(tell(rig, &m, (struct item){.id = "a", .job = 5, .cpu_us = 100})); /* what came after it was forgotten */
    rig_restart(rig);
    uint64_t today = UINT64_C(1700000000000) + rig->wall_ahead_ms;
    assert_int_equal(cpu_of(rig, "ann"), 155);
    assert_int_equal(told_by(rig, "ann", 0, true).rows, 6);
    assert_int_equal(told_by(rig, "ann", 0, true).cpu_us, 155);
    assert_int_equal(told_by(rig, "ann", today - DAY_MS, false).cpu_us, 111);
    assert_int_equal(told_by(rig, "ann", today + DAY_MS, false).rows, 0);
    rig_free(rig);
}

static void old_days_go(void **state)
{
    struct machine m;
    (void)state;
    struct rig *rig = rig_with(&m, 1);
    for (int day = 0; day < MT_HEAD_ACCOUNT_DAYS + 20; day++) {
        assert_true(tell(rig, &m, (struct item){.id = "a", .job = 5, .cpu_us = 1}));
        rig->wall_ahead_ms += DAY_MS;
        rig_forget(rig);
    }
    size_t records = rig->record_count;
    rig_restart(rig);
    assert_int_equal(told_by(rig, "ann", 0, true).rows, MT_HEAD_ACCOUNT_DAYS);
    assert_int_equal(cpu_of(rig, "ann"), MT_HEAD_ACCOUNT_DAYS + 20); /* the sum of all has them */
    assert_true(records < MT_HEAD_ACCOUNT_DAYS + 20);
    rig_free(rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_counts_once),
        cmocka_unit_test(kills_lose_and_double_nothing),
        cmocka_unit_test(leases_on_other_nodes_are_the_users),
        cmocka_unit_test(what_a_lost_node_held_is_counted_to_its_end),
        cmocka_unit_test(a_node_with_a_price_costs_it),
        cmocka_unit_test(days_stay_when_jobs_are_deleted),
        cmocka_unit_test(old_days_go),
    };
#ifdef MANTA_PLANTS
    mt_plant = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
#endif
    (void)argc, (void)argv;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
