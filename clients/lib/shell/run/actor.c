/* SPDX-License-Identifier: Apache-2.0
 *
 * actor.c - an actor's create, methods, end and snapshots.
 *
 * Owns:   the actor that this worker is. Thread: one that runs its calls; user code runs here, without the owner lock.
 */
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/names/names.h"
#include "clients/lib/shell/run/inside.h"
#include "clients/lib/shell/run/run.h"
#include "clients/lib/shell/state/state.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct lib_actor lib_actor_here;
uint32_t         lib_actor_save_every;
static struct {
    uint32_t        calls; /* since create */
    mt_id           id;    /* of the record of create: what snapshots are named by */
    uint32_t        owner_node;
    pthread_mutex_t save_lock; /* snapshots go out in the order in which they were taken */
    uint32_t        concurrency;
} self = {.save_lock = PTHREAD_MUTEX_INITIALIZER};

uint32_t lib_actor_concurrency(void)
{
    return self.concurrency;
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
    snprintf(out->actor, sizeof out->actor, "%s", c->actor && c->actor->type ? c->actor->type->name : "");
    out->job = lib.own.job;
    out->node = lib.own.node;
    out->pid = getpid();
    out->attempt = (int)c->run->record.attempt;
    out->num_cpus = (double)lib.lease_cpu_milli / 1000;
    out->num_gpus = (int)lib.lease_gpus;
}

/* The snapshot behind the arguments of create, into the new incarnation. */
static manta_status load_state(manta_ctx *c, struct lib_arguments *a, const struct wrk_run *run)
{
    struct lib_actor *actor = c->actor;
    struct lane_value value;
    manta_arg         state;
    const uint8_t    *bytes = run->payload + a->end + sizeof value;
    if (!actor->type->load || a->end + sizeof value > run->size)
        return manta_fail(c, 0, "a snapshot that this actor type can't load"), MANTA_EPROTO;
    memcpy(&value, run->payload + a->end, sizeof value);
    if (value.size > run->size - a->end - sizeof value)
        return manta_fail(c, 0, "a snapshot that is cut short"), MANTA_EPROTO;
    state.y = (manta_bytes){bytes, value.size};
    if (value.flags & LANE_VALUE_SHARED && !lib_arguments_shared(a, &state, 'y', bytes, value.size, &c->failure))
        return c->has_failed = true, c->failure.code;
    return actor->type->load(c, actor->self, state.y.data, state.y.size);
}

manta_status lib_actor_create(manta_ctx *c, struct lib_arguments *a, const struct wrk_run *run)
{
    manta_actor_type *type = lib_actor_type_of_hash(run->record.aux);
    struct lib_actor *actor = c->actor;
    uint32_t          options;
    manta_status      code;
    if (!type)
        return manta_fail(c, 0, "no such actor type in this executable"), MANTA_ENOFUNC;
    c->name = type->name;
    lib_event_name(run, type->name, "create");
    c->signature = type->signature;
    if (!lib_arguments_take(a, type->signature, run, &c->failure))
        return c->has_failed = true, c->failure.code;
    actor->type = type;
    memcpy(&options, run->payload + sizeof options, sizeof options);
    if (actor == &lib_actor_here) {
        self.concurrency = options & OWN_CREATE_CONCURRENCY;
        lib_actor_save_every = options >> OWN_CREATE_SAVE_SHIFT & OWN_CREATE_SAVE_MAX;
        self.id = run->record.id;
        self.owner_node = run->lane->owner_node;
    }
    code = type->create(c, &actor->self, a->count, a->args);
    if (code == MANTA_OK && options & OWN_CREATE_HAS_STATE)
        code = load_state(c, a, run);
    actor->is_made = code == MANTA_OK;
    return code;
}

/* The end that a caller asked for: what stands in other groups begins first, then all that runs ends. */
static manta_status run_end(manta_ctx *c)
{
    struct lib_actor     *actor = c->actor;
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
    if (actor->type->destroy && actor->self)
        actor->type->destroy(actor->self);
    actor->self = NULL;
    return MANTA_OK;
}

/* What is asked by manta_group_quiet. In the process that has submitted it, calls are over before the next one. */
static manta_status run_quiet(manta_ctx *c, const struct wrk_run *run)
{
    struct lib_quiet q = {0};
    c->name = LIB_QUIET;
    c->signature = ">y";
    if (c->actor == &lib_actor_here) {
        lib_event_name(run, c->actor->type->name, LIB_QUIET);
        lib_lock();
        lib.begun--;
        q = (struct lib_quiet){lib.begun, lib.own.submitted, own_unfinished(&lib.own) + lib.wrk.calls_queued};
        q.open += (lib.wrk.calls_running ? lib.wrk.calls_running - 1 : 0) +
                  (lib.callbacks || lib.own.out.callbacks || lib.is_calling);
        lib_unlock();
    }
    return manta_return_bytes(c, &q, sizeof q);
}

manta_status lib_actor_method(manta_ctx *c, struct lib_arguments *a, const struct wrk_run *run)
{
    struct lib_actor   *actor = c->actor;
    const manta_method *m = actor && actor->type ? lib_method_of_hash(actor->type, run->record.aux) : NULL;
    if (!m && actor == &lib_actor_here && actor->is_made && run->record.aux == lib_hash(LIB_END))
        return run_end(c);
    if (!m && actor && actor->is_made && run->record.aux == lib_hash(LIB_QUIET))
        return run_quiet(c, run);
    if (!m)
        return manta_fail(c, 0, "no such method in this executable"), MANTA_ENOFUNC;
    c->name = m->name;
    lib_event_name(run, actor->type->name, m->name);
    c->signature = m->signature;
    if (!lib_arguments_take(a, m->signature, run, &c->failure))
        return c->has_failed = true, c->failure.code;
    c->wanted = a->wanted;
    c->kept_max = a->kept_max;
    return m->run(c, actor->self, a->count, a->args);
}

/* What save gives back goes to the creator, before the outcome of the call after which it was taken. */
static void save_state(void)
{
    struct lane_value value = {.type = 'y'};
    struct wrk_lane   creator = {.owner_node = self.owner_node};
    struct wrk_run    run = {.lane = &creator, .record = {.kind = LANE_CREATE, .id = self.id}};
    manta_ctx        *s = malloc(sizeof *s);
    if (!s)
        return; /* the older snapshot stands */
    pthread_mutex_lock(&self.save_lock);
    s->many = NULL;
    s->placed = NULL;
    lib_context_begin(s, &run, &lib_actor_here);
    s->name = lib_actor_here.type->name;
    if (lib_actor_here.type->save(s, lib_actor_here.self) == MANTA_OK && s->has_value) {
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
    pthread_mutex_unlock(&self.save_lock);
    free(s);
}

void lib_actor_save_leaving(void)
{
    const manta_actor_type *type = lib_actor_here.type;
    lib_unlock();
    if (lib_actor_here.is_made && lib_actor_here.self && type->save && type->load)
        save_state();
    lib_lock();
    wrk_saved(&lib.wrk);
}

static bool is_time_to_save(const manta_ctx *c)
{
    uint32_t calls = __atomic_add_fetch(&self.calls, 1, __ATOMIC_RELAXED);
    return lib_actor_here.self && lib_actor_here.type->save &&
           (c->wants_save || (lib_actor_save_every && calls % lib_actor_save_every == 0));
}

void lib_actor_save_if_due(const manta_ctx *c)
{
    if (is_time_to_save(c))
        save_state();
}
