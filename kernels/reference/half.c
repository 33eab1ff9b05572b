/* SPDX-License-Identifier: Apache-2.0
 *
 * half.c - the entries of half.h as their definitions have them, with sums in double.
 * Owns nothing. Thread: any.
 */
#include "kernels/half.h"
#include "kernels/reference/query.h"

#include <math.h>

enum { HEAD_MAX = 256 };

static double at(const k_half *x, size_t i)
{
    return (double)k_half_float(x[i]);
}

static k_half half_of(double value)
{
    return k_half_of((float)value);
}

static mt_status cast(struct k_stream *stream, const float *in, k_half *out, size_t count)
{
    (void)stream;
    for (size_t i = 0; i < count; i++)
        out[i] = k_half_of(in[i]);
    return mt_ok();
}

static mt_status gemm(struct k_stream *stream, const struct k_half_gemm *g)
{
    size_t m = (size_t)g->m, n = (size_t)g->n, k = (size_t)g->k;
    (void)stream;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = g->bias ? at(g->bias, j) : 0;
            for (size_t l = 0; l < k; l++)
                sum += at(g->a, g->a_transposed ? l * m + i : i * k + l) * at(g->b, g->b_transposed ? j * k + l : l * n + j);
            if (g->c32)
                g->c32[i * n + j] = (float)(sum + (g->beta != 0.0f ? (double)g->c32[i * n + j] : 0));
            else
                g->c[i * n + j] = half_of(sum + (g->beta != 0.0f ? at(g->c, i * n + j) : 0));
        }
    return mt_ok();
}

static mt_status embed_forward(struct k_stream *stream, const struct k_half_embed *e)
{
    (void)stream;
    for (size_t r = 0; r < e->rows; r++)
        for (size_t c = 0; c < e->cols; c++)
            e->out[r * e->cols + c] = half_of(at(e->token, (size_t)e->tokens[r] * e->cols + c) +
                                              at(e->position, r % e->time * e->cols + c));
    return mt_ok();
}

static mt_status embed_backward(struct k_stream *stream, const struct k_half_embed *e)
{
    (void)stream;
    memset(e->dposition, 0, e->time * e->cols * sizeof *e->dposition);
    for (size_t r = 0; r < e->rows; r++)
        for (size_t c = 0; c < e->cols; c++) {
            e->dtoken[(size_t)e->tokens[r] * e->cols + c] += k_half_float(e->dout[r * e->cols + c]);
            e->dposition[r % e->time * e->cols + c] += k_half_float(e->dout[r * e->cols + c]);
        }
    return mt_ok();
}

static mt_status norm_forward(struct k_stream *stream, const struct k_half_norm *n)
{
    size_t cols = n->cols;
    (void)stream;
    for (size_t r = 0; r < n->rows; r++) {
        const k_half *x = n->x + r * cols;
        double        mean = 0, squares = 0;
        if (n->plus) {
            for (size_t c = 0; c < cols; c++)
                n->sum[r * cols + c] = half_of(at(x, c) + at(n->plus, r * cols + c));
            x = n->sum + r * cols;
        }
        for (size_t c = 0; c < cols; c++)
            mean += at(x, c) / (double)cols;
        for (size_t c = 0; c < cols; c++)
            squares += (at(x, c) - mean) * (at(x, c) - mean) / (double)cols;
        double rstd = 1.0 / sqrt(squares + 1e-5);
        for (size_t c = 0; c < cols; c++)
            n->y[r * cols + c] = half_of((at(x, c) - mean) * rstd * (double)n->weight[c] + (double)n->bias[c]);
        n->mean[r] = (float)mean;
        n->rstd[r] = (float)rstd;
    }
    return mt_ok();
}

static void norm_row_backward(const struct k_half_norm *n, size_t r)
{
    size_t        cols = n->cols;
    const k_half *x = n->x + r * cols, *dy = n->dy + r * cols;
    double        mean = (double)n->mean[r], rstd = (double)n->rstd[r], sum = 0, sum_scaled = 0;
    for (size_t c = 0; c < cols; c++) {
        double scaled = (at(x, c) - mean) * rstd, d = at(dy, c);
        n->dbias[c] += (float)d;
        n->dweight[c] += (float)(d * scaled);
        sum += d * (double)n->weight[c] / (double)cols;
        sum_scaled += d * (double)n->weight[c] * scaled / (double)cols;
    }
    for (size_t c = 0; c < cols; c++) {
        double scaled = (at(x, c) - mean) * rstd;
        double dx = (at(dy, c) * (double)n->weight[c] - sum - scaled * sum_scaled) * rstd;
        n->dx[r * cols + c] = half_of(dx + (n->carry ? at(n->carry, r * cols + c) : 0));
    }
}

static mt_status norm_backward(struct k_stream *stream, const struct k_half_norm *n)
{
    (void)stream;
    memset(n->dweight, 0, n->cols * sizeof *n->dweight);
    memset(n->dbias, 0, n->cols * sizeof *n->dbias);
    for (size_t r = 0; r < n->rows; r++)
        norm_row_backward(n, r);
    return mt_ok();
}

static double gelu_gate(double x)
{
    return 1.0 / (1.0 + exp(-2.0 * 0.79788456080286536 * (x + 0.044715 * x * x * x)));
}

static mt_status gelu_forward(struct k_stream *stream, const k_half *x, k_half *y, size_t count)
{
    (void)stream;
    for (size_t i = 0; i < count; i++)
        y[i] = half_of(at(x, i) * gelu_gate(at(x, i)));
    return mt_ok();
}

