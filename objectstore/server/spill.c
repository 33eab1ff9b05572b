/* SPDX-License-Identifier: Apache-2.0
 *
 * spill.c - what goes to disk when the store is full, and what becomes of its place.
 *
 * Owns:    the marks of victims, the list of withheld places; of shared memory, the step SEALED -> TAKEN.
 * Thread:  the raylet's logic thread.
 * Always:  a victim's value is ended by os_store_take only, after it is on disk; store->bytes_withheld is the sum over
 *          the segments, each the sum of its withheld places' bytes (os_store_check).
 *
 * A value's writer may free it without a message as long as no ref of it has left its process. So the bytes that go to
 * disk count only if the object was the same before and after: its id says so (no id is used twice), and the CAS of
 * the state word decides between a writer that frees and the raylet that takes. After that the object is dead, to
 * readers in memory; they ask the raylet, which has it on disk.
 *
 *   SEALED --os_store_take--> TAKEN, dead --no pin left--> a slab's place: back to its writer
 *                                                       --> a run: pages gone, withheld --room again--> back to its writer
 */
#include "objectstore/layout/pin.h"
#include "objectstore/server/spill.h"
#include "objectstore/server/table.h"

#include <stdlib.h>

static const uint16_t class_sizes[OS_CLASSES + 1] = OS_CLASS_SIZES;

uint64_t os_store_bytes(const struct os_store *store)
{
    return store->bytes_reserved - store->bytes_withheld;
}

/* --- victims -------------------------------------------------------------------------------------------------- */

struct search {
    struct os_store *store;
    struct lane_ref *out;
    uint32_t         count, max;
    uint64_t         bytes, goal;
    bool             small;  /* places of slabs; else runs */
    uint32_t         living; /* objects of the segment at hand, of either kind */
    uint64_t        *pinned; /* sorted: what anybody pins now */
    size_t           pinned_count;
};

