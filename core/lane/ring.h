/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.h - a ring of records with one producer and one consumer, in shared memory, that grows in place.
 *
 * The data is a row of areas, each twice as large as the one before (4 KiB, 8 KiB, ... 1 MiB), in one sparse mapping:
 * only touched pages cost memory. The producer starts in area 0; when that is full it writes a JUMP and goes on in
 * the next one. Within an area positions wrap; a record never does (a PAD fills the end). `head` and `tail` count
 * bytes for ever and are each written by one side.
 *
 *   area 0       area 1               area 2
 *   +----------+ +------------------+ +-------------------------------- ...
 *   |r|r|r|JUMP| |r|r|PAD           | |
 *   +----------+ +------------------+ +-------------------------------- ...
 *
 * The producer publishes in batches: records are written, then one release store of `head` shows them all. The
 * consumer copies each header out once and validates it; a peer that breaks the rules gets MT_EPROTO and the ring is
 * dropped. A dead producer leaves a ring to drop, never a lock to repair.
 */
#ifndef LANE_RING_H
#define LANE_RING_H

#include "core/base/debug.h"
#include "core/lane/record.h"
#include "core/lane/shm.h"

enum {
    LANE_RING_AREA0 = 4096,
    LANE_RING_AREAS = 9,                                              /* the last: 1 MiB */
    LANE_RING_BYTES = LANE_RING_AREA0 * ((1 << LANE_RING_AREAS) - 1), /* of mapping for the data */
};

/* The two words that both sides share, each on a line of its own (two lines: the prefetcher takes pairs). */
struct lane_ring_words {
    shm_u64 head; /* bytes published; written by the producer */
    uint8_t pad0[120];
    shm_u64 tail; /* bytes consumed; written by the consumer */
    uint8_t pad1[120];
};
static_assert(sizeof(struct lane_ring_words) == 256, "two pairs of cache lines");

/* One side's private view. Both sides start from zeroed shared memory. */
struct lane_producer {
    struct lane_ring_words *words;
    uint8_t                *data;
    uint64_t                head; /* written, perhaps not yet published */
    uint64_t                published;
    uint64_t                tail_seen;  /* a copy of words->tail: reading that line costs a miss */
    uint64_t                area_start; /* position at which the present area was entered */
    uint32_t                area;
    uint32_t                reserved; /* bytes of the reservation that is not committed yet */
};

struct lane_consumer {
    struct lane_ring_words *words;
    const uint8_t          *data;
    uint64_t                tail; /* consumed, perhaps not yet released */
    uint64_t                released;
    uint64_t                head_seen;
    uint64_t                area_start;
    uint32_t                area;
    uint32_t                record_bytes; /* of the record that peek showed, padding included; 0: it is consumed */
};

/* `words` and `data` (LANE_RING_BYTES) are shared and zeroed when the ring begins. */
void lane_producer_init(struct lane_producer *p, struct lane_ring_words *words, void *data);
void lane_consumer_init(struct lane_consumer *c, struct lane_ring_words *words, const void *data);

/* Room for one record of `length` bytes (header included, <= LANE_RECORD_MAX), contiguous and 64-aligned, or NULL when
 * the largest area is full. The caller writes header and payload there, then calls commit with that length or a
 * smaller one. */
void                  *lane_ring_reserve(struct lane_producer *p, uint32_t length);
static inline uint64_t lane_record_padded(uint32_t length)
{
    return ((uint64_t)length + 63) & ~(uint64_t)63;
}
static inline void lane_ring_commit(struct lane_producer *p, uint32_t length)
{
    MT_ASSERT_DEBUG(lane_record_padded(length) <= p->reserved); /* else it stands on what the consumer has not released */
    p->reserved = 0;
    p->head += lane_record_padded(length);
}
/* Shows the consumer all that was committed. Waking it is the caller's (park.h). */
static inline void lane_ring_publish(struct lane_producer *p)
{
    if (p->published != p->head) {
        MT_ASSERT_DEBUG(p->head > p->published); /* what was shown is the consumer's */
        p->published = p->head;
        shm_store64_release(&p->words->head, p->head);
    }
}
/* Whether the consumer has released all that it was shown. */
static inline bool lane_ring_is_taken(const struct lane_producer *p)
{
    return shm_load64(&p->words->tail) == p->published;
}
static inline bool lane_ring_has_unpublished(const struct lane_producer *p)
{
    return p->published != p->head;
}

/* Copies a whole record in: reserve, write, commit. False when full. `record->length` covers the payload. */
bool lane_ring_push(struct lane_producer *p, const struct lane_record *record, const void *payload);

/* Copies the next record's header to *out and points *payload into the ring (valid until release; the peer may still
 * scribble on it, so what must be validated is copied first). MT_OK with *found false where there is none yet.
 * EPROTO when the peer broke the rules: drop the ring. PAD and JUMP are passed over. */
MT_MUST_USE mt_status lane_ring_peek(struct lane_consumer *c, struct lane_record *out, const uint8_t **payload, bool *found);
/* The producer is dead, and all that it published is consumed: shows what stands behind that, where it may have written
 * records without publishing them. What is shown may as well be a record of an earlier round or half of one, so it is
 * believed only where something else proves it (claim.h: a slot that says DONE for its sequence). False: nothing that looks
 * like a record. Changes *c past use for anything but this and lane_ring_consume. */
bool lane_ring_peek_unpublished(struct lane_consumer *c, struct lane_record *out, const uint8_t **payload);
/* Goes past the record that peek showed. */
static inline void lane_ring_consume(struct lane_consumer *c)
{
    MT_ASSERT_DEBUG(c->record_bytes); /* one for each peek */
    c->tail += c->record_bytes;
    c->record_bytes = 0;
}
/* Gives the space of all consumed records back to the producer. */
static inline void lane_ring_release(struct lane_consumer *c)
{
    if (c->released != c->tail) {
        c->released = c->tail;
        shm_store64_release(&c->words->tail, c->tail);
    }
}
/* Whether a record may be there: one acquire load at most. */
static inline bool lane_ring_has_more(struct lane_consumer *c)
{
    if (c->head_seen == c->tail)
        c->head_seen = shm_load64_acquire(&c->words->head);
    return c->head_seen != c->tail;
}

#endif
