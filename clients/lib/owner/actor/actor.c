/* SPDX-License-Identifier: Apache-2.0
 *
 * actor.c - actors, as their creator sees them and as every other caller does.
 *
 * Owns:   every struct own_actor: it lives while it has handles here, and a creator's until its process is gone.
 * Thread: the caller's, under the owner lock.
 *
 * The creator leases a worker, sends CREATE, and answers WHERE. Another caller asks the creator where the actor runs,
 * asks its raylet for a lane to that worker, and asks the creator again when the lane ends. Calls stand in one queue a
 * handle, in the order in which they were made, and enter the lane from its front only. The drawing is in state/machines.c.
 */
#include "clients/lib/owner/actor/actor.h"

#include <stdio.h>
#include <sys/wait.h>

static struct own_actor *actor_new(struct own *own, mt_id id, const char *name, uint64_t type)
{
    struct own_actor *actor = calloc(1, sizeof *actor);
    if (!actor || mt_map_put_ptr(&own->actors, id, actor).code) {
        free(actor);
        return NULL;
    }
    actor->id = id;
    actor->holds = 1;
    own_actor_set_state(actor, OWN_ACTOR_STARTING);
    actor->type = type;
    actor->owner = id.process;
    snprintf(actor->name, sizeof actor->name, "%s", name);
    return actor;
}

static void actor_free(struct own *own, struct own_actor *actor)
{
    MT_ASSERT(!own_actor_has_queued(actor) && !actor->lane && !actor->kept_calls && !actor->is_woken);
    mt_map_remove(&own->actors, actor->id);
    if (!mt_id_is_zero(actor->monitor))
        own_monitor_end(own, actor->monitor);
    if (actor->create)
        own_task_finish(own, actor->create);
    if (actor->snapshot)
        own_ref_unhold(own, actor->snapshot);
    if (actor->cls)
        own_class_retire(own, actor->cls);
    while (actor->askers) {
        struct own_waiter *asker = actor->askers;
        actor->askers = asker->next;
        free(asker);
    }
    free(actor->groups);
    own_failure_free(own, actor->create_failed);
    own_failure_free(own, actor->failure);
    free(actor);
}

/* ---- where it is: the creator answers ---- */

void own_actor_tell_where(struct own *own, const struct own_actor *actor, uint64_t process, uint32_t node)
{
    struct own_msg_at at = {.actor = actor->id,
                            .state = actor->state,
                            .incarnation = actor->incarnation,
                            .process = actor->worker,
                            .node = actor->worker_node,
                            .pid = actor->worker_pid};
    if (actor->failure) {
        at.pid = actor->failure->pid;
        at.node = actor->failure->node;
        at.status = actor->failure->signal_number;
        snprintf(at.text, sizeof at.text, "%s", actor->failure->message);
    }
    own_send_message(own, process, node, OWN_MSG_AT, &at, sizeof at, NULL, 0);
}

static void answer_askers(struct own *own, struct own_actor *actor)
{
    struct own_waiter *asker = actor->askers;
    actor->askers = NULL;
    while (asker) {
        struct own_waiter *next = asker->next;
        own_actor_tell_where(own, actor, asker->of.asker.process, asker->of.asker.node);
        free(asker);
        asker = next;
    }
}

/* ---- the end ---- */

/* Asks the head to note, or to forget, the name of an actor of ours. */
static void ask_name(struct own *own, const struct own_actor *actor, uint32_t op, mt_id id)
{
    struct {
        struct ctl_request request;
        struct ctl_name    name;
    } ask = {.request = {.op = op}, .name = {.actor = actor->id, .owner = own->process, .owner_node = own->node}};
    ask.name.flags = actor->is_for_all ? CTL_NAME_FOR_ALL : 0;
    memcpy(ask.name.space, actor->space, sizeof ask.name.space);
    memcpy(ask.name.name, actor->public_name, sizeof ask.name.name);
    memcpy(ask.name.type, actor->name, sizeof ask.name.type);
    own_send(own, CTL_REQUEST, id, &ask, sizeof ask);
}

static void actor_die(struct own *own, struct own_actor *actor, const struct own_failure *why)
{
    if (actor->state == OWN_ACTOR_DEAD)
        return;
    own_actor_set_state(actor, OWN_ACTOR_DEAD);
    actor->failure = own_failure_new(own, why);
    own_actor_fail_calls(own, actor);
    answer_askers(own, actor);
    if (actor->is_mine) {
        own_class_demand(own, actor->cls, 0);
        if (actor->is_detached)
            own_detached_tell(own, actor, CTL_ACTOR_END, why->message);
        else if (actor->public_name[0])
            ask_name(own, actor, CTL_OP_NAME_DELETE, own_id_next(own));
    }
}

