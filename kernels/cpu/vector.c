/* SPDX-License-Identifier: Apache-2.0
 *
 * vector.c - the elementwise entries, in loops that the compiler vectorises. Owns nothing. Thread: any.
 *
 * Built twice: by itself for any CPU, and by vector_avx2.c, which includes it, for AVX2. Neither build
 * contracts a*b+c into one rounding and neither reorders a sum, so both give the same bits.
 */
#include "kernels/cpu/build.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

mt_status ENTRY(k_unpack)(struct k_stream *stream, const uint8_t *restrict in, float *restrict out, size_t count, float scale,
                          float shift)
{
    (void)stream;
    for (size_t i = 0; i < count; i++)
        out[i] = (float)in[i] * scale + shift;
    return mt_ok();
}

mt_status ENTRY(k_bias_add)(struct k_stream *stream, float *restrict x, const float *restrict bias, size_t rows, size_t cols)
{
    (void)stream;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            x[r * cols + c] += bias[c];
    return mt_ok();
}

mt_status ENTRY(k_bias_grad)(struct k_stream *stream, const float *restrict x, float *restrict out, size_t rows, size_t cols)
{
    (void)stream;
    memset(out, 0, cols * sizeof *out);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            out[c] += x[r * cols + c];
    return mt_ok();
}

mt_status ENTRY(k_relu_forward)(struct k_stream *stream, float *x, size_t count)
{
    (void)stream;
    for (size_t i = 0; i < count; i++)
        x[i] = x[i] < 0.0f ? 0.0f : x[i];
    return mt_ok();
}

mt_status ENTRY(k_relu_backward)(struct k_stream *stream, const float *restrict y, float *restrict grad, size_t count)
{
    (void)stream;
    for (size_t i = 0; i < count; i++)
        grad[i] = y[i] > 0.0f ? grad[i] : 0.0f;
    return mt_ok();
}

mt_status ENTRY(k_axpy)(struct k_stream *stream, float alpha, const float *restrict x, float *restrict y, size_t count)
{
    (void)stream;
    for (size_t i = 0; i < count; i++)
        y[i] += alpha * x[i];
    return mt_ok();
}

mt_status ENTRY(k_scale)(struct k_stream *stream, float alpha, float *restrict x, size_t count)
{
    (void)stream;
    for (size_t i = 0; i < count; i++)
        x[i] *= alpha;
    return mt_ok();
}

mt_status ENTRY(k_sgd_update)(struct k_stream *stream, const struct k_sgd *sgd)
{
    float *restrict params = sgd->params, *restrict velocity = sgd->velocity;
    const float *restrict grads = sgd->grads;
    float rate = sgd->rate, momentum = sgd->momentum, decay = sgd->decay;

    size_t count = sgd->count; /* of its own, as in k_adamw_update */

    (void)stream;
    for (size_t i = 0; i < count; i++) {
        float next = momentum * velocity[i] + (grads[i] + decay * params[i]);
        next = fabsf(next) < K_MOMENT_MIN ? 0.0f : next;
        velocity[i] = next;
        params[i] -= rate * next;
    }
    return mt_ok();
}

/* A block of each partial sum fits into the first-level cache together with the block that is added to it. */
enum { TREE_BLOCK = 256, TREE_LEVELS = 11 };
static_assert(MT_VRANKS_MAX <= 1 << (TREE_LEVELS - 1), "a level for each bit of the number of inputs");

static void ENTRY(tree_add)(const float *restrict left, float *restrict right, size_t count)
{
    for (size_t i = 0; i < count; i++)
        right[i] = left[i] + right[i];
}

/* The output may be one of the inputs. */
static void ENTRY(pair_sum)(const float *left, const float *right, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = left[i] + right[i];
}

/* One block of the tree, as a binary counter: after input i, level l holds a finished subtree of 2^l inputs
 * where bit l of i+1 is set. Adding the next input carries, as 1 does in binary; what is left joins from the
 * right. */
static void ENTRY(tree_block)(const float *const *in, size_t inputs, size_t offset, size_t count, float *out)
{
    float  level[TREE_LEVELS][TREE_BLOCK];
    float  carry[TREE_BLOCK];
    size_t size = count * sizeof(float);

    for (size_t i = 0; i < inputs; i++) {
        size_t l = 0;
        memcpy(carry, in[i] + offset, size);
        for (; l < TREE_LEVELS - 1 && (i >> l & 1); l++)
            ENTRY(tree_add)(level[l], carry, count);
        memcpy(level[l], carry, size);
    }
    size_t lowest = 0;
    while (lowest < TREE_LEVELS - 1 && !(inputs >> lowest & 1))
        lowest++;
    memcpy(carry, level[lowest], size);
    for (size_t l = lowest + 1; l < TREE_LEVELS; l++)
        if (inputs >> l & 1)
            ENTRY(tree_add)(level[l], carry, count);
    memcpy(out + offset, carry, size);
}

mt_status ENTRY(k_tree_sum)(struct k_stream *stream, const float *const *in, size_t inputs, size_t count, float *out)
{
    (void)stream;
    if (inputs == 0 || inputs > MT_VRANKS_MAX)
        return mt_error(MT_EINVAL, 0, "tree sum: number of inputs");
    if (inputs == 2) {
        ENTRY(pair_sum)(in[0], in[1], count, out);
        return mt_ok();
    }
    for (size_t offset = 0; offset < count; offset += TREE_BLOCK)
        ENTRY(tree_block)(in, inputs, offset, count - offset < TREE_BLOCK ? count - offset : TREE_BLOCK, out);
    return mt_ok();
}
