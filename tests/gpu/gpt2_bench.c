/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt2_bench.c - row h200_gpt2: GPT-2 124M trained on the device, bfloat16 with float32 parameters, tokens per second.
 *
 *   gpt2_bench [BATCH [STEPS [LAYERS]]]      64 windows of 1024 tokens, 20 steps, 12 layers
 *
 * Parameters, moments and gradients stay on the device; a step is one gradient and one AdamW, over the same random tokens,
 * which it must learn by heart: a loss that does not fall is a failure. Exit status 77 without a device. Thread: one.
 */
#include "sgd/model/gpt2.h"
#include "tests/gpu/bench.h"

#include <math.h>

enum { TIME = 1024, WARM = 3 };

struct run {
    const struct k_ops *ops;
    struct sgd_model   *model;
    struct sgd_batch    batch;
    struct k_adamw      adamw;
    float              *grads;
};

static void run_begin(struct run *r, uint32_t batch, uint32_t layers)
{
    struct sgd_gpt2_config config = {.ops = r->ops, .shape = {layers, 768, 12, TIME, 50257}, .token_bytes = 2, .batch_max = batch};
    bench_must(sgd_gpt2_half_new(&config, &r->model), "model");
    size_t   size = r->model->params.floats * sizeof(float), record = r->model->record_size;
    float   *host = malloc(size);
    uint8_t *records = malloc(batch * record);
    r->model->ops->init(r->model, 42, host);
    r->adamw = (struct k_adamw){.params = bench_buffer(r->ops, size),
                                .mean = bench_buffer(r->ops, size),
                                .square = bench_buffer(r->ops, size),
                                .count = r->model->params.floats,
                                .rate = 6e-4f,
                                .beta1 = 0.9f,
                                .beta2 = 0.95f,
                                .epsilon = 1e-8f,
                                .decay = 0.1f};
    r->grads = bench_buffer(r->ops, size);
    r->adamw.grads = r->grads;
    bench_must(r->ops->copy(NULL, r->adamw.params, host, size), "copy");
    bench_must(r->ops->wait(NULL), "wait");
    for (size_t i = 0; i < batch * record / 2; i++) { /* skewed, as words are */
        uint32_t token = (uint32_t)(50257.0 * pow((double)(i * 2654435761u % 1000003u) / 1000003.0, 3.0));
        records[2 * i] = (uint8_t)token;
        records[2 * i + 1] = (uint8_t)(token >> 8);
    }
    r->batch = (struct sgd_batch){.records = records, .count = batch, .record_size = (uint32_t)record};
    free(host);
}

static double step(struct run *r)
{
    float metrics[SGD_METRICS];
    bench_must(r->model->ops->gradient(r->model, r->adamw.params, &r->batch, 1.0f / (float)r->batch.count, r->grads, metrics),
               "gradient");
    r->adamw.step++;
    bench_must(r->ops->adamw_update(NULL, &r->adamw), "update");
    return (double)metrics[SGD_METRIC_LOSS] / (double)metrics[SGD_METRIC_SAMPLES];
}

/* The i-th argument as a number of at least 1. */
static uint32_t number(int argc, char **argv, int i, uint32_t otherwise)
{
    long value = argc > i ? strtol(argv[i], NULL, 10) : (long)otherwise;
    return value < 1 ? 1 : (uint32_t)value;
}

int main(int argc, char **argv)
{
    struct run r = {.ops = bench_device(false)};
    uint32_t   batch = number(argc, argv, 1, 64), layers = number(argc, argv, 3, 12);
    int        steps = (int)number(argc, argv, 2, 20);
    run_begin(&r, batch, layers);
    double first = step(&r), last = first;
    for (int i = 1; i < WARM; i++)
        last = step(&r);
    double begun = bench_now();
    for (int i = 0; i < steps; i++)
        last = step(&r);
    bench_must(r.ops->wait(NULL), "wait");
    double seconds = (bench_now() - begun) / steps, tokens = (double)batch * TIME / seconds;
    double flops = 6.0 * 124475904.0 + 6.0 * layers * 768 * TIME; /* a token's, of 12 layers */
    printf("row h200_gpt2 %.0f tokens/s  %.1f ms a step of %u x %d, %.1f %% of 989 TFLOP/s; gate 450000, target 615000\n", tokens,
           seconds * 1e3, batch, TIME, tokens * flops / 989e12 * 100);
    printf("row h200_gpt2_loss %.4f nats  after %d steps, from %.4f\n", last, WARM + steps, first);
    if (!(last < first - 0.2 && fabs(first - log(50257.0)) < 1.0)) {
        printf("FAILED the loss began at %.4f and is %.4f\n", first, last);
        return 1;
    }
    return 0;
}
