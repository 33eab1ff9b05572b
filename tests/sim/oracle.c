/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle.c - the record of what was accepted, run and answered.
 *
 * Owns: every struct sim_task and sim_actor. Thread: one.
 */
#include "tests/sim/oracle.h"

#include "tests/sim/load/group.h"
#include "tests/sim/shells/node.h"
#include "tests/sim/load/object.h"
#include "tests/sim/shells/proc.h"
#include "tests/sim/twins/net.h"

struct caller { /* one caller of one actor */
    uint64_t owner;
    uint64_t next_order;
    uint64_t worker;     /* where its last call ran */
    uint64_t last_order; /* + 1 */
    uint32_t accepted_incarnation;
};

struct sim_actor {
    mt_id    id;
    bool     is_strict;
    uint64_t worker; /* serial of the newest incarnation's process */
    uint64_t creations;
    uint32_t newest; /* incarnation */
    MT_VEC(struct caller) callers;
    MT_VEC(struct sim_snapshot) saved;
    uint64_t left_by;             /* serial of its last process that has saved since its node leaves; 0: none */
    size_t   loaded;              /* of them, by the newest incarnation that had one */
    char     name[CTL_NAME_SIZE]; /* "": none */
    uint64_t owner;
    uint32_t node, epoch;  /* of the owner */
    uint64_t named_at;     /* when its owner heard that the name is its own; 0: not yet */
    bool     is_name_over; /* its owner may have given it up */
};

struct sim_oracle {
    mt_map   tasks;      /* id -> sim_task */
    mt_map   open;       /* serial of an owner -> its tasks that have not ended */
    mt_map   actors;     /* id -> sim_actor */
    mt_map   dead_nodes; /* node << 32 | epoch -> 1: the head has said so */
    mt_map   epochs;     /* node << 32 | epoch -> serial of the raylet's incarnation */
    uint64_t pending;
    char     text[SIM_TEXT];
};

void sim_oracle_new(struct sim *s)
{
    s->oracle = sim_alloc(sizeof *s->oracle);
}

void sim_oracle_free(struct sim *s)
{
    struct sim_oracle *o = s->oracle;
    if (!o)
        return;
    MT_MAP_EACH(&o->tasks, entry)
        free(entry->value.ptr);
    MT_MAP_EACH(&o->actors, entry) {
        struct sim_actor *a = entry->value.ptr;
        mt_vec_fini(&a->callers);
        mt_vec_fini(&a->saved);
        free(a);
    }
    mt_map_fini(&o->tasks);
    mt_map_fini(&o->open);
    mt_map_fini(&o->actors);
    mt_map_fini(&o->epochs);
    mt_map_fini(&o->dead_nodes);
    free(o);
    s->oracle = NULL;
}

/* ---- tasks ------------------------------------------------------------------------------------------------------------- */

static uint64_t open_add(struct sim *s, uint64_t owner, int count)
{
    mt_map_entry *entry = mt_map_find(&s->oracle->open, mt_map_key(owner));
    if (!entry && mt_map_put_num(&s->oracle->open, mt_map_key(owner), 0).code)
        abort();
    entry = mt_map_find(&s->oracle->open, mt_map_key(owner));
    s->oracle->pending += (uint64_t)count;
    return entry->value.num += (uint64_t)count;
}

struct sim_task *sim_oracle_accepted(struct sim *s, enum sim_kind kind, mt_id id, uint64_t owner, int32_t retries)
{
    struct sim_task *t = sim_alloc(sizeof *t);
    t->id = id;
    t->kind = kind;
    t->owner = owner;
    t->retries = retries;
    SIM_REQUIRE(s, !mt_map_find(&s->oracle->tasks, id), "an id is used twice");
    if (mt_map_put_ptr(&s->oracle->tasks, id, t).code)
        abort();
    if (kind != SIM_CREATE) {
        open_add(s, owner, 1);
        s->counters.task_accepted++;
    } else {
        t->is_ended = true; /* nobody waits for a creation: its calls tell */
    }
    return t;
}

struct sim_task *sim_oracle_task(struct sim *s, mt_id id)
{
    return mt_map_ptr(&s->oracle->tasks, id);
}

static unsigned long long short_id(const struct sim_task *t)
{
    return (unsigned long long)mt_id_counter(t->id);
}

void sim_oracle_runs(struct sim *s, struct sim_task *t, uint32_t attempt, uint64_t worker)
{
    SIM_REQUIRE(s, !t->must_not_run, "I3: task %llu runs, and its owner had taken it back before it ran", short_id(t));
    t->executions++;
    sim_note(s, "runs", t->id.counter_index, worker);
    s->counters.task_retried += t->executions > 1;
    s->counters.value_again += t->kind == SIM_TASK && t->executions > 1 && sim_value_of(s, mt_id_with_index(t->id, 1));
    uint32_t free_runs = t->retries ? (uint32_t)s->counters.drain_limit : 0; /* what stopped when a node left costs no retry */
    SIM_REQUIRE(s, t->retries < 0 || t->executions <= (uint32_t)t->retries + 1 + free_runs,
                "I3: task %llu of process %llu runs for the %uth time (attempt %u), with %d retries", short_id(t),
                (unsigned long long)t->owner, t->executions, attempt, t->retries);
    t->worker = worker;
}

