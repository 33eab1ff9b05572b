/* SPDX-License-Identifier: Apache-2.0
 *
 * class.c - scheduling classes: which lane a task goes to, and how many leases are wanted.
 *
 * Owns:   every struct own_class; its queue holds the tasks that are ready and on no lane.
 * Thread: the caller's, under the owner lock.
 *
 * Demand is a level with a version. It starts at one lease and grows with the work that stands there, measured in time:
 * a thousand tasks of 50 ns need no second worker, four tasks that have shown no completion for a millisecond need
 * four. It falls when the class has been idle for a while. A task that runs in a lease that was asked back needs no
 * other one: the raylet does not count that lease any more, and would look for one in its place as long as the task runs.
 */
#include "clients/lib/owner/lane/lane.h"

#include "core/base/hash.h"

enum {
    WORK_PER_LEASE_NS = 200 * 1000, /* queued work that justifies one more lease: a few round trips of a wake-up */
    STUCK_NS = 1000 * 1000,         /* a lane without completion for so long runs long tasks */
    SURPLUS_NS = 2 * 1000 * 1000,   /* a lane without work beside busy ones is given up after so long */
    IDLE_NS = 300 * 1000 * 1000,    /* leases of a class without work are kept warm for so long */
    OVER_NS = 1000 * 1000 * 1000,   /* a class of a removed group: nobody is about to use it any more */
    LEASES_MAX = 4096,
    PRIORITY_DEPTH = 16, /* on a lane of a class with priorities: what a higher one must take back */
};

static mt_id class_key(const struct own_class_spec *spec, mt_id actor)
{
    uint64_t h = spec->group * 0x9e3779b97f4a7c15u ^ ((uint64_t)spec->policy << 32 | spec->node);
    if (actor.process)
        return actor;
    h ^= spec->env + spec->flags;
    h = (h ^ spec->pg.process ^ spec->pg.counter_index) * 0x9e3779b97f4a7c15u + spec->bundle;
    h = mt_hash_text(h, spec->labels);
    for (uint32_t i = 0; i < spec->resource_count; i++) {
        h = mt_hash_text(h, spec->resources[i].name);
        h = (h ^ (uint64_t)spec->resources[i].milli) * 0x9e3779b97f4a7c15u;
    }
    return (mt_id){1, h};
}

void own_group_over(struct own *own, mt_id pg)
{
    for (size_t i = 0; i < own->class_list.count; i++)
        own->class_list.data[i]->is_over |= mt_id_equal(own->class_list.data[i]->wire.group, pg);
}

/* Groups come and go; their classes would stay for ever. An actor's class is the actor's. */
static void retire_over(struct own *own)
{
    for (size_t i = own->class_list.count; i > 0; i--) {
        struct own_class *cls = own->class_list.data[i - 1];
        bool              is_idle = !cls->outstanding && !cls->is_busy && own->now_ns - cls->idle_since_ns >= OVER_NS;
        if (cls->is_over && is_idle && cls->lane_count == 0 && !(cls->wire.flags & CTL_CLASS_ACTOR))
            own_class_retire(own, cls);
    }
}

struct own_class *own_class_get(struct own *own, const struct own_class_spec *spec, mt_id actor)
{
    mt_id             key = class_key(spec, actor);
    struct own_class *cls = mt_map_ptr(&own->classes, key);
    if (cls)
        return cls;
    if (spec->pg.process)
        retire_over(own);
    cls = calloc(1, sizeof *cls);
    if (!cls || mt_vec_reserve(&own->class_list, 1).code || mt_map_put_ptr(&own->classes, key, cls).code) {
        free(cls);
        return NULL;
    }
    cls->key = key;
    (void)mt_vec_push(&own->class_list, cls).code;
    cls->wire.class_id = ++own->last_class;
    cls->wire.flags = spec->flags;
    cls->wire.policy = spec->policy;
    cls->wire.node = spec->node;
    cls->wire.env = spec->env;
    cls->wire.resource_count = spec->resource_count;
    memcpy(cls->wire.resources, spec->resources, sizeof cls->wire.resources);
    strncpy(cls->wire.name, spec->name, sizeof cls->wire.name - 1);
    if (spec->labels)
        strncpy(cls->wire.labels, spec->labels, sizeof cls->wire.labels - 1);
    cls->wire.group = spec->pg;
    cls->wire.bundle = spec->bundle;
    cls->idle_since_ns = own->now_ns;
    return cls;
}

