/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors.c - writer and strict reader of the format.
 *
 * Owns: an open file and its table, until sgd_safetensors_close. Thread: any, one at a time per file.
 */
#include "sgd/save/safetensors.h"

#include "core/base/buf.h"
#include "sgd/ground/checksum.h"
#include "sgd/ground/file.h"
#include "core/text/json.h"
#include "sgd/model/model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format and this code are little-endian");

static const struct {
    const char *name;
    uint32_t    size;
} dtypes[] = {
#define X(name, size) {#name, size},
    SGD_DTYPES(X)
#undef X
};

static mt_status bad(const char *what)
{
    return mt_error(MT_ECORRUPT, 0, what);
}

/* Bytes of a tensor by its shape. EINVAL where that overflows. */
static mt_status tensor_size(const struct sgd_tensor *tensor, uint64_t *out_size)
{
    uint64_t size = dtypes[tensor->dtype].size;
    for (uint32_t d = 0; d < tensor->ndim; d++)
        if (__builtin_mul_overflow(size, tensor->shape[d], &size))
            return mt_error(MT_EINVAL, 0, "tensor: shape too large");
    *out_size = size;
    return mt_ok();
}

/* ---- writing ---- */

static mt_status entry_write(mt_buf *text, struct sgd_tensor *tensor, uint64_t begin)
{
    uint64_t size;
    if (!sgd_name_is_valid(tensor->name) || tensor->ndim > MT_TENSOR_DIMS_MAX)
        return mt_error(MT_EINVAL, 0, "write tensors: name or number of dimensions");
    MT_TRY(tensor_size(tensor, &size));
    if (begin % dtypes[tensor->dtype].size != 0)
        return mt_error(MT_EINVAL, 0, "write tensors: larger elements must come first");
    tensor->begin = begin;
    if (__builtin_add_overflow(begin, size, &tensor->end))
        return mt_error(MT_EINVAL, 0, "write tensors: too large");
    MT_TRY(mt_buf_printf(text, "\"%s\":{\"dtype\":\"%s\",\"shape\":[", tensor->name, dtypes[tensor->dtype].name));
    for (uint32_t d = 0; d < tensor->ndim; d++)
        MT_TRY(mt_buf_printf(text, "%s%llu", d ? "," : "", (unsigned long long)tensor->shape[d]));
    return mt_buf_printf(text, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)tensor->begin,
                         (unsigned long long)tensor->end);
}

static mt_status header_build(mt_buf *text, struct sgd_tensor *tensors, size_t count)
{
    uint64_t begin = 0;
    MT_TRY(mt_buf_printf(text, "{"));
    for (size_t i = 0; i < count; i++) {
        if (i)
            MT_TRY(mt_buf_printf(text, ","));
        MT_TRY(entry_write(text, &tensors[i], begin));
        begin = tensors[i].end;
    }
    MT_TRY(mt_buf_printf(text, "}"));
    while (text->size % 8)
        MT_TRY(mt_buf_printf(text, " "));
    return mt_ok();
}

static mt_status all_write(int fd, const mt_buf *header, const struct sgd_tensor *tensors, size_t count)
{
    struct sgd_stream stream;
    uint64_t          size = header->size;
    mt_status         st;

    MT_TRY(sgd_stream_init(&stream, fd, count ? tensors[count - 1].end : 0));
    MT_TRY_GOTO(st, sgd_stream_write(&stream, &size, sizeof size), err);
    MT_TRY_GOTO(st, sgd_stream_write(&stream, header->data, header->size), err);
    for (size_t i = 0; i < count; i++)
        MT_TRY_GOTO(st, sgd_stream_write(&stream, tensors[i].data, (size_t)(tensors[i].end - tensors[i].begin)), err);
    return sgd_stream_end(&stream);
err:
    sgd_stream_drop(&stream);
    return st;
}

mt_status sgd_safetensors_write(int fd, struct sgd_tensor *tensors, size_t count, uint64_t *out_header_checksum)
{
    mt_buf    text = {0};
    mt_status st;

    if (count > MT_TENSORS_MAX)
        return mt_error(MT_EINVAL, 0, "write tensors: too many");
    MT_TRY_GOTO(st, header_build(&text, tensors, count), done);
    MT_TRY_GOTO(st, all_write(fd, &text, tensors, count), done);
    *out_header_checksum = sgd_checksum(text.data, text.size);
done:
    mt_buf_fini(&text);
    return st;
}

