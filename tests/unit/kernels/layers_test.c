/* SPDX-License-Identifier: Apache-2.0
 *
 * layers_test.c - the layers' kernels: every table against the reference, gradients against finite differences, and
 * equal bits for every width of vectors.
 */
#include "core/base/rng.h"
#include "kernels/choose/choose.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct k_ops *tables[K_TABLES_MAX];
static size_t              tables_count;

static int tables_find(void **state)
{
    (void)state;
    tables_count = k_ops_all(tables);
    return 0;
}

static float *randoms(mt_rng *rng, size_t count)
{
    float *out = malloc((count + 1) * sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < count; i++)
        out[i] = (float)((double)mt_rng_below(rng, 2000001) / 1e6 - 1.0);
    return out;
}

static void same_within(const char *what, const char *table, const float *want, const float *got, size_t count, double bound)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)want[i] - (double)got[i]) <= bound))
            fail_msg("%s of %s: element %zu: want %.8g, got %.8g", what, table, i, (double)want[i], (double)got[i]);
}

/* A function of one buffer whose gradient is known: the sum over its outputs times fixed weights. */
typedef double loss_fn(void *of);

/* Compares grads[i] with the difference quotient in x[i], for some of the elements. */
static void gradient_check(const char *what, loss_fn *loss, void *of, float *x, const float *grads, size_t count, double bound)
{
    for (size_t i = 0; i < count; i += 1 + count / 40) {
        const float step = 1e-2f;
        float       keep = x[i];
        x[i] = keep + step;
        double up = loss(of);
        x[i] = keep - step;
        double down = loss(of);
        x[i] = keep;
        double slope = (up - down) / (2.0 * (double)step);
        if (!(fabs(slope - (double)grads[i]) <= bound * (1.0 + fabs(slope))))
            fail_msg("%s: element %zu: slope %.6g, gradient %.6g", what, i, slope, (double)grads[i]);
    }
}

static double weighted(const float *y, const float *weights, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)y[i] * (double)weights[i];
    return sum;
}

/* ---- GELU ---- */

static void gelu_is_the_formula_and_its_slope(void **state)
{
    enum { COUNT = 203 };
    float x[COUNT], y[COUNT], grad[COUNT];
    (void)state;
    for (int i = 0; i < COUNT; i++)
        x[i] = ((float)i - 101.0f) * 0.06f;
    for (size_t t = 0; t < tables_count; t++) {
        for (int i = 0; i < COUNT; i++)
            grad[i] = 1.0f;
        tables[t]->gelu_forward(NULL, x, y, COUNT);
        tables[t]->gelu_backward(NULL, x, grad, COUNT);
        for (int i = 0; i < COUNT; i++) {
            double v = (double)x[i], c = sqrt(2.0 / 3.14159265358979323846), u = c * (v + 0.044715 * v * v * v);
            double tanh_u = tanh(u);
            double slope = 0.5 * (1 + tanh_u) + 0.5 * v * (1 - tanh_u * tanh_u) * c * (1 + 3 * 0.044715 * v * v);
            assert_true(fabs(0.5 * v * (1 + tanh_u) - (double)y[i]) < 2e-6);
            assert_true(fabs(slope - (double)grad[i]) < 2e-6);
        }
    }
    float nan = NAN, out;
    tables[tables_count - 1]->gelu_forward(NULL, &nan, &out, 1);
    assert_true(isnan(out));
}

/* ---- layer normalisation ---- */

struct norm_case {
    const struct k_ops *ops;
    struct k_layernorm  norm;
    const float        *weights;
};

static double norm_loss(void *of)
{
    struct norm_case *c = of;
    assert_int_equal(c->ops->layernorm_forward(NULL, &c->norm).code, MT_OK);
    return weighted(c->norm.y, c->weights, c->norm.rows * c->norm.cols);
}

