/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.c - a sweep's driver, the very object files, on virtual time: many slots on a machine that has two cores.
 *
 * Ray Tune's test of its bookkeeping is 10,000 trials of one second, each with one report, on one node of 16 CPUs: 625 s at best,
 * 715.27 s published, 800 s allowed. Here the same trials run on 16 slots. A message takes MESSAGE_NS each way, the disk COMMIT_NS,
 * a slot START_NS until it is up. The driver is one thread: each step of its state machine takes the time that it takes on this
 * machine, measured, and what comes meanwhile waits.
 *
 * Thread: one at a time.
 */
#include "tests/bench/sweep/sim.h"

#include "core/ds/heap.h"
#include "sweep/run/driver.h"

#include <stdlib.h>
#include <time.h>

enum { SLOTS = 16, MESSAGE_NS = 100 * 1000, COMMIT_NS = 1000 * 1000, START_NS = 5 * 1000 * 1000 };
static const int64_t TRIAL_NS = 1000000000;

struct happening {
    mt_heap_node     node;
    struct swp_event event;
};

struct sim {
    struct swp_space     *space;
    struct swp_sampler   *sampler;
    struct swp_scheduler *scheduler;
    struct swp_driver     driver;
    mt_heap               queue;             /* what will reach the driver, by time */
    int64_t               now_ns;            /* the driver's */
    int64_t               free_ns[SLOTS];    /* when a slot has done what it was given */
    uint64_t              pushed, committed; /* the newest record; the newest that is on its way to the disk */
    bool                  is_committing, is_done, is_broken;
};

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* ---- the world ---- */

static void later(struct sim *s, int64_t at_ns, struct swp_event event)
{
    struct happening *h = calloc(1, sizeof *h);
    if (h)
        h->event = event;
    if (!h || mt_heap_push(&s->queue, &h->node, (uint64_t)at_ns).code) {
        free(h);
        s->is_broken = true;
    }
}

static void trial_run(struct sim *s, const struct swp_order *o)
{
    struct swp_event ev = {.slot = o->slot, .trial = o->trial, .run = o->run};
    int64_t          told_ns = s->now_ns + MESSAGE_NS;
    int64_t          begins_ns = s->free_ns[o->slot] > told_ns ? s->free_ns[o->slot] : told_ns;
    s->free_ns[o->slot] = begins_ns + TRIAL_NS;
    ev.kind = SWP_EV_REPORT;
    ev.report.step = 1;
    ev.report.value = (double)(o->trial % 97);
    later(s, s->free_ns[o->slot] + MESSAGE_NS, ev);
    ev = (struct swp_event){.kind = SWP_EV_FINISHED, .slot = o->slot, .trial = o->trial, .run = o->run};
    later(s, s->free_ns[o->slot] + MESSAGE_NS, ev);
}

static void order_do(struct sim *s, struct swp_order *o)
{
    struct swp_event ev = {.slot = o->slot, .trial = -1};
    switch (o->kind) {
    case SWP_ORDER_HIRE:
        ev.kind = SWP_EV_SLOT_UP;
        later(s, s->now_ns + START_NS, ev);
        break;
    case SWP_ORDER_START: trial_run(s, o); break;
    case SWP_ORDER_KILL:
        ev.kind = SWP_EV_SLOT_DOWN;
        ev.down.text = "killed";
        later(s, s->now_ns + MESSAGE_NS, ev);
        break;
    case SWP_ORDER_RETURN: /* the slot has nothing that it has not begun: a second trial takes a second */
        ev.kind = SWP_EV_RETURNED;
        later(s, s->now_ns + 2 * MESSAGE_NS, ev);
        break;
    case SWP_ORDER_RECORD:
        s->pushed = o->record.seq;
        free((char *)o->record.text);
        break;
    case SWP_ORDER_DONE: s->is_done = true; break;
    case SWP_ORDER_ANSWER:
    case SWP_ORDER_PUBLISH:
    case SWP_ORDER_CLONE: break; /* nobody waits for an answer, saves or clones */
    }
}

/* Everything that has come while the disk was busy is in the next commit. */
static void disk_look(struct sim *s)
{
    if (s->is_committing || s->committed == s->pushed)
        return;
    s->is_committing = true;
    s->committed = s->pushed;
    later(s, s->now_ns + COMMIT_NS, (struct swp_event){.kind = SWP_EV_DURABLE, .trial = -1, .durable = {s->committed}});
}

static void step(struct sim *s, struct swp_event *ev)
{
    int64_t began_ns = cpu_ns();
    ev->now_ns = s->now_ns;
    s->is_broken = s->is_broken || swp_driver_step(&s->driver, ev).code != 0;
    s->now_ns += cpu_ns() - began_ns;
    s->is_committing = s->is_committing && ev->kind != SWP_EV_DURABLE;
    for (size_t i = 0; i < s->driver.orders.count; i++)
        order_do(s, &s->driver.orders.data[i]);
    s->driver.orders.count = 0;
    disk_look(s);
}

/* ---- a sweep ---- */

static bool driver_make(struct sim *s, uint64_t trials)
{
    struct swp_param          params[] = {{.name = "x", .kind = SWP_UNIFORM, .low = 0, .high = 1}};
    struct swp_space_def      def = {.params = params, .param_count = 1};
    struct swp_sampler_opts   sampler = {0};
    struct swp_scheduler_opts scheduler = {0};
    struct swp_problem        problem;
    if (swp_space_new(&def, &s->space, &problem).code || swp_sampler_opts_parse("random", &sampler, &problem).code ||
        swp_sampler_new(&sampler, s->space, 1, &s->sampler, &problem).code ||
        swp_scheduler_opts_parse("fifo", &scheduler, &problem).code ||
        swp_scheduler_new(&scheduler, s->space, 1, &s->scheduler, &problem).code)
        return false;
    struct swp_driver_config config = {.space = s->space,
                                       .source = swp_source_of(s->sampler),
                                       .scheduler = s->scheduler,
                                       .limit = trials,
                                       .points = UINT64_MAX,
                                       .slots = SLOTS,
                                       .window = 2 * SLOTS};
    return swp_driver_init(&s->driver, &config).code == 0 && swp_driver_open(&s->driver, 0).code == 0;
}

static void sim_fini(struct sim *s)
{
    for (mt_heap_node *node; (node = mt_heap_pop(&s->queue));)
        free(mt_container_of(node, struct happening, node));
    mt_heap_fini(&s->queue);
    swp_driver_fini(&s->driver);
    swp_scheduler_free(s->scheduler);
    swp_sampler_free(s->sampler);
    swp_space_free(s->space);
}

bool sweep_sim_run(uint64_t trials, double *out_seconds, double *out_ideal)
{
    static struct sim s;
    s = (struct sim){.now_ns = 0};
    bool          ok = driver_make(&s, trials);
    mt_heap_node *node;
    if (ok)
        step(&s, &(struct swp_event){.kind = SWP_EV_TICK, .trial = -1});
    while (ok && !s.is_done && !s.is_broken && (node = mt_heap_pop(&s.queue))) {
        struct happening *h = mt_container_of(node, struct happening, node);
        s.now_ns = s.now_ns > (int64_t)node->key ? s.now_ns : (int64_t)node->key;
        step(&s, &h->event);
        free(h);
    }
    ok = ok && s.is_done && !s.is_broken && s.driver.completed == trials;
    *out_seconds = (double)s.now_ns * 1e-9;
    *out_ideal = (double)trials * (double)TRIAL_NS * 1e-9 / SLOTS;
    if (s.scheduler)
        sim_fini(&s);
    return ok;
}
