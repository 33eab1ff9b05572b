/* SPDX-License-Identifier: Apache-2.0
 *
 * results_test.c - what an owner makes of outcomes, items and declared refs of a worker that is not to be trusted.
 */
#include "clients/lib/owner/own.h"
#include "clients/lib/worker/wrk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { PROCESS = 7, WORKER = 9, LEASE = 5 };

struct world {
    struct own           own;
    void                *lane;
    struct lane_park     park;
    struct lane_producer back; /* the worker's */
    struct own_ref      *ref, *more[3];
    struct own_stream   *stream;
    int                  places_freed;
};
static struct world *world; /* of the running test: free_place has no other way to it */

static void free_place(struct own *own, const struct lane_ref *place, bool escaped)
{
    (void)own, (void)place;
    world->places_freed += escaped;
}

/* One task of `count` values, or a stream, under way on one lane. */
static struct world *begin(uint32_t count, uint32_t ahead)
{
    struct world         *w = world = calloc(1, sizeof *w);
    struct own_class_spec spec = {.name = "f", .resource_count = 1, .resources = {{"CPU", 1000}}};
    struct own_call       call = {.name = "f", .function = 1, .kind = LANE_TASK, .count = count, .more = w->more};
    struct ctl_grant      grant = {.lease = LEASE, .class_id = 1, .peer = WORKER, .peer_node = 1};
    struct lane_record    record = {.length = LANE_RECORD_SIZE + sizeof grant, .kind = CTL_GRANT};
    own_init(&w->own, PROCESS, 1, 1, 1);
    w->own.free_place = free_place;
    w->lane = calloc(1, LANE_BYTES);
    lane_producer_init(&w->back, &lane_header_of(w->lane)->back, lane_back_of(w->lane));
    if (ahead)
        call.stream = w->stream = own_stream_new(&w->own, ahead);
    call.cls = own_class_get(&w->own, &spec, (mt_id){0, 0});
    w->ref = own_submit(&w->own, &call);
    assert_int_equal(own_control(&w->own, &record, (const uint8_t *)&grant, w->lane, &w->park).code, MT_OK);
    assert_int_equal(w->own.lanes.data[0]->inflight, 1);
    return w;
}

static void end(struct world *w)
{
    own_fini(&w->own);
    free(w->lane);
    free(w);
}

static void say(struct world *w, uint16_t kind, uint64_t aux, const void *payload, size_t size)
{
    struct own_task   *task = w->own.lanes.data[0]->tasks[1];
    struct lane_record record = {
        .length = (uint32_t)(LANE_RECORD_SIZE + size), .kind = kind, .sequence = 1, .id = task->id, .slot = 1, .aux = aux};
    assert_true(lane_ring_push(&w->back, &record, payload));
    lane_ring_publish(&w->back);
    own_poll(&w->own);
}

static bool is_broken(const struct world *w)
{
    return w->own.lanes.data[0]->state == OWN_LANE_BROKEN;
}

struct value {
    struct lane_value head;
    int64_t           x;
};
static struct value int_value(int64_t x)
{
    return (struct value){{.type = 'l', .size = 8}, x};
}

static void each_ref_gets_its_value(void **state)
{
    (void)state;
    struct world *w = begin(3, 0);
    struct value  values[3] = {int_value(1), int_value(2), int_value(3)};
    own_ref_drop(&w->own, w->more[0]); /* nobody wants the second */
    say(w, LANE_DONE, 0, values, sizeof values);
    assert_false(is_broken(w));
    assert_memory_equal(own_ref_bytes(w->ref), &values[0].x, 8);
    assert_memory_equal(own_ref_bytes(w->more[1]), &values[2].x, 8);
    assert_int_equal(mt_id_index(w->ref->id), 1);
    assert_int_equal(mt_id_index(w->more[1]->id), 3);
    end(w);
}

static void values_that_are_not_all_there_set_none(void **state)
{
    static const size_t sizes[] = {0, 8, sizeof(struct value), 2 * sizeof(struct value), 3 * sizeof(struct value) - 8};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct world *w = begin(3, 0);
        struct value  values[3] = {int_value(1), int_value(2), int_value(3)};
        say(w, LANE_DONE, 0, values, sizes[i]);
        assert_true(is_broken(w));
        assert_int_equal(w->ref->state, OWN_REF_FAILED);
        assert_int_equal(w->more[0]->state, OWN_REF_FAILED);
        assert_int_equal(w->more[1]->value.failure->code, MT_EPROTO);
        end(w);
    }
}

