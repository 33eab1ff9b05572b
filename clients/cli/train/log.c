/* SPDX-License-Identifier: Apache-2.0
 *
 * log.c - a run's progress on the terminal and in files. Owns: the files. Thread: the main one.
 */
#include "clients/cli/train/log.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { BAR_WIDTH = 24, BAR_LEAST = 6 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool train_log_open(struct train_log *log, const char *csv, const char *tensorboard, bool is_quiet, char *error, size_t size)
{
    *log = (struct train_log){.is_quiet = is_quiet, .is_terminal = isatty(STDOUT_FILENO) == 1, .begun_step = -1};
    const char *which = csv;
    if (csv)
        log->csv = fopen(csv, "ae");
    if (tensorboard && (!csv || log->csv)) {
        which = tensorboard;
        log->events = train_events_open(tensorboard);
    }
    if ((!csv || log->csv) && (!tensorboard || log->events))
        return true;
    snprintf(error, size, "log: %s can't be written: %s", which, strerror(errno));
    return false;
}

void train_log_close(struct train_log *log)
{
    if (log->has_bar)
        putchar('\n');
    fflush(stdout);
    if (log->csv)
        fclose(log->csv);
    if (log->events)
        fclose(log->events);
    memset(log, 0, sizeof *log);
}

/* ---- files ---- */

static void csv_write(struct train_log *log, const manta_sgd_event *event)
{
    bool ok = true;
    if (log->columns == 0 && ftell(log->csv) == 0) {
        ok = fprintf(log->csv, "time,what,step,workers,samples_per_s,data_wait,recovery_s") > 0;
        for (int i = 0; i < event->metrics && ok; i++)
            ok = fprintf(log->csv, ",%s", event->names[i]) > 0;
        ok = ok && fputc('\n', log->csv) != EOF;
    }
    log->columns = event->metrics ? event->metrics : log->columns;
    const char *what = event->kind == MANTA_SGD_STEP ? "train" : event->kind == MANTA_SGD_VALIDATED ? "validate" : "recovered";
    ok = ok && fprintf(log->csv, "%lld,%s,%lld,%d,%.1f,%.4f,%.6f", (long long)time(NULL), what, (long long)event->step,
                       event->workers, event->samples_per_s, event->data_wait,
                       event->recovery ? event->recovery->total_s : 0.0) > 0;
    for (int i = 0; i < log->columns && ok; i++)
        ok = event->metrics ? fprintf(log->csv, ",%.9g", event->values[i]) > 0 : fputc(',', log->csv) != EOF;
    if (ok && fputc('\n', log->csv) != EOF && fflush(log->csv) == 0)
        return;
    fprintf(stderr, "manta train: the CSV log ends here: %s\n", strerror(errno));
    fclose(log->csv);
    log->csv = NULL;
}

static void events_write(struct train_log *log, const manta_sgd_event *event)
{
    const char *prefix = event->kind == MANTA_SGD_STEP ? "train" : "validate";
    char        tag[160];
    bool        ok = true;
    for (int i = 0; i < event->metrics && ok; i++) {
        snprintf(tag, sizeof tag, "%s/%s", prefix, event->names[i]);
        ok = train_events_scalar(log->events, 0, event->step, tag, event->values[i]);
    }
    if (ok && event->samples_per_s > 0)
        ok = train_events_scalar(log->events, 0, event->step, "train/samples_per_s", event->samples_per_s);
    if (ok && event->samples_per_s > 0)
        ok = train_events_scalar(log->events, 0, event->step, "train/data_wait", event->data_wait);
    if (ok && event->recovery)
        ok = train_events_scalar(log->events, 0, event->step, "recovery/seconds", event->recovery->total_s);
    if (ok)
        return;
    fprintf(stderr, "manta train: TensorBoard's log ends here: %s\n", strerror(errno));
    fclose(log->events);
    log->events = NULL;
}

/* ---- the terminal ---- */

/* Characters of a line that does not wrap: a bar that does leaves its first half behind at each redraw. */
static int line_room(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

/* How long what is left will take, at the pace since the run began here. */
static void eta_print(const struct train_log *log, const manta_sgd_event *event, char *out, size_t size)
{
    double  spent = now_s() - log->begun_s;
    int64_t done = event->step - log->begun_step;
    long    left = done > 0 ? (long)(spent * (double)(event->steps - event->step) / (double)done) : 0;
    if (left >= 3600)
        snprintf(out, size, "%ld:%02ld:%02ld", left / 3600, left / 60 % 60, left % 60);
    else
        snprintf(out, size, "%ld:%02ld", left / 60, left % 60);
}

/* What matters most comes first: a narrow terminal cuts the end. */
static void bar_draw(struct train_log *log, const manta_sgd_event *event)
{
    static const char full[] = "########################", empty[] = "........................";
    char eta[32], rate[32] = "", text[256];
    eta_print(log, event, eta, sizeof eta);
    if (event->samples_per_s > 0)
        snprintf(rate, sizeof rate, "  %.0f samples/s", event->samples_per_s);
    int room = line_room();
    int size = snprintf(text, sizeof text, "%lld/%lld  loss %.4f  ETA %s%s  data wait %.0f %%  %d worker%s", (long long)event->step,
                        (long long)event->steps, event->loss, eta, rate, event->data_wait * 100, event->workers,
                        event->workers == 1 ? "" : "s");
    int width = room - size - 3;
    width = width < BAR_WIDTH ? width : BAR_WIDTH;
    int done = event->steps > 0 && width > 0 ? (int)(event->step * width / event->steps) : 0;
    putchar('\r');
    if (width >= BAR_LEAST)
        printf("[%.*s%.*s] ", done, full, width - done, empty);
    printf("%.*s\033[K", room, text);
    log->has_bar = true;
}

static void line_print(struct train_log *log, const manta_sgd_event *event)
{
    if (log->has_bar)
        printf("\r\033[K");
    log->has_bar = false;
    if (event->samples_per_s > 0)
        printf("%s samples/s=%.0f\n", event->text, event->samples_per_s);
    else
        printf("%s\n", event->text);
}

void train_log_event(struct train_log *log, const manta_sgd_event *event)
{
    bool is_measured = event->kind == MANTA_SGD_STEP || event->kind == MANTA_SGD_VALIDATED || event->kind == MANTA_SGD_RECOVERED;
    if (event->kind == MANTA_SGD_BEGUN && log->begun_step < 0) {
        log->begun_s = now_s();
        log->begun_step = event->step;
    }
    if (is_measured && log->csv)
        csv_write(log, event);
    if (is_measured && log->events)
        events_write(log, event);
    if (log->is_quiet)
        return;
    if (event->kind == MANTA_SGD_STEP && log->is_terminal)
        bar_draw(log, event);
    else
        line_print(log, event);
    fflush(stdout);
}
