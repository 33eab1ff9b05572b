/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels_test.c - each entry of the table under test against its CPU reference (which the unit tests compare with finite
 * differences), over sizes that are no multiples of anything; then the same call again, for equal bits.
 *
 *   kernels_test [NAME...]     one line a case; exit status 0, 1 (a case failed), 77 (there is no device)
 *
 * Owns:   the device's copies of a case's buffers, until the case ends. Thread: one.
 */
#include "core/base/rng.h"
#include "kernels/half.h"
#include "kernels/reference/reference.h"
#include "tests/gpu/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFERS_MAX = 64 };

static const struct k_ops *gpu, *cpu; /* under test; the reference */
static mt_rng              rng = {7};
static struct {
    void  *host, *device;
    size_t size;
} buffers[BUFFERS_MAX];
static int buffers_count, failures;

static void failed(const char *what, size_t at, double want, double got)
{
    if (failures++ < 20)
        printf("  %s: element %zu: want %.8g, got %.8g\n", what, at, want, got);
}

static void check(mt_status st, const char *what)
{
    if (st.code == 0)
        return;
    failures++;
    printf("  %s: %s (%s, %d)\n", what, st.what ? st.what : "?", mt_code_name(st.code), st.sys);
}

/* ---- buffers: a host's, and the device's that goes with it ---- */

static void *host_new(size_t size)
{
    void *out = NULL;
    if (posix_memalign(&out, 64, size ? (size + 63) / 64 * 64 : 64) != 0 || buffers_count == BUFFERS_MAX)
        abort();
    memset(out, 0, size);
    buffers[buffers_count].host = out;
    buffers[buffers_count].size = size;
    check(gpu->alloc(size, &buffers[buffers_count].device), "alloc");
    buffers_count++;
    return out;
}

static float *floats(size_t count, double low, double high)
{
    float *out = host_new(count * sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = (float)(low + (high - low) * (double)mt_rng_below(&rng, 1000001) / 1e6);
    return out;
}

static k_half *halves(size_t count, double low, double high)
{
    k_half *out = host_new(count * sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = k_half_of((float)(low + (high - low) * (double)mt_rng_below(&rng, 1000001) / 1e6));
    return out;
}

static int32_t *numbers(size_t count, uint32_t below)
{
    int32_t *out = host_new(count * sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = (int32_t)mt_rng_below(&rng, below);
    return out;
}

/* Where the device has what lies at `host`, which may be inside a buffer; NULL for NULL. */
static void *device_of(const void *host)
{
    for (int i = 0; i < buffers_count && host; i++) {
        const char *begin = buffers[i].host;
        if ((const char *)host >= begin && (const char *)host < begin + buffers[i].size + 1)
            return (char *)buffers[i].device + ((const char *)host - begin);
    }
    return NULL;
}
#define D(pointer) ((__typeof__(pointer))(uintptr_t)device_of(pointer))

/* All of the hosts' buffers to the device. Call it before the reference runs. */
static void up(void)
{
    for (int i = 0; i < buffers_count; i++)
        check(gpu->copy(NULL, buffers[i].device, buffers[i].host, buffers[i].size), "copy up");
    check(gpu->wait(NULL), "wait");
}

static void *fetch(const void *host, size_t size)
{
    void *out = malloc(size ? size : 1);
    check(gpu->copy(NULL, out, device_of(host), size), "copy down");
    check(gpu->wait(NULL), "wait");
    return out;
}

static void same(const char *what, const float *host, size_t count, double bound)
{
    float *got = fetch(host, count * sizeof *got);
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)host[i] - (double)got[i]) <= bound * (1.0 + fabs((double)host[i]))))
            failed(what, i, (double)host[i], (double)got[i]);
    free(got);
}

/* `bound` in units of what the largest element is. */
static void same_halves(const char *what, const k_half *host, size_t count, double bound)
{
    k_half *got = fetch(host, count * sizeof *got);
    double  largest = 1e-30;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)k_half_float(host[i])));
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)k_half_float(host[i]) - (double)k_half_float(got[i])) <= bound * largest))
            failed(what, i, (double)k_half_float(host[i]), (double)k_half_float(got[i]));
    free(got);
}

static void case_end(void)
{
    for (int i = 0; i < buffers_count; i++) {
        free(buffers[i].host);
        gpu->release(buffers[i].device);
    }
    buffers_count = 0;
}

/* ---- elementwise ---- */

