/* SPDX-License-Identifier: Apache-2.0
 *
 * choose.c - the tables, and the choice between them.
 *
 * Owns: nothing that changes. Thread: any.
 */
#include "kernels/choose/choose.h"

#include "kernels/cpu/cpu.h"
#include "kernels/cuda/door.h"
#include "kernels/half.h"
#include "kernels/reference/reference.h"

#define TABLE(title, gemm_entry, v, t) \
    { \
        .name = title, .half = &k_half_reference, .alloc = k_alloc_cpu, .release = k_release_cpu, .copy = k_copy_cpu, \
        .clear = k_clear_cpu, .wait = k_wait_cpu, .pin = k_pin_cpu, .unpin = k_unpin_cpu, .gemm = gemm_entry, \
        .unpack = k_unpack_##v, .bias_add = k_bias_add_##v, .bias_grad = k_bias_grad_##v, .relu_forward = k_relu_forward_##v, \
        .relu_backward = k_relu_backward_##v, .xent_forward = k_xent_forward_##v, .xent_backward = k_xent_backward_##v, \
        .axpy = k_axpy_##v, .scale = k_scale_##v, .sgd_update = k_sgd_update_##v, .tree_sum = k_tree_sum_##v, \
        .adamw_update = k_adamw_update_##v, .sum_squares = k_sum_squares_##v, .dropout = k_dropout_##v, \
        .gelu_forward = k_gelu_forward_##v, .gelu_backward = k_gelu_backward_##v, .layernorm_forward = k_layernorm_forward_##v, \
        .layernorm_backward = k_layernorm_backward_##v, .embed_forward = k_embed_forward_##v, \
        .embed_backward = k_embed_backward_##v, .pool_forward = k_pool_forward_##v, .pool_backward = k_pool_backward_##v, \
        .conv_forward = k_conv_forward_##t, .conv_backward = k_conv_backward_##t, .attention_forward = k_attention_forward_##t, \
        .attention_backward = k_attention_backward_##t, \
    }

/* A table of products by `gemm_entry`, vectors of the build `v` and convolutions of the way `c`. */
#define TABLE_DEFINE(title, gemm_entry, queries, v, c, t) \
    static const struct k_attention_code attention_##t = {gemm_entry, queries, k_softmax_causal_##v, \
                                                          k_softmax_causal_backward_##v, k_dot_##v}; \
    static mt_status                     k_conv_forward_##t(struct k_stream *stream, const struct k_conv *conv) \
    { \
        (void)stream; \
        return k_conv_forward_by_##c(gemm_entry, conv); \
    } \
    static mt_status k_conv_backward_##t(struct k_stream *stream, const struct k_conv *conv) \
    { \
        (void)stream; \
        return k_conv_backward_by_##c(gemm_entry, conv); \
    } \
    static mt_status k_attention_forward_##t(struct k_stream *stream, const struct k_attention *attention) \
    { \
        (void)stream; \
        return k_attention_forward_by(&attention_##t, attention); \
    } \
    static mt_status k_attention_backward_##t(struct k_stream *stream, const struct k_attention *attention) \
    { \
        (void)stream; \
        return k_attention_backward_by(&attention_##t, attention); \
    } \
    static const struct k_ops ops_##t = TABLE(title, gemm_entry, v, t)

static const struct k_ops ops_reference = TABLE("reference", k_gemm_reference, plain, reference);
TABLE_DEFINE("cblas", k_gemm_cblas, K_QUERIES, plain, plain, cblas);
#if defined(__x86_64__)
TABLE_DEFINE("cblas+avx2", k_gemm_cblas, K_QUERIES, avx2, avx2, cblas_avx2);
TABLE_DEFINE("cblas+avx512", k_gemm_cblas, K_QUERIES, avx512, avx512, cblas_avx512);
TABLE_DEFINE("amx+avx512", k_gemm_amx, K_QUERIES_MAX, avx512, tiles, amx);
TABLE_DEFINE("cblas-bf16+avx2", k_gemm_cblas_half, K_QUERIES, avx2, avx2, half_avx2);
TABLE_DEFINE("cblas-bf16+avx512", k_gemm_cblas_half, K_QUERIES, avx512, avx512, half_avx512);
TABLE_DEFINE("amx-bf16+avx512", k_gemm_amx_half, K_QUERIES_MAX, avx512, tiles, half_amx);
#endif
TABLE_DEFINE("cblas-bf16", k_gemm_cblas_half, K_QUERIES, plain, plain, half);

static const struct k_ops *ops_cpu(bool no_tiles)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return !no_tiles && k_amx_is_usable() ? &ops_amx : &ops_cblas_avx512;
    if (__builtin_cpu_supports("avx2"))
        return &ops_cblas_avx2;
#endif
    (void)no_tiles;
    return &ops_cblas;
}

/* The same table, with products of bfloat16. */
static const struct k_ops *ops_cpu_half(bool no_tiles)
{
    const struct k_ops *full = ops_cpu(no_tiles);
#if defined(__x86_64__)
    if (full == &ops_amx)
        return &ops_half_amx;
    if (full == &ops_cblas_avx512)
        return &ops_half_avx512;
    if (full == &ops_cblas_avx2)
        return &ops_half_avx2;
#endif
    (void)full;
    return &ops_half;
}

mt_status k_ops_choose(const struct k_config *config, const struct k_ops **out_ops)
{
    if (config->kind == K_CUDA)
        return k_cuda_choose(config, out_ops);
    if (config->kind != K_CPU && config->kind != K_REFERENCE)
        return mt_error(MT_EINVAL, 0, "choose kernels: no such kind");
    if (config->bf16 && config->kind != K_CPU)
        return mt_error(MT_EINVAL, 0, "choose kernels: products of bfloat16 are an option of the CPU's");
    if (config->blas_threads < 0)
        return mt_error(MT_EINVAL, 0, "choose kernels: negative number of threads");
    k_blas_set_threads(config->blas_threads ? config->blas_threads : 1);
    *out_ops = config->kind == K_REFERENCE ? &ops_reference
               : config->bf16              ? ops_cpu_half(config->no_tiles)
                                           : ops_cpu(config->no_tiles);
    return mt_ok();
}

size_t k_ops_all(const struct k_ops *out[K_TABLES_MAX])
{
    size_t count = 0;
    out[count++] = &ops_reference;
    out[count++] = &ops_cblas;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        out[count++] = &ops_cblas_avx2;
    if (ops_cpu(true) == &ops_cblas_avx512)
        out[count++] = &ops_cblas_avx512;
    if (ops_cpu(false) == &ops_amx)
        out[count++] = &ops_amx;
#endif
    return count;
}
