/* SPDX-License-Identifier: Apache-2.0
 *
 * sorted.c - a treap: a search tree by key, and a heap by a hash of the key, so it is as deep as a random tree, and the same
 * on each run.
 *
 * Owns: nothing.
 */
#include "core/ds/sorted.h"

/* Of whoever stands higher it is greater. */
static uint64_t height(uint64_t key)
{
    key = (key ^ (key >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    key = (key ^ (key >> 27)) * UINT64_C(0x94d049bb133111eb);
    return key ^ (key >> 31);
}

void mt_sorted_add(mt_sorted *tree, mt_sorted_node *node, uint64_t key)
{
    mt_sorted_node **at = &tree->root, **less = &node->less, **more = &node->more, *rest;
    while (*at && height((*at)->key) > height(key))
        at = key < (*at)->key ? &(*at)->less : &(*at)->more;
    for (rest = *at; rest;) { /* what stood here goes below it, on both sides */
        if (rest->key < key) {
            *less = rest;
            less = &rest->more;
            rest = rest->more;
        } else {
            *more = rest;
            more = &rest->less;
            rest = rest->less;
        }
    }
    *less = *more = NULL;
    node->key = key;
    *at = node;
    tree->count++;
}

void mt_sorted_remove(mt_sorted *tree, const mt_sorted_node *node)
{
    mt_sorted_node **at = &tree->root, *less = node->less, *more = node->more;
    while (*at != node)
        at = node->key < (*at)->key ? &(*at)->less : &(*at)->more;
    while (less && more) {
        if (height(less->key) > height(more->key)) {
            *at = less;
            at = &less->more;
            less = less->more;
        } else {
            *at = more;
            at = &more->less;
            more = more->less;
        }
    }
    *at = less ? less : more;
    tree->count--;
}

mt_sorted_node *mt_sorted_first(const mt_sorted *tree)
{
    mt_sorted_node *at = tree->root;
    while (at && at->less)
        at = at->less;
    return at;
}

mt_sorted_node *mt_sorted_after(const mt_sorted *tree, uint64_t key)
{
    mt_sorted_node *best = NULL;
    for (mt_sorted_node *at = tree->root; at;) {
        if (at->key > key) {
            best = at;
            at = at->less;
        } else {
            at = at->more;
        }
    }
    return best;
}
