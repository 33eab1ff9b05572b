/* SPDX-License-Identifier: Apache-2.0
 *
 * map.h - the hash map: from an id, or a number, to a pointer or a number.
 *
 * Iteration goes in the order of insertion, never by address, so that a state machine that walks a map does the
 * same on every run. A zeroed map is empty and valid. One thread at a time.
 *
 *     index   [ 2 | . | 1 | x | . | 3 | . | . ]      open addressing, at most half full, x: removed
 *               '-----. '-. .---'
 *     entries [ first | second | third | ... ]       in order of insertion; a removed one has a zero key
 */
#ifndef MT_BASE_MAP_H
#define MT_BASE_MAP_H

#include "core/base/id.h"
#include "core/base/status.h"

typedef struct mt_map_entry {
    mt_id key;
    union {
        void    *ptr;
        uint64_t num;
    } value;
} mt_map_entry;

typedef struct mt_map {
    mt_map_entry *entries;
    uint32_t     *index;    /* 2 * capacity words: 0 empty, ~0 removed, else the entry's number + 1 */
    uint32_t      capacity; /* of entries; 0 or a power of two */
    uint32_t      used;     /* entries taken, removed ones included */
    uint32_t      count;    /* entries that live */
} mt_map;

/* The key of a number. One map holds keys of one kind: ids, or numbers. */
static inline mt_id mt_map_key(uint64_t number)
{
    mt_id key = {1, number};
    return key;
}

/* Frees the map's memory, not what its pointers point to; the map is empty and may be used again. */
void mt_map_fini(mt_map *map);

/* The entry of `key`, its value free to change; NULL where there is none. Valid until the next put. */
mt_map_entry *mt_map_find(const mt_map *map, mt_id key);

/* Sets the value of `key`, new or not. ENOMEM leaves the map as it was; EINVAL: a zero id is no key. */
MT_MUST_USE mt_status mt_map_put_ptr(mt_map *map, mt_id key, void *ptr);
MT_MUST_USE mt_status mt_map_put_num(mt_map *map, mt_id key, uint64_t num);

/* Makes room for `extra` new keys, so that so many puts can't fail. ENOMEM leaves the map as it was. */
MT_MUST_USE mt_status mt_map_reserve(mt_map *map, uint32_t extra);

/* The pointer of `key`; NULL where there is none. */
static inline void *mt_map_ptr(const mt_map *map, mt_id key)
{
    mt_map_entry *entry = mt_map_find(map, key);
    return entry ? entry->value.ptr : NULL;
}

/* Whether `key` was there; it is not any more. Removing during a walk is allowed, putting a new key is not. */
bool mt_map_remove(mt_map *map, mt_id key);

/* The entry after `entry` (NULL: the first) in order of insertion; NULL at the end. */
mt_map_entry *mt_map_next(const mt_map *map, const mt_map_entry *entry);

#define MT_MAP_EACH(map, entry) for (mt_map_entry *entry = mt_map_next((map), NULL); entry; entry = mt_map_next((map), entry))

#endif
