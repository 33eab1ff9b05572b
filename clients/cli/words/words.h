/* SPDX-License-Identifier: Apache-2.0
 *
 * words.h - the words after `manta`: options and what they mean to every verb. Thread: main, as everywhere in the program.
 */
#ifndef CLI_WORDS_H
#define CLI_WORDS_H

#include "clients/control/control.h"
#include "core/base/limits/cli.h"

#include <stdbool.h>
#include <stdint.h>

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 }; /* exit statuses, but for those of jobs */

enum {
    CLI_PATH_SIZE = 4096,
    CLI_WORD_SIZE = 4 * CLI_PATH_SIZE + 3, /* a path as a shell reads it */
};

enum cli_option {
    CLI_OPT_HEAD,
    CLI_OPT_ADDRESS,
    CLI_OPT_TOKEN_FILE,
    CLI_OPT_DIR,
    CLI_OPT_STATE,
    CLI_OPT_PORT,
    CLI_OPT_NODE_NAME,
    CLI_OPT_NUM_CPUS,
    CLI_OPT_NUM_GPUS,
    CLI_OPT_RESOURCES,
    CLI_OPT_STORE_MEMORY,
    CLI_OPT_JOB_MEMORY,
    CLI_OPT_JOB_USERS,
    CLI_OPT_MAX_BLOCKED,
    CLI_OPT_MAX_WORKERS,
    CLI_OPT_JOB_PIDS,
    CLI_OPT_CGROUP,
    CLI_OPT_LABELS,
    CLI_OPT_OUTPUT,
    CLI_OPT_NAME,
    CLI_OPT_NAMESPACE,
    CLI_OPT_FILE,
    CLI_OPT_ENV,
    CLI_OPT_METADATA,
    CLI_OPT_RETRIES,
    CLI_OPT_TIME_S,
    CLI_OPT_TIME,
    CLI_OPT_FOLLOW,
    CLI_OPT_FILTER,
    CLI_OPT_LIMIT,
    CLI_OPT_TIMEOUT_S,
    CLI_OPT_TLS_FILE,
    CLI_OPT_TLS_DIR,
    CLI_OPT_INSECURE,
    CLI_OPT_BIND,
    CLI_OPT_JOIN,
    CLI_OPT_PURGE,
    CLI_OPT_LOGS,
    CLI_OPT_LOG_MAX,
    CLI_OPT_STORE,
    CLI_OPT_STORE_AUTH,
    CLI_OPT_STORE_MAY_LOSE,
    CLI_OPT_STANDBY,
    CLI_OPT_REPLACE,
    CLI_OPT_DEADLINE,
    CLI_OPT_REASON,
    CLI_OPT_LIFETIME,
    CLI_OPT_NOTICE_FILE,
    CLI_OPT_DRAIN_LIMIT,
    CLI_OPT_MEMORY,
    CLI_OPT_ORPHAN_AFTER,
    CLI_OPT_FOREGROUND,
    CLI_OPT_DRY_RUN,
    CLI_OPT_COUNT,
    CLI_OPT_USES,
    CLI_OPT_VALID_S,
    CLI_OPT_RIGHTS,
    CLI_OPT_PRIORITY,
    CLI_OPT_ARRAY,
    CLI_OPT_DEPENDENCY,
    CLI_OPT_HOLD,
    CLI_OPT_PREEMPTIBLE,
    CLI_OPT_JOB_DEADLINE,
    CLI_OPT_WORK,
    CLI_OPT_RESUME,
    CLI_OPT_SIGNAL,
    CLI_OPT_USER,
    CLI_OPT_SINCE,
    CLI_OPT_BY,
    CLI_OPT_HELP,
    CLI_OPTIONS,
};

struct cli_args {
    const char *verb;
    const char *values[CLI_OPTIONS]; /* NULL: not given; "" for those that take none */
    const char *files[MT_CLI_LIST_MAX + 1], *env[MT_CLI_LIST_MAX + 1], *metadata[MT_CLI_LIST_MAX + 1]; /* end with NULL */
    const char *filters[MT_CLI_LIST_MAX + 1];
    size_t      file_count, env_count, metadata_count, filter_count;
    int         rest_count;
    char      **rest; /* what is no option; ends with NULL */
};

struct cli_option_row {
    const char *name;
    char        letter; /* 0: none */
    const char *value;  /* NULL: it takes none */
    const char *help;
};
extern const struct cli_option_row cli_options[CLI_OPTIONS];

/* Prints to standard error what is wrong with the words, and how they should be. Returns CLI_USAGE. */
int cli_usage(const struct cli_args *args, const char *format, ...) MT_PRINTF(2, 3);
/* Prints "manta: ..." to standard error. Returns CLI_FAILED. */
int cli_fail(const char *format, ...) MT_PRINTF(1, 2);
/* The text as one word of a shell's line, for lines that people copy: in quotes where it needs some. */
void cli_shell_word(const char *text, char out[CLI_WORD_SIZE]);
/* A number of at least `least`; false (and *out as it was) where the option was given and is none. */
bool cli_number(const struct cli_args *args, enum cli_option option, double least, double *out);
/* The same of whole numbers, up to `most`. */
bool cli_whole(const struct cli_args *args, enum cli_option option, double least, double most, double *out);
/* What a node has of a resource (core/text/amounts.h), likewise. */
bool cli_amount_of_node(const struct cli_args *args, enum cli_option option, const char *name);
/* A duration ("2h30m", "1-02:00:00"), and a time of the wall clock that is one from now or a date; false (and *out as it was)
 * likewise. */
bool cli_duration(const struct cli_args *args, enum cli_option option, int64_t *out_s);
/* Of an attempt: --time, or --time-s. */
bool cli_time_limit(const struct cli_args *args, int64_t *out_s);
bool cli_time_until(const struct cli_args *args, enum cli_option option, uint64_t *out_ms);
/* The client that the options name; NULL: the reason is printed. */
manta_client *cli_connect(const struct cli_args *args);
/* Runs a verb with such a client, and closes it. */
int cli_with_client(const struct cli_args *args, int (*run)(const struct cli_args *args, manta_client *client));

#endif
