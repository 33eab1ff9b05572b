/* SPDX-License-Identifier: Apache-2.0
 *
 * args_test.c - arguments behind '*', and many of them.
 *
 * Says what stands there when a function looks: the letter and the size or number of each argument.
 */
#include "tests/integration/harness.h"

#include <stdio.h>
#include <stdlib.h>

enum { TEXT = 8192, LARGE = 100 * 1000 };

static manta_status say(manta_ctx *c, int argc, const manta_arg *argv)
{
    char   text[TEXT];
    size_t at = 0;
    for (int i = 0; i < argc; i++) {
        const manta_arg *a = &argv[i];
        long long n = a->type == 'l' ? a->l : a->type == 'u' ? (int64_t)a->u : a->type == 'd' ? (int64_t)a->d : a->type == 'b';
        if (a->type == 'y' || a->type == 's')
            n = (long long)a->y.size;
        if (a->type == 's' && strlen(a->y.data) != a->y.size)
            return manta_fail(c, 1, "the text of argument %d has %zu letters and a NUL after %zu", i, a->y.size, strlen(a->y.data));
        at += (size_t)snprintf(text + at, sizeof text - at, "%c%lld ", a->type, n);
    }
    text[at] = 0;
    return manta_return_str(c, text);
}
MANTA_REGISTER(say, "*>s");

static manta_status say_one(manta_ctx *c, int argc, const manta_arg *argv)
{
    return say(c, argc, argv);
}
MANTA_REGISTER(say_one, "l*>s");

struct keeper {
    char letters[512];
};
static manta_status keeper_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct keeper *k = calloc(1, sizeof *k);
    (void)c;
    for (int i = 0; i < argc; i++)
        k->letters[i] = argv[i].type;
    *self = k;
    return MANTA_OK;
}
static manta_status keeper_say(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self;
    return say(c, argc, argv);
}
static manta_status keeper_made_of(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct keeper *k = self;
    (void)argc, (void)argv;
    return manta_return_str(c, k->letters);
}
static manta_status sum_of(manta_ctx *c, int argc, const manta_arg *argv);
static manta_status keeper_sum(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self;
    return sum_of(c, argc, argv);
}
MANTA_ACTOR(keeper, "*", keeper_new, free, {"say", "*>s", keeper_say}, {"made_of", ">s", keeper_made_of},
            {"sum", "*>l", keeper_sum});

MANTA_TASK(int64_t, make_l, (int64_t, ms))
{
    test_sleep_ms((int)ms);
    return 7;
}
MANTA_TASK(uint64_t, make_u, (int64_t, ms))
{
    test_sleep_ms((int)ms);
    return 8;
}
MANTA_TASK(double, make_d, (int64_t, ms))
{
    test_sleep_ms((int)ms);
    return 9;
}
MANTA_TASK(bool, make_b, (int64_t, ms))
{
    test_sleep_ms((int)ms);
    return true;
}
static manta_status make_s(manta_ctx *c, int argc, const manta_arg *argv)
{
    char *text = malloc((size_t)argv[0].l + 1);
    (void)argc;
    memset(text, 'x', (size_t)argv[0].l);
    text[argv[0].l] = 0;
    manta_status code = manta_return_str(c, text);
    free(text);
    return code;
}
MANTA_REGISTER(make_s, "l>s");
static manta_status make_y(manta_ctx *c, int argc, const manta_arg *argv)
{
    void *bytes = calloc(1, (size_t)argv[0].l + 1);
    (void)argc;
    manta_status code = manta_return_bytes(c, bytes, (size_t)argv[0].l);
    free(bytes);
    return code;
}
MANTA_REGISTER(make_y, "l>y");
static manta_status make_none(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_fail(c, 42, "there is no value");
}
MANTA_REGISTER(make_none, ">l");

#define SAYS(take, wanted) says((take), (wanted), __LINE__)
static void says(manta_ref *take, const char *wanted, int line)
{
    manta_error e;
    manta_view  view;
    if (manta_get(take, TEST_WAIT_MS, &view, &e))
        test_fail(__FILE__, line, "instead of %s: %s", wanted, e.message);
    if (strcmp(view.data, wanted) != 0)
        test_fail(__FILE__, line, "\"%s\" instead of \"%s\"", (const char *)view.data, wanted);
    manta_release(&view);
    manta_free(take);
}

