/* SPDX-License-Identifier: Apache-2.0
 *
 * check.c - the interleaving checker: coroutines, store FIFOs, choices, and the walk over all of them.
 *
 * Owns:    one global checker (the operations of shm.h have no place for a context); test programs only.
 * Thread:  one. Each execution starts from reset() and replays a list of choices; past its end the first option is
 *          taken (exhaustive walk: go on with the same process) or a random one (random walk).
 */
#include "tests/unit/lane/check.h"

#include "core/base/rng.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

enum {
    CHECK_STACK_SIZE = 256 * 1024,
    CHECK_STORES_MAX = 56, /* entries of a FIFO, as in the machines at hand; when full the oldest leaves */
    CHECK_STEPS_MAX = 3000,
    CHECK_BYTES_MAX = 128 * 1024, /* of late stores, per process */
    CHECK_OPTIONS_MAX = 1024,
    CHECK_WALK_CHANGE = 6, /* a random walk leaves the first option once in so many choices */
};

enum life { LIFE_READY, LIFE_YIELDED, LIFE_ASLEEP, LIFE_ENDED, LIFE_KILLED };

struct late_store {
    uint8_t *at;
    uint32_t size, offset; /* of the bytes in process.bytes */
};

struct process {
    ucontext_t        start;
    jmp_buf           resume;
    bool              begun;
    enum life         life;
    const void       *sleeps_on;
    int               store_count;
    uint32_t          bytes_used;
    struct late_store stores[CHECK_STORES_MAX];
    uint8_t          *bytes;
    uint8_t          *stack;
};

enum option_kind { OPTION_RUN, OPTION_DRAIN, OPTION_KILL };
struct option {
    enum option_kind kind;
    int              process; /* that runs, whose stores leave, or that is killed */
    int              drain;   /* stores that leave: of the process that is left (RUN) or of `process` */
};

static struct checker {
    struct check_case *c;
    bool               active, walking, failed, tracing;
    jmp_buf            done;
    int                self;
    int                budget, kills;
    int                steps;
    mt_rng             rng;
    struct process     processes[CHECK_PROCESSES_MAX];
    uint16_t           chosen[CHECK_STEPS_MAX], counts[CHECK_STEPS_MAX];
    int                depth, known; /* choices made; choices that the exhaustive walk prescribes */
    char               text[160];
    struct option      options[CHECK_OPTIONS_MAX];
    int                option_count;
} ck;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void trace(const char *what, const void *at, uint64_t x)
{
    if (ck.tracing)
        printf("  [%d] %-9s ..%05x %llx\n", ck.self, what, (unsigned)((uintptr_t)at & 0xfffff), (unsigned long long)x);
}

static void drain(int process, int count)
{
    struct process *p = &ck.processes[process];
    for (int i = 0; i < count; i++) {
        memcpy(p->stores[i].at, p->bytes + p->stores[i].offset, p->stores[i].size);
        if (ck.tracing)
            printf("      store of %d leaves to ..%05x\n", process, (unsigned)((uintptr_t)p->stores[i].at & 0xfffff));
    }
    memmove(p->stores, p->stores + count, sizeof p->stores[0] * (size_t)(p->store_count - count));
    p->store_count -= count;
    if (p->store_count == 0)
        p->bytes_used = 0;
    for (int i = 0; count > 0 && i < ck.c->processes; i++)
        if (ck.processes[i].life == LIFE_YIELDED)
            ck.processes[i].life = LIFE_READY;
}

static void flush(void)
{
    drain(ck.self, ck.processes[ck.self].store_count);
}

static void put_late(void *at, const void *from, size_t size)
{
    struct process *p = &ck.processes[ck.self];
    if (size == 0)
        return;
    if (p->store_count == CHECK_STORES_MAX)
        drain(ck.self, 1);
    if (p->bytes_used + size > CHECK_BYTES_MAX)
        flush();
    p->stores[p->store_count++] = (struct late_store){at, (uint32_t)size, p->bytes_used};
    memcpy(p->bytes + p->bytes_used, from, size);
    p->bytes_used += (uint32_t)size;
}

