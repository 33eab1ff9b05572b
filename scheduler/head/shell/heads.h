/* SPDX-License-Identifier: Apache-2.0
 *
 * heads.h - of several heads one leads: what that one does for those that stand by, and what they do. Loop thread.
 */
#ifndef HEAD_HEADS_H
#define HEAD_HEADS_H

#include "scheduler/head/shell/shell.h"

/* ---- heads.c: those that stand by, at the one that leads ---- */

void head_shell_heads_set(struct shell *sh, const char *const *addresses, size_t count);
/* "HOST:PORT,...": this head, then the others. */
void head_shell_heads_line(const struct shell *sh, char *out, size_t size);
/* Puts the list together, and tells it: those that stand by, the core and so the nodes, the files. */
void head_shell_heads_tell(struct shell *sh);
/* The named tokens that are let in from now on: here, and where heads stand by. */
void head_shell_tokens(struct shell *sh, const struct head_token *items, size_t count);
void head_shell_heads_shutdown(struct shell *sh);
/* Due often: those that stand by hear now and then that this one leads, as long as its store says so. */
void                       head_shell_heads_beat(struct shell *sh);
struct rpc_stream_handler *head_shell_standby_came(struct rpc_service *service, struct rpc_stream *stream);
void                       head_shell_step_down(struct rpc_service *service, struct rpc_call *call, mt_view request);

/* ---- standby.c: the leader, at one that stands by ---- */

/* Finds the store, and the cluster in it. On failure prints why. Blocks, up to 10 s. */
MT_MUST_USE mt_status head_shell_standby_open(struct shell *sh);
void                  head_shell_standby_begin(struct shell *sh);
/* The store's thread has nothing more to do. */
void head_shell_standby_end(struct shell *sh);

#endif
