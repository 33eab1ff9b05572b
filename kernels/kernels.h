/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels.h - the arithmetic of training behind one table of functions, chosen once.
 *
 * A kernel is a family of files: its entry here, k_*_cpu.c (always built) and, where CUDA is built, k_*.cu
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

#include "core/base/limits.h"
#include "core/base/status.h"

#include <stdbool.h>

struct k_stream; /* a CUDA stream; opaque here */

/* c[m x n] = op(a) op(b) + beta c, where op transposes on request: a is m x k (or k x m), b k x n (or n x k). */
struct k_gemm {
    int          m, n, k;
    bool         a_transposed, b_transposed;
    float        beta; /* 0 (c need not be set before) or 1 (accumulate) */
    const float *a, *b;
    float       *c;
};

/* velocity = momentum velocity + gradient + decay parameter;  parameter -= rate velocity. */
struct k_sgd {
    float       *params, *velocity; /* in place */
    const float *grads;
    size_t       count;
    float        rate, momentum, decay;
};

/* Rows of class scores with their labels (each below `classes`; an MT_ASSERT on the CPU). */
struct k_xent {
    const float   *logits; /* rows x classes */
    const uint8_t *labels; /* rows */
    float         *probs;  /* rows x classes: written by forward, read by backward */
    float         *losses; /* rows: written by forward */
    float         *grads;  /* rows x classes: written by backward, d(scale * sum of losses) / d logits */
    float          scale;
    size_t         rows, classes;
};

struct k_ops {
    const char *name; /* which code: "reference", "cblas", "cblas+avx2" */

    mt_status (*gemm)(struct k_stream *stream, const struct k_gemm *gemm);
    /* out[i] = in[i] * scale + shift: bytes of a picture to the network's input. */
    mt_status (*unpack)(struct k_stream *stream, const uint8_t *in, float *out, size_t count, float scale,
                        float shift);
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
    mt_status (*sgd_update)(struct k_stream *stream, const struct k_sgd *sgd);
    /* out = sum of `inputs` vectors, added as one fixed binary tree over their positions: ((0+1)+(2+3))+...,
     * whatever part of the vectors a call covers. This is what makes a gradient independent of the number of
     * workers. EINVAL where inputs is 0 or more than MT_VRANKS_MAX. */
    mt_status (*tree_sum)(struct k_stream *stream, const float *const *in, size_t inputs, size_t count,
                          float *out);
};

enum k_kind {
    K_CPU,       /* cblas, and the widest vectors that this CPU has; same bits with and without AVX2 */
    K_REFERENCE, /* naive loops: what the others are compared with */
};

struct k_config {
    enum k_kind kind;
    int         blas_threads; /* 0: one. More than one gives up the promise about result bits */
};

/* Chooses the table, and sets the number of BLAS threads of this process (call it before any entry, from one
 * thread). The table lives for ever. EINVAL for a kind that does not exist. */
MT_MUST_USE mt_status k_ops_choose(const struct k_config *config, const struct k_ops **out_ops);

/* The core type for which the BLAS library chose its code ("SkylakeX"); for logs and checkpoint manifests. */
const char *k_blas_core(void);

#endif
