/* SPDX-License-Identifier: Apache-2.0
 *
 * daemons.h - daemons of this machine: the runtime folder, who runs there, their start and end. Thread: main.
 */
#ifndef CLI_DAEMONS_H
#define CLI_DAEMONS_H

#include "clients/cli/keeper/keeper.h"
#include "clients/cli/words/words.h"

#include <jansson.h>
#include <stdio.h>
#include <sys/types.h>

/* ---- process.c: processes by number and start time, and programs beside this one ---- */

bool cli_process_is_alive(const struct cli_process *process);
/* A descriptor of exactly this process, or -1. */
int cli_process_open(const struct cli_process *process);
/* Waits until the process of such a descriptor has ended, at the latest until `end_ms` (ctl_now_ms). False: it has not. */
bool cli_process_wait(int fd, uint64_t end_ms);
/* Path of the program `name` in this program's own folder; false: it is not there. */
bool cli_program_find(const char *name, char out[CLI_PATH_SIZE]);
/* Starts a daemon and its keeper, each in a session of its own, their output in `log_file`, and waits for the line that the
 * daemon writes to --ready-fd (which is added to argv). `log_max`: bytes; NULL: as many as usual. `record`: the file that then says
 * who they are. False: the daemon did not become ready, or a held interrupt came; both have ended, and the reason is printed (but
 * for an interrupt). */
bool cli_daemon_start(char *const argv[], const char *log_file, const char *log_max, const char *record, struct cli_record *out);
/* From hold to release the signals by which people end a command wait, so that what it has half done can be undone first. */
void cli_interrupts_hold(void);
bool cli_interrupts_came(void);
/* One that has come ends this process here, unless it is handled or ignored. */
void cli_interrupts_release(void);

/* ---- drain.c ---- */

/* All nodes that the cluster has started are to go; waits for it so long, and says on standard error what it waits for. False: it
 * could not be asked, or (ETIMEDOUT) some may be left, which were named there. */
bool cli_nodes_end(manta_client *client, uint64_t limit_ms, manta_error *e);

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
/* The node that runs there is being drained, or has left: its raylet is to end. */
bool cli_folder_leaves(const struct cli_folder *folder);
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

/* drain.c: a node by its number, or by a name that only one has; 0: neither, and that was printed */
uint32_t cli_node_of(manta_client *client, const char *word);

/* ---- verbs ---- */
int cli_start(const struct cli_args *args);
int cli_stop(const struct cli_args *args);
int cli_step_down(const struct cli_args *args);
int cli_head_backup(const struct cli_args *args); /* backup.c */
int cli_head_restore(const struct cli_args *args);
int cli_head_check(const struct cli_args *args);
int cli_drain(const struct cli_args *args); /* drain.c: any node of the cluster, by its number or name */

#endif
