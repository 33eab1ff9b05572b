/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels.h - the arithmetic of training behind one table of functions, chosen once.
 *
 * A kernel is a family of files: its entry here, cpu/ (always built) and, where CUDA is built, cuda/
 * with the same interface. Callers hold a `const struct k_ops *` and never ask again where it runs.
 *
 * For every entry: it takes the stream first (NULL on the CPU), allocates nothing, never waits for the
 * device, and returns MT_EDEVICE where a launch failed. On the CPU it blocks for as long as the arithmetic
 * takes and is done when it returns. Matrices are dense, row-major float32. Outputs may not overlap inputs
 * unless the entry says "in place". Thread: any; entries share no state.
 *
 * Determinism: the result bits of an entry depend on its arguments, the table and the CPU's type only: not on
 * time, threads, alignment or the caller's process. Tables with different gemm code differ in the last bits.
 */
#ifndef K_KERNELS_H
#define K_KERNELS_H

#include "core/base/limits/train.h"
#include "core/base/status.h"

#include <stdbool.h>

struct k_stream; /* a CUDA stream; opaque here */

/* c[m x n] = op(a) op(b) + beta c, where op transposes on request: a is m x k (or k x m), b k x n (or n x k). */
enum k_band {
    K_ALL,
    K_C_LOWER, /* of row i of c only the columns up to first + i are wanted; the others may be set to anything */
    K_A_LOWER, /* row i of a (as it is multiplied) has only zeros after column first + i */
    K_A_UPPER  /* row i of a has only zeros before column i - first */
};
struct k_gemm {
    int          m, n, k;
    bool         a_transposed, b_transposed;
    float        beta; /* 0 (c need not be set before) or 1 (accumulate) */
    const float *a, *b;
    float       *c;
    int          lda, ldb, ldc; /* floats from a row, as it is stored, to the next; 0: rows lie one after the other */
    enum k_band  band;          /* what a table may make use of, and need not; `first` >= 0 */
    int          first;
};

typedef mt_status k_gemm_entry(struct k_stream *stream, const struct k_gemm *gemm);

static inline size_t k_gemm_lda(const struct k_gemm *g)
{
    return (size_t)(g->lda ? g->lda : g->a_transposed ? g->m : g->k);
}
static inline size_t k_gemm_ldb(const struct k_gemm *g)
{
    return (size_t)(g->ldb ? g->ldb : g->b_transposed ? g->k : g->n);
}
static inline size_t k_gemm_ldc(const struct k_gemm *g)
{
    return (size_t)(g->ldc ? g->ldc : g->n);
}

/* What an optimizer keeps and is smaller than this becomes 0: a value that nothing feeds would shrink into the denormal
 * numbers, each of which costs a hundred times a normal one. */
#define K_MOMENT_MIN 1e-30f

/* velocity = momentum velocity + gradient + decay parameter;  parameter -= rate velocity. */
struct k_sgd {
    float       *params, *velocity; /* in place */
    const float *grads;
    size_t       count;
    float        rate, momentum, decay;
};

/* Adam with decoupled decay (Loshchilov, Hutter, 2019), its means freed from their start at 0:
 * mean = beta1 mean + (1 - beta1) gradient;  square = beta2 square + (1 - beta2) gradient^2;
 * parameter -= rate (mean / (1 - beta1^step) / (sqrt(square / (1 - beta2^step)) + epsilon) + decay parameter). */
struct k_adamw {
    float       *params, *mean, *square; /* in place */
    const float *grads;
    size_t       count;
    uint64_t     step; /* of this update; the first is 1 */
    float        rate, beta1, beta2, epsilon, decay;
};

/* Rows of class scores with their labels (each below `classes`; an MT_ASSERT on the CPU). `logits`, `probs` and
 * `grads` may be one buffer. */
struct k_xent {
    const float   *logits; /* rows x classes */
    const uint8_t *labels; /* rows; or NULL, and `targets` */
    float         *probs;  /* rows x classes: written by forward, read by backward */
    float         *losses; /* rows: written by forward */
    float         *grads;  /* rows x classes: written by backward, d(scale * sum of losses) / d logits */
    float          scale;
    size_t         rows, classes;
    const int32_t *targets; /* rows: where there may be more classes than a byte holds */
    float         *right;   /* rows: forward writes 1 where no score is above the label's, else 0; NULL: not wanted */
};

/* Rows are brought to mean 0 and variance 1, then scaled and shifted column by column. */
struct k_layernorm {
    const float *x, *weight, *bias; /* rows x cols, cols, cols */
    float       *y;                 /* forward writes */
    float       *mean, *rstd;       /* rows: forward writes, backward reads; rstd is 1 / standard deviation */
    const float *dy;
    float       *dx, *dweight, *dbias; /* backward writes; dx may be dy */
    size_t       rows, cols;
};

