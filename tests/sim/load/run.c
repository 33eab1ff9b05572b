/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - what a worker does with a task: takes its arguments, computes for a while, asks and waits, returns.
 *
 * What it returns is a function of its arguments, so a wrong value shows.
 *
 * Owns: nothing; refs, actors and values are held by the halves. Thread: one.
 */
#include "tests/sim/shells/node.h"
#include "tests/sim/shells/proc.h"

enum { SIM_LONG_LEAST_S = 12, SIM_LONG_MOST_S = 25 }; /* beyond what a lease that was asked back counts as room */
enum { SIM_TOLD_MS = MT_RLT_STATUS_MS + 100 };        /* a zygote that stands still says nothing of how it ended */

struct argument {
    char           type;
    bool           is_shared;
    const uint8_t *bytes;
    uint32_t       size;
};

/* ---- beginning ----------------------------------------------------------------------------------------------------- */

static int take_arguments(struct sim_proc *p, const struct wrk_run *run, struct argument out[4], size_t *out_end)
{
    uint32_t count = 0;
    size_t   at = 8;
    if (run->size >= 8)
        memcpy(&count, run->payload, sizeof count);
    SIM_REQUIRE(p->s, count <= 4, "I5: a task came with %u arguments", count);
    for (uint32_t i = 0; i < count; i++) {
        struct lane_value value;
        SIM_REQUIRE(p->s, at + sizeof value <= run->size, "I5: arguments are cut short");
        memcpy(&value, run->payload + at, sizeof value);
        at += sizeof value;
        const uint8_t *bytes = run->payload + at;
        at += ((size_t)value.size + 7) & ~(size_t)7;
        if (value.flags & LANE_VALUE_EDGE) {
            struct lane_edge edge;
            memcpy(&edge, bytes, sizeof edge);
            SIM_REQUIRE(p->s, wrk_edge_value(run, bytes, &value, &bytes), "I5: a task begins, and its argument has not come");
            p->s->values_sent += edge.board == LANE_BOARD_SENT;
            p->s->counters.value_by_cell++;
            p->s->counters.value_by_far_cell += (run->lane->board & LANE_BOARD_FAR) != 0;
        }
        out[i] = (struct argument){(char)value.type, value.flags & LANE_VALUE_SHARED, bytes, value.size};
        SIM_REQUIRE(p->s, at <= run->size, "I5: arguments are cut short");
    }
    *out_end = at;
    return (int)count;
}

/* What creates an actor says behind the arguments: the snapshot to begin with, if there is one. */
static void take_snapshot(struct sim_proc *p, size_t at)
{
    const struct wrk_run *run = &p->run.run;
    struct lane_call_head head;
    struct lane_value     value;
    memcpy(&head, run->payload, sizeof head);
    p->actor_saves = head.results >> OWN_CREATE_SAVE_SHIFT & OWN_CREATE_SAVE_MAX;
    p->actor_has_state = head.results & OWN_CREATE_HAS_STATE;
    if (!p->actor_has_state)
        return;
    SIM_REQUIRE(p->s, at + sizeof value + sizeof p->snapshot <= run->size, "I5: a snapshot is cut short");
    memcpy(&value, run->payload + at, sizeof value);
    SIM_REQUIRE(p->s, value.size == sizeof p->snapshot && !(value.flags & LANE_VALUE_SHARED), "I5: a snapshot is another value");
    memcpy(&p->snapshot, run->payload + at + sizeof value, sizeof p->snapshot);
    sim_oracle_loads(p->s, p->actor, &p->snapshot);
}

static uint64_t random_duration(struct sim *s)
{
    uint64_t shift = sim_random(s, 13); /* 1 us to 8 ms, the long ones as often as the short ones */
    return sim_between(s, SIM_US << shift, SIM_US << (shift + 1));
}

static void count_remote(struct sim_proc *p)
{
    const struct sim_run  *r = &p->run;
    const struct sim_proc *owner = sim_proc_of(p->s, r->task->owner);
    bool                   is_remote = owner && owner->n != p->n;
    p->s->counters.remote_run += is_remote;
    p->s->counters.remote_call += is_remote && r->run.record.kind == LANE_CALL;
}

