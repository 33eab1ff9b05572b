/* SPDX-License-Identifier: Apache-2.0
 *
 * actor.h - actors: made, restarted, borrowed, watched, killed.
 *
 * Thread: as own.h.
 */
#ifndef OWN_ACTOR_H
#define OWN_ACTOR_H

#include "clients/lib/owner/call/call.h"

/* ---- life: actor.c ---- */
/* `create` brings function (hash of the type's name), arguments and name. NULL only without memory. */
struct own_actor *own_actor_new(struct own *own, const struct own_class_spec *spec, const char *space, const char *public_name,
                                int32_t restarts, int32_t call_retries, const struct own_call *create);
struct own_actor *own_actor_borrow(struct own *own, const struct own_actor_wire *wire);
void              own_actor_wire(const struct own_actor *actor, struct own_actor_wire *out);
void              own_actor_drop(struct own *own, struct own_actor *actor);
/* Tasks and calls that have no outcome yet; not creations that are kept for a restart. */
uint64_t own_unfinished(const struct own *own);
/* The actor's own words to its creator: LANE_EXIT, LANE_SAVED. */
mt_status own_actor_says(struct own *own, struct own_actor *actor, const struct lane_record *record, const uint8_t *payload);
void      own_actor_kill(struct own *own, struct own_actor *actor, bool restart);
void      own_actor_granted(struct own *own, struct own_actor *actor, struct own_lane *lane);
/* Its creation is over; `failure` NULL: well. Else it is dead, whatever the code: it may be that of another actor's death. */
void own_actor_created(struct own *own, struct own_actor *actor, struct own_task *create, const struct own_failure *failure);
/* The worker died in it: own_actor_lane_ended, which follows, decides. */
void own_actor_create_died(struct own_actor *actor, struct own_task *create);
/* The same, of one that failed before it was sent, and was posted. */
void own_actor_take_failed(struct own *own, struct own_actor *actor);
void own_actor_lane_ended(struct own *own, struct own_actor *actor, const struct ctl_ended *why);
void own_actor_watch(struct own *own, struct own_actor *actor, bool on);
void own_actor_tick(struct own *own);
void own_actor_die_of(struct own *own, struct own_actor *actor, int32_t code, const char *text);
void own_actor_tell_where(struct own *own, const struct own_actor *actor, uint64_t process, uint32_t node);
void own_actor_mourn(struct own *own, const struct own_actor *actor, uint32_t incarnation, const struct ctl_death *death);

/* ---- what is heard of it: hear.c ---- */
void own_actor_message(struct own *own, uint32_t subject, const struct ctl_message *from, const uint8_t *bytes, size_t size);
/* `bytes`: what stands behind the reply. */
void own_actor_reply(struct own *own, const struct own_request *request, const struct ctl_reply *reply, const uint8_t *bytes,
                     size_t size);
void own_actor_worker_died(struct own *own, struct own_actor *actor, const struct ctl_death *death);
void own_actor_owner_died(struct own *own, struct own_actor *actor, int32_t code, const char *text);

#endif
