/* SPDX-License-Identifier: Apache-2.0
 *
 * half.h - the arithmetic of a transformer on bfloat16: what GPT-2 on a GPU is made of.
 *
 * Activations and the factors of products are bfloat16; sums, statistics, losses and the gradients of parameters are
 * float32. Rules are those of kernels.h: the stream comes first, nothing is allocated, nothing waits. The reference is in
 * reference/half.c, the CUDA code in cuda/layers.cu, vector.cu, attention_half.cu and gemm.cu.
 *
 * Buffers are aligned to 16 bytes and widths are multiples of 8 (EINVAL on a device).
 */
#ifndef K_HALF_H
#define K_HALF_H

#include "kernels/kernels.h"

#include <string.h>

typedef uint16_t k_half; /* a bfloat16: the upper half of a float */

static inline float k_half_float(k_half half)
{
    uint32_t bits = (uint32_t)half << 16;
    float    out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

/* To the nearest, ties to even; what is not a number stays so. */
static inline k_half k_half_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (k_half)(bits >> 16 | 0x40u);
    return (k_half)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* c or c32 [m x n] = op(a) op(b) + bias + beta times what was there; row-major, rows one after the other. */
struct k_half_gemm {
    int           m, n, k;
    bool          a_transposed, b_transposed;
    float         beta; /* 0 or 1 */
    const k_half *a, *b;
    k_half       *c;    /* one of the two, */
    float        *c32;  /* the other NULL */
    const k_half *bias; /* n, of each row; NULL: none. With c and beta 0 only */
};

/* sum = x + plus; y = normalised sum, scaled and shifted. Backward: dx = carry + gradient of sum through y. */
struct k_half_norm {
    const k_half *x, *plus; /* rows x cols; plus may be NULL, then sum is not written */
    k_half       *sum, *y;
    const float  *weight, *bias;   /* cols */
    float        *mean, *rstd;     /* rows: forward writes, backward reads */
    const k_half *dy, *carry;      /* backward: `x` is the sum; carry may be NULL */
    k_half       *dx;              /* may be dy or carry */
    float        *dweight, *dbias; /* backward writes */
    size_t        rows, cols;
};

struct k_half_embed {
    const int32_t *tokens; /* rows, each below the table's size */
    const k_half  *token, *position;
    k_half        *out; /* rows x cols */
    const k_half  *dout;
    float         *dtoken;    /* added to */
    float         *dposition; /* time x cols: written */
    size_t         rows, time, cols;
};

/* As struct k_attention. On a device a head is 64 wide. */
struct k_half_attention {
    const k_half *qkv; /* batch x time x 3 width */
    k_half       *out;
    float        *lse; /* batch x heads x time */
    const k_half *dout;
    k_half       *dqkv;
    float        *dot; /* batch x heads x time: scratch of backward */
    size_t        batch, time, heads, width;
};

/* Losses of rows of scores, and, with `wants_gradient`, the scores become their gradient in place:
 * d(scale * sum of losses) / d scores. Columns from `classes` to `stride` are padding: not looked at, and 0 afterwards. */
struct k_half_xent {
    k_half        *scores; /* rows x stride */
    const int32_t *targets;
    float         *losses, *right; /* rows; right: 1 where no score is above the target's, else 0 */
    float          scale;
    bool           wants_gradient;
    size_t         rows, classes, stride;
};

struct k_half_ops {
    mt_status (*cast)(struct k_stream *stream, const float *in, k_half *out, size_t count);
    mt_status (*gemm)(struct k_stream *stream, const struct k_half_gemm *gemm);
    mt_status (*embed_forward)(struct k_stream *stream, const struct k_half_embed *embed);
    mt_status (*embed_backward)(struct k_stream *stream, const struct k_half_embed *embed);
    mt_status (*norm_forward)(struct k_stream *stream, const struct k_half_norm *norm);
    mt_status (*norm_backward)(struct k_stream *stream, const struct k_half_norm *norm);
    mt_status (*gelu_forward)(struct k_stream *stream, const k_half *x, k_half *y, size_t count);
    /* grad becomes that of x, in place. */
    mt_status (*gelu_backward)(struct k_stream *stream, const k_half *x, k_half *grad, size_t count);
    /* out[cols] = sum of the rows of x. */
    mt_status (*bias_grad)(struct k_stream *stream, const k_half *x, float *out, size_t rows, size_t cols);
    mt_status (*attention_forward)(struct k_stream *stream, const struct k_half_attention *attention);
    mt_status (*attention_backward)(struct k_stream *stream, const struct k_half_attention *attention);
    mt_status (*xent)(struct k_stream *stream, const struct k_half_xent *xent);
};

extern const struct k_half_ops k_half_reference;

#endif
