/* SPDX-License-Identifier: Apache-2.0
 *
 * coll_test.c - collective calls among actors and their driver: sums, a member that is killed, members that disagree,
 * generations that shrink and grow.
 *
 * Thread: the driver's main one; methods run on their actor's.
 */
#include "tests/integration/cluster/nodes.h"

#include <manta_collective.h>

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIZE = 3, COUNT = 100000, ROUNDS_MAX = 1 << 30, DATA_BYTES = (COUNT * 4 + 4095) / 4096 * 4096 };

/* ---- the actor ---- */
struct member {
    manta_coll_id id;
    int           rank;
    manta_coll   *coll;
    float        *data;
};

static manta_status member_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct member *m = calloc(1, sizeof *m);
    if (!m || argc != 2 || argv[0].y.size != sizeof m->id)
        return manta_fail(c, 1, "bad arguments");
    memcpy(&m->id, argv[0].y.data, sizeof m->id);
    m->rank = (int)argv[1].l;
    m->data = aligned_alloc(4096, DATA_BYTES);
    if (!m->data)
        return manta_fail(c, 1, "no memory");
    memset(m->data, 0, DATA_BYTES);
    *self = m;
    return MANTA_OK;
}

static void member_free(void *self)
{
    struct member *m = self;
    manta_coll_leave(m->coll);
    free(m->data);
    free(m);
}

/* What an error looked like: its code and text, as "code text". */
static manta_status tell(manta_ctx *c, const manta_error *e)
{
    char text[600];
    snprintf(text, sizeof text, "%d %s", e->code, e->message);
    return manta_return_str(c, text);
}

static manta_status member_pid(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, getpid());
}

static manta_status join_first(struct member *m, manta_error *e)
{
    if (!m->coll)
        m->coll = manta_coll_join(&m->id, m->rank, e);
    return m->coll ? MANTA_OK : e->code;
}

/* `rounds` sums of vectors of rank + 1, + 2, ...; "0 rank/size" or the error. */
static manta_status member_sums(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct member *m = self;
    manta_error    e = {0};
    char           text[64];
    (void)argc;
    if (join_first(m, &e))
        return tell(c, &e);
    int rank = manta_coll_rank(m->coll), size = manta_coll_size(m->coll);
    for (int64_t round = 0; round < argv[0].l; round++) {
        float want = (float)(size * (size + 1) / 2) + (float)size * (float)(round % 7);
        for (size_t i = 0; i < COUNT; i++)
            m->data[i] = (float)(rank + 1 + round % 7);
        if (manta_coll_all_reduce(m->coll, m->data, m->data, COUNT, MANTA_COLL_F32, MANTA_COLL_SUM, &e))
            return tell(c, &e);
        for (size_t i = 0; i < COUNT; i++)
            if (m->data[i] != want)
                return manta_fail(c, 1, "element %zu is %f, not %f", i, (double)m->data[i], (double)want);
        double root_value = rank == size - 1 ? 42.5 : 0;
        if (manta_coll_broadcast(m->coll, &root_value, 1, MANTA_COLL_F64, size - 1, &e) || root_value != 42.5 ||
            manta_coll_barrier(m->coll, &e))
            return tell(c, &e);
    }
    snprintf(text, sizeof text, "0 %d/%d", rank, size);
    return manta_return_str(c, text);
}

/* From now on the sums are over memory that all share. */
static manta_status member_register(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct member *m = self;
    manta_error    e = {0};
    (void)argc, (void)argv;
    manta_coll_register(m->coll, m->data, DATA_BYTES, &e);
    return tell(c, &e);
}

static manta_status member_disagree(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct member *m = self;
    manta_error    e = {0};
    (void)argc, (void)argv;
    if (join_first(m, &e) == MANTA_OK)
        manta_coll_all_reduce(m->coll, m->data, m->data, 10 + (size_t)(m->rank == 1), MANTA_COLL_F32, MANTA_COLL_SUM, &e);
    return tell(c, &e);
}

