/* SPDX-License-Identifier: Apache-2.0
 *
 * group_wide_test.c - a group over several nodes, each a region of its own with processes as members: the sum has the bits of one
 * process whatever the members and nodes are; broadcast and agreement cross; a death on one node releases all.
 */
#include "tests/unit/sgd/crew.h"

#include "core/base/clock.h"
#include "sgd/sum/ahead.h"
#include "sgd/sum/shard.h"

#include <stdatomic.h>
#include <time.h>

enum { NODES_MAX = 4, MEMBERS_MAX = 8, FLOATS = 6003, ROUNDS = 12, WAIT_MS = 30000 };

/* A group as a test lays it out, in shared memory. */
struct world {
    struct sgd_group_plan plan;
    struct sgd_group_net  net; /* but for `node` */
    struct coll_door      doors[MEMBERS_MAX];
    void                 *regions[NODES_MAX];
    size_t                size;
    uint32_t              members, generation;
    _Atomic uint32_t      going;
    bool                  is_mirrored; /* of a sharded plan */
    uint32_t              other;       /* the rank that does something else */
    pid_t                 pids[MEMBERS_MAX];
};

typedef mt_status (*life_fn)(struct world *w, struct sgd_group *group);

static void *shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

/* `first` as in sgd_group_net: 0, ..., members. */
static struct world *world_of(uint32_t vranks, uint32_t nodes, const uint8_t *first, bool is_sharded, bool is_mirrored)
{
    struct world *w = shared(sizeof *w);
    w->plan = (struct sgd_group_plan){.vranks = vranks,
                                      .slot_floats = FLOATS,
                                      .mean_floats = FLOATS - 3,
                                      .fingerprint = 42,
                                      .is_wide = true,
                                      .is_sharded = is_sharded,
                                      .is_mirrored = is_mirrored};
    w->is_mirrored = is_mirrored;
    w->net.nodes = nodes;
    w->net.group = 99;
    memcpy(w->net.first, first, nodes + 1);
    memcpy(w->net.secret, "a secret of thirty-two bytes....", COLL_SECRET_BYTES);
    w->members = first[nodes];
    w->generation = 1;
    assert_int_equal(sgd_group_region_size(&w->plan, &w->size).code, MT_OK);
    for (uint32_t n = 0; n < nodes; n++) {
        w->regions[n] = shared(w->size);
        assert_int_equal(coll_door_open(&w->doors[n], &w->net.at[n]).code, MT_OK);
    }
    return w;
}

static struct world *world_new(uint32_t vranks, uint32_t nodes, const uint8_t *first)
{
    return world_of(vranks, nodes, first, false, false);
}

static void world_free(struct world *w)
{
    for (uint32_t n = 0; n < w->net.nodes; n++) {
        munmap(w->regions[n], w->size);
        coll_door_close(&w->doors[n]);
    }
    munmap(w, sizeof *w);
}

static mt_status enter(struct world *w, uint32_t rank, life_fn life)
{
    struct sgd_group    *group = calloc(1, sizeof *group);
    struct sgd_group_net net = w->net;
    while (rank >= net.first[net.node + 1])
        net.node++;
    struct coll_door        door = w->doors[net.node];
    struct sgd_group_config config = {.region = w->regions[net.node],
                                      .region_size = w->size,
                                      .plan = w->plan,
                                      .generation = w->generation,
                                      .rank = rank,
                                      .members = w->members,
                                      .wait_limit_ms = WAIT_MS,
                                      .net = &net,
                                      .door = &door};
    mt_status               st = sgd_group_join(group, &config);
    if (st.code == MT_OK)
        st = life(w, group);
    sgd_group_leave(group);
    free(group);
    return st;
}

/* Each member in a process of its own; its exit status is the code of its life. */
static void hire(struct world *w, uint32_t rank, life_fn life)
{
    fflush(NULL);
    pid_t parent = getpid();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child) {
        w->pids[rank] = child; /* shared memory: not the child's to write */
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(99);
    mt_status st = enter(w, rank, life);
    if (st.code == MT_EINTERNAL)
        fprintf(stderr, "rank %u: %s\n", rank, st.what);
    _exit(st.code);
}