void sim_oracle_returns(struct sim *s, struct sim_task *t, int64_t value, uint32_t incarnation)
{
    struct sim_answer answer = {value, incarnation};
    if (t->answer_count == SIM_ANSWERS_MAX) {
        memmove(t->answers, t->answers + 1, sizeof t->answers - sizeof t->answers[0]);
        t->answer_count--;
    }
    t->answers[t->answer_count++] = answer;
    (void)s;
}

static void count_end(struct sim *s, const struct sim_task *t, int32_t code)
{
    struct sim_counters *c = &s->counters;
    if (code == MT_OK) {
        c->task_done++;
        c->call_done += t->kind == SIM_CALL;
    } else {
        c->task_failed++;
        c->task_died += code == MT_EWORKER_DIED;
        c->task_user_error += code == MT_ETASK;
        c->call_died += code == MT_EACTOR_DIED;
        c->task_not_run += t->executions == 0;
    }
}

static struct caller *caller_of(struct sim *s, mt_id actor_id, uint64_t owner);

/* I4: what an older incarnation did is never accepted after a newer one's. */
static void check_incarnation(struct sim *s, const struct sim_task *t, const struct sim_answer *answer)
{
    struct caller *c = caller_of(s, t->actor, t->owner);
    SIM_REQUIRE(s, answer->incarnation >= c->accepted_incarnation,
                "I4: call %llu is answered by incarnation %u after one was by %u", short_id(t), answer->incarnation,
                c->accepted_incarnation);
    c->accepted_incarnation = answer->incarnation;
}

static void check_value(struct sim *s, const struct sim_task *t, int64_t value)
{
    const struct sim_answer *answer = NULL;
    SIM_REQUIRE(s, t->executions > 0, "I3: task %llu has a value and never ran", short_id(t));
    for (int i = 0; i < t->answer_count; i++)
        if (t->answers[i].value == value)
            answer = &t->answers[i];
    SIM_REQUIRE(s, answer, "I5: the value of task %llu is none that a run of it returned", short_id(t));
    SIM_REQUIRE(s, !t->has_expected || t->expected == value, "I5: the value of task %llu is wrong", short_id(t));
    if (t->kind == SIM_CALL && !t->is_ended && !t->has_expected) /* else an incarnation after that may have made it again */
        check_incarnation(s, t, answer);
}

/* It has no retries, or reports such a failure itself, or its actor is gone before it ran; or that holds of the task whose
 * value, or item, it takes: then the failure is its own, too. */
static bool may_end_with_node(struct sim *s, const struct sim_task *t)
{
    for (; t; t = mt_id_is_zero(t->argument) ? NULL : sim_oracle_task(s, mt_id_with_index(t->argument, 0)))
        if (t->retries == 0 || t->has_failed || (t->kind == SIM_CALL && t->executions == 0))
            return true;
    return false;
}

void sim_oracle_ended(struct sim *s, struct sim_task *t, int32_t code, bool has_value, int64_t value, int32_t outcome)
{
    if (t->is_ended) { /* looked at again */
        SIM_REQUIRE(s, t->code == code && t->value == value, "I2: the outcome of task %llu has changed", short_id(t));
        return;
    }
    sim_group_ends(s, t->pg, code);
    sim_note(s, "ended", t->id.counter_index, (uint64_t)code);
    SIM_REQUIRE(s, !t->fails || code != MT_OK, "I5: a task that fails has a value");
    SIM_REQUIRE(s, code != MT_EPREEMPTED || may_end_with_node(s, t),
                "I15: task %llu ended with its node, and was allowed %d retries", short_id(t), t->retries);
    if (has_value)
        check_value(s, t, value);
    else
        SIM_REQUIRE(s, outcome != 0 || t->executions == 0, "I3: task %llu ended with %s, 'not done', and has run %u times",
                    short_id(t), mt_code_name(code), t->executions);
    t->is_ended = true;
    t->must_not_run = code == MT_ECANCELLED && outcome == 0;
    t->code = code;
    t->value = value;
    open_add(s, t->owner, -1);
    count_end(s, t, code);
}

void sim_oracle_owner_died(struct sim *s, uint64_t serial)
{
    if (open_add(s, serial, 0) == 0)
        return;
    MT_MAP_EACH(&s->oracle->tasks, entry) {
        struct sim_task *t = entry->value.ptr;
        if (t->owner != serial || t->is_ended)
            continue;
        t->is_ended = true;
        t->code = MT_EOWNER_DIED;
        open_add(s, serial, -1);
        s->counters.task_owner_gone++;
    }
}

