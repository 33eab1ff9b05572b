/* SPDX-License-Identifier: Apache-2.0
 *
 * conv_amx.c - convolution whose bf16 tiles are read from the picture itself, split once, without copied neighbourhoods.
 *
 * Owns nothing. Thread: any.
 *
 * Where channels come in groups of 32, the neighbours that one kernel position sees of some outputs in a row are pixels that
 * follow each other: a tile of a product's left side as it stands in memory. So forward is nine products (of 3 x 3) that read
 * the same picture from nine places, and the gradient of the input is a convolution of dy, with a border of zeros, by the
 * kernel turned around. The gradient of the weights sums over pixels: its right side's tiles want two neighbouring pixels
 * interleaved, which are kept for each pixel, so that any place may begin; its left side is dy, turned, with zeros between
 * the rows so that both count pixels alike. Other shapes take the way of conv.c.
 */
#include "kernels/cpu/amx.h"
#include "kernels/cpu/cpu.h"

#if defined(__x86_64__)

/* Where a part of a picture lies, in bytes of `work`; everything begins at whole cache lines. */
static uint8_t *aligned(float *work)
{
    return (uint8_t *)(((uintptr_t)work + 63) / 64 * 64);
}

/* ---- a convolution by tiles ---- */

struct picture {
    size_t height, width, channels, border; /* without the border of zeros */
};

static size_t wide(const struct picture *p)
{
    return p->width + 2 * p->border;
}

static size_t plane_bytes(const struct picture *p)
{
    return wide(p) * (p->height + 2 * p->border) * p->channels * 2;
}

/* Each part a picture of its own. */
static inline __attribute__((always_inline)) void picture_split(const struct picture *p, const float *x, uint8_t *out, int parts)
{
    size_t plane = plane_bytes(p), row = wide(p) * p->channels * 2, side = p->border * p->channels * 2;

    for (int part = 0; part < parts && p->border; part++) {
        uint8_t *at = out + (size_t)part * plane;
        memset(at, 0, p->border * row);
        memset(at + (p->border + p->height) * row, 0, p->border * row);
        for (size_t i = p->border; i < p->border + p->height; i++) {
            memset(at + i * row, 0, side);
            memset(at + (i + 1) * row - side, 0, side);
        }
    }
    for (size_t i = 0; i < p->height; i++) {
        uint8_t *to = out + (i + p->border) * row + side;
        for (size_t c = 0; c < p->width * p->channels; c += 32, x += 32)
            store_row(_mm512_loadu_ps(x), _mm512_loadu_ps(x + 16), to + c * 2, plane, parts);
    }
}

struct pass {
    struct picture in;
    size_t         kernel, rows, cols, channels; /* of the output */
    const uint8_t *planes, *weights;             /* split; weights in tiles: [channels / 16][kernel][kernel][in.channels / 32] */
    const float   *bias;                         /* NULL: none */
    float         *y;
};

#define LOAD_A(part) \
    do { \
        _tile_loadd(4, a0 + (part)*plane, stride); \
        if (two_rows) \
            _tile_loadd(5, a1 + (part)*plane, stride); \
    } while (0)
#define LOAD_B(part) \
    do { \
        _tile_loadd(6, b0 + (part)*TILE, 64); \
        _tile_loadd(7, b1 + (part)*TILE, 64); \
    } while (0)

