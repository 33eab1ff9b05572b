/* SPDX-License-Identifier: Apache-2.0
 *
 * worker.c - the life of a worker: take what is claimed, run it, report; and what it leaves when it crashes.
 *
 * Owns:   the actor's state. Thread: main; user code runs here, without the owner lock.
 */
#include "clients/lib/shell/lib.h"

#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static struct {
    manta_actor_type *type;
    void             *self;
    bool              is_made;
    uint32_t          save_every; /* calls; 0: only when a method asks */
    uint32_t          calls;      /* since create */
    mt_id             id;         /* of the record of create: what snapshots are named by */
    uint32_t          owner_node;
    pthread_mutex_t   save_lock;   /* snapshots go out in the order in which they were taken */
    uint32_t          concurrency; /* of the default group, as its creator asked */
} actor = {.save_lock = PTHREAD_MUTEX_INITIALIZER};

LIB_THREAD_LOCAL manta_ctx *lib_running;

/* ---- what the running function says and asks ---- */

manta_status manta_fail(manta_ctx *c, int user_code, const char *format, ...)
{
    va_list args;
    if (!c || !format)
        return MANTA_ETASK;
    c->has_failed = true;
    memset(&c->failure, 0, sizeof c->failure);
    c->failure.code = MANTA_ETASK;
    c->failure.user_code = user_code;
    va_start(args, format);
    vsnprintf(c->failure.message, sizeof c->failure.message, format, args);
    va_end(args);
    return MANTA_ETASK;
}

int manta_attempt(const manta_ctx *c)
{
    return c ? (int)c->run->record.attempt : 0;
}

void manta_runtime_of(const manta_ctx *c, manta_runtime *out)
{
    if (!out)
        return;
    memset(out, 0, sizeof *out);
    if (!c)
        return;
    mt_id_text(c->run->record.id, out->task);
    snprintf(out->function, sizeof out->function, "%s", c->name ? c->name : "");
    snprintf(out->actor, sizeof out->actor, "%s", actor.type ? actor.type->name : "");
    out->job = lib.own.job;
    out->node = lib.own.node;
    out->pid = getpid();
    out->attempt = (int)c->run->record.attempt;
    out->num_cpus = (double)lib.lease_cpu_milli / 1000;
    out->num_gpus = (int)lib.lease_gpus;
}

/* ---- arguments ---- */

struct arguments {
    int             count;
    manta_arg       args[MANTA_ARGS_MAX];
    struct lane_ref pinned[MANTA_ARGS_MAX];
    int             pinned_count;
    mt_id           held[MANTA_ARGS_MAX]; /* refs that came as refs */
    manta_ref      *refs[MANTA_ARGS_MAX]; /* handles that are the function's while it runs */
    int             ref_count;
    manta_actor    *actors[MANTA_ARGS_MAX];
    int             actor_count;
    size_t          end;    /* of the arguments in the payload */
    char            wanted; /* manta_ctx.wanted */
};

static bool take_shared(struct arguments *a, manta_arg *to, char type, const uint8_t *bytes, size_t size, manta_error *e)
{
    struct lane_ref ref;
    const void     *data;
    bool            declares;
    if (size != sizeof ref)
        return lib_error(e, MANTA_EPROTO, "a place that is not one"), false;
    memcpy(&ref, bytes, sizeof ref);
    declares = ref.flags & LANE_REF_DECLARES;
    lib_lock();
    if (lib_store_pin(NULL, &ref, &data, lib_deadline(MT_LIB_PULL_MS), e)) {
        lib_unlock();
        return false;
    }
    lib_unlock();
    a->pinned[a->pinned_count++] = ref;
    if (declares)
        ref.size = lib_declared_size(&ref, data);
    to->type = type == '*' ? (char)ref.type : type;
    if (to->type == 's' || to->type == 'y') {
        to->y.data = data;
        to->y.size = ref.size - (to->type == 's');
    } else {
        memcpy(&to->l, data, ref.size < 8 ? ref.size : 8);
    }
    return true;
}

