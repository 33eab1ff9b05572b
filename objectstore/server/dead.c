/* SPDX-License-Identifier: Apache-2.0
 *
 * dead.c - from "its owner will never name it again" to "its place may be written again"; and copies by
 * id.
 *
 * Owns:    the dead lists, the table of copies; of shared memory, the generations.
 * Thread:  the raylet's logic thread.
 * Always:  a place is on a dead list from the moment its generation is bumped until it is handed back, once;
 * the raylet's half of the pin protocol (layout/pin.h) is os_store_dead or the walk (bump), then os_store_sweep
 * (fence, look).
 */
#include "core/base/limits.h"
#include "core/base/plant.h"
#include "objectstore/layout/pin.h"
#include "objectstore/server/table.h"

#include <stdlib.h>

static const uint16_t class_sizes[OS_CLASSES + 1] = OS_CLASS_SIZES;

/* --- dying
 * ------------------------------------------------------------------------------------------------------ */

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
    return os_object_kill(store, segment, ref->offset, false);
}

bool os_store_outlives(const struct os_store *store, mt_id id, uint32_t owner_node, uint32_t job, uint32_t node)
{
    const struct os_process *owner = os_store_find_process(store, id.process);
    return owner ? owner->job != job : owner_node != node;
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
        if (count > 0 && size_class == OS_RUN)
            MT_TRY(walk_object(store, segment, start, walk));
        for (uint32_t at = 0; count > 0 && size_class != OS_RUN && at + class_sizes[size_class] <= OS_SLAB;
             at += class_sizes[size_class])
            MT_TRY(walk_object(store, segment, start + at, walk));
        i += count ? count : 1; /* none: free, or nonsense, which holds nothing */
    }
    return mt_ok();
}

/* --- handing back
 * ----------------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    uint64_t x = ((const struct os_dead *)a)->place, y = ((const struct os_dead *)b)->place;
    return x < y ? -1 : x > y;
}

/* Marks what some process pins: one pass over all pin tables, however long the list is. */
static void mark_pinned(const struct os_store *store, struct os_dead_list *list)
{
    qsort(list->data, list->count, sizeof *list->data, by_place);
    for (size_t i = 0; i < list->count; i++)
        list->data[i].pinned = false;
    os_pins_before_look();
    for (struct os_process *process = store->processes; process; process = process->next) {
        uint32_t high = os_pins_high(process->pins);
        for (uint32_t slot = 0; slot < high; slot++) {
            struct os_dead  key = {.place = os_pins_look(process->pins, slot)};
            struct os_dead *dead = key.place ? bsearch(&key, list->data, list->count, sizeof key, by_place) : NULL;
            if (dead)
                dead->pinned = !MT_PLANT(MT_PLANT_FREE_UNDER_PIN);
        }
    }
}

static void hand_back(struct os_store *store, struct os_dead dead, struct os_actions *actions)
{
    uint32_t           number = (uint32_t)(dead.place >> 40);
    uint64_t           offset = (dead.place & ((UINT64_C(1) << 40) - 1)) * OS_UNIT;
    struct os_segment *segment = os_store_find_segment(store, number);
    if (!segment)
        return; /* closed with its job */
    uint64_t run = dead.is_taken ? os_run_bytes(segment, offset) : 0;
    segment->dead--;
    store->back_total++;
    if (run > 0)
        os_store_withhold(store, segment, offset, run, actions);
    else if (segment->writer)
        actions->data[actions->count++] = (struct os_action){.kind = OS_SPACE_BACK,
                                                             .segment = number,
                                                             .generation = shm_load32(os_generation_at(segment, offset)),
                                                             .process = segment->writer,
                                                             .offset = offset};
    os_segment_check_warm(store, segment);
}

/* Hands back what nobody pins; the rest is in `pinned` afterwards. */
static mt_status sweep_list(struct os_store *store, struct os_dead_list *list, struct os_actions *actions)
{
    if (list->count == 0)
        return mt_ok();
    MT_TRY(os_actions_reserve(actions, list->count));
    MT_TRY(os_dead_reserve(&store->withheld, list->count));
    if (list != &store->pinned)
        MT_TRY(os_dead_reserve(&store->pinned, list->count));
    mark_pinned(store, list);
    size_t kept = 0, count = list->count;
    for (size_t i = 0; i < count; i++) {
        struct os_dead dead = list->data[i];
        if (!dead.pinned)
            hand_back(store, dead, actions);
        else if (list == &store->pinned)
            list->data[kept++] = dead;
        else
            store->pinned.data[store->pinned.count++] = dead;
    }
    list->count = kept;
    return mt_ok();
}

