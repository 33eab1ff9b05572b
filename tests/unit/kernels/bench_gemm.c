/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_gemm.c - GFLOP/s of the chosen table beside cblas, at the sizes of the models, in processor
 * time.
 */
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double gflops(const struct k_ops *ops, const struct k_gemm *gemm, double work)
{
    double operations = 2.0 * gemm->m * gemm->n * gemm->k;
    long   rounds = (long)(work / operations) + 1;
    for (int i = 0; i < 3; i++)
        (void)ops->gemm(NULL, gemm);
    double start = processor_seconds();
    for (long i = 0; i < rounds; i++)
        (void)ops->gemm(NULL, gemm);
    return operations * (double)rounds / (processor_seconds() - start) * 1e-9;
}

int main(void)
{
    static const struct k_gemm shapes[] = {
        {.m = 256, .n = 128, .k = 784, .b_transposed = true},
        {.m = 128, .n = 784, .k = 256, .a_transposed = true},
        {.m = 12, .n = 128, .k = 784, .b_transposed = true},
        {.m = 128, .n = 784, .k = 12, .a_transposed = true},
        {.m = 12, .n = 10, .k = 128, .b_transposed = true},
        {.m = 12, .n = 128, .k = 10},
        {.m = 64, .n = 256, .k = 784, .b_transposed = true},
        {.m = 256, .n = 784, .k = 64, .a_transposed = true},
        {.m = 576, .n = 64, .k = 288, .b_transposed = true},
        {.m = 64, .n = 288, .k = 576, .a_transposed = true},
        {.m = 576, .n = 288, .k = 64},
        {.m = 64, .n = 128, .k = 9216, .b_transposed = true},
        {.m = 128, .n = 9216, .k = 64, .a_transposed = true},
        {.m = 1024, .n = 1024, .k = 256, .b_transposed = true},
        {.m = 1024, .n = 256, .k = 1024},
        {.m = 1024, .n = 256, .k = 1024, .a_transposed = true},
        {.m = 64, .n = 256, .k = 64, .b_transposed = true, .lda = 192, .ldb = 192, .ldc = 256},
        {.m = 1024, .n = 1024, .k = 1024},
    };
    const struct k_ops *cpu, *cblas;
    struct k_config     config = {.kind = K_CPU};
    if (k_ops_choose(&config, &cpu).code != 0)
        return 1;
    config.no_tiles = true;
    if (k_ops_choose(&config, &cblas).code != 0)
        return 1;
    size_t count = 2 << 20;
    float *a = calloc(count, sizeof *a), *b = calloc(count, sizeof *b), *c = calloc(count, sizeof *c);
    if (!a || !b || !c)
        return 1;
    for (size_t i = 0; i < count; i++)
        a[i] = b[i] = (float)(i % 17) * 0.1f - 0.8f;
    printf("%s, core %s\n%-18s %14s %14s  GFLOP/s\n", cpu->name, k_blas_core(), "m x n x k", cpu->name, cblas->name);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct k_gemm gemm = shapes[s];
        gemm.a = a, gemm.b = b, gemm.c = c;
        printf("%4d x %4d x %4d %14.1f %14.1f\n", gemm.m, gemm.n, gemm.k, gflops(cpu, &gemm, 4e9), gflops(cblas, &gemm, 4e9));
    }
    free(a), free(b), free(c);
    return 0;
}