static void layernorm_and_its_gradient(void **state)
{
    enum { ROWS = 3, COLS = 37, COUNT = ROWS * COLS };
    mt_rng rng = {11};
    float *x = randoms(&rng, COUNT), *w = randoms(&rng, COLS), *b = randoms(&rng, COLS), *dy = randoms(&rng, COUNT);
    float  y[COUNT], mean[ROWS], rstd[ROWS], dx[COUNT], dw[COLS], db[COLS];
    (void)state;
    for (size_t t = 0; t < tables_count; t++) {
        struct norm_case c = {.ops = tables[t],
                              .weights = dy,
                              .norm = {.x = x,
                                       .weight = w,
                                       .bias = b,
                                       .y = y,
                                       .mean = mean,
                                       .rstd = rstd,
                                       .dy = dy,
                                       .dx = dx,
                                       .dweight = dw,
                                       .dbias = db,
                                       .rows = ROWS,
                                       .cols = COLS}};
        norm_loss(&c);
        double sum = 0, squares = 0;
        for (int i = 0; i < COLS; i++)
            sum += (double)x[i];
        for (int i = 0; i < COLS; i++)
            squares += ((double)x[i] - sum / COLS) * ((double)x[i] - sum / COLS);
        for (int i = 0; i < COLS; i++)
            assert_true(fabs(((double)x[i] - sum / COLS) / sqrt(squares / COLS + 1e-5) * (double)w[i] + (double)b[i] -
                             (double)y[i]) < 1e-5);
        assert_int_equal(tables[t]->layernorm_backward(NULL, &c.norm).code, MT_OK);
        gradient_check("layernorm x", norm_loss, &c, x, dx, COUNT, 1e-2);
        gradient_check("layernorm weight", norm_loss, &c, w, dw, COLS, 1e-3);
        gradient_check("layernorm bias", norm_loss, &c, b, db, COLS, 1e-3);
    }
    free(x), free(w), free(b), free(dy);
}

/* ---- convolution ---- */

struct conv_case {
    const struct k_ops *ops;
    struct k_conv       conv;
    const float        *weights;
    size_t              outputs;
};

static double conv_loss(void *of)
{
    struct conv_case *c = of;
    assert_int_equal(c->ops->conv_forward(NULL, &c->conv).code, MT_OK);
    return weighted(c->conv.y, c->weights, c->outputs);
}

static void conv_case_check(mt_rng *rng, struct k_conv shape)
{
    size_t inputs = shape.batch * shape.height * shape.width * shape.channels_in;
    size_t filters = shape.channels_out * shape.kernel * shape.kernel * shape.channels_in, channels = shape.channels_out;
    size_t outputs = shape.batch * (shape.height + 2 * shape.pad - shape.kernel + 1) *
                     (shape.width + 2 * shape.pad - shape.kernel + 1) * channels;
    float *x = randoms(rng, inputs), *w = randoms(rng, filters), *b = randoms(rng, channels);
    float *dy = randoms(rng, outputs), *work = randoms(rng, k_conv_work(&shape));
    float *y[2], *dx[2], *dw[2], *db[2];
    for (int i = 0; i < 2; i++) {
        y[i] = randoms(rng, outputs), dx[i] = randoms(rng, inputs);
        dw[i] = randoms(rng, filters), db[i] = randoms(rng, channels);
    }
    for (size_t t = 0; t < tables_count; t++) {
        int              at = t > 0;
        struct conv_case c = {.ops = tables[t], .conv = shape, .weights = dy, .outputs = outputs};
        c.conv.x = x, c.conv.weight = w, c.conv.bias = b, c.conv.y = y[at], c.conv.dy = dy, c.conv.dx = dx[at];
        c.conv.dweight = dw[at], c.conv.dbias = db[at], c.conv.work = work;
        conv_loss(&c);
        assert_int_equal(tables[t]->conv_backward(NULL, &c.conv).code, MT_OK);
        if (t == 0) {
            gradient_check("conv x", conv_loss, &c, x, dx[0], inputs, 2e-3);
            gradient_check("conv weight", conv_loss, &c, w, dw[0], filters, 2e-3);
            gradient_check("conv bias", conv_loss, &c, b, db[0], channels, 2e-3);
            conv_loss(&c);
            continue;
        }
        same_within("conv y", tables[t]->name, y[0], y[1], outputs, 1e-4);
        same_within("conv dx", tables[t]->name, dx[0], dx[1], inputs, 1e-4);
        same_within("conv dweight", tables[t]->name, dw[0], dw[1], filters, 1e-3);
        same_within("conv dbias", tables[t]->name, db[0], db[1], channels, 1e-3);
        c.conv.dx = NULL; /* is not wanted */
        assert_int_equal(tables[t]->conv_backward(NULL, &c.conv).code, MT_OK);
        same_within("conv dweight alone", tables[t]->name, dw[0], dw[1], filters, 1e-3);
    }
    free(x), free(w), free(b), free(dy), free(work);
    for (int i = 0; i < 2; i++)
        free(y[i]), free(dx[i]), free(dw[i]), free(db[i]);
}

