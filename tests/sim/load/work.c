/* SPDX-License-Identifier: Apache-2.0
 *
 * work.c - what drivers submit.
 *
 * A driver makes one operation after the other: tasks, nested tasks, refs as values and as refs, values in the store, actors,
 * calls of its own actors and through tasks, kills and drops; it looks at every outcome and tells the oracle.
 *
 * Owns: nothing; refs and actors are held by the halves. Thread: one.
 */
#include "tests/sim/shells/proc.h"

#include "core/base/limits/raylet.h"
#include "objectstore/server/tree.h"
#include "tests/sim/load/drain.h"
#include "tests/sim/load/job.h"
#include "tests/sim/shells/store.h"

enum {
    SIM_DRIVER_MANAGER_MS = 20,
    SIM_LEAVE_MS = 20,
    SIM_SETTLE_S = 15,
    SIM_NAMES = 4,
    SIM_OBJECTS_SETTLE_S = 25
}; /* longer than any copy is kept */

int64_t sim_f(int64_t x)
{
    mt_rng rng = {(uint64_t)x};
    return (int64_t)(mt_rng_next(&rng) >> 8);
}

/* ---- submitting (both roles) ------------------------------------------------------------------------------------- */

static const char *function_name(int fn)
{
    static const char *const names[] = {"", "leaf", "nest", "error", "value", "borrow", "caller", "stream", "large", "lend", "mix"};
    return fn == SIM_FN_ADD ? "add" : fn == SIM_FN_ACTOR ? "counter" : names[fn];
}

static struct own_class *class_of(struct sim_proc *p, int fn, int64_t milli, uint64_t env)
{
    bool                  is_spread = fn == SIM_FN_VALUE || fn == SIM_FN_CALLER || fn == SIM_FN_LARGE || fn == SIM_FN_BORROW;
    struct own_class_spec spec = {.name = function_name(fn),
                                  .group = (uint64_t)fn,
                                  .resource_count = 1,
                                  .env = env,
                                  .policy = is_spread ? CTL_SPREAD : CTL_HYBRID};
    snprintf(spec.resources[0].name, sizeof spec.resources[0].name, "CPU");
    spec.resources[0].milli = milli;
    if (p->s->config.has_long && (fn == SIM_FN_MIX || fn == SIM_FN_STREAM))
        spec.resources[0].milli = 1500; /* beside it there is room for a leaf */
    if (fn == SIM_FN_MIX && p->s->config.is_crossed && p->own.counter & 1) {
        spec.policy = CTL_NODE_SOFT;
        spec.node = p->own.node % (uint32_t)p->s->config.nodes + 1;
    }
    spec.labels = fn == SIM_FN_ERROR ? "zone=z1;zone!=z0;" : NULL; /* the last one is anywhere: nodes come and go */
    return own_class_get(&p->own, &spec, (mt_id){0, 0});
}

static int32_t random_retries(struct sim *s)
{
    static const int32_t retries[] = {3, 3, 3, 1, 0, -1};
    return retries[sim_random(s, 6)];
}

static struct own_ref *submit_stream(struct sim_proc *p, int fn, const struct own_arg *args, int argc, struct own_actor *actor,
                                     int32_t retries, struct own_stream *stream, struct sim_task **out_task)
{
    struct own_call call = {.function = (uint64_t)fn,
                            .name = function_name(fn),
                            .argc = argc,
                            .args = args,
                            .retries = retries,
                            .actor = actor,
                            .kind = actor ? LANE_CALL : LANE_TASK,
                            .stream = stream};
    mt_id           id = mt_id_make(p->process, p->own.counter + 1, 0); /* what own_submit will draw */
    uint64_t        env = fn == SIM_FN_LEAF && !actor && sim_chance(p->s, 100000) ? p->env : 0;
    call.cls = actor ? NULL : class_of(p, fn, fn == SIM_FN_LEAF ? 500 : 1000, env);
    if (actor)
        call.cls = actor->cls;
    *out_task = sim_oracle_accepted(p->s, actor ? SIM_CALL : SIM_TASK, id, p->serial, retries);
    (*out_task)->fails = fn == SIM_FN_ERROR;
    (*out_task)->env = env ? env : p->env_in;
    struct own_ref *ref = own_submit(&p->own, &call);
    SIM_REQUIRE(p->s, ref, "submit found no memory");
    SIM_REQUIRE(p->s, ref->id.process == id.process && mt_id_counter(ref->id) == mt_id_counter(id), "the id is not the one drawn");
    return ref;
}

