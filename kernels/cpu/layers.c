/* SPDX-License-Identifier: Apache-2.0
 *
 * layers.c - activations, normalisation, embedding, pooling, loss and AdamW. Owns nothing. Thread: any.
 *
 * Built for each width of vectors, like vector.c: sums go by sixteen lanes (lanes.h), everything else is
 * element by element, so all builds give the same bits.
 */
#include "kernels/cpu/build.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/cpu.h"

#include <math.h>

/* Runs `body` over count elements, with `at` and `n` the next sixteen or what is left of them. */
#define EACH_LANES(at, n, count) \
    for (size_t at = 0, n; at < (count) && (n = (count)-at < K_LANES ? (count)-at : K_LANES, true); at += K_LANES)

K_INLINE k_lanes load(const float *from, size_t n)
{
    return k_load_part(from, n, 0.0f);
}

/* ---- GELU ---- */

#define GELU_SCALE 0.79788456f /* sqrt(2 / pi) */
#define GELU_CUBE  0.044715f

/* (1 + tanh u) / 2 is 1 / (1 + e^-2u). */
K_INLINE k_lanes gelu_gate(k_lanes x)
{
    k_lanes u = (x + x * x * x * GELU_CUBE) * GELU_SCALE;
    return 1.0f / (1.0f + k_exp(u * -2.0f));
}

mt_status ENTRY(k_gelu_forward)(struct k_stream *stream, const float *x, float *y, size_t count)
{
    (void)stream;
    EACH_LANES(i, n, count) {
        k_lanes v = load(x + i, n);
        k_store_part(y + i, v * gelu_gate(v), n);
    }
    return mt_ok();
}

mt_status ENTRY(k_gelu_backward)(struct k_stream *stream, const float *x, float *grad, size_t count)
{
    (void)stream;
    EACH_LANES(i, n, count) {
        k_lanes v = load(x + i, n), gate = gelu_gate(v);
        k_lanes slope = (1.0f + v * v * (3.0f * GELU_CUBE)) * (2.0f * GELU_SCALE);
        k_store_part(grad + i, load(grad + i, n) * (gate + v * gate * (1.0f - gate) * slope), n);
    }
    return mt_ok();
}

/* ---- layer normalisation ---- */

#define VARIANCE_FLOOR 1e-5f

static void ENTRY(norm_row)(const struct k_layernorm *norm, size_t row)
{
    size_t       cols = norm->cols;
    const float *x = norm->x + row * cols;
    k_lanes      sum = {0}, squares = {0};

    EACH_LANES(c, n, cols)
        sum += load(x + c, n);
    float mean = k_sum(sum) / (float)cols;
    EACH_LANES(c, n, cols) {
        k_lanes off = k_load_part(x + c, n, mean) - mean;
        squares += off * off;
    }
    float rstd = 1.0f / sqrtf(k_sum(squares) / (float)cols + VARIANCE_FLOOR);
    EACH_LANES(c, n, cols) {
        k_lanes scaled = (load(x + c, n) - mean) * rstd;
        k_store_part(norm->y + row * cols + c, scaled * load(norm->weight + c, n) + load(norm->bias + c, n), n);
    }
    norm->mean[row] = mean;
    norm->rstd[row] = rstd;
}

mt_status ENTRY(k_layernorm_forward)(struct k_stream *stream, const struct k_layernorm *norm)
{
    (void)stream;
    for (size_t r = 0; r < norm->rows; r++)
        ENTRY(norm_row)(norm, r);
    return mt_ok();
}

static void ENTRY(norm_row_backward)(const struct k_layernorm *norm, size_t row)
{
    size_t       cols = norm->cols;
    const float *x = norm->x + row * cols, *dy = norm->dy + row * cols;
    float        mean = norm->mean[row], rstd = norm->rstd[row];
    k_lanes      sum = {0}, sum_scaled = {0};

    EACH_LANES(c, n, cols) {
        k_lanes d = load(dy + c, n), scaled = (load(x + c, n) - mean) * rstd, dw = d * load(norm->weight + c, n);
        k_store_part(norm->dbias + c, load(norm->dbias + c, n) + d, n);
        k_store_part(norm->dweight + c, load(norm->dweight + c, n) + d * scaled, n);
        sum += dw;
        sum_scaled += dw * scaled;
    }
    float average = k_sum(sum) / (float)cols, average_scaled = k_sum(sum_scaled) / (float)cols;
    EACH_LANES(c, n, cols) {
        k_lanes scaled = (load(x + c, n) - mean) * rstd, dw = load(dy + c, n) * load(norm->weight + c, n);
        k_store_part(norm->dx + row * cols + c, (dw - average - scaled * average_scaled) * rstd, n);
    }
}

