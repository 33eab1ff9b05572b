/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt2_half.c - GPT-2 on bfloat16: what a GPU's tensor cores are made for.
 *
 * Owns:   its table of parameters, a rounded copy of them, and one workspace, in the memory of its kernels.
 * Thread: one at a time per model.
 *
 * The pass is that of gpt2.c. Parameters and their gradients are float32; the copy of the parameters that products read, all
 * activations and their gradients are bfloat16, and sums inside of an entry float32. The addition to the residual stream is
 * part of the normalisation that follows it: so `y` below is x + attention, and the next layer's `x` is y + what the MLP adds.
 */
#include "sgd/model/gpt2_private.h"
#include "kernels/half.h"

#include <stdlib.h>
#include <string.h>

enum { SCORES_ROWS = 16384, HEAD = 64 };

struct layer_work {
    k_half *x, *ln1, *qkv, *att, *y, *ln2, *fc, *gelu; /* in units of the width: 1 1 3 1 1 1 4 4 */
    float  *ln1_mean, *ln1_rstd, *ln2_mean, *ln2_rstd, *lse;
};

struct half {
    GPT2_BASE;
    const struct k_ops      *ops;
    const struct k_half_ops *k;
    struct layer_work       *layers;
    int32_t                 *tokens;  /* the host's, then its targets */
    float                   *numbers; /* the host's losses, then right answers */
    uint8_t                 *work;    /* everything below points into it */
    int32_t                 *in;      /* tokens, then targets */
    float                   *out;     /* losses, then right answers */
    k_half                  *params, *added, *x_out, *lnf, *scores, *dx, *dwide, *dnorm;
    float                   *lnf_mean, *lnf_rstd, *dot;
    size_t                   scores_rows;
    uint64_t                 rounded; /* the version of the parameters of which `params` is the copy */
};

static struct half *half_of(struct sgd_model *model)
{
    return mt_container_of(model, struct half, model);
}

static size_t padded(const struct half *h)
{
    return sgd_gpt2_padded(h->shape.vocabulary);
}

/* ---- the pieces of a layer ---- */

/* Rows and columns of a linear layer's weight [out, in] in layer l. */
struct linear {
    enum gpt2_tensor weight;
    uint32_t         layer;
    size_t           in, out;
};

static size_t weight_at(const struct half *h, const struct linear *l)
{
    return h->at[l->weight] + l->layer * l->in * l->out;
}

static size_t bias_at(const struct half *h, const struct linear *l)
{
    return h->at[l->weight + 1] + l->layer * l->out;
}

static mt_status linear_forward(struct half *h, struct linear l, const k_half *x, size_t rows, k_half *y)
{
    struct k_half_gemm g = {.m = (int)rows,
                            .n = (int)l.out,
                            .k = (int)l.in,
                            .b_transposed = true,
                            .a = x,
                            .b = h->params + weight_at(h, &l),
                            .c = y,
                            .bias = h->params + bias_at(h, &l)};
    return h->k->gemm(NULL, &g);
}

static mt_status linear_backward(struct half *h, struct linear l, const k_half *x, const k_half *dy, size_t rows, k_half *dx,
                                 float *grads)
{
    struct k_half_gemm weight = {
        .m = (int)l.out, .n = (int)l.in, .k = (int)rows, .a_transposed = true, .a = dy, .b = x, .c32 = grads + weight_at(h, &l)};
    struct k_half_gemm input = {
        .m = (int)rows, .n = (int)l.in, .k = (int)l.out, .a = dy, .b = h->params + weight_at(h, &l), .c = dx};
    MT_TRY(h->k->gemm(NULL, &weight));
    MT_TRY(h->k->bias_grad(NULL, dy, grads + bias_at(h, &l), rows, l.out));
    return h->k->gemm(NULL, &input);
}

