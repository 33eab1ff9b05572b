/* SPDX-License-Identifier: Apache-2.0
 *
 * regression.h - a linear regression that trials train: records of `n` values and what they give.
 */
#ifndef TESTS_SWEEP_REGRESSION_H
#define TESTS_SWEEP_REGRESSION_H

#include <manta_sgd.h>

#include <stdint.h>

/* The mean squared error of a batch; adds its gradient to `g`, unless that is NULL. */
static inline double regression_loss(const manta_sgd_batch *b, int64_t n, const float *w, float *g)
{
    const float *record = b->data;
    double       loss = 0;
    for (int64_t r = 0; r < b->count; r++, record += n + 1) {
        float error = -record[n];
        for (int64_t i = 0; i < n; i++)
            error += w[i] * record[i];
        for (int64_t i = 0; g && i < n; i++)
            g[i] += 2 * error * record[i] / (float)b->count;
        loss += (double)(error * error);
    }
    return loss / (double)b->count;
}

#endif
