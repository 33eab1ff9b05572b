/* SPDX-License-Identifier: Apache-2.0
 *
 * coll_gpu_test.c - collective calls on GPUs (manta_coll_gpu_...) among actors, over the emulated NCCL: what the calls give, who
 * is told what when members disagree, die or fail, and the communicators after that.
 *
 * Thread: the driver's main one; methods run on their actor's.
 */
#include "tests/integration/harness.h"

#include <manta_collective.h>

#include <dlfcn.h>
#include <nccl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIZE = 3, COUNT = 40000 };

/* ---- the actor ---- */
struct member {
    manta_coll_id   id;
    int             rank;
    manta_coll     *coll;
    manta_coll_gpu *gpu;
    ncclComm_t      own; /* a communicator that the user made */
    float          *in, *out;
};

static manta_status member_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct member *m = calloc(1, sizeof *m);
    if (!m || argc != 2 || argv[0].y.size != sizeof m->id)
        return manta_fail(c, 1, "bad arguments");
    memcpy(&m->id, argv[0].y.data, sizeof m->id);
    m->rank = (int)argv[1].l;
    m->in = calloc(SIZE * COUNT, sizeof(float));
    m->out = calloc(SIZE * COUNT, sizeof(float));
    if (!m->in || !m->out)
        return manta_fail(c, 1, "no memory");
    *self = m;
    return MANTA_OK;
}

static void member_free(void *self)
{
    struct member *m = self;
    manta_coll_gpu_leave(m->gpu);
    manta_coll_leave(m->coll);
    free(m->in), free(m->out);
    free(m);
}

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

/* What NCCL gets wrong in this process from now on. */
static manta_status member_fault(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    setenv("NCCL_EMULATED", argv[0].y.data, 1);
    return manta_return_i64(c, 0);
}

/* A symbol of the emulated NCCL, as a user who links NCCL has it. */
static void *nccl(const char *name)
{
    void *library = dlopen(getenv("MANTA_NCCL_PLUGIN"), RTLD_NOW);
    return library ? dlsym(library, name) : NULL;
}

/* A user's own communicator of the group's members, or of this one alone; it need not be ready yet. */
static int own_make(struct member *m, bool is_alone, manta_error *e)
{
    ncclResult_t (*make_id)(ncclUniqueId *) = (ncclResult_t(*)(ncclUniqueId *))nccl("ncclGetUniqueId");
    ncclResult_t (*make)(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *) = (ncclResult_t(*)(
        ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *))nccl("ncclCommInitRankConfig");
    ncclConfig_t config = {.blocking = 0};
    ncclUniqueId id, mine;
    make_id(&mine);
    id = mine;
    if (manta_coll_broadcast(m->coll, &id, sizeof id, MANTA_COLL_U8, 0, e))
        return e->code;
    ncclResult_t result = make(&m->own, is_alone ? 1 : SIZE, is_alone ? mine : id, is_alone ? 0 : m->rank, &config);
    return result == ncclInProgress || result == ncclSuccess ? 0 : -1;
}

/* "new", or "own": with a communicator of the user's; "alone": rank 1's is of another group. */
static manta_status member_join(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct member      *m = self;
    manta_error         e = {0};
    manta_coll_gpu_opts opts = {0};
    (void)argc;
    if (!m->coll)
        m->coll = manta_coll_join(&m->id, m->rank, &e);
    if (!m->coll)
        return tell(c, &e);
    if (strcmp(argv[0].y.data, "new") != 0) {
        if (own_make(m, strcmp(argv[0].y.data, "alone") == 0 && m->rank == 1, &e))
            return tell(c, &e);
        opts.nccl_comm = m->own;
    }
    m->gpu = manta_coll_gpu_join(m->coll, &opts, &e);
    return tell(c, &e);
}

/* Rank r's element i of part p is r + 10 p + i % 7. */
static void inputs(struct member *m, int size)
{
    int rank = manta_coll_rank(m->coll);
    for (int p = 0; p < size; p++)
        for (int i = 0; i < COUNT; i++)
            m->in[p * COUNT + i] = (float)(rank + 10 * p + i % 7);
}