mt_status ENTRY(k_layernorm_backward)(struct k_stream *stream, const struct k_layernorm *norm)
{
    (void)stream;
    memset(norm->dweight, 0, norm->cols * sizeof(float));
    memset(norm->dbias, 0, norm->cols * sizeof(float));
    for (size_t r = 0; r < norm->rows; r++)
        ENTRY(norm_row_backward)(norm, r);
    return mt_ok();
}

/* ---- embedding ---- */

mt_status ENTRY(k_embed_forward)(struct k_stream *stream, const struct k_embed *embed)
{
    size_t cols = embed->cols;
    (void)stream;
    for (size_t r = 0; r < embed->rows; r++) {
        const float *token = embed->token + (size_t)embed->tokens[r] * cols;
        const float *position = embed->position + r % embed->time * cols;
        float *restrict out = embed->out + r * cols;
        for (size_t c = 0; c < cols; c++)
            out[c] = token[c] + position[c];
    }
    return mt_ok();
}

mt_status ENTRY(k_embed_backward)(struct k_stream *stream, const struct k_embed *embed)
{
    size_t cols = embed->cols;
    (void)stream;
    for (size_t r = 0; r < embed->rows; r++) {
        const float *restrict d = embed->dout + r * cols;
        float *restrict token = embed->dtoken + (size_t)embed->tokens[r] * cols;
        float *restrict position = embed->dposition + r % embed->time * cols;
        for (size_t c = 0; c < cols; c++)
            token[c] += d[c];
        for (size_t c = 0; c < cols; c++)
            position[c] += d[c];
    }
    return mt_ok();
}

/* ---- pooling ---- */

/* The first n floats; the others are 0. Where the call stands n is known, or gcc keeps no register. */
K_INLINE k_part part_load(const float *from, size_t n)
{
    k_part part = {0};
    memcpy(&part, from, n * sizeof *from);
    return part;
}

/* Of n channels of one square the largest. What is not a number shows, wherever in the square it stands: the guard of training
 * looks for it. (The maximum takes it over from the right, and every second one is looked at: none gets past two.) */
K_INLINE void pool_part(const struct k_pool *pool, const float *x, float *y, size_t size, size_t n)
{
    k_part      largest = part_load(x, n);
    k_part_ints is_nan = {0};
    for (size_t k = 1; k < size * size; k++) {
        k_part next = part_load(x + (k / size * pool->width + k % size) * pool->channels, n);
        if (k % 2)
            is_nan |= (k_part_ints)K_PART_NAN(largest, next);
        largest = K_PART_MAX(largest, next);
    }
    largest = (k_part)(is_nan | (k_part_ints)largest);
    memcpy(y, &largest, n * sizeof *y);
}

K_INLINE void pool_cell(const struct k_pool *pool, const float *x, float *y, size_t size)
{
    size_t c = 0;
    for (; c + K_PART_FLOATS <= pool->channels; c += K_PART_FLOATS)
        pool_part(pool, x + c, y + c, size, K_PART_FLOATS);
    for (; c < pool->channels; c++)
        pool_part(pool, x + c, y + c, size, 1);
}

/* For each square: `at`, its first float, and `out`, the first of what stands for it in the smaller pictures. */
#define EACH_SQUARE(pool, at, out) \
    for (size_t out = 0, b_ = 0; b_ < (pool)->batch; b_++) \
        for (size_t i_ = 0; i_ < (pool)->height / (pool)->size; i_++) \
            for (size_t at = (b_ * (pool)->height + i_ * (pool)->size) * (pool)->width * (pool)->channels, \
                        left_ = (pool)->width / (pool)->size; \
                 left_ > 0; left_--, at += (pool)->size * (pool)->channels, out += (pool)->channels)

mt_status ENTRY(k_pool_forward)(struct k_stream *stream, const struct k_pool *pool)
{
    const struct k_pool own = *pool; /* nothing that is written may be a field of it */
    (void)stream;
    if (own.size == 2)
        EACH_SQUARE(&own, at, out) pool_cell(&own, own.x + at, own.y + out, 2);
    else
        EACH_SQUARE(&own, at, out) pool_cell(&own, own.x + at, own.y + out, own.size);
    return mt_ok();
}

