/* SPDX-License-Identifier: Apache-2.0
 *
 * link_test.c - records between two nodes: once, in order, over a channel that loses, repeats and reorders frames.
 */
#include "core/base/rng.h"
#include "raylet/core/kit/link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WIRE = 64 };

/* A frame on its way, copied. */
struct wire_frame {
    Manta__V1__Frame frame;
    uint8_t         *bytes;
};
struct wire {
    struct wire_frame frames[WIRE];
    int               count;
};

static void wire_put(struct wire *w, struct rlt_link *l, uint32_t node, const struct link_frame *f)
{
    struct wire_frame *to = &w->frames[w->count];
    if (w->count == WIRE)
        return; /* lost */
    Manta__V1__Frame out = MANTA__V1__FRAME__INIT;
    link_fill(l, node, 1, f, &out);
    to->frame = out;
    to->bytes = malloc(out.records.len + 1);
    if (out.records.len)
        memcpy(to->bytes, out.records.data, out.records.len);
    to->frame.records.data = to->bytes;
    w->count++;
}

static void wire_drop(struct wire *w, int at)
{
    free(w->frames[at].bytes);
    w->frames[at] = w->frames[--w->count];
}

static void wire_clear(struct wire *w)
{
    while (w->count)
        wire_drop(w, 0);
}

static void queue_one(struct rlt_link *l, uint64_t number, uint32_t size)
{
    static uint64_t    bytes[LANE_RECORD_MAX / 8];
    struct lane_record r = {.length = LANE_RECORD_SIZE + size, .kind = LANE_TASK, .sequence = number};
    memcpy(bytes, &r, sizeof r);
    link_queue(l, (const uint8_t *)bytes, lane_record_padded(r.length));
}

/* Takes every record of a frame in; each must be the next one. */
static void take_records(const Manta__V1__Frame *f, uint64_t *next)
{
    for (size_t at = 0; at < f->records.len;) {
        struct lane_record r;
        memcpy(&r, f->records.data + at, sizeof r);
        assert_int_equal(r.sequence, *next);
        ++*next;
        at += lane_record_padded(r.length);
    }
}

static void every_record_arrives_once_and_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        mt_rng          rng = {seed};
        struct rlt_link ends[2];
        struct wire     wires[2] = {{.count = 0}, {.count = 0}};
        uint64_t        queued[2] = {0}, next[2] = {1, 1};
        link_init(&ends[0], 2, 1, 10);
        link_init(&ends[1], 1, 1, 7); /* the higher number wins */
        for (int step = 0; step < 2000000 && (next[0] <= 500 || next[1] <= 500); step++) {
            int                      side = (int)mt_rng_below(&rng, 2);
            struct rlt_link         *l = &ends[side];
            struct wire             *in = &wires[!side];
            const struct link_frame *f;
            bool                     is_reset;
            if (queued[side] < 500 && mt_rng_below(&rng, 2))
                queue_one(l, ++queued[side], (uint32_t)mt_rng_below(&rng, 5000));
            if (mt_rng_below(&rng, 50) == 0)
                link_rewind(l);
            if ((f = link_next(l)) || mt_rng_below(&rng, 4) == 0)
                wire_put(&wires[side], l, (uint32_t)side + 1, f);
            if (!in->count)
                continue;
            int      at = (int)mt_rng_below(&rng, (uint64_t)in->count); /* out of order */
            uint64_t luck = mt_rng_below(&rng, 10);
            if (luck > 0 && link_take(l, &in->frames[at].frame, &is_reset) == LINK_NEW)
                take_records(&in->frames[at].frame, &next[side]);
            if (luck < 8) /* else it comes again */
                wire_drop(in, at);
        }
        assert_int_equal(next[0], 501);
        assert_int_equal(next[1], 501);
        assert_int_equal(ends[0].number, ends[1].number);
        for (int i = 0; i < 2; i++) {
            wire_clear(&wires[i]);
            link_fini(&ends[i]);
        }
    }
}

static enum link_verdict give(struct rlt_link *to, struct rlt_link *from, uint32_t node, const struct link_frame *f, bool *is_reset)
{
    Manta__V1__Frame out = MANTA__V1__FRAME__INIT;
    link_fill(from, node, 1, f, &out);
    return link_take(to, &out, is_reset);
}

