/* SPDX-License-Identifier: Apache-2.0
 *
 * output.h - what workers print, on the driver's standard error. Thread: any, under the owner lock.
 */
#ifndef LIB_OUTPUT_H
#define LIB_OUTPUT_H

#include "clients/lib/shell/state/state.h"

/* What the options and MANTA_LOG_TO_DRIVER say; false: neither. */
bool lib_output_choose(int option);
/* CTL_MESSAGE with LANE_OUTPUT_SUBJECT. True: it was one. */
bool lib_output_came(const struct lane_record *record, const uint8_t *payload);
/* A line of the library's own. */
void lib_output_say(const char *format, ...) MT_PRINTF(1, 2);
/* Prints what is there; the lock is released meanwhile. `all`: repeated lines at once, too. */
void lib_output_print(bool all);

#endif
