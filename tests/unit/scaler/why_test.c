/* SPDX-License-Identifier: Apache-2.0
 *
 * why_test.c - what the scaler says of a demand that is not met, and of a node that is kept, is true: in drawn clusters, where all
 *              that a reason names is taken away, the demand is placed, and the node leaves.
 */
#include "core/base/rng.h"
#include "tests/unit/scaler/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEEDS = 3000,
    TYPES_MAX = 6, /* zones of one are types of their own */
    DEMANDS_MAX = 8,
    NODES_MAX = 8,
    BUNDLES_MAX = 4,
    MANY = 1000,
    ROW_SIZE = 512,
    HOUR_MS = 3600000,
    FIRST_OURS = 101
};

static struct {
    uint64_t              seed, now_ms;
    mt_rng                rng;
    struct scl           *scl;
    struct scl_actions    out;
    struct scl_type       types[TYPES_MAX + 1];
    struct scl_config     config;
    struct scl_demand     demands[DEMANDS_MAX];
    struct policy_request requests[DEMANDS_MAX][BUNDLES_MAX];
    uint32_t              demand_count, node_count;
    struct policy_node    nodes[NODES_MAX];
    bool                  is_busy[NODES_MAX];
    char                  what[ROW_SIZE], text[ROW_SIZE]; /* of the row that is looked for */
} w;

static uint32_t below(uint32_t n)
{
    return (uint32_t)mt_rng_below(&w.rng, n);
}

static void step(struct scl_event e)
{
    e.now_ms = w.now_ms;
    e.kinds = kinds;
    w.out.list.count = 0;
    assert_int_equal(scl_step(w.scl, &e, &w.out).code, 0);
    assert_null(scl_check(w.scl));
}

static void draw_types(void)
{
    uint32_t count = below(TYPES_MAX + 1);
    for (uint32_t t = 0; t < count; t++) {
        struct scl_type *type = &w.types[t];
        *type = (struct scl_type){.idle_ms = 1000 * below(20), .boot_ms = 24 * HOUR_MS, .price = below(3) * 1000};
        type->max = below(6);
        type->min = type->max && !below(4) ? 1 : 0;
        type->place = place(1 << below(4), below(2) * below(4), below(2) ? "zone=a" : "zone=b");
        type->is_spot = !below(3);
        snprintf(type->name, sizeof type->name, "type%u", t);
        if (t && !below(3)) {
            struct scl_type *other = type - 1;
            bool             is_first = !other->zone[0];
            *type = *other;
            type->is_spread = below(2);
            snprintf(other->zone, sizeof other->zone, "%s", is_first ? "one" : type->zone);
            snprintf(type->zone, sizeof type->zone, "%c", 'a' + (char)t);
        }
    }
    w.config = (struct scl_config){.types = w.types, .count = count, .max = below(2) * (1 + below(6)), .is_down = !below(20)};
    w.config.on_demand_min = below(2) * below(4);
}

static void draw_demands(void)
{
    w.demand_count = 1 + below(DEMANDS_MAX);
    for (uint32_t d = 0; d < w.demand_count; d++) {
        struct scl_demand *demand = &w.demands[d];
        bool               is_gang = !below(3);
        *demand = (struct scl_demand){.kind = is_gang ? SCL_GANG : below(4) ? SCL_LEASES : SCL_REQUEST, .requests = w.requests[d]};
        demand->count = is_gang ? 1 + below(BUNDLES_MAX) : 1 + below(20);
        demand->strategy = (enum policy_strategy)below(4);
        snprintf(demand->name, sizeof demand->name, "d%u.", d);
        for (uint32_t b = 0; b < BUNDLES_MAX; b++) {
            struct policy_request *r = &w.requests[d][b];
            *r = (struct policy_request){.amount_count = 1 + below(2), .amounts = {{0, 1000 * below(10)}, {1, 1000 * below(3)}}};
            snprintf(r->labels, sizeof r->labels, "%s", below(3) ? "" : below(2) ? "zone=a" : "zone=b;zone=a");
        }
    }
}

static void tell_node(uint32_t k)
{
    step((struct scl_event){.kind = SCL_EV_NODE, .node = {&w.nodes[k], w.is_busy[k], false, 0, "", NULL}});
}

static void draw_nodes(void)
{
    w.node_count = below(NODES_MAX);
    for (uint32_t k = 0; k < w.node_count; k++) {
        w.nodes[k] = place(1 << below(4), below(3), below(2) ? "zone=a" : "");
        w.nodes[k].id = k + 1;
        w.is_busy[k] = below(2);
        for (int i = 0; i < 2 && w.is_busy[k]; i++)
            w.nodes[k].resources[i].free = 1000 * below((uint32_t)(w.nodes[k].resources[i].total / 1000 + 1));
    }
}

