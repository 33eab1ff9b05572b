/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_half.cu - causal attention on bfloat16 for heads of 64, on tensor cores; scores are never stored.
 *
 * Owns nothing. Forward: a block has 128 queries, a warp 32 of them, and goes over the keys in tiles of 64 with a running
 * maximum and sum. Backward is two kernels, so that each gradient is summed by one warp in one order (one kernel with
 * atomic additions to dq would save two of seven products and make the bits depend on timing): the first has 128 keys and
 * goes over the queries that see them, the second 128 queries and goes over the keys. Tiles are copied while the one
 * before is worked on. Positions beyond `time` are 0 in shared memory and not stored; no key beyond a query is counted.
 *
 * Exponentials are to the base 2: scores times scale * log2(e).
 */
#include "kernels/cuda/tensor.cuh"

enum { TILE = 64, TILE_BYTES = TILE * K_TILE_ROW, BLOCKS = TILE / 8, STEPS = K_TILE_WIDE / 16, WIDE = 128 };

#define LOG2E 1.44269504088896340736f
#define LN2   0.69314718055994530942f

/* One head of one sample: rows of q, k, v are 3 width apart, those of out and dout width. */
struct head_of {
    const k_half *q, *k, *v, *dout;
    size_t        stride, out; /* out: offset of position 0 in out, dout */
    size_t        row;         /* offset of position 0 in lse and dot */
    size_t        qkv;         /* offset of q's position 0 in qkv and dqkv */
};

__device__ __forceinline__ head_of head_at(const struct k_half_attention &a)
{
    size_t  head = blockIdx.y % a.heads, sample = blockIdx.y / a.heads;
    head_of h;
    h.stride = 3 * a.width;
    h.qkv = sample * a.time * h.stride + head * K_TILE_WIDE;
    h.out = sample * a.time * a.width + head * K_TILE_WIDE;
    h.row = (sample * a.heads + head) * a.time;
    h.q = a.qkv + h.qkv;
    h.k = h.q + a.width;
    h.v = h.k + a.width;
    h.dout = a.dout ? a.dout + h.out : NULL;
    return h;
}

/* Of `rows` rows from `first` on, how many there are. */
__device__ __forceinline__ unsigned rows_there(size_t time, unsigned first, unsigned rows)
{
    return first >= time ? 0 : time - first < rows ? (unsigned)(time - first) : rows;
}

__device__ __forceinline__ void ask(unsigned char *tile, const k_half *from, size_t stride, size_t time, unsigned first,
                                    unsigned rows)
{
    unsigned there = rows_there(time, first, rows);
    k_tile_ask(tile, from + (there ? first * stride : 0), stride, rows, there);
}

/* Writes 16 rows x 64 columns that lie in c's layout, from position `first` on. */
__device__ __forceinline__ void rows_store(k_half *to, size_t stride, size_t time, unsigned first, const float c[BLOCKS][4],
                                           float upper_scale, float lower_scale)
{
    unsigned lane = threadIdx.x % 32, upper = first + lane / 4, lower = upper + 8, col = 2 * (lane % 4);
#pragma unroll
    for (int n = 0; n < BLOCKS; n++) {
        if (upper < time)
            *(unsigned *)(to + upper * stride + 8 * n + col) = k_pack(c[n][0] * upper_scale, c[n][1] * upper_scale);
        if (lower < time)
            *(unsigned *)(to + lower * stride + 8 * n + col) = k_pack(c[n][2] * lower_scale, c[n][3] * lower_scale);
    }
}

/* ---- forward ---- */

enum { FORWARD_THREADS = 128, HALVES = 2 /* of a warp's 32 queries */ };

/* The running softmax of one row over four lanes. */
__device__ __forceinline__ float four_max(float x)
{
    float other = __shfl_xor_sync(0xffffffffu, x, 1);
    x = other > x ? other : x;
    other = __shfl_xor_sync(0xffffffffu, x, 2);
    return other > x ? other : x;
}

__device__ __forceinline__ float four_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* Scores of 16 queries from `first` on and the tile's keys from `key` on: masked, brought to shares; the sums and what was
 * summed before are scaled to the new maximum. Rows 0: upper, 1: lower. */
