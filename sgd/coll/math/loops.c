/* SPDX-License-Identifier: Apache-2.0
 *
 * loops.c - the loops of math.h: built as they stand, and again by loops_avx2.c and loops_avx512.c
 * with wider vectors. An element's arithmetic is the same in each, so are the bits. Owns nothing. Thread: any.
 */
#include "sgd/coll/math/loops.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#ifndef COLL_BUILD
#define COLL_BUILD base
#endif
#define PASTE_(a, b) a##_##b
#define PASTE(a, b)  PASTE_(a, b)

/* The user's buffers may lie anywhere; an output may be one of the inputs, exactly, but overlaps none otherwise (ivdep). */
typedef float    f32 __attribute__((aligned(1)));
typedef double   f64 __attribute__((aligned(1)));
typedef int32_t  i32 __attribute__((aligned(1)));
typedef int64_t  i64 __attribute__((aligned(1)));
typedef uint16_t u16 __attribute__((aligned(1)));
typedef uint8_t  u8;

#define LOOP(name, type, expression) \
    static void name(void *out, const void *in_a, const void *in_b, size_t n) \
    { \
        const type *left = in_a, *right = in_b; \
        type       *to = out; \
        _Pragma("GCC ivdep") for (size_t i = 0; i < n; i++) \
        { \
            type a = left[i], b = right[i]; \
            to[i] = (type)(expression); \
        } \
    }
#define DIVIDE(name, type) \
    static void name(void *x, size_t n, uint32_t by) \
    { \
        type *to = x; \
        for (size_t i = 0; i < n; i++) \
            to[i] = (type)(to[i] / (type)by); \
    }

/* One line of 64 bytes past the caches. */
static inline void line_stream(void *to, const void *from)
{
#if defined(__AVX512F__)
    _mm512_stream_si512(to, _mm512_loadu_si512(from));
#elif defined(__x86_64__)
    __m128i       *out = to;
    const __m128i *in = from;
    for (int i = 0; i < 4; i++)
        _mm_stream_si128(out + i, _mm_loadu_si128(in + i));
#else
    memcpy(to, from, 64);
#endif
}

/* What is copied beside line `at`, if anything. The processor's own prefetching ends with each page of the source. */
static inline void beside(const struct coll_also *also, size_t at)
{
    enum { AHEAD = 1024 };
    size_t begin = at * 64;
    if (begin % COLL_BESIDE_BYTES != 0 || begin + COLL_BESIDE_BYTES > also->size)
        return;
    for (size_t i = begin; i < begin + COLL_BESIDE_BYTES; i += 64) {
        const char *from = (const char *)also->from + i;
        __builtin_prefetch(from + AHEAD);
        memcpy((char *)also->to + i, from, 64);
    }
}

/* A line is read from all inputs before it is written anywhere. No block is put aside in between: the processor then reads
 * ahead without a pause. */
#define LOOP_PAST(name, type, expression) \
    static void past_##name(void *const *out, uint32_t outs, const void *in_a, const void *in_b, size_t lines, \
                            const struct coll_also *also) \
    { \
        const type *left = in_a, *right = in_b; \
        enum { N = 64 / sizeof(type) }; \
        for (size_t at = 0; at < lines; at++, left += N, right += N) { \
            _Alignas(64) type line[N]; \
            beside(also, at); \
            for (size_t i = 0; i < N; i++) { \
                type a = left[i], b = right[i]; \
                line[i] = (type)(expression); \
            } \
            for (uint32_t o = 0; o < outs; o++) \
                line_stream((char *)out[o] + at * 64, line); \
        } \
    }

/* What is not a number wins: a != a keeps the left one, and where only b is none, a > b is false. */
#define BOTH(name, type, expression) LOOP(name, type, expression) LOOP_PAST(name, type, expression)
#define LOOPS_OF(type, sum) \
    BOTH(sum_##type, type, sum) \
    BOTH(max_##type, type, (a > b) | (a != a) ? a : b) \
    BOTH(min_##type, type, (a < b) | (a != a) ? a : b) \
    DIVIDE(divide_##type, type)
LOOPS_OF(f32, a + b)
LOOPS_OF(f64, a + b)
LOOPS_OF(i32, (uint32_t)a + (uint32_t)b)
LOOPS_OF(i64, (uint64_t)a + (uint64_t)b)
LOOPS_OF(u8, a + b)

/* ---- 16-bit floats ---- */

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void widen_bf16(float *out, const void *in, size_t n)
{
    const u16 *restrict from = in;
    float *restrict to = out;
    for (size_t i = 0; i < n; i++)
        to[i] = float_of((uint32_t)from[i] << 16);
}

static void narrow_bf16(void *out, const float *in, size_t n)
{
    u16 *restrict to = out;
    const float *restrict from = in;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = bits_of(from[i]);
        uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
        to[i] = (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
    }
}

/* Widening: the exponent's bias changes by 112; subnormals become normal by a subtraction that is exact. */
static float f16_widen(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    if (rest >= 0x7c00)
        return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13 | (rest > 0x7c00 ? 0x400000u : 0));
    if (rest < 0x400)
        return float_of(sign | bits_of(float_of(0x38800000 | rest << 13) - float_of(0x38800000)));
    return float_of(sign | ((rest << 13) + (112u << 23)));
}

static uint16_t f16_narrow(float x)
{
    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x477ff000) /* rounds to 65536 or more */
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) /* subnormal: adding 0.5 puts its unit where float32's last bit is, and rounds */
        return (uint16_t)(sign | (bits_of(float_of(rest) + 0.5f) - bits_of(0.5f)));
    return (uint16_t)(sign | (rest - (112u << 23) + 0xfff + (rest >> 13 & 1)) >> 13);
}

static void widen_f16(float *out, const void *in, size_t n)
{
    const u16 *from = in;
    size_t     i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
#endif
    for (; i < n; i++)
        out[i] = f16_widen(from[i]);
}

static void narrow_f16(void *out, const float *in, size_t n)
{
    u16   *to = out;
    size_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
    for (; i < n; i++)
        to[i] = f16_narrow(in[i]);
}

/* ---- past the caches ---- */

static void stream(void *to, const void *from, size_t lines)
{
    for (size_t i = 0; i < lines; i++)
        line_stream((char *)to + i * 64, (const char *)from + i * 64);
}

#define ROW(type) \
    { \
        [COLL_SUM] = sum_##type, [COLL_MAX] = max_##type, [COLL_MIN] = min_##type \
    }
#define PAST(type) \
    { \
        [COLL_SUM] = past_sum_##type, [COLL_MAX] = past_max_##type, [COLL_MIN] = past_min_##type \
    }
const struct coll_loops PASTE(coll_loops, COLL_BUILD) = {
    .combine = {[COLL_LANE_F32] = ROW(f32),
                [COLL_LANE_F64] = ROW(f64),
                [COLL_LANE_I32] = ROW(i32),
                [COLL_LANE_I64] = ROW(i64),
                [COLL_LANE_U8] = ROW(u8)},
    .divide = {divide_f32, divide_f64, divide_i32, divide_i64, divide_u8},
    .widen = {widen_bf16, widen_f16},
    .narrow = {narrow_bf16, narrow_f16},
    .stream = stream,
    .combine_past = {[COLL_LANE_F32] = PAST(f32),
                     [COLL_LANE_F64] = PAST(f64),
                     [COLL_LANE_I32] = PAST(i32),
                     [COLL_LANE_I64] = PAST(i64),
                     [COLL_LANE_U8] = PAST(u8)},
};