static bool take_handle(struct arguments *a, manta_arg *to, char type, const uint8_t *bytes, size_t size)
{
    if (type == 'r') {
        struct lane_ref wire;
        struct own_ref *ref;
        if (size != sizeof wire)
            return false;
        memcpy(&wire, bytes, sizeof wire);
        lib_lock();
        ref = own_ref_borrow(&lib.own, &wire);
        to->r = ref ? lib_handle_ref(&lib.own, ref) : NULL;
        lib_helper_start();
        lib_unlock();
        a->held[a->ref_count] = wire.id;
        a->refs[a->ref_count++] = to->r;
        return ref != NULL;
    }
    struct own_actor_wire wire;
    struct own_actor     *found;
    if (size != sizeof wire)
        return false;
    memcpy(&wire, bytes, sizeof wire);
    lib_lock();
    found = own_actor_borrow(&lib.own, &wire);
    to->A = found ? lib_handle_new(LIB_OF_ACTOR, found) : NULL;
    if (found && !to->A)
        own_actor_drop(&lib.own, found);
    lib_helper_start();
    lib_unlock();
    a->actors[a->actor_count++] = to->A;
    return to->A != NULL;
}

static bool take_argument(struct arguments *a, char wanted, const struct lane_value *value, const uint8_t *bytes, manta_error *e)
{
    manta_arg *to = &a->args[a->count];
    char       type = (char)value->type;
    if (value->flags & LANE_VALUE_SHARED)
        return take_shared(a, to, wanted, bytes, value->size, e);
    if (wanted != '*' && wanted != type)
        return lib_error(e, MANTA_ETYPE, "argument %d is '%c', want '%c'", a->count + 1, type, wanted), false;
    to->type = type;
    switch (type) {
    case 'l':
    case 'u':
    case 'd':
        if (value->size == 8)
            return memcpy(&to->l, bytes, 8), true;
        break;
    case 'b':
        if (value->size == 1)
            return to->b = bytes[0] != 0, true;
        break;
    case 's':
        to->y.data = bytes;
        to->y.size = value->size - 1;
        if (value->size && bytes[value->size - 1] == 0)
            return true;
        break;
    case 'y':
        to->y.data = bytes;
        to->y.size = value->size;
        return true;
    case 'r':
    case 'A':
        if (take_handle(a, to, type, bytes, value->size))
            return true;
        break;
    default: break;
    }
    return lib_error(e, MANTA_EPROTO, "argument %d is malformed", a->count + 1), false;
}

/* What the function is to return, from where its arguments end in the signature. */
static char wanted_after(const char *arguments_end)
{
    const char *at = arguments_end + (*arguments_end == '*');
    return *at != '>' ? '*' : at[1] && at[1] != '@' ? at[1] : 'v';
}

static bool take_arguments(struct arguments *a, const char *signature, const struct wrk_run *run, manta_error *e)
{
    uint32_t count = 0;
    size_t   at = 8;
    if (run->size >= 8)
        memcpy(&count, run->payload, sizeof count);
    if (count > MANTA_ARGS_MAX)
        return lib_error(e, MANTA_EPROTO, "%u arguments", count), false;
    for (; (uint32_t)a->count < count; a->count++) {
        struct lane_value value;
        char              wanted = *signature;
        size_t            padded;
        if (at + sizeof value > run->size)
            return lib_error(e, MANTA_EPROTO, "the arguments are cut short"), false;
        memcpy(&value, run->payload + at, sizeof value);
        at += sizeof value;
        padded = ((size_t)value.size + 7) & ~(size_t)7;
        if (padded > run->size - at)
            return lib_error(e, MANTA_EPROTO, "the arguments are cut short"), false;
        if (value.ref_count)
            return lib_error(e, MANTA_EUNSUPPORTED, "argument %d declares refs inside its value", a->count + 1), false;
        if (wanted == '>' || wanted == '@' || wanted == 0)
            return lib_error(e, MANTA_ETYPE, "%u arguments are too many", count), false;
        if (!take_argument(a, wanted, &value, run->payload + at, e))
            return false;
        at += padded;
        signature += wanted != '*';
    }
    a->end = at;
    a->wanted = wanted_after(signature);
    if (*signature && !strchr(">@*", *signature))
        return lib_error(e, MANTA_ETYPE, "%u arguments are too few", count), false;
    return true;
}

