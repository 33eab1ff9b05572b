/* SPDX-License-Identifier: Apache-2.0
 *
 * lineage_test.c - what an owner keeps to make lost values again, when it lets go, and what it does when they are lost.
 */
#include "clients/lib/owner/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { PROCESS = 7, WORKER = 9, LEASE = 5, HERE = 1, THERE = 2, SIZE = 10000 };

struct world {
    struct own           own;
    void                *lane;
    struct lane_park     park;
    struct lane_producer back; /* the worker's end */
    struct lane_consumer front;
    struct own_class    *cls;
    uint32_t             there;  /* the node of the next values */
    uint64_t             places; /* so many were given */
    uint64_t             places_freed;
};
static struct world *world; /* of the running test: free_place has no other way to it */

static void free_place(struct own *own, const struct lane_ref *place, bool escaped)
{
    (void)own, (void)place, (void)escaped;
    world->places_freed++;
}

/* An owner with one lane to a worker on another node. */
static struct world *begin(void)
{
    struct world         *w = world = calloc(1, sizeof *w);
    struct own_class_spec spec = {.name = "f", .resource_count = 1, .resources = {{"CPU", 1000}}};
    struct ctl_grant      grant = {.lease = LEASE, .class_id = 1, .peer = WORKER, .peer_node = THERE, .flags = CTL_GRANT_REMOTE};
    struct lane_record    record = {.length = LANE_RECORD_SIZE + sizeof grant, .kind = CTL_GRANT};
    own_init(&w->own, PROCESS, HERE, 1, 1);
    w->there = THERE;
    w->own.free_place = free_place;
    w->lane = calloc(1, LANE_BYTES);
    lane_producer_init(&w->back, &lane_header_of(w->lane)->back, lane_back_of(w->lane));
    lane_consumer_init(&w->front, &lane_header_of(w->lane)->forward, lane_forward_of(w->lane));
    w->cls = own_class_get(&w->own, &spec, (mt_id){0, 0});
    assert_int_equal(own_control(&w->own, &record, (const uint8_t *)&grant, w->lane, &w->park).code, MT_OK);
    return w;
}

static void end(struct world *w)
{
    own_fini(&w->own);
    free(w->lane);
    free(w);
}

static struct own_ref *submit(struct world *w, struct own_ref *argument, int32_t retries, struct own_ref **more)
{
    struct own_arg  arg = {.type = 'y', .ref = argument};
    struct own_call call = {.name = "f",
                            .function = 1,
                            .kind = LANE_TASK,
                            .cls = w->cls,
                            .args = &arg,
                            .argc = argument != NULL,
                            .retries = retries,
                            .count = more ? 2 : 1,
                            .more = more};
    return own_submit(&w->own, &call);
}

/* The worker reads one task and answers it with `count` values of its store. False: none has come. */
static bool answer(struct world *w, uint32_t count)
{
    struct lane_record record;
    const uint8_t     *payload;
    bool               found;
    struct {
        struct lane_value head;
        struct lane_ref   place;
    } values[2];
    own_flush(&w->own);
    assert_int_equal(lane_ring_peek(&w->front, &record, &payload, &found).code, MT_OK);
    if (!found)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        values[i].head = (struct lane_value){.type = 'y', .flags = LANE_VALUE_SHARED, .size = sizeof values[i].place};
        values[i].place = (struct lane_ref){.node = w->there, .segment = 1, .offset = ++w->places * 64, .size = SIZE, .type = 'y'};
    }
    struct lane_record done = {.length = (uint32_t)(LANE_RECORD_SIZE + count * sizeof values[0]),
                               .kind = LANE_DONE,
                               .sequence = record.sequence,
                               .id = record.id,
                               .slot = record.slot,
                               .attempt = record.attempt};
    lane_ring_consume(&w->front);
    lane_ring_release(&w->front);
    assert_true(lane_ring_push(&w->back, &done, values));
    lane_ring_publish(&w->back);
    own_poll(&w->own);
    return true;
}

/* The raylet: no other node has a copy of what is sought, and of what is sought then. */
static void no_copies(struct world *w)
{
    for (size_t at = 0; at < w->own.out.up.size;) {
        struct lane_record record, answer = {.length = LANE_RECORD_SIZE + sizeof(struct ctl_moved), .kind = CTL_SEEK};
        struct ctl_moved   word;
        memcpy(&record, w->own.out.up.data + at, sizeof record);
        memcpy(&word, w->own.out.up.data + at + LANE_RECORD_SIZE, record.kind == CTL_SEEK ? sizeof word : 0);
        at += lane_record_padded(record.length);
        if (record.kind == CTL_SEEK)
            assert_int_equal(own_control(&w->own, &answer, (const uint8_t *)&word, NULL, NULL).code, MT_OK);
    }
    w->own.out.up.size = 0;
}

