/* SPDX-License-Identifier: Apache-2.0
 *
 * fault.c - the faults of a seed: kills, pauses, cuts, until the time when everything heals.
 *
 * Owns: nothing. Thread: one.
 */
#include "tests/sim/load/drain.h"
#include "tests/sim/twins/io.h"
#include "tests/sim/twins/net.h"
#include "tests/sim/shells/node.h"
#include "tests/sim/shells/proc.h"

#include <signal.h>

enum { SIM_FAULT_MEAN_MS = 60 };

/* A random living process of that role (of all, the n-th); NULL: none. */
static struct sim_proc *random_proc(struct sim *s, enum ctl_role role)
{
    uint64_t count = 0, pick;
    MT_MAP_EACH(&s->procs, entry)
        count += ((struct sim_proc *)entry->value.ptr)->role == role;
    if (!count)
        return NULL;
    pick = sim_random(s, count);
    MT_MAP_EACH(&s->procs, entry) {
        struct sim_proc *p = entry->value.ptr;
        if (p->role == role && pick-- == 0)
            return p;
    }
    return NULL;
}

/* It plays a part in something longer. */
static bool is_spared(const struct sim *s, const struct sim_proc *p)
{
    return s->now < s->strict_until && (p->serial == s->strict_owner || sim_node_serial(p->n) == s->strict_node);
}

static void kill_process(struct sim *s, enum ctl_role role, uint64_t *counter)
{
    struct sim_proc *p = random_proc(s, role);
    if (!p || is_spared(s, p))
        return;
    (*counter)++;
    s->counters.fault_total++;
    s->counters.kill_worker_running += p->run.is_active;
    sim_proc_kill(s, p, SIGKILL);
}

/* A driver that others wait for: it has told nobody yet where its actor runs. NULL: none. */
static struct sim_proc *asked_driver(struct sim *s)
{
    MT_MAP_EACH(&s->procs, entry) {
        struct sim_proc *p = entry->value.ptr;
        if (p->role != CTL_DRIVER || !p->is_ready || is_spared(s, p))
            continue;
        MT_MAP_EACH(&p->own.actors, actor_entry) {
            const struct own_actor *a = actor_entry->value.ptr;
            if (a->is_mine && a->askers)
                return p;
        }
    }
    return NULL;
}

static bool kill_asked_driver(struct sim *s)
{
    struct sim_proc *p = asked_driver(s);
    if (!p)
        return false;
    s->counters.kill_asked_driver++;
    s->counters.fault_total++;
    sim_proc_kill(s, p, SIGKILL);
    return true;
}

/* A worker that others borrow from, and wait for. */
static bool kill_lender(struct sim *s)
{
    MT_MAP_EACH(&s->procs, entry) {
        struct sim_proc *p = entry->value.ptr;
        if (p->role != CTL_WORKER || !p->run.is_active || p->run.phase != SIM_RUN_WAIT || p->run.run.record.aux != SIM_FN_LEND)
            continue;
        s->counters.kill_lender++;
        s->counters.fault_total++;
        sim_proc_kill(s, p, SIGKILL);
        return true;
    }
    return false;
}

/* The node with a result that its owner, on another one, has not read yet; NULL: none. */
static struct sim_node *keeper_of(struct sim *s, const struct sim_proc *p, const struct own_ref *ref, const void *read)
{
    const struct sim_value *v = ref->state == OWN_REF_PLACE && !read ? sim_value_of(s, ref->id) : NULL;
    struct sim_node        *n = v && !v->is_freed ? sim_node_of(s, v->raylet[(v->written - 1) % SIM_WRITERS_MAX]) : NULL;
    return n && n != p->n && n->spared_until <= s->now ? n : NULL;
}

/* Rather one with a result that needs a value, or a call, to be made again. */
static struct sim_node *keeper_of_item(struct sim *s, const struct sim_proc *p, bool *out_is_best)
{
    struct sim_node *found = NULL;
    for (size_t i = 0; i < p->script.items.count && !*out_is_best; i++) {
        const struct sim_item *item = &p->script.items.data[i];
        struct sim_node       *n = keeper_of(s, p, item->ref, item->read);
        if (!n)
            continue;
        found = n;
        *out_is_best = item->task &&
                       (!mt_id_is_zero(item->task->argument) || (item->task->kind == SIM_CALL && item->task->retries));
    }
    return found;
}

