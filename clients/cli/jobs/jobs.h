/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.h - verbs of jobs and detached actors. Thread: main.
 */
#ifndef CLI_JOBS_H
#define CLI_JOBS_H

#include "clients/cli/words/words.h"

/* Prints a piece of a job's output (a manta_log_fn). Not 0: nobody reads it. */
int cli_job_print(void *user, const manta_log *log);

int cli_submit(const struct cli_args *args);
int cli_exec(const struct cli_args *args);
int cli_job_list(const struct cli_args *args);
int cli_job_status(const struct cli_args *args);
int cli_job_logs(const struct cli_args *args);
int cli_job_wait(const struct cli_args *args);
int cli_job_stop(const struct cli_args *args);
int cli_job_hold(const struct cli_args *args); /* and release */
int cli_queue(const struct cli_args *args);
int cli_job_delete(const struct cli_args *args);
int cli_gang_submit(const struct cli_args *args);
int cli_gang_follow(const struct cli_args *args);
int cli_gang_stop(const struct cli_args *args);
int cli_gang_list(const struct cli_args *args);
int cli_actor_kill(const struct cli_args *args);

#endif
