/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.c - the world of one run: the queue of events, random numbers, the trace, shared memory, failure.
 *
 * Owns: everything of struct sim. Thread: one.
 * Always: events fire in the order of (time, insertion); nothing is drawn, hashed or ordered by an address.
 */
#include "tests/sim/sim.h"

#include "core/base/hash.h"
#include "core/base/log.h"
#include "tests/sim/load/drain.h"
#include "tests/sim/load/group.h"
#include "tests/sim/twins/io.h"
#include "tests/sim/load/job.h"
#include "tests/sim/twins/net.h"
#include "tests/sim/load/object.h"
#include "tests/sim/oracle.h"

#include <stdarg.h>
#include <sys/mman.h>

enum { SIM_EVENTS_MAX = 20 * 1000 * 1000 }; /* of one run: more is a livelock */

void *sim_alloc(size_t size)
{
    void *p = calloc(1, size);
    if (!p)
        abort();
    return p;
}

/* ---- random numbers and trace ------------------------------------------------------------------------------------ */

uint64_t sim_random(struct sim *s, uint64_t below)
{
    return mt_rng_below(&s->rng, below);
}

bool sim_chance(struct sim *s, uint32_t in_a_million)
{
    return mt_rng_below(&s->rng, 1000000) < in_a_million;
}

uint64_t sim_between(struct sim *s, uint64_t low, uint64_t high)
{
    return low + mt_rng_below(&s->rng, high - low + 1);
}

uint64_t sim_serial(struct sim *s)
{
    return ++s->next_serial;
}

static void mix(struct sim *s, uint64_t x)
{
    mt_rng rng = {s->hash ^ x};
    s->hash = mt_rng_next(&rng);
}

void sim_note(struct sim *s, const char *what, uint64_t a, uint64_t b)
{
    mix(s, s->now);
    s->hash = mt_hash_text(s->hash, what);
    mix(s, a);
    mix(s, b);
    if (s->config.trace)
        printf("%12llu.%03llu us  %-18s %llx %llx\n", (unsigned long long)(s->now / SIM_US), (unsigned long long)(s->now % SIM_US),
               what, (unsigned long long)a, (unsigned long long)b);
}

void sim_fail(struct sim *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(s->failure, sizeof s->failure, format, args);
    va_end(args);
    longjmp(s->failed, 1);
}

/* ---- memory and descriptors --------------------------------------------------------------------------------------- */

struct sim_mem *sim_mem_new(struct sim *s, size_t size)
{
    struct sim_mem *m = sim_alloc(sizeof *m);
    m->size = size;
    m->refs = 1;
    m->base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m->base == MAP_FAILED)
        abort();
    s->mem_count++;
    return m;
}

struct sim_mem *sim_mem_ref(struct sim_mem *m)
{
    m->refs++;
    return m;
}

void sim_mem_unref(struct sim *s, struct sim_mem *m)
{
    if (!m || --m->refs > 0)
        return;
    mt_map_remove(&s->parks, mt_map_key((uintptr_t)m->base));
    mt_map_remove(&s->mapped, mt_map_key((uintptr_t)m->base));
    munmap(m->base, m->size);
    s->mem_count--;
    free(m);
}

int sim_fd_new(struct sim *s, uint64_t holder)
{
    int fd = ++s->next_fd;
    if (mt_map_put_num(&s->fds, mt_map_key((uint64_t)fd), holder).code)
        abort();
    return fd;
}

void sim_fd_close(struct sim *s, int fd)
{
    SIM_REQUIRE(s, mt_map_remove(&s->fds, mt_map_key((uint64_t)fd)), "I6: a raylet closed descriptor %d twice", fd);
}

void sim_wake(struct sim *s, struct lane_park *park)
{
    struct sim_mem *m = mt_map_ptr(&s->parks, mt_map_key((uintptr_t)park));
    uint32_t        bell = shm_load32(&park->bell);
    lane_park_wake(park);
    if (!m || shm_load32(&park->bell) == bell)
        return;
    struct sim_node *n = sim_node_of(s, m->owner);
    if (n)
        sim_node_switch_wake(s, n);
    else
        sim_proc_wake(s, m->owner);
}