/* Where the sum of the elements 0 and COUNT - 1 is not this: which call it was. */
static const char *off(const struct member *m, const char *call, int part, float first)
{
    const float *out = m->out + part * COUNT;
    return out[0] == first && out[COUNT - 1] - out[0] == (float)((COUNT - 1) % 7) * (out[1] - out[0]) ? NULL : call;
}

static const char *calls(struct member *m, void *stream, manta_error *e)
{
    const manta_coll_type f32 = MANTA_COLL_F32;
    int                   size = manta_coll_size(m->coll), rank = manta_coll_rank(m->coll), all = size * (size - 1) / 2;
    const char           *bad = NULL;
    inputs(m, size);
#define CALL(call, what, part, first) \
    do { \
        memset(m->out, 0, SIZE *COUNT * sizeof *m->out); \
        if ((call) != MANTA_OK || manta_coll_gpu_wait(m->gpu, stream, e) != MANTA_OK) \
            return what; \
        bad = bad ? bad : off(m, what, part, (float)(first)); \
    } while (0)
    CALL(manta_coll_gpu_all_reduce(m->gpu, m->in, m->out, COUNT, f32, MANTA_COLL_SUM, stream, e), "sum", 0, all);
    CALL(manta_coll_gpu_all_reduce(m->gpu, m->in, m->out, COUNT, f32, MANTA_COLL_MAX, stream, e), "max", 0, size - 1);
    CALL(manta_coll_gpu_all_reduce(m->gpu, m->in, m->out, COUNT, f32, MANTA_COLL_MIN, stream, e), "min", 0, 0);
    CALL(manta_coll_gpu_reduce_scatter(m->gpu, m->in, m->out, COUNT, f32, MANTA_COLL_SUM, stream, e), "reduce_scatter", 0,
         all + 10 * size * rank);
    CALL(manta_coll_gpu_all_gather(m->gpu, m->in, m->out, COUNT, f32, stream, e), "all_gather", size - 1, size - 1);
    CALL(manta_coll_gpu_all_to_all(m->gpu, m->in, m->out, COUNT, f32, stream, e), "all_to_all", size - 1, size - 1 + 10 * rank);
    memcpy(m->out, m->in, COUNT * sizeof *m->out);
    if (manta_coll_gpu_broadcast(m->gpu, m->out, COUNT, f32, size - 1, stream, e) || manta_coll_gpu_wait(m->gpu, stream, e))
        return "broadcast";
    return bad ? bad : off(m, "broadcast", 0, (float)(size - 1));
#undef CALL
}

/* Every call, on a stream of the caller's or of the communicator's own: "0 rank/size", the error, or the call that is wrong. */
static manta_status member_calls(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct member *m = self;
    manta_error    e = {0};
    cudaStream_t   stream = NULL;
    char           text[64];
    (void)argc;
    if (argv[0].l && ((cudaError_t(*)(cudaStream_t *, unsigned))nccl("cudaStreamCreateWithFlags"))(&stream, 0) != cudaSuccess)
        return manta_fail(c, 1, "no stream");
    const char *bad = calls(m, stream, &e);
    if (stream)
        ((cudaError_t(*)(cudaStream_t))nccl("cudaStreamDestroy"))(stream);
    if (e.code)
        return tell(c, &e);
    snprintf(text, sizeof text, "0 %s%d/%d", bad ? bad : "", manta_coll_rank(m->coll), manta_coll_size(m->coll));
    return manta_return_str(c, text);
}

/* Rank 1's call has one element more. Then all the same, which works: nobody was left inside NCCL. */
static manta_status member_disagree(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct member *m = self;
    manta_error    e = {0}, after = {0};
    (void)argc, (void)argv;
    manta_coll_gpu_all_reduce(m->gpu, m->in, m->out, 10 + (size_t)(m->rank == 1), MANTA_COLL_F32, MANTA_COLL_SUM, NULL, &e);
    if (calls(m, NULL, &after))
        return tell(c, &after);
    return tell(c, &e);
}

