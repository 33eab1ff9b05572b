/* SPDX-License-Identifier: Apache-2.0
 *
 * pack_test.c - what the scaler starts for which demands, what it keeps, and the reasons that it tells: where the obstacle that a
 *               reason names is taken away, the demand is met.
 */
#include "tests/unit/scaler/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { TYPES = MT_SCL_TYPES_MAX, DEMANDS = 8 };
static struct {
    struct scl           *scl;
    struct scl_actions    out;
    struct scl_type       types[TYPES];
    struct scl_config     config;
    struct scl_demand     demands[DEMANDS];
    struct policy_request requests[DEMANDS][4];
    uint32_t              demand_count;
    uint64_t              now_ms;
    char                  told[4096];
} w;

static int begin(void **state)
{
    (void)state;
    memset(&w, 0, sizeof w);
    w.now_ms = 1000;
    w.config.types = w.types;
    return scl_new(w.now_ms, &w.scl).code;
}

static int end(void **state)
{
    (void)state;
    assert_null(scl_check(w.scl));
    scl_free(w.scl);
    mt_vec_fini(&w.out.list);
    return 0;
}

static struct scl_type *type(const char *name, int64_t cpus, int64_t gpus, const char *labels, uint32_t max)
{
    struct scl_type *t = &w.types[w.config.count++];
    *t = (struct scl_type){.max = max, .idle_ms = 1000, .boot_ms = 60000, .place = place(cpus, gpus, labels)};
    snprintf(t->name, sizeof t->name, "%s", name);
    return t;
}

static void step(struct scl_event e)
{
    e.now_ms = w.now_ms;
    e.kinds = kinds;
    assert_int_equal(scl_step(w.scl, &e, &w.out).code, 0);
}

static struct scl_demand *demand(enum scl_demand_kind kind, uint32_t count, int64_t cpus, int64_t gpus, const char *labels)
{
    struct scl_demand *d = &w.demands[w.demand_count];
    *d = (struct scl_demand){.kind = kind, .count = count, .requests = w.requests[w.demand_count]};
    for (int b = 0; b < 4; b++) {
        struct policy_request *r = &w.requests[w.demand_count][b];
        *r = (struct policy_request){.amount_count = gpus ? 2 : 1, .amounts = {{0, cpus * 1000}, {1, gpus * 1000}}};
        snprintf(r->labels, sizeof r->labels, "%s", labels);
    }
    w.demand_count++;
    return d;
}

static uint32_t started(const char *name)
{
    uint32_t n = 0;
    for (size_t i = 0; i < w.out.list.count; i++)
        n += w.out.list.data[i].kind == SCL_ACT_LAUNCH && strcmp(w.out.list.data[i].instance.type, name) == 0;
    return n;
}

static void decide(void)
{
    assert_int_equal(scl_configure(w.scl, &w.config).code, 0);
    step((struct scl_event){.kind = SCL_EV_DEMANDS, .demands = {w.demands, w.demand_count}});
    w.out.list.count = 0;
    step((struct scl_event){.kind = SCL_EV_TICK});
}

static void tell(void *user, const char *what, const char *text)
{
    (void)user;
    size_t used = strlen(w.told);
    snprintf(w.told + used, sizeof w.told - used, "%s: %s\n", what, text);
}

#define assert_told(words) \
    do { \
        w.told[0] = '\0'; \
        scl_explain_each(w.scl, kinds, tell, NULL); \
        if (!strstr(w.told, words)) \
            fail_msg("\"%s\" is not in:\n%s", words, w.told); \
    } while (0)

static void node(uint32_t id, int64_t cpus, int64_t free_cpus, uint64_t instance)
{
    struct policy_node n = place(cpus, 0, "");
    n.id = id;
    n.resources[0].free = free_cpus * 1000;
    step((struct scl_event){.kind = SCL_EV_NODE, .node = {&n, free_cpus < cpus, true, instance, "", NULL}});
}

static void shapes_are_packed(void **state)
{
    (void)state;
    type("small", 4, 0, "", 100);
    demand(SCL_LEASES, 10, 2, 0, "");
    demand(SCL_LEASES, 3, 4, 0, "");
    decide();
    assert_int_equal(started("small"), 8);
    w.out.list.count = 0;
    step((struct scl_event){.kind = SCL_EV_DEMANDS, .demands = {w.demands, w.demand_count}}); /* told again while they boot */
    step((struct scl_event){.kind = SCL_EV_TICK});
    assert_int_equal(started("small"), 0);
    assert_told("wait for nodes that are being started");
}

