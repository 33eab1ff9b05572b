/* SPDX-License-Identifier: Apache-2.0
 *
 * spread_test.c - workers of one owner that share a cpu are parted while another has none; so are actors that call each other.
 */
#include "clients/lib/worker/wrk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { PROCESS = 7, WORKER = 9, WORKERS = 2 };

struct world {
    struct own       own;
    void            *lanes[WORKERS];
    struct lane_park parks[WORKERS];
};

/* An owner with two workers, last seen on these cpus (+ 1), on a node with `cpus`. */
static struct world *begin(uint32_t cpus, const uint32_t at[WORKERS])
{
    struct world         *w = calloc(1, sizeof *w);
    struct own_class_spec spec = {.name = "f", .resource_count = 1, .resources = {{"CPU", 1000}}};
    own_init(&w->own, PROCESS, 1, 1, 1);
    w->own.cpus = cpus;
    assert_non_null(own_class_get(&w->own, &spec, (mt_id){0, 0}));
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct ctl_grant   grant = {.lease = i + 1, .class_id = 1, .peer = WORKER + i, .peer_node = 1};
        struct lane_record record = {.length = LANE_RECORD_SIZE + sizeof grant, .kind = CTL_GRANT};
        w->lanes[i] = calloc(1, LANE_BYTES);
        shm_store32(&w->parks[i].cpu, at[i]);
        assert_int_equal(own_control(&w->own, &record, (const uint8_t *)&grant, w->lanes[i], &w->parks[i]).code, MT_OK);
    }
    return w;
}

static void end(struct world *w)
{
    own_fini(&w->own);
    for (uint32_t i = 0; i < WORKERS; i++)
        free(w->lanes[i]);
    free(w);
}

/* How many workers are asked to leave `cpu` within some ticks. */
static int asked_to_leave(struct world *w, uint32_t cpu)
{
    int asked = 0;
    for (int i = 0; i < 3; i++)
        own_spread(&w->own);
    for (uint32_t i = 0; i < WORKERS; i++)
        asked += shm_load32(&w->parks[i].leave) == cpu;
    return asked;
}

static void one_of_two_on_one_cpu_is_asked_to_leave(void **state)
{
    (void)state;
    struct world *w = begin(2, (const uint32_t[]){2, 2});
    assert_int_equal(asked_to_leave(w, 2), 1);
    end(w);
}

static void nobody_moves_where_all_have_their_own(void **state)
{
    (void)state;
    struct world *w = begin(4, (const uint32_t[]){1, 2});
    assert_int_equal(asked_to_leave(w, 1) + asked_to_leave(w, 2), 0);
    end(w);
}

static void nobody_moves_where_there_is_no_other_cpu(void **state)
{
    (void)state;
    struct world *w = begin(1, (const uint32_t[]){1, 1});
    assert_int_equal(asked_to_leave(w, 1), 0);
    end(w);
}

static void a_worker_that_has_done_nothing_lately_does_not_count(void **state)
{
    (void)state;
    struct world *w = begin(2, (const uint32_t[]){2, 2});
    w->own.now_ns += 1000 * 1000 * 1000;
    assert_int_equal(asked_to_leave(w, 2), 0);
    end(w);
}

/* ---- an actor that looks by itself ---- */

enum { CALLERS = 3 };

/* Whether an actor on cpu 1 is crowded there, called by those on these cpus (0: asleep on cpu 1), on a node with `cpus`. */
static bool is_crowded(uint32_t cpus, bool first_is_creator, const uint32_t at[CALLERS])
{
    struct wrk       wrk;
    struct lane_park parks[CALLERS] = {0};
    void            *lanes[CALLERS];
    wrk_init(&wrk, 1);
    for (uint32_t i = 0; i < CALLERS; i++) {
        struct ctl_grant   grant = {.lease = i + 1, .peer = PROCESS + i, .flags = i == 0 && first_is_creator ? CTL_CLASS_ACTOR : 0};
        struct lane_record record = {.length = LANE_RECORD_SIZE + sizeof grant, .kind = CTL_LANE};
        lanes[i] = calloc(1, LANE_BYTES);
        shm_store32(&parks[i].cpu, at[i] ? at[i] : 1);
        if (!at[i])
            (void)lane_park_prepare(&parks[i]);
        assert_int_equal(wrk_control(&wrk, &record, (const uint8_t *)&grant, lanes[i], &parks[i]).code, MT_OK);
    }
    bool is = wrk_is_crowded(&wrk, 1, cpus);
    wrk_fini(&wrk);
    for (uint32_t i = 0; i < CALLERS; i++)
        free(lanes[i]);
    return is;
}

static void an_actor_leaves_the_cpu_where_its_callers_crowd(void **state)
{
    (void)state;
    assert_true(is_crowded(2, false, (const uint32_t[]){1, 1, 1}));
    assert_true(is_crowded(2, false, (const uint32_t[]){1, 1, 2}));
    assert_true(is_crowded(2, false, (const uint32_t[]){1, 0, 0}));
    assert_false(is_crowded(2, false, (const uint32_t[]){1, 2, 2}));
    assert_true(is_crowded(8, false, (const uint32_t[]){1, 2, 3}));  /* the others have less than one each */
    assert_false(is_crowded(1, false, (const uint32_t[]){1, 1, 1})); /* there is no other */
}

static void an_actor_stays_where_it_is_alone_with_its_creator(void **state)
{
    (void)state;
    assert_false(is_crowded(2, true, (const uint32_t[]){1, 0, 0})); /* who sleeps needs no cpu */
    assert_false(is_crowded(2, true, (const uint32_t[]){1, 2, 0}));
    assert_true(is_crowded(2, true, (const uint32_t[]){2, 1, 0}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_two_on_one_cpu_is_asked_to_leave),
        cmocka_unit_test(nobody_moves_where_all_have_their_own),
        cmocka_unit_test(nobody_moves_where_there_is_no_other_cpu),
        cmocka_unit_test(a_worker_that_has_done_nothing_lately_does_not_count),
        cmocka_unit_test(an_actor_leaves_the_cpu_where_its_callers_crowd),
        cmocka_unit_test(an_actor_stays_where_it_is_alone_with_its_creator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
