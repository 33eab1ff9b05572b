/* SPDX-License-Identifier: Apache-2.0
 *
 * shm_test.c - collective calls among real processes over shared memory: every call, type, operation and size;
 * members that disagree, abort, die or hang at any point.
 */
#include "tests/unit/sgd/coll/crew.h"

#include "core/base/rng.h"
#include "sgd/coll/shm/private.h"
#include "tests/unit/sgd/coll/check.h"

enum { HEAP = 16 << 20 };

static mt_status run_shm(void *g, const struct coll_call *call)
{
    return coll_shm_run(g, call);
}

static mt_status exchange_shm(void *g, const struct coll_message *send, const struct coll_message *receive)
{
    return coll_shm_exchange(g, send, receive);
}

static int life_every_call(struct coll_crew *crew, uint32_t rank, void *arg)
{
    struct coll_shm    g;
    struct coll_tested tested = {&g, run_shm, exchange_shm, rank, crew->members, g.text};
    (void)arg;
    if (coll_crew_join(crew, &g, 1, rank, crew->members).code || coll_check_every_call(&tested))
        return 1;
    coll_shm_fini(&g);
    return 0;
}

static void every_call(void **state)
{
    (void)state;
    for (uint32_t members = 1; members <= 5; members++)
        coll_crew_run(members, 0, life_every_call, NULL);
}

/* ---- sums of buffers in the group's heap, mixed with others ---- */
static int life_heap(struct coll_crew *crew, uint32_t rank, void *arg)
{
    enum { COUNT = 300000 };
    struct coll_shm g;
    (void)arg;
    if (coll_crew_join(crew, &g, 1, rank, crew->members).code)
        return 1;
    float *shared = coll_shm_alloc(&g, COUNT * sizeof(float)), *result = coll_shm_alloc(&g, COUNT * sizeof(float));
    float *own = malloc(COUNT * sizeof(float));
    if (!shared || !result || !own || coll_shm_alloc(&g, HEAP))
        return 2;
    for (int round = 0; round < 60; round++) {
        size_t           count = round % 4 == 1 ? 5000 : round % 4 == 2 ? 100 : COUNT - 1 - (size_t)round;
        float           *in = round % 3 == 2 && rank == 0 ? own : shared, *out = round % 2 ? in : round % 3 ? result : own;
        struct coll_call call = {.kind = COLL_ALL_REDUCE, .count = count, .in = in + 1, .out = out + 1};
        for (size_t i = 0; i < COUNT; i++)
            in[i] = (float)((i + rank + (size_t)round) % 1000);
        if (coll_shm_run(&g, &call).code)
            return 3;
        for (size_t i = 1; i <= count; i++) {
            float want = 0;
            for (uint32_t r = 0; r < crew->members; r++)
                want += (float)((i + r + (size_t)round) % 1000);
            if (out[i] != want)
                return 4;
        }
    }
    coll_shm_fini(&g);
    return 0;
}

static void in_the_heap(void **state)
{
    (void)state;
    coll_crew_run(2, HEAP, life_heap, NULL);
    coll_crew_run(3, HEAP, life_heap, NULL);
}

/* ---- buffers of the members' own that they registered ---- */
enum { ADOPTED_COUNT = 300000, ADOPTED_BYTES = (ADOPTED_COUNT * 4 + 4095) / 4096 * 4096 };

static void *pages(size_t size, int flags)
{
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
    return data == MAP_FAILED ? NULL : data;
}

static bool is_wanted(const float *out, size_t count, uint32_t members, size_t round)
{
    for (size_t i = 0; i < count; i++) {
        float want = 0;
        for (uint32_t r = 0; r < members; r++)
            want += (float)((i + r + round) % 1000);
        if (out[i] != want)
            return false;
    }
    return true;
}

/* `rounds` sums over two registered buffers, in place or not, small and large, some with an offset. */
static int adopted_sums(struct coll_shm *g, float *in, float *out, size_t rounds)
{
    static const size_t counts[] = {100, 5000, 16384, ADOPTED_COUNT - 1};
    for (size_t round = 0; round < rounds; round++) {
        size_t           count = counts[round % 4], shift = round / 4 % 2;
        float           *to = round % 3 ? out : in;
        struct coll_call call = {.kind = COLL_ALL_REDUCE, .count = count, .in = in + shift, .out = to + shift};
        for (size_t i = 0; i < count; i++)
            in[shift + i] = (float)((i + g->rank + round) % 1000);
        if (coll_shm_run(g, &call).code || !is_wanted(to + shift, count, g->members, round))
            return 1;
    }
    return 0;
}

