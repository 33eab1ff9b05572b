/* SPDX-License-Identifier: Apache-2.0
 *
 * vector.cu - the elementwise entries, column sums, the fixed tree and the optimizers on a GPU.
 *
 * Owns nothing. Each element is computed by one thread in the order that the CPU has; sums are cut into pieces whose
 * number depends on sizes and device only, so the bits of a result do not depend on timing. Multiplications and additions
 * may be contracted, so the last bits differ from the CPU's.
 */
#include "kernels/cuda/cuda.cuh"

enum { THREADS = 256 };

/* ---- element by element ---- */

__global__ void unpack_kernel(const uint8_t *in, float *out, size_t count, float scale, float shift)
{
    K_EACH(i, count)
    out[i] = (float)in[i] * scale + shift;
}

mt_status k_unpack_cuda(struct k_stream *stream, const uint8_t *in, float *out, size_t count, float scale, float shift)
{
    if (count)
        K_LAUNCH(unpack_kernel, k_blocks(count, THREADS), THREADS, 0, k_cuda_stream(stream), in, out, count, scale, shift);
    return k_cuda_launched("unpack on the GPU");
}

__global__ void bias_add_kernel(float *x, const float *bias, size_t count, size_t cols)
{
    K_EACH(i, count)
    x[i] += bias[i % cols];
}

mt_status k_bias_add_cuda(struct k_stream *stream, float *x, const float *bias, size_t rows, size_t cols)
{
    if (rows > 0 && cols > 0)
        K_LAUNCH(bias_add_kernel, k_blocks(rows * cols, THREADS), THREADS, 0, k_cuda_stream(stream), x, bias, rows * cols, cols);
    return k_cuda_launched("add bias on the GPU");
}

__global__ void relu_forward_kernel(float *x, size_t count)
{
    K_EACH(i, count)
    x[i] = x[i] < 0.0f ? 0.0f : x[i];
}

mt_status k_relu_forward_cuda(struct k_stream *stream, float *x, size_t count)
{
    if (count)
        K_LAUNCH(relu_forward_kernel, k_blocks(count, THREADS), THREADS, 0, k_cuda_stream(stream), x, count);
    return k_cuda_launched("ReLU on the GPU");
}

__global__ void relu_backward_kernel(const float *y, float *grad, size_t count)
{
    K_EACH(i, count)
    grad[i] = y[i] > 0.0f ? grad[i] : 0.0f;
}

mt_status k_relu_backward_cuda(struct k_stream *stream, const float *y, float *grad, size_t count)
{
    if (count)
        K_LAUNCH(relu_backward_kernel, k_blocks(count, THREADS), THREADS, 0, k_cuda_stream(stream), y, grad, count);
    return k_cuda_launched("ReLU's gradient on the GPU");
}

__global__ void axpy_kernel(float alpha, const float *x, float *y, size_t count)
{
    K_EACH(i, count)
    y[i] += alpha * x[i];
}

mt_status k_axpy_cuda(struct k_stream *stream, float alpha, const float *x, float *y, size_t count)
{
    if (count)
        K_LAUNCH(axpy_kernel, k_blocks(count, THREADS), THREADS, 0, k_cuda_stream(stream), alpha, x, y, count);
    return k_cuda_launched("axpy on the GPU");
}

__global__ void scale_kernel(float alpha, float *x, size_t count)
{
    K_EACH(i, count)
    x[i] *= alpha;
}

mt_status k_scale_cuda(struct k_stream *stream, float alpha, float *x, size_t count)
{
    if (count)
        K_LAUNCH(scale_kernel, k_blocks(count, THREADS), THREADS, 0, k_cuda_stream(stream), alpha, x, count);
    return k_cuda_launched("scale on the GPU");
}

__global__ void gelu_forward_kernel(const float *x, float *y, size_t count)
{
    K_EACH(i, count)
    y[i] = x[i] * k_gelu_gate(x[i]);
}

mt_status k_gelu_forward_cuda(struct k_stream *stream, const float *x, float *y, size_t count)
{
    if (count)
        K_LAUNCH(gelu_forward_kernel, k_blocks(count, THREADS), THREADS, 0, k_cuda_stream(stream), x, y, count);
    return k_cuda_launched("GELU on the GPU");
}

__global__ void gelu_backward_kernel(const float *x, float *grad, size_t count)
{
    K_EACH(i, count)
    grad[i] *= k_gelu_slope(x[i]);
}

mt_status k_gelu_backward_cuda(struct k_stream *stream, const float *x, float *grad, size_t count)
{
    if (count)
        K_LAUNCH(gelu_backward_kernel, k_blocks(count, THREADS), THREADS, 0, k_cuda_stream(stream), x, grad, count);
    return k_cuda_launched("GELU's gradient on the GPU");
}

__device__ __forceinline__ uint32_t mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

__global__ void dropout_kernel(float *x, size_t count, uint32_t low, uint32_t high, uint32_t bound, float scale)
{
    K_EACH(i, count)
    x[i] = mix(mix((uint32_t)i + low) ^ high) >> 8 < bound ? 0.0f : x[i] * scale;
}