/* A thread of this process misses the value. */
static enum own_lost miss(struct world *w, struct own_ref *ref, int32_t code, struct own_failure *why)
{
    struct own_doubt doubt;
    struct lane_ref  at = *own_ref_place(&w->own, ref);
    own_doubt_begin(&w->own, &doubt, ref, &at, code, "it is gone");
    no_copies(w);
    bool is_over = own_doubt_is_over(&w->own, &doubt);
    own_doubt_end(&w->own, &doubt);
    *why = doubt.why;
    return !is_over ? OWN_LOST_WAIT : doubt.why.code ? OWN_LOST_FAILED : OWN_LOST_MOVED;
}

static enum own_lost lose(struct world *w, struct own_ref *ref, int32_t code)
{
    static struct own_failure why;
    return miss(w, ref, code, &why);
}

/* A reader that gives up before the answer has come. */
static void miss_and_leave(struct world *w, struct own_ref *ref)
{
    struct own_doubt doubt;
    struct lane_ref  at = *own_ref_place(&w->own, ref);
    own_doubt_begin(&w->own, &doubt, ref, &at, MT_ENODE_DIED, "it is gone");
    assert_false(own_doubt_is_over(&w->own, &doubt));
    own_doubt_leave(&w->own, &doubt, ref);
    assert_true(own_doubt_is_left(&w->own, ref));
}

static struct own_ref *put(struct world *w)
{
    struct own_ref *ref = own_ref_new(&w->own, mt_id_with_index(own_id_next(&w->own), 1));
    own_ref_set_place(&w->own, ref, &(struct lane_ref){.node = HERE, .segment = 1, .offset = 64, .size = SIZE, .type = 'y'});
    return ref;
}

static struct own_ref *chain(struct world *w, int length)
{
    struct own_ref *last = NULL;
    for (int i = 0; i < length; i++) {
        struct own_ref *next = submit(w, last, 3, NULL);
        assert_true(answer(w, 1));
        if (last)
            own_ref_drop(&w->own, last);
        last = next;
    }
    return last;
}

static void a_loop_holds_one_value(void **state)
{
    enum { LENGTH = 100000 };
    (void)state;
    struct world   *w = begin();
    struct own_ref *last = chain(w, LENGTH);
    assert_int_equal(w->places_freed, LENGTH - 1);
    assert_int_equal(w->own.kept.count, LENGTH);
    own_ref_drop(&w->own, last); /* the whole chain goes, without a call for each link on the stack */
    assert_int_equal(w->places_freed, LENGTH);
    assert_int_equal(w->own.kept.count, 0);
    assert_int_equal(w->own.kept_bytes, 0);
    end(w);
}

/* Calls of an actor, each with the value of the one before, which stand on two nodes in turn. Both die: each call that is made
 * again finds its argument lost, and not with its own node. */
static void a_lost_chain_of_calls_is_made_again(void **state)
{
    enum { LENGTH = 100000, OTHER = 3 };
    (void)state;
    struct world         *w = begin();
    struct own_actor_wire wire = {.id = mt_id_make(WORKER, 5, 0), .owner = WORKER, .owner_node = THERE, .name = "a"};
    struct own_actor     *actor = own_actor_borrow(&w->own, &wire);
    struct own_ref      **refs = calloc(LENGTH, sizeof(struct own_ref *)), *last = NULL;
    w->own.lanes.data[0]->cls = NULL;
    w->cls->lane_count = 0;
    own_actor_granted(&w->own, actor, w->own.lanes.data[0]);
    for (int i = 0; i < LENGTH; i++) {
        struct own_arg  arg = {.type = 'y', .ref = last};
        struct own_call call = {.name = "m",
                                .function = 2,
                                .kind = LANE_CALL,
                                .actor = actor,
                                .args = &arg,
                                .argc = last != NULL,
                                .retries = 3,
                                .count = 1};
        last = refs[i] = own_submit(&w->own, &call);
        w->there = i % 2 ? THERE : OTHER;
        assert_true(answer(w, 1));
    }
    own_lineage_node_died(&w->own, THERE);
    own_lineage_node_died(&w->own, OTHER);
    assert_int_equal(lose(w, last, MT_ENODE_DIED), OWN_LOST_WAIT);
    assert_int_equal(w->own.again_count, LENGTH);
    for (int i = 0; i < LENGTH; i++)
        own_ref_drop(&w->own, refs[i]);
    free(refs);
    end(w);
}