/* Under the lock. Writes the ids of refs that the function kept behind the value; returns how many bytes. NULL: nobody else
 * is to be told. */
static size_t give_back_arguments(struct arguments *a, uint8_t *held)
{
    size_t size = 0;
    for (int i = 0; i < a->pinned_count; i++)
        lib_store_unpin(&a->pinned[i]);
    for (int i = 0; i < a->actor_count; i++) {
        struct own_actor *found = lib_handle_end(a->actors[i], LIB_OF_ACTOR);
        if (found)
            own_actor_drop(&lib.own, found);
    }
    for (int i = 0; i < a->ref_count; i++) {
        struct own_ref *ref = lib_ref_in(&lib.own, a->refs[i]);
        if (!ref)
            continue; /* the function has freed what was not its own */
        if (held && (ref->holds > 1 || ref->handles > 1) && ref->flags & OWN_REF_BORROWED && !(ref->flags & OWN_REF_TOLD)) {
            ref->flags |= OWN_REF_TOLD; /* our submitter tells the owner before it lets go of its own hold */
            memcpy(held + size, &a->held[i], sizeof(mt_id));
            size += sizeof(mt_id);
        }
        (void)lib_ref_end(&lib.own, a->refs[i]);
    }
    return size;
}

/* ---- running ---- */

/* What the events call it. */
static void name_event(const struct wrk_run *run, const char *first, const char *second)
{
    if (MT_LIKELY(lane_event_is_named(&lib.events, run->record.aux)))
        return;
    lib_lock();
    lane_event_name(&lib.events, run->record.aux, first, second);
    lib_unlock();
}

/* The snapshot behind the arguments of create, into the new incarnation. */
static manta_status load_state(manta_ctx *c, struct arguments *a, const struct wrk_run *run)
{
    struct lane_value value;
    manta_arg         state;
    const uint8_t    *bytes = run->payload + a->end + sizeof value;
    if (!actor.type->load || a->end + sizeof value > run->size || a->pinned_count == MANTA_ARGS_MAX)
        return manta_fail(c, 0, "a snapshot that this actor type can't load"), MANTA_EPROTO;
    memcpy(&value, run->payload + a->end, sizeof value);
    if (value.size > run->size - a->end - sizeof value)
        return manta_fail(c, 0, "a snapshot that is cut short"), MANTA_EPROTO;
    state.y = (manta_bytes){bytes, value.size};
    if (value.flags & LANE_VALUE_SHARED && !take_shared(a, &state, 'y', bytes, value.size, &c->failure))
        return c->has_failed = true, c->failure.code;
    return actor.type->load(c, actor.self, state.y.data, state.y.size);
}

static manta_status run_create(manta_ctx *c, struct arguments *a, const struct wrk_run *run)
{
    manta_actor_type *type = lib_actor_type_of_hash(run->record.aux);
    uint32_t          options;
    manta_status      code;
    if (!type)
        return manta_fail(c, 0, "no such actor type in this executable"), MANTA_ENOFUNC;
    c->name = type->name;
    name_event(run, type->name, "create");
    c->signature = type->signature;
    if (!take_arguments(a, type->signature, run, &c->failure))
        return c->has_failed = true, c->failure.code;
    actor.type = type;
    memcpy(&options, run->payload + sizeof options, sizeof options);
    actor.concurrency = options & OWN_CREATE_CONCURRENCY;
    actor.save_every = options >> OWN_CREATE_SAVE_SHIFT & OWN_CREATE_SAVE_MAX;
    actor.id = run->record.id;
    actor.owner_node = run->lane->owner_node;
    code = type->create(c, &actor.self, a->count, a->args);
    if (code == MANTA_OK && options & OWN_CREATE_HAS_STATE)
        code = load_state(c, a, run);
    actor.is_made = code == MANTA_OK;
    return code;
}

