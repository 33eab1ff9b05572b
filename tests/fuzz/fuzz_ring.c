/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_ring.c - both sides of a ring against a peer that writes anything: EPROTO or clean, never outside the mapping.
 *
 * The input is a program: each step is one byte of what to do and its operands. It may write anywhere in the data, set
 * head or tail, and lets the honest consumer and producer go on in between.
 */
#include "core/lane/ring.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum { FUZZ_STEPS_MAX = 512, FUZZ_PEEKS_MAX = 64 };

struct fuzz {
    const uint8_t         *at, *end;
    struct lane_ring_words words;
    struct lane_consumer   c;
    struct lane_producer   p;
    uint8_t               *data;
    bool                   dropped; /* the consumer has got EPROTO */
};

static uint64_t take(struct fuzz *f, size_t bytes)
{
    uint64_t x = 0;
    for (size_t i = 0; i < bytes && f->at < f->end; i++)
        x = x << 8 | *f->at++;
    return x;
}

static void scribble(struct fuzz *f)
{
    uint64_t at = take(f, 3) % LANE_RING_BYTES & ~(uint64_t)3;
    uint32_t x = (uint32_t)take(f, 4);
    memcpy(f->data + at, &x, sizeof x);
}

static void forge_record(struct fuzz *f)
{
    struct lane_record r = {.length = (uint32_t)take(f, 2), .kind = (uint16_t)take(f, 1), .slot = (uint32_t)take(f, 1)};
    uint64_t           at = take(f, 2) * LANE_RECORD_SIZE % (LANE_RING_BYTES - LANE_RECORD_SIZE) & ~(uint64_t)63;
    memcpy(f->data + at, &r, sizeof r);
}

static void consume(struct fuzz *f)
{
    struct lane_record r;
    const uint8_t     *payload;
    bool               found = true;
    for (int i = 0; i < FUZZ_PEEKS_MAX && found && !f->dropped; i++) {
        mt_status st = lane_ring_peek(&f->c, &r, &payload, &found);
        f->dropped = st.code != MT_OK;
        if (f->dropped || !found)
            break;
        if (r.length < LANE_RECORD_SIZE || r.length > LANE_RECORD_MAX || payload < f->data + LANE_RECORD_SIZE ||
            payload - LANE_RECORD_SIZE + r.length > f->data + LANE_RING_BYTES)
            abort();
        lane_ring_consume(&f->c);
    }
    lane_ring_release(&f->c);
}

static void produce(struct fuzz *f)
{
    uint32_t length = LANE_RECORD_SIZE + (uint32_t)take(f, 2) % (LANE_RECORD_MAX - LANE_RECORD_SIZE + 1);
    uint8_t *at = lane_ring_reserve(&f->p, length);
    if (!at)
        return;
    memset(at, 0x5a, length); /* the sanitizer says when this leaves the mapping */
    lane_ring_commit(&f->p, length);
    lane_ring_publish(&f->p);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct fuzz f = {.at = input, .end = input + size, .data = calloc(1, LANE_RING_BYTES)};
    if (!f.data)
        return 0;
    lane_consumer_init(&f.c, &f.words, f.data);
    lane_producer_init(&f.p, &f.words, f.data);
    for (int step = 0; step < FUZZ_STEPS_MAX && f.at < f.end; step++) {
        switch (take(&f, 1) % 6) {
        case 0: scribble(&f); break;
        case 1: forge_record(&f); break;
        case 2: shm_store64_release(&f.words.head, take(&f, 3)); break;
        case 3: shm_store64_release(&f.words.tail, take(&f, 8)); break;
        case 4: consume(&f); break;
        default: produce(&f); break;
        }
    }
    consume(&f);
    free(f.data);
    return 0;
}
