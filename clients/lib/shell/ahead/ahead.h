/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead.h - values of other nodes that are asked for before anybody reads them, many at a time.
 *
 *   (none) --asked for--> QUEUED --its turn--> ASKED --the raylet has a copy--> HERE --read--> (none)
 *                           '--read--> (none)    '--it is refused--> (none)       '--the oldest of too many--> (none)
 *
 * What is forgotten is asked for again when it is read, alone. Thread: any, under the owner lock. Nothing here waits.
 */
#ifndef LIB_AHEAD_H
#define LIB_AHEAD_H

#include "clients/lib/shell/state/state.h"

/* Begins to bring it, where it is on another node. Carried out by the next lib_act. */
void lib_ahead_ask(const struct lane_ref *ref);
/* The same of a reference, as soon as it is ready. False: no memory. */
bool lib_ahead_want(struct own_ref *ref);
/* What became ready meanwhile, of those that were wanted. */
void lib_ahead_take_up(struct own_out *out);
/* A word of the raylet. True: it was an answer to what was asked for here. */
bool lib_ahead_came(const struct lane_record *record, const uint8_t *payload);
/* It was asked for, and nothing is known yet. */
bool lib_ahead_is_coming(mt_id id);
/* Its copy here, and forgets it. False: none is known. The copy may have gone since. */
bool lib_ahead_take(const struct lane_ref *ref, struct lane_ref *out_here);
/* The job is over. */
void lib_ahead_end(void);

#endif
