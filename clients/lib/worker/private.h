/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what wrk.c, ahead.c and calls.c share.
 */
#ifndef WRK_PRIVATE_H
#define WRK_PRIVATE_H

#include "clients/lib/worker/wrk.h"

/* ---- ahead.c ---- */

/* Whether the task of a record with LANE_TASK_AHEAD can begin: EMPTY: not yet; NONE: its owner must send it anew. */
enum lane_cell_state wrk_ahead_state(struct wrk *wrk, struct wrk_lane *lane, const struct lane_record *record,
                                     const uint8_t *payload);
/* Whether the next record of the lane is one that can't begin yet. */
bool wrk_lane_waits_ahead(struct wrk *wrk, struct wrk_lane *lane);
/* Whether the task of that record is to fill a cell of this node, and its board was not asked for yet, or has not come. */
bool wrk_lacks_board(struct wrk *wrk, struct wrk_lane *lane, const struct lane_record *record, const uint8_t *payload);
/* Takes the cell of a record with LANE_TASK_FEEDS from the end of its payload. */
void wrk_feeds(struct wrk *wrk, struct wrk_run *run);
/* Sets wrk->asks_board anew: a lane has come to its board, or has gone. */
void wrk_boards_wanted(struct wrk *wrk);
/* What was kept of arguments that came behind their tasks. */
void wrk_given_free(struct wrk_lane *lane);

/* ---- wrk.c ---- */

bool wrk_outcome(struct wrk *wrk, const struct wrk_run *run, bool has_more, uint16_t flags, int32_t code, int32_t user_code,
                 const void *payload, size_t size, uint64_t now_ns, uint64_t took_ns);
void wrk_lane_recalled(struct wrk *wrk, struct wrk_lane *lane);
void wrk_lane_consumed(struct wrk_lane *lane);

#endif