/* Two tiles of outputs (one, if not `two_rows`), from the pixels at `first` and `second`, times 32 channels from `channel` on. */
static inline __attribute__((always_inline)) void outputs_multiply(const struct pass *p, size_t first, size_t second,
                                                                   size_t channel, bool two_rows, int parts)
{
    const bool     two_cols = true;
    size_t         stride = p->in.channels * 2, plane = plane_bytes(&p->in), line = p->channels * sizeof(float);
    size_t         k_tiles = p->kernel * p->kernel * p->in.channels / 32, width = wide(&p->in);
    size_t         from = (first / p->cols * width + first % p->cols) * stride;
    size_t         further = (second / p->cols * width + second % p->cols) * stride;
    const uint8_t *b0 = p->weights + channel / 16 * k_tiles * (size_t)parts * TILE, *b1 = b0 + k_tiles * (size_t)parts * TILE;
    float         *y0 = p->y + first * p->channels + channel, *y1 = p->y + second * p->channels + channel;
    const float    zeros[32] = {0}, *begin = p->bias ? p->bias + channel : zeros;

    _tile_loadd(0, begin, 0); /* the same line for each row */
    _tile_loadd(1, begin + 16, 0);
    _tile_loadd(2, begin, 0);
    _tile_loadd(3, begin + 16, 0);
    for (size_t i = 0; i < p->kernel; i++) {
        const uint8_t *a0 = p->planes + from + i * width * stride, *a1 = p->planes + further + i * width * stride;
        for (size_t j = 0; j < p->kernel * stride; j += 64) { /* kernel columns follow each other, as their channels do */
            PRODUCTS(parts);
            a0 += 64, a1 += 64;
            b0 += parts * TILE, b1 += parts * TILE;
        }
    }
    _tile_stored(0, y0, line);
    _tile_stored(1, y0 + 16, line);
    if (two_rows) {
        _tile_stored(2, y1, line);
        _tile_stored(3, y1 + 16, line);
    }
}
#undef LOAD_A
#undef LOAD_B

/* A row of outputs is some tiles of equal height; the last may repeat outputs of the one before. */
static inline __attribute__((always_inline)) void pass_run(const struct pass *p, int parts)
{
    size_t each = (p->cols + 15) / 16, high = (p->cols + each - 1) / each, count = p->rows * each, at[2];

    tiles_configure((int)high);
    for (size_t channel = 0; channel < p->channels; channel += 32)
        for (size_t i = 0; i < count; i += 2) {
            for (size_t t = 0; t < 2; t++) {
                size_t col = (i + t) % each * high;
                at[t] = (i + t) / each * p->cols + (col + high > p->cols ? p->cols - high : col);
            }
            if (i + 1 < count)
                outputs_multiply(p, at[0], at[1], channel, true, parts);
            else
                outputs_multiply(p, at[0], at[0], channel, false, parts);
        }
}

/* ---- forward, and the gradient of the input ---- */

static inline __attribute__((always_inline)) void forward(const struct k_conv *conv, int parts)
{
    struct pass p = {.in = {conv->height, conv->width, conv->channels_in, conv->pad},
                     .kernel = conv->kernel,
                     .rows = conv->height + 2 * conv->pad - conv->kernel + 1,
                     .cols = conv->width + 2 * conv->pad - conv->kernel + 1,
                     .channels = conv->channels_out,
                     .bias = conv->bias};
    size_t      depth = conv->kernel * conv->kernel * conv->channels_in, size = (size_t)parts * TILE;
    uint8_t    *weights = aligned(conv->work), *tile = weights, *planes = weights + p.channels / 16 * (depth / 32) * size;

    p.weights = weights;
    p.planes = planes;
    for (size_t n = 0; n < p.channels; n += 16)
        for (size_t k = 0; k < depth; k += 32, tile += size)
            pack_b_tile(conv->weight + n * depth + k, depth, true, 32, 16, tile, parts);
    for (size_t b = 0; b < conv->batch; b++) {
        p.y = conv->y + b * p.rows * p.cols * p.channels;
        picture_split(&p.in, conv->x + b * conv->height * conv->width * conv->channels_in, planes, parts);
        pass_run(&p, parts);
    }
}

/* Of one picture: dy, which has a border, by the kernel turned around. */
static inline __attribute__((always_inline)) void input_gradient(const struct k_conv *conv, const struct pass *forward,
                                                                 const float *dy, float *dx, int parts)
{
    size_t      kernel = conv->kernel, in = conv->channels_in, depth = kernel * kernel * in, size = (size_t)parts * TILE;
    struct pass p = {.in = {forward->rows, forward->cols, conv->channels_out, kernel - 1 - conv->pad},
                     .kernel = kernel,
                     .rows = conv->height,
                     .cols = conv->width,
                     .channels = in,
                     .y = dx};
    uint8_t    *weights = aligned(conv->work), *tile = weights;

    for (size_t n = 0; n < in; n += 16)
        for (size_t k = kernel * kernel; k-- > 0;)
            for (size_t c = 0; c < conv->channels_out; c += 32, tile += size)
                pack_b_tile(conv->weight + c * depth + k * in + n, depth, false, 32, 16, tile, parts);
    p.weights = weights;
    p.planes = tile;
    picture_split(&p.in, dy, tile, parts);
    pass_run(&p, parts);
}