__device__ __forceinline__ void softmax_step(float s[BLOCKS][4], float out[BLOCKS][4], float most[2], float sum[2], unsigned first,
                                             unsigned key, float scale)
{
    unsigned lane = threadIdx.x % 32, col = key + 2 * (lane % 4);
    bool     is_edge = key + TILE > first + 1;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        unsigned query = first + lane / 4 + 8 * row;
        float    largest = -INFINITY;
#pragma unroll
        for (int n = 0; n < BLOCKS; n++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                float x = s[n][2 * row + j] * scale;
                x = is_edge && col + 8 * n + j > query ? -INFINITY : x;
                s[n][2 * row + j] = x;
                largest = x > largest ? x : largest;
            }
        largest = four_max(largest);
        largest = largest > most[row] ? largest : most[row];
        float kept = exp2f(most[row] - largest), total = 0.0f;
        most[row] = largest;
#pragma unroll
        for (int n = 0; n < BLOCKS; n++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                float share = exp2f(s[n][2 * row + j] - largest);
                s[n][2 * row + j] = share;
                total += share;
                out[n][2 * row + j] *= kept;
            }
        sum[row] = sum[row] * kept + total;
    }
}

/* s += 32 queries times the tile of keys, transposed. */
__device__ __forceinline__ void scores_make(float s[HALVES][BLOCKS][4], const unsigned q[HALVES][STEPS][4], unsigned char *keys)
{
#pragma unroll
    for (int step = 0; step < STEPS; step++)
#pragma unroll
        for (int pair = 0; pair < BLOCKS / 2; pair++) {
            unsigned b[4];
            k_tile_b_transposed(b, keys, 16 * pair, step);
#pragma unroll
            for (int half = 0; half < HALVES; half++) {
                k_mma(s[half][2 * pair], q[half][step], b[0], b[1]);
                k_mma(s[half][2 * pair + 1], q[half][step], b[2], b[3]);
            }
        }
}

/* out += shares, rounded, times the tile of values. */
__device__ __forceinline__ void values_add(float out[HALVES][BLOCKS][4], const float s[HALVES][BLOCKS][4], unsigned char *values)
{
#pragma unroll
    for (int step = 0; step < TILE / 16; step++) {
        unsigned p[HALVES][4];
#pragma unroll
        for (int half = 0; half < HALVES; half++)
            k_a_of_c(p[half], s[half][2 * step], s[half][2 * step + 1]);
#pragma unroll
        for (int pair = 0; pair < BLOCKS / 2; pair++) {
            unsigned b[4];
            k_tile_b(b, values, 16 * step, pair);
#pragma unroll
            for (int half = 0; half < HALVES; half++) {
                k_mma(out[half][2 * pair], p[half], b[0], b[1]);
                k_mma(out[half][2 * pair + 1], p[half], b[2], b[3]);
            }
        }
    }
}

__global__ void __launch_bounds__(FORWARD_THREADS) half_forward_kernel(struct k_half_attention a, float scale)
{
    K_DYNAMIC(shared); /* two stages of a tile of keys and one of values; before that, the queries */
    head_of  h = head_at(a);
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned first = (gridDim.x - 1 - blockIdx.x) * WIDE, own = first + 32 * warp; /* the longest blocks begin first */
    unsigned tiles = (rows_there(a.time, first, WIDE) + first + TILE - 1) / TILE;
    unsigned q[HALVES][STEPS][4];
    float    out[HALVES][BLOCKS][4] = {}, most[HALVES][2], sum[HALVES][2] = {};

    ask(shared, h.q + 0, h.stride, a.time, first, WIDE);
    k_copy_commit();
    k_copy_wait<0>();
    __syncthreads();
#pragma unroll
    for (int half = 0; half < HALVES; half++) {
        most[half][0] = most[half][1] = -INFINITY;
#pragma unroll
        for (int step = 0; step < STEPS; step++)
            k_tile_a(q[half][step], shared, 32 * warp + 16 * half, step);
    }
    __syncthreads();
    ask(shared, h.k, h.stride, a.time, 0, TILE);
    ask(shared + TILE_BYTES, h.v, h.stride, a.time, 0, TILE);
    k_copy_commit();
    for (unsigned t = 0; t < tiles; t++) {
        unsigned char *keys = shared + t % 2 * 2 * TILE_BYTES, *values = keys + TILE_BYTES;
        if (t + 1 < tiles) {
            unsigned char *next = shared + (t + 1) % 2 * 2 * TILE_BYTES;
            ask(next, h.k, h.stride, a.time, (t + 1) * TILE, TILE);
            ask(next + TILE_BYTES, h.v, h.stride, a.time, (t + 1) * TILE, TILE);
            k_copy_commit();
            k_copy_wait<1>();
        } else {
            k_copy_wait<0>();
        }
        __syncthreads();
        if (t * TILE <= own + 31) { /* else none of this warp's queries sees a key of the tile */
            float s[HALVES][BLOCKS][4] = {};
            scores_make(s, q, keys);
#pragma unroll
            for (int half = 0; half < HALVES; half++)
                softmax_step(s[half], out[half], most[half], sum[half], own + 16 * half, t * TILE, scale);
            values_add(out, s, values);
        }
        __syncthreads(); /* before the stage is filled again */
    }
#pragma unroll
    for (int half = 0; half < HALVES; half++) {
        float    upper = four_sum(sum[half][0]), lower = four_sum(sum[half][1]);
        unsigned query = own + 16 * half + lane / 4;
        rows_store(a.out + h.out, a.width, a.time, own + 16 * half, out[half], 1.0f / upper, 1.0f / lower);
        if (lane % 4 == 0 && query < a.time)
            a.lse[h.row + query] = (most[half][0] + log2f(upper)) * LN2;
        if (lane % 4 == 0 && query + 8 < a.time)
            a.lse[h.row + query + 8] = (most[half][1] + log2f(lower)) * LN2;
    }
}

