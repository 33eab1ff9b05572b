/* SPDX-License-Identifier: Apache-2.0
 *
 * sampler.h - which records a step uses: a pure function of the seed and the count of consumed samples.
 *
 * The samples of a run are one endless sequence: position p is in epoch p / records, and is the (p mod
 * records)-th of that epoch's own permutation, keyed by (seed, epoch). So each record comes exactly once per
 * epoch, the whole state is one number, no list of indices is stored, and neither restarts nor the number of
 * workers change what comes next. A step may straddle two epochs; its size never changes.
 *
 *   step:  | vrank 0   | vrank 1   | ... | vrank V-1 |     each of micro_batch samples
 *          ^ samples                                 ^ samples + V * micro_batch: the next step
 */
#ifndef SGD_SAMPLER_H
#define SGD_SAMPLER_H

#include "core/base/limits/text.h"
#include "core/base/limits/train.h"
#include "core/base/status.h"

#include <stdbool.h>

struct sgd_sampler {
    uint64_t seed;
    uint64_t records;     /* in the data set; > 0 */
    uint32_t vranks;      /* > 0 */
    uint32_t micro_batch; /* samples of one virtual rank in one step; > 0 */
    bool     in_order;    /* no permutation: the records as they stand */
};

/* The record at position `sample` of the run. */
uint64_t sgd_sampler_record(const struct sgd_sampler *sampler, uint64_t sample);

/* Writes the micro_batch records of one virtual rank in the step that begins when `samples` are consumed. */
void sgd_sampler_batch(const struct sgd_sampler *sampler, uint64_t samples, uint32_t vrank, uint64_t *out_indices);

/* What the random numbers of the sample at this position of the run are drawn from: not 0, and one more for the next. */
uint64_t sgd_sampler_key(const struct sgd_sampler *sampler, uint64_t sample);

static inline uint64_t sgd_sampler_step_size(const struct sgd_sampler *sampler)
{
    return (uint64_t)sampler->vranks * sampler->micro_batch;
}
static inline uint64_t sgd_sampler_epoch(const struct sgd_sampler *sampler, uint64_t samples)
{
    return samples / sampler->records;
}

#endif