/* `at`: of the first of these channels in the larger pictures; `out`: in the smaller ones. */
K_INLINE void pool_part_backward(const struct k_pool *pool, size_t at, size_t out, size_t size, size_t n)
{
    k_part      largest = part_load(pool->y + out, n);
    k_part_ints left = (k_part_ints)part_load(pool->dy + out, n);
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j < size; j++) {
            size_t      place = at + (i * pool->width + j) * pool->channels;
            k_part_ints is_it = part_load(pool->x + place, n) == largest, given = is_it & left;
            memcpy(pool->dx + place, &given, n * sizeof *pool->dx);
            left &= ~is_it;
        }
}

K_INLINE void pool_cell_backward(const struct k_pool *pool, size_t at, size_t out, size_t size)
{
    size_t c = 0;
    for (; c + K_PART_FLOATS <= pool->channels; c += K_PART_FLOATS)
        pool_part_backward(pool, at + c, out + c, size, K_PART_FLOATS);
    for (; c < pool->channels; c++)
        pool_part_backward(pool, at + c, out + c, size, 1);
}

mt_status ENTRY(k_pool_backward)(struct k_stream *stream, const struct k_pool *pool)
{
    const struct k_pool own = *pool;
    (void)stream;
    if (pool->height % pool->size || pool->width % pool->size)
        memset(pool->dx, 0, pool->batch * pool->height * pool->width * pool->channels * sizeof(float));
    EACH_SQUARE(&own, at, out) pool_cell_backward(&own, at, out, own.size);
    return mt_ok();
}

/* ---- softmax and cross-entropy ---- */

/* The largest of a row; NaN is passed over here, and found by the sum that follows. */
K_INLINE float row_largest(const float *x, size_t count)
{
    k_lanes largest = k_load_part(x, count < K_LANES ? count : K_LANES, x[0]);
    EACH_LANES(c, n, count)
        largest = k_max(k_load_part(x + c, n, x[0]), largest);
    return k_largest(largest);
}

/* Subtracts the largest score first, so that nothing overflows; a row of scores that are not finite gives a loss
 * that is not finite, which is for the caller to see. */
static void ENTRY(xent_row)(const float *logits, float *probs, float *loss, size_t classes, size_t label)
{
    MT_ASSERT(label < classes);
    float   largest = row_largest(logits, classes), score = logits[label] - largest;
    k_lanes sum = {0};
    EACH_LANES(c, n, classes) {
        k_lanes e = k_exp(k_load_part(logits + c, n, -INFINITY) - largest);
        k_store_part(probs + c, e, n);
        sum += e;
    }
    float total = k_sum(sum), share = 1.0f / total;
    for (size_t c = 0; c < classes; c++)
        probs[c] *= share;
    *loss = logf(total) - score;
}

static float is_right(const float *logits, size_t classes, float answer)
{
    bool right = true;
    for (size_t c = 0; c < classes; c++)
        right &= !(logits[c] > answer);
    return right ? 1.0f : 0.0f;
}

static size_t label_of(const struct k_xent *xent, size_t row)
{
    return xent->labels ? xent->labels[row] : (size_t)xent->targets[row];
}

mt_status ENTRY(k_xent_forward)(struct k_stream *stream, const struct k_xent *xent)
{
    (void)stream;
    for (size_t r = 0; r < xent->rows; r++) {
        const float *logits = xent->logits + r * xent->classes;
        size_t       label = label_of(xent, r);
        if (xent->right)
            xent->right[r] = is_right(logits, xent->classes, logits[label]);
        ENTRY(xent_row)(logits, xent->probs + r * xent->classes, xent->losses + r, xent->classes, label);
    }
    return mt_ok();
}

mt_status ENTRY(k_xent_backward)(struct k_stream *stream, const struct k_xent *xent)
{
    (void)stream;
    for (size_t r = 0; r < xent->rows; r++) {
        size_t       classes = xent->classes, label = label_of(xent, r);
        const float *probs = xent->probs + r * classes;
        float       *grads = xent->grads + r * classes, scale = xent->scale, right = (probs[label] - 1.0f) * scale;
        for (size_t c = 0; c < classes; c++)
            grads[c] = probs[c] * scale;
        grads[label] = right;
    }
    return mt_ok();
}

/* The rows of one block of attention scores: row i sees `seen + i` of `cols`, the others get 0. */
void ENTRY(k_softmax_causal)(float *scores, size_t rows, size_t stride, size_t seen, size_t cols, float scale, float *lse)
{
    for (size_t i = 0; i < rows; i++) {
        float  *row = scores + i * stride;
        size_t  count = seen + i;
        float   largest = row_largest(row, count) * scale;
        k_lanes sum = {0};
        EACH_LANES(c, n, count) {
            k_lanes x = k_load_part(row + c, n, -INFINITY);
            k_lanes e = k_exp(x * scale - largest);
            k_store_part(row + c, e, n);
            sum += e;
        }
        float total = k_sum(sum), share = 1.0f / total;
        for (size_t c = 0; c < count; c++)
            row[c] *= share;
        memset(row + count, 0, (cols - count) * sizeof *row);
        lse[i] = largest + logf(total);
    }
}