/* ---- backward ---- */

enum { BACKWARD_THREADS = 256, BACKWARD_STAGE = 2 * TILE_BYTES };

/* dot[i] = out . dout of one head of one position: eight lanes, eight halves each. */
__global__ void half_dot_kernel(struct k_half_attention a)
{
    size_t   heads = a.batch * a.time * a.heads, i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / 8;
    unsigned lane = threadIdx.x % 8;
    float    sum = 0.0f;
    if (i < heads) {
        k_eight x = k_eight_load(a.out + i * K_TILE_WIDE + lane * 8), y = k_eight_load(a.dout + i * K_TILE_WIDE + lane * 8);
#pragma unroll
        for (int j = 0; j < 8; j++)
            sum += x.v[j] * y.v[j];
    }
    for (int mask = 4; mask > 0; mask /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    if (i < heads && lane == 0) {
        size_t head = i % a.heads, position = i / a.heads % a.time, sample = i / a.heads / a.time;
        a.dot[(sample * a.heads + head) * a.time + position] = sum;
    }
}

/* s += 16 rows (a) times the transposed tile, over 64 columns of both. */
__device__ __forceinline__ void product_transposed(float s[BLOCKS][4], const unsigned a[STEPS][4], unsigned char *tile)
{
#pragma unroll
    for (int step = 0; step < STEPS; step++)
#pragma unroll
        for (int pair = 0; pair < BLOCKS / 2; pair++) {
            unsigned b[4];
            k_tile_b_transposed(b, tile, 16 * pair, step);
            k_mma(s[2 * pair], a[step], b[0], b[1]);
            k_mma(s[2 * pair + 1], a[step], b[2], b[3]);
        }
}

/* out += what 16 rows of c hold, rounded, times the tile. */
__device__ __forceinline__ void product(float out[BLOCKS][4], const float c[BLOCKS][4], unsigned char *tile)
{
#pragma unroll
    for (int step = 0; step < TILE / 16; step++) {
        unsigned a[4];
        k_a_of_c(a, c[2 * step], c[2 * step + 1]);
#pragma unroll
        for (int pair = 0; pair < BLOCKS / 2; pair++) {
            unsigned b[4];
            k_tile_b(b, tile, 16 * step, pair);
            k_mma(out[2 * pair], a, b[0], b[1]);
            k_mma(out[2 * pair + 1], a, b[2], b[3]);
        }
    }
}

/* A stage of the keys' kernel: queries, their output's gradient, and 64 times (lse, dot). */
enum { KEYS_STAGE = BACKWARD_STAGE + 2 * TILE * 4 };

__device__ __forceinline__ void queries_ask(const struct k_half_attention &a, const head_of &h, unsigned char *stage,
                                            unsigned first)
{
    float *numbers = (float *)(stage + BACKWARD_STAGE);
    ask(stage, h.q, h.stride, a.time, first, TILE);
    ask(stage + TILE_BYTES, h.dout, a.width, a.time, first, TILE);
    k_copy_commit();
    if (threadIdx.x < TILE) {
        size_t query = first + threadIdx.x;
        numbers[threadIdx.x] = query < a.time ? a.lse[h.row + query] * LOG2E : INFINITY; /* then its shares are 0 */
        numbers[TILE + threadIdx.x] = query < a.time ? a.dot[h.row + query] : 0.0f;
    }
}

/* Rows are keys, columns queries. s: scores, becomes shares; d: share's gradient, becomes that of the score before it is
 * scaled. */
__device__ __forceinline__ void keys_shares(float s[BLOCKS][4], float d[BLOCKS][4], const float *numbers, unsigned key,
                                            unsigned first, float scale)
{
    unsigned lane = threadIdx.x % 32, col = 2 * (lane % 4), upper = key + lane / 4;
#pragma unroll
    for (int n = 0; n < BLOCKS; n++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            unsigned query = 8 * n + col + j % 2;
            bool     is_seen = upper + 8 * (j / 2) <= first + query;
            float    share = is_seen ? exp2f(s[n][j] * scale - numbers[query]) : 0.0f;
            s[n][j] = share;
            d[n][j] = share * (d[n][j] - numbers[TILE + query]);
        }
}

__global__ void __launch_bounds__(BACKWARD_THREADS) half_keys_kernel(struct k_half_attention a, float scale, float slope)
{
    K_DYNAMIC(shared); /* two stages; before that, the block's keys and values */
    head_of  h = head_at(a);
    unsigned warp = threadIdx.x / 32, first = blockIdx.x * WIDE, own = first + 16 * warp;
    unsigned tile = first / TILE, tiles = (unsigned)((a.time + TILE - 1) / TILE);
    unsigned k[STEPS][4], v[STEPS][4];
    float    dk[BLOCKS][4] = {}, dv[BLOCKS][4] = {};

    ask(shared, h.k, h.stride, a.time, first, WIDE);
    ask(shared + 2 * TILE_BYTES, h.v, h.stride, a.time, first, WIDE);
    k_copy_commit();
    k_copy_wait<0>();
    __syncthreads();
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        k_tile_a(k[step], shared, 16 * warp, step);
        k_tile_a(v[step], shared + 2 * TILE_BYTES, 16 * warp, step);
    }
    __syncthreads();
    queries_ask(a, h, shared + tile % 2 * KEYS_STAGE, tile * TILE);
    for (; tile < tiles; tile++) {
        unsigned char *stage = shared + tile % 2 * KEYS_STAGE;
        if (tile + 1 < tiles) {
            queries_ask(a, h, shared + (tile + 1) % 2 * KEYS_STAGE, (tile + 1) * TILE);
            k_copy_wait<1>();
        } else {
            k_copy_wait<0>();
        }
        __syncthreads();
        if (tile * TILE + TILE > own) { /* else no query of the tile sees a key of this warp */
            float s[BLOCKS][4] = {}, d[BLOCKS][4] = {};
            product_transposed(s, k, stage);
            product_transposed(d, v, stage + TILE_BYTES);
            keys_shares(s, d, (const float *)(stage + BACKWARD_STAGE), own, tile * TILE, scale);
            product(dv, s, stage + TILE_BYTES);
            product(dk, d, stage);
        }
        __syncthreads();
    }
    rows_store(a.dqkv + h.qkv + a.width, h.stride, a.time, own, dk, slope, slope);
    rows_store(a.dqkv + h.qkv + 2 * a.width, h.stride, a.time, own, dv, 1.0f, 1.0f);
}

