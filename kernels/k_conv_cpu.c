/* SPDX-License-Identifier: Apache-2.0
 *
 * k_conv_cpu.c - convolution as matrix products over copied neighbourhoods, one picture after the other.
 *
 * Owns nothing. Thread: any. Built for each width of vectors, like k_vector_cpu.c. A picture's neighbourhoods (a row of
 * kernel * kernel * channels for each output) fit into the second-level cache; those of a batch would not.
 */
#include "kernels/k_build.h"
#include "kernels/k_lanes.h"
#include "kernels/k_private.h"

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

mt_status ENTRY(k_conv_forward_by)(k_gemm_entry *gemm, const struct k_conv *conv)
{
    struct sizes s = sizes_of(conv);
    size_t in = conv->height * conv->width * conv->channels_in, out = s.count * conv->channels_out;

    for (size_t b = 0; b < conv->batch; b++) {
        float *y = conv->y + b * out;
        struct k_gemm product = {.m = (int)s.count, .n = (int)conv->channels_out, .k = (int)s.depth,
                                 .b_transposed = true, .beta = 1.0f, .a = conv->work, .b = conv->weight, .c = y};
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
    size_t in = conv->height * conv->width * conv->channels_in, out = s.count * conv->channels_out;

    if (!conv->adds)
        memset(conv->dbias, 0, conv->channels_out * sizeof(float));
    for (size_t b = 0; b < conv->batch; b++) {
        const float *dy = conv->dy + b * out;
        struct k_gemm weight = {.m = (int)conv->channels_out, .n = (int)s.depth, .k = (int)s.count,
                                .a_transposed = true, .beta = b || conv->adds ? 1.0f : 0.0f, .a = dy, .b = conv->work,
                                .c = conv->dweight};
        struct k_gemm input = {.m = (int)s.count, .n = (int)s.depth, .k = (int)conv->channels_out, .a = dy,
                               .b = conv->weight, .c = conv->work};
        neighbours(conv, &s, (float *)(uintptr_t)(conv->x + b * in), conv->work, false);
        bias_add_up(dy, s.count, conv->channels_out, conv->dbias);
        MT_TRY(gemm(NULL, &weight));
        if (!conv->dx)
            continue;
        MT_TRY(gemm(NULL, &input));
        memset(conv->dx + b * in, 0, in * sizeof(float));
        neighbours(conv, &s, conv->dx + b * in, conv->work, true);
    }
    return mt_ok();
}