static void die_of(struct own *own, struct own_actor *actor, int32_t code, const char *text, bool is_wanted)
{
    struct own_failure f;
    own_failure_set(&f, code, "actor %s: %s", actor->name, text);
    f.node = own->node; /* where it was decided; it may never have been anywhere else */
    f.is_wanted = is_wanted;
    actor_die(own, actor, &f);
}

void own_actor_die_of(struct own *own, struct own_actor *actor, int32_t code, const char *text)
{
    die_of(own, actor, code, text, false);
}

/* ---- creating ---- */

static mt_status register_name(struct own *own, struct own_actor *actor)
{
    mt_id id = own_id_next(own);
    MT_TRY(own_request_new(own, id, actor->id, OWN_REQUEST_NAME));
    ask_name(own, actor, CTL_OP_NAME_PUT, id);
    return mt_ok();
}

struct own_actor *own_actor_new(struct own *own, const struct own_class_spec *spec, const char *space, const char *public_name,
                                int32_t restarts, int32_t call_retries, const struct own_call *create)
{
    mt_id             id = create->warden ? create->warden->actor : own_id_next(own);
    struct own_actor *actor = actor_new(own, id, spec->name, create->function);
    struct own_call   call = *create;
    struct own_ref   *ref;
    if (!actor)
        return NULL;
    actor->is_mine = true;
    actor->is_detached = create->warden != NULL;
    actor->is_strict = spec->flags & CTL_CLASS_STRICT;
    actor->is_for_all = spec->flags & CTL_CLASS_FOR_ALL;
    actor->incarnation = create->warden ? create->warden->restarts : 0;
    actor->owner = own->process;
    actor->owner_node = own->node;
    actor->restarts_left = restarts;
    actor->is_restartable = restarts != 0;
    actor->call_retries = call_retries;
    snprintf(actor->space, sizeof actor->space, "%s", space);
    snprintf(actor->public_name, sizeof actor->public_name, "%s", public_name ? public_name : "");
    actor->create_options = create->create_options;
    struct own_class_spec leased = *spec;
    leased.flags |= restarts ? CTL_CLASS_RESTARTS : 0;
    actor->cls = own_class_get(own, &leased, actor->id);
    call.cls = actor->cls;
    call.actor = actor;
    call.kind = LANE_CREATE;
    call.retries = 0;
    ref = actor->cls ? own_task_submit(own, &call) : NULL;
    if (!ref) {
        mt_map_remove(&own->actors, actor->id);
        free(actor);
        return NULL;
    }
    own_ref_unhold(own, ref);
    own_actor_take_failed(own, actor);
    if (actor->state == OWN_ACTOR_DEAD)
        return actor;
    if (actor->queue.first) /* without a lease it waits there */
        actor->queue.first->attempt = (uint16_t)actor->incarnation;
    if (!actor->public_name[0])
        own_class_demand(own, actor->cls, 1);
    else if (register_name(own, actor).code) /* the lease is asked for when the name is ours */
        own_actor_die_of(own, actor, MT_ENOMEM, "no memory to register its name");
    return actor;
}

void own_actor_granted(struct own *own, struct own_actor *actor, struct own_lane *lane)
{
    lane->actor = actor;
    actor->is_asking = false;
    if (actor->lane) { /* socket and ring are not ordered: CTL_ENDED of the old one is still to come */
        if (actor->next_lane)
            actor->next_lane->actor = NULL; /* an actor has one lease at a time: that one has ended too */
        actor->next_lane = lane;
        return;
    }
    actor->lane = lane;
    actor->worker = lane->worker;
    actor->worker_node = lane->node;
    actor->worker_pid = lane->pid;
    if (!actor->is_mine)
        own_actor_set_state(actor, OWN_ACTOR_ALIVE);
    own_actor_pump(own, actor);
}

/* False: it was ended while its worker was at it, and that stands. */
static bool create_over(struct own_actor *actor, struct own_task *create)
{
    actor->create = create;
    create->lane = NULL;
    own_task_set_state(create, OWN_CREATED);
    return actor->state != OWN_ACTOR_DEAD;
}

void own_actor_created(struct own *own, struct own_actor *actor, struct own_task *create, const struct own_failure *failure)
{
    if (!create_over(actor, create))
        return;
    if (failure) {
        actor_die(own, actor, failure);
        return;
    }
    own_actor_set_state(actor, OWN_ACTOR_ALIVE);
    answer_askers(own, actor);
    own_actor_pump(own, actor);
}

