/* SPDX-License-Identifier: Apache-2.0
 *
 * store.c - who has which segment: processes, grants, orphans, warm segments.
 *
 * Owns:    the tables of struct os_store; the backing of each segment from os_store_add_segment to OS_CLOSE.
 * Thread:  the raylet's logic thread.
 * Always:  a segment's writer is a process of the table or 0; bytes_reserved is the sum of the segments'
 * sizes (os_store_check) and, but for a change of the configuration, at most bytes_max.
 */
#include "objectstore/server/table.h"
#include "objectstore/server/spill.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* --- processes
 * -------------------------------------------------------------------------------------------------- */

mt_status os_store_add_process(struct os_store *store, uint64_t process, uint32_t job, void *pins)
{
    if (process == 0 || os_store_find_process(store, process))
        return mt_error(MT_EEXIST, 0, "object store: process");
    struct os_process *p = calloc(1, sizeof *p);
    if (!p)
        return mt_error(MT_ENOMEM, 0, "object store: process");
    *p = (struct os_process){.next = store->processes, .process = process, .job = job, .pins = pins};
    store->processes = p;
    store->process_count++;
    return mt_ok();
}

/* Takes the segment from its writer: what lives in it goes on living. */
static mt_status orphan(struct os_store *store, struct os_segment *segment, struct os_walk *walk)
{
    MT_TRY(os_segment_walk(store, segment, walk));
    segment->writer = 0;
    segment->objects = walk->found;
    os_segment_check_warm(store, segment);
    return mt_ok();
}

mt_status os_store_process_gone(struct os_store *store, uint64_t process)
{
    struct os_process *gone = os_store_find_process(store, process);
    if (!gone)
        return mt_error(MT_ENOENT, 0, "object store: no such process");
    for (struct os_segment *segment = store->first; segment; segment = segment->next) {
        struct os_walk walk = {.owner = process};
        if (segment->writer == process)
            MT_TRY(orphan(store, segment, &walk));
    }
    MT_TRY(os_store_owner_gone(store, process));

    struct os_process **link = &store->processes;
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    store->process_count--;
    store->look_again = true;
    free(gone);
    return mt_ok();
}

static mt_status owners_gone(struct os_store *store, uint64_t owner, uint32_t owner_node)
{
    for (struct os_segment *segment = store->first; segment; segment = segment->next) {
        if (os_segment_is_warm(segment))
            continue;
        struct os_walk walk = {.owner = owner, .owner_node = owner_node};
        MT_TRY(os_segment_walk(store, segment, &walk));
    }
    os_store_copies_forget(store, owner, owner_node, 0);
    return mt_ok();
}

mt_status os_store_owner_gone(struct os_store *store, uint64_t owner)
{
    return owners_gone(store, owner, 0);
}

mt_status os_store_node_gone(struct os_store *store, uint32_t owner_node)
{
    return owners_gone(store, 0, owner_node);
}

/* The segment stays as long as a process of another job owns or reads something in it. */
static mt_status segment_over(struct os_store *store, struct os_segment *segment, uint32_t node, struct os_actions *actions)
{
    struct os_walk look = {.is_over = true, .is_look = true, .node = node}, walk = {.is_over = true, .node = node};
    MT_TRY(os_segment_walk(store, segment, &look));
    if (look.found == 0 && !segment->is_shared)
        return os_store_close(store, segment, actions); /* its places on the dead lists find no segment at the next sweep */
    segment->writer = 0;
    MT_TRY(os_segment_walk(store, segment, &walk));
    segment->objects = walk.found;
    segment->is_over = true;
    return mt_ok();
}

mt_status os_store_job_gone(struct os_store *store, uint32_t job, uint32_t node, struct os_actions *actions)
{
    MT_TRY(os_actions_reserve(actions, store->segment_count));
    for (struct os_segment *segment = store->first, *next; segment; segment = next) {
        next = segment->next;
        if (segment->job == job && !segment->is_over)
            MT_TRY(segment_over(store, segment, node, actions));
    }
    os_store_copies_forget(store, 0, 0, job);
    MT_TRY(os_store_sweep(store, actions));
    return os_store_close_over(store, actions);
}

/* --- grants
 * ----------------------------------------------------------------------------------------------------- */

/* The smallest warm segment of the job with size_min <= size <= size_max. */
static struct os_segment *find_warm(const struct os_store *store, uint32_t job, uint64_t size_min, uint64_t size_max)
{
    struct os_segment *best = NULL;
    for (struct os_segment *segment = store->first; segment; segment = segment->next)
        if (segment->job == job && !segment->is_over && os_segment_is_warm(segment) && segment->withheld == 0 &&
            !segment->is_spent && segment->size >= size_min && segment->size <= size_max && (!best || segment->size < best->size))
            best = segment;
    return best;
}

