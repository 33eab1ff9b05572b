/* SPDX-License-Identifier: Apache-2.0
 *
 * load.c - finding the newest checkpoint that is whole.
 *
 * Owns: a loaded checkpoint's memory, until sgd_checkpoint_fini. Thread: any, one at a time per checkpoint.
 */
#include "sgd/save/private.h"

#include "sgd/ground/checksum.h"
#include "sgd/ground/file.h"
#include "sgd/save/manifest.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

mt_status sgd_checkpoint_file_read(int dir, const char *file_name, const char *manifest_name, struct sgd_checkpoint *checkpoint,
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

static mt_status checkpoint_read(int dir, uint64_t step, struct sgd_checkpoint *out_checkpoint, char *out_damaged,
                                 const struct sgd_beat *life)
{
    struct sgd_checkpoint checkpoint = {0};
    int                   fd;

    sgd_checkpoint_name(step, checkpoint.name);
    MT_TRY(sgd_file_open_dir(dir, checkpoint.name, &fd));
    mt_status st = sgd_checkpoint_file_read(fd, SGD_MODEL_FILE, SGD_MANIFEST_FILE, &checkpoint, out_damaged, life);
    if (st.code == 0 && checkpoint.meta.parts)
        st = sgd_checkpoint_parts_read(fd, &checkpoint, out_damaged, life);
    close(fd);
    if (st.code != 0)
        sgd_checkpoint_fini(&checkpoint);
    if (st.code == 0 && checkpoint.meta.step != step) {
        sgd_checkpoint_fini(&checkpoint);
        st = mt_error(MT_ECORRUPT, 0, "checkpoint: its manifest names another step");
    }
    if (st.code == 0)
        *out_checkpoint = checkpoint;
    return st;
}

static void report_add(struct sgd_checkpoint_report *report, uint64_t step, mt_status why, const char *tensor)
{
    uint32_t i = report->skipped_count++;
    if (i >= MT_CHECKPOINTS_NAMED_MAX)
        return;
    sgd_checkpoint_name(step, report->skipped[i].name);
    report->skipped[i].why = why;
    memcpy(report->skipped[i].tensor, tensor, MT_NAME_BYTES_MAX);
}

mt_status sgd_checkpoint_load(const char *folder, struct sgd_checkpoint *out_checkpoint, struct sgd_checkpoint_report *report)
{
    return sgd_checkpoint_load_with(folder, out_checkpoint, report, &(struct sgd_beat){.beat = NULL});
}

mt_status sgd_checkpoint_load_with(const char *folder, struct sgd_checkpoint *out_checkpoint, struct sgd_checkpoint_report *report,
                                   const struct sgd_beat *life)
{
    uint64_t *steps = NULL;
    size_t    count = 0;
    int       dir;
    mt_status st;

    memset(report, 0, sizeof *report);
    MT_TRY(sgd_file_open_dir(AT_FDCWD, folder, &dir));
    MT_TRY_GOTO(st, sgd_checkpoint_list(dir, &steps, &count), done);
    st = mt_error(MT_ENOENT, 0, "load checkpoint: there is none that is valid");
    for (size_t i = 0; i < count; i++) {
        char      damaged[MT_NAME_BYTES_MAX] = "";
        mt_status why = checkpoint_read(dir, steps[i], out_checkpoint, damaged, life);
        if (why.code == 0 || why.code == MT_ENOMEM) {
            st = why;
            break;
        }
        report_add(report, steps[i], why, damaged);
    }
done:
    free(steps);
    close(dir);
    return st;
}

const struct sgd_tensor *sgd_checkpoint_find(const struct sgd_checkpoint *checkpoint, const char *name)
{
    for (size_t i = 0; i < checkpoint->count; i++)
        if (strcmp(checkpoint->tensors[i].name, name) == 0)
            return &checkpoint->tensors[i];
    return NULL;
}

void sgd_checkpoint_fini(struct sgd_checkpoint *checkpoint)
{
    free(checkpoint->tensors);
    free(checkpoint->bytes);
    free(checkpoint->joined);
    memset(checkpoint, 0, sizeof *checkpoint);
}
