/* SPDX-License-Identifier: Apache-2.0
 *
 * log.h - one line per event: `level event key=value ...`.
 *
 * The function that first decides on an error logs it, with ids; everyone above passes it on. Without a sink
 * nothing is written, so libmanta is silent until its user asks. The line carries no time of its own, because
 * state machines may not read a clock: the sink adds it, virtual time in the simulation. Any thread.
 *
 *     mt_log(MT_LOG_WARN, "worker_died", "pid=%d signal=%d node=%u", pid, signal, node);
 */
#ifndef MT_BASE_LOG_H
#define MT_BASE_LOG_H

#include "core/base/status.h"

#include <stdbool.h>

/* X(name, text) */
/* clang-format off */
#define MT_LOG_LEVELS(X) \
    X(ERROR, "error")    \
    X(WARN, "warn")      \
    X(INFO, "info")      \
    X(DEBUG, "debug")
/* clang-format on */

enum mt_log_level {
#define X(name, text) MT_LOG_##name,
    MT_LOG_LEVELS(X)
#undef X
};

/* Gets one whole line of `size` bytes, without a line end but with an end mark; it is borrowed for the call. */
typedef void (*mt_log_sink)(enum mt_log_level level, const char *line, size_t size);

/* Set once when a process starts, before it has threads. NULL: silence. */
void mt_log_set_sink(mt_log_sink sink);
/* Lines above `level` are dropped. INFO until set; may change at any time. */
void mt_log_set_level(enum mt_log_level level);
/* Whether a line of this level would be written: for arguments that cost something to make. */
bool mt_log_wants(enum mt_log_level level);

/* Writes one line. `event` is a word, the format gives key=value pairs, or is "". Control characters become '?', and
 * what is beyond MT_LOG_LINE_BYTES is cut. Calls the sink, which may block; allocates nothing. */
void mt_log(enum mt_log_level level, const char *event, const char *format, ...) MT_PRINTF(3, 4);
/* The same with the failure that was decided on: code=ENAME sys=N what="...". */
void mt_log_status(enum mt_log_level level, const char *event, mt_status st);

/* A sink: standard error, the time (UTC, milliseconds) in front, one write per line. */
void mt_log_to_stderr(enum mt_log_level level, const char *line, size_t size);

#endif