static struct sim_node *keeper_of_held(struct sim *s, const struct sim_proc *p)
{
    struct sim_node *found = NULL;
    for (size_t i = 0; i < p->hold.held.count && !found; i++)
        found = keeper_of(s, p, p->hold.held.data[i].ref, p->hold.held.data[i].read);
    return found;
}

/* What stood there is looked at. */
static void look_after(struct sim *s, struct sim_proc *p, const struct sim_node *died)
{
    for (size_t i = 0; i < p->hold.held.count; i++)
        if (keeper_of(s, p, p->hold.held.data[i].ref, p->hold.held.data[i].read) == died)
            sim_hold_look_soon(p, &p->hold.held.data[i]);
}

/* Such a node dies. */
static bool kill_keeper(struct sim *s)
{
    struct sim_node *found = NULL;
    bool             is_best = false, of_held = sim_chance(s, 400000);
    MT_MAP_EACH(&s->procs, entry) {
        struct sim_proc *p = entry->value.ptr;
        struct sim_node *n = NULL;
        if (p->role == CTL_DRIVER && p->is_ready && !is_best)
            n = of_held ? keeper_of_held(s, p) : keeper_of_item(s, p, &is_best);
        found = n ? n : found;
    }
    if (!found)
        return false;
    MT_MAP_EACH(&s->procs, entry) {
        struct sim_proc *p = entry->value.ptr;
        if (p->role == CTL_DRIVER && p->is_ready)
            look_after(s, p, found);
    }
    s->counters.kill_keeper++;
    s->counters.kill_raylet++;
    s->counters.fault_total++;
    sim_node_crash(s, found);
    return true;
}

/* A node that is asked for a copy dies just then, or is slow to answer. */
static void sought(struct sim *s, struct sim_event *e)
{
    struct sim_node *n = sim_node_of(s, e->target);
    if (!n || s->is_healed || n->spared_until > s->now)
        return;
    s->counters.fault_total++;
    if (sim_chance(s, 100000)) {
        s->counters.kill_raylet++;
        sim_node_crash(s, n);
    } else {
        s->counters.pause_raylet++;
        sim_node_pause(s, n, sim_between(s, 20 * SIM_MS, 400 * SIM_MS));
    }
}

void sim_fault_sought(struct sim *s, uint32_t node)
{
    s->counters.copy_sought++;
    for (int i = 0; i < s->config.nodes; i++) {
        uint32_t number = 0, epoch;
        if (sim_node_is_up(s->nodes[i]))
            rlt_self(s->nodes[i]->core, &number, &epoch);
        if (number == node && sim_chance(s, 300000))
            sim_after(s, sim_between(s, 1, 2 * SIM_MS), "sought", sought, s->nodes[i]->serial);
    }
}

/* It will die in the middle of one of its next turns. */
static void plan_crash(struct sim *s)
{
    struct sim_proc *p = random_proc(s, sim_chance(s, 850000) ? CTL_WORKER : CTL_DRIVER);
    if (!p || p->crash_in || is_spared(s, p))
        return;
    p->crash_in = (uint32_t)sim_between(s, 1, 60);
    s->counters.fault_total++;
}

static void pause_process(struct sim *s)
{
    struct sim_proc *p = random_proc(s, sim_chance(s, 800000) ? CTL_WORKER : CTL_ZYGOTE);
    if (!p || p->paused_until > s->now)
        return;
    p->paused_until = s->now + sim_between(s, SIM_MS, 400 * SIM_MS);
    s->counters.pause_worker++;
    s->counters.fault_total++;
}

