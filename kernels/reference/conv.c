/* SPDX-License-Identifier: Apache-2.0
 *
 * conv.c - convolution as the definition has it: what every other one is compared with.
 * Owns nothing. Thread: any.
 */
#include "kernels/reference/reference.h"

#include <string.h>

/* One product of the sum: where its factors lie. */
struct term {
    size_t x, weight;
    size_t y;
};

static bool term_of(const struct k_conv *c, size_t y_row, size_t y_col, size_t k_row, size_t k_col, size_t *out_pixel)
{
    size_t row = y_row + k_row - c->pad, col = y_col + k_col - c->pad; /* wrap around outside of the picture */
    *out_pixel = row * c->width + col;
    return row < c->height && col < c->width;
}

/* Calls `visit` for each product of one picture, output by output. */
static void terms_visit(const struct k_conv *c, size_t batch, void (*visit)(const struct k_conv *, const struct term *))
{
    size_t rows = c->height + 2 * c->pad - c->kernel + 1, cols = c->width + 2 * c->pad - c->kernel + 1, pixel;

    for (size_t i = 0; i < rows * cols * c->channels_out; i++)
        for (size_t k = 0; k < c->kernel * c->kernel; k++) {
            size_t out = i % c->channels_out, at = i / c->channels_out;
            if (!term_of(c, at / cols, at % cols, k / c->kernel, k % c->kernel, &pixel))
                continue;
            for (size_t in = 0; in < c->channels_in; in++) {
                struct term t = {.x = (batch * c->height * c->width + pixel) * c->channels_in + in,
                                 .weight = (out * c->kernel * c->kernel + k) * c->channels_in + in,
                                 .y = batch * rows * cols * c->channels_out + i};
                visit(c, &t);
            }
        }
}

static void forward(const struct k_conv *c, const struct term *t)
{
    c->y[t->y] += c->x[t->x] * c->weight[t->weight];
}

static void backward(const struct k_conv *c, const struct term *t)
{
    c->dweight[t->weight] += c->dy[t->y] * c->x[t->x];
    if (c->dx)
        c->dx[t->x] += c->dy[t->y] * c->weight[t->weight];
}

size_t k_conv_work(const struct k_conv *c)
{
    size_t rows = c->height + 2 * c->pad - c->kernel + 1, cols = c->width + 2 * c->pad - c->kernel + 1;
    size_t copied = rows * cols * c->kernel * c->kernel * c->channels_in; /* all neighbourhoods of one picture */
    /* cpu/conv_amx.c: three parts of two bytes of the weights, of dy and, twice, of the picture, each with its border. */
    size_t pixels = (c->height + 2 * c->kernel) * (c->width + 2 * c->kernel) + 64;
    size_t split = (3 * pixels * (2 * c->channels_in + c->channels_out) +
                    3 * c->channels_out * c->kernel * c->kernel * c->channels_in) /
                       2 +
                   64;
    return copied > split ? copied : split;
}

static size_t outputs(const struct k_conv *c)
{
    return c->batch * (c->height + 2 * c->pad - c->kernel + 1) * (c->width + 2 * c->pad - c->kernel + 1) * c->channels_out;
}

mt_status k_conv_forward_reference(struct k_stream *stream, const struct k_conv *c)
{
    (void)stream;
    for (size_t i = 0; i < outputs(c); i++)
        c->y[i] = c->bias[i % c->channels_out];
    for (size_t b = 0; b < c->batch; b++)
        terms_visit(c, b, forward);
    return mt_ok();
}

mt_status k_conv_backward_reference(struct k_stream *stream, const struct k_conv *c)
{
    (void)stream;
    if (!c->adds) {
        memset(c->dweight, 0, c->channels_out * c->kernel * c->kernel * c->channels_in * sizeof(float));
        memset(c->dbias, 0, c->channels_out * sizeof(float));
    }
    if (c->dx)
        memset(c->dx, 0, c->batch * c->height * c->width * c->channels_in * sizeof(float));
    for (size_t i = 0; i < outputs(c); i++)
        c->dbias[i % c->channels_out] += c->dy[i];
    for (size_t b = 0; b < c->batch; b++)
        terms_visit(c, b, backward);
    return mt_ok();
}
