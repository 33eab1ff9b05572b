/* SPDX-License-Identifier: Apache-2.0
 *
 * index.h - a hash table from text to what embeds its node. Walks go in order of insertion, so that a state machine
 * does the same on every run. Zeroed ones are empty. One thread at a time.
 */
#ifndef HEAD_INDEX_H
#define HEAD_INDEX_H

#include "core/base/status.h"

enum { HEAD_NAME_SIZE = 64 }; /* as in the local protocol, its end included */

struct head_index_node {
    const char             *key; /* borrowed: lives in what embeds the node */
    uint64_t                hash;
    struct head_index_node *chain;
    struct head_index_node *prev, *next; /* order of insertion */
};

struct head_index {
    struct head_index_node **slots;
    size_t                   slot_count; /* 0 or a power of two */
    size_t                   count;
    struct head_index_node  *first, *last;
};

/* Frees the table, not what is in it. */
void                    head_index_fini(struct head_index *index);
struct head_index_node *head_index_find(const struct head_index *index, const char *key);
/* `key` must not be there yet. ENOMEM changes nothing. */
MT_MUST_USE mt_status head_index_add(struct head_index *index, struct head_index_node *node, const char *key);
void                  head_index_remove(struct head_index *index, struct head_index_node *node);

#endif
