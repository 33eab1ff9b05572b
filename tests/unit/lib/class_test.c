/* SPDX-License-Identifier: Apache-2.0
 *
 * class_test.c - how many leases an owner wants: as many as its work calls for, and no idle one beside that.
 */
#include "clients/lib/owner/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { PROCESS = 7, WORKER = 9, MS = 1000 * 1000 };

struct world {
    struct own        own;
    struct own_class *cls;
    void             *lanes[2];
    struct lane_park  parks[2];
};

static struct world *begin(void)
{
    struct world         *w = calloc(1, sizeof *w);
    struct own_class_spec spec = {.name = "f", .resource_count = 1, .resources = {{"CPU", 1000}}};
    own_init(&w->own, PROCESS, 1, 1, 1);
    w->own.now_ns = 1000ull * MS;
    w->cls = own_class_get(&w->own, &spec, (mt_id){0, 0});
    assert_non_null(w->cls);
    return w;
}

static void end(struct world *w)
{
    own_fini(&w->own);
    free(w->lanes[0]);
    free(w->lanes[1]);
    free(w);
}

/* A lease on another node: who wants a task back asks there. */
static void granted(struct world *w, uint32_t which)
{
    struct ctl_grant grant = {
        .lease = which + 1, .class_id = 1, .peer = WORKER + which, .peer_node = 2 + which, .flags = CTL_GRANT_REMOTE};
    struct lane_record record = {.length = LANE_RECORD_SIZE + sizeof grant, .kind = CTL_GRANT};
    w->lanes[which] = calloc(1, LANE_BYTES);
    assert_int_equal(own_control(&w->own, &record, (const uint8_t *)&grant, w->lanes[which], &w->parks[which]).code, MT_OK);
}

/* This node's switch has sent the task on: its claim is decided on the other node from now on. */
static void sent_on_one(struct own_lane *lane, uint32_t slot)
{
    shm_store64(&lane->claims[slot], lane_claim_word(lane->tasks[slot]->sequence, lane->tasks[slot]->attempt, LANE_RUNNING));
}

/* ... and all else that stands in the lane. */
static void sent_on(struct own_lane *lane)
{
    for (uint32_t slot = 0; slot < LANE_SLOTS; slot++)
        if (lane->tasks[slot])
            sent_on_one(lane, slot);
}

static struct own_ref *submit(struct world *w)
{
    struct own_call call = {.name = "f", .function = 1, .kind = LANE_TASK, .cls = w->cls};
    return own_submit(&w->own, &call);
}

static void tick(struct world *w, int ms)
{
    for (int i = 0; i < ms; i++) {
        w->own.now_ns += MS;
        own_class_tick(&w->own, w->cls);
    }
}

/* Two long tasks went to the first lease. The second one is kept for as long as it takes until one of them is back: given up, it
 * would be asked for again at once, and never be there when the task comes. */
static void a_lease_that_a_task_is_on_its_way_to_is_kept(void **state)
{
    struct world   *w = begin();
    struct own_ref *first = submit(w), *second = submit(w);
    (void)state;
    granted(w, 0);
    own_class_pump(&w->own, w->cls);
    assert_int_equal(w->cls->lanes[0]->inflight, 2);
    sent_on(w->cls->lanes[0]);
    tick(w, 3);
    assert_int_equal(w->cls->wanted, 2);
    granted(w, 1);
    tick(w, 1);                                             /* asks for one of the two */
    assert_true(w->cls->lanes[0]->tasks[2]->is_asked_back); /* sequences begin with 1 */
    uint64_t version = w->cls->version;
    tick(w, 100);
    assert_int_equal(w->cls->wanted, 2);
    assert_int_equal(w->cls->version, version); /* nobody was told anything else in between */
    own_ref_drop(&w->own, first);
    own_ref_drop(&w->own, second);
    end(w);
}

/* One long task needs one of two leases. */
static void a_lease_with_nothing_to_do_is_given_up(void **state)
{
    struct world   *w = begin();
    struct own_ref *ref = submit(w);
    (void)state;
    granted(w, 0);
    own_class_pump(&w->own, w->cls);
    own_class_demand(&w->own, w->cls, 2);
    granted(w, 1);
    tick(w, 5);
    assert_int_equal(w->cls->wanted, 1);
    own_ref_drop(&w->own, ref);
    end(w);
}

/* A class without work keeps its leases warm, but not where another class of the process has work and no lease. */
static void a_lease_that_another_class_lacks_is_given_up(void **state)
{
    struct world         *w = begin();
    struct own_class_spec spec = {.name = "g", .resource_count = 1, .resources = {{"CPU", 2000}}};
    struct own_class     *other = own_class_get(&w->own, &spec, (mt_id){0, 0});
    struct own_call       call = {.name = "g", .function = 2, .kind = LANE_TASK, .cls = other};
    (void)state;
    own_class_demand(&w->own, w->cls, 1);
    granted(w, 0);
    own_tick(&w->own, w->own.now_ns + MS);
    assert_false(w->own.is_lacking);
    struct own_ref *ref = own_submit(&w->own, &call);
    assert_true(w->own.is_lacking); /* from the submit on: who sleeps looks soon */
    own_tick(&w->own, w->own.now_ns + MS);
    assert_int_equal(w->cls->wanted, 1); /* a lease may be on its way */
    own_tick(&w->own, w->own.now_ns + MS);
    assert_int_equal(w->cls->wanted, 0);
    assert_int_equal(other->wanted, 1);
    own_class_demand(&w->own, w->cls, 1); /* a class that is idle later gives up as well */
    own_tick(&w->own, w->own.now_ns + MS);
    assert_int_equal(w->cls->wanted, 0);
    own_ref_drop(&w->own, ref);
    end(w);
}

