/* SPDX-License-Identifier: Apache-2.0
 *
 * driver_test.c - the sweep's state machine in a world on virtual time where processes die, messages are late and the disk takes
 * its time; the driver itself dies at random moments, keeps what was durable, and perhaps some of what was not, and goes on.
 *
 * A process notes the end of each attempt before it tells it (ends.h); notes outlive it and the driver, and are never removed here.
 *
 * One seed is one run. Checked at every order: nothing takes effect before its record is durable, no trial runs twice at a time,
 * none begins after its end, no function comes to its natural end twice. At the end: each trial has one end, and in ordered mode
 * the same as in a world without faults.
 */
#include "sweep/run/driver.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { SLOTS = 3, TRIALS = 30, MADE = 2 * TRIALS, STEPS = 9, EVENTS_MAX = 400000 };

/* A trial in its process. */
struct job {
    int64_t           trial;
    uint32_t          run;
    uint64_t          ready_seq;
    int64_t           first, step; /* first: where it began; step: the next one */
    bool              waits;       /* for an answer */
    enum swp_decision decision;
};
struct process {
    bool       is_hired, is_up, is_dying, is_leaving;
    struct job jobs[MT_SWEEP_AHEAD_MAX];
    int        count;
};

struct file { /* of a trial's state */
    int64_t  step;
    uint32_t aside_run;
    int64_t  aside_step;
};

/* What a process has noted of an attempt that ended. */
struct note {
    struct swp_left left;
    int64_t         first, last;
};

struct publish {
    int64_t trial, step;
    size_t  needs; /* so many durable records */
};

struct world {
    mt_rng                rng;
    int64_t               now_ns;
    bool                  has_faults, is_ordered, is_alone; /* alone: one slot */
    bool                  is_elastic;                       /* slots follow the nodes, which come and go */
    uint64_t              told;                             /* ends that the sampler has */
    struct swp_source     under;
    const char           *sampler, *scheduler;
    struct swp_space     *space;
    struct swp_sampler   *source;
    struct swp_scheduler *sched;
    struct swp_driver     driver;
    struct process        processes[SLOTS];
    MT_VEC(struct swp_record) disk; /* all that were pushed; durable ones first */
    size_t      durable;
    struct file files[MADE];
    MT_VEC(struct publish) publishes; /* that wait for the records before them */
    int pending_clone, pending_from;
    MT_VEC(struct note) notes;
    int    ends[MADE], returns[MADE]; /* returns: natural ends of its function, over all drivers */
    double values[MADE];
    int    outcomes[MADE];
    bool   is_done;
    int    crashes, deaths, preempted;
};

static bool chance(struct world *w, uint64_t in)
{
    return w->has_faults && mt_rng_below(&w->rng, in) == 0;
}

static void order_do(struct world *w, struct swp_order *o);

static double value_at(int64_t trial, int64_t step)
{
    return (double)((trial * 7919) % 31) + 10.0 / (double)(step + 1);
}

/* ---- the driver's life ---- */

static void fold(struct world *w, const struct note *note, int slot)
{
    struct swp_left_report reports[STEPS];
    struct swp_left        left = note->left;
    left.slot = slot;
    left.reports = reports;
    for (int64_t step = note->first; step < note->last; step++)
        reports[left.report_count++] = (struct swp_left_report){.step = step, .value = value_at(left.trial, step)};
    assert_int_equal(swp_driver_fold(&w->driver, &left).code, 0);
    for (size_t i = 0; i < w->driver.orders.count; i++)
        order_do(w, &w->driver.orders.data[i]);
    w->driver.orders.count = 0;
}

/* One trial at a time: each is drawn from the results of all before it. */
static mt_status noting_suggest(void *self, uint64_t trial, struct swp_point *out_point)
{
    struct world *w = self;
    assert_int_equal(w->told, trial);
    return w->under.suggest(w->under.self, trial, out_point);
}
static mt_status noting_restore(void *self, uint64_t trial, const struct swp_point *point)
{
    struct world *w = self;
    return w->under.restore(w->under.self, trial, point);
}
static mt_status noting_tell(void *self, uint64_t trial, const struct swp_outcome *outcome)
{
    struct world *w = self;
    w->told++;
    return w->under.tell(w->under.self, trial, outcome);
}