void own_actor_create_died(struct own_actor *actor, struct own_task *create)
{
    if (create_over(actor, create))
        own_actor_set_state(actor, OWN_ACTOR_RESTARTING);
}

void own_actor_take_failed(struct own *own, struct own_actor *actor)
{
    struct own_failure *why = actor->create_failed;
    if (!why)
        return;
    actor->create_failed = NULL;
    own_actor_created(own, actor, actor->create, why);
    own_failure_free(own, why);
}

static void take_next_lane(struct own *own, struct own_actor *actor)
{
    struct own_lane *next = actor->next_lane;
    actor->next_lane = NULL;
    if (next)
        own_actor_granted(own, actor, next);
}

/* ---- deaths ---- */

void own_actor_mourn(struct own *own, const struct own_actor *actor, uint32_t incarnation, const struct ctl_death *death)
{
    struct own_death news = {.subject = actor->id,
                             .is_actor = true,
                             .incarnation = incarnation,
                             .restarting = actor->state != OWN_ACTOR_DEAD,
                             .death = *death};
    if (actor->watch_count)
        own_out_death(own, &news);
}

/* Puts the snapshot behind the arguments of create; an older one goes. */
static mt_status create_from_snapshot(struct own *own, struct own_actor *actor)
{
    struct own_task  *create = actor->create;
    struct own_ref   *ref = actor->snapshot;
    struct lane_value value = {.type = 'y'};
    struct lane_ref   wire;
    const void       *bytes = &wire;
    uint32_t          options = actor->create_options | OWN_CREATE_HAS_STATE;
    uint8_t           all[LANE_RECORD_MAX] = {0}, *blob;
    if (!actor->create_size)
        actor->create_size = create->blob_size;
    if (ref->state == OWN_REF_PLACE) {
        wire = *own_ref_place(own, ref);
        value.flags = LANE_VALUE_SHARED;
        value.size = sizeof wire;
    } else {
        value.size = ref->size;
        bytes = own_ref_bytes(ref);
    }
    size_t size = actor->create_size + sizeof value + ((value.size + 7u) & ~7u);
    if (size > LANE_RECORD_MAX - LANE_RECORD_SIZE)
        return mt_error(MT_EINVAL, 0, "create with a snapshot");
    memcpy(all, create->blob, actor->create_size);
    memcpy(all + sizeof(uint32_t), &options, sizeof options);
    memcpy(all + actor->create_size, &value, sizeof value);
    memcpy(all + actor->create_size + sizeof value, bytes, value.size);
    own_blob_free(own, create);
    own->queued_bytes -= create->blob_size;
    create->blob_size = 0;
    blob = own_blob_new(own, create, size);
    if (!blob)
        return mt_error(MT_ENOMEM, 0, "create with a snapshot");
    memcpy(blob, all, size);
    own->queued_bytes += size;
    create->blob = blob;
    create->blob_size = (uint32_t)size;
    return mt_ok();
}

mt_status own_actor_says(struct own *own, struct own_actor *actor, const struct lane_record *record, const uint8_t *payload)
{
    size_t            size = record->length - LANE_RECORD_SIZE;
    struct lane_value value;
    struct lane_ref   place;
    struct own_ref   *ref;
    if (!actor || !actor->is_mine)
        return mt_error(MT_EPROTO, 0, "news of an actor that is not ours");
    if (record->kind == LANE_EXIT) {
        actor->is_ending = actor->has_exited = true;
        return mt_ok();
    }
    if (size < sizeof value)
        return mt_error(MT_EPROTO, 0, "a snapshot that is too short");
    shm_read(&value, payload, sizeof value);
    if (value.size > size - sizeof value)
        return mt_error(MT_EPROTO, 0, "a snapshot that runs past its record");
    MT_TRY(own_value_check(&value, payload + sizeof value));
    ref = own_ref_new(own, own_id_next(own));
    if (!ref)
        return mt_ok(); /* the older one stands */
    if (value.flags & LANE_VALUE_SHARED) {
        shm_read(&place, payload + sizeof value, sizeof place);
        ref->flags |= OWN_REF_ESCAPED;
        own_ref_set_place(own, ref, &place);
    } else {
        own_ref_set_inline(own, ref, value.type, payload + sizeof value, value.size);
    }
    if (actor->snapshot)
        own_ref_unhold(own, actor->snapshot);
    actor->snapshot = ref;
    return mt_ok();
}