/* Nodes of the first and of the last one are asked for, and come. */
static void there_are_as_many_types_as_may_be(void **state)
{
    (void)state;
    for (int i = 0; i < TYPES; i++) {
        char name[16], label[16];
        snprintf(name, sizeof name, "type-%d", i);
        snprintf(label, sizeof label, "is=%d", i);
        type(name, 4, 0, label, 100);
    }
    demand(SCL_LEASES, 8, 2, 0, "is=0");
    snprintf(w.told, sizeof w.told, "is=%d", TYPES - 1);
    demand(SCL_LEASES, 8, 2, 0, w.told);
    snprintf(w.told, sizeof w.told, "type-%d", TYPES - 1);
    decide();
    assert_true(started("type-0") == 4 && started(w.told) == 4);
    w.out.list.count = 0;
    step((struct scl_event){.kind = SCL_EV_DEMANDS, .demands = {w.demands, w.demand_count}}); /* they count while they boot */
    step((struct scl_event){.kind = SCL_EV_TICK});
    assert_true(started("type-0") == 0 && started(w.told) == 0);
}

static void what_is_free_is_used_first(void **state)
{
    (void)state;
    type("small", 4, 0, "", 100);
    demand(SCL_LEASES, 4, 2, 0, "");
    node(1, 4, 2, 0);
    node(2, 4, 4, 0);
    decide();
    assert_int_equal(started("small"), 1);
}

/* One of each fills a node's CPUs and GPUs; two of the first kind fill the CPUs and leave the GPUs. */
static void shapes_that_go_together_share_nodes(void **state)
{
    (void)state;
    type("gpus", 10, 10, "", 100);
    demand(SCL_LEASES, 20, 5, 1, "");
    demand(SCL_LEASES, 10, 1, 4, "");
    decide();
    assert_in_range(started("gpus"), 11, 13);
}

/* A node is filled with what it suits first; a shape that has a better type of its own only takes what is left over. */
static void no_dearer_type_is_bought_for_company(void **state)
{
    (void)state;
    type("gpus", 8, 4, "", 100)->price = 10000;
    type("plain", 8, 0, "", 100)->price = 1000;
    demand(SCL_LEASES, 8, 2, 1, "");
    demand(SCL_LEASES, 40, 4, 0, "");
    decide();
    assert_int_equal(started("gpus"), 2);
    assert_int_equal(started("plain"), 20);
}

static void count_one(void *user, const struct scl_instance *i)
{
    *(uint32_t *)user += i->state == SCL_WANTED || i->state == SCL_LAUNCHING;
}

/* More than the provider is asked for at a time: the others wait for their turn, and are wanted as long as what they are for. */
static void what_waits_for_its_turn_is_not_given_up(void **state)
{
    (void)state;
    uint32_t count = 0;
    type("small", 4, 0, "", 1000);
    demand(SCL_LEASES, 3 * MT_SCL_LAUNCHING_MAX, 4, 0, "");
    decide();
    for (int round = 0; round < 5; round++) {
        w.out.list.count = 0;
        w.now_ms += 10;
        step((struct scl_event){.kind = SCL_EV_TICK});
        for (size_t i = 0; i < w.out.list.count; i++)
            assert_int_equal(w.out.list.data[i].kind, SCL_ACT_LIST);
    }
    scl_instances_each(w.scl, count_one, &count);
    assert_int_equal(count, 3 * MT_SCL_LAUNCHING_MAX);
}

static void gangs_are_whole_or_nothing(void **state)
{
    (void)state;
    type("small", 4, 0, "", 2);
    demand(SCL_GANG, 3, 1, 0, "")->strategy = POLICY_GROUP_STRICT_SPREAD;
    decide();
    assert_int_equal(started("small"), 0);
    assert_told("of type small only 2 more");
    w.types[0].max = 3; /* the obstacle is taken away */
    decide();
    assert_int_equal(started("small"), 3);
}

static void a_strict_gang_is_on_one_node(void **state)
{
    (void)state;
    type("small", 4, 0, "", 10);
    type("large", 8, 0, "", 10);
    demand(SCL_GANG, 3, 2, 0, "")->strategy = POLICY_GROUP_STRICT_PACK;
    decide();
    assert_int_equal(started("small"), 0);
    assert_int_equal(started("large"), 1);
}

