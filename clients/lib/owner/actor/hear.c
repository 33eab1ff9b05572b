/* SPDX-License-Identifier: Apache-2.0
 *
 * hear.c - what is heard of an actor: replies, where it runs, that its process or its creator has died.
 *
 * Owns:   nothing. Thread: the caller's, under the owner lock.
 */
#include "clients/lib/owner/actor/actor.h"

#include <stdio.h>

static void asked_where(struct own *own, const struct ctl_message *from, const struct own_msg_where *where)
{
    struct own_actor  *actor = mt_map_ptr(&own->actors, where->actor);
    struct own_waiter *asker;
    if (!actor || !actor->is_mine) {
        struct own_actor gone = {.id = where->actor, .state = OWN_ACTOR_DEAD};
        own_actor_tell_where(own, &gone, from->process, from->node);
    } else if (actor->state == OWN_ACTOR_DEAD || (actor->state == OWN_ACTOR_ALIVE && actor->incarnation >= where->incarnation)) {
        own_actor_tell_where(own, actor, from->process, from->node);
    } else if ((asker = mt_stash_take(&own->stash, sizeof *asker))) {
        asker->kind = OWN_WAITS_PROCESS;
        asker->of.asker.process = from->process;
        asker->of.asker.node = from->node;
        asker->next = actor->askers;
        actor->askers = asker;
    } else {
        own->out.is_starved = true;
    }
}

static void detached_at(struct own *own, struct own_actor *actor, const struct ctl_reply *reply, const uint8_t *bytes, size_t size)
{
    struct ctl_name at;
    char            text[CTL_TEXT_SIZE];
    actor->is_asking = false;
    if (actor->state == OWN_ACTOR_DEAD || actor->owner)
        return;
    if (reply->code == MT_EACTOR_DIED) {
        snprintf(text, sizeof text, "%.*s", (int)sizeof text - 1, reply->text);
        own_actor_die_of(own, actor, MT_EACTOR_DIED, text);
    } else if (reply->code == MT_OK && size >= sizeof at) {
        shm_read(&at, bytes, sizeof at);
        actor->owner = at.owner;
        actor->owner_node = at.owner_node;
        actor->incarnation = 0; /* whatever runs under this warden is newer than what we knew */
        if (at.owner)
            own_actor_pump(own, actor);
    }
}

static void detached_lost(struct own *own, struct own_actor *actor)
{
    if (actor->state == OWN_ACTOR_DEAD)
        return;
    actor->owner = 0;
    actor->owner_node = 0;
    actor->is_asking = false;
    if (!actor->lane)
        own_actor_set_state(actor, OWN_ACTOR_STARTING);
    own_actor_pump(own, actor);
}

void own_actor_reply(struct own *own, const struct own_request *request, const struct ctl_reply *reply, const uint8_t *bytes,
                     size_t size)
{
    struct own_actor *actor = mt_map_ptr(&own->actors, request->actor);
    char              text[CTL_TEXT_SIZE];
    if (!actor)
        return;
    snprintf(text, sizeof text, "%.*s", (int)sizeof text - 1, reply->text);
    if (request->kind == OWN_REQUEST_NAME) {
        if (reply->code)
            own_actor_die_of(own, actor, reply->code, text);
        else if (actor->state != OWN_ACTOR_DEAD)
            own_class_demand(own, actor->cls, 1);
        actor->is_named = true;
    } else if (request->kind == OWN_REQUEST_VOID) {
        own_strict_replied(own, actor, reply->code);
    } else if (request->kind == OWN_REQUEST_WARDEN) {
        detached_at(own, actor, reply, bytes, size);
    } else if (request->kind == OWN_REQUEST_LANE && reply->code) {
        actor->is_asking = false;
        if (reply->code != MT_EACTOR_DIED)
            return;           /* a lack of something: asked again at the next tick */
        actor->incarnation++; /* that worker is gone: the creator will name the next */
        own_actor_pump(own, actor);
    }
}

/* It had died before we could watch its process: its creator's word is the news. */
static void actor_was_dead(struct own *own, struct own_actor *actor, const struct own_msg_at *at)
{
    struct ctl_death death = {
        .process = at->process, .node = at->node, .code = MT_EACTOR_DIED, .status = at->status, .pid = at->pid};
    snprintf(death.text, sizeof death.text, "%.*s", (int)sizeof at->text - 1, at->text[0] ? at->text : "it has ended");
    own_actor_die_of(own, actor, MT_EACTOR_DIED, death.text);
    if (mt_id_is_zero(actor->monitor)) /* else the raylet tells, or has told */
        own_actor_mourn(own, actor, at->incarnation, &death);
}

static void actor_at(struct own *own, const struct ctl_message *from, const struct own_msg_at *at)
{
    struct own_actor    *actor = mt_map_ptr(&own->actors, at->actor);
    struct ctl_lane_want want = {.process = at->process, .node = at->node, .incarnation = at->incarnation};
    mt_id                id = own_id_next(own);

    if (!actor || actor->is_mine || actor->owner != from->process || actor->lane)
        return;
    if (at->state == OWN_ACTOR_DEAD) {
        actor_was_dead(own, actor, at);
        return;
    }
    actor->incarnation = at->incarnation;
    actor->worker = at->process;
    actor->worker_node = at->node;
    actor->worker_pid = at->pid;
    if (actor->watch_count && mt_id_is_zero(actor->monitor))
        actor->monitor = own_monitor_actor(own, actor, at->process, at->node);
    if (own_request_new(own, id, actor->id, OWN_REQUEST_LANE).code) {
        actor->is_asking = false; /* asked again at the next tick */
        return;
    }
    own_send(own, CTL_LANE_WANT, id, &want, sizeof want);
}

void own_actor_message(struct own *own, uint32_t subject, const struct ctl_message *from, const uint8_t *bytes, size_t size)
{
    if (subject == OWN_MSG_AT && size == sizeof(struct own_msg_at)) {
        struct own_msg_at at;
        memcpy(&at, bytes, sizeof at);
        actor_at(own, from, &at);
    } else if (size == sizeof(struct own_msg_where)) {
        struct own_msg_where where;
        struct own_actor    *actor;
        memcpy(&where, bytes, sizeof where);
        actor = mt_map_ptr(&own->actors, where.actor);
        if (subject == OWN_MSG_WHERE)
            asked_where(own, from, &where);
        else if (subject == OWN_MSG_END_ACTOR && actor && actor->is_mine)
            own_actor_kill(own, actor, where.restart);
    }
}

void own_actor_worker_died(struct own *own, struct own_actor *actor, const struct ctl_death *death)
{
    actor->monitor = (mt_id){0, 0};
    own_actor_mourn(own, actor, actor->incarnation, death);
    if (!actor->lane && !actor->is_asking) {
        actor->incarnation++;
        own_actor_pump(own, actor);
    }
}

void own_actor_owner_died(struct own *own, struct own_actor *actor, int32_t code, const char *text)
{
    char why[CTL_TEXT_SIZE];
    if (actor->is_detached) {
        detached_lost(own, actor);
        return;
    }
    snprintf(why, sizeof why, "its creator is gone (%s): %.300s", mt_code_text(code), text);
    own_actor_die_of(own, actor, MT_EACTOR_DIED, why);
}