/* out[r] = token[tokens[r]] + position[r mod time]; backward adds to both tables, row after row. */
struct k_embed {
    const int32_t *tokens; /* rows, each below the table's size, which the caller has checked */
    const float   *token, *position;
    float         *out; /* rows x cols */
    const float   *dout;
    float         *dtoken, *dposition; /* added to */
    size_t         rows, time, cols;
};

/* Causal self-attention with several heads: out = softmax(q k^T / sqrt(width / heads)) v, each position seeing
 * itself and those before it. */
struct k_attention {
    const float *qkv;  /* batch x time x 3 width: q, k, v of all heads, one after the other */
    float       *out;  /* batch x time x width: forward writes, backward reads */
    float       *lse;  /* batch x heads x time: log of the sum of exponentials; forward writes, backward reads */
    const float *dout; /* as out */
    float       *dqkv; /* backward writes */
    float       *work; /* k_attention_work() floats */
    size_t       batch, time, heads, width;
};

/* Convolution of pictures whose channels stand together ([y][x][channel]), stride 1. Weights are
 * [channels_out][y][x][channels_in]. */
struct k_conv {
    size_t       batch, height, width, channels_in, channels_out;
    size_t       kernel, pad; /* of both sides; kernel <= height + 2 pad, width + 2 pad */
    const float *x, *weight, *bias;
    float       *y; /* batch x (height + 2 pad - kernel + 1) x (width + ...) x channels_out: forward writes */
    const float *dy;
    float       *dx;              /* backward writes; NULL: not wanted */
    float       *dweight, *dbias; /* backward writes, or with `adds` adds to them */
    bool         adds;
    float       *work; /* k_conv_work() floats */
};

/* The largest of each square of `size` x `size`; what is left over at the right and below is not looked at. */
struct k_pool {
    size_t       batch, height, width, channels, size;
    const float *x;
    float       *y; /* forward writes, backward reads */
    const float *dy;
    float       *dx; /* backward writes: all of it goes to the first of the largest */
};

struct k_half_ops; /* half.h */

struct k_ops {
    const char              *name;      /* which code: "reference", "cblas+avx2", "amx+avx512", "cuda", ... */
    bool                     is_device; /* buffers of the entries are the device's; whole batches in a call are what is fast */
    const struct k_half_ops *half;      /* the same arithmetic on bfloat16 (half.h); NULL: there is none */

    /* Memory for the entries' buffers, zeroed, aligned to 16 bytes. ENOMEM. These two may block. */
    mt_status (*alloc)(size_t size, void **out);
    void (*release)(void *memory);
    /* Between buffers of the entries and the caller's own memory, in any direction. On a device the caller's memory is
     * borrowed until `wait`. */
    mt_status (*copy)(struct k_stream *stream, void *to, const void *from, size_t size);
    mt_status (*clear)(struct k_stream *stream, void *to, size_t size);
    /* Blocks until all that was asked of the stream is done. EDEVICE: something of it failed, then or before. */
    mt_status (*wait)(struct k_stream *stream);
    /* From here to `unpin`, which must come before the memory is given back, copies between this memory of the caller's and a
     * device go at the full speed of the bus. It costs time once, and after an error nothing but speed is lost. */
    mt_status (*pin)(void *memory, size_t size);
    void (*unpin)(void *memory);

