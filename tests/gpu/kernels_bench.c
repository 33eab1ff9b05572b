/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels_bench.c - rows h200_kernels and the floors of the device: copies, products, attention, AdamW, and the other
 * entries of GPT-2 124M at 64 x 1024 tokens, each beside the bytes or operations that it can't do without.
 *
 * Prints "row ID VALUE UNIT" lines; exit status 77 without a device. Thread: one.
 */
#include "tests/gpu/bench.h"

enum { BATCH = 64, TIME = 1024, HEADS = 12, WIDTH = 768, PARAMS = 124475904, VOCABULARY = 50257, PADDED = 50304 };

static double copy_gbs, peak_tflops;

static void moved(const char *id, double seconds, double bytes)
{
    printf("row %s %.3f ms  %.0f GB/s, %.2f of the copy's\n", id, seconds * 1e3, bytes / seconds * 1e-9,
           bytes / seconds * 1e-9 / copy_gbs);
}

static void floors(const struct k_ops *ops)
{
    size_t size = (size_t)4 << 30;
    void  *a = bench_buffer(ops, size), *b = bench_buffer(ops, size);
    double seconds;
    BENCH_SECONDS(seconds, ops, 5, ops->copy(NULL, a, b, size));
    copy_gbs = 2.0 * (double)size / seconds * 1e-9;
    printf("row floor_copy %.0f GB/s  device to device, read and written\n", copy_gbs);
    void *host = malloc(256 << 20);
    memset(host, 1, 256 << 20);
    BENCH_SECONDS(seconds, ops, 3, ops->copy(NULL, a, host, 256 << 20));
    printf("row floor_to_device %.1f GB/s  from pageable memory\n", (256 << 20) / seconds * 1e-9);
    BENCH_SECONDS(seconds, ops, 3, ops->copy(NULL, host, a, 256 << 20));
    printf("row floor_to_host %.1f GB/s  to pageable memory\n", (256 << 20) / seconds * 1e-9);
    free(host);
    ops->release(a), ops->release(b);
    size_t             n = 8192;
    struct k_half_gemm g = {.m = 8192,
                            .n = 8192,
                            .k = 8192,
                            .b_transposed = true,
                            .a = bench_halves(ops, n * n),
                            .b = bench_halves(ops, n * n),
                            .c = bench_buffer(ops, n * n * 2)};
    BENCH_SECONDS(seconds, ops, 10, ops->half->gemm(NULL, &g));
    peak_tflops = 2.0 * 8192 * 8192 * 8192 / seconds * 1e-12;
    printf("row floor_gemm %.0f TFLOP/s  bfloat16, 8192 cubed, of 989\n", peak_tflops);
    ops->release((void *)(uintptr_t)g.a), ops->release((void *)(uintptr_t)g.b), ops->release(g.c);
}

static void product(const struct k_ops *ops, const char *id, int m, int n, int k, bool a_transposed, bool b_transposed, bool wide)
{
    struct k_half_gemm g = {.m = m,
                            .n = n,
                            .k = k,
                            .a_transposed = a_transposed,
                            .b_transposed = b_transposed,
                            .a = bench_halves(ops, (size_t)m * (size_t)k),
                            .b = bench_halves(ops, (size_t)n * (size_t)k)};
    void              *c = bench_buffer(ops, (size_t)m * (size_t)n * 4);
    double             seconds;
    g.c = wide ? NULL : c;
    g.c32 = wide ? c : NULL;
    BENCH_SECONDS(seconds, ops, 10, ops->half->gemm(NULL, &g));
    double tflops = 2.0 * m * n * k / seconds * 1e-12;
    printf("row %s %.3f ms  %.0f TFLOP/s, %.2f of the floor\n", id, seconds * 1e3, tflops, tflops / peak_tflops);
    ops->release((void *)(uintptr_t)g.a), ops->release((void *)(uintptr_t)g.b), ops->release(c);
}

static void attention(const struct k_ops *ops)
{
    size_t                  rows = (size_t)BATCH * TIME;
    struct k_half_attention a = {.batch = BATCH, .time = TIME, .heads = HEADS, .width = WIDTH};
    a.qkv = bench_halves(ops, rows * 3 * WIDTH), a.out = bench_buffer(ops, rows * WIDTH * 2);
    a.lse = bench_buffer(ops, rows * HEADS * 4), a.dout = bench_halves(ops, rows * WIDTH);
    a.dqkv = bench_buffer(ops, rows * 3 * WIDTH * 2), a.dot = bench_buffer(ops, rows * HEADS * 4);
    double forward, backward, flops = 4.0 * BATCH * HEADS * TIME * TIME * 64 / 2; /* half of the pairs are seen */
    BENCH_SECONDS(forward, ops, 10, ops->half->attention_forward(NULL, &a));
    BENCH_SECONDS(backward, ops, 10, ops->half->attention_backward(NULL, &a));
    printf("row h200_attention_forward %.3f ms  %.0f TFLOP/s\n", forward * 1e3, flops / forward * 1e-12);
    printf("row h200_attention_backward %.3f ms  %.0f TFLOP/s\n", backward * 1e3, 2.5 * flops / backward * 1e-12);
    printf("row h200_attention %.3f ms  forward and backward; gate: cuDNN's time / 0.7\n", (forward + backward) * 1e3);
    ops->release((void *)(uintptr_t)a.qkv), ops->release(a.out), ops->release(a.lse), ops->release((void *)(uintptr_t)a.dout);
    ops->release(a.dqkv), ops->release(a.dot);
}

