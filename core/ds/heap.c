/* SPDX-License-Identifier: Apache-2.0
 *
 * heap.c - a binary heap of nodes that know their place.
 *
 * Owns:   the array of pointers; borrows each node from push to pop or remove. Thread: the caller's.
 * Always: nodes[i]->place == i + 1, and no node comes before its parent, (i - 1) / 2.
 */
#include "core/ds/heap.h"

static bool node_before(const mt_heap_node *a, const mt_heap_node *b)
{
    return a->key != b->key ? a->key < b->key : a->order < b->order;
}

static void node_place(mt_heap *heap, size_t at, mt_heap_node *node)
{
    heap->nodes.data[at] = node;
    node->place = at + 1;
}

static void sift_up(mt_heap *heap, size_t at)
{
    mt_heap_node *node = heap->nodes.data[at];
    while (at > 0 && node_before(node, heap->nodes.data[(at - 1) / 2])) {
        node_place(heap, at, heap->nodes.data[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    node_place(heap, at, node);
}

static void sift_down(mt_heap *heap, size_t at)
{
    mt_heap_node *node = heap->nodes.data[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->nodes.count)
            break;
        if (child + 1 < heap->nodes.count && node_before(heap->nodes.data[child + 1], heap->nodes.data[child]))
            child++;
        if (!node_before(heap->nodes.data[child], node))
            break;
        node_place(heap, at, heap->nodes.data[child]);
        at = child;
    }
    node_place(heap, at, node);
}

void mt_heap_fini(mt_heap *heap)
{
    for (size_t i = 0; i < heap->nodes.count; i++)
        heap->nodes.data[i]->place = 0;
    mt_vec_fini(&heap->nodes);
}

mt_status mt_heap_push(mt_heap *heap, mt_heap_node *node, uint64_t key)
{
    MT_ASSERT(node->place == 0);
    MT_TRY(mt_vec_push(&heap->nodes, node));
    node->key = key;
    node->order = heap->next_order++;
    sift_up(heap, heap->nodes.count - 1);
    return mt_ok();
}

mt_heap_node *mt_heap_first(const mt_heap *heap)
{
    return heap->nodes.count ? heap->nodes.data[0] : NULL;
}

mt_heap_node *mt_heap_pop(mt_heap *heap)
{
    mt_heap_node *first = mt_heap_first(heap);
    if (first)
        mt_heap_remove(heap, first);
    return first;
}

void mt_heap_remove(mt_heap *heap, mt_heap_node *node)
{
    if (node->place == 0)
        return;
    size_t at = node->place - 1;
    MT_ASSERT(at < heap->nodes.count && heap->nodes.data[at] == node); /* else it is in another heap */
    mt_heap_node *last = mt_vec_pop(&heap->nodes);
    node->place = 0;
    if (last == node)
        return;
    node_place(heap, at, last);
    sift_up(heap, at);
    sift_down(heap, last->place - 1);
}
