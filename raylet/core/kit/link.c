/* SPDX-License-Identifier: Apache-2.0
 *
 * link.c - see link.h.
 *
 * Owns: the frames of each link. Thread: the logic loop only.
 * Always: frames in the list are numbered without a gap up to `sent`, unsent ones behind them; flight_bytes counts those
 * before `unsent`.
 */
#include "raylet/core/kit/link.h"

#include "core/base/plant.h"

#include "raylet/core/kit/actions.h"

#include <stdlib.h>
#include <string.h>

void link_init(struct rlt_link *l, uint32_t node, uint32_t epoch, uint64_t number)
{
    memset(l, 0, sizeof *l);
    l->node = node;
    l->epoch = epoch;
    l->number = number;
    l->end = &l->first;
    l->credit = LINK_FIRST_BYTES;
}

static void frames_drop(struct rlt_link *l)
{
    while (l->first) {
        struct link_frame *f = l->first;
        l->first = f->next;
        free(f);
    }
    l->end = &l->first;
    l->unsent = NULL;
}

void link_fini(struct rlt_link *l)
{
    frames_drop(l);
}

static bool link_run_is_good(const uint8_t *bytes, size_t size)
{
    bool is_control = false;
    for (size_t at = 0; at < size;) {
        struct lane_record r;
        if (size - at < LANE_RECORD_SIZE)
            return false;
        memcpy(&r, bytes + at, sizeof r);
        if (r.length < LANE_RECORD_SIZE || r.length > LANE_RECORD_MAX || lane_record_padded(r.length) > size - at)
            return false;
        if (at && is_control != (r.kind >= LANE_CTL))
            return false;
        is_control = r.kind >= LANE_CTL;
        at += lane_record_padded(r.length);
    }
    return true;
}

static void frame_append(struct rlt_link *l, const uint8_t *bytes, size_t size)
{
    struct lane_record first;
    struct link_frame *f = malloc(sizeof *f + size);
    if (!f)
        rlt_out_of_memory();
    memcpy(&first, bytes, sizeof first);
    f->next = NULL;
    f->sequence = 0;
    f->size = size;
    f->is_control = first.kind >= LANE_CTL;
    memcpy(f->bytes, bytes, size);
    *l->end = f;
    l->end = &f->next;
    if (!l->unsent)
        l->unsent = f;
    l->queued_bytes += size;
}

void link_queue(struct rlt_link *l, const uint8_t *bytes, size_t size)
{
    size_t from = 0, at = 0;
    while (at < size) {
        struct lane_record r;
        memcpy(&r, bytes + at, sizeof r);
        size_t record = lane_record_padded(r.length);
        if (at > from && at + record - from > LINK_FRAME_BYTES) {
            frame_append(l, bytes + from, at - from);
            from = at;
        }
        at += record;
    }
    if (at > from)
        frame_append(l, bytes + from, at - from);
}

const struct link_frame *link_next(struct rlt_link *l)
{
    struct link_frame *f = l->unsent;
    if (!f || (l->flight_bytes && l->flight_bytes + f->size > l->credit))
        return NULL;
    if (!f->sequence)
        f->sequence = ++l->sent;
    l->flight_bytes += f->size;
    l->unsent = f->next;
    return f;
}

uint32_t link_rewind(struct rlt_link *l)
{
    uint32_t count = 0;
    for (const struct link_frame *f = l->first; f && f->sequence; f = f->next)
        count++;
    if (!MT_PLANT(MT_PLANT_NO_REPLAY))
        l->unsent = l->first;
    l->flight_bytes = 0;
    return count;
}

void link_fill(struct rlt_link *l, uint32_t own_node, uint32_t own_epoch, const struct link_frame *f, Manta__V1__Frame *out)
{
    out->from_node = own_node;
    out->from_epoch = own_epoch;
    out->to_node = l->node;
    out->link = l->number;
    out->acknowledged = l->taken;
    out->credit = LINK_WINDOW_BYTES;
    if (f) {
        out->sequence = f->sequence;
        out->records.data = (uint8_t *)(uintptr_t)f->bytes;
        out->records.len = f->size;
    }
    l->acked_taken = l->taken;
    l->taken_bytes = 0;
}

static void acknowledged(struct rlt_link *l, uint64_t sequence)
{
    while (l->first && l->first->sequence && l->first->sequence <= sequence) {
        struct link_frame *f = l->first;
        if (f == l->unsent)
            l->unsent = f->next; /* sent on an earlier stream, and arrived */
        else
            l->flight_bytes -= f->size;
        l->queued_bytes -= f->size;
        l->first = f->next;
        if (!l->first)
            l->end = &l->first;
        free(f);
    }
}

bool link_would_reset(const struct rlt_link *l, const Manta__V1__Frame *f)
{
    return f->link > l->number;
}

enum link_verdict link_take(struct rlt_link *l, const Manta__V1__Frame *f, bool *is_reset)
{
    *is_reset = false;
    if (f->link < l->number)
        return LINK_STALE;
    if (f->acknowledged > l->sent && f->link == l->number)
        return LINK_BROKEN;
    if (f->records.len > LINK_FRAME_BYTES + LANE_RECORD_MAX || !link_run_is_good(f->records.data, f->records.len))
        return LINK_BROKEN;
    if (f->link > l->number) {
        uint32_t           node = l->node, epoch = l->epoch;
        struct link_frame *kept = l->is_agreed ? NULL : l->first;
        *is_reset = l->is_agreed;
        if (l->is_agreed)
            frames_drop(l);
        link_init(l, node, epoch, f->link);
        for (l->first = l->unsent = kept; kept; kept = kept->next) { /* nobody has seen them: they go out anew */
            kept->sequence = 0;
            l->queued_bytes += kept->size;
            l->end = &kept->next;
        }
        if (f->acknowledged)
            return LINK_BROKEN;
    }
    l->is_agreed = true;
    l->credit = f->credit;
    acknowledged(l, f->acknowledged);
    if (!f->records.len)
        return LINK_SEEN;
    if (f->sequence != l->taken + 1 && !(MT_PLANT(MT_PLANT_NO_DEDUP) && f->sequence <= l->taken)) {
        l->acked_taken = UINT64_MAX; /* say again how far it is: the other end may not know */
        return LINK_SEEN;
    }
    l->taken = f->sequence;
    l->taken_bytes += f->records.len;
    return LINK_NEW;
}
