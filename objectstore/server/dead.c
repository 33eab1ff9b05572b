/* SPDX-License-Identifier: Apache-2.0
 *
 * dead.c - from "dead" to "its place may be written again".
 *
 * Owns:    the dead lists.
 * Thread:  the raylet's logic thread.
 * Always:  a place is on a dead list from the moment its generation is bumped until it is handed back, once (os_store_check);
 * the raylet's half of the pin protocol (layout/pin.h) is os_store_dead or the walk (bump), then os_store_sweep
 * (fence, look).
 */
#include "core/base/limits/object.h"
#include "core/base/plant.h"
#include "objectstore/layout/pin.h"
#include "objectstore/server/table.h"

#include <stdlib.h>

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
