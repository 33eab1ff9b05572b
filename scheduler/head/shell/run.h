/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h - the daemon as one call.
 */
#ifndef HEAD_RUN_H
#define HEAD_RUN_H

#include "scheduler/head/shell/options.h"

/* Runs the head until a signal, a shutdown call, the end of --watch-fd, or a failure. Returns the exit status: 0 after a
 * wanted end. What went wrong stands on standard error. */
int head_run(const struct head_options *options);

#endif
