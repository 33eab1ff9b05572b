/* SPDX-License-Identifier: Apache-2.0
 *
 * device_tree.h - the sum of a worker's virtual ranks in a device's memory, by the fixed tree (tree/tree.h),
 * as they come.
 *
 * A binary counter: two aligned runs of one size become one of the next at once. So a worker that has all V
 * virtual ranks needs log2(V) + 1 buffers of a gradient's length, one of them for the gradient that is being
 * computed, where tree_sum, which wants all of its inputs, needs V; and an addition reads and writes no more
 * than that does. The bits are tree_sum's.
 */
#ifndef SGD_DEVICE_TREE_H
#define SGD_DEVICE_TREE_H

#include "kernels/kernels.h"
#include "sgd/tree/tree.h"

enum { SGD_TREE_BUFFERS = SGD_PIECES_MAX + 2 }; /* pieces of any run, the gradient under way, and room for a sum over workers */

struct sgd_device_tree {
    const struct k_ops *ops;
    size_t              floats;
    float              *spare[SGD_TREE_BUFFERS]; /* buffers that hold nothing; the last one is the next room */
    uint32_t            spares;
    uint32_t            pieces;
    struct sgd_piece    piece[SGD_TREE_BUFFERS]; /* in the order in which they came, and */
    float              *sums[SGD_TREE_BUFFERS];  /* their sums */
};

void sgd_device_tree_init(struct sgd_device_tree *tree, const struct k_ops *ops, size_t floats);
void sgd_device_tree_fini(struct sgd_device_tree *tree);

/* Forgets all virtual ranks. */
void sgd_device_tree_clear(struct sgd_device_tree *tree);
/* A buffer for the next gradient, the same until sgd_device_tree_add. ENOMEM, EDEVICE. */
MT_MUST_USE mt_status sgd_device_tree_room(struct sgd_device_tree *tree, float **out_room);
/* What stands in the room is that virtual rank's; they come as a lane has them (tree/tree.h). EDEVICE. */
MT_MUST_USE mt_status sgd_device_tree_add(struct sgd_device_tree *tree, uint32_t vrank);
/* The sums of its pieces, in the order of virtual ranks. */
void sgd_device_tree_rising(const struct sgd_device_tree *tree, const float *out[SGD_TREE_BUFFERS]);
/* Of all virtual ranks, from 0 on: joins what is left. The sum stays until the next clear. EDEVICE. */
MT_MUST_USE mt_status sgd_device_tree_end(struct sgd_device_tree *tree, float **out_sum);

#endif
