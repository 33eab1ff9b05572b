/* SPDX-License-Identifier: Apache-2.0
 *
 * amx.h - what the products on bf16 tiles share: splitting floats, packing tiles, and the order of the six products.
 *
 * Included by gemm_amx.c and conv_amx.c only, which say what a tile of either side is (LOAD_A, LOAD_B). A float has 24
 * significant bits, which is three bf16 of 8: x = hi + mid + lo, exactly.
 */
#ifndef K_AMX_H
#define K_AMX_H

#if defined(__AMX_TILE__) && defined(__AVX512F__) /* a file that includes it is compiled for both */
#include <assert.h>
#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { TILE = 1024, PARTS = 3 }; /* a tile is 16 rows of 64 bytes */

struct tile_config {
    uint8_t  palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t  rows[16];
};
static_assert(sizeof(struct tile_config) == 64, "the processor's layout");

/* `rows` in a tile of a and of the sums; a tile of b has 16. */
static inline void tiles_configure(int rows)
{
    struct tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++)
        config.bytes[i] = 64, config.rows[i] = (uint8_t)(i < 6 ? rows : 16);
    _tile_loadconfig(&config);
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

/* 32 values that follow each other in k: one row of a tile of a. Their parts go `apart` bytes from each other. */
static inline void store_row(__m512 first, __m512 second, uint8_t *to, size_t apart, int parts)
{
    static const uint16_t odd[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                     33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    const __m512i         upper = _mm512_loadu_si512(odd);
    __m512i               x[PARTS], y[PARTS];
    split(first, x, parts);
    split(second, y, parts);
    for (int p = 0; p < parts; p++)
        _mm512_store_si512(to + (size_t)p * apart, _mm512_permutex2var_epi16(x[p], upper, y[p]));
}

/* The upper half of each lane of `even` in its lower one, beside that of `odd`. */
static inline __m512i beside(__m512i even, __m512i odd)
{
    return _mm512_ternarylogic_epi32(_mm512_srli_epi32(even, 16), odd, HIGH, 0xf8); /* first or (second and third) */
}

/* 16 columns of b at two neighbouring k. */
static inline void store_pair(__m512 even, __m512 odd, uint8_t *tile, int pair, int parts)
{
    __m512i x[PARTS], y[PARTS];
    split(even, x, parts);
    split(odd, y, parts);
    for (int p = 0; p < parts; p++)
        _mm512_store_si512(tile + p * TILE + pair * 64, beside(x[p], y[p]));
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

/* A tile of b becomes one of a, and the other way round: pairs change places with columns. Pairs that are made first and
 * turned then cost half of what single values do. */
static inline void tile_turn(uint8_t *tile, int parts)
{
    __m512 pairs[16];
    for (int p = 0; p < parts; p++, tile += TILE) {
        for (int i = 0; i < 16; i++)
            pairs[i] = _mm512_load_ps(tile + i * 64);
        corner_transpose(pairs);
        for (int i = 0; i < 16; i++)
            _mm512_store_ps(tile + i * 64, pairs[i]);
    }
}

/* 16 floats of a row; zeros for a row or a part of it that is not there. */
static inline __m512 row_load(const float *from, bool is_there, __mmask16 mask)
{
    return _mm512_maskz_loadu_ps((__mmask16)(is_there ? mask : 0), from);
}

/* One tile of a: 16 rows, 32 k. */
static inline __attribute__((always_inline)) void pack_a_tile(const float *a, size_t stride, bool transposed, int rows, int depth,
                                                              uint8_t *tile, int parts)
{
    __mmask16 first = mask_of(depth), second = mask_of(depth - 16);

    if (!transposed && rows >= 16 && depth >= 32) {
        for (int i = 0; i < 16; i++, a += stride)
            store_row(_mm512_loadu_ps(a), _mm512_loadu_ps(a + 16), tile + i * 64, TILE, parts);
        return;
    }
    for (int i = 0; i < 16 && !transposed; i++) {
        const float *row = a + (size_t)i * stride;
        store_row(row_load(row, i < rows, first), row_load(row + 16, i < rows, second), tile + i * 64, TILE, parts);
    }
    if (!transposed)
        return;
    __mmask16 mask = mask_of(rows);
    for (int i = 0; i < 16; i++) {
        const float *row = a + (size_t)i * 2 * stride;
        store_pair(row_load(row, 2 * i < depth, mask), row_load(row + stride, 2 * i + 1 < depth, mask), tile, i, parts);
    }
    tile_turn(tile, parts);
}

/* One tile of b: 32 k, 16 columns. */
static inline __attribute__((always_inline)) void pack_b_tile(const float *b, size_t stride, bool transposed, int depth, int cols,
                                                              uint8_t *tile, int parts)
{
    __mmask16 mask = mask_of(cols);
    __m512    corner[16];

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

/* ---- products ---- */

/* Tile registers are named in the instruction, hence macros: 0 to 3 hold c, 4 and 5 a, 6 and 7 b. */
#define MULTIPLY() \
    do { \
        _tile_dpbf16ps(0, 4, 6); \
        if (two_cols) \
            _tile_dpbf16ps(1, 4, 7); \
        if (two_rows) \
            _tile_dpbf16ps(2, 5, 6); \
        if (two_rows && two_cols) \
            _tile_dpbf16ps(3, 5, 7); \
    } while (0)
/* hi hi, lo hi, mid hi, mid mid, hi mid, hi lo: each step loads one side only, and b's, which are further away, once. */
#define PRODUCTS(parts) \
    do { \
        LOAD_B(0); \
        LOAD_A(0); \
        MULTIPLY(); \
        if ((parts) == 1) \
            break; \
        LOAD_A(2); \
        MULTIPLY(); \
        LOAD_A(1); \
        MULTIPLY(); \
        LOAD_B(1); \
        MULTIPLY(); \
        LOAD_A(0); \
        MULTIPLY(); \
        LOAD_B(2); \
        MULTIPLY(); \
    } while (0)

#endif
#endif