enum { KINDS = 10 };
static const char all_kinds[] = "l7 u8 d9 b1 s5 y6 s100000 y100000 y9 y100000 ";
/* References of each letter, from tasks and puts, small and large; still to come or there. */
static void refs_make(manta_ref *refs[KINDS], int64_t ms)
{
    static char large[LARGE];
    refs[0] = make_l_remote(NULL, ms);
    refs[1] = make_u_remote(NULL, ms);
    refs[2] = make_d_remote(NULL, ms);
    refs[3] = make_b_remote(NULL, ms);
    refs[4] = manta_call("make_s", NULL, MANTA_ARGS(manta_i64(5)));
    refs[5] = manta_call("make_y", NULL, MANTA_ARGS(manta_i64(6)));
    refs[6] = manta_call("make_s", NULL, MANTA_ARGS(manta_i64(LARGE)));
    refs[7] = manta_call("make_y", NULL, MANTA_ARGS(manta_i64(LARGE)));
    refs[8] = manta_put(large, 9);
    refs[9] = manta_put(large, LARGE);
    manta_error e;
    if (ms == 0)
        CHECK_EQ(manta_wait(refs, KINDS, KINDS, TEST_WAIT_MS, NULL, &e), KINDS);
}
static void refs_free_all(manta_ref **refs, int count)
{
    for (int i = 0; i < count; i++)
        manta_free(refs[i]);
}

/* Inside a task: the references are another process's, and arrive as values all the same. */
static manta_status pass_on(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_arg   args[KINDS];
    manta_error e;
    manta_view  view;
    for (int i = 0; i < argc; i++)
        args[i] = manta_ref_arg(argv[i].r);
    manta_ref   *r = manta_call("say", NULL, argc, args);
    manta_status code = manta_get(r, TEST_WAIT_MS, &view, &e);
    code = code ? manta_fail(c, code, "%s", e.message) : manta_return_str(c, view.data);
    manta_release(&view);
    manta_free(r);
    return code;
}
MANTA_REGISTER(pass_on, "rrrrrrrrrr>s");

static void args_refs(void)
{
    manta_ref *refs[KINDS];
    manta_arg  args[KINDS], behind[KINDS + 1] = {manta_i64(3)};
    char       wanted[sizeof all_kinds + 8];
    snprintf(wanted, sizeof wanted, "l3 %s", all_kinds);
    for (int64_t ms = 0; ms <= 20; ms += 20) { /* they are there; they are to come */
        refs_make(refs, ms);
        for (int i = 0; i < KINDS; i++)
            args[i] = behind[i + 1] = manta_ref_arg(refs[i]);
        SAYS(manta_call("say", NULL, KINDS, args), all_kinds);
        SAYS(manta_call("say_one", NULL, KINDS + 1, behind), wanted);
        behind[0] = manta_ref_arg(refs[0]);
        SAYS(manta_call("say_one", NULL, 2, behind), "l7 l7 ");
        behind[0] = manta_i64(3);
        SAYS(manta_call("pass_on", NULL, KINDS, args), all_kinds);
        manta_actor *k = manta_actor_new("keeper", NULL, KINDS, args);
        SAYS(manta_actor_call(k, "made_of", MANTA_NO_ARGS), "ludbsysyyy");
        SAYS(manta_actor_call(k, "say", KINDS, args), all_kinds);
        manta_actor_free(k);
        refs_free_all(refs, KINDS);
    }
}

static void args_refs_failed(void)
{
    manta_error e;
    manta_ref  *none = manta_call("make_none", NULL, MANTA_NO_ARGS);
    CHECK_FAILS(manta_call("say", NULL, MANTA_ARGS(manta_i64(1), manta_ref_arg(none))), MANTA_ETASK, &e);
    CHECK_EQ(e.user_code, 42);
    manta_free(none);
    CHECK_FAILS(manta_call("say", NULL, MANTA_ARGS(manta_ref_arg(none))), MANTA_EHANDLE, &e);
    CHECK_FAILS(manta_call("say", NULL, MANTA_ARGS(manta_ref_arg(NULL))), MANTA_ETYPE, &e);
}

/* What is put is bytes, which have no NUL: no text, whatever their size. */
static void args_bytes_as_text(void)
{
    manta_error e;
    static char bytes[LARGE];
    memset(bytes, 'x', sizeof bytes);
    for (size_t size = 9; size <= LARGE; size += LARGE - 9) {
        manta_ref *put = manta_put(bytes, size);
        CHECK_FAILS(manta_call("make_length", NULL, MANTA_ARGS(manta_ref_arg(put))), MANTA_ETYPE, &e);
        manta_free(put);
    }
}
static manta_status make_length(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, (int64_t)strlen(argv[0].y.data));
}
MANTA_REGISTER(make_length, "s>l");

/* ---- many ---- */