/* The end that a caller asked for: what stands in other groups begins first, then all that runs ends. */
static manta_status run_end(manta_ctx *c)
{
    const struct timespec nap = {0, 100 * 1000};
    c->name = LIB_END;
    lib_lock();
    while (lib.wrk.group_count && (wrk_other_groups_wait(&lib.wrk) || lib.wrk.calls_running > 1)) {
        lib.wrk.is_exiting = !wrk_other_groups_wait(&lib.wrk);
        lib_unlock();
        nanosleep(&nap, NULL);
        lib_lock();
    }
    lib.wrk.is_exiting = true;
    lib_unlock();
    c->wants_exit = true;
    if (actor.type->destroy && actor.self)
        actor.type->destroy(actor.self);
    actor.self = NULL;
    return MANTA_OK;
}

static manta_status run_method(manta_ctx *c, struct arguments *a, const struct wrk_run *run)
{
    const manta_method *m = actor.type ? lib_method_of_hash(actor.type, run->record.aux) : NULL;
    if (!m && actor.is_made && run->record.aux == lib_hash(LIB_END))
        return run_end(c);
    if (!m)
        return manta_fail(c, 0, "no such method in this executable"), MANTA_ENOFUNC;
    c->name = m->name;
    name_event(run, actor.type->name, m->name);
    c->signature = m->signature;
    if (!take_arguments(a, m->signature, run, &c->failure))
        return c->has_failed = true, c->failure.code;
    c->wanted = a->wanted;
    return m->run(c, actor.self, a->count, a->args);
}

static manta_status run_task(manta_ctx *c, struct arguments *a, const struct wrk_run *run)
{
    manta_entry *entry = lib_entry_of_hash(run->record.aux);
    if (!entry)
        return manta_fail(c, 0, "no such remote function in this executable"), MANTA_ENOFUNC;
    c->name = entry->name;
    name_event(run, entry->name, NULL);
    c->signature = entry->signature;
    if (!take_arguments(a, entry->signature, run, &c->failure))
        return c->has_failed = true, c->failure.code;
    c->wanted = a->wanted;
    return entry->run(c, a->count, a->args);
}

size_t lib_failure_payload(manta_ctx *c, manta_status code, uint8_t *out, size_t room)
{
    struct lane_failure head = {.pid = (int32_t)getpid(), .node = lib.own.node};
    int                 n;
    if (!c->has_failed)
        snprintf(c->failure.message, sizeof c->failure.message, "%s returned %d", c->name ? c->name : "it", code);
    memcpy(out, &head, sizeof head);
    n = snprintf((char *)out + sizeof head, room - sizeof head, "%s", c->failure.message);
    return sizeof head + (size_t)n;
}

void lib_fail_timed_out(manta_ctx *c)
{
    manta_fail(c, 0, "%s did not end within its timeout of %u ms", c->name ? c->name : "it", c->limits.timeout_ms);
}

/* ---- limits of a run ---- */