static void a_lost_chain_is_made_again(void **state)
{
    (void)state;
    struct world   *w = begin();
    struct own_ref *last = chain(w, 4);
    assert_int_equal(lose(w, last, MT_ENODE_DIED), OWN_LOST_WAIT);
    assert_false(own_ref_is_there(last));
    for (int i = 0; i < 4; i++)
        assert_true(answer(w, 1));
    assert_false(answer(w, 1));
    assert_int_equal(w->own.again_count, 4);
    assert_int_equal(last->again, OWN_AGAIN_MOVED);
    assert_int_equal(own_ref_place(&w->own, last)->attempt, 1);
    assert_int_equal(own_ref_place(&w->own, last)->offset, 8 * 64);
    assert_int_equal(w->places_freed, 7); /* all but the last */
    own_ref_drop(&w->own, last);
    assert_int_equal(w->places_freed, 8);
    end(w);
}

static void an_old_loss_costs_no_run(void **state)
{
    (void)state;
    struct world      *w = begin();
    struct own_ref    *ref = chain(w, 1);
    struct lane_ref    before = *own_ref_place(&w->own, ref);
    struct own_failure why;
    assert_int_equal(lose(w, ref, MT_EOBJ_LOST), OWN_LOST_WAIT);
    assert_int_equal(lose(w, ref, MT_EOBJ_LOST), OWN_LOST_WAIT); /* somebody else says so too */
    assert_true(answer(w, 1));
    assert_int_equal(own_ref_lost(&w->own, ref, &before, MT_EOBJ_LOST, "", &why), OWN_LOST_MOVED);
    assert_int_equal(w->own.again_count, 1);
    own_ref_drop(&w->own, ref);
    end(w);
}

/* The answer comes to nobody: the next reader is told it, once. A question that nobody takes up goes with its ref, or with
 * the job, whatever readers there were. */
static void a_question_that_is_left_is_the_next_readers(void **state)
{
    (void)state;
    struct world    *w = begin();
    struct own_ref  *ref = submit(w, NULL, 0, NULL);
    struct own_doubt doubt;
    assert_true(answer(w, 1));
    miss_and_leave(w, ref);
    no_copies(w);
    assert_true(own_doubt_resume(&w->own, &doubt, ref));
    assert_true(own_doubt_is_over(&w->own, &doubt));
    assert_int_equal(doubt.why.code, MT_EOBJ_LOST);
    own_doubt_end(&w->own, &doubt);
    assert_false(own_doubt_resume(&w->own, &doubt, ref));
    miss_and_leave(w, ref);
    own_ref_drop(&w->own, ref);
    assert_null(w->own.doubts);
    ref = submit(w, NULL, 0, NULL);
    assert_true(answer(w, 1));
    miss_and_leave(w, ref);
    struct own_doubt *died = calloc(1, sizeof *died);
    own_doubt_begin(&w->own, died, NULL, own_ref_place(&w->own, ref), MT_ENODE_DIED, "of a reader that is killed");
    free(died);
    end(w);
}

static void what_is_there_stays(void **state)
{
    (void)state;
    struct world   *w = begin();
    struct own_ref *second, *first = submit(w, NULL, 3, &second);
    assert_true(answer(w, 2));
    assert_int_equal(lose(w, first, MT_EOBJ_LOST), OWN_LOST_WAIT);
    assert_true(answer(w, 2));
    assert_int_equal(own_ref_place(&w->own, first)->offset, 3 * 64);
    assert_int_equal(own_ref_place(&w->own, second)->offset, 2 * 64);
    assert_int_equal(w->places_freed, 2); /* the lost one, and the second one's second */
    own_ref_drop(&w->own, first);
    own_ref_drop(&w->own, second);
    assert_int_equal(w->places_freed, 4);
    end(w);
}

static void an_argument_that_was_put_stays_as_long_as_it_may_be_needed(void **state)
{
    (void)state;
    struct world   *w = begin();
    struct own_ref *argument = put(w), *ref = submit(w, argument, 1, NULL);
    assert_true(answer(w, 1));
    own_ref_drop(&w->own, argument);
    assert_int_equal(w->places_freed, 0);
    assert_true(w->own.kept_bytes > SIZE); /* it counts */
    assert_int_equal(lose(w, ref, MT_ENODE_DIED), OWN_LOST_WAIT);
    assert_true(answer(w, 1));
    assert_int_equal(w->places_freed, 2); /* the lost one; the argument, as no retry is left */
    assert_int_equal(w->own.kept_bytes, 0);
    assert_int_equal(lose(w, ref, MT_ENODE_DIED), OWN_LOST_FAILED);
    own_ref_drop(&w->own, ref);
    end(w);
}

