/* SPDX-License-Identifier: Apache-2.0
 *
 * file.h - a sweep as a file describes it.
 *
 *   name: first                                         metric: loss        mode: min
 *   trials: 100     time_s: 3600     concurrency: 4     seed: 1             ordered: true
 *   trial: {command: [python3, train.py, "{args}"], env: {NAME: VALUE}, metrics: FILE}
 *   trial: {command: [...], gang: {n: 2, as: torch}}    each trial is a gang; nodes, per_node
 *     or   {code: FILE.so, function: NAME}              a function of a shared object
 *   space:
 *     lr: {type: loguniform, low: 1e-5, high: 1e-1}     uniform, loguniform, normal, lognormal, int, logint; step: N
 *     layers: {type: choice, values: [1, 2, 3]}         choice, ordinal, grid; a plain list is a choice, a plain value a constant
 *     momentum: {type: uniform, low: 0, high: 1, when: "layers == 1"}
 *   sampler: tpe     sampler_opts: "startup=20"         scheduler: asha     scheduler_opts: "max_t=27,eta=3"
 *   stop: "steps,limit=100"     constraints: ["2*a + b <= 10"]     points: ['{"lr": 0.1}']     warm_start: [NAME]
 *   retries: 2      trial_timeout_s: 60     silent_timeout_s: 60     cpus: 1     gpus: 0     memory: 0     storage: FOLDER
 *   resources: {NAME: 0.5}     replay: NAME:TRIAL       importance: ped_anova
 *
 * Nothing is taken on trust: an unknown key, a value of another type or a key that comes twice is an error that names file, line
 * and key. Thread: the main one.
 */
#ifndef CLI_SWEEP_FILE_H
#define CLI_SWEEP_FILE_H

#include "clients/cli/settings/settings.h"

#include <manta_sweep.h>

#include <stdio.h>

enum { FILE_STRINGS_MAX = 4096, FILE_PARAMS_MAX = 128, FILE_LIST_MAX = 256, FILE_RESOURCES_MAX = 16 };

struct sweep_file {
    manta_sweep_opts    opts; /* what it points to is the file's */
    manta_sweep_command command;
    manta_sweep_gang    gang; /* of the command */
    const char         *function, *code;
    manta_sweep_axis    params[FILE_PARAMS_MAX + 1];
    int                 count;
    manta_resource      resources[FILE_RESOURCES_MAX];
    void               *strings[FILE_STRINGS_MAX];
    int                 strings_count;
    struct settings     settings;
};

/* Reads a file ("-": standard input). False: f->settings.error says what is wrong, and where. End with sweep_file_fini in any
 * case. */
bool sweep_file_read(struct sweep_file *f, const char *path);
void sweep_file_fini(struct sweep_file *f);

/* All that a file may say, a line each: key, type, meaning and default. */
void sweep_keys_print(FILE *to);

#endif
