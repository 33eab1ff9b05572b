/* SPDX-License-Identifier: Apache-2.0
 *
 * alloc.c - places in the segments that this process writes: slabs of size classes, runs of chunks.
 *
 * Owns:    struct os_own and struct os_slab; the chunk words and state words in own segments.
 * Thread:  the client's.
 * Always:  a slab is in client->partial[class] iff it has a free place (os_client_check); the chunk word of a slab or run is
 * set after the state words of all its places were made EMPTY and before the first of them is SEALED, so
 * whoever walks the segment after this process was killed, at whatever point, finds whole objects only.
 */
#include "objectstore/client/private.h"
#include "objectstore/layout/sum.h"

#include <stdlib.h>

static const uint16_t class_sizes[OS_CLASSES + 1] = OS_CLASS_SIZES;

static uint64_t place_bytes(uint64_t size)
{
    return (size + OS_HEADER_SIZE + OS_UNIT - 1) / OS_UNIT * OS_UNIT;
}

/* The least segment, a multiple of `step` bytes, that holds one value of `size` bytes. 0: no segment is so large. */
static uint64_t segment_bytes_for(uint64_t size, uint64_t step)
{
    if (size > UINT64_C(1) << 40)
        return 0;
    uint64_t body = place_bytes(size) <= OS_CLASS_MAX ? OS_SLAB : (place_bytes(size) + OS_CHUNK - 1) / OS_CHUNK * OS_CHUNK;
    uint64_t bytes = body;
    do { /* the head grows with the segment: at most a few rounds */
        bytes = (body + (uint64_t)os_head_chunks(bytes) * OS_CHUNK + step - 1) / step * step;
    } while (bytes < body + (uint64_t)os_head_chunks(bytes) * OS_CHUNK);
    return bytes / OS_CHUNK <= 0xffffff ? bytes : 0;
}

static void bits_set(uint64_t *bits, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        bits[i / 64] |= UINT64_C(1) << i % 64;
}

/* --- chunks
 * ----------------------------------------------------------------------------------------------------- */

/* `count` free chunks in a row, first fit. 0: there are none (chunk 0 is always the head's). */
static uint32_t find_chunks(struct os_own *own, uint32_t count)
{
    if (own->free_chunks < count)
        return 0;
    uint32_t row = 0;
    bool     low = true;
    for (uint32_t i = own->lowest_free; i < own->chunks; i++) {
        if (i % 64 == 0 && own->used[i / 64] == UINT64_MAX) {
            row = 0;
            i += 63;
            continue;
        }
        if (os_bit_is_set(own->used, i)) {
            row = 0;
            continue;
        }
        if (low)
            own->lowest_free = i;
        low = false;
        if (++row == count)
            return i + 1 - count;
    }
    return 0;
}

/* `out_cold`: whether some of them may have no pages yet. */
static uint32_t take_chunks(struct os_client *client, uint32_t count, struct os_own **out_own, bool *out_cold)
{
    for (struct os_own *own = client->own_newest; own; own = own->older) {
        uint32_t first = find_chunks(own, count);
        if (first == 0)
            continue;
        *out_cold = false;
        for (uint32_t i = first; i < first + count && !*out_cold; i++)
            *out_cold = !os_bit_is_set(own->warm, i);
        bits_set(own->used, first, count);
        bits_set(own->warm, first, count);
        bits_set(own->recent, first, count);
        own->free_chunks -= count;
        client->used_bytes += (uint64_t)count * OS_CHUNK;
        *out_own = own;
        return first;
    }
    return 0;
}

static void give_chunks(struct os_client *client, struct os_own *own, uint32_t first, uint32_t count)
{
    shm_store32_release(&os_chunk_words(own->mapped.data)[first], 0);
    os_bits_clear(own->used, first, count);
    bits_set(own->recent, first, count);
    own->free_chunks += count;
    if (first < own->lowest_free)
        own->lowest_free = first;
    client->used_bytes -= (uint64_t)count * OS_CHUNK;
}

/* --- slabs
 * ------------------------------------------------------------------------------------------------------ */

static void partial_insert(struct os_client *client, struct os_slab *slab)
{
    struct os_slab **head = &client->partial[slab->size_class];
    slab->prev = NULL;
    slab->next = *head;
    if (*head)
        (*head)->prev = slab;
    *head = slab;
}

