/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.c - waiting: lead, follow, spin, park.
 *
 * Owns:   who leads. Thread: any, under the lock; it is released around every sleep.
 * Always: at most one leader sleeps in the park page for completions; whoever leaves leadership wakes the followers.
 */
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/segments/segments.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/wait/spin.h"
#include "clients/lib/shell/wait/wait.h"

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

enum { YIELDS_A_ROUND = 8 };

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

void lib_tick(uint64_t now)
{
    if (now - lib.ticked_ns < MT_LIB_TICK_NS)
        return;
    lib.ticked_ns = now;
    own_tick(&lib.own, now);
    own_spread(&lib.own);
    lib_store_trim(now);
    lib_board_tick();
    lib_act();
    if (now - lib.checked_ns < MT_LIB_SLEEP_NS)
        return;
    lib.checked_ns = now; /* here and not after a sleep: a program that polls keeps its helper from sleeping */
    check_raylet();
}

static bool leads(void)
{
    return lib.is_led && pthread_equal(lib.leader, pthread_self());
}

/* Sleeps in the park page until something comes, at most until the deadline. Nothing may have come since `bell`: what
 * the caller waits for, in memory that the pump does not look at, is looked at once more. The helper (no `ready`) is not the one
 * whom the end of the run concerns: it would come back at once, again and again, with the lock that the run needs to end. */