/* A timeout needs the helper, to end a function that does not look at manta_is_cancelled. Under the lock. */
static void limits_begin(manta_ctx *c, const struct wrk_run *run, uint64_t now)
{
    c->deadline_ns = 0;
    memset(&c->limits, 0, sizeof c->limits);
    if (MT_LIKELY(!(run->record.flags & LANE_TASK_LIMITED)) || run->size < sizeof c->limits)
        return;
    memcpy(&c->limits, run->payload + run->size - sizeof c->limits, sizeof c->limits);
    if (!c->limits.timeout_ms)
        return;
    c->deadline_ns = (int64_t)now + (int64_t)c->limits.timeout_ms * 1000000;
    lib_helper_start();
    shm_add32(&lib.park->bell, 1); /* it may sleep for longer */
    shm_futex_wake(&lib.park->bell, INT32_MAX);
}

/* Whether this worker has run the function as often as it may. Without memory to count: now. */
static bool is_worn_out(uint64_t function, uint32_t max_calls)
{
    static MT_VEC(struct calls {
        uint64_t function;
        uint32_t count;
    }) counts;
    struct calls first = {function, 1};
    for (size_t i = 0; i < counts.count; i++)
        if (counts.data[i].function == function)
            return ++counts.data[i].count >= max_calls;
    return mt_vec_push(&counts, first).code || max_calls <= 1;
}

/* No more tasks for this process: its lanes are given back, and it leaves when it has nothing under way of its own. */
static void retire(void)
{
    struct ctl_reply bye = {.text = "it has run max_calls tasks"};
    if (lib.is_retiring)
        return;
    lib.is_retiring = true;
    own_send(&lib.own, CTL_SHUTDOWN, own_id_next(&lib.own), &bye, sizeof bye);
    lib_act(); /* before CTL_DRAINED: it is not to be leased again */
    wrk_retire(&lib.wrk);
}

static bool may_leave(void)
{
    return lib.wrk.is_over || (lib.is_retiring && !lib.wrk.lanes.count && !lib.own.outstanding);
}

/* A value in the store that nobody will hear of. Under the lock. */
static void value_drop(manta_ctx *c)
{
    struct lane_ref wire;
    if (c->results > 1 || c->ahead || !c->has_value || !(c->flags & LANE_VALUE_SHARED))
        return;
    memcpy(&wire, c->bytes + sizeof(struct lane_value), sizeof wire);
    (void)os_client_free(&lib.store, wire.segment, wire.offset, wire.generation).code;
    c->has_value = false;
}

/* What the caller wants back. */
static void context_begin(manta_ctx *c, struct wrk_run *run)
{
    struct lane_call_head head = {0};
    if (run->size >= sizeof head && run->record.kind != LANE_CREATE)
        memcpy(&head, run->payload, sizeof head);
    c->run = run;
    c->here = NULL;
    c->has_failed = c->has_value = c->is_waiting = c->wants_exit = c->wants_save = false;
    c->name = c->signature = NULL;
    c->wanted = '*';
    c->is_mistyped = false;
    c->yielded = 0;
    c->ahead = head.results & LANE_STREAM ? head.results & (LANE_STREAM - 1) : 0;
    c->into = c->ahead ? c : NULL; /* of a generator: a value that is returned takes the long way, which refuses it */
    c->results = c->ahead || head.results > LANE_RESULTS_MAX || !head.results ? 1 : head.results;
}

/* User code, without the lock. */
static manta_status run_user(manta_ctx *c, struct arguments *a, struct wrk_run *run)
{
    manta_status code;
    a->count = a->pinned_count = a->ref_count = a->actor_count = 0;
    lib_running = c;
    if (run->record.kind == LANE_TASK)
        code = run_task(c, a, run);
    else if (run->record.kind == LANE_CALL)
        code = run_method(c, a, run);
    else
        code = run_create(c, a, run);
    lib_fork_check();
    lib_running = NULL;
    return MT_LIKELY(code == MANTA_OK) ? lib_result_check(c) : code;
}

