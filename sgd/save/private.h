/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - names in a folder of checkpoints, shared by saving and loading.
 */
#ifndef SGD_CHECKPOINT_PRIVATE_H
#define SGD_CHECKPOINT_PRIVATE_H

#include "sgd/save/checkpoint.h"

#include <stdbool.h>

#define SGD_MODEL_FILE    "model.safetensors"
#define SGD_MANIFEST_FILE "manifest.json"

/* "step-" and twenty digits: sorts by name as by number. */
void sgd_checkpoint_name(uint64_t step, char out[SGD_CHECKPOINT_NAME_SIZE]);

/* The newest first. */
void sgd_steps_sort(uint64_t *steps, size_t count);
/* The steps that have a folder, newest first; free(*out_steps). EAGAIN past MT_CHECKPOINTS_MAX, ENOMEM. */
MT_MUST_USE mt_status sgd_checkpoint_list(int dir, uint64_t **out_steps, size_t *out_count);

/* Reads a manifest of an open checkpoint folder; free(*out_text). ENOENT, ECORRUPT, ENOMEM, ESYS. */
MT_MUST_USE mt_status sgd_manifest_open(int checkpoint_dir, const char *name, char **out_text, size_t *out_size);

enum { SGD_TEMP_NAME_SIZE = 80, SGD_PART_NAME_SIZE = 64 };
#define SGD_PART_PREFIX "optimizer-"

/* files.c: a file of tensors and the manifest of it, written and synced. */
MT_MUST_USE mt_status sgd_checkpoint_file_write(int dir, const char *name, struct sgd_tensor *tensors, size_t count,
                                                uint64_t *out_header_checksum);
MT_MUST_USE mt_status sgd_checkpoint_manifest_write(int dir, const char *name, const struct sgd_checkpoint_meta *meta,
                                                    uint64_t header_checksum, const struct sgd_tensor *tensors, size_t count);
/* Opens the folder of checkpoints, and makes it where only its parent is there. */
MT_MUST_USE mt_status sgd_checkpoint_folder_open(const char *folder, int *out_dir);

/* files.c: where a checkpoint's files are read. */
struct sgd_checkpoint_source {
    int                         dir;  /* of the checkpoint, here */
    const char                 *name; /* the checkpoint's, elsewhere */
    const struct sgd_elsewhere *elsewhere;
    const struct sgd_beat      *life;
};
/* Tensors of a file, read and compared with its manifest; what is missing or damaged here comes from elsewhere first. On an error
 * nothing is held. */
MT_MUST_USE mt_status sgd_checkpoint_file_get(const struct sgd_checkpoint_source *from, const char *file_name,
                                              const char *manifest_name, struct sgd_checkpoint *out, char *out_damaged);

/* parts.c */
void sgd_checkpoint_temp_name(uint64_t generation, const struct sgd_checkpoint_part *part, char out[SGD_TEMP_NAME_SIZE]);
/* Returns when all parts that belong into the folder are there. */
MT_MUST_USE mt_status sgd_checkpoint_parts_wait(int dir, const struct sgd_checkpoint_meta *meta,
                                                const struct sgd_checkpoint_part *part);

/* Reads the parts of a checkpoint whose model's file has been read, and adds what they are pieces of to its tensors. */
MT_MUST_USE mt_status sgd_checkpoint_parts_read(const struct sgd_checkpoint_source *from, struct sgd_checkpoint *checkpoint,
                                                char *out_damaged);

#endif