static int end_of(struct world *w, uint32_t rank)
{
    int status;
    assert_int_equal(waitpid(w->pids[rank], &status, 0), w->pids[rank]);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void run_all(uint32_t vranks, uint32_t nodes, const uint8_t *first, life_fn life)
{
    struct world *w = world_new(vranks, nodes, first);
    for (uint32_t rank = 0; rank < w->members; rank++)
        hire(w, rank, life);
    for (uint32_t rank = 0; rank < w->members; rank++)
        assert_int_equal(end_of(w, rank), MT_OK);
    world_free(w);
}

/* ---- sums ---- */

/* What one process computes alone. */
static void expected(float *out, uint32_t round, uint32_t vranks)
{
    crew_sum(out, FLOATS, round, vranks);
    for (size_t i = 0; i < FLOATS - 3; i++)
        out[i] *= 1.0f / (float)vranks;
}

static mt_status reduce_round(struct sgd_group *group, uint32_t round)
{
    static float want[FLOATS];
    const float *sum;
    MT_TRY(crew_contribute(group, round));
    if (round % 2) {
        MT_TRY(sgd_group_reduce(group, crew_kernels(), &sum));
    } else { /* in parts, from the back */
        MT_TRY(sgd_group_reduce_ranges(group, crew_kernels(), (struct sgd_range[]){{800, FLOATS}, {3, 4}, {17, 799}}, 3));
        MT_TRY(sgd_group_reduce_ranges(group, crew_kernels(), (struct sgd_range[]){{799, 800}, {4, 17}, {0, 3}}, 3));
        sum = group->sum;
    }
    expected(want, round, group->plan.vranks);
    return memcmp(want, sum, sizeof want) == 0 ? mt_ok() : mt_error(MT_EINTERNAL, 0, "the sum differs");
}

static mt_status life_sums(struct world *w, struct sgd_group *group)
{
    (void)w;
    for (uint32_t round = 0; round < ROUNDS; round++)
        MT_TRY(reduce_round(group, round));
    return sgd_group_barrier(group);
}

static void a_sum_has_the_bits_of_one_process(void **state)
{
    static const uint8_t even[] = {0, 1, 2}, uneven[] = {0, 3, 4}, three[] = {0, 1, 3, 5}, four[] = {0, 2, 3, 6, 8}, one[] = {0, 2};
    (void)state;
    run_all(8, 2, even, life_sums);
    run_all(8, 2, uneven, life_sums);
    run_all(7, 2, uneven, life_sums);
    run_all(13, 3, three, life_sums);
    run_all(31, 4, four, life_sums);
    run_all(8, 1, one, life_sums);
}

/* ---- shards ---- */

static bool is_of(const float *sum, const float *want, size_t begin, size_t end)
{
    return memcmp(sum + begin, want + begin, (end - begin) * sizeof *sum) == 0;
}

/* What members have made of their shards reaches all. */
static mt_status shards_share(struct sgd_group *group, struct sgd_range own, uint32_t round)
{
    size_t mean = group->plan.mean_floats;
    for (size_t i = own.begin; i < own.end; i++) {
        group->fresh[i] = (float)(i + round);
        group->squares[i / SGD_SHARD_BLOCK] = (double)(i / SGD_SHARD_BLOCK + round);
    }
    MT_TRY(sgd_group_share_squares(group));
    for (size_t b = 0; b < sgd_shard_blocks(mean); b++)
        if (group->squares[b] != (double)(b + round))
            return mt_error(MT_EINTERNAL, 0, "another square");
    MT_TRY(sgd_group_share_fresh(group));
    for (size_t i = 0; i < mean; i++)
        if (group->fresh[i] != (float)(i + round))
            return mt_error(MT_EINTERNAL, 0, "another parameter");
    return mt_ok();
}

/* In one piece, or in two parts of which each has something of every shard: a member has the sum of its own, and of what follows
 * the last. */
static mt_status life_shards(struct world *w, struct sgd_group *group)
{
    static float     want[FLOATS];
    size_t           mean = FLOATS - 3;
    struct sgd_range own = sgd_shard_of(mean, group->rank, group->members);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const float *sum = group->sum;
        MT_TRY(crew_contribute(group, round));
        if (round % 2) {
            MT_TRY(sgd_group_reduce(group, crew_kernels(), &sum));
        } else {
            MT_TRY(sgd_group_reduce_ranges(group, crew_kernels(), (struct sgd_range[]){{3, 4}, {17, 1799}, {1800, 5999}}, 3));
            MT_TRY(sgd_group_reduce_ranges(group, crew_kernels(),
                                           (struct sgd_range[]){{0, 3}, {4, 17}, {1799, 1800}, {5999, FLOATS}}, 4));
        }
        expected(want, round, group->plan.vranks);
        if (!is_of(sum, want, own.begin, own.end) || !is_of(sum, want, mean, FLOATS) ||
            (w->is_mirrored && !is_of(sum, want, 0, FLOATS)))
            return mt_error(MT_EINTERNAL, 0, "the sum differs");
        MT_TRY(shards_share(group, own, round));
    }
    return sgd_group_barrier(group);
}