/* Types that have refused, and instances that have joined, or never will. */
static void history(void)
{
    step((struct scl_event){.kind = SCL_EV_TICK});
    uint32_t launched = 0, node = FIRST_OURS;
    uint64_t numbers[64];
    char     types[64][MT_SCL_NAME_SIZE], zones[64][MT_SCL_NAME_SIZE];
    for (size_t i = 0; i < w.out.list.count; i++)
        if (w.out.list.data[i].kind == SCL_ACT_LAUNCH && launched < 64) {
            snprintf(types[launched], sizeof types[0], "%s", w.out.list.data[i].instance.type);
            snprintf(zones[launched], sizeof zones[0], "%s", w.out.list.data[i].instance.zone);
            numbers[launched++] = w.out.list.data[i].instance.number;
        }
    for (uint32_t i = 0; i < launched; i++) {
        struct scl_event e = {.kind = SCL_EV_LAUNCHED, .answer = {numbers[i], SCL_DONE, "", "no quota"}};
        uint32_t         fate = below(6);
        w.now_ms += below(3) * 100;
        if (fate == 0)
            e.answer.outcome = SCL_REFUSED;
        if (fate < 4)
            step(e);
        if (fate == 1 || fate == 2) {
            for (uint32_t t = 0; t < w.config.count; t++)
                if (strcmp(w.types[t].name, types[i]) == 0 && strcmp(w.types[t].zone, zones[i]) == 0) {
                    struct policy_node n = w.types[t].place;
                    n.id = node++;
                    n.state = POLICY_ALIVE;
                    bool is_busy = below(2);
                    n.resources[0].free = is_busy ? 0 : n.resources[0].total;
                    step((struct scl_event){.kind = SCL_EV_NODE, .node = {&n, is_busy, false, numbers[i], "", NULL}});
                }
        }
    }
}

static void tell_demands(int only) /* -1: all; else the others only where they are met */
{
    struct scl_demand list[DEMANDS_MAX];
    size_t            count = 0;
    for (uint32_t d = 0; d < w.demand_count; d++)
        if (only < 0 || (uint32_t)only == d || w.demands[d].name[0] == 'm')
            list[count++] = w.demands[d];
    step((struct scl_event){.kind = SCL_EV_DEMANDS, .demands = {list, count}});
}

static void world(uint64_t seed)
{
    w.seed = seed;
    w.rng.state = seed * 0xd1342543de82ef95u;
    w.now_ms = 1000;
    draw_types();
    draw_demands();
    draw_nodes();
    assert_int_equal(scl_new(w.now_ms, &w.scl).code, 0);
    bool goes_down = w.config.is_down;
    w.config.is_down = false;
    assert_int_equal(scl_configure(w.scl, &w.config).code, 0);
    for (uint32_t k = 0; k < w.node_count; k++)
        tell_node(k);
    tell_demands(-1);
    history();
    w.config.is_down = goes_down;
    assert_int_equal(scl_configure(w.scl, &w.config).code, 0);
    step((struct scl_event){.kind = SCL_EV_TICK});
}

static void world_end(void)
{
    scl_free(w.scl);
    mt_vec_fini(&w.out.list);
}

/* ---- what is said ---- */

static void look(void *user, const char *what, const char *text)
{
    if (strstr(what, user))
        snprintf(w.text, sizeof w.text, "%s", text);
}

static const char *said(char *name)
{
    w.text[0] = '\0';
    scl_explain_each(w.scl, kinds, look, name);
    return w.text;
}

static bool is_unmet(const char *text)
{
    return strstr(text, " unmet: ") != NULL;
}

/* ---- the obstacle goes ---- */

static void raise_maxima(const char *text)
{
    for (uint32_t t = 0; t < w.config.count; t++) {
        char full[128], some[128];
        snprintf(full, sizeof full, "type %s has its maximum of %u nodes", w.types[t].name, w.types[t].max);
        snprintf(some, sizeof some, "of type %s only ", w.types[t].name);
        if (strstr(text, full) || strstr(text, some))
            w.types[t].max = MANY;
    }
    if (strstr(text, "the cluster has its maximum of ") || strstr(text, "the cluster may have only "))
        w.config.max = 0;
}

static void wait_for_types(const char *text)
{
    uint64_t seconds = 0;
    for (const char *at = text; (at = strstr(at, "next try in ")); at++)
        if (sscanf(at, "next try in %" SCNu64, &seconds) == 1)
            w.now_ms += seconds * 1000;
}

