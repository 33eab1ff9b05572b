/* SPDX-License-Identifier: Apache-2.0
 *
 * board.h - a sweep as TensorBoard reads it: a folder of events for each trial, with its parameters for the hparams page.
 */
#ifndef CLI_SWEEP_BOARD_H
#define CLI_SWEEP_BOARD_H

#include <manta_sweep.h>

/* Writes FOLDER/trial-N for each trial. False: errno says why. */
bool sweep_board_write(const manta_sweep_view *view, const char *folder);

#endif