/* Sums until something ends them. */
static manta_status member_endless(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct member *m = self;
    manta_error    e = {0};
    (void)argc, (void)argv;
    while (manta_coll_gpu_all_reduce(m->gpu, m->in, m->out, COUNT, MANTA_COLL_F32, MANTA_COLL_SUM, NULL, &e) == MANTA_OK &&
           manta_coll_gpu_wait(m->gpu, NULL, &e) == MANTA_OK)
        ;
    return tell(c, &e);
}

/* The survivors' group, and their communicator: out of the former one where that is whole (`keeps`), else a new one. */
static manta_status member_shrink(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct member *m = self;
    manta_error    e = {0};
    uint64_t       flags = 0, alive = 0;
    (void)argc;
    if (manta_coll_agree(m->coll, &flags, &alive, &e) == MANTA_OK && manta_coll_shrink(m->coll, &e) == MANTA_OK)
        manta_coll_gpu_renew(m->gpu, argv[0].l ? alive : 0, &e);
    return tell(c, &e);
}

/* What the user made is the user's to end, also after an error. */
static manta_status member_disown(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct member *m = self;
    (void)argc, (void)argv;
    manta_coll_gpu_leave(m->gpu);
    m->gpu = NULL;
    return manta_return_i64(c, ((ncclResult_t(*)(ncclComm_t))nccl("ncclCommAbort"))(m->own));
}

MANTA_ACTOR(gpu_member, "yl", member_new, member_free, {"pid", ">l", member_pid}, {"fault", "s>l", member_fault},
            {"join", "s>s", member_join}, {"calls", "l>s", member_calls}, {"disagree", ">s", member_disagree},
            {"endless", ">s", member_endless}, {"shrink", "l>s", member_shrink}, {"disown", ">l", member_disown});

/* ---- the driver's side ---- */
struct team {
    manta_coll_group *group;
    manta_actor      *actors[SIZE]; /* NULL: dead */
};

static void team_start(struct team *t)
{
    manta_error   e;
    manta_coll_id id;
    *t = (struct team){0};
    t->group = manta_coll_group_new(&(manta_coll_opts){.size = SIZE, .name = "team", .timeout_ms = TEST_WAIT_MS}, &e);
    if (!t->group)
        test_fail(__FILE__, __LINE__, "no group: %s", e.message);
    manta_coll_group_id(t->group, &id);
    for (int r = 0; r < SIZE; r++) {
        t->actors[r] = manta_actor_new("gpu_member", &(manta_actor_opts){.num_cpus = 0},
                                       MANTA_ARGS(manta_bytes_of(&id, sizeof id), manta_i64(r)));
        CHECK_CODE(manta_coll_group_watch(t->group, r, t->actors[r], &e), MANTA_OK, &e);
    }
}

static void team_end(struct team *t)
{
    for (int r = 0; r < SIZE; r++)
        if (t->actors[r])
            manta_actor_free(t->actors[r]);
    manta_coll_group_free(t->group);
}

static void check_text(manta_ref *take_ref, int code, const char *says, int line)
{
    manta_error e;
    manta_view  view;
    if (manta_get(take_ref, TEST_WAIT_MS, &view, &e) != MANTA_OK)
        test_fail(__FILE__, line, "no answer: %s", e.message);
    if (strtol(view.data, NULL, 10) != code || !strstr(view.data, says))
        test_fail(__FILE__, line, "\"%s\" instead of \"%d ... %s\"", (const char *)view.data, code, says);
    manta_release(&view);
    manta_free(take_ref);
}
#define CHECK_TEXT(ref, code, says) check_text(ref, code, says, __LINE__)

static int64_t number(manta_ref *take_ref)
{
    manta_error e;
    int64_t     value = -1;
    CHECK_CODE(manta_get_i64(take_ref, TEST_WAIT_MS, &value, &e), MANTA_OK, &e);
    manta_free(take_ref);
    return value;
}

static void fault(struct team *t, int rank, const char *what)
{
    CHECK_EQ(number(manta_actor_call(t->actors[rank], "fault", MANTA_ARGS(manta_str(what)))), 0);
}