/* What save gives back goes to the creator, before the outcome of the call after which it was taken. */
static void save_state(void)
{
    struct lane_value value = {.type = 'y'};
    struct wrk_lane   creator = {.owner_node = actor.owner_node};
    struct wrk_run    run = {.lane = &creator, .record = {.kind = LANE_CREATE, .id = actor.id}};
    manta_ctx        *s = malloc(sizeof *s);
    if (!s)
        return; /* the older snapshot stands */
    pthread_mutex_lock(&actor.save_lock);
    s->many = NULL;
    context_begin(s, &run);
    s->name = actor.type->name;
    if (actor.type->save(s, actor.self) == MANTA_OK && s->has_value) {
        value.flags = s->flags;
        value.size = s->size;
        memcpy(s->bytes, &value, sizeof value);
        lib_lock();
        while (!wrk_tell_creator(&lib.wrk, LANE_SAVED, s->bytes, sizeof value + ((s->size + 7u) & ~7u))) {
            lib_act();
            lib_unlock();
            sched_yield();
            lib_lock();
        }
        lib_act();
        lib_unlock();
    }
    pthread_mutex_unlock(&actor.save_lock);
    free(s);
}

static bool is_time_to_save(const manta_ctx *c)
{
    uint32_t calls = __atomic_add_fetch(&actor.calls, 1, __ATOMIC_RELAXED);
    return actor.self && actor.type->save && (c->wants_save || (actor.save_every && calls % actor.save_every == 0));
}

/* Whether the task would be tried again: read by the raylet when the node is short of memory. */
static inline void note_once(const struct wrk_run *run)
{
    bool is_once = run->record.kind == LANE_TASK && run->record.flags & LANE_TASK_ONCE;
    if (MT_UNLIKELY(is_once != lib.runs_once))
        shm_store32(&lib.park->runs_once, lib.runs_once = is_once);
}

/* Writes the head of the value that the function has returned, or of none, before its bytes; returns the bytes of both. */
static inline size_t value_head(manta_ctx *c)
{
    struct lane_value value = {.type = 'v'};
    if (c->has_value)
        value = (struct lane_value){.type = (uint8_t)c->type, .flags = c->flags, .size = c->size};
    memcpy(c->bytes, &value, sizeof value);
    return sizeof value + ((value.size + 7u) & ~7u);
}

uint64_t lib_run(manta_ctx *c, struct wrk_run *run, struct wrk_call *call, uint64_t *now)
{
    struct arguments a;
    uint64_t         begin = *now, took, event;
    manta_status     code;
    size_t           size;
    uint8_t         *bytes = c->bytes;
    uint16_t         flags = 0;
    int32_t          user_code;

    context_begin(c, run);
    note_once(run);
    if (!call) { /* the run that timeouts and cancels look at; threads beside each other have none */
        limits_begin(c, run, begin);
        lib.running = c;
        own_run_begin(&lib.own, run->record.id);
    } else {
        c->deadline_ns = 0;
        memset(&c->limits, 0, sizeof c->limits);
    }
    event = lane_event_begin(&lib.events, &run->record, run->lane->owner_node, begin);
    lib_unlock();
    code = run_user(c, &a, run);
    if (MT_UNLIKELY(run->record.kind == LANE_CALL && (actor.save_every || c->wants_save)) && is_time_to_save(c))
        save_state();
    *now = lib_now_ns();
    if (MT_UNLIKELY(c->deadline_ns) && (int64_t)*now >= c->deadline_ns) {
        lib_fail_timed_out(c);
        code = MANTA_ETIMEDOUT;
    }
    if (MT_UNLIKELY(c->results > 1) && code == MANTA_OK)
        code = lib_returned(c, &size);
    if (code == MANTA_OK && c->results > 1) {
        bytes = c->many;
    } else if (code == MANTA_OK) {
        size = value_head(c);
    } else {
        lib_lock();
        value_drop(c);
        lib_unlock();
        flags = LANE_DONE_ERROR;
        size = lib_failure_payload(c, code, c->bytes, sizeof c->bytes);
    }
    lib_lock();
    lane_event_end(&lib.events, event, code, *now);
    if (!call) {
        lib.running = NULL;
        own_run_end(&lib.own);
    }
    if (a.pinned_count || a.ref_count || a.actor_count) {
        uint8_t held[MANTA_ARGS_MAX * sizeof(mt_id)];
        size_t  held_size = give_back_arguments(&a, held);
        memcpy(bytes + size, held, held_size);
        size += held_size;
        if (code != MANTA_OK)
            memcpy(bytes + offsetof(struct lane_failure, held_size), &(uint32_t){(uint32_t)held_size}, sizeof(uint32_t));
    }
    user_code = code != MANTA_OK ? c->failure.user_code : 0;
    took = *now - begin;
    while (call ? !wrk_call_done(&lib.wrk, call, flags, code, user_code, bytes, size, *now, took)
                : !wrk_done(&lib.wrk, flags, code, user_code, bytes, size, *now, took))
        (void)lib_outcome_wait(c); /* a dead owner's outcome is dropped */
    if (MT_UNLIKELY(c->limits.max_calls) && is_worn_out(run->record.aux, c->limits.max_calls))
        retire();
    return took;
}

