/* SPDX-License-Identifier: Apache-2.0
 *
 * group_test.c - real processes over a shared region: sums, broadcast, agreement; deaths, aborts and new
 * generations.
 */
#include "tests/unit/sgd/crew.h"

#include <time.h>

enum { VRANKS = 8, FLOATS = 1003, ROUNDS = 50 };

static const struct sgd_group_plan plan = {.vranks = VRANKS, .slot_floats = FLOATS, .fingerprint = 42};

/* One reduction, compared bit by bit with the sum that one process computes alone. */
static mt_status reduce_round(struct sgd_group *group, uint32_t round)
{
    static float want[FLOATS];
    const float *sum;
    MT_TRY(crew_contribute(group, round));
    MT_TRY(sgd_group_reduce(group, crew_kernels(), &sum));
    crew_sum(want, FLOATS, round, VRANKS);
    return memcmp(want, sum, sizeof want) == 0 ? mt_ok() : mt_error(MT_EINTERNAL, 0, "the sum differs");
}

static mt_status reduce_work(struct crew *crew, uint32_t rank, struct crew_order order)
{
    struct sgd_group group;
    MT_TRY(crew_join(crew, &group, rank, order));
    for (uint32_t round = 0; round < ROUNDS; round++)
        MT_TRY(reduce_round(&group, round));
    return mt_ok();
}

static void a_sum_has_the_same_bits_for_any_number_of_workers(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 8};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct crew crew;
        crew_init(&crew, plan, reduce_work);
        crew_run(&crew, sizes[s]);
        crew_fini(&crew);
    }
}

/* More bytes than the slots hold, from each rank in turn. */
static mt_status broadcast_work(struct crew *crew, uint32_t rank, struct crew_order order)
{
    enum { COUNT = 3 * VRANKS * FLOATS + 17 };
    static uint32_t  data[COUNT];
    struct sgd_group group;
    MT_TRY(crew_join(crew, &group, rank, order));
    for (uint32_t root = 0; root < order.members; root++) {
        for (uint32_t i = 0; i < COUNT; i++)
            data[i] = rank == root ? i * 31 + root : 0;
        MT_TRY(sgd_group_broadcast(&group, root, data, sizeof data));
        for (uint32_t i = 0; i < COUNT; i++)
            if (data[i] != i * 31 + root)
                return mt_error(MT_EINTERNAL, 0, "the broadcast differs");
        MT_TRY(reduce_round(&group, root)); /* the slots may be used again at once */
        uint32_t word = rank;
        MT_TRY(sgd_group_broadcast(&group, root, rank == root || rank == 0 ? &word : NULL, sizeof word));
        if (rank == 0 && word != root)
            return mt_error(MT_EINTERNAL, 0, "a broadcast to one differs");
    }
    return sgd_group_broadcast(&group, order.members, data, 1).code == MT_EINVAL ? mt_ok() : mt_error(MT_EINTERNAL, 0, "root");
}

static void a_broadcast_reaches_all(void **state)
{
    struct crew crew;
    (void)state;
    crew_init(&crew, plan, broadcast_work);
    crew_run(&crew, 3);
    crew_fini(&crew);
}

/* From whoever has it to whoever lacks it, in every way. */
static mt_status pass_work(struct crew *crew, uint32_t rank, struct crew_order order)
{
    enum { COUNT = 3 * VRANKS * FLOATS + 17 };
    static uint32_t  data[COUNT];
    struct sgd_group group;
    MT_TRY(crew_join(crew, &group, rank, order));
    for (uint64_t holders = 1; holders < 1u << order.members; holders++) {
        for (uint32_t i = 0; i < COUNT; i++)
            data[i] = holders >> rank & 1 ? i * 31 + (uint32_t)holders : 0;
        MT_TRY(sgd_group_pass(&group, holders, data, sizeof data));
        for (uint32_t i = 0; i < COUNT; i++)
            if (data[i] != i * 31 + (uint32_t)holders)
                return mt_error(MT_EINTERNAL, 0, "what was passed on differs");
        MT_TRY(reduce_round(&group, (uint32_t)holders % ROUNDS)); /* the slots may be used again at once */
    }
    return mt_ok();
}

static void who_lacks_something_gets_it(void **state)
{
    struct crew crew;
    (void)state;
    crew_init(&crew, plan, pass_work);
    crew_run(&crew, 3);
    crew_fini(&crew);
}

