/* SPDX-License-Identifier: Apache-2.0
 *
 * dispatch.c - the tables, and the choice between them.
 *
 * Owns: nothing that changes. Thread: any.
 */
#include "kernels/k_private.h"

#define TABLE(title, gemm_entry, v)                                                                          \
    {                                                                                                        \
        .name = title, .gemm = gemm_entry, .unpack = k_unpack_##v, .bias_add = k_bias_add_##v,               \
        .bias_grad = k_bias_grad_##v, .relu_forward = k_relu_forward_##v,                                    \
        .relu_backward = k_relu_backward_##v, .xent_forward = k_xent_forward_cpu,                            \
        .xent_backward = k_xent_backward_cpu, .axpy = k_axpy_##v, .sgd_update = k_sgd_update_##v,            \
        .tree_sum = k_tree_sum_##v,                                                                          \
    }

static const struct k_ops ops_reference = TABLE("reference", k_gemm_reference, plain);
static const struct k_ops ops_cblas = TABLE("cblas", k_gemm_cblas, plain);
#if defined(__x86_64__)
static const struct k_ops ops_cblas_avx2 = TABLE("cblas+avx2", k_gemm_cblas, avx2);
#endif

static const struct k_ops *ops_cpu(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return &ops_cblas_avx2;
#endif
    return &ops_cblas;
}

mt_status k_ops_choose(const struct k_config *config, const struct k_ops **out_ops)
{
    if (config->kind != K_CPU && config->kind != K_REFERENCE)
        return mt_error(MT_EINVAL, 0, "choose kernels: no such kind");
    if (config->blas_threads < 0)
        return mt_error(MT_EINVAL, 0, "choose kernels: negative number of threads");
    k_blas_set_threads(config->blas_threads ? config->blas_threads : 1);
    *out_ops = config->kind == K_REFERENCE ? &ops_reference : ops_cpu();
    return mt_ok();
}