static void a_value_with_a_wrong_form_fails_the_task(void **state)
{
    struct value bad[] = {int_value(1), int_value(1), int_value(1)};
    (void)state;
    bad[0].head.size = 9000;
    bad[1].head.ref_count = 1;
    bad[2].head.flags = LANE_VALUE_SHARED;
    for (int i = 0; i < 3; i++) {
        struct world *w = begin(1, 0);
        say(w, LANE_DONE, 0, &bad[i], sizeof bad[i]);
        assert_true(is_broken(w));
        assert_int_equal(w->ref->state, OWN_REF_FAILED);
        end(w);
    }
}

/* Bytes of a value's head that a worker has written over: what is no value is the worker's fault, and not one of another type. */
static void a_letter_that_is_none_breaks_the_lane(void **state)
{
    struct {
        struct lane_value head;
        struct lane_ref   place;
    } far = {{.type = 'y', .flags = LANE_VALUE_SHARED, .size = sizeof(struct lane_ref)}, {.node = 1, .size = 9000, .type = '?'}};
    struct value inside[] = {int_value(1), int_value(1), int_value(1), int_value(1), int_value(1), int_value(1)};
    (void)state;
    inside[0].head.type = '?';
    inside[1].head.type = 0;
    inside[2].head.size = 7;
    inside[3].head.flags = LANE_VALUE_EDGE;
    inside[4].head = (struct lane_value){.type = 's'};
    inside[5].head = (struct lane_value){.type = 'b', .size = 8};
    for (size_t i = 0; i < 2 * (sizeof inside / sizeof inside[0] + 1); i++) {
        bool          is_item = i % 2, is_far = i / 2 == sizeof inside / sizeof inside[0];
        struct world *w = begin(1, is_item ? 4 : 0);
        say(w, is_item ? LANE_ITEM : LANE_DONE, 0, is_far ? (void *)&far : &inside[i / 2], is_far ? sizeof far : sizeof inside[0]);
        assert_true(is_broken(w));
        if (!is_item) {
            assert_int_equal(w->ref->state, OWN_REF_FAILED);
            assert_int_equal(w->ref->value.failure->code, MT_EPROTO);
        }
        end(w);
    }
}

/* A text ends where its size says, whatever its worker left there. */
static void a_text_without_its_end_gets_one(void **state)
{
    (void)state;
    struct world *w = begin(1, 0);
    struct value  v = int_value(0x6161616161616161);
    v.head.type = 's';
    say(w, LANE_DONE, 0, &v, sizeof v);
    assert_false(is_broken(w));
    assert_string_equal((const char *)own_ref_bytes(w->ref), "aaaaaaa");
    end(w);
}

static void items_come_in_turn(void **state)
{
    (void)state;
    struct world   *w = begin(1, 4);
    struct own_item item;
    for (int64_t i = 0; i < 4; i++) {
        struct value v = int_value(i * 10);
        say(w, LANE_ITEM, (uint64_t)i, &v, sizeof v);
    }
    assert_true(own_stream_take(w->stream));
    for (int64_t i = 0, got; i < 4; i++) {
        assert_true(own_stream_next(w->stream, &item));
        memcpy(&got, item.bytes, sizeof got);
        assert_int_equal(got, i * 10);
    }
    assert_false(own_stream_next(w->stream, &item));
    assert_int_equal(lane_credit_of(w->lane, 1, 1), 0);
    own_stream_ack(w->stream, true);
    assert_int_equal(lane_credit_of(w->lane, 1, 1), 4);
    assert_int_equal(lane_credit_of(w->lane, 1, 1 + LANE_SLOTS), 0); /* a later use of the slot */
    own_stream_free(w->stream);
    assert_true(lane_credit_of(w->lane, 1, 1) == LANE_GONE);
    assert_false(is_broken(w));
    end(w);
}

static void items_of_a_second_attempt_are_taken_once(void **state)
{
    struct {
        struct lane_value head;
        struct lane_ref   place;
    } large = {{.type = 'y', .flags = LANE_VALUE_SHARED, .size = sizeof(struct lane_ref)}, {.node = 1, .size = 9000, .type = 'y'}};
    struct own_item item;
    (void)state;
    struct world *w = begin(1, 4);
    say(w, LANE_ITEM, 0, &large, sizeof large);
    say(w, LANE_ITEM, 0, &large, sizeof large);
    say(w, LANE_ITEM, 0, &large, sizeof large);
    assert_false(is_broken(w));
    assert_int_equal(w->places_freed, 2);
    assert_true(own_stream_take(w->stream));
    assert_true(own_stream_next(w->stream, &item));
    assert_false(own_stream_next(w->stream, &item));
    struct own_ref *taken = own_items_take(w->stream, item.index);
    assert_true(mt_id_equal(taken->id, item.id));
    say(w, LANE_ITEM, 1, &large, sizeof large);
    own_stream_free(w->stream); /* with one that nobody took */
    assert_int_equal(w->places_freed, 3);
    own_ref_drop(&w->own, taken);
    assert_int_equal(w->places_freed, 4);
    end(w);
}