static void driver_make(struct world *w)
{
    struct swp_param          params[] = {{.name = "x", .kind = SWP_UNIFORM, .low = 0, .high = 1},
                                          {.name = "n", .kind = SWP_INT, .low = 1, .high = 9}};
    struct swp_space_def      def = {.params = params, .param_count = 2};
    struct swp_sampler_opts   sampler = {0};
    struct swp_scheduler_opts scheduler = {0};
    struct swp_problem        problem = {0};
    assert_int_equal(swp_space_new(&def, &w->space, &problem).code, 0);
    assert_int_equal(swp_sampler_opts_parse(w->sampler, &sampler, &problem).code, 0);
    assert_int_equal(swp_sampler_new(&sampler, w->space, 7, &w->source, &problem).code, 0);
    assert_int_equal(swp_scheduler_opts_parse(w->scheduler, &scheduler, &problem).code, 0);
    assert_int_equal(swp_scheduler_new(&scheduler, w->space, 7, &w->sched, &problem).code, 0);
    struct swp_driver_config config = {.space = w->space,
                                       .source = swp_source_of(w->source),
                                       .scheduler = w->sched,
                                       .is_adaptive = swp_sampler_is_adaptive(w->source),
                                       .is_ordered = w->is_ordered,
                                       .limit = TRIALS,
                                       .points = UINT64_MAX,
                                       .slots = w->is_alone || w->is_elastic ? 1 : SLOTS,
                                       .slots_max = w->is_elastic ? SLOTS : 0,
                                       .window = w->is_alone ? 1 : 2 * SLOTS,
                                       .retries = 1000};
    w->under = config.source;
    w->told = 0;
    if (w->is_alone)
        config.source = (struct swp_source){w, noting_suggest, noting_restore, noting_tell};
    assert_int_equal(swp_driver_init(&w->driver, &config).code, 0);
    for (size_t i = 0; i < w->disk.count; i++)
        if (swp_driver_replay(&w->driver, &w->disk.data[i]).code)
            fail_msg("replay: %s", w->driver.text);
    for (size_t i = 0; i < w->notes.count; i++)
        fold(w, &w->notes.data[i], -1);
    w->durable = w->disk.count;
    assert_int_equal(swp_driver_open(&w->driver, w->now_ns).code, 0);
}

static void driver_drop(struct world *w)
{
    swp_driver_fini(&w->driver);
    swp_scheduler_free(w->sched);
    swp_sampler_free(w->source);
    swp_space_free(w->space);
}

/* What is not durable is lost, from some record on. */
static void crash(struct world *w)
{
    w->crashes++;
    driver_drop(w);
    w->durable += mt_rng_below(&w->rng, w->disk.count - w->durable + 1);
    w->publishes.count = 0;
    while (w->disk.count > w->durable)
        free((char *)mt_vec_pop(&w->disk).text);
    memset(w->processes, 0, sizeof w->processes);
    w->pending_clone = -1;
    memset(w->ends, 0, sizeof w->ends);
    for (size_t i = 0; i < w->disk.count; i++)
        w->ends[w->disk.data[i].kind == SWP_REC_END ? w->disk.data[i].trial : 0] += w->disk.data[i].kind == SWP_REC_END;
    driver_make(w);
}

/* ---- orders ---- */

static bool is_durable(const struct world *w, enum swp_record_kind kind, int64_t trial)
{
    for (size_t i = 0; i < w->durable; i++)
        if (w->disk.data[i].kind == kind && w->disk.data[i].trial == trial)
            return true;
    return false;
}

static void start_check(struct world *w, const struct swp_order *o)
{
    struct process *p = &w->processes[o->slot];
    assert_true(p->is_up && p->count < MT_SWEEP_AHEAD_MAX);
    assert_false(p->is_leaving); /* nothing begins where the node leaves */
    assert_true(is_durable(w, SWP_REC_SUGGEST, o->trial));
    assert_int_equal(w->ends[o->trial], 0);
    for (int i = 0; i < SLOTS; i++)
        for (int k = 0; k < w->processes[i].count; k++)
            assert_true(w->processes[i].jobs[k].trial != o->trial);
    p->jobs[p->count++] = (struct job){.trial = o->trial,
                                       .run = o->run,
                                       .ready_seq = o->start.ready_seq,
                                       .first = w->files[o->trial].step,
                                       .step = w->files[o->trial].step};
}

