/* SPDX-License-Identifier: Apache-2.0
 *
 * conv.cu - convolution on a GPU as matrix products over copied neighbourhoods, as many pictures at a time as fit into
 * the scratch memory.
 *
 * Owns nothing. Backward gathers instead of scattering: each element of dx is summed by one thread, in one order.
 */
#include "kernels/cuda/cuda.cuh"

enum { THREADS = 256 };

struct conv_sizes {
    size_t rows, cols, count, depth; /* of the output: one picture; floats of a neighbourhood */
};

static conv_sizes sizes_of(const struct k_conv *c)
{
    conv_sizes s = {c->height + 2 * c->pad - c->kernel + 1, c->width + 2 * c->pad - c->kernel + 1, 0,
                    c->kernel * c->kernel * c->channels_in};
    s.count = s.rows * s.cols;
    return s;
}

/* Neighbourhoods of `pictures` pictures: out[picture][pixel][kernel row][kernel column][channel]. */
__global__ void gather_kernel(struct k_conv c, conv_sizes s, size_t first, size_t total, float *out)
{
    K_EACH(i, total)
    {
        size_t channel = i % c.channels_in, k = i / c.channels_in % (c.kernel * c.kernel);
        size_t pixel = i / s.depth % s.count, picture = first + i / s.depth / s.count;
        size_t row = pixel / s.cols + k / c.kernel - c.pad, col = pixel % s.cols + k % c.kernel - c.pad; /* may wrap around */
        out[i] = row < c.height && col < c.width ? c.x[((picture * c.height + row) * c.width + col) * c.channels_in + channel]
                                                 : 0.0f;
    }
}

/* The other way: each element of the pictures' gradient is the sum over the neighbourhoods that it is in. */
__global__ void scatter_kernel(struct k_conv c, conv_sizes s, size_t first, size_t total, const float *cols)
{
    K_EACH(i, total)
    {
        size_t channel = i % c.channels_in, col = i / c.channels_in % c.width, row = i / c.channels_in / c.width % c.height;
        size_t picture = i / c.channels_in / c.width / c.height;
        float  sum = 0.0f;
        for (size_t k = 0; k < c.kernel * c.kernel; k++) {
            size_t y_row = row + c.pad - k / c.kernel, y_col = col + c.pad - k % c.kernel; /* may wrap around */
            if (y_row < s.rows && y_col < s.cols)
                sum += cols[((picture * s.count + y_row * s.cols + y_col) * c.kernel * c.kernel + k) * c.channels_in + channel];
        }
        c.dx[first * c.height * c.width * c.channels_in + i] = sum;
    }
}

__global__ void add_kernel(const float *from, float *to, size_t count)
{
    K_EACH(i, count)
    to[i] += from[i];
}

/* Pictures whose neighbourhoods fit into the scratch memory; 0: not even one. */
static size_t pictures_max(const conv_sizes &s)
{
    return (size_t)K_SCRATCH_BYTES / (s.count * s.depth * sizeof(float));
}

static void gather(struct k_stream *stream, const struct k_conv *c, const conv_sizes &s, size_t first, size_t pictures)
{
    size_t total = pictures * s.count * s.depth;
    K_LAUNCH(gather_kernel, k_blocks(total, THREADS), THREADS, 0, k_cuda_stream(stream), *c, s, first, total,
             (float *)k_cuda_scratch());
}

static mt_status size_check(const struct k_conv *c, const conv_sizes &s)
{
    if (pictures_max(s) == 0 || c->batch * s.count > INT32_MAX)
        return mt_error(MT_EINVAL, 0, "convolution on the GPU: a picture's neighbourhoods are too large");
    return mt_ok();
}

mt_status k_conv_forward_cuda(struct k_stream *stream, const struct k_conv *c)
{
    conv_sizes s = sizes_of(c);
    MT_TRY(size_check(c, s));
    size_t most = pictures_max(s);
    for (size_t first = 0; first < c->batch; first += most) {
        size_t        pictures = c->batch - first < most ? c->batch - first : most, rows = pictures * s.count;
        struct k_gemm product = {};
        float        *y = c->y + first * s.count * c->channels_out;
        gather(stream, c, s, first, pictures);
        MT_TRY(k_cuda_launched("convolution on the GPU"));
        product.m = (int)rows, product.n = (int)c->channels_out, product.k = (int)s.depth;
        product.b_transposed = true;
        product.a = (const float *)k_cuda_scratch(), product.b = c->weight, product.c = y;
        MT_TRY(k_gemm_cuda(stream, &product));
        MT_TRY(k_bias_add_cuda(stream, y, c->bias, rows, c->channels_out));
    }
    return mt_ok();
}

/* dbias goes through the scratch memory (k_bias_grad_cuda), so it comes before the neighbourhoods are there. With `adds` the
 * sum is made in `work`, which has room for a neighbourhood of one picture at least. */
static mt_status bias_backward(struct k_stream *stream, const struct k_conv *c, const conv_sizes &s)
{
    size_t rows = c->batch * s.count;
    if (!c->adds)
        return k_bias_grad_cuda(stream, c->dy, c->dbias, rows, c->channels_out);
    if (s.count * s.depth < c->channels_out)
        return mt_error(MT_EINVAL, 0, "convolution on the GPU: more channels than the work memory holds");
    MT_TRY(k_bias_grad_cuda(stream, c->dy, c->work, rows, c->channels_out));
    K_LAUNCH(add_kernel, k_blocks(c->channels_out, THREADS), THREADS, 0, k_cuda_stream(stream), (const float *)c->work, c->dbias,
             c->channels_out);
    return k_cuda_launched("convolution's gradient on the GPU");
}

mt_status k_conv_backward_cuda(struct k_stream *stream, const struct k_conv *c)
{
    conv_sizes s = sizes_of(c);
    MT_TRY(size_check(c, s));
    MT_TRY(bias_backward(stream, c, s));
    size_t most = pictures_max(s);
    float *cols = (float *)k_cuda_scratch();
    for (size_t first = 0; first < c->batch; first += most) {
        size_t        pictures = c->batch - first < most ? c->batch - first : most, rows = pictures * s.count;
        size_t        total = pictures * c->height * c->width * c->channels_in;
        struct k_gemm weight = {}, input = {};
        gather(stream, c, s, first, pictures);
        weight.m = (int)c->channels_out, weight.n = (int)s.depth, weight.k = (int)rows;
        weight.a_transposed = true, weight.beta = first || c->adds ? 1.0f : 0.0f;
        weight.a = c->dy + first * s.count * c->channels_out, weight.b = cols, weight.c = c->dweight;
        MT_TRY(k_gemm_cuda(stream, &weight));
        if (!c->dx)
            continue;
        input.m = (int)rows, input.n = (int)s.depth, input.k = (int)c->channels_out;
        input.a = weight.a, input.b = c->weight, input.c = cols;
        MT_TRY(k_gemm_cuda(stream, &input));
        K_LAUNCH(scatter_kernel, k_blocks(total, THREADS), THREADS, 0, k_cuda_stream(stream), *c, s, first, total,
                 (const float *)cols);
        MT_TRY(k_cuda_launched("convolution's gradient on the GPU"));
    }
    return mt_ok();
}
