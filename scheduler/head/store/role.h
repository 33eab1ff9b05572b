/* SPDX-License-Identifier: Apache-2.0
 *
 * role.h - which of several heads of one store leads: the part of one of them. Pure; one thread at a time.
 *
 *   STANDBY --its leader's lock is gone, or its process--> CLAIMING --the store says OK--> LEADING --step-down--> HANDING
 *      ^                                                      |                             |                        |
 *      |<-----------------another was quicker-----------------'                             |                        |
 *      |<-----------------another was followed, or the store lost it------------------------'                        |
 *      '------------------the lock is let go-------------------------------------------------------------------------'
 *
 * Nothing is safe by it: two may believe that they lead. The store takes the commits of one of them, by its fence (ask.h). No
 * clock of a head decides when another one's lead has ended: the lock runs out by the store's.
 */
#ifndef HEAD_ROLE_H
#define HEAD_ROLE_H

#include "scheduler/head/store/ask.h"

enum head_role_state { HEAD_STANDBY, HEAD_CLAIMING, HEAD_LEADING, HEAD_HANDING };

struct head_role {
    enum head_role_state state;
    struct head_said     seen;     /* the last look: who leads, where */
    uint64_t             fence;    /* the highest that was seen: what stands lower has forgotten a leader */
    uint64_t             gone_run; /* the process of that leader is gone, as its machine says; 0: of none */
    uint64_t             heard_ms; /* the leader has said then that it leads, and that its store says so; 0: it is not heard */
    uint64_t             handed_run, handed_until_ms; /* we led with that, and leave it to the others for a while */
};

/* `is_leading`: from the start, since nobody else led. */
void head_role_init(struct head_role *role, bool is_leading);
/* STANDBY: what the store looks like now. True: the lead is free, and now CLAIMING; `role->gone_run` goes along. */
MT_MUST_USE bool head_role_looked(struct head_role *role, const struct head_said *said, uint64_t now_ms);
/* STANDBY: the leader says that it leads. A failover may forget the lock: as long as it is heard, it is left its lead. */
void head_role_heard(struct head_role *role, uint64_t now_ms);
/* The connection to the leader has ended. */
void head_role_lost(struct head_role *role);
/* STANDBY: the connection to the leader of the last look has ended, and its machine refuses another: nobody is there any more. */
void head_role_gone(struct head_role *role);
/* CLAIMING: the lead is ours (LEADING), or it is not (STANDBY). */
void head_role_claimed(struct head_role *role, bool is_ours);
/* LEADING: nothing more is acknowledged from now on (HANDING). */
void head_role_hand_over(struct head_role *role);
/* HANDING: the lock is let go. LEADING: another has taken the lead. Then STANDBY. `run` is that of the lead. */
void head_role_followed(struct head_role *role, uint64_t run, uint64_t now_ms);

#endif
