/* SPDX-License-Identifier: Apache-2.0
 *
 * team.h - the threads of one worker that compute at the same time: a thread for each of its devices.
 *
 *   sgd_team_run:  work(user, 0) here | work(user, 1) in a thread | ... --all have returned--> the lowest index's error
 *
 * A thread that has nothing to do polls for a moment, since the next piece of a step is near, and then sleeps. Threads of a team
 * are made where sgd_team_new is called, and so may run on the CPUs that its caller may. Thread: one that runs, and the team's own.
 */
#ifndef SGD_TEAM_H
#define SGD_TEAM_H

#include "core/base/status.h"

#include <stdint.h>

/* How the name of a thread begins without which its worker's work stands still. Where such a thread gets no CPU the watchdog sees
 * it by that (place.h). */
#define SGD_COMPUTES "sgd-"

struct sgd_team;

typedef mt_status sgd_team_work(void *user, uint32_t index);

/* For `members` at a time, the caller of sgd_team_run counted; with one there is no thread. NULL: no memory, or no thread. */
struct sgd_team *sgd_team_new(uint32_t members);
/* NULL is allowed. */
void sgd_team_free(struct sgd_team *team);

uint32_t sgd_team_members(const struct sgd_team *team);

/* Calls work for 0 to count - 1 (at most the members), each in a thread of its own, index 0 in this one, and returns when all
 * of them have: the error of the lowest index that had one. */
MT_MUST_USE mt_status sgd_team_run(struct sgd_team *team, uint32_t count, sgd_team_work *work, void *user);

#endif
