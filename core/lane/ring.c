/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.c - reserving, growing, and the validating reader of a ring.
 *
 * Owns: nothing; both views live in their owners. Thread: one producer, one consumer, each with its own lock or none.
 * Always: head >= tail; at least 64 bytes of the present area are left for the JUMP to the next. What this side alone decides is
 * asserted (for each record in debug builds only); what the other side has written is checked, and refused by EPROTO.
 */
#include "core/lane/ring.h"

#include "core/base/plant.h"

static uint64_t area_size(uint32_t area)
{
    return (uint64_t)LANE_RING_AREA0 << area;
}

static uint64_t area_offset(uint32_t area)
{
    return area_size(area) - LANE_RING_AREA0;
}

void lane_producer_init(struct lane_producer *p, struct lane_ring_words *words, void *data)
{
    MT_ASSERT((uintptr_t)words % 8 == 0 && (uintptr_t)data % 8 == 0); /* atomics */
    memset(p, 0, sizeof *p);
    p->words = words;
    p->data = data;
}

void lane_consumer_init(struct lane_consumer *c, struct lane_ring_words *words, const void *data)
{
    MT_ASSERT((uintptr_t)words % 8 == 0 && (uintptr_t)data % 8 == 0); /* atomics */
    memset(c, 0, sizeof *c);
    c->words = words;
    c->data = data;
}

static uint8_t *producer_at(struct lane_producer *p)
{
    return p->data + area_offset(p->area) + ((p->head - p->area_start) & (area_size(p->area) - 1));
}

static void write_filler(struct lane_producer *p, uint16_t kind, uint32_t slot, uint32_t length)
{
    struct lane_record filler = {.length = length, .kind = kind, .slot = slot};
    MT_ASSERT(length >= LANE_RECORD_SIZE && length % 64 == 0); /* records begin at multiples of 64 */
    shm_write(producer_at(p), &filler, sizeof filler);
    p->head += length;
}

/* Bytes of the present area that are still in the consumer's hands. What lies before area_start is in older areas. */
static uint64_t producer_used(const struct lane_producer *p)
{
    uint64_t from = p->tail_seen > p->area_start ? p->tail_seen : p->area_start;
    return p->head - from;
}

/* A tail that went back, or past what was published, is no news: the peer is not trusted, and the room that such a tail
 * seems to give is not there. */
static void producer_look_at_tail(struct lane_producer *p)
{
    uint64_t tail = shm_load64_acquire(&p->words->tail);
    if (tail - p->tail_seen <= p->published - p->tail_seen)
        p->tail_seen = tail;
}

void *lane_ring_reserve(struct lane_producer *p, uint32_t length)
{
    uint64_t bytes = lane_record_padded(length);
    MT_ASSERT(length >= LANE_RECORD_SIZE && length <= LANE_RECORD_MAX);
    for (;;) {
        uint64_t size = area_size(p->area);
        uint64_t to_end = size - ((p->head - p->area_start) & (size - 1));
        uint64_t need = (bytes > to_end ? to_end + bytes : bytes) + LANE_RECORD_SIZE; /* and room for a JUMP */

        if (size - producer_used(p) < need)
            producer_look_at_tail(p);
        if (size - producer_used(p) >= need) {
            if (bytes > to_end)
                write_filler(p, LANE_PAD, 0, (uint32_t)to_end);
            p->reserved = (uint32_t)bytes;
            return producer_at(p);
        }
        if (p->area + 1 == LANE_RING_AREAS)
            return NULL;
        write_filler(p, LANE_JUMP, p->area + 1, LANE_RECORD_SIZE);
        p->area++;
        p->area_start = p->head;
    }
}

