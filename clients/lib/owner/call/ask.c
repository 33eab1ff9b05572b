/* SPDX-License-Identifier: Apache-2.0
 *
 * ask.c - what is asked about an actor: where it runs, of its creator or of the head; and whether a lost lease is over.
 *
 * Owns:   nothing. Thread: the caller's, under the owner lock.
 *
 * The id of a detached actor is its creator's; who answers for it is its warden, a process that the head starts, and
 * starts again elsewhere when it dies. A handle that knows no warden, or whose warden has died, asks the head for it.
 *
 * A strict actor's lease that was lost with its node may still run there, unheard of. The head is asked to void it, so that
 * it is never extended again; after its answer and the time of a lease the next incarnation may be created.
 */
#include "clients/lib/owner/call/call.h"

#include "core/base/limits/lib.h"
#include "core/base/limits/net.h"

#include <stdio.h>

static void ask(struct own *own, mt_id id, const struct ctl_actor *actor)
{
    struct {
        struct ctl_request request;
        struct ctl_actor   actor;
    } ask = {.request = {.op = CTL_OP_ACTOR}, .actor = *actor};
    own_send(own, CTL_REQUEST, id, &ask, sizeof ask);
}

static void detached_where(struct own *own, struct own_actor *actor)
{
    struct ctl_actor where = {.actor = actor->id, .verb = CTL_ACTOR_WHERE};
    mt_id            id = own_id_next(own);
    if (own->now_ns < actor->ask_ns || own_request_new(own, id, actor->id, OWN_REQUEST_WARDEN).code)
        return; /* the next tick asks */
    actor->is_asking = true;
    actor->ask_ns = own->now_ns + MT_LIB_WHERE_NS;
    ask(own, id, &where);
}

void own_detached_tell(struct own *own, const struct own_actor *actor, enum ctl_actor_verb verb, const char *why)
{
    struct ctl_actor news = {.actor = actor->id, .verb = verb, .restarts = actor->incarnation};
    snprintf(news.text, sizeof news.text, "%.*s", (int)sizeof news.text - 1, why);
    ask(own, own_id_next(own), &news);
}

void own_actor_ask_where(struct own *own, struct own_actor *actor)
{
    struct own_msg_where where = {.actor = actor->id, .incarnation = actor->incarnation};
    if (actor->is_asking || actor->is_mine)
        return;
    if (!actor->owner) {
        detached_where(own, actor);
        return;
    }
    actor->is_asking = true;
    own_watch_peer(own, actor->owner, actor->owner_node);
    own_send_message(own, actor->owner, actor->owner_node, OWN_MSG_WHERE, &where, sizeof where, NULL, 0);
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
