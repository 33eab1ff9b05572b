/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.h - what the GPU benchmarks share: buffers, time, and lines "row id value unit ..." that gpu_check.sh collects.
 */
#ifndef TESTS_GPU_BENCH_H
#define TESTS_GPU_BENCH_H

#include "kernels/half.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void bench_must(mt_status st, const char *what)
{
    if (st.code == 0)
        return;
    printf("FAILED %s: %s (%d, %d)\n", what, st.what ? st.what : "?", st.code, st.sys);
    exit(1);
}

/* Exits with 77 where there is no device. */
static inline const struct k_ops *bench_device(bool tf32)
{
    const struct k_ops *ops = NULL;
    mt_status           st = k_ops_choose(&(struct k_config){.kind = K_CUDA, .tf32 = tf32}, &ops);
    printf("# %s\n", k_cuda_text());
    if (st.code != 0)
        exit(77);
    return ops;
}

static inline void *bench_buffer(const struct k_ops *ops, size_t size)
{
    void *out = NULL;
    bench_must(ops->alloc(size, &out), "alloc");
    return out;
}

/* Bfloat16 in [-1, 1): zeros would make products faster than they are. */
static inline k_half *bench_halves(const struct k_ops *ops, size_t count)
{
    k_half  *out = bench_buffer(ops, count * sizeof *out), *host = malloc(count * sizeof *host);
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < count; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        host[i] = k_half_of((float)((double)(x >> 40) / 8388608.0 - 1.0));
    }
    bench_must(ops->copy(NULL, out, host, count * sizeof *host), "copy");
    bench_must(ops->wait(NULL), "wait");
    free(host);
    return out;
}

/* Seconds of one `call`, the smallest of five means over `times`, after a warm-up. */
#define BENCH_SECONDS(out, ops, times, call) \
    do { \
        (out) = 1e9; \
        for (int round_ = 0; round_ < 6; round_++) { \
            double begun_ = bench_now(); \
            for (int i_ = 0; i_ < (times); i_++) \
                bench_must((call), #call); \
            bench_must((ops)->wait(NULL), "wait"); \
            double took_ = (bench_now() - begun_) / (times); \
            (out) = round_ > 0 && took_ < (out) ? took_ : (out); \
        } \
    } while (0)

#endif
