/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt2_private.h - what gpt2.c and gpt2_file.c share.
 */
#ifndef SGD_GPT2_PRIVATE_H
#define SGD_GPT2_PRIVATE_H

#include "sgd/model/gpt2.h"

/* Tensors in the order of the flat buffer. */
enum gpt2_tensor {
    WTE,
    WPE,
    LN1W,
    LN1B,
    QKVW,
    QKVB,
    ATTPROJW,
    ATTPROJB,
    LN2W,
    LN2B,
    FCW,
    FCB,
    FCPROJW,
    FCPROJB,
    LNFW,
    LNFB,
    GPT2_TENSORS
};

/* What each of the two models of a GPT-2 begins with: gpt2.c's, and that of gpt2_half.c. */
#define GPT2_BASE \
    struct sgd_model      model; \
    struct sgd_gpt2_shape shape; \
    uint32_t              token_bytes; \
    size_t                at[GPT2_TENSORS] /* in the flat buffer */

struct gpt2_base {
    GPT2_BASE;
};

/* Fills it from a configuration; sgd_params_fini in any case. EINVAL, ENOMEM. */
MT_MUST_USE mt_status sgd_gpt2_base_build(struct gpt2_base *base, const struct sgd_gpt2_config *config,
                                          const struct sgd_model_ops *ops);
/* model->ops->init of both; `params` is the host's. */
void sgd_gpt2_init(struct sgd_model *model, uint64_t seed, float *params);
/* A batch's tokens, and what they are to tell, one for each row. EINVAL. */
MT_MUST_USE mt_status sgd_gpt2_tokens(const struct gpt2_base *base, const struct sgd_batch *batch, int32_t *tokens,
                                      int32_t *targets);

/* The shape of a model that is a GPT-2. */
struct sgd_gpt2_shape sgd_gpt2_shape_of(const struct sgd_model *model);
/* EINVAL where no model has this shape. */
MT_MUST_USE mt_status sgd_gpt2_shape_check(const struct sgd_gpt2_shape *shape);
uint32_t              sgd_gpt2_padded(uint32_t vocabulary);
/* Floats of all parameters; the shape is checked. */
uint64_t sgd_gpt2_floats(const struct sgd_gpt2_shape *shape);
/* Rows (of all layers) and columns of a tensor; columns 0: it has one dimension less. */
void sgd_gpt2_tensor_shape(const struct sgd_gpt2_shape *s, enum gpt2_tensor tensor, uint32_t *out_ndim, uint64_t out[3]);

#endif
