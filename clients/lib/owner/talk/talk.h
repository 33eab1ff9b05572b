/* SPDX-License-Identifier: Apache-2.0
 *
 * talk.h - what other processes say to this one, and what people ask it.
 *
 * Thread: as own.h.
 */
#ifndef OWN_TALK_H
#define OWN_TALK_H

#include "clients/lib/owner/outcome/outcome.h"

/* ---- messages and deaths: message.c ---- */
void own_message(struct own *own, const struct ctl_message *from, const uint8_t *bytes, size_t size);
void own_bounced(struct own *own, const struct ctl_bounce *bounce);
void own_died(struct own *own, mt_id monitor, const struct ctl_death *death);

/* ---- the cluster: news.c ---- */
/* Ready once CTL_OP_NODES, asked after this, would be answered otherwise; with a hold for the caller. Its value is empty. It may be
 * one that somebody else waits for, and be ready for what changed just before. NULL without memory. */
struct own_ref *own_news_of_nodes(struct own *own, enum ctl_news what);
void            own_news_came(struct own *own, mt_id id, const struct ctl_reply *reply); /* of any other request: nothing */

/* ---- looking in: look.c ---- */
/* CTL_LOOK (payload: lane_look), answered by CTL_LOOKED. EPROTO: it is too short. */
MT_MUST_USE mt_status own_looked_at(struct own *own, const struct lane_record *record, const uint8_t *payload);

/* ---- who waits for whom: probe.c ---- */
/* Around a wait of the one thread that runs tasks; the two are nested. The wait is over as well when is_deadlocked. */
void own_wait_begin(struct own *own, struct own_wait *wait, struct own_ref *ref, const char *name);
void own_wait_end(struct own *own, const struct own_wait *wait);
void own_probe_tick(struct own *own);
void own_probe_came(struct own *own, const uint8_t *bytes, size_t size);

#endif