static void answer_take(struct world *w, const struct swp_order *o)
{
    struct process *p = &w->processes[o->slot];
    for (int k = 0; k < p->count; k++)
        if (p->jobs[k].trial == o->trial && p->jobs[k].run == o->run) {
            p->jobs[k].waits = false;
            p->jobs[k].decision = o->answer.decision;
        }
    if (o->answer.decision != SWP_CONTINUE && w->disk.count > w->durable &&
        !w->driver.is_over) /* the report that led to it is durable */
        for (size_t i = w->durable; i < w->disk.count; i++)
            assert_false(w->disk.data[i].kind == SWP_REC_REPORT && w->disk.data[i].trial == o->trial);
}

static void order_do(struct world *w, struct swp_order *o)
{
    switch (o->kind) {
    case SWP_ORDER_HIRE:
        assert_false(w->processes[o->slot].is_hired);
        w->processes[o->slot] = (struct process){.is_hired = true};
        break;
    case SWP_ORDER_KILL: w->processes[o->slot].is_dying = true; break;
    case SWP_ORDER_START: start_check(w, o); break;
    case SWP_ORDER_ANSWER: answer_take(w, o); break;
    case SWP_ORDER_RETURN: break; /* answered below, as a process would */
    case SWP_ORDER_RECORD:
        assert_int_equal(mt_vec_push(&w->disk, o->record).code, 0);
        if (o->record.kind == SWP_REC_END) {
            assert_int_equal(w->ends[o->record.trial]++, 0);
            w->values[o->record.trial] = o->record.value;
            w->outcomes[o->record.trial] = o->record.code;
        }
        break;
    case SWP_ORDER_PUBLISH:
        assert_int_equal(w->files[o->trial].aside_run, o->run); /* once for each state that was saved */
        assert_int_equal(mt_vec_push(&w->publishes, (struct publish){o->trial, w->files[o->trial].aside_step, w->disk.count}).code,
                         0);
        w->files[o->trial].aside_run = 0;
        break;
    case SWP_ORDER_CLONE:
        w->pending_clone = (int)o->trial;
        w->pending_from = (int)o->clone.from;
        break;
    case SWP_ORDER_DONE: w->is_done = true; break;
    }
}

static void give(struct world *w, struct swp_event ev)
{
    struct {
        struct swp_order *data;
        size_t            count, capacity;
    } orders;
    ev.now_ns = w->now_ns;
    mt_status st = swp_driver_step(&w->driver, &ev);
    if (st.code)
        fail_msg("step: %d %s", st.code, st.what);
    memcpy(&orders, &w->driver.orders, sizeof orders);
    memset(&w->driver.orders, 0, sizeof w->driver.orders);
    for (size_t i = 0; i < orders.count; i++) {
        order_do(w, &orders.data[i]);
        if (orders.data[i].kind == SWP_ORDER_RETURN) {
            struct process *p = &w->processes[orders.data[i].slot];
            while (p->count > 1) {
                struct job job = p->jobs[--p->count];
                give(w,
                     (struct swp_event){.kind = SWP_EV_RETURNED, .slot = orders.data[i].slot, .trial = job.trial, .run = job.run});
            }
            give(w, (struct swp_event){.kind = SWP_EV_RETURNED, .slot = orders.data[i].slot, .trial = -1});
        }
    }
    mt_vec_fini(&orders);
}

/* ---- processes ---- */

static void process_die(struct world *w, int slot)
{
    w->deaths++;
    for (size_t i = 0; i < w->notes.count; i++)
        fold(w, &w->notes.data[i], slot);
    w->processes[slot] = (struct process){0};
    give(w, (struct swp_event){.kind = SWP_EV_SLOT_DOWN, .slot = slot, .trial = -1, .down = {MT_EACTOR_DIED, "killed"}});
}