/* ---- events --------------------------------------------------------------------------------------------------------- */

struct sim_event *sim_after(struct sim *s, uint64_t delay, const char *name, void (*fire)(struct sim *, struct sim_event *),
                            uint64_t target)
{
    struct sim_event *e = sim_alloc(sizeof *e);
    e->fire = fire;
    e->name = name;
    e->target = target;
    e->fd = -1;
    if (mt_heap_push(&s->events, &e->node, s->now + delay).code)
        abort();
    return e;
}

static void event_free(struct sim *s, struct sim_event *e)
{
    free(e->bytes);
    for (int i = 0; i < 3; i++)
        sim_mem_unref(s, e->mem[i]);
    free(e);
}

static void run_next(struct sim *s)
{
    struct sim_event *e = mt_container_of(mt_heap_pop(&s->events), struct sim_event, node);
    s->now = e->node.key;
    s->event_count++;
    sim_note(s, e->name, e->target, e->arg);
    e->fire(s, e);
    event_free(s, e);
    sim_oracle_check(s);
}

static void run(struct sim *s)
{
    sim_groups_new(s);
    if (s->config.has_head) {
        sim_net_new(s);
        sim_jobs_new(s);
        sim_head_new(s);
    }
    for (int i = 0; i < s->config.nodes; i++)
        sim_node_new(s, i);
    sim_work_start(s);
    sim_fault_start(s);
    while (!s->is_over && mt_heap_first(&s->events)) {
        run_next(s);
        SIM_REQUIRE(s, s->event_count < SIM_EVENTS_MAX, "I10: %d events, and no end", SIM_EVENTS_MAX);
        SIM_REQUIRE(s, s->now < s->config.limit, "I10: work was left %llu s after the last fault: %s",
                    (unsigned long long)((s->config.limit - s->config.faults_until) / SIM_S), sim_oracle_pending(s));
    }
    SIM_REQUIRE(s, s->is_over, "I10: nothing more happens, and work is left: %s", sim_oracle_pending(s));
    sim_oracle_finish(s);
    if (s->config.has_head) {
        sim_jobs_finish(s);
        sim_head_count(s);
    }
}

static struct sim *running; /* for the assert hook, which has no place for a context */

struct sim *sim_running(void)
{
    return running;
}

static void log_nowhere(enum mt_log_level level, const char *line, size_t size)
{
    (void)level;
    if (running->config.trace)
        printf("%.*s\n", (int)size, line);
}

static void assert_failed(const char *expr, const char *file, int line)
{
    sim_fail(running, "a core's own check failed: %s (%s:%d)", expr, file, line);
}

bool sim_run(struct sim *s, const struct sim_config *config)
{
    memset(s, 0, sizeof *s);
    s->config = *config;
    s->rng.state = config->seed;
    s->next_pid = 1000;
    running = s;
    mt_assert_set_hook(assert_failed);
    mt_log_set_sink(log_nowhere);
    sim_oracle_new(s);
    bool ok = setjmp(s->failed) == 0;
    if (ok)
        run(s);
    mt_assert_set_hook(NULL);
    return ok;
}

void sim_fini(struct sim *s)
{
    struct mt_heap_node *node;
    bool                 was_whole = !s->failure[0];
    while (was_whole && (node = mt_heap_pop(&s->events)))
        event_free(s, mt_container_of(node, struct sim_event, node));
    for (int i = 0; was_whole && i < s->config.nodes; i++)
        sim_node_free(s, s->nodes[i]);
    if (was_whole && s->config.has_head) {
        sim_head_free(s);
        sim_jobs_free(s);
        sim_net_free(s);
    }
    if (was_whole) {
        sim_wires_free(s);
        sim_disks_free(s);
    }
    sim_drains_free(s);
    sim_groups_free(s);
    sim_values_free(s);
    sim_oracle_free(s);
    mt_map_fini(&s->memories);
    mt_map_fini(&s->died_at);
    mt_map_fini(&s->died_on);
    mt_map_fini(&s->mapped);
    mt_heap_fini(&s->events);
    mt_map_fini(&s->fds);
    mt_map_fini(&s->procs);
    mt_map_fini(&s->parks);
}