/* After an error: goes on with the survivors. */
static manta_status member_shrink(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct member *m = self;
    manta_error    e = {0};
    uint64_t       flags = 6 + (uint64_t)manta_coll_rank(m->coll) % 2, alive = 0;
    char           text[96];
    (void)argc, (void)argv;
    if (manta_coll_agree(m->coll, &flags, &alive, &e) || manta_coll_shrink(m->coll, &e))
        return tell(c, &e);
    snprintf(text, sizeof text, "0 %d/%d generation %d, flags %d, alive %d", manta_coll_rank(m->coll), manta_coll_size(m->coll),
             manta_coll_generation(m->coll), (int)flags, (int)alive);
    return manta_return_str(c, text);
}

static manta_status member_regroup(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct member *m = self;
    manta_error    e = {0};
    (void)argc;
    memcpy(&m->id, argv[0].y.data, sizeof m->id);
    manta_coll_regroup(m->coll, &m->id, (int)argv[1].l, &e);
    return tell(c, &e);
}

/* Many small tensors in one call, and calls that are started: in order, all at once, waited for in any order. */
static manta_status member_started(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    enum { TENSORS = 200, STARTED = 40 };
    struct member      *m = self;
    manta_error         e = {0};
    manta_coll_tensor   tensors[TENSORS];
    manta_coll_request *requests[STARTED];
    static float        x[TENSORS][300], y[STARTED][5000];
    (void)argc, (void)argv;
    if (join_first(m, &e))
        return tell(c, &e);
    int size = manta_coll_size(m->coll);
    for (int t = 0; t < TENSORS; t++) {
        tensors[t] = (manta_coll_tensor){x[t], x[t], t == 100 ? 0 : 100 + (size_t)t};
        for (int i = 0; i < 300; i++)
            x[t][i] = (float)(t + i);
    }
    if (manta_coll_all_reduce_many(m->coll, tensors, TENSORS, MANTA_COLL_F32, MANTA_COLL_SUM, &e))
        return tell(c, &e);
    for (int t = 0; t < TENSORS; t++)
        for (int i = 0; i < 300; i++)
            if (x[t][i] != (float)((t + i) * (i < (int)tensors[t].count ? size : 1)))
                return manta_fail(c, 1, "tensor %d, element %d: %f", t, i, (double)x[t][i]);
    for (int r = 0; r < STARTED; r++) {
        for (int i = 0; i < 5000; i++)
            y[r][i] = (float)(r + i);
        requests[r] = r == 20 ? manta_coll_all_reduce_many_start(m->coll, tensors, TENSORS, MANTA_COLL_F32, MANTA_COLL_MAX, &e)
                              : manta_coll_all_reduce_start(m->coll, y[r], y[r], 5000, MANTA_COLL_F32, MANTA_COLL_SUM, &e);
        if (!requests[r])
            return tell(c, &e);
    }
    if (manta_coll_barrier(m->coll, &e)) /* behind all of them */
        return tell(c, &e);
    for (int r = 0; r < STARTED; r++) {
        int which = (r * 7) % STARTED;
        if (!manta_coll_test(requests[which]) || manta_coll_wait(requests[which], MANTA_FOREVER, &e))
            return tell(c, &e);
        if (which != 20 && (y[which][0] != (float)(which * size) || y[which][4999] != (float)((which + 4999) * size)))
            return manta_fail(c, 2, "request %d: %f", which, (double)y[which][0]);
    }
    /* One of other sizes than the others' is told when it is waited for, and so is what stands behind it. */
    tensors[0].count += (size_t)(m->rank == 1);
    tensors[1].count -= (size_t)(m->rank == 1);
    requests[0] = manta_coll_all_reduce_many_start(m->coll, tensors, 2, MANTA_COLL_F32, MANTA_COLL_SUM, &e);
    requests[1] = manta_coll_all_reduce_start(m->coll, y[0], y[0], 5, MANTA_COLL_F32, MANTA_COLL_SUM, &e);
    if (manta_coll_wait(requests[0], MANTA_FOREVER, &e) != MANTA_EINVAL ||
        manta_coll_wait(requests[1], MANTA_FOREVER, &e) != MANTA_EINVAL)
        return manta_fail(c, 3, "nobody noticed");
    return tell(c, &e);
}