/* Two of three stand: only the third is looked for, and not where the others are. */
static void a_broken_gang_lacks_what_it_lacks(void **state)
{
    (void)state;
    static const uint32_t held[] = {1, 2};
    struct scl_demand    *d;
    type("small", 4, 0, "", 10);
    node(1, 4, 3, 0);
    node(2, 4, 3, 0);
    d = demand(SCL_GANG, 1, 1, 0, "");
    d->strategy = POLICY_GROUP_STRICT_SPREAD;
    d->held = held;
    d->held_count = 2;
    decide();
    assert_int_equal(started("small"), 1);
}

static void requests_count_what_nodes_have(void **state)
{
    (void)state;
    type("small", 4, 0, "", 10);
    node(1, 4, 0, 0); /* all in use */
    demand(SCL_REQUEST, 8, 1, 0, "");
    decide();
    assert_int_equal(started("small"), 1);
}

static void the_best_type_is_taken(void **state)
{
    (void)state;
    type("gpu", 4, 1, "zone=a", 10);
    type("dear", 4, 0, "zone=a", 10)->price = 3000;
    type("cheap", 4, 0, "zone=b", 10)->price = 1000;
    demand(SCL_LEASES, 1, 4, 0, "");
    decide();
    assert_int_equal(started("cheap"), 1);
    w.demand_count = 0;
    demand(SCL_LEASES, 1, 3, 0, "zone=a;zone=b"); /* in this order; what comes already is only the second choice */
    demand(SCL_LEASES, 1, 4, 1, "");
    demand(SCL_LEASES, 1, 4, 0, "");
    decide();
    assert_int_equal(started("gpu"), 1);
}

static void the_minimum_stands(void **state)
{
    (void)state;
    type("small", 4, 0, "", 10)->min = 2;
    decide();
    assert_int_equal(started("small"), 2);
    decide();
    assert_int_equal(started("small"), 0);
}

static void what_can_never_be_is_said(void **state)
{
    (void)state;
    type("small", 4, 0, "", 10);
    demand(SCL_LEASES, 1, 64, 0, "");
    decide();
    assert_told("no node type can ever hold it");
    assert_false(scl_could_hold(w.scl, &w.requests[0][0]));
    type("huge", 64, 0, "", 1);
    decide();
    assert_int_equal(started("huge"), 1);
    assert_true(scl_could_hold(w.scl, &w.requests[0][0]));
}

static void a_refused_type_is_waited_for(void **state)
{
    (void)state;
    type("small", 4, 0, "", 10);
    demand(SCL_LEASES, 1, 4, 0, "");
    decide();
    step((struct scl_event){.kind = SCL_EV_LAUNCHED, .answer = {1, SCL_REFUSED, "", "no quota"}});
    w.out.list.count = 0;
    step((struct scl_event){.kind = SCL_EV_TICK});
    assert_int_equal(started("small"), 0);
    assert_told("no quota");
    w.now_ms += 2 * MT_SCL_BACK_OFF_MS;
    step((struct scl_event){.kind = SCL_EV_TICK});
    assert_int_equal(started("small"), 1);
}

/* One listing is asked for and answered, where one is due. Returns whether anything was to be ended. */
static bool list(uint64_t number, bool is_waiting, const char *failed)
{
    bool ends = false, is_asked = false;
    step((struct scl_event){.kind = SCL_EV_TICK});
    struct scl_listed item = {.instance = number, .handle = "h", .is_waiting = is_waiting};
    struct scl_event  e = {.kind = SCL_EV_LISTED, .listed = {.is_good = true, .items = &item, .count = 1}};
    snprintf(item.failed, sizeof item.failed, "%s", failed);
    for (size_t i = 0; i < w.out.list.count; i++) {
        ends = ends || w.out.list.data[i].kind == SCL_ACT_TERMINATE;
        is_asked = is_asked || w.out.list.data[i].kind == SCL_ACT_LIST;
        if (w.out.list.data[i].kind == SCL_ACT_LIST)
            e.listed.sequence = w.out.list.data[i].sequence;
    }
    w.out.list.count = 0;
    if (is_asked)
        step(e);
    return ends;
}

