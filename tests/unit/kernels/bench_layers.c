/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_layers.c - time of layers in each table: pooling and convolutions at the sizes of the convolutional network (one picture),
 * others on as many floats as its pooling reads; in processor time, the least of ROUNDS. The floor is a copy of what pooling reads.
 */
#include "kernels/choose/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 15, SIDE = 24, CHANNELS = 64, FLOATS = 1 << 20 };

static float *x, *y, *dx, *work, *weight, *dweight;

static double processor_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

typedef void work_fn(const struct k_ops *ops);

static double best_us(work_fn *run, const struct k_ops *ops, int times)
{
    double best = 1e30;
    run(ops);
    for (int r = 0; r < ROUNDS; r++) {
        double begun = processor_us();
        for (int i = 0; i < times; i++)
            run(ops);
        double took = (processor_us() - begun) / times;
        best = took < best ? took : best;
    }
    return best;
}

static void copy(const struct k_ops *ops)
{
    (void)ops;
    memcpy(dx, x, SIDE * SIDE * CHANNELS * sizeof *x);
    __asm__ volatile("" : : "r"(dx) : "memory");
}

static struct k_pool pool_of(void)
{
    return (struct k_pool){1, SIDE, SIDE, CHANNELS, 2, x, y, y, dx};
}

static void pool_forward(const struct k_ops *ops)
{
    struct k_pool pool = pool_of();
    (void)ops->pool_forward(NULL, &pool);
}

static void pool_backward(const struct k_ops *ops)
{
    struct k_pool pool = pool_of();
    (void)ops->pool_backward(NULL, &pool);
}

static struct k_conv conv_of(size_t side, size_t in, size_t out, bool has_dx)
{
    return (struct k_conv){1,       side,    side,  in,  out, 3, 0, x, weight, weight, y, y, has_dx ? dx : NULL,
                           dweight, dweight, false, work};
}

static void conv1_forward(const struct k_ops *ops)
{
    struct k_conv conv = conv_of(28, 1, 32, false);
    (void)ops->conv_forward(NULL, &conv);
}

static void conv1_backward(const struct k_ops *ops)
{
    struct k_conv conv = conv_of(28, 1, 32, false);
    (void)ops->conv_backward(NULL, &conv);
}

static void conv2_forward(const struct k_ops *ops)
{
    struct k_conv conv = conv_of(26, 32, 64, true);
    (void)ops->conv_forward(NULL, &conv);
}

static void conv2_backward(const struct k_ops *ops)
{
    struct k_conv conv = conv_of(26, 32, 64, true);
    (void)ops->conv_backward(NULL, &conv);
}

static void gelu(const struct k_ops *ops)
{
    (void)ops->gelu_forward(NULL, x, dx, SIDE * SIDE * CHANNELS);
}

static void cross_entropy(const struct k_ops *ops)
{
    enum { CLASSES = 256 };
    static unsigned char labels[SIDE * SIDE * CHANNELS / CLASSES];
    struct k_xent xent = {.logits = x, .labels = labels, .probs = dx, .losses = work, .rows = sizeof labels, .classes = CLASSES};
    (void)ops->xent_forward(NULL, &xent);
}

static void adamw(const struct k_ops *ops)
{
    struct k_adamw update = {dx, dweight, work, x, SIDE * SIDE * CHANNELS, 1, 1e-3f, 0.9f, 0.999f, 1e-8f, 0.01f};
    (void)ops->adamw_update(NULL, &update);
}

static void momentum(const struct k_ops *ops)
{
    struct k_sgd update = {dx, dweight, x, SIDE * SIDE * CHANNELS, 1e-3f, 0.9f, 0};
    (void)ops->sgd_update(NULL, &update);
}

int main(void)
{
    static const struct {
        const char *name;
        work_fn    *run;
        int         times;
    } cases[] = {{"pool", pool_forward, 200},
                 {"pool's gradient", pool_backward, 200},
                 {"conv 1 -> 32", conv1_forward, 100},
                 {"its gradient", conv1_backward, 100},
                 {"conv 32 -> 64", conv2_forward, 20},
                 {"its gradient", conv2_backward, 20},
                 {"GELU", gelu, 100},
                 {"cross-entropy", cross_entropy, 100},
                 {"AdamW", adamw, 100},
                 {"momentum", momentum, 100}};
    const struct k_ops *tables[K_TABLES_MAX], *chosen;
    size_t              count = k_ops_all(tables);
    float             **buffers[] = {&x, &y, &dx, &work, &weight, &dweight};

    float *all = aligned_alloc(64, sizeof buffers / sizeof *buffers * (FLOATS + 352) * sizeof(float));

    if (k_ops_choose(&(struct k_config){.kind = K_CPU}, &chosen).code != MT_OK || !all)
        return 1;
    for (size_t b = 0; b < sizeof buffers / sizeof *buffers; b++) {
        *buffers[b] = all + b * (FLOATS + 352); /* not the same place of a page: that costs by turns */
        for (size_t i = 0; i < FLOATS; i++)
            (*buffers[b])[i] = (float)(i * 2654435761u % 1000) * 1e-3f - 0.5f;
    }
    printf("microseconds for a picture; a copy of %d x %d x %d floats: %.2f\n%-18s", SIDE, SIDE, CHANNELS, best_us(copy, NULL, 200),
           "");
    for (size_t t = 1; t < count; t++) /* the first is the reference, which nobody waits for */
        printf(" %14s", tables[t]->name);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        printf("\n%-18s", cases[c].name);
        for (size_t t = 1; t < count; t++)
            printf(" %14.2f", best_us(cases[c].run, tables[t], cases[c].times));
    }
    printf("\n");
    free(all);
    return 0;
}
