/* SPDX-License-Identifier: Apache-2.0
 *
 * list.c - which objects a node holds, and who pins them: for people who look, a bounded piece at a time.
 *
 * Owns:    nothing. Thread: the raylet's logic thread.
 */
#include "objectstore/layout/pin.h"
#include "objectstore/server/table.h"

#include <stdlib.h>
#include <string.h>

static const uint16_t class_sizes[OS_CLASSES + 1] = OS_CLASS_SIZES;

enum { HEADERS_PER_LIST = 64 * 1024 }; /* places looked at for one piece */

struct listing {
    const struct os_store   *store;
    const struct os_segment *segment;
    struct os_seen          *out;
    uint32_t                 room, count, left;
};

static void list_place(struct listing *l, uint64_t offset)
{
    struct os_object object;
    l->left--;
    if (!os_object_read(l->segment, offset, &object))
        return;
    l->out[l->count++] = (struct os_seen){
        .id = object.id,
        .size = object.size,
        .writer = l->segment->writer,
        .segment = l->segment->number,
        .job = l->segment->job,
        .owner_node = object.owner_node,
        .generation = object.generation,
        .offset = offset,
        .type = object.type,
        .is_copy = os_store_is_copy(l->store, object.id, os_place_word(l->segment->number, offset))};
}

static bool is_done(const struct listing *l)
{
    return l->count == l->room || l->left == 0;
}

/* From `offset` on; returns where it stopped, or the segment's size. */
static uint64_t list_segment(struct listing *l, uint64_t offset)
{
    uint64_t size = l->segment->size;
    uint32_t chunks = (uint32_t)(size / OS_CHUNK);
    for (uint32_t i = os_head_chunks(size); i < chunks;) {
        uint32_t size_class, count = os_chunk_says(l->segment, i, &size_class);
        uint64_t start = (uint64_t)i * OS_CHUNK, step = size_class == OS_RUN || !count ? OS_SLAB : class_sizes[size_class];
        for (uint64_t at = start; count > 0 && at + step <= start + OS_SLAB; at += step) {
            if (at < offset)
                continue;
            if (is_done(l))
                return at;
            list_place(l, at);
        }
        i += count ? count : 1;
    }
    return size;
}

uint32_t os_store_look(const struct os_store *store, uint32_t *segment, uint64_t *offset, struct os_seen *out, uint32_t room)
{
    struct listing l = {.store = store, .out = out, .room = room, .left = HEADERS_PER_LIST};
    for (const struct os_segment *s = store->first; s; s = s->next) {
        if (s->number < *segment || os_segment_is_warm(s))
            continue;
        if (is_done(&l)) {
            *offset = s->number == *segment ? *offset : 0;
            *segment = s->number;
            return l.count;
        }
        l.segment = s;
        uint64_t at = list_segment(&l, s->number == *segment ? *offset : 0);
        if (at < s->size) {
            *segment = s->number;
            *offset = at;
            return l.count;
        }
    }
    *segment = 0;
    return l.count;
}

static int by_place(const void *a, const void *b)
{
    uint64_t x = os_place_word(((const struct os_seen *)a)->segment, ((const struct os_seen *)a)->offset);
    uint64_t y = os_place_word(((const struct os_seen *)b)->segment, ((const struct os_seen *)b)->offset);
    return x < y ? -1 : x > y;
}

void os_store_pins_of(const struct os_store *store, struct os_seen *listed, uint32_t count,
                      void (*fn)(void *user, struct os_seen *object, uint64_t process), void *user)
{
    qsort(listed, count, sizeof *listed, by_place);
    for (const struct os_process *p = store->processes; p && count; p = p->next) {
        uint32_t high = os_pins_high(p->pins);
        for (uint32_t slot = 0; slot < high; slot++) {
            uint64_t        word = os_pins_look(p->pins, slot);
            struct os_seen  key = {.segment = (uint32_t)(word >> 40), .offset = (word & ((UINT64_C(1) << 40) - 1)) * OS_UNIT};
            struct os_seen *found = word ? bsearch(&key, listed, count, sizeof key, by_place) : NULL;
            if (found)
                fn(user, found, p->process);
        }
    }
}
