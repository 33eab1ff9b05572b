/* SPDX-License-Identifier: Apache-2.0
 *
 * collective.c - reduce, broadcast and agreement, made of barriers and plain copies.
 *
 * Owns: nothing. Thread: one per struct sgd_group.
 */
#include "sgd/collective.h"

#include "sgd/group_private.h"

#include <string.h>

/* Two barriers: slots are complete before anybody adds; the sum is complete before anybody reads it. A third
 * is not needed: the next sum is written only after the next reduction's first barrier, which a member enters
 * when it is done with this one. */
mt_status sgd_group_reduce(struct sgd_group *group, const struct k_ops *ops, const float **out_sum)
{
    const float *in[MT_VRANKS_MAX];
    size_t lines = group->stride / 16;
    size_t begin = lines * group->rank / group->members * 16,
           end = lines * (group->rank + 1) / group->members * 16;

    MT_TRY(sgd_group_barrier(group));
    for (uint32_t v = 0; v < group->plan.vranks; v++)
        in[v] = sgd_group_slot(group, v) + begin;
    MT_TRY(ops->tree_sum(NULL, in, group->plan.vranks, end - begin, group->sum + begin));
    float part = 1.0f / (float)group->plan.vranks;
    for (size_t i = begin; i < end && i < group->plan.mean_floats; i++)
        group->sum[i] *= part;
    MT_TRY(sgd_group_barrier(group));
    *out_sum = group->sum;
    return mt_ok();
}

mt_status sgd_group_broadcast(struct sgd_group *group, uint32_t root, void *data, size_t size)
{
    size_t chunk_max = group->plan.vranks * group->stride * sizeof(float);
    unsigned char *p = data;
    bool is_root = group->rank == root;

    if (root >= group->members || (is_root && !data && size))
        return mt_error(MT_EINVAL, 0, "broadcast: no such rank, or no data");
    for (size_t done = 0; done < size;) {
        size_t chunk = size - done < chunk_max ? size - done : chunk_max;
        /* Also tells that everybody is done with the chunk before. */
        MT_TRY(sgd_group_barrier(group));
        if (is_root)
            memcpy(group->slots, p + done, chunk);
        MT_TRY(sgd_group_barrier(group));
        if (!is_root && p)
            memcpy(p + done, group->slots, chunk);
        done += chunk;
    }
    /* So that the slots may be written again. */
    return sgd_group_barrier(group);
}

mt_status sgd_group_agree(struct sgd_group *group, bool has_state, uint64_t step,
                          struct sgd_agreement *out_agreement)
{
    struct sgd_agreement result = {.is_equal = true};

    MT_ASSERT(step != UINT64_MAX);
    sgd_group_vote_set(group, has_state ? step + 1 : 0);
    MT_TRY(sgd_group_barrier(group));
    for (uint32_t rank = 0; rank < group->members; rank++) {
        uint64_t vote = sgd_group_vote_get(group, rank);
        if (vote == 0) {
            result.is_equal = false;
            continue;
        }
        if (!result.has_state || vote - 1 < result.step_min)
            result.step_min = vote - 1;
        if (!result.has_state || vote - 1 > result.step_max) {
            result.step_max = vote - 1;
            result.root = rank;
        }
        result.has_state = true;
    }
    result.is_equal = result.is_equal && result.step_min == result.step_max;
    /* So that nobody votes again before all have read. */
    MT_TRY(sgd_group_barrier(group));
    *out_agreement = result;
    return mt_ok();
}
