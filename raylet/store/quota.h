/* SPDX-License-Identifier: Apache-2.0
 *
 * quota.h - who waits for values of its own job to go.
 */
#ifndef SH_STORE_QUOTA_H
#define SH_STORE_QUOTA_H

#include "raylet/store/private.h"

/* quota.c: who waits for values of its own job to go */
MT_MUST_USE mt_status sh_quotas_start(struct sh *sh);
void                  sh_quotas_stop(struct sh *sh);
void                  sh_quota_wait(struct sh *sh, struct sh_conn *c, mt_id request, uint64_t size, const char *text);
void                  sh_quota_refuse(struct sh *sh, const struct sh_conn *c, mt_id request, const char *text);
void                  sh_quota_end(struct sh_quotas *q, struct quota_waiter *w);
void                  sh_quota_conn_gone(struct sh *sh, uint64_t conn);

#endif