static void restart_or_die(struct own *own, struct own_actor *actor, const struct ctl_ended *why)
{
    struct own_failure f;
    bool               is_free = why->code == MT_EPREEMPTED && actor->is_restartable; /* its node was to leave */
    if (actor->state != OWN_ACTOR_DEAD && !actor->is_ending && (actor->restarts_left != 0 || is_free) && why->code != MT_OK &&
        why->code != MT_EPG_REMOVED) {
        if (actor->restarts_left > 0 && !is_free)
            actor->restarts_left--;
        own_actor_set_state(actor, OWN_ACTOR_RESTARTING);
        actor->incarnation++;
        if (actor->is_strict && why->code == MT_ENODE_DIED)
            own_strict_lost(own, actor, why->lease, why->node);
        if (actor->is_detached)
            own_detached_tell(own, actor, CTL_ACTOR_RESTARTED, "");
        if (actor->create) {
            struct own_task *create = actor->create;
            if (actor->snapshot && create_from_snapshot(own, actor).code) {
                own_actor_die_of(own, actor, MT_EINVAL, "the arguments of create and the snapshot do not fit into one record");
                return;
            }
            actor->create = NULL;
            create->attempt = (uint16_t)actor->incarnation;
            own_task_set_state(create, OWN_QUEUED);
            own_queue_push_front(&actor->queue, create);
        }
        return;
    }
    const char *end = memchr(why->text, '\n', sizeof why->text); /* a backtrace follows */
    size_t      first = end ? (size_t)(end - why->text) : strnlen(why->text, sizeof why->text);
    own_failure_set(&f, why->code == MT_EPG_REMOVED ? why->code : MT_EACTOR_DIED, "actor %s (incarnation %u) is dead: %.*s",
                    actor->name, actor->incarnation, first && !actor->has_exited ? (int)first : 400,
                    actor->has_exited ? "it ended of its own will"
                    : first           ? why->text
                                      : "it was ended");
    if (end)
        snprintf(f.backtrace, sizeof f.backtrace, "%.*s", (int)(sizeof why->text - first - 1), end + 1);
    f.pid = why->pid;
    f.node = why->node ? why->node : own->node;
    f.signal_number = WIFSIGNALED(why->status) ? WTERMSIG(why->status) : 0;
    actor_die(own, actor, &f);
}

/* The lease of an actor that lived has ended, and nobody wanted that: its process gave it back by itself. */
static struct ctl_ended left_by_itself(const struct ctl_ended *why)
{
    struct ctl_ended ended = *why;
    ended.code = MT_EACTOR_DIED;
    if (!ended.text[0])
        snprintf(ended.text, sizeof ended.text, "its worker ended the lease; has it written over its shared memory?");
    return ended;
}

void own_actor_lane_ended(struct own *own, struct own_actor *actor, const struct ctl_ended *why)
{
    struct ctl_ended left = left_by_itself(why);
    struct ctl_death death = {
        .process = actor->worker, .node = actor->worker_node, .code = MT_EACTOR_DIED, .status = why->status, .pid = why->pid};
    uint32_t incarnation = actor->incarnation;
    actor->lane = NULL;
    if (!actor->is_mine) {
        if (actor->state != OWN_ACTOR_DEAD)
            own_actor_set_state(actor, OWN_ACTOR_STARTING);
        actor->is_ending = false; /* the lane that was to be left is: whoever holds it again leaves the next one too */
        actor->incarnation += why->code != 0;
        take_next_lane(own, actor);
        own_actor_pump(own, actor);
        return;
    }
    if (!why->code && !actor->is_ending && actor->create) /* create has run: there was an actor */
        why = &left;
    if (why->code || actor->is_ending)
        restart_or_die(own, actor, why);
    memcpy(death.text, why->text, sizeof death.text);
    if (!actor->is_mourned) /* a lease that was granted before the raylet heard of its end, and ends now, is no second death */
        own_actor_mourn(own, actor, incarnation, &death);
    actor->is_mourned = actor->state == OWN_ACTOR_DEAD;
    take_next_lane(own, actor);
}