/* Every living member does it; each answer is so. */
#define EVERYONE(t, method, args, code, says) \
    do { \
        manta_ref *refs_[SIZE]; \
        for (int r = 0; r < SIZE; r++) \
            refs_[r] = (t)->actors[r] ? manta_actor_call((t)->actors[r], method, args) : NULL; \
        for (int r = 0; r < SIZE; r++) \
            if (refs_[r]) \
                CHECK_TEXT(refs_[r], code, says); \
    } while (0)

static void all_join(struct team *t, const char *how)
{
    team_start(t);
    EVERYONE(t, "join", MANTA_ARGS(manta_str(how)), MANTA_OK, "");
}

static void kill_one(struct team *t, int rank)
{
    manta_error e;
    int64_t     pid = number(manta_actor_call(t->actors[rank], "pid", MANTA_NO_ARGS));
    manta_ref  *ref = manta_actor_call(t->actors[rank], "endless", MANTA_NO_ARGS); /* which the others are, or will not come to */
    CHECK_EQ(kill((pid_t)pid, SIGKILL), 0);
    CHECK_FAILS(ref, MANTA_EACTOR_DIED, &e);
    manta_actor_free(t->actors[rank]);
    t->actors[rank] = NULL;
}

/* In the middle of NCCL's work, where it is what the others wait for; they are told who died. */
static void dies_in_a_call(struct team *t, int rank)
{
    manta_error e;
    manta_ref  *refs[SIZE];
    fault(t, rank, "data-dies");
    for (int r = 0; r < SIZE; r++)
        refs[r] = manta_actor_call(t->actors[r], "endless", MANTA_NO_ARGS);
    for (int r = 0; r < SIZE; r++)
        if (r != rank)
            CHECK_TEXT(refs[r], MANTA_EWORKER_DIED, "rank 1 died");
    CHECK_FAILS(refs[rank], MANTA_EACTOR_DIED, &e);
    manta_actor_free(t->actors[rank]);
    t->actors[rank] = NULL;
}

static void gpu_calls(void)
{
    struct team t;
    all_join(&t, "new");
    for (int has_stream = 0; has_stream < 2; has_stream++)
        EVERYONE(&t, "calls", MANTA_ARGS(manta_i64(has_stream)), MANTA_OK, "0 ");
    EVERYONE(&t, "calls", MANTA_ARGS(manta_i64(0)), MANTA_OK, "/3");
    team_end(&t);
}

static void gpu_disagree(void)
{
    struct team t;
    all_join(&t, "new");
    EVERYONE(&t, "disagree", MANTA_NO_ARGS, MANTA_EINVAL,
             "rank 0 called all_reduce(10 float32, sum), rank 1 called all_reduce(11 float32, sum)");
    team_end(&t);
}

/* The survivors' communicators have ended with that, so a new one is made. */
static void gpu_member_killed(void)
{
    struct team t;
    all_join(&t, "new");
    dies_in_a_call(&t, 1);
    EVERYONE(&t, "shrink", MANTA_ARGS(manta_i64(1)), MANTA_OK, "");
    EVERYONE(&t, "calls", MANTA_ARGS(manta_i64(0)), MANTA_OK, "/2");
    team_end(&t);
}

/* Between two calls: the survivors' communicators are whole, and shrink (no id is made, which would fail). Where that fails in one
 * of them, all are told, and the next time a new one is made; or at once, where it is not wanted. */
static void gpu_shrink(void)
{
    static const char *const faults[] = {"id-fails", "shrink-fails", ""};
    for (int way = 0; way < 3; way++) {
        struct team t;
        all_join(&t, "new");
        EVERYONE(&t, "calls", MANTA_ARGS(manta_i64(0)), MANTA_OK, "/3");
        kill_one(&t, 1);
        fault(&t, 0, faults[way]);
        if (way == 1) {
            manta_ref *refs[] = {manta_actor_call(t.actors[0], "shrink", MANTA_ARGS(manta_i64(1))),
                                 manta_actor_call(t.actors[2], "shrink", MANTA_ARGS(manta_i64(1)))};
            CHECK_TEXT(refs[0], MANTA_EDEVICE, "shrink NCCL: unhandled system error");
            CHECK_TEXT(refs[1], MANTA_ECANCELLED, "");
        }
        EVERYONE(&t, "shrink", MANTA_ARGS(manta_i64(way < 2)), MANTA_OK, "");
        EVERYONE(&t, "calls", MANTA_ARGS(manta_i64(0)), MANTA_OK, "/2");
        team_end(&t);
    }
}

