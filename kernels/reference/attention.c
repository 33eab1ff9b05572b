/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.c - causal attention on float32 as the definition has it, position by position, in double.
 * Owns nothing. Thread: any.
 */
#include "kernels/reference/query.h"
#include "kernels/reference/reference.h"

#include <math.h>
#include <string.h>

static double read_float(const void *numbers, size_t index)
{
    return (double)((const float *)numbers)[index];
}

static void write_float(void *numbers, size_t index, double value)
{
    ((float *)numbers)[index] = (float)value;
}

static void query_backward(const struct k_query *q)
{
    const struct k_attention *a = q->all->user;
    size_t                    out = k_query_out(q), own = k_query_row(q, q->at, 0);
    double                    whole = k_query_dot(q, a->out, out, a->dout, out), lse = (double)a->lse[k_query_lse(q)];

    for (size_t key = 0; key <= q->at; key++) {
        size_t of_key = k_query_row(q, key, 1), of_value = k_query_row(q, key, 2);
        double p = exp(k_query_score(q, key) - lse);
        double ds = p * (k_query_dot(q, a->dout, out, a->qkv, of_value) - whole) * q->scale;
        for (size_t c = 0; c < q->width; c++) {
            a->dqkv[own + c] += (float)(ds * (double)a->qkv[of_key + c]);
            a->dqkv[of_key + c] += (float)(ds * (double)a->qkv[own + c]);
            a->dqkv[of_value + c] += (float)(p * (double)a->dout[out + c]);
        }
    }
}

mt_status k_attention_forward_reference(struct k_stream *stream, const struct k_attention *attention)
{
    struct k_queries all = K_QUERIES(attention, read_float, write_float);
    (void)stream;
    k_queries_each(&all, k_query_forward);
    return mt_ok();
}

mt_status k_attention_backward_reference(struct k_stream *stream, const struct k_attention *attention)
{
    struct k_queries all = K_QUERIES(attention, read_float, write_float);
    (void)stream;
    memset(attention->dqkv, 0, attention->batch * attention->time * 3 * attention->width * sizeof(float));
    k_queries_each(&all, query_backward);
    return mt_ok();
}