struct own_ref *sim_submit(struct sim_proc *p, int fn, const struct own_arg *args, int argc, struct own_actor *actor,
                           int32_t retries, struct sim_task **out_task)
{
    return submit_stream(p, fn, args, argc, actor, retries, NULL, out_task);
}

struct own_ref *sim_submit_call(struct sim_proc *p, struct own_actor *actor, uint64_t order, int64_t x, struct sim_task **out_task)
{
    struct own_arg   arg = {.type = 'l', .data = &x, .size = sizeof x};
    mt_id            id = mt_id_make(p->process, p->own.counter + 1, 0);
    int32_t          retries = actor->call_retries;
    int              fn = x & 1 ? SIM_FN_ADD : SIM_FN_LARGE;
    struct own_call  call = {.function = (uint64_t)fn,
                             .name = function_name(fn),
                             .argc = 1,
                             .args = &arg,
                             .retries = retries,
                             .actor = actor,
                             .cls = actor->cls,
                             .kind = LANE_CALL};
    struct sim_task *t = *out_task = sim_oracle_accepted(p->s, SIM_CALL, id, p->serial, retries);
    t->actor = actor->id;
    t->order = order;
    t->has_expected = fn == SIM_FN_LARGE;
    t->expected = sim_f(x);
    struct own_ref *ref = own_submit(&p->own, &call);
    SIM_REQUIRE(p->s, ref && mt_id_counter(ref->id) == mt_id_counter(id), "the id of a call is not the one drawn");
    return ref;
}

/* ---- outcomes ------------------------------------------------------------------------------------------------------ */

bool sim_item_ready(struct sim_proc *p, struct sim_item *item)
{
    if (!own_ref_is_ready(item->ref))
        return false;
    if (item->ref->state != OWN_REF_PLACE)
        return true;
    if (p->s->now < item->read_at)
        return false;
    if (!item->read)
        item->read = sim_read(p, item->ref);
    return sim_read_go(item->read);
}

int64_t sim_item_value(const struct sim_item *item, int32_t *out_code)
{
    const struct own_ref *ref = item->ref;
    int64_t               x = 0;
    *out_code = ref->state == OWN_REF_FAILED ? ref->value.failure->code : item->read ? item->read->code : MT_OK;
    if (*out_code == MT_OK && item->read)
        return item->read->v->value;
    if (ref->state == OWN_REF_INLINE && ref->size == sizeof x)
        memcpy(&x, own_ref_bytes(ref), sizeof x);
    return x;
}

void sim_look_at(struct sim_proc *p, const struct sim_item *item)
{
    struct own_ref *ref = item->ref;
    int32_t         code;
    int64_t         value = sim_item_value(item, &code);
    bool            failed = ref->state == OWN_REF_FAILED;
    SIM_REQUIRE(p->s, failed || ref->state == OWN_REF_INLINE || item->read, "I5: a value is neither there nor failed");
    SIM_REQUIRE(p->s, !item->task->is_cancelled || (failed && code == MT_ECANCELLED),
                "I1: a task that was cancelled has ended otherwise");
    sim_oracle_ended(p->s, item->task, code, code == MT_OK, value, failed ? ref->value.failure->outcome : 1);
}

uint64_t sim_work_due(const struct sim_proc *p)
{
    uint64_t hold = sim_hold_due(p), due = sim_run_due(p);
    if (p->role == CTL_DRIVER)
        due = p->script.ops_left ? p->script.next_at : UINT64_MAX;
    for (size_t i = 0; i < p->script.items.count; i++)
        if (p->script.items.data[i].read_at > p->s->now && p->script.items.data[i].read_at < due)
            due = p->script.items.data[i].read_at;
    return hold < due ? hold : due;
}

/* ---- drivers: operations ----------------------------------------------------------------------------------------- */

static void add_item(struct sim_proc *p, struct own_ref *ref, struct sim_task *task)
{
    struct sim_item item = {.ref = ref, .task = task};
    if (sim_chance(p->s, 100000)) /* its value stays unread where it was made */
        item.read_at = p->s->now + sim_between(p->s, 0, 2 * SIM_S);
    if (mt_vec_push(&p->script.items, item).code)
        abort();
}