static void shards_run(uint32_t vranks, uint32_t nodes, const uint8_t *first)
{
    for (int is_mirrored = 0; is_mirrored < 2; is_mirrored++) {
        struct world *w = world_of(vranks, nodes, first, true, is_mirrored);
        for (uint32_t rank = 0; rank < w->members; rank++)
            hire(w, rank, life_shards);
        for (uint32_t rank = 0; rank < w->members; rank++)
            assert_int_equal(end_of(w, rank), MT_OK);
        world_free(w);
    }
}

static void a_shard_gets_its_sum_and_reaches_all(void **state)
{
    static const uint8_t even[] = {0, 1, 2}, uneven[] = {0, 3, 4}, four[] = {0, 2, 3, 6, 8}, one[] = {0, 2};
    (void)state;
    shards_run(8, 2, even);
    shards_run(7, 2, uneven);
    shards_run(31, 4, four); /* more members than blocks: some have none */
    shards_run(8, 1, one);
}

/* ---- broadcast, agreement ---- */

static mt_status life_broadcast(struct world *w, struct sgd_group *group)
{
    enum { COUNT = 3 * 8 * FLOATS + 17 };
    static uint32_t data[COUNT];
    for (uint32_t root = 0; root < w->members; root++) {
        for (uint32_t i = 0; i < COUNT; i++)
            data[i] = group->rank == root ? i * 31 + root : 0;
        MT_TRY(sgd_group_broadcast(group, root, data, sizeof data));
        for (uint32_t i = 0; i < COUNT; i++)
            if (data[i] != i * 31 + root)
                return mt_error(MT_EINTERNAL, 0, "the broadcast differs");
        struct sgd_agreement got;
        MT_TRY(sgd_group_agree(group, group->rank != root, 7 + (group->rank == w->members - 1), &got));
        bool is_last = root == w->members - 1;
        if (!got.has_state || got.is_equal || got.step_min != 7 || got.step_max != (is_last ? 7 : 8) ||
            got.root != (is_last ? 0 : w->members - 1))
            return mt_error(MT_EINTERNAL, 0, "another agreement");
        MT_TRY(reduce_round(group, root));
    }
    return mt_ok();
}

static void a_broadcast_and_an_agreement_cross(void **state)
{
    static const uint8_t first[] = {0, 2, 3, 5};
    (void)state;
    run_all(8, 3, first, life_broadcast);
}

/* Whoever has it, leaders or not, on every node or on one. */
static mt_status life_pass(struct world *w, struct sgd_group *group)
{
    enum { COUNT = 3 * 8 * FLOATS + 17 };
    static uint32_t data[COUNT];
    for (uint64_t holders = 1; holders < 1u << w->members; holders++) {
        for (uint32_t i = 0; i < COUNT; i++)
            data[i] = holders >> group->rank & 1 ? i * 31 + (uint32_t)holders : 0;
        MT_TRY(sgd_group_pass(group, holders, data, sizeof data));
        for (uint32_t i = 0; i < COUNT; i++)
            if (data[i] != i * 31 + (uint32_t)holders)
                return mt_error(MT_EINTERNAL, 0, "what was passed on differs");
        MT_TRY(reduce_round(group, (uint32_t)holders % ROUNDS));
    }
    return mt_ok();
}

static void who_lacks_something_gets_it(void **state)
{
    static const uint8_t first[] = {0, 2, 3, 5};
    (void)state;
    run_all(8, 3, first, life_pass);
}

