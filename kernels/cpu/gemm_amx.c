/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_amx.c - float32 matrix products on a processor's bf16 tiles (AMX), to the accuracy of float32.
 *
 * Owns: nothing; the packed blocks lie on the caller's stack. Thread: any.
 *
 * A float has 24 significant bits, which is three bf16 of 8: x = hi + mid + lo, exactly. Of the nine products of two
 * such sums, the six that are not below float32's own rounding are added up, in float32, on the tile unit. That unit
 * is some twenty times as fast as the vector unit, so six products still leave a factor of three to four.
 *
 * What is packed, for 32 values of k at a time: of a, tiles of 16 rows x 32 k; of b, tiles of 16 pairs of k x 16
 * columns x 2. Each tile comes three times: hi, mid, lo. A value that is not finite gives NaN, as inf - inf is.
 */
#include "kernels/cpu/amx.h"
#include "kernels/cpu/cpu.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>

/* A strip of a (24 KB) stays in the first-level cache while the panels of b (400 KB) go by it from the second. */
enum { KC = 128, MC = 32, NC = 512, K_TILES = KC / 32, ROWS_MAX = 512 };
enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

struct block {
    uint8_t a[MC / 16][K_TILES][PARTS][TILE];
    uint8_t b[NC / 16][K_TILES][PARTS][TILE];
    float   edge[16 * 16]; /* of c, where a tile hangs over its end */
};