/* The four of a layer. */
static struct linear qkv_of(const struct half *h, uint32_t l)
{
    return (struct linear){QKVW, l, h->shape.width, 3 * (size_t)h->shape.width};
}
static struct linear attproj_of(const struct half *h, uint32_t l)
{
    return (struct linear){ATTPROJW, l, h->shape.width, h->shape.width};
}
static struct linear fc_of(const struct half *h, uint32_t l)
{
    return (struct linear){FCW, l, h->shape.width, 4 * (size_t)h->shape.width};
}
static struct linear fcproj_of(const struct half *h, uint32_t l)
{
    return (struct linear){FCPROJW, l, 4 * (size_t)h->shape.width, h->shape.width};
}

/* sum = x + plus (or x alone where there is none), y = its norm by the tensors `weight` and the one after it. */
static mt_status norm_forward(struct half *h, const float *params, enum gpt2_tensor weight, uint32_t layer, struct k_half_norm norm)
{
    norm.cols = h->shape.width;
    norm.weight = params + h->at[weight] + layer * norm.cols;
    norm.bias = params + h->at[weight + 1] + layer * norm.cols;
    return h->k->norm_forward(NULL, &norm);
}

/* dx = dx + the gradient through the norm, whose output's gradient is dnorm. */
static mt_status norm_backward(struct half *h, const float *params, enum gpt2_tensor weight, uint32_t layer,
                               struct k_half_norm norm, float *grads)
{
    norm.cols = h->shape.width;
    norm.weight = params + h->at[weight] + layer * norm.cols;
    norm.dweight = grads + h->at[weight] + layer * norm.cols;
    norm.dbias = grads + h->at[weight + 1] + layer * norm.cols;
    norm.dy = h->dnorm;
    norm.dx = h->dx;
    return h->k->norm_backward(NULL, &norm);
}

static struct k_half_attention attention_of(const struct half *h, const struct layer_work *w, size_t rows)
{
    return (struct k_half_attention){.qkv = w->qkv,
                                     .out = w->att,
                                     .lse = w->lse,
                                     .dot = h->dot,
                                     .dout = h->dnorm,
                                     .dqkv = h->dwide,
                                     .batch = rows / h->shape.context,
                                     .time = h->shape.context,
                                     .heads = h->shape.heads,
                                     .width = h->shape.width};
}

/* ---- a layer ---- */

/* What the layer before has added to its own `y` is in h->added; the first layer's x is the embedding. Leaves what this layer
 * adds to its `y` there. */
static mt_status layer_forward(struct half *h, const float *params, uint32_t l, size_t rows)
{
    struct layer_work      *w = &h->layers[l];
    struct k_half_attention attention = attention_of(h, w, rows);
    size_t                  wide = rows * h->shape.width * 4;

    MT_TRY(norm_forward(h, params, LN1W, l,
                        (struct k_half_norm){.x = l ? h->layers[l - 1].y : w->x,
                                             .plus = l ? h->added : NULL,
                                             .sum = w->x,
                                             .y = w->ln1,
                                             .mean = w->ln1_mean,
                                             .rstd = w->ln1_rstd,
                                             .rows = rows}));
    MT_TRY(linear_forward(h, qkv_of(h, l), w->ln1, rows, w->qkv));
    MT_TRY(h->k->attention_forward(NULL, &attention));
    MT_TRY(linear_forward(h, attproj_of(h, l), w->att, rows, h->added));
    MT_TRY(norm_forward(
        h, params, LN2W, l,
        (struct k_half_norm){
            .x = w->x, .plus = h->added, .sum = w->y, .y = w->ln2, .mean = w->ln2_mean, .rstd = w->ln2_rstd, .rows = rows}));
    MT_TRY(linear_forward(h, fc_of(h, l), w->ln2, rows, w->fc));
    MT_TRY(h->k->gelu_forward(NULL, w->fc, w->gelu, wide));
    return linear_forward(h, fcproj_of(h, l), w->gelu, rows, h->added);
}