MANTA_ACTOR(member, "yl", member_new, member_free, {"pid", ">l", member_pid}, {"sums", "l>s", member_sums},
            {"register", ">s", member_register}, {"disagree", ">s", member_disagree}, {"shrink", ">s", member_shrink},
            {"regroup", "yl>s", member_regroup}, {"started", ">s", member_started});

/* ---- the driver's side ---- */
struct team {
    manta_coll_group *group;
    manta_coll_id     id;
    manta_actor      *actors[8];
    int               size;
    bool              is_spread; /* rank r on node r % 2 */
};

static manta_actor *hire(struct team *t, int rank, const manta_coll_id *id)
{
    manta_error      e;
    manta_actor_opts at = {.num_cpus = 0};
    if (t->is_spread)
        at.resources = nodes_at(rank % 2), at.resource_count = 1;
    manta_actor *actor = manta_actor_new("member", &at, MANTA_ARGS(manta_bytes_of(id, sizeof *id), manta_i64(rank)));
    CHECK_CODE(manta_coll_group_watch(t->group, rank, actor, &e), MANTA_OK, &e);
    return actor;
}

static void team_start_over(struct team *t, int size, int size_max, manta_coll_transport transport)
{
    manta_error e;
    *t = (struct team){.size = size, .is_spread = transport == MANTA_COLL_TCP && manta_nodes(NULL, 0, &e) > 1};
    t->group = manta_coll_group_new(&(manta_coll_opts){.size = size,
                                                       .size_max = size_max,
                                                       .name = "team",
                                                       .timeout_ms = TEST_WAIT_MS,
                                                       .transport = transport,
                                                       .heap_bytes = transport == MANTA_COLL_SHM ? 4 << 20 : 0},
                                    &e);
    if (!t->group)
        test_fail(__FILE__, __LINE__, "no group: %s", e.message);
    manta_coll_group_id(t->group, &t->id);
    for (int rank = 0; rank < size; rank++)
        t->actors[rank] = hire(t, rank, &t->id);
}

static void team_start(struct team *t, int size, int size_max)
{
    team_start_over(t, size, size_max, MANTA_COLL_SHM);
}

static void team_end(struct team *t)
{
    for (int i = 0; i < 8; i++)
        if (t->actors[i])
            manta_actor_free(t->actors[i]);
    manta_coll_group_free(t->group);
}

static void check_text(manta_ref *take_ref, const char *begin, const char *says, int line)
{
    manta_error e;
    manta_view  view;
    if (manta_get(take_ref, TEST_WAIT_MS, &view, &e) != MANTA_OK)
        test_fail(__FILE__, line, "no answer: %s", e.message);
    if (strncmp(view.data, begin, strlen(begin)) != 0 || !strstr(view.data, says))
        test_fail(__FILE__, line, "\"%s\" instead of \"%s ... %s\"", (const char *)view.data, begin, says);
    manta_release(&view);
    manta_free(take_ref);
}
#define CHECK_TEXT(ref, begin, says) check_text(ref, begin, says, __LINE__)

/* Every member does it; each answer begins so. */
static void everyone(struct team *t, const char *method, const char *begin)
{
    manta_ref *refs[SIZE];
    for (int r = 0; r < SIZE; r++)
        refs[r] = manta_actor_call(t->actors[r], method, MANTA_NO_ARGS);
    for (int r = 0; r < SIZE; r++)
        CHECK_TEXT(refs[r], begin, "");
}

