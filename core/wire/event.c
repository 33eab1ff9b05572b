/* SPDX-License-Identifier: Apache-2.0
 *
 * event.c - names of functions in a ring of events, and reading what another process writes.
 *
 * Owns: nothing. Thread: names: the worker's, under its lock; reading: the raylet's.
 */
#include "core/wire/event.h"

#include <inttypes.h>
#include <stdio.h>

void lane_event_name(struct lane_event_writer *w, uint64_t hash, const char *first, const char *second)
{
    struct lane_event_name name = {.hash = hash};
    uint32_t               count;
    if (lane_event_is_named(w, hash))
        return;
    shm_store64(&w->named[hash & 255], hash); /* two hashes of one place drive each other out: then the table is searched again */
    count = shm_load32(&w->shared->name_count);
    for (uint32_t i = 0; i < count && i < LANE_EVENT_NAMES; i++)
        if (w->shared->names[i].hash == hash)
            return;
    if (count >= LANE_EVENT_NAMES)
        return;
    snprintf(name.text, sizeof name.text, "%s%s%s", first, second ? "." : "", second ? second : "");
    shm_write(&w->shared->names[count], &name, sizeof name);
    shm_store32_release(&w->shared->name_count, count + 1);
}

bool lane_event_read(struct lane_events *events, uint32_t capacity, uint64_t number, struct lane_event *out)
{
    struct lane_event *event = lane_event_at(events, capacity, number);
    uint64_t           begun = shm_load64_acquire(&events->begun);
    if (number >= begun || begun - number > capacity)
        return false;
    shm_store64(&out->ended_ns, shm_load64_acquire(&event->ended_ns)); /* first: `code` was written before it */
    shm_read(out, event, offsetof(struct lane_event, ended_ns));
    shm_read(&out->code, &event->code, sizeof *out - offsetof(struct lane_event, code));
    shm_fence(); /* the copy is of this event if its place had not been given to another by now */
    begun = shm_load64_acquire(&events->begun);
    return begun - number < capacity; /* the next to be overwritten may be half written already */
}

void lane_event_name_of(struct lane_events *events, uint64_t hash, char out[LANE_EVENT_NAME_SIZE])
{
    uint32_t count = shm_load32_acquire(&events->name_count);
    for (uint32_t i = 0; i < count && i < LANE_EVENT_NAMES; i++) {
        if (events->names[i].hash != hash)
            continue;
        shm_read(out, events->names[i].text, LANE_EVENT_NAME_SIZE);
        out[LANE_EVENT_NAME_SIZE - 1] = 0;
        return;
    }
    snprintf(out, LANE_EVENT_NAME_SIZE, "%016" PRIx64, hash);
}
