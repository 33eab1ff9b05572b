/* SPDX-License-Identifier: Apache-2.0
 *
 * shelf.c - see shelf.h.
 */
#include "scheduler/head/store/shelf.h"

#include "core/base/hash.h"
#include "core/base/plant.h"

#include <stdlib.h>
#include <string.h>

enum { VALUE_VERSION = 1, HEAD_BYTES = 9 };

/* ---- items ---- */

static struct head_item *item_make(size_t field_size, size_t value_size)
{
    struct head_item *item = malloc(sizeof *item + field_size + value_size + 1);
    if (item)
        *item = (struct head_item){.field = {item->bytes, field_size}, .value = {item->bytes + field_size, value_size}};
    return item;
}

struct head_item *head_item_new(mt_view field, mt_view value)
{
    struct head_item *item = item_make(field.size, value.size);
    if (item && field.size > 0)
        memcpy(item->bytes, field.data, field.size);
    if (item && value.size > 0)
        memcpy(item->bytes + field.size, value.data, value.size);
    return item;
}

static uint64_t sum_of(int table, mt_view key, mt_view data)
{
    uint64_t sum = mt_hash_bytes(MT_HASH_START ^ (uint64_t)table, key.data, key.size);
    return mt_hash_bytes(mt_hash_mix(sum, key.size), data.data, data.size);
}

struct head_item *head_item_pack(const struct head_record *r)
{
    size_t            head = r->value ? HEAD_BYTES : 0, data = r->value ? r->value_size : 0;
    struct head_item *item = item_make(1 + r->key_size, head + data);
    if (!item)
        return NULL;
    uint8_t *at = item->bytes;
    *at++ = (uint8_t)r->table;
    memcpy(at, r->key, r->key_size);
    at += r->key_size;
    item->is_dropped = !r->value;
    if (item->is_dropped)
        return item;
    uint64_t sum = sum_of((int)r->table, mt_view_of(r->key, r->key_size), mt_view_of(r->value, r->value_size));
    *at++ = VALUE_VERSION;
    for (int i = 0; i < 8; i++)
        *at++ = (uint8_t)(sum >> 8 * i);
    if (data > 0)
        memcpy(at, r->value, data);
    return item;
}

mt_status head_item_unpack(mt_view field, mt_view value, struct head_record *out)
{
    mt_reader at = mt_reader_of(value);
    uint8_t   version = mt_reader_u8(&at);
    uint64_t  sum = mt_reader_u64(&at);
    if (version > VALUE_VERSION)
        return mt_error(MT_EVERSION, 0, "a record was written by a newer head");
    if (field.size == 0 || at.failed ||
        sum != sum_of(field.data[0], mt_view_of(field.data + 1, field.size - 1), mt_view_of(at.at, at.left)))
        return mt_error(MT_ECORRUPT, 0, "a record has changed since the head wrote it");
    *out = (struct head_record){.table = (enum head_table)field.data[0],
                                .key = (uint8_t *)(uintptr_t)(field.data + 1),
                                .key_size = field.size - 1,
                                .value = (uint8_t *)(uintptr_t)at.at,
                                .value_size = at.left};
    return mt_ok();
}

/* ---- the shelf ---- */

static mt_id key_of(mt_view field)
{
    return mt_map_key(mt_hash_bytes(MT_HASH_START, field.data, field.size));
}

mt_status head_shelf_reserve(struct head_shelf *shelf, uint32_t extra)
{
    return mt_map_reserve(&shelf->map, extra);
}

static void take_out(struct head_shelf *shelf, mt_view field)
{
    mt_map_entry *entry = mt_map_find(&shelf->map, key_of(field));
    if (!entry)
        return;
    struct head_item *first = entry->value.ptr, **at = &first;
    while (*at && !mt_view_equal((*at)->field, field))
        at = &(*at)->next;
    struct head_item *found = *at;
    if (found) {
        *at = found->next;
        free(found);
        shelf->count--;
    }
    entry->value.ptr = first;
    if (!first)
        (void)mt_map_remove(&shelf->map, key_of(field));
}

void head_shelf_take(struct head_shelf *shelf, struct head_item *item)
{
    if (!(item->is_dropped && MT_PLANT(MT_PLANT_STORE_DROPPED)))
        take_out(shelf, item->field);
    if (item->is_dropped) {
        free(item);
        return;
    }
    mt_map_entry *entry = mt_map_find(&shelf->map, key_of(item->field));
    item->next = entry ? entry->value.ptr : NULL;
    mt_status st = mt_map_put_ptr(&shelf->map, key_of(item->field), item);
    MT_ASSERT(st.code == 0); /* room was made */
    shelf->count++;
}

mt_status head_shelf_put(struct head_shelf *shelf, struct head_item *take_item)
{
    mt_status st = take_item ? head_shelf_reserve(shelf, 1) : mt_error(MT_ENOMEM, 0, "keep a record of the head");
    if (st.code == 0)
        head_shelf_take(shelf, take_item);
    else
        free(take_item);
    return st;
}

struct head_item *head_shelf_next(const struct head_shelf *shelf, const struct head_item *item)
{
    if (item && item->next)
        return item->next;
    mt_map_entry *entry = mt_map_next(&shelf->map, item ? mt_map_find(&shelf->map, key_of(item->field)) : NULL);
    return entry ? entry->value.ptr : NULL;
}

void head_shelf_fini(struct head_shelf *shelf)
{
    MT_MAP_EACH(&shelf->map, entry) {
        for (struct head_item *item = entry->value.ptr, *next; item; item = next) {
            next = item->next;
            free(item);
        }
    }
    mt_map_fini(&shelf->map);
    shelf->count = 0;
}

static int by_field(const void *a, const void *b)
{
    mt_view x = (*(const struct head_item *const *)a)->field, y = (*(const struct head_item *const *)b)->field;
    int     way = memcmp(x.data, y.data, x.size < y.size ? x.size : y.size);
    return way ? way : (x.size > y.size) - (x.size < y.size);
}

mt_status head_shelf_sorted(const struct head_shelf *shelf, const struct head_item ***out_items)
{
    size_t                   count = 0;
    const struct head_item **all = calloc(shelf->count + 1, sizeof *all);
    if (!all)
        return mt_error(MT_ENOMEM, 0, "sort the records");
    for (const struct head_item *item = NULL; (item = head_shelf_next(shelf, item));)
        all[count++] = item;
    qsort(all, count, sizeof *all, by_field);
    *out_items = all;
    return mt_ok();
}