static void pause_raylet(struct sim *s)
{
    struct sim_node *n = s->nodes[sim_random(s, (uint64_t)s->config.nodes)];
    bool             is_long = sim_chance(s, 100000);
    uint64_t         time = sim_between(s, SIM_MS, 300 * SIM_MS);
    if (!sim_node_is_up(n))
        return;
    s->counters.pause_raylet++;
    s->counters.pause_raylet_long += is_long;
    s->counters.fault_total++;
    if (is_long)
        time = sim_chance(s, 700000) ? sim_between(s, SIM_S, 3 * SIM_S) : sim_between(s, 10 * SIM_S, 13 * SIM_S);
    sim_node_pause(s, n, time);
}

static void restart_raylet(struct sim *s, struct sim_event *e)
{
    sim_node_start(s, s->nodes[e->arg]);
}

static void kill_raylet(struct sim *s)
{
    uint64_t         i = sim_random(s, (uint64_t)s->config.nodes);
    struct sim_node *n = s->nodes[i];
    if (!sim_node_is_up(n) || n->spared_until > s->now)
        return;
    s->counters.kill_raylet++;
    s->counters.fault_total++;
    if (sim_chance(s, 500000)) {
        n->crash_in = (uint32_t)sim_between(s, 1, 200); /* between two actions of one step */
    } else {
        sim_node_crash(s, n);
    }
}

static void restart_head(struct sim *s, struct sim_event *e)
{
    (void)e;
    sim_head_start(s);
}

static void kill_head(struct sim *s)
{
    if (!sim_head_is_up(s) || s->head_spared_until > s->now)
        return;
    s->counters.kill_head++;
    s->counters.fault_total++;
    if (sim_chance(s, 600000))
        sim_head_plan_crash(s, (uint32_t)sim_between(s, 1, 100));
    else
        sim_head_crash(s);
}

static void pause_head(struct sim *s)
{
    if (!sim_head_is_up(s) || s->head_spared_until > s->now)
        return;
    s->counters.pause_head++;
    s->counters.fault_total++;
    sim_head_pause(s, sim_chance(s, 150000) ? sim_between(s, SIM_S, 12 * SIM_S) : sim_between(s, SIM_MS, 900 * SIM_MS));
}

static void fill_head_disk(struct sim *s)
{
    bool has_reserve = sim_chance(s, 500000);
    if (!sim_head_is_up(s))
        return;
    s->counters.head_short += has_reserve;
    s->counters.head_full += !has_reserve;
    s->counters.fault_total++;
    sim_head_fill(s, sim_between(s, 20 * SIM_MS, 3 * SIM_S), has_reserve);
}

/* A path goes dark, in one direction or both: mostly for a moment, sometimes long enough to be declared dead. */
static void cut_path(struct sim *s)
{
    int      a = (int)sim_random(s, (uint64_t)s->config.nodes);
    int      b = sim_chance(s, 500000) ? SIM_HEAD : (int)sim_random(s, (uint64_t)s->config.nodes);
    uint64_t time = sim_between(s, SIM_MS, 1500 * SIM_MS);
    bool     is_one_way = sim_chance(s, 300000);
    if (a == b)
        return;
    if (sim_chance(s, 100000))
        time = sim_between(s, 2 * SIM_S, 9 * SIM_S); /* suspect */
    else if (sim_chance(s, b == SIM_HEAD ? 60000 : 20000))
        time = sim_between(s, 10 * SIM_S, 14 * SIM_S); /* dead */
    sim_net_cut(s, a, b, time);
    if (!is_one_way)
        sim_net_cut(s, b, a, time);
    s->counters.cut_one_way += is_one_way;
    s->counters.cut_head += b == SIM_HEAD;
    s->counters.cut_peer += b != SIM_HEAD;
    s->counters.fault_total++;
}

static void net_fault(struct sim *s)
{
    switch (sim_random(s, 5)) {
    case 2: s->counters.fault_total += sim_wire_break_one(s); break;
    case 0:
        if (sim_net_reset_one(s)) {
            s->counters.reset_stream++;
            s->counters.fault_total++;
        }
        break;
    case 1:
        sim_net_slow(s, (int)sim_random(s, (uint64_t)s->config.nodes), sim_between(s, 10 * SIM_MS, SIM_S));
        s->counters.slow_path++;
        s->counters.fault_total++;
        break;
    default: cut_path(s); break;
    }
}

