/* SPDX-License-Identifier: Apache-2.0
 *
 * client.c - a process's side of the object store: what is pinned.
 *
 * Owns:    the table of pins in struct os_client; of shared memory, the pin table.
 * Thread:  the client's.
 * Always:  held[i].count > 0 iff pins->slot[i] is set; every held slot is in one bucket, every other in the
 * free chain (os_client_check).
 */
#include "objectstore/client/private.h"
#include "objectstore/layout/pin.h"

#include <stdlib.h>

enum { FIRST_SLOTS = 64 };

static const uint16_t class_sizes[OS_CLASSES + 1] = OS_CLASS_SIZES;

mt_status os_client_init(struct os_client *client, uint64_t process, uint32_t node, uint32_t job, void *pins)
{
    *client = (struct os_client){.process = process, .node = node, .job = job, .pins = pins};
    uint8_t size_class = 1;
    for (uint32_t units = 0; units <= OS_CLASS_MAX / OS_UNIT; units++) {
        if (units * OS_UNIT > class_sizes[size_class])
            size_class++;
        client->class_of[units] = size_class;
    }
    return mt_ok();
}

/* --- pin slots
 * -------------------------------------------------------------------------------------------------- */

static void held_insert(struct os_client *client, uint32_t slot)
{
    uint32_t *bucket = &client->held_bucket[os_held_bucket_of(client, client->held[slot].place)];
    client->held[slot].next = *bucket;
    *bucket = slot + 1;
}

static void held_remove(struct os_client *client, uint32_t slot)
{
    uint32_t *link = &client->held_bucket[os_held_bucket_of(client, client->held[slot].place)];
    while (*link != slot + 1)
        link = &client->held[*link - 1].next;
    *link = client->held[slot].next;
}

static mt_status held_grow(struct os_client *client)
{
    uint32_t old = client->held_capacity;
    uint32_t slots = old == 0 ? FIRST_SLOTS : old * 2;
    if (old == OS_PIN_SLOTS)
        return mt_error(MT_EAGAIN, 0, "object store: this process reads 65528 objects at a time; release some views");
    uint32_t        capacity = slots < OS_PIN_SLOTS ? slots : OS_PIN_SLOTS;
    struct os_held *held = realloc(client->held, capacity * sizeof *held);
    if (held)
        client->held = held;
    uint32_t *bucket = calloc(slots, sizeof *bucket);
    if (!held || !bucket) {
        free(bucket);
        return mt_error(MT_ENOMEM, 0, "object store: pin slots");
    }
    free(client->held_bucket);
    client->held_bucket = bucket;
    client->held_buckets = slots;
    client->held_capacity = capacity;
    for (uint32_t i = 0; i < old; i++)
        held_insert(client, i); /* growing means that every slot was in use */
    for (uint32_t i = capacity; i-- > old;) {
        held[i] = (struct os_held){.next = client->held_free};
        client->held_free = i + 1;
    }
    return mt_ok();
}

/* The slot's pin is over; a free that waited for it happens now. EAGAIN: the raylet was faster. */
static mt_status held_release(struct os_client *client, struct os_held *held, struct os_mapped *mapped, uint64_t offset)
{
    uint32_t slot = (uint32_t)(held - client->held);
    bool     free_later = held->free_later;
    os_pin_drop(client->pins, slot);
    held_remove(client, slot);
    *held = (struct os_held){.next = client->held_free};
    client->held_free = slot + 1;
    client->pinned--;
    mapped->pinned--;
    mt_status freed = free_later ? os_place_free(client, mapped->own, offset, false) : mt_ok();
    return freed.code == MT_EINVAL ? mt_ok() : freed; /* EINVAL: the caller freed what it had not allocated */
}

/* --- pins
 * ------------------------------------------------------------------------------------------------------- */

static mt_status lost(void)
{
    return mt_error(MT_EOBJ_LOST, 0, "object store: the object is no longer there");
}

/* The header belongs to another process: it is copied once, then believed only where it agrees with the ref.
 */
static bool header_matches(const struct os_mapped *mapped, const struct lane_ref *ref)
{
    struct os_object *object = (struct os_object *)(void *)(mapped->data + ref->offset);
    struct os_object  header;
    if (shm_load32_acquire(&object->state) != OS_SEALED)
        return false;
    size_t after_state = offsetof(struct os_object, generation);
    shm_read((uint8_t *)&header + after_state, (uint8_t *)object + after_state, sizeof header - after_state);
    return mt_id_equal(header.id, ref->id) && header.size == ref->size && header.generation == ref->generation;
}

static mt_status pin_first(struct os_client *client, struct os_mapped *mapped, const struct lane_ref *ref)
{
    if (client->held_free == 0)
        MT_TRY(held_grow(client));
    uint32_t        slot = client->held_free - 1;
    struct os_held *held = &client->held[slot];
    uint64_t        place = os_place_word(ref->segment, ref->offset);
    if (!os_pin_hold(client->pins, slot, place, &mapped->generations[ref->offset / OS_UNIT], ref->generation))
        return lost();
    if (!header_matches(mapped, ref)) {
        os_pin_drop(client->pins, slot);
        return lost();
    }
    client->held_free = held->next;
    *held = (struct os_held){.place = place, .generation = ref->generation, .count = 1};
    held_insert(client, slot);
    client->pinned++;
    mapped->pinned++;
    return mt_ok();
}

mt_status os_client_pin(struct os_client *client, const struct lane_ref *ref, const void **out_data)
{
    if (ref->node != client->node)
        return mt_error(MT_EINVAL, 0, "object store: the object is on another node");
    struct os_mapped *mapped = os_find_mapped(client, ref->segment);
    if (!mapped)
        return mt_error(MT_ENOENT, 0, "object store: segment is not mapped");
    if (ref->offset % OS_UNIT != 0 || ref->offset >= mapped->size || ref->size > mapped->size - ref->offset - OS_HEADER_SIZE)
        return lost();
    struct os_held *held = os_find_held(client, os_place_word(ref->segment, ref->offset));
    if (!held)
        MT_TRY(pin_first(client, mapped, ref));
    else if (held->generation == ref->generation && held->count < UINT32_MAX && header_matches(mapped, ref))
        held->count++; /* the slot holds the place: no fence, no second look */
    else
        return lost();
    *out_data = mapped->view + ref->offset + OS_HEADER_SIZE;
    return mt_ok();
}

mt_status os_client_unpin(struct os_client *client, const struct lane_ref *ref)
{
    struct os_held   *held = os_find_held(client, os_place_word(ref->segment, ref->offset));
    struct os_mapped *mapped = os_find_mapped(client, ref->segment);
    if (!held || !mapped || held->generation != ref->generation)
        return mt_error(MT_EINVAL, 0, "object store: unpin of what is not pinned");
    return --held->count == 0 ? held_release(client, held, mapped, ref->offset) : mt_ok();
}