static void sums_across_actors(void)
{
    struct team t;
    manta_ref  *refs[SIZE];
    team_start(&t, SIZE, 0);
    for (int r = 0; r < SIZE; r++)
        refs[r] = manta_actor_call(t.actors[r], "sums", MANTA_ARGS(manta_i64(20)));
    CHECK_TEXT(refs[0], "0 0/3", "");
    CHECK_TEXT(refs[1], "0 1/3", "");
    CHECK_TEXT(refs[2], "0 2/3", "");
    /* In buffers that are shared, and in the next generation, where they are not any more. */
    everyone(&t, "register", "0 ");
    for (int generation = 1; generation <= 2; generation++) {
        for (int r = 0; r < SIZE; r++)
            refs[r] = manta_actor_call(t.actors[r], "sums", MANTA_ARGS(manta_i64(10)));
        for (int r = 0; r < SIZE; r++)
            CHECK_TEXT(refs[r], "0 ", "/3");
        if (generation == 1)
            everyone(&t, "shrink", "0 ");
    }
    team_end(&t);
}

/* GPUs are asked for where NCCL can't be had: the error says what is missing, and the group goes on. */
static void no_nccl(void)
{
    manta_error       e;
    manta_coll_id     id;
    float             x = 2;
    manta_coll_group *group = manta_coll_group_new(&(manta_coll_opts){.size = 1}, &e);
    CHECK(group);
    manta_coll_group_id(group, &id);
    manta_coll *coll = manta_coll_join(&id, 0, &e);
    CHECK(coll);
    setenv("MANTA_NCCL_PLUGIN", "/nowhere/libmanta_nccl.so", 1);
    CHECK(!manta_coll_gpu_join(coll, NULL, &e));
    CHECK_EQ(e.code, MANTA_EUNSUPPORTED);
    CHECK(strstr(e.message, "no NCCL: "));
    CHECK_CODE(manta_coll_all_reduce(coll, &x, &x, 1, MANTA_COLL_F32, MANTA_COLL_SUM, &e), MANTA_OK, &e);
    manta_coll_gpu_leave(NULL);
    manta_coll_leave(coll);
    manta_coll_group_free(group);
}

