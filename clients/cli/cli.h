/* SPDX-License-Identifier: Apache-2.0
 *
 * cli.h - what the files of the program `manta` share. Thread: main, everywhere.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "clients/cli/keeper/keeper.h"
#include "clients/control/control.h"
#include "core/base/limits/cli.h"
#include "core/base/limits/net.h"
#include "core/base/limits/raylet.h"
#include "core/base/limits/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 }; /* exit statuses, but for those of jobs */

enum {
    CLI_PATH_SIZE = 4096,
};

/* ---- main.c: the words after `manta` ---- */

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

/* Prints to standard error what is wrong with the words, and how they should be. Returns CLI_USAGE. */
int cli_usage(const struct cli_args *args, const char *format, ...) MT_PRINTF(2, 3);
/* Prints "manta: ..." to standard error. Returns CLI_FAILED. */
int cli_fail(const char *format, ...) MT_PRINTF(1, 2);
/* A number of at least `least`; false (and *out as it was) where the option was given and is none. */
bool cli_number(const struct cli_args *args, enum cli_option option, double least, double *out);
/* The client that the options name; NULL: the reason is printed. */
manta_client *cli_connect(const struct cli_args *args);
/* Runs a verb with such a client, and closes it. */
int cli_with_client(const struct cli_args *args, int (*run)(const struct cli_args *args, manta_client *client));

/* ---- process.c: processes by number and start time, and programs beside this one ---- */

bool cli_process_is_alive(const struct cli_process *process);
/* A descriptor of exactly this process, or -1. */
int cli_process_open(const struct cli_process *process);
/* Path of the program `name` in this program's own folder; false: it is not there. */
bool cli_program_find(const char *name, char out[CLI_PATH_SIZE]);
/* Starts a daemon and its keeper, each in a session of its own, their output in `log_file`, and waits for the line that the
 * daemon writes to --ready-fd (which is added to argv). `record`: the file that then says who they are. False: the daemon did
 * not become ready; both have ended, and the reason is printed. */
bool cli_daemon_start(char *const argv[], const char *log_file, const char *record, struct cli_record *out);

/* ---- folder.c: the runtime folder ---- */

enum cli_daemon { CLI_DAEMON_HEAD, CLI_DAEMON_RAYLET, CLI_DAEMONS };
extern const char *const cli_daemon_names[CLI_DAEMONS];

struct cli_folder {
    char              path[CLI_PATH_SIZE - 256]; /* absolute; room for names */
    bool              is_default;                /* where all look who are told nothing */
    bool              exists;
    struct cli_record daemons[CLI_DAEMONS];
};

/* --dir, else MANTA_ADDRESS where it is a folder, else this user's; reads who runs there. With `make` it is made, mode
 * 0700, and must be this user's. False: the reason is printed. */
bool cli_folder_open(const struct cli_args *args, bool make, struct cli_folder *out);
/* Reads again who runs there. */
void cli_folder_refresh(struct cli_folder *folder);
/* The daemon runs, or somebody is about to start it again. */
bool cli_daemon_is_there(const struct cli_record *daemon);
/* The file of a daemon's record. */
void cli_folder_record(const struct cli_folder *folder, enum cli_daemon daemon, char out[CLI_PATH_SIZE]);
void cli_folder_file(const struct cli_folder *folder, const char *name, char out[CLI_PATH_SIZE]);
/* Moves the logs of the daemons into the folder `logs` in it: few, and of large ones the end. True: there are some, `out` says
 * where. */
bool cli_logs_keep(const struct cli_folder *folder, char out[CLI_PATH_SIZE]);
/* Removes all that cli_logs_keep has kept, and the folders that are empty then. */
void cli_logs_purge(const struct cli_folder *folder);
/* Removes what is Manta's in it but those logs, and the folder itself where nothing else is left. Returns how many files
 * could not be removed, each of them named on standard error. */
int cli_folder_clean(const struct cli_folder *folder);

/* ---- daemons.c: those of this machine, for `manta status` ---- */

/* Those of the folder that the options name, of this machine: nothing where the cluster is named by host and port, or nobody
 * was started there. */
void    cli_daemons_print(const struct cli_args *args, FILE *out);
json_t *cli_daemons_json(const struct cli_args *args); /* an array of objects */

/* ---- join.c: a cluster on another machine ---- */

/* Writes into the folder what the file says. False: the reason is printed. */
bool cli_join_prepare(const char *file, const struct cli_folder *folder);
/* The address of this machine that the head at host:port is spoken to from; "": loopback. False: the reason is printed. */
bool cli_address_towards(const char *address, char out[CTL_ADDRESS_SIZE]);

/* ---- output.c: one value, printed as a table or as JSON ---- */

struct cli_column {
    const char *key;     /* in the JSON object */
    const char *title;   /* NULL ends the list */
    bool        is_wide; /* with -o wide only */
};
/* False: -o names no format, and that is printed. */
bool cli_output_check(const struct cli_args *args);
bool cli_output_is_json(const struct cli_args *args);
/* Prints `rows`, an array of objects, and drops the reference. Returns CLI_OK. */
int cli_print_rows(const struct cli_args *args, const struct cli_column *columns, json_t *take_rows);
/* Takes out of `rows` what --filter and --limit leave out: for what no node has filtered. `key_row`: one row, which has the
 * keys; NULL: there is none. False: a filter names none of them, and that is printed. */
bool cli_filter_rows(const struct cli_args *args, const json_t *key_row, json_t *rows);
/* Prints as JSON and drops the reference. Returns CLI_OK. */
int cli_print_json(json_t *take_value);

/* ---- state.c ---- */

/* What the nodes tell of a kind, with the filters and the limit of the options; one_more_filter may be NULL. NULL: the reason
 * is printed. */
manta_rows *cli_rows(const struct cli_args *args, manta_client *client, const char *kind, double limit,
                     const char *one_more_filter);

/* ---- rows.c: what the nodes tell, as JSON ---- */

/* "" where the column does not exist. */
const char *cli_cell(const manta_rows *rows, size_t row, const char *column);
/* An array of objects. A million rows take gigabytes so: cli_rows_print does without. */
json_t *cli_rows_json(const manta_rows *rows);
/* Prints them as the options want: as JSON, or as a table of `columns`. Returns CLI_OK. */
int cli_rows_print(const struct cli_args *args, const struct cli_column *columns, const manta_rows *rows);
/* Prints to standard error what is missing in them. */
void cli_rows_notice(const struct cli_args *args, const manta_rows *rows);

/* ---- the verbs ---- */

int cli_start(const struct cli_args *args);
int cli_stop(const struct cli_args *args);
int cli_status(const struct cli_args *args);
int cli_list_nodes(const struct cli_args *args);
int cli_list(const struct cli_args *args);
int cli_get(const struct cli_args *args);
int cli_summary(const struct cli_args *args);
int cli_stack(const struct cli_args *args);
int cli_memory(const struct cli_args *args);
int cli_timeline(const struct cli_args *args);
int cli_healthcheck(const struct cli_args *args);
int cli_submit(const struct cli_args *args);
int cli_job_list(const struct cli_args *args);
int cli_job_status(const struct cli_args *args);
int cli_job_logs(const struct cli_args *args);
int cli_job_wait(const struct cli_args *args);
int cli_job_stop(const struct cli_args *args);
int cli_job_delete(const struct cli_args *args);
int cli_actor_kill(const struct cli_args *args);

#endif
