/* SPDX-License-Identifier: Apache-2.0
 *
 * idx.c - reading IDX files through zlib: the only file that includes zlib.h. Owns nothing between calls.
 * Thread: any.
 */
#include "sgd/data/idx.h"

#include <zlib.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#define DATA_BYTES_MAX ((uint64_t)MT_DATA_FILE_MIB_MAX << 20)

enum {
    GZ_BUFFER = 256 * 1024,
    DEFLATE_RATIO_MAX = 1032, /* deflate can't expand more: a larger claim is false, found before memory is asked for */
};

/* Reads exactly `size` bytes. zlib reports a truncated or damaged stream as an error or a short count. */
static mt_status read_exactly(gzFile file, void *out, size_t size)
{
    unsigned char *p = out;
    while (size) {
        unsigned step = size < MT_FILE_STEP_BYTES ? (unsigned)size : MT_FILE_STEP_BYTES;
        int      n = gzread(file, p, step);
        if (n <= 0)
            return mt_error(MT_ECORRUPT, 0, "read IDX file: truncated or damaged");
        p += n;
        size -= (size_t)n;
    }
    return mt_ok();
}

/* The end must come now; asking for it makes zlib check the stream's length and checksum. A stream that ends
 * before its trailer reads as an end all the same, and only leaves Z_BUF_ERROR behind. */
static mt_status expect_end(gzFile file)
{
    char extra;
    int  error = Z_OK, n = gzread(file, &extra, 1);
    gzerror(file, &error);
    if (n > 0)
        return mt_error(MT_ECORRUPT, 0, "read IDX file: longer than its header says");
    if (n < 0 || error != Z_OK)
        return mt_error(MT_ECORRUPT, 0, "read IDX file: truncated or damaged");
    return mt_ok();
}

static mt_status header_read(gzFile file, uint64_t file_size, struct sgd_idx *idx)
{
    unsigned char head[4], dim[4];
    uint64_t      size = 1;

    MT_TRY(read_exactly(file, head, sizeof head));
    if (head[0] || head[1] || head[2] != 0x08 || head[3] == 0 || head[3] > SGD_IDX_DIMS_MAX)
        return mt_error(MT_ECORRUPT, 0, "read IDX file: not an IDX file of bytes");
    idx->ndim = head[3];
    for (uint32_t d = 0; d < idx->ndim; d++) {
        MT_TRY(read_exactly(file, dim, sizeof dim));
        idx->dims[d] = (uint32_t)dim[0] << 24 | (uint32_t)dim[1] << 16 | (uint32_t)dim[2] << 8 | dim[3];
        if (idx->dims[d] && size > DATA_BYTES_MAX / idx->dims[d])
            return mt_error(MT_ECORRUPT, 0, "read IDX file: its header claims too much");
        size *= idx->dims[d];
    }
    if (size == 0 || size / DEFLATE_RATIO_MAX > file_size)
        return mt_error(MT_ECORRUPT, 0, "read IDX file: its header claims more than the file can hold");
    idx->size = (size_t)size;
    return mt_ok();
}

static mt_status body_read(gzFile file, struct sgd_idx *idx)
{
    mt_status st;
    idx->data = malloc(idx->size);
    if (!idx->data)
        return mt_error(MT_ENOMEM, 0, "read IDX file");
    MT_TRY_GOTO(st, read_exactly(file, idx->data, idx->size), err_free);
    MT_TRY_GOTO(st, expect_end(file), err_free);
    return mt_ok();

err_free:
    free(idx->data);
    return st;
}

mt_status sgd_idx_read(const char *path, struct sgd_idx *out_idx)
{
    struct sgd_idx idx = {0};
    struct stat    info;
    mt_status      st;

    if (stat(path, &info) != 0)
        return mt_error(errno == ENOENT || errno == ENOTDIR ? MT_ENOENT : MT_ESYS, errno, "find IDX file");
    if (!S_ISREG(info.st_mode))
        return mt_error(MT_ECORRUPT, 0, "read IDX file: not a regular file");
    gzFile file = gzopen(path, "rb");
    if (!file)
        return mt_error(MT_ESYS, errno, "open IDX file");
    gzbuffer(file, GZ_BUFFER);
    st = header_read(file, (uint64_t)info.st_size, &idx);
    if (st.code == 0)
        st = body_read(file, &idx);
    gzclose_r(file);
    if (st.code == 0)
        *out_idx = idx;
    return st;
}