static int life_adopted(struct coll_crew *crew, uint32_t rank, void *arg)
{
    struct coll_shm g;
    float          *in = pages(ADOPTED_BYTES, MAP_PRIVATE), *out = pages(ADOPTED_BYTES, MAP_PRIVATE);
    (void)arg;
    if (!in || !out || coll_crew_join(crew, &g, 1, rank, crew->members).code || !coll_shm_alloc(&g, 100))
        return 1;
    for (size_t i = 0; i < ADOPTED_COUNT; i++)
        in[i] = (float)i, out[i] = (float)rank;
    if (coll_shm_adopt(&g, in, ADOPTED_BYTES).code || coll_shm_adopt(&g, out, ADOPTED_BYTES).code)
        return 2;
    for (size_t i = 0; i < ADOPTED_COUNT; i++)
        if (in[i] != (float)i || out[i] != (float)rank)
            return 3; /* the content stays */
    if (coll_heap_offset(&g, in + 1, 400, COLL_F32) - coll_heap_offset(&g, in, 400, COLL_F32) != 4 ||
        coll_heap_offset(&g, in, ADOPTED_BYTES + 1, COLL_F32) || adopted_sums(&g, in, out, 24))
        return 4;
    /* One goes back and comes again, in the place that it had; then a next generation, where both are ordinary memory. */
    uint64_t used = g.heap_used;
    if (coll_shm_give_back(&g, out).code || coll_heap_offset(&g, out, 400, COLL_F32) || adopted_sums(&g, in, out, 8) ||
        coll_shm_adopt(&g, out, ADOPTED_BYTES).code || g.heap_used != used || adopted_sums(&g, in, out, 8))
        return 5;
    memset(in, 7, ADOPTED_BYTES);
    if (coll_shm_move(&g, 2, rank, crew->members, NULL).code || coll_heap_offset(&g, in, 400, COLL_F32) || ((char *)in)[0] != 7 ||
        ((char *)in)[ADOPTED_BYTES - 1] != 7 || adopted_sums(&g, in, out, 8))
        return 6;
    /* A buffer that is unmapped without a word: what comes to stand there is left alone. */
    if (coll_shm_adopt(&g, in, ADOPTED_BYTES).code || coll_shm_adopt(&g, out, ADOPTED_BYTES).code)
        return 7;
    char *there = mmap(in, ADOPTED_BYTES, PROT_READ, MAP_ANONYMOUS | MAP_PRIVATE | MAP_FIXED, -1, 0);
    memset(out, 9, ADOPTED_BYTES);
    coll_shm_fini(&g);
    return there == (char *)in && there[0] == 0 && ((char *)out)[ADOPTED_BYTES - 1] == 9 ? 0 : 8;
}

static void registered_buffers(void **state)
{
    (void)state;
    coll_crew_run(2, HEAP, life_adopted, NULL);
    coll_crew_run(3, HEAP, life_adopted, NULL);
}

