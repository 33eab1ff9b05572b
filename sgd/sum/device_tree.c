/* SPDX-License-Identifier: Apache-2.0
 *
 * device_tree.c - the binary counter of gradients in a device's memory.
 *
 * Owns: its buffers, which are allocated when they are first needed and kept. Thread: the trainer's.
 */
#include "sgd/sum/device_tree.h"

#include <string.h>

void sgd_device_tree_init(struct sgd_device_tree *tree, const struct k_ops *ops, size_t floats)
{
    *tree = (struct sgd_device_tree){.ops = ops, .floats = floats};
}

void sgd_device_tree_fini(struct sgd_device_tree *tree)
{
    sgd_device_tree_clear(tree);
    while (tree->spares > 0)
        tree->ops->release(tree->spare[--tree->spares]);
}

void sgd_device_tree_clear(struct sgd_device_tree *tree)
{
    while (tree->pieces > 0)
        tree->spare[tree->spares++] = tree->sums[--tree->pieces];
}

mt_status sgd_device_tree_room(struct sgd_device_tree *tree, float **out_room)
{
    if (tree->spares == 0) {
        void *memory;
        MT_ASSERT(tree->pieces < SGD_TREE_BUFFERS);
        MT_TRY(tree->ops->alloc(tree->floats * sizeof(float), &memory));
        tree->spare[tree->spares++] = memory;
    }
    *out_room = tree->spare[tree->spares - 1];
    return mt_ok();
}

/* The last two become one: the older one's place gets the sum, which has the same bits either way round. */
static mt_status last_two_join(struct sgd_device_tree *tree)
{
    uint32_t older = tree->pieces - 2, last = tree->pieces - 1;
    MT_TRY(tree->ops->axpy(NULL, 1.0f, tree->sums[last], tree->sums[older], tree->floats));
    tree->spare[tree->spares++] = tree->sums[last];
    if (tree->piece[last].first < tree->piece[older].first)
        tree->piece[older].first = tree->piece[last].first;
    tree->piece[older].level++;
    tree->pieces--;
    return mt_ok();
}

static bool are_buddies(struct sgd_piece a, struct sgd_piece b)
{
    return a.level == b.level && a.first >> (a.level + 1) == b.first >> (b.level + 1);
}

void sgd_device_tree_rising(const struct sgd_device_tree *tree, const float *out[SGD_TREE_BUFFERS])
{
    for (uint32_t i = 0; i < tree->pieces; i++) {
        uint32_t below = 0;
        for (uint32_t k = 0; k < tree->pieces; k++)
            below += tree->piece[k].first < tree->piece[i].first;
        out[below] = tree->sums[i];
    }
}

mt_status sgd_device_tree_add(struct sgd_device_tree *tree, uint32_t vrank)
{
    MT_ASSERT(tree->spares > 0 && tree->pieces < SGD_TREE_BUFFERS);
    tree->piece[tree->pieces] = (struct sgd_piece){vrank, 0};
    tree->sums[tree->pieces++] = tree->spare[--tree->spares];
    while (tree->pieces > 1 && are_buddies(tree->piece[tree->pieces - 2], tree->piece[tree->pieces - 1]))
        MT_TRY(last_two_join(tree));
    return mt_ok();
}

mt_status sgd_device_tree_end(struct sgd_device_tree *tree, float **out_sum)
{
    MT_ASSERT(tree->pieces > 0 && tree->piece[0].first == 0);
    while (tree->pieces > 1)
        MT_TRY(last_two_join(tree));
    *out_sum = tree->sums[0];
    return mt_ok();
}
