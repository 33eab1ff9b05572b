/* SPDX-License-Identifier: Apache-2.0
 *
 * table.cuh - the tables of the GPU's entries, but for memory: for the plugin and for tests/gpu/emulator.
 */
#ifndef K_CUDA_TABLE_H
#define K_CUDA_TABLE_H

#include "kernels/cuda/cuda.cuh"

static inline struct k_half_ops k_half_table_cuda(void)
{
    struct k_half_ops t = {};
    t.cast = k_half_cast_cuda, t.gemm = k_half_gemm_cuda;
    t.embed_forward = k_half_embed_forward_cuda, t.embed_backward = k_half_embed_backward_cuda;
    t.norm_forward = k_half_norm_forward_cuda, t.norm_backward = k_half_norm_backward_cuda;
    t.gelu_forward = k_half_gelu_forward_cuda, t.gelu_backward = k_half_gelu_backward_cuda;
    t.bias_grad = k_half_bias_grad_cuda;
    t.attention_forward = k_half_attention_forward_cuda, t.attention_backward = k_half_attention_backward_cuda;
    t.xent = k_half_xent_cuda;
    return t;
}

static inline struct k_ops k_table_cuda(const char *name, const struct k_half_ops *half)
{
    struct k_ops t = {};
    t.name = name, t.is_device = true, t.half = half;
    t.gemm = k_gemm_cuda, t.unpack = k_unpack_cuda, t.bias_add = k_bias_add_cuda, t.bias_grad = k_bias_grad_cuda;
    t.relu_forward = k_relu_forward_cuda, t.relu_backward = k_relu_backward_cuda;
    t.xent_forward = k_xent_forward_cuda, t.xent_backward = k_xent_backward_cuda;
    t.axpy = k_axpy_cuda, t.scale = k_scale_cuda, t.sgd_update = k_sgd_update_cuda, t.tree_sum = k_tree_sum_cuda;
    t.adamw_update = k_adamw_update_cuda, t.sum_squares = k_sum_squares_cuda, t.dropout = k_dropout_cuda;
    t.gelu_forward = k_gelu_forward_cuda, t.gelu_backward = k_gelu_backward_cuda;
    t.layernorm_forward = k_layernorm_forward_cuda, t.layernorm_backward = k_layernorm_backward_cuda;
    t.embed_forward = k_embed_forward_cuda, t.embed_backward = k_embed_backward_cuda;
    t.pool_forward = k_pool_forward_cuda, t.pool_backward = k_pool_backward_cuda;
    t.conv_forward = k_conv_forward_cuda, t.conv_backward = k_conv_backward_cuda;
    t.attention_forward = k_attention_forward_cuda, t.attention_backward = k_attention_backward_cuda;
    return t;
}

#endif