/* ---- reading ---- */

static mt_status dtype_read(struct mt_json *json, enum sgd_dtype *out)
{
    char name[16];
    MT_TRY(mt_json_string(json, name, sizeof name));
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            *out = (enum sgd_dtype)i;
            return mt_ok();
        }
    }
    return mt_error(MT_EUNSUPPORTED, 0, "read tensors: unknown type of element");
}

static mt_status shape_read(struct mt_json *json, struct sgd_tensor *tensor)
{
    MT_TRY(mt_json_take(json, '['));
    if (mt_json_try(json, ']'))
        return mt_ok();
    do {
        if (tensor->ndim == MT_TENSOR_DIMS_MAX)
            return mt_error(MT_EUNSUPPORTED, 0, "read tensors: too many dimensions");
        MT_TRY(mt_json_u64(json, &tensor->shape[tensor->ndim++]));
    } while (mt_json_try(json, ','));
    return mt_json_take(json, ']');
}

static mt_status offsets_read(struct mt_json *json, struct sgd_tensor *tensor)
{
    MT_TRY(mt_json_take(json, '['));
    MT_TRY(mt_json_u64(json, &tensor->begin));
    MT_TRY(mt_json_take(json, ','));
    MT_TRY(mt_json_u64(json, &tensor->end));
    return mt_json_take(json, ']');
}

/* The object of one tensor: three keys, each once, in any order. */
static mt_status tensor_read(struct mt_json *json, struct sgd_tensor *tensor)
{
    unsigned seen = 0;
    uint64_t size;
    char     key[16];

    MT_TRY(mt_json_take(json, '{'));
    do {
        MT_TRY(mt_json_string(json, key, sizeof key));
        MT_TRY(mt_json_take(json, ':'));
        unsigned bit = strcmp(key, "dtype") == 0 ? 1 : strcmp(key, "shape") == 0 ? 2 : strcmp(key, "data_offsets") == 0 ? 4 : 0;
        if (bit == 0 || seen & bit)
            return bad("read tensors: unknown or repeated key");
        seen |= bit;
        MT_TRY(bit == 1 ? dtype_read(json, &tensor->dtype) : bit == 2 ? shape_read(json, tensor) : offsets_read(json, tensor));
    } while (mt_json_try(json, ','));
    MT_TRY(mt_json_take(json, '}'));
    if (seen != 7)
        return bad("read tensors: a key is missing");
    if (tensor_size(tensor, &size).code != 0 || tensor->end < tensor->begin || tensor->end - tensor->begin != size)
        return bad("read tensors: offsets don't match the shape");
    return mt_ok();
}

static mt_status metadata_skip(struct mt_json *json)
{
    MT_TRY(mt_json_take(json, '{'));
    if (mt_json_try(json, '}'))
        return mt_ok();
    do {
        MT_TRY(mt_json_string_skip(json));
        MT_TRY(mt_json_take(json, ':'));
        MT_TRY(mt_json_string_skip(json));
    } while (mt_json_try(json, ','));
    return mt_json_take(json, '}');
}

static mt_status table_add(struct sgd_safetensors *file, size_t *capacity, const struct sgd_tensor *tensor)
{
    if (file->count == MT_TENSORS_MAX)
        return mt_error(MT_EUNSUPPORTED, 0, "read tensors: too many");
    if (file->count == *capacity) {
        size_t             more = *capacity ? 2 * *capacity : 16;
        struct sgd_tensor *tensors = realloc(file->tensors, more * sizeof *tensors);
        if (!tensors)
            return mt_error(MT_ENOMEM, 0, "read tensors");
        file->tensors = tensors;
        *capacity = more;
    }
    file->tensors[file->count++] = *tensor;
    return mt_ok();
}