static void elementwise(void)
{
    enum { ROWS = 37, COLS = 53, COUNT = ROWS * COLS };
    uint8_t *bytes = host_new(COUNT);
    float   *x = floats(COUNT, -3, 3), *y = floats(COUNT, -3, 3), *bias = floats(COLS, -1, 1), *out = floats(COUNT, 0, 0);
    float   *sums = floats(COLS, 0, 0), *g = floats(COUNT, -1, 1), *d = floats(COUNT, -1, 1);
    for (int i = 0; i < COUNT; i++)
        bytes[i] = (uint8_t)i;
    up();
    check(gpu->unpack(NULL, D(bytes), D(out), COUNT, 0.02f, -1.0f), "unpack");
    cpu->unpack(NULL, bytes, out, COUNT, 0.02f, -1.0f);
    same("unpack", out, COUNT, 1e-6);
    check(gpu->bias_add(NULL, D(x), D(bias), ROWS, COLS), "bias_add");
    cpu->bias_add(NULL, x, bias, ROWS, COLS);
    same("bias_add", x, COUNT, 1e-6);
    check(gpu->bias_grad(NULL, D(x), D(sums), ROWS, COLS), "bias_grad");
    cpu->bias_grad(NULL, x, sums, ROWS, COLS);
    same("bias_grad", sums, COLS, 1e-5);
    check(gpu->axpy(NULL, -0.5f, D(x), D(y), COUNT), "axpy");
    cpu->axpy(NULL, -0.5f, x, y, COUNT);
    same("axpy", y, COUNT, 1e-6);
    check(gpu->scale(NULL, 0.3f, D(y), COUNT), "scale");
    cpu->scale(NULL, 0.3f, y, COUNT);
    same("scale", y, COUNT, 1e-6);
    check(gpu->gelu_forward(NULL, D(x), D(out), COUNT), "gelu_forward");
    cpu->gelu_forward(NULL, x, out, COUNT);
    same("gelu_forward", out, COUNT, 2e-6);
    check(gpu->gelu_backward(NULL, D(x), D(g), COUNT), "gelu_backward");
    cpu->gelu_backward(NULL, x, g, COUNT);
    same("gelu_backward", g, COUNT, 4e-6);
    check(gpu->relu_forward(NULL, D(x), COUNT), "relu_forward");
    cpu->relu_forward(NULL, x, COUNT);
    same("relu_forward", x, COUNT, 1e-6);
    check(gpu->relu_backward(NULL, D(x), D(g), COUNT), "relu_backward");
    cpu->relu_backward(NULL, x, g, COUNT);
    same("relu_backward", g, COUNT, 4e-6);
    check(gpu->dropout(NULL, D(d), COUNT, 0x123456789abcdefu, 0.3f), "dropout");
    cpu->dropout(NULL, d, COUNT, 0x123456789abcdefu, 0.3f);
    same("dropout", d, COUNT, 1e-6);
    check(gpu->clear(NULL, D(d), COUNT * sizeof *d), "clear");
    memset(d, 0, COUNT * sizeof *d);
    same("clear", d, COUNT, 0);
}

static void column_sums(void)
{
    enum { ROWS = 1000, COLS = 70 };
    float *x = floats(ROWS * COLS, -1, 1), *sums = floats(COLS, 0, 0);
    up();
    check(gpu->bias_grad(NULL, D(x), D(sums), ROWS, COLS), "bias_grad");
    cpu->bias_grad(NULL, x, sums, ROWS, COLS);
    same("bias_grad of many rows", sums, COLS, 2e-5);
}

