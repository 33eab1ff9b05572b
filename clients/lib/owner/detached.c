/* SPDX-License-Identifier: Apache-2.0
 *
 * detached.c - detached actors, as their warden and everybody else sees them; strict ones, whose node was lost.
 *
 * Owns:   nothing of its own. Thread: the caller's, under the owner lock.
 *
 * The id of a detached actor is its creator's; who answers for it is its warden, a process that the head starts, and
 * starts again elsewhere when it dies. A handle that knows no warden, or whose warden has died, asks the head for it. The
 * warden itself has the actor as its own (actor.c), and tells the head of restarts and of the end.
 *
 * A strict actor's lease that was lost with its node may still run there, unheard of. The head is asked to void it, so that
 * it is never extended again; after its answer and the time of a lease the next incarnation may be created.
 */
#include "clients/lib/owner/own.h"

#include "core/base/limits.h"

#include <stdio.h>

static void ask(struct own *own, mt_id id, const struct ctl_actor *actor)
{
    struct {
        struct ctl_request request;
        struct ctl_actor   actor;
    } ask = {.request = {.op = CTL_OP_ACTOR}, .actor = *actor};
    own_send(own, CTL_REQUEST, id, &ask, sizeof ask);
}

void own_detached_where(struct own *own, struct own_actor *actor)
{
    struct ctl_actor where = {.actor = actor->id, .verb = CTL_ACTOR_WHERE};
    mt_id            id = own_id_next(own);
    if (own->now_ns < actor->ask_ns || own_request_new(own, id, actor->id, CTL_OP_ACTOR).code)
        return; /* the next tick asks */
    actor->is_asking = true;
    actor->ask_ns = own->now_ns + MT_LIB_WHERE_NS;
    ask(own, id, &where);
}

void own_detached_at(struct own *own, struct own_actor *actor, const struct ctl_reply *reply, const uint8_t *bytes, size_t size)
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

void own_detached_lost(struct own *own, struct own_actor *actor)
{
    if (actor->state == OWN_ACTOR_DEAD)
        return;
    actor->owner = 0;
    actor->owner_node = 0;
    actor->is_asking = false;
    if (!actor->lane)
        actor->state = OWN_ACTOR_STARTING;
    own_actor_pump(own, actor);
}

void own_detached_tell(struct own *own, const struct own_actor *actor, enum ctl_actor_verb verb, const char *why)
{
    struct ctl_actor news = {.actor = actor->id, .verb = verb, .restarts = actor->incarnation};
    snprintf(news.text, sizeof news.text, "%.*s", (int)sizeof news.text - 1, why);
    ask(own, own_id_next(own), &news);
}

/* ---- strict ---- */

static void ask_void(struct own *own, struct own_actor *actor)
{
    struct ctl_actor request = {.actor = actor->id, .verb = CTL_ACTOR_VOID, .lease = actor->void_lease, .node = actor->void_node};
    mt_id            id = own_id_next(own);
    if (own_request_new(own, id, actor->id, OWN_REQUEST_VOID).code)
        return;
    actor->is_voiding = true;
    actor->ask_ns = own->now_ns + MT_LIB_WHERE_NS;
    ask(own, id, &request);
}

void own_strict_lost(struct own *own, struct own_actor *actor, uint64_t lease, uint32_t node)
{
    actor->void_lease = lease;
    actor->void_node = node;
    ask_void(own, actor);
}

void own_strict_replied(struct own *own, struct own_actor *actor, int32_t code)
{
    actor->is_voiding = false;
    if (code != MT_OK)
        return; /* the raylet has waited long for the head: the tick asks again */
    actor->void_lease = 0;
    actor->create_ns = own->now_ns + MT_STRICT_WAIT_MS * UINT64_C(1000000);
}

void own_strict_tick(struct own *own, struct own_actor *actor)
{
    if (actor->void_lease && !actor->is_voiding && own->now_ns >= actor->ask_ns)
        ask_void(own, actor);
}
