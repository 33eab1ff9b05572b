/* SPDX-License-Identifier: Apache-2.0
 *
 * recent.h - the last ids of many, each with a number: what a receiver remembers so that a repeat has one effect.
 *
 * All its memory is taken at the start, 24 bytes an id, so that a daemon that runs for long does not grow by it and putting
 * can't fail. A zeroed one is empty, remembers nothing, and may be finished. One thread at a time.
 *
 *     index   [ 2 | . | 1 | 3 | . | . | . | . ]      open addressing, at most half full: a place + 1
 *     keys    [ first | second | third | ... ]       round and round: the next one takes the oldest's place
 */
#ifndef MT_BASE_RECENT_H
#define MT_BASE_RECENT_H

#include "core/base/id.h"
#include "core/base/status.h"

enum { MT_RECENT_CAPACITY_MAX = 32768 };

struct mt_recent {
    mt_id    *keys;
    int32_t  *values;   /* of the key at the same place */
    uint16_t *index;    /* 2 * capacity words */
    uint32_t  capacity; /* a power of two */
    uint32_t  count;
    uint32_t  next; /* place of the key that comes next */
};

/* `capacity` ids: a power of two, at most MT_RECENT_CAPACITY_MAX. Memory that was not used yet is not touched. ENOMEM. */
MT_MUST_USE mt_status mt_recent_init(struct mt_recent *recent, uint32_t capacity);
void                  mt_recent_fini(struct mt_recent *recent);

/* The number of `key`, borrowed until the next put; NULL: not put, or so many others ago. A zero id is never there. */
const int32_t *mt_recent_find(const struct mt_recent *recent, mt_id key);

/* Puts a key that is not there. The oldest one is forgotten where all places are taken. */
void mt_recent_put(struct mt_recent *recent, mt_id key, int32_t value);

#endif