bool k_amx_is_usable(void)
{
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw"))
        return false;
    unsigned eax = 7, ebx = 0, ecx = 0, edx = 0;
    __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    bool has_tiles = edx >> 24 & 1, has_bf16 = edx >> 22 & 1;
    return has_tiles && has_bf16 && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

static inline __attribute__((always_inline)) void pack_a(const struct k_gemm *g, size_t stride, int i0, int rows, int p0, int depth,
                                                         struct block *block, int parts)
{
    for (int i = 0; i < rows; i += 16)
        for (int p = 0; p < depth; p += 32) {
            const float *from = g->a_transposed ? g->a + (size_t)(p0 + p) * stride + (size_t)(i0 + i)
                                                : g->a + (size_t)(i0 + i) * stride + (size_t)(p0 + p);
            pack_a_tile(from, stride, g->a_transposed, rows - i, depth - p, block->a[i / 16][p / 32][0], parts);
        }
}

static inline __attribute__((always_inline)) void pack_b(const struct k_gemm *g, size_t stride, int p0, int depth, int j0, int cols,
                                                         struct block *block, int parts)
{
    for (int j = 0; j < cols; j += 16)
        for (int p = 0; p < depth; p += 32) {
            const float *from = g->b_transposed ? g->b + (size_t)(j0 + j) * stride + (size_t)(p0 + p)
                                                : g->b + (size_t)(p0 + p) * stride + (size_t)(j0 + j);
            pack_b_tile(from, stride, g->b_transposed, depth - p, cols - j, block->b[j / 16][p / 32][0], parts);
        }
}

/* ---- tiles ---- */

/* Where a tile of c goes, and whether what is there counts. */
struct target {
    float *c;
    size_t stride;
    int    rows, cols; /* from here to the end of c */
    bool   adds;
};

static const float *tile_begin(const struct target *t, int i, int j, float *edge, size_t *out_stride)
{
    float *c = t->c + (size_t)i * t->stride + (size_t)j;
    *out_stride = t->stride * sizeof(float);
    if (t->rows - i >= 16 && t->cols - j >= 16)
        return c;
    __mmask16 mask = mask_of(t->cols - j);
    for (int r = 0; r < 16; r++)
        _mm512_storeu_ps(edge + r * 16,
                         r < t->rows - i ? _mm512_maskz_loadu_ps(mask, c + (size_t)r * t->stride) : _mm512_setzero_ps());
    *out_stride = 64;
    return edge;
}

static void edge_end(const struct target *t, int i, int j, const float *edge)
{
    float    *c = t->c + (size_t)i * t->stride + (size_t)j;
    __mmask16 mask = mask_of(t->cols - j);
    for (int r = 0; r < 16 && r < t->rows - i; r++)
        _mm512_mask_storeu_ps(c + (size_t)r * t->stride, mask, _mm512_loadu_ps(edge + r * 16));
}

#define LOAD_C(reg, i, j) \
    do { \
        if (t->adds) { \
            size_t       c_stride_; \
            const float *c_ = tile_begin(t, i, j, edge, &c_stride_); \
            _tile_loadd(reg, c_, c_stride_); \
        } else { \
            _tile_zero(reg); \
        } \
    } while (0)
#define STORE_C(reg, i, j) \
    do { \
        if (t->rows - (i) >= 16 && t->cols - (j) >= 16) { \
            _tile_stored(reg, t->c + (size_t)(i)*t->stride + (size_t)(j), t->stride * sizeof(float)); \
        } else { \
            _tile_stored(reg, edge, 64); \
            edge_end(t, i, j, edge); \
        } \
    } while (0)
#define LOAD_A(part) \
    do { \
        _tile_loadd(4, a0[kt][part], 64); \
        if (two_rows) \
            _tile_loadd(5, a1[kt][part], 64); \
    } while (0)
#define LOAD_B(part) \
    do { \
        _tile_loadd(6, b0[kt][part], 64); \
        if (two_cols) \
            _tile_loadd(7, b1[kt][part], 64); \
    } while (0)
typedef uint8_t panel[K_TILES][PARTS][TILE];

static inline __attribute__((always_inline)) void kernel(const panel *a, const panel *b, int k_tiles, const struct target *t,
                                                         float *edge, bool two_rows, bool two_cols, int parts)
{
    const uint8_t(*a0)[PARTS][TILE] = a[0], (*a1)[PARTS][TILE] = a[two_rows];
    const uint8_t(*b0)[PARTS][TILE] = b[0], (*b1)[PARTS][TILE] = b[two_cols];

    LOAD_C(0, 0, 0);
    if (two_cols)
        LOAD_C(1, 0, 16);
    if (two_rows)
        LOAD_C(2, 16, 0);
    if (two_rows && two_cols)
        LOAD_C(3, 16, 16);
    for (int kt = 0; kt < k_tiles; kt++)
        PRODUCTS(parts);
    STORE_C(0, 0, 0);
    if (two_cols)
        STORE_C(1, 0, 16);
    if (two_rows)
        STORE_C(2, 16, 0);
    if (two_rows && two_cols)
        STORE_C(3, 16, 16);
}

/* A strip of rows times all panels of the block. */
static inline __attribute__((always_inline)) void block_multiply(struct block *block, int rows, int cols, int depth,
                                                                 const struct target *c, int parts)
{
    int          k_tiles = (depth + 31) / 32;
    bool         two_rows = rows > 16;
    const panel *a = (const panel *)&block->a[0];

    for (int j = 0; j < cols; j += 32) {
        struct target t = {c->c + (size_t)j, c->stride, rows, cols - j, c->adds};
        const panel  *b = (const panel *)&block->b[j / 16];
        bool          two_cols = cols - j > 16;
        if (two_rows && two_cols)
            kernel(a, b, k_tiles, &t, block->edge, true, true, parts);
        else if (two_rows)
            kernel(a, b, k_tiles, &t, block->edge, true, false, parts);
        else if (two_cols)
            kernel(a, b, k_tiles, &t, block->edge, false, true, parts);
        else
            kernel(a, b, k_tiles, &t, block->edge, false, false, parts);
    }
}

static inline int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Rows from `begin` to `end` times the block of b at (p, j), strip by strip. */
static inline __attribute__((always_inline)) void rows_multiply(const struct k_gemm *g, struct block *block, int begin, int end,
                                                                int p, int j, int parts)
{
    size_t lda = k_gemm_lda(g), ldc = k_gemm_ldc(g);
    int    cols = smaller(NC, g->n - j), depth = smaller(KC, g->k - p);
    bool   adds = p > 0 || g->beta != 0.0f;

    for (int i = begin; i < end; i += MC) {
        int rows = smaller(MC, end - i), last = (g->first + i + rows + 31) / 32 * 32; /* K_..._LOWER: nothing from here on */
        int wide = g->band == K_C_LOWER ? smaller(cols, last - j) : cols;
        int deep = g->band == K_A_LOWER ? smaller(depth, last - p) : depth;
        if (wide <= 0 || deep <= 0 || (g->band == K_A_UPPER && adds && i - g->first >= p + depth))
            continue;
        struct target c = {g->c + (size_t)i * ldc + (size_t)j, ldc, rows, wide, adds};
        pack_a(g, lda, i, rows, p, deep, block, parts);
        block_multiply(block, rows, wide, deep, &c, parts);
    }
}

/* Where k takes several blocks, as many rows at a time as leave their part of c in the second-level cache. */
static inline __attribute__((always_inline)) mt_status multiply(const struct k_gemm *g, int parts)
{
    struct block block __attribute__((aligned(64)));
    int          rows = g->k <= KC ? g->m : g->n <= NC / 2 ? 2 * ROWS_MAX : ROWS_MAX;

    tiles_configure(16);
    for (int j = 0; j < g->n; j += NC)
        for (int i = 0; i < g->m; i += rows)
            for (int p = 0; p < g->k; p += KC) {
                pack_b(g, k_gemm_ldb(g), p, smaller(KC, g->k - p), j, smaller(NC, g->n - j), &block, parts);
                rows_multiply(g, &block, i, smaller(i + rows, g->m), p, j, parts);
            }
    _tile_release();
    return mt_ok();
}

mt_status k_gemm_amx(struct k_stream *stream, const struct k_gemm *g)
{
    (void)stream;
    return multiply(g, PARTS);
}

mt_status k_gemm_amx_half(struct k_stream *stream, const struct k_gemm *g)
{
    (void)stream;
    return multiply(g, 1);
}
#endif
