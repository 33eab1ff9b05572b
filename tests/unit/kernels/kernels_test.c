/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels_test.c - every table against the definition, over odd sizes; sums and updates bit by bit.
 */
#include "core/base/rng.h"
#include "kernels/half.h"
#include "kernels/choose/choose.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct k_ops *choose(enum k_kind kind)
{
    const struct k_ops *ops = NULL;
    struct k_config     config = {.kind = kind};
    assert_int_equal(k_ops_choose(&config, &ops).code, MT_OK);
    assert_non_null(ops);
    return ops;
}

static float *random_floats(mt_rng *rng, size_t count)
{
    float *out = malloc((count ? count : 1) * sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < count; i++)
        out[i] = (float)((double)mt_rng_below(rng, 2000001) / 1e6 - 1.0);
    return out;
}

static void gemm_case(mt_rng *rng, int m, int n, int k, bool a_transposed, bool b_transposed, float beta)
{
    const struct k_ops *tables[K_TABLES_MAX];
    size_t              tables_count = k_ops_all(tables);
    float              *a = random_floats(rng, (size_t)(m * k)), *b = random_floats(rng, (size_t)(k * n));
    float              *old = random_floats(rng, (size_t)(m * n)), *want = random_floats(rng, (size_t)(m * n));
    float              *got = random_floats(rng, (size_t)(m * n));
    memcpy(want, old, (size_t)(m * n) * sizeof *want);
    struct k_gemm gemm = {.m = m,
                          .n = n,
                          .k = k,
                          .a_transposed = a_transposed,
                          .b_transposed = b_transposed,
                          .beta = beta,
                          .a = a,
                          .b = b,
                          .c = want};

    assert_int_equal(tables[0]->gemm(NULL, &gemm).code, MT_OK);
    gemm.c = got;
    /* Both round k products of at most 1 each; the bound is loose and fails at once for a wrong index. */
    float bound = 1e-6f * (float)k + 1e-6f;
    for (size_t t = 1; t < tables_count; t++) {
        memcpy(got, old, (size_t)(m * n) * sizeof *got);
        assert_int_equal(tables[t]->gemm(NULL, &gemm).code, MT_OK);
        for (int i = 0; i < m * n; i++)
            if (!(fabsf(want[i] - got[i]) <= bound))
                fail_msg("%s gemm %dx%dx%d: element %d: want %g, got %g", tables[t]->name, m, n, k, i, (double)want[i],
                         (double)got[i]);
    }
    free(a), free(b), free(old), free(want), free(got);
}

static void gemm_agrees_with_the_reference(void **state)
{
    static const int sizes[][3] = {{1, 1, 1},      {2, 3, 5},    {16, 10, 128},  {12, 128, 784}, {7, 13, 129},
                                   {128, 784, 12}, {33, 65, 17}, {1, 10, 128},   {65, 257, 259}, {97, 300, 40},
                                   {48, 40, 513},  {31, 16, 32}, {513, 40, 130}, {33, 530, 130}};
    mt_rng           rng = {1};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int flags = 0; flags < 8; flags++)
            gemm_case(&rng, sizes[s][0], sizes[s][1], sizes[s][2], flags & 1, flags & 2, flags & 4 ? 1.0f : 0.0f);
}

/* Each table's product is as near to the exact one as float32 allows: no table trades digits for speed. */
static void gemm_is_exact_to_float32(void **state)
{
    enum { M = 40, N = 48, K = 500 };
    const struct k_ops *tables[K_TABLES_MAX];
    mt_rng              rng = {6};
    float              *a = random_floats(&rng, M * K), *b = random_floats(&rng, K * N), *c = random_floats(&rng, M * N);
    (void)state;
    for (size_t t = k_ops_all(tables); t-- > 0;) {
        struct k_gemm gemm = {.m = M, .n = N, .k = K, .a = a, .b = b, .c = c};
        double        squares = 0;
        assert_int_equal(tables[t]->gemm(NULL, &gemm).code, MT_OK);
        for (size_t i = 0; i < M * N; i++) {
            double exact = 0;
            for (size_t p = 0; p < K; p++)
                exact += (double)a[i / N * K + p] * (double)b[p * N + i % N];
            squares += (exact - (double)c[i]) * (exact - (double)c[i]);
        }
        double error = sqrt(squares / (M * N)), size = sqrt(K / 9.0); /* of one element, typically */
        if (!(error < 1e-6 * size))
            fail_msg("%s: error %.3g of elements of %.3g", tables[t]->name, error, size);
    }
    free(a), free(b), free(c);
}

/* beta 0 means that c need not be set: what stands there, even NaN, must not show. */
static float rounded(float x)
{
    return k_half_float(k_half_of(x));
}