static void partial_remove(struct os_client *client, struct os_slab *slab)
{
    if (slab->prev)
        slab->prev->next = slab->next;
    else
        client->partial[slab->size_class] = slab->next;
    if (slab->next)
        slab->next->prev = slab->prev;
    slab->next = slab->prev = NULL;
}

/* Cuts fresh chunks into places. What stood there before may look like headers, so the states come first. */
static void slab_format(struct os_slab *slab)
{
    uint32_t size = class_sizes[slab->size_class];
    slab->places = slab->free_count = OS_SLAB / size;
    memset(slab->free, 0, sizeof slab->free);
    bits_set(slab->free, 0, slab->places);
    for (uint32_t i = 0; i < slab->places; i++)
        shm_store32(&os_object_at(slab->own, (uint64_t)slab->chunk * OS_CHUNK + (uint64_t)i * size)->state, OS_EMPTY);
    shm_store32_release(&os_chunk_words(slab->own->mapped.data)[slab->chunk], os_chunk_word(slab->size_class, OS_SLAB_CHUNKS));
    for (uint32_t i = 0; i < OS_SLAB_CHUNKS; i++)
        slab->own->chunk[slab->chunk + i].slab = slab;
}

/* A new slab of the class, in the partial list. NULL: no chunks, or (out_status ENOMEM) no private memory. */
static struct os_slab *slab_new(struct os_client *client, uint32_t size_class, mt_status *out_status)
{
    struct os_slab *slab = client->spare_slabs;
    if (slab)
        client->spare_slabs = slab->next;
    else if (!(slab = calloc(1, sizeof *slab))) {
        *out_status = mt_error(MT_ENOMEM, 0, "object store: slab");
        return NULL;
    }
    slab->size_class = size_class;
    bool cold;
    slab->chunk = take_chunks(client, OS_SLAB_CHUNKS, &slab->own, &cold);
    if (slab->chunk == 0) {
        slab->next = client->spare_slabs;
        client->spare_slabs = slab;
        return NULL;
    }
    slab_format(slab);
    partial_insert(client, slab);
    return slab;
}

/* A wholly free slab gives its chunks back. */
static void slab_release(struct os_client *client, struct os_slab *slab)
{
    partial_remove(client, slab);
    for (uint32_t i = 0; i < OS_SLAB_CHUNKS; i++)
        slab->own->chunk[slab->chunk + i].slab = NULL;
    give_chunks(client, slab->own, slab->chunk, OS_SLAB_CHUNKS);
    slab->next = client->spare_slabs;
    client->spare_slabs = slab;
}

static uint64_t slab_take_place(struct os_client *client, struct os_slab *slab)
{
    uint32_t word = 0;
    while (slab->free[word] == 0)
        word++;
    uint32_t place = word * 64 + (uint32_t)__builtin_ctzll(slab->free[word]);
    slab->free[word] &= slab->free[word] - 1;
    if (--slab->free_count == 0)
        partial_remove(client, slab);
    return (uint64_t)slab->chunk * OS_CHUNK + (uint64_t)place * class_sizes[slab->size_class];
}

/* The state word of a place that its writer frees by itself: the raylet may be taking it at this moment. */
static bool state_clear(struct os_object *object)
{
    return shm_load32(&object->state) == OS_WRITING || shm_cas32(&object->state, OS_SEALED, OS_EMPTY);
}

static mt_status taken(void)
{
    return mt_error(MT_EAGAIN, 0, "object store: the raylet has this place; tell it that the object is dead");
}

static mt_status slab_free_place(struct os_client *client, struct os_slab *slab, uint64_t offset, bool by_raylet)
{
    uint32_t inside = (uint32_t)(offset - (uint64_t)slab->chunk * OS_CHUNK);
    uint32_t place = inside / class_sizes[slab->size_class];
    if (inside % class_sizes[slab->size_class] != 0 || place >= slab->places || os_bit_is_set(slab->free, place))
        return mt_error(MT_EINVAL, 0, "object store: free of a place that is not in use");
    if (!by_raylet && !state_clear(os_object_at(slab->own, offset)))
        return taken();
    shm_store32_release(&os_object_at(slab->own, offset)->state, OS_EMPTY);
    bits_set(slab->free, place, 1);
    if (slab->free_count++ == 0)
        partial_insert(client, slab);
    /* One empty slab per class is kept, or a class used by one object at a time would cut a slab for each. */
    if (slab->free_count == slab->places && (slab->next || slab->prev))
        slab_release(client, slab);
    return mt_ok();
}