/* One that has all of all resources, as seldom as it may be wanted. */
static void add_type(const char *text)
{
    if (!strstr(text, "no node type can ever hold it") && !strstr(text, "the cluster has no node types"))
        return;
    struct scl_type *type = &w.types[w.config.count++];
    *type = (struct scl_type){.max = MANY, .boot_ms = HOUR_MS, .place = place(100, 100, "zone=a")};
    snprintf(type->name, sizeof type->name, "all");
    w.config.max = 0; /* what is said is true of a larger cluster too */
}

static void take_away(const char *text)
{
    raise_maxima(text);
    wait_for_types(text);
    add_type(text);
    if (strstr(text, "the cluster goes down"))
        w.config.is_down = false;
    assert_int_equal(scl_configure(w.scl, &w.config).code, 0);
}

static void a_demand_is_placed_without_its_obstacles(void **state)
{
    (void)state;
    uint32_t unmet = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (uint32_t d = 0; d < DEMANDS_MAX; d++) {
            char why[ROW_SIZE], name[16];
            world(seed);
            for (uint32_t o = 0; o < w.demand_count; o++)
                if (!is_unmet(said(w.demands[o].name)))
                    w.demands[o].name[0] = 'm'; /* it is met, and stays where it is */
            snprintf(name, sizeof name, "d%u.", d);
            snprintf(why, sizeof why, "%s", d < w.demand_count ? said(name) : "");
            if (is_unmet(why)) {
                unmet++;
                take_away(why);
                tell_demands((int)d);
                step((struct scl_event){.kind = SCL_EV_TICK});
                if (is_unmet(said(name)))
                    fail_msg("seed %" PRIu64 ": %s: said \"%s\", and without that: \"%s\"", seed, name, why, w.text);
            }
            world_end();
        }
    print_message("%u unmet demands in %u clusters\n", unmet, SEEDS);
    assert_true(unmet > SEEDS);
}

/* ---- nodes ---- */

static void look_node(void *user, const char *what, const char *text)
{
    if (strcmp(what, user) == 0)
        snprintf(w.text, sizeof w.text, "%s", text);
}

static const char *said_of_node(uint32_t node)
{
    char what[32];
    snprintf(what, sizeof what, "node %u", node);
    w.text[0] = '\0';
    scl_explain_each(w.scl, kinds, look_node, what);
    return w.text;
}

static void count_leaving(void *user, const char *what, const char *text)
{
    *(uint32_t *)user += strncmp(what, "node ", 5) == 0 && strncmp(text, "leaves", 6) == 0;
}

static uint32_t leaving(void)
{
    uint32_t count = 0;
    scl_explain_each(w.scl, kinds, count_leaving, &count);
    return count;
}

/* All that keeps it goes. False: it is not the scaler's to give back, or it is in use. */
static bool let_go(const char *text)
{
    uint64_t    idle, limit;
    const char *young = strstr(text, "idle for ");
    if (!young || strncmp(text, "kept", 4) != 0)
        return false;
    for (uint32_t t = 0; strstr(text, "the minimum of type") && t < w.config.count; t++)
        w.types[t].min = 0;
    if (strstr(text, "(on_demand_min)"))
        w.config.on_demand_min = 0;
    assert_int_equal(scl_configure(w.scl, &w.config).code, 0);
    if (strstr(text, "something that waits"))
        step((struct scl_event){.kind = SCL_EV_DEMANDS});
    assert_int_equal(sscanf(young, "idle for %" SCNu64 " s of %" SCNu64 " s", &idle, &limit), 2);
    w.now_ms += limit < idle ? 0 : (limit + 1 - idle) * 1000; /* both are whole seconds */
    return true;
}

/* It, or one that is as good: of two, the minimum keeps whichever is looked at last. */
static void a_node_leaves_without_what_keeps_it(void **state)
{
    (void)state;
    uint32_t kept = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (uint32_t node = FIRST_OURS; node < FIRST_OURS + 8; node++) {
            char why[ROW_SIZE];
            world(seed);
            w.now_ms += below(3) * 1000;
            step((struct scl_event){.kind = SCL_EV_TICK});
            snprintf(why, sizeof why, "%s", said_of_node(node));
            uint32_t before = leaving();
            if (let_go(why)) {
                kept++;
                step((struct scl_event){.kind = SCL_EV_TICK});
                if (strncmp(said_of_node(node), "leaves", 6) != 0 && leaving() == before)
                    fail_msg("seed %" PRIu64 ": node %u: said \"%s\", and without that: \"%s\"", seed, node, why, w.text);
            }
            world_end();
        }
    print_message("%u kept nodes in %u clusters\n", kept, SEEDS);
    assert_true(kept > SEEDS / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_demand_is_placed_without_its_obstacles),
        cmocka_unit_test(a_node_leaves_without_what_keeps_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
