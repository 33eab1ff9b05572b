/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.c - waiting: lead, follow, spin, park; and the helper thread that looks when nobody waits.
 *
 * Owns:   the helper thread. Thread: any, under the lock; it is released around every sleep.
 * Always: at most one leader sleeps in the park page for completions; whoever leaves leadership wakes the followers.
 */
#include "clients/lib/shell/lib.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>

bool lib_may_wait(void)
{
    return !lib_thread.in_callback;
}

bool lib_callback_enter(bool on)
{
    bool before = lib_thread.in_callback;
    lib_thread.in_callback = on;
    return before;
}

int64_t lib_deadline(int64_t timeout_ms)
{
    if (timeout_ms < 0 || timeout_ms > INT64_MAX / 2000000)
        return INT64_MAX;
    return (int64_t)lib_now_ns() + timeout_ms * 1000000;
}

/* A raylet that died can't ring: its socket says so. And what stands in the socket is taken even if the count in the park page
 * does not tell of it: a peer that writes over that page can have put back the count that we saw last. */
static void check_raylet(void)
{
    struct pollfd p = {.fd = lib.socket, .events = POLLIN};
    char          byte;
    if (lib.socket < 0 || poll(&p, 1, 0) <= 0)
        return;
    if (p.revents & (POLLHUP | POLLERR) || recv(lib.socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
        lib_break(MT_ECONN, "the raylet of this node is gone");
    else
        lib_socket_take();
}

static void tick(uint64_t now)
{
    if (now - lib.ticked_ns < MT_LIB_TICK_NS)
        return;
    lib.ticked_ns = now;
    own_tick(&lib.own, now);
    own_spread(&lib.own);
    lib_store_trim(now);
    lib_act();
    if (now - lib.checked_ns < MT_LIB_SLEEP_NS)
        return;
    lib.checked_ns = now; /* here and not after a sleep: a program that polls keeps its helper from sleeping */
    check_raylet();
}

/* Sleeps in the park page until something comes, at most until the deadline. Nothing may have come since `bell`: what
 * the caller waits for, in memory that the pump does not look at, is looked at once more. The helper (no `ready`) is not the one
 * whom the end of the run concerns: it would come back at once, again and again, with the lock that the run needs to end. */
static void park(lib_ready ready, void *arg, int64_t deadline_ns, uint64_t now)
{
    int64_t  limit = MT_LIB_SLEEP_NS;
    uint32_t bell = lane_park_prepare(lib.park);
    if (lib_pump() || lib.broken || (ready && (lib_run_is_over() || ready(arg)))) {
        lane_park_cancel(lib.park);
        return;
    }
    if (lib.own.outstanding && limit > 20 * MT_LIB_TICK_NS)
        limit = 20 * MT_LIB_TICK_NS; /* demand and rebalancing look at the clock */
    if (deadline_ns - (int64_t)now < limit)
        limit = deadline_ns - (int64_t)now;
    lib_unlock();
    if (limit > 0)
        shm_futex_wait(&lib.park->bell, bell, limit);
    lib_lock();
    /* Both the helper and a leader may sleep here: one that leaves must not call the other awake. */
    if (!lib.is_led || pthread_equal(lib.leader, pthread_self()))
        lane_park_cancel(lib.park);
}

static void follow(int64_t deadline_ns)
{
    int64_t limit = (int64_t)lib_now_ns() + MT_LIB_SLEEP_NS;
    lib.follower_count++;
    lib_sleep(&lib.followers, deadline_ns < limit ? deadline_ns : limit);
    lib.follower_count--;
}

/* The task or call of this thread waits. The worker is blocked when all that run wait: its CPUs serve others then. */
static void task_waits(void)
{
    if (!lib_running || lib_running->is_waiting)
        return;
    lib_running->is_waiting = true;
    lib.calls_waiting++;
    if (lib.calls_waiting >= lib.wrk.calls_running)
        wrk_block(&lib.wrk);
    wrk_flush(&lib.wrk);
    lib_act();
}

static void task_goes_on(void)
{
    if (!lib_running || !lib_running->is_waiting)
        return;
    lib_running->is_waiting = false;
    lib.calls_waiting--;
    wrk_unblock(&lib.wrk);
    lib_act();
}

static void lead_end(void)
{
    lib.is_led = false;
    if (lib.follower_count)
        lib_wake_all(&lib.followers);
}

struct spin {
    uint64_t idle_since;  /* when a look first found nothing; 0: something has come since */
    uint64_t looked_ns;   /* the last look */
    bool     has_yielded; /* after it */
};

/* Moves this thread to another of the cpus that it may use, and leaves it the choice afterwards. */
static void leave_cpu(uint32_t cpu)
{
    cpu_set_t all, others;
    if (sched_getaffinity(0, sizeof all, &all))
        return;
    others = all;
    CPU_CLR(cpu - 1, &others);
    if (CPU_COUNT(&others) && sched_setaffinity(0, sizeof others, &others) == 0)
        sched_setaffinity(0, sizeof all, &all);
}

/* Those whom we wait for see where we are. A store only where it has changed: they read this cache line. */
static void note_cpu(void)
{
    uint32_t cpu = (uint32_t)sched_getcpu() + 1, leave = shm_load32(&lib.park->leave);
    if (MT_UNLIKELY(leave)) {
        shm_store32(&lib.park->leave, 0);
        if (leave == cpu && lib.role == LIB_WORKER) {
            leave_cpu(cpu);
            cpu = (uint32_t)sched_getcpu() + 1;
        }
    }
    if (lib.cpu != cpu)
        shm_store32(&lib.park->cpu, lib.cpu = cpu);
}

/* How to go on after a look that found nothing. Where those whom we wait for run on this very core, sched_yield lets them in
 * only after a time slice: sleep at once. The same where the last yield let others run for long: who yields on a crowded
 * core waits for their time slices, who sleeps is let in when he is woken. A task that sleeps must say BLOCKED first, which
 * costs its lanes their order of work: it always waits out the whole time. Where all of them run elsewhere there is nobody
 * to let in at first. */
enum spin_how { SPIN_PAUSE, SPIN_YIELD, SPIN_NOT };
static enum spin_how spin_how(const struct spin *spin, uint64_t now, bool is_task)
{
    note_cpu();
    unsigned where = lib.role == LIB_WORKER && !lib_running ? wrk_where_fed(&lib.wrk, lib.cpu)
                                                            : own_where_served(&lib.own, lib.cpu);
    uint64_t took = now - spin->looked_ns;
    bool     is_useless = where & OWN_HERE && spin->has_yielded && took < MT_LIB_YIELDED_NS;
    bool     is_crowded = where == OWN_HERE || took >= MT_LIB_CROWDED_NS || is_useless;
    if (now - spin->idle_since >= MT_LIB_SPIN_NS || (is_crowded && !is_task))
        return SPIN_NOT;
    return where & OWN_HERE || now - spin->idle_since >= MT_LIB_PAUSE_NS ? SPIN_YIELD : SPIN_PAUSE;
}

/* One round of a leader: look, or spin a little, or sleep. */
static void lead_once(lib_ready ready, void *arg, int64_t deadline_ns, struct spin *spin)
{
    uint64_t now;
    if (lib_pump()) {
        spin->idle_since = 0;
        return;
    }
    now = lib_now_ns();
    if (spin->idle_since == 0)
        *spin = (struct spin){.idle_since = now, .looked_ns = now};
    tick(now);
    if (lib_running) {
        if (now - spin->idle_since >= MT_LIB_BLOCK_NS)
            task_waits();
        wrk_flush(&lib.wrk);
        lib_act();
    }
    enum spin_how how = spin_how(spin, now, lib_running != NULL);
    if (how == SPIN_NOT) {
        park(ready, arg, deadline_ns, now);
        return;
    }
    spin->looked_ns = now;
    spin->has_yielded = how == SPIN_YIELD;
    shm_store32(&lib.park->state, LANE_HUNGRY);
    lib_unlock();
    if (how == SPIN_PAUSE)
        shm_pause();
    else
        sched_yield();
    lib_lock();
}

bool lib_wait(lib_ready ready, void *arg, int64_t deadline_ns)
{
    struct spin spin = {0};
    bool        is_ready;
    if (MT_UNLIKELY(lib.inlined != NULL))
        return lib_inline_wait(ready, arg, deadline_ns);
    lib_thread.is_waiting = true;
    lib.calls++;
    own_flush(&lib.own);
    lib_act();
    while (!(is_ready = ready(arg)) && !lib.broken && !lib_thread.in_callback) {
        if (deadline_ns != INT64_MAX && (int64_t)lib_now_ns() >= deadline_ns)
            break;
        if (lib.is_led && !pthread_equal(lib.leader, pthread_self())) {
            task_waits();
            follow(deadline_ns);
            continue;
        }
        lib.is_led = true;
        lib.leader = pthread_self();
        lead_once(ready, arg, deadline_ns, &spin);
    }
    if (lib.is_led && pthread_equal(lib.leader, pthread_self())) {
        shm_store32(&lib.park->state, LANE_BUSY);
        lead_end();
    }
    task_goes_on();
    lib_thread.is_waiting = false;
    return is_ready;
}

/* ---- requests ---- */

static bool request_is_done(void *arg)
{
    return ((struct lib_request *)arg)->is_done;
}

static manta_status call_begin(struct lib_request *request, manta_error *e)
{
    if (lib_thread.in_callback)
        return lib_error(e, MANTA_EDEADLK, "this call waits for the raylet, which a callback may not do");
    if (lib.inlined)
        return lib_error(e, MANTA_EUNSUPPORTED, "MANTA_INLINE=1: there is no raylet to make a runtime environment");
    request->id = own_id_next(&lib.own);
    request->is_done = false;
    request->fd_count = 0;
    if (mt_vec_push(&lib.requests, request).code)
        return lib_error(e, MANTA_ENOMEM, "no memory for a request to the raylet");
    return MANTA_OK;
}

void lib_call_forget(const struct lib_request *request)
{
    for (size_t i = 0; i < lib.requests.count; i++)
        if (lib.requests.data[i] == request)
            mt_vec_remove_swap(&lib.requests, i);
}

manta_status lib_call_await(struct lib_request *request, int64_t timeout_ms, manta_error *e)
{
    struct ctl_reply reply;
    lib_wait(request_is_done, request, lib_deadline(timeout_ms));
    lib_call_forget(request);
    if (lib.broken && !request->is_done)
        return lib_error_broken(e);
    if (!request->is_done)
        return lib_error(e, MANTA_ETIMEDOUT, "no answer from the raylet within %lld ms", (long long)timeout_ms);
    if (request->kind != CTL_REPLY)
        return MANTA_OK;
    if (request->size < sizeof reply)
        return lib_error(e, MANTA_EPROTO, "an answer of the raylet is too short");
    memcpy(&reply, request->payload, sizeof reply);
    if (reply.code == MT_OK)
        return MANTA_OK;
    return lib_error(e, reply.code, "%.*s", CTL_TEXT_SIZE - 1, reply.text[0] ? reply.text : mt_code_text(reply.code));
}

manta_status lib_call_send(struct lib_request *request, uint16_t kind, const void *payload, size_t size, manta_error *e)
{
    manta_status code = call_begin(request, e);
    if (code == MANTA_OK)
        own_send(&lib.own, kind, request->id, payload, size);
    return code;
}

manta_status lib_call(struct lib_request *request, uint16_t kind, const void *payload, size_t size, int64_t timeout_ms,
                      manta_error *e)
{
    if (lib.inlined)
        return lib_inline_call(request, kind, payload, size, e);
    manta_status code = lib_call_send(request, kind, payload, size, e);
    if (code)
        return code;
    /* An actor that waits for its raylet lends no CPUs: another actor that took them would hold them for its life, and both would
     * run as soon as the answer is there. Room in the store may need others' work, so that is waited for as a value is. */
    manta_ctx *running = lib_running;
    if (lib.is_actors_lease && kind != CTL_SEGMENT_WANT)
        lib_running = NULL;
    code = lib_call_await(request, timeout_ms, e);
    lib_running = running;
    return code;
}

manta_status lib_call_socket(struct lib_request *request, uint16_t kind, const void *payload, size_t size, const void *more,
                             size_t more_size, int fd, int64_t timeout_ms, manta_error *e)
{
    manta_status code = call_begin(request, e);
    if (code)
        return code;
    if (lib_socket_send(lib.socket, kind, request->id, payload, size, more, more_size, fd).code)
        lib_break(MT_ECONN, "the raylet of this node is gone");
    return lib_call_await(request, timeout_ms, e);
}

/* ---- deaths ---- */

static void nap(int64_t ns)
{
    struct timespec ts = {ns / 1000000000, ns % 1000000000};
    lib_unlock();
    nanosleep(&ts, NULL);
    lib_lock();
}

static manta_status code_of_death(const struct own_death *news)
{
    return news->is_actor ? MANTA_EACTOR_DIED : news->death.code;
}

static void tell(const struct own_death *news, manta_death_fn fn, void *user)
{
    manta_death death = {.code = code_of_death(news),
                         .node = news->death.node,
                         .pid = news->death.pid,
                         .restarting = news->restarting,
                         .incarnation = news->incarnation};
    int         status = news->death.status;
    if ((status & 0x7f) && (status & 0x7f) != 0x7f)
        death.signal_number = status & 0x7f;
    else
        death.exit_status = (status >> 8) & 0xff;
    snprintf(death.message, sizeof death.message, "%.*s", (int)sizeof death.message - 1, news->death.text);
    fn(user, &death);
}

void lib_wait_told(uint64_t watch)
{
    while (lib.telling == watch && !lib_thread.in_callback)
        nap(MT_LIB_TOLD_NAP_NS);
}

void lib_run_news(void)
{
    while (lib.news.count) {
        struct own_death news = lib.news.data[0];
        mt_vec_remove(&lib.news, 0);
        for (size_t i = 0; i < lib.watches.count; i++) {
            struct lib_watch watch = lib.watches.data[i];
            if (!mt_id_equal(watch.subject, news.subject))
                continue;
            lib.telling = watch.number; /* manta_unwatch waits for it */
            lib_unlock();
            lib_thread.in_callback = true;
            tell(&news, watch.fn, watch.user);
            lib_thread.in_callback = false;
            lib_fork_check();
            lib_lock();
            lib.telling = 0;
        }
    }
}

/* ---- the helper ---- */

/* Callbacks that are due: here, or in manta_progress of a program with a loop of its own, which is told. */
static void serve(void)
{
    if (lib_has_events()) {
        lib_events_ring();
        return;
    }
    lib_run_news();
    lib_run_callbacks();
}

static void helper_round(uint64_t *calls_seen, uint64_t *active_ns)
{
    uint64_t now = lib_now_ns();
    if (lib.calls != *calls_seen || lib.own.outstanding) {
        *calls_seen = lib.calls;
        *active_ns = now;
    }
    if (lib.output.is_wanted)
        lib_output_print(false);
    if (lib.is_led) {
        nap(lib.role == LIB_WORKER && !lib.watches.count && now - *active_ns > MT_LIB_ACTIVE_NS ? MT_LIB_IDLE_NAP_NS
                                                                                                : MT_LIB_TICK_NS);
        lib_run_check(lib_now_ns());
        serve(); /* the leader hears of what comes, but its wait may be a long one */
        return;
    }
    lib_pump();
    tick(now);
    lib_run_check(now);
    serve();
    if (now - *active_ns < MT_LIB_ACTIVE_NS && !lib_has_events()) {
        nap(MT_LIB_TICK_NS);
        return;
    }
    /* Nothing under way: sleep where the raylet and our actors can wake us. A thread that wants to wait takes the
     * lead over without asking; both then sleep on the same bell, and a ring wakes both. With an event descriptor
     * results wake us too: nobody else waits for them. */
    park(NULL, NULL, lib.own.outstanding && lib_has_events() ? (int64_t)(now + MT_LIB_TICK_NS) : lib_run_look_ns(), now);
    serve();
}

static void *helper_main(void *arg)
{
    uint64_t calls_seen = 0, active_ns = lib_now_ns();
    (void)arg;
    lib_lock();
    while (!lib.stop_helper && !lib.broken)
        helper_round(&calls_seen, &active_ns);
    lib_unlock();
    return NULL;
}

void lib_helper_start(void)
{
    if (lib.has_helper || lib.inlined)
        return;
    lib.stop_helper = false;
    lib.has_helper = pthread_create(&lib.helper, NULL, helper_main, NULL) == 0;
}

void lib_helper_stop(void)
{
    if (!lib.has_helper)
        return;
    lib.stop_helper = true;
    shm_add32(&lib.park->bell, 1);
    shm_futex_wake(&lib.park->bell, INT32_MAX);
    lib_unlock();
    pthread_join(lib.helper, NULL);
    lib_lock();
    lib.has_helper = false;
}