static void convolution_and_its_gradients(void **state)
{
    /* batch, height, width, channels in and out, kernel, pad */
    static const size_t shapes[][7] = {
        {2, 7, 6, 1, 3, 3, 0},
        {1, 5, 5, 4, 2, 3, 1},
        {2, 4, 6, 3, 5, 1, 0},
        {1, 3, 3, 2, 17, 5, 2},
        {2, 10, 9, 32, 16, 3, 0},
        {2, 6, 9, 32, 64, 3, 0},
        {1, 5, 19, 32, 32, 3, 1},
        {1, 3, 17, 64, 32, 2, 1},
        {2, 3, 3, 32, 32, 1, 0},
        {1, 4, 3, 32, 32, 5, 4},
        /* from here on: neighbourhoods so small that they go by sixteen channels */
        {2, 5, 13, 1, 32, 3, 0},
        {2, 6, 7, 3, 16, 3, 0},
        {1, 7, 12, 1, 48, 5, 0},
        {1, 3, 9, 7, 16, 1, 0},
        {1, 1, 1, 32, 16, 1, 0},
    };
    mt_rng rng = {12};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t *s = shapes[i];
        conv_case_check(&rng, (struct k_conv){.batch = s[0],
                                              .height = s[1],
                                              .width = s[2],
                                              .channels_in = s[3],
                                              .channels_out = s[4],
                                              .kernel = s[5],
                                              .pad = s[6]});
    }
}

/* Convolutions of bfloat16 multiply the same factors, with tiles and without: only the order of their sums differs. */
static void convolution_of_bfloat16(void **state)
{
    enum { SIDE = 9, IN = 32, OUT = 64, PIXELS = SIDE * SIDE, FILTERS = OUT * 9 * IN };
    mt_rng rng = {21};
    float *x = randoms(&rng, PIXELS * IN), *w = randoms(&rng, FILTERS), *b = randoms(&rng, OUT), *dy = randoms(&rng, PIXELS * OUT);
    float *y[2], *dx[2], *dw[2], *db[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct k_ops *ops;
        struct k_config     config = {.kind = K_CPU, .bf16 = true, .no_tiles = i};
        y[i] = randoms(&rng, PIXELS * OUT), dx[i] = randoms(&rng, PIXELS * IN);
        dw[i] = randoms(&rng, FILTERS), db[i] = randoms(&rng, OUT);
        struct k_conv conv = {.batch = 1,
                              .height = SIDE,
                              .width = SIDE,
                              .channels_in = IN,
                              .channels_out = OUT,
                              .kernel = 3,
                              .pad = 1,
                              .x = x,
                              .weight = w,
                              .bias = b,
                              .y = y[i],
                              .dy = dy,
                              .dx = dx[i],
                              .dweight = dw[i],
                              .dbias = db[i]};
        conv.work = randoms(&rng, k_conv_work(&conv));
        assert_int_equal(k_ops_choose(&config, &ops).code, MT_OK);
        assert_int_equal(ops->conv_forward(NULL, &conv).code, MT_OK);
        assert_int_equal(ops->conv_backward(NULL, &conv).code, MT_OK);
        free(conv.work);
    }
    same_within("bfloat16 y", "tiles", y[1], y[0], PIXELS * OUT, 1e-4);
    same_within("bfloat16 dx", "tiles", dx[1], dx[0], PIXELS * IN, 1e-4);
    same_within("bfloat16 dweight", "tiles", dw[1], dw[0], FILTERS, 1e-3);
    same_within("bfloat16 dbias", "tiles", db[1], db[0], OUT, 1e-3);
    free(x), free(w), free(b), free(dy);
    for (int i = 0; i < 2; i++)
        free(y[i]), free(dx[i]), free(dw[i]), free(db[i]);
}

