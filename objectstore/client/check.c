/* SPDX-License-Identifier: Apache-2.0
 *
 * check.c - what must always hold in a process's side of the store: for tests and the simulation.
 */
#include "objectstore/client/private.h"

/* ---- pins ---- */

static uint32_t free_slots(const struct os_client *client)
{
    uint32_t count = 0;
    for (uint32_t at = client->held_free; at && count <= client->held_capacity; at = client->held[at - 1].next)
        count++;
    return count;
}

static uint32_t slots_in_buckets(const struct os_client *client)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < client->held_buckets; i++)
        for (uint32_t at = client->held_bucket[i]; at && count <= client->held_capacity; at = client->held[at - 1].next)
            count++;
    return count;
}

static const char *check_pins(const struct os_client *client)
{
    uint32_t used = 0, in_segments = 0;
    for (uint32_t i = 0; i < client->held_capacity; i++) {
        const struct os_held *held = &client->held[i];
        if ((held->count > 0) != (shm_load64(&client->pins->slot[i]) != 0))
            return "a slot is counted here and not set in the table, or the other way round";
        if (held->count > 0 && os_find_held(client, held->place) != held)
            return "a pinned place is not found";
        used += held->count > 0;
    }
    for (uint32_t i = 0; i < OS_BUCKETS; i++)
        for (const struct os_mapped *mapped = client->mapped[i]; mapped; mapped = mapped->next)
            in_segments += mapped->pinned;
    if (used != client->pinned || used != in_segments)
        return "the counts of pinned places are wrong";
    if (slots_in_buckets(client) != used || free_slots(client) != client->held_capacity - used)
        return "a slot is in two places, or in none";
    return NULL;
}

/* ---- places ---- */

static const char *check_slab(const struct os_client *client, const struct os_slab *slab)
{
    uint32_t free_count = 0;
    for (uint32_t i = 0; i < sizeof slab->free / sizeof *slab->free; i++)
        free_count += (uint32_t)__builtin_popcountll(slab->free[i]);
    if (free_count != slab->free_count)
        return "a slab's free places are counted wrongly";
    const struct os_slab *at = client->partial[slab->size_class];
    while (at && at != slab)
        at = at->next;
    return (at != NULL) == (free_count > 0) ? NULL : "a slab with a free place is not listed, or a full one is";
}

static const char *check_places(const struct os_client *client)
{
    uint64_t bytes = 0, used = 0;
    for (const struct os_own *own = client->own_newest; own; own = own->older) {
        uint32_t out = 0;
        bytes += own->mapped.size;
        used += (uint64_t)(own->chunks - own->head_chunks - own->free_chunks) * OS_CHUNK;
        for (uint32_t i = own->head_chunks; i < own->chunks; i++) {
            const struct os_slab *slab = own->chunk[i].slab;
            const char           *breach = slab && slab->chunk == i ? check_slab(client, slab) : NULL;
            if (breach)
                return breach;
            out += os_bit_is_set(own->used, i);
            if (!os_bit_is_set(own->used, i) && (slab || own->chunk[i].run || i < own->lowest_free))
                return "a free chunk belongs to a slab or a run, or is passed over";
        }
        if (out != own->chunks - own->head_chunks - own->free_chunks)
            return "a segment's free chunks are counted wrongly";
    }
    return bytes == client->own_bytes && used == client->used_bytes ? NULL : "the sums of the segments are wrong";
}

const char *os_client_check(const struct os_client *client)
{
    const char *breach = check_pins(client);
    return breach ? breach : check_places(client);
}