static void a_new_link_tells_that_the_old_one_is_over(void **state)
{
    struct rlt_link a, b;
    bool            is_reset;
    (void)state;
    link_init(&a, 2, 1, 10);
    link_init(&b, 1, 1, 10);
    queue_one(&a, 1, 0);
    assert_int_equal(give(&b, &a, 1, link_next(&a), &is_reset), LINK_NEW);
    queue_one(&b, 1, 0);
    link_fini(&a); /* A has given B up, and begins anew */
    link_init(&a, 2, 1, 11);
    assert_int_equal(give(&a, &b, 2, link_next(&b), &is_reset), LINK_STALE);
    assert_int_equal(give(&b, &a, 1, NULL, &is_reset), LINK_SEEN);
    assert_true(is_reset);
    assert_int_equal(b.number, 11);
    assert_int_equal(b.queued_bytes, 0);
    assert_null(link_next(&b));
    link_fini(&a);
    link_fini(&b);
}

static void no_more_is_under_way_than_the_credit(void **state)
{
    struct rlt_link          a, b;
    const struct link_frame *f;
    uint64_t                 sent = 0;
    bool                     is_reset;
    (void)state;
    link_init(&a, 2, 1, 10);
    link_init(&b, 1, 1, 10);
    for (uint64_t i = 0; i < 2000; i++)
        queue_one(&a, i, 8000);
    while ((f = link_next(&a))) {
        sent += f->size;
        assert_int_not_equal(give(&b, &a, 1, f, &is_reset), LINK_BROKEN);
    }
    assert_true(sent <= LINK_FIRST_BYTES && sent > LINK_FIRST_BYTES / 2);
    assert_int_equal(give(&a, &b, 2, NULL, &is_reset), LINK_SEEN); /* all acknowledged, and the real credit */
    assert_int_equal(a.flight_bytes, 0);
    sent = 0;
    while ((f = link_next(&a)))
        sent += f->size;
    assert_true(sent <= LINK_WINDOW_BYTES && sent > LINK_FIRST_BYTES);
    link_fini(&a);
    link_fini(&b);
}

static void nonsense_breaks_the_stream(void **state)
{
    struct rlt_link    l;
    uint64_t           bytes[64] = {0};
    struct lane_record r = {.length = LANE_RECORD_SIZE, .kind = LANE_TASK};
    Manta__V1__Frame   f = MANTA__V1__FRAME__INIT;
    bool               is_reset;
    (void)state;
    link_init(&l, 2, 1, 10);
    f.link = 10;
    f.acknowledged = 5; /* nothing was sent */
    assert_int_equal(link_take(&l, &f, &is_reset), LINK_BROKEN);
    f.acknowledged = 0;
    f.sequence = 1;
    f.records.data = (uint8_t *)bytes;
    uint32_t lengths[] = {0, 63, 65, 128, LANE_RECORD_MAX + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        r.length = lengths[i];
        memcpy(bytes, &r, sizeof r);
        f.records.len = LANE_RECORD_SIZE; /* less than it says, or no multiple */
        assert_int_equal(link_take(&l, &f, &is_reset), LINK_BROKEN);
    }
    r.length = LANE_RECORD_SIZE;
    memcpy(bytes, &r, sizeof r);
    r.kind = LANE_CTL;
    memcpy((uint8_t *)bytes + LANE_RECORD_SIZE, &r, sizeof r);
    f.records.len = 2 * LANE_RECORD_SIZE; /* of both kinds in one frame */
    assert_int_equal(link_take(&l, &f, &is_reset), LINK_BROKEN);
    f.records.len = LANE_RECORD_SIZE - 1;
    assert_int_equal(link_take(&l, &f, &is_reset), LINK_BROKEN);
    f.records.len = LANE_RECORD_SIZE;
    assert_int_equal(link_take(&l, &f, &is_reset), LINK_NEW);
    link_fini(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_arrives_once_and_in_order),
        cmocka_unit_test(a_new_link_tells_that_the_old_one_is_over),
        cmocka_unit_test(no_more_is_under_way_than_the_credit),
        cmocka_unit_test(nonsense_breaks_the_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