/* The disks have no room for a while. */
static void fill_disks(struct sim *s)
{
    s->disk_full_until = s->now + sim_between(s, 20 * SIM_MS, 2 * SIM_S);
    s->counters.fault_total++;
}

/* Whoever is down comes back. */
static void revive(struct sim *s)
{
    if (s->config.has_head && sim_head_wants_restart(s))
        sim_after(s, sim_between(s, 10 * SIM_MS, 3 * SIM_S), "restart head", restart_head, 0);
    for (int i = 0; i < s->config.nodes; i++)
        if (!sim_node_is_up(s->nodes[i]) && !s->nodes[i]->is_restarting) {
            s->nodes[i]->is_restarting = true;
            sim_after(s, sim_between(s, 10 * SIM_MS, SIM_S), "restart", restart_raylet, 0)->arg = (uint64_t)i;
        }
}

/* Raylets and the head begin anew once more when all else is well again, and late: what they know of each other must be right
 * all the same when the last drivers look. */
static void late_restart(struct sim *s, struct sim_event *e)
{
    struct sim_node *n = s->nodes[sim_random(s, (uint64_t)s->config.nodes)];
    (void)e;
    if (sim_node_is_up(n)) {
        sim_node_crash(s, n);
        s->counters.late_restart++;
    }
    bool may_end = !s->config.has_redis || s->head_spared_until <= s->now; /* what its store forgot it is to give it again */
    if (sim_head_is_up(s) && may_end && sim_chance(s, 500000))
        sim_head_crash(s);
    revive(s);
}

static void heal(struct sim *s)
{
    s->is_healed = true;
    s->disk_full_until = 0;
    sim_note(s, "healed", 0, 0);
    MT_MAP_EACH(&s->procs, entry)
        ((struct sim_proc *)entry->value.ptr)->crash_in = 0;
    for (int i = 0; i < s->config.nodes; i++)
        s->nodes[i]->crash_in = 0;
    if (s->config.has_head) {
        sim_head_plan_crash(s, 0);
        sim_net_heal(s);
    }
    for (int i = 0; s->config.has_head && s->config.nodes > 1 && sim_chance(s, 300000) && i < 3; i++)
        sim_after(s, sim_between(s, 0, 6 * SIM_S), "late restart", late_restart, 0);
    revive(s);
}

static void next_fault(struct sim *s, struct sim_event *e)
{
    (void)e;
    if (s->now >= s->config.faults_until) {
        heal(s);
        return;
    }
    revive(s);
    if (s->config.is_short && sim_chance(s, 50000))
        fill_disks(s);
    if ((sim_chance(s, 300000) && kill_asked_driver(s)) || (sim_chance(s, 100000) && kill_lender(s)) ||
        (s->config.has_head && sim_chance(s, 60000) && kill_keeper(s))) {
        sim_after(s, sim_between(s, SIM_MS, 2 * SIM_FAULT_MEAN_MS * SIM_MS), "fault", next_fault, 0);
        return;
    }
    if (s->config.has_head && sim_chance(s, 350000)) {
        uint64_t kind = sim_random(s, s->config.fills_head ? 11 : 10);
        if (kind == 0)
            kill_head(s);
        else if (kind == 1)
            pause_head(s);
        else if (kind == 10)
            fill_head_disk(s);
        else
            net_fault(s);
        sim_after(s, sim_between(s, SIM_MS, 2 * SIM_FAULT_MEAN_MS * SIM_MS), "fault", next_fault, 0);
        return;
    }
    switch (sim_random(s, 20)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4: kill_process(s, CTL_WORKER, &s->counters.kill_worker); break;
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
    case 10: plan_crash(s); break;
    case 11: kill_process(s, CTL_ZYGOTE, &s->counters.kill_zygote); break;
    case 12: kill_process(s, CTL_DRIVER, &s->counters.kill_driver); break;
    case 13: kill_raylet(s); break;
    case 14:
    case 15: pause_raylet(s); break;
    default: pause_process(s); break;
    }
    sim_after(s, sim_between(s, SIM_MS, 2 * SIM_FAULT_MEAN_MS * SIM_MS), "fault", next_fault, 0);
}