static int64_t random_x(struct sim *s)
{
    return (int64_t)(mt_rng_next(&s->rng) >> 16);
}

void sim_submit_grouped(struct sim_proc *p, const struct own_class_spec *spec, struct sim_task **out_task)
{
    int64_t         x = random_x(p->s);
    struct own_arg  arg = {.type = 'l', .data = &x, .size = sizeof x};
    struct own_call call = {
        .function = SIM_FN_LEAF, .name = "grouped", .argc = 1, .args = &arg, .retries = random_retries(p->s), .kind = LANE_TASK};
    mt_id id = mt_id_make(p->process, p->own.counter + 1, 0);
    call.cls = own_class_get(&p->own, spec, (mt_id){0, 0});
    *out_task = sim_oracle_accepted(p->s, SIM_TASK, id, p->serial, call.retries);
    (*out_task)->env = p->env_in;
    (*out_task)->has_expected = true;
    (*out_task)->expected = sim_f(x);
    struct own_ref *ref = own_submit(&p->own, &call);
    SIM_REQUIRE(p->s, ref && mt_id_counter(ref->id) == mt_id_counter(id), "the id of a task is not the one drawn");
    add_item(p, ref, *out_task);
}

static void op_tasks(struct sim_proc *p, int fn, uint64_t count)
{
    while (count--) {
        struct sim_task *task;
        int64_t          x = random_x(p->s);
        struct own_arg   arg = {.type = 'l', .data = &x, .size = sizeof x};
        struct own_ref  *ref = sim_submit(p, fn, &arg, 1, NULL, random_retries(p->s), &task);
        if (fn == SIM_FN_LEAF || fn == SIM_FN_LARGE || fn == SIM_FN_LEND) {
            task->has_expected = true;
            task->expected = fn == SIM_FN_LEND && x & 1 ? 2 * sim_f(x) : sim_f(x);
        }
        add_item(p, ref, task);
    }
}

/* Many small values that are made on other nodes too, and read together: what manta_get_many does, and manta_fetch. */
static void op_many(struct sim_proc *p)
{
    uint64_t at = p->s->now + sim_between(p->s, 20, 400) * SIM_MS;
    for (uint64_t count = sim_between(p->s, 8, 40); count--;) {
        struct sim_task *task;
        int64_t          x = random_x(p->s);
        while (!sim_value_is_small(p->s, sim_f(x)))
            x++;
        struct own_arg  arg = {.type = 'l', .data = &x, .size = sizeof x};
        struct own_ref *ref = sim_submit(p, SIM_FN_LARGE, &arg, 1, NULL, random_retries(p->s), &task);
        task->has_expected = true;
        task->expected = sim_f(x);
        add_item(p, ref, task);
        p->script.items.data[p->script.items.count - 1].read_at = at;
    }
}

static void op_stream(struct sim_proc *p)
{
    int64_t            x = random_x(p->s);
    struct own_arg     arg = {.type = 'l', .data = &x, .size = sizeof x};
    struct own_stream *stream = own_stream_new(&p->own, (uint32_t)sim_between(p->s, 1, 24));
    struct sim_task   *task;
    SIM_REQUIRE(p->s, stream, "a stream found no memory");
    struct own_ref *end = submit_stream(p, SIM_FN_STREAM, &arg, 1, NULL, random_retries(p->s), stream, &task);
    sim_stream_open(p, stream, end, x);
    add_item(p, end, task);
}