static void optimizers(void)
{
    enum { COUNT = 1031 };
    float *p = floats(COUNT, -1, 1), *v = floats(COUNT, -1, 1), *g = floats(COUNT, -1, 1);
    float *m = floats(COUNT, -0.1, 0.1), *s = floats(COUNT, 0, 0.1), *q = floats(COUNT, -1, 1);
    for (int shift = 0; shift < 2; shift++) { /* the second at addresses that are no multiples of 16 */
        size_t         n = COUNT - (size_t)shift;
        struct k_sgd   sgd = {p + shift, v + shift, g + shift, n, 0.1f, 0.9f, 0.01f};
        struct k_adamw adamw = {q + shift, m + shift, s + shift, g + shift, n, 5, 0.01f, 0.9f, 0.99f, 1e-8f, 0.1f};
        struct k_sgd   sgd_d = sgd;
        struct k_adamw adamw_d = adamw;
        up();
        sgd_d.params = D(sgd.params), sgd_d.velocity = D(sgd.velocity), sgd_d.grads = D(sgd.grads);
        adamw_d.params = D(adamw.params), adamw_d.mean = D(adamw.mean), adamw_d.square = D(adamw.square);
        adamw_d.grads = D(adamw.grads);
        check(gpu->sgd_update(NULL, &sgd_d), "sgd_update");
        check(gpu->adamw_update(NULL, &adamw_d), "adamw_update");
        cpu->sgd_update(NULL, &sgd);
        cpu->adamw_update(NULL, &adamw);
        same("sgd params", p, COUNT, 1e-6), same("sgd velocity", v, COUNT, 1e-6);
        same("adamw params", q, COUNT, 2e-6), same("adamw mean", m, COUNT, 1e-6), same("adamw square", s, COUNT, 1e-6);
    }
}

static void sums(void)
{
    enum { COUNT = 2049, INPUTS = 13 };
    float       *out = floats(COUNT, 0, 0), *x = floats(COUNT, -2, 2);
    const float *in[INPUTS], *in_d[INPUTS];
    double       want, got;
    for (int i = 0; i < INPUTS; i++)
        in[i] = floats(COUNT, -1, 1);
    up();
    for (int i = 0; i < INPUTS; i++)
        in_d[i] = D(in[i]);
    for (size_t n = 1; n <= INPUTS; n++) {
        check(gpu->tree_sum(NULL, in_d, n, COUNT, D(out)), "tree_sum");
        cpu->tree_sum(NULL, in, n, COUNT, out);
        same("tree_sum (bits)", out, COUNT, 0);
    }
    check(gpu->sum_squares(NULL, D(x), COUNT, &got), "sum_squares");
    cpu->sum_squares(NULL, x, COUNT, &want);
    if (!(fabs(want - got) <= 1e-12 * want))
        failed("sum_squares", 0, want, got);
    if (gpu->tree_sum(NULL, in_d, 0, COUNT, D(out)).code != MT_EINVAL)
        failed("tree_sum of nothing", 0, MT_EINVAL, 0);
}

/* ---- layers ---- */

static void layernorm(void)
{
    for (size_t rows = 5; rows < 400; rows += 260) {
        size_t             cols = 77;
        struct k_layernorm n = {.x = floats(rows * cols, -2, 3),
                                .weight = floats(cols, -1, 1),
                                .bias = floats(cols, -1, 1),
                                .y = floats(rows * cols, 0, 0),
                                .mean = floats(rows, 0, 0),
                                .rstd = floats(rows, 0, 0),
                                .dweight = floats(cols, 0, 0),
                                .dbias = floats(cols, 0, 0),
                                .rows = rows,
                                .cols = cols};
        float             *d = floats(rows * cols, -1, 1);
        n.dy = n.dx = d;
        up();
        struct k_layernorm t = n;
        t.x = D(n.x), t.weight = D(n.weight), t.bias = D(n.bias), t.y = D(n.y), t.mean = D(n.mean), t.rstd = D(n.rstd);
        t.dweight = D(n.dweight), t.dbias = D(n.dbias), t.dy = D(n.dy), t.dx = D(n.dx);
        check(gpu->layernorm_forward(NULL, &t), "layernorm_forward");
        check(gpu->layernorm_backward(NULL, &t), "layernorm_backward");
        cpu->layernorm_forward(NULL, &n), cpu->layernorm_backward(NULL, &n);
        same("layernorm y", n.y, rows * cols, 1e-5), same("layernorm dx", d, rows * cols, 1e-5);
        same("layernorm dweight", n.dweight, cols, 2e-5), same("layernorm dbias", n.dbias, cols, 2e-5);
        case_end();
    }
}

