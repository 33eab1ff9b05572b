/* SPDX-License-Identifier: Apache-2.0
 *
 * rank.h - one run of a rank, as its supervisor sees it: the shepherd, its socket, and the two pipes of what it prints.
 *
 * Thread: the supervisor's own. Nothing blocks but gng_rank_start, for as long as a program takes to be started.
 */
#ifndef GNG_RANK_H
#define GNG_RANK_H

#include "clients/gang/plan/wire.h"

#include <stdbool.h>
#include <sys/types.h>

struct gng_rank {
    uint32_t attempt;
    pid_t    shepherd; /* 0: none */
    int      control, out, err;
    int      lines;           /* its socket for lines; -1: none */
    mt_buf   said;            /* the line under way */
    uint32_t number;          /* its rank */
    uint32_t hang_ms;         /* 0: nobody looks */
    int64_t  mark_ns, cpu_ms; /* when it last did something, and the CPU time that it had taken then */
};

void gng_rank_init(struct gng_rank *r);
/* `given`: its connection of PMI, given away; -1: none. `variable`: "NAME=VALUE" where the START does not say it; "": none. What it
   says goes to `news`, also that it could not be started. ENOMEM. */
MT_MUST_USE mt_status gng_rank_start(struct gng_rank *r, uint32_t attempt, const struct gng_start *start, int given, char *variable,
                                     mt_buf *news);
/* What it is to hear, on its socket for lines. A rank that does not read any more hears nothing. */
void gng_rank_hears(const struct gng_rank *r, mt_view bytes);
void gng_rank_signal(const struct gng_rank *r, int number);
/* Reads what is there to be read of `fd`, one of its four, and puts it into `news`. */
MT_MUST_USE mt_status gng_rank_read(struct gng_rank *r, int fd, mt_buf *news);
/* How long to wait for something to read before gng_rank_look, in ms; -1: without limit. */
int gng_rank_wait_ms(const struct gng_rank *r);
/* Does it do nothing for too long? Then that is its fault, once, in `news`; not while nobody reads what it prints (is_unread). */
MT_MUST_USE mt_status gng_rank_look(struct gng_rank *r, bool is_unread, mt_buf *news);
bool                  gng_rank_runs(const struct gng_rank *r);

#endif
