/* SPDX-License-Identifier: Apache-2.0
 *
 * layers.cu - normalisation, embedding, pooling, loss, in float32 and in bfloat16, on a GPU.
 *
 * Owns nothing. A row is one warp's (normalisation) or one block's (loss). Gradients that are summed over rows are added up
 * by a fixed number of blocks into scratch memory and then by one, so that their bits do not depend on timing. The float32
 * entries and those of half.h are one code: templates over the element's type.
 */
#include "kernels/cuda/cuda.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };

template <typename T> __device__ __forceinline__ void put(T *to, float x);
template <> __device__ __forceinline__ void           put<float>(float *to, float x)
{
    *to = x;
}
template <> __device__ __forceinline__ void put<k_half>(k_half *to, float x)
{
    *to = k_round(x);
}

static unsigned warp_blocks(size_t rows)
{
    return k_blocks(rows * 32, THREADS);
}

/* ---- layer normalisation ---- */

template <typename T> struct norm_args {
    const T     *x, *plus;
    T           *sum, *y;
    const float *weight, *bias;
    float       *mean, *rstd;
    const T     *dy, *carry;
    T           *dx;
    size_t       rows, cols;
};

template <typename T> __global__ void norm_forward_kernel(norm_args<T> n)
{
    unsigned lane = threadIdx.x % 32;
    for (size_t r = (size_t)blockIdx.x * WARPS + threadIdx.x / 32; r < n.rows; r += (size_t)gridDim.x * WARPS) {
        const T *x = n.x + r * n.cols;
        float    sum = 0.0f, squares = 0.0f;
        if (n.plus) {
            for (size_t c = lane; c < n.cols; c += 32)
                put(n.sum + r * n.cols + c, k_float(x[c]) + k_float(n.plus[r * n.cols + c]));
            x = n.sum + r * n.cols; /* each lane reads what it has written itself */
        }
        for (size_t c = lane; c < n.cols; c += 32)
            sum += k_float(x[c]);
        float mean = k_warp_sum(sum) / (float)n.cols;
        for (size_t c = lane; c < n.cols; c += 32) {
            float off = k_float(x[c]) - mean;
            squares += off * off;
        }
        float rstd = 1.0f / sqrtf(k_warp_sum(squares) / (float)n.cols + 1e-5f);
        for (size_t c = lane; c < n.cols; c += 32)
            put(n.y + r * n.cols + c, (k_float(x[c]) - mean) * rstd * n.weight[c] + n.bias[c]);
        if (lane == 0) {
            n.mean[r] = mean;
            n.rstd[r] = rstd;
        }
    }
}

template <typename T> __global__ void norm_backward_kernel(norm_args<T> n)
{
    unsigned lane = threadIdx.x % 32;
    for (size_t r = (size_t)blockIdx.x * WARPS + threadIdx.x / 32; r < n.rows; r += (size_t)gridDim.x * WARPS) {
        const T *x = n.x + r * n.cols, *dy = n.dy + r * n.cols;
        float    mean = n.mean[r], rstd = n.rstd[r], sum = 0.0f, sum_scaled = 0.0f;
        for (size_t c = lane; c < n.cols; c += 32) {
            float d = k_float(dy[c]) * n.weight[c];
            sum += d;
            sum_scaled += d * (k_float(x[c]) - mean) * rstd;
        }
        sum = k_warp_sum(sum) / (float)n.cols;
        sum_scaled = k_warp_sum(sum_scaled) / (float)n.cols;
        for (size_t c = lane; c < n.cols; c += 32) {
            float scaled = (k_float(x[c]) - mean) * rstd;
            float d = (k_float(dy[c]) * n.weight[c] - sum - scaled * sum_scaled) * rstd;
            put(n.dx + r * n.cols + c, n.carry ? d + k_float(n.carry[r * n.cols + c]) : d);
        }
    }
}

/* Sums over a piece of the rows (blockIdx.y) for 32 columns: of dy into out[piece][0], of dy times the normalised x into
 * out[piece][1]. */