static uint32_t mix_on_host(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

mt_status k_dropout_cuda(struct k_stream *stream, float *x, size_t count, uint64_t key, float rate)
{
    uint32_t high = mix_on_host((uint32_t)(key >> 32) ^ 0x9e3779b9u), bound = (uint32_t)((double)rate * 16777216.0);
    if (!(rate >= 0.0f && rate < 1.0f) || count > UINT32_MAX)
        return mt_error(MT_EINVAL, 0, "dropout: rate or number of elements out of range");
    if (count)
        K_LAUNCH(dropout_kernel, k_blocks(count, THREADS), THREADS, 0, k_cuda_stream(stream), x, count, (uint32_t)key, high, bound,
                 1.0f / (1.0f - rate));
    return k_cuda_launched("dropout on the GPU");
}

/* ---- optimizers ---- */

__global__ void sgd_kernel(struct k_sgd s)
{
    K_EACH(i, s.count)
    {
        float next = s.momentum * s.velocity[i] + (s.grads[i] + s.decay * s.params[i]);
        next = fabsf(next) < K_MOMENT_MIN ? 0.0f : next;
        s.velocity[i] = next;
        s.params[i] -= s.rate * next;
    }
}

mt_status k_sgd_update_cuda(struct k_stream *stream, const struct k_sgd *sgd)
{
    if (sgd->count)
        K_LAUNCH(sgd_kernel, k_blocks(sgd->count, THREADS), THREADS, 0, k_cuda_stream(stream), *sgd);
    return k_cuda_launched("SGD on the GPU");
}

__device__ __forceinline__ float adamw_one(const struct k_adamw &a, float mean_scale, float square_scale, float g, float &m,
                                           float &s, float p)
{
    m = a.beta1 * m + (1.0f - a.beta1) * g;
    s = a.beta2 * s + (1.0f - a.beta2) * g * g;
    m = fabsf(m) < K_MOMENT_MIN ? 0.0f : m;
    s = s < K_MOMENT_MIN ? 0.0f : s;
    return p - a.rate * (m * mean_scale / (sqrtf(s * square_scale) + a.epsilon) + a.decay * p);
}

/* Four parameters a thread where all vectors lie at multiples of 16 bytes: 28 bytes moved for each, and little else. */
__global__ void adamw_kernel(struct k_adamw a, float mean_scale, float square_scale, size_t fours)
{
    K_EACH(i, fours)
    {
        float4 g = ((const float4 *)a.grads)[i], m = ((float4 *)a.mean)[i], s = ((float4 *)a.square)[i];
        float4 p = ((float4 *)a.params)[i];
        p.x = adamw_one(a, mean_scale, square_scale, g.x, m.x, s.x, p.x);
        p.y = adamw_one(a, mean_scale, square_scale, g.y, m.y, s.y, p.y);
        p.z = adamw_one(a, mean_scale, square_scale, g.z, m.z, s.z, p.z);
        p.w = adamw_one(a, mean_scale, square_scale, g.w, m.w, s.w, p.w);
        ((float4 *)a.mean)[i] = m;
        ((float4 *)a.square)[i] = s;
        ((float4 *)a.params)[i] = p;
    }
    K_EACH(i, a.count - 4 * fours)
    {
        size_t at = 4 * fours + i;
        a.params[at] = adamw_one(a, mean_scale, square_scale, a.grads[at], a.mean[at], a.square[at], a.params[at]);
    }
}

mt_status k_adamw_update_cuda(struct k_stream *stream, const struct k_adamw *a)
{
    float  mean_scale = (float)(1.0 / (1.0 - pow((double)a->beta1, (double)a->step)));
    float  square_scale = (float)(1.0 / (1.0 - pow((double)a->beta2, (double)a->step)));
    bool   is_aligned = (((uintptr_t)a->params | (uintptr_t)a->mean | (uintptr_t)a->square | (uintptr_t)a->grads) & 15) == 0;
    size_t fours = is_aligned ? a->count / 4 : 0;
    if (a->count)
        K_LAUNCH(adamw_kernel, k_blocks(fours ? fours : a->count, THREADS), THREADS, 0, k_cuda_stream(stream), *a, mean_scale,
                 square_scale, fours);
    return k_cuda_launched("AdamW on the GPU");
}

/* ---- sums ---- */

/* A block of 32 columns x 8 rows adds up its share of the rows; `out` has a row of sums for each piece (blockIdx.y). */
enum { SUM_ROWS = 8, SUM_PIECES = 128 };

template <typename T> __global__ void column_sum_kernel(const T *x, float *out, size_t rows, size_t cols)
{
    K_SHARED float part[SUM_ROWS][33];
    unsigned       lane = threadIdx.x % 32, row = threadIdx.x / 32;
    size_t         col = (size_t)blockIdx.x * 32 + lane, pieces = gridDim.y;
    size_t         first = rows * blockIdx.y / pieces, last = rows * (blockIdx.y + 1) / pieces;
    float          sum = 0.0f;

    if (col < cols)
        for (size_t r = first + row; r < last; r += SUM_ROWS)
            sum += k_float(x[r * cols + col]);
    part[row][lane] = sum;
    __syncthreads();
    if (row != 0 || col >= cols)
        return;
    for (int i = 1; i < SUM_ROWS; i++)
        sum += part[i][lane];
    out[blockIdx.y * cols + col] = sum;
}

template <typename T> static mt_status column_sum(struct k_stream *stream, const T *x, float *out, size_t rows, size_t cols)
{
    size_t pieces = rows / 64 < 1 ? 1 : rows / 64 < SUM_PIECES ? rows / 64 : (size_t)SUM_PIECES;
    dim3   grid((unsigned)((cols + 31) / 32), (unsigned)pieces);

    if (cols == 0)
        return mt_ok();
    if (pieces * cols * sizeof(float) > K_SCRATCH_BYTES) {
        pieces = 1;
        grid.y = 1;
    }
    float *sums = pieces == 1 ? out : (float *)k_cuda_scratch();
    K_LAUNCH(column_sum_kernel<T>, grid, 32 * SUM_ROWS, 0, k_cuda_stream(stream), x, sums, rows, cols);
    if (pieces > 1)
        K_LAUNCH(column_sum_kernel<float>, dim3(grid.x, 1), 32 * SUM_ROWS, 0, k_cuda_stream(stream), (const float *)sums, out,
                 pieces, cols);
    return k_cuda_launched("sum of columns on the GPU");
}

mt_status k_bias_grad_cuda(struct k_stream *stream, const float *x, float *out, size_t rows, size_t cols)
{
    return column_sum(stream, x, out, rows, cols);
}

mt_status k_half_bias_grad_cuda(struct k_stream *stream, const k_half *x, float *out, size_t rows, size_t cols)
{
    return column_sum(stream, x, out, rows, cols);
}

enum { TREE_LEVELS = 11 };
static_assert(MT_VRANKS_MAX <= 1 << (TREE_LEVELS - 1), "a level for each bit of the number of inputs");

/* As tree_block of cpu/vector.c, for one element: a binary counter whose carries are the sums. */
__global__ void tree_kernel(const float *const *in, size_t inputs, size_t count, float *out)
{
    K_EACH(at, count)
    {
        float level[TREE_LEVELS], carry = 0.0f;
        for (size_t i = 0; i < inputs; i++) {
            int l = 0;
            carry = in[i][at];
            for (; i >> l & 1; l++)
                carry = level[l] + carry;
            level[l] = carry;
        }
        int lowest = 0;
        while (!(inputs >> lowest & 1))
            lowest++;
        carry = level[lowest];
        for (int l = lowest + 1; l < TREE_LEVELS; l++)
            if (inputs >> l & 1)
                carry = level[l] + carry;
        out[at] = carry;
    }
}

mt_status k_tree_sum_cuda(struct k_stream *stream, const float *const *in, size_t inputs, size_t count, float *out)
{
    if (inputs == 0 || inputs > MT_VRANKS_MAX)
        return mt_error(MT_EINVAL, 0, "tree sum: number of inputs");
    cudaError_t e = cudaMemcpyAsync(k_cuda_scratch(), in, inputs * sizeof *in, cudaMemcpyHostToDevice, k_cuda_stream(stream));
    if (e != cudaSuccess)
        return mt_error(MT_EDEVICE, (int)e, "tree sum on the GPU");
    if (count)
        K_LAUNCH(tree_kernel, k_blocks(count, THREADS), THREADS, 0, k_cuda_stream(stream), (const float *const *)k_cuda_scratch(),
                 inputs, count, out);
    return k_cuda_launched("tree sum on the GPU");
}

__global__ void squares_kernel(const float *x, size_t count, double *out)
{
    K_SHARED double of[32];
    double          sum = 0;
    K_EACH(i, count)
    sum += (double)x[i] * (double)x[i];
    sum = k_block_sum(sum, of);
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}

/* One block adds up what the blocks before it have left. */
__global__ void double_sum_kernel(const double *x, unsigned count, double *out)
{
    K_SHARED double of[32];
    double          sum = 0;
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x)
        sum += x[i];
    sum = k_block_sum(sum, of);
    if (threadIdx.x == 0)
        *out = sum;
}

mt_status k_sum_squares_cuda(struct k_stream *stream, const float *x, size_t count, double *out)
{
    cudaStream_t s = k_cuda_stream(stream);
    unsigned     blocks = k_blocks(count, THREADS);
    double      *parts = (double *)k_cuda_scratch();

    K_LAUNCH(squares_kernel, blocks, THREADS, 0, s, x, count, parts + 1);
    K_LAUNCH(double_sum_kernel, 1, THREADS, 0, s, (const double *)(parts + 1), blocks, parts);
    MT_TRY(k_cuda_launched("sum of squares on the GPU"));
    cudaError_t e = cudaMemcpyAsync(out, parts, sizeof *out, cudaMemcpyDeviceToHost, s);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(s);
    return e == cudaSuccess ? mt_ok() : mt_error(MT_EDEVICE, (int)e, "sum of squares on the GPU");
}
