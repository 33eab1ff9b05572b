/* SPDX-License-Identifier: Apache-2.0
 *
 * names.h - door: who holds which name, which processes have ended, and which strict actors may run on.
 */
#ifndef HEAD_NAMES_H
#define HEAD_NAMES_H

#include "scheduler/head/core/kit/kit.h"

/* ---- names.c ------------------------------------------------------------------------------------------------------- */

/* `actor`: the detached actor that the request is about; NULL: none. */
void head_names_request(struct head *h, struct stream *s, const Manta__V1__NameRequest *request,
                        const Manta__V1__DetachedActor *actor);
void head_names_process_gone(struct head *h, uint64_t process);
void head_names_node_dead(struct head *h, uint32_t node);
bool head_names_text_is_fine(const char *text, bool may_be_empty);

/* Of a detached actor. EEXIST, EINVAL, EAGAIN: the name is another's, or none. */
int32_t              head_names_add_detached(struct head *h, const Manta__V1__DetachedActor *actor);
void                 head_names_drop_detached(struct head *h, const Manta__V1__DetachedActor *actor);
const struct holder *head_names_holder(const struct head *h, const Manta__V1__DetachedActor *actor); /* NULL: not its name */

MT_MUST_USE mt_status head_names_load(struct head *h, const Manta__Store__NameRecord *record);
void                  head_names_free(struct head *h, struct name *n);

/* ---- gone.c: processes, and jobs, that have ended lately ----------------------------------------------------------- */

void head_names_remember_gone(struct head *h, uint64_t process);
bool head_names_is_gone(const struct head *h, uint64_t process);

/* ---- strict.c: leases of strict actors ----------------------------------------------------------------------------- */

/* Answers a report: which of the node's strict actors may run on, and that the head is there. */
void head_strict_report(struct head *h, struct stream *s, const Manta__V1__Report *report);
/* The owner gives such a lease up: when this is stored it is never extended again. */
void head_strict_void(struct head *h, uint32_t node, uint64_t lease);

#endif