    k_gemm_entry *gemm;
    /* out[i] = in[i] * scale + shift: bytes of a picture to the network's input. */
    mt_status (*unpack)(struct k_stream *stream, const uint8_t *in, float *out, size_t count, float scale, float shift);
    /* Adds bias[cols] to each row of x, in place. */
    mt_status (*bias_add)(struct k_stream *stream, float *x, const float *bias, size_t rows, size_t cols);
    /* out[cols] = sum of the rows of x, from the first row to the last. */
    mt_status (*bias_grad)(struct k_stream *stream, const float *x, float *out, size_t rows, size_t cols);
    /* x = max(x, 0), in place; what is not a number stays so, and shows in the loss. */
    mt_status (*relu_forward)(struct k_stream *stream, float *x, size_t count);
    /* Clears grad where the forward output y is 0, in place. */
    mt_status (*relu_backward)(struct k_stream *stream, const float *y, float *grad, size_t count);
    mt_status (*xent_forward)(struct k_stream *stream, const struct k_xent *xent);
    mt_status (*xent_backward)(struct k_stream *stream, const struct k_xent *xent);
    /* y += alpha x, in place. */
    mt_status (*axpy)(struct k_stream *stream, float alpha, const float *x, float *y, size_t count);
    /* x *= alpha, in place. */
    mt_status (*scale)(struct k_stream *stream, float alpha, float *x, size_t count);
    mt_status (*sgd_update)(struct k_stream *stream, const struct k_sgd *sgd);
    /* out = sum of `inputs` vectors, added as one fixed binary tree over their positions: ((0+1)+(2+3))+...,
     * whatever part of the vectors a call covers. This is what makes a gradient independent of the number of
     * workers. EINVAL where inputs is 0 or more than MT_VRANKS_MAX. */
    mt_status (*tree_sum)(struct k_stream *stream, const float *const *in, size_t inputs, size_t count, float *out);
    mt_status (*adamw_update)(struct k_stream *stream, const struct k_adamw *adamw);
    /* Sum of squares in double: the square of a gradient's norm; not finite where an element is not. Waits; `out` is the
     * caller's. */
    mt_status (*sum_squares)(struct k_stream *stream, const float *x, size_t count, double *out);
    /* Clears elements with probability `rate` and scales the others by 1 / (1 - rate), in place: activations in the
     * forward pass, then their gradient with the same key. Which ones depends on key and index only. */
    mt_status (*dropout)(struct k_stream *stream, float *x, size_t count, uint64_t key, float rate);
    /* GELU in the form with tanh. Backward replaces grad by that of x, in place. */
    mt_status (*gelu_forward)(struct k_stream *stream, const float *x, float *y, size_t count);
    mt_status (*gelu_backward)(struct k_stream *stream, const float *x, float *grad, size_t count);
    mt_status (*layernorm_forward)(struct k_stream *stream, const struct k_layernorm *norm);
    mt_status (*layernorm_backward)(struct k_stream *stream, const struct k_layernorm *norm);
    mt_status (*embed_forward)(struct k_stream *stream, const struct k_embed *embed);
    mt_status (*embed_backward)(struct k_stream *stream, const struct k_embed *embed);
    mt_status (*pool_forward)(struct k_stream *stream, const struct k_pool *pool);
    mt_status (*pool_backward)(struct k_stream *stream, const struct k_pool *pool);
    mt_status (*conv_forward)(struct k_stream *stream, const struct k_conv *conv);
    mt_status (*conv_backward)(struct k_stream *stream, const struct k_conv *conv);
    mt_status (*attention_forward)(struct k_stream *stream, const struct k_attention *attention);
    mt_status (*attention_backward)(struct k_stream *stream, const struct k_attention *attention);
};

/* Floats of scratch memory that the entries of any table want. */
size_t k_conv_work(const struct k_conv *conv);
size_t k_attention_work(const struct k_attention *attention);

enum k_kind {
    K_CPU,       /* the fastest that this CPU has; the width of its vectors does not change the bits */
    K_REFERENCE, /* naive loops: what the others are compared with */
    K_CUDA,      /* an NVIDIA GPU; the plugin libmanta_cuda.so is opened on first use */
};

struct k_config {
    enum k_kind kind;
    int         blas_threads; /* 0: one. More than one gives up the promise about result bits */
    bool        bf16;         /* K_CPU: factors of products are rounded to bfloat16, sums stay float32; all else is float32 */
    bool        no_tiles;     /* products by the BLAS library even where the CPU has bf16 tiles (AMX) */
    int         device;       /* K_CUDA: which of those that CUDA_VISIBLE_DEVICES leaves */
    bool        tf32;         /* K_CUDA: products of float32 by tensor cores, which read 10 bits of each factor's 23 */
};

/* Chooses the table, and sets the number of BLAS threads of this process (call it before any entry, from one
 * thread). The table lives for ever; a process has one device. EINVAL for a kind that does not exist. K_CUDA:
 * EUNSUPPORTED where this build has no CUDA part, or its libraries, a driver or such a device are not there; EDEVICE;
 * k_cuda_text says more. */
MT_MUST_USE mt_status k_ops_choose(const struct k_config *config, const struct k_ops **out_ops);

/* Whether K_CUDA could be chosen, without touching a device: the plugin's file, and a driver with at least one GPU.
 * EUNSUPPORTED: k_cuda_text says what is missing. */
MT_MUST_USE mt_status k_cuda_probe(void);
/* One line about the last choice or probe of CUDA in this process: what was found, or what is missing and what to do. */
const char *k_cuda_text(void);

/* The core type for which the BLAS library chose its code ("SkylakeX"); for logs and checkpoint manifests. */
const char *k_blas_core(void);

#endif
