/* SPDX-License-Identifier: Apache-2.0
 *
 * screen.c - see screen.h.
 */
#include "clients/cli/sweep/screen.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_SIZE = 512, CELL_MIN = 9, CELL_MAX = 14, BAR_WIDTH = 20, OTHER_LINES = 6, QUIET_S = 10 };

/* ---- lines ---- */

struct line {
    char   text[LINE_SIZE];
    size_t size;
};

static void add(struct line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct line *l, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(l->text + l->size, sizeof l->text - l->size, format, args);
    va_end(args);
    l->size += n < 0 ? 0 : (size_t)n < sizeof l->text - l->size ? (size_t)n : sizeof l->text - l->size - 1;
}

static void window_of(int *out_rows, int *out_columns)
{
    struct winsize size = {0};
    bool           is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    *out_rows = is_known ? size.ws_row : 24;
    *out_columns = is_known ? size.ws_col : 80;
}

static void line_print(struct screen *s, const struct line *l, int columns)
{
    printf("%.*s\n", (int)(l->size < (size_t)columns ? l->size : (size_t)columns - 1), l->text);
    s->lines++;
}

static void lines_clear(struct screen *s)
{
    if (s->lines)
        printf("\033[%dA\r\033[J", s->lines);
    s->lines = 0;
}

/* ---- what they say ---- */

static void time_add(struct line *l, double seconds)
{
    int64_t s = (int64_t)(seconds + 0.5);
    if (s >= 3600)
        add(l, "%" PRId64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60), (int)(s % 60));
    else
        add(l, "%d:%02d", (int)(s / 60), (int)(s % 60));
}

static int64_t done_of(const manta_sweep_progress *p)
{
    return p->completed + p->stopped + p->failed;
}

static void bar_add(struct line *l, int64_t done, int64_t trials)
{
    int full = trials > 0 ? (int)(BAR_WIDTH * done / trials) : 0;
    add(l, "[");
    for (int i = 0; i < BAR_WIDTH; i++)
        add(l, "%c", i < full ? '=' : i == full ? '>' : ' ');
    add(l, "] ");
}

static void state_make(const struct screen *s, const manta_sweep_progress *p, struct line *l)
{
    int64_t done = done_of(p), here = done - s->done_before;
    add(l, "%s ", s->name);
    if (p->trials > 0)
        bar_add(l, done, p->trials);
    add(l, p->trials > 0 ? "%" PRId64 "/%" PRId64 " ended" : "%" PRId64 " ended", done, p->trials);
    add(l, ", %" PRId64 " running", p->running);
    if (p->paused)
        add(l, ", %" PRId64 " paused", p->paused);
    if (p->stopped)
        add(l, ", %" PRId64 " stopped early", p->stopped);
    if (p->failed)
        add(l, ", %" PRId64 " failed", p->failed);
    add(l, "; ");
    time_add(l, p->seconds);
    if (p->trials > done && here > 0) {
        add(l, ", about ");
        time_add(l, p->seconds * (double)(p->trials - done) / (double)here);
        add(l, " to go");
    }
}

static int param_say(void *user, const manta_sweep_param *param)
{
    struct line *l = user;
    if (param->kind == MANTA_SWEEP_VALUE_NUMBER)
        add(l, " %s=%.6g", param->name, param->number);
    else
        add(l, " %s=%s", param->name, param->text);
    return 0;
}

static void best_make(const struct screen *s, const manta_sweep_progress *p, struct line *l)
{
    add(l, "best %s %.6g, trial %" PRId64 ":", s->metric, p->best, p->best_trial);
    (void)manta_sweep_params(p->best_params, param_say, l);
}

/* ---- the table: Tune's columns, the parameters last, since a narrow window cuts them off ---- */

static int column_find(const struct screen *s, const char *name)
{
    for (int i = 0; i < s->column_count; i++)
        if (strcmp(s->columns[i], name) == 0)
            return i;
    return -1;
}

static int cell_make(char out[32], const manta_sweep_param *param)
{
    int n = param->kind == MANTA_SWEEP_VALUE_NUMBER ? snprintf(out, 32, "%.4g", param->number)
                                                    : snprintf(out, 32, "%.*s", CELL_MAX, param->text);
    return n < CELL_MIN ? CELL_MIN : n > CELL_MAX ? CELL_MAX : n;
}