/* ---- pooling ---- */

static void pooling_check(size_t size)
{
    enum { BATCH = 2, HEIGHT = 5, WIDTH = 7, CHANNELS = 19, IN = BATCH * HEIGHT * WIDTH * CHANNELS };
    size_t rows = HEIGHT / size, cols = WIDTH / size, out = BATCH * rows * cols * CHANNELS;
    mt_rng rng = {13};
    float *x = randoms(&rng, IN), *dy = randoms(&rng, IN), y[IN], dx[IN];
    x[CHANNELS] = x[0]; /* a tie: the first gets all */
    for (size_t t = 0; t < tables_count; t++) {
        struct k_pool pool = {BATCH, HEIGHT, WIDTH, CHANNELS, size, x, y, dy, dx};
        assert_int_equal(tables[t]->pool_forward(NULL, &pool).code, MT_OK);
        assert_int_equal(tables[t]->pool_backward(NULL, &pool).code, MT_OK);
        double given = 0, wanted = 0;
        for (size_t i = 0; i < out; i++) {
            size_t c = i % CHANNELS, col = i / CHANNELS % cols, row = i / CHANNELS / cols % rows;
            size_t at = ((i / CHANNELS / cols / rows * HEIGHT + row * size) * WIDTH + col * size) * CHANNELS + c;
            size_t cells[9], best = 0;
            for (size_t k = 0; k < size * size; k++) {
                cells[k] = at + (k / size * WIDTH + k % size) * CHANNELS;
                best = x[cells[k]] > x[cells[best]] ? k : best;
            }
            assert_true(y[i] == x[cells[best]]);
            for (size_t k = 0; k < size * size; k++)
                assert_true(dx[cells[k]] == (k == best ? dy[i] : 0.0f));
            wanted += (double)dy[i];
        }
        for (size_t i = 0; i < IN; i++)
            given += (double)dx[i];
        assert_true(fabs(given - wanted) < 1e-3);
    }
    free(x), free(dy);
}

static void pooling_takes_the_largest_and_gives_back(void **state)
{
    (void)state;
    for (size_t size = 1; size <= 3; size++)
        pooling_check(size);
}

/* One of a window, wherever it stands, beside any others: the guard of training looks for it in the loss. */
static void pooling_shows_what_is_not_a_number(void **state)
{
    enum { CHANNELS = 19, CELLS = 9 };
    const float others[] = {-INFINITY, -1.0f, 0.0f, 1.0f, INFINITY};
    (void)state;
    for (size_t t = 0; t < tables_count; t++)
        for (size_t size = 1; size <= 3; size++)
            for (size_t i = 0; i < 5 * size * size; i++) {
                float  x[CELLS * CHANNELS], y[CHANNELS];
                size_t channel = i % CHANNELS;
                for (size_t k = 0; k < size * size * CHANNELS; k++)
                    x[k] = others[i % 5];
                x[i / 5 * CHANNELS + channel] = NAN;
                struct k_pool pool = {1, size, size, CHANNELS, size, x, y, NULL, NULL};
                assert_int_equal(tables[t]->pool_forward(NULL, &pool).code, MT_OK);
                for (size_t c = 0; c < CHANNELS; c++)
                    if (c == channel ? !isnan(y[c]) : y[c] != others[i % 5])
                        fail_msg("%s, windows of %zu, NaN at %zu of channel %zu: channel %zu is %g", tables[t]->name, size, i / 5,
                                 channel, c, (double)y[c]);
            }
}