static void tell_oracle(struct sim_proc *p)
{
    struct sim_run           *r = &p->run;
    const struct lane_record *record = &r->run.record;
    if (record->kind != LANE_CALL)
        sim_group_runs(p, r->task->pg);
    if (record->kind == LANE_CREATE) {
        sim_oracle_creates(p->s, r->task, record->attempt, p->serial);
        p->actor = sim_oracle_actor(p->s, r->task->actor);
        p->actor_incarnation = record->attempt;
        return;
    }
    sim_oracle_runs(p->s, r->task, record->attempt, p->serial);
    SIM_REQUIRE(p->s, record->kind != LANE_TASK || r->task->env == p->env_in, "a task runs in another environment");
    p->s->counters.env_run += p->env_in != 0;
    if (record->kind == LANE_CALL)
        sim_oracle_call_runs(p->s, r->task, p->actor, p->serial, p->actor_incarnation);
}

/* The value of a ref: inline, or where it lies. */
static void take_value(struct sim_proc *p, const struct argument *a)
{
    struct sim_run *r = &p->run;
    struct lane_ref wire;
    SIM_REQUIRE(p->s, a->type == 'l' && a->size == (a->is_shared ? sizeof wire : 8), "I5: the value of a ref did not come");
    p->s->counters.ref_argument++;
    if (!a->is_shared) {
        memcpy(&r->y, a->bytes, sizeof r->y);
        return;
    }
    memcpy(&wire, a->bytes, sizeof wire);
    r->argument = sim_read_at(p, &wire);
    p->s->counters.value_argument++;
}

static void take_second(struct sim_proc *p, int count, const struct argument args[4])
{
    struct sim_run *r = &p->run;
    uint64_t        fn = r->run.record.aux;
    if (fn == SIM_FN_VALUE || fn == SIM_FN_MIX) {
        SIM_REQUIRE(p->s, count == 2, "I5: the value of a ref did not come");
        take_value(p, &args[1]);
    } else if (fn == SIM_FN_BORROW) {
        struct lane_ref wire;
        SIM_REQUIRE(p->s, count == 2 && args[1].size == sizeof wire, "I5: a ref did not come");
        memcpy(&wire, args[1].bytes, sizeof wire);
        r->children[r->child_count++] = (struct sim_item){.ref = own_ref_borrow(&p->own, &wire)};
        p->s->counters.ref_borrowed++;
    } else if (fn == SIM_FN_CALLER) {
        struct own_actor_wire wire;
        SIM_REQUIRE(p->s, count == 2 && args[1].size == sizeof wire, "I5: an actor's handle did not come");
        memcpy(&wire, args[1].bytes, sizeof wire);
        r->actor = own_actor_borrow(&p->own, &wire);
        p->s->counters.actor_borrowed++;
    }
}

static void run_begin(struct sim_proc *p)
{
    struct sim_run *r = &p->run;
    struct argument args[4];
    struct wrk_run  run = r->run;
    size_t          end;
    int             count = take_arguments(p, &run, args, &end);
    memset(r, 0, sizeof *r);
    r->run = run;
    r->is_active = true;
    r->began = p->s->now;
    r->until = p->s->now + random_duration(p->s);
    if (run.record.kind == LANE_CREATE && sim_chance(p->s, 300000))
        r->until += sim_between(p->s, 50 * SIM_MS, 300 * SIM_MS); /* long enough for others to ask where it is */
    if (run.record.kind == LANE_TASK && p->s->config.has_long && p->s->now < p->s->config.faults_until && sim_chance(p->s, 30000))
        r->until += sim_between(p->s, SIM_LONG_LEAST_S * SIM_S, SIM_LONG_MOST_S * SIM_S);
    SIM_REQUIRE(p->s, count >= 1 && args[0].type == 'l' && args[0].size == 8, "I5: a task came without its number");
    memcpy(&r->x, args[0].bytes, sizeof r->x);
    r->task = sim_oracle_task(p->s, run.record.id);
    SIM_REQUIRE(p->s, r->task, "I3: a task runs that nobody submitted");
    own_run_begin(&p->own, run.record.id);
    count_remote(p);
    p->s->counters.task_ahead += run.record.kind == LANE_TASK && run.record.flags & LANE_TASK_AHEAD;
    tell_oracle(p);
    if (r->task->kind == SIM_TASK && r->task->executions > 1 && sim_value_of(p->s, mt_id_with_index(run.record.id, 1)) &&
        !p->s->is_healed && !p->crash_in && sim_chance(p->s, 300000)) {
        p->crash_in = (uint32_t)sim_between(p->s, 1, 20); /* in the middle of making a lost value again */
        p->s->counters.kill_again++;
    }
    if (run.record.kind == LANE_CREATE)
        take_snapshot(p, end);
    take_second(p, count, args);
}