/* The time that a job has to boot begins when it leaves its queue. */
static void what_waits_in_a_queue_does_not_boot(void **state)
{
    (void)state;
    type("job", 2, 0, "", 1);
    demand(SCL_LEASES, 1, 1, 0, "");
    decide();
    step((struct scl_event){.kind = SCL_EV_LAUNCHED, .answer = {.instance = 1, .outcome = SCL_DONE, .handle = "h", .text = ""}});
    for (int s = 0; s < 600; s++, w.now_ms += 1000)
        assert_false(list(1, true, ""));
    for (int s = 0; s < 45; s++, w.now_ms += 1000)
        assert_false(list(1, false, ""));
    bool ends = false;
    for (int s = 0; s < 30; s++, w.now_ms += 1000)
        ends = list(1, false, "") || ends;
    assert_true(ends);
}

/* What has failed by the provider's word is ended before its time to boot is over; the reason is told. */
static void what_the_provider_calls_failed_is_ended(void **state)
{
    (void)state;
    type("pod", 2, 0, "", 1);
    demand(SCL_LEASES, 1, 1, 0, "");
    decide();
    step((struct scl_event){.kind = SCL_EV_LAUNCHED, .answer = {.instance = 1, .outcome = SCL_DONE, .handle = "h", .text = ""}});
    bool ends = false;
    for (int s = 0; s < 40 && !ends; s++) {
        w.now_ms += 1000;
        assert_false(list(1, false, "no such image"));
        for (size_t i = 0; i < w.out.list.count; i++) /* of that listing */
            ends = ends || w.out.list.data[i].kind == SCL_ACT_TERMINATE;
    }
    assert_true(ends);
    step((struct scl_event){.kind = SCL_EV_TICK});
    assert_told("no such image");
}

/* ---- spot nodes, zones ---- */

static struct scl_type *spot(const char *zone, uint32_t max)
{
    struct scl_type *t = type("spot", 4, 0, "", max);
    t->price = 300;
    t->is_spot = true;
    snprintf(t->zone, sizeof t->zone, "%s", zone);
    return t;
}

static uint32_t started_in(const char *zone)
{
    uint32_t n = 0;
    for (size_t i = 0; i < w.out.list.count; i++)
        n += w.out.list.data[i].kind == SCL_ACT_LAUNCH && strcmp(w.out.list.data[i].instance.zone, zone) == 0;
    return n;
}

/* As what was launched; idle. */
static void joins(uint64_t instance, uint32_t id, enum policy_state state)
{
    struct policy_node n = place(4, 0, "");
    n.id = id;
    n.state = state;
    step((struct scl_event){.kind = SCL_EV_NODE, .node = {&n, false, false, instance, "", "a notice"}});
}

static void so_many_nodes_are_no_spot_nodes(void **state)
{
    (void)state;
    spot("", 10);
    type("safe", 4, 0, "", 10)->price = 1000;
    w.config.on_demand_min = 2;
    demand(SCL_LEASES, 6, 4, 0, "");
    decide();
    assert_int_equal(started("safe"), 2);
    assert_int_equal(started("spot"), 4);
    for (uint64_t i = 1; i <= 6; i++)
        joins(i, (uint32_t)i, POLICY_ALIVE);
    w.demand_count = 0;
    decide();
    assert_told("2 nodes at least are no spot nodes while there are such (on_demand_min)");
}

static void spot_nodes_stand_in_for_what_cannot_be_had(void **state)
{
    (void)state;
    spot("", 10);
    type("safe", 4, 0, "", 1)->price = 1000;
    w.config.on_demand_min = 2;
    demand(SCL_LEASES, 4, 4, 0, "");
    decide();
    assert_int_equal(started("safe"), 1);
    assert_int_equal(started("spot"), 3);
}

static void a_zone_that_took_a_node_away_comes_last_for_a_while(void **state)
{
    (void)state;
    spot("a", 10);
    spot("b", 10);
    demand(SCL_LEASES, 1, 4, 0, "");
    decide();
    assert_int_equal(started_in("a"), 1);
    joins(1, 1, POLICY_ALIVE);
    joins(1, 1, POLICY_DRAINING); /* by the provider's notice: another is started at once */
    decide();
    assert_int_equal(started_in("b"), 1);
    joins(2, 2, POLICY_ALIVE);
    step((struct scl_event){.kind = SCL_EV_NODE_GONE, .gone = {2}}); /* without one */
    type("safe", 4, 0, "", 10)->price = 1000;
    decide();
    assert_int_equal(started("safe"), 1);
    w.now_ms += MT_SCL_AVOID_MS + 1;
    w.demands[0].count = 2;
    decide();
    assert_int_equal(started_in("a"), 1);
}