/* A task that takes an earlier ref: its value (ready or not), or the ref itself. */
static void op_with_ref(struct sim_proc *p, int fn)
{
    struct sim_script *c = &p->script;
    int64_t            x = random_x(p->s);
    struct own_arg     args[2] = {{.type = 'l', .data = &x, .size = sizeof x}, {.type = fn == SIM_FN_VALUE ? 'l' : 'r'}};
    struct sim_task   *task;
    struct own_ref    *held = sim_chance(p->s, x & 1 ? 900000 : 500000) ? sim_hold_any(p) : NULL;
    if (held)
        args[1].ref = held;
    else if (c->items.count && sim_chance(p->s, 500000))
        args[1].ref = c->items.data[sim_random(p->s, c->items.count)].ref;
    else if (c->kept_count)
        args[1].ref = c->kept[sim_random(p->s, (uint64_t)c->kept_count)].ref;
    else
        return;
    struct own_ref *ref = sim_submit(p, fn, args, 2, NULL, random_retries(p->s), &task);
    task->argument = args[1].ref->id;
    add_item(p, ref, task);
    if (fn == SIM_FN_VALUE && x & 1 && sim_chance(p->s, 500000)) { /* made, and not read: all it was made of may go meanwhile */
        c->items.data[c->items.count - 1].read_at = p->s->now + sim_between(p->s, 0, 3 * SIM_S);
        if (held)
            sim_hold_drop(p, held);
    }
}

/* A large value that tasks on all nodes want at a time: they send it on to each other. */
static void op_broadcast(struct sim_proc *p)
{
    struct own_ref *ref = NULL;
    for (int i = 0; i < 6 && !ref; i++) {
        ref = sim_hold_any(p);
        if (ref && sim_value_of(p->s, ref->id)->size < OS_TREE_CHUNKS_MIN * SIM_CHUNK)
            ref = NULL;
    }
    for (int i = ref ? 2 * p->s->config.nodes : 0; i > 0; i--) {
        int64_t          x = random_x(p->s) & -2;
        struct own_arg   args[2] = {{.type = 'l', .data = &x, .size = sizeof x}, {.type = 'l', .ref = ref}};
        struct sim_task *task;
        struct own_ref  *result = sim_submit(p, SIM_FN_VALUE, args, 2, NULL, random_retries(p->s), &task);
        task->argument = ref->id;
        add_item(p, result, task);
    }
}

/* Tasks of one class that take each other's values, submitted at once: most are sent before what they take is there. */
static void op_graph(struct sim_proc *p)
{
    enum { GRAPH_MAX = 12 };
    struct own_ref  *refs[GRAPH_MAX];
    struct sim_task *tasks[GRAPH_MAX];
    uint64_t         count = sim_between(p->s, 3, GRAPH_MAX);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t       from = i < 2 ? 0 : sim_chance(p->s, 600000) ? i - 1 : sim_random(p->s, i - 1) + 1;
        int64_t        x = random_x(p->s) & (sim_chance(p->s, 100000) ? -1 : -2); /* an odd one's value stands in the store */
        struct own_arg args[2] = {{.type = 'l', .data = &x, .size = sizeof x}, {.type = 'l', .ref = i ? refs[from] : NULL}};
        refs[i] = sim_submit(p, i ? SIM_FN_MIX : SIM_FN_LEAF, args, i ? 2 : 1, NULL, random_retries(p->s), &tasks[i]);
        tasks[i]->has_expected = true;
        tasks[i]->expected = sim_f(i ? x ^ tasks[from]->expected : x);
        if (i)
            tasks[i]->argument = args[1].ref->id;
        add_item(p, refs[i], tasks[i]);
    }
}

