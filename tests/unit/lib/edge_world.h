/* SPDX-License-Identifier: Apache-2.0
 *
 * edge_world.h - an owner and two workers in one process, each event by hand: for the tests of edges.
 */
#ifndef UNIT_LIB_EDGE_WORLD_H
#define UNIT_LIB_EDGE_WORLD_H

#include "clients/lib/worker/wrk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { PROCESS = 7, WORKER = 9, HERE = 1, THERE = 2, ELSEWHERE = 3, BOARD = 3, CELLS = 16, MS = 1000 * 1000, TOO_LARGE = 200 };

struct world {
    struct own        own;
    struct own_class *cls, *other; /* other: of another node than cls; NULL: there is none */
    struct wrk        workers[2];
    uint32_t          there[2];                     /* node of each worker */
    void             *lanes[2], *board, *far_board; /* that workers of another node share */
    struct lane_park  parks[2], owners;
    struct wrk_run    runs[2];
    struct own_ref   *maker, *taker; /* on worker 0, ahead on worker 1 */
};

static inline struct own_ref *submit_to(struct world *w, struct own_class *cls, struct own_ref *first, struct own_ref *second,
                                        int32_t retries)
{
    struct own_arg  args[2] = {{.type = 'l', .ref = first}, {.type = 'l', .ref = second}};
    struct own_call call = {
        .name = "f", .function = 1, .kind = LANE_TASK, .cls = cls, .args = args, .argc = !!first + !!second, .retries = retries};
    return own_submit(&w->own, &call);
}
static inline struct own_ref *submit(struct world *w, struct own_ref *first, struct own_ref *second, int32_t retries)
{
    return submit_to(w, w->cls, first, second, retries);
}

static inline void granted(struct world *w, uint32_t which)
{
    struct ctl_grant   grant = {.lease = which + 1,
                                .class_id = which && w->other ? 2 : 1,
                                .flags = w->there[which] == HERE ? 0 : CTL_GRANT_REMOTE,
                                .peer = WORKER + which,
                                .peer_node = w->there[which]};
    struct lane_record record = {.length = LANE_RECORD_SIZE + sizeof grant, .kind = CTL_GRANT};
    w->lanes[which] = calloc(1, LANE_BYTES);
    assert_int_equal(own_control(&w->own, &record, (const uint8_t *)&grant, w->lanes[which], &w->parks[which]).code, MT_OK);
    record.kind = CTL_LANE;
    grant.peer = PROCESS;
    wrk_init(&w->workers[which], 1);
    assert_int_equal(wrk_control(&w->workers[which], &record, (const uint8_t *)&grant, w->lanes[which], &w->owners).code, MT_OK);
}

static inline void sound(struct world *w)
{
    const char *wrong = own_check(&w->own);
    if (wrong)
        fail_msg("%s", wrong);
}

/* Tasks of different groups are of different classes. */
static inline struct own_class *class_of(struct world *w, uint64_t group)
{
    struct own_class_spec spec = {.name = "f", .group = group, .resource_count = 1, .resources = {{"CPU", 1000}}};
    return own_class_get(&w->own, &spec, (mt_id){0, 0});
}

/* An owner with cells, and the nodes where its two workers are to be. */
static inline struct world *world_new(uint32_t first, uint32_t second)
{
    struct world *w = calloc(1, sizeof *w);
    w->there[0] = first;
    w->there[1] = second;
    own_init(&w->own, PROCESS, HERE, 1, 1);
    w->own.now_ns = 1000ull * MS;
    w->cls = class_of(w, 0);
    w->board = calloc(CELLS, LANE_CELL_BYTES);
    w->far_board = calloc(CELLS, LANE_CELL_BYTES);
    assert_true(own_edges_open(&w->own, w->board, BOARD, CELLS));
    return w;
}

/* Both workers are there, on these nodes, and one task makes what the other takes. */
static inline struct world *begin_at(uint32_t first, uint32_t second, int32_t retries)
{
    struct world *w = world_new(first, second);
    own_class_demand(&w->own, w->cls, 2);
    granted(w, 0);
    granted(w, 1);
    w->cls->edge_tasks = 100; /* as after a task that waited for another one */
    w->cls->turn = 0;
    w->maker = submit(w, NULL, NULL, retries);
    w->taker = submit(w, w->maker, NULL, retries);
    own_flush(&w->own);
    sound(w);
    return w;
}

/* ... and that one was sent ahead. */
static inline struct world *begin_both(uint32_t node, int32_t retries)
{
    struct world *w = begin_at(node, node, retries);
    assert_ptr_equal(w->maker->task->lane->memory, w->lanes[0]);
    assert_true(w->taker->task->is_ahead);
    assert_ptr_equal(w->taker->task->lane->memory, w->lanes[1]);
    return w;
}

