/* SPDX-License-Identifier: Apache-2.0
 *
 * segment.c - which segments this process has mapped, which of them it writes, and what it gives back.
 *
 * Owns:    the table of mapped segments; struct os_own until alloc.c deletes it.
 * Thread:  the client's.
 */
#include "objectstore/client/private.h"

#include <stdlib.h>

mt_status os_client_add_reader(struct os_client *client, uint32_t segment, uint64_t size, const void *data, const void *generations)
{
    if (segment == 0 || segment > OS_SEGMENT_MAX || size % OS_CHUNK != 0 || size == 0 || size / OS_CHUNK > 0xffffff)
        return mt_error(MT_EINVAL, 0, "object store: impossible segment");
    if (os_find_mapped(client, segment))
        return mt_error(MT_EEXIST, 0, "object store: segment is mapped");
    struct os_mapped *mapped = calloc(1, sizeof *mapped);
    if (!mapped)
        return mt_error(MT_ENOMEM, 0, "object store: mapped segment");
    *mapped = (struct os_mapped){.number = segment,
                                 .size = size,
                                 .data = (uint8_t *)(uintptr_t)data,
                                 .view = data,
                                 .generations = (shm_u32 *)(uintptr_t)generations,
                                 .next = client->mapped[segment % OS_BUCKETS]};
    client->mapped[segment % OS_BUCKETS] = mapped;
    return mt_ok();
}

mt_status os_client_drop(struct os_client *client, uint32_t segment)
{
    struct os_mapped **link = &client->mapped[segment % OS_BUCKETS];
    while (*link && (*link)->number != segment)
        link = &(*link)->next;
    struct os_mapped *mapped = *link;
    if (!mapped)
        return mt_error(MT_ENOENT, 0, "object store: segment is not mapped");
    if (mapped->pinned)
        return mt_error(MT_EAGAIN, 0, "object store: segment is being read");
    *link = mapped->next;
    if (mapped->own)
        os_own_delete(client, mapped->own);
    else
        free(mapped);
    return mt_ok();
}

static mt_status own_new(uint64_t size, struct os_own **out_own)
{
    uint32_t       chunks = (uint32_t)(size / OS_CHUNK), words = (chunks + 63) / 64;
    struct os_own *own = calloc(1, sizeof *own);
    if (!own)
        return mt_error(MT_ENOMEM, 0, "object store: own segment");
    own->chunk = calloc(chunks, sizeof *own->chunk);
    own->used = calloc((size_t)words * 3, sizeof *own->used);
    if (!own->chunk || !own->used) {
        free(own->chunk);
        free(own->used);
        free(own);
        return mt_error(MT_ENOMEM, 0, "object store: own segment");
    }
    own->warm = own->used + words;
    own->recent = own->warm + words;
    own->chunks = chunks;
    own->head_chunks = os_head_chunks(size);
    own->free_chunks = chunks - own->head_chunks;
    own->lowest_free = own->head_chunks;
    *out_own = own;
    return mt_ok();
}

mt_status os_client_add_own(struct os_client *client, uint32_t segment, uint64_t size, void *data, const void *view,
                            const void *generations)
{
    struct os_mapped *mapped = os_find_mapped(client, segment);
    if (segment == 0 || segment > OS_SEGMENT_MAX || size % OS_CHUNK != 0 || size / OS_CHUNK > 0xffffff ||
        size < (uint64_t)(os_head_chunks(size) + OS_SLAB_CHUNKS) * OS_CHUNK || (mapped && mapped->own))
        return mt_error(MT_EINVAL, 0, "object store: impossible segment");
    if (mapped)
        MT_TRY(os_client_drop(client, segment)); /* granted to us what a dead process wrote and we have read */
    struct os_own *own;
    MT_TRY(own_new(size, &own));
    own->mapped = (struct os_mapped){.number = segment,
                                     .size = size,
                                     .data = data,
                                     .view = view,
                                     .generations = (shm_u32 *)(uintptr_t)generations,
                                     .own = own,
                                     .next = client->mapped[segment % OS_BUCKETS]};
    client->mapped[segment % OS_BUCKETS] = &own->mapped;
    own->older = client->own_newest;
    client->own_newest = own;
    client->own_bytes += size;

    /* What an earlier writer left is dead: its generations have moved on. */
    struct os_segment_header header = {.magic = OS_SEGMENT_MAGIC, .version = OS_VERSION, .size = size};
    for (uint32_t i = 0; i < own->chunks; i++)
        shm_store32(&os_chunk_words(data)[i], 0);
    shm_write(data, &header, sizeof header);
    return mt_ok();
}

/* --- giving memory back
 * ----------------------------------------------------------------------------------------- */

