/* SPDX-License-Identifier: Apache-2.0
 *
 * idx.h - IDX files of unsigned bytes (the MNIST family), plain or gzipped. A file is not trusted.
 *
 *   0     1     2     3      4               4 + 4 ndim
 *   +-----+-----+-----+------+---------------+-----------
 *   |  0  |  0  | 0x8 | ndim | dims (u32 BE) | bytes
 *   +-----+-----+-----+------+---------------+-----------
 */
#ifndef SGD_IDX_H
#define SGD_IDX_H

#include "core/base/limits/text.h"
#include "core/base/limits/train.h"
#include "core/base/status.h"

enum { SGD_IDX_DIMS_MAX = 4 };

struct sgd_idx {
    uint32_t ndim;
    uint32_t dims[SGD_IDX_DIMS_MAX];
    size_t   size;
    uint8_t *data; /* free() */
};

/* Reads a whole file. Blocks. ENOENT: no such file; ECORRUPT: not such a file, truncated, or longer than its
 * header says; ENOMEM; ESYS. The caller frees data. */
MT_MUST_USE mt_status sgd_idx_read(const char *path, struct sgd_idx *out_idx);

#endif