/* Gives every wholly free slab's chunks back. */
void os_slabs_trim(struct os_client *client)
{
    for (uint32_t c = 1; c <= OS_CLASSES; c++)
        for (struct os_slab *slab = client->partial[c], *next; slab; slab = next) {
            next = slab->next;
            if (slab->free_count == slab->places)
                slab_release(client, slab);
        }
}

/* --- places
 * ----------------------------------------------------------------------------------------------------- */

static mt_status take_place(struct os_client *client, uint64_t bytes, struct os_own **out_own, uint64_t *out_offset, bool *out_cold)
{
    mt_status none = mt_error(MT_EAGAIN, 0, "object store: this process needs another segment");
    if (bytes <= OS_CLASS_MAX) {
        uint32_t        size_class = client->class_of[bytes / OS_UNIT];
        struct os_slab *slab = client->partial[size_class];
        if (!slab && !(slab = slab_new(client, size_class, &none)))
            return none;
        *out_own = slab->own;
        *out_offset = slab_take_place(client, slab);
        return mt_ok();
    }
    uint32_t count = (uint32_t)((bytes + OS_CHUNK - 1) / OS_CHUNK);
    uint32_t first = take_chunks(client, count, out_own, out_cold);
    if (first == 0)
        return none;
    (*out_own)->chunk[first].run = count;
    *out_offset = (uint64_t)first * OS_CHUNK;
    shm_store32(&os_object_at(*out_own, *out_offset)->state, OS_EMPTY);
    shm_store32_release(&os_chunk_words((*out_own)->mapped.data)[first], os_chunk_word(OS_RUN, count));
    return mt_ok();
}

mt_status os_client_alloc(struct os_client *client, uint64_t size, struct os_place *out_place, void **out_data, uint64_t *out_want)
{
    *out_want = segment_bytes_for(size, UINT64_C(1) << 20);
    if (*out_want == 0)
        return mt_error(MT_EINVAL, 0, "object store: larger than any segment");
    struct os_own *own;
    uint64_t       offset;
    bool           cold = false;
    MT_TRY(take_place(client, place_bytes(size), &own, &offset, &cold));

    struct os_object *object = os_object_at(own, offset);
    shm_store32(&object->state, OS_WRITING);
    *out_place = (struct os_place){.segment = own->mapped.number,
                                   .generation = shm_load32_acquire(&own->mapped.generations[offset / OS_UNIT]),
                                   .offset = offset,
                                   .cold = cold ? size : 0};
    *out_data = object + 1;
    return mt_ok();
}

void os_client_publish(const struct os_client *client, struct os_place place, void *data, mt_id id, uint32_t owner_node,
                       uint64_t size, uint8_t type, struct lane_ref *out_ref)
{
    struct os_object *object = (struct os_object *)data - 1;
    struct os_object  header = {
         .generation = place.generation, .id = id, .size = size, .owner_node = owner_node, .job = client->job, .type = type};
    size_t after_state = offsetof(struct os_object, generation);
    if (place.is_summed || client->is_summing) {
        header.flags = OS_OBJECT_SUMMED;
        header.sum = place.is_summed ? place.sum : os_sum(data, size);
    }
    shm_write((uint8_t *)object + after_state, (uint8_t *)&header + after_state, sizeof header - after_state);
    shm_store32_release(&object->state, OS_SEALED);
    *out_ref = (struct lane_ref){.id = id,
                                 .owner_node = owner_node,
                                 .node = client->node,
                                 .segment = place.segment,
                                 .generation = place.generation,
                                 .offset = place.offset,
                                 .size = size,
                                 .job = client->job,
                                 .type = type};
}

mt_status os_client_verify(const void *data, uint64_t size)
{
    const struct os_object *object = (const struct os_object *)data - 1;
    struct os_object        header;
    shm_read(&header, object, sizeof header);
    if (!(header.flags & OS_OBJECT_SUMMED) || os_sum(data, size) == header.sum)
        return mt_ok();
    return mt_error(MT_ECORRUPT, 0, "the value is not what was put: its bytes in shared memory have changed since");
}

