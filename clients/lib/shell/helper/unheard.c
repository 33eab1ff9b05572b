/* SPDX-License-Identifier: Apache-2.0
 *
 * unheard.c - failures of calls that nobody has asked for: to the program's own function, or printed.
 *
 * Owns:   lib.unheard. Thread: any, under the owner lock, which is released around user code and printing.
 * Always: a function's first failure is told at once; of further ones the log has a number.
 */
#include "clients/lib/shell/helper/helper.h"
#include "clients/lib/shell/names/names.h"
#include "clients/lib/shell/output/output.h"
#include "clients/lib/shell/state/state.h"

#include <stdarg.h>
#include <stdlib.h>

/* A worker's own standard error is its log. */
static void say(const char *format, ...)
{
    char    line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (lib.role == LIB_WORKER) {
        lib_unlock();
        fprintf(stderr, "(manta) %s\n", line);
        lib_lock();
    } else if (lib.output.is_wanted) {
        lib_output_say("%s", line);
    }
}

/* Where the function is defined, if it is one of this executable's own. */
static void place_of(const char *function, char *out, size_t room)
{
    const manta_entry *entry = lib_entry_find(function);
    out[0] = 0;
    if (entry && entry->file)
        snprintf(out, room, " (%s:%d)", entry->file, entry->line);
}

static void say_first(const struct own_failure *f, mt_id id)
{
    char place[128], task[40];
    place_of(f->function, place, sizeof place);
    mt_id_text(id, task);
    say("%s%s failed, and nobody has asked for its result: error %d: %.600s [node %u, pid %d, task %s]",
        f->function[0] ? f->function : "a call", place, f->code, f->message, f->node, f->pid, task);
}

static void say_more(struct lib_unheard *u, uint64_t now)
{
    say("%llu further errors of %s that nobody has asked for", (unsigned long long)u->more,
        u == &lib.unheard[LIB_UNHEARD_MAX - 1] ? "this and other functions"
        : u->function[0]                       ? u->function
                                               : "calls");
    lib.unheard_more -= u->more;
    u->more = 0;
    u->said_ns = now;
}

static void keep_log(const struct own_unheard *from, uint64_t now)
{
    struct lib_unheard *u = lib.unheard;
    while (u->is_used && u < &lib.unheard[LIB_UNHEARD_MAX - 1] && strcmp(u->function, from->first.function) != 0)
        u++;
    if (!u->is_used) {
        u->is_used = true;
        u->said_ns = now;
        snprintf(u->function, sizeof u->function, "%s", from->first.function);
        say_first(&from->first, from->task);
        u->more += from->count - 1;
        lib.unheard_more += from->count - 1;
        return;
    }
    u->more += from->count;
    lib.unheard_more += from->count;
}

static void call(const struct own_unheard *from)
{
    manta_error e;
    lib_error_failure(&e, &from->first, from->task);
    lib_unlock();
    bool before = lib_callback_enter(true);
    lib.on_error(lib.on_error_user, &e, from->count);
    lib_callback_enter(before);
    lib_fork_check();
    lib_lock();
}

void lib_unheard_tell(bool all)
{
    struct own_out     *out = &lib.own.out;
    struct own_unheard *taken = out->unheard;
    uint32_t            count = out->unheard_count;
    uint64_t            now;
    if (MT_LIKELY(!count && !lib.unheard_more))
        return;
    now = lib_now_ns();
    out->unheard = count ? NULL : taken; /* more may come meanwhile */
    out->unheard_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (lib.on_error)
            call(&taken[i]);
        else
            keep_log(&taken[i], now);
    }
    if (count)
        free(taken);
    for (struct lib_unheard *u = lib.unheard; u < lib.unheard + LIB_UNHEARD_MAX && lib.unheard_more; u++)
        if (u->more && (all || now - u->said_ns >= MT_LIB_UNHEARD_NS))
            say_more(u, now);
}