/* ---- waiting ------------------------------------------------------------------------------------------------------- */

static void wait_begin(struct sim_proc *p)
{
    if (p->run.is_waiting)
        return;
    p->run.is_waiting = true;
    p->s->counters.worker_blocked++;
    wrk_block(&p->wrk);
}

static void wait_end(struct sim_proc *p)
{
    if (p->run.is_waiting)
        wrk_unblock(&p->wrk);
    p->run.is_waiting = false;
}

static void run_fails(struct sim_proc *p, int32_t code)
{
    p->run.task->has_failed = true;
    p->run.code = code;
    p->run.phase = SIM_RUN_REPORT;
}

enum sim_written sim_run_write(struct sim_proc *p, uint32_t owner_node, struct lane_ref *out_place)
{
    struct sim_run *r = &p->run;
    if (!sim_write_go(p, &r->writing, r->written)) {
        wait_begin(p);
        return SIM_NOT_YET;
    }
    wait_end(p);
    if (r->writing.code) {
        run_fails(p, r->writing.code);
        return SIM_WRITE_FAILED;
    }
    return sim_write_publish(p, &r->writing, r->written, owner_node, out_place) ? SIM_WRITTEN : SIM_NOT_YET;
}

/* False: not yet. */
static bool go_argument(struct sim_proc *p)
{
    struct sim_run *r = &p->run;
    r->phase = SIM_RUN_COMPUTE;
    if (!r->argument)
        return true;
    if (!sim_read_go(r->argument)) {
        r->phase = SIM_RUN_ARGUMENT;
        wait_begin(p);
        return false;
    }
    wait_end(p);
    if (r->argument->code)
        run_fails(p, r->argument->code);
    else
        r->y = r->argument->v->value;
    return true;
}

/* ---- asking -------------------------------------------------------------------------------------------------------- */

static void ask_nested(struct sim_proc *p)
{
    struct sim_run *r = &p->run;
    int             count = 1 + (int)((uint64_t)r->x % (SIM_CHILDREN_MAX - 1));
    for (int i = 0; i < count; i++) {
        int64_t          x = r->x + i;
        struct own_arg   arg = {.type = 'l', .data = &x, .size = sizeof x};
        struct sim_item *child = &r->children[r->child_count++];
        *child = (struct sim_item){0};
        child->ref = sim_submit(p, SIM_FN_LEAF, &arg, 1, NULL, 3, &child->task);
    }
    p->s->counters.nested++;
}

/* A child borrows the value that another child makes: it may wait for it when this process, their owner, dies. */
static void ask_lent(struct sim_proc *p)
{
    struct sim_run  *r = &p->run;
    struct sim_item *children = r->children;
    struct own_arg   args[2] = {{.type = 'l', .data = &r->x, .size = sizeof r->x}, {.type = 'r'}};
    children[0].ref = args[1].ref = sim_submit(p, SIM_FN_LARGE, args, 1, NULL, 3, &children[0].task);
    children[1].ref = sim_submit(p, SIM_FN_BORROW, args, 2, NULL, 3, &children[1].task);
    r->child_count = 2;
    p->s->counters.value_lent++;
}

static bool go_compute(struct sim_proc *p)
{
    struct sim_run *r = &p->run;
    if (p->s->now < r->until && !wrk_is_cancelled(&r->run))
        return false;
    r->phase = SIM_RUN_WAIT;
    if (r->run.record.aux == SIM_FN_LEND && r->x & 1) {
        ask_lent(p);
    } else if (r->run.record.aux == SIM_FN_LEND) {
        r->phase = SIM_RUN_LEND;
    } else if (r->run.record.aux == SIM_FN_NEST) {
        ask_nested(p);
    } else if (r->run.record.aux == SIM_FN_BORROW) {
        own_ref_ask(&p->own, r->children[0].ref);
    } else if (r->actor) {
        r->children[0].ref = sim_submit_call(p, r->actor, sim_oracle_next_order(p->s, r->actor->id, p->serial), r->x,
                                             &r->children[0].task);
        r->child_count = 1;
    }
    return true;
}

