/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt2.c - forward and backward pass of GPT-2 over one micro-batch.
 *
 * Owns:   its table of parameters and one workspace. Thread: one at a time per model.
 *
 *   x = wte[token] + wpe[position]
 *   each layer:  y = x + attention(qkv(ln1(x))) attproj       (a "row" is one position of one sample)
 *                x = y + gelu(ln2(y) fc) fcproj
 *   scores = lnf(x) wte^T
 *
 * The forward pass keeps what the backward pass reads. The scores are made, and their gradient taken, for some rows at a
 * time, in place: those of all rows at once would be the largest thing in memory.
 */
#include "sgd/model/gpt2_private.h"
#include "sgd/model/layer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_MAX = 1 << 16, SCORES_FLOATS = 1 << 22, SAMPLES_TOGETHER = 2 };

/* What one layer's forward pass leaves behind, per row: in units of the width. */
struct layer_work {
    float *x, *ln1, *qkv, *att, *y, *ln2, *fc, *gelu; /* 1 1 3 1 1 1 4 4 */
    float *ln1_mean, *ln1_rstd, *ln2_mean, *ln2_rstd; /* one float a row */
    float *lse;                                       /* heads floats a row */
};

struct gpt2 {
    GPT2_BASE;
    const struct k_ops *ops;
    struct layer_work  *layers;
    int32_t            *tokens, *targets; /* a row; the host's, and */
    int32_t            *in;               /* where the entries read them: the tokens of all rows, then the targets */
    float              *out;              /* losses and right answers of a block, for the host; NULL: it can read them */
    float              *work;             /* everything below points into it */
    float              *x_out, *lnf, *lnf_mean, *lnf_rstd; /* after the last layer */
    float              *scores, *losses, *right;
    float              *dx, *dwide, *dnorm, *attention; /* gradients: of x; 4 C wide; C wide; scratch */
    size_t              scores_rows;
};

static struct gpt2 *gpt2_of(struct sgd_model *model)
{
    return mt_container_of(model, struct gpt2, model);
}

struct sgd_gpt2_shape sgd_gpt2_shape_of(const struct sgd_model *model)
{
    return mt_container_of(model, const struct gpt2_base, model)->shape;
}

/* The part of a layer in a tensor: rows x cols floats of it. */
static struct sgd_linear linear_of(const struct gpt2 *gpt2, enum gpt2_tensor weight, uint32_t layer, uint32_t in, uint32_t out)
{
    return (struct sgd_linear){.in = in,
                               .out = out,
                               .weight = gpt2->at[weight] + (size_t)layer * in * out,
                               .bias = gpt2->at[weight + 1] + (size_t)layer * out};
}

/* Normal values of deviation 0.02, less in what is added to x, since each layer adds twice. */
void sgd_gpt2_init(struct sgd_model *model, uint64_t seed, float *params)
{
    const struct gpt2_base *gpt2 = mt_container_of(model, const struct gpt2_base, model);
    memset(params, 0, model->params.floats * sizeof *params);
    for (size_t t = 0; t < GPT2_TENSORS; t++) {
        const struct sgd_param *item = &model->params.items[t];
        float                  *out = params + item->offset;
        bool                    is_residual = t == ATTPROJW || t == FCPROJW;
        double                  deviation = is_residual ? 0.02 / sqrt(2.0 * gpt2->shape.layers) : 0.02;
        size_t                  count = t == WTE ? (size_t)gpt2->shape.vocabulary * gpt2->shape.width : item->count;
        if (t == LN1W || t == LN2W || t == LNFW)
            for (size_t i = 0; i < count; i++)
                out[i] = 1.0f;
        else if (t == WTE || t == WPE || t == QKVW || t == ATTPROJW || t == FCW || t == FCPROJW)
            sgd_init_normal(seed, t, deviation, out, count);
    }
}

/* ---- tokens ---- */

static int32_t token_at(const uint8_t *window, size_t i, uint32_t bytes)
{
    return bytes == 1 ? window[i] : window[2 * i] | window[2 * i + 1] << 8;
}

