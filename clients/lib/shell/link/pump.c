/* SPDX-License-Identifier: Apache-2.0
 *
 * pump.c - what connects the two pure halves to the raylet: what they want done, and what has come.
 *
 * Owns:   nothing. Thread: any, under the owner lock.
 */
#include "clients/lib/shell/ahead/ahead.h"
#include "clients/lib/shell/due/due.h"
#include "clients/lib/shell/inline/inline.h"
#include "clients/lib/shell/lease/lease.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/output/output.h"
#include "clients/lib/shell/segments/segments.h"
#include "clients/lib/shell/socket/socket.h"
#include "clients/lib/shell/state/state.h"

#include <stdio.h>
#include <sys/socket.h>

/* ---- what the halves want done ---- */

/* Copies whole records into the up ring; what does not fit stays for the next time. */
static void send_up(mt_buf *up)
{
    size_t at = 0;
    while (at < up->size) {
        struct lane_record record;
        memcpy(&record, up->data + at, sizeof record);
        if (!lane_ring_push(&lib.up, &record, up->data + at + LANE_RECORD_SIZE))
            break;
        at += lane_record_padded(record.length);
    }
    if (!at)
        return;
    memmove(up->data, up->data + at, up->size - at);
    up->size -= at;
    lane_ring_publish(&lib.up);
    shm_add32(&lib.park->up_count, 1);
    if (lane_park_must_wake(lib.switch_park))
        lane_park_wake(lib.switch_park);
}

static void act(struct own_out *out)
{
    if (MT_UNLIKELY(out->is_starved))
        lib_break(MT_ENOMEM, "there was no memory left for a message that others wait for: every later call fails");
    if (MT_UNLIKELY(out->places.count))
        lib_ahead_take_up(out);
    if (out->up.size)
        send_up(&out->up);
    for (uint32_t i = 0; i < out->wake_count; i++)
        lane_park_wake(out->wake[i]);
    out->wake_count = 0;
    for (size_t i = 0; i < out->unmap.count; i++)
        lib_unmap_lane(out->unmap.data[i]);
    out->unmap.count = 0;
    for (size_t i = 0; i < out->deaths.count; i++)
        lib_news(&out->deaths.data[i]);
    if (MT_UNLIKELY(out->callbacks != NULL))
        lib_callbacks_take(out);
    if ((out->deaths.count || lib.callbacks || out->unheard_count) && lib.has_helper &&
        lib.park) { /* it may sleep, though the leader is up */
        shm_add32(&lib.park->bell, 1);
        shm_futex_wake(&lib.park->bell, INT32_MAX);
    }
    out->deaths.count = 0;
}

void lib_act(void)
{
    own_settle_posted(&lib.own);
    own_settle_posted(&lib.own);
    if (MT_UNLIKELY(lib.inlined != NULL)) {
        lib_inline_act(&lib.own.out);
        lib_inline_act(&lib.wrk.out);
        return;
    }
    act(&lib.own.out);
    act(&lib.wrk.out);
}

/* ---- what has come ---- */

static struct lib_request *request_find(mt_id id)
{
    for (size_t i = 0; i < lib.requests.count; i++)
        if (mt_id_equal(lib.requests.data[i]->id, id))
            return lib.requests.data[i];
    return NULL;
}

static void request_answer(struct lib_request *request, const struct lane_record *record, const uint8_t *payload, const int *fds,
                           int fd_count)
{
    request->size = record->length - LANE_RECORD_SIZE;
    request->kind = record->kind;
    memcpy(request->payload, payload, request->size);
    for (int i = 0; i < fd_count && i < 2; i++)
        request->fds[request->fd_count++] = fds[i];
    request->is_done = true;
}