/* Puts a value and lends it to a child: while that borrows it, this process may die. */
static bool go_lend(struct sim_proc *p)
{
    struct sim_run *r = &p->run;
    struct lane_ref place;
    if (!r->written)
        r->written = sim_value_new(p->s, mt_id_with_index(own_id_next(&p->own), 1), sim_f(r->x));
    enum sim_written written = sim_run_write(p, p->own.node, &place);
    if (written != SIM_WRITTEN)
        return written == SIM_WRITE_FAILED;
    r->lent = own_ref_new(&p->own, r->written->id);
    SIM_REQUIRE(p->s, r->lent, "a ref found no memory");
    own_ref_set_place(&p->own, r->lent, &place);
    struct own_arg   args[2] = {{.type = 'l', .data = &r->x, .size = sizeof r->x}, {.type = 'r', .ref = r->lent}};
    struct sim_item *child = &r->children[r->child_count++];
    child->ref = sim_submit(p, SIM_FN_BORROW, args, 2, NULL, 3, &child->task);
    p->s->counters.value_lent++;
    r->phase = SIM_RUN_WAIT;
    return true;
}

/* ---- collecting ---------------------------------------------------------------------------------------------------- */

/* NULL: all are there, their bytes too. */
static struct sim_item *child_awaited(struct sim_proc *p)
{
    struct sim_run  *r = &p->run;
    struct sim_item *awaited = NULL;
    for (int i = 0; i < r->child_count; i++)
        if (!sim_item_ready(p, &r->children[i]) && !awaited)
            awaited = &r->children[i];
    return awaited;
}

static void count_borrowed(struct sim_proc *p, const struct sim_item *item, int32_t code)
{
    if (code != MT_EOWNER_DIED)
        return;
    p->s->counters.owner_died++;
    MT_MAP_EACH(&p->s->procs, entry)
        SIM_REQUIRE(p->s, ((struct sim_proc *)entry->value.ptr)->process != item->ref->id.process || p->s->config.has_head,
                    "I5: a borrower is told that a living owner is dead");
}

/* A borrowed value: sometimes the ref stays when the task has ended. */
static void borrowed_over(struct sim_proc *p, struct sim_item *item, int64_t value, int32_t code)
{
    struct sim_run *r = &p->run;
    struct own_ref *ref = item->ref;
    count_borrowed(p, item, code);
    bool is_kept = code == MT_OK && item->read && ref->holds == 1 && ref->flags & OWN_REF_BORROWED &&
                   !(ref->flags & OWN_REF_TOLD) && p->hold.held.count < SIM_KEPT_MAX && sim_chance(p->s, 400000);
    if (item->read)
        sim_read_end(item->read);
    if (!is_kept) {
        own_ref_drop(&p->own, ref);
        return;
    }
    ref->flags |= OWN_REF_TOLD; /* our submitter tells the owner before it lets go of its own hold */
    r->kept = ref->id;
    sim_hold_keep(p, ref, value);
}

/* Whether none failed; their sum. */
static bool run_collect(struct sim_proc *p, int64_t *out)
{
    struct sim_run *r = &p->run;
    bool            ok = true;
    *out = 0;
    for (int i = 0; i < r->child_count; i++) {
        struct sim_item *item = &r->children[i];
        int32_t          code;
        int64_t          value = sim_item_value(item, &code);
        if (item->task)
            sim_look_at(p, item);
        ok &= code == MT_OK;
        *out += value;
        if (!item->task) {
            borrowed_over(p, item, value, code);
            continue;
        }
        if (item->read)
            sim_read_end(item->read);
        own_ref_drop(&p->own, item->ref);
    }
    if (r->actor)
        own_actor_drop(&p->own, r->actor);
    if (r->lent)
        own_ref_drop(&p->own, r->lent);
    r->child_count = 0;
    r->actor = NULL;
    r->lent = NULL;
    return ok;
}

