/* SPDX-License-Identifier: Apache-2.0
 *
 * screen.h - a running sweep on the terminal: how far it is, the best so far, and a row for each trial that runs.
 *
 * On a terminal the same lines are written again and again, cut to its width; elsewhere a line each ten seconds. What has just
 * happened (a failure, a retry) is a line of its own that stays. Thread: the main one.
 */
#ifndef CLI_SWEEP_SCREEN_H
#define CLI_SWEEP_SCREEN_H

#include <manta_sweep.h>

enum { SCREEN_COLUMNS = 12 };

struct screen {
    const char *name, *metric;
    bool        is_quiet, is_terminal;
    double      shown_s;
    int64_t     done_before;                 /* trials that had ended when this driver began; -1: not known yet */
    int         lines;                       /* that stand there, and are written over */
    char        columns[SCREEN_COLUMNS][64]; /* parameters that were seen; their columns stay, and never get narrower */
    int         widths[SCREEN_COLUMNS], column_count;
};

void screen_open(struct screen *s, const char *name, const char *metric, bool is_quiet);
void screen_show(struct screen *s, const manta_sweep_progress *p);
/* Takes the lines away: a result follows. */
void screen_close(struct screen *s);

#endif