static void the_oldest_is_given_up(void **state)
{
    enum { COUNT = 20 };
    (void)state;
    struct world      *w = begin();
    struct own_ref    *refs[COUNT];
    struct own_failure why;
    w->own.kept_max = 5 * sizeof(struct own_task) + 5 * 64;
    for (int i = 0; i < COUNT; i++) {
        refs[i] = submit(w, NULL, 3, NULL);
        assert_true(answer(w, 1));
        assert_true(w->own.kept_bytes <= w->own.kept_max);
    }
    assert_true(w->own.kept.count >= 4);
    assert_int_equal(miss(w, refs[0], MT_ENODE_DIED, &why), OWN_LOST_FAILED);
    assert_int_equal(why.code, MT_EOBJ_LOST);
    assert_non_null(strstr(why.message, "lineage_bytes"));
    assert_int_equal(lose(w, refs[COUNT - 1], MT_ENODE_DIED), OWN_LOST_WAIT);
    for (int i = 0; i < COUNT; i++)
        own_ref_drop(&w->own, refs[i]);
    end(w);
}

/* Its task runs again, and finds that an argument is gone which nothing makes again: whoever asks for that hears why, as often. */
static void what_hangs_from_a_value_lost_for_good_is_told_why(void **state)
{
    (void)state;
    struct world      *w = begin();
    struct own_failure why = {0}, again = {0};
    struct own_ref    *once = submit(w, NULL, 0, NULL);
    assert_true(answer(w, 1));
    struct own_ref *ref = submit(w, once, 3, NULL);
    assert_true(answer(w, 1));
    assert_int_equal(lose(w, ref, MT_ENODE_DIED), OWN_LOST_WAIT);
    assert_int_equal(miss(w, once, MT_ENODE_DIED, &why), OWN_LOST_FAILED); /* the worker asks for it */
    assert_int_equal(why.code, MT_EOBJ_LOST);
    assert_non_null(strstr(why.message, "MANTA_NO_RETRY"));
    assert_int_equal(miss(w, once, MT_ENODE_DIED, &again), OWN_LOST_FAILED);
    assert_int_equal(again.code, why.code);
    assert_string_equal(again.message, why.message);
    assert_true(answer(w, 1));
    own_ref_drop(&w->own, ref);
    own_ref_drop(&w->own, once);
    end(w);
}

/* Another node has a copy: that is the value, no task runs again, and the former place is free. A word of another run changes
 * nothing. */
static void a_copy_becomes_the_value(void **state)
{
    (void)state;
    struct world      *w = begin();
    struct own_ref    *ref = chain(w, 1);
    struct ctl_moved   word = {.from = *own_ref_place(&w->own, ref), .to = {.node = 9, .segment = 4, .offset = 128, .type = 'y'}};
    struct lane_record record = {.length = LANE_RECORD_SIZE + sizeof word, .kind = CTL_MOVED};
    struct own_failure why;
    assert_int_equal(own_ref_lost(&w->own, ref, &word.from, MT_ENODE_DIED, "", &why), OWN_LOST_WAIT);
    assert_int_equal(ref->again, OWN_AGAIN_SOUGHT);
    word.from.attempt = 7;
    assert_int_equal(own_control(&w->own, &record, (const uint8_t *)&word, NULL, NULL).code, MT_OK);
    assert_int_equal(ref->again, OWN_AGAIN_SOUGHT);
    word.from.attempt = 0;
    assert_int_equal(own_control(&w->own, &record, (const uint8_t *)&word, NULL, NULL).code, MT_OK);
    assert_int_equal(ref->again, OWN_AGAIN_MOVED);
    assert_int_equal(own_ref_place(&w->own, ref)->node, 9);
    assert_int_equal(w->places_freed, 1);
    assert_int_equal(w->own.again_count, 0);
    no_copies(w); /* a late answer */
    assert_int_equal(ref->again, OWN_AGAIN_MOVED);
    own_ref_drop(&w->own, ref);
    assert_int_equal(w->places_freed, 2);
    end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_holds_one_value),
        cmocka_unit_test(a_lost_chain_of_calls_is_made_again),
        cmocka_unit_test(a_lost_chain_is_made_again),
        cmocka_unit_test(an_old_loss_costs_no_run),
        cmocka_unit_test(a_question_that_is_left_is_the_next_readers),
        cmocka_unit_test(what_is_there_stays),
        cmocka_unit_test(an_argument_that_was_put_stays_as_long_as_it_may_be_needed),
        cmocka_unit_test(the_oldest_is_given_up),
        cmocka_unit_test(what_hangs_from_a_value_lost_for_good_is_told_why),
        cmocka_unit_test(a_copy_becomes_the_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
