/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what the files of the client half share. All of it is this process's private memory.
 */
#ifndef OS_CLIENT_PRIVATE_H
#define OS_CLIENT_PRIVATE_H

#include "objectstore/client/client.h"

/* A segment that is mapped here. */
struct os_mapped {
    struct os_mapped *next; /* in its bucket */
    uint32_t          number;
    uint32_t          pinned; /* places in it that are pinned here */
    uint64_t          size;
    uint8_t          *data;        /* read-only memory unless `own` */
    const uint8_t    *view;        /* the same memory, read-only: what pins hand out */
    shm_u32          *generations; /* read-only memory */
    struct os_own    *own;         /* NULL: another process writes it */
};

/* A slab that is cut into places of one class. */
struct os_slab {
    struct os_slab *next, *prev; /* in client->partial while it has a free place; next alone in spare_slabs */
    struct os_own  *own;
    uint32_t        chunk; /* the first of its OS_SLAB_CHUNKS */
    uint32_t        size_class;
    uint32_t        places;
    uint32_t        free_count;
    uint64_t        free[OS_PLACES_MAX / 64]; /* a bit per place */
};

struct os_chunk {
    struct os_slab *slab;      /* of each chunk of a slab */
    uint32_t        run;       /* chunks of the run that begins here */
    bool            is_frozen; /* the run's header can't be written before client->thaw */
};

/* A segment that this process writes. */
struct os_own {
    struct os_mapped mapped;
    struct os_own   *older;
    uint32_t         chunks;
    uint32_t         head_chunks; /* header and chunk words */
    uint32_t         free_chunks;
    uint32_t         lowest_free; /* no chunk below is free */
    struct os_chunk *chunk;
    uint64_t        *used;   /* a bit per chunk: given out. The head's are not looked at: lowest_free is behind them */
    uint64_t        *warm;   /* a bit per chunk: has pages */
    uint64_t        *recent; /* a bit per chunk: given out or taken back in this trim round */
};

/* One pin slot. */
struct os_held {
    uint64_t place;
    uint32_t generation;
    uint32_t count;      /* of this process's pins on it */
    uint32_t next;       /* slot + 1, in its bucket or in the chain of free ones */
    bool     free_later; /* os_client_free was called while it was pinned */
};

static inline struct os_mapped *os_find_mapped(const struct os_client *client, uint32_t segment)
{
    struct os_mapped *mapped = client->mapped[segment % OS_BUCKETS];
    while (mapped && mapped->number != segment)
        mapped = mapped->next;
    return mapped;
}

static inline uint32_t os_held_bucket_of(const struct os_client *client, uint64_t place)
{
    return (uint32_t)(place * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (client->held_buckets - 1);
}

/* The slot that pins `place` here, or NULL. */
static inline struct os_held *os_find_held(const struct os_client *client, uint64_t place)
{
    if (client->pinned == 0)
        return NULL;
    uint32_t slot = client->held_bucket[os_held_bucket_of(client, place)];
    while (slot && client->held[slot - 1].place != place)
        slot = client->held[slot - 1].next;
    return slot ? &client->held[slot - 1] : NULL;
}

static inline struct os_object *os_object_at(const struct os_own *own, uint64_t offset)
{
    return (struct os_object *)(void *)(own->mapped.data + offset);
}

static inline bool os_bit_is_set(const uint64_t *bits, uint32_t i)
{
    return bits[i / 64] >> i % 64 & 1;
}

static inline void os_bits_clear(uint64_t *bits, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        bits[i / 64] &= ~(UINT64_C(1) << i % 64);
}

/* Gives a place of an own segment back to its slab or its chunks; by_raylet: the raylet has handed it back. EINVAL: no
 * such place, or free already. EAGAIN: the raylet has taken it, and hands it back when it hears that the object is dead. */
mt_status os_place_free(struct os_client *client, struct os_own *own, uint64_t offset, bool by_raylet);
/* Slabs of which no place is in use become chunks again. */
void os_slabs_trim(struct os_client *client);
/* Forgets all slabs of `own` and its private memory. */
void os_own_delete(struct os_client *client, struct os_own *own);

#endif