static size_t rows_max(const struct gpt2 *gpt2)
{
    return (size_t)gpt2->model.batch_max * gpt2->shape.context;
}

static mt_status tokens_lend(struct gpt2 *gpt2, size_t rows)
{
    const struct k_ops *ops = gpt2->ops;
    if (!ops->is_device)
        return mt_ok();
    MT_TRY(ops->copy(NULL, gpt2->in, gpt2->tokens, rows * sizeof *gpt2->in));
    return ops->copy(NULL, gpt2->in + rows_max(gpt2), gpt2->targets, rows * sizeof *gpt2->in);
}

mt_status sgd_gpt2_tokens(const struct gpt2_base *base, const struct sgd_batch *batch, int32_t *tokens, int32_t *targets)
{
    size_t time = base->shape.context;

    if (batch->count == 0 || batch->count > base->model.batch_max)
        return mt_error(MT_EINVAL, 0, "model: number of records in the batch");
    if (batch->record_size != base->model.record_size)
        return mt_error(MT_EINVAL, 0, "model: size of a record");
    for (size_t b = 0; b < batch->count; b++) {
        const uint8_t *window = batch->records + b * batch->record_size;
        for (size_t i = 0; i <= time; i++) {
            int32_t token = token_at(window, i, base->token_bytes);
            if ((uint32_t)token >= base->shape.vocabulary)
                return mt_error(MT_EINVAL, 0, "model: token outside of the vocabulary");
            if (i < time)
                tokens[b * time + i] = token;
            if (i > 0)
                targets[b * time + i - 1] = token;
        }
    }
    return mt_ok();
}

static mt_status tokens_take(struct gpt2 *gpt2, const struct sgd_batch *batch)
{
    MT_TRY(sgd_gpt2_tokens(mt_container_of(&gpt2->model, struct gpt2_base, model), batch, gpt2->tokens, gpt2->targets));
    return tokens_lend(gpt2, batch->count * (size_t)gpt2->shape.context);
}

/* ---- layers ---- */

static struct k_layernorm norm_of(const struct gpt2 *gpt2, const float *params, enum gpt2_tensor weight, uint32_t layer,
                                  size_t rows)
{
    size_t width = gpt2->shape.width;
    return (struct k_layernorm){.weight = params + gpt2->at[weight] + layer * width,
                                .bias = params + gpt2->at[weight + 1] + layer * width,
                                .rows = rows,
                                .cols = width};
}

static struct k_attention attention_of(const struct gpt2 *gpt2, const struct layer_work *w, size_t rows)
{
    return (struct k_attention){.qkv = w->qkv,
                                .out = w->att,
                                .lse = w->lse,
                                .work = gpt2->attention,
                                .batch = rows / gpt2->shape.context,
                                .time = gpt2->shape.context,
                                .heads = gpt2->shape.heads,
                                .width = gpt2->shape.width};
}

/* What a layer is made of: its parameters' places, and its share of the workspace. */
struct layer {
    struct sgd_linear  qkv, attproj, fc, fcproj;
    struct k_layernorm ln1, ln2;
    struct k_attention attention;
};

static struct layer layer_of(const struct gpt2 *gpt2, const float *params, uint32_t l, const struct layer_work *w, size_t rows)
{
    uint32_t     c = gpt2->shape.width;
    struct layer p = {.qkv = linear_of(gpt2, QKVW, l, c, 3 * c),
                      .attproj = linear_of(gpt2, ATTPROJW, l, c, c),
                      .fc = linear_of(gpt2, FCW, l, c, 4 * c),
                      .fcproj = linear_of(gpt2, FCPROJW, l, 4 * c, c),
                      .ln1 = norm_of(gpt2, params, LN1W, l, rows),
                      .ln2 = norm_of(gpt2, params, LN2W, l, rows),
                      .attention = attention_of(gpt2, w, rows)};
    p.ln1.x = w->x, p.ln1.mean = w->ln1_mean, p.ln1.rstd = w->ln1_rstd;
    p.ln2.x = w->y, p.ln2.mean = w->ln2_mean, p.ln2.rstd = w->ln2_rstd;
    return p;
}

