/* SPDX-License-Identifier: Apache-2.0
 *
 * plug.h - pulls the plug: what a disk that holds only what was synced still has of a folder.
 *
 *     plug_watch(folder, notes);       from now on each fsync and fdatasync in `folder` is noted in the empty
 * folder `notes`
 *     ...                              the code under test
 *     plug_pull(folder, notes, after); `after` is made: `folder` as it would be found when the power comes
 * back
 *
 * A process that has the library preloaded watches by itself: PLUG_FOLDER and PLUG_NOTES in its environment.
 *
 * Thread: plug_watch before others run; syncs are noted from any thread.
 */
#ifndef TESTS_PLUG_PLUG_H
#define TESTS_PLUG_PLUG_H

/* `folder` as the kernel names it (no link in the path). */
void plug_watch(const char *folder, const char *notes);
/* `after` must not exist, the one above it must. 0, or -1 with errno. */
int plug_pull(const char *folder, const char *notes, const char *after);

#endif
