/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda.cuh - what the .cu files of this folder share: launches, sums over warps and blocks, bfloat16 eight at a time,
 * the tensor cores' instructions, and the entries from which plugin.cu builds its tables.
 *
 * The same files are compiled by g++ against tests/gpu/emulator, which runs each thread of a block as a fibre: so every
 * kernel is tested where there is no GPU. Therefore launches are written as K_LAUNCH, shared memory as K_SHARED and
 * K_DYNAMIC, and instructions for which CUDA C++ has no function stand in K_PTX blocks that the emulator replaces.
 */
#ifndef K_CUDA_H
#define K_CUDA_H

#include "kernels/half.h"

#include <cuda_runtime.h>

#ifdef __CUDACC__
#define K_LAUNCH(kernel, grid, block, shared, stream, ...) (kernel)<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
#define K_SHARED                                           __shared__
#define K_DYNAMIC(name)                                    extern __shared__ __align__(128) unsigned char name[]
#else
#define K_LAUNCH(kernel, grid, block, shared, stream, ...) \
    ((void)(stream), emulator_launch((grid), (block), (shared), [=] { kernel(__VA_ARGS__); }))
#define K_SHARED        static
#define K_DYNAMIC(name) unsigned char *name = emulator_shared()
#endif

/* ---- device.cu ---- */

cudaStream_t k_cuda_stream(struct k_stream *stream); /* NULL: the plugin's own */
int          k_cuda_processors(void);                /* multiprocessors of the device */
/* Scratch memory of the device for one entry's launches, which its stream orders; entries on two streams may not use it at
 * once (kernels.h promises one stream a table). */
enum { K_SCRATCH_BYTES = 128 << 20 };
void *k_cuda_scratch(void);
/* What the launches since the last look gave. */
mt_status k_cuda_launched(const char *what);

/* Blocks of `threads` for `count` elements, each thread taking several where there are many. */
static inline unsigned k_blocks(size_t count, unsigned threads)
{
    size_t blocks = (count + threads - 1) / threads, most = (size_t)k_cuda_processors() * 16;
    return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

/* ---- in kernels ---- */

#define K_EACH(i, count) \
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x, k_step = (size_t)gridDim.x * blockDim.x; i < (count); \
         i += k_step)

template <typename T> __device__ __forceinline__ T k_warp_sum(T x)
{
    for (int mask = 16; mask > 0; mask /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, mask);
    return x;
}

__device__ __forceinline__ float k_warp_max(float x)
{
    for (int mask = 16; mask > 0; mask /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, x, mask);
        x = other > x ? other : x;
    }
    return x;
}

/* Over a block of whole warps (at most 32), for all threads; every thread calls it. `of` has room for 32. */
template <typename T> __device__ __forceinline__ T k_block_sum(T x, T *of)
{
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = k_warp_sum(x);
    __syncthreads(); /* the last call's readers are done */
    if (lane == 0)
        of[warp] = x;
    __syncthreads();
    return k_warp_sum(lane < warps ? of[lane] : T(0));
}

__device__ __forceinline__ float k_block_max(float x, float *of)
{
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = k_warp_max(x);
    __syncthreads();
    if (lane == 0)
        of[warp] = x;
    __syncthreads();
    return k_warp_max(of[lane < warps ? lane : 0]);
}

/* ---- bfloat16 ---- */

__device__ __forceinline__ float k_float(k_half h)
{
    return __uint_as_float((unsigned)h << 16);
}

__device__ __forceinline__ float k_float(float f)
{
    return f;
}

/* Two floats to two halves, the first in the lower half of the word; to the nearest even, as k_half_of. */
__device__ __forceinline__ unsigned k_pack(float low, float high)
{
#ifdef __CUDACC__
    unsigned out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
#else
    return (unsigned)k_half_of(low) | (unsigned)k_half_of(high) << 16;
#endif
}

__device__ __forceinline__ k_half k_round(float x)
{
    return (k_half)(k_pack(x, 0.0f) & 0xffffu);
}

/* Eight halves, as one access of 16 bytes. */
struct k_eight {
    float v[8];
};