/* ---- the end of a generation ---- */

static mt_status life_until_over(struct world *w, struct sgd_group *group)
{
    for (uint32_t round = 0;; round++) {
        MT_TRY(reduce_round(group, round % ROUNDS));
        atomic_fetch_add(&w->going, 1);
    }
}

static void wait_going(struct world *w, uint32_t more)
{
    uint32_t        from = atomic_load(&w->going);
    struct timespec pause = {0, 200000};
    while (atomic_load(&w->going) - from < more)
        nanosleep(&pause, NULL);
}

/* Any member dies at any time; nobody tells the others but their own eyes (and, of one node, each other's). */
static void a_death_on_one_node_ends_all(void **state)
{
    static const uint8_t first[] = {0, 2, 4};
    (void)state;
    for (uint32_t victim = 0; victim < 4; victim++) {
        struct world *w = world_new(8, 2, first);
        for (uint32_t rank = 0; rank < w->members; rank++)
            hire(w, rank, life_until_over);
        wait_going(w, 10 + victim * 7);
        assert_true(w->pids[victim] > 1);
        kill(w->pids[victim], SIGKILL);
        for (uint32_t rank = 0; rank < w->members; rank++)
            assert_int_equal(end_of(w, rank), rank == victim ? 1000 + SIGKILL : MT_EWORKER_DIED);
        w->generation++; /* the doors stay open: the next generation comes through them */
        for (uint32_t rank = 0; rank < w->members; rank++)
            hire(w, rank, life_sums);
        for (uint32_t rank = 0; rank < w->members; rank++)
            assert_int_equal(end_of(w, rank), MT_OK);
        world_free(w);
    }
}

/* Told on one node, it ends the others too, with its reason; also where a node's leader never joined. */
static void an_abort_on_one_node_ends_all(void **state)
{
    static const uint8_t first[] = {0, 2, 3};
    (void)state;
    for (uint32_t node = 0; node < 2; node++)
        for (int is_early = 0; is_early < 2; is_early++) {
            struct world *w = world_new(8, 2, first);
            for (uint32_t rank = 0; rank < (is_early ? 2 : w->members); rank++)
                hire(w, rank, life_until_over);
            if (!is_early)
                wait_going(w, 5);
            sgd_group_abort(w->regions[is_early ? 0 : node], 1, MT_EAGAIN, 0);
            for (uint32_t rank = 0; rank < (is_early ? 2 : w->members); rank++)
                assert_int_equal(end_of(w, rank), MT_EAGAIN);
            world_free(w);
        }
}

/* Members, here or on another node, that would sum other parts are told so. */
static mt_status life_other_ranges(struct world *w, struct sgd_group *group)
{
    bool is_other = group->rank == w->other;
    return sgd_group_reduce_ranges(group, crew_kernels(), (struct sgd_range[]){{0, is_other ? 32 : 48}}, 1);
}

static void other_ranges_are_an_error(void **state)
{
    static const uint8_t first[] = {0, 2, 3};
    (void)state;
    for (uint32_t other = 1; other < 3; other++) {
        struct world *w = world_new(8, 2, first);
        w->other = other;
        for (uint32_t rank = 0; rank < w->members; rank++)
            hire(w, rank, life_other_ranges);
        for (uint32_t rank = 0; rank < w->members; rank++)
            assert_int_equal(end_of(w, rank), MT_EINVAL);
        world_free(w);
    }
}

static void bad_nodes_are_refused(void **state)
{
    static const uint8_t    first[] = {0, 2, 3};
    struct world           *w = world_new(8, 2, first);
    struct sgd_group        group;
    struct sgd_group_net    net = w->net;
    struct sgd_group_config config = {.region = w->regions[0],
                                      .region_size = w->size,
                                      .plan = w->plan,
                                      .generation = 1,
                                      .rank = 2,
                                      .members = 3,
                                      .net = &net,
                                      .door = &w->doors[0]};
    (void)state;
    assert_int_equal(sgd_group_join(&group, &config).code, MT_EINVAL); /* rank 2 is of node 1 */
    config.rank = 0, config.members = 4;
    assert_int_equal(sgd_group_join(&group, &config).code, MT_EINVAL);
    config.members = 3, net.first[1] = 0;
    assert_int_equal(sgd_group_join(&group, &config).code, MT_EINVAL);
    net.first[1] = 2, config.plan.is_wide = false;
    assert_int_equal(sgd_group_join(&group, &config).code, MT_EINVAL);
    sgd_group_leave(&group);
    world_free(w);
}

