/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what the files of this room share: the folders of submitted jobs, and their ends.
 */
#ifndef SH_JOBS_PRIVATE_H
#define SH_JOBS_PRIVATE_H

#include "raylet/shell/jobs/jobs.h"

/* ---- folder.c ---- */

/* Private, empty. False: errno. */
MT_MUST_USE bool sh_job_folder_make(struct sh *sh, const char *path);
/* `is_left`: nobody lives any more to whom it was given. */
void sh_job_folder_over(struct sh *sh, const char *path, bool is_left);
void sh_job_folders_stop(struct sh *sh);

/* ---- ends.c ---- */

void sh_ends_folder(struct sh *sh); /* sh->job_folder is made */
/* Its slot, for sh_end_drop; -1: it can't be kept. */
int  sh_end_keep(struct sh *sh, const struct rlt_a_job_keep *a);
void sh_end_drop(struct sh *sh, int slot);

#endif