/* A layer's share of the workspace from a row on, which begins a sample. */
static struct layer_work work_from(const struct gpt2 *gpt2, uint32_t l, size_t row)
{
    const struct layer_work *w = &gpt2->layers[l];
    size_t                   wide = row * gpt2->shape.width;
    return (struct layer_work){w->x + wide,
                               w->ln1 + wide,
                               w->qkv + 3 * wide,
                               w->att + wide,
                               w->y + wide,
                               w->ln2 + wide,
                               w->fc + 4 * wide,
                               w->gelu + 4 * wide,
                               w->ln1_mean + row,
                               w->ln1_rstd + row,
                               w->ln2_mean + row,
                               w->ln2_rstd + row,
                               w->lse + row * gpt2->shape.heads};
}

/* Some rows of a layer: next = x + what the layer adds; next is the following layer's x. */
static mt_status rows_forward(struct gpt2 *gpt2, const float *params, uint32_t l, size_t first, size_t rows, float *next)
{
    const struct k_ops     *ops = gpt2->ops;
    const struct layer_work part = work_from(gpt2, l, first), *w = &part;
    uint32_t                c = gpt2->shape.width;
    struct layer            p = layer_of(gpt2, params, l, w, rows);

    p.ln1.y = w->ln1;
    MT_TRY(ops->layernorm_forward(NULL, &p.ln1));
    MT_TRY(sgd_linear_forward(&p.qkv, ops, params, w->ln1, rows, w->qkv));
    MT_TRY(ops->attention_forward(NULL, &p.attention));
    MT_TRY(sgd_linear_forward(&p.attproj, ops, params, w->att, rows, w->y));
    MT_TRY(ops->axpy(NULL, 1.0f, w->x, w->y, rows * c));
    p.ln2.y = w->ln2;
    MT_TRY(ops->layernorm_forward(NULL, &p.ln2));
    MT_TRY(sgd_linear_forward(&p.fc, ops, params, w->ln2, rows, w->fc));
    MT_TRY(ops->gelu_forward(NULL, w->fc, w->gelu, rows * 4 * c));
    MT_TRY(sgd_linear_forward(&p.fcproj, ops, params, w->gelu, rows, next));
    return ops->axpy(NULL, 1.0f, w->y, next, rows * c);
}

/* Few samples at a time, so that what one step writes is still in the cache when the next one reads it; on a device all at
 * once. */
static mt_status layer_forward(struct gpt2 *gpt2, const float *params, uint32_t l, size_t rows, float *next)
{
    size_t each = gpt2->ops->is_device ? rows : SAMPLES_TOGETHER * gpt2->shape.context;
    for (size_t first = 0; first < rows; first += each)
        MT_TRY(rows_forward(gpt2, params, l, first, rows - first < each ? rows - first : each, next + first * gpt2->shape.width));
    return mt_ok();
}