/* ---- attention ---- */

struct attention_case {
    const struct k_ops *ops;
    struct k_attention  attention;
    const float        *weights;
};

static double attention_loss(void *of)
{
    struct attention_case *c = of;
    assert_int_equal(c->ops->attention_forward(NULL, &c->attention).code, MT_OK);
    return weighted(c->attention.out, c->weights, c->attention.batch * c->attention.time * c->attention.width);
}

static void attention_case_check(mt_rng *rng, struct k_attention shape)
{
    size_t out_count = shape.batch * shape.time * shape.width, lse_count = shape.batch * shape.time * shape.heads;
    float *qkv = randoms(rng, 3 * out_count), *dout = randoms(rng, out_count);
    float *work = randoms(rng, k_attention_work(&shape)), *out[2], *lse[2], *dqkv[2];
    for (int i = 0; i < 2; i++)
        out[i] = randoms(rng, out_count), lse[i] = randoms(rng, lse_count), dqkv[i] = randoms(rng, 3 * out_count);
    for (size_t t = 0; t < tables_count; t++) {
        int                   at = t > 0;
        struct attention_case c = {tables[t], shape, dout};
        c.attention.qkv = qkv, c.attention.out = out[at], c.attention.lse = lse[at], c.attention.dout = dout;
        c.attention.dqkv = dqkv[at], c.attention.work = work;
        attention_loss(&c);
        assert_int_equal(tables[t]->attention_backward(NULL, &c.attention).code, MT_OK);
        if (t == 0) {
            gradient_check("attention", attention_loss, &c, qkv, dqkv[0], 3 * out_count, 5e-3);
            attention_loss(&c);
            continue;
        }
        same_within("attention out", tables[t]->name, out[0], out[1], out_count, 1e-5);
        same_within("attention lse", tables[t]->name, lse[0], lse[1], lse_count, 1e-4);
        same_within("attention dqkv", tables[t]->name, dqkv[0], dqkv[1], 3 * out_count, 1e-4);
    }
    free(qkv), free(dout), free(work);
    for (int i = 0; i < 2; i++)
        free(out[i]), free(lse[i]), free(dqkv[i]);
}

static void attention_and_its_gradient(void **state)
{
    mt_rng rng = {14};
    (void)state;
    attention_case_check(&rng, (struct k_attention){.batch = 2, .time = 7, .heads = 2, .width = 10});
    attention_case_check(&rng, (struct k_attention){.batch = 1, .time = 64, .heads = 1, .width = 16});
    attention_case_check(&rng, (struct k_attention){.batch = 1, .time = 131, .heads = 3, .width = 48});
    attention_case_check(&rng, (struct k_attention){.batch = 1, .time = 300, .heads = 2, .width = 24}); /* two blocks of 256 */
}

/* ---- loss, optimizer, dropout, embedding ---- */

