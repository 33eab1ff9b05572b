/* SPDX-License-Identifier: Apache-2.0
 *
 * kept.h - files of data that came from another machine, kept by their SHA-256 in a folder of bounded size.
 *
 * A file stands there under its sum, in hexadecimal, or not at all: it is written under another name, summed up, synced and
 * renamed. The folder is this user's alone. Where a new file has no room, those go first that were used longest ago; who has
 * mapped one keeps its mapping. One process at a time fetches or removes; others wait.
 *
 * Thread: any; a struct has one user. Calls block on the disk.
 */
#ifndef SGD_KEPT_H
#define SGD_KEPT_H

#include "core/base/status.h"
#include "core/sha/sha256.h"

#include <stdint.h>

enum { SGD_KEPT_PATH_BYTES = 1024 };

struct sgd_kept {
    int      dir;
    uint64_t bytes_max;
    char     folder[SGD_KEPT_PATH_BYTES - MT_SHA256_HEX_SIZE - 1];
};

/* Gives bytes of the file, from where they are. */
typedef mt_status sgd_kept_read(void *user, uint64_t at, void *out, size_t size);

/* Makes the folder where it is missing; NULL: manta-data-USER in $TMPDIR, else /tmp. ESYS with EPERM: others may use it, or it
 * is no folder. */
MT_MUST_USE mt_status sgd_kept_open(struct sgd_kept *kept, const char *folder, uint64_t bytes_max);
void                  sgd_kept_close(struct sgd_kept *kept);

/* Where the file with this sum and size is; it is read where it is not there yet. EDISK_FULL: it is larger than the folder may be,
 * or the disk is full; ECORRUPT: what was read has another sum; ETIMEDOUT: another process reads since MT_TRAIN_DATA_MS; ESYS; what
 * `read` gives. After an error nothing of it stays. */
MT_MUST_USE mt_status sgd_kept_get(struct sgd_kept *kept, const uint8_t sum[MT_SHA256_SIZE], uint64_t size, sgd_kept_read *read,
                                   void *user, char out_path[SGD_KEPT_PATH_BYTES]);

#endif
