/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.h - what jobs start on this node, and what it needs: drivers of submitted jobs, the files of environments, the users
 * and the control group of all. Loop thread, but for what a child does before it becomes the program.
 */
#ifndef SH_JOBS_H
#define SH_JOBS_H

#include "core/sys/cgroup.h"
#include "raylet/shell/ground/ground.h"

#include <sys/types.h>

struct sh_user {
    uint32_t uid, gid; /* uid 0: the raylet's own */
};

/* job.c */
void sh_job_start(struct sh *sh, const struct rlt_a_job_start *a);
void sh_job_go(struct sh *sh, const char *id); /* one that waited */
void sh_job_kill(struct sh *sh, const struct rlt_a_job_kill *a);
void sh_job_log_read(struct sh *sh, const struct rlt_a_job_log_read *a);
void sh_job_keep(struct sh *sh, const struct rlt_a_job_keep *a);
void sh_job_forget(struct sh *sh, const char *id);
void sh_job_ends(struct sh *sh, pid_t pid); /* dead, but not reaped: its number is still its own */
void sh_job_reaped(struct sh *sh, pid_t pid, int status);
int  sh_job_workers_output(struct sh *sh, pid_t driver); /* it is to have workers: where they print; -1: where we do */
void sh_jobs_stop(struct sh *sh);
/* Of the submitted job with that driver. False: none, or it has none of its own. */
bool sh_job_user(const struct sh *sh, pid_t driver, struct sh_user *out);

/* ends.c: ends of jobs, in the runtime folder. What a raylet that was killed there has left is the room's until
 * sh_ends_begin, when the head has it; it is read once the folder is ours alone. NULL: no memory. */
const struct rlt_before *sh_ends_start(struct sh *sh);
void                     sh_ends_read(struct sh *sh);
void                     sh_ends_begin(struct sh *sh);
void                     sh_ends_stop(struct sh *sh);

/* env.c */
void sh_env_make(struct sh *sh, const struct rlt_a_env_make *a);
void sh_env_drop(struct sh *sh, uint64_t env);
void sh_envs_stop(struct sh *sh);

/* users.c, with --job-users: the user of a job's processes. False: all of a range are taken. */
MT_MUST_USE bool sh_user_new(struct sh *sh, struct sh_user *out);
/* `own`: what its driver has (sh_job_user); NULL: nothing. */
MT_MUST_USE bool sh_user_of_job(struct sh *sh, uint64_t job, const struct sh_user *own, struct sh_user *out);
/* In the child, before it is the program: UID GID ARGV..., UID GID SOCKET. They return only when it can't be, the exit status;
 * sh_users_enter returns 0 as that user. */
int sh_users_run_zygote(char **argv);
int sh_users_enter(char **argv);

/* cgroup.c: the control group and the mark of all that jobs start. Between sh_cgroup_enter, which gives the number of a new part,
 * and sh_cgroup_leave the loop thread starts one program, with sh_cgroup_folder for mt_child_opts.cgroup; is_started
 * false: it could not. */
MT_MUST_USE mt_status sh_cgroup_start(struct sh *sh);
const char           *sh_cgroup_mark(const struct sh *sh); /* MANTA_MARK=..., of every process that a job starts */
uint64_t              sh_cgroup_enter(struct sh *sh);
int                   sh_cgroup_folder(const struct sh *sh);
void                  sh_cgroup_leave(struct sh *sh, uint64_t part, bool is_started);
/* Its program has ended, and so does all that it started. True: there is nobody; false: soon, or who knows. */
bool sh_cgroup_over(struct sh *sh, uint64_t part);
void sh_cgroup_stop(struct sh *sh);

#endif
