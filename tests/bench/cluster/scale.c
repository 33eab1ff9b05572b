/* SPDX-License-Identifier: Apache-2.0
 *
 * scale.c - what a decision of the scaler costs, and how many nodes it buys.
 *
 *   decide      10,000 nodes, 50 types, 1,000,000 that wait in 100 shapes: one decision from nothing
 *   decide.b    one more where one node has changed          decide.c   a decision about 1 M of one shape / about 1 k of it
 *   decide.d    the former alone, in us
 *   pack        nodes bought / the bound below, on average over 1,000 draws of 100 shapes.   .b: the worst of them
 *
 * The bound of a draw: of each resource, what all want together / what a node has, the largest of them, rounded up. No plan needs
 * fewer. Each draw is scaled so that the bound is at least 200 nodes.
 *
 * Thread: the main one.
 */
#include "tests/bench/cluster/scale.h"

#include "core/base/rng.h"
#include "scheduler/scaler/scaler.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NODES = 10000, TYPES = 50, SHAPES = 100, EACH = 10000, ROUNDS = 5, EVENTS = 10, DRAWS = 1000, BOUND_MIN = 200 };

static const char *const kinds[] = {"CPU", "memory", "GPU"};

struct rig {
    struct scl           *scl;
    struct scl_actions    out;
    struct scl_type       types[TYPES];
    struct policy_request requests[SHAPES];
    struct scl_demand     demands[SHAPES];
    mt_rng                rng;
    uint64_t              now_ms;
    bool                  is_wrong;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void step(struct rig *r, struct scl_event e)
{
    e.now_ms = r->now_ms;
    e.kinds = kinds;
    r->out.list.count = 0;
    r->is_wrong |= scl_step(r->scl, &e, &r->out).code != 0;
}

static void has(struct policy_node *n, int64_t cpus, int64_t gib)
{
    n->state = POLICY_ALIVE;
    n->resource_count = 2;
    n->resources[0] = (struct policy_resource){0, cpus * 1000, cpus * 1000};
    n->resources[1] = (struct policy_resource){1, gib << 30, gib << 30};
}

static bool rig_make(struct rig *r, uint32_t types, uint32_t max)
{
    struct scl_config config = {.types = r->types, .count = types};
    r->now_ms = 1000;
    for (uint32_t t = 0; t < types; t++) {
        r->types[t] = (struct scl_type){.max = max, .idle_ms = 60000, .boot_ms = 60000, .price = 0};
        snprintf(r->types[t].name, sizeof r->types[t].name, "type%u", t);
        has(&r->types[t].place, types == 1 ? 16 : 4 + 4 * (int64_t)(t % 16), types == 1 ? 64 : 8 << t % 5);
    }
    return scl_new(r->now_ms, &r->scl).code == 0 && scl_configure(r->scl, &config).code == 0;
}

static void demand(struct rig *r, uint32_t i, uint32_t count, int64_t cpus, int64_t gib)
{
    r->requests[i] = (struct policy_request){.amount_count = 2, .amounts = {{0, cpus * 1000}, {1, gib << 30}}};
    r->demands[i] = (struct scl_demand){.kind = SCL_LEASES, .count = count, .requests = &r->requests[i]};
}

static void tell(struct rig *r, uint32_t shapes)
{
    struct scl_event e = {.kind = SCL_EV_DEMANDS, .demands = {r->demands, shapes}};
    step(r, e);
}

static void node_tell(struct rig *r, uint32_t id, int64_t free_cpus)
{
    struct policy_node n = r->types[id % TYPES].place;
    struct scl_event   e = {.kind = SCL_EV_NODE, .node = {.place = &n, .is_busy = true, .handle = ""}};
    n.id = id;
    n.resources[0].free = free_cpus * 1000 < n.resources[0].total ? free_cpus * 1000 : n.resources[0].total;
    step(r, e);
}

static void rig_end(struct rig *r)
{
    scl_free(r->scl);
    mt_vec_fini(&r->out.list);
}

static double decide_once(struct rig *r, uint32_t shapes, uint32_t count)
{
    for (uint32_t i = 0; i < shapes; i++)
        demand(r, i, count, 1 + (int64_t)(i % 8), 1 + (int64_t)(i / 8));
    tell(r, shapes);
    double begun = now_s();
    step(r, (struct scl_event){.kind = SCL_EV_TICK});
    return now_s() - begun;
}

static double least(double a, double b)
{
    return a == 0 || b < a ? b : a;
}

/* The best of some: what else runs on the machine is none of ours. */
bool scale_decide(struct bench *bench)
{
    double whole = 0, event = 0, many = 0, few = 0;
    bool   ok = true;
    for (int round = 0; round < ROUNDS; round++) {
        struct rig *r = calloc(1, sizeof *r);
        if (!r || !rig_make(r, TYPES, 100))
            return false;
        r->rng.state = 7;
        for (uint32_t i = 1; i <= NODES; i++)
            node_tell(r, i, i <= EVENTS ? 0 : (int64_t)mt_rng_below(&r->rng, 8));
        whole = least(whole, decide_once(r, SHAPES, EACH));
        for (uint32_t i = 1; i <= EVENTS; i++) {
            r->now_ms += 10;
            double begun = now_s();
            node_tell(r, i, 1 + i % 4);
            step(r, (struct scl_event){.kind = SCL_EV_TICK});
            event = least(event, now_s() - begun);
        }
        few = least(few, decide_once(r, 1, 1000));
        many = least(many, decide_once(r, 1, 1000000));
        ok = ok && !r->is_wrong && !scl_check(r->scl);
        rig_end(r);
        free(r);
    }
    bench_print_value(bench, "decide", "ms", whole * 1e3, ROUNDS);
    bench_print_value(bench, "decide.b", "us", event * 1e6, ROUNDS * EVENTS);
    bench_print_value(bench, "decide.c", "x", many / few, ROUNDS);
    bench_print_value(bench, "decide.d", "us", many * 1e6, ROUNDS);
    return ok;
}

static uint64_t bought(struct rig *r)
{
    return scl_instances_each(r->scl, NULL, NULL);
}

static double pack_once(struct rig *r, uint64_t seed)
{
    double cpus = 0, gib = 0, bound;
    r->rng.state = seed;
    for (uint32_t i = 0; i < SHAPES; i++) {
        uint32_t count = 20 + (uint32_t)mt_rng_below(&r->rng, 80);
        int64_t  c = 1 + (int64_t)mt_rng_below(&r->rng, 8), g = 1 + (int64_t)mt_rng_below(&r->rng, 32);
        demand(r, i, count, c, g);
        cpus += (double)(count * c);
        gib += (double)(count * g);
    }
    bound = cpus / 16 > gib / 64 ? cpus / 16 : gib / 64;
    bound = (double)(uint64_t)(bound + 0.999999);
    tell(r, SHAPES);
    step(r, (struct scl_event){.kind = SCL_EV_TICK});
    r->is_wrong |= bound < BOUND_MIN;
    return (double)bought(r) / bound;
}

bool scale_pack(struct bench *bench)
{
    double sum = 0, worst = 0;
    bool   ok = true;
    for (uint64_t seed = 1; seed <= DRAWS; seed++) {
        struct rig *r = calloc(1, sizeof *r);
        if (!r || !rig_make(r, 1, 16000))
            return false;
        double ratio = pack_once(r, seed * 77);
        sum += ratio;
        worst = ratio > worst ? ratio : worst;
        ok = ok && !r->is_wrong;
        rig_end(r);
        free(r);
    }
    bench_print_value(bench, "pack", "x", sum / DRAWS, DRAWS);
    bench_print_value(bench, "pack.b", "x", worst, DRAWS);
    return ok;
}