static int column_fit(void *user, const manta_sweep_param *param)
{
    struct screen *s = user;
    char           cell[32];
    int            i = column_find(s, param->name), size = cell_make(cell, param);
    if (i < 0 && s->column_count == SCREEN_COLUMNS)
        return 0;
    if (i < 0) {
        i = s->column_count++;
        int n = snprintf(s->columns[i], sizeof s->columns[i], "%s", param->name);
        s->widths[i] = n < CELL_MIN ? CELL_MIN : n > CELL_MAX ? CELL_MAX : n;
    }
    s->widths[i] = size > s->widths[i] ? size : s->widths[i];
    return 0;
}

struct cells {
    const struct screen *screen;
    char                 text[SCREEN_COLUMNS][32];
};

static int cell_take(void *user, const manta_sweep_param *param)
{
    struct cells *cells = user;
    int           i = column_find(cells->screen, param->name);
    if (i >= 0)
        (void)cell_make(cells->text[i], param);
    return 0;
}

static void row_make(const struct screen *s, const manta_sweep_row *row, struct line *l)
{
    struct cells cells = {.screen = s};
    (void)manta_sweep_params(row->params, cell_take, &cells);
    add(l, "%8" PRId64 " %-8s %8.1f", row->trial, row->state, row->seconds);
    if (row->has_value)
        add(l, " %8" PRId64 " %12.6g", row->step, row->value);
    else
        add(l, " %8s %12s", "-", "-");
    for (int i = 0; i < s->column_count; i++)
        add(l, "  %*s", s->widths[i], cells.text[i]);
}

static void table_print(struct screen *s, const manta_sweep_progress *p, int rows, int width)
{
    struct line head = {.size = 0};
    int         shown = p->row_count < rows - OTHER_LINES ? p->row_count : rows - OTHER_LINES;
    for (int i = 0; i < shown; i++)
        (void)manta_sweep_params(p->rows[i].params, column_fit, s);
    if (shown <= 0)
        return;
    add(&head, "%8s %-8s %8s %8s %12.12s", "TRIAL", "STATE", "SECONDS", "STEP", s->metric);
    for (int i = 0; i < s->column_count; i++)
        add(&head, "  %*.*s", s->widths[i], CELL_MAX, s->columns[i]);
    line_print(s, &head, width);
    for (int i = 0; i < shown; i++) {
        struct line l = {.size = 0};
        row_make(s, &p->rows[i], &l);
        line_print(s, &l, width);
    }
    if (p->running > shown) {
        struct line l = {.size = 0};
        add(&l, "%8s and %" PRId64 " more", "", p->running - shown);
        line_print(s, &l, width);
    }
}

/* ---- the whole ---- */

void screen_open(struct screen *s, const char *name, const char *metric, bool is_quiet)
{
    *s = (struct screen){
        .name = name, .metric = metric ? metric : "value", .is_quiet = is_quiet, .is_terminal = isatty(1) == 1, .done_before = -1};
}

static void terminal_show(struct screen *s, const manta_sweep_progress *p)
{
    struct line state = {.size = 0}, best = {.size = 0};
    int         rows, width;
    window_of(&rows, &width);
    state_make(s, p, &state);
    line_print(s, &state, width);
    if (p->has_best) {
        best_make(s, p, &best);
        line_print(s, &best, width);
    }
    table_print(s, p, rows, width);
}

void screen_show(struct screen *s, const manta_sweep_progress *p)
{
    bool is_due = s->is_terminal || s->done_before < 0 || p->seconds - s->shown_s >= QUIET_S;
    if (s->is_quiet)
        return;
    if (s->done_before < 0)
        s->done_before = done_of(p);
    if (p->message || is_due)
        lines_clear(s);
    if (p->message)
        printf("%s\n", p->message);
    if (s->is_terminal) {
        terminal_show(s, p);
    } else if (is_due) {
        struct line l = {.size = 0};
        state_make(s, p, &l);
        if (p->has_best)
            add(&l, " | "), best_make(s, p, &l);
        printf("%s\n", l.text);
        s->shown_s = p->seconds;
    }
    fflush(stdout);
}

void screen_close(struct screen *s)
{
    lines_clear(s);
    fflush(stdout);
}
