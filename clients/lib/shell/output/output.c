/* SPDX-License-Identifier: Apache-2.0
 *
 * output.c - what workers print, on the driver's standard error: where from, once for all who say the same, bounded.
 *
 * Owns:   lib.output. Thread: any, under the lock; the helper prints, without it.
 *
 * A line that another worker has printed in the last five seconds is counted instead of shown, digits apart; what one
 * worker prints twice is shown twice.
 */
#include "clients/lib/shell/output/output.h"
#include "clients/lib/shell/state/state.h"

#include "core/base/hash.h"
#include "core/wire/output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { REPEATS = sizeof lib.output.repeats / sizeof lib.output.repeats[0] };

bool lib_output_choose(int option)
{
    const char *text = getenv("MANTA_LOG_TO_DRIVER");
    bool        is_set = text && text[0], is_on = is_set && strcmp(text, "1") == 0;
    if (option < -1 || option > 1 || (is_set && !is_on && strcmp(text, "0") != 0))
        return false;
    if (option)
        lib.output.is_wanted = option > 0;
    else if (is_set)
        lib.output.is_wanted = is_on;
    else
        lib.output.is_wanted = getenv("MANTA_JOB_ID") || isatty(STDERR_FILENO);
    return true;
}

/* ---- lines --------------------------------------------------------------------------------------------------------- */

static void put(const char *name, int32_t pid, uint32_t node, const char *line, size_t size, uint32_t repeats)
{
    struct lib_output *o = &lib.output;
    mt_status          st;
    if (o->text.size + size > MT_LIB_OUTPUT_BYTES_MAX) {
        o->dropped += size;
        return;
    }
    if (o->dropped) {
        st = mt_buf_printf(&o->text, "(manta) %llu bytes of workers' output were dropped: they are not printed fast enough\n",
                           (unsigned long long)o->dropped);
        o->dropped = st.code ? o->dropped : 0;
    }
    st = mt_buf_printf(&o->text, "(%s pid=%d, node=%u) %.*s", name[0] ? name : "worker", pid, node, (int)size, line);
    if (st.code == 0 && repeats)
        st = mt_buf_printf(&o->text, " [repeated %ux across workers]", repeats);
    if (st.code || mt_buf_append(&o->text, "\n", 1).code)
        o->dropped += size;
}

void lib_output_say(const char *format, ...)
{
    char    line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (lib.output.text.size < MT_LIB_OUTPUT_BYTES_MAX)
        (void)mt_buf_printf(&lib.output.text, "(manta) %s\n", line).code;
}

static void repeat_end(struct lib_repeat *r)
{
    if (r->hash && r->count)
        put(r->name, r->pid, r->node, r->line, strlen(r->line), r->count);
    r->hash = 0;
}

static uint64_t hash_of(const char *line, size_t size)
{
    uint64_t hash = MT_HASH_START;
    for (size_t i = 0; i < size; i++)
        if (line[i] < '0' || line[i] > '9')
            hash = mt_hash_mix(hash, (uint8_t)line[i]);
    return hash | 1;
}

static void line_came(const struct lane_output *from, const char *line, size_t size, uint64_t now)
{
    uint64_t           hash = hash_of(line, size);
    struct lib_repeat *r = &lib.output.repeats[hash >> 32 & (REPEATS - 1)];
    if (r->hash == hash && now - r->since_ns < MT_LIB_OUTPUT_REPEAT_NS && (r->pid != from->pid || r->node != from->node) && size) {
        r->count++;
        return;
    }
    if (r->hash != hash || now - r->since_ns >= MT_LIB_OUTPUT_REPEAT_NS) {
        repeat_end(r);
        *r = (struct lib_repeat){.hash = hash, .since_ns = now, .pid = from->pid, .node = from->node};
        memcpy(r->name, from->name, sizeof r->name);
        snprintf(r->line, sizeof r->line, "%.*s", (int)size, line);
    }
    put(from->name, from->pid, from->node, line, size, 0);
}

bool lib_output_came(const struct lane_record *record, const uint8_t *payload)
{
    struct ctl_message head;
    struct lane_output from;
    size_t             size = record->length - LANE_RECORD_SIZE;
    const char        *at, *end;
    uint64_t           now = lib_now_ns();
    if (size < sizeof head)
        return false;
    memcpy(&head, payload, sizeof head);
    if (head.subject != LANE_OUTPUT_SUBJECT)
        return false;
    if (!lib.output.is_wanted || size < sizeof head + sizeof from)
        return true;
    memcpy(&from, payload + sizeof head, sizeof from);
    from.name[sizeof from.name - 1] = 0;
    at = (const char *)payload + sizeof head + sizeof from;
    end = (const char *)payload + size;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        line_came(&from, at, (size_t)(stop - at), now);
        at = stop + 1;
    }
    return true;
}

/* ---- printing ------------------------------------------------------------------------------------------------------ */

void lib_output_print(bool all)
{
    struct lib_output *o = &lib.output;
    uint64_t           now = lib_now_ns();
    for (int i = 0; i < REPEATS; i++)
        if (o->repeats[i].hash && (all || now - o->repeats[i].since_ns >= MT_LIB_OUTPUT_REPEAT_NS))
            repeat_end(&o->repeats[i]);
    if (!o->text.size)
        return;
    mt_buf text = mt_buf_move(&o->text);
    lib_unlock(); /* a terminal may stand still */
    for (size_t at = 0; at < text.size;) {
        ssize_t n = write(STDERR_FILENO, text.data + at, text.size - at);
        if (n < 0 && errno != EINTR)
            break; /* nobody reads it */
        at += n > 0 ? (size_t)n : 0;
    }
    mt_buf_fini(&text);
    lib_lock();
}