static void embedding(void)
{
    enum { TIME = 19, ROWS = 5 * TIME, COLS = 21, TOKENS = 11 };
    struct k_embed e = {.tokens = numbers(ROWS, TOKENS),
                        .token = floats(TOKENS * COLS, -1, 1),
                        .position = floats(TIME * COLS, -1, 1),
                        .out = floats(ROWS * COLS, 0, 0),
                        .dout = floats(ROWS * COLS, -1, 1),
                        .dtoken = floats(TOKENS * COLS, -1, 1),
                        .dposition = floats(TIME * COLS, -1, 1),
                        .rows = ROWS,
                        .time = TIME,
                        .cols = COLS};
    up();
    struct k_embed t = e;
    t.tokens = D(e.tokens), t.token = D(e.token), t.position = D(e.position), t.out = D(e.out), t.dout = D(e.dout);
    t.dtoken = D(e.dtoken), t.dposition = D(e.dposition);
    check(gpu->embed_forward(NULL, &t), "embed_forward");
    check(gpu->embed_backward(NULL, &t), "embed_backward");
    cpu->embed_forward(NULL, &e), cpu->embed_backward(NULL, &e);
    same("embed out", e.out, ROWS * COLS, 1e-6), same("embed dtoken", e.dtoken, TOKENS * COLS, 1e-5);
    same("embed dposition", e.dposition, TIME * COLS, 1e-5);
}

static void pooling(void)
{
    struct k_pool p = {.batch = 3, .height = 7, .width = 9, .channels = 5, .size = 2};
    size_t        in = 3 * 7 * 9 * 5, out = 3 * 3 * 4 * 5;
    float        *x = floats(in, -1, 1);
    for (size_t i = 0; i < in; i += 2)
        x[i] = 1.0f; /* the first of several largest counts */
    p.x = x, p.y = floats(out, 0, 0), p.dy = floats(out, -1, 1), p.dx = floats(in, 5, 5);
    up();
    struct k_pool t = p;
    t.x = D(p.x), t.y = D(p.y), t.dy = D(p.dy), t.dx = D(p.dx);
    check(gpu->pool_forward(NULL, &t), "pool_forward"), check(gpu->pool_backward(NULL, &t), "pool_backward");
    cpu->pool_forward(NULL, &p), cpu->pool_backward(NULL, &p);
    same("pool y", p.y, out, 0), same("pool dx", p.dx, in, 0);
}

/* One of a window, wherever it stands: the guard of training looks for it in the loss. */
static void pooling_nan(void)
{
    struct k_pool p = {.batch = 1, .height = 2, .width = 8, .channels = 1, .size = 2};
    float        *x = floats(16, -1, 1);
    for (size_t i = 0; i < 4; i++)
        x[i / 2 * 8 + i % 2 + 2 * i] = NAN; /* window i has it at its place i */
    p.x = D(x), p.y = floats(4, 0, 0);
    float *y = p.y;
    up();
    p.y = D(y);
    check(gpu->pool_forward(NULL, &p), "pool_forward");
    float *got = fetch(y, 4 * sizeof *got);
    for (size_t i = 0; i < 4; i++)
        if (!isnan(got[i]))
            failed("pooling of what is no number", i, (double)NAN, (double)got[i]);
    free(got);
}

static void convolution(void)
{
    for (int variant = 0; variant < 3; variant++) {
        struct k_conv c = {.batch = 3,
                           .height = 7,
                           .width = 6,
                           .channels_in = 3,
                           .channels_out = 5,
                           .kernel = 3,
                           .pad = (size_t)(variant == 1),
                           .adds = variant == 2};
        size_t pixels = (7 + 2 * c.pad - 2) * (6 + 2 * c.pad - 2), in = 3 * 7 * 6 * 3, out = 3 * pixels * 5, weights = 5 * 9 * 3;
        c.x = floats(in, -1, 1), c.weight = floats(weights, -1, 1), c.bias = floats(5, -1, 1), c.y = floats(out, 0, 0);
        c.dy = floats(out, -1, 1), c.dx = floats(in, 3, 3), c.dweight = floats(weights, -1, 1), c.dbias = floats(5, -1, 1);
        c.work = floats(k_conv_work(&c), 0, 0);
        up();
        struct k_conv t = c;
        t.x = D(c.x), t.weight = D(c.weight), t.bias = D(c.bias), t.y = D(c.y), t.dy = D(c.dy), t.dx = D(c.dx);
        t.dweight = D(c.dweight), t.dbias = D(c.dbias), t.work = D(c.work);
        check(gpu->conv_forward(NULL, &t), "conv_forward"), check(gpu->conv_backward(NULL, &t), "conv_backward");
        cpu->conv_forward(NULL, &c), cpu->conv_backward(NULL, &c);
        same("conv y", c.y, out, 1e-5), same("conv dx", c.dx, in, 1e-5), same("conv dweight", c.dweight, weights, 2e-5);
        same("conv dbias", c.dbias, 5, 2e-5);
        case_end();
    }
}

