/* SPDX-License-Identifier: Apache-2.0
 *
 * gang.c - see gang.h. Owns nothing.
 */
#include "sweep/trial/gang.h"

#include "core/base/limits/sweep.h"
#include "core/base/real.h"
#include "core/sys/process.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ABOVE_MAX = 32 }; /* processes between a slot and its raylet are a few */

static mt_status word_put(mt_buf *out, uint32_t *count, const char *format, ...) MT_PRINTF(3, 4);
static mt_status word_put(mt_buf *out, uint32_t *count, const char *format, ...)
{
    char     word[128];
    va_list  args;
    locale_t users = mt_real_enter();
    va_start(args, format);
    int n = vsnprintf(word, sizeof word, format, args);
    va_end(args);
    mt_real_leave(users);
    ++*count;
    return n < 0 || (size_t)n >= sizeof word ? mt_error(MT_EINVAL, 0, "make the words of a gang")
                                             : mt_buf_append(out, word, (size_t)n + 1);
}

mt_status swp_gang_words(const manta_sweep_opts *o, mt_buf *out, uint32_t *out_count)
{
    const manta_sweep_gang *g = o->command ? o->command->gang : NULL;
    *out_count = 0;
    if (!g)
        return mt_ok();
    if (g->nodes) {
        MT_TRY(word_put(out, out_count, "--nodes=%d", g->nodes));
        MT_TRY(word_put(out, out_count, "--per-node=%d", swp_gang_per_node(g)));
    } else {
        MT_TRY(word_put(out, out_count, "--ranks=%d", swp_gang_ranks(g)));
    }
    MT_TRY(word_put(out, out_count, "--as=%s", g->as ? g->as : "none"));
    MT_TRY(word_put(out, out_count, "--cpus=%.17g", swp_cpus(o)));
    MT_TRY(word_put(out, out_count, "--gpus=%.17g", o->gpus));
    MT_TRY(word_put(out, out_count, "--kill-after=%g", MT_SWEEP_GANG_TERM_MS / 1e3));
    return word_put(out, out_count, "--stdout-of=0");
}

static bool is_there(char *out, size_t size, const char *folder, int folder_size)
{
    int n = snprintf(out, size, "%.*s/manta-run", folder_size, folder);
    return n > 0 && (size_t)n < size && access(out, X_OK) == 0;
}

void swp_gang_program(char *out, size_t size)
{
    char        path[64], program[4096];
    pid_t       line[2 * ABOVE_MAX]; /* each process, and its group */
    const char *home = getenv("MANTA_HOME"), *slash;
    mt_process_line(getpid(), line, 2 * ABOVE_MAX);
    for (size_t i = 2; i < 2 * ABOVE_MAX && line[i]; i += 2) {
        snprintf(path, sizeof path, "/proc/%d/exe", (int)line[i]);
        ssize_t n = readlink(path, program, sizeof program - 1);
        program[n < 0 ? 0 : n] = 0;
        if ((slash = strrchr(program, '/')) && strcmp(slash, "/manta-raylet") == 0 &&
            is_there(out, size, program, (int)(slash - program)))
            return;
    }
    snprintf(program, sizeof program, "%.4000s/bin", home ? home : "");
    if (!home || !is_there(out, size, program, (int)strlen(program)))
        snprintf(out, size, "manta-run");
}
