/* SPDX-License-Identifier: Apache-2.0
 *
 * log.h - what a training run tells, for people and for other programs: lines or a bar, a CSV file, TensorBoard's events.
 *
 * Files are written through at each report, so that nothing is lost with the process. A file that can't be written ends its
 * own log, with one line on standard error, and not the training. Thread: the main one.
 */
#ifndef CLI_TRAIN_LOG_H
#define CLI_TRAIN_LOG_H

#include <manta_sgd.h>

#include <stdbool.h>

struct train_log {
    FILE   *csv, *events;
    bool    is_terminal, is_quiet, has_bar; /* has_bar: the cursor stands behind one */
    int     columns;                        /* metrics of the CSV's head; 0: not written yet */
    double  begun_s;
    int64_t begun_step;
    double  loss, samples_per_s;
};

/* False: `error` says what can't be opened. */
bool train_log_open(struct train_log *log, const char *csv, const char *tensorboard, bool is_quiet, char *error, size_t size);
void train_log_event(struct train_log *log, const manta_sgd_event *event);
void train_log_close(struct train_log *log);

/* events.c: TensorBoard's file. NULL: errno says why. */
FILE *train_events_open(const char *folder);
/* One scalar. False: it could not be written. */
bool train_events_scalar(FILE *file, double wall_s, int64_t step, const char *tag, double value);
/* Bytes for one of TensorBoard's plug-ins. False: they could not be written, or are more than it takes (errno EMSGSIZE). */
bool train_events_plugin(FILE *file, double wall_s, const char *tag, const char *plugin, const void *content, size_t size);

#endif