static void op_actor(struct sim_proc *p, bool is_named)
{
    struct sim           *s = p->s;
    struct sim_script    *c = &p->script;
    struct own_class_spec spec = {.name = "counter", .group = SIM_FN_ACTOR, .flags = CTL_CLASS_ACTOR, .resource_count = 1};
    int64_t               x = random_x(s);
    struct own_arg        arg = {.type = 'l', .data = &x, .size = sizeof x};
    struct own_call       create = {.function = SIM_FN_ACTOR, .name = "counter", .argc = 1, .args = &arg};
    uint32_t              saves = sim_chance(s, 600000) ? (uint32_t)sim_between(s, 1, 6) : 0;
    static const int32_t  restarts[] = {0, 2, 5, -1};
    if (c->handle_count == SIM_HANDLES_MAX)
        return;
    create.create_options = saves << OWN_CREATE_SAVE_SHIFT;
    spec.policy = sim_chance(s, 500000) ? CTL_SPREAD : CTL_HYBRID;
    snprintf(spec.resources[0].name, sizeof spec.resources[0].name, "CPU");
    spec.resources[0].milli = 50; /* all actors of all drivers on one node leave room for a task */
    /* ids: the actor's, then perhaps a request's, then the creation's; the oracle wants to know it before it runs */
    mt_id            actor_id = mt_id_make(p->process, p->own.counter + 1, 0);
    mt_id            create_id = mt_id_make(p->process, p->own.counter + 2, 0);
    struct sim_task *t = sim_oracle_accepted(s, SIM_CREATE, create_id, p->serial, -1);
    t->actor = actor_id;
    if (!mt_id_is_zero(sim_group_any(p)) && sim_chance(s, 500000)) {
        t->pg = spec.pg = sim_group_any(p);
        spec.policy = CTL_HYBRID;
        snprintf(spec.resources[0].name, sizeof spec.resources[0].name, "G");
    }
    if (sim_chance(s, 300000))
        spec.flags |= CTL_CLASS_STRICT;
    s->counters.strict_made += (spec.flags & CTL_CLASS_STRICT) != 0;
    sim_oracle_actor_new(s, actor_id, spec.flags & CTL_CLASS_STRICT);
    char name[CTL_NAME_SIZE];
    snprintf(name, sizeof name, "name%d", (int)sim_random(s, SIM_NAMES));
    if (is_named)
        sim_oracle_name_wanted(s, actor_id, name, p->serial, p->own.node, p->own.epoch);
    struct own_actor *actor = own_actor_new(&p->own, &spec, "sim", is_named ? name : NULL, restarts[sim_random(s, 4)],
                                            sim_chance(s, 500000) ? 3 : 0, &create);
    SIM_REQUIRE(s, actor && mt_id_equal(actor->id, actor_id), "the id of an actor is not the one drawn");
    c->handles[c->handle_count++] = (struct sim_handle){.actor = actor, .id = actor_id};
    s->counters.actor_made++;
    if (sim_chance(s, 300000))
        own_actor_watch(&p->own, actor, true);
}

static void op_calls(struct sim_proc *p, uint64_t count)
{
    struct sim_script *c = &p->script;
    if (!c->handle_count)
        return;
    struct sim_handle *h = &c->handles[sim_random(p->s, (uint64_t)c->handle_count)];
    while (count--) {
        struct sim_task *task;
        struct own_ref  *ref = sim_submit_call(p, h->actor, sim_oracle_next_order(p->s, h->id, p->serial), random_x(p->s), &task);
        add_item(p, ref, task);
        if (task->has_expected && task->retries && sim_chance(p->s, 500000)) /* its value may go before it is read */
            c->items.data[c->items.count - 1].read_at = p->s->now + sim_between(p->s, 0, 3 * SIM_S);
    }
}

static void op_lend_actor(struct sim_proc *p)
{
    struct sim_script    *c = &p->script;
    struct own_actor_wire wire;
    struct sim_task      *task;
    int64_t               x = random_x(p->s);
    if (!c->handle_count)
        return;
    own_actor_wire(c->handles[sim_random(p->s, (uint64_t)c->handle_count)].actor, &wire);
    struct own_arg  args[2] = {{.type = 'l', .data = &x, .size = sizeof x}, {.type = 'A', .data = &wire, .size = sizeof wire}};
    struct own_ref *ref = sim_submit(p, SIM_FN_CALLER, args, 2, NULL, random_retries(p->s), &task);
    add_item(p, ref, task);
}

static void op_end_actor(struct sim_proc *p, bool kill)
{
    struct sim_script *c = &p->script;
    if (p->s->now < p->script.stay_until)
        return;
    if (!c->handle_count)
        return;
    int                i = (int)sim_random(p->s, (uint64_t)c->handle_count);
    struct sim_handle *h = &c->handles[i];
    sim_oracle_name_ends(p->s, h->id);
    if (kill) {
        own_actor_kill(&p->own, h->actor, sim_chance(p->s, 600000));
        p->s->counters.actor_killed++;
        return;
    }
    own_actor_drop(&p->own, h->actor);
    *h = c->handles[--c->handle_count];
}

static void ask_head(struct sim_proc *p, mt_id *out_id, uint32_t op, const struct ctl_name *name)
{
    struct {
        struct ctl_request request;
        struct ctl_name    name;
    } ask = {.request = {.op = op}, .name = *name};
    *out_id = own_id_next(&p->own);
    own_send(&p->own, CTL_REQUEST, *out_id, &ask, sizeof ask);
}

