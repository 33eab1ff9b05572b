/* SPDX-License-Identifier: Apache-2.0
 *
 * kept.h - what `manta sweep` keeps in a sweep's folder, so that `resume NAME` needs nothing else, wherever it is typed: the file
 * that describes it (sweep.yaml), and the folder that its relative paths were meant from (begun_in).
 *
 * Owns: nothing. Thread: the main one. All of it blocks on the disk.
 */
#ifndef CLI_SWEEP_KEPT_H
#define CLI_SWEEP_KEPT_H

#include "clients/cli/settings/settings.h"

#include <stdbool.h>

enum { KEPT_PATH_SIZE = 4096, KEPT_ERROR_SIZE = 4 * KEPT_PATH_SIZE };

/* Keeps them for the sweep `name` in `storage` (NULL: the default one). What was read, from a file or from standard input, takes
 * the place of what was kept. A disk that refuses costs the comfort of `resume`, and not the sweep. */
void kept_write(const char *storage, const char *name, const struct settings *read);

/* Enters the folder that the sweep was begun in. *out_file is the kept file's path, and *out_storage that of the folder that the
 * sweep's lies in, absolute both. False: `error` says why there is nothing to resume. */
bool kept_enter(const char *storage, const char *name, char out_file[KEPT_PATH_SIZE], char out_storage[KEPT_PATH_SIZE],
                char error[KEPT_ERROR_SIZE]);

#endif