/* ---- made ready beside another generation ---- */

struct beside {
    struct sgd_ahead        ahead;
    struct sgd_group_config config;
    struct sgd_group_net    net;
    struct coll_door        door;
    struct sgd_group_made   taken;
    mt_status               made;
};

static void *beside_make(void *user)
{
    struct beside *b = user;
    b->made = sgd_ahead_make(&b->ahead, &b->config, 1);
    return NULL;
}

/* Sums go on while the next generation's members connect; then it has the same bits, over what was connected. */
static mt_status life_beside(struct world *w, struct sgd_group *group)
{
    struct beside *b = calloc(1, sizeof *b);
    pthread_t      thread;
    bool           is_leader = group->is_leader;
    b->net = group->net;
    b->door = w->doors[b->net.node];
    memcpy(b->net.secret, "another secret, of the next one.", COLL_SECRET_BYTES);
    if (w->other == group->rank)
        b->net.secret[0] ^= 1;
    b->config = (struct sgd_group_config){.region = w->regions[b->net.node],
                                          .region_size = w->size,
                                          .plan = w->plan,
                                          .generation = 2,
                                          .rank = group->rank,
                                          .members = w->members,
                                          .wait_limit_ms = w->other < w->members ? 500 : WAIT_MS,
                                          .net = &b->net,
                                          .door = &b->door};
    MT_TRY(sgd_ahead_init(&b->ahead));
    if (pthread_create(&thread, NULL, beside_make, b) != 0)
        return mt_error(MT_ESYS, 0, "no thread");
    mt_status st = life_sums(w, group);
    pthread_join(thread, NULL);
    if (st.code == MT_OK && w->other < w->members) { /* a member has another secret: all come back with an error */
        st = is_leader && b->made.code == MT_OK ? mt_error(MT_EINTERNAL, 0, "connected by another secret") : life_sums(w, group);
    } else if (st.code == MT_OK && b->made.code == MT_OK) {
        atomic_fetch_add(&w->going, 1);
        while (atomic_load(&w->going) < w->members) /* until nobody looks at the first one any more */
            mt_sleep_ms(1);
        sgd_group_leave(group);
        b->config.made = sgd_ahead_take(&b->ahead, 2, &b->taken) ? &b->taken : NULL;
        bool was_connected = b->config.made && b->config.made->tcp.state == COLL_TCP_JOINED;
        st = sgd_group_join(group, &b->config);
        st = st.code ? st : life_sums(w, group);
        if (st.code == MT_OK && was_connected != is_leader)
            st = mt_error(MT_EINTERNAL, 0, "a leader was not connected, or another member was");
    } else {
        st = st.code ? st : b->made;
    }
    sgd_ahead_fini(&b->ahead);
    sgd_group_leave(group); /* its network's configuration is this call's */
    free(b);
    return st;
}

static void the_next_generation_connects_beside_the_present_one(void **state)
{
    static const uint8_t three[] = {0, 2, 3, 5};
    (void)state;
    for (uint32_t other = 2; other <= 5; other += 3) { /* rank 2 leads a node; 5 is nobody */
        struct world *w = world_new(13, 3, three);
        w->other = other;
        for (uint32_t rank = 0; rank < w->members; rank++)
            hire(w, rank, life_beside);
        for (uint32_t rank = 0; rank < w->members; rank++)
            assert_int_equal(end_of(w, rank), MT_OK);
        world_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shard_gets_its_sum_and_reaches_all),
        cmocka_unit_test(a_sum_has_the_bits_of_one_process),
        cmocka_unit_test(a_broadcast_and_an_agreement_cross),
        cmocka_unit_test(who_lacks_something_gets_it),
        cmocka_unit_test(a_death_on_one_node_ends_all),
        cmocka_unit_test(an_abort_on_one_node_ends_all),
        cmocka_unit_test(other_ranges_are_an_error),
        cmocka_unit_test(bad_nodes_are_refused),
        cmocka_unit_test(the_next_generation_connects_beside_the_present_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
