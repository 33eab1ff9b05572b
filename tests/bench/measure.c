/* SPDX-License-Identifier: Apache-2.0
 *
 * measure.c - windows, samples, means and deviations.
 *
 * Thread: the main one.
 */
#include "tests/bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

uint64_t bench_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void bench_sleep_us(int64_t us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static void mean_and_deviation(const double *x, size_t count, double *mean, double *sd)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        sum += x[i];
    *mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *sd = sqrt(squares / (double)count);
}

/* One window: steps until `seconds` have passed. Returns the amount per second, < 0: failed. */
static double window_run(struct bench_step *step, double seconds, double *amount)
{
    uint64_t start = bench_now_ns(), length = (uint64_t)(seconds * 1e9), now;
    double   done = 0;
    do {
        double some = step->run(step);
        if (some < 0)
            return -1;
        done += some;
        now = bench_now_ns();
    } while (now - start < length);
    *amount += done;
    return done * 1e9 / (double)(now - start);
}

bool bench_rate(struct bench_step *step, struct bench_row *row, double scale)
{
    double rates[BENCH_WINDOWS], seconds = step->b->options.seconds, amount = 0, mean, sd;
    if (window_run(step, seconds < 1 ? seconds : 1, &amount) < 0)
        return false;
    amount = 0;
    uint64_t start = bench_now_ns();
    double   cpu = bench_cpu_seconds();
    for (int i = 0; i < BENCH_WINDOWS; i++) {
        rates[i] = window_run(step, seconds, &amount);
        if (rates[i] < 0)
            return false;
    }
    row->cores = (bench_cpu_seconds() - cpu) * 1e9 / (double)(bench_now_ns() - start);
    mean_and_deviation(rates, BENCH_WINDOWS, &mean, &sd);
    row->value = mean * scale;
    row->sd = sd * scale;
    row->n = (uint64_t)(amount + 0.5);
    return true;
}

bool bench_samples_init(struct bench_samples *samples)
{
    samples->count = 0;
    samples->data = calloc(BENCH_SAMPLES_MAX, sizeof *samples->data);
    return samples->data != NULL;
}

void bench_samples_add(struct bench_samples *samples, double x)
{
    if (samples->count < BENCH_SAMPLES_MAX)
        samples->data[samples->count++] = x;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile_of(const struct bench_samples *samples, double quantile)
{
    return samples->data[(size_t)(quantile * (double)(samples->count - 1) + 0.5)];
}

bool bench_samples_row(struct bench_samples *samples, double quantile, struct bench_row *row)
{
    bool   ok = samples->count > 0;
    double mean;
    if (ok) {
        mean_and_deviation(samples->data, samples->count, &mean, &row->sd);
        qsort(samples->data, samples->count, sizeof *samples->data, by_size);
        row->value = quantile_of(samples, quantile);
        row->p50 = quantile_of(samples, 0.5);
        row->p99 = quantile_of(samples, 0.99);
        row->n = samples->count;
    }
    free(samples->data);
    samples->data = NULL;
    return ok;
}

bool bench_latency(struct bench_step *step, struct bench_row *row, double quantile, size_t samples_max)
{
    struct bench_samples samples;
    if (!bench_samples_init(&samples))
        return false;
    uint64_t warm_ns = (uint64_t)(0.25e9 * step->b->options.seconds);
    uint64_t length = (uint64_t)(step->b->options.seconds * BENCH_WINDOWS * 1e9), start = bench_now_ns();
    double   us;
    do {
        us = step->run(step);
    } while (us >= 0 && bench_now_ns() - start < warm_ns);
    start = bench_now_ns();
    double cpu = bench_cpu_seconds();
    while (us >= 0 && samples.count < samples_max && (samples.count < BENCH_SAMPLES_MIN || bench_now_ns() - start < length)) {
        us = step->run(step);
        if (us >= 0)
            bench_samples_add(&samples, us);
    }
    row->cores = (bench_cpu_seconds() - cpu) * 1e9 / (double)(bench_now_ns() - start);
    return bench_samples_row(&samples, quantile, row) && us >= 0;
}