/* h->dx is the gradient of the layer's output, and becomes that of its input. */
static mt_status layer_backward(struct half *h, const float *params, uint32_t l, size_t rows, float *grads)
{
    struct layer_work      *w = &h->layers[l];
    struct k_half_attention attention = attention_of(h, w, rows);
    struct k_half_norm      ln1 = {.x = w->x, .mean = w->ln1_mean, .rstd = w->ln1_rstd, .carry = h->dx, .rows = rows};
    struct k_half_norm      ln2 = {.x = w->y, .mean = w->ln2_mean, .rstd = w->ln2_rstd, .carry = h->dx, .rows = rows};

    MT_TRY(linear_backward(h, fcproj_of(h, l), w->gelu, h->dx, rows, h->dwide, grads));
    MT_TRY(h->k->gelu_backward(NULL, w->fc, h->dwide, rows * h->shape.width * 4));
    MT_TRY(linear_backward(h, fc_of(h, l), w->ln2, h->dwide, rows, h->dnorm, grads));
    MT_TRY(norm_backward(h, params, LN2W, l, ln2, grads));
    MT_TRY(linear_backward(h, attproj_of(h, l), w->att, h->dx, rows, h->dnorm, grads));
    MT_TRY(h->k->attention_backward(NULL, &attention));
    MT_TRY(linear_backward(h, qkv_of(h, l), w->ln1, h->dwide, rows, h->dnorm, grads));
    return norm_backward(h, params, LN1W, l, ln1, grads);
}

/* ---- the two ends ---- */

static struct k_half_embed embed_of(const struct half *h, size_t rows)
{
    return (struct k_half_embed){.tokens = h->in,
                                 .token = h->params + h->at[WTE],
                                 .position = h->params + h->at[WPE],
                                 .out = h->layers[0].x,
                                 .rows = rows,
                                 .time = h->shape.context,
                                 .cols = h->shape.width};
}

/* The rounded copy is made once for each version of the parameters: several virtual ranks read the same. */
static mt_status params_round(struct half *h, const float *params)
{
    uint64_t version = h->model.version;
    if (version && version == h->rounded)
        return mt_ok();
    h->rounded = 0; /* where it fails in the middle */
    MT_TRY(h->k->cast(NULL, params, h->params, h->model.params.floats));
    h->rounded = version;
    return mt_ok();
}

static mt_status forward(struct half *h, const float *params, size_t rows)
{
    uint32_t            last = h->shape.layers - 1;
    struct k_half_embed embed = embed_of(h, rows);
    MT_TRY(params_round(h, params));
    MT_TRY(h->k->embed_forward(NULL, &embed));
    for (uint32_t l = 0; l <= last; l++)
        MT_TRY(layer_forward(h, params, l, rows));
    return norm_forward(h, params, LNFW, 0,
                        (struct k_half_norm){.x = h->layers[last].y,
                                             .plus = h->added,
                                             .sum = h->x_out,
                                             .y = h->lnf,
                                             .mean = h->lnf_mean,
                                             .rstd = h->lnf_rstd,
                                             .rows = rows});
}

/* Scores of some rows at a time, in place of which their gradient comes: those of all rows at once would be the largest thing
 * in memory. */
static mt_status head(struct half *h, size_t rows, float scale, float *grads)
{
    size_t width = h->shape.width, stride = padded(h), all = (size_t)h->model.batch_max * h->shape.context;
    for (size_t first = 0; first < rows; first += h->scores_rows) {
        size_t             n = rows - first < h->scores_rows ? rows - first : h->scores_rows;
        const k_half      *x = h->lnf + first * width, *wte = h->params + h->at[WTE];
        struct k_half_gemm score = {
            .m = (int)n, .n = (int)stride, .k = (int)width, .b_transposed = true, .a = x, .b = wte, .c = h->scores};
        struct k_half_xent xent = {.scores = h->scores,
                                   .targets = h->in + all + first,
                                   .losses = h->out + first,
                                   .right = h->out + all + first,
                                   .scale = scale,
                                   .wants_gradient = grads != NULL,
                                   .rows = n,
                                   .classes = h->shape.vocabulary,
                                   .stride = stride};
        MT_TRY(h->k->gemm(NULL, &score));
        MT_TRY(h->k->xent(NULL, &xent));
        if (!grads)
            continue;
        struct k_half_gemm weight = {.m = (int)stride,
                                     .n = (int)width,
                                     .k = (int)n,
                                     .a_transposed = true,
                                     .beta = first ? 1.0f : 0.0f,
                                     .a = h->scores,
                                     .b = x,
                                     .c32 = grads + h->at[WTE]};
        struct k_half_gemm input = {
            .m = (int)n, .n = (int)width, .k = (int)stride, .a = h->scores, .b = wte, .c = h->dnorm + first * width};
        MT_TRY(h->k->gemm(NULL, &weight));
        MT_TRY(h->k->gemm(NULL, &input));
    }
    return mt_ok();
}

