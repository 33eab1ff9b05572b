/* SPDX-License-Identifier: Apache-2.0
 *
 * detached_test.c - actors that outlive their creator: found, restarted and killed by drivers that come later.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cluster/nodes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- a till: a number that only it knows ---- */
static manta_status till_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)argc;
    if (argv[0].l < 0)
        return manta_fail(c, 7, "a till is not opened in debt (%s)", (const char *)argv[1].y.data);
    *self = calloc(1, sizeof(int64_t));
    *(int64_t *)*self = argv[0].l + (int64_t)argv[1].y.size;
    return MANTA_OK;
}
static manta_status till_add(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, *(int64_t *)self += argv[0].l);
}
static manta_status till_pid(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, getpid());
}
static manta_status till_node(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, manta_node());
}
static manta_status till_page(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    size_t size = (size_t)argv[0].l;
    char  *data = malloc(size);
    (void)self, (void)argc;
    nodes_fill(data, size, 5);
    manta_status code = manta_return_bytes(c, data, size);
    free(data);
    return code;
}
/* Whether the bytes are what nodes_fill makes of `seed`; what came by reference is read here. */
static manta_status till_weigh(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    return manta_return_i64(c, nodes_is_filled(argv[0].y.data, argv[0].y.size, argv[1].l) ? (int64_t)argv[0].y.size : -1);
}
static manta_status till_weigh_ref(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_view  view;
    manta_error e;
    int64_t     size = -1;
    (void)self, (void)argc;
    if (manta_get(argv[0].r, TEST_WAIT_MS, &view, &e))
        return manta_fail(c, e.code, "%s", e.message);
    if (nodes_is_filled(view.data, view.size, argv[1].l))
        size = (int64_t)view.size;
    manta_release(&view);
    return manta_return_i64(c, size);
}
MANTA_ACTOR(till, "ls", till_new, free, {"add", "l>l", till_add}, {"pid", ">l", till_pid}, {"node", ">l", till_node},
            {"page", "l>y", till_page}, {"weigh", "yl>l", till_weigh}, {"weigh_ref", "rl>l", till_weigh_ref});
static manta_status fails(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_fail(c, 3, "nothing to give");
}
MANTA_REGISTER(fails, ">s");
static manta_status make_page(manta_ctx *c, int argc, const manta_arg *argv)
{
    return till_page(c, NULL, argc, argv);
}
MANTA_REGISTER(make_page, "l>y");

/* ---- a keeper: it is made of values, one of them by reference, and an environment ---- */
struct keeper {
    manta_ref *ref;
    int64_t    sum;
};
static manta_status keeper_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct keeper *k = *self = calloc(1, sizeof *k);
    (void)c, (void)argc;
    k->ref = manta_dup(argv[0].r);
    k->sum = nodes_is_filled(argv[1].y.data, argv[1].y.size, 5) ? (int64_t)argv[1].y.size : -1;
    return MANTA_OK;
}
static void keeper_free(void *self)
{
    manta_free(((struct keeper *)self)->ref);
    free(self);
}
static manta_status keeper_sum(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct keeper *k = self;
    manta_view     view;
    manta_error    e;
    (void)argc, (void)argv;
    if (manta_get(k->ref, TEST_WAIT_MS, &view, &e))
        return manta_fail(c, e.code, "%s", e.message);
    int64_t size = nodes_is_filled(view.data, view.size, 9) ? (int64_t)view.size : -1;
    manta_release(&view);
    return manta_return_i64(c, k->sum + size);
}
static manta_status keeper_pid(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, getpid());
}
static manta_status keeper_told(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    const char *word = getenv("KEEPER");
    FILE       *file = fopen("word.txt", "r");
    char        text[100] = "", both[200];
    (void)self, (void)argc, (void)argv;
    if (file) {
        if (!fgets(text, sizeof text, file))
            text[0] = 0;
        fclose(file);
    }
    snprintf(both, sizeof both, "%s %s", word ? word : "none", text);
    return manta_return_str(c, both);
}
MANTA_ACTOR(keeper, "ryA", keeper_new, keeper_free, {"sum", ">l", keeper_sum}, {"pid", ">l", keeper_pid},
            {"told", ">s", keeper_told});