static void cross_entropy_of_many_classes(void **state)
{
    enum { ROWS = 2, CLASSES = 50257 };
    mt_rng  rng = {15};
    float  *logits = randoms(&rng, ROWS * CLASSES), *probs = randoms(&rng, ROWS * CLASSES), losses[ROWS];
    int32_t targets[ROWS] = {50256, 300};
    (void)state;
    for (size_t t = 0; t < tables_count; t++) {
        memcpy(probs, logits, ROWS * CLASSES * sizeof *probs);
        struct k_xent xent = {.logits = probs,
                              .targets = targets,
                              .probs = probs,
                              .losses = losses,
                              .grads = probs,
                              .scale = 2.0f,
                              .rows = ROWS,
                              .classes = CLASSES}; /* in place */
        assert_int_equal(tables[t]->xent_forward(NULL, &xent).code, MT_OK);
        assert_int_equal(tables[t]->xent_backward(NULL, &xent).code, MT_OK);
        for (int r = 0; r < ROWS; r++) {
            const float *x = logits + (size_t)r * CLASSES;
            double       sum = 0;
            for (int c = 0; c < CLASSES; c++)
                sum += exp((double)x[c]);
            assert_true(fabs(log(sum) - (double)x[targets[r]] - (double)losses[r]) < 1e-4);
            for (int c = 0; c < CLASSES; c++) {
                double p = exp((double)x[c]) / sum - (c == targets[r] ? 1.0 : 0.0);
                assert_true(fabs(2.0 * p - (double)probs[(size_t)r * CLASSES + (size_t)c]) < 1e-6);
            }
        }
    }
    float         bad[3] = {1.0f, NAN, 2.0f}, one[3], loss;
    int32_t       target = 0;
    struct k_xent xent = {.logits = bad, .targets = &target, .probs = one, .losses = &loss, .rows = 1, .classes = 3};
    tables[tables_count - 1]->xent_forward(NULL, &xent);
    assert_true(isnan(loss));
    free(logits), free(probs);
}

static void adamw_is_the_formula(void **state)
{
    enum { COUNT = 53 };
    mt_rng rng = {16};
    float *p = randoms(&rng, COUNT), *g = randoms(&rng, COUNT);
    (void)state;
    for (size_t t = 0; t < tables_count; t++) {
        float  params[COUNT], mean[COUNT] = {0}, square[COUNT] = {0};
        double want = (double)p[5], m = 0, v = 0, grad = (double)g[5];
        memcpy(params, p, sizeof params);
        for (uint64_t step = 1; step <= 20; step++) {
            struct k_adamw adamw = {params, mean, square, g, COUNT, step, 0.01f, 0.9f, 0.95f, 1e-8f, 0.1f};
            assert_int_equal(tables[t]->adamw_update(NULL, &adamw).code, MT_OK);
            m = 0.9 * m + 0.1 * grad;
            v = 0.95 * v + 0.05 * grad * grad;
            want -= 0.01 * (m / (1 - pow(0.9, (double)step)) / (sqrt(v / (1 - pow(0.95, (double)step))) + 1e-8) + 0.1 * want);
        }
        assert_true(fabs(want - (double)params[5]) < 1e-4);
    }
    free(p), free(g);
}

static void sum_of_squares_finds_what_is_not_finite(void **state)
{
    float  x[100];
    double sum;
    (void)state;
    for (size_t t = 0; t < tables_count; t++) {
        for (int i = 0; i < 100; i++)
            x[i] = (float)i;
        tables[t]->sum_squares(NULL, x, 100, &sum);
        assert_true(sum == 328350.0);
        x[99] = 3e38f; /* its square is no float */
        tables[t]->sum_squares(NULL, x, 100, &sum);
        assert_true(isfinite(sum));
        x[98] = INFINITY;
        tables[t]->sum_squares(NULL, x, 100, &sum);
        assert_false(isfinite(sum));
        x[98] = NAN;
        tables[t]->sum_squares(NULL, x, 100, &sum);
        assert_false(isfinite(sum));
    }
}