/* ---- actors -------------------------------------------------------------------------------------------------------------- */

void sim_oracle_actor_new(struct sim *s, mt_id id, bool is_strict)
{
    struct sim_actor *a = sim_alloc(sizeof *a);
    a->id = id;
    a->is_strict = is_strict;
    if (mt_map_put_ptr(&s->oracle->actors, id, a).code)
        abort();
}

struct sim_actor *sim_oracle_actor(struct sim *s, mt_id id)
{
    return mt_map_ptr(&s->oracle->actors, id);
}

static struct caller *caller_of(struct sim *s, mt_id actor_id, uint64_t owner)
{
    struct sim_actor *a = sim_oracle_actor(s, actor_id);
    struct caller     fresh = {.owner = owner};
    SIM_REQUIRE(s, a, "I4: a call of an actor that nobody made");
    for (size_t i = 0; i < a->callers.count; i++)
        if (a->callers.data[i].owner == owner)
            return &a->callers.data[i];
    if (mt_vec_push(&a->callers, fresh).code)
        abort();
    return &a->callers.data[a->callers.count - 1];
}

uint64_t sim_oracle_next_order(struct sim *s, mt_id actor, uint64_t owner)
{
    return caller_of(s, actor, owner)->next_order++;
}

void sim_oracle_creates(struct sim *s, struct sim_task *t, uint32_t incarnation, uint64_t worker)
{
    struct sim_actor *a = sim_oracle_actor(s, t->actor);
    sim_note(s, "creates", incarnation, worker);
    SIM_REQUIRE(s, a, "I4: an actor is created that nobody made");
    SIM_REQUIRE(s, a->creations == 0 || incarnation > a->newest, "I4: incarnation %u of an actor is created after incarnation %u",
                incarnation, a->newest);
    s->counters.actor_restarted += a->creations > 0;
    s->counters.strict_lost += a->is_strict && a->creations > 0;
    const struct sim_proc *before = a->is_strict && a->creations ? sim_proc_of(s, a->worker) : NULL;
    SIM_REQUIRE(s, !before || sim_proc_is_frozen(before), "I12: incarnation %u of a strict actor begins while %u runs", incarnation,
                a->newest);
    a->worker = worker;
    a->creations++;
    a->newest = incarnation;
    t->executions++;
}

void sim_oracle_may_run(struct sim *s, const struct sim_actor *a, uint32_t incarnation)
{
    SIM_REQUIRE(s, incarnation == a->newest, "I12: incarnation %u of a strict actor goes on beside %u", incarnation, a->newest);
}

void sim_oracle_saves(struct sim *s, struct sim_actor *a, const struct sim_snapshot *snapshot)
{
    s->counters.actor_saved++;
    if (mt_vec_push(&a->saved, *snapshot).code)
        abort();
}

void sim_oracle_left(struct sim_actor *a, uint64_t proc)
{
    a->left_by = proc;
}

void sim_oracle_loads(struct sim *s, struct sim_actor *a, const struct sim_snapshot *snapshot)
{
    size_t i = a->saved.count;
    s->counters.actor_loaded++;
    while (i > 0 && memcmp(&a->saved.data[i - 1], snapshot, sizeof *snapshot) != 0)
        i--;
    SIM_REQUIRE(s, i > 0, "I5: an actor begins with a snapshot that none of its incarnations has saved");
    SIM_REQUIRE(s, i >= a->loaded, "I4: an actor begins with an older snapshot than the incarnation before");
    a->loaded = i;
}

void sim_oracle_call_runs(struct sim *s, struct sim_task *t, struct sim_actor *a, uint64_t worker, uint32_t incarnation)
{
    SIM_REQUIRE(s, a && mt_id_equal(a->id, t->actor), "I4: a call runs in another actor's process");
    SIM_REQUIRE(s, a->left_by != worker, "I4: an actor whose node leaves runs a call after its last snapshot");
    struct caller *c = caller_of(s, t->actor, t->owner);
    if (t->executions > 1 && sim_value_of(s, mt_id_with_index(t->id, 1)))
        return; /* it had its turn; made again for its lost value it may come behind later ones */
    if (c->worker == worker)
        SIM_REQUIRE(s, t->order >= c->last_order, "I4: call %llu of an owner runs after call %llu, in incarnation %u",
                    (unsigned long long)t->order, (unsigned long long)c->last_order - 1, incarnation);
    c->worker = worker;
    c->last_order = t->order + 1;
}

/* ---- names ----------------------------------------------------------------------------------------------------------------- */