static mt_status agree_case(struct sgd_group *group, const uint64_t votes[3], struct sgd_agreement want)
{
    struct sgd_agreement got;
    uint64_t             vote = votes[group->rank];
    MT_TRY(sgd_group_agree(group, vote != UINT64_MAX, vote != UINT64_MAX ? vote : 0, &got));
    bool is_same = got.has_state == want.has_state && got.is_equal == want.is_equal && got.root == want.root &&
                   got.step_min == want.step_min && got.step_max == want.step_max && got.furthest == want.furthest;
    return is_same ? mt_ok() : mt_error(MT_EINTERNAL, 0, "another agreement");
}

static mt_status agree_work(struct crew *crew, uint32_t rank, struct crew_order order)
{
    const uint64_t   none = UINT64_MAX;
    struct sgd_group group;
    MT_TRY(crew_join(crew, &group, rank, order));
    MT_TRY(agree_case(&group, (uint64_t[]){5, 5, 5}, (struct sgd_agreement){true, true, 5, 5, 0, 7}));
    MT_TRY(agree_case(&group, (uint64_t[]){5, 6, 6}, (struct sgd_agreement){true, false, 5, 6, 1, 6}));
    MT_TRY(agree_case(&group, (uint64_t[]){none, 0, 0}, (struct sgd_agreement){true, false, 0, 0, 1, 6}));
    MT_TRY(agree_case(&group, (uint64_t[]){none, 3, 9}, (struct sgd_agreement){true, false, 3, 9, 2, 4}));
    return agree_case(&group, (uint64_t[]){none, none, none}, (struct sgd_agreement){false, false, 0, 0, 0, 0});
}

static void members_agree_on_who_is_furthest(void **state)
{
    struct crew crew;
    (void)state;
    crew_init(&crew, plan, agree_work);
    crew_run(&crew, 3);
    crew_fini(&crew);
}

/* ---- deaths ---- */

enum { VICTIM = 2 };

/* The victim of generation 1 dies in a different place for each `kill_at`; survivors bring their data to
 * generation 2, where the new rank gets them by broadcast. */
static mt_status mortal_work(struct crew *crew, uint32_t rank, struct crew_order order)
{
    static uint64_t      rounds_done; /* kept by survivors from generation to generation */
    const uint32_t      *kill_at = crew->shared;
    struct sgd_group     group;
    struct sgd_agreement agreement;

    if (rank == VICTIM && order.generation == 1 && *kill_at == 0)
        raise(SIGKILL);
    MT_TRY(crew_join(crew, &group, rank, order));
    MT_TRY(sgd_group_agree(&group, order.generation == 1 || rank != VICTIM, rounds_done, &agreement));
    if (order.generation > 1 && agreement.root != 0 && agreement.step_min == agreement.step_max)
        return mt_error(MT_EINTERNAL, 0, "the lowest survivor was to be the root");
    if (!agreement.is_equal)
        MT_TRY(sgd_group_broadcast(&group, agreement.root, &rounds_done, sizeof rounds_done));
    while (rounds_done < ROUNDS) {
        if (rank == VICTIM && order.generation == 1 && rounds_done + 1 == *kill_at)
            raise(SIGKILL);
        MT_TRY(reduce_round(&group, (uint32_t)rounds_done));
        rounds_done++;
    }
    return mt_ok();
}

static void survivors_return_and_go_on_with_a_replacement(void **state)
{
    enum { MEMBERS = 4 };
    static const uint32_t kill_at[] = {0, 1, 2, 7, ROUNDS};
    uint32_t             *shared = shared_memory(sizeof *shared);
    (void)state;
    for (size_t k = 0; k < sizeof kill_at / sizeof *kill_at; k++) {
        struct crew crew;
        crew_init(&crew, plan, mortal_work);
        crew.shared = shared;
        *shared = kill_at[k];
        for (uint32_t rank = 0; rank < MEMBERS; rank++)
            crew_hire(&crew, rank);
        crew_order_all(&crew, 1, MEMBERS);
        crew_bury(&crew, VICTIM, 1);
        for (uint32_t rank = 0; rank < MEMBERS; rank++)
            if (rank != VICTIM)
                assert_int_equal(crew_report(&crew, rank), MT_EWORKER_DIED);
        struct coll_abort why = coll_shm_why(crew.region);
        assert_int_equal(why.generation, 1);
        assert_int_equal(why.reason, MT_EWORKER_DIED);
        assert_int_equal(why.rank, VICTIM);
        crew_hire(&crew, VICTIM);
        crew_order_all(&crew, 2, MEMBERS);
        for (uint32_t rank = 0; rank < MEMBERS; rank++)
            assert_int_equal(crew_report(&crew, rank), MT_OK);
        for (uint32_t rank = 0; rank < MEMBERS; rank++)
            crew_dismiss(&crew, rank);
        crew_fini(&crew);
    }
    munmap(shared, sizeof *shared);
}