static int by_word(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* One pass over all pin tables. What is pinned after it is found by the sweep. */
static bool pinned_gather(struct search *s)
{
    size_t capacity = 0;
    for (struct os_process *process = s->store->processes; process; process = process->next)
        capacity += os_pins_high(process->pins);
    s->pinned = malloc((capacity + 1) * sizeof *s->pinned);
    if (!s->pinned)
        return false;
    for (struct os_process *process = s->store->processes; process; process = process->next) {
        uint32_t high = os_pins_high(process->pins);
        for (uint32_t slot = 0; slot < high && s->pinned_count < capacity; slot++) {
            uint64_t place = os_pins_look(process->pins, slot);
            if (place)
                s->pinned[s->pinned_count++] = place;
        }
    }
    qsort(s->pinned, s->pinned_count, sizeof *s->pinned, by_word);
    return true;
}

static void consider(struct search *s, const struct os_segment *segment, uint64_t offset, bool wanted)
{
    struct os_object object;
    uint64_t         place = os_place_word(segment->number, offset);
    if (!os_object_read(segment, offset, &object))
        return;
    s->living++;
    if (!wanted || s->count == s->max || s->bytes >= s->goal || mt_id_is_zero(object.id) ||
        mt_map_find(&s->store->victims, mt_map_key(place)) || os_store_is_copy(s->store, object.id, place) ||
        bsearch(&place, s->pinned, s->pinned_count, sizeof place, by_word) ||
        mt_map_put_num(&s->store->victims, mt_map_key(place), 1).code)
        return;
    s->out[s->count++] = (struct lane_ref){.id = object.id,
                                           .owner_node = object.owner_node,
                                           .node = s->store->config.node,
                                           .segment = segment->number,
                                           .generation = object.generation,
                                           .offset = offset,
                                           .size = object.size,
                                           .job = segment->job,
                                           .type = object.type};
    s->bytes += object.size;
}

static void search_segment(struct search *s, const struct os_segment *segment)
{
    uint32_t chunks = (uint32_t)(segment->size / OS_CHUNK);
    s->living = 0;
    for (uint32_t i = os_head_chunks(segment->size); i < chunks && s->bytes < s->goal;) {
        uint32_t size_class, count = os_chunk_says(segment, i, &size_class);
        uint64_t start = (uint64_t)i * OS_CHUNK;
        if (count > 0 && size_class == OS_RUN)
            consider(s, segment, start, !s->small);
        for (uint32_t at = 0; count > 0 && size_class != OS_RUN && at + class_sizes[size_class] <= OS_SLAB;
             at += class_sizes[size_class]) {
            consider(s, segment, start + at, s->small);
            if (!s->small && s->living)
                break; /* it is not empty: that was all to know */
        }
        i += count ? count : 1;
    }
}

/* Its writer has nothing in it that lives: it may give it back. */
static void ask_back(struct search *s, struct os_segment *segment, struct os_actions *actions)
{
    if (s->living > 0 || s->bytes >= s->goal || !segment->is_thinned || !segment->writer || os_actions_reserve(actions, 1).code)
        return;
    segment->is_thinned = false;
    actions->data[actions->count++] = (struct os_action){
        .kind = OS_ASK_BACK, .segment = segment->number, .process = segment->writer};
}

/* Once round all segments, from the hand on. */
static void search_round(struct search *s, struct os_actions *actions)
{
    struct os_segment *start = os_store_find_segment(s->store, s->store->hand), *segment;
    if (!start)
        start = s->store->first;
    segment = start;
    while (segment && s->bytes < s->goal && s->count < s->max) {
        if (!os_segment_is_warm(segment)) {
            search_segment(s, segment);
            ask_back(s, segment, actions);
        }
        s->store->hand = segment->number;
        if (s->bytes >= s->goal || s->count == s->max)
            break;
        segment = segment->next ? segment->next : s->store->first;
        if (segment == start)
            break;
    }
}

uint32_t os_store_victims(struct os_store *store, uint64_t bytes, struct lane_ref *out, uint32_t max, struct os_actions *actions)
{
    struct search s = {.store = store, .out = out, .max = max, .goal = bytes};
    if (!pinned_gather(&s))
        return 0;
    search_round(&s, actions);
    if (s.bytes < bytes && s.count < max) {
        s.small = true;
        search_round(&s, actions);
    }
    free(s.pinned);
    return s.count;
}

const void *os_store_victim_data(const struct os_store *store, const struct lane_ref *victim)
{
    const struct os_segment *segment = os_store_find_segment(store, victim->segment);
    return segment ? (const uint8_t *)segment->backing.data + victim->offset + OS_HEADER_SIZE : NULL;
}

void os_store_spare(struct os_store *store, const struct lane_ref *victim)
{
    mt_map_remove(&store->victims, mt_map_key(os_place_word(victim->segment, victim->offset)));
}

bool os_store_lives(const struct os_store *store, const struct lane_ref *ref)
{
    const struct os_segment *segment = os_store_find_segment(store, ref->segment);
    struct os_object         object;
    return segment && ref->offset % OS_UNIT == 0 && ref->offset < segment->size && os_object_read(segment, ref->offset, &object) &&
           object.generation == ref->generation && mt_id_equal(object.id, ref->id);
}

bool os_store_is_pinned(const struct os_store *store, const struct lane_ref *ref)
{
    uint64_t place = os_place_word(ref->segment, ref->offset);
    for (struct os_process *process = store->processes; process; process = process->next) {
        uint32_t high = os_pins_high(process->pins);
        for (uint32_t slot = 0; slot < high; slot++)
            if (os_pins_look(process->pins, slot) == place)
                return true;
    }
    return false;
}

/* --- taking --------------------------------------------------------------------------------------------------- */

/* Against its writer, which may be freeing it. */
static bool take_state(struct os_object *object)
{
    if (!MT_PLANT(MT_PLANT_TAKE_BY_STORE))
        return shm_cas32(&object->state, OS_SEALED, OS_TAKEN);
    if (shm_load32(&object->state) != OS_SEALED)
        return false;
    shm_store32(&object->state, OS_TAKEN);
    return true;
}

mt_status os_store_take(struct os_store *store, const struct lane_ref *victim)
{
    struct os_segment *segment = os_store_find_segment(store, victim->segment);
    mt_status          gone = mt_error(MT_ENOENT, 0, "object store: it was freed on its way to disk");
    os_store_spare(store, victim);
    if (!segment || shm_load32(os_generation_at(segment, victim->offset)) != victim->generation)
        return gone;
    struct os_object *object = (struct os_object *)(void *)((uint8_t *)segment->backing.data + victim->offset);
    MT_TRY(os_dead_reserve(&store->fresh, 1)); /* so that what follows can't fail */
    if (!take_state(object))
        return gone;
    mt_id id; /* nobody writes here now */
    shm_read(&id, &object->id, sizeof id);
    if (!mt_id_equal(id, victim->id) && !MT_PLANT(MT_PLANT_TAKE_ANY)) {
        (void)shm_cas32(&object->state, OS_TAKEN, OS_SEALED); /* a new object at the same place, which lives on */
        return gone;
    }
    segment->is_thinned = true;
    store->taken_total++;
    MT_TRY(os_object_kill(store, segment, victim->offset, true));
    os_copy_place_gone(store, victim->id, os_place_word(victim->segment, victim->offset));
    return mt_ok();
}

/* --- withheld places ------------------------------------------------------------------------------------------ */

void os_store_withhold(struct os_store *store, struct os_segment *segment, uint64_t offset, uint64_t bytes,
                       struct os_actions *actions)
{
    actions->data[actions->count++] = (struct os_action){
        .kind = OS_PUNCH, .segment = segment->number, .offset = offset, .size = bytes, .backing = segment->backing};
    store->withheld.data[store->withheld.count++] = (struct os_dead){.place = os_place_word(segment->number, offset)};
    segment->withheld += bytes;
    store->bytes_withheld += bytes;
    os_segment_check_warm(store, segment);
}

/* The bytes of a withheld place: its chunk word stays, the head of a segment is never punched. */
static uint64_t withheld_bytes(const struct os_segment *segment, uint64_t offset)
{
    uint64_t bytes = os_run_bytes(segment, offset);
    return bytes < segment->withheld ? bytes : segment->withheld; /* the writer is not trusted */
}

mt_status os_store_unwithhold(struct os_store *store, struct os_actions *actions)
{
    uint64_t comfort = store->bytes_allowed / 2; /* half of it free: no pressure */
    MT_TRY(os_actions_reserve(actions, store->withheld.count));
    while (store->withheld.count > 0 && os_store_bytes(store) < comfort) {
        uint64_t           place = store->withheld.data[store->withheld.count - 1].place;
        uint64_t           offset = (place & ((UINT64_C(1) << 40) - 1)) * OS_UNIT;
        struct os_segment *segment = os_store_find_segment(store, (uint32_t)(place >> 40));
        uint64_t           bytes = segment ? withheld_bytes(segment, offset) : 0;
        if (segment && segment->writer && os_store_bytes(store) + bytes > comfort)
            return mt_ok();
        store->withheld.count--;
        if (!segment || !segment->writer)
            continue; /* goes with its segment */
        segment->withheld -= bytes;
        store->bytes_withheld -= bytes;
        actions->data[actions->count++] = (struct os_action){.kind = OS_SPACE_BACK,
                                                             .segment = segment->number,
                                                             .process = segment->writer,
                                                             .generation = shm_load32(os_generation_at(segment, offset)),
                                                             .offset = offset};
    }
    return mt_ok();
}
