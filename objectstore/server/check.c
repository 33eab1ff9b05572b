/* SPDX-License-Identifier: Apache-2.0
 *
 * check.c - what must always hold in the store's tables: for tests and the simulation.
 */
#include "objectstore/server/table.h"

static const char *check_segment(const struct os_store *store, const struct os_segment *segment)
{
    uint32_t dead = 0;
    if (os_store_find_segment(store, segment->number) != segment)
        return "a segment is not found by its number";
    if (segment->next && segment->next->number <= segment->number)
        return "the segments are not in order of their numbers";
    if (segment->writer && !os_store_find_process(store, segment->writer))
        return "a segment's writer is gone";
    for (size_t i = 0; i < store->fresh.count; i++)
        dead += store->fresh.data[i].place >> 40 == segment->number;
    for (size_t i = 0; i < store->pinned.count; i++)
        dead += store->pinned.data[i].place >> 40 == segment->number;
    return dead == segment->dead ? NULL : "a segment has more dead places than are on the lists, or fewer";
}

static bool is_on(const struct os_dead_list *list, size_t from, uint64_t place)
{
    for (size_t i = from; i < list->count; i++)
        if (list->data[i].place == place)
            return true;
    return false;
}

/* Places of segments that are closed may still be there. */
static const char *check_dead(const struct os_store *store)
{
    const struct os_dead_list *lists[] = {&store->fresh, &store->pinned, &store->withheld};
    for (int l = 0; l < 3; l++)
        for (size_t i = 0; i < lists[l]->count; i++) {
            uint64_t place = lists[l]->data[i].place;
            for (int k = l; k < 3; k++)
                if (is_on(lists[k], k == l ? i + 1 : 0, place))
                    return "a dead place is on a list twice";
        }
    return NULL;
}

const char *os_store_check(const struct os_store *store)
{
    uint64_t reserved = 0, withheld = 0;
    uint32_t segments = 0, copies = 0, processes = 0;
    for (const struct os_segment *segment = store->first; segment; segment = segment->next) {
        const char *breach = check_segment(store, segment);
        if (breach)
            return breach;
        reserved += segment->size;
        withheld += segment->withheld;
        segments++;
    }
    for (uint32_t i = 0; i < STORE_BUCKETS; i++)
        for (const struct os_copy *copy = store->copies[i]; copy; copy = copy->next)
            copies++;
    for (const struct os_process *process = store->processes; process; process = process->next)
        processes++;
    if (reserved != store->bytes_reserved || withheld != store->bytes_withheld)
        return "the sums of the segments' bytes are wrong";
    if (segments != store->segment_count || copies != store->copy_count || processes != store->process_count)
        return "segments, copies or processes are counted wrongly";
    return check_dead(store);
}
