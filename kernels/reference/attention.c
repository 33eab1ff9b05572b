/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.c - causal attention as the definition has it, position by position, in double.
 * Owns nothing. Thread: any.
 */
#include "kernels/private.h"

#include <math.h>
#include <string.h>

/* One query of one head: its row of q, and where the keys and values of position 0 are. */
struct query {
    const struct k_attention *all;
    size_t                    width, stride, sample, head, at;
    double                    scale;
};

static size_t row_of(const struct query *q, size_t position, size_t part)
{
    return (q->sample * q->all->time + position) * q->stride + part * q->all->width + q->head * q->width;
}

static double dot(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static double score(const struct query *q, size_t key)
{
    return dot(q->all->qkv + row_of(q, q->at, 0), q->all->qkv + row_of(q, key, 1), q->width) * q->scale;
}

static void query_forward(const struct query *q)
{
    const struct k_attention *a = q->all;
    float                    *out = a->out + (q->sample * a->time + q->at) * a->width + q->head * q->width;
    double                    largest = score(q, 0), sum = 0;

    for (size_t key = 1; key <= q->at; key++)
        largest = fmax(largest, score(q, key));
    for (size_t key = 0; key <= q->at; key++)
        sum += exp(score(q, key) - largest);
    double lse = largest + log(sum);
    for (size_t c = 0; c < q->width; c++) {
        double value = 0;
        for (size_t key = 0; key <= q->at; key++)
            value += exp(score(q, key) - lse) * (double)a->qkv[row_of(q, key, 2) + c];
        out[c] = (float)value;
    }
    a->lse[(q->sample * a->heads + q->head) * a->time + q->at] = (float)lse;
}

static void query_backward(const struct query *q)
{
    const struct k_attention *a = q->all;
    size_t                    out = (q->sample * a->time + q->at) * a->width + q->head * q->width;
    double                    whole = dot(a->out + out, a->dout + out, q->width);
    double                    lse = (double)a->lse[(q->sample * a->heads + q->head) * a->time + q->at];

    for (size_t key = 0; key <= q->at; key++) {
        double p = exp(score(q, key) - lse);
        double ds = p * (dot(a->dout + out, a->qkv + row_of(q, key, 2), q->width) - whole) * q->scale;
        for (size_t c = 0; c < q->width; c++) {
            a->dqkv[row_of(q, q->at, 0) + c] += (float)(ds * (double)a->qkv[row_of(q, key, 1) + c]);
            a->dqkv[row_of(q, key, 1) + c] += (float)(ds * (double)a->qkv[row_of(q, q->at, 0) + c]);
            a->dqkv[row_of(q, key, 2) + c] += (float)(p * (double)a->dout[out + c]);
        }
    }
}

static void queries_each(const struct k_attention *a, void (*visit)(const struct query *))
{
    struct query q = {.all = a, .width = a->width / a->heads, .stride = 3 * a->width};
    q.scale = 1.0 / sqrt((double)q.width);
    for (q.sample = 0; q.sample < a->batch; q.sample++)
        for (q.head = 0; q.head < a->heads; q.head++)
            for (q.at = 0; q.at < a->time; q.at++)
                visit(&q);
}

mt_status k_attention_forward_reference(struct k_stream *stream, const struct k_attention *attention)
{
    (void)stream;
    queries_each(attention, query_forward);
    return mt_ok();
}

mt_status k_attention_backward_reference(struct k_stream *stream, const struct k_attention *attention)
{
    (void)stream;
    memset(attention->dqkv, 0, attention->batch * attention->time * 3 * attention->width * sizeof(float));
    queries_each(attention, query_backward);
    return mt_ok();
}
