/* SPDX-License-Identifier: Apache-2.0
 *
 * actor_test.c - an actor in the eyes of its creator, where the raylet's words come in an unlucky order.
 */
#include "clients/lib/owner/own.h"

#include "core/base/limits/net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { PROCESS = 7, WORKER = 9, LANES = 2 };

static struct own       own;
static void            *lanes[LANES];
static struct lane_park parks[LANES];

static void hears(enum ctl_kind kind, const void *payload, size_t size, int lane)
{
    struct lane_record record = {.length = (uint32_t)(LANE_RECORD_SIZE + size), .kind = (uint16_t)kind};
    assert_int_equal(own_control(&own, &record, payload, lane < 0 ? NULL : lanes[lane], lane < 0 ? NULL : &parks[lane]).code,
                     MT_OK);
}

static void granted(int lane)
{
    struct ctl_grant grant = {.lease = 1 + (uint64_t)lane, .class_id = 1, .peer = WORKER + (uint64_t)lane, .peer_node = 1};
    lanes[lane] = calloc(1, LANE_BYTES);
    hears(CTL_GRANT, &grant, sizeof grant, lane);
}

static void ended(int lane, int32_t code)
{
    static struct ctl_ended end;
    end = (struct ctl_ended){.lease = 1 + (uint64_t)lane, .code = code, .node = 1, .pid = 100 + lane};
    hears(CTL_ENDED, &end, sizeof end, -1);
}

static struct own_actor *begin(void)
{
    struct own_class_spec spec = {.name = "a", .flags = CTL_CLASS_ACTOR};
    struct own_call       create = {.name = "a", .function = 1};
    own_init(&own, PROCESS, 1, 1, 1);
    struct own_actor *actor = own_actor_new(&own, &spec, "", NULL, 0, 0, &create);
    assert_non_null(actor);
    own_actor_watch(&own, actor, true);
    return actor;
}

static void end(struct own_actor *actor)
{
    own_actor_watch(&own, actor, false);
    own_actor_drop(&own, actor);
    own_actor_tick(&own);
    assert_int_equal(own.actors.count, 0);
    own_fini(&own);
    for (int i = 0; i < LANES; i++) {
        free(lanes[i]);
        lanes[i] = NULL;
    }
}

/* The raylet grants the next lease before it hears that the actor may not be restarted. */
static void the_end_of_a_lease_too_many_is_no_second_death(void **state)
{
    (void)state;
    struct own_actor *actor = begin();
    granted(0);
    granted(1);
    ended(0, MT_EWORKER_DIED);
    assert_int_equal(actor->state, OWN_ACTOR_DEAD);
    assert_int_equal(own.out.deaths.count, 1);
    assert_int_equal(own.out.deaths.data[0].death.pid, 100);
    ended(1, MT_OK);
    assert_int_equal(own.out.deaths.count, 1);
    end(actor);
}

/* The worker says that the task in that slot is done. */
static void done(int lane, uint32_t slot)
{
    static struct lane_producer back;
    struct own_task            *task = own.lanes.data[0]->tasks[slot];
    struct lane_record          record = {.length = LANE_RECORD_SIZE, .kind = LANE_DONE, .sequence = task->sequence};
    record.id = task->id;
    record.slot = slot;
    record.attempt = task->attempt;
    lane_producer_init(&back, &lane_header_of(lanes[lane])->back, lane_back_of(lanes[lane]));
    assert_true(lane_ring_push(&back, &record, NULL));
    lane_ring_publish(&back);
    own_poll(&own);
}

static struct own_ref *called(struct own_actor *actor, struct own_ref *argument)
{
    struct own_arg  arg = {.type = 'y', .ref = argument};
    struct own_call call = {.name = "m", .function = 2, .kind = LANE_CALL, .actor = actor, .args = &arg, .argc = argument != NULL};
    return own_submit(&own, &call);
}

