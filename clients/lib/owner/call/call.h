/* SPDX-License-Identifier: Apache-2.0
 *
 * call.h - submitting, and calls of actors on their way to the lane.
 *
 * Thread: as own.h.
 */
#ifndef OWN_CALL_H
#define OWN_CALL_H

#include "clients/lib/owner/lane/lane.h"

/* ---- submitting: submit.c ---- */
/* The ref comes with one hold. NULL only without memory. Notes are left for own_settle: from outside, own_submit. */
struct own_ref *own_task_submit(struct own *own, const struct own_call *call);

/* ---- calls in their queues: calls.c ---- */
mt_status own_actor_add(struct own *own, struct own_actor *actor, struct own_task *task);
/* A call that is made again for its lost value: before those that were made later, which may wait for it. */
void own_actor_add_again(struct own *own, struct own_actor *actor, struct own_task *task);
void own_actor_pump(struct own *own, struct own_actor *actor);
void own_actor_fail_calls(struct own *own, struct own_actor *actor);
/* Why a call of an actor that is dead fails. */
void own_actor_failure(const struct own_actor *actor, const char *method, struct own_failure *out);

/* ---- what is asked about an actor: ask.c ---- */
void own_actor_ask_where(struct own *own, struct own_actor *actor);
void own_detached_tell(struct own *own, const struct own_actor *actor, enum ctl_actor_verb verb, const char *why);
/* Of a strict one: its lease was lost with its node. */
void               own_strict_lost(struct own *own, struct own_actor *actor, uint64_t lease, uint32_t node);
void               own_strict_replied(struct own *own, struct own_actor *actor, int32_t code);
void               own_strict_tick(struct own *own, struct own_actor *actor);
static inline bool own_strict_may_create(const struct own *own, const struct own_actor *actor)
{
    return !actor->void_lease && own->now_ns >= actor->create_ns;
}

#endif
