/* SPDX-License-Identifier: Apache-2.0
 *
 * lanes.h - sixteen floats at a time, in whatever registers a build has: 1 of AVX-512, 2 of AVX, 4 of SSE.
 *
 * Sums over a row are sixteen sums, one per lane, added as one fixed tree at the end. So every build adds in the same
 * order and gives the same bits.
 */
#ifndef K_LANES_H
#define K_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define K_MASKS 1 /* parts of a vector by one instruction; elsewhere a part is a call of memcpy, and slow to read back */
#endif

enum { K_LANES = 16 };

typedef float   k_lanes __attribute__((vector_size(64)));
typedef int32_t k_ints __attribute__((vector_size(64)));

/* What one register of this build holds. Sixteen at a time are compared and stored by these: gcc 12 compares wider vectors element
 * by element and stores them by way of the stack. What has no order of its own may be written over them alone. */
#if defined(K_MASKS)
enum { K_PART = 64 };
#elif defined(__AVX__)
enum { K_PART = 32 };
#else
enum { K_PART = 16 };
#endif
typedef float   k_part __attribute__((vector_size(K_PART)));
typedef int32_t k_part_ints __attribute__((vector_size(K_PART)));
enum { K_PARTS = 64 / K_PART, K_PART_FLOATS = K_PART / 4 };

/* The functions are inlined always: a call would pass these registers, and builds differ in how. That is why the compiler's
 * warning of it says nothing here. */
#pragma GCC diagnostic ignored "-Wpsabi"
#define K_INLINE static inline __attribute__((always_inline))

K_INLINE k_lanes k_load(const float *from)
{
    k_lanes out;
    memcpy(&out, from, sizeof out);
    return out;
}

K_INLINE void k_store(float *to, k_lanes x)
{
    k_part parts[K_PARTS];
    memcpy(parts, &x, sizeof x);
    for (int i = 0; i < K_PARTS; i++)
        memcpy(to + i * K_PART_FLOATS, &parts[i], K_PART);
}

/* The first `count` of 16, which may be all of them; the others are `other`. Without masks a part goes by way of a copy, of which
 * only the address is chosen: of a value that comes from one of two places gcc keeps no register. */
K_INLINE k_lanes k_load_part(const float *from, size_t count, float other)
{
#if defined(K_MASKS)
    if (count == K_LANES)
        return k_load(from);
    return (k_lanes)_mm512_mask_loadu_ps(_mm512_set1_ps(other), (__mmask16)((1u << count) - 1u), from);
#else
    float part[K_LANES];
    if (count < K_LANES) {
        k_store(part, (k_lanes){0} + other);
        memcpy(part, from, count * sizeof *from);
        from = part;
    }
    return k_load(from);
#endif
}

K_INLINE void k_store_part(float *to, k_lanes x, size_t count)
{
#if defined(K_MASKS)
    if (count == K_LANES)
        k_store(to, x);
    else
        _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1u), (__m512)x);
#else
    float part[K_LANES];
    k_store(count < K_LANES ? part : to, x);
    if (count < K_LANES)
        memcpy(to, part, count * sizeof *to);
#endif
}

/* The larger one, b where that is not to be said; and all bits set where one of the two is not a number. */
#if defined(K_MASKS)
#define K_PART_MAX(a, b) (k_part) _mm512_max_ps((__m512)(a), (__m512)(b))
#define K_PART_NAN(a, b) (k_part) _mm512_movm_epi32(_mm512_cmp_ps_mask((__m512)(a), (__m512)(b), _CMP_UNORD_Q))
#elif defined(__AVX__)
#define K_PART_MAX(a, b) (k_part) _mm256_max_ps((__m256)(a), (__m256)(b))
#define K_PART_NAN(a, b) (k_part) _mm256_cmp_ps((__m256)(a), (__m256)(b), _CMP_UNORD_Q)
#elif defined(__SSE__)
#define K_PART_MAX(a, b) (k_part) _mm_max_ps((__m128)(a), (__m128)(b))
#define K_PART_NAN(a, b) (k_part) _mm_cmpunord_ps((__m128)(a), (__m128)(b))
#else
#define K_PART_MAX(a, b) (k_part)((((a) > (b)) & (k_part_ints)(a)) | (~((a) > (b)) & (k_part_ints)(b)))
#define K_PART_NAN(a, b) (k_part)(((a) != (a)) | ((b) != (b)))
#endif

