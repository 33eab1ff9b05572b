/* SPDX-License-Identifier: Apache-2.0
 *
 * zygote.h - the warm process from which a job's workers are forked, and what they leave when they crash.
 */
#ifndef LIB_ZYGOTE_H
#define LIB_ZYGOTE_H

#include "core/base/status.h"

MT_NORETURN void lib_zygote_serve(int fd, int argc, char **argv);
void             lib_crash_handlers(void);
void             lib_crash_text_open(void); /* in a worker, of its own: without it a crash has no backtrace */

#endif