/* A buffer of the driver's own becomes shared and ordinary again, with what it holds; what can't be is refused. */
static void registering(manta_coll *coll)
{
    enum { PAGE = 4096 };
    manta_error e;
    char       *own = aligned_alloc(PAGE, 2 * PAGE);
    CHECK(own);
    memset(own, 5, 2 * PAGE);
    CHECK_CODE(manta_coll_register(coll, own, 2 * PAGE, &e), MANTA_OK, &e);
    CHECK_CODE(manta_coll_register(coll, own, PAGE, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_coll_register(coll, own + 1, PAGE, &e), MANTA_EINVAL, &e);
    CHECK(strstr(e.message, "page"));
    CHECK(own[0] == 5 && own[2 * PAGE - 1] == 5);
    own[PAGE] = 6;
    CHECK_CODE(manta_coll_unregister(coll, own, &e), MANTA_OK, &e);
    CHECK_CODE(manta_coll_unregister(coll, own, &e), MANTA_EINVAL, &e);
    CHECK(own[0] == 5 && own[PAGE] == 6);
    free(own);
}

static void driver_is_a_member(void)
{
    manta_error   e;
    manta_coll_id id;
    struct team   t = {.size = 2};
    float         x[3] = {1, 2, 3};
    t.group = manta_coll_group_new(&(manta_coll_opts){.size = 2, .heap_bytes = 1 << 20}, &e);
    CHECK(t.group);
    manta_coll_group_id(t.group, &id);
    t.actors[1] = hire(&t, 1, &id);
    manta_ref  *ref = manta_actor_call(t.actors[1], "sums", MANTA_ARGS(manta_i64(1)));
    manta_coll *coll = manta_coll_join(&id, 0, &e);
    if (!coll)
        test_fail(__FILE__, __LINE__, "no member: %s", e.message);
    float *mine = manta_coll_alloc(coll, COUNT * sizeof(float), &e);
    CHECK(mine);
    for (int i = 0; i < COUNT; i++)
        mine[i] = 1;
    registering(coll);
    double y = 0;
    CHECK_CODE(manta_coll_all_reduce(coll, mine, mine, COUNT, MANTA_COLL_F32, MANTA_COLL_SUM, &e), MANTA_OK, &e);
    CHECK(mine[0] == 3 && mine[COUNT - 1] == 3);
    CHECK_CODE(manta_coll_broadcast(coll, &y, 1, MANTA_COLL_F64, 1, &e), MANTA_OK, &e);
    CHECK_CODE(manta_coll_barrier(coll, &e), MANTA_OK, &e);
    CHECK_TEXT(ref, "0 1/2", "");
    /* Bad arguments are told at once, and the group goes on. */
    CHECK_CODE(manta_coll_all_reduce(coll, x, x, 3, (manta_coll_type)77, MANTA_COLL_SUM, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_coll_broadcast(coll, x, 3, MANTA_COLL_F32, 2, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_coll_all_reduce(coll, NULL, x, 3, MANTA_COLL_F32, MANTA_COLL_SUM, &e), MANTA_EINVAL, &e);
    CHECK(!manta_coll_alloc(coll, 1 << 20, &e) && e.code == MANTA_ENOMEM);
    manta_coll_leave(coll);
    team_end(&t);
}

static void started_and_bundled(void)
{
    for (int transport = 0; transport < 2; transport++) {
        struct team t;
        manta_ref  *refs[SIZE];
        team_start_over(&t, SIZE, 0, (manta_coll_transport)transport);
        for (int r = 0; r < SIZE; r++)
            refs[r] = manta_actor_call(t.actors[r], "started", MANTA_NO_ARGS);
        for (int r = 0; r < SIZE; r++)
            CHECK_TEXT(refs[r], "1 ", "the sizes of the tensors");
        team_end(&t);
    }
}

static void members_disagree(void)
{
    struct team t;
    manta_ref  *refs[SIZE];
    team_start(&t, SIZE, 0);
    for (int r = 0; r < SIZE; r++)
        refs[r] = manta_actor_call(t.actors[r], "disagree", MANTA_NO_ARGS);
    for (int r = 0; r < SIZE; r++)
        CHECK_TEXT(refs[r], "1 ", "rank 0 called all_reduce(10 float32, sum), rank 1 called all_reduce(11 float32, sum)");
    team_end(&t);
}

static void kill_member(struct team *t, int rank)
{
    manta_error e;
    int64_t     pid;
    manta_ref  *ref = manta_actor_call(t->actors[rank], "pid", MANTA_NO_ARGS);
    CHECK_CODE(manta_get_i64(ref, TEST_WAIT_MS, &pid, &e), MANTA_OK, &e);
    manta_free(ref);
    manta_ref *refs[SIZE], *first[SIZE];
    for (int r = 0; r < t->size; r++) {
        first[r] = manta_actor_call(t->actors[r], "sums", MANTA_ARGS(manta_i64(1)));
        refs[r] = manta_actor_call(t->actors[r], "sums", MANTA_ARGS(manta_i64(ROUNDS_MAX)));
    }
    for (int r = 0; r < t->size; r++)
        CHECK_TEXT(first[r], "0 ", ""); /* all are in the group: who joins beside a death has none to go on with */
    test_sleep_ms(50);
    CHECK_EQ(kill((pid_t)pid, SIGKILL), 0);
    for (int r = 0; r < t->size; r++) {
        if (r != rank) {
            CHECK_TEXT(refs[r], "20 ", "rank 1 died");
            continue;
        }
        CHECK_FAILS(refs[r], MANTA_EACTOR_DIED, &e);
    }
}

static void a_member_killed(void)
{
    struct team t;
    team_start(&t, SIZE, 0);
    kill_member(&t, 1);
    team_end(&t);
}

/* Rank 1 of three dies, the others go on as two; then as three again, with a new one. */
static void shrink_and_grow(struct team *t)
{
    manta_error   e;
    manta_ref    *refs[SIZE];
    manta_coll_id next;
    kill_member(t, 1);
    refs[0] = manta_actor_call(t->actors[0], "shrink", MANTA_NO_ARGS);
    refs[2] = manta_actor_call(t->actors[2], "shrink", MANTA_NO_ARGS);
    CHECK_TEXT(refs[0], "0 0/2", "generation 2, flags 6, alive 5");
    CHECK_TEXT(refs[2], "0 1/2", "generation 2, flags 6, alive 5");
    refs[0] = manta_actor_call(t->actors[0], "sums", MANTA_ARGS(manta_i64(5)));
    refs[2] = manta_actor_call(t->actors[2], "sums", MANTA_ARGS(manta_i64(5)));
    CHECK_TEXT(refs[0], "0 0/2", "");
    CHECK_TEXT(refs[2], "0 1/2", "");

    CHECK_CODE(manta_coll_group_next(t->group, 3, &next, &e), MANTA_OK, &e);
    manta_actor_free(t->actors[1]);
    t->actors[1] = hire(t, 2, &next);
    refs[1] = manta_actor_call(t->actors[1], "sums", MANTA_ARGS(manta_i64(5)));
    for (int r = 0; r < 3; r += 2) {
        refs[r] = manta_actor_call(t->actors[r], "regroup", MANTA_ARGS(manta_bytes_of(&next, sizeof next), manta_i64(r / 2)));
        manta_free(refs[r]);
        refs[r] = manta_actor_call(t->actors[r], "sums", MANTA_ARGS(manta_i64(5)));
    }
    CHECK_TEXT(refs[0], "0 0/3", "");
    CHECK_TEXT(refs[1], "0 2/3", "");
    CHECK_TEXT(refs[2], "0 1/3", "");
}

static void survivors_shrink_and_grow(void)
{
    struct team t;
    team_start(&t, SIZE, SIZE);
    shrink_and_grow(&t);
    team_end(&t);
}

/* The same over TCP, with members on two nodes. */
static void across_nodes(void)
{
    struct nodes n;
    struct team  t;
    manta_ref   *refs[SIZE];
    nodes_start(&n, 2, "4");
    team_start_over(&t, SIZE, SIZE, MANTA_COLL_TCP);
    for (int r = 0; r < SIZE; r++)
        refs[r] = manta_actor_call(t.actors[r], "sums", MANTA_ARGS(manta_i64(20)));
    CHECK_TEXT(refs[0], "0 0/3", "");
    CHECK_TEXT(refs[1], "0 1/3", "");
    CHECK_TEXT(refs[2], "0 2/3", "");
    shrink_and_grow(&t);
    team_end(&t);
    nodes_stop(&n);
}

/* Members on another node than the group's memory are told what to do. */
static void shared_memory_is_of_one_node(void)
{
    struct nodes n;
    struct team  t;
    nodes_start(&n, 2, "4");
    team_start(&t, 1, 0);
    t.is_spread = true;
    t.actors[1] = manta_actor_new("member", &(manta_actor_opts){AT(1)},
                                  MANTA_ARGS(manta_bytes_of(&t.id, sizeof t.id), manta_i64(0)));
    CHECK_TEXT(manta_actor_call(t.actors[1], "sums", MANTA_ARGS(manta_i64(1))), "1 ", "MANTA_COLL_TCP");
    team_end(&t);
    nodes_stop(&n);
}

static void disagree_and_abort_across_nodes(void)
{
    struct nodes n;
    struct team  t;
    manta_ref   *refs[SIZE];
    nodes_start(&n, 2, "4");
    team_start_over(&t, SIZE, 0, MANTA_COLL_TCP);
    for (int r = 0; r < SIZE; r++)
        refs[r] = manta_actor_call(t.actors[r], "disagree", MANTA_NO_ARGS);
    for (int r = 0; r < SIZE; r++)
        CHECK_TEXT(refs[r], "1 ", "rank 0 called all_reduce(10 float32, sum), rank 1 called all_reduce(11 float32, sum)");
    team_end(&t);
    team_start_over(&t, SIZE, 0, MANTA_COLL_TCP);
    refs[0] = manta_actor_call(t.actors[0], "sums", MANTA_ARGS(manta_i64(1))); /* waits for the others */
    test_sleep_ms(100);
    manta_coll_group_abort(t.group);
    CHECK_TEXT(refs[0], "9 ", "aborted");
    team_end(&t);
    nodes_stop(&n);
}

/* An actor that dies before it has joined releases those that wait for it. */
static void killed_before_joining(void)
{
    struct team t;
    manta_error e;
    team_start(&t, 2, 0);
    manta_ref *pid = manta_actor_call(t.actors[1], "pid", MANTA_NO_ARGS);
    int64_t    number;
    CHECK_CODE(manta_get_i64(pid, TEST_WAIT_MS, &number, &e), MANTA_OK, &e);
    manta_free(pid);
    manta_ref *ref = manta_actor_call(t.actors[0], "sums", MANTA_ARGS(manta_i64(1)));
    test_sleep_ms(30);
    manta_actor_kill(t.actors[1], false);
    CHECK_TEXT(ref, "20 ", "rank 1 died");
    team_end(&t);
}

static void bad_groups(void)
{
    manta_error       e;
    manta_coll_id     id = {{1, 2, 3}};
    manta_coll_group *group;
    CHECK(!manta_coll_group_new(&(manta_coll_opts){.size = 0}, &e) && e.code == MANTA_EINVAL);
    CHECK(!manta_coll_group_new(&(manta_coll_opts){.size = 65}, &e) && e.code == MANTA_EINVAL);
    CHECK(!manta_coll_group_new(&(manta_coll_opts){.size = 3, .size_max = 2}, &e) && e.code == MANTA_EINVAL);
    CHECK(!manta_coll_join(&id, 0, &e) && e.code == MANTA_EINVAL);
    CHECK_SAYS(e.message, "manta_coll_id");
    group = manta_coll_group_new(&(manta_coll_opts){.size = 2, .timeout_ms = 200, .name = "lonely"}, &e);
    CHECK(group);
    manta_coll_group_id(group, &id);
    CHECK(!manta_coll_join(&id, 2, &e) && e.code == MANTA_EINVAL);
    CHECK(!manta_coll_join(&id, 0, &e));
    CHECK_EQ(e.code, MANTA_ETIMEDOUT); /* nobody else came */
    CHECK_SAYS(e.message, "rank 1");
    CHECK_CODE(manta_coll_group_next(group, 3, &id, &e), MANTA_EINVAL, &e);
    manta_coll_group_free(group);
}

#define FOUR_CPUS {.num_cpus = 4}, false, 0
static const struct test_case cases[] = {
    {"sums_across_actors", sums_across_actors, FOUR_CPUS},
    {"driver_is_a_member", driver_is_a_member, FOUR_CPUS},
    {"no_nccl", no_nccl, FOUR_CPUS},
    {"started_and_bundled", started_and_bundled, FOUR_CPUS},
    {"members_disagree", members_disagree, FOUR_CPUS},
    {"a_member_killed", a_member_killed, FOUR_CPUS},
    {"killed_before_joining", killed_before_joining, FOUR_CPUS},
    {"survivors_shrink_and_grow", survivors_shrink_and_grow, FOUR_CPUS},
    {"across_nodes", across_nodes, {0}, true, 0},
    {"disagree_and_abort_across_nodes", disagree_and_abort_across_nodes, {0}, true, 0},
    {"shared_memory_is_of_one_node", shared_memory_is_of_one_node, {0}, true, 0},
    {"bad_groups", bad_groups, FOUR_CPUS},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