/* dx is the gradient of the layer's output, and becomes that of its input. */
static mt_status layer_backward(struct gpt2 *gpt2, const float *params, uint32_t l, size_t rows, float *grads)
{
    const struct k_ops      *ops = gpt2->ops;
    const struct layer_work *w = &gpt2->layers[l];
    uint32_t                 c = gpt2->shape.width;
    struct layer             p = layer_of(gpt2, params, l, w, rows);
    float                   *dx = gpt2->dx, *dwide = gpt2->dwide, *dnorm = gpt2->dnorm;

    MT_TRY(sgd_linear_backward(&p.fcproj, ops, params, w->gelu, dx, rows, dwide, grads));
    sgd_linear_ready(&p.fcproj, &gpt2->model);
    MT_TRY(ops->gelu_backward(NULL, w->fc, dwide, rows * 4 * c));
    MT_TRY(sgd_linear_backward(&p.fc, ops, params, w->ln2, dwide, rows, dnorm, grads));
    sgd_linear_ready(&p.fc, &gpt2->model);
    p.ln2.dy = p.ln2.dx = dnorm;
    p.ln2.dweight = grads + gpt2->at[LN2W] + (size_t)l * c, p.ln2.dbias = grads + gpt2->at[LN2B] + (size_t)l * c;
    MT_TRY(ops->layernorm_backward(NULL, &p.ln2));
    MT_TRY(ops->axpy(NULL, 1.0f, dnorm, dx, rows * c));

    MT_TRY(sgd_linear_backward(&p.attproj, ops, params, w->att, dx, rows, dnorm, grads));
    sgd_linear_ready(&p.attproj, &gpt2->model);
    p.attention.dout = dnorm, p.attention.dqkv = dwide;
    MT_TRY(ops->attention_backward(NULL, &p.attention));
    MT_TRY(sgd_linear_backward(&p.qkv, ops, params, w->ln1, dwide, rows, dnorm, grads));
    sgd_linear_ready(&p.qkv, &gpt2->model);
    p.ln1.dy = p.ln1.dx = dnorm;
    p.ln1.dweight = grads + gpt2->at[LN1W] + (size_t)l * c, p.ln1.dbias = grads + gpt2->at[LN1B] + (size_t)l * c;
    MT_TRY(ops->layernorm_backward(NULL, &p.ln1));
    return ops->axpy(NULL, 1.0f, dnorm, dx, rows * c);
}

/* ---- the two ends ---- */

static struct k_embed embed_of(const struct gpt2 *gpt2, const float *params, size_t rows, float *out)
{
    return (struct k_embed){.tokens = gpt2->in,
                            .token = params + gpt2->at[WTE],
                            .position = params + gpt2->at[WPE],
                            .out = out,
                            .rows = rows,
                            .time = gpt2->shape.context,
                            .cols = gpt2->shape.width};
}

/* Losses and right answers of one block of rows, whose scores stand in gpt2->scores. */
static mt_status block_losses(struct gpt2 *gpt2, struct k_xent *xent, float metrics[SGD_METRICS])
{
    const struct k_ops *ops = gpt2->ops;
    const float        *losses = gpt2->losses, *rights = gpt2->right;
    float               right = 0.0f, loss = 0.0f, time = (float)gpt2->shape.context;

    MT_TRY(ops->xent_forward(NULL, xent));
    if (gpt2->out) {
        MT_TRY(ops->copy(NULL, gpt2->out, losses, xent->rows * sizeof *losses));
        MT_TRY(ops->copy(NULL, gpt2->out + gpt2->scores_rows, rights, xent->rows * sizeof *losses));
        MT_TRY(ops->wait(NULL));
        losses = gpt2->out;
        rights = gpt2->out + gpt2->scores_rows;
    }
    for (size_t r = 0; r < xent->rows; r++) {
        right += rights[r];
        loss += losses[r];
    }
    metrics[SGD_METRIC_LOSS] += loss / time;
    metrics[SGD_METRIC_CORRECT] += right / time;
    return mt_ok();
}

/* Scores of `rows` rows from `first` on; with grads, also their gradients: of wte (set by the first block, added to by the
 * others), and of the rows themselves, into dnorm. */
