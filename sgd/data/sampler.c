/* SPDX-License-Identifier: Apache-2.0
 *
 * sampler.c - permutations without memory. Owns nothing. Thread: any.
 *
 * An epoch's permutation is a Feistel network over the smallest even number of bits that holds every index,
 * walked on until the result is an index ("cycle walking": fewer than 4 rounds on average). It is one-to-one
 * whatever the round function, costs some 50 ns per sample, and needs no table to be rebuilt or shipped after
 * a restart.
 */
#include "sgd/data/sampler.h"

enum { ROUNDS = 6 };

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static unsigned half_bits(uint64_t records)
{
    unsigned half = 1;
    while (half < 32 && records > UINT64_C(1) << 2 * half)
        half++;
    return half;
}

static uint64_t feistel(uint64_t index, unsigned half, uint64_t key)
{
    uint64_t mask = (UINT64_C(1) << half) - 1, left = index >> half, right = index & mask;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t next = left ^ (mix(right + key + round * 0x9e3779b97f4a7c15u) & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

uint64_t sgd_sampler_record(const struct sgd_sampler *sampler, uint64_t sample)
{
    uint64_t key = mix(mix(sampler->seed) + sgd_sampler_epoch(sampler, sample) + 0x9e3779b97f4a7c15u);
    uint64_t index = sample % sampler->records;
    unsigned half = half_bits(sampler->records);
    if (sampler->in_order)
        return index;
    do
        index = feistel(index, half, key);
    while (index >= sampler->records);
    return index;
}

uint64_t sgd_sampler_key(const struct sgd_sampler *sampler, uint64_t sample)
{
    return (mix(sampler->seed ^ 0xd1b54a32d192ed03u) >> 1 | UINT64_C(1) << 62) + sample;
}

void sgd_sampler_batch(const struct sgd_sampler *sampler, uint64_t samples, uint32_t vrank, uint64_t *out_indices)
{
    MT_ASSERT(vrank < sampler->vranks);
    for (uint32_t i = 0; i < sampler->micro_batch; i++)
        out_indices[i] = sgd_sampler_record(sampler, samples + (uint64_t)vrank * sampler->micro_batch + i);
}