/* A raylet that is out of the head's sight until it is given up, lives on, and comes back: cut off, or stopped. */
static void long_absence(struct sim *s, struct sim_event *e)
{
    struct sim_node *n = s->nodes[sim_random(s, (uint64_t)s->config.nodes)];
    uint64_t         time = sim_between(s, 10500 * SIM_MS, 12 * SIM_S);
    (void)e;
    if (!sim_node_is_up(n))
        return;
    n->crash_in = 0;
    n->spared_until = s->head_spared_until = s->now + time + SIM_S; /* a head that restarts forgives silence */
    sim_head_plan_crash(s, 0);
    s->counters.long_absence++;
    s->counters.fault_total++;
    if (sim_chance(s, 300000)) {
        sim_node_pause(s, n, time);
    } else {
        sim_net_cut(s, n->index, SIM_HEAD, time);
        sim_net_cut(s, SIM_HEAD, n->index, time);
    }
}

/* The strict actor of a worker whose creator is on another node and will go on; NULL: nothing for this play. */
static struct own_actor *far_strict_actor(struct sim *s, const struct sim_proc *worker, struct sim_proc **out_owner)
{
    if (worker->role != CTL_WORKER || !worker->is_strict || !worker->actor || sim_proc_is_frozen(worker))
        return NULL;
    MT_MAP_EACH(&s->procs, entry) {
        struct sim_proc *p = entry->value.ptr;
        if (p->role != CTL_DRIVER || !p->is_ready || p->n == worker->n || p->crash_in)
            continue;
        MT_MAP_EACH(&p->own.actors, actor_entry) {
            struct own_actor *a = actor_entry->value.ptr;
            if (a->is_mine && a->lane && a->worker == worker->process && a->restarts_left && !a->is_ending) {
                *out_owner = p;
                return a;
            }
        }
    }
    return NULL;
}

/* A raylet with a strict actor of another node's driver stops, or is not heard there any more though it hears and though the
 * head hears it, for so long that the actor begins again elsewhere while its process lives on: it must not run any more by
 * then, and never again. */
static void strict_absence(struct sim *s, struct sim_event *e)
{
    (void)e;
    if (s->is_healed)
        return;
    MT_MAP_EACH(&s->procs, entry) {
        struct sim_proc  *worker = entry->value.ptr, *owner = NULL;
        struct own_actor *a = far_strict_actor(s, worker, &owner);
        uint64_t          time = sim_between(s, 17 * SIM_S, 19 * SIM_S);
        if (!a || !sim_node_is_up(worker->n) || worker->n->spared_until > s->now)
            continue;
        a->holds++; /* the driver stays with it */
        owner->script.stay_until = s->strict_until = s->now + time;
        s->strict_owner = owner->serial;
        s->strict_node = sim_node_serial(worker->n);
        worker->n->crash_in = owner->n->crash_in = worker->crash_in = 0;
        worker->n->spared_until = owner->n->spared_until = s->head_spared_until = s->now + time + SIM_S;
        sim_head_plan_crash(s, 0);
        if (sim_chance(s, 300000))
            sim_node_pause(s, worker->n, time);
        else
            sim_net_cut(s, worker->n->index, owner->n->index, time);
        return;
    }
    if (s->now < 6 * SIM_S)
        sim_after(s, 100 * SIM_MS, "strict absence", strict_absence, 0);
}

void sim_fault_start(struct sim *s)
{
    sim_drains_start(s);
    if (s->config.has_head && s->config.nodes > 1 && sim_chance(s, 150000)) {
        sim_after(s, 300 * SIM_MS, "strict absence", strict_absence, 0);
        sim_after(s, sim_between(s, SIM_MS, 100 * SIM_MS), "fault", next_fault, 0);
        return;
    }
    if (s->config.has_head && sim_chance(s, 600000))
        sim_after(s, sim_between(s, 500 * SIM_MS, 3 * SIM_S), "long absence", long_absence, 0);
    sim_after(s, sim_between(s, SIM_MS, 100 * SIM_MS), "fault", next_fault, 0);
}