template <typename T> __global__ void norm_columns_kernel(norm_args<T> n, float *out)
{
    K_SHARED float part[2][WARPS][33];
    unsigned       lane = threadIdx.x % 32, row = threadIdx.x / 32;
    size_t         col = (size_t)blockIdx.x * 32 + lane;
    size_t         first = n.rows * blockIdx.y / gridDim.y, last = n.rows * (blockIdx.y + 1) / gridDim.y;
    float          bias = 0.0f, weight = 0.0f;

    if (col < n.cols)
        for (size_t r = first + row; r < last; r += WARPS) {
            float d = k_float(n.dy[r * n.cols + col]);
            bias += d;
            weight += d * (k_float(n.x[r * n.cols + col]) - n.mean[r]) * n.rstd[r];
        }
    part[0][row][lane] = bias;
    part[1][row][lane] = weight;
    __syncthreads();
    if (row > 1 || col >= n.cols)
        return;
    float sum = 0.0f;
    for (int i = 0; i < WARPS; i++)
        sum += part[row][i][lane];
    out[(blockIdx.y * 2 + row) * n.cols + col] = sum;
}

__global__ void norm_pieces_kernel(const float *in, size_t pieces, size_t cols, float *dweight, float *dbias)
{
    K_EACH(i, 2 * cols)
    {
        size_t is_weight = i / cols, col = i % cols;
        float  sum = 0.0f;
        for (size_t p = 0; p < pieces; p++)
            sum += in[(p * 2 + is_weight) * cols + col];
        (is_weight ? dweight : dbias)[col] = sum;
    }
}

template <typename T> static mt_status norm_forward(struct k_stream *stream, const norm_args<T> &n)
{
    if (n.rows)
        K_LAUNCH(norm_forward_kernel<T>, warp_blocks(n.rows), THREADS, 0, k_cuda_stream(stream), n);
    return k_cuda_launched("layer normalisation on the GPU");
}

/* Columns before rows: dx may be dy. */
template <typename T> static mt_status norm_backward(struct k_stream *stream, const norm_args<T> &n, float *dweight, float *dbias)
{
    size_t pieces = n.rows / 64 < 1 ? 1 : n.rows / 64 < 128 ? n.rows / 64 : 128;
    if (pieces * 2 * n.cols * sizeof(float) > K_SCRATCH_BYTES)
        return mt_error(MT_EINVAL, 0, "layer normalisation: more columns than a GPU's entry takes");
    float       *sums = (float *)k_cuda_scratch();
    cudaStream_t s = k_cuda_stream(stream);
    K_LAUNCH(norm_columns_kernel<T>, dim3((unsigned)((n.cols + 31) / 32), (unsigned)pieces), THREADS, 0, s, n, sums);
    K_LAUNCH(norm_pieces_kernel, k_blocks(2 * n.cols, THREADS), THREADS, 0, s, (const float *)sums, pieces, n.cols, dweight, dbias);
    if (n.rows)
        K_LAUNCH(norm_backward_kernel<T>, warp_blocks(n.rows), THREADS, 0, s, n);
    return k_cuda_launched("layer normalisation's gradient on the GPU");
}

mt_status k_layernorm_forward_cuda(struct k_stream *stream, const struct k_layernorm *n)
{
    norm_args<float> args = {n->x, NULL, NULL, n->y, n->weight, n->bias, n->mean, n->rstd, NULL, NULL, NULL, n->rows, n->cols};
    return norm_forward(stream, args);
}

mt_status k_layernorm_backward_cuda(struct k_stream *stream, const struct k_layernorm *n)
{
    norm_args<float> args = {n->x, NULL, NULL, NULL, n->weight, n->bias, n->mean, n->rstd, n->dy, NULL, n->dx, n->rows, n->cols};
    return norm_backward(stream, args, n->dweight, n->dbias);
}

mt_status k_half_norm_forward_cuda(struct k_stream *stream, const struct k_half_norm *n)
{
    norm_args<k_half> args = {n->x,    n->plus, n->sum, n->y, n->weight, n->bias, n->mean,
                              n->rstd, NULL,    NULL,   NULL, n->rows,   n->cols};
    return norm_forward(stream, args);
}

mt_status k_half_norm_backward_cuda(struct k_stream *stream, const struct k_half_norm *n)
{
    norm_args<k_half> args = {n->x,    NULL,  NULL,     NULL,  n->weight, n->bias, n->mean,
                              n->rstd, n->dy, n->carry, n->dx, n->rows,   n->cols};
    return norm_backward(stream, args, n->dweight, n->dbias);
}

/* ---- embedding ---- */

