/* SPDX-License-Identifier: Apache-2.0
 *
 * recent.c - a ring of keys, and an index over it by open addressing.
 *
 * Owns:   the three arrays. Thread: the caller's.
 * Always: each key of the ring is in the index once, with no empty word between its home and it; so the index has as many
 *         words in use as there are keys, and every probe ends.
 */
#include "core/ds/recent.h"

#include <stdlib.h>

mt_status mt_recent_init(struct mt_recent *recent, uint32_t capacity)
{
    MT_ASSERT(capacity > 0 && capacity <= MT_RECENT_CAPACITY_MAX && (capacity & (capacity - 1)) == 0);
    *recent = (struct mt_recent){.capacity = capacity};
    recent->keys = calloc(capacity, sizeof *recent->keys);
    recent->values = calloc(capacity, sizeof *recent->values);
    recent->index = calloc(2 * (size_t)capacity, sizeof *recent->index);
    if (recent->keys && recent->values && recent->index)
        return mt_ok();
    mt_recent_fini(recent);
    return mt_error(MT_ENOMEM, 0, "remember the last ids");
}

void mt_recent_fini(struct mt_recent *recent)
{
    free(recent->keys);
    free(recent->values);
    free(recent->index);
    *recent = (struct mt_recent){0};
}

static uint32_t home_of(const struct mt_recent *r, mt_id key)
{
    return (uint32_t)mt_id_hash(key) & (2 * r->capacity - 1);
}

/* The word of the index that leads to `key`, or the empty one where it would be. */
static uint32_t word_of(const struct mt_recent *r, mt_id key)
{
    uint32_t at = home_of(r, key);
    while (r->index[at] && !mt_id_equal(r->keys[r->index[at] - 1], key))
        at = (at + 1) & (2 * r->capacity - 1);
    return at;
}

/* Empties a word; those behind it that could not have been found any more move up. */
static void word_remove(struct mt_recent *r, uint32_t hole)
{
    uint32_t mask = 2 * r->capacity - 1;
    for (uint32_t at = (hole + 1) & mask; r->index[at]; at = (at + 1) & mask) {
        uint32_t home = home_of(r, r->keys[r->index[at] - 1]);
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        r->index[hole] = r->index[at];
        hole = at;
    }
    r->index[hole] = 0;
}

const int32_t *mt_recent_find(const struct mt_recent *recent, mt_id key)
{
    if (recent->count == 0 || mt_id_is_zero(key))
        return NULL;
    uint16_t place = recent->index[word_of(recent, key)];
    return place ? &recent->values[place - 1] : NULL;
}

void mt_recent_put(struct mt_recent *recent, mt_id key, int32_t value)
{
    MT_ASSERT(recent->capacity > 0 && !mt_id_is_zero(key) && !mt_recent_find(recent, key));
    uint32_t place = recent->next;
    if (recent->count == recent->capacity) {
        uint32_t word = word_of(recent, recent->keys[place]);
        MT_ASSERT(recent->index[word] == place + 1); /* it led to the key that is forgotten */
        word_remove(recent, word);
    } else {
        recent->count++;
    }
    recent->keys[place] = key;
    recent->values[place] = value;
    recent->index[word_of(recent, key)] = (uint16_t)(place + 1);
    recent->next = (place + 1) & (recent->capacity - 1);
}