static void cross_entropy(void)
{
    for (size_t classes = 10; classes < 400; classes += 291) {
        size_t        rows = 9;
        struct k_xent x = {.logits = floats(rows * classes, -4, 4),
                           .targets = numbers(rows, (uint32_t)classes),
                           .losses = floats(rows, 0, 0),
                           .scale = 0.25f,
                           .rows = rows,
                           .classes = classes,
                           .right = floats(rows, 0, 0)};
        uint8_t      *labels = host_new(rows);
        for (size_t r = 0; r < rows; r++)
            labels[r] = (uint8_t)(r % 10);
        x.probs = x.grads = (float *)(uintptr_t)x.logits; /* in place, as gpt2 has it */
        x.labels = classes == 10 ? labels : NULL;
        up();
        struct k_xent t = x;
        t.logits = D(x.logits), t.probs = t.grads = D(x.probs), t.losses = D(x.losses), t.right = D(x.right);
        t.targets = D(x.targets), t.labels = x.labels ? D(labels) : NULL;
        check(gpu->xent_forward(NULL, &t), "xent_forward"), check(gpu->xent_backward(NULL, &t), "xent_backward");
        cpu->xent_forward(NULL, &x), cpu->xent_backward(NULL, &x);
        same("xent losses", x.losses, rows, 1e-5), same("xent right", x.right, rows, 0),
            same("xent grads", x.grads, rows * classes, 1e-5);
        case_end();
    }
}

static void attention(void)
{
    static const size_t shapes[][4] = {{2, 37, 2, 8}, {1, 70, 1, 64}, {1, 5, 3, 120}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct k_attention a = {
            .batch = shapes[i][0], .time = shapes[i][1], .heads = shapes[i][2], .width = shapes[i][2] * shapes[i][3]};
        size_t rows = a.batch * a.time;
        a.qkv = floats(rows * 3 * a.width, -1, 1), a.out = floats(rows * a.width, 0, 0), a.lse = floats(rows * a.heads, 0, 0);
        a.dout = floats(rows * a.width, -1, 1), a.dqkv = floats(rows * 3 * a.width, 9, 9);
        up();
        struct k_attention t = a;
        t.qkv = D(a.qkv), t.out = D(a.out), t.lse = D(a.lse), t.dout = D(a.dout), t.dqkv = D(a.dqkv);
        check(gpu->attention_forward(NULL, &t), "attention_forward"),
            check(gpu->attention_backward(NULL, &t), "attention_backward");
        k_attention_forward_reference(NULL, &a), k_attention_backward_reference(NULL, &a);
        same("attention out", a.out, rows * a.width, 1e-5), same("attention lse", a.lse, rows * a.heads, 1e-5);
        same("attention dqkv", a.dqkv, rows * 3 * a.width, 2e-5);
        case_end();
    }
}

static void products(void)
{
    for (int variant = 0; variant < 8; variant++) {
        struct k_gemm g = {.m = 37,
                           .n = 29,
                           .k = 53,
                           .a_transposed = variant & 1,
                           .b_transposed = variant & 2,
                           .beta = variant & 4 ? 1.0f : 0.0f,
                           .a = floats(37 * 53, -1, 1),
                           .b = floats(29 * 53, -1, 1),
                           .c = floats(37 * 29, -1, 1)};
        up();
        struct k_gemm t = g;
        t.a = D(g.a), t.b = D(g.b), t.c = D(g.c);
        check(gpu->gemm(NULL, &t), "gemm");
        cpu->gemm(NULL, &g);
        same("gemm", g.c, 37 * 29, 1e-5);
        case_end();
    }
    struct k_gemm g = {.m = 8,
                       .n = 12,
                       .k = 16,
                       .b_transposed = true,
                       .a = floats(8 * 20, -1, 1),
                       .b = floats(12 * 24, -1, 1),
                       .c = floats(8 * 28, -1, 1),
                       .lda = 20,
                       .ldb = 24,
                       .ldc = 28};
    up();
    struct k_gemm t = g;
    t.a = D(g.a), t.b = D(g.b), t.c = D(g.c);
    check(gpu->gemm(NULL, &t), "gemm with strides");
    cpu->gemm(NULL, &g);
    same("gemm with strides", g.c, 8 * 28, 1e-5);
}

/* ---- bfloat16 ---- */

static const double HALF = 1.0 / 128; /* one rounding is at most 2^-9 of a value */

