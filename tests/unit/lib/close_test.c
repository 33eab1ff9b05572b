/* SPDX-License-Identifier: Apache-2.0
 *
 * close_test.c - the end of a job in a process that goes on: what the user holds is left, with exactly the user's holds, and all
 * of the library's own are gone, whatever place a task was in.
 */
#include "clients/lib/owner/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { PROCESS = 7, NEXT = 8, HERE = 1, THERE = 2, WORKER = 9, LEASE = 5, CODE = MT_ECONN };

static struct own           own;
static void                *lane;
static struct lane_park     park;
static struct own_class    *cls;
static struct lane_producer back; /* the worker's */

static void begin(uint64_t process)
{
    struct own_class_spec spec = {.name = "f", .resource_count = 1, .resources = {{"CPU", 1000}}};
    struct ctl_grant      grant = {.lease = LEASE, .class_id = 1, .peer = WORKER, .peer_node = THERE, .flags = CTL_GRANT_REMOTE};
    struct lane_record    record = {.length = LANE_RECORD_SIZE + sizeof grant, .kind = CTL_GRANT};
    own_reopen(&own, process, HERE, 1, 1);
    lane = calloc(1, LANE_BYTES);
    lane_producer_init(&back, &lane_header_of(lane)->back, lane_back_of(lane));
    cls = own_class_get(&own, &spec, (mt_id){0, 0});
    assert_int_equal(own_control(&own, &record, (const uint8_t *)&grant, lane, &park).code, MT_OK);
}

static void finish(void)
{
    own_close(&own, CODE, "it was its end");
    free(lane);
}

/* Refs that somebody holds, and their holds. */
static size_t held(uint32_t *out_holds)
{
    size_t count = 0;
    *out_holds = 0;
    const struct own_ref *refs = own.ref_memory.base;
    for (uint32_t i = 0; i < own.ref_count; i++) {
        count += refs[i].holds > 0;
        *out_holds += refs[i].holds;
    }
    return count;
}

static struct own_ref *value(int64_t x)
{
    struct own_ref *ref = own_ref_new(&own, mt_id_with_index(own_id_next(&own), 1));
    own_ref_set_inline(&own, ref, 'l', &x, sizeof x);
    return ref;
}

static struct own_ref *stored(uint32_t node)
{
    struct own_ref *ref = own_ref_new(&own, mt_id_with_index(own_id_next(&own), 1));
    struct lane_ref place = {.id = ref->id, .node = node, .segment = 1, .offset = 65536, .size = 5000, .type = 'y'};
    own_ref_set_place(&own, ref, &place);
    return ref;
}

static struct own_ref *submit(struct own_ref *argument, uint32_t count, struct own_ref **more, struct own_stream *stream)
{
    struct own_arg  arg = {.type = 'y', .ref = argument};
    struct own_call call = {.name = "f",
                            .function = 1,
                            .kind = LANE_TASK,
                            .cls = cls,
                            .args = &arg,
                            .argc = argument != NULL,
                            .count = count,
                            .more = more,
                            .stream = stream,
                            .retries = 3};
    return own_submit(&own, &call);
}

static void fn(void)
{
}

/* Held by the library alone: nothing is left of it. */
static void what_is_not_held_goes(void **state)
{
    struct own_ref    *more[2], *a, *kept;
    struct own_stream *stream;
    uint32_t           holds;
    (void)state;
    begin(PROCESS);
    a = value(1);
    struct own_ref *sent = submit(a, 1, NULL, NULL), *waits = submit(sent, 3, more, NULL), *behind = submit(waits, 1, NULL, NULL);
    struct own_ref *far = stored(THERE), *with_far = submit(far, 1, NULL, NULL);
    stream = own_stream_new(&own, 8);
    struct own_ref *end = submit(a, 1, NULL, stream);
    own_ref_drop(&own, end);
    own_stream_free(stream);
    assert_true(own_ref_callback(&own, sent, false, fn, NULL) && own_ref_callback(&own, far, true, fn, NULL));
    struct own_ref **declared = malloc(2 * sizeof *declared);
    declared[0] = value(2);
    declared[1] = stored(HERE);
    kept = value(3);
    assert_int_equal(own_ref_declare(&own, kept, declared, 2).code, MT_OK);
    struct own_class_spec actor_spec = {.name = "a", .flags = CTL_CLASS_ACTOR};
    struct own_arg        arg = {.type = 'y', .ref = sent};
    struct own_call       create = {.name = "a", .function = 1, .args = &arg, .argc = 1}, call = {.name = "m", .kind = LANE_CALL};
    call.actor = own_actor_new(&own, &actor_spec, "", NULL, 1, 0, &create);
    call.args = &arg;
    call.argc = 1;
    own_ref_drop(&own, own_submit(&own, &call));
    own_actor_drop(&own, call.actor);
    struct own_ref *all[] = {a, sent, waits, behind, far, with_far, more[0], more[1], kept};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        own_ref_drop(&own, all[i]);
    assert_true(held(&holds) >= 10);
    finish();
    assert_int_equal(own.ref_count, 0);
    assert_int_equal(own.actors.count, 0);
    assert_null(own.streams);
    own_fini(&own);
}