/* Factors are rounded to bfloat16, products of them summed in float32: on tiles, and without. */
static void half_gemm_case(mt_rng *rng, const int size[3], int flags, bool no_tiles)
{
    enum { MAX = 96 * 300 };
    static float        a[MAX], b[MAX], c[MAX], old[MAX];
    const struct k_ops *ops = NULL;
    int                 m = size[0], n = size[1], k = size[2];
    bool                at = flags & 1, bt = flags & 2;
    float               beta = flags & 4 ? 1.0f : 0.0f;
    struct k_gemm       g = {.m = m, .n = n, .k = k, .a_transposed = at, .b_transposed = bt, .beta = beta, .a = a, .b = b, .c = c};
    assert_int_equal(k_ops_choose(&(struct k_config){.kind = K_CPU, .bf16 = true, .no_tiles = no_tiles}, &ops).code, MT_OK);
    for (int i = 0; i < MAX; i++)
        a[i] = (float)mt_rng_below(rng, 2000) / 1000.0f - 1, b[i] = (float)mt_rng_below(rng, 2000) / 1000.0f - 1,
        c[i] = old[i] = 0.5f;
    assert_int_equal(ops->gemm(NULL, &g).code, MT_OK);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double want = flags & 4 ? (double)old[i * n + j] : 0;
            for (int l = 0; l < k; l++)
                want += (double)rounded(a[at ? l * m + i : i * k + l]) * (double)rounded(b[bt ? j * k + l : l * n + j]);
            if (!(fabs((double)c[i * n + j] - want) < 1e-5 * (1 + sqrt(k))))
                fail_msg("%s %dx%dx%d %d: element %d, %d: want %g, got %g", ops->name, m, n, k, flags, i, j, want,
                         (double)c[i * n + j]);
        }
}

static void half_gemm_rounds_factors_only(void **state)
{
    static const int sizes[][3] = {{1, 1, 1}, {16, 16, 32}, {33, 17, 45}, {96, 40, 300}, {70, 130, 64}};
    mt_rng           rng = {3};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int flags = 0; flags < 8; flags++) {
            half_gemm_case(&rng, sizes[s], flags, false);
            half_gemm_case(&rng, sizes[s], flags, true);
        }
}

/* What is not finite shows. */
static void half_gemm_keeps_what_is_not_finite(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct k_ops *ops = NULL;
        float               a = i < 2 ? NAN : INFINITY, b = 1, c = 0;
        struct k_gemm       g = {.m = 1, .n = 1, .k = 1, .a = &a, .b = &b, .c = &c};
        assert_int_equal(k_ops_choose(&(struct k_config){.kind = K_CPU, .bf16 = true, .no_tiles = i & 1}, &ops).code, MT_OK);
        assert_int_equal(ops->gemm(NULL, &g).code, MT_OK);
        assert_false(isfinite(c));
    }
    const struct k_ops *none = NULL;
    assert_int_equal(k_ops_choose(&(struct k_config){.kind = K_REFERENCE, .bf16 = true}, &none).code, MT_EINVAL);
}

static void gemm_ignores_old_contents(void **state)
{
    float a = 2.0f, b = 3.0f;
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        float         c = NAN;
        struct k_gemm gemm = {.m = 1, .n = 1, .k = 1, .a = &a, .b = &b, .c = &c};
        assert_int_equal(choose(kind ? K_REFERENCE : K_CPU)->gemm(NULL, &gemm).code, MT_OK);
        assert_true(c == 6.0f);
    }
}

/* Repeats a product from buffers at other alignments: the promise of kernels.h is equal bits. */
static void gemm_bits_do_not_depend_on_alignment(void **state)
{
    enum { M = 12, N = 128, K = 784 };
    const struct k_ops *cpu = choose(K_CPU);
    mt_rng              rng = {2};
    float              *a = random_floats(&rng, M * K + 16), *b = random_floats(&rng, K * N + 16);
    float              *first = random_floats(&rng, M * N), *c = random_floats(&rng, M * N);
    struct k_gemm       gemm = {.m = M, .n = N, .k = K, .a = a, .b = b, .c = first};
    (void)state;
    assert_int_equal(cpu->gemm(NULL, &gemm).code, MT_OK);
    for (size_t shift = 1; shift < 16; shift += 3) {
        memmove(a + shift, a + (shift == 1 ? 0 : shift - 3), M * K * sizeof *a);
        memmove(b + shift, b + (shift == 1 ? 0 : shift - 3), K * N * sizeof *b);
        gemm.a = a + shift, gemm.b = b + shift, gemm.c = c;
        assert_int_equal(cpu->gemm(NULL, &gemm).code, MT_OK);
        assert_memory_equal(first, c, M * N * sizeof *c);
    }
    free(a), free(b), free(first), free(c);
}