static void job_step(struct world *w, int slot)
{
    struct process  *p = &w->processes[slot];
    struct job       job = p->jobs[0];
    struct swp_event ev = {.slot = slot, .trial = job.trial, .run = job.run};
    if (job.waits)
        return;
    if (job.decision != SWP_CONTINUE || job.step == STEPS || chance(w, 60)) {
        bool fails = job.decision == SWP_CONTINUE && job.step < STEPS;
        memmove(p->jobs, p->jobs + 1, (size_t)--p->count * sizeof *p->jobs);
        ev.kind = SWP_EV_FINISHED;
        ev.finished.code = fails ? MT_ETASK : 0;
        ev.finished.why = fails ? "it failed" : NULL;
        w->returns[job.trial] += !fails && job.decision == SWP_CONTINUE;
        struct swp_left left = {.trial = job.trial,
                                .run = job.run,
                                .ready_seq = job.ready_seq,
                                .code = ev.finished.code,
                                .is_stopped = job.decision != SWP_CONTINUE,
                                .why = fails ? "it failed" : ""};
        assert_int_equal(mt_vec_push(&w->notes, (struct note){left, job.first, job.step}).code, 0);
        if (chance(w, 20))
            process_die(w, slot);
        else
            give(w, ev);
        return;
    }
    p->jobs[0].step++;
    p->jobs[0].waits = true;
    if ((job.trial + job.step) % 4 != 3) { /* not at each report */
        w->files[job.trial].aside_run = job.run;
        w->files[job.trial].aside_step = job.step + 1;
        ev.kind = SWP_EV_SAVED;
        give(w, ev);
    }
    ev.kind = SWP_EV_REPORT;
    ev.report.step = job.step;
    ev.report.value = value_at(job.trial, job.step);
    ev.report.wants_answer = true;
    give(w, ev);
}

/* Its node leaves; what runs there may end, unless its time is up before that. No attempt is counted for it. */
static void process_leave(struct world *w, int slot)
{
    struct process *p = &w->processes[slot];
    int64_t         trial = p->count ? p->jobs[0].trial : -1;
    uint32_t        failures = trial < 0 ? 0 : w->driver.trials.data[trial].failures;
    p->is_leaving = true;
    give(w, (struct swp_event){.kind = SWP_EV_LEAVE, .slot = slot, .trial = -1});
    if (!chance(w, 2) || p->is_dying || !p->is_hired)
        return;
    w->preempted++;
    *p = (struct process){0};
    give(w, (struct swp_event){.kind = SWP_EV_SLOT_DOWN, .slot = slot, .trial = -1, .down = {MT_EPREEMPTED, "its node left"}});
    assert_true(trial < 0 || w->driver.trials.data[trial].failures == failures);
}

static void process_step(struct world *w, int slot)
{
    struct process *p = &w->processes[slot];
    if (!p->is_hired)
        return;
    if (p->is_up && !p->is_leaving && chance(w, 200))
        process_leave(w, slot);
    if (p->is_dying || chance(w, 300)) {
        process_die(w, slot);
    } else if (!p->is_up) {
        p->is_up = true;
        give(w, (struct swp_event){.kind = SWP_EV_SLOT_UP, .slot = slot, .trial = -1});
    } else if (p->count > 0) {
        job_step(w, slot);
    }
}

static void disk_step(struct world *w)
{
    if (w->durable < w->disk.count) {
        w->durable += 1 + mt_rng_below(&w->rng, w->disk.count - w->durable);
        give(w, (struct swp_event){.kind = SWP_EV_DURABLE, .trial = -1, .durable = {w->disk.data[w->durable - 1].seq}});
    }
    for (size_t i = 0; i < w->publishes.count;) {
        struct publish p = w->publishes.data[i];
        if (p.needs > w->durable) {
            i++;
            continue;
        }
        w->files[p.trial].step = p.step;
        mt_vec_remove(&w->publishes, i);
    }
    if (w->pending_clone >= 0) {
        int trial = w->pending_clone;
        w->pending_clone = -1;
        w->files[trial].step = w->files[w->pending_from].step;
        give(w, (struct swp_event){.kind = SWP_EV_CLONED, .trial = trial, .cloned = {w->files[trial].step > 0}});
    }
}