struct own_class *own_class_of_id(const struct own *own, uint32_t class_id)
{
    for (size_t i = own->class_list.count; i > 0; i--) /* the newest are asked for most */
        if (own->class_list.data[i - 1]->wire.class_id == class_id)
            return own->class_list.data[i - 1];
    return NULL;
}

void own_class_retire(struct own *own, struct own_class *cls)
{
    struct ctl_demand last = {.class_id = cls->wire.class_id, .version = CTL_DEMAND_LAST};
    own_class_demand(own, cls, 0);
    if (cls->is_over && cls->is_told)
        own_send(own, CTL_DEMAND, own_id_next(own), &last, sizeof last);
    mt_map_remove(&own->classes, cls->key);
    for (size_t i = 0; i < own->class_list.count; i++) {
        if (own->class_list.data[i] == cls) {
            mt_vec_remove(&own->class_list, i);
            break;
        }
    }
    free(cls->levels);
    free(cls->lanes);
    free(cls);
}

void own_class_demand(struct own *own, struct own_class *cls, uint32_t wanted)
{
    struct ctl_demand message = {.class_id = cls->wire.class_id, .wanted = wanted};
    if (wanted == cls->wanted)
        return;
    if (!cls->is_told) {
        own_send(own, CTL_CLASS, own_id_next(own), &cls->wire, sizeof cls->wire);
        cls->is_told = true;
    }
    cls->wanted = wanted;
    message.version = ++cls->version;
    own_send(own, CTL_DEMAND, own_id_next(own), &message, sizeof message);
}

void own_class_push(struct own *own, struct own_class *cls, struct own_task *task)
{
    struct own_queue *q;
    if (MT_UNLIKELY(cls->edge_tasks)) {
        cls->edge_tasks--;
        cls->told_tasks -= cls->told_tasks > 0;
        if (own->edges.memory && own_ahead_is_plain(task))
            own_cell_take(own, task);
    }
    if (MT_LIKELY(!task->priority && !cls->level_count)) {
        own_queue_push(&cls->queue, task);
        return;
    }
    q = own_class_queue(cls, task);
    own_queue_push(q, task);
    cls->leveled += task->priority != 0;
    if (task->priority <= cls->sent_low)
        return;
    cls->sent_low = INT32_MAX; /* of what is left on lanes, all has begun */
    for (uint32_t i = 0; i < cls->lane_count; i++)
        own_lane_revoke(own, cls->lanes[i], 0);
}

struct own_task *own_class_pop(struct own_class *cls)
{
    struct own_queue *q = &cls->queue;
    for (uint32_t i = 0; i < cls->level_count && cls->leveled; i++) {
        if (cls->levels[i].priority < 0 && cls->queue.first)
            break;
        if (cls->levels[i].queue.first) {
            q = &cls->levels[i].queue;
            cls->leveled--;
            break;
        }
    }
    return own_queue_pop(q);
}

static bool lane_is_open(const struct own_lane *lane)
{
    return lane->state == OWN_LANE_OPEN && !lane->kill_ns && !shm_load32(&lane_header_of(lane->memory)->worker_blocked);
}

static bool has_open_lane(const struct own_class *cls)
{
    for (uint32_t i = 0; i < cls->lane_count; i++)
        if (lane_is_open(cls->lanes[i]))
            return true;
    return false;
}

static struct own_lane *emptiest_lane(const struct own_class *cls)
{
    struct own_lane *best = NULL;
    uint32_t         room = cls->level_count ? PRIORITY_DEPTH : LANE_SLOTS;
    for (uint32_t i = 0; i < cls->lane_count; i++) {
        struct own_lane *lane = cls->lanes[i];
        if (lane_is_open(lane) && lane->inflight < room && (!best || lane->inflight < best->inflight))
            best = lane;
    }
    return best;
}

/* Whether that is what the next one does. */
static bool goes_ahead(const struct own_class *cls)
{
    return cls->queue.first && cls->queue.first->is_ahead && !cls->level_count;
}

/* For a task that is ahead: by turns, since those that belong together are submitted together, and outcomes come in batches. */
static struct own_lane *next_lane(struct own_class *cls)
{
    enum { FULLER = 64 };
    struct own_lane *best = emptiest_lane(cls);
    for (uint32_t i = 1; best && i <= cls->lane_count; i++) {
        struct own_lane *lane = cls->lanes[(cls->turn + i) % cls->lane_count];
        if (!lane_is_open(lane) || lane->inflight > best->inflight + FULLER || lane->inflight >= LANE_SLOTS)
            continue;
        cls->turn = (cls->turn + i) % cls->lane_count;
        return lane;
    }
    return best;
}

