/* SPDX-License-Identifier: Apache-2.0
 *
 * child.h - another program as a child that dies with the thread that started it.
 *
 * posix_spawn can't ask for that (PR_SET_PDEATHSIG is set by the child itself), and a command that outlives its trial would run
 * beside the retry. The child shares the memory of its parent until it becomes the program, as that of posix_spawn does.
 *
 * Thread: any; the child dies with the one that calls swp_child_start.
 */
#ifndef SWP_CHILD_H
#define SWP_CHILD_H

#include "core/base/status.h"

#include <stdbool.h>
#include <sys/types.h>

struct swp_child_opts {
    char *const *argv, *const *env;
    const char  *dir;         /* NULL: where we are */
    int          in, out, err; /* its standard descriptors; -1: /dev/null (in), ours (out, err) */
};

/* ENOENT: there is no such program; ESYS. */
MT_MUST_USE mt_status swp_child_start(const struct swp_child_opts *opts, pid_t *out_pid);

#endif
