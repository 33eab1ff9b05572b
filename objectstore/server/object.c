/* SPDX-License-Identifier: Apache-2.0
 *
 * object.c - objects as their segments describe them: read, walked over, and ended.
 *
 * Owns:    of shared memory, the generations.
 * Thread:  the raylet's logic thread.
 * Always:  a place is on a dead list from the moment its generation is bumped until it is handed back, once (dead.c).
 */
#include "objectstore/layout/pin.h"
#include "objectstore/server/table.h"

#include <stdlib.h>

static const uint16_t class_sizes[OS_CLASSES + 1] = OS_CLASS_SIZES;

uint64_t os_run_bytes(const struct os_segment *segment, uint64_t offset)
{
    uint32_t size_class, chunk = (uint32_t)(offset / OS_CHUNK);
    uint32_t count = offset % OS_CHUNK == 0 ? os_chunk_says(segment, chunk, &size_class) : 0;
    return count > 0 && size_class == OS_RUN ? (uint64_t)count * OS_CHUNK : 0;
}

mt_status os_dead_reserve(struct os_dead_list *list, size_t extra)
{
    if (list->capacity - list->count >= extra)
        return mt_ok();
    size_t          capacity = (list->count + extra) * 2;
    struct os_dead *data = realloc(list->data, capacity * sizeof *data);
    if (!data)
        return mt_error(MT_ENOMEM, 0, "object store: dead list");
    list->data = data;
    list->capacity = capacity;
    return mt_ok();
}

mt_status os_object_kill(struct os_store *store, struct os_segment *segment, uint64_t offset, bool is_taken)
{
    MT_TRY(os_dead_reserve(&store->fresh, 1));
    store->fresh.data[store->fresh.count++] = (struct os_dead){.place = os_place_word(segment->number, offset),
                                                               .is_taken = is_taken};
    os_generation_bump(os_generation_at(segment, offset));
    segment->dead++;
    if (segment->writer == 0 && segment->objects > 0)
        segment->objects--;
    store->dead_total++;
    return mt_ok();
}

bool os_object_read(const struct os_segment *segment, uint64_t offset, struct os_object *out)
{
    struct os_object *object = (struct os_object *)(void *)((uint8_t *)segment->backing.data + offset);
    if (shm_load32_acquire(&object->state) != OS_SEALED)
        return false;
    size_t after_state = offsetof(struct os_object, generation);
    shm_read((uint8_t *)out + after_state, (uint8_t *)object + after_state, sizeof *out - after_state);
    shm_fence(); /* the copy is of one object only if it is still sealed now */
    return shm_load32_acquire(&object->state) == OS_SEALED && out->generation == shm_load32(os_generation_at(segment, offset)) &&
           out->size <= segment->size - offset - OS_HEADER_SIZE;
}

mt_status os_store_dead(struct os_store *store, uint64_t from, const struct lane_ref *ref)
{
    struct os_segment *segment = os_store_find_segment(store, ref->segment);
    if (!segment && ref->segment != 0 && ref->segment < store->next_number)
        return mt_ok(); /* it was closed with its job */
    if (!segment || ref->offset % OS_UNIT != 0 || ref->offset >= segment->size)
        return mt_error(MT_EINVAL, 0, "object store: no such object");
    if (ref->job != segment->job)
        return mt_error(MT_EWRONGJOB, 0, "object store: object of another job");
    if (shm_load32(os_generation_at(segment, ref->offset)) != ref->generation)
        return mt_ok(); /* said before */
    struct os_object object;
    if (!os_object_read(segment, ref->offset, &object) || !mt_id_equal(object.id, ref->id))
        return mt_error(MT_EINVAL, 0, "object store: no such object");
    bool may_say = from == 0 || from == ref->id.process ||
                   (from == segment->writer && !os_store_find_process(store, ref->id.process));
    if (!may_say)
        return mt_error(MT_EPROTO, 0, "object store: only its owner may say that an object is dead");
    MT_TRY(os_object_kill(store, segment, ref->offset, false));
    os_copy_place_gone(store, ref->id, os_place_word(ref->segment, ref->offset));
    return mt_ok();
}

bool os_store_outlives(const struct os_store *store, mt_id id, uint32_t owner_node, uint32_t job, uint32_t node)
{
    const struct os_process *owner = os_store_find_process(store, id.process);
    return owner ? owner->job != job : owner_node != node;
}

mt_status os_store_copy_dead(struct os_store *store, mt_id id)
{
    struct lane_ref copy;
    MT_TRY(os_store_copy_find(store, id, &copy));
    if (os_store_copy_is_kept(store, id))
        return mt_error(MT_ENOENT, 0, "object store: it is the value");
    MT_TRY(os_store_dead(store, 0, &copy));
    os_copy_remove(store, id);
    return mt_ok();
}

bool os_store_is_copy(const struct os_store *store, mt_id id, uint64_t place)
{
    struct lane_ref copy;
    return store->copy_count > 0 && os_store_copy_find(store, id, &copy).code == MT_OK &&
           os_place_word(copy.segment, copy.offset) == place && !os_store_copy_is_kept(store, id);
}

/* --- walking
 * ---------------------------------------------------------------------------------------------------- */

static mt_status walk_object(struct os_store *store, struct os_segment *segment, uint64_t offset, struct os_walk *walk)
{
    struct os_object object;
    if (!os_object_read(segment, offset, &object))
        return mt_ok();
    if (walk->is_over && (!os_store_outlives(store, object.id, object.owner_node, segment->job, walk->node) ||
                          os_store_is_copy(store, object.id, os_place_word(segment->number, offset))))
        return walk->is_look ? mt_ok() : os_object_kill(store, segment, offset, false);
    if ((walk->owner && object.id.process == walk->owner) || (walk->owner_node && object.owner_node == walk->owner_node))
        return os_object_kill(store, segment, offset, false);
    walk->found++;
    return mt_ok();
}

uint32_t os_chunk_says(const struct os_segment *segment, uint32_t chunk, uint32_t *size_class)
{
    uint32_t word = shm_load32_acquire(&os_chunk_words(segment->backing.data)[chunk]);
    uint32_t count = os_chunk_count(word), left = (uint32_t)(segment->size / OS_CHUNK) - chunk;
    *size_class = os_chunk_class(word);
    if (*size_class == OS_RUN)
        return count > 0 && count <= left ? count : 0;
    return *size_class >= 1 && *size_class <= OS_CLASSES && count == OS_SLAB_CHUNKS && count <= left ? count : 0;
}

mt_status os_segment_walk(struct os_store *store, struct os_segment *segment, struct os_walk *walk)
{
    uint32_t chunks = (uint32_t)(segment->size / OS_CHUNK);
    for (uint32_t i = os_head_chunks(segment->size); i < chunks;) {
        uint32_t size_class, count = os_chunk_says(segment, i, &size_class);
        uint64_t start = (uint64_t)i * OS_CHUNK;
        if (count > 0 && size_class == OS_RUN) {
            walk->runs++;
            MT_TRY(walk_object(store, segment, start, walk));
        }
        for (uint32_t at = 0; count > 0 && size_class != OS_RUN && at + class_sizes[size_class] <= OS_SLAB;
             at += class_sizes[size_class])
            MT_TRY(walk_object(store, segment, start + at, walk));
        i += count ? count : 1; /* none: free, or nonsense, which holds nothing */
    }
    return mt_ok();
}