static void half_products(void)
{
    for (int variant = 0; variant < 8; variant++) {
        bool               is_wide = variant & 4;
        struct k_half_gemm g = {.m = 24,
                                .n = 40,
                                .k = 32,
                                .a_transposed = variant & 1,
                                .b_transposed = variant & 2,
                                .beta = is_wide && (variant & 1) ? 1.0f : 0.0f,
                                .a = halves(24 * 32, -1, 1),
                                .b = halves(40 * 32, -1, 1)};
        if (is_wide)
            g.c32 = floats(24 * 40, -1, 1);
        else
            g.c = halves(24 * 40, -1, 1), g.bias = variant & 1 ? halves(40, -1, 1) : NULL;
        up();
        struct k_half_gemm t = g;
        t.a = D(g.a), t.b = D(g.b), t.c = D(g.c), t.c32 = D(g.c32), t.bias = D(g.bias);
        check(gpu->half->gemm(NULL, &t), "half gemm");
        k_half_reference.gemm(NULL, &g);
        if (is_wide)
            same("half gemm to float", g.c32, 24 * 40, 1e-4);
        else
            same_halves("half gemm", g.c, 24 * 40, HALF);
        case_end();
    }
}

static void half_elementwise(void)
{
    enum { ROWS = 200, COLS = 40, COUNT = ROWS * COLS };
    float  *x32 = floats(COUNT + 3, -3, 3), *sums = floats(COLS, 0, 0);
    k_half *x = halves(COUNT, -3, 3), *y = halves(COUNT, 0, 0), *g = halves(COUNT, -1, 1), *c = halves(COUNT + 3, 0, 0);
    x32[0] = NAN, x32[1] = INFINITY, x32[2] = 1.00390625f; /* a tie */
    up();
    check(gpu->half->cast(NULL, D(x32), D(c), COUNT + 3), "cast");
    k_half_reference.cast(NULL, x32, c, COUNT + 3);
    k_half *got = fetch(c, (COUNT + 3) * sizeof *got);
    for (size_t i = 1; i < COUNT + 3; i++)
        if (got[i] != c[i])
            failed("cast (bits)", i, c[i], got[i]);
    if (!isnan(k_half_float(got[0])))
        failed("cast of what is no number", 0, 0, got[0]);
    free(got);
    check(gpu->half->gelu_forward(NULL, D(x), D(y), COUNT), "gelu");
    k_half_reference.gelu_forward(NULL, x, y, COUNT);
    same_halves("half gelu", y, COUNT, HALF);
    check(gpu->half->gelu_backward(NULL, D(x), D(g), COUNT), "gelu's gradient");
    k_half_reference.gelu_backward(NULL, x, g, COUNT);
    same_halves("half gelu's gradient", g, COUNT, HALF);
    check(gpu->half->bias_grad(NULL, D(x), D(sums), ROWS, COLS), "bias_grad");
    k_half_reference.bias_grad(NULL, x, sums, ROWS, COLS);
    same("half bias_grad", sums, COLS, 1e-4);
}

static void half_norm(void)
{
    enum { ROWS = 150, COLS = 96, COUNT = ROWS * COLS };
    for (int with = 0; with < 2; with++) {
        struct k_half_norm n = {.x = halves(COUNT, -2, 3),
                                .plus = with ? halves(COUNT, -1, 1) : NULL,
                                .sum = with ? halves(COUNT, 0, 0) : NULL,
                                .y = halves(COUNT, 0, 0),
                                .weight = floats(COLS, -1, 1),
                                .bias = floats(COLS, -1, 1),
                                .mean = floats(ROWS, 0, 0),
                                .rstd = floats(ROWS, 0, 0),
                                .dy = halves(COUNT, -1, 1),
                                .carry = with ? halves(COUNT, -1, 1) : NULL,
                                .dx = halves(COUNT, 0, 0),
                                .dweight = floats(COLS, 0, 0),
                                .dbias = floats(COLS, 0, 0),
                                .rows = ROWS,
                                .cols = COLS};
        up();
        struct k_half_norm t = n;
        t.x = D(n.x), t.plus = D(n.plus), t.sum = D(n.sum), t.y = D(n.y), t.weight = D(n.weight), t.bias = D(n.bias);
        t.mean = D(n.mean), t.rstd = D(n.rstd), t.dy = D(n.dy), t.carry = D(n.carry), t.dx = D(n.dx);
        t.dweight = D(n.dweight), t.dbias = D(n.dbias);
        check(gpu->half->norm_forward(NULL, &t), "norm_forward");
        k_half_reference.norm_forward(NULL, &n);
        if (with)
            same_halves("half norm sum", n.sum, COUNT, 0), n.x = n.sum, t.x = t.sum;
        same_halves("half norm y", n.y, COUNT, HALF), same("half norm mean", n.mean, ROWS, 1e-5),
            same("half norm rstd", n.rstd, ROWS, 1e-4);
        check(gpu->half->norm_backward(NULL, &t), "norm_backward");
        k_half_reference.norm_backward(NULL, &n);
        same_halves("half norm dx", n.dx, COUNT, HALF), same("half norm dweight", n.dweight, COLS, 1e-4),
            same("half norm dbias", n.dbias, COLS, 1e-4);
        case_end();
    }
}