static manta_status sum_of(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t sum = 0;
    for (int i = 0; i < argc; i++)
        sum += argv[i].type == 'l' ? argv[i].l : (int64_t)argv[i].y.size;
    return manta_return_i64(c, sum);
}
MANTA_REGISTER(sum_of, "*>l");

/* Gets each of the references, and gives back the first as its own. */
static manta_ref   *kept[MANTA_ARGS_MAX];
static manta_status keep_refs(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t     sum = 0, x = 0;
    manta_error e;
    for (int i = 0; i < argc; i++) {
        if (manta_get_i64(argv[i].r, TEST_WAIT_MS, &x, &e))
            return manta_fail(c, e.code, "argument %d: %s", i, e.message);
        kept[i] = manta_dup(argv[i].r);
        sum += x;
    }
    return manta_return_i64(c, sum);
}
static manta_status kept_sum(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t     sum = 0, x = 0;
    manta_error e;
    for (int i = 0; i < (int)argv[0].l; i++) {
        if (manta_get_i64(kept[i], TEST_WAIT_MS, &x, &e))
            return manta_fail(c, e.code, "reference %d: %s", i, e.message);
        manta_free(kept[i]);
        sum += x;
    }
    (void)argc;
    return manta_return_i64(c, sum);
}

static char        of_256_numbers[MANTA_ARGS_MAX + 3], of_256_refs[MANTA_ARGS_MAX + 3];
static manta_entry numbers = {"numbers", of_256_numbers, sum_of, __FILE__, __LINE__, {0}, {0}};
static manta_entry refs_256 = {"refs_256", of_256_refs, keep_refs, __FILE__, __LINE__, {0}, {0}};
static manta_entry refs_kept = {"refs_kept", "l>l", kept_sum, __FILE__, __LINE__, {0}, {0}};
MANTA_REGISTER_BEFORE_MAIN(wide)
{
    snprintf(of_256_numbers, sizeof of_256_numbers, "%0*d>l", MANTA_ARGS_MAX, 0);
    snprintf(of_256_refs, sizeof of_256_refs, "%0*d>l", MANTA_ARGS_MAX, 0);
    memset(of_256_numbers, 'l', MANTA_ARGS_MAX);
    memset(of_256_refs, 'r', MANTA_ARGS_MAX);
    manta_register(&numbers);
    manta_register(&refs_256);
    manta_register(&refs_kept);
}

enum { MANY = MANTA_ARGS_MAX };

static void args_many(void)
{
    static const int counts[] = {1, 15, 16, 17, 100, MANY - 1, MANY};
    manta_arg        args[MANY + 1];
    manta_error      e;
    for (int i = 0; i <= MANY; i++)
        args[i] = manta_i64(i);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        int64_t      n = counts[i], sum = n * (n - 1) / 2;
        manta_actor *k = manta_actor_new("keeper", NULL, (int)n, args);
        CHECK_I64(manta_call("sum_of", NULL, (int)n, args), sum);
        char wanted[MANY + 1] = "";
        memset(wanted, 'l', (size_t)n);
        SAYS(manta_actor_call(k, "made_of", MANTA_NO_ARGS), wanted);
        CHECK_I64(manta_actor_call(k, "sum", (int)n, args), sum);
        manta_actor_free(k);
    }
    CHECK_I64(manta_call("numbers", NULL, MANY, args), (int64_t)MANY * (MANY - 1) / 2);
    CHECK_FAILS(manta_call("numbers", NULL, MANY - 1, args), MANTA_ETYPE, &e);
    args[200] = manta_f64(0);
    CHECK_FAILS(manta_call("numbers", NULL, MANY, args), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "argument 201");
    args[200] = manta_i64(200);
    /* one too many */
    CHECK_FAILS(manta_call("sum_of", NULL, MANY + 1, args), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "at most 256");
    manta_actor *k = manta_actor_new("keeper", NULL, MANTA_NO_ARGS), *none = manta_actor_new("keeper", NULL, MANY + 1, args);
    CHECK_FAILS(manta_actor_call(k, "sum", MANY + 1, args), MANTA_ETYPE, &e);
    CHECK_I64(manta_actor_call(k, "sum", MANY, args), (int64_t)MANY * (MANY - 1) / 2);
    CHECK_FAILS(manta_actor_call(none, "made_of", MANTA_NO_ARGS), MANTA_ETYPE, &e);
    manta_actor_free(k);
    manta_actor_free(none);
}

