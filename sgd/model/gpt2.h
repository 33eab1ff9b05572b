/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt2.h - GPT-2 of any size over windows of tokens; its flat buffer is the body of llm.c's model files.
 *
 * A record is a window of context + 1 tokens of 1 or 2 bytes (tokens.h makes them): each of the first `context` is to
 * tell the next. A sample's loss is the mean over its positions, its "correct" the share of positions whose likeliest
 * token is right; labels are not looked at.
 *
 * Parameters, those of all layers in one tensor: wte [V', C], wpe [T, C], ln1w, ln1b [L, C], qkvw [L, 3C, C], qkvb,
 * attprojw [L, C, C], attprojb, ln2w, ln2b, fcw [L, 4C, C], fcb, fcprojw [L, C, 4C], fcprojb, lnfw, lnfb [C]. V' is
 * the vocabulary rounded up to a multiple of 128; the rows above it stay 0. wte also makes the scores at the end.
 */
#ifndef SGD_GPT2_H
#define SGD_GPT2_H

#include "kernels/kernels.h"
#include "sgd/model/model.h"

struct sgd_gpt2_shape {
    uint32_t layers, width, heads, context, vocabulary;
};

struct sgd_gpt2_config {
    const struct k_ops   *ops;         /* kept */
    struct sgd_gpt2_shape shape;       /* 0: 6, 256, 8, 256, 256 */
    uint32_t              token_bytes; /* 1 or 2, little-endian; 0: 1 where the vocabulary fits into a byte, else 2 */
    uint32_t              batch_max;   /* records in one call */
};

/* Makes a model; end it with model->ops->free. EINVAL for sizes out of range (heads must divide width), ENOMEM. */
MT_MUST_USE mt_status sgd_gpt2_new(const struct sgd_gpt2_config *config, struct sgd_model **out_model);

/* The same model on bfloat16 (kernels/half.h): float32 parameters and gradients, in the memory of config->ops, everything in
 * between rounded. EINVAL also where the table has no such entries, heads are not 64 wide, or rows no multiple of 8. */
MT_MUST_USE mt_status sgd_gpt2_half_new(const struct sgd_gpt2_config *config, struct sgd_model **out_model);

/* Files of llm.c: 256 int32 (20240326; 3: float32, 5: bfloat16; context, vocabulary, layers, heads, width, padded
 * vocabulary), then the parameters. Calls block. ENOENT: no such file; ECORRUPT: not such a file, cut short, too long,
 * or of a shape that can't be; EINVAL: of another shape than the model's. */

/* What a file holds: from this a model can be made. */
MT_MUST_USE mt_status sgd_gpt2_file_shape(const char *path, struct sgd_gpt2_shape *out_shape);
/* Fills the model's flat buffer; unchanged by an error other than ESYS. */
MT_MUST_USE mt_status sgd_gpt2_file_load(const char *path, const struct sgd_model *model, float *params);
/* Writes float32, into a file of another name that then takes the place of `path`. EDISK_FULL, ESYS. */
MT_MUST_USE mt_status sgd_gpt2_file_save(const char *path, const struct sgd_model *model, const float *params);

#endif
