/* SPDX-License-Identifier: Apache-2.0
 *
 * meet.h - ranks that go on when one of them dies (manta_torch.survive): which of them are there, and who is in the next generation
 * of their group. A state machine without clock, process or network; run.c drives it.
 *
 *   GATHERING --all are there--> MAKING --the group is made--> TOGETHER     on one node a rank makes the group's memory
 *       ^  |                       |                              |
 *       |  '--all are there, on several nodes: they meet by themselves--> TOGETHER
 *       '--------- one is gone ----'------------------------------'-- or all have given it up, and none has died
 *
 *   any --one has finished, or all are being ended--> CLOSED
 *
 * A rank says lines of JSON by a socket, MANTA_TORCH_FD, as it would to the supervisor of `python -m manta_torch`, and hears such:
 *
 *   {"ready": pid, "address": hex or null}   it can join. A rank that says nothing takes no part
 *       {"make": 3, "size": 4, ...}          to a survivor, or to rank 0: make the memory of generation 3
 *   {"made": 3, "id": hex}
 *       {"generation": 3, "rank": 1, ...}    to each: join it. With several nodes it has everybody's address, and a key
 *   {"joined": 3}                            it has met the others there
 *   {"over": 3}                              its calls have ended there, and it waits for the next one
 *       {"over": 3}                          to each that was in it: one has died, or finished without coming there
 *       {"closed": 1}                        no generation comes any more: rank 1 has ended with 0; null: all are being ended
 *
 * Always: a generation is told to all ranks, or to none; its number is larger than any before; its memory was made for it, by a
 * rank that is there. It is told when one of the last is gone, or that one is over for all of them: a call's time was over, a
 * connection broke, and nobody died of it. A rank that is started again is in no generation that was told before. Once it is
 * CLOSED no generation is told, and whoever takes part hears so, also one that says later that it can join. The last
 * generation goes on where who has finished had joined it: it was in all its calls.
 */
#ifndef GNG_MEET_H
#define GNG_MEET_H

#include "core/base/buf.h"
#include "core/ds/vec.h"

#include <stdbool.h>
#include <stdint.h>

enum gng_meet_state { GNG_MEET_GATHERING, GNG_MEET_MAKING, GNG_MEET_TOGETHER, GNG_MEET_CLOSED };

enum { GNG_MEET_ADDRESS = 64, GNG_MEET_ID = 512, GNG_MEET_KEY = 64 }; /* digits of them in hex */

struct gng_met {              /* a rank */
    bool is_ready, is_member; /* is_member: of the last generation */
    bool takes_part;          /* it has said once that it can join, in this life or an earlier one */
    bool has_joined, is_over; /* the last generation; for it */
    int  local_rank, local_size;
    char address[GNG_MEET_ADDRESS + 1];
};

struct gng_heard { /* what a rank is to hear */
    int    rank;
    mt_buf line;
};

struct gng_meet {
    enum gng_meet_state state;
    struct gng_met     *of; /* by rank */
    int                 count, maker;
    int                 finished; /* CLOSED: who; -1: all are being ended */
    bool                is_one_node;
    uint32_t            generation; /* the last that was named; 0: none */
    int                 given_up;   /* so many were, and nobody had died */
    MT_VEC(struct gng_heard) lines; /* the caller sends and frees them: gng_meet_sent */
};

/* `of` has count zeroed ranks, whose local ranks are set, and is taken. */
void gng_meet_init(struct gng_meet *m, struct gng_met *of, int count, bool is_one_node);
void gng_meet_fini(struct gng_meet *m);
void gng_meet_sent(struct gng_meet *m);

/* A rank has said a line (without its end). `key`: GNG_MEET_KEY digits, drawn for what may come of it. EPROTO: it is none of
 * the above, or too many generations were given up. ENOMEM. */
MT_MUST_USE mt_status gng_meet_said(struct gng_meet *m, int rank, mt_view line, const char *key);
/* A rank's process has ended; one that has not failed has finished. ENOMEM. */
MT_MUST_USE mt_status gng_meet_ended(struct gng_meet *m, int rank, bool is_failed);
/* All are being ended. ENOMEM. */
MT_MUST_USE mt_status gng_meet_close(struct gng_meet *m);
/* Whether it is vain to start that rank again, which has failed: it would want to join, and can't. */
bool gng_meet_stuck(const struct gng_meet *m, int rank);

#endif