static void run_compute(struct sim_proc *p, bool children_ok, int64_t children)
{
    struct sim_run           *r = &p->run;
    const struct lane_record *record = &r->run.record;
    int64_t                   value = sim_f(r->x);
    bool                      ok = true;
    if (record->kind == LANE_CREATE) {
        if (!p->actor_has_state)
            p->snapshot = (struct sim_snapshot){.state = r->x};
        value = 0;
    } else if (record->kind == LANE_CALL && record->aux == SIM_FN_ADD) {
        value = p->snapshot.state = sim_f(p->snapshot.state ^ r->x);
        p->snapshot.calls++;
        r->saves = p->actor_saves && p->snapshot.calls % p->actor_saves == 0;
    } else if (record->aux == SIM_FN_VALUE || record->aux == SIM_FN_MIX) {
        value = sim_f(r->x ^ r->y);
    } else if (record->aux != SIM_FN_LEAF && record->aux != SIM_FN_LARGE) {
        value = children;
        ok = children_ok && record->aux != SIM_FN_ERROR;
    }
    r->y = value;
    if (!ok) {
        run_fails(p, MT_ETASK);
        return;
    }
    bool is_large = record->aux == SIM_FN_LARGE || ((record->aux == SIM_FN_VALUE || record->aux == SIM_FN_MIX) && r->x & 1);
    r->phase = record->kind != LANE_CREATE && is_large ? SIM_RUN_STORE : SIM_RUN_REPORT;
    if (record->kind != LANE_CREATE)
        sim_oracle_returns(p->s, r->task, value, p->actor_incarnation);
}

/* What the probes for circles see. */
static void note_awaited(struct sim_proc *p, struct own_ref *ref)
{
    struct sim_run *r = &p->run;
    if (r->is_probed && r->wait.ref != ref) {
        own_wait_end(&p->own, &r->wait);
        r->is_probed = false;
    }
    if (ref && !r->is_probed) {
        own_wait_begin(&p->own, &r->wait, ref, "run");
        r->wait.probed_ns -= sim_between(p->s, 0, MT_DEADLOCK_PROBE_MS * SIM_MS); /* no wait is too young to be right about */
        r->is_probed = true;
    }
    if (ref && r->wait.is_deadlocked) /* nothing here waits in a circle */
        sim_fail(p->s, "a waiter was told of a deadlock: %s", r->wait.failure.message);
}

/* I10: on one node the news of an owner's death comes to its borrowers at once, where the raylet heard of it by its socket. */
static void require_told(struct sim_proc *p, const struct own_ref *ref)
{
    struct sim         *s = p->s;
    const mt_map_entry *at = mt_map_find(&s->died_at, mt_map_key(ref->id.process));
    const mt_map_entry *on = mt_map_find(&s->died_on, mt_map_key(ref->id.process));
    uint64_t            since = at ? at->value.num : 0;
    if (!at || own_ref_is_ready(ref) || on->value.num != sim_node_serial(p->n))
        return;
    if (since < p->n->paused_until)
        since = p->n->paused_until;
    if (since < p->paused_until)
        since = p->paused_until;
    SIM_REQUIRE(s, s->now < since + SIM_TOLD_MS * SIM_MS, "I10: a borrower waits for a value whose owner died %llu ms ago",
                (unsigned long long)((s->now - at->value.num) / SIM_MS));
}

static bool go_wait(struct sim_proc *p)
{
    struct sim_run  *r = &p->run;
    struct sim_item *awaited = child_awaited(p);
    int64_t          children;
    if (awaited) {
        note_awaited(p, own_ref_is_ready(awaited->ref) ? NULL : awaited->ref); /* else its bytes are on their way */
        wait_begin(p);
        require_told(p, awaited->ref);
        return false;
    }
    note_awaited(p, NULL);
    wait_end(p);
    bool ok = run_collect(p, &children);
    r->phase = SIM_RUN_YIELD;
    if (r->run.record.aux != SIM_FN_STREAM)
        run_compute(p, ok, children);
    return true;
}

/* ---- returning ----------------------------------------------------------------------------------------------------- */

static bool go_store(struct sim_proc *p)
{
    struct sim_run *r = &p->run;
    if (!r->written)
        r->written = sim_value_new(p->s, mt_id_with_index(r->run.record.id, 1), r->y);
    enum sim_written written = sim_run_write(p, r->run.lane->owner_node, &r->place);
    if (written != SIM_WRITTEN)
        return written == SIM_WRITE_FAILED;
    r->is_stored = true;
    r->phase = SIM_RUN_REPORT;
    p->s->counters.value_returned++;
    return true;
}

/* The snapshot goes to the actor's creator, before the outcome. False: the ring is full. */
static bool go_save(struct sim_proc *p)
{
    struct {
        struct lane_value   head;
        struct sim_snapshot snapshot;
    } saved = {{.type = 'y', .size = sizeof p->snapshot}, p->snapshot};
    if (!p->run.saves)
        return true;
    if (!wrk_tell_creator(&p->wrk, LANE_SAVED, &saved, sizeof saved))
        return false;
    p->run.saves = false;
    sim_oracle_saves(p->s, p->actor, &p->snapshot);
    return !sim_proc_step(p);
}

