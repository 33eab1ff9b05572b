/* SPDX-License-Identifier: Apache-2.0
 *
 * log.c - a run's progress on the terminal and in files. Owns: the files. Thread: the main one.
 */
#include "clients/cli/events/events.h"
#include "clients/cli/train/log.h"
#include "core/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR_WIDTH = 24, BAR_LEAST = 6 };

static double now_s(void)
{
    return (double)mt_now_ns() * 1e-9;
}

static const char of_events[] = "TensorBoard's log";

static bool events_open(struct train_file *file, const char *folder)
{
    FILE *stream = train_events_open(folder);
    int   fd = stream ? fcntl(fileno(stream), F_DUPFD_CLOEXEC, 0) : -1;
    if (stream)
        fclose(stream);
    *file = (struct train_file){.out = {.fd = fd, .end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END)}};
    return fd >= 0;
}

bool train_log_open(struct train_log *log, const char *csv, const char *tensorboard, bool is_quiet, char *error, size_t size)
{
    *log = (struct train_log){.is_quiet = is_quiet,
                              .is_terminal = isatty(STDOUT_FILENO) == 1,
                              .begun_step = -1,
                              .csv.file.out.fd = -1,
                              .events.out.fd = -1};
    const char *which = csv;
    bool        is_open = !csv || train_csv_open(&log->csv, csv);
    if (tensorboard && is_open) {
        which = tensorboard;
        is_open = events_open(&log->events, tensorboard);
    }
    if (is_open)
        return true;
    snprintf(error, size, "log: %s can't be written: %s", which, strerror(errno));
    return false;
}

void train_log_close(struct train_log *log)
{
    if (log->has_bar)
        putchar('\n');
    fflush(stdout);
    train_csv_close(&log->csv);
    train_file_close(&log->events, of_events);
    *log = (struct train_log){.csv.file.out.fd = -1, .events.out.fd = -1};
}

/* ---- files ---- */

static bool events_make(struct train_log *log, FILE *to, const manta_sgd_event *event)
{
    const char *prefix = event->kind == MANTA_SGD_STEP ? "train" : "validate";
    char        tag[160];
    bool        ok = true, is_begun = event->kind == MANTA_SGD_BEGUN;
    if (is_begun || !log->has_events_begun) /* who follows a detached run late has missed its begin */
        ok = train_events_from(to, is_begun ? event->step + 1 : event->step);
    log->has_events_begun = true;
    for (int i = 0; i < event->metrics && ok; i++) {
        snprintf(tag, sizeof tag, "%s/%s", prefix, event->names[i]);
        ok = train_events_scalar(to, 0, event->step, tag, event->values[i]);
    }
    if (ok && event->kind == MANTA_SGD_STEP)
        ok = train_events_scalar(to, 0, event->step, "train/lr", event->lr);
    if (ok && event->samples_per_s > 0)
        ok = train_events_scalar(to, 0, event->step, "train/samples_per_s", event->samples_per_s);
    if (ok && event->samples_per_s > 0)
        ok = train_events_scalar(to, 0, event->step, "train/data_wait", event->data_wait);
    if (ok && event->recovery)
        ok = train_events_scalar(to, 0, event->step, "recovery/seconds", event->recovery->total_s);
    return ok;
}

static void events_write(struct train_log *log, const manta_sgd_event *event)
{
    char  *bytes = NULL;
    size_t size = 0;
    FILE  *to = open_memstream(&bytes, &size);
    bool   ok = to && events_make(log, to, event);
    ok = to && fclose(to) == 0 && ok;
    if (ok)
        train_file_put(&log->events, of_events, bytes, size);
    else
        train_file_fail(&log->events, of_events, errno);
    free(bytes);
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

/* Adds a part that is worth less than the bar: only where both have room. */
static void part_add(char *text, size_t size, int room, const char *part)
{
    size_t used = strlen(text);
    if ((int)(used + strlen(part)) + BAR_LEAST + 3 <= room)
        snprintf(text + used, size - used, "%s", part);
}

static void bar_draw(struct train_log *log, const manta_sgd_event *event)
{
    static const char full[] = "########################", empty[] = "........................";
    char              part[64], text[256];
    int               room = line_room();
    eta_print(log, event, part, sizeof part);
    snprintf(text, sizeof text, "%lld/%lld  loss %.4f  ETA %s", (long long)event->step, (long long)event->steps, event->loss, part);
    snprintf(part, sizeof part, "  %.0f samples/s", event->samples_per_s);
    if (event->samples_per_s > 0)
        part_add(text, sizeof text, room, part);
    snprintf(part, sizeof part, "  data wait %.0f %%", event->data_wait * 100);
    part_add(text, sizeof text, room, part);
    snprintf(part, sizeof part, "  %d worker%s", event->workers, event->workers == 1 ? "" : "s");
    part_add(text, sizeof text, room, part);
    int width = room - (int)strlen(text) - 3;
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
    if (is_measured || event->kind == MANTA_SGD_BEGUN)
        train_csv_event(&log->csv, event);
    if (log->events.out.fd >= 0 && (is_measured || event->kind == MANTA_SGD_BEGUN))
        events_write(log, event);
    if (log->is_quiet)
        return;
    if (event->kind == MANTA_SGD_STEP && log->is_terminal)
        bar_draw(log, event);
    else
        line_print(log, event);
    fflush(stdout);
}
