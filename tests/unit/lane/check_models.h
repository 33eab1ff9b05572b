/* SPDX-License-Identifier: Apache-2.0
 *
 * check_models.h - the models that check_test.c runs, and what they share.
 */
#ifndef LANE_CHECK_MODELS_H
#define LANE_CHECK_MODELS_H

#include "core/base/plant.h"
#include "tests/unit/lane/check.h"

extern bool check_tracing; /* print the failing execution (the program was started with --trace) */

/* Assert the outcome of an exploration, and print how many executions it took. */
void check_expect_holds(struct check_result r);
/* `text` NULL: caught by whichever requirement. */
void check_expect_caught(struct check_result r, const char *text);

void check_park_two(void **state);
void check_park_two_senders(void **state);
void check_park_killed_sender(void **state);
void check_park_planted_no_fence(void **state);

void check_ring_batches(void **state);
void check_ring_grows(void **state);
void check_ring_killed_producer(void **state);
void check_ring_planted_early_head(void **state);

void check_claim_one_winner(void **state);
void check_claim_slot_reused(void **state);
void check_claim_killed(void **state);
void check_claim_killed_before_publishing(void **state);
void check_claim_planted_early_finish(void **state);
void check_claim_planted_any(void **state);
void check_claim_planted_store(void **state);
void check_claim_planted_late_finish(void **state);

void check_edge_holds(void **state);
void check_edge_killed(void **state);
void check_edge_planted(void **state);

void check_pin_holds(void **state);
void check_pin_killed(void **state);
void check_pin_planted_no_fence(void **state);
void check_pin_planted_early_hand_back(void **state);

#endif
