/* SPDX-License-Identifier: Apache-2.0
 *
 * child.h - another program as a child: it gets what it is given, and nothing else that this process has
 * open.
 *
 * What posix_spawn can't do: close descriptors but for one that the program is run from, set a limit of the
 * child alone, and let it die with its parent. The child shares the memory of its parent until it becomes the
 * program, as that of posix_spawn does.
 *
 * Thread: any, which waits until the child is the program. With `dies_with_parent` the child dies with that
 * thread.
 */
#ifndef MT_BASE_CHILD_H
#define MT_BASE_CHILD_H

#include "core/base/status.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

enum { MT_CHILD_FDS_MAX = 6, MT_CHILD_NULL = -1 /* in the place of a descriptor: /dev/null */ };

enum mt_child_session {
    MT_CHILD_JOINS,   /* our process group: what a terminal sends to us it gets too */
    MT_CHILD_GROUP,   /* a process group of its own: a terminal sends it no signal, nor stops it (what it reads there is EIO) */
    MT_CHILD_SESSION, /* a session of its own */
};

struct mt_child_opts {
    const char  *program; /* NULL: argv[0], looked for as a shell does, by the PATH of `env` */
    char *const *argv, *const *env;
    const char *dir; /* NULL: where we are */
    struct {
        int fd, as;
    } fds[MT_CHILD_FDS_MAX]; /* what it is given: numbers of ours, whatever they are; of 0, 1, 2 what is not named is as ours */
    uint32_t              fd_count;
    rlim_t                fds_max; /* its soft limit of descriptors; 0: ours */
    int                   cgroup; /* a folder of the kernel's control groups (version 2), open: it is born there; 0: where we are */
    enum mt_child_session session;
    bool                  dies_with_parent;
    bool                  resets_signals; /* what we ignore it does not */
};

/* One more descriptor; there is room (MT_CHILD_FDS_MAX). */
static inline void mt_child_give(struct mt_child_opts *opts, int fd, int as)
{
    MT_ASSERT(opts->fd_count < MT_CHILD_FDS_MAX);
    opts->fds[opts->fd_count].fd = fd;
    opts->fds[opts->fd_count++].as = as;
}

/* Sets a variable in the environment of a child: `variable`, NAME=VALUE, takes the place of one of the same name, else it comes
 * behind the `count` others, where there is room for it. How many there are then. Each name stands once: of two, getenv would
 * take the first one, and a shell the last. */
size_t mt_child_env_set(char **env, size_t count, char *variable);

/* No signal is blocked in the child, and SIGPIPE is not ignored. The caller keeps what it gave.
 * MT_ENOENT: there is no such program, or folder; MT_ESYS: why it can't be run; MT_ENOMEM. */
MT_MUST_USE mt_status mt_child_start(const struct mt_child_opts *opts, pid_t *out_pid);

/* Whether a child can be born in that control group: one is, and ends at once. MT_ESYS: why not. */
MT_MUST_USE mt_status mt_child_try(int cgroup);

/* Of what mt_child_start fails with: the same program may well start the next time. */
static inline bool mt_child_may_pass(int err)
{
    return err == EAGAIN || err == ENOMEM || err == EMFILE || err == ENFILE;
}

/* A process and all that it has started, as far as they are its children still: at most `max`. How many. Those that begin or end
 * meanwhile may be missed. */
size_t mt_process_tree(pid_t root, pid_t *tree, size_t max);

/* SIGKILL to every child of this process's first thread (where a subreaper's orphans are too), but to those whose program
 * is called `spared` (at most 15 letters; NULL: to all). The caller is the only one who reaps them. */
void mt_children_kill(const char *spared);

#endif
