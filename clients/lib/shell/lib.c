/* SPDX-License-Identifier: Apache-2.0
 *
 * lib.c - the process's one struct lib: its lock, and the pump that connects the pure halves to the raylet.
 *
 * Owns:   `lib`. Thread: any, under the lock, unless a line says otherwise.
 */
#include "clients/lib/shell/lib.h"

#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct lib lib = {.socket = -1, .park_fd = -1, .event_fd = -1};

#define X(name, number, text) static_assert((int)MANTA_##name == (int)MT_##name, "one number for one error");
MT_CODES(X)
#undef X

uint64_t lib_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- fork ---- */

/* In the child: another thread of the parent may have held the lock, and what is mapped is the parent's. The descriptors are
 * copies, and would keep the parent's end from being seen. */
static void in_child(void)
{
    if (lib.role != LIB_DRIVER && lib.role != LIB_WORKER)
        return;
    lib_door_forked();
    lib.role = LIB_FORKED;
    lib_disconnect();
    lib_private_forget();
}

static void fork_watch(void)
{
    static bool is_watched;
    if (!is_watched)
        is_watched = pthread_atfork(NULL, NULL, in_child) == 0;
    lib_door_watch_forks();
}

/* ---- in and out ---- */

manta_status lib_enter_slowly(bool is_held, manta_error *e)
{
    manta_status code;
    if (lib_is_inside())
        return lib_error(e, MANTA_EDEADLK, "%s", LIB_INTERRUPTED_TEXT);
    lib_lock();
    if (lib_door_is_open() || (is_held && lib.role == LIB_OVER))
        return MANTA_OK;
    code = lib_check(e);
    lib_unlock();
    return code;
}

void lib_open(enum lib_role role)
{
    lib.role = role;
    shm_store32_release(&lib_door.is_open, 1);
    fork_watch();
}

void lib_close(void)
{
    lib.role = LIB_OVER;
    shm_store32_release(&lib_door.is_open, 0);
}

/* ---- errors ---- */

manta_status lib_error(manta_error *e, int32_t code, const char *format, ...)
{
    va_list args;
    if (!e)
        return code;
    memset(e, 0, sizeof *e);
    e->code = code;
    va_start(args, format);
    vsnprintf(e->message, sizeof e->message, format, args);
    va_end(args);
    return code;
}

manta_status lib_error_failure(manta_error *e, const struct own_failure *f, mt_id task)
{
    if (!e)
        return f->code;
    memset(e, 0, sizeof *e);
    e->code = f->code;
    e->user_code = f->user_code;
    e->outcome = f->outcome;
    e->pid = f->pid;
    e->attempt = f->attempt;
    e->signal_number = f->signal_number;
    snprintf(e->function, sizeof e->function, "%s", f->function);
    if (f->node)
        snprintf(e->node, sizeof e->node, "%u", f->node);
    mt_id_text(task, e->task);
    snprintf(e->where, sizeof e->where, "%s", f->where);
    snprintf(e->message, sizeof e->message, "%s", f->message);
    snprintf(e->backtrace, sizeof e->backtrace, "%s", f->backtrace);
    return f->code;
}

manta_status lib_error_status(manta_error *e, mt_status st)
{
    if (st.code == MT_OK)
        return MANTA_OK;
    if (st.sys)
        return lib_error(e, st.code, "%s: %s", st.what, strerror(st.sys));
    return lib_error(e, st.code, "%s: %s", mt_code_text(st.code), st.what);
}

/* After the end of the raylet. */
static const char what_to_do[] = ". Values that are in this process can still be read. To go on, call manta_shutdown, then "
                                 "manta_init, which fails until the node is there again";

manta_status lib_check(manta_error *e)
{
    if (lib_is_forked())
        return lib_error(e, MANTA_EFORKED, "%s", LIB_FORKED_TEXT);
    if (lib.broken)
        return lib_error(e, lib.broken, "%s", lib.broken_text);
    if (lib.role == LIB_NONE)
        return lib_error(e, MANTA_EINVAL, "manta_init has not been called in this process");
    if (lib.role == LIB_OVER)
        return lib_error(e, MANTA_ECONN, "%s", LIB_OVER_TEXT);
    return MANTA_OK;
}

manta_status lib_error_broken(manta_error *e)
{
    manta_status code = lib_check(e);
    if (e)
        e->outcome = MANTA_UNKNOWN;
    return code;
}

void lib_refused_pause(void)
{
    const struct timespec pause = {.tv_nsec = MT_LIB_REFUSED_NAP_NS};
    lib_lock();
    bool is_many = (lib.broken || lib.role == LIB_OVER) && ++lib.refused > MT_LIB_REFUSED_FREE;
    lib_unlock();
    if (is_many)
        nanosleep(&pause, NULL);
}

void lib_break(int32_t code, const char *text)
{
    if (lib.broken)
        return;
    lib.broken = code;
    snprintf(lib.broken_text, sizeof lib.broken_text, "%s%s", text, code == MT_ECONN ? what_to_do : "");
    if (lib.role == LIB_WORKER) {
        if (lib.own.run.number == 0 && lib.own.completed == 0)
            lib_worker_unable(lib.socket, code, text);
        _exit(1); /* a worker without its raylet has no reason to live */
    }
    lib_wake_all(&lib.followers);
}

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

mt_status lib_prepare(void)
{
    mt_status news = mt_vec_reserve(&lib.news, MT_LIB_SPARE), maps = mt_vec_reserve(&lib.mappings, MT_LIB_SPARE);
    mt_status wrk = lib.role == LIB_DRIVER ? mt_ok() : wrk_prepare(&lib.wrk);
    return news.code ? news : maps.code ? maps : wrk;
}

static void act(struct own_out *out)
{
    if (MT_UNLIKELY(out->is_starved))
        lib_break(MT_ENOMEM, "there was no memory left for a message that others wait for: every later call fails");
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
    if ((out->deaths.count || lib.callbacks) && lib.has_helper && lib.park) { /* it may sleep, though the leader is up */
        shm_add32(&lib.park->bell, 1);
        shm_futex_wake(&lib.park->bell, INT32_MAX);
    }
    out->deaths.count = 0;
}

void lib_news(const struct own_death *news)
{
    if (mt_vec_push(&lib.news, *news).code)
        lib_break(MT_ENOMEM, "there was no memory left for the news of a death: every later call fails");
}

void lib_act(void)
{
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

void lib_control(const struct lane_record *record, const uint8_t *payload, const int *fds, int fd_count)
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
    if ((record->kind == CTL_GRANT || record->kind == CTL_LANE) && fd_count == 2) {
        struct lib_mapping mapping;
        mapping.lane = lane = lib_map(fds[0], LANE_BYTES, true);
        mapping.park = park = lib_map(fds[1], sizeof *park, true);
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
    if (st.code == MT_OK && record->kind != CTL_LANE)
        st = own_control(&lib.own, record, payload, lane, park);
    if (st.code)
        lib_break(st.code, st.what);
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
        lib_socket_drain(); /* what came with descriptors before this record must be known first */
        lane_ring_consume(&lib.down);
        lib_control(&record, copy, NULL, 0);
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
    if (MT_UNLIKELY(lib.inlined != NULL)) {
        lib_inline_run();
        return false;
    }
    any = down_drain();
    if (shm_load32_acquire(&lib.park->socket_count) != lib.socket_seen) {
        lib_socket_drain();
        any = true;
    }
    any |= own_poll(&lib.own);
    own_flush(&lib.own);
    lib_act();
    if (lib.follower_count && (completed != lib.own.completed || any))
        lib_wake_all(&lib.followers);
    return any;
}