static void control(struct world *w, uint16_t kind, uint64_t lease)
{
    struct ctl_lease   word = {.lease = lease};
    struct lane_record record = {.length = LANE_RECORD_SIZE + sizeof word, .kind = kind};
    assert_int_equal(own_control(&w->own, &record, (const uint8_t *)&word, NULL, NULL).code, MT_OK);
}

/* Its only task runs to its end in a lease that was asked back. Another lease would have nothing to do, and wanting it keeps the
 * node's scheduler looking for one for as long as the task runs. The next task wants one again. */
static void a_task_that_runs_in_a_recalled_lease_wants_no_other(void **state)
{
    struct world   *w = begin();
    struct own_ref *ref = submit(w), *next;
    (void)state;
    granted(w, 0);
    assert_int_equal(w->cls->wanted, 1);
    sent_on(w->cls->lanes[0]);
    control(w, CTL_RECALL, 1);
    assert_int_equal(w->cls->wanted, 0);
    tick(w, 1000);
    assert_int_equal(w->cls->wanted, 0);
    next = submit(w);
    assert_int_equal(w->cls->wanted, 1);
    own_ref_drop(&w->own, ref);
    own_ref_drop(&w->own, next);
    end(w);
}

/* Of two tasks there the second comes back: it needs another lease, and with that one asked back as well none is wanted. */
static void only_what_comes_back_from_a_recalled_lease_wants_another(void **state)
{
    struct world   *w = begin();
    struct own_ref *first = submit(w), *second = submit(w);
    (void)state;
    granted(w, 0);
    own_class_pump(&w->own, w->cls);
    assert_int_equal(w->cls->lanes[0]->inflight, 2);
    sent_on_one(w->cls->lanes[0], 1); /* sequences begin with 1 */
    control(w, CTL_RECALL, 1);        /* the second has not left this node: it is taken back at once */
    assert_int_equal(w->cls->lanes[0]->inflight, 1);
    assert_int_equal(w->cls->wanted, 1);
    granted(w, 1);
    assert_int_equal(w->cls->lanes[1]->inflight, 1);
    sent_on(w->cls->lanes[1]);
    control(w, CTL_RECALL, 2);
    assert_int_equal(w->cls->wanted, 0);
    own_ref_drop(&w->own, first);
    own_ref_drop(&w->own, second);
    end(w);
}

/* A lease that is kept warm is not wanted again where it was asked back. */
static void a_warm_lease_that_is_asked_back_is_not_wanted_again(void **state)
{
    struct world *w = begin();
    (void)state;
    own_class_demand(&w->own, w->cls, 2);
    granted(w, 0);
    granted(w, 1);
    control(w, CTL_RECALL, 2);
    assert_int_equal(w->cls->wanted, 1);
    control(w, CTL_RECALL, 1);
    assert_int_equal(w->cls->wanted, 0);
    end(w);
}

static void done(struct world *w, uint32_t which)
{
    struct lane_producer   back;
    struct own_lane       *lane = w->cls->lanes[which];
    const struct own_task *task = lane->tasks[1];
    struct lane_record     record = {.length = LANE_RECORD_SIZE,
                                     .kind = LANE_DONE,
                                     .sequence = task->sequence,
                                     .id = task->id,
                                     .slot = task->sequence & (LANE_SLOTS - 1)};
    lane_producer_init(&back, &lane_header_of(lane->memory)->back, lane_back_of(lane->memory));
    assert_true(lane_ring_push(&back, &record, NULL));
    lane_ring_publish(&back);
    assert_true(own_poll(&w->own));
}

/* A program that stands still while it waits, and whose task was done meanwhile: its next one finds the lease. Only time in which
 * there was nothing to do counts. */
static void a_lease_is_kept_by_who_stood_still_while_its_task_ran(void **state)
{
    struct world   *w = begin();
    struct own_ref *ref = submit(w);
    (void)state;
    granted(w, 0);
    own_tick(&w->own, w->own.now_ns + MS);
    done(w, 0);
    assert_int_equal(w->cls->outstanding, 0);
    own_tick(&w->own, w->own.now_ns + 400 * MS);
    assert_int_equal(w->cls->wanted, 1);
    own_tick(&w->own, w->own.now_ns + 299 * MS);
    assert_int_equal(w->cls->wanted, 1);
    own_tick(&w->own, w->own.now_ns + MS);
    assert_int_equal(w->cls->wanted, 0);
    own_ref_drop(&w->own, ref);
    end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_that_a_task_is_on_its_way_to_is_kept),
        cmocka_unit_test(a_lease_with_nothing_to_do_is_given_up),
        cmocka_unit_test(a_lease_that_another_class_lacks_is_given_up),
        cmocka_unit_test(a_task_that_runs_in_a_recalled_lease_wants_no_other),
        cmocka_unit_test(only_what_comes_back_from_a_recalled_lease_wants_another),
        cmocka_unit_test(a_warm_lease_that_is_asked_back_is_not_wanted_again),
        cmocka_unit_test(a_lease_is_kept_by_who_stood_still_while_its_task_ran),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