/* Calls a till by its handle, from a task. */
static manta_status through(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_error e;
    int64_t     value = -1;
    (void)argc;
    manta_ref *ref = manta_actor_call(argv[0].A, "add", MANTA_ARGS(manta_i64(argv[1].l)));
    manta_get_i64(ref, TEST_WAIT_MS, &value, &e);
    manta_free(ref);
    return manta_return_i64(c, value);
}
MANTA_REGISTER(through, "Al>l");

static manta_actor *till(const char *name, const manta_actor_opts *more, int64_t start)
{
    manta_actor_opts opts = *more;
    opts.name = name;
    opts.detached = true;
    return manta_actor_new("till", &opts, MANTA_ARGS(manta_i64(start), manta_str("four")));
}
static manta_ref *add(manta_actor *a, int64_t x)
{
    return manta_actor_call(a, "add", MANTA_ARGS(manta_i64(x)));
}
static manta_actor *find(const char *name)
{
    manta_error  e;
    manta_actor *a = manta_actor_find(name, TEST_WAIT_MS, &e);
    if (!a)
        test_fail(__FILE__, __LINE__, "find %s: %s", name, e.message);
    return a;
}
/* Soon: its callers may hear of its end before the head, which has the names, does. NULL: the space of this job. */
static void not_found_in(const char *space, const char *name)
{
    manta_error  e;
    manta_actor *found;
    int64_t      limit = test_now_ms() + TEST_WAIT_MS;
    while ((found = space ? manta_actor_find_in(space, name, TEST_WAIT_MS, &e) : manta_actor_find(name, TEST_WAIT_MS, &e))) {
        manta_actor_free(found);
        CHECK(test_now_ms() < limit);
        test_sleep_ms(5);
    }
    CHECK_EQ(e.code, MANTA_ENOENT);
}
static void not_found(const char *name)
{
    not_found_in(NULL, name);
}
/* A new incarnation answers: its state is fresh. Calls that were under way with the old one may fail. */
static void wait_fresh(manta_actor *a, int64_t wanted)
{
    int64_t value = -1, limit = test_now_ms() + TEST_WAIT_MS;
    while (value != wanted) {
        manta_error e;
        manta_ref  *ref = add(a, 0);
        int         code = manta_get_i64(ref, TEST_WAIT_MS, &value, &e);
        manta_free(ref);
        if (test_now_ms() > limit)
            test_fail(__FILE__, __LINE__, "%lld instead of %lld (%d)", (long long)value, (long long)wanted, code);
        test_sleep_ms(value == wanted ? 0 : 5);
    }
}
static void run_self(const char *name)
{
    char  said[3000];
    char *argv[] = {"/proc/self/exe", "--run", (char *)(uintptr_t)name, NULL};
    if (test_program(argv, said, sizeof said) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", name, said);
}
/* Runs `manta WORDS... --address ...`; what it said. */
static char *cli(const char *one, const char *two, const char *three)
{
    static char said[8000];
    char        path[5000], folder[300];
    char *argv[] = {path, (char *)(uintptr_t)one, (char *)(uintptr_t)two, "--address", folder, (char *)(uintptr_t)three, NULL};
    snprintf(path, sizeof path, "%s/manta", test_bin());
    snprintf(folder, sizeof folder, "%s/manta/c", getenv("XDG_RUNTIME_DIR"));
    test_program(argv, said, sizeof said);
    return said;
}
/* Soon: its process may be there still. */
static void not_listed(const char *name)
{
    CHECK_SOON(!strstr(cli("list", "actors", NULL), name));
}
static int warden_pid(const char *name)
{
    char  label[100];
    char *said = cli("job", "list", "--output=json");
    snprintf(label, sizeof label, "\"default/%s\"", name);
    const char *row = strstr(said, label), *pid = row ? strstr(row, "\"pid\": ") : NULL;
    CHECK_SAYS(said, label); /* others may have ended, and are listed still */
    long number = pid ? strtol(pid + 7, NULL, 10) : 0;
    CHECK(number > 1);
    return (int)number;
}

/* ---- other drivers ---- */
static void join(int node)
{
    manta_error e;
    char        address[256];
    snprintf(address, sizeof address, "%s/manta/c/n%d", getenv("XDG_RUNTIME_DIR"), node);
    manta_init_opts opts = {.address = address};
    CHECK(!manta_is_initialized());
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
}
static void maker(void) /* makes it, uses it, leaves */
{
    join(0);
    CHECK(manta_is_initialized());
    manta_actor *a = till("bank", &(manta_actor_opts){.max_restarts = 3}, 100);
    CHECK_I64(add(a, 1), 105);
    manta_actor_free(a);
    manta_shutdown();
    CHECK(!manta_is_initialized());
}
/* A program that has not the class "till" (stranger.c) calls it by name. */
static void stranger(void)
{
    char said[3000], address[256];
    snprintf(address, sizeof address, "%s/manta/c/n1", getenv("XDG_RUNTIME_DIR"));
    char *argv[] = {STRANGER, address, NULL};
    if (test_program(argv, said, sizeof said) != 0)
        test_fail(__FILE__, __LINE__, "stranger: %s", said);
}
static void taker(void) /* on another node: finds it, with its state */
{
    manta_error e;
    join(1);
    manta_actor *a = find("bank");
    CHECK_I64(add(a, 5), 110);
    manta_view view;
    manta_ref *page = manta_actor_call(a, "page", MANTA_ARGS(manta_i64(3000)));
    CHECK_CODE(manta_get(page, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK(view.size == 3000 && nodes_is_filled(view.data, view.size, 5));
    manta_release(&view);
    manta_free(page);
    CHECK_I64(manta_call("through", NULL, MANTA_ARGS(manta_actor_arg(a), manta_i64(10))), 120);
    CHECK_FAILS(add(till("bank", &(manta_actor_opts){0}, 0), 1), MANTA_EEXIST, &e);
    manta_actor *same = till("bank", &(manta_actor_opts){.get_if_exists = true}, 0);
    CHECK_I64(add(same, 0), 120);
    manta_actor_free(same);
    manta_actor_free(a);
    manta_shutdown();
}

/* Large values both ways, by value and by reference, to and from an actor of another job, on node `node`. */
static void exchange(manta_actor *a)
{
    enum { LARGE = 300 * 1000 };
    manta_error e;
    manta_view  view;
    char       *data = malloc(LARGE);
    nodes_fill(data, LARGE, 9);
    manta_ref *put = manta_put(data, LARGE);
    CHECK_I64(manta_actor_call(a, "weigh", MANTA_ARGS(manta_data((manta_bytes){data, LARGE}), manta_i64(9))), LARGE);
    CHECK_I64(manta_actor_call(a, "weigh", MANTA_ARGS(manta_ref_arg(put), manta_i64(9))), LARGE);
    CHECK_I64(manta_actor_call(a, "weigh_ref", MANTA_ARGS(manta_ref_arg(put), manta_i64(9))), LARGE);
    manta_free(put);
    manta_ref *page = manta_actor_call(a, "page", MANTA_ARGS(manta_i64(LARGE)));
    CHECK_I64(manta_actor_call(a, "weigh", MANTA_ARGS(manta_ref_arg(page), manta_i64(5))), LARGE);
    CHECK_CODE(manta_get(page, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK(view.size == LARGE && nodes_is_filled(view.data, view.size, 5));
    manta_release(&view);
    manta_free(page);
    free(data);
}
static void trader(void)
{
    join(1);
    manta_actor *a = find("bank");
    exchange(a);
    manta_actor_free(a);
    manta_shutdown();
}

/* Makes a keeper of large values, one of them still to come, in an environment of its own, and leaves. */
static void keeper_maker(void)
{
    enum { LARGE = 2 * 1000 * 1000 };
    manta_error e;
    join(0);
    char *data = malloc(LARGE);
    nodes_fill(data, LARGE, 9);
    char folder[] = "/tmp/manta-keeper-XXXXXX", path[200];
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/word.txt", folder);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs("written", file) >= 0 && fclose(file) == 0);
    const char       *vars[] = {"KEEPER=said", NULL};
    manta_runtime_env described = {.env_vars = vars, .working_dir = folder};
    manta_env        *env = manta_env_new(&described, &e);
    CHECK(env);
    unlink(path);
    rmdir(folder);
    manta_ref *put = manta_put(data, LARGE), *page = manta_call("make_page", NULL, MANTA_ARGS(manta_i64(LARGE)));
    manta_actor *friend = till("friend", &(manta_actor_opts){0}, 0);
    manta_actor_opts opts = {.detached = true, .name = "keeper", .max_restarts = MANTA_WITHOUT_LIMIT, .env = env};
    manta_actor *a = manta_actor_new("keeper", &opts, MANTA_ARGS(manta_ref_arg(put), manta_ref_arg(page), manta_actor_arg(friend)));
    CHECK_I64(manta_actor_call(a, "sum", MANTA_NO_ARGS), 2 * LARGE);
    manta_actor_free(a);
    manta_actor_free(friend);
    manta_free(put);
    manta_free(page);
    manta_env_free(env);
    free(data);
    manta_shutdown();
}

/* ---- cases ---- */

static void keeper_says(manta_actor *a, const char *wanted)
{
    manta_view  view;
    manta_error e;
    manta_ref  *ref = manta_actor_call(a, "told", MANTA_NO_ARGS);
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_STR((const char *)view.data, wanted);
    manta_release(&view);
    manta_free(ref);
}

/* What it was made of is there for each of its restarts, its creator long gone; also with another warden. */
static void detached_made_of_much(void)
{
    struct nodes n;
    manta_error  e;
    nodes_start(&n, 2, "2");
    run_self("keeper_maker");
    manta_actor *a = find("keeper"), *friend = find("friend");
    keeper_says(a, "said written");
    for (int i = 0; i < 2; i++) {
        int64_t sum = 0, limit = test_now_ms() + TEST_WAIT_MS;
        int     pid = (int)test_i64(manta_actor_call(a, "pid", MANTA_NO_ARGS), __FILE__, __LINE__);
        manta_actor_kill(friend, false); /* then the keeper's warden is the only one */
        if (i == 1)
            not_listed("friend");
        CHECK_EQ(kill(i ? warden_pid("keeper") : pid, SIGKILL), 0);
        CHECK(test_gone(pid));
        while (sum != 4 * 1000 * 1000 && test_now_ms() < limit) {
            manta_ref *ref = manta_actor_call(a, "sum", MANTA_NO_ARGS);
            (void)manta_get_i64(ref, TEST_WAIT_MS, &sum, &e);
            manta_free(ref);
        }
        CHECK_EQ(sum, 4 * 1000 * 1000);
        keeper_says(a, "said written");
    }
    manta_actor_kill(a, false);
    manta_actor_free(a);
    manta_actor_free(friend);
    nodes_stop(&n);
}

/* What the actor has given stays its taker's when the actor, and with it its job, is gone. */
static void detached_values(void)
{
    enum { LARGE = 3 * 1000 * 1000 };
    struct nodes n;
    manta_error  e;
    manta_view   view, late;
    nodes_start(&n, 2, "2");
    run_self("maker");
    run_self("trader");
    manta_actor *a = find("bank");
    exchange(a);
    manta_ref *page = manta_actor_call(a, "page", MANTA_ARGS(manta_i64(LARGE)));
    manta_ref *unread = manta_actor_call(a, "page", MANTA_ARGS(manta_i64(LARGE)));
    CHECK_CODE(manta_get(page, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(manta_wait(&unread, 1, 1, TEST_WAIT_MS, NULL, &e), 1);
    manta_actor_kill(a, false);
    CHECK_SOON(!strstr(cli("job", "list", NULL), "RUNNING"));
    CHECK(nodes_is_filled(view.data, view.size, 5));
    CHECK_CODE(manta_get(unread, TEST_WAIT_MS, &late, &e), MANTA_OK, &e);
    CHECK(late.size == LARGE && nodes_is_filled(late.data, late.size, 5));
    manta_release(&late);
    manta_release(&view);
    manta_free(page);
    manta_free(unread);
    manta_actor_free(a);
    nodes_stop(&n);
}

static void detached(void)
{
    struct nodes n;
    nodes_start(&n, 2, "2");
    run_self("maker");
    run_self("taker");
    stranger();
    manta_actor *a = find("bank");
    CHECK_I64(add(a, 1), 121);
    CHECK_SAYS(cli("list", "actors", NULL), "bank");
    CHECK_SAYS(cli("job", "list", NULL), "default/bank");
    manta_actor_kill(a, false);
    manta_error e;
    manta_ref  *late = add(a, 1);
    manta_view  view;
    while (manta_get(late, TEST_WAIT_MS, &view, &e) == MANTA_OK) { /* it died when it did */
        manta_release(&view);
        manta_free(late);
        late = add(a, 1);
    }
    CHECK_EQ(e.code, MANTA_EACTOR_DIED);
    manta_free(late);
    CHECK_FAILS(add(a, 1), MANTA_EACTOR_DIED, &e);
    CHECK_SAYS(e.message, "it was killed");
    manta_actor_free(a);
    not_found("bank");
    not_listed("bank");
    run_self("maker"); /* the name is free again */
    CHECK_SAYS(cli("actor", "kill", "bank"), "bank: killed");
    not_found("bank");
    CHECK_SAYS(cli("actor", "kill", "bank"), "no detached actor is named");
    nodes_stop(&n);
}

/* SIGKILL of the actor, then of its warden: both are restarts. */
static void detached_restarts(void)
{
    struct nodes n;
    manta_error  e;
    nodes_start(&n, 1, "2");
    manta_actor *a = till("safe", &(manta_actor_opts){.max_restarts = 3}, 10);
    CHECK_I64(add(a, 1), 15);
    kill((int)test_i64(manta_actor_call(a, "pid", MANTA_NO_ARGS), __FILE__, __LINE__), SIGKILL);
    wait_fresh(a, 14);
    CHECK_I64(add(a, 5), 19);
    manta_actor *other = find("safe");
    CHECK_I64(add(other, 1), 20);
    int warden = warden_pid("safe");
    CHECK_EQ(kill(warden, SIGKILL), 0);
    wait_fresh(a, 14);
    CHECK(warden_pid("safe") != warden);
    CHECK_I64(add(other, 1), 15);
    manta_actor_kill(other, true); /* the last restart */
    wait_fresh(a, 14);
    kill((int)test_i64(manta_actor_call(a, "pid", MANTA_NO_ARGS), __FILE__, __LINE__), SIGKILL);
    manta_ref *ref = add(a, 1);
    manta_view view;
    CHECK(manta_get(ref, TEST_WAIT_MS, &view, &e) != MANTA_OK);
    manta_free(ref);
    CHECK_FAILS(add(a, 1), MANTA_EACTOR_DIED, &e);
    manta_actor_free(a);
    manta_actor_free(other);
    not_found("safe");
    nodes_stop(&n);
}

static void detached_head_dies(void)
{
    struct nodes n;
    nodes_start(&n, 1, "2");
    run_self("maker");
    manta_actor *a = find("bank");
    CHECK_I64(add(a, 1), 106);
    nodes_kill(&n.head);
    CHECK_I64(add(a, 1), 107);
    nodes_start_head(&n, "127.0.0.1:0");
    nodes_wait_alive(1);
    manta_actor *again = find("bank");
    CHECK_I64(add(again, 1), 108);
    kill((int)test_i64(manta_actor_call(a, "pid", MANTA_NO_ARGS), __FILE__, __LINE__), SIGKILL);
    wait_fresh(again, 104);
    manta_actor_free(a);
    manta_actor_kill(again, false);
    manta_actor_free(again);
    nodes_stop(&n);
}

/* Its node dies, and its creator with it: another node goes on. */
static void detached_node_dies(void)
{
    struct nodes n;
    nodes_start(&n, 2, "2");
    manta_actor *a = till("roamer", &(manta_actor_opts){.max_restarts = -1, .node = n.ids[1], .node_soft = true}, 10);
    CHECK_I64(add(a, 1), 15);
    CHECK_I64(manta_actor_call(a, "node", MANTA_NO_ARGS), n.ids[1]);
    nodes_kill(&n.raylets[1]); /* its warden may be there as well */
    wait_fresh(a, 14);
    CHECK_I64(manta_actor_call(a, "node", MANTA_NO_ARGS), n.ids[0]);
    manta_actor_kill(a, false);
    manta_actor_free(a);
    nodes_stop(&n);
}

static void detached_wrong(void)
{
    struct nodes n;
    manta_error  e;
    nodes_start(&n, 1, "2");
    manta_actor_opts nameless = {.detached = true};
    CHECK_FAILS(add(manta_actor_new("till", &nameless, MANTA_ARGS(manta_i64(1), manta_str("x"))), 1), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "without a name");
    manta_actor_opts named = {.detached = true, .name = "wrong"};
    manta_ref       *x = manta_put("x", 2), *declaring = manta_put_refs("y", 2, &x, 1);
    manta_actor     *brief = manta_actor_new("till", NULL, MANTA_ARGS(manta_i64(1), manta_str("z")));
    CHECK_FAILS(add(manta_actor_new("till", &named, MANTA_ARGS(manta_i64(1), manta_ref_arg(declaring))), 1), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "argument 2 declares references");
    CHECK_FAILS(add(manta_actor_new("till", &named, MANTA_ARGS(manta_i64(1), manta_ref_arg(x))), 1), MANTA_ETYPE, &e);
    CHECK_FAILS(add(manta_actor_new("keeper", &named, MANTA_ARGS(manta_ref_arg(x), manta_ref_arg(x), manta_actor_arg(brief))), 1),
                MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "pass a detached one");
    manta_ref *lost = manta_call("fails", NULL, MANTA_NO_ARGS);
    CHECK_FAILS(add(manta_actor_new("till", &named, MANTA_ARGS(manta_i64(1), manta_ref_arg(lost))), 1), MANTA_ETASK, &e);
    CHECK_SAYS(e.message, "nothing to give");
    manta_free(lost);
    manta_actor_free(brief);
    manta_free(declaring);
    manta_free(x);
    not_found("wrong");
    manta_actor *debt = till("debt", &(manta_actor_opts){0}, -1);
    CHECK_FAILS(add(debt, 1), MANTA_EACTOR_DIED, &e);
    CHECK_SAYS(e.message, "not opened in debt");
    manta_actor_free(debt);
    not_found("debt");
    nodes_stop(&n);
}

/* By its own will. */
static void detached_ends(void)
{
    struct nodes n;
    manta_error  e;
    manta_view   view;
    nodes_start(&n, 1, "2");
    manta_actor *a = till("brief", &(manta_actor_opts){.max_restarts = -1, .name_space = "elsewhere"}, 0);
    CHECK_I64(add(a, 1), 5);
    not_found("brief");
    manta_actor *found = manta_actor_find_in("elsewhere", "brief", TEST_WAIT_MS, &e);
    CHECK(found);
    manta_ref *end = manta_actor_end(found);
    CHECK_CODE(manta_get(end, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    manta_release(&view);
    manta_free(end);
    CHECK_FAILS(add(a, 1), MANTA_EACTOR_DIED, &e);
    CHECK_SAYS(e.message, "own will");
    not_found_in("elsewhere", "brief");
    manta_actor_free(a);
    manta_actor_free(found);
    nodes_stop(&n);
}

/* In a private cluster it lives as long as that. */
static void detached_private(void)
{
    manta_error e;
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.num_cpus = 2}, &e), MANTA_OK, &e);
    manta_actor *a = till("own", &(manta_actor_opts){0}, 0);
    CHECK_I64(add(a, 1), 5);
    manta_actor_free(a);
    test_sleep_ms(50);
    a = find("own");
    CHECK_I64(add(a, 1), 6);
    manta_actor_free(a);
    CHECK_EQ(manta_shutdown(), 0);
}

#define OWN_INIT {0}, true, 0
static const struct test_case cases[] = {
    {"detached", detached, OWN_INIT},
    {"detached_values", detached_values, OWN_INIT},
    {"detached_made_of_much", detached_made_of_much, OWN_INIT},
    {"detached_restarts", detached_restarts, OWN_INIT},
    {"detached_head_dies", detached_head_dies, OWN_INIT},
    {"detached_node_dies", detached_node_dies, OWN_INIT},
    {"detached_wrong", detached_wrong, OWN_INIT},
    {"detached_ends", detached_ends, OWN_INIT},
    {"detached_private", detached_private, OWN_INIT},
    {NULL, NULL, {0}, false, 0},
    {"maker", maker, OWN_INIT}, /* started by the others only */
    {"taker", taker, OWN_INIT},
    {"trader", trader, OWN_INIT},
    {"keeper_maker", keeper_maker, OWN_INIT},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 3 && i < sizeof cases / sizeof cases[0]; i++)
        if (cases[i].name && strcmp(argv[2], cases[i].name) == 0)
            return test_main(argc, argv, &cases[i]);
    return test_main(argc, argv, cases);
}