static void op_find(struct sim_proc *p)
{
    struct sim_script *c = &p->script;
    struct ctl_name    name = {.space = "sim"};
    if (!mt_id_is_zero(c->find_id))
        return;
    snprintf(name.name, sizeof name.name, "name%d", (int)sim_random(p->s, SIM_NAMES));
    memcpy(c->find_name, name.name, sizeof c->find_name);
    c->find_at = p->s->now;
    ask_head(p, &c->find_id, CTL_OP_NAME_GET, &name);
}

static void found(struct sim_proc *p, const struct ctl_name *name)
{
    struct sim_script    *c = &p->script;
    struct own_actor_wire wire = {.id = name->actor, .type = SIM_FN_ACTOR, .owner = name->owner, .owner_node = name->owner_node};
    if (c->handle_count == SIM_HANDLES_MAX)
        return;
    snprintf(wire.name, sizeof wire.name, "counter");
    struct own_actor *actor = own_actor_borrow(&p->own, &wire);
    SIM_REQUIRE(p->s, actor, "borrow found no memory");
    c->handles[c->handle_count++] = (struct sim_handle){.actor = actor, .id = name->actor};
}

/* An answer has room for so many, and restarted raylets have numbers of their own: the living ones may be on the second page. */
static void ask_nodes(struct sim_proc *p, uint32_t after)
{
    struct ctl_request ask = {.op = CTL_OP_NODES, .after = after};
    p->script.nodes_id = own_id_next(&p->own);
    own_send(&p->own, CTL_REQUEST, p->script.nodes_id, &ask, sizeof ask);
}

/* I10, for the cluster itself: some time after the last fault every node knows that every node is alive. */
static void look_at_nodes(struct sim_proc *p, const uint8_t *bytes, size_t size)
{
    bool            is_full = size / sizeof(struct ctl_node) >= MT_RLT_NODES_REPLY_MAX;
    struct ctl_node n = {0};
    for (; size >= sizeof n; bytes += sizeof n, size -= sizeof n) {
        memcpy(&n, bytes, sizeof n);
        p->script.nodes_alive += n.state == 1;
    }
    if (is_full) {
        ask_nodes(p, n.node);
        return;
    }
    int  alive = p->script.nodes_alive;
    bool leaves_late = p->s->left_at + SIM_SETTLE_S * SIM_S > p->s->now; /* it was told while it stood still */
    if (sim_drain_leaves(p->s)) {                                        /* ... and has not gone yet: asked again */
        p->script.nodes_id = (mt_id){0, 0};
        p->script.nodes_alive = 0;
        return;
    }
    SIM_REQUIRE(p->s, leaves_late || alive == (p->s->config.has_head ? p->s->config.nodes : 1),
                "I10: node %d sees %d nodes alive, long after the last fault", sim_node_index(p->n), alive);
    p->script.has_looked = true;
}

void sim_driver_replied(struct sim_proc *p, mt_id id, const struct ctl_reply *reply, const uint8_t *bytes, size_t size)
{
    struct sim_script *c = &p->script;
    struct ctl_name    name = {.actor = {0, 0}};
    if (sim_group_replied(p, id, reply) || sim_news_replied(p, id, bytes, size))
        return;
    if (mt_id_equal(id, c->nodes_id)) {
        look_at_nodes(p, bytes, size);
    } else if (mt_id_equal(id, c->find_id)) {
        c->find_id = (mt_id){0, 0};
        if (reply->code == MT_OK && size >= sizeof name)
            memcpy(&name, bytes, sizeof name);
        sim_oracle_name_found(p->s, c->find_name, c->find_at, reply->code, name.actor);
        if (reply->code == MT_OK)
            found(p, &name);
    }
}