/* Backward of the above: scores become probabilities again, and `grads` (theirs) the scores' gradient.
 * dot[i] is the sum over a row of probability times gradient, which is output times its gradient. */
void ENTRY(k_softmax_causal_backward)(float *scores, float *grads, size_t rows, size_t stride, size_t seen, size_t cols,
                                      float scale, const float *lse, const float *dot)
{
    for (size_t i = 0; i < rows; i++) {
        float *p = scores + i * stride, *d = grads + i * stride;
        size_t count = seen + i;
        EACH_LANES(c, n, count) {
            k_lanes e = k_exp(load(p + c, n) * scale - lse[i]);
            k_store_part(p + c, e, n);
            k_store_part(d + c, e * (load(d + c, n) - dot[i]) * scale, n);
        }
        memset(p + count, 0, (cols - count) * sizeof *p);
        memset(d + count, 0, (cols - count) * sizeof *d);
    }
}

float ENTRY(k_dot)(const float *a, const float *b, size_t count)
{
    k_lanes sum = {0};
    EACH_LANES(c, n, count)
        sum += load(a + c, n) * load(b + c, n);
    return k_sum(sum);
}

/* ---- optimizer and regularisation ---- */

mt_status ENTRY(k_adamw_update)(struct k_stream *stream, const struct k_adamw *a)
{
    float *restrict params = a->params, *restrict mean = a->mean, *restrict square = a->square;
    const float *restrict grads = a->grads;
    float beta1 = a->beta1, beta2 = a->beta2, epsilon = a->epsilon, rate = a->rate, decay = a->decay;
    float mean_scale = (float)(1.0 / (1.0 - pow((double)beta1, (double)a->step)));
    float square_scale = (float)(1.0 / (1.0 - pow((double)beta2, (double)a->step)));

    size_t count = a->count; /* of its own: what is written could be a->count, and no loop of unknown length has vectors */

    (void)stream;
    for (size_t i = 0; i < count; i++) {
        float g = grads[i];
        float m = beta1 * mean[i] + (1.0f - beta1) * g, s = beta2 * square[i] + (1.0f - beta2) * g * g;
        m = fabsf(m) < K_MOMENT_MIN ? 0.0f : m;
        s = s < K_MOMENT_MIN ? 0.0f : s;
        mean[i] = m;
        square[i] = s;
        params[i] -= rate * (m * mean_scale / (sqrtf(s * square_scale) + epsilon) + decay * params[i]);
    }
    return mt_ok();
}

mt_status ENTRY(k_sum_squares)(struct k_stream *stream, const float *x, size_t count, double *out)
{
    double sums[K_LANES] = {0};
    size_t whole = count / K_LANES * K_LANES;
    (void)stream;
    for (size_t i = 0; i < whole; i += K_LANES)
        for (size_t l = 0; l < K_LANES; l++)
            sums[l] += (double)x[i + l] * (double)x[i + l];
    for (size_t i = whole; i < count; i++)
        sums[i - whole] += (double)x[i] * (double)x[i];
    for (size_t half = K_LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            sums[l] += sums[l + half];
    *out = sums[0];
    return mt_ok();
}

/* A hash of (key, index) with good avalanche in 32-bit steps, which vectorise (the constants are Chris Wellons'
 * "lowbias32"). */
K_INLINE uint32_t mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

mt_status ENTRY(k_dropout)(struct k_stream *stream, float *x, size_t count, uint64_t key, float rate)
{
    uint32_t low = (uint32_t)key, high = mix((uint32_t)(key >> 32) ^ 0x9e3779b9u);
    uint32_t bound = (uint32_t)((double)rate * 16777216.0); /* of 24 bits */
    float    scale = 1.0f / (1.0f - rate);

    (void)stream;
    if (!(rate >= 0.0f && rate < 1.0f) || count > UINT32_MAX)
        return mt_error(MT_EINVAL, 0, "dropout: rate or number of elements out of range");
    for (size_t i = 0; i < count; i++) {
        uint32_t hash = mix(mix((uint32_t)i + low) ^ high) >> 8;
        x[i] = hash < bound ? 0.0f : x[i] * scale;
    }
    return mt_ok();
}
