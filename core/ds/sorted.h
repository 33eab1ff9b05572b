/* SPDX-License-Identifier: Apache-2.0
 *
 * sorted.h - numbers in order, each once: in, out, the first, and the next after any number, each in logarithmic time.
 *
 * The node stands inside what is kept (mt_container_of leads back), so nothing is allocated. Zeroed trees are empty and valid. One
 * thread at a time.
 */
#ifndef MT_BASE_SORTED_H
#define MT_BASE_SORTED_H

#include <stddef.h>
#include <stdint.h>

typedef struct mt_sorted_node {
    uint64_t               key;
    struct mt_sorted_node *less, *more;
} mt_sorted_node;

typedef struct mt_sorted {
    mt_sorted_node *root;
    size_t          count;
} mt_sorted;

/* `key` is not in it yet, and `node` is in no tree. */
void mt_sorted_add(mt_sorted *tree, mt_sorted_node *node, uint64_t key);
/* `node` is in it. */
void            mt_sorted_remove(mt_sorted *tree, const mt_sorted_node *node);
mt_sorted_node *mt_sorted_first(const mt_sorted *tree);               /* NULL: it is empty */
mt_sorted_node *mt_sorted_after(const mt_sorted *tree, uint64_t key); /* the next that is greater, whether `key` is in it or not */

#endif