mt_status os_store_sweep(struct os_store *store, struct os_actions *actions)
{
    if (store->look_again)
        MT_TRY(sweep_list(store, &store->pinned, actions));
    store->look_again = false;
    return sweep_list(store, &store->fresh, actions);
}

static mt_status close_cold(struct os_store *store, struct os_actions *actions)
{
    uint64_t warm = 0;
    for (struct os_segment *segment = store->first; segment; segment = segment->next)
        warm += os_segment_is_warm(segment) ? segment->size : 0;
    for (struct os_segment *segment = store->first, *next; segment && warm > MT_SEGMENT_WARM_BYTES_MAX; segment = next) {
        next = segment->next;
        if (!os_segment_is_warm(segment) || store->now_ms - segment->idle_since_ms < MT_SEGMENT_WARM_MS)
            continue;
        warm -= segment->size;
        MT_TRY(os_store_close(store, segment, actions));
    }
    return mt_ok();
}

mt_status os_store_tick(struct os_store *store, int64_t now_ms, struct os_actions *actions)
{
    store->now_ms = now_ms;
    MT_TRY(sweep_list(store, &store->pinned, actions));
    MT_TRY(sweep_list(store, &store->fresh, actions));
    MT_TRY(os_store_unwithhold(store, actions));
    MT_TRY(os_store_close_over(store, actions));
    return close_cold(store, actions);
}

/* --- copies
 * ----------------------------------------------------------------------------------------------------- */

static struct os_copy **copy_link(struct os_store *store, mt_id id)
{
    struct os_copy **link = &store->copies[mt_id_hash(id) % STORE_BUCKETS];
    while (*link && !mt_id_equal((*link)->ref.id, id))
        link = &(*link)->next;
    return link;
}

static void copy_delete(struct os_store *store, struct os_copy **link)
{
    struct os_copy *copy = *link;
    *link = copy->next;
    store->copy_count--;
    free(copy);
}

mt_status os_store_copy_add(struct os_store *store, const struct lane_ref *ref)
{
    struct os_copy **link = copy_link(store, ref->id);
    if (*link)
        return mt_error(MT_EEXIST, 0, "object store: copy");
    struct os_copy *copy = calloc(1, sizeof *copy);
    if (!copy)
        return mt_error(MT_ENOMEM, 0, "object store: copy");
    copy->ref = *ref;
    *link = copy;
    store->copy_count++;
    return mt_ok();
}

mt_status os_store_copy_find(const struct os_store *store, mt_id id, struct lane_ref *out)
{
    const struct os_copy *copy = store->copies[mt_id_hash(id) % STORE_BUCKETS];
    while (copy && !mt_id_equal(copy->ref.id, id))
        copy = copy->next;
    if (!copy)
        return mt_error(MT_ENOENT, 0, "object store: no copy here");
    *out = copy->ref;
    return mt_ok();
}

mt_status os_store_copy_dead(struct os_store *store, mt_id id)
{
    struct os_copy **link = copy_link(store, id);
    if (!*link)
        return mt_error(MT_ENOENT, 0, "object store: no copy here");
    MT_TRY(os_store_dead(store, 0, &(*link)->ref));
    copy_delete(store, link);
    return mt_ok();
}

void os_store_copies_forget(struct os_store *store, uint64_t owner, uint32_t owner_node, uint32_t job)
{
    bool all = owner == 0 && owner_node == 0 && job == 0;
    for (uint32_t i = 0; i < STORE_BUCKETS; i++)
        for (struct os_copy **link = &store->copies[i]; *link;) {
            struct lane_ref *ref = &(*link)->ref;
            if (all || (owner && ref->id.process == owner) || (owner_node && ref->owner_node == owner_node) ||
                (job && ref->job == job))
                copy_delete(store, link);
            else
                link = &(*link)->next;
        }
}