template <typename T>
__global__ void embed_forward_kernel(const int32_t *tokens, const T *token, const T *position, T *out, size_t rows, size_t time,
                                     size_t cols)
{
    K_EACH(i, rows * cols)
    {
        size_t r = i / cols, c = i % cols;
        put(out + i, k_float(token[(size_t)tokens[r] * cols + c]) + k_float(position[r % time * cols + c]));
    }
}

/* order[k] = the row that is k-th by (token, row), and same[k] how many rows have its token: each row counts. Quadratic,
 * and yet less than half a millisecond for 65536 rows, without a sort's passes over memory. */
__global__ void embed_rank_kernel(const int32_t *tokens, int32_t *order, int32_t *same, unsigned rows)
{
    K_SHARED int32_t tile[THREADS];
    unsigned         r = blockIdx.x * THREADS + threadIdx.x, rank = 0, equal = 0;
    int32_t          own = r < rows ? tokens[r] : 0;

    for (unsigned first = 0; first < rows; first += THREADS) {
        if (first + threadIdx.x < rows)
            tile[threadIdx.x] = tokens[first + threadIdx.x];
        __syncthreads();
        unsigned count = rows - first < THREADS ? rows - first : THREADS;
        for (unsigned i = 0; i < count; i++) {
            bool is_same = tile[i] == own;
            equal += is_same;
            rank += tile[i] < own || (is_same && first + i < r);
        }
        __syncthreads();
    }
    if (r < rows) {
        order[rank] = (int32_t)r;
        same[rank] = (int32_t)equal;
    }
}

enum { TOKEN_COLS = 128, TOKEN_LANES = 4 };

/* The block of a place in that order at which a token's rows begin adds them up and the sum to the table; the other blocks
 * have nothing to do. Four lanes take every fourth row each. */
template <typename T>
__global__ void embed_token_kernel(const int32_t *tokens, const int32_t *order, const int32_t *same, const T *dout, float *dtoken,
                                   size_t cols)
{
    K_SHARED float part[TOKEN_LANES][TOKEN_COLS];
    size_t         begin = blockIdx.x;
    int32_t        token = tokens[order[begin]];
    unsigned       col = threadIdx.x % TOKEN_COLS, lane = threadIdx.x / TOKEN_COLS;
    int            count = same[begin];

    if (begin > 0 && tokens[order[begin - 1]] == token)
        return;
    for (size_t first = 0; first < cols; first += TOKEN_COLS) {
        size_t c = first + col;
        float  sum = 0.0f;
        if (c < cols) {
#pragma unroll 4
            for (int i = (int)lane; i < count; i += TOKEN_LANES)
                sum += k_float(dout[(size_t)order[begin + i] * cols + c]);
        }
        part[lane][col] = sum;
        __syncthreads();
        if (lane == 0 && c < cols)
            dtoken[(size_t)token * cols + c] += (part[0][col] + part[1][col]) + (part[2][col] + part[3][col]);
        __syncthreads();
    }
}

template <typename T>
__global__ void embed_position_kernel(const T *dout, float *dposition, size_t rows, size_t time, size_t cols, bool adds)
{
    K_EACH(i, time * cols)
    {
        float sum = 0.0f;
        for (size_t r = i / cols; r < rows; r += time)
            sum += k_float(dout[r * cols + i % cols]);
        dposition[i] = adds ? dposition[i] + sum : sum;
    }
}

template <typename T>
static mt_status embed_backward(struct k_stream *stream, const int32_t *tokens, const T *dout, float *dtoken, float *dposition,
                                size_t rows, size_t time, size_t cols, bool adds)
{
    cudaStream_t s = k_cuda_stream(stream);
    int32_t     *order = (int32_t *)k_cuda_scratch(), *same = order + rows;
    if (2 * rows * sizeof *order > K_SCRATCH_BYTES)
        return mt_error(MT_EINVAL, 0, "embedding: more rows than a GPU's entry takes");
    if (rows == 0)
        return mt_ok();
    K_LAUNCH(embed_rank_kernel, (unsigned)((rows + THREADS - 1) / THREADS), THREADS, 0, s, tokens, order, same, (unsigned)rows);
    K_LAUNCH(embed_token_kernel<T>, (unsigned)rows, TOKEN_COLS * TOKEN_LANES, 0, s, tokens, (const int32_t *)order,
             (const int32_t *)same, dout, dtoken, cols);
    K_LAUNCH(embed_position_kernel<T>, k_blocks(time * cols, THREADS), THREADS, 0, s, dout, dposition, rows, time, cols, adds);
    return k_cuda_launched("embedding's gradient on the GPU");
}

