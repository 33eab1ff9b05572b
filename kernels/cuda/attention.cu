/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.cu - causal attention in float32 on a GPU, fused: scores are never stored.
 *
 * Owns nothing. A warp has one position of one head: forward its query, backward its query, then (a second kernel) its key
 * and value. It takes 32 partners at a time: a lane has the score of one, then all lanes add up that partner's vector, a
 * part each. Every sum is made by one warp in one order. This is the entry for exactness and for any head of up to 256;
 * the fast one is attention_half.cu.
 */
#include "kernels/cuda/cuda.cuh"

enum { WARPS = 4, PARTS_MAX = 8 }; /* 32 * PARTS_MAX: the widest head */

struct head_place {
    size_t width, stride; /* of the head; of a row of qkv */
    size_t qkv, out, lse; /* offsets of position 0: of q in qkv, in out, in lse */
    size_t at;            /* this warp's position */
};

__device__ __forceinline__ head_place place_of(const struct k_attention &a, size_t index)
{
    size_t     at = index % a.time, head = index / a.time % a.heads, sample = index / a.time / a.heads;
    head_place p = {a.width / a.heads, 3 * a.width, 0, 0, 0, at};
    p.qkv = sample * a.time * p.stride + head * p.width;
    p.out = sample * a.time * a.width + head * p.width;
    p.lse = (sample * a.heads + head) * a.time;
    return p;
}

__device__ __forceinline__ float dot(const float *a, const float *b, size_t count)
{
    float sum = 0.0f;
    for (size_t c = 0; c < count; c++)
        sum += a[c] * b[c];
    return sum;
}

__global__ void attention_forward_kernel(struct k_attention a, float scale)
{
    size_t index = (size_t)blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (index >= a.batch * a.heads * a.time)
        return;
    head_place   p = place_of(a, index);
    const float *q = a.qkv + p.qkv + p.at * p.stride, *k = a.qkv + p.qkv + a.width, *v = k + a.width;
    float        largest = -INFINITY, sum = 0.0f, out[PARTS_MAX] = {0};

    for (size_t first = 0; first <= p.at; first += 32) {
        size_t key = first + lane;
        float  score = key <= p.at ? dot(q, k + key * p.stride, p.width) * scale : -INFINITY;
        float  most = k_warp_max(score);
        most = most > largest ? most : largest;
        float share = expf(score - most), kept = expf(largest - most);
        largest = most;
        sum = sum * kept + k_warp_sum(share);
#pragma unroll
        for (int i = 0; i < PARTS_MAX; i++)
            out[i] *= kept;
        size_t count = p.at + 1 - first < 32 ? p.at + 1 - first : 32;
        for (size_t j = 0; j < count; j++) {
            float weight = __shfl_sync(0xffffffffu, share, (int)j);
#pragma unroll
            for (int i = 0; i < PARTS_MAX; i++)
                if (lane + 32 * i < p.width)
                    out[i] += weight * v[(first + j) * p.stride + lane + 32 * i];
        }
    }
#pragma unroll
    for (int i = 0; i < PARTS_MAX; i++)
        if (lane + 32 * i < p.width)
            a.out[p.out + p.at * a.width + lane + 32 * i] = out[i] / sum;
    if (lane == 0)
        a.lse[p.lse + p.at] = largest + logf(sum);
}

/* Gradient of the score of (query, key): its probability times (dout . v - dout . out), scaled. */
__device__ __forceinline__ float score_gradient(const struct k_attention &a, const head_place &p, size_t query, size_t key,
                                                float scale, float *out_share)
{
    const float *q = a.qkv + p.qkv + query * p.stride, *k = a.qkv + p.qkv + a.width + key * p.stride, *v = k + a.width;
    const float *dout = a.dout + p.out + query * a.width, *out = a.out + p.out + query * a.width;
    float        share = expf(dot(q, k, p.width) * scale - a.lse[p.lse + query]), sum = 0.0f;
    for (size_t c = 0; c < p.width; c++)
        sum += dout[c] * (v[c] - out[c]);
    *out_share = share;
    return share * sum * scale;
}

