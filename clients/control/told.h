/* SPDX-License-Identifier: Apache-2.0
 *
 * told.h - what the nodes tell about themselves, put together to one list.
 *
 * Thread: the caller's.
 */
#ifndef CTL_TOLD_H
#define CTL_TOLD_H

#include "clients/control/control.h"

/* Each row is handed on as soon as no later one can change it, or kept. */
struct ctl_told;
/* `each` NULL: all rows are kept. NULL: no memory. */
struct ctl_told *ctl_told_new(const manta_look *look, manta_state_row_fn each, void *user);
void             ctl_told_free(struct ctl_told *told);
/* Takes the rows of one answer. EPROTO: they cannot be read. ENOMEM. */
MT_MUST_USE mt_status ctl_told_take(struct ctl_told *told, const Manta__V1__QueryReply *reply);
/* How many more rows are wanted; 0: the list is cut from now on. */
size_t ctl_told_room(const struct ctl_told *told);
void   ctl_told_cut(struct ctl_told *told);
void   ctl_told_notice(struct ctl_told *told, const char *text);
/* That was all: hands on what was kept for a row to come. Gives what the caller gets. */
manta_rows *ctl_told_end(struct ctl_told *told);

#endif