static mt_status head_block(struct gpt2 *gpt2, const float *params, size_t first, size_t rows, float scale, float *grads,
                            float metrics[SGD_METRICS])
{
    const struct k_ops *ops = gpt2->ops;
    int                 c = (int)gpt2->shape.width, v = (int)gpt2->shape.vocabulary;
    const float        *x = gpt2->lnf + first * gpt2->shape.width, *wte = params + gpt2->at[WTE];
    struct k_gemm       score = {.m = (int)rows, .n = v, .k = c, .b_transposed = true, .a = x, .b = wte, .c = gpt2->scores};
    struct k_xent       xent = {.logits = gpt2->scores,
                                .targets = gpt2->in + rows_max(gpt2) + first,
                                .probs = gpt2->scores,
                                .losses = gpt2->losses,
                                .right = gpt2->right,
                                .grads = gpt2->scores,
                                .scale = scale,
                                .rows = rows,
                                .classes = gpt2->shape.vocabulary};

    MT_TRY(ops->gemm(NULL, &score));
    MT_TRY(block_losses(gpt2, &xent, metrics));
    if (!grads)
        return mt_ok();
    struct k_gemm weight = {.m = v,
                            .n = c,
                            .k = (int)rows,
                            .a_transposed = true,
                            .beta = first ? 1.0f : 0.0f,
                            .a = gpt2->scores,
                            .b = x,
                            .c = grads + gpt2->at[WTE]};
    struct k_gemm input = {
        .m = (int)rows, .n = c, .k = v, .a = gpt2->scores, .b = wte, .c = gpt2->dnorm + first * gpt2->shape.width};
    MT_TRY(ops->xent_backward(NULL, &xent));
    MT_TRY(ops->gemm(NULL, &weight));
    return ops->gemm(NULL, &input);
}

static mt_status head(struct gpt2 *gpt2, const float *params, size_t rows, float scale, float *grads, float metrics[SGD_METRICS])
{
    metrics[SGD_METRIC_LOSS] = metrics[SGD_METRIC_CORRECT] = 0.0f;
    metrics[SGD_METRIC_SAMPLES] = (float)(rows / gpt2->shape.context);
    for (size_t first = 0; first < rows; first += gpt2->scores_rows) {
        size_t count = rows - first < gpt2->scores_rows ? rows - first : gpt2->scores_rows;
        MT_TRY(head_block(gpt2, params, first, count, scale, grads, metrics));
    }
    return mt_ok();
}

static mt_status forward(struct gpt2 *gpt2, const float *params, size_t rows)
{
    uint32_t           layers = gpt2->shape.layers;
    struct k_embed     embed = embed_of(gpt2, params, rows, gpt2->layers[0].x);
    struct k_layernorm lnf = norm_of(gpt2, params, LNFW, 0, rows);

    MT_TRY(gpt2->ops->embed_forward(NULL, &embed));
    for (uint32_t l = 0; l < layers; l++)
        MT_TRY(layer_forward(gpt2, params, l, rows, l + 1 < layers ? gpt2->layers[l + 1].x : gpt2->x_out));
    lnf.x = gpt2->x_out, lnf.y = gpt2->lnf, lnf.mean = gpt2->lnf_mean, lnf.rstd = gpt2->lnf_rstd;
    return gpt2->ops->layernorm_forward(NULL, &lnf);
}

/* After head: its gradient of the rows is in dnorm. */
static mt_status backward(struct gpt2 *gpt2, const float *params, size_t rows, float *grads)
{
    const struct sgd_gpt2_shape *s = &gpt2->shape;
    struct k_layernorm           lnf = norm_of(gpt2, params, LNFW, 0, rows);
    struct k_embed               embed = embed_of(gpt2, params, rows, NULL);
    size_t used = (size_t)s->vocabulary * s->width, padded = (size_t)sgd_gpt2_padded(s->vocabulary) * s->width;

    lnf.x = gpt2->x_out, lnf.mean = gpt2->lnf_mean, lnf.rstd = gpt2->lnf_rstd;
    lnf.dy = gpt2->dnorm, lnf.dx = gpt2->dx, lnf.dweight = grads + gpt2->at[LNFW], lnf.dbias = grads + gpt2->at[LNFB];
    MT_TRY(gpt2->ops->layernorm_backward(NULL, &lnf));
    for (uint32_t l = s->layers; l-- > 0;)
        MT_TRY(layer_backward(gpt2, params, l, rows, grads));
    MT_TRY(gpt2->ops->clear(NULL, grads + gpt2->at[WTE] + used, (padded - used) * sizeof *grads));
    MT_TRY(gpt2->ops->clear(NULL, grads + gpt2->at[WPE], (size_t)s->context * s->width * sizeof *grads));
    embed.dout = gpt2->dx, embed.dtoken = grads + gpt2->at[WTE], embed.dposition = grads + gpt2->at[WPE];
    return gpt2->ops->embed_backward(NULL, &embed);
}