/* ---- the gradient of the weights ---- */

struct weights_pass {
    const struct k_conv *conv;
    size_t               width;        /* of the picture with its border: pixels are counted by it */
    size_t               pixels;       /* of dy, a multiple of 32 */
    size_t               pair_plane;   /* bytes */
    const uint8_t       *left, *pairs; /* [channels_out / 16][pixels / 32] tiles; [part][pixel][channel][2] */
    float               *dweight;
    bool                 adds;
};

/* Each pixel beside the one that follows it, for `count` pixels; those of the border and behind the end are zeros. */
static inline __attribute__((always_inline)) void pairs_make(const struct picture *p, const float *x, size_t count, uint8_t *out,
                                                             int parts)
{
    size_t  width = wide(p), apart = count * p->channels * 4;
    __m512i last[PARTS], next[PARTS];

    for (size_t c = 0; c < p->channels; c += 16)
        for (size_t q = 0, i = 0, j = 0; q <= count; q++) {
            bool         is_inside = i >= p->border && i < p->border + p->height && j >= p->border && j < p->border + p->width;
            const float *at = is_inside ? x + ((i - p->border) * p->width + j - p->border) * p->channels + c : x;
            split(row_load(at, is_inside, 0xffff), next, parts);
            for (int part = 0; part < parts; part++) {
                if (q)
                    _mm512_store_si512(out + (size_t)part * apart + ((q - 1) * p->channels + c) * 4,
                                       beside(last[part], next[part]));
                last[part] = next[part];
            }
            if (++j == width)
                j = 0, i++;
        }
}

/* A walk over the pixels of dy by the width of the other picture: 16 channels of each, zeros where there is none. */
struct walk {
    const float *dy;
    size_t       rows, cols, width, channels, i, j;
};

static inline __m512 walk_next(struct walk *w)
{
    bool   is_inside = w->i < w->rows && w->j < w->cols;
    __m512 x = row_load(is_inside ? w->dy + (w->i * w->cols + w->j) * w->channels : w->dy, is_inside, 0xffff);
    if (++w->j == w->width)
        w->j = 0, w->i++;
    return x;
}

/* dy turned, in tiles of 16 channels x 32 pixels, and its sum over pixels, from the first to the last, added to dbias. */
static inline __attribute__((always_inline)) void left_make(const struct k_conv *conv, size_t rows, size_t cols, size_t width,
                                                            size_t pixels, const float *dy, uint8_t *tile, int parts)
{
    for (size_t c = 0; c < conv->channels_out; c += 16) {
        struct walk walk = {dy + c, rows, cols, width, conv->channels_out, 0, 0};
        __m512      sum = _mm512_loadu_ps(conv->dbias + c);
        for (size_t q = 0; q < pixels; q += 32, tile += parts * TILE) {
            for (int pair = 0; pair < 16; pair++) {
                __m512 even = walk_next(&walk), odd = walk_next(&walk);
                sum = _mm512_add_ps(_mm512_add_ps(sum, even), odd);
                store_pair(even, odd, tile, pair, parts);
            }
            tile_turn(tile, parts);
        }
        _mm512_storeu_ps(conv->dbias + c, sum);
    }
}

#define LOAD_A(part) \
    do { \
        _tile_loadd(4, a0 + (part)*TILE, 64); \
        _tile_loadd(5, a1 + (part)*TILE, 64); \
    } while (0)
#define LOAD_B(part) \
    do { \
        _tile_loadd(6, b + (part)*p->pair_plane, stride); \
        _tile_loadd(7, b + (part)*p->pair_plane + 64, stride); \
    } while (0)

