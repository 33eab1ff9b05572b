/* SPDX-License-Identifier: Apache-2.0
 *
 * tokens.c - reading texts and token files. Owns what it loads until sgd_tokens_fini. Thread: any.
 */
#include "sgd/data/tokens.h"

#include "sgd/ground/file.h"
#include "sgd/data/lzw.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX ((uint64_t)MT_DATA_FILE_MIB_MAX << 20)

enum { TOKEN_MAGIC = 20240520, TOKEN_HEAD = 1024 };
/* Of a "squished" text: bytes of a block, the number of blocks, then where each begins; all big-endian. */
enum { TEXT_BLOCK_AT = 84, TEXT_BLOCKS_AT = 88, TEXT_TABLE_AT = 92, TEXT_BLOCK_MAX = 1 << 20 };

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* ---- one kind of file each; `file` is all of it, and is taken over or freed by the caller ---- */

static mt_status text_unpack(const uint8_t *file, uint64_t size, struct sgd_tokens *tokens)
{
    uint64_t blocks = big_endian(file + TEXT_BLOCKS_AT), block = big_endian(file + TEXT_BLOCK_AT);

    if (block == 0 || block > TEXT_BLOCK_MAX || blocks == 0 || blocks > (size - TEXT_TABLE_AT) / 4)
        return mt_error(MT_ECORRUPT, 0, "text: its head can't be");
    tokens->data = malloc(blocks * block);
    if (!tokens->data)
        return mt_error(MT_ENOMEM, 0, "text");
    for (uint64_t i = 0; i < blocks; i++) {
        const uint8_t *entry = file + TEXT_TABLE_AT + 4 * i;
        uint64_t       begin = big_endian(entry), end = i + 1 < blocks ? big_endian(entry + 4) : size;
        size_t         written;
        if (begin > end || end > size)
            return mt_error(MT_ECORRUPT, 0, "text: a block lies outside of the file");
        MT_TRY(sgd_lzw_unpack(file + begin, end - begin, tokens->data + tokens->count, block, &written));
        if (written == 0 || (i + 1 < blocks && written != block))
            return mt_error(MT_ECORRUPT, 0, "text: a block is cut short");
        tokens->count += written;
    }
    return mt_ok();
}

static mt_status tokens_take(const uint8_t *file, uint64_t size, struct sgd_tokens *tokens)
{
    int32_t head[3];
    memcpy(head, file, sizeof head);
    if (head[1] != 1 || head[2] <= 0 || size != TOKEN_HEAD + 2 * (uint64_t)head[2])
        return mt_error(MT_ECORRUPT, 0, "token file: of another version, cut short, or longer than its head says");
    tokens->count = (uint64_t)head[2];
    tokens->width = 2;
    tokens->vocabulary = 0;
    tokens->data = malloc(2 * tokens->count);
    if (!tokens->data)
        return mt_error(MT_ENOMEM, 0, "token file");
    memcpy(tokens->data, file + TOKEN_HEAD, 2 * tokens->count);
    for (uint64_t i = 0; i < tokens->count; i++) {
        uint32_t token = (uint32_t)(tokens->data[2 * i] | tokens->data[2 * i + 1] << 8);
        tokens->vocabulary = token >= tokens->vocabulary ? token + 1 : tokens->vocabulary;
    }
    return mt_ok();
}

static mt_status bytes_take(const uint8_t *file, uint64_t size, struct sgd_tokens *tokens)
{
    tokens->data = malloc(size);
    if (!tokens->data)
        return mt_error(MT_ENOMEM, 0, "text");
    memcpy(tokens->data, file, size);
    tokens->count = size;
    return mt_ok();
}

/* ---- reading ---- */

static mt_status file_read(const char *path, uint8_t **out_file, uint64_t *out_size)
{
    struct stat info;
    int         fd = open(path, O_RDONLY | O_CLOEXEC);
    mt_status   st = mt_ok();

    if (fd < 0)
        return mt_error(errno == ENOENT || errno == ENOTDIR ? MT_ENOENT : MT_ESYS, errno, "open text");
    if (fstat(fd, &info) != 0)
        st = mt_error(MT_ESYS, errno, "open text");
    else if (!S_ISREG(info.st_mode) || info.st_size == 0 || (uint64_t)info.st_size > FILE_BYTES_MAX)
        st = mt_error(MT_ECORRUPT, 0, "text: empty, too large, or not a regular file");
    if (st.code == 0) {
        *out_size = (uint64_t)info.st_size;
        *out_file = malloc(*out_size);
        st = *out_file ? sgd_file_read(fd, *out_file, *out_size, 0) : mt_error(MT_ENOMEM, 0, "text");
    }
    close(fd);
    return st;
}

mt_status sgd_tokens_load(const char *path, struct sgd_tokens *out_tokens)
{
    struct sgd_tokens tokens = {.width = 1, .vocabulary = 256};
    uint8_t          *file = NULL;
    uint64_t          size = 0;
    int32_t           magic = TOKEN_MAGIC;

    mt_status st = file_read(path ? path : SGD_BIBLE_PATH, &file, &size);
    if (st.code == MT_ENOENT && !path)
        st = mt_error(MT_ENOENT, st.sys, "text not found: install the Debian package bible-kjv-text or name a file");
    if (st.code == 0 && size > TEXT_TABLE_AT && memcmp(file, "EC02", 4) == 0)
        st = text_unpack(file, size, &tokens);
    else if (st.code == 0 && size >= TOKEN_HEAD && memcmp(file, &magic, sizeof magic) == 0)
        st = tokens_take(file, size, &tokens);
    else if (st.code == 0)
        st = bytes_take(file, size, &tokens);
    free(file);
    if (st.code == 0)
        *out_tokens = tokens;
    else
        free(tokens.data);
    return st;
}

void sgd_tokens_fini(struct sgd_tokens *tokens)
{
    free(tokens->data);
    memset(tokens, 0, sizeof *tokens);
}

/* ---- windows ---- */

mt_status sgd_dataset_windows(const struct sgd_tokens *tokens, uint32_t context, bool is_train, struct sgd_dataset *out_set)
{
    uint64_t split = tokens->count / 10 * 9, first = is_train ? 0 : split, end = is_train ? split : tokens->count;

    if (context == 0 || end - first <= context)
        return mt_error(MT_EINVAL, 0, "windows: the text is too short for one");
    uint64_t  count = (end - first - 1) / context, stride = (uint64_t)context * tokens->width;
    uint64_t  record = stride + tokens->width;
    uint8_t  *records = malloc(count * record), *labels = calloc(count, 1);
    mt_status st = mt_error(MT_ENOMEM, 0, "windows");
    if (!records || !labels || record > UINT32_MAX)
        goto err;
    for (uint64_t i = 0; i < count; i++)
        memcpy(records + i * record, tokens->data + first * tokens->width + i * stride, record);
    MT_TRY_GOTO(st, sgd_dataset_borrow(records, labels, count, (uint32_t)record, out_set), err);
    out_set->owned_records = records;
    out_set->owned_labels = labels;
    return mt_ok();

err:
    free(records);
    free(labels);
    return st;
}