static int32_t code_of(const struct own_ref *ref, int32_t *outcome)
{
    assert_int_equal(ref->state, OWN_REF_FAILED);
    *outcome = ref->value.failure->outcome;
    return ref->value.failure->code;
}

/* Held by the user as well: each with the user's holds and no other. */
static void what_is_held_stays(void **state)
{
    struct own_ref *more[2], *a, *far;
    uint32_t        holds;
    int32_t         outcome;
    (void)state;
    begin(PROCESS);
    a = value(41);
    own_ref_hold(a); /* a view */
    struct own_ref *sent = submit(a, 1, NULL, NULL), *waits = submit(sent, 3, more, NULL);
    far = stored(THERE);
    struct own_ref    *with_far = submit(far, 1, NULL, NULL);
    struct own_stream *stream = own_stream_new(&own, 8);
    struct own_ref    *end = submit(a, 1, NULL, stream);
    own_ref_drop(&own, end); /* as api/stream.c does: the stream has its own */
    struct own_class_spec actor_spec = {.name = "a", .flags = CTL_CLASS_ACTOR};
    struct own_call       create = {.name = "a", .function = 1};
    struct own_actor     *actor = own_actor_new(&own, &actor_spec, "", NULL, 1, 0, &create);
    struct own_ref       *named = value(5);
    struct lane_ref       wire;
    own_ref_wire(&own, named, &wire); /* another process knows it, and holds it */
    own_borrow_add(&own, named, WORKER, THERE);
    finish();
    struct own_ref *all[] = {a, sent, waits, more[0], more[1], far, with_far, named, stream->end};
    enum { ALL = sizeof all / sizeof all[0] };
    assert_int_equal(held(&holds), ALL);
    assert_int_equal(holds, ALL + 1); /* and the view */
    assert_int_equal(*(const int64_t *)own_ref_bytes(a), 41);
    assert_int_equal(code_of(sent, &outcome), CODE);
    assert_int_equal(outcome, 0); /* it stood in the lane and had not begun: it was taken back */
    assert_int_equal(code_of(more[1], &outcome), CODE);
    assert_int_equal(outcome, 0);
    assert_int_equal(code_of(far, &outcome), MT_EOBJ_LOST);
    assert_int_equal(outcome, 1);
    assert_int_equal(actor->state, OWN_ACTOR_DEAD);
    assert_int_equal(actor->failure->code, MT_EACTOR_DIED);

    begin(NEXT); /* they are the next process's own */
    for (int i = 0; i < ALL; i++)
        assert_int_equal(all[i]->id.process, NEXT);
    own_ref_wire(&own, named, &wire);
    assert_ptr_equal(mt_map_ptr(&own.refs, named->id), named);
    struct own_ref *uses = submit(a, 1, NULL, NULL), *fails = submit(far, 1, NULL, NULL);
    assert_int_equal(uses->state, OWN_REF_PENDING);
    assert_int_equal(code_of(fails, &outcome), MT_EOBJ_LOST);
    own_ref_drop(&own, fails);
    own_ref_drop(&own, uses);
    own_actor_drop(&own, actor);
    own_actor_tick(&own);
    own_stream_free(stream);
    for (int i = 0; i < ALL - 1; i++)
        own_ref_drop(&own, all[i]);
    own_ref_drop(&own, a);
    finish();
    assert_int_equal(own.ref_count, 0);
    assert_int_equal(own.actors.count, 0);
    assert_null(own.streams);
    own_fini(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_not_held_goes), cmocka_unit_test(what_is_held_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