static void optimizer(const struct k_ops *ops)
{
    struct k_adamw a = {.count = PARAMS, .step = 1, .rate = 1e-4f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .decay = 0.1f};
    float         *grads = bench_buffer(ops, (size_t)PARAMS * 4);
    a.params = bench_buffer(ops, (size_t)PARAMS * 4), a.mean = bench_buffer(ops, (size_t)PARAMS * 4);
    a.square = bench_buffer(ops, (size_t)PARAMS * 4), a.grads = grads;
    k_half *cast = bench_buffer(ops, (size_t)PARAMS * 2);
    double  seconds;
    BENCH_SECONDS(seconds, ops, 10, ops->adamw_update(NULL, &a));
    moved("h200_adamw", seconds, 28.0 * PARAMS);
    BENCH_SECONDS(seconds, ops, 10, ops->half->cast(NULL, a.params, cast, PARAMS));
    moved("h200_cast", seconds, 6.0 * PARAMS);
    double norm;
    BENCH_SECONDS(seconds, ops, 5, ops->sum_squares(NULL, grads, PARAMS, &norm));
    moved("h200_norm", seconds, 4.0 * PARAMS);
    ops->release(a.params), ops->release(a.mean), ops->release(a.square), ops->release(grads), ops->release(cast);
}

static void layers(const struct k_ops *ops)
{
    size_t             rows = (size_t)BATCH * TIME, wide = rows * WIDTH;
    k_half            *x = bench_halves(ops, 4 * wide), *y = bench_buffer(ops, 4 * wide * 2), *z = bench_buffer(ops, 4 * wide * 2);
    float             *numbers = bench_buffer(ops, (size_t)4 * rows * 4), *table = bench_buffer(ops, (size_t)PADDED * WIDTH * 4);
    double             seconds;
    struct k_half_norm n = {.x = x,
                            .plus = x + wide,
                            .sum = y,
                            .y = z,
                            .weight = table,
                            .bias = table + WIDTH,
                            .mean = numbers,
                            .rstd = numbers + rows,
                            .dy = x,
                            .carry = x + wide,
                            .dx = z,
                            .dweight = numbers + 2 * rows,
                            .dbias = numbers + 3 * rows,
                            .rows = rows,
                            .cols = WIDTH};
    BENCH_SECONDS(seconds, ops, 10, ops->half->norm_forward(NULL, &n));
    moved("h200_norm_forward", seconds, 8.0 * (double)wide);
    BENCH_SECONDS(seconds, ops, 10, ops->half->norm_backward(NULL, &n));
    moved("h200_norm_backward", seconds, 8.0 * (double)wide);
    BENCH_SECONDS(seconds, ops, 10, ops->half->gelu_forward(NULL, x, y, 4 * wide));
    moved("h200_gelu_forward", seconds, 16.0 * (double)wide);
    BENCH_SECONDS(seconds, ops, 10, ops->half->gelu_backward(NULL, x, y, 4 * wide));
    moved("h200_gelu_backward", seconds, 24.0 * (double)wide);
    BENCH_SECONDS(seconds, ops, 10, ops->half->bias_grad(NULL, x, numbers, rows, 4 * WIDTH));
    moved("h200_bias_grad", seconds, 8.0 * (double)wide);
    int32_t *tokens = bench_buffer(ops, rows * 4), *host = malloc(rows * 4);
    for (size_t i = 0; i < rows; i++) /* a third of a text is its few commonest words */
        host[i] = (int32_t)(i % 3 ? i * 2654435761u % VOCABULARY : i % 40);
    bench_must(ops->copy(NULL, tokens, host, rows * 4), "copy");
    bench_must(ops->wait(NULL), "wait");
    struct k_half_embed e = {.tokens = tokens,
                             .token = x,
                             .position = x,
                             .out = y,
                             .dout = x,
                             .dtoken = table,
                             .dposition = (float *)(void *)z,
                             .rows = rows,
                             .time = TIME,
                             .cols = WIDTH};
    BENCH_SECONDS(seconds, ops, 5, ops->half->embed_backward(NULL, &e));
    moved("h200_embed_backward", seconds, 4.0 * (double)wide);
    struct k_half_xent xent = {.scores = bench_halves(ops, (size_t)16384 * PADDED),
                               .targets = tokens,
                               .losses = numbers,
                               .right = numbers + rows,
                               .scale = 1e-5f,
                               .wants_gradient = true,
                               .rows = 16384,
                               .classes = VOCABULARY,
                               .stride = PADDED};
    BENCH_SECONDS(seconds, ops, 5, ops->half->xent(NULL, &xent));
    moved("h200_cross_entropy", seconds, 4.0 * 16384 * PADDED);
    free(host);
    ops->release(x), ops->release(y), ops->release(z), ops->release(numbers), ops->release(table), ops->release(tokens);
    ops->release(xent.scores);
}

int main(void)
{
    const struct k_ops *ops = bench_device(false);
    int                 rows = BATCH * TIME;
    floors(ops);
    attention(ops);
    optimizer(ops);
    layers(ops);
    product(ops, "h200_gemm_qkv", rows, 3 * WIDTH, WIDTH, false, true, false);
    product(ops, "h200_gemm_fc", rows, 4 * WIDTH, WIDTH, false, true, false);
    product(ops, "h200_gemm_fcproj", rows, WIDTH, 4 * WIDTH, false, true, false);
    product(ops, "h200_gemm_fc_weight", 4 * WIDTH, WIDTH, rows, true, false, true);
    product(ops, "h200_gemm_scores", 16384, PADDED, WIDTH, false, true, false);
    product(ops, "h200_gemm_scores_weight", PADDED, WIDTH, 16384, true, false, true);
    return 0;
}
