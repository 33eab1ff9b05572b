/* SPDX-License-Identifier: Apache-2.0
 *
 * shelf.h - the records of the head as a store keeps them, in memory: bytes to bytes. Pure; one thread at a time.
 *
 *     field   the table (1 byte), the key          value   a version (1 byte), a sum of table, key and data (8 bytes), the data
 */
#ifndef HEAD_SHELF_H
#define HEAD_SHELF_H

#include "core/base/buf.h"
#include "core/ds/map.h"
#include "scheduler/head/core/kit/step.h"

struct head_item {
    struct head_item *next; /* of the same hash, or of a list of changes */
    mt_view           field, value;
    bool              is_dropped; /* a change that takes the record away */
    uint8_t           bytes[];
};

struct head_shelf {
    mt_map   map; /* hash of the field -> list of items */
    uint64_t count;
};

/* An item with copies of the bytes; NULL: no memory. */
struct head_item *head_item_new(mt_view field, mt_view value);
/* The change as an item, packed; NULL: no memory. */
struct head_item *head_item_pack(const struct head_record *record);
/* The record of an item, borrowed. ECORRUPT where its sum is wrong, EVERSION where a newer head has written it. */
MT_MUST_USE mt_status head_item_unpack(mt_view field, mt_view value, struct head_record *out);

/* Room for so many more, so that so many puts can't fail. */
MT_MUST_USE mt_status head_shelf_reserve(struct head_shelf *shelf, uint32_t extra);
/* Takes the item: its record is as it says now, or gone. Room was made. */
void head_shelf_take(struct head_shelf *shelf, struct head_item *item);
/* Makes room and takes the item; NULL, where there was no memory for it, is ENOMEM. It is taken in any case. */
MT_MUST_USE mt_status head_shelf_put(struct head_shelf *shelf, struct head_item *take_item);
void                  head_shelf_fini(struct head_shelf *shelf);
/* All of them by table and key, then NULL; the list is the caller's to free, the items are not. ENOMEM. */
MT_MUST_USE mt_status head_shelf_sorted(const struct head_shelf *shelf, const struct head_item ***out_items);
/* The next one, in no particular order; NULL: the first, and at the end. */
struct head_item *head_shelf_next(const struct head_shelf *shelf, const struct head_item *item);

#endif
