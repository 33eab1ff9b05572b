/* SPDX-License-Identifier: Apache-2.0
 *
 * heap.h - a priority queue: the smallest key first, equal keys in order of insertion.
 *
 * The node stands inside what waits (mt_container_of leads back), so an entry can be taken out from the middle,
 * and nothing but the array of pointers is allocated. Zeroed heaps and nodes are empty and valid. One thread at a
 * time.
 */
#ifndef MT_BASE_HEAP_H
#define MT_BASE_HEAP_H

#include "core/base/status.h"
#include "core/ds/vec.h"

#include <stdbool.h>

typedef struct mt_heap_node {
    uint64_t key;
    uint64_t order; /* number of the insertion: breaks ties */
    size_t   place; /* index in the heap + 1; 0: in none */
} mt_heap_node;

typedef struct mt_heap {
    MT_VEC(mt_heap_node *) nodes;
    uint64_t next_order;
} mt_heap;

/* Frees the heap's memory; the nodes, which belong to the caller, are in no heap afterwards. */
void mt_heap_fini(mt_heap *heap);
/* Puts `node` in, which is in no heap. It must stay where it is until it is out again. ENOMEM changes nothing. */
MT_MUST_USE mt_status mt_heap_push(mt_heap *heap, mt_heap_node *node, uint64_t key);
/* The first node, left in; NULL where there is none. */
mt_heap_node *mt_heap_first(const mt_heap *heap);
/* The first node, taken out; NULL where there is none. */
mt_heap_node *mt_heap_pop(mt_heap *heap);
/* Takes `node` out, wherever it stands; nothing happens to one that is in no heap. */
void               mt_heap_remove(mt_heap *heap, mt_heap_node *node);
static inline bool mt_heap_holds(const mt_heap_node *node)
{
    return node->place != 0;
}

#endif
