/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint_private.h - names in a folder of checkpoints, shared by saving and loading.
 */
#ifndef SGD_CHECKPOINT_PRIVATE_H
#define SGD_CHECKPOINT_PRIVATE_H

#include "sgd/checkpoint.h"

#include <stdbool.h>

#define SGD_MODEL_FILE "model.safetensors"
#define SGD_MANIFEST_FILE "manifest.json"

/* "step-" and twenty digits: sorts by name as by number. */
void sgd_checkpoint_name(uint64_t step, char out[SGD_CHECKPOINT_NAME_SIZE]);
/* False where the name is no checkpoint's. */
bool sgd_checkpoint_parse(const char *name, uint64_t *out_step);

/* The steps that have a folder, newest first; free(*out_steps). EAGAIN past MT_CHECKPOINTS_MAX, ENOMEM. */
MT_MUST_USE mt_status sgd_checkpoint_list(int dir, uint64_t **out_steps, size_t *out_count);

/* Reads the manifest of an open checkpoint folder; free(*out_text). ENOENT, ECORRUPT, ENOMEM, ESYS. */
MT_MUST_USE mt_status sgd_manifest_open(int checkpoint_dir, char **out_text, size_t *out_size);

#endif