static mt_status gelu_backward(struct k_stream *stream, const k_half *x, k_half *grad, size_t count)
{
    (void)stream;
    for (size_t i = 0; i < count; i++) {
        double v = at(x, i), gate = gelu_gate(v), slope = 2.0 * 0.79788456080286536 * (1.0 + 3.0 * 0.044715 * v * v);
        grad[i] = half_of(at(grad, i) * (gate + v * gate * (1.0 - gate) * slope));
    }
    return mt_ok();
}

static mt_status bias_grad(struct k_stream *stream, const k_half *x, float *out, size_t rows, size_t cols)
{
    (void)stream;
    for (size_t c = 0; c < cols; c++) {
        double sum = 0;
        for (size_t r = 0; r < rows; r++)
            sum += at(x, r * cols + c);
        out[c] = (float)sum;
    }
    return mt_ok();
}

/* ---- attention: one query of one head ---- */

static double read_half(const void *numbers, size_t index)
{
    return at(numbers, index);
}

static void write_half(void *numbers, size_t index, double value)
{
    ((k_half *)numbers)[index] = half_of(value);
}

/* Of one pair: its probability, and the gradient of its score. */
static double pair_backward(const struct k_query *q, size_t key, double *out_p)
{
    const struct k_half_attention *a = q->all->user;
    size_t                         out = k_query_out(q), row = k_query_lse(q);
    *out_p = exp(k_query_score(q, key) - (double)a->lse[row]);
    return *out_p * (k_query_dot(q, a->dout, out, a->qkv, k_query_row(q, key, 2)) - (double)a->dot[row]) * q->scale;
}

static void dot_make(const struct k_query *q)
{
    const struct k_half_attention *a = q->all->user;
    size_t                         out = k_query_out(q);
    a->dot[k_query_lse(q)] = (float)k_query_dot(q, a->out, out, a->dout, out);
}

/* The gradients of one position's query, key and value. */
static void position_backward(const struct k_query *q)
{
    const struct k_half_attention *a = q->all->user;
    double                         dq[HEAD_MAX] = {0}, dk[HEAD_MAX] = {0}, dv[HEAD_MAX] = {0}, p;
    for (size_t key = 0; key <= q->at; key++) {
        double d = pair_backward(q, key, &p);
        for (size_t c = 0; c < q->width; c++)
            dq[c] += d * at(a->qkv, k_query_row(q, key, 1) + c);
    }
    for (size_t later = q->at; later < a->time; later++) {
        struct k_query of = *q;
        of.at = later;
        double d = pair_backward(&of, q->at, &p);
        for (size_t c = 0; c < q->width; c++) {
            dk[c] += d * at(a->qkv, k_query_row(q, later, 0) + c);
            dv[c] += p * at(a->dout, k_query_out(&of) + c);
        }
    }
    for (size_t c = 0; c < q->width; c++) {
        a->dqkv[k_query_row(q, q->at, 0) + c] = half_of(dq[c]);
        a->dqkv[k_query_row(q, q->at, 1) + c] = half_of(dk[c]);
        a->dqkv[k_query_row(q, q->at, 2) + c] = half_of(dv[c]);
    }
}

static mt_status attention_forward(struct k_stream *stream, const struct k_half_attention *attention)
{
    struct k_queries all = K_QUERIES(attention, read_half, write_half);
    (void)stream;
    k_queries_each(&all, k_query_forward);
    return mt_ok();
}

static mt_status attention_backward(struct k_stream *stream, const struct k_half_attention *attention)
{
    struct k_queries all = K_QUERIES(attention, read_half, write_half);
    (void)stream;
    if (attention->width / attention->heads > HEAD_MAX)
        return mt_error(MT_EINVAL, 0, "attention: a head is wider than 256");
    k_queries_each(&all, dot_make);
    k_queries_each(&all, position_backward);
    return mt_ok();
}

/* ---- loss ---- */

static void xent_row(const struct k_half_xent *x, size_t r)
{
    k_half *scores = x->scores + r * x->stride;
    double  answer = at(scores, (size_t)x->targets[r]), largest = answer, sum = 0;
    for (size_t c = 0; c < x->classes; c++)
        largest = at(scores, c) > largest ? at(scores, c) : largest;
    for (size_t c = 0; c < x->classes; c++)
        sum += exp(at(scores, c) - largest);
    x->losses[r] = (float)(log(sum) - (answer - largest));
    x->right[r] = largest > answer ? 0.0f : 1.0f;
    if (!x->wants_gradient)
        return;
    for (size_t c = 0; c < x->classes; c++) {
        double p = exp(at(scores, c) - largest) / sum;
        scores[c] = half_of((p - (c == (size_t)x->targets[r] ? 1.0 : 0.0)) * (double)x->scale);
    }
    for (size_t c = x->classes; c < x->stride; c++)
        scores[c] = 0;
}

static mt_status xent(struct k_stream *stream, const struct k_half_xent *x)
{
    (void)stream;
    for (size_t r = 0; r < x->rows; r++)
        xent_row(x, r);
    return mt_ok();
}

const struct k_half_ops k_half_reference = {.cast = cast,
                                            .gemm = gemm,
                                            .embed_forward = embed_forward,
                                            .embed_backward = embed_backward,
                                            .norm_forward = norm_forward,
                                            .norm_backward = norm_backward,
                                            .gelu_forward = gelu_forward,
                                            .gelu_backward = gelu_backward,
                                            .bias_grad = bias_grad,
                                            .attention_forward = attention_forward,
                                            .attention_backward = attention_backward,
                                            .xent = xent};