static bool lane_is_stuck(const struct own *own, const struct own_lane *lane)
{
    return lane->inflight && own->now_ns - lane->progress_ns >= STUCK_NS;
}

/* Tasks that end where they are, in a lease that was asked back. Of those on another node all but one may come back. */
static uint32_t lane_keeps(const struct own_lane *lane)
{
    if (lane->state != OWN_LANE_RECALLED)
        return 0;
    return lane->is_remote && lane->inflight > 1 ? 1 : lane->inflight;
}

/* Tasks that have a use for a lease. */
static uint32_t class_work(const struct own_class *cls)
{
    uint32_t work = cls->outstanding;
    for (uint32_t i = 0; i < cls->lane_count; i++)
        work -= lane_keeps(cls->lanes[i]);
    return work;
}

/* Leases that the raylet counts and that serve nobody else: the worker waits inside a task, or is being killed. */
static uint32_t lanes_closed(const struct own_class *cls)
{
    uint32_t closed = 0;
    for (uint32_t i = 0; i < cls->lane_count; i++)
        closed += cls->lanes[i]->state != OWN_LANE_RECALLED && !lane_is_open(cls->lanes[i]);
    return closed;
}

/* How many leases the work that there is justifies. */
static uint32_t class_need(const struct own *own, const struct own_class *cls)
{
    uint32_t work = class_work(cls);
    uint64_t need = (work * cls->task_ns + WORK_PER_LEASE_NS - 1) / WORK_PER_LEASE_NS;
    for (uint32_t i = 0; i < cls->lane_count; i++)
        if (lane_is_stuck(own, cls->lanes[i]))
            need = work;
    if (need < 1)
        need = 1;
    if (need > work)
        need = work;
    need += lanes_closed(cls);
    return need > LEASES_MAX ? LEASES_MAX : (uint32_t)need;
}

static uint32_t class_wanted(const struct own *own, const struct own_class *cls)
{
    uint32_t need = class_need(own, cls);
    return need < cls->wanted ? cls->wanted : need; /* falls only when idle */
}

/* What CTL_UNSCHEDULABLE said holds for every task of the class until the cluster changes. */
static void class_fail_all(struct own *own, struct own_class *cls, struct own_failure *why)
{
    for (struct own_task *task; (task = own_class_pop(cls));) {
        why->outcome = task->attempt ? 2 : 0; /* one that waits for its retry may have run */
        own_task_set_failed(own, task, why);
        own_task_finish(own, task);
    }
    own_class_demand(own, cls, 0);
}

/* Tasks on another node may follow what was sent: those that wait for it are looked at again. */
static void followers_post(struct own *own, const struct own_task *maker)
{
    for (const struct own_waiter *w = maker->cell ? maker->ref->waiters : NULL; w; w = w->next) {
        struct own_task *task = w->kind == OWN_WAITS_TASK ? w->of.task : NULL;
        if (!task || task->actor || task->state != OWN_WAITING || task->cls == maker->cls)
            continue;
        own_task_set_state(task, OWN_WOKEN);
        own_task_post(own, task);
    }
}

void own_class_pump(struct own *own, struct own_class *cls)
{
    if (cls->wire.flags & CTL_CLASS_ACTOR)
        return; /* an actor's calls stand in the actor's own queue */
    while (own_class_has_queued(cls)) {
        struct own_lane *lane = cls->ahead_count && goes_ahead(cls) ? next_lane(cls) : emptiest_lane(cls);
        struct own_task *task;
        if (!lane)
            break;
        task = own_class_pop(cls);
        if (MT_UNLIKELY(task->is_ahead) && (own_lane_node(own, lane) != cls->ahead_node || cls->level_count)) {
            own_task_unahead(own, task);
            own_ahead_over(own);
            continue;
        }
        if (!own_lane_send(own, lane, task)) {
            own_class_push_back(cls, task);
            break;
        }
        if (MT_UNLIKELY(cls->level_count) && task->priority < cls->sent_low)
            cls->sent_low = task->priority;
        if (MT_UNLIKELY(cls->told_tasks))
            followers_post(own, task);
    }
    if (cls->outstanding) {
        cls->is_busy = true;
        if (cls->wanted == 0 || own_class_has_queued(cls))
            own_class_demand(own, cls, class_wanted(own, cls));
        own->is_lacking |= own_class_has_queued(cls) && !has_open_lane(cls);
    }
}

