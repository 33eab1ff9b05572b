/* SPDX-License-Identifier: Apache-2.0
 *
 * models_test.c - MLP, CNN and GPT-2 (float32 and bfloat16) by the table under test against the same model by the CPU's:
 * metrics and gradient of one batch, through sgd/model/device.h as the trainer has it.
 *
 *   models_test      exit status 0, 1 (something differs), 77 (there is no device)
 *
 * Owns nothing beyond a case. Thread: one.
 */
#include "core/base/rng.h"
#include "sgd/model/cnn.h"
#include "sgd/model/device.h"
#include "sgd/model/gpt2.h"
#include "sgd/model/mlp.h"
#include "tests/gpu/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void must(mt_status st, const char *what)
{
    if (st.code == 0)
        return;
    printf("%s: %s (%d, %d)\n", what, st.what ? st.what : "?", st.code, st.sys);
    exit(1);
}

/* The gradients' difference relative to their length: one direction is what training needs. */
static void compare(const char *name, struct sgd_model *want, struct sgd_model *got, const struct sgd_batch *batch, double bound)
{
    size_t floats = want->params.floats;
    float *params = malloc(floats * sizeof *params), *a = malloc(floats * sizeof *a), *b = malloc(floats * sizeof *b);
    float  ma[SGD_METRICS], mb[SGD_METRICS], me[SGD_METRICS];
    double off = 0, length = 0;

    want->ops->init(want, 5, params);
    must(want->ops->gradient(want, params, batch, 0.5f, a, ma), name);
    must(got->ops->gradient(got, params, batch, 0.5f, b, mb), name);
    must(got->ops->evaluate(got, params, batch, me), name);
    for (size_t i = 0; i < floats; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        length += (double)a[i] * (double)a[i];
    }
    double is = sqrt(off / length), loss = fabs((double)ma[0] - (double)mb[0]) / (double)ma[0];
    bool   is_bad = !(is <= bound) || !(loss <= bound) || ma[SGD_METRIC_SAMPLES] != mb[SGD_METRIC_SAMPLES] || length == 0;
    if (batch->key == 0) /* else dropout made another loss of it */
        is_bad |= !(fabs((double)me[0] - (double)mb[0]) <= 1e-5 * (double)mb[0]);
    printf("%-14s loss %.6f, off by %.2g; gradient off by %.2g of its length: %s\n", name, (double)ma[0], loss, is,
           is_bad ? "FAILED" : "ok");
    failures += is_bad;
    free(params), free(a), free(b);
    want->ops->free(want);
    got->ops->free(got);
}

static void pictures(const struct k_ops *gpu, const struct k_ops *cpu)
{
    enum { COUNT = 5 };
    static uint8_t records[COUNT * 784], labels[COUNT] = {1, 0, 2, 9, 3};
    mt_rng         rng = {3};
    for (size_t i = 0; i < sizeof records; i++)
        records[i] = (uint8_t)mt_rng_below(&rng, 256);
    struct sgd_batch      batch = {.records = records, .labels = labels, .count = COUNT, .record_size = 784};
    struct sgd_model     *want, *got;
    struct sgd_mlp_config mlp = {.ops = cpu, .inputs = 784, .outputs = 10, .hidden = {33}, .batch_max = COUNT + 1};
    must(sgd_mlp_new(&mlp, &want), "mlp");
    mlp.ops = gpu;
    must(sgd_mlp_new(&mlp, &got), "mlp");
    must(sgd_device_new(got, &got), "mlp on the device");
    compare("mlp", want, got, &batch, 1e-4);

    static int16_t   large[COUNT * 784]; /* elements that are cast on the host */
    struct sgd_batch wide = batch;
    for (size_t i = 0; i < sizeof records; i++)
        large[i] = (int16_t)(records[i] * 50 - 5000);
    wide.records = (const uint8_t *)large;
    wide.record_size = sizeof large / COUNT;
    mlp.cast = (struct sgd_cast){{'i', 2}, 1400, 3700};
    mlp.ops = cpu;
    must(sgd_mlp_new(&mlp, &want), "mlp of int16");
    mlp.ops = gpu;
    must(sgd_mlp_new(&mlp, &got), "mlp of int16");
    must(sgd_device_new(got, &got), "mlp of int16 on the device");
    compare("mlp of int16", want, got, &wide, 1e-4);

    struct sgd_cnn_config cnn = {
        .ops = cpu, .height = 14, .width = 14, .channels = {4, 6}, .dense = 16, .dropout = {0.3f, 0.3f}, .batch_max = COUNT};
    batch.record_size = 196;
    batch.key = 99;
    must(sgd_cnn_new(&cnn, &want), "cnn");
    cnn.ops = gpu;
    must(sgd_cnn_new(&cnn, &got), "cnn");
    must(sgd_device_new(got, &got), "cnn on the device");
    compare("cnn", want, got, &batch, 1e-4);
}

static void language(const struct k_ops *gpu, const struct k_ops *cpu)
{
    enum { CONTEXT = 24, COUNT = 2 };
    uint8_t text[COUNT * (CONTEXT + 1)];
    mt_rng  rng = {4};
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)(97 + mt_rng_below(&rng, 26));
    struct sgd_batch       batch = {.records = text, .count = COUNT, .record_size = CONTEXT + 1};
    struct sgd_gpt2_config config = {.ops = cpu, .shape = {2, 128, 2, CONTEXT, 200}, .token_bytes = 1, .batch_max = COUNT};
    struct sgd_model      *want, *got;
    must(sgd_gpt2_new(&config, &want), "gpt2");
    config.ops = gpu;
    must(sgd_gpt2_new(&config, &got), "gpt2");
    must(sgd_device_new(got, &got), "gpt2 on the device");
    compare("gpt2", want, got, &batch, 1e-4);
    config.ops = cpu;
    must(sgd_gpt2_new(&config, &want), "gpt2");
    config.ops = gpu;
    must(sgd_gpt2_half_new(&config, &got), "gpt2 on bfloat16");
    must(sgd_device_new(got, &got), "gpt2 on the device");
    compare("gpt2 bfloat16", want, got, &batch, 2e-2);
}

int main(void)
{
    const char         *why;
    const struct k_ops *gpu = test_table(&why), *cpu;
    if (!gpu) {
        printf("skipped: %s\n", why);
        return 77;
    }
    must(k_ops_choose(&(struct k_config){.kind = K_CPU}, &cpu), "CPU");
    pictures(gpu, cpu);
    language(gpu, cpu);
    return failures ? 1 : 0;
}