/* Bytes that all segments together may have now. */
static uint64_t bytes_allowed(const struct os_store *store, const struct os_headroom *room)
{
    uint64_t allowed = store->config.bytes_max;
    if (!room || room->limit == UINT64_MAX)
        return allowed;
    uint64_t others = room->usage > room->resident ? room->usage - room->resident : 0;
    uint64_t taken = others + room->reserve;
    uint64_t left = room->limit > taken ? room->limit - taken : 0;
    return left < allowed ? left : allowed;
}

static mt_status store_full(struct os_store *store, uint64_t size, uint64_t allowed, const struct os_headroom *room, char *text)
{
    store->full_total++;
    uint64_t mib = UINT64_C(1) << 20;
    int      used = snprintf(text, OS_TEXT_SIZE, "object store is full: %llu MiB wanted, %llu of %llu MiB taken",
                             (unsigned long long)(size / mib), (unsigned long long)(os_store_bytes(store) / mib),
                             (unsigned long long)(allowed / mib));
    if (room && store->bytes_allowed < store->config.bytes_max && used > 0 && used < OS_TEXT_SIZE)
        snprintf(text + used, (size_t)(OS_TEXT_SIZE - used), "; cgroup: limit %llu MiB, in use %llu MiB, kept free %llu MiB",
                 (unsigned long long)(room->limit / mib), (unsigned long long)(room->usage / mib),
                 (unsigned long long)(room->reserve / mib));
    return mt_error(MT_ESTORE_FULL, 0, "object store: grow");
}

/* The longest idle warm segment, or NULL; job 0: of any. */
static struct os_segment *find_coldest(const struct os_store *store, uint32_t job)
{
    struct os_segment *coldest = NULL;
    for (struct os_segment *segment = store->first; segment; segment = segment->next)
        if (os_segment_is_warm(segment) && (job == 0 || segment->job == job) &&
            (!coldest || segment->idle_since_ms < coldest->idle_since_ms))
            coldest = segment;
    return coldest;
}

/* --- a job's quota --- */

static uint64_t job_bytes(const struct os_store *store, uint32_t job)
{
    uint64_t bytes = 0;
    for (const struct os_segment *segment = store->first; segment; segment = segment->next)
        bytes += segment->job == job ? segment->size - segment->withheld : 0;
    return bytes;
}

mt_status os_store_job_ask_back(const struct os_store *store, uint32_t job, struct os_actions *actions)
{
    for (const struct os_segment *segment = store->first; segment; segment = segment->next) {
        if ((job && segment->job != job) || segment->writer == 0)
            continue;
        MT_TRY(os_actions_reserve(actions, 1));
        actions->data[actions->count++] = (struct os_action){
            .kind = OS_ASK_BACK, .segment = segment->number, .process = segment->writer};
    }
    return mt_ok();
}

static uint64_t job_left(const struct os_store *store, uint32_t job)
{
    uint64_t quota = store->config.job_bytes_max, bytes = quota ? job_bytes(store, job) : 0;
    return quota == 0 ? UINT64_MAX : quota > bytes ? quota - bytes : 0;
}

static mt_status job_full(struct os_store *store, uint32_t job, uint64_t size, char *text)
{
    uint64_t mib = UINT64_C(1) << 20;
    store->full_total++;
    snprintf(text, OS_TEXT_SIZE, "%llu MiB wanted, %llu of its quota of %llu MiB in this node's object store taken",
             (unsigned long long)(size / mib), (unsigned long long)(job_bytes(store, job) / mib),
             (unsigned long long)(store->config.job_bytes_max / mib));
    return mt_error(MT_ESTORE_FULL, EDQUOT, "object store: quota of the job");
}

/* Makes *target fit into what the job has left, which may close idle segments of its own. ESTORE_FULL: `least` does
 * not fit. */
static mt_status fit_quota(struct os_store *store, uint32_t job, uint64_t least, uint64_t *target, char *text,
                           struct os_actions *actions)
{
    struct os_segment *cold;
    if (!store->config.job_bytes_max)
        return mt_ok();
    while (*target > job_left(store, job) && (cold = find_coldest(store, job)))
        MT_TRY(os_store_close(store, cold, actions));
    uint64_t left = job_left(store, job) / STORE_SEGMENT_STEP * STORE_SEGMENT_STEP;
    if (least > left)
        return job_full(store, job, least, text);
    *target = *target < left ? *target : left;
    return mt_ok();
}

static void grant_warm(struct os_process *process, struct os_segment *segment, struct os_grant *out)
{
    segment->writer = process->process;
    process->segments++;
    *out = (struct os_grant){.segment = segment->number};
}