/* What can't be registered is refused with a reason, and left as it is. */
static int life_not_adopted(struct coll_crew *crew, uint32_t rank, void *arg)
{
    enum { PAGE = 4096, MANY = 100 };
    struct coll_shm g;
    char           *own = pages(8 * PAGE, MAP_PRIVATE), *shared = pages(PAGE, MAP_SHARED), *many = pages(MANY * PAGE, MAP_PRIVATE);
    char           *large = pages(HEAP, MAP_PRIVATE);
    _Alignas(PAGE) char local[PAGE];
    (void)arg;
    if (coll_crew_join(crew, &g, 1, rank, 2).code || coll_shm_adopt(&g, own + PAGE, 2 * PAGE).code)
        return 1;
    munmap(own + 6 * PAGE, PAGE);
    const struct refusal {
        void        *data;
        size_t       size;
        enum mt_code code;
        const char  *text;
    } refusals[] = {
        {own + 1, PAGE, MT_EINVAL, "begins and ends at a page"},
        {own, 100, MT_EINVAL, "begins and ends at a page"},
        {NULL, PAGE, MT_EINVAL, "begins"},
        {own, 0, MT_EINVAL, "begins"},
        {own, 0 - (size_t)PAGE, MT_EINVAL, "begins"},
        {own + PAGE, 2 * PAGE, MT_EINVAL, "registered already"},
        {own, 2 * PAGE, MT_EINVAL, "registered already"},
        {own + 5 * PAGE, 2 * PAGE, MT_EINVAL, "of this process alone"},
        {shared, PAGE, MT_EINVAL, "of this process alone"},
        {local, PAGE, MT_EINVAL, "of this process alone"},
        {large, HEAP, MT_ENOMEM, "no room"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        if (coll_shm_adopt(&g, refusals[i].data, refusals[i].size).code != (int)refusals[i].code ||
            !strstr(g.text, refusals[i].text))
            return 10 + (int)i;
    if (coll_shm_give_back(&g, own).code != MT_EINVAL || coll_shm_give_back(&g, own + PAGE).code)
        return 2;
    int count = 0;
    while (count < MANY && coll_shm_adopt(&g, many + count * PAGE, PAGE).code == MT_OK)
        count++;
    if (count != MT_COLL_REGISTERED_MAX)
        return 3;
    coll_shm_fini(&g);
    memset(many, 1, MANY * PAGE);
    return 0;
}

static void what_can_not_be_registered(void **state)
{
    (void)state;
    coll_crew_run(2, HEAP, life_not_adopted, NULL);
}

/* ---- sums that members read in each other's memory ---- */
static int life_peek(struct coll_crew *crew, uint32_t rank, void *arg)
{
    enum { COUNT = 1 << 18 };
    static float        in[COUNT + 1], out[COUNT + 1];
    static const size_t counts[] = {6144, 16384, 16385, 50000, COUNT};
    struct coll_shm     g;
    if (coll_crew_join(crew, &g, 1, rank, crew->members).code)
        return 1;
    if (arg && rank == crew->members - 1)
        g.peeks = false; /* as where the kernel refuses it to one of them: then nobody does */
    for (size_t round = 0; round < 40; round++) {
        size_t count = counts[round % 5], shift = round / 5 % 2;
        float *to = round % 3 ? out : in + shift;
        for (size_t i = 0; i < count; i++)
            in[shift + i] = (float)((i * 7 + rank * 31 + round) % 1000);
        struct coll_call call = {.kind = COLL_ALL_REDUCE, .count = count, .in = in + shift, .out = to};
        if (coll_shm_run(&g, &call).code)
            return 2;
        memset(round % 3 ? in : out, 0xff, sizeof in); /* the input is its owner's again */
        for (size_t i = 0; i < count; i++) {
            float want = 0;
            for (uint32_t r = 0; r < crew->members; r++)
                want += (float)((i * 7 + r * 31 + round) % 1000);
            if (to[i] != want)
                return 3;
        }
    }
    coll_shm_fini(&g);
    return 0;
}

static void read_in_place(void **state)
{
    (void)state;
    for (uint32_t members = 2; members <= 4; members++) {
        coll_crew_run(members, 0, life_peek, NULL);
        coll_crew_run(members, 0, life_peek, "one may not");
    }
}

/* A buffer that is not there ends the call for all, with an error and no hang. */
static int life_no_buffer(struct coll_crew *crew, uint32_t rank, void *arg)
{
    static float    out[16384];
    struct coll_shm g;
    (void)arg;
    if (coll_crew_join(crew, &g, 1, rank, 2).code)
        return 1;
    if (!g.peeks) /* here the kernel refuses it, and rank 1 would copy from nowhere */
        return 0;
    struct coll_call call = {.kind = COLL_ALL_REDUCE, .count = 16384, .in = rank ? (float *)4096 : out, .out = out};
    mt_status        st = coll_shm_run(&g, &call);
    return st.code == MT_ESYS ? 0 : 2;
}

static void a_buffer_that_is_not_there(void **state)
{
    (void)state;
    coll_crew_run(2, 0, life_no_buffer, NULL);
}

/* ---- members that disagree ---- */
struct disagreement {
    struct coll_call a, b; /* of all others; of rank 2 */
    const char      *says[3];
};

static int life_disagree(struct coll_crew *crew, uint32_t rank, void *arg)
{
    const struct disagreement *d = arg;
    struct coll_shm            g;
    static char                in[1 << 20], out[1 << 20];
    struct coll_call           call = rank == 2 ? d->b : d->a;
    if (coll_crew_join(crew, &g, 1, rank, crew->members).code)
        return 1;
    struct coll_tested tested = {&g, run_shm, exchange_shm, rank, crew->members, g.text};
    if (coll_check_call(&tested, COLL_ALL_REDUCE, COLL_F32, COLL_SUM, 1000, 1, false))
        return 2;
    call.in = in, call.out = out;
    if (coll_shm_run(&g, &call).code != MT_EINVAL)
        return 3;
    for (int i = 0; i < 3; i++)
        if (d->says[i] && !strstr(g.text, d->says[i])) {
            fprintf(stderr, "no \"%s\" in: %s\n", d->says[i], g.text);
            return 4;
        }
    struct coll_call barrier = {.kind = COLL_BARRIER}; /* the generation is over */
    return coll_shm_run(&g, &barrier).code == MT_EINVAL ? 0 : 5;
}

static void disagreements(void **state)
{
    (void)state;
    struct disagreement d[] = {
        {{.kind = COLL_ALL_REDUCE, .count = 10},
         {.kind = COLL_ALL_REDUCE, .count = 11},
         {"the number of elements", "rank 0 called all_reduce(10 float32, sum)", "rank 2 called all_reduce(11 float32, sum)"}},
        {{.kind = COLL_ALL_REDUCE, .count = 10}, {.kind = COLL_ALL_REDUCE, .count = 90000}, {"the number of elements"}},
        {{.kind = COLL_ALL_REDUCE, .count = 10}, {.kind = COLL_ALL_REDUCE, .count = 10, .type = COLL_I32}, {"the type", "int32"}},
        {{.kind = COLL_REDUCE, .count = 10, .op = COLL_MAX}, {.kind = COLL_REDUCE, .count = 10}, {"the operation", "max", "sum"}},
        {{.kind = COLL_BROADCAST, .count = 10, .root = 1}, {.kind = COLL_BROADCAST, .count = 10}, {"the root", "root 1", "root 0"}},
        {{.kind = COLL_BARRIER}, {.kind = COLL_ALL_GATHER, .count = 10}, {"the order of calls", "barrier", "all_gather"}},
        {{.kind = COLL_ALL_REDUCE, .count = 10, .shape = 1}, {.kind = COLL_ALL_REDUCE, .count = 10, .shape = 2}, {"tensors"}},
    };
    for (size_t i = 0; i < sizeof d / sizeof d[0]; i++)
        coll_crew_run(3, 0, life_disagree, &d[i]);
}

static int life_wrong_size(struct coll_crew *crew, uint32_t rank, void *arg)
{
    struct coll_shm g;
    (void)arg;
    return coll_crew_join(crew, &g, 1, rank, rank == 0 ? 2 : 3).code == MT_EINVAL && strstr(g.text, "number of members") ? 0 : 1;
}

static void disagreement_on_the_size(void **state)
{
    (void)state;
    coll_crew_run(2, 0, life_wrong_size, NULL);
}

/* ---- deaths, stops, aborts ---- */
static _Atomic uint32_t *joined;   /* shared with the members: how many have joined; NULL: nobody asks */
static uint32_t          calls_ms; /* then: the limit of calls, which begin when all have joined */

static int life_work(struct coll_crew *crew, uint32_t rank, void *arg)
{
    struct coll_shm g;
    mt_rng          rng = {*(uint64_t *)arg};
    static char     in[1 << 20], out[1 << 20];
    if (coll_crew_join(crew, &g, 1, rank, crew->members).code)
        return g.text[0] ? 2 : 1;
    if (joined) {
        for ((*joined)++; *joined < crew->members;)
            pause_us(200);
        g.wait_limit_ms = calls_ms;
    }
    for (;;) {
        struct coll_call call = {.kind = (enum coll_kind)(COLL_BARRIER + mt_rng_below(&rng, COLL_KINDS - COLL_BARRIER)),
                                 .count = mt_rng_below(&rng, 30000),
                                 .in = in,
                                 .out = out};
        mt_status        st = coll_shm_run(&g, &call);
        if (st.code == MT_EWORKER_DIED)
            return strstr(g.text, "rank 1 died") ? 0 : 3;
        if (st.code != MT_OK)
            return st.code == MT_ECANCELLED ? 4 : st.code == MT_ETIMEDOUT ? 5 : 6;
    }
}

/* The same with sums only, of the size that is read in place. */
static int life_sums(struct coll_crew *crew, uint32_t rank, void *arg)
{
    struct coll_shm g;
    static float    in[16384];
    (void)arg;
    if (coll_crew_join(crew, &g, 1, rank, crew->members).code)
        return g.text[0] ? 2 : 1;
    for (;;) {
        struct coll_call call = {.kind = COLL_ALL_REDUCE, .count = 16384, .in = in, .out = in};
        mt_status        st = coll_shm_run(&g, &call);
        if (st.code != MT_OK)
            return st.code == MT_EWORKER_DIED && strstr(g.text, "rank 1 died") ? 0 : 6;
    }
}

/* Rank 1 is killed at a random moment; `is_told`: as by the actor's death event. The others must be back with its name. */
static void kill_rounds(int rounds, bool is_told, int (*life)(struct coll_crew *, uint32_t, void *))
{
    mt_rng rng = {20261121};
    for (int round = 0; round < rounds; round++) {
        struct coll_crew crew;
        uint64_t         seed = mt_rng_next(&rng);
        coll_crew_init(&crew, 3, 0);
        for (uint32_t rank = 0; rank < 3; rank++)
            coll_crew_hire(&crew, rank, life, &seed);
        pause_us((uint64_t)(is_told ? 0 : 3000) + mt_rng_below(&rng, 6000));
        kill(crew.pids[1], SIGKILL);
        assert_int_equal(coll_crew_end(&crew, 1), 1000 + SIGKILL);
        if (is_told)
            coll_shm_died(crew.region, 1, 1);
        for (uint32_t rank = 0; rank < 3; rank += 2) {
            int status = coll_crew_end(&crew, rank);
            assert_true(status == 0 || status == 2); /* 2: it had not joined yet */
        }
        coll_crew_fini(&crew);
    }
}

static void killed_anywhere(void **state)
{
    (void)state;
    const char *rounds = getenv("COLL_ROUNDS");
    kill_rounds(rounds ? (int)strtol(rounds, NULL, 10) : 300, true, life_work);
    kill_rounds(rounds ? (int)strtol(rounds, NULL, 10) : 100, true, life_sums);
}

/* Nobody tells: the members find out by themselves. */
static void killed_untold(void **state)
{
    (void)state;
    kill_rounds(10, false, life_work);
    kill_rounds(10, false, life_sums);
}

static void stopped_and_aborted(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int is_aborted = 0; is_aborted < 2; is_aborted++) {
        struct coll_crew crew;
        coll_crew_init(&crew, 3, 0);
        calls_ms = is_aborted ? crew.wait_ms : 1000;
        joined = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(joined != MAP_FAILED);
        for (uint32_t rank = 0; rank < 3; rank++)
            coll_crew_hire(&crew, rank, life_work, &seed);
        for (int i = 0; i < 20000 && *joined < 3; i++)
            pause_us(500);
        assert_int_equal(*joined, 3); /* one that is stopped on its way in is another case */
        kill(crew.pids[1], SIGSTOP);
        if (is_aborted)
            coll_shm_abort(crew.region, 1, MT_ECANCELLED, MT_GROUP_MEMBERS_MAX);
        assert_int_equal(coll_crew_end(&crew, 0), is_aborted ? 4 : 5);
        assert_int_equal(coll_crew_end(&crew, 2), is_aborted ? 4 : 5);
        kill(crew.pids[1], SIGCONT); /* and sees that it is out */
        assert_int_equal(coll_crew_end(&crew, 1), is_aborted ? 4 : 5);
        munmap((void *)joined, 4096);
        joined = NULL;
        coll_crew_fini(&crew);
    }
}

/* ---- messages ---- */
static int life_messages(struct coll_crew *crew, uint32_t rank, void *arg)
{
    struct coll_shm    g;
    struct coll_tested tested = {&g, run_shm, exchange_shm, rank, crew->members, g.text};
    (void)arg;
    return coll_crew_join(crew, &g, 1, rank, crew->members).code ? 1 : coll_check_messages(&tested, 200, 200000);
}

static void messages(void **state)
{
    (void)state;
    coll_crew_run(2, 0, life_messages, NULL);
    coll_crew_run(4, 0, life_messages, NULL);
}

/* ---- agreement of survivors ---- */
struct going_on { /* shared */
    int         rounds;
    _Atomic int ready; /* members that have done a sum */
};

static mt_status shrink(struct coll_shm *g)
{
    struct coll_decision d;
    int8_t               from[MT_GROUP_MEMBERS_MAX];
    uint32_t             members = 0, rank = 0;
    MT_TRY(coll_shm_decide(g, ~0ull ^ 1ull << g->rank, &d));
    for (uint32_t r = 0; r < g->members; r++) {
        if (!(d.alive >> r & 1))
            continue;
        if (d.flags >> r & 1)
            return mt_error(MT_EINTERNAL, 0, "the flags are not the AND of those that took part");
        rank = r == g->rank ? members : rank;
        from[members++] = (int8_t)r;
    }
    return coll_shm_move(g, g->generation + 1, rank, members, from);
}

/* Sums ones, and goes on with whoever is left; ends when it is alone, or after some sums in which nobody died. */
static int life_shrink(struct coll_crew *crew, uint32_t rank, void *arg)
{
    struct going_on *how = arg;
    struct coll_shm  g;
    mt_status        st = coll_crew_join(crew, &g, 1, rank, crew->members);
    bool             is_ready = false;
    for (int calm = 0; calm < how->rounds;) {
        static float     x[5000];
        struct coll_call call = {.kind = COLL_ALL_REDUCE, .count = 5000, .in = x, .out = x};
        for (int i = 0; i < 5000; i++)
            x[i] = 1;
        st = st.code ? st : coll_shm_run(&g, &call);
        if (st.code == MT_OK && (x[0] != (float)g.members || x[4999] != (float)g.members))
            return 1;
        calm = st.code == MT_OK ? calm + 1 : 0;
        how->ready += st.code == MT_OK && !is_ready;
        is_ready = is_ready || st.code == MT_OK;
        if (st.code == MT_EWORKER_DIED)
            st = shrink(&g);
        if (st.code != MT_OK && st.code != MT_EWORKER_DIED) {
            fprintf(stderr, "rank %u of %u in generation %u: %d %s, %s\n", g.rank, g.members, g.generation, st.code, st.what,
                    g.text);
            return 2;
        }
    }
    coll_shm_fini(&g);
    return 0;
}

/* Five members of which three are killed at random moments, also while the others agree; the last two go on. */
static void survivors_go_on(void **state)
{
    (void)state;
    mt_rng           rng = {77};
    const char      *rounds = getenv("COLL_ROUNDS");
    struct going_on *how = mmap(NULL, sizeof *how, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(how != MAP_FAILED);
    for (int round = 0; round < (rounds ? (int)strtol(rounds, NULL, 10) : 60); round++) {
        struct coll_crew crew;
        coll_crew_init(&crew, 5, 0);
        how->rounds = 3000;
        how->ready = 0;
        for (uint32_t rank = 0; rank < 5; rank++)
            coll_crew_hire(&crew, rank, life_shrink, how);
        while (how->ready < 5)
            pause_us(200);
        for (uint32_t rank = 4; rank >= 2; rank--) {
            uint32_t members, generation, there;
            kill(crew.pids[rank], SIGKILL);
            assert_int_equal(coll_crew_end(&crew, rank), 1000 + SIGKILL);
            generation = coll_shm_generation(crew.region, &members);
            there = coll_shm_rank_of(crew.region, generation, crew.pids[rank]);
            if (round % 2 && there < MT_GROUP_MEMBERS_MAX) /* told, or found out */
                coll_shm_died(crew.region, generation, there);
            pause_us(mt_rng_below(&rng, 1000));
        }
        assert_int_equal(coll_crew_end(&crew, 0), 0);
        assert_int_equal(coll_crew_end(&crew, 1), 0);
        coll_crew_fini(&crew);
    }
    munmap(how, sizeof *how);
}

/* ---- who leaves ---- */
enum { HAS_LEFT = 100 };

static struct coll_message message(uint32_t peer, char *data)
{
    return (struct coll_message){.peer = peer, .type = COLL_U8, .count = 1, .data = data};
}

/* Rank 1 leaves, when all are there, and ends; rank 2 waits for rank 0 meanwhile. */
static int life_leave(struct coll_crew *crew, uint32_t rank, void *arg)
{
    struct coll_shm           g;
    char                      byte = 0;
    const struct coll_message none = message(MT_GROUP_MEMBERS_MAX, NULL), to = message(2, &byte), from = message(0, &byte),
                              gone = message(1, &byte);
    (void)arg;
    if (coll_crew_join(crew, &g, 1, rank, crew->members).code)
        return 1;
    for (++*joined; *joined < (rank == 0 ? HAS_LEFT : crew->members);)
        pause_us(200);
    if (rank == 1)
        coll_shm_leave(&g);
    if (rank == 2)
        return coll_shm_exchange(&g, &none, &from).code ? 2 : 0;
    if (rank == 1)
        return 0;
    return coll_shm_exchange(&g, &to, &none).code ? 3 : coll_shm_exchange(&g, &none, &gone).code == MT_EWORKER_DIED ? 0 : 4;
}

static void who_has_left_is_dead_to_who_needs_it(void **state)
{
    (void)state;
    struct coll_crew crew;
    joined = mmap(NULL, sizeof *joined, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(joined != MAP_FAILED);
    coll_crew_init(&crew, 3, 0);
    for (uint32_t rank = 0; rank < 3; rank++)
        coll_crew_hire(&crew, rank, life_leave, NULL);
    assert_int_equal(coll_crew_end(&crew, 1), 0);
    pause_us(3000 * MT_GROUP_SLEEP_MS); /* rank 2 has looked */
    *joined = HAS_LEFT;
    assert_int_equal(coll_crew_end(&crew, 2), 0);
    assert_int_equal(coll_crew_end(&crew, 0), 0);
    coll_crew_fini(&crew);
    munmap(joined, sizeof *joined);
    joined = NULL;
}

/* ---- arguments ---- */
static void bad_arguments(void **state)
{
    (void)state;
    struct coll_crew crew;
    struct coll_shm  g;
    size_t           size;
    coll_crew_init(&crew, 1, 0);
    assert_int_equal(coll_crew_join(&crew, &g, 0, 0, 1).code, MT_EINVAL);
    assert_int_equal(coll_crew_join(&crew, &g, 1, 1, 1).code, MT_EINVAL);
    assert_int_equal(coll_crew_join(&crew, &g, 1, 0, 9).code, MT_EINVAL);
    assert_int_equal(coll_shm_size(&(struct coll_shm_plan){.members_max = 0, .heap_size = 0}, &size).code, MT_EINVAL);
    assert_int_equal(coll_shm_size(&(struct coll_shm_plan){.members_max = 65, .heap_size = 0}, &size).code, MT_EINVAL);
    crew.plan.members_max = 7; /* of another group */
    assert_int_equal(coll_crew_join(&crew, &g, 1, 0, 1).code, MT_EINVAL);
    crew.plan.members_max = COLL_CREW_MAX;
    assert_int_equal(coll_crew_join(&crew, &g, 2, 0, 1).code, MT_OK);
    struct coll_shm late;
    assert_int_equal(coll_crew_join(&crew, &late, 2, 0, 1).code, MT_EFENCED); /* taken */
    assert_int_equal(coll_crew_join(&crew, &late, 1, 0, 1).code, MT_EFENCED); /* of the past */
    coll_shm_fini(&late);
    coll_shm_fini(&g);
    coll_crew_fini(&crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call),
        cmocka_unit_test(in_the_heap),
        cmocka_unit_test(disagreements),
        cmocka_unit_test(registered_buffers),
        cmocka_unit_test(what_can_not_be_registered),
        cmocka_unit_test(read_in_place),
        cmocka_unit_test(a_buffer_that_is_not_there),
        cmocka_unit_test(disagreement_on_the_size),
        cmocka_unit_test(killed_anywhere),
        cmocka_unit_test(killed_untold),
        cmocka_unit_test(stopped_and_aborted),
        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(messages),
        cmocka_unit_test(survivors_go_on),
        cmocka_unit_test(who_has_left_is_dead_to_who_needs_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