/* What the running process sees: memory with its own late stores on top. */
static void get_seen(void *to, const uint8_t *at, size_t size)
{
    struct process *p = &ck.processes[ck.self];
    memcpy(to, at, size);
    for (int i = 0; i < p->store_count; i++) {
        const struct late_store *s = &p->stores[i];
        for (uint32_t b = 0; b < s->size; b++)
            if (s->at + b >= at && s->at + b < at + size)
                ((uint8_t *)to)[s->at + b - at] = p->bytes[s->offset + b];
    }
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */

static void add_option(enum option_kind kind, int process, int drained)
{
    if (ck.option_count < CHECK_OPTIONS_MAX)
        ck.options[ck.option_count++] = (struct option){kind, process, drained};
}

static void collect_options(bool can_go_on)
{
    int own = ck.processes[ck.self].store_count;
    ck.option_count = 0;
    if (can_go_on)
        add_option(OPTION_RUN, ck.self, 0);
    if (can_go_on && ck.budget == 0 && ck.kills == 0)
        return;
    for (int i = 0; i < ck.c->processes && (!can_go_on || ck.budget > 0); i++)
        for (int k = own; k >= 0 && i != ck.self && ck.processes[i].life == LIFE_READY; k--)
            add_option(OPTION_RUN, i, k);
    for (int i = 0; i < ck.c->processes && ck.budget > 0; i++)
        for (int k = 1; i != ck.self && k <= ck.processes[i].store_count; k++)
            add_option(OPTION_DRAIN, i, k);
    for (int i = 0; i < ck.c->processes && ck.kills > 0; i++)
        for (int k = 0; (ck.c->kill_mask >> i & 1) && ck.processes[i].life <= LIFE_ASLEEP && k <= ck.processes[i].store_count; k++)
            add_option(OPTION_KILL, i, k);
}

static int choose(int count)
{
    if (count == 1)
        return 0;
    if (ck.depth == CHECK_STEPS_MAX)
        return 0;
    int choice = 0;
    if (ck.depth < ck.known)
        choice = ck.chosen[ck.depth];
    else if (ck.walking && mt_rng_below(&ck.rng, CHECK_WALK_CHANGE) == 0)
        choice = (int)mt_rng_below(&ck.rng, (uint64_t)count);
    ck.chosen[ck.depth] = (uint16_t)choice;
    ck.counts[ck.depth] = (uint16_t)count;
    ck.depth++;
    return choice;
}

static void go_to(int process)
{
    struct process *p = &ck.processes[process];
    ck.self = process;
    if (p->begun)
        longjmp(p->resume, 1);
    p->begun = true;
    setcontext(&p->start);
}

/* Nobody is ready. What is late leaves; that may let a polling process see more. False when nothing changes any more. */
static bool settle(void)
{
    bool late = false;
    for (int i = 0; i < ck.c->processes; i++) {
        late |= ck.processes[i].store_count > 0;
        drain(i, ck.processes[i].store_count);
    }
    return late;
}

static void apply(const struct option *o, bool *can_go_on)
{
    if (o->kind == OPTION_RUN) {
        drain(ck.self, o->drain);
        if (*can_go_on && o->process != ck.self && ck.budget > 0)
            ck.budget--;
    } else if (o->kind == OPTION_DRAIN) {
        drain(o->process, o->drain);
        ck.budget--;
    } else {
        struct process *p = &ck.processes[o->process];
        if (ck.tracing)
            printf("      %d is killed\n", o->process);
        drain(o->process, o->drain);
        p->store_count = 0;
        p->life = LIFE_KILLED;
        ck.c->killed[o->process] = true;
        ck.kills--;
        if (o->process == ck.self)
            *can_go_on = false;
        for (int i = 0; i < ck.c->processes; i++) /* a death is news */
            if (ck.processes[i].life == LIFE_YIELDED)
                ck.processes[i].life = LIFE_READY;
    }
}

/* Decides who runs next, and goes there. Returns only in the process that is to run. */
static void reschedule(bool can_go_on)
{
    int me = ck.self;
    if (++ck.steps > CHECK_STEPS_MAX)
        longjmp(ck.done, 2);
    for (;;) {
        if (!can_go_on && ck.processes[me].life == LIFE_READY)
            can_go_on = true; /* it yielded, and something has changed since */
        collect_options(can_go_on);
        if (ck.option_count == 0) {
            if (settle())
                continue;
            longjmp(ck.done, 1);
        }
        struct option o = ck.options[choose(ck.option_count)];
        apply(&o, &can_go_on);
        if (o.kind != OPTION_RUN)
            continue;
        if (o.process == me && ck.processes[me].life == LIFE_READY)
            return;
        if (ck.processes[me].life > LIFE_ASLEEP)
            go_to(o.process);
        if (setjmp(ck.processes[me].resume) == 0)
            go_to(o.process);
        return;
    }
}

static void point(void)
{
    if (ck.active)
        reschedule(true);
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

uint64_t check_load(void *at, size_t size)
{
    uint64_t x = 0;
    point();
    if (ck.active)
        get_seen(&x, at, size);
    else
        memcpy(&x, at, size);
    trace("load", at, x);
    return x;
}

void check_store(void *at, uint64_t x, size_t size)
{
    trace("store", at, x);
    if (ck.active)
        put_late(at, &x, size);
    else
        memcpy(at, &x, size);
}

enum rmw { RMW_EXCHANGE, RMW_ADD, RMW_CAS };

static uint64_t read_modify_write(enum rmw kind, void *at, uint64_t from, uint64_t x, size_t size)
{
    uint64_t old = 0;
    point();
    if (ck.active)
        flush();
    memcpy(&old, at, size);
    if (kind == RMW_ADD)
        x += old;
    trace(kind == RMW_CAS ? "cas" : kind == RMW_ADD ? "add" : "exchange", at, x);
    if (kind != RMW_CAS || old == from) {
        if (ck.active) { /* through the FIFO, so that those who poll are told */
            put_late(at, &x, size);
            flush();
        } else {
            memcpy(at, &x, size);
        }
    }
    return old;
}

uint64_t check_exchange(void *at, uint64_t x, size_t size)
{
    return read_modify_write(RMW_EXCHANGE, at, 0, x, size);
}

uint64_t check_add(void *at, uint64_t x, size_t size)
{
    return read_modify_write(RMW_ADD, at, 0, x, size);
}

bool check_cas(void *at, uint64_t from, uint64_t to, size_t size)
{
    return read_modify_write(RMW_CAS, at, from, to, size) == from;
}

void check_fence(void)
{
    point();
    trace("fence", NULL, 0);
    if (ck.active)
        flush();
}

/* In two halves: enough to tear a record. */
void check_write(void *to, const void *from, size_t size)
{
    if (!ck.active) {
        memcpy(to, from, size);
        return;
    }
    trace("write", to, size);
    put_late(to, from, size / 2);
    put_late((uint8_t *)to + size / 2, (const uint8_t *)from + size / 2, size - size / 2);
}

void check_read(void *to, const void *from, size_t size)
{
    if (!ck.active) {
        memcpy(to, from, size);
        return;
    }
    point();
    get_seen(to, from, size / 2);
    point();
    get_seen((uint8_t *)to + size / 2, (const uint8_t *)from + size / 2, size - size / 2);
    trace("read", from, size);
}

void check_yield(void)
{
    if (!ck.active)
        return;
    ck.processes[ck.self].life = LIFE_YIELDED;
    trace("yield", NULL, 0);
    reschedule(false);
}

void shm_futex_wait(shm_u32 *w, uint32_t expected, int64_t timeout_ns)
{
    (void)timeout_ns; /* no limit passes here: a wait that only its limit ends is what the checker looks for */
    uint32_t x;
    point();
    flush();
    memcpy(&x, &w->v, sizeof x);
    trace("sleep", w, expected);
    if (x != expected)
        return;
    ck.processes[ck.self].life = LIFE_ASLEEP;
    ck.processes[ck.self].sleeps_on = w;
    reschedule(false);
}

void shm_futex_wake(shm_u32 *w, int count)
{
    point();
    flush();
    trace("wake", w, (uint64_t)count);
    for (int i = 0; i < ck.c->processes && count > 0; i++)
        if (ck.processes[i].life == LIFE_ASLEEP && ck.processes[i].sleeps_on == w) {
            ck.processes[i].life = LIFE_READY;
            count--;
        }
}

int check_choose(int count)
{
    return choose(count);
}

void check_require(bool fact, const char *text)
{
    if (fact || ck.failed)
        return;
    ck.failed = true;
    snprintf(ck.text, sizeof ck.text, "%s", text);
    if (ck.active)
        longjmp(ck.done, 1);
}

/* ---- executions -------------------------------------------------------------------------------------------------- */

static void process_main(void)
{
    ck.c->body(ck.c, ck.self);
    ck.processes[ck.self].life = LIFE_ENDED;
    for (int i = 0; i < ck.c->processes; i++)
        if (ck.processes[i].life == LIFE_YIELDED)
            ck.processes[i].life = LIFE_READY;
    reschedule(false);
}

static void start_process(struct process *p)
{
    uint8_t *stack = p->stack, *bytes = p->bytes;
    memset(p, 0, sizeof *p);
    p->stack = stack;
    p->bytes = bytes;
    getcontext(&p->start);
    p->start.uc_stack.ss_sp = stack;
    p->start.uc_stack.ss_size = CHECK_STACK_SIZE;
    makecontext(&p->start, process_main, 0);
}

/* False when it was abandoned. */
static bool execute(const struct check_plan *plan)
{
    struct check_case *c = ck.c;
    memset(c->killed, 0, sizeof c->killed);
    memset(c->stuck, 0, sizeof c->stuck);
    c->reset(c);
    for (int i = 0; i < c->processes; i++)
        start_process(&ck.processes[i]);
    ck.depth = ck.steps = 0;
    ck.budget = ck.walking ? CHECK_STEPS_MAX : plan->preemptions;
    ck.kills = c->kill_mask ? 1 : 0;
    int how = setjmp(ck.done);
    if (how == 0) {
        ck.active = true;
        ck.self = 0;
        go_to(0);
    }
    ck.active = false;
    if (how == 1 && !ck.failed) {
        for (int i = 0; i < c->processes; i++)
            c->stuck[i] = ck.processes[i].life == LIFE_ASLEEP || ck.processes[i].life == LIFE_YIELDED;
        c->finish(c);
    }
    return how == 1;
}

/* The next list of choices in depth-first order. False when there is none. */
static bool next_choices(void)
{
    while (ck.depth > 0) {
        ck.depth--;
        if (ck.chosen[ck.depth] + 1 < ck.counts[ck.depth]) {
            ck.chosen[ck.depth]++;
            ck.known = ck.depth + 1;
            return true;
        }
    }
    return false;
}

struct check_result check_run(struct check_case *c, const struct check_plan *plan, bool trace_failure)
{
    struct check_result r = {0};
    memset(&ck, 0, sizeof ck);
    ck.c = c;
    ck.rng.state = plan->seed;
    for (int i = 0; i < c->processes; i++) {
        ck.processes[i].stack = malloc(CHECK_STACK_SIZE);
        ck.processes[i].bytes = malloc(CHECK_BYTES_MAX);
        if (!ck.processes[i].stack || !ck.processes[i].bytes)
            abort();
    }
    bool more = true;
    while (more && !ck.failed && r.executions < plan->executions_max) {
        r.diverged += !execute(plan);
        r.executions++;
        if (!ck.failed)
            more = next_choices();
    }
    r.complete = !more;
    ck.walking = true;
    for (uint64_t i = 0; i < plan->walks && !ck.failed; i++) {
        ck.known = 0;
        r.diverged += !execute(plan);
        r.executions++;
    }
    r.failed = ck.failed;
    snprintf(r.text, sizeof r.text, "%s", ck.text);
    if (r.failed && trace_failure) {
        ck.known = ck.depth;
        ck.tracing = true;
        ck.failed = false;
        execute(plan);
    }
    for (int i = 0; i < c->processes; i++) {
        free(ck.processes[i].stack);
        free(ck.processes[i].bytes);
    }
    return r;
}