__device__ __forceinline__ k_eight k_eight_load(const k_half *from)
{
    uint4    raw = *(const uint4 *)from;
    k_eight  out;
    unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        out.v[2 * i] = __uint_as_float(words[i] << 16);
        out.v[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
    return out;
}

__device__ __forceinline__ void k_eight_store(k_half *to, const k_eight &x)
{
    uint4 raw = {k_pack(x.v[0], x.v[1]), k_pack(x.v[2], x.v[3]), k_pack(x.v[4], x.v[5]), k_pack(x.v[6], x.v[7])};
    *(uint4 *)to = raw;
}

/* ---- the elements' arithmetic, as the CPU's loops have it ---- */

__device__ __forceinline__ float k_gelu_gate(float x)
{
    return 1.0f / (1.0f + expf(-2.0f * 0.79788456f * (x + 0.044715f * x * x * x)));
}

__device__ __forceinline__ float k_gelu_slope(float x)
{
    float gate = k_gelu_gate(x);
    return gate + x * gate * (1.0f - gate) * ((1.0f + x * x * (3.0f * 0.044715f)) * (2.0f * 0.79788456f));
}

/* ---- entries ---- */

extern "C" {
mt_status k_unpack_cuda(struct k_stream *, const uint8_t *, float *, size_t, float, float);
mt_status k_bias_add_cuda(struct k_stream *, float *, const float *, size_t, size_t);
mt_status k_bias_grad_cuda(struct k_stream *, const float *, float *, size_t, size_t);
mt_status k_relu_forward_cuda(struct k_stream *, float *, size_t);
mt_status k_relu_backward_cuda(struct k_stream *, const float *, float *, size_t);
mt_status k_axpy_cuda(struct k_stream *, float, const float *, float *, size_t);
mt_status k_scale_cuda(struct k_stream *, float, float *, size_t);
mt_status k_sgd_update_cuda(struct k_stream *, const struct k_sgd *);
mt_status k_tree_sum_cuda(struct k_stream *, const float *const *, size_t, size_t, float *);
mt_status k_adamw_update_cuda(struct k_stream *, const struct k_adamw *);
mt_status k_sum_squares_cuda(struct k_stream *, const float *, size_t, double *);
mt_status k_dropout_cuda(struct k_stream *, float *, size_t, uint64_t, float);
mt_status k_gelu_forward_cuda(struct k_stream *, const float *, float *, size_t);
mt_status k_gelu_backward_cuda(struct k_stream *, const float *, float *, size_t);
mt_status k_layernorm_forward_cuda(struct k_stream *, const struct k_layernorm *);
mt_status k_layernorm_backward_cuda(struct k_stream *, const struct k_layernorm *);
mt_status k_embed_forward_cuda(struct k_stream *, const struct k_embed *);
mt_status k_embed_backward_cuda(struct k_stream *, const struct k_embed *);
mt_status k_pool_forward_cuda(struct k_stream *, const struct k_pool *);
mt_status k_pool_backward_cuda(struct k_stream *, const struct k_pool *);
mt_status k_xent_forward_cuda(struct k_stream *, const struct k_xent *);
mt_status k_xent_backward_cuda(struct k_stream *, const struct k_xent *);
mt_status k_conv_forward_cuda(struct k_stream *, const struct k_conv *);
mt_status k_conv_backward_cuda(struct k_stream *, const struct k_conv *);
mt_status k_attention_forward_cuda(struct k_stream *, const struct k_attention *);
mt_status k_attention_backward_cuda(struct k_stream *, const struct k_attention *);
mt_status k_gemm_cuda(struct k_stream *, const struct k_gemm *);

mt_status k_half_cast_cuda(struct k_stream *, const float *, k_half *, size_t);
mt_status k_half_gemm_cuda(struct k_stream *, const struct k_half_gemm *);
mt_status k_half_embed_forward_cuda(struct k_stream *, const struct k_half_embed *);
mt_status k_half_embed_backward_cuda(struct k_stream *, const struct k_half_embed *);
mt_status k_half_norm_forward_cuda(struct k_stream *, const struct k_half_norm *);
mt_status k_half_norm_backward_cuda(struct k_stream *, const struct k_half_norm *);
mt_status k_half_gelu_forward_cuda(struct k_stream *, const k_half *, k_half *, size_t);
mt_status k_half_gelu_backward_cuda(struct k_stream *, const k_half *, k_half *, size_t);
mt_status k_half_bias_grad_cuda(struct k_stream *, const k_half *, float *, size_t, size_t);
mt_status k_half_attention_forward_cuda(struct k_stream *, const struct k_half_attention *);
mt_status k_half_attention_backward_cuda(struct k_stream *, const struct k_half_attention *);
mt_status k_half_xent_cuda(struct k_stream *, const struct k_half_xent *);
}

#endif
