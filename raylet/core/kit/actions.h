/* SPDX-License-Identifier: Apache-2.0
 *
 * actions.h - how the parts of the core say what is to be done. Private to raylet/.
 */
#ifndef RLT_ACTIONS_H
#define RLT_ACTIONS_H

#include "core/base/status.h"
#include "raylet/core/kit/action.h"

/* A raylet that cannot get a few bytes for its own tables ends at once: its workers die with it and its peers see a
 * dead node, which is a case they handle; a half-applied step is not. */
MT_NORETURN void rlt_out_of_memory(void);

/* A copy of the bytes (data NULL: zeroes) that lives until the next reset. */
void *rlt_keep(struct rlt_actions *out, const void *data, size_t size);

/* Appends an action of which all but the kind is zero. What this and the next three return is valid until one more is appended. */
struct rlt_action *rlt_act(struct rlt_actions *out, enum rlt_action_kind kind);
/* A control record, with a copy of its payload. */
struct lane_record rlt_record(struct rlt_actions *out, enum ctl_kind ctl, mt_id id, const void *payload, size_t size,
                              const uint8_t **out_payload);
/* One on the unix socket of a process; its descriptors are the caller's to add. */
struct rlt_a_socket *rlt_socket(struct rlt_actions *out, uint64_t conn, enum ctl_kind ctl, mt_id id, const void *payload,
                                size_t size);
/* One into the down ring of a process. */
struct rlt_a_sw_down *rlt_down(struct rlt_actions *out, uint64_t conn, enum ctl_kind ctl, mt_id id, const void *payload,
                               size_t size);
/* Closed after the step; -1: nothing is. */
void rlt_close_fd(struct rlt_actions *out, int fd);
/* CTL_REPLY; text NULL: that of the code. */
void rlt_down_reply(struct rlt_actions *out, uint64_t conn, mt_id id, int32_t code, const char *text);

#endif