/* 32 channels out by 32 in, at the kernel's position `k`. */
static inline __attribute__((always_inline)) void weights_multiply(const struct weights_pass *p, size_t out, size_t k, size_t in,
                                                                   int parts)
{
    const struct k_conv *conv = p->conv;
    const bool           two_rows = true, two_cols = true;
    size_t               size = (size_t)parts * TILE, stride = conv->channels_in * 8;
    size_t               depth = conv->kernel * conv->kernel * conv->channels_in;
    const uint8_t       *a0 = p->left + out / 16 * (p->pixels / 32) * size, *a1 = a0 + p->pixels / 32 * size;
    const uint8_t       *b = p->pairs + ((k / conv->kernel * p->width + k % conv->kernel) * conv->channels_in + in) * 4;
    float               *c0 = p->dweight + out * depth + k * conv->channels_in + in, *c1 = c0 + 16 * depth;

    if (p->adds) {
        _tile_loadd(0, c0, depth * 4);
        _tile_loadd(1, c0 + 16, depth * 4);
        _tile_loadd(2, c1, depth * 4);
        _tile_loadd(3, c1 + 16, depth * 4);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (size_t q = 0; q < p->pixels; q += 32) {
        PRODUCTS(parts);
        a0 += size, a1 += size;
        b += 16 * stride;
    }
    _tile_stored(0, c0, depth * 4);
    _tile_stored(1, c0 + 16, depth * 4);
    _tile_stored(2, c1, depth * 4);
    _tile_stored(3, c1 + 16, depth * 4);
}
#undef LOAD_A
#undef LOAD_B

/* Of one picture; dbias too. */
static inline __attribute__((always_inline)) void weights_gradient(const struct k_conv *conv, const struct pass *forward,
                                                                   const float *x, const float *dy, bool adds, int parts)
{
    struct weights_pass p = {.conv = conv, .width = wide(&forward->in), .dweight = conv->dweight, .adds = adds};
    p.pixels = ((forward->rows - 1) * p.width + forward->cols + 31) / 32 * 32;
    size_t   count = p.pixels + (conv->kernel - 1) * (p.width + 1);
    uint8_t *left = aligned(conv->work), *pairs = left + conv->channels_out / 16 * (p.pixels / 32) * (size_t)parts * TILE;

    p.left = left;
    p.pairs = pairs;
    p.pair_plane = count * conv->channels_in * 4;
    pairs_make(&forward->in, x, count, pairs, parts);
    left_make(conv, forward->rows, forward->cols, p.width, p.pixels, dy, left, parts);
    tiles_configure(16);
    for (size_t out = 0; out < conv->channels_out; out += 32)
        for (size_t k = 0; k < conv->kernel * conv->kernel; k++)
            for (size_t in = 0; in < conv->channels_in; in += 32)
                weights_multiply(&p, out, k, in, parts);
}

static inline __attribute__((always_inline)) void backward(const struct k_conv *conv, int parts)
{
    struct pass p = {.in = {conv->height, conv->width, conv->channels_in, conv->pad}};
    p.rows = conv->height + 2 * conv->pad - conv->kernel + 1;
    p.cols = conv->width + 2 * conv->pad - conv->kernel + 1;
    size_t in = conv->height * conv->width * conv->channels_in, out = p.rows * p.cols * conv->channels_out;

    if (!conv->adds)
        memset(conv->dbias, 0, conv->channels_out * sizeof(float));
    for (size_t b = 0; b < conv->batch; b++) {
        const float *dy = conv->dy + b * out;
        weights_gradient(conv, &p, conv->x + b * in, dy, conv->adds || b, parts);
        if (conv->dx)
            input_gradient(conv, &p, dy, conv->dx + b * in, parts);
    }
}

/* ---- entries ---- */

static bool fits(const struct k_conv *conv)
{
    return conv->channels_in % 32 == 0 && conv->channels_out % 32 == 0 && conv->pad < conv->kernel;
}

mt_status k_conv_forward_by_tiles(k_gemm_entry *gemm, const struct k_conv *conv)
{
    if (!fits(conv))
        return k_conv_forward_by_avx512(gemm, conv);
    if (gemm == k_gemm_amx)
        forward(conv, PARTS);
    else
        forward(conv, 1);
    _tile_release();
    return mt_ok();
}

mt_status k_conv_backward_by_tiles(k_gemm_entry *gemm, const struct k_conv *conv)
{
    if (!fits(conv))
        return k_conv_backward_by_avx512(gemm, conv);
    if (gemm == k_gemm_amx)
        backward(conv, PARTS);
    else
        backward(conv, 1);
    _tile_release();
    return mt_ok();
}
#endif
