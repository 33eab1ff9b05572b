/* SPDX-License-Identifier: Apache-2.0
 *
 * certify.h - certificates and tickets that the core has granted, and the revoked: signed, and shut out, in the shell.
 */
#ifndef HEAD_CERTIFY_H
#define HEAD_CERTIFY_H

#include "scheduler/head/shell/shell.h"

/* ---- tls.c: certificates, and the file that others join with ---- */

/* Makes and loads what TLS needs, where TLS is to be. On failure prints why. Blocks (disk); before anything is served. */
MT_MUST_USE mt_status head_shell_tls_open(struct shell *sh);
/* The line of head.addr that says how this head is spoken to; "" in clear on loopback. */
void head_shell_tls_line(const struct shell *sh, char *out, size_t size);
void head_shell_tls_close(struct shell *sh);
/* What this head shows where it dials another one: the certificate of the node beside it. NULL: in clear. io_tls_free it. Blocks
 * (disk). */
MT_MUST_USE mt_status head_shell_tls_node(const struct shell *sh, struct io_tls **out);
/* Asks the core for the ticket that stands in the join file, where there is to be one; sh->join is DONE when it is there. */
void head_shell_join_begin(struct shell *sh);
/* Takes the core's answer to that. False: it is somebody else's. */
bool head_shell_join_take(struct shell *sh, const struct head_action *action);
/* The join file names all heads that there are; without TLS there is none. Blocks (disk). */
MT_MUST_USE mt_status head_shell_join_write(const struct shell *sh);

/* ---- certify.c ---- */

/* Whom the connection has shown to be, in the core's words; NULL: in clear. */
struct head_peer head_shell_peer(const struct io_tls_who *who);
/* A request for a certificate or a ticket, before the core hears of it. *out_asks: a number that only this one has. Not OK:
 * it is refused. */
MT_MUST_USE mt_status head_shell_certify_check(struct shell *sh, enum head_method method, mt_view request, uint64_t *out_asks);
/* The reply to one that was refused so. */
MT_MUST_USE mt_status head_shell_certify_refusal(enum head_method method, mt_status why, mt_buf *out);
/* Appends the ticket as its bearer needs it, a secret: the text of core/io/tls/join.h. Wipe it. */
MT_MUST_USE mt_status head_shell_ticket(struct shell *sh, const struct head_ticket *ticket, mt_buf *out);
/* The core's reply to such a request, with what it lacks: `has_ticket`: of who asks. */
MT_MUST_USE mt_status head_shell_certify(struct shell *sh, const struct head_action *reply, bool has_ticket, mt_buf *out);
/* Whoever shows a certificate of that number is refused from now on. */
void head_shell_revoked(struct shell *sh, uint64_t id, uint64_t until_ms);

/* These named tokens are let in at the door, and no others; a copy is kept for heads that come to stand by. are_all: none but these
 * is one, else the leader may know it. */
void head_shell_let_in(struct shell *sh, const struct head_token *items, size_t count, bool are_all);

#endif
