/* SPDX-License-Identifier: Apache-2.0
 *
 * k_gemm_amx.c - float32 matrix products on a processor's bf16 tiles (AMX), to the accuracy of float32.
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
#include "kernels/k_private.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A strip of a (24 KB) stays in the first-level cache while the panels of b (400 KB) go by it from the second; TILE is 16 rows
 * of 64 bytes. */
enum { TILE = 1024, PARTS = 3, KC = 128, MC = 32, NC = 512, K_TILES = KC / 32, ROWS_MAX = 512 };
enum { NEAR_FLOATS = 1 << 17, FAR_LINES = 8 };
enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

struct block {
    uint8_t a[MC / 16][K_TILES][PARTS][TILE];
    uint8_t b[NC / 16][K_TILES][PARTS][TILE];
    float   edge[16 * 16]; /* of c, where a tile hangs over its end */
};

struct tile_config {
    uint8_t  palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t  rows[16];
};
static_assert(sizeof(struct tile_config) == 64, "the processor's layout");

bool k_amx_is_usable(void)
{
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw"))
        return false;
    unsigned eax = 7, ebx = 0, ecx = 0, edx = 0;
    __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    bool has_tiles = edx >> 24 & 1, has_bf16 = edx >> 22 & 1;
    return has_tiles && has_bf16 && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

/* ---- packing ---- */

/* Of a product of bfloat16 only the first part is there, rounded to the nearest, ties to even, as k_half_of does. */
#define HIGH _mm512_set1_epi32((int)0xffff0000u)

/* The three parts, each in the upper half of its lane; rounding half away from zero makes the rest smaller than
 * cutting would. */
static inline void split(__m512 x, __m512i parts[PARTS], int count)
{
    const __m512i half = _mm512_set1_epi32(0x8000);
    if (count == 1) {
        __m512i   bits = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
        __m512i   near = _mm512_add_epi32(bits, _mm512_add_epi32(_mm512_set1_epi32(0x7fff), odd));
        __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        near = _mm512_mask_or_epi32(near, is_nan, bits, _mm512_set1_epi32(0x400000));
        parts[0] = _mm512_and_si512(near, HIGH);
        return;
    }
    parts[0] = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), HIGH);
    __m512 rest = _mm512_sub_ps(x, _mm512_castsi512_ps(parts[0]));
    parts[1] = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(rest), half), HIGH);
    parts[2] = _mm512_castps_si512(_mm512_sub_ps(rest, _mm512_castsi512_ps(parts[1])));
}