static void world_begin(struct world *w, uint64_t seed)
{
    w->rng.state = seed;
    w->pending_clone = -1;
    driver_make(w);
    give(w, (struct swp_event){.kind = SWP_EV_TICK, .trial = -1});
}

static void world_step(struct world *w)
{
    uint64_t who = mt_rng_below(&w->rng, SLOTS + 2);
    w->now_ns += 1 + (int64_t)mt_rng_below(&w->rng, 30 * 1000 * 1000);
    if (w->is_elastic && mt_rng_below(&w->rng, 50) == 0)
        give(w, (struct swp_event){.kind = SWP_EV_NODES, .trial = -1, .nodes = {(int)mt_rng_below(&w->rng, SLOTS + 2)}});
    if (chance(w, 400))
        crash(w);
    else if (who < SLOTS)
        process_step(w, (int)who);
    else if (who == SLOTS)
        disk_step(w);
    else
        give(w, (struct swp_event){.kind = SWP_EV_TICK, .trial = -1});
}

static void world_run(struct world *w, uint64_t seed)
{
    world_begin(w, seed);
    for (int events = 0; !w->is_done && events < EVENTS_MAX; events++)
        world_step(w);
    if (!w->is_done)
        fail_msg("seed %llu: it does not end: %zu trials, %d running, %d paused", (unsigned long long)seed, w->driver.trials.count,
                 (int)w->driver.running, (int)w->driver.paused);
    assert_int_equal(w->driver.trials.count, TRIALS);
    for (int i = 0; i < TRIALS; i++)
        assert_true(w->ends[i] == 1 && w->returns[i] <= 1);
}

static void world_fini(struct world *w)
{
    driver_drop(w);
    for (size_t i = 0; i < w->disk.count; i++)
        free((char *)w->disk.data[i].text);
    mt_vec_fini(&w->disk);
    mt_vec_fini(&w->publishes);
    mt_vec_fini(&w->notes);
}

static void faults(const char *sampler, const char *scheduler, bool is_ordered, bool is_equal)
{
    static struct world calm, wild;
    int                 crashes = 0, deaths = 0, preempted = 0;
    calm = (struct world){.sampler = sampler, .scheduler = scheduler, .is_ordered = is_ordered};
    world_run(&calm, 1);
    for (uint64_t seed = 2; seed < 60; seed++) {
        wild = (struct world){.sampler = sampler, .scheduler = scheduler, .is_ordered = is_ordered, .has_faults = true};
        wild.is_elastic = seed % 2 == 0;
        world_run(&wild, seed);
        crashes += wild.crashes;
        deaths += wild.deaths;
        preempted += wild.preempted;
        for (int i = 0; i < TRIALS && is_equal; i++) {
            assert_string_equal(wild.driver.trials.data[i].params, calm.driver.trials.data[i].params);
            assert_true(wild.values[i] == calm.values[i] && wild.outcomes[i] == calm.outcomes[i]);
        }
        world_fini(&wild);
    }
    world_fini(&calm);
    assert_true(crashes > 20 && deaths > 20 && preempted > 5);
}

/* The driver's next life, with all that is on the disk. */
static void world_again(struct world *w)
{
    driver_drop(w);
    w->is_done = false;
    driver_make(w);
    give(w, (struct swp_event){.kind = SWP_EV_TICK, .trial = -1});
}

/* All are drawn ahead; then there are to be fewer, and later more again. */
static void fewer_and_more(void **state)
{
    static struct world w;
    (void)state;
    w = (struct world){.sampler = "random", .scheduler = "fifo"};
    world_begin(&w, 5);
    while (w.driver.completed < 5)
        world_step(&w);
    assert_int_equal(w.driver.trials.count, TRIALS);
    give(&w, (struct swp_event){.kind = SWP_EV_CONTROL, .trial = -1, .control = {SWP_CONTROL_TRIALS, 12}});
    assert_int_equal(w.driver.dropped, TRIALS - 12);
    while (!w.is_done)
        world_step(&w);
    assert_int_equal(w.driver.completed, 12);
    assert_int_equal(w.driver.trials.count, TRIALS);
    world_again(&w); /* asks for 30 again; dropped ones are none of them */
    assert_int_equal(w.driver.completed, 12);
    assert_int_equal(swp_driver_limit(&w.driver), TRIALS + TRIALS - 12);
    world_fini(&w);
}

