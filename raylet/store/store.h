/* SPDX-License-Identifier: Apache-2.0
 *
 * store.h - the object store's part of the shell: segments for processes, objects of other nodes, objects on disk.
 * Loop thread; the disk has threads of its own.
 */
#ifndef SH_STORE_H
#define SH_STORE_H

#include "objectstore/server/store.h"
#include "raylet/shell/conn/conn.h"

/* store.c */
struct os_store *sh_store_of(const struct sh *sh);

/* request.c */
MT_MUST_USE mt_status sh_store_start(struct sh *sh);
void                  sh_store_stop(struct sh *sh);
MT_MUST_USE mt_status sh_store_welcome(struct sh_conn *c, uint64_t process, uint32_t job);
void                  sh_store_goodbye(struct sh_conn *c);
/* What the core has heard from other nodes. */
void sh_store_object_dead(struct sh *sh, const struct lane_ref *ref);
void sh_store_owner_gone(struct sh *sh, uint64_t process);
void sh_store_owners_gone(struct sh *sh, uint32_t node);
void sh_store_leave(struct sh *sh);                                     /* other nodes are to adopt what only this one has */
void sh_store_moved(struct sh *sh, const struct rlt_moved *m);          /* a word of another node about that */
void sh_store_job_over(struct sh *sh, uint32_t number);                 /* as in refs */
bool sh_store_record(struct sh *sh, const struct rlt_ev_record *event); /* false: it is for the core */

/* pull.c */
MT_MUST_USE mt_status sh_pulls_start(struct sh *sh, char address[RLT_ADDRESS_SIZE]);
void                  sh_pulls_stop(struct sh *sh);
/* The node that this one fetches the value from just now; 0: from none. */
uint32_t sh_pull_from(const struct sh *sh, const struct lane_ref *ref);
/* serve.c */
void sh_pulls_registered(struct sh *sh);
void sh_pulls_drop_revoked(struct sh *sh); /* connections of those whose certificates are refused by now */

/* spilled.c: what of its invariants does not hold; NULL: all do */
const char *sh_spill_check(const struct sh *sh);
/* known.c: likewise */
const char *sh_known_check(const struct sh *sh);
/* values on disk by place (os_place_word), those after `after`, at most `room`; bytes, as they are stored there */
uint32_t sh_spill_look(const struct sh *sh, uint64_t after, struct os_seen *out, uint32_t room);
uint64_t sh_spill_bytes(const struct sh *sh);

#endif
