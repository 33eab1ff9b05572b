/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what the files of the object store's part of the shell share.
 */
#ifndef SH_STORE_PRIVATE_H
#define SH_STORE_PRIVATE_H

#include "raylet/store/store.h"

struct os_local;
struct os_place;

/* store.c */
void                  sh_store_settle(struct sh *sh);              /* after objects have died: hands their places back */
struct os_local      *sh_store_local(struct sh *sh, uint32_t job); /* NULL: no process of that job was here, or no memory */
MT_MUST_USE mt_status sh_store_local_alloc(struct sh *sh, struct os_local *local, uint64_t size, struct os_place *place,
                                           void **data, char *text);
void                  sh_store_refuse(struct sh *sh, uint64_t conn, mt_id id, mt_status st, const char *text);

/* Grants a segment, or says why not; only ESTORE_FULL and worse, in `text`, is left to be answered. */
mt_status sh_store_want_now(struct sh *sh, uint64_t conn, mt_id request, uint64_t size, char *text);
uint32_t  sh_store_victims(struct sh *sh, uint64_t bytes, struct lane_ref *out, uint32_t max);
void      sh_store_segment_close(const struct os_action *close);
void      sh_store_jobs_settle(struct sh *sh); /* ends jobs that had to wait for a thread of the disk */

void sh_store_want(struct sh *sh, struct sh_conn *c, mt_id id, uint64_t size);
void sh_store_ask_back(struct sh *sh, uint32_t job); /* whatever is empty of a job's segments */

/* quota.c: wants of jobs that have their quota */
void sh_quota_wait(struct sh *sh, struct sh_conn *c, mt_id request, uint64_t size, const char *text);
void sh_quota_conn_gone(struct sh *sh, uint64_t conn);
void sh_quotas_stop(struct sh *sh);

/* spill.c, restore.c */
MT_MUST_USE mt_status sh_spill_start(struct sh *sh);
void                  sh_spill_stop(struct sh *sh);
bool     sh_spill_wait(struct sh *sh, uint64_t conn, mt_id request, uint64_t size); /* false: nothing can be spilled here */
bool     sh_spill_is_awaited(const struct sh *sh);                                  /* others wait for room already */
bool     sh_spill_is_making_room(struct sh *sh, uint64_t size);                     /* for a value of another node; begins it */
uint64_t sh_spill_kept(const struct sh *sh); /* bytes of the store that are for values that come back from disk */
void     sh_spill_conn_gone(struct sh *sh, uint64_t conn);
void     sh_spill_dead(struct sh *sh, const struct lane_ref *ref);
void     sh_spill_owner_gone(struct sh *sh, uint64_t owner, uint32_t node); /* either may be 0 */
bool     sh_spill_job_over(struct sh *sh, uint32_t job);                    /* false: a thread is still at it; ask again */
bool     sh_spill_keeps(struct sh *sh, const struct os_action *close);      /* true: the segment is closed later */
bool     sh_spill_shed(struct sh *sh, uint64_t bytes); /* gives copies of that many bytes up; false: there are none */
void     sh_spill_get(struct sh *sh, const struct sh_conn *c, mt_id request, const struct lane_ref *ref);
/* The copy of a value here, for another node. EAGAIN: it is being read from disk. EOBJ_LOST. */
MT_MUST_USE mt_status sh_spill_serve(struct sh *sh, const struct lane_ref *ref, struct lane_ref *here);

/* pull.c */
bool sh_pull_was_served(struct sh *sh, mt_id id); /* and forgets it: the object is dead */
void sh_pulls_node_lost(struct sh *sh, uint32_t node);
void sh_pulls_owner_gone(struct sh *sh, uint64_t owner, uint32_t node); /* what it owned is not remembered as fetched any more */
void sh_pulls_job_unserve(struct sh *sh, uint32_t job); /* its values are not sent any more through what it has here */
void sh_pulls_job_over(struct sh *sh, uint32_t job);
void sh_pulls_shed(struct sh *sh); /* gives every copy up that is not being read */
void sh_pull_request(struct sh *sh, const struct sh_conn *c, mt_id request, const struct lane_ref *ref);

#endif