/* With faults, too; and in order. */
static void one_at_a_time_sees_all(void **state)
{
    static struct world w;
    (void)state;
    for (uint64_t seed = 1; seed < 20; seed++) {
        w = (struct world){
            .sampler = "tpe,startup=5", .scheduler = "fifo", .is_alone = true, .has_faults = seed > 1, .is_ordered = seed % 2 == 0};
        world_run(&w, seed);
        world_fini(&w);
    }
}

/* What is not needed is let go, also a process that still waits for room; a pause lets go of all; what waits is told. */
static void slots_follow(void **state)
{
    static struct world w;
    (void)state;
    w = (struct world){.sampler = "random", .scheduler = "fifo", .is_elastic = true};
    world_begin(&w, 8);
    assert_int_equal(w.driver.live, 1);
    assert_int_equal(swp_driver_waiting(&w.driver), TRIALS - 1);
    give(&w, (struct swp_event){.kind = SWP_EV_NODES, .trial = -1, .nodes = {100}});
    assert_int_equal(w.driver.live, SLOTS);
    give(&w, (struct swp_event){.kind = SWP_EV_CONTROL, .trial = -1, .control = {SWP_CONTROL_PAUSE, 0}});
    assert_int_equal(swp_driver_waiting(&w.driver), 0);
    w.now_ns += 2 * MT_SWEEP_IDLE_MS * 1000000ll;
    give(&w, (struct swp_event){.kind = SWP_EV_TICK, .trial = -1});
    for (int i = 0; i < SLOTS; i++) {
        assert_true(w.processes[i].is_dying);
        process_die(&w, i);
    }
    assert_int_equal(w.driver.live, 0);
    give(&w, (struct swp_event){.kind = SWP_EV_CONTROL, .trial = -1, .control = {SWP_CONTROL_GO, 0}});
    assert_int_equal(w.driver.live, SLOTS);
    give(&w, (struct swp_event){.kind = SWP_EV_NODES, .trial = -1, .nodes = {1}});
    w.now_ns += 2 * MT_SWEEP_IDLE_MS * 1000000ll;
    give(&w, (struct swp_event){.kind = SWP_EV_TICK, .trial = -1});
    assert_int_equal(w.processes[0].is_dying + w.processes[1].is_dying + w.processes[2].is_dying, SLOTS - 1);
    world_fini(&w);
}

/* Time is up: what has no value waits, and is what the next driver, which has no limit of time, begins with. */
static void time_is_up(void **state)
{
    static struct world w;
    (void)state;
    w = (struct world){.sampler = "random", .scheduler = "fifo"};
    world_begin(&w, 6);
    while (w.driver.completed < 3)
        world_step(&w);
    give(&w, (struct swp_event){.kind = SWP_EV_CONTROL, .trial = -1, .control = {SWP_CONTROL_TIME, 1}});
    while (!w.is_done)
        world_step(&w);
    uint64_t ended = w.driver.completed + w.driver.pruned;
    assert_true(w.driver.is_time_up && w.driver.dropped == 0 && ended >= 3 && ended < TRIALS);
    world_again(&w);
    while (!w.is_done)
        world_step(&w);
    assert_int_equal(w.driver.completed + w.driver.pruned, TRIALS);
    for (int i = 0; i < TRIALS; i++)
        assert_int_equal(w.ends[i], 1);
    world_fini(&w);
}

/* ---- states ---- */

static char refused[160];
static int  refusals;
static void refusal_note(const char *expr, const char *file, int line)
{
    (void)file, (void)line;
    if (refusals++ == 0)
        snprintf(refused, sizeof refused, "%s", expr);
}

