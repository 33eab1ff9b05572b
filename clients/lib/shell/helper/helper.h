/* SPDX-License-Identifier: Apache-2.0
 *
 * helper.h - the helper thread, which looks when nobody waits; and user code that is told of something.
 *
 * Owns: the helper thread. Thread: any, under the owner lock, which is released around user code.
 */
#ifndef LIB_HELPER_H
#define LIB_HELPER_H

#include <stdbool.h>
#include <stdint.h>

void lib_helper_start(void);
void lib_helper_stop(void);
/* Runs callbacks of watches that are due. */
void lib_run_news(void);
/* Waits until the function of this watch, which has been taken off the list, is back; not inside such a function. */
void lib_wait_told(uint64_t watch);
/* Runs callbacks of refs that are due, on the calling thread, and tells of failures that nobody has asked for. */
void lib_run_callbacks(void);

/* Those failures: the program's own function, else the log. `all`: what was only counted so far, too. */
void lib_unheard_tell(bool all);

#endif
