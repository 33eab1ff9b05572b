/* SPDX-License-Identifier: Apache-2.0
 *
 * cgroup.h - all processes that a node's jobs have started: bounded in number, found again, ended together.
 *
 * Two things hold them. A control group of the kernel (cgroup), where one may be made: nobody leaves it by setsid or by a
 * second fork, and it bounds how many there are. And a mark in their environment, which holds everywhere, but only those
 * that keep it.
 *
 * A group has parts, one for each program that the node starts; each has a bound of its own. Any thread; all calls block
 * on files of the kernel. What is made here is the kernel's: it stays until it is ended, whoever has died.
 */
#ifndef MT_GROUP_H
#define MT_GROUP_H

#include "core/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { MT_GROUP_PATH_SIZE = 1024, MT_GROUP_NAME_SIZE = 24, MT_GROUP_MARK_SIZE = 32 };

struct mt_cgroup {
    char path[MT_GROUP_PATH_SIZE]; /* "": no control group, the mark alone */
    char home[MT_GROUP_PATH_SIZE]; /* version 1: where the threads of this process belong */
    int  entered;                  /* version 2, between mt_cgroup_enter and mt_cgroup_leave: the part's folder, open; 0: none */
    bool is_v1;
    bool has_bound; /* the kernel counts its processes (version 2: only where the folder above hands `pids` down) */
};

/* Makes a group called manta-NUMBER for at most `pids` processes and threads. `place`: the folder to make it in, of the pids
 * tree of version 1 or of version 2; NULL: below the group of this process, version 1 first. ENOENT: this machine has no such
 * tree, or it is not ours to change; EINVAL: place is no folder of one. *out is then empty (path ""), and valid. */
MT_MUST_USE mt_status mt_cgroup_new(const char *place, uint64_t number, uint64_t pids, struct mt_cgroup *out);

/* What the calling thread starts from mt_cgroup_enter to mt_cgroup_leave with mt_child_start (`cgroup`: group->entered) is born in
 * this part, which is made; at most `pids` processes and threads. Failure: it stays outside; mt_cgroup_leave must follow all the
 * same. */
MT_MUST_USE mt_status mt_cgroup_enter(struct mt_cgroup *group, const char *part, uint64_t pids);
MT_MUST_USE mt_status mt_cgroup_leave(struct mt_cgroup *group);

/* Nobody lives in that part, so nobody can be born there. False: somebody does, or the kernel does not tell. */
bool mt_cgroup_is_empty(const struct mt_cgroup *group, const char *part);

/* Kills all processes of the group (part NULL: of all parts) and removes it. Tries so long. False: something is left. */
bool mt_cgroup_end(const char *path, const char *part, int limit_ms);

/* The mark of a node: a line for the environment of what it starts. */
void mt_cgroup_mark(uint64_t number, char out[MT_GROUP_MARK_SIZE]);
/* Kills all processes of this user (root: of all users) but this one that have that line in their environment, and those
 * that they start meanwhile. Tries so long; how many are left. */
size_t mt_cgroup_sweep(const char *mark, int limit_ms);

/* The record of a group in a folder, for who finds it after its maker's death. Each mark has a file of its own, so that who is done
 * with one group removes no other's record. Its name; false: it is too long. */
bool mt_cgroup_record(const char *folder, const char *mark, char *out, size_t size);
/* Writes that file. `path` "": there is no control group. ESYS. */
MT_MUST_USE mt_status mt_cgroup_save(const char *file, const char *path, const char *mark);
/* Ends what the records in a folder say, by both ways, and removes those that it could end. How many processes are left (a group
 * that could not be removed counts as one); no record: 0. */
size_t mt_cgroup_end_saved(const char *folder, int limit_ms);

#endif