void lib_run_here(struct wrk_run *run, struct own_task *task, manta_actor_type **type, void **self, struct lib_outcome *out)
{
    manta_ctx        *c = calloc(1, sizeof *c), *outer = lib.running, *outer_running = lib_running;
    struct arguments  a;
    __typeof__(actor) before = actor;
    if (!c)
        abort(); /* as a worker would be */
    context_begin(c, run);
    c->here = task;
    a.count = a.pinned_count = a.ref_count = a.actor_count = 0;
    actor.type = type ? *type : NULL;
    actor.self = self ? *self : NULL;
    lib_lock();
    limits_begin(c, run, lib_now_ns());
    lib.running = c;
    lib_running = outer_running ? c : NULL;
    lib_unlock();
    out->code = c->ahead                        ? (manta_fail(c, 0, "MANTA_INLINE=1 runs no generators"), MANTA_EUNSUPPORTED)
                : run->record.kind == LANE_TASK ? run_task(c, &a, run)
                : run->record.kind == LANE_CALL ? run_method(c, &a, run)
                                                : run_create(c, &a, run);
    lib_fork_check();
    if (out->code == MANTA_OK)
        out->code = lib_result_check(c);
    if (c->deadline_ns && (int64_t)lib_now_ns() >= c->deadline_ns) {
        lib_fail_timed_out(c);
        out->code = MANTA_ETIMEDOUT;
    }
    if (c->results > 1 && out->code == MANTA_OK)
        out->code = lib_returned(c, &out->size);
    out->payload = c->results > 1 && out->code == MANTA_OK ? c->many : c->bytes;
    out->flags = out->code ? LANE_DONE_ERROR : 0;
    out->user_code = out->code ? c->failure.user_code : 0;
    if (out->code) {
        out->size = lib_failure_payload(c, out->code, c->bytes, sizeof c->bytes);
    } else if (c->results <= 1) {
        out->size = value_head(c);
    }
    lib_lock();
    lib.running = outer;
    lib_running = outer_running;
    if (type && run->record.kind == LANE_CREATE) {
        *type = actor.type;
        *self = actor.self;
    }
    actor = before;
    (void)give_back_arguments(&a, NULL); /* what it keeps is kept by this process, whose own arguments say so */
    lib_unlock();
    out->context = c;
}

void lib_outcome_free(struct lib_outcome *out)
{
    free(out->context->many);
    free(out->context);
}

/* Threads of an actor may all see that it is over, and its destroy function may take its time: whoever comes first ends the
 * process, the others wait for that. Without the lock. */
static void leave_alone(void)
{
    static atomic_flag is_leaving = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&is_leaving))
        pause();
}

MT_NORETURN static void leave(int code)
{
    if (actor.type && actor.type->destroy && actor.self)
        actor.type->destroy(actor.self);
    exit(code);
}