static mt_status endless_work(struct crew *crew, uint32_t rank, struct crew_order order)
{
    struct sgd_group group;
    uint64_t        *rounds = crew->shared;
    MT_TRY(crew_join(crew, &group, rank, order));
    for (uint32_t round = 0;; round++) {
        MT_TRY(reduce_round(&group, round % ROUNDS));
        if (rank == 0)
            ++*rounds;
    }
}

/* SIGKILL from outside at arbitrary instructions: after each, a new generation of all ranks works. */
static void a_kill_at_any_instant_needs_no_repair(void **state)
{
    enum { MEMBERS = 3, KILLS = 60 };
    struct crew crew;
    mt_rng      rng = {9};
    (void)state;
    crew_init(&crew, plan, endless_work);
    crew.shared = shared_memory(sizeof(uint64_t));
    for (uint32_t rank = 0; rank < MEMBERS; rank++)
        crew_hire(&crew, rank);
    for (uint32_t generation = 1; generation <= KILLS; generation++) {
        uint64_t before = *(volatile uint64_t *)crew.shared;
        crew_order_all(&crew, generation, MEMBERS);
        while (*(volatile uint64_t *)crew.shared < before + 2) /* this generation does work */
            usleep(100);
        struct timespec pause = {0, (long)mt_rng_below(&rng, 3000000)};
        nanosleep(&pause, NULL);
        uint32_t victim = (uint32_t)mt_rng_below(&rng, MEMBERS);
        kill(crew.pids[victim], SIGKILL);
        crew_bury(&crew, victim, generation);
        for (uint32_t rank = 0; rank < MEMBERS; rank++)
            if (rank != victim)
                assert_int_equal(crew_report(&crew, rank), MT_EWORKER_DIED);
        crew_hire(&crew, victim);
    }
    for (uint32_t rank = 0; rank < MEMBERS; rank++)
        crew_dismiss(&crew, rank);
    munmap(crew.shared, sizeof(uint64_t));
    crew_fini(&crew);
}

/* ---- limits, fences, bad arguments ---- */

static mt_status absent_work(struct crew *crew, uint32_t rank, struct crew_order order)
{
    struct sgd_group        group;
    struct sgd_group_config config = {.region = crew->region,
                                      .region_size = crew->region_size,
                                      .plan = crew->plan,
                                      .generation = order.generation,
                                      .rank = rank,
                                      .members = order.members + 1,
                                      .wait_limit_ms = rank == 0 ? 200 : 0};
    return sgd_group_join(&group, &config);
}

/* Rank 1, which is there before, would wait for a minute; the limit of rank 0 releases it too. */
static void who_never_comes_is_not_awaited_for_ever(void **state)
{
    struct crew       crew;
    struct crew_order order = {1, 2};
    (void)state;
    crew_init(&crew, plan, absent_work);
    for (uint32_t rank = 0; rank < 2; rank++)
        crew_hire(&crew, rank);
    assert_int_equal(write(crew.orders[1], &order, sizeof order), sizeof order);
    while (coll_shm_rank_of(crew.region, 1, crew.pids[1]) != 1)
        usleep(200);
    assert_int_equal(write(crew.orders[0], &order, sizeof order), sizeof order);
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_int_equal(crew_report(&crew, rank), MT_ETIMEDOUT);
        crew_dismiss(&crew, rank);
    }
    assert_int_equal(coll_shm_why(crew.region).rank, 2); /* who did not come */
    crew_fini(&crew);
}

static mt_status disagreeing_work(struct crew *crew, uint32_t rank, struct crew_order order)
{
    struct sgd_group group;
    crew->plan.fingerprint = rank == 1 ? 43 : 42;
    return crew_join(crew, &group, rank, order);
}

static void members_with_other_plans_are_told_so(void **state)
{
    struct crew crew;
    (void)state;
    crew_init(&crew, plan, disagreeing_work);
    for (uint32_t rank = 0; rank < 3; rank++)
        crew_hire(&crew, rank);
    crew_order_all(&crew, 1, 3);
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_int_equal(crew_report(&crew, rank), MT_EINVAL);
        crew_dismiss(&crew, rank);
    }
    crew_fini(&crew);
}