/* Its end fails a call, so the next one fails for its argument, and the one behind that could go: but not on this lane. */
static void nothing_is_sent_on_a_lane_that_ends(void **state)
{
    (void)state;
    struct own_actor *actor = begin();
    granted(0);
    done(0, 1);
    assert_int_equal(actor->state, OWN_ACTOR_ALIVE);
    actor->restarts_left = 1;
    struct own_ref *runs = called(actor, NULL), *waits = called(actor, runs), *behind = called(actor, NULL);
    assert_true(lane_claim_take(&actor->lane->claims[2], 2, 0, LANE_RUNNING));
    ended(0, MT_EWORKER_DIED);
    assert_int_equal(own.lanes.count, 0);
    assert_int_equal(actor->state, OWN_ACTOR_RESTARTING);
    assert_int_equal(runs->state, OWN_REF_FAILED);
    assert_int_equal(behind->state, OWN_REF_PENDING);
    assert_null(own_check(&own));
    granted(1);
    assert_int_equal(actor->lane->inflight, 1); /* create, again */
    ended(1, MT_EWORKER_DIED);
    assert_int_equal(actor->state, OWN_ACTOR_DEAD);
    assert_int_equal(waits->state, OWN_REF_FAILED);
    assert_int_equal(behind->state, OWN_REF_FAILED);
    assert_null(own_check(&own));
    own_ref_drop(&own, runs);
    own_ref_drop(&own, waits);
    own_ref_drop(&own, behind);
    end(actor);
}

/* The node of the worker that creates it was to leave, and the limit for that passed: that costs it nothing. */
static void whose_create_ends_with_its_node_is_made_again(void **state)
{
    (void)state;
    struct own_actor *actor = begin();
    actor->is_restartable = true;
    granted(0);
    assert_true(lane_claim_take(&actor->lane->claims[1], 1, 0, LANE_RUNNING));
    ended(0, MT_EPREEMPTED);
    assert_int_equal(actor->state, OWN_ACTOR_RESTARTING);
    granted(1);
    assert_int_equal(actor->lane->inflight, 1); /* create, again */
    done(1, 1);
    assert_int_equal(actor->state, OWN_ACTOR_ALIVE);
    ended(1, MT_EWORKER_DIED);
    assert_int_equal(actor->state, OWN_ACTOR_DEAD);
    end(actor);
}

/* Its class is refused while a worker creates it: what that worker says later makes nothing of it. */
static void an_actor_that_was_refused_stays_dead(void **state)
{
    (void)state;
    struct own_actor        *actor = begin();
    struct ctl_unschedulable refused = {.class_id = 1, .code = MT_EUNSCHEDULABLE};
    granted(0);
    actor->restarts_left = 1;
    hears(CTL_UNSCHEDULABLE, &refused, sizeof refused, -1);
    assert_int_equal(actor->state, OWN_ACTOR_DEAD);
    done(0, 1);
    assert_int_equal(actor->state, OWN_ACTOR_DEAD);
    ended(0, MT_EWORKER_DIED);
    assert_int_equal(actor->state, OWN_ACTOR_DEAD);
    end(actor);
}

/* The head has said that the lost lease is void. */
static void void_is_granted(void)
{
    struct ctl_reply   reply = {.code = MT_OK};
    struct lane_record record = {.length = (uint32_t)(LANE_RECORD_SIZE + sizeof reply), .kind = CTL_REPLY};
    assert_int_equal(own.requests.count, 1);
    MT_MAP_EACH(&own.requests, entry)
        record.id = entry->key;
    assert_int_equal(own_control(&own, &record, (const uint8_t *)&reply, NULL, NULL).code, MT_OK);
}

/* A strict actor's node is lost, and its handle dropped while a call waits: it is made again when its time has come. */
static void a_dropped_strict_actor_goes_on_with_its_calls(void **state)
{
    (void)state;
    struct own_class_spec spec = {.name = "a", .flags = CTL_CLASS_ACTOR | CTL_CLASS_STRICT};
    struct own_call       call = {.name = "a", .function = 1};
    own_init(&own, PROCESS, 1, 1, 1);
    struct own_actor *actor = own_actor_new(&own, &spec, "", NULL, 1, 0, &call);
    call = (struct own_call){.name = "m", .function = 2, .kind = LANE_CALL, .actor = actor};
    struct own_ref *result = own_submit(&own, &call);
    own_actor_drop(&own, actor);
    granted(0);
    assert_int_equal(actor->lane->inflight, 1); /* create */
    ended(0, MT_ENODE_DIED);
    assert_int_equal(actor->state, OWN_ACTOR_RESTARTING);
    void_is_granted();
    granted(1);
    assert_int_equal(actor->lane->inflight, 0); /* the former one may still run */
    own_tick(&own, own.now_ns + MT_STRICT_WAIT_MS * UINT64_C(1000000));
    assert_int_equal(actor->lane->inflight, 1);
    ended(1, MT_EWORKER_DIED);
    assert_int_equal(result->state, OWN_REF_FAILED);
    own_ref_drop(&own, result);
    own_actor_tick(&own);
    own_fini(&own);
    for (int i = 0; i < LANES; i++) {
        free(lanes[i]);
        lanes[i] = NULL;
    }
}