void os_client_frozen(struct os_client *client, struct os_place place)
{
    struct os_mapped *mapped = os_find_mapped(client, place.segment);
    MT_ASSERT(mapped && mapped->own && mapped->own->chunk[place.offset / OS_CHUNK].run && client->thaw);
    mapped->own->chunk[place.offset / OS_CHUNK].is_frozen = true;
    client->frozen++;
}

static bool run_thaw(struct os_client *client, struct os_own *own, uint64_t offset)
{
    struct os_chunk *chunk = &own->chunk[offset / OS_CHUNK];
    if (!chunk->is_frozen)
        return true;
    if (!client->thaw(os_object_at(own, offset)))
        return false;
    chunk->is_frozen = false;
    client->frozen--;
    return true;
}

mt_status os_place_free(struct os_client *client, struct os_own *own, uint64_t offset, bool by_raylet)
{
    if (offset >= own->mapped.size || offset % OS_UNIT != 0)
        return mt_error(MT_EINVAL, 0, "object store: free of a place that is not in use");
    uint32_t         first = (uint32_t)(offset / OS_CHUNK);
    struct os_chunk *chunk = &own->chunk[first];
    if (chunk->slab)
        return slab_free_place(client, chunk->slab, offset, by_raylet);
    if (chunk->run == 0 || offset % OS_CHUNK != 0)
        return mt_error(MT_EINVAL, 0, "object store: free of a place that is not in use");
    if (!run_thaw(client, own, offset))
        return mt_ok();
    if (!by_raylet && !state_clear(os_object_at(own, offset)))
        return taken();
    shm_store32_release(&os_object_at(own, offset)->state, OS_EMPTY);
    give_chunks(client, own, first, chunk->run);
    chunk->run = 0;
    return mt_ok();
}

mt_status os_client_free(struct os_client *client, uint32_t segment, uint64_t offset, uint32_t generation)
{
    struct os_mapped *mapped = os_find_mapped(client, segment);
    if (!mapped || !mapped->own)
        return mt_error(MT_EINVAL, 0, "object store: free in a segment that is not ours");
    if (offset >= mapped->size || offset % OS_UNIT != 0)
        return mt_error(MT_EINVAL, 0, "object store: free of a place that is not in use");
    if (shm_load32_acquire(&mapped->generations[offset / OS_UNIT]) != generation)
        return taken(); /* and perhaps handed back since, and in use again */
    struct os_held *held = os_find_held(client, os_place_word(segment, offset));
    if (held) {
        held->free_later = true;
        return mt_ok();
    }
    return os_place_free(client, mapped->own, offset, false);
}

mt_status os_client_space_back(struct os_client *client, uint32_t segment, uint64_t offset)
{
    struct os_mapped *mapped = os_find_mapped(client, segment);
    if (!mapped || !mapped->own)
        return mt_error(MT_ENOENT, 0, "object store: space handed back that is not ours");
    if (os_find_held(client, os_place_word(segment, offset)))
        return mt_error(MT_EPROTO, 0, "object store: space handed back that is pinned here");
    if (os_place_free(client, mapped->own, offset, true).code != MT_OK)
        return mt_error(MT_EPROTO, 0, "object store: space handed back that was free");
    return mt_ok();
}

/* --- the end of a segment
 * --------------------------------------------------------------------------------------------------- */

void os_own_delete(struct os_client *client, struct os_own *own)
{
    for (uint32_t i = own->head_chunks; i < own->chunks;) {
        struct os_slab *slab = own->chunk[i].slab;
        client->frozen -= own->chunk[i].is_frozen;
        i += slab ? OS_SLAB_CHUNKS : 1;
        if (slab && slab->free_count)
            partial_remove(client, slab);
        free(slab);
    }
    struct os_own **link = &client->own_newest;
    while (*link != own)
        link = &(*link)->older;
    *link = own->older;
    client->own_bytes -= own->mapped.size;
    client->used_bytes -= (uint64_t)(own->chunks - own->head_chunks - own->free_chunks) * OS_CHUNK;
    free(own->chunk);
    free(own->used);
    free(own);
}
