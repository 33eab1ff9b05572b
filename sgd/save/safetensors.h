/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors.h - named tensors in one file, as huggingface/safetensors defines it.
 *
 *   0        8                8 + N
 *   +--------+----------------+----------------------------+
 *   | u64 N  | JSON header, N | tensors, without holes     |   little-endian; offsets count from 8 + N
 *   +--------+----------------+----------------------------+
 *
 * The reader trusts nothing: it refuses headers over 100 MB, unknown keys, duplicate names, overlaps, holes,
 * sizes that don't match their shapes, and anything after the last tensor. Calls block. Thread: any, one at a
 * time per file.
 */
#ifndef SGD_SAFETENSORS_H
#define SGD_SAFETENSORS_H

#include "core/base/limits/text.h"
#include "core/base/limits/train.h"
#include "core/base/status.h"

/* X(name, bytes of an element). Types of less than a byte are refused with EUNSUPPORTED. */
/* clang-format off */
#define SGD_DTYPES(X)                                                                                        \
    X(F32, 4)                                                                                                \
    X(F16, 2) X(BF16, 2) X(F64, 8) X(C64, 8) X(BOOL, 1) X(U8, 1) X(I8, 1) X(U16, 2) X(I16, 2) X(U32, 4)      \
        X(I32, 4) X(U64, 8) X(I64, 8) X(F8_E5M2, 1) X(F8_E4M3, 1) X(F8_E8M0, 1)
/* clang-format on */

enum sgd_dtype {
#define X(name, size) SGD_##name,
    SGD_DTYPES(X)
#undef X
};

struct sgd_tensor {
    char           name[MT_NAME_BYTES_MAX];
    enum sgd_dtype dtype;
    uint32_t       ndim;
    uint64_t       shape[MT_TENSOR_DIMS_MAX];
    uint64_t       begin, end; /* in the file's data; set by writer and reader */
    const void    *data;       /* for the writer: its bytes, borrowed; NULL from the reader */
};

struct sgd_safetensors {
    int                fd;
    uint64_t           header_size, data_size;
    uint64_t           header_checksum;
    struct sgd_tensor *tensors; /* in order of their bytes */
    size_t             count;
};

/* Writes the tensors in the given order and sets their offsets; gives the checksum of the header's bytes.
 * EINVAL for a name that needs escaping or an order that would leave a tensor unaligned; EDISK_FULL; ESYS.
 * Does not sync. */
MT_MUST_USE mt_status sgd_safetensors_write(int fd, struct sgd_tensor *tensors, size_t count, uint64_t *out_header_checksum);

/* Opens a file and reads its header. ENOENT, ECORRUPT, EUNSUPPORTED, ENOMEM, ESYS. End with
 * sgd_safetensors_close. */
MT_MUST_USE mt_status sgd_safetensors_open(int dir, const char *name, struct sgd_safetensors *out_file);

/* Reads `size` bytes of the data section from `offset`. */
MT_MUST_USE mt_status sgd_safetensors_read(const struct sgd_safetensors *file, uint64_t offset, void *out, size_t size);

void sgd_safetensors_close(struct sgd_safetensors *file);

#endif
