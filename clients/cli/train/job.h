/* SPDX-License-Identifier: Apache-2.0
 *
 * job.h - a training job as a file describes it.
 *
 *   model: {name: mlp, hidden: [256, 128]}      the operator, and what it asks for
 *   data: {path: FOLDER}                        the same as data: FOLDER in model; other keys (label, format, validate, ...) go to
 *                                               the operator as those of model do
 *   run, scaling, failure, checkpoint, optimizer: as in manta_sgd_opts, by the same names
 *   log: {csv: FILE, tensorboard: FOLDER}
 *   seed: 1
 *
 * Nothing is taken on trust: an unknown section or key, a value of another type or out of range, or a key that comes twice
 * is an error that names file, line and key. Thread: the main one.
 */
#ifndef CLI_TRAIN_JOB_H
#define CLI_TRAIN_JOB_H

#include "clients/cli/settings/settings.h"

#include <manta_sgd.h>

#include <stdbool.h>
#include <stdio.h>

enum { JOB_CONFIG_MAX = 64, JOB_VALUE_SIZE = 1024, JOB_ERROR_SIZE = 512 };

struct job {
    manta_sgd_opts opts;              /* opts.config and all strings are the job's */
    const char    *name;              /* of the operator */
    const char    *csv, *tensorboard; /* NULL: none */
    int            name_line;
    struct {
        char       *pair; /* "NAME=value" */
        const char *section;
        bool        is_path; /* the file calls it data.path */
        int         line;    /* 0: from the command line */
    } config[JOB_CONFIG_MAX];
    const char     *pairs[JOB_CONFIG_MAX + 1];
    int             count;
    char           *strings[JOB_CONFIG_MAX]; /* that others point to */
    int             strings_count;
    int             seen[128]; /* by place in the table: the line where a key was set; 0: nowhere, -1: by the command line */
    struct settings settings;
};

/* Reads a file ("-": standard input). False: job->settings.error says what is wrong, and where. End with job_fini in any case. */
bool job_read(struct job *job, const char *file);
/* "section.key=value" from a command line; replaces what the file says. */
bool job_set(struct job *job, const char *assignment);
void job_fini(struct job *job);

/* All keys of a file but the operators' own, a line each: name, type, meaning and default. */
void job_keys_print(FILE *to);

/* Where an error of the training comes from: "FILE:LINE: KEY: ", "--set KEY: ", or "" where it does not say. */
const char *job_place(struct job *job, const manta_error *e, char out[JOB_ERROR_SIZE]);

#endif