/* Its node leaves: the last snapshot, also where none is due. False: the ring is full, or it was killed. */
static bool go_save_last(struct sim_proc *p)
{
    bool saves = p->run.saves = p->actor_saves && p->actor;
    if (!go_save(p))
        return false;
    p->s->counters.actor_saved_last += saves;
    if (p->actor)
        sim_oracle_left(p->actor, p->serial);
    wrk_saved(&p->wrk);
    return true;
}

/* The outcome goes into the ring. False: it is full. */
static bool run_report(struct sim_proc *p)
{
    struct sim_run     *r = &p->run;
    struct lane_value   head = {.type = 'l', .size = 8};
    struct lane_failure failure = {.pid = p->pid, .node = p->own.node, .held_size = mt_id_is_zero(r->kept) ? 0 : sizeof r->kept};
    uint8_t             good[sizeof head + sizeof r->place + sizeof r->kept], bad[sizeof failure + sizeof r->kept];
    size_t              size = sizeof head;
    uint64_t            took = p->s->now - r->began;
    if (r->argument)
        sim_read_end(r->argument);
    r->argument = NULL;
    if (r->is_stored) {
        head.flags = LANE_VALUE_SHARED;
        head.size = sizeof r->place;
    }
    memcpy(good, &head, sizeof head);
    memcpy(good + size, r->is_stored ? (const void *)&r->place : &r->y, head.size);
    size += head.size;
    if (!mt_id_is_zero(r->kept)) {
        memcpy(good + size, &r->kept, sizeof r->kept);
        size += sizeof r->kept;
    }
    memcpy(bad, &failure, sizeof failure);
    memcpy(bad + sizeof failure, &r->kept, sizeof r->kept);
    if (r->code ? !wrk_done(&p->wrk, LANE_DONE_ERROR, r->code, 7, bad, sizeof failure + failure.held_size, p->s->now, took)
                : !wrk_done(&p->wrk, 0, MT_OK, 0, good, size, p->s->now, took))
        return false;
    r->is_active = false;
    own_run_end(&p->own);
    return true;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

/* Goes on with the running task. True: it is finished. */
static bool run_go_on(struct sim_proc *p)
{
    struct sim_run *r = &p->run;
    if (r->phase == SIM_RUN_ARGUMENT && !go_argument(p))
        return false;
    if (r->phase == SIM_RUN_COMPUTE && !go_compute(p))
        return false;
    if (r->phase == SIM_RUN_LEND && !go_lend(p))
        return false;
    if (r->phase == SIM_RUN_WAIT && !go_wait(p))
        return false;
    if (r->phase == SIM_RUN_YIELD) {
        if (p->killed_in_turn || !sim_stream_yield(p))
            return false;
        if (r->phase == SIM_RUN_YIELD)
            run_compute(p, true, (int64_t)r->yielded);
    }
    if (r->phase == SIM_RUN_STORE && !go_store(p))
        return false;
    return !sim_proc_step(p) && go_save(p) && run_report(p);
}

void sim_worker_work(struct sim_proc *p)
{
    for (int i = 0; i < 16 && !p->killed_in_turn; i++) {
        if (p->run.is_active) {
            if (!run_go_on(p))
                return;
        } else if (wrk_next(&p->wrk, &p->run.run)) {
            if (sim_proc_step(p))
                return; /* claimed, never begun */
            run_begin(p);
        } else if (p->wrk.leave == WRK_SAVING || wrk_save_begin(&p->wrk)) {
            if (!go_save_last(p))
                return;
        } else if (!wrk_has_work(&p->wrk)) {
            return;
        }
        sim_proc_step(p);
    }
}

uint64_t sim_run_due(const struct sim_proc *p)
{
    const struct sim_run *r = &p->run;
    if (!r->is_active)
        return UINT64_MAX;
    switch (r->phase) {
    case SIM_RUN_COMPUTE: return r->until;
    case SIM_RUN_YIELD: return p->s->now + SIM_MS; /* a generator takes its time, so that deaths meet it */
    case SIM_RUN_LEND:
    case SIM_RUN_STORE: return r->writing.has_room ? r->writing.ready_at : UINT64_MAX;
    case SIM_RUN_REPORT: return p->s->now + 100 * SIM_US; /* the completion ring is full */
    default: return UINT64_MAX;
    }
}
