/* SPDX-License-Identifier: Apache-2.0
 *
 * map.c - open addressing over a dense array of entries.
 *
 * Owns:   both arrays of each map. Thread: the caller's.
 * Always: words in use in the index <= used <= capacity = half of the index, so every probe ends at an empty word.
 *         Removed entries go at the next rebuild, which each `capacity` insertions pay for together.
 */
#include "core/ds/map.h"

#include "core/base/rng.h" /* mt_rng_next, as a mixing function */

#include <stdlib.h>

enum { MAP_CAPACITY_MIN = 8 };
#define MAP_CAPACITY_MAX (UINT32_C(1) << 30)
#define INDEX_EMPTY      UINT32_C(0)
#define INDEX_REMOVED    UINT32_MAX

static uint64_t key_hash(mt_id key)
{
    mt_rng mix = {key.process ^ key.counter_index * 0x9e3779b97f4a7c15u};
    return mt_rng_next(&mix);
}

/* The word of the index that leads to `key`, or NULL. */
static uint32_t *index_find(const mt_map *map, mt_id key)
{
    if (map->capacity == 0 || mt_id_is_zero(key))
        return NULL;
    uint32_t mask = 2 * map->capacity - 1;
    for (uint32_t at = (uint32_t)key_hash(key) & mask;; at = (at + 1) & mask) {
        uint32_t word = map->index[at];
        if (word == INDEX_EMPTY)
            return NULL;
        if (word != INDEX_REMOVED && mt_id_equal(map->entries[word - 1].key, key))
            return &map->index[at];
    }
}

/* Appends an entry with a key that is not there; room is known. */
static void entry_append(mt_map *map, mt_map_entry entry)
{
    uint32_t mask = 2 * map->capacity - 1;
    uint32_t at = (uint32_t)key_hash(entry.key) & mask;
    MT_ASSERT(map->used < map->capacity); /* so there is an empty word */
    while (map->index[at] != INDEX_EMPTY)
        at = (at + 1) & mask;
    map->entries[map->used++] = entry;
    map->index[at] = map->used;
    map->count++;
}

/* Room for `extra` more entries: a new pair of arrays, twice as large unless half of the entries are removed ones. */
static mt_status map_rebuild(mt_map *map, uint32_t extra)
{
    uint32_t capacity = map->capacity ? map->capacity : MAP_CAPACITY_MIN;
    if (map->count > capacity / 2)
        capacity *= 2;
    else if (map->count < capacity / 8 && capacity > MAP_CAPACITY_MIN)
        capacity /= 2;
    while (capacity - map->count < extra && capacity <= MAP_CAPACITY_MAX)
        capacity *= 2;
    if (capacity > MAP_CAPACITY_MAX)
        return mt_error(MT_ENOMEM, 0, "grow map: too many entries");
    mt_map grown = {.capacity = capacity};
    grown.entries = malloc(capacity * sizeof *grown.entries);
    grown.index = calloc(2 * (size_t)capacity, sizeof *grown.index);
    if (!grown.entries || !grown.index) {
        mt_map_fini(&grown);
        return mt_error(MT_ENOMEM, 0, "grow map");
    }
    MT_MAP_EACH(map, entry)
        entry_append(&grown, *entry);
    mt_map_fini(map);
    *map = grown;
    return mt_ok();
}

mt_status mt_map_reserve(mt_map *map, uint32_t extra)
{
    return map->capacity - map->used >= extra ? mt_ok() : map_rebuild(map, extra);
}

void mt_map_fini(mt_map *map)
{
    free(map->entries);
    free(map->index);
    *map = (mt_map){0};
}

mt_map_entry *mt_map_find(const mt_map *map, mt_id key)
{
    uint32_t *word = index_find(map, key);
    return word ? &map->entries[*word - 1] : NULL;
}

static mt_status map_put(mt_map *map, mt_map_entry entry)
{
    if (mt_id_is_zero(entry.key))
        return mt_error(MT_EINVAL, 0, "put into map: zero id");
    mt_map_entry *old = mt_map_find(map, entry.key);
    if (old) {
        *old = entry;
        return mt_ok();
    }
    if (map->used == map->capacity)
        MT_TRY(map_rebuild(map, 1));
    entry_append(map, entry);
    return mt_ok();
}

mt_status mt_map_put_ptr(mt_map *map, mt_id key, void *ptr)
{
    mt_map_entry entry = {.key = key, .value.ptr = ptr};
    return map_put(map, entry);
}

mt_status mt_map_put_num(mt_map *map, mt_id key, uint64_t num)
{
    mt_map_entry entry = {.key = key, .value.num = num};
    return map_put(map, entry);
}

bool mt_map_remove(mt_map *map, mt_id key)
{
    uint32_t *word = index_find(map, key);
    if (!word)
        return false;
    map->entries[*word - 1] = (mt_map_entry){0};
    *word = INDEX_REMOVED;
    map->count--;
    return true;
}

mt_map_entry *mt_map_next(const mt_map *map, const mt_map_entry *entry)
{
    size_t at = entry ? (size_t)(entry - map->entries) + 1 : 0;
    for (; at < map->used; at++)
        if (!mt_id_is_zero(map->entries[at].key))
            return &map->entries[at];
    return NULL;
}
