/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_half.c - products whose factors are rounded to bfloat16, for processors without tiles: by those of float32.
 *
 * A product of two bfloat16 is exact in float32, so what the product of rounded copies gives is a sum in float32 of exact
 * products: what the tiles compute as well, in another order. Copies of a block at a time lie on the stack.
 *
 * Owns: nothing. Thread: any.
 */
#include "kernels/half.h"
#include "kernels/cpu/cpu.h"

enum { MC = 64, NC = 128, KC = 256 };

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Rows of `out` lie one after the other. */
static void round_block(const float *from, size_t stride, int rows, int cols, float *out)
{
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++)
            *out++ = k_half_float(k_half_of(from[(size_t)r * stride + (size_t)c]));
}

/* A block of a factor as it is stored: `rows` by `cols`, or the other way round. */
static void factor_round(const float *from, size_t stride, bool transposed, int row, int col, int rows, int cols, float *out)
{
    if (transposed)
        round_block(from + (size_t)col * stride + (size_t)row, stride, cols, rows, out);
    else
        round_block(from + (size_t)row * stride + (size_t)col, stride, rows, cols, out);
}

mt_status k_gemm_cblas_half(struct k_stream *stream, const struct k_gemm *g)
{
    float  a[MC * KC], b[KC * NC];
    size_t lda = k_gemm_lda(g), ldb = k_gemm_ldb(g), ldc = k_gemm_ldc(g);
    for (int j = 0; j < g->n; j += NC)
        for (int p = 0; p < g->k; p += KC) {
            int cols = smaller(NC, g->n - j), depth = smaller(KC, g->k - p);
            factor_round(g->b, ldb, g->b_transposed, p, j, depth, cols, b);
            for (int i = 0; i < g->m; i += MC) {
                int           rows = smaller(MC, g->m - i);
                struct k_gemm part = {.m = rows,
                                      .n = cols,
                                      .k = depth,
                                      .a_transposed = g->a_transposed,
                                      .b_transposed = g->b_transposed,
                                      .beta = p > 0 ? 1.0f : g->beta,
                                      .a = a,
                                      .b = b,
                                      .c = g->c + (size_t)i * ldc + (size_t)j,
                                      .ldc = (int)ldc};
                factor_round(g->a, lda, g->a_transposed, i, p, rows, depth, a);
                MT_TRY(k_gemm_cblas(stream, &part));
            }
        }
    return mt_ok();
}