/* A chunk that could be given back now. */
static bool chunk_is_idle(const struct os_own *own, uint32_t i)
{
    return os_bit_is_set(own->warm, i) && !os_bit_is_set(own->used, i) && !os_bit_is_set(own->recent, i);
}

static uint64_t warm_free_bytes(const struct os_own *own)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < (own->chunks + 63) / 64; i++)
        count += (uint64_t)__builtin_popcountll(own->warm[i] & ~own->used[i]);
    return count * OS_CHUNK;
}

static bool own_is_idle(const struct os_own *own)
{
    if (own->free_chunks != own->chunks - own->head_chunks || own->mapped.pinned)
        return false;
    for (uint32_t i = 0; i < (own->chunks + 63) / 64; i++)
        if (own->recent[i])
            return false;
    return true;
}

static bool trim_pages(struct os_own *own, uint64_t bytes_max, struct os_trim *out)
{
    uint32_t first = own->lowest_free;
    while (first < own->chunks && !chunk_is_idle(own, first))
        first++;
    uint32_t count = 0;
    while (first + count < own->chunks && (uint64_t)(count + 1) * OS_CHUNK <= bytes_max && chunk_is_idle(own, first + count))
        count++;
    if (count == 0)
        return false;
    os_bits_clear(own->warm, first, count);
    out->kind = OS_TRIM_PAGES;
    out->segment = own->mapped.number;
    out->data = own->mapped.data + (uint64_t)first * OS_CHUNK;
    out->size = (uint64_t)count * OS_CHUNK;
    return true;
}

void os_client_trim(struct os_client *client, uint64_t keep_bytes, struct os_trim *out)
{
    *out = (struct os_trim){.kind = OS_TRIM_NOTHING};
    os_slabs_trim(client);
    uint64_t warm = 0;
    for (struct os_own *own = client->own_newest; own; own = own->older)
        warm += warm_free_bytes(own);
    /* A whole segment first (the newest are the largest), but a last small one stays: the next put needs no
     * message. */
    for (struct os_own *own = client->own_newest; own; own = own->older) {
        bool kept = !client->own_newest->older || warm - warm_free_bytes(own) < keep_bytes;
        if (!own_is_idle(own) || (kept && own->mapped.size <= keep_bytes))
            continue;
        *out = (struct os_trim){OS_TRIM_SEGMENT,  own->mapped.number, own->mapped.size,
                                own->mapped.data, own->mapped.view,   own->mapped.generations};
        mt_status dropped = os_client_drop(client, own->mapped.number);
        MT_ASSERT(dropped.code == MT_OK);
        return;
    }
    for (struct os_own *own = client->own_newest; own && warm > keep_bytes; own = own->older)
        if (trim_pages(own, warm - keep_bytes, out))
            return;
}

/* Nothing in the segment is ours any more: each place in use is one that the raylet has taken. */
static bool is_all_taken(const struct os_own *own)
{
    for (uint32_t i = own->head_chunks; i < own->chunks; i++) {
        if (own->chunk[i].slab)
            return false; /* its taken places come back one by one */
        uint32_t state = own->chunk[i].run ? shm_load32(&os_object_at(own, (uint64_t)i * OS_CHUNK)->state) : OS_EMPTY;
        if (state == OS_WRITING || state == OS_SEALED)
            return false;
    }
    return own->mapped.pinned == 0;
}

mt_status os_client_surrender(struct os_client *client, uint32_t segment, struct os_trim *out)
{
    struct os_mapped *mapped = os_find_mapped(client, segment);
    if (!mapped || !mapped->own)
        return mt_error(MT_ENOENT, 0, "object store: asked for a segment that is not ours");
    os_slabs_trim(client);
    if (!is_all_taken(mapped->own))
        return mt_error(MT_EAGAIN, 0, "object store: the segment is in use");
    *out = (struct os_trim){OS_TRIM_SEGMENT, segment, mapped->size, mapped->data, mapped->view, mapped->generations};
    return os_client_drop(client, segment);
}

void os_client_trim_round(struct os_client *client)
{
    for (struct os_own *own = client->own_newest; own; own = own->older)
        memset(own->recent, 0, (size_t)((own->chunks + 63) / 64) * sizeof *own->recent);
}

void os_client_fini(struct os_client *client)
{
    for (uint32_t i = 0; i < OS_BUCKETS; i++)
        for (struct os_mapped *mapped = client->mapped[i], *next; mapped; mapped = next) {
            next = mapped->next;
            if (mapped->own)
                os_own_delete(client, mapped->own);
            else
                free(mapped);
        }
    for (struct os_slab *slab = client->spare_slabs, *next; slab; slab = next) {
        next = slab->next;
        free(slab);
    }
    free(client->held);
    free(client->held_bucket);
    *client = (struct os_client){0};
}