static struct sgd_group_config alone(const struct crew *crew, uint32_t generation)
{
    return (struct sgd_group_config){.region = crew->region,
                                     .region_size = crew->region_size,
                                     .plan = crew->plan,
                                     .generation = generation,
                                     .rank = 0,
                                     .members = 1};
}

static void earlier_generations_are_fenced(void **state)
{
    struct crew      crew;
    struct sgd_group old, new;
    (void)state;
    crew_init(&crew, plan, NULL);
    struct sgd_group_config two = alone(&crew, 2), three = alone(&crew, 3);
    assert_int_equal(sgd_group_join(&old, &two).code, MT_OK);
    assert_int_equal(sgd_group_barrier(&old).code, MT_OK);
    assert_int_equal(sgd_group_join(&new, &three).code, MT_OK);
    assert_int_equal(sgd_group_barrier(&old).code, MT_EFENCED);
    sgd_group_leave(&old);
    assert_int_equal(sgd_group_join(&old, &two).code, MT_EFENCED);
    sgd_group_leave(&old);
    sgd_group_abort(crew.region, 2, MT_EWORKER_DIED, 0); /* late news of the past changes nothing */
    assert_int_equal(sgd_group_barrier(&new).code, MT_OK);
    sgd_group_abort(crew.region, 3, MT_ECANCELLED, 0);
    sgd_group_abort(crew.region, 3, MT_EWORKER_DIED, 0); /* the first reason stands */
    assert_int_equal(sgd_group_barrier(&new).code, MT_ECANCELLED);
    sgd_group_abort(crew.region, 4, MT_EWORKER_DIED, 0); /* before anyone has joined */
    struct sgd_group_config four = alone(&crew, 4);
    sgd_group_leave(&new);
    assert_int_equal(sgd_group_join(&new, &four).code, MT_EWORKER_DIED);
    sgd_group_leave(&new);
    crew_fini(&crew);
}

static void bad_arguments_are_refused(void **state)
{
    struct crew      crew;
    struct sgd_group group;
    size_t           size;
    (void)state;
    crew_init(&crew, plan, NULL);
    struct sgd_group_config good = alone(&crew, 1), bad;
    bad = good, bad.generation = 0;
    assert_int_equal(sgd_group_join(&group, &bad).code, MT_EINVAL);
    bad = good, bad.rank = 1;
    assert_int_equal(sgd_group_join(&group, &bad).code, MT_EINVAL);
    bad = good, bad.members = VRANKS + 1;
    assert_int_equal(sgd_group_join(&group, &bad).code, MT_EINVAL);
    bad = good, bad.region_size--;
    assert_int_equal(sgd_group_join(&group, &bad).code, MT_EINVAL);
    bad = good, bad.region = (char *)bad.region + 4;
    assert_int_equal(sgd_group_join(&group, &bad).code, MT_EINVAL);
    assert_int_equal(sgd_group_join(&group, &good).code, MT_OK);
    sgd_group_leave(&group);
    bad = good, bad.generation = 2, bad.plan.slot_floats = 17; /* the region is cut for another plan */
    assert_int_equal(sgd_group_join(&group, &bad).code, MT_EINVAL);

    struct sgd_group_plan none = {.vranks = 0, .slot_floats = 1}, many = {.vranks = MT_VRANKS_MAX + 1, .slot_floats = 1};
    struct sgd_group_plan large = {.vranks = 1000, .slot_floats = SIZE_MAX / 65};
    assert_int_equal(sgd_group_region_size(&none, &size).code, MT_EINVAL);
    assert_int_equal(sgd_group_region_size(&many, &size).code, MT_EINVAL);
    assert_int_equal(sgd_group_region_size(&large, &size).code, MT_EINVAL);
    crew_fini(&crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_has_the_same_bits_for_any_number_of_workers),
        cmocka_unit_test(a_broadcast_reaches_all),
        cmocka_unit_test(who_lacks_something_gets_it),
        cmocka_unit_test(members_agree_on_who_is_furthest),
        cmocka_unit_test(survivors_return_and_go_on_with_a_replacement),
        cmocka_unit_test(a_kill_at_any_instant_needs_no_repair),
        cmocka_unit_test(who_never_comes_is_not_awaited_for_ever),
        cmocka_unit_test(members_with_other_plans_are_told_so),
        cmocka_unit_test(earlier_generations_are_fenced),
        cmocka_unit_test(bad_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