static void half_embedding(void)
{
    enum { TIME = 19, ROWS = 5 * TIME, COLS = 24, TOKENS = 11 };
    struct k_half_embed e = {.tokens = numbers(ROWS, TOKENS),
                             .token = halves(TOKENS * COLS, -1, 1),
                             .position = halves(TIME * COLS, -1, 1),
                             .out = halves(ROWS * COLS, 0, 0),
                             .dout = halves(ROWS * COLS, -1, 1),
                             .dtoken = floats(TOKENS * COLS, -1, 1),
                             .dposition = floats(TIME * COLS, -1, 1),
                             .rows = ROWS,
                             .time = TIME,
                             .cols = COLS};
    up();
    struct k_half_embed t = e;
    t.tokens = D(e.tokens), t.token = D(e.token), t.position = D(e.position), t.out = D(e.out), t.dout = D(e.dout);
    t.dtoken = D(e.dtoken), t.dposition = D(e.dposition);
    check(gpu->half->embed_forward(NULL, &t), "embed_forward"), check(gpu->half->embed_backward(NULL, &t), "embed_backward");
    k_half_reference.embed_forward(NULL, &e), k_half_reference.embed_backward(NULL, &e);
    same_halves("half embed out", e.out, ROWS * COLS, HALF), same("half embed dtoken", e.dtoken, TOKENS * COLS, 1e-5);
    same("half embed dposition", e.dposition, TIME * COLS, 1e-5);
}

static void half_attention_of(size_t batch, size_t time, size_t heads)
{
    struct k_half_attention a = {.batch = batch, .time = time, .heads = heads, .width = heads * 64};
    size_t                  rows = batch * time;
    a.qkv = halves(rows * 3 * a.width, -1, 1), a.out = halves(rows * a.width, 0, 0), a.lse = floats(rows * heads, 0, 0);
    a.dout = halves(rows * a.width, -1, 1), a.dqkv = halves(rows * 3 * a.width, 9, 9), a.dot = floats(rows * heads, 0, 0);
    up();
    struct k_half_attention t = a;
    t.qkv = D(a.qkv), t.out = D(a.out), t.lse = D(a.lse), t.dout = D(a.dout), t.dqkv = D(a.dqkv), t.dot = D(a.dot);
    check(gpu->half->attention_forward(NULL, &t), "attention_forward");
    check(gpu->half->attention_backward(NULL, &t), "attention_backward");
    k_half_reference.attention_forward(NULL, &a), k_half_reference.attention_backward(NULL, &a);
    same_halves("half attention out", a.out, rows * a.width, 2 * HALF), same("half attention lse", a.lse, rows * heads, 1e-3);
    same("half attention dot", a.dot, rows * heads, 0.05);
    same_halves("half attention dqkv", a.dqkv, rows * 3 * a.width, 2 * HALF);
    case_end();
}

static void half_attention(void)
{
    half_attention_of(1, 3, 1);
    half_attention_of(1, 64, 1);
    half_attention_of(2, 75, 2);
    half_attention_of(1, 140, 1);
}

static void half_cross_entropy(void)
{
    for (size_t classes = 21; classes < 9000; classes = classes * 20 + 1) {
        size_t             rows = 5, stride = (classes + 127) / 128 * 128;
        struct k_half_xent x = {.scores = halves(rows * stride, -4, 4),
                                .targets = numbers(rows, (uint32_t)classes),
                                .losses = floats(rows, 0, 0),
                                .right = floats(rows, 0, 0),
                                .scale = 0.25f,
                                .wants_gradient = true,
                                .rows = rows,
                                .classes = classes,
                                .stride = stride};
        x.scores[2 * stride + (size_t)x.targets[2]] = k_half_of(5.0f);
        up();
        struct k_half_xent t = x;
        t.scores = D(x.scores), t.targets = D(x.targets), t.losses = D(x.losses), t.right = D(x.right);
        check(gpu->half->xent(NULL, &t), "xent");
        k_half_reference.xent(NULL, &x);
        same("half xent losses", x.losses, rows, 1e-5), same("half xent right", x.right, rows, 0);
        same_halves("half xent gradient", x.scores, rows * stride, HALF);
        case_end();
    }
}