mt_status k_embed_forward_cuda(struct k_stream *stream, const struct k_embed *e)
{
    if (e->rows > 0 && e->cols > 0)
        K_LAUNCH(embed_forward_kernel<float>, k_blocks(e->rows * e->cols, THREADS), THREADS, 0, k_cuda_stream(stream), e->tokens,
                 e->token, e->position, e->out, e->rows, e->time, e->cols);
    return k_cuda_launched("embedding on the GPU");
}

mt_status k_embed_backward_cuda(struct k_stream *stream, const struct k_embed *e)
{
    return embed_backward(stream, e->tokens, e->dout, e->dtoken, e->dposition, e->rows, e->time, e->cols, true);
}

mt_status k_half_embed_forward_cuda(struct k_stream *stream, const struct k_half_embed *e)
{
    if (e->rows > 0 && e->cols > 0)
        K_LAUNCH(embed_forward_kernel<k_half>, k_blocks(e->rows * e->cols, THREADS), THREADS, 0, k_cuda_stream(stream), e->tokens,
                 e->token, e->position, e->out, e->rows, e->time, e->cols);
    return k_cuda_launched("embedding on the GPU");
}

mt_status k_half_embed_backward_cuda(struct k_stream *stream, const struct k_half_embed *e)
{
    return embed_backward(stream, e->tokens, e->dout, e->dtoken, e->dposition, e->rows, e->time, e->cols, false);
}

/* ---- pooling: a thread a cell and channel ---- */

struct pool_cell {
    size_t out, in; /* this cell's output, and the first of its inputs */
};

__device__ __forceinline__ pool_cell cell_of(const struct k_pool &p, size_t i)
{
    size_t rows = p.height / p.size, cols = p.width / p.size;
    size_t channel = i % p.channels, col = i / p.channels % cols, row = i / p.channels / cols % rows;
    size_t picture = i / p.channels / cols / rows;
    return {i, ((picture * p.height + row * p.size) * p.width + col * p.size) * p.channels + channel};
}

__device__ __forceinline__ size_t pool_at(const struct k_pool &p, const pool_cell &cell, size_t k)
{
    return cell.in + (k / p.size * p.width + k % p.size) * p.channels;
}

__global__ void pool_forward_kernel(struct k_pool p, size_t cells)
{
    K_EACH(i, cells)
    {
        pool_cell cell = cell_of(p, i);
        float     y = p.x[cell.in];
        for (size_t k = 1; k < p.size * p.size; k++) {
            float x = p.x[pool_at(p, cell, k)];
            y = y >= x || y != y ? y : x; /* what is not a number wins, on either side */
        }
        p.y[cell.out] = y;
    }
}

__global__ void pool_backward_kernel(struct k_pool p, size_t cells)
{
    K_EACH(i, cells)
    {
        pool_cell cell = cell_of(p, i);
        float     y = p.y[cell.out], left = p.dy[cell.out];
        for (size_t k = 0; k < p.size * p.size; k++) {
            size_t at = pool_at(p, cell, k);
            bool   is_it = p.x[at] == y;
            p.dx[at] = is_it ? left : 0.0f;
            left = is_it ? 0.0f : left;
        }
    }
}

static size_t pool_cells(const struct k_pool *p)
{
    return p->batch * (p->height / p->size) * (p->width / p->size) * p->channels;
}

mt_status k_pool_forward_cuda(struct k_stream *stream, const struct k_pool *p)
{
    if (pool_cells(p))
        K_LAUNCH(pool_forward_kernel, k_blocks(pool_cells(p), THREADS), THREADS, 0, k_cuda_stream(stream), *p, pool_cells(p));
    return k_cuda_launched("pooling on the GPU");
}

mt_status k_pool_backward_cuda(struct k_stream *stream, const struct k_pool *p)
{
    if (p->height % p->size || p->width % p->size) {
        size_t      size = p->batch * p->height * p->width * p->channels * sizeof(float);
        cudaError_t e = cudaMemsetAsync(p->dx, 0, size, k_cuda_stream(stream));
        if (e != cudaSuccess)
            return mt_error(MT_EDEVICE, (int)e, "pooling's gradient on the GPU");
    }
    if (pool_cells(p))
        K_LAUNCH(pool_backward_kernel, k_blocks(pool_cells(p), THREADS), THREADS, 0, k_cuda_stream(stream), *p, pool_cells(p));
    return k_cuda_launched("pooling's gradient on the GPU");
}