static void control(const struct lane_record *record, const uint8_t *payload, const int *fds, int fd_count)
{
    struct lib_request *request = request_find(record->id);
    void               *lane = NULL;
    struct lane_park   *park = NULL;
    mt_status           st = mt_ok();

    (void)lib_prepare().code; /* without memory now, what was set aside before has to do */
    if (request) {
        request_answer(request, record, payload, fds, fd_count);
        return;
    }
    if (lib_ahead_came(record, payload))
        return;
    if ((record->kind == CTL_GRANT || record->kind == CTL_LANE) && fd_count == 2) {
        struct lib_mapping mapping;
        mapping.lane = lane = lib_map(fds[0], 0, LANE_BYTES, true);
        mapping.park = park = lib_map(fds[1], record->slot * sizeof *park, sizeof *park, true);
        if (!lane || !park || mt_vec_push(&lib.mappings, mapping).code) {
            lib_break(MT_ENOMEM, "a lease could not be mapped");
            return;
        }
    }
    if (record->kind == CTL_MESSAGE && lib_output_came(record, payload))
        return;
    if (record->kind == CTL_SPACE_BACK && record->length >= LANE_RECORD_SIZE + sizeof(struct ctl_space)) {
        struct ctl_space space;
        memcpy(&space, payload, sizeof space);
        lib_space_back(&space);
    } else if (record->kind == CTL_SEGMENT_ASK && record->length >= LANE_RECORD_SIZE + sizeof(struct ctl_segment)) {
        struct ctl_segment segment;
        memcpy(&segment, payload, sizeof segment);
        lib_segment_asked(segment.segment);
    } else if (record->kind == CTL_SHUTDOWN) {
        lib_break(MT_ECONN, "the raylet of this node is shutting down");
    } else if (record->kind == CTL_LANE || (record->kind == CTL_RECALL && lib.role == LIB_WORKER)) {
        if (record->kind == CTL_LANE && record->length >= LANE_RECORD_SIZE + sizeof(struct ctl_grant)) {
            struct ctl_grant grant;
            memcpy(&grant, payload, sizeof grant);
            lib_lease_begin(&grant);
        }
        st = wrk_control(&lib.wrk, record, payload, lane, park);
    } else if (record->kind == CTL_LOOK) {
        st = own_looked_at(&lib.own, record, payload);
    }
    if (record->kind == CTL_MESSAGE)
        lib.own.now_ns = lib_now_ns(); /* as for a call of this process (api/cancel.c) */
    if (st.code == MT_OK && record->kind != CTL_LANE)
        st = own_control(&lib.own, record, payload, lane, park);
    if (st.code)
        lib_break(st.code, st.what);
}

static void socket_drain(void)
{
    uint32_t count = shm_load32_acquire(&lib.park->socket_count);
    if (count == lib.socket_seen)
        return;
    lib.socket_seen = count;
    lib_socket_take();
}

void lib_socket_take(void)
{
    for (;;) {
        struct lane_record record;
        uint8_t            bytes[LANE_RECORD_MAX];
        int                fds[CTL_FDS_MAX], fd_count;
        size_t             size;
        mt_status          st = lib_socket_receive(lib.socket, bytes, sizeof bytes, &size, fds, &fd_count);
        if (st.code == MT_EAGAIN)
            return;
        if (st.code) {
            char text[128];
            snprintf(text, sizeof text, "the raylet of this node is gone: %s%s%s", st.what, st.sys ? ": " : "",
                     st.sys ? strerrordesc_np(st.sys) : "");
            lib_break(MT_ECONN, text);
            return;
        }
        memcpy(&record, bytes, sizeof record);
        if (size < sizeof record || record.length != size) {
            lib_break(MT_EPROTO, "a message of the raylet is cut short");
            return;
        }
        control(&record, bytes + sizeof record, fds, fd_count);
    }
}

static bool down_drain(void)
{
    struct lane_record record;
    const uint8_t     *payload;
    bool               found = true, any = false;
    while (lane_ring_has_more(&lib.down)) {
        uint8_t copy[LANE_RECORD_MAX];
        if (lane_ring_peek(&lib.down, &record, &payload, &found).code) {
            lib_break(MT_EPROTO, "the raylet broke the protocol of the control ring");
            return true;
        }
        if (!found)
            break;
        memcpy(copy, payload, record.length - LANE_RECORD_SIZE);
        socket_drain(); /* what came with descriptors before this record must be known first */
        lane_ring_consume(&lib.down);
        control(&record, copy, NULL, 0);
        any = true;
    }
    if (any)
        lane_ring_release(&lib.down);
    return any;
}

bool lib_pump(void)
{
    bool     any = false;
    uint64_t completed = lib.own.completed;
    if (MT_UNLIKELY(lib.inlined != NULL))
        return false;
    any = down_drain();
    if (shm_load32_acquire(&lib.park->socket_count) != lib.socket_seen) {
        socket_drain();
        any = true;
    }
    any |= own_poll(&lib.own);
    own_flush(&lib.own);
    lib_act();
    if (lib.follower_count && (completed != lib.own.completed || any))
        lib_wake_all(&lib.followers);
    return any;
}