/* The tree by its definition: split at the largest power of two below the number of inputs. */
static float tree_by_definition(const float *const *in, size_t inputs, size_t i)
{
    size_t half = 1;
    if (inputs == 1)
        return in[0][i];
    while (half * 2 < inputs)
        half *= 2;
    return tree_by_definition(in, half, i) + tree_by_definition(in + half, inputs - half, i);
}

static void tree_sum_is_the_fixed_tree(void **state)
{
    enum { COUNT = 1000, INPUTS = 37 };
    const struct k_ops *ops[] = {choose(K_CPU), choose(K_REFERENCE)};
    const float        *in[INPUTS];
    float              *data[INPUTS], out[COUNT], part[COUNT];
    mt_rng              rng = {3};
    (void)state;
    for (size_t i = 0; i < INPUTS; i++)
        in[i] = data[i] = random_floats(&rng, COUNT);
    for (size_t inputs = 1; inputs <= INPUTS; inputs++) {
        for (size_t o = 0; o < 2; o++) {
            assert_int_equal(ops[o]->tree_sum(NULL, in, inputs, COUNT, out).code, MT_OK);
            for (size_t i = 0; i < COUNT; i++)
                assert_true(out[i] == tree_by_definition(in, inputs, i));
        }
        /* A worker that sums only its slice gets the same bits as one that sums everything. */
        const float *slice[INPUTS];
        for (size_t i = 0; i < inputs; i++)
            slice[i] = in[i] + 333;
        assert_int_equal(ops[0]->tree_sum(NULL, slice, inputs, 401, part).code, MT_OK);
        assert_memory_equal(part, out + 333, 401 * sizeof *part);
    }
    assert_int_equal(ops[0]->tree_sum(NULL, in, 0, COUNT, out).code, MT_EINVAL);
    assert_int_equal(ops[0]->tree_sum(NULL, in, MT_VRANKS_MAX + 1, COUNT, out).code, MT_EINVAL);
    for (size_t i = 0; i < INPUTS; i++)
        free(data[i]);
}

static void tree_sum_takes_the_most_inputs(void **state)
{
    float        one = 1.0f, out = 0.0f;
    const float *in[MT_VRANKS_MAX];
    (void)state;
    for (size_t i = 0; i < MT_VRANKS_MAX; i++)
        in[i] = &one;
    assert_int_equal(choose(K_CPU)->tree_sum(NULL, in, MT_VRANKS_MAX, 1, &out).code, MT_OK);
    assert_true(out == (float)MT_VRANKS_MAX);
}