/* What a change of state that is planted comes to. The state is put back. */
static const char *planted_trial(struct swp_driver *d, int64_t number, enum swp_trial_state from, int slot, enum swp_trial_state to)
{
    struct swp_trial kept = d->trials.data[number];
    uint64_t         running = d->running, paused = d->paused;
    refused[0] = 0;
    refusals = 0;
    d->trials.data[number].state = (uint8_t)from;
    d->trials.data[number].slot = slot;
    mt_assert_set_hook(refusal_note);
    swp_trial_set_state(d, number, to);
    mt_assert_set_hook(NULL);
    d->trials.data[number] = kept;
    d->running = running, d->paused = paused;
    return refused;
}

static const char *planted_slot(struct swp_driver *d, enum swp_slot_state from, enum swp_slot_state to)
{
    struct swp_slot kept = d->slots[0];
    int             live = d->live, up = d->up;
    refused[0] = 0;
    refusals = 0;
    d->slots[0].state = from;
    mt_assert_set_hook(refusal_note);
    swp_slot_set_state(d, 0, to);
    mt_assert_set_hook(NULL);
    d->slots[0] = kept;
    d->live = live, d->up = up;
    return refused;
}

static void a_state_follows_only_what_its_table_says(void **state)
{
    static struct world w;
    struct swp_driver  *d = &w.driver;
    (void)state;
    w = (struct world){.sampler = "random", .scheduler = "fifo"};
    world_run(&w, 3);
    assert_string_equal(planted_trial(d, 0, SWP_TRIAL_WAITING, 0, SWP_TRIAL_RUNNING), "");
    assert_string_equal(planted_trial(d, 0, SWP_TRIAL_ENDED, 0, SWP_TRIAL_RUNNING), "trial: ENDED -> RUNNING is no transition");
    assert_string_equal(planted_trial(d, 0, SWP_TRIAL_PAUSED, 0, SWP_TRIAL_RUNNING), "trial: PAUSED -> RUNNING is no transition");
    assert_non_null(strstr(planted_trial(d, 0, SWP_TRIAL_WAITING, -1, SWP_TRIAL_RUNNING), "slot >= 0")); /* runs nowhere */
    assert_non_null(strstr(planted_trial(d, 0, SWP_TRIAL_RUNNING, 1, SWP_TRIAL_ENDED), "slot >= 0"));    /* ended, and in a queue */
    assert_string_equal(planted_slot(d, SWP_SLOT_NONE, SWP_SLOT_UP), "slot: NONE -> UP is no transition");
    assert_string_equal(planted_slot(d, SWP_SLOT_DYING, SWP_SLOT_UP), "slot: DYING -> UP is no transition");
    d->slots[0].count = 1; /* a process is hired where trials of the last one are */
    assert_non_null(strstr(planted_slot(d, SWP_SLOT_NONE, SWP_SLOT_STARTING), "count == 0"));
    d->slots[0].count = 0;
    assert_int_equal(d->state, SWP_DRIVER_DONE);
    mt_assert_set_hook(refusal_note);
    refusals = 0;
    swp_driver_set_state(d, SWP_DRIVER_OPEN);
    mt_assert_set_hook(NULL);
    assert_string_equal(refused, "sweep: DONE -> OPEN is no transition");
    world_fini(&w);
}

/* A sweep of six trials, and a slot that runs one of them. */
static int begin_and_find(struct world *w)
{
    int slot = 0;
    *w = (struct world){.sampler = "random", .scheduler = "fifo"};
    world_begin(w, 6);
    while (w->driver.running == 0)
        world_step(w);
    while (w->driver.slots[slot].state != SWP_SLOT_UP || w->driver.slots[slot].count == 0)
        slot++;
    return slot;
}

/* For how many ms of ticks nothing is heard of a slot before it is killed. */
static int silence_until_killed(struct swp_driver *d, int slot, int64_t now)
{
    int ms = 0;
    while (d->slots[slot].state == SWP_SLOT_UP && ms < 20 * 1000) {
        ms += 100;
        assert_int_equal(
            swp_driver_step(d, &(struct swp_event){.kind = SWP_EV_TICK, .now_ns = now + ms * 1000000ll, .trial = -1}).code, 0);
    }
    assert_int_equal(d->slots[slot].state, SWP_SLOT_DYING);
    return ms;
}

