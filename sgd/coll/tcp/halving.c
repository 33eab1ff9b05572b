/* SPDX-License-Identifier: Apache-2.0
 *
 * halving.c - the pairs of each step. See halving.h.
 *
 * Owns: nothing. Thread: any.
 */
#include "sgd/coll/tcp/halving.h"

#include "core/base/status.h"

uint32_t coll_halving_steps(uint32_t members)
{
    MT_ASSERT(members >= 1 && members <= MT_GROUP_MEMBERS_MAX);
    return members > 1 ? 32 - (uint32_t)__builtin_clz(members - 1) : 0;
}

/* Whose a position of a run is: of `count` members from `first` on. Where no member has it, the run's own right side. */
static uint32_t member_at(uint32_t first, uint32_t count, uint32_t position)
{
    for (;;) {
        uint32_t size = 1u << coll_halving_steps(count);
        position %= size;
        if (position < count)
            return first + position;
        first += size / 2;
        count -= size / 2;
        position -= size / 2;
    }
}

uint32_t coll_halving_pairs(uint32_t members, uint32_t rank, uint32_t step, struct coll_pair out[MT_GROUP_MEMBERS_MAX / 2])
{
    uint32_t half = 1u << step, begin = rank & ~(2 * half - 1), middle = begin + half, pairs = 0;
    if (middle >= members)
        return 0;
    uint32_t right = members - middle < half ? members - middle : half;
    if (rank < middle) {
        uint32_t at = rank - begin;
        out[0] = (struct coll_pair){.peer = member_at(middle, right, at), .keep = at, .give = at + half, .is_left = true};
        return 1;
    }
    for (uint32_t at = 0; at < half; at++)
        if (member_at(middle, right, at) == rank)
            out[pairs++] = (struct coll_pair){.peer = begin + at, .keep = at + half, .give = at};
    return pairs;
}

uint64_t coll_halving_peers(uint32_t members, uint32_t rank)
{
    uint64_t peers = 0;
    for (uint32_t step = 0; step < coll_halving_steps(members); step++) {
        struct coll_pair pairs[MT_GROUP_MEMBERS_MAX / 2];
        uint32_t         count = coll_halving_pairs(members, rank, step, pairs);
        for (uint32_t i = 0; i < count; i++)
            peers |= 1ull << pairs[i].peer;
    }
    return peers;
}

uint32_t coll_halving_slice(uint32_t members, uint32_t index)
{
    uint32_t slice = 0;
    for (uint32_t step = coll_halving_steps(members); step > 0; step--, index /= 2)
        slice = slice * 2 + index % 2;
    return slice;
}