/* An idle lane beside one that is busy with long tasks: half of what that one has not begun moves over. */
static void class_rebalance(struct own *own, struct own_class *cls)
{
    struct own_lane *idle = NULL, *busy = NULL;
    for (uint32_t i = 0; i < cls->lane_count; i++) {
        struct own_lane *lane = cls->lanes[i];
        if (lane_is_open(lane) && lane->inflight == 0)
            idle = lane;
        if (lane->inflight >= 2 && (!busy || lane->inflight > busy->inflight) &&
            (lane_is_stuck(own, lane) || lane->inflight * cls->task_ns > WORK_PER_LEASE_NS))
            busy = lane;
    }
    if (idle && busy && !own_class_has_queued(cls) && own_lane_revoke(own, busy, (busy->inflight + 1) / 2))
        own_class_pump(own, cls);
}

/* Whether a task stands behind another: one more lease could run it. */
static bool has_waiting(const struct own_class *cls)
{
    for (uint32_t i = 0; i < cls->lane_count; i++)
        if (cls->lanes[i]->inflight > 1)
            return true;
    return own_class_has_queued(cls);
}

/* Leases that have had nothing to do for a while, beside others that work, are another's to use; but not while the work calls
 * for them: a task that stands behind a long one on another node is on its way back to an idle lane. */
static void give_up_surplus(struct own *own, struct own_class *cls)
{
    uint32_t idle = 0;
    for (uint32_t i = 0; i < cls->lane_count; i++)
        idle += lane_is_open(cls->lanes[i]) && cls->lanes[i]->inflight == 0;
    if (!idle || own_class_has_queued(cls) || cls->wanted <= idle || cls->wanted - idle < class_need(own, cls)) {
        cls->surplus_since_ns = own->now_ns;
    } else if (own->now_ns - cls->surplus_since_ns >= SURPLUS_NS) {
        cls->surplus_since_ns = own->now_ns;
        own_class_demand(own, cls, cls->wanted - idle);
    }
}

static void release_idle(struct own *own, uint64_t idle_ns)
{
    for (size_t i = 0; i < own->class_list.count; i++) {
        struct own_class *cls = own->class_list.data[i];
        if (!(cls->wire.flags & CTL_CLASS_ACTOR) && cls->wanted && class_work(cls) == 0 &&
            own->now_ns - cls->idle_since_ns >= idle_ns)
            own_class_demand(own, cls, 0);
    }
}

void own_release_idle(struct own *own)
{
    release_idle(own, 0);
}

void own_class_ticked(struct own *own)
{
    own->lacking_ticks = own->is_lacking ? own->lacking_ticks + 1 : 0;
    if (own->lacking_ticks >= OWN_LACKING_TICKS)
        release_idle(own, SURPLUS_NS);
}

void own_class_tick(struct own *own, struct own_class *cls)
{
    if (cls->wire.flags & CTL_CLASS_ACTOR)
        return;
    if (class_work(cls)) {
        own_class_pump(own, cls);
        class_rebalance(own, cls);
        if (has_waiting(cls))
            own_class_demand(own, cls, class_wanted(own, cls));
        give_up_surplus(own, cls);
    } else if (cls->is_busy) { /* until now: when the tick before this one was does not matter, the program may have stood still */
        cls->is_busy = false;
        cls->idle_since_ns = own->now_ns;
    } else if (cls->wanted && own->now_ns - cls->idle_since_ns >= IDLE_NS) {
        own_class_demand(own, cls, 0);
    }
}

void own_class_recalled(struct own *own, struct own_class *cls)
{
    uint32_t use = class_work(cls) + lanes_closed(cls);
    own_class_pump(own, cls);
    if (cls->wanted > use)
        own_class_demand(own, cls, cls->wanted - 1);
}

void own_class_refused(struct own *own, struct own_class *cls, const struct ctl_unschedulable *why)
{
    struct own_failure f;
    own_failure_set(&f, why->code, "%s can't be placed: %.*s", cls->wire.name, CTL_TEXT_SIZE - 1, why->text);
    memcpy(f.function, cls->wire.name, sizeof f.function);
    cls->is_over |= why->code == MT_EPG_REMOVED;
    class_fail_all(own, cls, &f);
}