/* An operation on sixteen. */
#define K_BY_PARTS(name, type, part_type, expression) \
    K_INLINE type name(k_lanes a, k_lanes b) \
    { \
        k_part    left[K_PARTS], right[K_PARTS]; \
        part_type parts[K_PARTS]; \
        type      out; \
        memcpy(left, &a, sizeof a), memcpy(right, &b, sizeof b); \
        for (int i = 0; i < K_PARTS; i++) \
            parts[i] = expression; \
        memcpy(&out, parts, sizeof out); \
        return out; \
    }
/* -1 where it is so, else 0. */
K_BY_PARTS(k_is_less, k_ints, k_part_ints, left[i] < right[i])
/* The larger one; b where that is not to be said. */
K_BY_PARTS(k_max, k_lanes, k_part, K_PART_MAX(left[i], right[i]))

/* yes where mask is -1, no where it is 0. */
K_INLINE k_lanes k_select(k_ints mask, k_lanes yes, k_lanes no)
{
    return (k_lanes)((mask & (k_ints)yes) | (~mask & (k_ints)no));
}

/* Within low and high; what is not a number stays so. */
K_INLINE k_lanes k_bounded(k_lanes x, k_lanes low, k_lanes high)
{
#if defined(K_MASKS)
    return (k_lanes)_mm512_min_ps((__m512)high, _mm512_max_ps((__m512)low, (__m512)x));
#else
    return k_select(k_is_less(high, x), high, k_select(k_is_less(x, low), low, x));
#endif
}

/* Both add or compare lane i and i + 8, then i and i + 4, and so on. */
K_INLINE float k_sum(k_lanes x)
{
#if defined(K_MASKS)
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256((__m512)x), _mm512_extractf32x8_ps((__m512)x, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
#else
    float v[K_LANES];
    memcpy(v, &x, sizeof v);
    for (int half = K_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            v[i] += v[i + half];
    return v[0];
#endif
}

K_INLINE float k_largest(k_lanes x)
{
#if defined(K_MASKS)
    __m256 eight = _mm256_max_ps(_mm512_extractf32x8_ps((__m512)x, 1), _mm512_castps512_ps256((__m512)x));
    __m128 four = _mm_max_ps(_mm256_extractf128_ps(eight, 1), _mm256_castps256_ps128(eight));
    __m128 two = _mm_max_ps(_mm_movehl_ps(four, four), four);
    return _mm_cvtss_f32(_mm_max_ss(_mm_shuffle_ps(two, two, 1), two));
#else
    float v[K_LANES];
    memcpy(v, &x, sizeof v);
    for (int half = K_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            v[i] = v[i + half] > v[i] ? v[i + half] : v[i];
    return v[0];
#endif
}

/* e^x to within 2 units in the last place; 0 below -87, e^88 above 88; NaN stays NaN. */
K_INLINE k_lanes k_exp(k_lanes x)
{
    const k_lanes zero = {0}, low = zero - 87.0f, high = zero + 88.0f, magic = zero + 12582912.0f; /* 1.5 * 2^23 */
    k_lanes       bounded = k_bounded(x, low, high);
    k_lanes       shifted = bounded * 1.44269504f + magic; /* rounds to the nearest whole number in the lowest bits */
    k_lanes       whole = shifted - magic;
    k_lanes       r = bounded - whole * 0.693359375f - whole * -2.12194440e-4f;
    k_lanes       p = r * 1.3888889e-3f + 8.3333333e-3f;
    p = p * r + 4.1666668e-2f;
    p = p * r + 0.16666667f;
    p = p * r + 0.5f;
    p = p * (r * r) + (r + 1.0f);
    k_ints power = ((k_ints)shifted - (k_ints)magic + 127) << 23;
    return k_select(k_is_less(x, low), zero, p * (k_lanes)power);
}

#endif