/* A user's communicator is used, given back, and after an error still there to be ended. */
static void gpu_adopted(void)
{
    struct team t;
    for (int is_killed = 0; is_killed < 2; is_killed++) {
        all_join(&t, "own");
        EVERYONE(&t, "calls", MANTA_ARGS(manta_i64(0)), MANTA_OK, "/3");
        if (is_killed)
            dies_in_a_call(&t, 1);
        for (int r = 0; r < SIZE; r++)
            if (t.actors[r])
                CHECK_EQ(number(manta_actor_call(t.actors[r], "disown", MANTA_NO_ARGS)), ncclSuccess);
        team_end(&t);
    }
}

/* One whose communicator is of another size fails alone; the others, who wait for nothing any more, are told. */
static void gpu_adopts_wrong(void)
{
    struct team t;
    manta_ref  *refs[SIZE];
    team_start(&t);
    for (int r = 0; r < SIZE; r++)
        refs[r] = manta_actor_call(t.actors[r], "join", MANTA_ARGS(manta_str("alone")));
    CHECK_TEXT(refs[1], MANTA_EINVAL, "the communicator is of rank 0 among 1, the group's member is rank 1 among 3");
    CHECK_TEXT(refs[0], MANTA_ECANCELLED, "");
    CHECK_TEXT(refs[2], MANTA_ECANCELLED, "");
    team_end(&t);
}

/* Errors of NCCL's own end the generation for all, at once; a member whose abort hangs is back as well. */
static void gpu_nccl_fails(void)
{
    struct team t;
    manta_ref  *refs[SIZE];
    team_start(&t);
    fault(&t, 1, "init-fails");
    for (int r = 0; r < SIZE; r++)
        refs[r] = manta_actor_call(t.actors[r], "join", MANTA_ARGS(manta_str("new")));
    CHECK_TEXT(refs[1], MANTA_EDEVICE, "join NCCL: unhandled system error");
    CHECK_TEXT(refs[0], MANTA_ECANCELLED, "");
    CHECK_TEXT(refs[2], MANTA_ECANCELLED, "");
    team_end(&t);

    all_join(&t, "new");
    fault(&t, 1, "call-fails, abort-hangs");
    for (int r = 0; r < SIZE; r++)
        refs[r] = manta_actor_call(t.actors[r], "endless", MANTA_NO_ARGS);
    CHECK_TEXT(refs[1], MANTA_EDEVICE, "a call of NCCL: remote process exited or there was a network error");
    CHECK_TEXT(refs[0], MANTA_ECANCELLED, "");
    CHECK_TEXT(refs[2], MANTA_ECANCELLED, "");
    for (int r = 0; r < SIZE; r++)
        refs[r] = manta_actor_call(t.actors[r], "shrink", MANTA_ARGS(manta_i64(1)));
    CHECK_TEXT(refs[1], MANTA_EDEVICE, "this process has to end");
    CHECK_TEXT(refs[0], MANTA_ECANCELLED, "");
    CHECK_TEXT(refs[2], MANTA_ECANCELLED, "");
    team_end(&t);
}

#define FOUR_CPUS {.num_cpus = 4}, false, 0
static const struct test_case cases[] = {
    {"gpu_calls", gpu_calls, FOUR_CPUS},
    {"gpu_disagree", gpu_disagree, FOUR_CPUS},
    {"gpu_member_killed", gpu_member_killed, FOUR_CPUS},
    {"gpu_shrink", gpu_shrink, FOUR_CPUS},
    {"gpu_adopted", gpu_adopted, FOUR_CPUS},
    {"gpu_adopts_wrong", gpu_adopts_wrong, FOUR_CPUS},
    {"gpu_nccl_fails", gpu_nccl_fails, FOUR_CPUS},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
