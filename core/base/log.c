/* SPDX-License-Identifier: Apache-2.0
 *
 * log.c - makes a line of an event and hands it to the one sink.
 *
 * Owns: the level and the sink, the process's only two. Thread: any.
 */
#include "core/base/log.h"

#include "core/base/limits/text.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic(mt_log_sink) log_sink;
static atomic_int           log_level = MT_LOG_INFO;

static const char *const level_text[] = {
#define X(name, text) [MT_LOG_##name] = text,
    MT_LOG_LEVELS(X)
#undef X
};

void mt_log_set_sink(mt_log_sink sink)
{
    atomic_store(&log_sink, sink);
}

void mt_log_set_level(enum mt_log_level level)
{
    atomic_store(&log_level, (int)level);
}

bool mt_log_wants(enum mt_log_level level)
{
    return (int)level <= atomic_load_explicit(&log_level, memory_order_relaxed) &&
           atomic_load_explicit(&log_sink, memory_order_relaxed) != NULL;
}

/* A peer's text must not end the line or speak to the terminal. */
static void line_clean(char *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
}

static void line_write(enum mt_log_level level, const char *event, const char *format, va_list args)
{
    char   line[MT_LOG_LINE_BYTES];
    int    head = snprintf(line, sizeof line, "%s %s%s", level_text[level], event, *format ? " " : "");
    size_t size = head < 0 ? 0 : (size_t)head;
    if (size < sizeof line) {
        int body = vsnprintf(line + size, sizeof line - size, format, args);
        size += body < 0 ? 0 : (size_t)body;
    }
    if (size >= sizeof line) {
        size = sizeof line - 1;
        memcpy(line + size - 3, "...", 3);
    }
    line_clean(line, size);
    mt_log_sink sink = atomic_load(&log_sink);
    if (sink)
        sink(level, line, size);
}

void mt_log(enum mt_log_level level, const char *event, const char *format, ...)
{
    if (!mt_log_wants(level))
        return;
    va_list args;
    va_start(args, format);
    line_write(level, event, format, args);
    va_end(args);
}

void mt_log_status(enum mt_log_level level, const char *event, mt_status st)
{
    mt_log(level, event, "code=%s sys=%d what=\"%s\"", mt_code_name(st.code), st.sys, st.what ? st.what : "");
}

void mt_log_to_stderr(enum mt_log_level level, const char *line, size_t size)
{
    (void)level;
    char            out[MT_LOG_LINE_BYTES + 32];
    struct timespec now;
    struct tm       utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t used = strftime(out, sizeof out, "%Y-%m-%dT%H:%M:%S", &utc);
    int    n = snprintf(out + used, sizeof out - used, ".%03ldZ %.*s\n", now.tv_nsec / 1000000, (int)size, line);
    used += n < 0 ? 0 : (size_t)n;
    /* Nowhere to report a failure to: a full or closed standard error loses the line. */
    ssize_t written = write(STDERR_FILENO, out, used < sizeof out ? used : sizeof out - 1);
    (void)written;
}