static mt_status backward(struct half *h, const float *params, size_t rows, float *grads)
{
    struct k_half_embed embed = embed_of(h, rows);
    struct k_half_norm  lnf = {.x = h->x_out, .mean = h->lnf_mean, .rstd = h->lnf_rstd, .rows = rows};
    MT_TRY(norm_backward(h, params, LNFW, 0, lnf, grads));
    for (uint32_t l = h->shape.layers; l-- > 0;)
        MT_TRY(layer_backward(h, params, l, rows, grads));
    embed.dout = h->dx;
    embed.dtoken = grads + h->at[WTE];
    embed.dposition = grads + h->at[WPE];
    return h->k->embed_backward(NULL, &embed);
}

/* ---- a batch ---- */

static mt_status tokens_take(struct half *h, const struct sgd_batch *batch)
{
    size_t all = (size_t)h->model.batch_max * h->shape.context, rows = (size_t)batch->count * h->shape.context;
    MT_TRY(sgd_gpt2_tokens(mt_container_of(&h->model, struct gpt2_base, model), batch, h->tokens, h->tokens + all));
    MT_TRY(h->ops->copy(NULL, h->in, h->tokens, rows * sizeof *h->in));
    return h->ops->copy(NULL, h->in + all, h->tokens + all, rows * sizeof *h->in);
}

/* The one wait of a pass. */
static mt_status metrics_take(struct half *h, size_t rows, float metrics[SGD_METRICS])
{
    size_t all = (size_t)h->model.batch_max * h->shape.context;
    double loss = 0, right = 0, time = (double)h->shape.context;
    MT_TRY(h->ops->copy(NULL, h->numbers, h->out, (all + rows) * sizeof *h->out));
    MT_TRY(h->ops->wait(NULL));
    for (size_t r = 0; r < rows; r++) {
        loss += (double)h->numbers[r];
        right += (double)h->numbers[all + r];
    }
    metrics[SGD_METRIC_LOSS] = (float)(loss / time);
    metrics[SGD_METRIC_CORRECT] = (float)(right / time);
    metrics[SGD_METRIC_SAMPLES] = (float)(rows / h->shape.context);
    return mt_ok();
}

/* `grads` NULL: none are wanted. */
static mt_status half_gradient(struct sgd_model *model, const float *params, const struct sgd_batch *batch, float scale,
                               float *grads, float metrics[SGD_METRICS])
{
    struct half *h = half_of(model);
    size_t       rows = (size_t)batch->count * h->shape.context;
    MT_TRY(tokens_take(h, batch));
    MT_TRY(forward(h, params, rows));
    MT_TRY(head(h, rows, scale / (float)h->shape.context, grads));
    if (grads)
        MT_TRY(backward(h, params, rows, grads));
    return metrics_take(h, rows, metrics);
}

static mt_status half_evaluate(struct sgd_model *model, const float *params, const struct sgd_batch *batch,
                               float metrics[SGD_METRICS])
{
    return half_gradient(model, params, batch, 1.0f, NULL, metrics);
}

/* ---- begin and end ---- */

