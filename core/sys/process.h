/* SPDX-License-Identifier: Apache-2.0
 *
 * process.h - which process a number means, and where our programs lie. A number alone names none, since numbers come back: number
 * and start together do.
 *
 * Thread: any.
 */
#ifndef MT_SYS_PROCESS_H
#define MT_SYS_PROCESS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* When it began, in ticks since the machine's start; 0: it has ended (maybe nobody has reaped it yet), or /proc can't be read. */
uint64_t mt_process_start(pid_t pid);

enum mt_process_is {
    MT_PROCESS_UNKNOWN, /* /proc can't be read now */
    MT_PROCESS_LIVES,
    MT_PROCESS_ENDED, /* nobody may have reaped it yet */
};
/* Of the process with that number and start. */
enum mt_process_is mt_process_is(pid_t pid, uint64_t start);

/* How it ends, as waitpid will say it: from when its end has begun (its files may be closed, and a disk keep it for a while) until
 * somebody reaps it. 0: it lives, is gone, ends with 0, or is one of which we may not know. */
int mt_process_status(pid_t pid, uint64_t start);

/* What the kernel says of a process, or of one of its threads. */
struct mt_process_stat {
    char    name[16], state; /* R: runs, or is ready to; D: waits for a disk; T: was stopped; others: see proc(5) */
    int64_t cpu_ms;          /* of a process: its threads that have ended counted */
    int64_t children_ms;     /* the same of its children that have ended and were waited for */
};
/* thread 0: of the process. False: there is none, or /proc can't be read. */
bool mt_process_stat(pid_t pid, pid_t thread, struct mt_process_stat *out);

/* All processes of the machine, or the threads of one, one number after the other:
 *   for (DIR *all = mt_process_threads(pid); (thread = mt_process_next(all));)
 * NULL where /proc can't be read, and behind the last one 0: then `all` is closed, so nobody stops before. Those that begin or end
 * meanwhile may be missed. */
DIR  *mt_process_all(void);
DIR  *mt_process_threads(pid_t pid);
pid_t mt_process_next(DIR *all);

/* Where it comes from: it, its process group, its parent, that one's group, up to the first process; 0 behind the last. */
void mt_process_line(pid_t pid, pid_t *out, size_t count);

/* The path of a program of ours, which lies beside this one; only `name` where that is not known. Returns `out`, or `name` where it
 * does not fit. */
const char *mt_process_beside(const char *name, char *out, size_t size);

/* Should this process stand still (SIGSTOP) as its parent ends, it goes on: for one that ends then, or has to clean up. Until it
 * leaves by exit or a return of main. */
void mt_process_wake_at_parents_end(void);

/* Sends a signal to that very process. 0 or an errno: ESRCH where it has ended. */
int mt_process_signal(pid_t pid, uint64_t start, int number);

#endif
