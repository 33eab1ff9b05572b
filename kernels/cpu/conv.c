/* SPDX-License-Identifier: Apache-2.0
 *
 * conv.c - convolution as matrix products over copied neighbourhoods, one picture after the other; where a
 * neighbourhood is small, as in a first layer, sixteen channels at a time straight from the picture.
 *
 * Owns nothing. Thread: any. Built for each width of vectors, like vector.c. A picture's neighbourhoods (a row of
 * kernel * kernel * channels for each output) fit into the second-level cache; those of a batch would not.
 */
#include "kernels/cpu/build.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/cpu.h"

#include <string.h>

struct sizes {
    size_t rows, cols, count; /* of the output: one picture */
    size_t depth;             /* of a neighbourhood, in floats */
    size_t run;               /* kernel * channels_in: neighbours that lie together */
};

static struct sizes sizes_of(const struct k_conv *conv)
{
    struct sizes s = {.rows = conv->height + 2 * conv->pad - conv->kernel + 1,
                      .cols = conv->width + 2 * conv->pad - conv->kernel + 1,
                      .run = conv->kernel * conv->channels_in};
    s.count = s.rows * s.cols;
    s.depth = conv->kernel * s.run;
    return s;
}

/* The part of a run that lies inside of the picture, for the output column j: [first, last) of kernel columns. */
static void inside(const struct k_conv *conv, size_t j, size_t *out_first, size_t *out_last)
{
    size_t end = conv->width + conv->pad;
    *out_first = j < conv->pad ? conv->pad - j : 0;
    *out_last = j + conv->kernel > end ? end - j : conv->kernel;
}

/* Runs are short: a call of memcpy would cost more than the copy. */
static inline __attribute__((always_inline)) void copy(float *restrict to, const float *restrict from, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        k_lanes v = k_load(from + i);
        k_store(to + i, v);
    }
    for (; i < count; i++) {
        to[i] = from[i];
        __asm__("" ::: "memory"); /* or the compiler makes it a call of memcpy again */
    }
}