/* Who could not report, since nothing was taken from him, is not silent: his time stands still. */
static void a_held_trial_is_not_silent(void **state)
{
    static struct world w;
    (void)state;
    int                slot = begin_and_find(&w);
    struct swp_driver *d = &w.driver;
    d->config.silent_s = 10;
    int64_t now = d->now_ns, heard = d->slots[slot].heard_ns;
    assert_int_equal(swp_driver_step(d, &(struct swp_event){.kind = SWP_EV_HOLD, .now_ns = now, .trial = -1, .hold = {true}}).code,
                     0);
    now += 60 * 1000000000ll;
    assert_int_equal(swp_driver_step(d, &(struct swp_event){.kind = SWP_EV_TICK, .now_ns = now, .trial = -1}).code, 0);
    assert_int_equal(d->slots[slot].state, SWP_SLOT_UP);
    assert_int_equal(swp_driver_step(d, &(struct swp_event){.kind = SWP_EV_HOLD, .now_ns = now, .trial = -1, .hold = {false}}).code,
                     0);
    assert_int_equal(d->slots[slot].heard_ns, heard + 60 * 1000000000ll);
    assert_int_equal(swp_driver_step(d, &(struct swp_event){.kind = SWP_EV_TICK, .now_ns = now, .trial = -1}).code, 0);
    assert_int_equal(d->slots[slot].state, SWP_SLOT_UP);
    assert_true(silence_until_killed(d, slot, now) >= 9900);
    world_fini(&w);
}

/* Nor who said something that a driver without a CPU has not read yet. */
static void a_driver_that_stood_still_kills_nobody(void **state)
{
    static struct world w;
    (void)state;
    int                slot = begin_and_find(&w);
    struct swp_driver *d = &w.driver;
    d->config.trial_s = 10;
    int64_t now = d->now_ns;
    assert_int_equal(swp_driver_step(d, &(struct swp_event){.kind = SWP_EV_TICK, .now_ns = now, .trial = -1}).code, 0);
    now += 60 * 1000000000ll;
    assert_int_equal(swp_driver_step(d, &(struct swp_event){.kind = SWP_EV_TICK, .now_ns = now, .trial = -1}).code, 0);
    assert_int_equal(d->slots[slot].state, SWP_SLOT_UP);
    assert_in_range(silence_until_killed(d, slot, now), 9000, 10100);
    world_fini(&w);
}

static void random_fifo(void **state)
{
    (void)state;
    faults("random", "fifo", false, true);
}
static void tpe_in_order(void **state)
{
    (void)state;
    faults("tpe,startup=5", "fifo", true, true);
}
/* (A kernel's fit takes a while, so only the last five are drawn from one.) */
static void gp_in_order(void **state)
{
    (void)state;
    faults("gp,startup=25", "fifo", true, true);
}
static void tpe_fifo(void **state)
{
    (void)state;
    faults("tpe,startup=5", "fifo", false, false);
}
static void median(void **state)
{
    (void)state;
    faults("random", "median,grace=2", false, false);
}
static void asha(void **state)
{
    (void)state;
    faults("tpe,startup=5", "asha,max_t=9,eta=3", false, false);
}
static void asha_promote(void **state)
{
    (void)state;
    faults("random", "asha_promote,max_t=9,eta=3", false, false);
}
static void hyperband(void **state)
{
    (void)state;
    faults("random", "hyperband,max_t=9,eta=3", false, false);
}
static void pbt(void **state)
{
    (void)state;
    faults("random", "pbt,interval=2", false, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_fifo),
        cmocka_unit_test(tpe_in_order),
        cmocka_unit_test(gp_in_order),
        cmocka_unit_test(tpe_fifo),
        cmocka_unit_test(median),
        cmocka_unit_test(asha),
        cmocka_unit_test(asha_promote),
        cmocka_unit_test(hyperband),
        cmocka_unit_test(pbt),
        cmocka_unit_test(fewer_and_more),
        cmocka_unit_test(slots_follow),
        cmocka_unit_test(time_is_up),
        cmocka_unit_test(one_at_a_time_sees_all),
        cmocka_unit_test(a_state_follows_only_what_its_table_says),
        cmocka_unit_test(a_held_trial_is_not_silent),
        cmocka_unit_test(a_driver_that_stood_still_kills_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