static void a_zone_that_refuses_is_passed_over(void **state)
{
    (void)state;
    spot("a", 10);
    spot("b", 10);
    demand(SCL_LEASES, 1, 4, 0, "");
    decide();
    step((struct scl_event){.kind = SCL_EV_LAUNCHED, .answer = {1, SCL_REFUSED, "", "no capacity"}});
    w.out.list.count = 0;
    step((struct scl_event){.kind = SCL_EV_TICK});
    assert_int_equal(started_in("b"), 1);
    step((struct scl_event){.kind = SCL_EV_LAUNCHED, .answer = {2, SCL_REFUSED, "", "no capacity"}});
    w.out.list.count = 0;
    step((struct scl_event){.kind = SCL_EV_TICK});
    assert_told("type spot in zone a could not be started (no capacity)");
}

static void nodes_are_spread_over_zones(void **state)
{
    (void)state;
    spot("a", 10)->is_spread = true;
    spot("b", 10)->is_spread = true;
    spot("c", 10)->is_spread = true;
    demand(SCL_LEASES, 7, 4, 0, "");
    w.types[0].min = w.types[1].min = w.types[2].min = 4; /* of all zones together */
    decide();
    assert_in_range(started_in("a"), 2, 3);
    assert_in_range(started_in("b"), 2, 3);
    assert_in_range(started_in("c"), 2, 3);
    w.demands[0].count = 20;
    decide();
    assert_int_equal(started("spot"), 3); /* the maximum is of all zones */
    assert_told("type spot has its maximum of 10 nodes");
}

/* ---- consolidation ---- */

static uint32_t drained(void)
{
    for (size_t i = 0; i < w.out.list.count; i++)
        if (w.out.list.data[i].kind == SCL_ACT_DRAIN)
            return w.out.list.data[i].instance.node;
    return 0;
}

static void pass(uint64_t ms)
{
    w.now_ms += ms;
    w.out.list.count = 0;
    step((struct scl_event){.kind = SCL_EV_TICK});
}

/* Five nodes of 4 CPUs that have joined, and the last of which use `used` of them. */
static void five_nodes(int64_t used)
{
    type("small", 4, 0, "", 10);
    w.config.consolidate_ms = 600000;
    demand(SCL_LEASES, 5, 4, 0, "");
    decide();
    for (uint32_t i = 1; i <= 5; i++)
        node(i, 4, i < 5 ? 1 : 4 - used, i);
    w.demand_count = 0;
    decide();
}

static void a_node_that_is_little_used_goes(void **state)
{
    (void)state;
    five_nodes(1);
    pass(599000);
    assert_int_equal(drained(), 0);
    assert_told("node 5: kept: it is in use, but little, for 599 s of 600 s");
    pass(1000);
    assert_int_equal(drained(), 0); /* looked at again before it goes */
    pass(MT_SCL_SPARE_MS);
    assert_int_equal(drained(), 5);
    assert_told("node 5: leaves: little used for 615 s, and its work fits on others");
    pass(3600000);
    assert_int_equal(drained(), 0);
}

/* Its work must fit twice; it must have been little used all the time; what waits comes first; and what can't move stays. */
static void a_node_whose_work_has_no_room_stays(void **state)
{
    (void)state;
    five_nodes(2);
    pass(600000);
    pass(MT_SCL_SPARE_MS);
    assert_int_equal(drained(), 0);
    node(5, 4, 0, 5);
    node(5, 4, 3, 5);
    pass(599000);
    pass(MT_SCL_SPARE_MS - 1000);
    assert_int_equal(drained(), 0);
    demand(SCL_LEASES, 3, 1, 0, ""); /* leaves room for one */
    decide();
    pass(MT_SCL_SPARE_MS);
    assert_int_equal(drained(), 0);
}

static void a_node_with_what_cannot_move_stays(void **state)
{
    (void)state;
    five_nodes(1);
    struct policy_node n = place(4, 0, "");
    n.id = 5;
    n.resources[0].free = 3000;
    step((struct scl_event){.kind = SCL_EV_NODE, .node = {&n, true, false, 5, "", NULL}});
    pass(600000);
    pass(MT_SCL_SPARE_MS);
    assert_int_equal(drained(), 0);
    assert_told("node 5: kept: it is in use\n");
}

