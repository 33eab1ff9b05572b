/* SPDX-License-Identifier: Apache-2.0
 *
 * spread_test.c - workers of one owner that share a cpu are parted while another has none.
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_two_on_one_cpu_is_asked_to_leave),
        cmocka_unit_test(nobody_moves_where_all_have_their_own),
        cmocka_unit_test(nobody_moves_where_there_is_no_other_cpu),
        cmocka_unit_test(a_worker_that_has_done_nothing_lately_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