void lib_park(lib_ready ready, void *arg, int64_t deadline_ns, uint64_t now)
{
    int64_t limit = MT_LIB_SLEEP_NS;
    MT_ASSERT(!ready || leads());
    uint32_t bell = lane_park_prepare(lib.park);
    if (lib.role == LIB_WORKER && ready && !lib_running)
        wrk_watch_ahead(&lib.wrk); /* whoever fills what our next task waits for has us woken */
    if (lib_pump() || lib.broken || (ready && (lib_run_is_over() || ready(arg)))) {
        lane_park_cancel(lib.park);
        return;
    }
    if (lib.own.outstanding && limit > 20 * MT_LIB_TICK_NS)
        limit = 20 * MT_LIB_TICK_NS; /* demand and rebalancing look at the clock */
    if (lib.own.is_lacking && lib.own.lacking_ticks < OWN_LACKING_TICKS)
        limit = MT_LIB_TICK_NS; /* and so does whoever may have leases to give up for it */
    if (deadline_ns - (int64_t)now < limit)
        limit = deadline_ns - (int64_t)now;
    lib_unlock();
    if (limit > 0)
        shm_futex_wait(&lib.park->bell, bell, limit);
    lib_lock();
    MT_ASSERT(!ready || leads()); /* still: nobody else takes it */
    /* Both the helper and a leader may sleep here: one that leaves must not call the other awake. */
    if (!lib.is_led || leads())
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

void lib_part(uint64_t now)
{
    static uint64_t parted_ns;
    lib_note_cpu();
    if (MT_LIKELY(!lib.is_actors_lease) || now - parted_ns < MT_LIB_TICK_NS || !wrk_is_crowded(&lib.wrk, lib.cpu, lib.own.cpus))
        return;
    parted_ns = now;
    leave_cpu(lib.cpu);
    lib_note_cpu();
}

void lib_note_cpu(void)
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

/* An actor that only its creator calls waits as any worker does: that one runs on, and does not wait for it. */
static enum lib_waiter who_waits(void)
{
    bool is_peer = lib.role == LIB_WORKER && lib.is_actors_lease && lib.wrk.lanes.count > 1;
    return lib_running ? LIB_WAITS_TASK : is_peer ? LIB_WAITS_ACTOR : LIB_WAITS_OUTSIDE;
}

static enum lib_spin_how spin_how(const struct lib_spin *spin, enum lib_waiter who)
{
    lib_note_cpu();
    if (lib.own.edges.ahead_count && who != LIB_WAITS_TASK)
        return LIB_SPIN_NOT; /* workers need nothing of us for a while, and they need the CPUs */
    unsigned where = lib.role == LIB_WORKER && who != LIB_WAITS_TASK ? wrk_where_fed(&lib.wrk, lib.cpu)
                                                                     : own_where_served(&lib.own, lib.cpu);
    return lib_spin_how(spin, where, who);
}

/* An answer of the raylet is there in microseconds, but for room in a full store, or a value from far away. Whoever lent its CPU
 * for that would find another task on it when it goes on. */
static bool is_time_to_block(const struct lib_spin *spin, uint64_t now)
{
    return lib_running->is_asking ? now - spin->began_ns >= MT_LIB_ASKED_BLOCK_NS : now - spin->idle_since >= MT_LIB_BLOCK_NS;
}

/* When a sleeper has to look again: at its deadline, or to say that it waits. */
static int64_t sleeps_until(const struct lib_spin *spin, int64_t deadline_ns)
{
    int64_t says = (int64_t)spin->began_ns + MT_LIB_ASKED_BLOCK_NS;
    return lib_running && lib_running->is_asking && !lib_running->is_waiting && says < deadline_ns ? says : deadline_ns;
}

static void let_others(enum lib_spin_how how)
{
    lib_unlock();
    if (how == LIB_SPIN_PAUSE)
        shm_pause();
    else
        sched_yield();
    lib_lock();
}

/* Whether lib_pump would find something. */
static bool has_come(void)
{
    if (lane_ring_has_more(&lib.down) || shm_load32_acquire(&lib.park->socket_count) != lib.socket_seen)
        return true;
    for (size_t i = 0; i < lib.own.lanes.count; i++)
        if (lib.own.lanes.data[i]->inflight && lane_ring_has_more(&lib.own.lanes.data[i]->back))
            return true;
    return false;
}

/* An actor among others on its core yields often until a call comes: meanwhile it looks whether something has come, and no more. */
static void yield_on(lib_ready ready, void *arg, int64_t deadline_ns, struct lib_spin *spin)
{
    for (int i = 1; i < YIELDS_A_ROUND && !ready(arg) && !has_come(); i++) {
        uint64_t now = lib_now_ns();
        lib_spin_looked(spin, now, LIB_WAITS_ACTOR);
        if (spin->is_crowded || lib_spin_is_over(spin) || lib_spin_in_vain(spin, LIB_WAITS_ACTOR) ||
            now - lib.ticked_ns >= MT_LIB_TICK_NS || (int64_t)now >= deadline_ns) {
            spin->has_yielded = false;
            return;
        }
        let_others(LIB_SPIN_YIELD);
    }
}

/* One round of a leader: look, or spin a little, or sleep. */
static void lead_once(lib_ready ready, void *arg, int64_t deadline_ns, struct lib_spin *spin)
{
    enum lib_waiter   who = who_waits();
    enum lib_spin_how how;
    uint64_t          now;
    if (lib_pump()) {
        spin->idle_since = 0;
        return;
    }
    now = lib_now_ns();
    lib_spin_looked(spin, now, who);
    lib_tick(now);
    if (who == LIB_WAITS_TASK) {
        if (is_time_to_block(spin, now))
            task_waits();
        wrk_flush(&lib.wrk);
        lib_act();
    }
    how = spin_how(spin, who);
    if (how == LIB_SPIN_NOT) {
        lib_park(ready, arg, sleeps_until(spin, deadline_ns), now);
        return;
    }
    spin->has_yielded = how == LIB_SPIN_YIELD;
    shm_store32(&lib.park->state, LANE_HUNGRY);
    let_others(how);
    if (how == LIB_SPIN_YIELD && who == LIB_WAITS_ACTOR)
        yield_on(ready, arg, deadline_ns, spin);
}

/* One round beside a leader, who looks for everybody: sleeps until that one says that something has come. */
static void follow_once(int64_t deadline_ns, struct lib_spin *spin)
{
    if (lib_running && lib_running->is_asking) {
        uint64_t now = lib_now_ns();
        spin->began_ns = spin->began_ns ? spin->began_ns : now;
        wrk_flush(&lib.wrk);
        lib_act();
        if (is_time_to_block(spin, now))
            task_waits();
    } else {
        task_waits();
    }
    follow(sleeps_until(spin, deadline_ns));
}

/* Who only polls takes in what has come: perhaps nobody else does. */
static void look_once(uint64_t now)
{
    if (lib.is_led && !leads())
        return; /* the leader looks */
    (void)lib_pump();
    lib_tick(now);
}

bool lib_wait(lib_ready ready, void *arg, int64_t deadline_ns)
{
    struct lib_spin spin = {0};
    bool            is_ready, is_over = false;
    if (MT_UNLIKELY(lib.inlined != NULL))
        return ready(arg);
    lib_thread.is_waiting = true;
    lib.calls++;
    own_flush(&lib.own);
    lib_act();
    while (!(is_ready = ready(arg)) && !lib.broken && !lib_thread.in_callback && !is_over) {
        uint64_t now = deadline_ns == INT64_MAX ? 0 : lib_now_ns();
        is_over = deadline_ns != INT64_MAX && (int64_t)now >= deadline_ns;
        if (is_over) {
            look_once(now);
            continue;
        }
        if (lib.is_led && !leads()) {
            follow_once(deadline_ns, &spin);
            continue;
        }
        lib.is_led = true;
        lib.leader = pthread_self();
        lead_once(ready, arg, deadline_ns, &spin);
    }
    if (leads()) {
        shm_store32(&lib.park->state, LANE_BUSY);
        lead_end();
    }
    task_goes_on();
    lib_thread.is_waiting = false;
    return is_ready;
}
