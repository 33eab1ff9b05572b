/* SPDX-License-Identifier: Apache-2.0
 *
 * crash.h - the signals by which a process crashes. Who takes them says where it was: a daemon in its log, a worker in its park
 * page. Then the process ends by that signal, as it would have.
 */
#ifndef MT_CRASH_H
#define MT_CRASH_H

#include "core/sys/frames.h"

/* Called in the signal handler, of one thread only. The frames are of the thread that crashed; none where its stack can't be
 * read. */
typedef void mt_crash_fn(int number, const struct mt_frames *frames);

/* From now on `say` is called first. A signal that somebody else has taken (a sanitizer) is left to him. Called at the start, by
 * the thread that may use up its stack: it gets another one for the handler. */
void mt_crash_handlers(mt_crash_fn *say);

#endif
