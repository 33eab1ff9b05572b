/* SPDX-License-Identifier: Apache-2.0
 *
 * group_thread_test.c - the group's shared memory with threads as members, so that a thread sanitizer sees
 * all of it.
 */
#include "core/base/rng.h"
#include "sgd/sum/collective.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MEMBERS = 4, VRANKS = 8, FLOATS = 300, GENERATIONS = 30, ROUNDS = 60 };

struct world {
    struct sgd_group_plan plan;
    void                 *region;
    size_t                size;
    const struct k_ops   *ops;
};

struct member {
    struct world *world;
    uint32_t      rank, generation;
    uint64_t      rounds; /* completed */
    mt_status     end;
};

static float contribution(uint64_t round, uint32_t v, size_t i)
{
    return (float)((round * 7 + v * 13 + i) % 101) * 0.37f;
}

/* Float additions in the order of the tree, for 8 virtual ranks. */
static float expected(uint64_t round, size_t i)
{
    float x[VRANKS];
    for (uint32_t v = 0; v < VRANKS; v++)
        x[v] = contribution(round, v, i);
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

static mt_status member_round(struct member *member, struct sgd_group *group)
{
    const struct sgd_lane *lane = sgd_group_lane(group, 0);
    const float           *sum;
    float                 *room;
    for (uint32_t done = 0; done < sgd_lane_length(lane); done++) {
        MT_TRY(sgd_group_room(group, member->world->ops, 0, done, (struct sgd_range){0, FLOATS}, &room));
        for (size_t i = 0; i < FLOATS; i++)
            room[i] = contribution(member->rounds, sgd_lane_vrank(lane, done), i);
    }
    MT_TRY(sgd_group_reduce(group, member->world->ops, &sum));
    for (size_t i = 0; i < FLOATS; i++)
        if (sum[i] != expected(member->rounds, i))
            return mt_error(MT_EINTERNAL, 0, "the sum differs");
    member->rounds++;
    return mt_ok();
}

static mt_status rounds_in(struct member *member, struct sgd_group *group)
{
    struct sgd_agreement agreement;
    uint64_t             rounds = member->rounds;
    MT_TRY(sgd_group_agree(group, true, member->rounds, &agreement));
    MT_TRY(sgd_group_broadcast(group, agreement.root, &rounds, sizeof rounds));
    if (rounds != agreement.step_max)
        return mt_error(MT_EINTERNAL, 0, "the broadcast differs");
    member->rounds = rounds;
    for (uint64_t end = rounds + ROUNDS; member->rounds < end;)
        MT_TRY(member_round(member, group));
    return mt_ok();
}

static mt_status member_work(struct member *member)
{
    struct world           *world = member->world;
    struct sgd_group_config config = {.region = world->region,
                                      .region_size = world->size,
                                      .plan = world->plan,
                                      .generation = member->generation,
                                      .rank = member->rank,
                                      .members = MEMBERS};
    struct sgd_group        group;
    mt_status               st = sgd_group_join(&group, &config);
    if (st.code == 0)
        st = rounds_in(member, &group);
    sgd_group_leave(&group);
    return st;
}

static void *member_main(void *argument)
{
    struct member *member = argument;
    member->end = member_work(member);
    return NULL;
}

/* Each generation is aborted at some instant by another thread, or ends by itself; the next one goes on from
 * there. */
static void generations_follow_each_other(void **state)
{
    struct k_config kernels = {.kind = K_CPU};
    struct world    world = {.plan = {.vranks = VRANKS, .slot_floats = FLOATS}};
    struct member   members[MEMBERS] = {0};
    mt_rng          rng = {3};
    (void)state;
    assert_int_equal(k_ops_choose(&kernels, &world.ops).code, MT_OK);
    assert_int_equal(sgd_group_region_size(&world.plan, &world.size).code, MT_OK);
    world.region = aligned_alloc(64, (world.size + 63) / 64 * 64);
    assert_non_null(world.region);
    memset(world.region, 0, world.size);
    for (uint32_t generation = 1; generation <= GENERATIONS; generation++) {
        pthread_t threads[MEMBERS];
        bool      is_aborted = generation % 3 != 0;
        for (uint32_t m = 0; m < MEMBERS; m++) {
            members[m].world = &world, members[m].rank = m, members[m].generation = generation;
            assert_int_equal(pthread_create(&threads[m], NULL, member_main, &members[m]), 0);
        }
        if (is_aborted) {
            usleep((useconds_t)mt_rng_below(&rng, 3000));
            sgd_group_abort(world.region, generation, MT_EWORKER_DIED, 1);
        }
        uint64_t low = UINT64_MAX, high = 0;
        for (uint32_t m = 0; m < MEMBERS; m++) {
            assert_int_equal(pthread_join(threads[m], NULL), 0);
            assert_true(members[m].end.code == MT_OK || (is_aborted && members[m].end.code == MT_EWORKER_DIED));
            low = members[m].rounds < low ? members[m].rounds : low;
            high = members[m].rounds > high ? members[m].rounds : high;
        }
        if (!is_aborted)
            assert_int_equal(high - low, 0);
    }
    free(world.region);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(generations_follow_each_other)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