void sim_oracle_name_wanted(struct sim *s, mt_id actor, const char *name, uint64_t owner, uint32_t node, uint32_t epoch)
{
    struct sim_actor *a = sim_oracle_actor(s, actor);
    snprintf(a->name, sizeof a->name, "%s", name);
    a->owner = owner;
    a->node = node;
    a->epoch = epoch;
}

void sim_oracle_name_answered(struct sim *s, mt_id actor, int32_t code)
{
    struct sim_actor *a = sim_oracle_actor(s, actor);
    sim_note(s, "name", actor.counter_index, (uint64_t)code);
    s->counters.name_put += code == MT_OK;
    s->counters.name_refused += code != MT_OK;
    if (a && code == MT_OK)
        a->named_at = s->now;
}

void sim_oracle_name_ends(struct sim *s, mt_id actor)
{
    struct sim_actor *a = sim_oracle_actor(s, actor);
    if (a)
        a->is_name_over = true;
}

/* Whether the actor has its name for sure: acknowledged before `at`, its owner lives, nobody has given anything up. */
static bool has_name(struct sim *s, const struct sim_actor *a, uint64_t at)
{
    return a->named_at && a->named_at < at && !a->is_name_over && sim_proc_has_actor(s, a->owner, a->id) &&
           !mt_map_find(&s->oracle->dead_nodes, mt_map_key((uint64_t)a->node << 32 | a->epoch));
}

void sim_oracle_name_found(struct sim *s, const char *name, uint64_t asked_at, int32_t code, mt_id actor)
{
    s->counters.name_found += code == MT_OK;
    MT_MAP_EACH(&s->oracle->actors, entry) {
        const struct sim_actor *a = entry->value.ptr;
        if (strcmp(a->name, name) != 0 || !has_name(s, a, asked_at))
            continue;
        SIM_REQUIRE(s, code != MT_ENOENT, "I8: name %s was acknowledged, its owner lives, and it is not found", name);
        SIM_REQUIRE(s, code != MT_OK || mt_id_equal(actor, a->id), "I9: name %s belongs to two actors", name);
    }
}

void sim_oracle_node_dead(struct sim *s, uint32_t node, uint32_t epoch)
{
    mt_id key = mt_map_key((uint64_t)node << 32 | epoch);
    if (mt_map_find(&s->oracle->dead_nodes, key))
        return;
    s->counters.node_dead++;
    if (mt_map_put_num(&s->oracle->dead_nodes, key, 1).code)
        abort();
}

bool sim_oracle_is_over(struct sim *s, uint32_t node, uint32_t epoch)
{
    return mt_map_find(&s->oracle->dead_nodes, mt_map_key((uint64_t)node << 32 | epoch)) ||
           mt_map_find(&s->oracle->epochs, mt_map_key((uint64_t)node << 32 | (epoch + 1)));
}

/* ---- the head -------------------------------------------------------------------------------------------------------------- */

void sim_oracle_epoch_given(struct sim *s, uint32_t node, uint32_t epoch, uint64_t incarnation)
{
    mt_id         key = mt_map_key((uint64_t)node << 32 | epoch);
    mt_map_entry *had = mt_map_find(&s->oracle->epochs, key);
    SIM_REQUIRE(s, !had || !incarnation || had->value.num == incarnation,
                "I9: node %u, epoch %u is given to two incarnations of a raylet", node, epoch);
    if (incarnation && !had && mt_map_put_num(&s->oracle->epochs, key, incarnation).code)
        abort();
}

/* ---- at any time, and at the end ------------------------------------------------------------------------------------------- */

void sim_oracle_check(struct sim *s)
{
    sim_head_check_views(s);
    sim_groups_check(s);
    sim_values_check(s); /* raylets and head check themselves after each of their steps */
}

const char *sim_oracle_pending(struct sim *s)
{
    struct sim_oracle *o = s->oracle;
    struct sim_task   *first = NULL;
    MT_MAP_EACH(&o->tasks, entry) {
        struct sim_task *t = entry->value.ptr;
        if (!t->is_ended && !first)
            first = t;
    }
    snprintf(o->text, sizeof o->text, "%llu tasks, %u drivers; the first is %s %llu of process %llu, run %u times",
             (unsigned long long)o->pending, s->drivers_alive, first && first->kind == SIM_CALL ? "call" : "task",
             first ? short_id(first) : 0, (unsigned long long)(first ? first->owner : 0), first ? first->executions : 0);
    return o->text;
}

void sim_oracle_finish(struct sim *s)
{
    SIM_REQUIRE(s, s->oracle->pending == 0, "I1: %s", sim_oracle_pending(s));
    MT_MAP_EACH(&s->procs, entry)
        SIM_REQUIRE(s, false, "I6: process %llu is left", (unsigned long long)entry->key.counter_index);
    for (int i = 0; i < s->config.nodes; i++)
        sim_node_check_empty(s, s->nodes[i]);
}