/* ---- jobs with a deadline ---- */

static struct scl_pace pace;

static void paced_with(uint64_t left_s, uint64_t time_s, uint64_t risk_s, uint32_t on)
{
    pace = (struct scl_pace){.deadline_ms = w.now_ms + time_s * 1000, .left_ms = left_s * 1000, .change_ms = 60000, .node = on};
    pace.risk_ms = risk_s * 1000;
    w.demand_count = 0;
    demand(SCL_LEASES, 1, 4, 0, "")->pace = &pace;
    decide();
}

static void paced(uint64_t left_s, uint64_t time_s, uint32_t on)
{
    paced_with(left_s, time_s, 0, on);
}

static void spot_and_sure(void)
{
    struct scl_type *t = spot("", 10);
    snprintf(t->place.labels, sizeof t->place.labels, "manta.spot=true");
    type("sure", 4, 0, "", 10)->price = 1000;
}

static void a_job_with_time_waits_for_a_spot_node(void **state)
{
    (void)state;
    spot_and_sure();
    paced(3600, 36000, 0);
    assert_int_equal(started("spot"), 1);
    step((struct scl_event){.kind = SCL_EV_LAUNCHED, .answer = {1, SCL_REFUSED, "", "no capacity"}});
    pass(500);
    assert_int_equal(started("sure"), 0);
    assert_told("type spot could not be started (no capacity)");
    assert_told("and waits for a spot node");
    pass(1000 * (36000 - 3600 - 2 * (60 + 60 + 30) - 5));
    assert_int_equal(started("sure"), 0);
    pass(5000); /* by a time that it has told */
    assert_int_equal(started("sure"), 1);
}

static void a_job_without_time_has_a_sure_node(void **state)
{
    (void)state;
    spot_and_sure();
    paced(3600, 3700, 0);
    assert_int_equal(started("spot"), 0);
    assert_int_equal(started("sure"), 1);
    struct policy_node n = place(4, 0, "");
    n.id = 1;
    n.resources[0].free = 0;
    step((struct scl_event){.kind = SCL_EV_NODE, .node = {&n, true, false, 1, "", NULL}});
    paced(3600, 3700, 1);
    assert_int_equal(w.out.list.count, 0);
    assert_told("runs on node 1, and stays there");
}

static void a_job_with_time_goes_from_a_sure_node_to_a_spot_node(void **state)
{
    (void)state;
    spot_and_sure();
    paced(36000, 38000, 0); /* more than can be expected: whatever there is */
    step((struct scl_event){.kind = SCL_EV_LAUNCHED, .answer = {1, SCL_REFUSED, "", "no capacity"}});
    pass(500);
    assert_int_equal(started("sure"), 1);
    struct policy_node n = place(4, 0, "");
    n.id = 2;
    n.resources[0].free = 0;
    step((struct scl_event){.kind = SCL_EV_NODE, .node = {&n, true, false, 2, "", NULL}});
    paced(36000, 38000, 2);
    assert_int_equal(started("spot"), 1);
    assert_int_equal(drained(), 0);
    assert_told("runs on node 2, and goes to a spot node when one is there");
    snprintf(n.labels, sizeof n.labels, "manta.spot=true");
    n.id = 3;
    n.resources[0].free = 4000;
    step((struct scl_event){.kind = SCL_EV_NODE, .node = {&n, false, false, 3, "", NULL}});
    pass(1);
    assert_int_equal(drained(), 2);
}

/* All of it may be lost on a spot node: it begins there only where it could be done again on a sure one. */
static void a_job_that_starts_over_needs_time_for_twice_its_work(void **state)
{
    (void)state;
    spot_and_sure();
    paced_with(3600, 2 * 3600, 3600, 0);
    assert_int_equal(started("spot"), 0);
    assert_int_equal(started("sure"), 1);
}

static void a_job_that_starts_over_may_be_on_a_spot_node_before(void **state)
{
    (void)state;
    spot_and_sure();
    paced_with(3600, 2 * 3600 + 400, 3600, 0);
    assert_int_equal(started("spot"), 1);
    assert_int_equal(started("sure"), 0);
}