void lib_actor_exit(void)
{
    lib_unlock();
    leave_alone();
    lib_lock();
    while (!wrk_tell_creator(&lib.wrk, LANE_EXIT, NULL, 0)) {
        lib_act();
        lib_unlock();
        sched_yield();
        lib_lock();
    }
    wrk_flush(&lib.wrk);
    lib_act();
    lib_unlock();
    leave(0);
}

void manta_actor_exit(manta_ctx *c)
{
    if (c)
        c->wants_exit = true;
}

void manta_actor_save(manta_ctx *c)
{
    if (c)
        c->wants_save = true;
}

MT_NORETURN void lib_leave(int code)
{
    leave_alone();
    leave(code);
}

static bool has_work(void *arg)
{
    (void)arg;
    return wrk_has_work(&lib.wrk) || may_leave();
}

/* An actor that was made with room for more than one call at a time goes over to threads. */
static void become_concurrent(manta_ctx *c)
{
    uint32_t                       limits[1 + MT_ACTOR_GROUPS_MAX] = {actor.concurrency}, count = 1;
    const manta_concurrency_group *g = actor.type->groups;
    for (; count <= MT_ACTOR_GROUPS_MAX && g[count - 1].name; count++)
        limits[count] = g[count - 1].limit > 0 ? (uint32_t)g[count - 1].limit : 1;
    if (limits[0] > 1 || count > 1)
        lib_pool_serve(c, limits, count);
}

static void worker_loop(void)
{
    static manta_ctx c;
    struct wrk_run   run;
    uint64_t         now = lib_now_ns();
    uint32_t         since_pump = 0;
    lib_lock();
    for (;;) {
        if (wrk_next(&lib.wrk, &run)) {
            if (lib.wrk.out.wake_count)
                lib_act();
            lib_run(&c, &run, NULL, &now);
            if (MT_UNLIKELY(c.wants_exit))
                lib_actor_exit();
            if (run.record.kind == LANE_CREATE && actor.is_made)
                become_concurrent(&c);
            if (lib.own.class_list.count)
                own_release_idle(&lib.own);
            own_flush(&lib.own); /* what it has called must not wait for the end of the next run */
            if (lib.wrk.out.wake_count || lib.wrk.out.up.size || lib.own.out.wake_count)
                lib_act();
            if (++since_pump < 64)
                continue;
        }
        since_pump = 0;
        lib_pump();
        lib_act();
        if (may_leave()) {
            lib_unlock();
            lib_leave(0);
        }
        if (!wrk_has_work(&lib.wrk)) {
            wrk_flush(&lib.wrk);
            lib_act();
            lib_wait(has_work, NULL, INT64_MAX);
            now = lib_now_ns();
        }
    }
}

/* ---- the process ---- */

void lib_worker_unable(int fd, int32_t code, const char *text)
{
    struct ctl_reply why = {.code = code};
    snprintf(why.text, sizeof why.text, "it could not take over what the raylet gave it: %s", text);
    (void)lib_socket_send(fd, CTL_ZYGOTE_FAILED, (mt_id){0, 0}, &why, sizeof why, NULL, 0, -1).code;
}

MT_NORETURN void lib_worker_serve(int fd, int argc, char **argv)
{
    uint64_t  process;
    char      text[256];
    mt_status st;
    if (mt_random_bytes(&process, sizeof process).code)
        _exit(1);
    st = lib_hello(fd, CTL_WORKER, process, 0, argc, argv, "");
    if (st.code == 0 && (st = lib_welcome(fd, process, MT_LIB_CONNECT_MS, text)).code)
        lib_worker_unable(fd, st.code, st.what);
    if (st.code)
        _exit(1);
    lib_open(LIB_WORKER);
    lib.main_thread = pthread_self();
    lib_here_stack();
    worker_loop();
    _exit(0);
}