/* 32 values of one row of a: k 0 to 15, and 16 to 31. */
static inline void store_row(__m512 first, __m512 second, uint8_t *tile, int row, int parts)
{
    static const uint16_t odd[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                     33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    const __m512i upper = _mm512_loadu_si512(odd);
    __m512i x[PARTS], y[PARTS];
    split(first, x, parts);
    split(second, y, parts);
    for (int p = 0; p < parts; p++)
        _mm512_store_si512(tile + p * TILE + row * 64, _mm512_permutex2var_epi16(x[p], upper, y[p]));
}

/* 16 values of one row of a, for the first or the second half of a tile's row. */
static inline void store_half_row(__m512 values, uint8_t *tile, int row, int half, int parts)
{
    __m512i x[PARTS];
    split(values, x, parts);
    for (int p = 0; p < parts; p++)
        _mm256_store_si256((__m256i *)(void *)(tile + p * TILE + row * 64 + half * 32),
                           _mm512_cvtepi32_epi16(_mm512_srli_epi32(x[p], 16)));
}

/* 16 columns of b at two neighbouring k. */
static inline void store_pair(__m512 even, __m512 odd, uint8_t *tile, int pair, int parts)
{
    __m512i x[PARTS], y[PARTS];
    split(even, x, parts);
    split(odd, y, parts);
    for (int p = 0; p < parts; p++)
        _mm512_store_si512(tile + p * TILE + pair * 64,
                           _mm512_or_si512(_mm512_srli_epi32(x[p], 16), _mm512_and_si512(y[p], HIGH)));
}

static inline __mmask16 mask_of(int count)
{
    return (__mmask16)(count >= 16 ? 0xffffu : count <= 0 ? 0u : (1u << count) - 1u);
}

/* A corner of 16 x 16; beyond `rows` and `cols` there are zeros. */
static inline void corner_load(const float *from, size_t stride, int rows, int cols, __m512 out[16])
{
    __mmask16 mask = mask_of(cols);
    for (int i = 0; i < 16; i++)
        out[i] = _mm512_maskz_loadu_ps((__mmask16)(i < rows ? mask : 0), from + (size_t)i * stride);
}

static inline void corner_transpose(__m512 r[16])
{
    __m512 t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

/* 16 floats of a row; zeros for a row or a part of it that is not there. */
static inline __m512 row_load(const float *from, bool is_there, __mmask16 mask)
{
    return _mm512_maskz_loadu_ps((__mmask16)(is_there ? mask : 0), from);
}

/* One tile of a: 16 rows, 32 k. */
static inline __attribute__((always_inline)) void pack_a_tile(const float *a, size_t stride, bool transposed, int rows,
                                                              int depth, uint8_t *tile, int parts)
{
    __mmask16 first = mask_of(depth), second = mask_of(depth - 16);
    __m512 corner[16];

    if (!transposed && rows >= 16 && depth >= 32) {
        for (int i = 0; i < 16; i++, a += stride)
            store_row(_mm512_loadu_ps(a), _mm512_loadu_ps(a + 16), tile, i, parts);
        return;
    }
    for (int i = 0; i < 16 && !transposed; i++) {
        const float *row = a + (size_t)i * stride;
        store_row(row_load(row, i < rows, first), row_load(row + 16, i < rows, second), tile, i, parts);
    }
    for (int half = 0; half < 2 && transposed; half++) {
        corner_load(a + (size_t)half * 16 * stride, stride, depth - half * 16, rows, corner);
        corner_transpose(corner);
        for (int i = 0; i < 16; i++)
            store_half_row(corner[i], tile, i, half, parts);
    }
}

/* One tile of b: 32 k, 16 columns. */
static inline __attribute__((always_inline)) void pack_b_tile(const float *b, size_t stride, bool transposed, int depth,
                                                              int cols, uint8_t *tile, int parts)
{
    __mmask16 mask = mask_of(cols);
    __m512 corner[16];

    if (!transposed && depth >= 32 && cols >= 16) {
        for (int i = 0; i < 16; i++, b += 2 * stride)
            store_pair(_mm512_loadu_ps(b), _mm512_loadu_ps(b + stride), tile, i, parts);
        return;
    }
    for (int i = 0; i < 16 && !transposed; i++) {
        const float *row = b + (size_t)i * 2 * stride;
        store_pair(row_load(row, 2 * i < depth, mask), row_load(row + stride, 2 * i + 1 < depth, mask), tile, i, parts);
    }
    for (int half = 0; half < 2 && transposed; half++) {
        corner_load(b + half * 16, stride, cols, depth - half * 16, corner);
        corner_transpose(corner);
        for (int i = 0; i < 8; i++)
            store_pair(corner[2 * i], corner[2 * i + 1], tile, half * 8 + i, parts);
    }
}

static inline __attribute__((always_inline)) void pack_a(const struct k_gemm *g, size_t stride, int i0, int rows, int p0,
                                                         int depth, struct block *block, int parts)
{
    for (int i = 0; i < rows; i += 16)
        for (int p = 0; p < depth; p += 32) {
            const float *from = g->a_transposed ? g->a + (size_t)(p0 + p) * stride + (size_t)(i0 + i)
                                                : g->a + (size_t)(i0 + i) * stride + (size_t)(p0 + p);
            pack_a_tile(from, stride, g->a_transposed, rows - i, depth - p, block->a[i / 16][p / 32][0], parts);
        }
}

static inline __attribute__((always_inline)) void pack_b(const struct k_gemm *g, size_t stride, int p0, int depth, int j0,
                                                         int cols, struct block *block, int parts)
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
    bool   is_far; /* c is too large for the caches that are near */
};

static const float *tile_begin(const struct target *t, int i, int j, float *edge, size_t *out_stride)
{
    float *c = t->c + (size_t)i * t->stride + (size_t)j;
    *out_stride = t->stride * sizeof(float);
    if (t->rows - i >= 16 && t->cols - j >= 16)
        return c;
    __mmask16 mask = mask_of(t->cols - j);
    for (int r = 0; r < 16; r++)
        _mm512_storeu_ps(edge + r * 16, r < t->rows - i ? _mm512_maskz_loadu_ps(mask, c + (size_t)r * t->stride)
                                                        : _mm512_setzero_ps());
    *out_stride = 64;
    return edge;
}

static void edge_end(const struct target *t, int i, int j, const float *edge)
{
    float *c = t->c + (size_t)i * t->stride + (size_t)j;
    __mmask16 mask = mask_of(t->cols - j);
    for (int r = 0; r < 16 && r < t->rows - i; r++)
        _mm512_mask_storeu_ps(c + (size_t)r * t->stride, mask, _mm512_loadu_ps(edge + r * 16));
}

/* Tile registers are named in the instruction, hence macros: 0 to 3 hold c, 4 and 5 a, 6 and 7 b. */
#define LOAD_C(reg, i, j)                                                                                    \
    do {                                                                                                     \
        if (t->adds) {                                                                                       \
            size_t c_stride_;                                                                                \
            const float *c_ = tile_begin(t, i, j, edge, &c_stride_);                                         \
            _tile_loadd(reg, c_, c_stride_);                                                                 \
        } else {                                                                                             \
            _tile_zero(reg);                                                                                 \
        }                                                                                                    \
    } while (0)
#define STORE_C(reg, i, j)                                                                                   \
    do {                                                                                                     \
        if (t->rows - (i) >= 16 && t->cols - (j) >= 16) {                                                    \
            _tile_stored(reg, t->c + (size_t)(i) * t->stride + (size_t)(j), t->stride * sizeof(float));      \
        } else {                                                                                             \
            _tile_stored(reg, edge, 64);                                                                     \
            edge_end(t, i, j, edge);                                                                         \
        }                                                                                                    \
    } while (0)
#define LOAD_A(part)                                                                                         \
    do {                                                                                                     \
        _tile_loadd(4, a0[kt][part], 64);                                                                    \
        if (two_rows)                                                                                        \
            _tile_loadd(5, a1[kt][part], 64);                                                                \
    } while (0)
#define LOAD_B(part)                                                                                         \
    do {                                                                                                     \
        _tile_loadd(6, b0[kt][part], 64);                                                                    \
        if (two_cols)                                                                                        \
            _tile_loadd(7, b1[kt][part], 64);                                                                \
    } while (0)
#define MULTIPLY()                                                                                           \
    do {                                                                                                     \
        _tile_dpbf16ps(0, 4, 6);                                                                             \
        if (two_cols)                                                                                        \
            _tile_dpbf16ps(1, 4, 7);                                                                         \
        if (two_rows)                                                                                        \
            _tile_dpbf16ps(2, 5, 6);                                                                         \
        if (two_rows && two_cols)                                                                            \
            _tile_dpbf16ps(3, 5, 7);                                                                         \
    } while (0)

typedef uint8_t panel[K_TILES][PARTS][TILE];

/* hi hi, lo hi, mid hi, mid mid, hi mid, hi lo: each step loads one side only, and b's, which are further away, once. */
static inline __attribute__((always_inline)) void kernel(const panel *a, const panel *b, int k_tiles,
                                                         const struct target *t, float *edge, bool two_rows,
                                                         bool two_cols, int parts)
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
    for (int kt = 0; kt < k_tiles; kt++) {
        LOAD_B(0);
        LOAD_A(0);
        MULTIPLY();
        if (parts == 1)
            continue;
        LOAD_A(2);
        MULTIPLY();
        LOAD_A(1);
        MULTIPLY();
        LOAD_B(1);
        MULTIPLY();
        LOAD_A(0);
        MULTIPLY();
        LOAD_B(2);
        MULTIPLY();
    }
    STORE_C(0, 0, 0);
    if (two_cols)
        STORE_C(1, 0, 16);
    if (two_rows)
        STORE_C(2, 16, 0);
    if (two_rows && two_cols)
        STORE_C(3, 16, 16);
}

