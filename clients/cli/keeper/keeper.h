/* SPDX-License-Identifier: Apache-2.0
 *
 * keeper.h - what a keeper and the program `manta` both know: the record of a daemon, and who is meant by a number.
 *
 * A keeper (the program manta-keeper) is the parent of one daemon of `manta start`, and starts it again when it dies. The
 * record is a file of the runtime folder, daemons/NAME, which is replaced as a whole: who runs, who keeps it, and how often
 * it had to be started again. Thread: any. All calls block on files.
 */
#ifndef CLI_KEEPER_H
#define CLI_KEEPER_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* To a keeper: the daemon that is up is the last one; one that is still on its way is told to end. */
enum { CLI_KEEPER_LAST = SIGUSR1 };

enum { CLI_RECORD_TEXT_SIZE = 160, CLI_RECORD_PATH_SIZE = 4096 };

struct cli_process {
    pid_t    pid;   /* 0: none */
    uint64_t start; /* of core/sys/process.h */
};

struct cli_record {
    struct cli_process daemon; /* none: it died, and is to be started again */
    struct cli_process keeper;
    unsigned           restarts;
    char               last[CLI_RECORD_TEXT_SIZE]; /* when and how it died the last time; "": never */
};

/* False: there is none; *out is then empty. */
bool cli_record_read(const char *file, struct cli_record *out);
/* 0 or an errno; what was there before is then there still. */
int cli_record_write(const char *file, const struct cli_record *record);

/* How long to wait before the next start of a daemon that died after `lived_ms`; `before_ms`: the pause before that, 0: none. */
int cli_keeper_pause_ms(int before_ms, int64_t lived_ms);

/* A log over `max` bytes begins anew: what it held is then FILE.1, in place of what stood there. `fd`: of the log, opened to
 * append; what is no file, or has been renamed, stays. A line that somebody writes in that very moment may be lost. 0 or an errno:
 * the log goes on as it was. */
int cli_log_turn(int fd, uint64_t max);

#endif
