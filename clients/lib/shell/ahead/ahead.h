/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead.h - values that are not here, as the raylet is asked for them: once each, by who reads them and before anybody does.
 *
 *   (none) --wished for--> QUEUED --its turn, or read--> ASKED --a copy is here, or a reader is refused--> ANSWERED
 *      '---------------------read---------------------->   '--refused, and nobody has read it--> (none)       |
 *                                                                (none) <--taken, or the oldest of too many---'
 *
 * The question outlives a reader that gives up: whoever reads next finds it under way, or its answer. Thread: any, under the owner
 * lock. Nothing here waits.
 */
#ifndef LIB_AHEAD_H
#define LIB_AHEAD_H

#include "clients/lib/shell/state/state.h"

/* Wished for: begins to bring it, where it is on another node. Carried out by the next lib_act. */
void lib_ahead_ask(const struct lane_ref *ref);
/* The same of a reference, as soon as it is ready. False: no memory. */
bool lib_ahead_want(struct own_ref *ref);
/* What became ready meanwhile, of those that were wanted. */
void lib_ahead_take_up(struct own_out *out);
/* A word of the raylet. True: it was an answer to what was asked for here. */
bool lib_ahead_came(const struct lane_record *record, const uint8_t *payload);
/* Read: it is asked for at once, unless it is under way or answered. Of this node too: it is on disk. False: no memory. */
bool lib_ahead_read(const struct lane_ref *ref);
/* It was asked for, and nothing is known yet. */
bool lib_ahead_is_coming(mt_id id);
/* Takes the answer: its copy here, which may have gone since, or why there is none. False: none has come about this place. */
bool lib_ahead_take(const struct lane_ref *ref, struct lane_ref *out_here, struct ctl_reply *out_why);
/* The job is over. */
void lib_ahead_end(void);

#endif