/* Lines of memory that are needed soon, asked for a few at a time: rows of a matrix lie too far apart for the processor to
 * foresee them. */
struct ahead {
    const char *at;
    size_t      stride; /* bytes from row to row */
    int         rows, lines, line; /* rows that are left; lines in each; the next one of this row */
};

static inline void ahead_fetch(struct ahead *ahead, int count)
{
    for (; count > 0 && ahead->rows > 0; count--) {
        _mm_prefetch(ahead->at + ahead->line * 64, _MM_HINT_T1);
        if (++ahead->line < ahead->lines)
            continue;
        ahead->line = 0;
        ahead->at += ahead->stride;
        ahead->rows--;
    }
}

/* The tiles of c beside those that are computed now. */
static inline void fetch_beside(const struct target *t)
{
    const float *c = t->c + 32;
    int          rows = !t->is_far || t->cols <= 32 ? 0 : t->rows < 32 ? t->rows : 32;
    for (int i = 0; i < rows; i++, c += t->stride) {
        _mm_prefetch((const char *)c, _MM_HINT_T1);
        _mm_prefetch((const char *)(c + 16), _MM_HINT_T1);
    }
}

/* A strip of rows times all panels of the block; meanwhile `ahead`, the next strip, and some of `far`, the next block of b. */
static inline __attribute__((always_inline)) void block_multiply(struct block *block, int rows, int cols, int depth,
                                                                 const struct target *c, struct ahead *ahead,
                                                                 struct ahead *far, int parts)
{
    int          k_tiles = (depth + 31) / 32, each = ahead->rows * ahead->lines / ((cols + 31) / 32) + 1;
    bool         two_rows = rows > 16;
    const panel *a = (const panel *)&block->a[0];