/* Both builds of the elementwise entries give the bits of the plain definition. */
static void elementwise_entries_give_the_defined_bits(void **state)
{
    enum { ROWS = 7, COLS = 53, COUNT = ROWS * COLS };
    const struct k_ops *tables[] = {choose(K_CPU), choose(K_REFERENCE)};
    mt_rng              rng = {4};
    float              *x = random_floats(&rng, COUNT), *y = random_floats(&rng, COUNT), *bias = random_floats(&rng, COLS);
    float               a[COUNT], v[COUNT], sums[COLS];
    uint8_t             bytes[COUNT];
    (void)state;
    for (size_t i = 0; i < COUNT; i++)
        bytes[i] = (uint8_t)mt_rng_next(&rng);
    for (size_t t = 0; t < 2; t++) {
        const struct k_ops *ops = tables[t];
        ops->unpack(NULL, bytes, a, COUNT, 1.0f / 255, -0.25f);
        for (size_t i = 0; i < COUNT; i++)
            assert_true(a[i] == (float)bytes[i] * (1.0f / 255) + -0.25f);
        memcpy(a, x, sizeof a);
        ops->bias_add(NULL, a, bias, ROWS, COLS);
        for (size_t i = 0; i < COUNT; i++)
            assert_true(a[i] == x[i] + bias[i % COLS]);
        ops->bias_grad(NULL, x, sums, ROWS, COLS);
        for (size_t c = 0; c < COLS; c++) {
            float sum = 0.0f;
            for (size_t r = 0; r < ROWS; r++)
                sum += x[r * COLS + c];
            assert_true(sums[c] == sum);
        }
        memcpy(a, x, sizeof a);
        ops->relu_forward(NULL, a, COUNT);
        memcpy(v, y, sizeof v);
        ops->relu_backward(NULL, a, v, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(a[i] == (x[i] > 0 ? x[i] : 0.0f));
            assert_true(v[i] == (x[i] > 0 ? y[i] : 0.0f));
        }
        a[COUNT - 1] = NAN;
        ops->relu_forward(NULL, a, COUNT);
        assert_true(isnan(a[COUNT - 1]));
        memcpy(a, x, sizeof a);
        ops->axpy(NULL, 0.3f, y, a, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            assert_true(a[i] == x[i] + 0.3f * y[i]);
        memcpy(a, x, sizeof a);
        ops->scale(NULL, 0.3f, a, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            assert_true(a[i] == 0.3f * x[i]);
        memcpy(a, x, sizeof a);
        memcpy(v, y, sizeof v);
        struct k_sgd sgd = {a, v, y, COUNT, 0.1f, 0.9f, 0.001f};
        ops->sgd_update(NULL, &sgd);
        for (size_t i = 0; i < COUNT; i++) {
            float velocity = 0.9f * y[i] + (y[i] + 0.001f * x[i]);
            assert_true(v[i] == velocity);
            assert_true(a[i] == x[i] - 0.1f * velocity);
        }
    }
    free(x), free(y), free(bias);
}

static double loss_of(const double *logits, size_t classes, size_t label)
{
    double sum = 0;
    for (size_t c = 0; c < classes; c++)
        sum += exp(logits[c]);
    return log(sum) - logits[label];
}

static void cross_entropy_and_its_gradient(void **state)
{
    enum { ROWS = 5, CLASSES = 10 };
    const struct k_ops *ops = choose(K_CPU);
    mt_rng              rng = {5};
    float              *logits = random_floats(&rng, ROWS * CLASSES);
    float               probs[ROWS * CLASSES], losses[ROWS], grads[ROWS * CLASSES];
    uint8_t             labels[ROWS] = {0, 9, 4, 4, 1};
    struct k_xent       xent = {.logits = logits,
                                .labels = labels,
                                .probs = probs,
                                .losses = losses,
                                .grads = grads,
                                .scale = 0.5f,
                                .rows = ROWS,
                                .classes = CLASSES};
    (void)state;
    assert_int_equal(ops->xent_forward(NULL, &xent).code, MT_OK);
    assert_int_equal(ops->xent_backward(NULL, &xent).code, MT_OK);
    for (size_t r = 0; r < ROWS; r++) {
        double row[CLASSES];
        for (size_t c = 0; c < CLASSES; c++)
            row[c] = (double)logits[r * CLASSES + c];
        assert_true(fabs(loss_of(row, CLASSES, labels[r]) - (double)losses[r]) < 1e-5);
        for (size_t c = 0; c < CLASSES; c++) {
            double keep = row[c], up, down;
            row[c] = keep + 1e-5, up = loss_of(row, CLASSES, labels[r]);
            row[c] = keep - 1e-5, down = loss_of(row, CLASSES, labels[r]);
            row[c] = keep;
            assert_true(fabs((up - down) / 2e-5 * 0.5 - (double)grads[r * CLASSES + c]) < 1e-5);
        }
    }
    free(logits);
}

static void cross_entropy_survives_large_scores(void **state)
{
    float         logits[2] = {1e30f, -1e30f}, probs[2], loss = NAN;
    uint8_t       label = 0;
    struct k_xent xent = {.logits = logits, .labels = &label, .probs = probs, .losses = &loss, .rows = 1, .classes = 2};
    (void)state;
    assert_int_equal(choose(K_CPU)->xent_forward(NULL, &xent).code, MT_OK);
    assert_true(loss == 0.0f && probs[0] == 1.0f && probs[1] == 0.0f);
}

static void unknown_kind_is_refused(void **state)
{
    const struct k_ops *ops = NULL;
    struct k_config     config = {.kind = (enum k_kind)7}, threads = {.blas_threads = -1};
    (void)state;
    assert_int_equal(k_ops_choose(&config, &ops).code, MT_EINVAL);
    assert_int_equal(k_ops_choose(&threads, &ops).code, MT_EINVAL);
    assert_null(ops);
    assert_non_null(k_blas_core());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_agrees_with_the_reference),
        cmocka_unit_test(gemm_is_exact_to_float32),
        cmocka_unit_test(half_gemm_rounds_factors_only),
        cmocka_unit_test(half_gemm_keeps_what_is_not_finite),
        cmocka_unit_test(gemm_ignores_old_contents),
        cmocka_unit_test(gemm_bits_do_not_depend_on_alignment),
        cmocka_unit_test(tree_sum_is_the_fixed_tree),
        cmocka_unit_test(tree_sum_takes_the_most_inputs),
        cmocka_unit_test(elementwise_entries_give_the_defined_bits),
        cmocka_unit_test(cross_entropy_and_its_gradient),
        cmocka_unit_test(cross_entropy_survives_large_scores),
        cmocka_unit_test(unknown_kind_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
