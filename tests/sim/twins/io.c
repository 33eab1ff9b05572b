/* SPDX-License-Identifier: Apache-2.0
 *
 * io.c - the twin of core/io: clock, timers and disk threads of the simulated raylets.
 *
 * Owns: every struct io_loop and io_worker. Thread: one.
 * Always: a timer or job is known by a number, never by its address, which may have been used again; nothing fires while its
 * node is paused, or after it has died.
 */
#include "tests/sim/twins/io.h"

#include "core/io/token.h"

/* ---- loops ------------------------------------------------------------------------------------------------------- */

struct io_loop *sim_loop_new(struct sim *s, struct sim_node *n)
{
    struct io_loop *loop = sim_alloc(sizeof *loop);
    loop->s = s;
    loop->n = n;
    loop->serial = n->serial;
    return loop;
}

void sim_loop_free(struct io_loop *loop)
{
    mt_map_fini(&loop->timers);
    mt_map_fini(&loop->workers);
    free(loop);
}

struct io_loop *sim_loop_of(struct sim *s, uint64_t serial)
{
    struct sim_node *n = sim_node_of(s, serial);
    return n ? n->loop : NULL;
}

uint64_t io_now_ns(void)
{
    return sim_running()->now;
}

uint64_t io_now_ms(void)
{
    return sim_running()->now / SIM_MS;
}

bool io_token_equal(const struct io_token *token, const char *text, size_t size)
{
    return size == IO_TOKEN_HEX && memcmp(token->hex, text, size) == 0;
}

/* An event of a paused node waits. True: it does. */
static bool is_paused(struct io_loop *loop, const struct sim_event *e)
{
    struct sim_event *again;
    if (loop->n->paused_until <= loop->s->now)
        return false;
    again = sim_after(loop->s, loop->n->paused_until - loop->s->now, e->name, e->fire, e->target);
    again->arg = e->arg;
    again->size = e->size;
    return true;
}

/* ---- timers ------------------------------------------------------------------------------------------------------ */

static void timer_fired(struct sim *s, struct sim_event *e)
{
    struct io_loop  *loop = sim_loop_of(s, e->target);
    struct io_timer *timer = loop ? mt_map_ptr(&loop->timers, mt_map_key(e->arg)) : NULL;
    if (!timer || is_paused(loop, e))
        return;
    mt_map_remove(&loop->timers, mt_map_key(e->arg));
    timer->loop = NULL;
    sim_enter(loop);
    timer->fire(timer);
    sim_leave(loop);
}

void io_timer_start(struct io_loop *loop, struct io_timer *timer, uint64_t timeout_ms)
{
    uint64_t          number = sim_serial(loop->s);
    struct sim_event *e;
    io_timer_stop(timer);
    timer->loop = loop;
    timer->due_ms = number; /* private, and the heap of the real one is not needed */
    if (mt_map_put_ptr(&loop->timers, mt_map_key(number), timer).code)
        abort();
    e = sim_after(loop->s, (timeout_ms ? timeout_ms : 1) * SIM_MS, "timer", timer_fired, loop->serial);
    e->arg = number;
}

void io_timer_stop(struct io_timer *timer)
{
    if (!timer->loop)
        return;
    mt_map_remove(&timer->loop->timers, mt_map_key(timer->due_ms));
    timer->loop = NULL;
}

/* ---- disk threads ------------------------------------------------------------------------------------------------ */

struct io_worker {
    struct io_loop *loop;
    uint64_t        number;
    uint32_t        jobs_max, jobs;
    uint64_t        free_at;         /* when its thread has done what it has */
    struct io_job  *first, *working; /* in order; begun, not done */
};

mt_status io_worker_new(struct io_loop *loop, uint32_t jobs_max, struct io_worker **out_worker)
{
    struct io_worker *w = sim_alloc(sizeof *w);
    w->loop = loop;
    w->number = sim_serial(loop->s);
    w->jobs_max = jobs_max;
    if (mt_map_put_ptr(&loop->workers, mt_map_key(w->number), w).code)
        abort();
    *out_worker = w;
    return mt_ok();
}

static struct io_job *take_first(struct io_job **list)
{
    struct io_job *job = *list;
    if (job)
        *list = job->next;
    return job;
}

static void append(struct io_job **list, struct io_job *job)
{
    while (*list)
        list = &(*list)->next;
    job->next = NULL;
    *list = job;
}

static void job_done(struct sim *s, struct sim_event *e)
{
    struct io_loop   *loop = sim_loop_of(s, e->target);
    struct io_worker *w = loop ? mt_map_ptr(&loop->workers, mt_map_key(e->arg)) : NULL;
    if (!w || is_paused(loop, e))
        return;
    struct io_job *job = take_first(&w->working);
    w->jobs--;
    sim_enter(loop);
    job->done(job);
    sim_leave(loop);
}

/* The thread does its work at one moment between submit and done: what it reads may have changed before, and may after. */
static void job_works(struct sim *s, struct sim_event *e)
{
    struct io_loop   *loop = sim_loop_of(s, e->target);
    struct io_worker *w = loop ? mt_map_ptr(&loop->workers, mt_map_key(e->arg)) : NULL;
    if (!w || is_paused(loop, e))
        return;
    struct io_job *job = take_first(&w->first);
    append(&w->working, job);
    sim_enter(loop);
    job->work(job);
    sim_leave(loop);
    struct sim_event *done = sim_after(s, e->size, "disk done", job_done, loop->serial);
    done->arg = e->arg;
}

mt_status io_worker_submit(struct io_worker *w, struct io_job *job)
{
    struct sim *s = w->loop->s;
    uint64_t    before = sim_between(s, 20 * SIM_US, 3 * SIM_MS), after = sim_between(s, 20 * SIM_US, 3 * SIM_MS);
    if (w->jobs >= w->jobs_max)
        return mt_error(MT_EAGAIN, 0, "the queue of a disk thread is full");
    if (!s->is_healed && sim_chance(s, 150000)) { /* a slow disk */
        s->counters.disk_slow++;
        before += sim_between(s, 100 * SIM_MS, 2 * SIM_S);
    }
    if (w->free_at < s->now)
        w->free_at = s->now;
    w->free_at += before;
    struct sim_event *e = sim_after(s, w->free_at - s->now, "disk works", job_works, w->loop->serial);
    e->arg = w->number;
    e->size = after;
    w->free_at += after;
    w->jobs++;
    append(&w->first, job);
    return mt_ok();
}

void io_worker_free(struct io_worker *w)
{
    struct io_job *job;
    mt_map_remove(&w->loop->workers, mt_map_key(w->number));
    while ((job = take_first(&w->working)))
        job->done(job);
    while ((job = take_first(&w->first))) {
        job->work(job);
        job->done(job);
    }
    free(w);
}
