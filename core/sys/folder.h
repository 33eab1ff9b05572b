/* SPDX-License-Identifier: Apache-2.0
 *
 * folder.h - where this user's clusters on this machine have their runtime folder, and that of a private cluster: it goes with
 * the last of those who live in it, whatever ends them.
 *
 * Head and raylet hold the folder, each by a shared lock of the kernel, which goes with the process; the
 * driver holds it until the raylet does. Who leaves and finds that nobody holds it any more removes it. Where
 * all were killed at once, the next that makes such a folder beside it does.
 *
 * Thread: any. All calls block on the disk.
 */
#ifndef MT_BASE_FOLDER_H
#define MT_BASE_FOLDER_H

#include "core/base/status.h"

#include <stddef.h>

/* The runtime folder of this user on this machine; it need not exist. $XDG_RUNTIME_DIR/manta where that is a folder that can be
 * written, else /run/manta for root, else ~/.manta/run, else (HOME can't be written: containers) /tmp/manta-UID, which is made.
 * EINVAL: the path is too long. EAUTH: there is /tmp/manta-UID, and it is not ours alone; *out says it. */
MT_MUST_USE mt_status mt_folder_usual(char *out, size_t size);
/* Makes that folder (mode 0700) where it is not there. ESYS; EAUTH: it is no folder of this user's. */
MT_MUST_USE mt_status mt_folder_make(const char *path);
/* Makes a folder of a new name in `base` (mode 0700) and holds it. *out_fd is closed, or given to
 * mt_folder_leave. ESYS, EINVAL (the path is too long). */
MT_MUST_USE mt_status mt_folder_new(const char *base, char *out_path, size_t size, int *out_fd);
/* Holds a folder. ECONN: it is being removed, since nobody held it. ESYS. */
MT_MUST_USE mt_status mt_folder_hold(const char *path, int *out_fd);
/* Lets it go (take_fd -1: that was done before). Where nobody holds it then, or after `wait_ms` at most, it
 * is removed with all that is in it, and what its file `group` names is ended; a folder that mt_folder_new
 * has not made, only where it is empty. */
void mt_folder_leave(const char *path, int take_fd, int wait_ms);
/* Removes the folders in `base` that mt_folder_new has made and nobody holds any more. */
void mt_folder_sweep(const char *base);

#endif
