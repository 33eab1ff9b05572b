/* SPDX-License-Identifier: Apache-2.0
 *
 * cache.h - programs of other nodes' drivers, kept as files of this node. Loop thread; what reads whole files runs on a thread
 * of its own.
 */
#ifndef RLT_CACHE_H
#define RLT_CACHE_H

#include "raylet/core/core.h"

struct sh;

void sh_program_list(struct sh *sh, const struct rlt_a_program_list *a); /* PROGRAM_LIST */
void sh_program_open(struct sh *sh, const struct rlt_a_program_open *a); /* PROGRAM_OPEN */
void sh_program_drop(struct sh *sh, uint64_t job);                       /* PROGRAM_DROP */
void sh_cache_write(struct sh *sh, const struct rlt_a_file_write *a);    /* FILE_WRITE of a program's file */
/* A file of the job's program, the caller's to close; -1: there is none. */
int sh_cache_file(struct sh *sh, uint64_t job, uint32_t index);

/* Where the libraries of the job's program lie here, as LD_LIBRARY_PATH has it: 0 bytes where there are none. */
size_t sh_cache_libraries(const struct sh *sh, uint64_t job, char *out, size_t size);

struct sh_check {
    void (*done)(struct sh_check *check, bool is_right); /* on the loop, later; may free the check */
};
/* Whether the job's program, behind `fd`, and its libraries are still what they were. Returns 0, or the errno why that can't be
 * found out now: `done` is not called then. */
int  sh_cache_check(struct sh *sh, uint64_t job, int fd, struct sh_check *check);
bool sh_cache_has(const struct sh *sh, uint64_t job); /* its program is one of the cache */

void sh_cache_stop(struct sh *sh);

#endif
