/* SPDX-License-Identifier: Apache-2.0
 *
 * table.c - the store's tables of processes and segments, and its list of actions.
 *
 * Owns:    every struct os_process and struct os_segment.
 * Thread:  the raylet's logic thread.
 */
#include "objectstore/server/table.h"

#include <stdlib.h>

/* --- actions
 * ---------------------------------------------------------------------------------------------------- */

mt_status os_actions_reserve(struct os_actions *actions, size_t extra)
{
    if (actions->capacity - actions->count >= extra)
        return mt_ok();
    size_t            capacity = (actions->count + extra) * 2;
    struct os_action *data = realloc(actions->data, capacity * sizeof *data);
    if (!data)
        return mt_error(MT_ENOMEM, 0, "object store: actions");
    actions->data = data;
    actions->capacity = capacity;
    return mt_ok();
}

void os_actions_fini(struct os_actions *actions)
{
    free(actions->data);
    *actions = (struct os_actions){0};
}

/* --- tables
 * ----------------------------------------------------------------------------------------------------- */

mt_status os_store_new(const struct os_store_config *config, struct os_store **out_store)
{
    struct os_store *store = calloc(1, sizeof *store);
    if (!store)
        return mt_error(MT_ENOMEM, 0, "object store");
    store->config = *config;
    if (store->config.segment_first == 0)
        store->config.segment_first = UINT64_C(1) << 20;
    if (store->config.segment_max == 0)
        store->config.segment_max = UINT64_C(256) << 20;
    store->bytes_allowed = store->config.bytes_max;
    store->next_number = 1;
    *out_store = store;
    return mt_ok();
}

void os_store_free(struct os_store *store)
{
    if (!store)
        return;
    os_store_copies_forget(store, 0, 0, 0);
    for (struct os_segment *segment = store->first, *next; segment; segment = next) {
        next = segment->next;
        free(segment);
    }
    for (struct os_process *process = store->processes, *next; process; process = next) {
        next = process->next;
        free(process);
    }
    free(store->fresh.data);
    free(store->pinned.data);
    free(store->withheld.data);
    mt_map_fini(&store->victims);
    free(store);
}

struct os_process *os_store_find_process(const struct os_store *store, uint64_t process)
{
    struct os_process *p = store->processes;
    while (p && p->process != process)
        p = p->next;
    return p;
}

struct os_segment *os_store_find_segment(const struct os_store *store, uint32_t number)
{
    struct os_segment *segment = store->bucket[number % STORE_BUCKETS];
    while (segment && segment->number != number)
        segment = segment->next_in_bucket;
    return segment;
}

static void view_of(const struct os_segment *segment, struct os_segment_view *out)
{
    *out = (struct os_segment_view){segment->number, segment->job, segment->writer, segment->size, segment->backing};
}

mt_status os_store_segment(const struct os_store *store, uint64_t process, uint32_t segment, struct os_segment_view *out)
{
    struct os_process *reader = os_store_find_process(store, process);
    struct os_segment *found = os_store_find_segment(store, segment);
    if (!reader || !found)
        return mt_error(MT_ENOENT, 0, "object store: no such segment");
    if (found->job != reader->job && store->config.jobs_apart && reader->job != OS_JOB_NODE)
        return mt_error(MT_EWRONGJOB, 0, "its segment belongs to a job of another user");
    if (found->job != reader->job)
        found->is_shared = true;
    view_of(found, out);
    return mt_ok();
}

bool os_store_next(const struct os_store *store, uint32_t after, struct os_segment_view *out)
{
    struct os_segment *found = after ? os_store_find_segment(store, after) : NULL;
    struct os_segment *segment = found ? found->next : after ? NULL : store->first;
    if (segment)
        view_of(segment, out);
    return segment != NULL;
}

/* The segment is about to be forgotten. */
static void withheld_forget(struct os_store *store, struct os_segment *segment)
{
    size_t kept = 0;
    MT_ASSERT(store->bytes_withheld >= segment->withheld);
    store->bytes_withheld -= segment->withheld;
    segment->withheld = 0;
    for (size_t i = 0; i < store->withheld.count; i++)
        if (store->withheld.data[i].place >> 40 != segment->number)
            store->withheld.data[kept++] = store->withheld.data[i];
    store->withheld.count = kept;
}

mt_status os_store_close(struct os_store *store, struct os_segment *segment, struct os_actions *actions)
{
    MT_TRY(os_actions_reserve(actions, 1));
    actions->data[actions->count++] = (struct os_action){
        .kind = OS_CLOSE, .segment = segment->number, .size = segment->size, .backing = segment->backing};
    withheld_forget(store, segment);
    struct os_segment **link = &store->bucket[segment->number % STORE_BUCKETS];
    while (*link != segment)
        link = &(*link)->next_in_bucket;
    *link = segment->next_in_bucket;

    struct os_segment *before = NULL;
    for (struct os_segment *s = store->first; s != segment; s = s->next)
        before = s;
    *(before ? &before->next : &store->first) = segment->next;
    if (store->last == segment)
        store->last = before;
    MT_ASSERT(store->bytes_reserved >= segment->size);
    store->bytes_reserved -= segment->size;
    store->segment_count--;
    free(segment);
    return mt_ok();
}

mt_status os_store_close_over(struct os_store *store, struct os_actions *actions)
{
    for (struct os_segment *segment = store->first, *next; segment; segment = next) {
        next = segment->next;
        if (segment->is_over && os_segment_is_warm(segment))
            MT_TRY(os_store_close(store, segment, actions));
    }
    return mt_ok();
}

mt_status os_store_close_all(struct os_store *store, struct os_actions *actions)
{
    while (store->first)
        MT_TRY(os_store_close(store, store->first, actions));
    return mt_ok();
}
