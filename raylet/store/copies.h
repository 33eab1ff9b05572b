/* SPDX-License-Identifier: Apache-2.0
 *
 * copies.h - copies of values of other nodes: how long they stay.
 */
#ifndef SH_STORE_COPIES_H
#define SH_STORE_COPIES_H

#include "core/base/id.h"
#include "core/base/status.h"

struct sh;

MT_MUST_USE mt_status sh_copies_start(struct sh *sh);
void                  sh_copies_stop(struct sh *sh);
void                  sh_copy_used(struct sh *sh, mt_id id);
void                  sh_copy_forget(struct sh *sh, mt_id id);
/* It is the value now, or a copy again that goes by age. ENOENT. */
MT_MUST_USE mt_status sh_copy_keep(struct sh *sh, mt_id id);
void                  sh_copy_ages(struct sh *sh, mt_id id);
void                  sh_copies_shed(struct sh *sh); /* gives every copy up that is not being read */

#endif