static mt_status table_read(struct sgd_safetensors *file, struct mt_json json)
{
    size_t capacity = 0;
    bool   has_metadata = false;

    if (json.next == json.end || *json.next != '{')
        return bad("read tensors: the header is not an object");
    MT_TRY(mt_json_take(&json, '{'));
    if (mt_json_try(&json, '}'))
        return mt_json_end(&json);
    do {
        struct sgd_tensor tensor = {0};
        MT_TRY(mt_json_string(&json, tensor.name, sizeof tensor.name));
        MT_TRY(mt_json_take(&json, ':'));
        if (strcmp(tensor.name, "__metadata__") == 0) {
            if (has_metadata)
                return bad("read tensors: metadata twice");
            has_metadata = true;
            MT_TRY(metadata_skip(&json));
            continue;
        }
        MT_TRY(tensor_read(&json, &tensor));
        MT_TRY(table_add(file, &capacity, &tensor));
    } while (mt_json_try(&json, ','));
    MT_TRY(mt_json_take(&json, '}'));
    return mt_json_end(&json);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct sgd_tensor *)a)->name, ((const struct sgd_tensor *)b)->name);
}

static int by_bytes(const void *a, const void *b)
{
    const struct sgd_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* No duplicate names; the tensors cover the data from its first byte to its last, each byte once. */
static mt_status table_check(struct sgd_safetensors *file)
{
    uint64_t next = 0;

    if (file->count)
        qsort(file->tensors, file->count, sizeof *file->tensors, by_name);
    for (size_t i = 1; i < file->count; i++)
        if (strcmp(file->tensors[i - 1].name, file->tensors[i].name) == 0)
            return bad("read tensors: a name stands twice");
    if (file->count)
        qsort(file->tensors, file->count, sizeof *file->tensors, by_bytes);
    for (size_t i = 0; i < file->count; i++) {
        if (file->tensors[i].begin != next)
            return bad("read tensors: overlap or hole");
        next = file->tensors[i].end;
    }
    return next == file->data_size ? mt_ok() : bad("read tensors: the file is shorter or longer than its tensors");
}

static mt_status header_read(struct sgd_safetensors *file, uint64_t file_size)
{
    mt_status st;

    if (file_size < 8)
        return bad("read tensors: truncated");
    MT_TRY(sgd_file_read(file->fd, &file->header_size, 8, 0));
    if (file->header_size > MT_TENSOR_HEADER_BYTES_MAX)
        return bad("read tensors: header over 100 MB");
    if (file->header_size > file_size - 8)
        return bad("read tensors: truncated");
    file->data_size = file_size - 8 - file->header_size;
    char *text = malloc(file->header_size + 1);
    if (!text)
        return mt_error(MT_ENOMEM, 0, "read tensors");
    MT_TRY_GOTO(st, sgd_file_read(file->fd, text, file->header_size, 8), done);
    file->header_checksum = sgd_checksum(text, file->header_size);
    MT_TRY_GOTO(st, table_read(file, (struct mt_json){text, text + file->header_size}), done);
    st = table_check(file);
done:
    free(text);
    return st;
}

mt_status sgd_safetensors_open(int dir, const char *name, struct sgd_safetensors *out_file)
{
    struct sgd_safetensors file = {.fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    struct stat            info;
    mt_status              st;

    if (file.fd < 0)
        return mt_error(errno == ENOENT ? MT_ENOENT : MT_ESYS, errno, "open tensor file");
    if (fstat(file.fd, &info) != 0)
        st = mt_error(MT_ESYS, errno, "stat tensor file");
    else if (!S_ISREG(info.st_mode))
        st = bad("read tensors: not a regular file");
    else
        st = header_read(&file, (uint64_t)info.st_size);
    if (st.code != 0)
        sgd_safetensors_close(&file);
    else
        *out_file = file;
    return st;
}

mt_status sgd_safetensors_read(const struct sgd_safetensors *file, uint64_t offset, void *out, size_t size)
{
    if (offset > file->data_size || size > file->data_size - offset)
        return mt_error(MT_EINVAL, 0, "read tensors: outside of the data");
    return sgd_file_read(file->fd, out, size, 8 + file->header_size + offset);
}

void sgd_safetensors_close(struct sgd_safetensors *file)
{
    close(file->fd);
    free(file->tensors);
    memset(file, 0, sizeof *file);
    file->fd = -1;
}