static void items_that_break_the_rules_end_the_lane(void **state)
{
    struct value good = int_value(1), bad[3] = {good, good, good};
    struct {
        uint64_t     index;
        struct value value;
        size_t       size;
    } cases[5] = {{1, good, sizeof good}, {0, good, 7}};
    (void)state;
    bad[0].head.size = 9;
    bad[1].head.ref_count = 3;
    bad[2].head.flags = LANE_VALUE_SHARED;
    for (int i = 0; i < 3; i++) {
        cases[i + 2].value = bad[i];
        cases[i + 2].size = sizeof bad[i];
    }
    for (int i = 0; i < 5; i++) {
        struct world *w = begin(1, 4);
        say(w, LANE_ITEM, cases[i].index, &cases[i].value, cases[i].size);
        assert_true(is_broken(w));
        end(w);
    }
    struct world *w = begin(1, 0);
    say(w, LANE_ITEM, 0, &good, sizeof good); /* of a task that is no generator */
    assert_true(is_broken(w));
    end(w);
    w = begin(1, 2);
    for (uint64_t i = 0; i < 3; i++) {
        assert_false(is_broken(w));
        say(w, LANE_ITEM, i, &good, sizeof good);
    }
    assert_true(is_broken(w)); /* the third is beyond its credit */
    end(w);
}

static void declared_refs_stand_and_fall_with_the_value(void **state)
{
    struct lane_ref   inner[2] = {{.id = {WORKER, 1 << 16 | 1}, .owner_node = 1}, {.id = {WORKER, 2 << 16 | 1}, .owner_node = 1}};
    struct value      v = int_value(1);
    struct own_extra *extra;
    (void)state;
    struct world *w = begin(1, 0);
    say(w, LANE_REFS, 0, inner, sizeof inner);
    say(w, LANE_REFS, 0, inner, sizeof inner[0]);
    say(w, LANE_DONE, 0, &v, sizeof v);
    assert_false(is_broken(w));
    extra = own_extra_of(&w->own, w->ref);
    assert_int_equal(extra->declared_count, 3);
    assert_int_equal(extra->declared[0]->holds, 2);
    assert_true(extra->declared[1]->flags & OWN_REF_TOLD);
    own_ref_drop(&w->own, w->ref);
    assert_null(mt_map_ptr(&w->own.refs, inner[0].id));
    assert_null(mt_map_ptr(&w->own.refs, inner[1].id));
    end(w);
    w = begin(1, 0);
    say(w, LANE_REFS, 0, inner, sizeof inner - 1);
    assert_true(is_broken(w));
    end(w);
}

/* A value that declares both, and takes the holds on them. */
static struct own_ref *declares(struct world *w, struct own_ref *a, struct own_ref *b)
{
    struct own_ref *ref = own_ref_new(&w->own, own_id_next(&w->own)), **declared = malloc(2 * sizeof *declared);
    int64_t         x = 1;
    declared[0] = a, declared[1] = b;
    own_ref_set_inline(&w->own, ref, 'l', &x, sizeof x);
    assert_int_equal(own_ref_declare(&w->own, ref, declared, 2).code, MT_OK);
    return ref;
}

static void values_that_declare_others_fall_with_all_of_them(void **state)
{
    struct own_ref *leaves[4];
    mt_id           ids[4];
    (void)state;
    struct world *w = begin(1, 0);
    for (uint64_t i = 0; i < 4; i++) {
        ids[i] = (mt_id){WORKER, (i + 1) << 16 | 1};
        leaves[i] = own_ref_borrow(&w->own, &(struct lane_ref){.id = ids[i], .owner_node = 1});
    }
    own_ref_drop(&w->own, declares(w, declares(w, leaves[0], leaves[1]), declares(w, leaves[2], leaves[3])));
    for (int i = 0; i < 4; i++)
        assert_null(mt_map_ptr(&w->own.refs, ids[i]));
    assert_int_equal(w->own.extras.count, 0);
    end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_ref_gets_its_value),
        cmocka_unit_test(values_that_are_not_all_there_set_none),
        cmocka_unit_test(a_value_with_a_wrong_form_fails_the_task),
        cmocka_unit_test(a_letter_that_is_none_breaks_the_lane),
        cmocka_unit_test(a_text_without_its_end_gets_one),
        cmocka_unit_test(items_come_in_turn),
        cmocka_unit_test(items_of_a_second_attempt_are_taken_once),
        cmocka_unit_test(items_that_break_the_rules_end_the_lane),
        cmocka_unit_test(declared_refs_stand_and_fall_with_the_value),
        cmocka_unit_test(values_that_declare_others_fall_with_all_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
