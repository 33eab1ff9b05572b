/* SPDX-License-Identifier: Apache-2.0
 *
 * sums.h - the SHA-256 of several files, computed on a thread of the disk. Private to cache/.
 */
#ifndef RLT_CACHE_SUMS_H
#define RLT_CACHE_SUMS_H

#include "core/io/io.h"
#include "raylet/core/core.h"

struct sh_sums {
    struct io_job job_on_disk;
    struct sh    *sh;
    uint64_t      job;
    void         *user;
    void (*done)(struct sh_sums *sums, bool is_right); /* on the loop; is_right: every file could be read and is as expected */
    char     text[CTL_PROGRAM_PATH_SIZE + 64];         /* which file is not, and why */
    bool     is_right;
    uint32_t count;
    struct {
        struct peer_program_file expected; /* is_new: size and sum are filled in */
        bool                     is_new;
        bool                     is_own; /* a file of this node's installation */
        bool                     is_wrong;
        int                      fd; /* owned; -1: it could not be opened */
    } files[];
};

/* NULL: no memory. The caller fills in the files and submits job_on_disk. */
struct sh_sums *sh_sums_new(struct sh *sh, uint64_t job, uint32_t count, void (*done)(struct sh_sums *sums, bool is_right));
void            sh_sums_free(struct sh_sums *sums);

/* Nobody but the raylet's user can write it, or, is_own, of this node's installation, root. */
bool sh_sum_is_safe(int fd, bool is_own);

#endif