static void without_spot_nodes_a_job_waits_for_nothing(void **state)
{
    char                        labels[MT_SCL_NAME_SIZE], why[MT_SCL_WHY_SIZE];
    const struct policy_request r = {.amount_count = 1, .amounts = {{0, 4000}}};
    (void)state;
    type("sure", 4, 0, "", 10);
    paced(3600, 36000, 0);
    assert_int_equal(started("sure"), 1);
    scl_pace_ask(w.scl, &pace, &r, w.now_ms, labels, why, sizeof why);
    assert_string_equal(labels, "");
}

/* One that the scaler has not started costs nothing more. */
static void a_job_stays_on_a_node_that_is_there_anyway(void **state)
{
    (void)state;
    spot_and_sure();
    struct policy_node n = place(4, 0, "");
    n.id = 1;
    n.resources[0].free = 0;
    step((struct scl_event){.kind = SCL_EV_NODE, .node = {&n, true, false, 0, "", NULL}});
    paced(3600, 36000, 1);
    assert_int_equal(started("spot") + started("sure"), 0);
    assert_told("3600 s of work and 36000 s until its deadline; runs on node 1, and stays there");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shapes_are_packed, begin, end),
        cmocka_unit_test_setup_teardown(there_are_as_many_types_as_may_be, begin, end),
        cmocka_unit_test_setup_teardown(what_is_free_is_used_first, begin, end),
        cmocka_unit_test_setup_teardown(shapes_that_go_together_share_nodes, begin, end),
        cmocka_unit_test_setup_teardown(no_dearer_type_is_bought_for_company, begin, end),
        cmocka_unit_test_setup_teardown(what_waits_for_its_turn_is_not_given_up, begin, end),
        cmocka_unit_test_setup_teardown(what_the_provider_calls_failed_is_ended, begin, end),
        cmocka_unit_test_setup_teardown(gangs_are_whole_or_nothing, begin, end),
        cmocka_unit_test_setup_teardown(a_strict_gang_is_on_one_node, begin, end),
        cmocka_unit_test_setup_teardown(a_broken_gang_lacks_what_it_lacks, begin, end),
        cmocka_unit_test_setup_teardown(requests_count_what_nodes_have, begin, end),
        cmocka_unit_test_setup_teardown(the_best_type_is_taken, begin, end),
        cmocka_unit_test_setup_teardown(the_minimum_stands, begin, end),
        cmocka_unit_test_setup_teardown(what_can_never_be_is_said, begin, end),
        cmocka_unit_test_setup_teardown(a_refused_type_is_waited_for, begin, end),
        cmocka_unit_test_setup_teardown(what_waits_in_a_queue_does_not_boot, begin, end),
        cmocka_unit_test_setup_teardown(so_many_nodes_are_no_spot_nodes, begin, end),
        cmocka_unit_test_setup_teardown(spot_nodes_stand_in_for_what_cannot_be_had, begin, end),
        cmocka_unit_test_setup_teardown(a_zone_that_took_a_node_away_comes_last_for_a_while, begin, end),
        cmocka_unit_test_setup_teardown(a_zone_that_refuses_is_passed_over, begin, end),
        cmocka_unit_test_setup_teardown(nodes_are_spread_over_zones, begin, end),
        cmocka_unit_test_setup_teardown(a_node_that_is_little_used_goes, begin, end),
        cmocka_unit_test_setup_teardown(a_node_whose_work_has_no_room_stays, begin, end),
        cmocka_unit_test_setup_teardown(a_node_with_what_cannot_move_stays, begin, end),
        cmocka_unit_test_setup_teardown(a_job_with_time_waits_for_a_spot_node, begin, end),
        cmocka_unit_test_setup_teardown(a_job_without_time_has_a_sure_node, begin, end),
        cmocka_unit_test_setup_teardown(a_job_with_time_goes_from_a_sure_node_to_a_spot_node, begin, end),
        cmocka_unit_test_setup_teardown(a_job_that_starts_over_needs_time_for_twice_its_work, begin, end),
        cmocka_unit_test_setup_teardown(a_job_that_starts_over_may_be_on_a_spot_node_before, begin, end),
        cmocka_unit_test_setup_teardown(without_spot_nodes_a_job_waits_for_nothing, begin, end),
        cmocka_unit_test_setup_teardown(a_job_stays_on_a_node_that_is_there_anyway, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
