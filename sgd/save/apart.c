/* SPDX-License-Identifier: Apache-2.0
 *
 * apart.c - who keeps which parts of a sharded state where the members see several folders.
 *
 * The folders stand in a ring, in the order of the lowest rank that sees each. A folder has its own parts and those of the one
 * before it, so each part is in two, whichever machine is lost. Owns: nothing. Thread: any.
 */
#include "sgd/save/checkpoint.h"

/* The lowest rank that sees that folder. */
static uint32_t first_of(const uint64_t *marks, uint64_t mark)
{
    uint32_t r = 0;
    while (marks[r] != mark)
        r++;
    return r;
}

static uint64_t all_of(const uint64_t *marks, uint32_t members, uint64_t mark)
{
    uint64_t ranks = 0;
    for (uint32_t r = 0; r < members; r++)
        ranks |= (uint64_t)(marks[r] == mark) << r;
    return ranks;
}

void sgd_checkpoint_apart_choose(const uint64_t *marks, const uint32_t *nodes, uint32_t members, uint32_t rank,
                                 struct sgd_checkpoint_apart *out)
{
    uint64_t ring[MT_GROUP_MEMBERS_MAX];
    uint32_t mine = 0;
    *out = (struct sgd_checkpoint_apart){.folders = 0};
    for (uint32_t r = 0; r < members; r++) {
        if (!marks[r])
            out->lacks_node = out->lacks_node ? out->lacks_node : nodes[r];
        else if (first_of(marks, marks[r]) == r)
            ring[out->folders++] = marks[r];
    }
    if (!sgd_checkpoint_is_apart(out) || !marks[rank])
        return;
    while (ring[mine] != marks[rank])
        mine++;
    uint64_t before = ring[(mine + out->folders - 1) % out->folders];
    out->keeps = first_of(marks, marks[rank]) == rank;
    out->here = all_of(marks, members, marks[rank]);
    out->doubles = before == marks[rank] ? 0 : all_of(marks, members, before);
    out->doubles_node = nodes[first_of(marks, before)];
}