static void dropout_keeps_the_mean_and_repeats(void **state)
{
    enum { COUNT = 100000 };
    float *x = malloc(COUNT * sizeof *x), *again = malloc(COUNT * sizeof *again);
    (void)state;
    assert_non_null(x), assert_non_null(again);
    for (size_t t = 0; t < tables_count; t++) {
        size_t dropped = 0, differ = 0;
        for (int i = 0; i < COUNT; i++)
            x[i] = again[i] = 1.0f;
        assert_int_equal(tables[t]->dropout(NULL, x, COUNT, 7, 0.25f).code, MT_OK);
        tables[0]->dropout(NULL, again, COUNT, 7, 0.25f);
        assert_memory_equal(x, again, COUNT * sizeof *x);
        for (int i = 0; i < COUNT; i++) {
            assert_true(x[i] == 0.0f || x[i] == 1.0f / 0.75f);
            dropped += x[i] == 0.0f;
            again[i] = 1.0f;
        }
        assert_in_range(dropped, 24500, 25500);
        tables[t]->dropout(NULL, again, COUNT, 8, 0.25f);
        for (int i = 0; i < COUNT; i++)
            differ += (x[i] == 0.0f) != (again[i] == 0.0f);
        assert_in_range(differ, 36500, 38500); /* another key is another draw: 2 * 0.25 * 0.75 */
    }
    assert_int_equal(tables[0]->dropout(NULL, x, COUNT, 7, 1.0f).code, MT_EINVAL);
    assert_int_equal(tables[0]->dropout(NULL, x, COUNT, 7, NAN).code, MT_EINVAL);
    free(x), free(again);
}

static void embedding_looks_up_and_adds_back(void **state)
{
    enum { VOCABULARY = 5, TIME = 3, COLS = 21, ROWS = 6 };
    mt_rng  rng = {17};
    float  *token = randoms(&rng, VOCABULARY * COLS), *position = randoms(&rng, TIME * COLS);
    float  *dout = randoms(&rng, ROWS * COLS), out[ROWS * COLS];
    int32_t tokens[ROWS] = {4, 0, 4, 2, 2, 1};
    (void)state;
    for (size_t t = 0; t < tables_count; t++) {
        float          dtoken[VOCABULARY * COLS] = {0}, dposition[TIME * COLS] = {0};
        struct k_embed embed = {tokens, token, position, out, dout, dtoken, dposition, ROWS, TIME, COLS};
        tables[t]->embed_forward(NULL, &embed);
        tables[t]->embed_backward(NULL, &embed);
        for (size_t r = 0; r < ROWS; r++)
            for (size_t c = 0; c < COLS; c++)
                assert_true(out[r * COLS + c] == token[(size_t)tokens[r] * COLS + c] + position[r % TIME * COLS + c]);
        assert_true(dtoken[4 * COLS] == dout[0] + dout[2 * COLS]);
        assert_true(dtoken[3 * COLS] == 0.0f);
        assert_true(dposition[COLS] == dout[COLS] + dout[4 * COLS]);
    }
    free(token), free(position), free(dout);
}

/* ---- equal bits ---- */

/* What does not go through a matrix product has the same bits in every build. */
static void every_width_gives_the_same_bits(void **state)
{
    enum { ROWS = 3, COLS = 45, COUNT = ROWS * COLS };
    mt_rng  rng = {18};
    float  *x = randoms(&rng, COUNT), *w = randoms(&rng, COLS), *g = randoms(&rng, COUNT);
    float   first[8][COUNT], now[8][COUNT], mean[ROWS], rstd[ROWS];
    int32_t targets[ROWS] = {1, 44, 9};
    (void)state;
    for (size_t t = 0; t < tables_count; t++) {
        const struct k_ops *ops = tables[t];
        memset(now, 0, sizeof now);
        ops->gelu_forward(NULL, x, now[0], COUNT);
        memcpy(now[1], g, sizeof now[1]);
        ops->gelu_backward(NULL, x, now[1], COUNT);
        struct k_layernorm norm = {x, w, w, now[2], mean, rstd, g, now[3], now[4], now[4] + COLS, ROWS, COLS};
        ops->layernorm_forward(NULL, &norm);
        ops->layernorm_backward(NULL, &norm);
        struct k_xent xent = {.logits = x,
                              .targets = targets,
                              .probs = now[5],
                              .losses = now[6],
                              .grads = now[7],
                              .scale = 0.3f,
                              .rows = ROWS,
                              .classes = COLS};
        ops->xent_forward(NULL, &xent);
        ops->xent_backward(NULL, &xent);
        struct k_adamw adamw = {now[0], now[1], now[7], g, COUNT, 3, 0.01f, 0.9f, 0.95f, 1e-8f, 0.1f};
        for (int i = 0; i < COUNT; i++)
            now[7][i] = fabsf(now[7][i]);
        ops->adamw_update(NULL, &adamw);
        if (t == 0)
            memcpy(first, now, sizeof first);
        assert_memory_equal(first, now, sizeof first);
    }
    free(x), free(w), free(g);
}

