/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu.h - the entries for processors, from which ../choose builds its tables.
 */
#ifndef K_CPU_H
#define K_CPU_H

#include "kernels/kernels.h"

k_gemm_entry k_gemm_cblas, k_gemm_amx;
/* Factors rounded to bfloat16, sums in float32. */
k_gemm_entry k_gemm_cblas_half, k_gemm_amx_half;
void         k_blas_set_threads(int threads);
/* Whether this CPU has bf16 tiles and the kernel lets this process use them; asks it to. */
bool k_amx_is_usable(void);

/* memory.c: the entries for memory of tables on the CPU. */
mt_status k_alloc_cpu(size_t size, void **out);
void      k_release_cpu(void *memory);
mt_status k_copy_cpu(struct k_stream *stream, void *to, const void *from, size_t size);
mt_status k_clear_cpu(struct k_stream *stream, void *to, size_t size);
mt_status k_wait_cpu(struct k_stream *stream);
mt_status k_pin_cpu(void *memory, size_t size);
void      k_unpin_cpu(void *memory);

enum { K_QUERIES = 64, K_QUERIES_MAX = 256 };
/* What attention is made of; the softmaxes are those of layers.c. */
struct k_attention_code {
    k_gemm_entry *gemm;
    size_t        queries; /* at a time, K_QUERIES_MAX at most: few where gemm makes no use of bands */
    void (*softmax)(float *scores, size_t rows, size_t stride, size_t seen, size_t cols, float scale, float *lse);
    void (*softmax_backward)(float *scores, float *grads, size_t rows, size_t stride, size_t seen, size_t cols, float scale,
                             const float *lse, const float *dot);
    float (*dot)(const float *a, const float *b, size_t count);
};

mt_status k_attention_forward_by(const struct k_attention_code *code, const struct k_attention *attention);
mt_status k_attention_backward_by(const struct k_attention_code *code, const struct k_attention *attention);

/* These entries exist once per build of vector.c, layers.c and conv.c; `v` names the build. */
/* clang-format off */
#define K_VECTOR_DECLARE(v) \
    mt_status k_unpack_##v(struct k_stream *, const uint8_t *, float *, size_t, float, float); \
    mt_status k_bias_add_##v(struct k_stream *, float *, const float *, size_t, size_t); \
    mt_status k_bias_grad_##v(struct k_stream *, const float *, float *, size_t, size_t); \
    mt_status k_relu_forward_##v(struct k_stream *, float *, size_t); \
    mt_status k_relu_backward_##v(struct k_stream *, const float *, float *, size_t); \
    mt_status k_axpy_##v(struct k_stream *, float, const float *, float *, size_t); \
    mt_status k_scale_##v(struct k_stream *, float, float *, size_t); \
    mt_status k_sgd_update_##v(struct k_stream *, const struct k_sgd *); \
    mt_status k_tree_sum_##v(struct k_stream *, const float *const *, size_t, size_t, float *); \
    mt_status k_adamw_update_##v(struct k_stream *, const struct k_adamw *); \
    mt_status k_sum_squares_##v(struct k_stream *, const float *, size_t, double *); \
    mt_status k_dropout_##v(struct k_stream *, float *, size_t, uint64_t, float); \
    mt_status k_gelu_forward_##v(struct k_stream *, const float *, float *, size_t); \
    mt_status k_gelu_backward_##v(struct k_stream *, const float *, float *, size_t); \
    mt_status k_layernorm_forward_##v(struct k_stream *, const struct k_layernorm *); \
    mt_status k_layernorm_backward_##v(struct k_stream *, const struct k_layernorm *); \
    mt_status k_embed_forward_##v(struct k_stream *, const struct k_embed *); \
    mt_status k_embed_backward_##v(struct k_stream *, const struct k_embed *); \
    mt_status k_pool_forward_##v(struct k_stream *, const struct k_pool *); \
    mt_status k_pool_backward_##v(struct k_stream *, const struct k_pool *); \
    mt_status k_xent_forward_##v(struct k_stream *, const struct k_xent *); \
    mt_status k_xent_backward_##v(struct k_stream *, const struct k_xent *); \
    void      k_softmax_causal_##v(float *, size_t, size_t, size_t, size_t, float, float *); \
    void      k_softmax_causal_backward_##v(float *, float *, size_t, size_t, size_t, size_t, float, \
                                            const float *, const float *); \
    mt_status k_conv_forward_by_##v(k_gemm_entry *, const struct k_conv *); \
    mt_status k_conv_backward_by_##v(k_gemm_entry *, const struct k_conv *); \
    float     k_dot_##v(const float *, const float *, size_t)
/* clang-format on */

K_VECTOR_DECLARE(plain);
#if defined(__x86_64__)
K_VECTOR_DECLARE(avx2);
K_VECTOR_DECLARE(avx512);
/* By bf16 tiles read from the picture; `gemm` is one of the two of gemm_amx.c. */
mt_status k_conv_forward_by_tiles(k_gemm_entry *gemm, const struct k_conv *conv);
mt_status k_conv_backward_by_tiles(k_gemm_entry *gemm, const struct k_conv *conv);
#endif

#endif