/* `grads` NULL: none are wanted. */
static mt_status gpt2_gradient(struct sgd_model *model, const float *params, const struct sgd_batch *batch, float scale,
                               float *grads, float metrics[SGD_METRICS])
{
    struct gpt2 *gpt2 = gpt2_of(model);
    size_t       rows = (size_t)batch->count * gpt2->shape.context;

    MT_TRY(tokens_take(gpt2, batch));
    MT_TRY(forward(gpt2, params, rows));
    MT_TRY(head(gpt2, params, rows, scale / (float)gpt2->shape.context, grads, metrics));
    return grads ? backward(gpt2, params, rows, grads) : mt_ok();
}

static mt_status gpt2_evaluate(struct sgd_model *model, const float *params, const struct sgd_batch *batch,
                               float metrics[SGD_METRICS])
{
    return gpt2_gradient(model, params, batch, 1.0f, NULL, metrics);
}

/* ---- begin and end ---- */

static void gpt2_free(struct sgd_model *model)
{
    struct gpt2 *gpt2 = gpt2_of(model);
    sgd_params_fini(&model->params);
    free(gpt2->layers);
    free(gpt2->tokens);
    free(gpt2->out);
    if (gpt2->in && gpt2->ops->is_device)
        gpt2->ops->release(gpt2->in);
    if (gpt2->work)
        gpt2->ops->release(gpt2->work);
    free(gpt2);
}

static const struct sgd_model_ops gpt2_model_ops = {
    .init = sgd_gpt2_init, .gradient = gpt2_gradient, .evaluate = gpt2_evaluate, .free = gpt2_free};

/* A block to cut buffers from; without a base it only counts. */
struct block {
    float *base;
    size_t used;
};

static float *cut(struct block *block, size_t floats)
{
    float *out = block->base ? block->base + block->used : NULL;
    block->used += floats;
    return out;
}

static void work_cut(struct gpt2 *gpt2, struct block *b)
{
    const struct sgd_gpt2_shape *s = &gpt2->shape;
    size_t                       rows = (size_t)gpt2->model.batch_max * s->context, wide = rows * s->width;

    for (uint32_t l = 0; l < s->layers; l++) {
        struct layer_work *w = &gpt2->layers[l];
        w->x = cut(b, wide), w->ln1 = cut(b, wide), w->qkv = cut(b, 3 * wide), w->att = cut(b, wide);
        w->y = cut(b, wide), w->ln2 = cut(b, wide), w->fc = cut(b, 4 * wide), w->gelu = cut(b, 4 * wide);
        w->ln1_mean = cut(b, rows), w->ln1_rstd = cut(b, rows);
        w->ln2_mean = cut(b, rows), w->ln2_rstd = cut(b, rows);
        w->lse = cut(b, rows * s->heads);
    }
    struct k_attention attention = attention_of(gpt2, &gpt2->layers[0], rows);
    gpt2->x_out = cut(b, wide), gpt2->lnf = cut(b, wide);
    gpt2->lnf_mean = cut(b, rows), gpt2->lnf_rstd = cut(b, rows);
    gpt2->scores = cut(b, gpt2->scores_rows * s->vocabulary), gpt2->losses = cut(b, gpt2->scores_rows);
    gpt2->right = cut(b, gpt2->scores_rows);
    gpt2->dx = cut(b, wide), gpt2->dwide = cut(b, 4 * wide), gpt2->dnorm = cut(b, wide);
    gpt2->attention = cut(b, k_attention_work(&attention));
}

/* What host and device hand each other; on the CPU the host's buffers are both's. */
static mt_status lent_allocate(struct gpt2 *gpt2, size_t rows)
{
    gpt2->in = gpt2->tokens;
    if (!gpt2->ops->is_device)
        return mt_ok();
    gpt2->in = NULL;
    gpt2->out = malloc(2 * gpt2->scores_rows * sizeof *gpt2->out);
    if (!gpt2->out)
        return mt_error(MT_ENOMEM, 0, "model: workspace");
    return gpt2->ops->alloc(2 * rows * sizeof *gpt2->in, (void **)&gpt2->in);
}

