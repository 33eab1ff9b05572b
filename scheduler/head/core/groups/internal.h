/* SPDX-License-Identifier: Apache-2.0
 *
 * internal.h - what the files of this room call of one another: table.c < waits.c, orders.c < bundles.c, place.c, pool.c <
 * groups.c, list.c, check.c.
 */
#ifndef HEAD_GROUPS_INTERNAL_H
#define HEAD_GROUPS_INTERNAL_H

#include "scheduler/head/core/groups/groups.h"

enum bundle_verb { BUNDLE_PREPARE = 1, BUNDLE_COMMIT = 2, BUNDLE_RETURN = 3 };

/* ---- table.c ------------------------------------------------------------------------------------------------------- */

struct group *head_groups_find(const struct head *h, mt_id id); /* NULL: removed, or never there */
/* `apart_job`: of the placement group that is this job's alone; 0: of those that are for all jobs. */
struct group *head_groups_find_name(const struct head *h, uint64_t apart_job, const char *space, const char *name);
/* ENOMEM, and nothing is changed. */
MT_MUST_USE mt_status head_groups_add(struct head *h, mt_id id, uint64_t apart_job, const char *space, const char *name,
                                      uint32_t bundle_count, struct group **out_group);
void                  head_groups_free(struct head *h, struct group *g);
/* It was removed lately. */
bool head_groups_is_over(const struct head *h, mt_id id);
void head_groups_remember_over(struct head *h, mt_id id);
/* Space and name, for people, for replies and for the store; both "" where it has none. */
void head_groups_split_name(const struct group *g, char space[HEAD_NAME_SIZE], const char **out_name);
/* "default/name" or the id, for people. */
void head_groups_name(const struct group *g, char *out, size_t size);

/* Node, epoch and version are set before. */
void head_bundles_set_state(struct bundle *b, enum bundle_state state);
bool head_bundles_are_placed(const struct group *g); /* all committed: it stands */
bool head_bundles_have(const struct group *g, enum bundle_state state);
void head_bundles_open(struct head *h, struct group *g); /* it is looked at in the next rounds */

/* All bundles of a group as messages: room for bundle_count, and MT_GROUP_RESOURCES_MAX. Names are borrowed. */
void head_groups_fill_bundles(const struct head *h, const struct group *g, Manta__V1__Bundle *bundles, resource *items,
                              resource **pointers);
void head_groups_store(struct head *h, const struct group *g);
void head_groups_unstore(struct head *h, mt_id id);

/* ---- waits.c ------------------------------------------------------------------------------------------------------- */

/* `g`: described in the answer; NULL: not. */
void head_groups_reply(struct head *h, struct stream *s, mt_id request, int32_t code, const char *text, const struct group *g);
void head_groups_wait(struct head *h, struct stream *s, const Manta__V1__GroupRequest *request, struct group *g);
/* Answers all who wait for it: 0, or what is wrong; with ETIMEDOUT only those whose time is over. */
void head_groups_answer_waits(struct head *h, struct group *g, int32_t code, const char *text);
/* Those whose time is over are told so. Returns when the next one's is. */
uint64_t head_groups_tick_waits(struct head *h, struct group *g);

/* ---- orders.c ------------------------------------------------------------------------------------------------------ */

/* About all bundles of the group on that node that are in this state. `removed`: the group is, and why. */
void head_bundles_order(struct head *h, struct group *g, uint32_t node, enum bundle_state state, enum bundle_verb verb,
                        const char *removed);
/* The same on every node, each once. */
void head_bundles_order_all(struct head *h, struct group *g, enum bundle_state state, enum bundle_verb verb, const char *removed);
/* The node holds what nobody wants any more. */
void head_bundles_return_stale(struct head *h, const struct node *n, const Manta__V1__BundleHeld *held, bool is_removed);
/* Of one that has committed and not said so, or was asked and has not answered. */
void head_bundles_say_again(struct head *h, struct group *g, uint64_t age_ms);

/* ---- bundles.c ----------------------------------------------------------------------------------------------------- */

void head_bundles_lose(struct head *h, struct group *g, uint32_t node);
void head_bundles_return_all(struct head *h, struct group *g, const char *why); /* it is removed */

#endif