/* Values that would be larger than a record together: references to small ones and large ones, strings and bytes by value. */
static void args_larger_than_record(void)
{
    static const int  sizes[] = {1, 40, 100, 4000, 5000};
    static char       bytes[5001];
    manta_arg         args[MANY];
    static manta_ref *refs[MANY];
    memset(bytes, 'x', sizeof bytes - 1);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int n = 5; n <= MANY; n += MANY - 5) {
            int64_t sum = (int64_t)n * sizes[i];
            for (int j = 0; j < n; j++)
                args[j] = j & 1 ? manta_str(bytes + 5000 - sizes[i]) : manta_bytes_of(bytes, (size_t)sizes[i]);
            CHECK_I64(manta_call("sum_of", NULL, n, args), sum);
            for (int j = 0; j < n; j++)
                args[j] = manta_ref_arg(refs[j] = manta_put(bytes, (size_t)sizes[i]));
            manta_actor *k = manta_actor_new("keeper", NULL, n, args);
            CHECK_I64(manta_call("sum_of", NULL, n, args), sum);
            CHECK_I64(manta_actor_call(k, "sum", n, args), sum);
            char wanted[MANY + 1] = "";
            memset(wanted, 'y', (size_t)n);
            SAYS(manta_actor_call(k, "made_of", MANTA_NO_ARGS), wanted);
            manta_actor_free(k);
            for (int j = 0; j < n; j++) {
                manta_free(refs[j]);
                args[j] = manta_ref_arg(refs[j] = manta_call("make_y", NULL, MANTA_ARGS(manta_i64(sizes[i]))));
            }
            CHECK_I64(manta_call("sum_of", NULL, n, args), sum);
            for (int j = 0; j < n; j++)
                manta_free(refs[j]);
        }
    }
}

/* As references, which the function may keep: all of them, beyond its end. */
static void args_many_kept(void)
{
    const manta_task_opts here = {.labels = NULL};
    manta_arg             args[MANY];
    manta_ref            *refs[MANY];
    for (int i = 0; i < MANY; i++)
        args[i] = manta_ref_arg(refs[i] = make_l_remote(NULL, 0));
    CHECK_I64(manta_call("refs_256", &here, MANY, args), 7 * MANY);
    for (int i = 0; i < MANY; i++)
        manta_free(refs[i]);
    CHECK_I64(manta_call("refs_kept", &here, MANTA_ARGS(manta_i64(MANY))), 7 * MANY); /* in the one worker there is */
}

/* A reference behind '*' of an actor that outlives its creator: its value goes along. */
static void args_detached(void)
{
    manta_ref *refs[KINDS];
    manta_arg  args[KINDS];
    refs_make(refs, 20);
    for (int i = 0; i < KINDS; i++)
        args[i] = manta_ref_arg(refs[i]);
    manta_actor *k = manta_actor_new("keeper", &(manta_actor_opts){.name = "k", .detached = true}, KINDS, args);
    SAYS(manta_actor_call(k, "made_of", MANTA_NO_ARGS), "ludbsysyyy");
    CHECK_EQ(manta_actor_kill(k, false), MANTA_OK);
    manta_actor_free(k);
    refs_free_all(refs, KINDS);
}

/* So many that they fill a record: some by value, the rest as references to small values. */
static void args_detached_many(void)
{
    enum { BY_VALUE = 4 };
    manta_ref *refs[MANY] = {NULL};
    manta_arg  args[MANY];
    char       text[3001], wanted[MANY + 1] = "";
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (int i = 0; i < MANY; i++) {
        if (i >= BY_VALUE)
            refs[i] = manta_put(text, 40);
        args[i] = i < BY_VALUE ? manta_str(text) : manta_ref_arg(refs[i]);
        wanted[i] = i < BY_VALUE ? 's' : 'y';
    }
    manta_actor *k = manta_actor_new("keeper", &(manta_actor_opts){.name = "many", .detached = true}, MANY, args);
    SAYS(manta_actor_call(k, "made_of", MANTA_NO_ARGS), wanted);
    CHECK_EQ(manta_actor_kill(k, false), MANTA_OK);
    manta_actor_free(k);
    refs_free_all(refs, MANY);
}

int main(int argc, char **argv)
{
    const manta_init_opts  two = {.num_cpus = 2};
    const struct test_case cases[] = {
        {.name = "args_refs", args_refs, .opts = two},
        {.name = "args_refs_failed", args_refs_failed, .opts = two},
        {.name = "args_bytes_as_text", args_bytes_as_text, .opts = two},
        {.name = "args_many", args_many, .opts = two},
        {.name = "args_larger_than_record", args_larger_than_record, .opts = two},
        {.name = "args_many_kept", args_many_kept, .opts = {.num_cpus = 1}},
        {.name = "args_detached", args_detached, .opts = two},
        {.name = "args_detached_many", args_detached_many, .opts = two},
        {.name = NULL},
    };
    return test_main(argc, argv, cases);
}