static inline __attribute__((always_inline)) void add_up(float *restrict to, const float *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

/* Copies neighbourhoods out of a picture, or adds them back into one. */
static void neighbours(const struct k_conv *conv, const struct sizes *s, float *picture, float *cols, bool adds)
{
    size_t channels = conv->channels_in;

    for (size_t i = 0; i < s->rows; i++)
        for (size_t j = 0; j < s->cols; j++)
            for (size_t k = 0; k < conv->kernel; k++) {
                float *restrict run = cols + (i * s->cols + j) * s->depth + k * s->run;
                size_t row = i + k - conv->pad, first, last; /* wraps around above the picture */
                inside(conv, j, &first, &last);
                if (!adds && (row >= conv->height || last - first < conv->kernel))
                    memset(run, 0, s->run * sizeof *run);
                if (row >= conv->height)
                    continue;
                float *restrict at = picture + (row * conv->width + j + first - conv->pad) * channels;
                size_t count = (last - first) * channels;
                if (adds)
                    add_up(at, run + first * channels, count);
                else
                    copy(run + first * channels, at, count);
            }
}

/* ---- small neighbourhoods ---- */

/* A product over so few values is mostly packing. DEPTH_SMALL bounds the places in a neighbourhood; PIXELS says how many
 * outputs are made at a time, TAPS how many sums of a gradient are in registers: AVX-512 has as many, and with fewer
 * this is slower than the product. */
enum { DEPTH_SMALL = 32, PIXELS = 8, TAPS = 9 };
#if defined(__AVX512F__)
enum { HAS_REGISTERS = true };
#else
enum { HAS_REGISTERS = false };
#endif

/* Products of bfloat16 round their factors, which is left to them. */
static bool is_small(k_gemm_entry *gemm, const struct k_conv *conv, const struct sizes *s)
{
    return HAS_REGISTERS && gemm != k_gemm_cblas_half && gemm != k_gemm_amx_half && conv->pad == 0 && s->depth <= DEPTH_SMALL &&
           conv->channels_out % K_LANES == 0;
}

/* Where each value of a neighbourhood lies, from its first on. */
static void places_set(const struct k_conv *conv, const struct sizes *s, size_t places[DEPTH_SMALL])
{
    for (size_t t = 0; t < s->depth; t++)
        places[t] = t / s->run * conv->width * conv->channels_in + t % s->run;
}

/* Sixteen channels of `count` outputs in a row: the bias, then one value of the neighbourhood after the other. */
static inline __attribute__((always_inline)) void small_outputs(const struct k_conv *conv, size_t depth, const size_t *places,
                                                                const float *x, size_t channel, float *y, size_t count)
{
    k_lanes sums[PIXELS];
    for (size_t p = 0; p < count; p++)
        sums[p] = k_load(conv->bias + channel);
    for (size_t t = 0; t < depth; t++) {
        k_lanes      weight = k_load(conv->work + t * conv->channels_out + channel);
        const float *at = x + places[t];
        for (size_t p = 0; p < count; p++)
            sums[p] += weight * at[p * conv->channels_in];
    }
    for (size_t p = 0; p < count; p++)
        k_store(y + p * conv->channels_out + channel, sums[p]);
}

static void small_forward(const struct k_conv *conv, const struct sizes *s, const float *x, float *y)
{
    size_t places[DEPTH_SMALL], in = conv->channels_in, out = conv->channels_out;

    places_set(conv, s, places);
    for (size_t channel = 0; channel < out; channel += K_LANES)
        for (size_t i = 0; i < s->rows; i++) {
            const float *row = x + i * conv->width * in;
            float       *to = y + i * s->cols * out;
            size_t       j = 0;
            for (; j + PIXELS <= s->cols; j += PIXELS)
                small_outputs(conv, s->depth, places, row + j * in, channel, to + j * out, PIXELS);
            for (; j < s->cols; j++)
                small_outputs(conv, s->depth, places, row + j * in, channel, to + j * out, 1);
        }
}

/* Sixteen channels of the gradient at `count` places of the neighbourhood, from the first output to the last. */
static inline __attribute__((always_inline)) void small_sums(const struct k_conv *conv, const struct sizes *s, const float *x,
                                                             const float *dy, const size_t *places, k_lanes *sums, size_t count)
{
    k_lanes local[TAPS];
    for (size_t t = 0; t < count; t++)
        local[t] = (k_lanes){0};
    for (size_t i = 0; i < s->rows; i++)
        for (size_t j = 0; j < s->cols; j++) {
            k_lanes      d = k_load(dy + (i * s->cols + j) * conv->channels_out);
            const float *at = x + (i * conv->width + j) * conv->channels_in;
            for (size_t t = 0; t < count; t++)
                local[t] += d * at[places[t]];
        }
    for (size_t t = 0; t < count; t++)
        sums[t] = local[t];
}

static void small_gradient(const struct k_conv *conv, const struct sizes *s, const float *x, const float *dy, bool adds)
{
    size_t  places[DEPTH_SMALL];
    k_lanes sums[DEPTH_SMALL];

    places_set(conv, s, places);
    for (size_t channel = 0; channel < conv->channels_out; channel += K_LANES) {
        size_t t = 0;
        for (; t + TAPS <= s->depth; t += TAPS)
            small_sums(conv, s, x, dy + channel, places + t, sums + t, TAPS);
        for (; t < s->depth; t++)
            small_sums(conv, s, x, dy + channel, places + t, sums + t, 1);
        for (size_t c = 0; c < K_LANES; c++)
            for (t = 0; t < s->depth; t++) {
                float *to = conv->dweight + (channel + c) * s->depth + t;
                *to = (adds ? *to : 0.0f) + sums[t][c];
            }
    }
}

/* Weights with their channels together. */
static void weights_turn(const struct k_conv *conv, size_t depth)
{
    for (size_t t = 0; t < depth; t++)
        for (size_t c = 0; c < conv->channels_out; c++)
            conv->work[t * conv->channels_out + c] = conv->weight[c * depth + t];
}

/* ---- entries ---- */

static void small_forward_all(const struct k_conv *conv, const struct sizes *s)
{
    weights_turn(conv, s->depth);
    for (size_t b = 0; b < conv->batch; b++)
        small_forward(conv, s, conv->x + b * conv->height * conv->width * conv->channels_in,
                      conv->y + b * s->count * conv->channels_out);
}

mt_status ENTRY(k_conv_forward_by)(k_gemm_entry *gemm, const struct k_conv *conv)
{
    struct sizes s = sizes_of(conv);
    size_t       in = conv->height * conv->width * conv->channels_in, out = s.count * conv->channels_out;

    if (is_small(gemm, conv, &s)) {
        small_forward_all(conv, &s);
        return mt_ok();
    }
    for (size_t b = 0; b < conv->batch; b++) {
        float        *y = conv->y + b * out;
        struct k_gemm product = {.m = (int)s.count,
                                 .n = (int)conv->channels_out,
                                 .k = (int)s.depth,
                                 .b_transposed = true,
                                 .beta = 1.0f,
                                 .a = conv->work,
                                 .b = conv->weight,
                                 .c = y};
        neighbours(conv, &s, (float *)(uintptr_t)(conv->x + b * in), conv->work, false);
        for (size_t i = 0; i < s.count; i++)
            copy(y + i * conv->channels_out, conv->bias, conv->channels_out);
        MT_TRY(gemm(NULL, &product));
    }
    return mt_ok();
}

static void bias_add_up(const float *restrict dy, size_t rows, size_t channels, float *restrict dbias)
{
    for (size_t i = 0; i < rows; i++)
        add_up(dbias, dy + i * channels, channels);
}

mt_status ENTRY(k_conv_backward_by)(k_gemm_entry *gemm, const struct k_conv *conv)
{
    struct sizes s = sizes_of(conv);
    size_t       in = conv->height * conv->width * conv->channels_in, out = s.count * conv->channels_out;

    if (!conv->adds)
        memset(conv->dbias, 0, conv->channels_out * sizeof(float));
    for (size_t b = 0; b < conv->batch; b++) {
        const float  *dy = conv->dy + b * out;
        struct k_gemm weight = {.m = (int)conv->channels_out,
                                .n = (int)s.depth,
                                .k = (int)s.count,
                                .a_transposed = true,
                                .beta = b || conv->adds ? 1.0f : 0.0f,
                                .a = dy,
                                .b = conv->work,
                                .c = conv->dweight};
        struct k_gemm input = {
            .m = (int)s.count, .n = (int)s.depth, .k = (int)conv->channels_out, .a = dy, .b = conv->weight, .c = conv->work};
        bias_add_up(dy, s.count, conv->channels_out, conv->dbias);
        if (!conv->dx && is_small(gemm, conv, &s)) {
            small_gradient(conv, &s, conv->x + b * in, dy, b || conv->adds);
            continue;
        }
        neighbours(conv, &s, (float *)(uintptr_t)(conv->x + b * in), conv->work, false);
        MT_TRY(gemm(NULL, &weight));
        if (!conv->dx)
            continue;
        MT_TRY(gemm(NULL, &input));
        memset(conv->dx + b * in, 0, in * sizeof(float));
        neighbours(conv, &s, conv->dx + b * in, conv->work, true);
    }
    return mt_ok();
}
