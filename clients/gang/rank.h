/* SPDX-License-Identifier: Apache-2.0
 *
 * rank.h - one run of a rank, as its supervisor sees it: the shepherd, its socket, and the two pipes of what it prints.
 *
 * Thread: the supervisor's own. Nothing blocks but gng_rank_start, for as long as a program takes to be started.
 */
#ifndef GNG_RANK_H
#define GNG_RANK_H

#include "clients/gang/wire.h"

#include <stdbool.h>
#include <sys/types.h>

struct gng_rank {
    uint32_t attempt;
    pid_t    shepherd; /* 0: none */
    int      control, out, err;
    bool     is_told; /* its end */
};

void gng_rank_init(struct gng_rank *r);
/* `start`: count of variables, count of words (u32 each), then these texts, each with its end. `pmi`: its connection, given away;
 * -1: none. What it says goes to `news`, also that it could not be started. ENOMEM. */
MT_MUST_USE mt_status gng_rank_start(struct gng_rank *r, uint32_t attempt, mt_view start, int pmi, mt_buf *news);
void                  gng_rank_signal(const struct gng_rank *r, int number);
/* Reads what is there to be read of `fd`, one of its three, and puts it into `news`. */
MT_MUST_USE mt_status gng_rank_read(struct gng_rank *r, int fd, mt_buf *news);
bool                  gng_rank_runs(const struct gng_rank *r);

#endif