/* ---- softmax and cross-entropy: a block a row ---- */

__device__ __forceinline__ size_t label_of(const struct k_xent &x, size_t row)
{
    return x.labels ? x.labels[row] : (size_t)x.targets[row];
}

__global__ void xent_forward_kernel(struct k_xent x)
{
    K_SHARED float of[32];
    for (size_t r = blockIdx.x; r < x.rows; r += gridDim.x) {
        const float *logits = x.logits + r * x.classes;
        float        answer = logits[label_of(x, r)], largest = -INFINITY, sum = 0.0f;
        for (size_t c = threadIdx.x; c < x.classes; c += blockDim.x)
            largest = logits[c] > largest ? logits[c] : largest;
        largest = k_block_max(largest, of);
        __syncthreads(); /* probs may be logits: all have read the answer */
        for (size_t c = threadIdx.x; c < x.classes; c += blockDim.x) {
            float e = expf(logits[c] - largest);
            x.probs[r * x.classes + c] = e;
            sum += e;
        }
        sum = k_block_sum(sum, of);
        for (size_t c = threadIdx.x; c < x.classes; c += blockDim.x)
            x.probs[r * x.classes + c] *= 1.0f / sum;
        if (threadIdx.x == 0) {
            x.losses[r] = logf(sum) - (answer - largest);
            if (x.right)
                x.right[r] = largest > answer ? 0.0f : 1.0f;
        }
    }
}

__global__ void xent_backward_kernel(struct k_xent x)
{
    K_EACH(i, x.rows * x.classes)
    {
        float target = i % x.classes == label_of(x, i / x.classes) ? 1.0f : 0.0f;
        x.grads[i] = (x.probs[i] - target) * x.scale;
    }
}

mt_status k_xent_forward_cuda(struct k_stream *stream, const struct k_xent *x)
{
    unsigned threads = x->classes < 128 ? 32 : THREADS, blocks = (unsigned)(x->rows < 1 << 20 ? x->rows : 1 << 20);
    if (blocks)
        K_LAUNCH(xent_forward_kernel, blocks, threads, 0, k_cuda_stream(stream), *x);
    return k_cuda_launched("cross-entropy on the GPU");
}

mt_status k_xent_backward_cuda(struct k_stream *stream, const struct k_xent *x)
{
    if (x->rows > 0 && x->classes > 0)
        K_LAUNCH(xent_backward_kernel, k_blocks(x->rows * x->classes, THREADS), THREADS, 0, k_cuda_stream(stream), *x);
    return k_cuda_launched("cross-entropy's gradient on the GPU");
}

/* ---- the same on bfloat16, in one kernel ---- */

enum { XENT_THREADS = 1024 };

/* The largest and the sum of exponentials in one reading (each thread keeps its own, and they are joined), the gradient in
 * a second, which the second-level cache serves. Eight scores at a time. */
__global__ void half_xent_kernel(struct k_half_xent x)
{
    K_SHARED float of[32];
    size_t         r = blockIdx.x, eights = x.classes / 8;
    k_half        *scores = x.scores + r * x.stride;
    int32_t        target = x.targets[r];
    float          answer = k_float(scores[target]), largest = -INFINITY, sum = 0.0f;

    for (size_t i = threadIdx.x; i < eights; i += blockDim.x) {
        k_eight v = k_eight_load(scores + 8 * i);
        float   most = v.v[0];
#pragma unroll
        for (int j = 1; j < 8; j++)
            most = v.v[j] > most ? v.v[j] : most;
        if (most > largest) {
            sum *= expf(largest - most);
            largest = most;
        }
#pragma unroll
        for (int j = 0; j < 8; j++)
            sum += expf(v.v[j] - largest);
    }
    for (size_t c = 8 * eights + threadIdx.x; c < x.classes; c += blockDim.x) {
        float v = k_float(scores[c]);
        if (v > largest) {
            sum *= expf(largest - v);
            largest = v;
        }
        sum += expf(v - largest);
    }
    float all = k_block_max(largest, of);
    sum = k_block_sum(largest == -INFINITY && sum == 0.0f ? 0.0f : sum * expf(largest - all), of);
    if (threadIdx.x == 0) {
        x.losses[r] = logf(sum) - (answer - all);
        x.right[r] = all > answer ? 0.0f : 1.0f;
    }
    if (!x.wants_gradient)
        return;
    __syncthreads(); /* all have read the answer */
    float share = 1.0f / sum;
    for (size_t i = threadIdx.x; i < x.stride / 8; i += blockDim.x) {
        k_eight v = k_eight_load(scores + 8 * i);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            size_t c = 8 * i + j;
            float  p = expf(v.v[j] - all) * share - (c == (size_t)target ? 1.0f : 0.0f);
            v.v[j] = c < x.classes ? p * x.scale : 0.0f;
        }
        k_eight_store(scores + 8 * i, v);
    }
}