void own_actor_kill(struct own *own, struct own_actor *actor, bool restart)
{
    struct own_msg_where where = {.actor = actor->id, .incarnation = actor->incarnation, .restart = restart};
    struct ctl_lease     lease;
    if (actor->state == OWN_ACTOR_DEAD)
        return;
    if (!actor->is_mine && actor->is_detached && !restart) {
        own_detached_tell(own, actor, CTL_ACTOR_END, "it was killed");
        return;
    }
    if (!actor->is_mine) {
        own_send_message(own, actor->owner, actor->owner_node, OWN_MSG_END_ACTOR, &where, sizeof where, NULL, 0);
        return;
    }
    actor->is_ending = actor->is_ending || !restart;
    if (actor->lane) {
        lease.lease = actor->lane->lease;
        own_send(own, CTL_KILL, own_id_next(own), &lease, sizeof lease);
    } else if (!restart) {
        die_of(own, actor, MT_EACTOR_DIED, "it was killed before it had started", true);
    }
}

void own_actor_watch(struct own *own, struct own_actor *actor, bool on)
{
    actor->watch_count = on ? actor->watch_count + 1 : actor->watch_count - 1;
    if (!on || actor->is_mine)
        return;
    if (actor->lane && mt_id_is_zero(actor->monitor))
        actor->monitor = own_monitor_actor(own, actor, actor->worker, actor->worker_node);
    own_actor_pump(own, actor);
}

/* ---- handles ---- */

struct own_actor *own_actor_borrow(struct own *own, const struct own_actor_wire *wire)
{
    struct own_actor *actor = mt_map_ptr(&own->actors, wire->id);
    char              name[CTL_NAME_SIZE];
    if (actor) {
        actor->holds++;
        return actor;
    }
    snprintf(name, sizeof name, "%.*s", CTL_NAME_SIZE - 1, wire->name);
    actor = actor_new(own, wire->id, name, wire->type);
    if (!actor)
        return NULL;
    actor->owner = wire->owner;
    actor->owner_node = wire->owner_node;
    actor->is_detached = wire->options & OWN_ACTOR_DETACHED;
    actor->any_order = wire->options & OWN_ACTOR_ANY_ORDER;
    actor->call_retries = wire->options >> 8 == 0xffffff ? -1 : (int32_t)(wire->options >> 8);
    if (wire->owner == own->process)
        own_actor_die_of(own, actor, MT_EACTOR_DIED, "it has ended");
    return actor;
}

void own_actor_wire(const struct own_actor *actor, struct own_actor_wire *out)
{
    memset(out, 0, sizeof *out);
    out->id = actor->id;
    out->type = actor->type;
    out->owner_node = actor->owner_node;
    out->owner = actor->owner;
    out->options = (uint32_t)actor->call_retries << 8 | (actor->any_order ? OWN_ACTOR_ANY_ORDER : 0) |
                   (actor->is_detached ? OWN_ACTOR_DETACHED : 0);
    memcpy(out->name, actor->name, sizeof out->name);
}

uint64_t own_unfinished(const struct own *own)
{
    uint64_t count = own->outstanding;
    MT_MAP_EACH(&own->actors, entry) {
        count -= ((const struct own_actor *)entry->value.ptr)->create != NULL;
    }
    return count;
}

void own_actor_drop(struct own *own, struct own_actor *actor)
{
    MT_ASSERT(actor->holds > 0);
    actor->holds--;
    (void)own; /* own_actor_tick ends it once its calls are done */
}

static bool is_idle(const struct own_actor *actor)
{
    return own_actor_pending(actor) == 0;
}

/* Nobody here holds it any more: once its calls are done, the creator ends it and a caller leaves the lane. */
static void actor_release(struct own *own, struct own_actor *actor)
{
    struct ctl_lease lease;
    if (!is_idle(actor) || actor->holds)
        return;
    if (!actor->lane && (actor->state == OWN_ACTOR_DEAD || !actor->is_mine)) {
        if (!actor->kept_calls)
            actor_free(own, actor);
        return;
    }
    if (actor->is_ending)
        return;
    actor->is_ending = true;
    if (actor->is_mine) {
        own_class_demand(own, actor->cls, 0);
        if (!actor->lane)
            own_actor_die_of(own, actor, MT_EACTOR_DIED, "its creator gave it up");
    } else {
        lease.lease = actor->lane->lease;
        own_send(own, CTL_LANE_DROP, own_id_next(own), &lease, sizeof lease);
    }
}

void own_actor_tick(struct own *own)
{
    MT_MAP_EACH(&own->actors, entry) {
        struct own_actor *actor = entry->value.ptr;
        if (actor->is_strict)
            own_strict_tick(own, actor);
        if (own_actor_has_queued(actor) || (actor->holds && actor->is_detached && !actor->owner))
            own_actor_pump(own, actor);
        if (actor->holds == 0)
            actor_release(own, actor);
    }
}