static inline struct world *begin(int32_t retries)
{
    return begin_both(HERE, retries);
}

/* Some of its tasks may still be under way. */
static inline void leave(struct world *w)
{
    sound(w);
    own_fini(&w->own);
    for (int i = 0; i < 2; i++) {
        wrk_fini(&w->workers[i]);
        free(w->lanes[i]);
    }
    free(w->board);
    free(w->far_board);
    free(w);
}

static inline void end(struct world *w)
{
    sound(w);
    own_ref_drop(&w->own, w->maker);
    own_ref_drop(&w->own, w->taker);
    for (uint32_t i = 0; i < w->own.edges.count; i++)
        assert_int_equal(w->own.edges.cells[i].users, 0);
    leave(w);
}

/* The worker takes its next task; false: none can begin. It maps what it is asked to. */
static inline bool takes(struct world *w, int which)
{
    struct wrk            *wrk = &w->workers[which];
    bool                   any = wrk_next(wrk, &w->runs[which]);
    const struct wrk_lane *lane = wrk_board_asked(wrk);
    if (lane) {
        bool is_far = lane->board_asked & LANE_BOARD_FAR;
        assert_int_equal(is_far, w->there[which] != HERE);
        wrk_board_open(wrk, lane->lease, &(struct wrk_board){.memory = is_far ? w->far_board : w->board, .count = CELLS});
        any = any || wrk_next(wrk, &w->runs[which]);
    }
    return any;
}

/* What a worker whose lane has not named the board yet does not fill, the owner fills. */
static inline void maps(struct world *w, int which)
{
    struct wrk_lane *lane = w->workers[which].lanes.data[0];
    lane->board = BOARD;
    lane->cells = w->board;
    lane->cell_count = CELLS;
}

static inline void ends_shown(struct world *w, int which, int32_t code, int64_t number, uint32_t size, bool is_shown)
{
    struct {
        struct lane_value head;
        uint8_t           bytes[TOO_LARGE];
    } value = {.head = {.type = size > 8 ? 'y' : 'l', .size = size}};
    struct lane_failure failure = {.pid = 1};
    memcpy(value.bytes, &number, sizeof number);
    assert_true(code ? wrk_done(&w->workers[which], LANE_DONE_ERROR, code, 0, &failure, sizeof failure, w->own.now_ns, 1000)
                     : wrk_done(&w->workers[which], 0, 0, 0, &value, sizeof value.head + size, w->own.now_ns, 1000));
    if (is_shown)
        wrk_flush(&w->workers[which]);
}

static inline void ends(struct world *w, int which, int64_t number)
{
    ends_shown(w, which, 0, number, 8, true);
}

static inline int64_t argument(const struct world *w, int which)
{
    const struct wrk_run *run = &w->runs[which];
    struct lane_value     value;
    const uint8_t        *bytes = run->payload + sizeof(struct lane_call_head) + sizeof value;
    int64_t               number = -1;
    memcpy(&value, bytes - sizeof value, sizeof value);
    if (value.flags & LANE_VALUE_EDGE)
        assert_true(wrk_edge_value(run, bytes, &value, &bytes));
    assert_int_equal(value.size, 8);
    memcpy(&number, bytes, sizeof number);
    return number;
}

static inline void lease_ends(struct world *w, int which, int32_t code)
{
    struct ctl_ended   ended = {.lease = (uint64_t)which + 1, .code = code, .status = 9, .text = "killed"};
    struct lane_record record = {.length = LANE_RECORD_SIZE + sizeof ended, .kind = CTL_ENDED};
    assert_int_equal(own_control(&w->own, &record, (const uint8_t *)&ended, NULL, NULL).code, MT_OK);
    sound(w);
}

static inline int64_t value_of(const struct own_ref *ref)
{
    int64_t number;
    assert_int_equal(ref->state, OWN_REF_INLINE);
    memcpy(&number, own_ref_bytes(ref), sizeof number);
    return number;
}

static inline void polled(struct world *w)
{
    own_poll(&w->own);
    own_settle_posted(&w->own);
    own_flush(&w->own);
    sound(w);
}

/* The switch on the owner's node has sent it on. */
static inline void leaves(struct world *w, const struct own_ref *ref)
{
    struct own_lane *lane = ref->task->lane;
    shm_u64         *slot = &lane->claims[ref->task->sequence & (LANE_SLOTS - 1)];
    (void)w;
    assert_true(lane_claim_take(slot, ref->task->sequence, ref->task->attempt, LANE_RUNNING));
}
/* ... and the one on the worker's node has set the claim: here both share one word. */
static inline void arrives(struct world *w, const struct own_ref *ref)
{
    leaves(w, ref);
    lane_claim_set(&ref->task->lane->claims[ref->task->sequence & (LANE_SLOTS - 1)], ref->task->sequence, ref->task->attempt);
}

#endif