    for (int j = 0; j < cols; j += 32) {
        struct target t = {c->c + (size_t)j, c->stride, rows, cols - j, c->adds, c->is_far};
        const panel *b = (const panel *)&block->b[j / 16];
        bool two_cols = cols - j > 16;
        fetch_beside(&t);
        ahead_fetch(ahead, each);
        ahead_fetch(far, FAR_LINES);
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

/* What is packed next of a matrix: `rows` of its rows (of memory) from (row, col) on, `cols` wide. */
static struct ahead ahead_of(const float *matrix, size_t stride, int row, int rows, int col, int cols)
{
    if (rows <= 0 || cols <= 0)
        return (struct ahead){.rows = 0};
    return (struct ahead){(const char *)(matrix + (size_t)row * stride + (size_t)col), stride * sizeof(float), rows,
                          (cols + 15) / 16, 0};
}

static struct ahead strip_ahead(const struct k_gemm *g, size_t lda, int i, int p, int depth)
{
    int rows = (size_t)g->m * (size_t)g->k > NEAR_FLOATS ? smaller(MC, g->m - i) : 0;
    return g->a_transposed ? ahead_of(g->a, lda, p, depth, i, rows) : ahead_of(g->a, lda, i, rows, p, depth);
}

/* The block of b at (p, j). */
static struct ahead block_ahead(const struct k_gemm *g, size_t ldb, int p, int j)
{
    int depth = smaller(KC, g->k - p), cols = (size_t)g->n * (size_t)g->k > NEAR_FLOATS ? smaller(NC, g->n - j) : 0;
    return g->b_transposed ? ahead_of(g->b, ldb, j, cols, p, depth) : ahead_of(g->b, ldb, p, depth, j, cols);
}

/* Rows from `begin` to `end` times the block of b at (p, j), strip by strip. */
static inline __attribute__((always_inline)) void rows_multiply(const struct k_gemm *g, struct block *block, int begin,
                                                                int end, int p, int j, struct ahead *far, int parts)
{
    size_t lda = k_gemm_lda(g), ldc = k_gemm_ldc(g);
    int    cols = smaller(NC, g->n - j), depth = smaller(KC, g->k - p);
    bool   adds = p > 0 || g->beta != 0.0f, is_far = (size_t)g->m * ldc > NEAR_FLOATS;

    for (int i = begin; i < end; i += MC) {
        int rows = smaller(MC, end - i), last = (g->first + i + rows + 31) / 32 * 32; /* K_..._LOWER: nothing from here on */
        int wide = g->band == K_C_LOWER ? smaller(cols, last - j) : cols;
        int deep = g->band == K_A_LOWER ? smaller(depth, last - p) : depth;
        if (wide <= 0 || deep <= 0 || (g->band == K_A_UPPER && adds && i - g->first >= p + depth))
            continue;
        struct target c = {g->c + (size_t)i * ldc + (size_t)j, ldc, rows, wide, adds, is_far};
        struct ahead  ahead = strip_ahead(g, lda, i + MC, p, depth);
        pack_a(g, lda, i, rows, p, deep, block, parts);
        block_multiply(block, rows, wide, deep, &c, &ahead, far, parts);
    }
}

/* Where k takes several blocks, as many rows at a time as leave their part of c in the second-level cache. */
static inline __attribute__((always_inline)) mt_status multiply(const struct k_gemm *g, int parts)
{
    struct block       block __attribute__((aligned(64)));
    struct tile_config config = {.palette = 1};
    int                rows = g->k <= KC ? g->m : ROWS_MAX;

    for (int i = 0; i < 8; i++)
        config.bytes[i] = 64, config.rows[i] = 16;
    _tile_loadconfig(&config);
    for (int j = 0; j < g->n; j += NC)
        for (int i = 0; i < g->m; i += rows)
            for (int p = 0; p < g->k; p += KC) {
                struct ahead far = block_ahead(g, k_gemm_ldb(g), p + KC < g->k ? p + KC : 0, p + KC < g->k ? j : j + NC);
                pack_b(g, k_gemm_ldb(g), p, smaller(KC, g->k - p), j, smaller(NC, g->n - j), &block, parts);
                rows_multiply(g, &block, i, smaller(i + rows, g->m), p, j, &far, parts);
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