/* ---- equal bits ---- */

/* Everything that is summed by many threads, twice over: the second time has the bits of the first. */
static void again_the_same(void)
{
    enum { TIME = 150, HEADS = 2, WIDTH = 64 * HEADS, COUNT = TIME * WIDTH };
    struct k_half_attention a = {.batch = 1, .time = TIME, .heads = HEADS, .width = WIDTH};
    k_half                 *first[2];
    a.qkv = halves(3 * COUNT, -1, 1), a.out = halves(COUNT, 0, 0), a.lse = floats(TIME * HEADS, 0, 0);
    a.dout = halves(COUNT, -1, 1), a.dqkv = halves(3 * COUNT, 9, 9), a.dot = floats(TIME * HEADS, 0, 0);
    up();
    struct k_half_attention t = a;
    t.qkv = D(a.qkv), t.out = D(a.out), t.lse = D(a.lse), t.dout = D(a.dout), t.dqkv = D(a.dqkv), t.dot = D(a.dot);
    for (int i = 0; i < 2; i++) {
        check(gpu->half->attention_forward(NULL, &t), "attention_forward");
        check(gpu->half->attention_backward(NULL, &t), "attention_backward");
        first[i] = fetch(a.dqkv, 3 * COUNT * sizeof **first);
    }
    if (memcmp(first[0], first[1], 3 * COUNT * sizeof **first) != 0)
        failed("attention's gradient has other bits the second time", 0, 0, 1);
    free(first[0]), free(first[1]);
}

static void refusals(void)
{
    struct k_half_attention wide = {.batch = 1, .time = 8, .heads = 2, .width = 64};
    struct k_half_gemm      odd = {.m = 3, .n = 8, .k = 8, .c = halves(24, 0, 0)};
    if (gpu->half->attention_forward(NULL, &wide).code != MT_EINVAL)
        failed("a head that is not 64 wide", 0, MT_EINVAL, 0);
    odd.c = D(odd.c);
    if (gpu->is_device && strcmp(gpu->name, "emulated") != 0 && gpu->half->gemm(NULL, &odd).code != MT_EINVAL)
        failed("a product of odd size", 0, MT_EINVAL, 0);
    if (gpu->dropout(NULL, NULL, 8, 1, 1.5f).code != MT_EINVAL)
        failed("dropout of more than all", 0, MT_EINVAL, 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"elementwise", elementwise},
             {"column_sums", column_sums},
             {"optimizers", optimizers},
             {"sums", sums},
             {"layernorm", layernorm},
             {"embedding", embedding},
             {"pooling", pooling},
             {"pooling_nan", pooling_nan},
             {"convolution", convolution},
             {"cross_entropy", cross_entropy},
             {"attention", attention},
             {"products", products},
             {"half_products", half_products},
             {"half_elementwise", half_elementwise},
             {"half_norm", half_norm},
             {"half_embedding", half_embedding},
             {"half_attention", half_attention},
             {"half_cross_entropy", half_cross_entropy},
             {"again_the_same", again_the_same},
             {"refusals", refusals}};

int main(int argc, char **argv)
{
    const char *why;
    int         bad = 0;
    gpu = test_table(&why);
    if (!gpu) {
        printf("skipped: %s\n", why);
        return 77;
    }
    check(k_ops_choose(&(struct k_config){.kind = K_REFERENCE}, &cpu), "reference");
    printf("table: %s %s\n", gpu->name, why);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool is_wanted = argc < 2;
        for (int a = 1; a < argc; a++)
            is_wanted |= strcmp(argv[a], cases[i].name) == 0;
        if (!is_wanted)
            continue;
        failures = 0;
        cases[i].run();
        case_end();
        printf("%-20s %s\n", cases[i].name, failures ? "FAILED" : "ok");
        fflush(stdout);
        bad += failures > 0;
    }
    return bad ? 1 : 0;
}
