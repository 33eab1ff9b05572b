/* SPDX-License-Identifier: Apache-2.0
 *
 * files.c - a file of tensors with the manifest of it: written and synced; read and compared.
 *
 * Owns: a loaded checkpoint's memory, until sgd_checkpoint_fini. Thread: any, one at a time per checkpoint.
 */
#include "sgd/save/private.h"

#include "sgd/ground/checksum.h"
#include "sgd/ground/file.h"
#include "sgd/save/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- writing ---- */

mt_status sgd_checkpoint_folder_open(const char *folder, int *out_dir)
{
    if (mkdir(folder, 0755) != 0 && errno != EEXIST)
        return errno == ENOENT ? mt_error(MT_ENOENT, errno, "make checkpoint folder: no parent")
                               : sgd_file_error(errno, "make checkpoint folder");
    return sgd_file_open_dir(AT_FDCWD, folder, out_dir);
}

mt_status sgd_checkpoint_file_write(int dir, const char *name, struct sgd_tensor *tensors, size_t count,
                                    uint64_t *out_header_checksum)
{
    int fd;
    MT_TRY(sgd_file_create(dir, name, &fd));
    mt_status st = sgd_safetensors_write(fd, tensors, count, out_header_checksum);
    if (st.code != 0) {
        close(fd);
        return st;
    }
    return sgd_file_finish(fd);
}

mt_status sgd_checkpoint_manifest_write(int dir, const char *name, const struct sgd_checkpoint_meta *meta, uint64_t header_checksum,
                                        const struct sgd_tensor *tensors, size_t count)
{
    mt_buf    text = {0};
    mt_status st;
    int       fd;

    MT_TRY_GOTO(st, sgd_manifest_write(&text, meta, header_checksum, tensors, count), done);
    if (text.size > MT_MANIFEST_BYTES_MAX) {
        st = mt_error(MT_EINVAL, 0, "save checkpoint: manifest too large");
        goto done;
    }
    MT_TRY_GOTO(st, sgd_file_create(dir, name, &fd), done);
    st = sgd_file_write(fd, text.data, text.size);
    if (st.code == 0)
        st = sgd_file_finish(fd);
    else
        close(fd);
done:
    mt_buf_fini(&text);
    return st;
}

/* ---- reading ---- */

static mt_status manifest_check(int dir, const char *name, const struct sgd_safetensors *file, uint64_t *sums,
                                struct sgd_checkpoint_meta *out_meta)
{
    struct sgd_manifest manifest = {.sums = sums};
    char               *text;
    size_t              size;

    MT_TRY(sgd_manifest_open(dir, name, &text, &size));
    mt_status st = sgd_manifest_read(text, size, file->tensors, file->count, &manifest);
    free(text);
    MT_TRY(st);
    if (manifest.header_checksum != file->header_checksum)
        return mt_error(MT_ECORRUPT, 0, "checkpoint: the tensor file's header is damaged");
    *out_meta = manifest.meta;
    return mt_ok();
}

static void beat(const struct sgd_beat *life)
{
    if (life->beat)
        life->beat(life->user);
}

/* Reads all tensors into one block, and compares the checksum of each. */
static mt_status tensors_read(struct sgd_safetensors *file, const uint64_t *sums, unsigned char *bytes, char *out_damaged,
                              const struct sgd_beat *life)
{
    for (uint64_t at = 0; at < file->data_size; at += MT_CHECKPOINT_PIECE_BYTES) {
        uint64_t left = file->data_size - at;
        MT_TRY(sgd_safetensors_read(file, at, bytes + at, left < MT_CHECKPOINT_PIECE_BYTES ? left : MT_CHECKPOINT_PIECE_BYTES));
        beat(life);
    }
    for (size_t i = 0; i < file->count; i++) {
        struct sgd_tensor *tensor = &file->tensors[i];
        tensor->data = bytes + tensor->begin;
        if (sgd_checksum(tensor->data, tensor->end - tensor->begin) != sums[i]) {
            memcpy(out_damaged, tensor->name, sizeof tensor->name);
            return mt_error(MT_ECORRUPT, 0, "checkpoint: a tensor's checksum differs");
        }
        beat(life);
    }
    return mt_ok();
}

static mt_status file_read(int dir, const char *file_name, const char *manifest_name, struct sgd_checkpoint *checkpoint,
                           char *out_damaged, const struct sgd_beat *life)
{
    struct sgd_safetensors file;
    unsigned char         *bytes = NULL;
    uint64_t              *sums = NULL;
    mt_status              st;

    MT_TRY(sgd_safetensors_open(dir, file_name, &file));
    sums = malloc((file.count + 1) * sizeof *sums);
    bytes = malloc(file.data_size + 1);
    if (!sums || !bytes) {
        st = mt_error(MT_ENOMEM, 0, "load checkpoint");
        goto done;
    }
    MT_TRY_GOTO(st, manifest_check(dir, manifest_name, &file, sums, &checkpoint->meta), done);
    MT_TRY_GOTO(st, tensors_read(&file, sums, bytes, out_damaged, life), done);
    checkpoint->bytes = bytes, bytes = NULL;
    checkpoint->tensors = file.tensors, file.tensors = NULL;
    checkpoint->count = file.count;
done:
    free(sums);
    free(bytes);
    sgd_safetensors_close(&file);
    return st;
}

mt_status sgd_checkpoint_file_get(const struct sgd_checkpoint_source *from, const char *file_name, const char *manifest_name,
                                  struct sgd_checkpoint *out, char *out_damaged)
{
    const struct sgd_elsewhere *e = from->elsewhere;
    mt_status                   st = file_read(from->dir, file_name, manifest_name, out, out_damaged, from->life);
    for (uint32_t i = 0; e && i < e->nodes_count && (st.code == MT_ENOENT || st.code == MT_ECORRUPT); i++) {
        struct sgd_bring what = {.node = e->nodes[i], .names = {from->name}, .file = file_name, .dir = from->dir};
        if (e->bring(e->user, &what).code != MT_OK)
            continue;
        what.file = manifest_name;
        if (e->bring(e->user, &what).code != MT_OK)
            continue;
        out_damaged[0] = 0;
        st = file_read(from->dir, file_name, manifest_name, out, out_damaged, from->life);
    }
    return st;
}

void sgd_checkpoint_fini(struct sgd_checkpoint *checkpoint)
{
    free(checkpoint->tensors);
    free(checkpoint->bytes);
    free(checkpoint->joined);
    memset(checkpoint, 0, sizeof *checkpoint);
}
