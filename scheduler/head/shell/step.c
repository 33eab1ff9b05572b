/* SPDX-License-Identifier: Apache-2.0
 *
 * step.c - what every part of the shell uses: events into the core, paths, the end.
 *
 * What follows from an event is noted in sh->actions and carried out by shell.c, at the end of the loop's round: so a part that
 * tells of an event is never called back by it.
 *
 * Thread:  the main loop's.
 */
#include "core/base/clock.h"
#include "scheduler/head/shell/heads.h"

#include <stdio.h>
#include <string.h>

void head_shell_end(struct shell *sh, mt_status st)
{
    if (sh->is_ending)
        return;
    sh->is_ending = true;
    sh->end_status = st;
    io_loop_stop(sh->loop);
}

/* Log that was noted from this action on is on the way to the disk. (head_start notes none.) */
static void count_log(struct shell *sh, size_t first)
{
    for (size_t i = first; i < sh->actions.count; i++)
        if (sh->actions.items[i].kind == HEAD_ACT_LOG_APPEND)
            sh->log_bytes += sh->actions.items[i].log_append.bytes->size;
}

void head_shell_step(struct shell *sh, struct head_event *event)
{
    if (sh->is_ending && event->kind != HEAD_EV_STORED)
        return;
    if (!sh->head)
        return;
    event->now_ms = io_now_ms();
    if (sh->options.store && sh->stepped_ms && event->now_ms - sh->stepped_ms > MT_HEAD_PAUSE_MS)
        sh->doubt_ms = event->now_ms; /* another may lead by now */
    sh->stepped_ms = event->now_ms;
    event->wall_ms = mt_wall_ms();
    size_t    noted = sh->actions.count;
    mt_status st = head_step(sh->head, event, &sh->actions);
    count_log(sh, noted);
    if (st.code != 0)
        head_shell_end(sh, st);
    else if (event->kind == HEAD_EV_STORED && event->stored.status.code == 0)
        sh->is_stored = true;
}

void head_shell_heads_line(const struct shell *sh, char *out, size_t size)
{
    size_t at = (size_t)snprintf(out, size, "%s", sh->address);
    for (uint32_t i = 0; i < sh->head_count; i++)
        if (strcmp(sh->heads[i], sh->address) != 0 && at < size)
            at += (size_t)snprintf(out + at, size - at, ",%s", sh->heads[i]);
}

bool head_shell_has_noted(const struct shell *sh)
{
    return sh->actions.count > 0;
}

void head_shell_path(const struct shell *sh, const char *folder, const char *name, char out[SHELL_PATH_SIZE])
{
    bool is_apart = sh->options.logs && strcmp(folder, "logs") == 0;
    int  size = is_apart ? snprintf(out, SHELL_PATH_SIZE, "%s/%s", sh->options.logs, name)
                         : snprintf(out, SHELL_PATH_SIZE, "%s/%s%s%s", sh->state, folder, folder[0] ? "/" : "", name);
    MT_ASSERT(size > 0 && size < SHELL_PATH_SIZE); /* path_fits has left room for names */
}

mt_status head_shell_complain(mt_status st, const char *what, const char *which)
{
    fprintf(stderr, "manta-head: %s %s: %s%s%s\n", what, which, st.what, st.sys ? ": " : "", st.sys ? strerror(st.sys) : "");
    return st;
}