mt_status os_store_want(struct os_store *store, uint64_t process, uint64_t size, const struct os_headroom *room,
                        struct os_grant *out, char *text, struct os_actions *actions)
{
    text[0] = '\0';
    struct os_process *writer = os_store_find_process(store, process);
    if (!writer)
        return mt_error(MT_ENOENT, 0, "object store: no such process");
    uint64_t allowed = store->bytes_allowed = bytes_allowed(store, room);
    if (room && size <= allowed && allowed - size >= room->kept)
        allowed -= room->kept;
    if (size > store->config.bytes_max)
        return store_full(store, size, allowed, room, text);
    uint64_t least = (size + STORE_SEGMENT_STEP - 1) / STORE_SEGMENT_STEP * STORE_SEGMENT_STEP;
    if (least < STORE_SEGMENT_STEP)
        least = STORE_SEGMENT_STEP;
    uint64_t grown = store->config.segment_first << (writer->segments < 20 ? writer->segments : 20);
    if (grown > store->config.segment_max)
        grown = store->config.segment_max;
    uint64_t target = least > grown ? least : grown;

    struct os_segment *warm = find_warm(store, writer->job, least, target * 16);
    if (!warm && (os_store_bytes(store) + target > allowed || target > job_left(store, writer->job)))
        warm = find_warm(store, writer->job, least, UINT64_MAX);
    if (warm) {
        grant_warm(writer, warm, out);
        return mt_ok();
    }
    MT_TRY(fit_quota(store, writer->job, least, &target, text, actions));
    struct os_segment *cold;
    while (os_store_bytes(store) + target > allowed && (cold = find_coldest(store, 0)))
        MT_TRY(os_store_close(store, cold, actions));
    while (os_store_bytes(store) + target > allowed && target > least)
        target = target / 2 > least ? target / 2 / STORE_SEGMENT_STEP * STORE_SEGMENT_STEP : least;
    if (os_store_bytes(store) + target > allowed)
        return store_full(store, least, allowed, room, text);
    *out = (struct os_grant){.create_size = target};
    return mt_ok();
}

mt_status os_store_add_segment(struct os_store *store, uint64_t process, uint64_t size, const struct os_backing *backing,
                               uint32_t *out_segment)
{
    struct os_process *writer = os_store_find_process(store, process);
    if (!writer)
        return mt_error(MT_ENOENT, 0, "object store: no such process");
    if (store->next_number > OS_SEGMENT_MAX)
        return mt_error(MT_EAGAIN, 0, "object store: no segment number is left; restart this node's raylet");
    struct os_segment *segment = calloc(1, sizeof *segment);
    if (!segment)
        return mt_error(MT_ENOMEM, 0, "object store: segment");
    *segment = (struct os_segment){
        .number = store->next_number++, .job = writer->job, .writer = process, .size = size, .backing = *backing};
    struct os_segment **bucket = &store->bucket[segment->number % STORE_BUCKETS];
    segment->next_in_bucket = *bucket;
    *bucket = segment;
    *(store->last ? &store->last->next : &store->first) = segment;
    store->last = segment;
    store->bytes_reserved += size;
    store->segment_count++;
    writer->segments++;
    *out_segment = segment->number;
    return mt_ok();
}

mt_status os_store_segment_back(struct os_store *store, uint64_t process, uint32_t segment)
{
    struct os_segment *back = os_store_find_segment(store, segment);
    struct os_process *writer = os_store_find_process(store, process);
    if (!back || !writer || back->writer != process)
        return mt_error(MT_EPROTO, 0, "object store: gave back what it does not have");
    struct os_walk walk = {.owner = 0};
    MT_TRY(orphan(store, back, &walk)); /* what it still holds, against its word, stays until its owners say */
    /* A run that it has not heard to be free may have been handed back meanwhile. That word may reach it later than the next
     * grant does, and would free what it writes there by then. */
    back->is_spent = walk.runs > 0;
    if (writer->segments > 0)
        writer->segments--;
    return mt_ok();
}

/* --- figures
 * ---------------------------------------------------------------------------------------------------- */

void os_store_stats(const struct os_store *store, struct os_stats *out)
{
    *out = (struct os_stats){.bytes_max = store->config.bytes_max,
                             .bytes_reserved = store->bytes_reserved,
                             .segments = store->segment_count,
                             .processes = store->process_count,
                             .copies = store->copy_count,
                             .dead_pinned = (uint32_t)store->pinned.count,
                             .dead_total = store->dead_total,
                             .back_total = store->back_total,
                             .full_total = store->full_total,
                             .bytes_allowed = store->bytes_allowed,
                             .bytes_withheld = store->bytes_withheld};
    for (struct os_segment *segment = store->first; segment; segment = segment->next) {
        bool warm = os_segment_is_warm(segment);
        out->warm += warm;
        out->orphans += segment->writer == 0 && !warm;
        out->bytes_warm += warm ? segment->size : 0;
    }
}