/* Any task or call that has not ended, wherever it is. */
static void op_cancel(struct sim_proc *p)
{
    struct sim_script *c = &p->script;
    struct sim        *s = p->s;
    struct sim_item   *item = c->items.count ? &c->items.data[sim_random(s, c->items.count)] : NULL;
    /* What a killed worker had written and not told stays until its owner ends; late drivers look whether anything stays. */
    uint32_t flags = sim_chance(s, 200000) && !c->is_late ? OWN_CANCEL_FORCE : 0;
    if (sim_chance(s, 400000))
        flags |= OWN_CANCEL_RECURSIVE;
    if (c->kept_count && sim_chance(s, 200000))
        item = &c->kept[sim_random(s, (uint64_t)c->kept_count)];               /* that has ended already */
    if (!item || !item->task || (item->ref->task && item->ref->task->results)) /* a generator's end is its stream's */
        return;
    switch (own_cancel(&p->own, item->ref, flags)) {
    case OWN_CANCELLED_NEVER:
        SIM_REQUIRE(s, own_ref_is_ready(item->ref), "I1: a task that will never run has no outcome");
        item->task->is_cancelled = true;
        s->counters.cancel_never++;
        break;
    case OWN_CANCELLED_TOLD:
        item->task->is_cancelled = true;
        s->counters.cancel_told++;
        break;
    default: s->counters.cancel_late++;
    }
}

static void do_op(struct sim_proc *p)
{
    struct sim *s = p->s;
    uint64_t    draw = sim_random(s, 42);
    switch (s->config.is_crossed && draw < 20 ? 39 : draw) {
    case 0:
    case 1:
    case 2:
    case 3: op_tasks(p, SIM_FN_LEAF, sim_between(s, 1, 24)); break;
    case 4:
    case 5: op_tasks(p, SIM_FN_NEST, sim_between(s, 1, 3)); break;
    case 6: op_tasks(p, SIM_FN_ERROR, 1); break;
    case 7:
    case 8: op_with_ref(p, SIM_FN_VALUE); break;
    case 9: op_with_ref(p, SIM_FN_BORROW); break;
    case 10: op_actor(p, false); break;
    case 11:
    case 12: op_calls(p, sim_between(s, 1, 10)); break;
    case 13: op_lend_actor(p); break;
    case 14: op_end_actor(p, true); break;
    case 15: op_actor(p, true); break;
    case 16: op_find(p); break;
    case 17:
    case 18: op_stream(p); break;
    case 20:
    case 21: op_cancel(p); break;
    case 22:
    case 23: op_tasks(p, SIM_FN_LARGE, sim_between(s, 1, 4)); break;
    case 24: op_tasks(p, SIM_FN_LEND, sim_between(s, 1, 2)); break;
    case 30:
    case 31:
    case 32:
    case 33:
    case 34:
    case 35: sim_group_op(p); break;
    case 36: op_broadcast(p); break;
    case 37:
    case 38:
    case 39: op_graph(p); break;
    case 40:
    case 41: op_many(p); break;
    case 25:
    case 26:
    case 27:
    case 28:
    case 29: sim_hold_op(p); break;
    default: op_end_actor(p, false); break;
    }
}

/* One of them is kept for later arguments, or none. */
static void keep_or_drop(struct sim_proc *p, struct sim_item item)
{
    struct sim_script *c = &p->script;
    if (c->kept_count < SIM_KEPT_MAX && sim_chance(p->s, 200000)) {
        c->kept[c->kept_count++] = item;
    } else if (c->kept_count && sim_chance(p->s, 200000)) {
        int             k = (int)sim_random(p->s, (uint64_t)c->kept_count);
        struct sim_item old = c->kept[k];
        sim_look_at(p, &old); /* I2: what was answered stays */
        own_ref_drop(&p->own, old.ref);
        c->kept[k] = item;
    } else {
        own_ref_drop(&p->own, item.ref);
    }
}

/* Outcomes that have come: told to the oracle. */
static void collect(struct sim_proc *p)
{
    struct sim_script *c = &p->script;
    for (size_t i = 0; i < c->items.count;) {
        if (!sim_item_ready(p, &c->items.data[i])) {
            i++;
            continue;
        }
        struct sim_item item = c->items.data[i];
        sim_look_at(p, &item);
        mt_vec_remove_swap(&c->items, i);
        if (!item.read) {
            keep_or_drop(p, item);
        } else if (item.read->is_pinned && p->hold.held.count < SIM_KEPT_MAX) {
            sim_hold_add(p, item.ref, item.read->v->value, item.read);
        } else {
            sim_read_end(item.read);
            own_ref_drop(&p->own, item.ref);
        }
    }
}

