/* SPDX-License-Identifier: Apache-2.0
 *
 * index.c - chained hashing with a list in order of insertion beside it.
 *
 * Owns: the array of slots only.
 */
#include "scheduler/head/core/kit/index.h"

#include "core/base/hash.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS_MIN = 64 };

static uint64_t hash_of(const char *key)
{
    uint64_t h = mt_hash_text(MT_HASH_START, key);
    h ^= h >> 32; /* short keys differ in their last bytes only */
    return h * 0x9e3779b97f4a7c15u;
}

static struct head_index_node **slot_of(const struct head_index *index, uint64_t hash)
{
    return &index->slots[(hash >> 32) & (index->slot_count - 1)];
}

static mt_status grow(struct head_index *index)
{
    if (index->count < index->slot_count)
        return mt_ok();
    size_t                   count = index->slot_count ? index->slot_count * 2 : SLOTS_MIN;
    struct head_index_node **slots = calloc(count, sizeof *slots);
    if (!slots)
        return mt_error(MT_ENOMEM, 0, "grow index");
    free(index->slots);
    index->slots = slots;
    index->slot_count = count;
    for (struct head_index_node *n = index->first; n; n = n->next) {
        struct head_index_node **slot = slot_of(index, n->hash);
        n->chain = *slot;
        *slot = n;
    }
    return mt_ok();
}

void head_index_fini(struct head_index *index)
{
    free(index->slots);
    memset(index, 0, sizeof *index);
}

struct head_index_node *head_index_find(const struct head_index *index, const char *key)
{
    if (index->count == 0)
        return NULL;
    uint64_t                hash = hash_of(key);
    struct head_index_node *n = *slot_of(index, hash);
    while (n && (n->hash != hash || strcmp(n->key, key) != 0))
        n = n->chain;
    return n;
}

mt_status head_index_add(struct head_index *index, struct head_index_node *node, const char *key)
{
    MT_TRY(grow(index));
    node->key = key;
    node->hash = hash_of(key);
    struct head_index_node **slot = slot_of(index, node->hash);
    node->chain = *slot;
    *slot = node;
    node->prev = index->last;
    node->next = NULL;
    *(index->last ? &index->last->next : &index->first) = node;
    index->last = node;
    index->count++;
    return mt_ok();
}

void head_index_remove(struct head_index *index, struct head_index_node *node)
{
    struct head_index_node **at = slot_of(index, node->hash);
    while (*at != node)
        at = &(*at)->chain;
    *at = node->chain;
    *(node->prev ? &node->prev->next : &index->first) = node->next;
    *(node->next ? &node->next->prev : &index->last) = node->prev;
    index->count--;
}