__global__ void attention_query_kernel(struct k_attention a, float scale)
{
    size_t index = (size_t)blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (index >= a.batch * a.heads * a.time)
        return;
    head_place   p = place_of(a, index);
    const float *k = a.qkv + p.qkv + a.width;
    float        dq[PARTS_MAX] = {0};

    for (size_t first = 0; first <= p.at; first += 32) {
        float share, gradient = 0.0f;
        if (first + lane <= p.at)
            gradient = score_gradient(a, p, p.at, first + lane, scale, &share);
        size_t count = p.at + 1 - first < 32 ? p.at + 1 - first : 32;
        for (size_t j = 0; j < count; j++) {
            float g = __shfl_sync(0xffffffffu, gradient, (int)j);
#pragma unroll
            for (int i = 0; i < PARTS_MAX; i++)
                if (lane + 32 * i < p.width)
                    dq[i] += g * k[(first + j) * p.stride + lane + 32 * i];
        }
    }
#pragma unroll
    for (int i = 0; i < PARTS_MAX; i++)
        if (lane + 32 * i < p.width)
            a.dqkv[p.qkv + p.at * p.stride + lane + 32 * i] = dq[i];
}

__global__ void attention_key_kernel(struct k_attention a, float scale)
{
    size_t index = (size_t)blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (index >= a.batch * a.heads * a.time)
        return;
    head_place   p = place_of(a, index);
    const float *q = a.qkv + p.qkv, *dout = a.dout + p.out;
    float        dk[PARTS_MAX] = {0}, dv[PARTS_MAX] = {0};

    for (size_t first = p.at; first < a.time; first += 32) {
        float share = 0.0f, gradient = 0.0f;
        if (first + lane < a.time)
            gradient = score_gradient(a, p, first + lane, p.at, scale, &share);
        size_t count = a.time - first < 32 ? a.time - first : 32;
        for (size_t j = 0; j < count; j++) {
            float g = __shfl_sync(0xffffffffu, gradient, (int)j), s = __shfl_sync(0xffffffffu, share, (int)j);
#pragma unroll
            for (int i = 0; i < PARTS_MAX; i++)
                if (lane + 32 * i < p.width) {
                    dk[i] += g * q[(first + j) * p.stride + lane + 32 * i];
                    dv[i] += s * dout[(first + j) * a.width + lane + 32 * i];
                }
        }
    }
#pragma unroll
    for (int i = 0; i < PARTS_MAX; i++)
        if (lane + 32 * i < p.width) {
            a.dqkv[p.qkv + a.width + p.at * p.stride + lane + 32 * i] = dk[i];
            a.dqkv[p.qkv + 2 * a.width + p.at * p.stride + lane + 32 * i] = dv[i];
        }
}

static mt_status size_check(const struct k_attention *a)
{
    if (a->width / a->heads > 32 * PARTS_MAX || a->batch * a->heads * a->time / WARPS >= INT32_MAX)
        return mt_error(MT_EINVAL, 0, "attention on the GPU: a head is wider than 256, or there are too many positions");
    return mt_ok();
}

static unsigned blocks_of(const struct k_attention *a)
{
    return (unsigned)((a->batch * a->heads * a->time + WARPS - 1) / WARPS);
}

mt_status k_attention_forward_cuda(struct k_stream *stream, const struct k_attention *a)
{
    MT_TRY(size_check(a));
    if (blocks_of(a))
        K_LAUNCH(attention_forward_kernel, blocks_of(a), 32 * WARPS, 0, k_cuda_stream(stream), *a,
                 1.0f / sqrtf((float)(a->width / a->heads)));
    return k_cuda_launched("attention on the GPU");
}

mt_status k_attention_backward_cuda(struct k_stream *stream, const struct k_attention *a)
{
    float scale = 1.0f / sqrtf((float)(a->width / a->heads));
    MT_TRY(size_check(a));
    if (blocks_of(a)) {
        K_LAUNCH(attention_query_kernel, blocks_of(a), 32 * WARPS, 0, k_cuda_stream(stream), *a, scale);
        K_LAUNCH(attention_key_kernel, blocks_of(a), 32 * WARPS, 0, k_cuda_stream(stream), *a, scale);
    }
    return k_cuda_launched("attention's gradient on the GPU");
}