/* I6: some time after the last ref was let go, nothing of the job is in any store, memory or copies. */
static bool has_settled(struct sim_proc *p)
{
    struct sim_script *c = &p->script;
    mt_id              first = {0, 0};
    if (!c->is_late)
        return true;
    if (!c->settled_at)
        c->settled_at = p->s->now + (uint64_t)SIM_OBJECTS_SETTLE_S * SIM_S;
    if (p->s->now < c->settled_at)
        return false;
    for (int i = 0; i < p->s->config.nodes; i++) {
        uint32_t count = sim_store_living(p->s->nodes[i], p->own.job, &first);
        SIM_REQUIRE(p->s, count == 0, "I6: %u values of a job that holds none are left on node %d, the first is %llx.%llu", count,
                    i, (unsigned long long)first.process, (unsigned long long)mt_id_counter(first));
    }
    return true;
}

static void leave(struct sim_proc *p)
{
    struct sim_script *c = &p->script;
    bool               holds = !sim_hold_leave(p);
    while (c->kept_count) {
        struct sim_item old = c->kept[--c->kept_count];
        sim_look_at(p, &old);
        own_ref_drop(&p->own, old.ref);
    }
    while (c->handle_count) {
        sim_oracle_name_ends(p->s, c->handles[--c->handle_count].id);
        own_actor_drop(&p->own, c->handles[c->handle_count].actor);
    }
    if (holds || !has_settled(p))
        return;
    if (!c->is_leaving) {
        c->is_leaving = true;
        c->next_at = p->s->now + sim_between(p->s, 0, SIM_LEAVE_MS) * SIM_MS;
    } else if (p->s->now >= c->next_at) {
        sim_news_leave(p);
        sim_proc_exit(p);
    }
}

void sim_driver_work(struct sim_proc *p)
{
    struct sim_script *c = &p->script;
    struct sim        *s = p->s;
    collect(p);
    sim_stream_work(p);
    sim_hold_work(p);
    sim_news_work(p);
    if (c->ops_left && s->now >= c->next_at) {
        uint64_t shift = sim_random(s, 10);
        do_op(p);
        c->ops_left--;
        c->next_at = s->now + sim_between(s, 20 * SIM_US << shift, 40 * SIM_US << shift);
    }
    if (c->is_late && mt_id_is_zero(c->nodes_id))
        ask_nodes(p, 0);
    if (s->now >= c->stay_until && !c->ops_left && !c->items.count && !c->streams.count && (!c->is_late || c->has_looked))
        leave(p);
}

/* ---- who drives -------------------------------------------------------------------------------------------------- */

void sim_driver_gone(struct sim_proc *p)
{
    p->s->drivers_alive--;
    p->s->drivers_over++;
}

static void last_look(struct sim *s, struct sim_event *e)
{
    (void)e;
    s->is_over = true;
}

/* Drivers come one after the other while there are faults; then as many as run at a time at once, and as many again when
 * the cluster has had time to settle. */
static bool may_start(const struct sim *s)
{
    uint32_t wave = s->config.drivers_at_a_time;
    if (s->now < s->config.faults_until)
        return true;
    if (s->drivers_after < wave)
        return true;
    return s->now >= s->config.faults_until + SIM_SETTLE_S * SIM_S && s->drivers_late < wave;
}

static void start_one(struct sim *s, struct sim_node *n)
{
    bool is_late = s->drivers_after == s->config.drivers_at_a_time;
    s->drivers_late += is_late;
    s->drivers_after += !is_late && s->now >= s->config.faults_until;
    sim_driver_start(s, n, is_late);
}

static void manage(struct sim *s, struct sim_event *e)
{
    (void)e;
    while (may_start(s) && s->drivers_alive < s->config.drivers_at_a_time) {
        struct sim_node *n = s->nodes[sim_random(s, (uint64_t)s->config.nodes)];
        if (!sim_node_is_up(n) || !n->is_ready)
            break;
        start_one(s, n);
    }
    if (s->drivers_late == s->config.drivers_at_a_time && s->drivers_alive == 0 && (!s->jobs || sim_jobs_are_over(s)))
        sim_after(s, 15 * SIM_S, "the last look", last_look, 0); /* longer than any grace or idle time */
    else
        sim_after(s, SIM_DRIVER_MANAGER_MS * SIM_MS, "manage", manage, 0);
}

void sim_work_start(struct sim *s)
{
    sim_after(s, SIM_MS, "manage", manage, 0);
}
