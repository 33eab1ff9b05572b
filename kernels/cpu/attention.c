/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.c - causal attention, a block of queries at a time against all keys that they see: 64, or 256 where the
 * product leaves out what of a block nobody sees.
 *
 * Owns nothing. Thread: any. Of the scores, only one block is ever stored (64 x time, in the second-level cache up to
 * some thousand positions; 256 x time up to some hundred); the backward pass makes them again from the log of their sum. A row
 * of a block is whole, so its softmax needs no rescaling of partial results.
 */
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

size_t k_attention_work(const struct k_attention *attention)
{
    return 2 * K_QUERIES_MAX * attention->time + K_QUERIES_MAX;
}

/* One head of one sample, and one block of its queries. */
struct head {
    const struct k_attention *all;
    size_t                    queries;           /* at a time */
    size_t                    width, stride;     /* of the head; of a row of qkv, in floats */
    size_t                    first, rows, keys; /* queries [first, first + rows) see keys [0, keys) */
    const float              *q, *k, *v;
    float                    *lse;
    size_t                    out; /* offset of the block's rows in out and dout */
    float                     scale;
};

static void head_begin(struct head *h, size_t sample, size_t head)
{
    const struct k_attention *a = h->all;
    h->width = a->width / a->heads;
    h->stride = 3 * a->width;
    h->k = a->qkv + sample * a->time * h->stride + a->width + head * h->width;
    h->v = h->k + a->width;
    h->scale = 1.0f / sqrtf((float)h->width);
}

static void block_begin(struct head *h, size_t sample, size_t head, size_t first)
{
    const struct k_attention *a = h->all;
    h->first = first;
    h->rows = a->time - first < h->queries ? a->time - first : h->queries;
    h->keys = first + h->rows;
    h->q = a->qkv + (sample * a->time + first) * h->stride + head * h->width;
    h->lse = a->lse + (sample * a->heads + head) * a->time + first;
    h->out = (sample * a->time + first) * a->width + head * h->width;
}

/* scores = rows of `left` times rows of `right`. */
static mt_status scores_make(const struct k_attention_code *code, const struct head *h, const float *left, size_t left_stride,
                             const float *right, float *scores)
{
    struct k_gemm product = {.m = (int)h->rows,
                             .n = (int)h->keys,
                             .k = (int)h->width,
                             .b_transposed = true,
                             .a = left,
                             .b = right,
                             .c = scores,
                             .lda = (int)left_stride,
                             .ldb = (int)h->stride,
                             .ldc = (int)h->all->time,
                             .band = K_C_LOWER,
                             .first = (int)h->first};
    return code->gemm(NULL, &product);
}

static mt_status block_forward(const struct k_attention_code *code, const struct head *h)
{
    const struct k_attention *a = h->all;
    float                    *scores = a->work;
    MT_TRY(scores_make(code, h, h->q, h->stride, h->k, scores));
    code->softmax(scores, h->rows, a->time, h->first + 1, h->keys, h->scale, h->lse);
    struct k_gemm product = {.m = (int)h->rows,
                             .n = (int)h->width,
                             .k = (int)h->keys,
                             .a = scores,
                             .b = h->v,
                             .c = a->out + h->out,
                             .lda = (int)a->time,
                             .ldb = (int)h->stride,
                             .ldc = (int)a->width,
                             .band = K_A_LOWER,
                             .first = (int)h->first};
    return code->gemm(NULL, &product);
}

/* Gradients of the keys and the values grow from block to block; those of the queries are whole at once. */
static mt_status block_backward(const struct k_attention_code *code, const struct head *h)
{
    const struct k_attention *a = h->all;
    float                    *scores = a->work, *grads = scores + h->queries * a->time, *dot = grads + h->queries * a->time;
    float                    *dq = a->dqkv + (h->q - a->qkv), *dk = a->dqkv + (h->k - a->qkv), *dv = a->dqkv + (h->v - a->qkv);
    const float              *dout = a->dout + h->out;

    MT_TRY(scores_make(code, h, h->q, h->stride, h->k, scores));
    MT_TRY(scores_make(code, h, dout, a->width, h->v, grads));
    for (size_t i = 0; i < h->rows; i++)
        dot[i] = code->dot(a->out + h->out + i * a->width, dout + i * a->width, h->width);
    code->softmax_backward(scores, grads, h->rows, a->time, h->first + 1, h->keys, h->scale, h->lse, dot);

    struct k_gemm values = {.m = (int)h->keys,
                            .n = (int)h->width,
                            .k = (int)h->rows,
                            .a_transposed = true,
                            .beta = 1.0f,
                            .a = scores,
                            .b = dout,
                            .c = dv,
                            .lda = (int)a->time,
                            .ldb = (int)a->width,
                            .ldc = (int)h->stride,
                            .band = K_A_UPPER,
                            .first = (int)h->first};
    struct k_gemm keys = values;
    keys.a = grads, keys.b = h->q, keys.c = dk, keys.ldb = (int)h->stride;
    struct k_gemm queries = {.m = (int)h->rows,
                             .n = (int)h->width,
                             .k = (int)h->keys,
                             .a = grads,
                             .b = h->k,
                             .c = dq,
                             .lda = (int)a->time,
                             .ldb = (int)h->stride,
                             .ldc = (int)h->stride,
                             .band = K_A_LOWER,
                             .first = (int)h->first};
    MT_TRY(code->gemm(NULL, &values));
    MT_TRY(code->gemm(NULL, &keys));
    return code->gemm(NULL, &queries);
}

static mt_status blocks_each(const struct k_attention_code *code, const struct k_attention *a,
                             mt_status (*block)(const struct k_attention_code *, const struct head *))
{
    struct head h = {.all = a, .queries = code->queries};
    for (size_t sample = 0; sample < a->batch; sample++)
        for (size_t head = 0; head < a->heads; head++) {
            head_begin(&h, sample, head);
            for (size_t first = 0; first < a->time; first += h.queries) {
                block_begin(&h, sample, head, first);
                MT_TRY(block(code, &h));
            }
        }
    return mt_ok();
}

mt_status k_attention_forward_by(const struct k_attention_code *code, const struct k_attention *attention)
{
    return blocks_each(code, attention, block_forward);
}

mt_status k_attention_backward_by(const struct k_attention_code *code, const struct k_attention *attention)
{
    memset(attention->dqkv, 0, attention->batch * attention->time * 3 * attention->width * sizeof(float));
    return blocks_each(code, attention, block_backward);
}