static void half_free(struct sgd_model *model)
{
    struct half *h = half_of(model);
    sgd_params_fini(&model->params);
    free(h->layers);
    free(h->tokens);
    free(h->numbers);
    if (h->work)
        h->ops->release(h->work);
    free(h);
}

static const struct sgd_model_ops half_ops = {
    .init = sgd_gpt2_init, .gradient = half_gradient, .evaluate = half_evaluate, .free = half_free};

/* A block to cut buffers from, each at a multiple of 256 bytes; without a base it only counts. */
struct block {
    uint8_t *base;
    size_t   used;
};

static void *cut(struct block *b, size_t count, size_t size)
{
    void *out = b->base ? b->base + b->used : NULL;
    b->used += (count * size + 255) / 256 * 256;
    return out;
}

static void work_cut(struct half *h, struct block *b)
{
    size_t rows = (size_t)h->model.batch_max * h->shape.context, wide = rows * h->shape.width, two = sizeof(k_half);
    for (uint32_t l = 0; l < h->shape.layers; l++) {
        struct layer_work *w = &h->layers[l];
        w->x = cut(b, wide, two), w->ln1 = cut(b, wide, two), w->qkv = cut(b, 3 * wide, two), w->att = cut(b, wide, two);
        w->y = cut(b, wide, two), w->ln2 = cut(b, wide, two), w->fc = cut(b, 4 * wide, two), w->gelu = cut(b, 4 * wide, two);
        w->ln1_mean = cut(b, rows, 4), w->ln1_rstd = cut(b, rows, 4), w->ln2_mean = cut(b, rows, 4);
        w->ln2_rstd = cut(b, rows, 4), w->lse = cut(b, rows * h->shape.heads, 4);
    }
    h->in = cut(b, 2 * rows, sizeof *h->in), h->out = cut(b, 2 * rows, sizeof *h->out);
    h->params = cut(b, h->model.params.floats, two), h->added = cut(b, wide, two), h->x_out = cut(b, wide, two);
    h->lnf = cut(b, wide, two), h->scores = cut(b, h->scores_rows * padded(h), two);
    h->dx = cut(b, wide, two), h->dwide = cut(b, 4 * wide, two), h->dnorm = cut(b, wide, two);
    h->lnf_mean = cut(b, rows, 4), h->lnf_rstd = cut(b, rows, 4), h->dot = cut(b, rows * h->shape.heads, 4);
}

static mt_status half_build(struct half *h, const struct sgd_gpt2_config *config)
{
    h->ops = config->ops;
    h->k = config->ops->half;
    MT_TRY(sgd_gpt2_base_build(mt_container_of(&h->model, struct gpt2_base, model), config, &half_ops));
    size_t rows = (size_t)h->model.batch_max * h->shape.context;
    if (!h->k || h->shape.width != h->shape.heads * HEAD || h->shape.context % 8)
        return mt_error(MT_EINVAL, 0, "gpt2 on bfloat16: heads must be 64 wide, and the context a multiple of 8");
    h->scores_rows = rows < SCORES_ROWS ? rows : SCORES_ROWS;
    h->layers = calloc(h->shape.layers, sizeof *h->layers);
    h->tokens = malloc(2 * rows * sizeof *h->tokens);
    h->numbers = malloc(2 * rows * sizeof *h->numbers);
    if (!h->layers || !h->tokens || !h->numbers)
        return mt_error(MT_ENOMEM, 0, "model: workspace");
    struct block b = {0};
    work_cut(h, &b);
    MT_TRY(h->ops->alloc(b.used, (void **)&h->work));
    b = (struct block){.base = h->work};
    work_cut(h, &b);
    return mt_ok();
}

mt_status sgd_gpt2_half_new(const struct sgd_gpt2_config *config, struct sgd_model **out_model)
{
    struct half *h = calloc(1, sizeof *h);
    if (!h)
        return mt_error(MT_ENOMEM, 0, "model");
    mt_status st = half_build(h, config);
    if (st.code != 0) {
        half_free(&h->model);
        return st;
    }
    *out_model = &h->model;
    return mt_ok();
}