mt_status k_half_xent_cuda(struct k_stream *stream, const struct k_half_xent *x)
{
    if (x->stride % 8 || x->rows > 0x7fffffffu)
        return mt_error(MT_EINVAL, 0, "cross-entropy on the GPU: a row's width is no multiple of 8");
    if (x->rows)
        K_LAUNCH(half_xent_kernel, (unsigned)x->rows, x->stride < 4096 ? 128 : XENT_THREADS, 0, k_cuda_stream(stream), *x);
    return k_cuda_launched("cross-entropy on the GPU");
}

/* ---- other entries on bfloat16 ---- */

__global__ void half_cast_kernel(const float *in, k_half *out, size_t count)
{
    size_t eights = count / 8;
    K_EACH(i, eights)
    {
        float4  a = ((const float4 *)in)[2 * i], b = ((const float4 *)in)[2 * i + 1];
        k_eight v = {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
        k_eight_store(out + 8 * i, v);
    }
    K_EACH(i, count - 8 * eights)
    out[8 * eights + i] = k_round(in[8 * eights + i]);
}

mt_status k_half_cast_cuda(struct k_stream *stream, const float *in, k_half *out, size_t count)
{
    if (((uintptr_t)in | (uintptr_t)out) & 15)
        return mt_error(MT_EINVAL, 0, "cast on the GPU: a buffer is not aligned to 16 bytes");
    if (count)
        K_LAUNCH(half_cast_kernel, k_blocks((count + 7) / 8, THREADS), THREADS, 0, k_cuda_stream(stream), in, out, count);
    return k_cuda_launched("cast on the GPU");
}

__global__ void half_gelu_forward_kernel(const k_half *x, k_half *y, size_t eights)
{
    K_EACH(i, eights)
    {
        k_eight v = k_eight_load(x + 8 * i);
#pragma unroll
        for (int j = 0; j < 8; j++)
            v.v[j] *= k_gelu_gate(v.v[j]);
        k_eight_store(y + 8 * i, v);
    }
}

mt_status k_half_gelu_forward_cuda(struct k_stream *stream, const k_half *x, k_half *y, size_t count)
{
    if (count % 8)
        return mt_error(MT_EINVAL, 0, "GELU on the GPU: the count is no multiple of 8");
    if (count)
        K_LAUNCH(half_gelu_forward_kernel, k_blocks(count / 8, THREADS), THREADS, 0, k_cuda_stream(stream), x, y, count / 8);
    return k_cuda_launched("GELU on the GPU");
}

__global__ void half_gelu_backward_kernel(const k_half *x, k_half *grad, size_t eights)
{
    K_EACH(i, eights)
    {
        k_eight v = k_eight_load(x + 8 * i), g = k_eight_load(grad + 8 * i);
#pragma unroll
        for (int j = 0; j < 8; j++)
            g.v[j] *= k_gelu_slope(v.v[j]);
        k_eight_store(grad + 8 * i, g);
    }
}

mt_status k_half_gelu_backward_cuda(struct k_stream *stream, const k_half *x, k_half *grad, size_t count)
{
    if (count % 8)
        return mt_error(MT_EINVAL, 0, "GELU on the GPU: the count is no multiple of 8");
    if (count)
        K_LAUNCH(half_gelu_backward_kernel, k_blocks(count / 8, THREADS), THREADS, 0, k_cuda_stream(stream), x, grad, count / 8);
    return k_cuda_launched("GELU's gradient on the GPU");
}