/* Where vectors of some width have instructions of their own: rows that are no multiple of it, and values at the ends. */
static void ends_of_the_range_have_the_same_bits(void **state)
{
    enum { COUNT = 19 };
    const float   ends[COUNT] = {0.0f, -0.0f, 1e-40f, -1e-40f, 87.0f, -87.0f, -87.1f, 88.0f, 88.1f, -88.1f,
                                 1e4f, -1e4f, 700.0f, -700.0f, 0.5f,  -0.5f,  1e-8f,  3.0f,  -3.0f};
    const uint8_t label = 4;
    (void)state;
    for (size_t count = 1; count <= COUNT; count++) {
        float first[3][COUNT], now[3][COUNT], loss[2];
        for (size_t t = 0; t < tables_count; t++) {
            memset(now, 0, sizeof now);
            struct k_xent xent = {.logits = ends,
                                  .labels = &label,
                                  .probs = now[0],
                                  .losses = &loss[t > 0],
                                  .rows = 1,
                                  .classes = count > label ? count : label + 1};
            tables[t]->xent_forward(NULL, &xent);
            tables[t]->gelu_forward(NULL, ends, now[1], count);
            memcpy(now[2], ends, sizeof ends);
            tables[t]->gelu_backward(NULL, ends, now[2], count);
            if (t == 0)
                memcpy(first, now, sizeof first);
            assert_memory_equal(first, now, sizeof first);
            assert_memory_equal(&loss[0], &loss[t > 0], sizeof *loss);
        }
    }
}

static void a_score_that_is_no_number_shows_in_the_loss(void **state)
{
    enum { COUNT = 19 };
    const uint8_t label = 0;
    (void)state;
    for (size_t t = 0; t < tables_count; t++)
        for (size_t at = 0; at < COUNT; at++) {
            float scores[COUNT] = {1.0f}, probs[COUNT], loss = 0.0f;
            scores[at] = NAN;
            struct k_xent xent = {.logits = scores, .labels = &label, .probs = probs, .losses = &loss, .rows = 1, .classes = COUNT};
            tables[t]->xent_forward(NULL, &xent);
            assert_true(isnan(loss));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gelu_is_the_formula_and_its_slope),
        cmocka_unit_test(layernorm_and_its_gradient),
        cmocka_unit_test(convolution_and_its_gradients),
        cmocka_unit_test(convolution_of_bfloat16),
        cmocka_unit_test(pooling_takes_the_largest_and_gives_back),
        cmocka_unit_test(pooling_shows_what_is_not_a_number),
        cmocka_unit_test(attention_and_its_gradient),
        cmocka_unit_test(cross_entropy_of_many_classes),
        cmocka_unit_test(adamw_is_the_formula),
        cmocka_unit_test(sum_of_squares_finds_what_is_not_finite),
        cmocka_unit_test(dropout_keeps_the_mean_and_repeats),
        cmocka_unit_test(embedding_looks_up_and_adds_back),
        cmocka_unit_test(every_width_gives_the_same_bits),
        cmocka_unit_test(ends_of_the_range_have_the_same_bits),
        cmocka_unit_test(a_score_that_is_no_number_shows_in_the_loss),
    };
    return cmocka_run_group_tests(tests, tables_find, NULL);
}