/* Another process's, whose handle came here as an argument. */
static void caller_is_granted(const struct own_actor *actor, int lane)
{
    struct ctl_grant   grant = {.lease = 1 + (uint64_t)lane, .peer = WORKER, .peer_node = 1};
    const void        *payload = &grant;
    struct lane_record record = {.length = LANE_RECORD_SIZE + sizeof grant, .kind = CTL_GRANT, .id = own_id_next(&own)};
    lanes[lane] = calloc(1, LANE_BYTES);
    assert_int_equal(own_request_new(&own, record.id, actor->id, OWN_REQUEST_LANE).code, MT_OK);
    assert_int_equal(own_control(&own, &record, payload, lanes[lane], &parks[lane]).code, MT_OK);
    assert_non_null(actor->lane);
}
/* How often that was said since the last time. */
static int said(enum ctl_kind kind)
{
    int count = 0;
    for (size_t at = 0; at < own.out.up.size;) {
        struct lane_record record;
        memcpy(&record, own.out.up.data + at, sizeof record);
        count += record.kind == kind;
        at += lane_record_padded(record.length);
    }
    own.out.up.size = 0;
    return count;
}

static void who_lets_go_twice_leaves_both_lanes(void **state)
{
    (void)state;
    struct own_actor_wire wire = {.id = {WORKER + 1, 1}, .owner = WORKER + 1, .owner_node = 1, .name = "a"};
    own_init(&own, PROCESS, 1, 1, 1);
    struct own_actor *actor = own_actor_borrow(&own, &wire);
    assert_non_null(actor);
    for (int lane = 0; lane < LANES; lane++) {
        caller_is_granted(actor, lane);
        own_actor_drop(&own, actor);
        (void)said(CTL_LANE_DROP);
        own_actor_tick(&own);
        assert_int_equal(said(CTL_LANE_DROP), 1);
        own_actor_tick(&own);
        assert_int_equal(said(CTL_LANE_DROP), 0); /* once is enough */
        if (lane + 1 < LANES)
            assert_ptr_equal(own_actor_borrow(&own, &wire), actor); /* held again before its lane has ended */
        ended(lane, MT_OK);
        assert_null(own_check(&own));
    }
    own_actor_tick(&own);
    assert_int_equal(own.actors.count, 0);
    own_fini(&own);
    for (int i = 0; i < LANES; i++) {
        free(lanes[i]);
        lanes[i] = NULL;
    }
}

/* Whose kind the worker has written over: the call is not done, and not forgotten either. */
static void a_record_of_no_kind_ends_its_lane(void **state)
{
    (void)state;
    static struct lane_producer back;
    struct own_actor           *actor = begin();
    granted(0);
    done(0, 1);
    struct own_ref    *ref = called(actor, NULL);
    struct own_lane   *lane = actor->lane;
    struct lane_record record = {.length = LANE_RECORD_SIZE, .kind = 0x7777, .sequence = 2, .id = lane->tasks[2]->id, .slot = 2};
    lane_producer_init(&back, &lane_header_of(lanes[0])->back, lane_back_of(lanes[0]));
    back.head = back.published = lane->back.tail;
    assert_true(lane_ring_push(&back, &record, NULL));
    lane_ring_publish(&back);
    own_poll(&own);
    assert_int_equal(lane->state, OWN_LANE_BROKEN);
    assert_int_equal(ref->state, OWN_REF_PENDING);
    assert_int_equal(lane->inflight, 1);
    assert_null(own_check(&own));
    ended(0, MT_EWORKER_DIED);
    assert_int_equal(ref->state, OWN_REF_FAILED);
    own_ref_drop(&own, ref);
    end(actor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_lease_too_many_is_no_second_death),
        cmocka_unit_test(nothing_is_sent_on_a_lane_that_ends),
        cmocka_unit_test(whose_create_ends_with_its_node_is_made_again),
        cmocka_unit_test(an_actor_that_was_refused_stays_dead),
        cmocka_unit_test(a_dropped_strict_actor_goes_on_with_its_calls),
        cmocka_unit_test(who_lets_go_twice_leaves_both_lanes),
        cmocka_unit_test(a_record_of_no_kind_ends_its_lane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