__global__ void __launch_bounds__(BACKWARD_THREADS) half_queries_kernel(struct k_half_attention a, float scale, float slope)
{
    K_DYNAMIC(shared); /* two stages of keys and values; before that, the block's queries and their output's gradient */
    head_of  h = head_at(a);
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned first = (gridDim.x - 1 - blockIdx.x) * WIDE, own = first + 16 * warp;
    unsigned tiles = (rows_there(a.time, first, WIDE) + first + TILE - 1) / TILE;
    unsigned q[STEPS][4], dout[STEPS][4];
    float    dq[BLOCKS][4] = {}, lse[2], dot[2];

    ask(shared, h.q, h.stride, a.time, first, WIDE);
    ask(shared + 2 * TILE_BYTES, h.dout, a.width, a.time, first, WIDE);
    k_copy_commit();
    k_copy_wait<0>();
    __syncthreads();
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        k_tile_a(q[step], shared, 16 * warp, step);
        k_tile_a(dout[step], shared + 2 * TILE_BYTES, 16 * warp, step);
    }
#pragma unroll
    for (int row = 0; row < 2; row++) {
        size_t query = own + lane / 4 + 8 * row;
        lse[row] = query < a.time ? a.lse[h.row + query] * LOG2E : INFINITY;
        dot[row] = query < a.time ? a.dot[h.row + query] : 0.0f;
    }
    __syncthreads();
    ask(shared, h.k, h.stride, a.time, 0, TILE);
    ask(shared + TILE_BYTES, h.v, h.stride, a.time, 0, TILE);
    k_copy_commit();
    for (unsigned t = 0; t < tiles; t++) {
        unsigned char *stage = shared + t % 2 * BACKWARD_STAGE;
        if (t + 1 < tiles) {
            unsigned char *next = shared + (t + 1) % 2 * BACKWARD_STAGE;
            ask(next, h.k, h.stride, a.time, (t + 1) * TILE, TILE);
            ask(next + TILE_BYTES, h.v, h.stride, a.time, (t + 1) * TILE, TILE);
            k_copy_commit();
            k_copy_wait<1>();
        } else {
            k_copy_wait<0>();
        }
        __syncthreads();
        if (t * TILE <= own + 15) {
            float s[BLOCKS][4] = {}, d[BLOCKS][4] = {};
            product_transposed(s, q, stage);
            product_transposed(d, dout, stage + TILE_BYTES);
#pragma unroll
            for (int n = 0; n < BLOCKS; n++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    unsigned key = t * TILE + 8 * n + 2 * (lane % 4) + j % 2, query = own + lane / 4 + 8 * (j / 2);
                    float    share = key <= query ? exp2f(s[n][j] * scale - lse[j / 2]) : 0.0f;
                    d[n][j] = share * (d[n][j] - dot[j / 2]);
                }
            product(dq, d, stage);
        }
        __syncthreads();
    }
    rows_store(a.dqkv + h.qkv, h.stride, a.time, own, dq, slope, slope);
}