static mt_status work_allocate(struct gpt2 *gpt2)
{
    const struct sgd_gpt2_shape *s = &gpt2->shape;
    size_t                       rows = (size_t)gpt2->model.batch_max * s->context, fit = SCORES_FLOATS / s->vocabulary;

    fit = fit < 64 ? 64 : fit;
    gpt2->scores_rows = fit < rows ? fit : rows;
    gpt2->layers = calloc(s->layers, sizeof *gpt2->layers);
    gpt2->tokens = malloc(2 * rows * sizeof *gpt2->tokens);
    if (!gpt2->layers || !gpt2->tokens)
        return mt_error(MT_ENOMEM, 0, "model: workspace");
    gpt2->targets = gpt2->tokens + rows;
    MT_TRY(lent_allocate(gpt2, rows));
    struct block count = {0};
    work_cut(gpt2, &count);
    MT_TRY(gpt2->ops->alloc(count.used * sizeof *gpt2->work, (void **)&gpt2->work));
    struct block block = {.base = gpt2->work};
    work_cut(gpt2, &block);
    return mt_ok();
}

static mt_status params_add(struct gpt2_base *base)
{
    static const char *const names[GPT2_TENSORS] = {"wte",  "wpe",  "ln1w", "ln1b", "qkvw",    "qkvb",    "attprojw", "attprojb",
                                                    "ln2w", "ln2b", "fcw",  "fcb",  "fcprojw", "fcprojb", "lnfw",     "lnfb"};
    for (size_t t = 0; t < GPT2_TENSORS; t++) {
        uint32_t ndim;
        uint64_t shape[3];
        sgd_gpt2_tensor_shape(&base->shape, (enum gpt2_tensor)t, &ndim, shape);
        MT_TRY(sgd_params_add(&base->model.params, names[t], ndim, shape, &base->at[t]));
    }
    return mt_ok();
}

mt_status sgd_gpt2_base_build(struct gpt2_base *base, const struct sgd_gpt2_config *config, const struct sgd_model_ops *ops)
{
    struct sgd_gpt2_shape s = config->shape;
    s.layers = s.layers ? s.layers : 6;
    s.width = s.width ? s.width : 256;
    s.heads = s.heads ? s.heads : 8;
    s.context = s.context ? s.context : 256;
    s.vocabulary = s.vocabulary ? s.vocabulary : 256;
    MT_TRY(sgd_gpt2_shape_check(&s));
    base->shape = s;
    base->token_bytes = config->token_bytes ? config->token_bytes : s.vocabulary <= 256 ? 1 : 2;
    base->model = (struct sgd_model){.ops = ops,
                                     .batch_max = config->batch_max,
                                     .device = sgd_model_device(config->ops),
                                     .record_size = (s.context + 1) * base->token_bytes};
    if (config->batch_max == 0 || config->batch_max > BATCH_MAX || base->token_bytes > 2)
        return mt_error(MT_EINVAL, 0, "model: records at once, or bytes of a token, out of range");
    return params_add(base);
}

static mt_status gpt2_build(struct gpt2 *gpt2, const struct sgd_gpt2_config *config)
{
    gpt2->ops = config->ops;
    MT_TRY(sgd_gpt2_base_build(mt_container_of(&gpt2->model, struct gpt2_base, model), config, &gpt2_model_ops));
    return work_allocate(gpt2);
}

mt_status sgd_gpt2_new(const struct sgd_gpt2_config *config, struct sgd_model **out_model)
{
    struct gpt2 *gpt2 = calloc(1, sizeof *gpt2);
    if (!gpt2)
        return mt_error(MT_ENOMEM, 0, "model");
    mt_status st = gpt2_build(gpt2, config);
    if (st.code != 0) {
        gpt2_free(&gpt2->model);
        return st;
    }
    *out_model = &gpt2->model;
    return mt_ok();
}
