/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt2_file.c - llm.c's model files: a head of 256 int32, then the parameters as they stand in
 * the flat buffer. All little-endian. Owns nothing between calls. Thread: any.
 */
#include "sgd/ground/file.h"
#include "sgd/model/gpt2_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAGIC = 20240326, VERSION_F32 = 3, VERSION_BF16 = 5, HEAD_INTS = 256, HEAD_BYTES = 1024 };
enum { STEP_FLOATS = 1 << 16 };

/* ---- reading ---- */

struct source {
    int                   fd;
    struct sgd_gpt2_shape shape;
    bool                  is_bf16;
};

static mt_status head_take(const int32_t *head, struct source *source)
{
    for (int i = 2; i <= 7; i++)
        if (head[i] <= 0)
            return mt_error(MT_ECORRUPT, 0, "GPT-2 file: its shape can't be");
    source->shape = (struct sgd_gpt2_shape){.context = (uint32_t)head[2],
                                            .vocabulary = (uint32_t)head[3],
                                            .layers = (uint32_t)head[4],
                                            .heads = (uint32_t)head[5],
                                            .width = (uint32_t)head[6]};
    source->is_bf16 = head[1] == VERSION_BF16;
    if (sgd_gpt2_shape_check(&source->shape).code != 0 || (uint32_t)head[7] != sgd_gpt2_padded(source->shape.vocabulary))
        return mt_error(MT_ECORRUPT, 0, "GPT-2 file: its shape can't be");
    return mt_ok();
}

static mt_status head_read(struct source *source)
{
    int32_t     head[HEAD_INTS];
    struct stat info;

    if (fstat(source->fd, &info) != 0)
        return mt_error(MT_ESYS, errno, "GPT-2 file: look at it");
    MT_TRY(sgd_file_read(source->fd, head, sizeof head, 0));
    if (head[0] != MAGIC || (head[1] != VERSION_F32 && head[1] != VERSION_BF16))
        return mt_error(MT_ECORRUPT, 0, "GPT-2 file: not a model file of llm.c of version 3 or 5");
    MT_TRY(head_take(head, source));
    uint64_t size = sgd_gpt2_floats(&source->shape) * (source->is_bf16 ? 2 : 4) + HEAD_BYTES;
    if ((uint64_t)info.st_size != size)
        return mt_error(MT_ECORRUPT, 0, "GPT-2 file: cut short, or longer than its head says");
    return mt_ok();
}

static mt_status source_open(const char *path, struct source *source)
{
    source->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (source->fd < 0)
        return mt_error(errno == ENOENT || errno == ENOTDIR ? MT_ENOENT : MT_ESYS, errno, "open GPT-2 file");
    mt_status st = head_read(source);
    if (st.code != 0)
        close(source->fd);
    return st;
}

mt_status sgd_gpt2_file_shape(const char *path, struct sgd_gpt2_shape *out_shape)
{
    struct source source;
    MT_TRY(source_open(path, &source));
    *out_shape = source.shape;
    close(source.fd);
    return mt_ok();
}

/* A bfloat16 is the upper half of a float. */
static mt_status body_read(const struct source *source, float *params)
{
    uint64_t count = sgd_gpt2_floats(&source->shape);

    if (!source->is_bf16)
        return sgd_file_read(source->fd, params, count * sizeof *params, HEAD_BYTES);
    uint16_t *halves = malloc(STEP_FLOATS * sizeof *halves);
    mt_status st = halves ? mt_ok() : mt_error(MT_ENOMEM, 0, "GPT-2 file");
    for (uint64_t done = 0; done < count && st.code == 0; done += STEP_FLOATS) {
        uint64_t step = count - done < STEP_FLOATS ? count - done : STEP_FLOATS;
        st = sgd_file_read(source->fd, halves, step * sizeof *halves, HEAD_BYTES + done * sizeof *halves);
        for (uint64_t i = 0; i < step && st.code == 0; i++) {
            uint32_t bits = (uint32_t)halves[i] << 16;
            memcpy(params + done + i, &bits, sizeof bits);
        }
    }
    free(halves);
    return st;
}

mt_status sgd_gpt2_file_load(const char *path, const struct sgd_model *model, float *params)
{
    struct sgd_gpt2_shape want = sgd_gpt2_shape_of(model);
    struct source         source;

    MT_TRY(source_open(path, &source));
    mt_status st = memcmp(&want, &source.shape, sizeof want) == 0
                       ? body_read(&source, params)
                       : mt_error(MT_EINVAL, 0, "GPT-2 file: of another shape than the model");
    close(source.fd);
    return st;
}

/* ---- writing ---- */

static mt_status all_write(int fd, const struct sgd_model *model, const float *params)
{
    struct sgd_gpt2_shape s = sgd_gpt2_shape_of(model);
    int32_t               head[HEAD_INTS] = {MAGIC,
                                             VERSION_F32,
                                             (int32_t)s.context,
                                             (int32_t)s.vocabulary,
                                             (int32_t)s.layers,
                                             (int32_t)s.heads,
                                             (int32_t)s.width,
                                             (int32_t)sgd_gpt2_padded(s.vocabulary)};
    MT_TRY(sgd_file_write(fd, head, sizeof head));
    return sgd_file_write(fd, params, model->params.floats * sizeof *params);
}

mt_status sgd_gpt2_file_save(const char *path, const struct sgd_model *model, const float *params)
{
    char other[MT_PATH_BYTES_MAX];
    int  n = snprintf(other, sizeof other, "%s.%d.tmp", path, (int)getpid());

    if (n < 0 || (size_t)n >= sizeof other)
        return mt_error(MT_EINVAL, 0, "GPT-2 file: path too long");
    int fd = open(other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return sgd_file_error(errno, "create GPT-2 file");
    mt_status st = all_write(fd, model, params), finished = sgd_file_finish(fd);
    if (st.code == 0)
        st = finished;
    if (st.code == 0 && rename(other, path) != 0)
        st = sgd_file_error(errno, "name GPT-2 file");
    if (st.code != 0)
        unlink(other);
    return st;
}