bool lane_ring_push(struct lane_producer *p, const struct lane_record *record, const void *payload)
{
    uint8_t *at = lane_ring_reserve(p, record->length);
    if (!at)
        return false;
    if (MT_PLANT(MT_PLANT_RING_EARLY_HEAD))
        shm_store64_release(&p->words->head, p->head + lane_record_padded(record->length));
    shm_write(at, record, LANE_RECORD_SIZE);
    if (record->length > LANE_RECORD_SIZE)
        shm_write(at + LANE_RECORD_SIZE, payload, record->length - LANE_RECORD_SIZE);
    lane_ring_commit(p, record->length);
    return true;
}

/* Checks one copied header against what is published and where the area ends. */
static mt_status check_record(const struct lane_consumer *c, const struct lane_record *record, uint64_t to_end)
{
    uint64_t bytes = lane_record_padded(record->length);
    if (record->kind == LANE_PAD) /* never a whole area, so that no run of pads keeps the reader in peek */
        return record->length == to_end && to_end < area_size(c->area) && bytes <= c->head_seen - c->tail
                   ? mt_ok()
                   : mt_error(MT_EPROTO, 0, "ring: a pad that does not end its area");
    if (record->length < LANE_RECORD_SIZE || record->length > LANE_RECORD_MAX)
        return mt_error(MT_EPROTO, 0, "ring: record length out of range");
    if (bytes > to_end || bytes > c->head_seen - c->tail)
        return mt_error(MT_EPROTO, 0, "ring: record runs past its area or past what is published");
    if (record->kind == LANE_JUMP &&
        (record->length != LANE_RECORD_SIZE || record->slot != c->area + 1 || record->slot >= LANE_RING_AREAS))
        return mt_error(MT_EPROTO, 0, "ring: jump to an area that is not the next");
    return mt_ok();
}

mt_status lane_ring_peek(struct lane_consumer *c, struct lane_record *out, const uint8_t **payload, bool *found)
{
    *found = false;
    while (lane_ring_has_more(c)) {
        uint64_t       size = area_size(c->area);
        uint64_t       offset = (c->tail - c->area_start) & (size - 1);
        const uint8_t *at = c->data + area_offset(c->area) + offset;

        if (c->head_seen - c->tail > LANE_RING_BYTES || (c->head_seen & 63))
            return mt_error(MT_EPROTO, 0, "ring: head is not a place of this ring");
        shm_read(out, at, sizeof *out);
        MT_TRY(check_record(c, out, size - offset));
        c->record_bytes = (uint32_t)lane_record_padded(out->length);
        if (out->kind == LANE_JUMP) {
            c->tail += LANE_RECORD_SIZE;
            c->area++;
            c->area_start = c->tail;
        } else if (out->kind == LANE_PAD) {
            c->tail += c->record_bytes;
        } else {
            *payload = at + LANE_RECORD_SIZE;
            *found = true;
            return mt_ok();
        }
    }
    return mt_ok();
}

bool lane_ring_peek_unpublished(struct lane_consumer *c, struct lane_record *out, const uint8_t **payload)
{
    for (int fillers = 0; fillers < 2 * LANE_RING_AREAS; fillers++) { /* at most a pad and a jump an area */
        uint64_t       size = area_size(c->area);
        uint64_t       offset = (c->tail - c->area_start) & (size - 1), to_end = size - offset;
        const uint8_t *at = c->data + area_offset(c->area) + offset;
        shm_read(out, at, sizeof *out);
        if (out->kind == LANE_JUMP && out->slot == c->area + 1 && out->slot < LANE_RING_AREAS) {
            c->tail += LANE_RECORD_SIZE;
            c->area++;
            c->area_start = c->tail;
        } else if (out->kind == LANE_PAD && out->length == to_end && offset != 0) {
            c->tail += to_end;
        } else {
            c->record_bytes = (uint32_t)lane_record_padded(out->length);
            *payload = at + LANE_RECORD_SIZE;
            return out->length >= LANE_RECORD_SIZE && out->length <= LANE_RECORD_MAX && c->record_bytes <= to_end;
        }
    }
    return false;
}