/* ---- entries ---- */

static mt_status size_check(const struct k_half_attention *a)
{
    if (a->width != a->heads * K_TILE_WIDE || a->batch * a->heads > 65535 || a->time > 1u << 24)
        return mt_error(MT_EINVAL, 0, "attention on the GPU: heads are not 64 wide, or there are more than 65535 of them");
    return mt_ok();
}

static dim3 grid_of(const struct k_half_attention *a)
{
    return dim3((unsigned)((a->time + WIDE - 1) / WIDE), (unsigned)(a->batch * a->heads));
}

mt_status k_half_attention_forward_cuda(struct k_stream *stream, const struct k_half_attention *a)
{
    MT_TRY(size_check(a));
    if (a->batch > 0 && a->time > 0)
        K_LAUNCH(half_forward_kernel, grid_of(a), FORWARD_THREADS, 4 * TILE_BYTES, k_cuda_stream(stream), *a, LOG2E * 0.125f);
    return k_cuda_launched("attention on the GPU");
}

mt_status k_half_attention_backward_cuda(struct k_stream *stream, const struct k_half_attention *a)
{
    cudaStream_t s = k_cuda_stream(stream);
    size_t       heads = a->batch * a->time * a->heads;
    MT_TRY(size_check(a));
    if (heads == 0)
        return mt_ok();
    K_LAUNCH(half_dot_kernel, (unsigned)((heads * 8 + 255) / 256), 256, 0, s, *a);
    K_LAUNCH(half_keys_kernel, grid_of(a), BACKWARD_THREADS, 2 * KEYS_STAGE, s, *a, LOG2E * 0.125f, 0.125f);
    K_LAUNCH(half_queries_kernel, grid_of(a), BACKWARD_THREADS, 2 * BACKWARD_STAGE, s, *a, LOG2E * 0.125f, 0.125f);
    return k_cuda_launched("attention's gradient on the GPU");
}
