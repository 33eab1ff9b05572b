/* SPDX-License-Identifier: Apache-2.0
 *
 * keepers.c - who loads and who saves, by which folders the machines of a group see. Owns: nothing. Thread: the trainer's.
 */
#include "sgd/apart/apart.h"

#include "sgd/sum/collective.h"

/* The leader of each node has said it; what it sees, all members of its node see. */
static void marks_spread(uint64_t *marks, const uint32_t *nodes, uint32_t members)
{
    for (uint32_t r = 1; r < members; r++)
        if (nodes[r] == nodes[r - 1])
            marks[r] = marks[r - 1];
}

/* Who comes second, and who loads: the lowest rank of those that see one folder. */
static void whole_choose(const uint64_t *marks, uint32_t members, uint32_t rank, struct sgd_keepers *out)
{
    uint32_t second = 0;
    while (second < members && (!marks[second] || marks[second] == marks[0]))
        second++;
    out->saves = out->saves || rank == second;
    out->loads = out->loads || marks[rank] != 0;
    for (uint32_t r = 0; r < rank; r++)
        out->loads = out->loads && marks[r] != marks[rank];
}

mt_status sgd_keepers_agree(struct sgd_group *group, const char *folder, bool is_sharded, uint32_t node, struct sgd_keepers *out)
{
    uint64_t marks[MT_GROUP_MEMBERS_MAX], numbers[MT_GROUP_MEMBERS_MAX], mine = 0;
    uint32_t nodes[MT_GROUP_MEMBERS_MAX];
    *out = (struct sgd_keepers){.loads = group->rank == 0, .saves = group->rank == 0};
    if (group->is_leader && sgd_checkpoint_folder_mark(folder, &mine).code != MT_OK)
        mine = 0; /* it can keep none */
    MT_TRY(sgd_group_exchange(group, mine, marks));
    if (!is_sharded) {
        whole_choose(marks, group->members, group->rank, out);
        return mt_ok();
    }
    MT_TRY(sgd_group_exchange(group, node, numbers));
    for (uint32_t r = 0; r < group->members; r++)
        nodes[r] = (uint32_t)numbers[r];
    marks_spread(marks, nodes, group->members);
    sgd_checkpoint_apart_choose(marks, nodes, group->members, group->rank, &out->apart);
    out->saves = out->saves || out->apart.keeps;
    return mt_ok();
}
