/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt2_shape.c - the sizes of a GPT-2: of each tensor, and of all. Owns nothing. Thread: any.
 */
#include "sgd/model/gpt2_private.h"

#include <string.h>

enum { LAYERS_MAX = 512, WIDTH_MAX = 1 << 16, CONTEXT_MAX = 1 << 20, VOCABULARY_MAX = 1 << 24 };
/* Of all parameters: 64 GiB of float32. */
#define FLOATS_MAX (UINT64_C(1) << 34)

uint32_t sgd_gpt2_padded(uint32_t vocabulary)
{
    return (vocabulary + 127) / 128 * 128;
}

void sgd_gpt2_tensor_shape(const struct sgd_gpt2_shape *s, enum gpt2_tensor tensor, uint32_t *out_ndim, uint64_t out[3])
{
    uint64_t       c = s->width, l = s->layers;
    const uint64_t shapes[GPT2_TENSORS][3] = {{sgd_gpt2_padded(s->vocabulary), c},
                                              {s->context, c},
                                              {l, c},
                                              {l, c},
                                              {l, 3 * c, c},
                                              {l, 3 * c},
                                              {l, c, c},
                                              {l, c},
                                              {l, c},
                                              {l, c},
                                              {l, 4 * c, c},
                                              {l, 4 * c},
                                              {l, c, 4 * c},
                                              {l, c},
                                              {c},
                                              {c}};
    memcpy(out, shapes[tensor], sizeof shapes[tensor]);
    *out_ndim = out[2] ? 3 : out[1] ? 2 : 1;
}

mt_status sgd_gpt2_shape_check(const struct sgd_gpt2_shape *s)
{
    if (s->layers == 0 || s->layers > LAYERS_MAX || s->width == 0 || s->width > WIDTH_MAX || s->context == 0 ||
        s->context > CONTEXT_MAX || s->vocabulary == 0 || s->vocabulary > VOCABULARY_MAX)
        return mt_error(MT_EINVAL, 0, "GPT-2: layers, width, context or vocabulary out of range");
    if (s->heads == 0 || s->width % s->heads != 0)
        return mt_error(MT_EINVAL, 0, "GPT-2: the number of heads must divide the width");
    if (sgd_gpt2_floats(s) > FLOATS_MAX)
        return mt_error(MT_EINVAL, 0, "GPT-2: too many parameters");
    return mt_ok();
}

uint64_t sgd_gpt2_floats(const struct sgd_gpt2_shape *shape)
{
    uint64_t floats = 0, dims[3];
    uint32_t ndim;
    for (size_t t = 0; t < GPT2_TENSORS; t++) {
        sgd_gpt2_tensor_shape(shape, (enum gpt2_tensor)t, &ndim, dims);
        floats += dims[0] * (ndim > 1 ? dims[1] : 1) * (ndim > 2 ? dims[2] : 1);
    }
    return floats;
}
