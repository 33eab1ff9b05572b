/* SPDX-License-Identifier: Apache-2.0
 *
 * log.h - what a training run tells, for people and for other programs: lines or a bar, a CSV file, TensorBoard's events.
 *
 * Files are written through at each report, so that nothing is lost with the process. On a full disk reports wait in
 * memory for room. A file that can't be written for another reason ends its own log, with one line on standard error,
 * and not the training. Thread: the main one.
 */
#ifndef CLI_TRAIN_LOG_H
#define CLI_TRAIN_LOG_H

#include "core/sys/append.h"

#include <manta_sgd.h>

#include <stdbool.h>

/* A file of a log. */
struct train_file {
    struct mt_append out;     /* fd -1: there is none, or it has failed */
    bool             is_full; /* its disk is, and that was said */
};
/* Ended lines or records; `what` is for people. What finds no room waits for it; else a failure ends the log. Both are said. */
void train_file_put(struct train_file *file, const char *what, const void *data, size_t size);
/* Tells why, and closes. */
void train_file_fail(struct train_file *file, const char *what, int err);
void train_file_close(struct train_file *file, const char *what);

struct train_csv {
    struct train_file file;
    const char       *path;      /* the caller's */
    int               columns;   /* metrics of the head; 0: not known here yet */
    bool              has_begun; /* what stands there of later steps is gone */
};

struct train_log {
    struct train_csv  csv;
    struct train_file events;
    bool              has_events_begun;               /* TensorBoard was told from where on we go */
    bool              is_terminal, is_quiet, has_bar; /* has_bar: the cursor stands behind one */
    double            begun_s;
    int64_t           begun_step;
};

/* False: `error` says what can't be opened. */
bool train_log_open(struct train_log *log, const char *csv, const char *tensorboard, bool is_quiet, char *error, size_t size);
void train_log_event(struct train_log *log, const manta_sgd_event *event);
void train_log_close(struct train_log *log);

/* csv.c: a file that is gone on with. False: errno says why. */
bool train_csv_open(struct train_csv *csv, const char *path);
/* Of a report, or of the run's begin. */
void train_csv_event(struct train_csv *csv, const manta_sgd_event *event);
void train_csv_close(struct train_csv *csv);

#endif
