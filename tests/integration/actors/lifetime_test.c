/* SPDX-License-Identifier: Apache-2.0
 *
 * lifetime_test.c - how actors end and come back: graceful ends, snapshots, names, large arguments of create.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LARGE = 3 * 1000 * 1000, CALLS = 500, LINGER = 3 };

/* ---- an account: a number, and bytes that make its snapshot as large as wanted ---- */
struct account {
    _Atomic int64_t    sum; /* where calls run side by side, too */
    size_t             size;
    struct test_board *board;
};

static manta_status account_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct account *a = calloc(1, sizeof *a);
    (void)c, (void)argc;
    a->board = test_board_map(argv[0].u);
    a->size = (size_t)argv[1].l;
    for (size_t i = 0; i < argv[2].y.size; i++)
        a->sum += ((const unsigned char *)argv[2].y.data)[i];
    *self = a;
    return MANTA_OK;
}
static void account_free(void *self)
{
    atomic_fetch_add(&((struct account *)self)->board->words[8], 1);
    free(self);
}
static manta_status account_save(manta_ctx *c, void *self)
{
    struct account *a = self;
    char           *state = calloc(1, sizeof a->sum + a->size);
    int64_t         sum = a->sum;
    memcpy(state, &sum, sizeof sum);
    manta_status code = manta_return_bytes(c, state, sizeof a->sum + a->size);
    free(state);
    return code;
}
static manta_status account_load(manta_ctx *c, void *self, const void *data, size_t size)
{
    struct account *a = self;
    if (size != sizeof a->sum + a->size)
        return manta_fail(c, 1, "a snapshot of %zu bytes", size);
    int64_t sum;
    memcpy(&sum, data, sizeof sum);
    a->sum = sum;
    return MANTA_OK;
}
static manta_status account_add(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, ((struct account *)self)->sum += argv[0].l);
}
static manta_status account_add_and_save(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_actor_save(c);
    return account_add(c, self, argc, argv);
}
static manta_status account_die(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    if (manta_attempt(c) == 0) {
        kill(getpid(), SIGKILL);
        pause();
    }
    return MANTA_OK;
}
static manta_status account_leave(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    manta_actor_exit(c);
    return manta_return_i64(c, ((struct account *)self)->sum);
}
static manta_status account_slowly(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    test_sleep_ms(5);
    return account_add(c, self, argc, argv);
}
MANTA_ACTOR_TYPE(account, .signature = "uly", .create = account_new, .destroy = account_free, .save = account_save,
                 .load = account_load,
                 .methods = {{"add", "l>l", account_add},
                             {"add_and_save", "l>l", account_add_and_save},
                             {"die", ">v", account_die},
                             {"leave", ">l", account_leave},
                             {"slowly", "l>l@slow", account_slowly}},
                 .groups = {{"slow", 2}});
/* Its end takes a while: no other thread may begin it meanwhile. */
static void account_free_slowly(void *self)
{
    atomic_fetch_add(&((struct account *)self)->board->words[9], 1);
    test_sleep_ms(300);
    account_free(self);
}
/* Goes on for some time after another thread's call has ended the actor. */
static manta_status account_linger(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct account *a = self;
    atomic_fetch_add(&a->board->words[11], 1);
    if (!test_board_wait(&a->board->words[10], 1))
        return manta_fail(c, 1, "nobody left");
    test_sleep_ms((int)argv[0].l);
    return account_add(c, self, argc, argv);
}
static manta_status account_leave_first(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct account *a = self;
    if (!test_board_wait(&a->board->words[11], LINGER))
        return manta_fail(c, 1, "nobody came");
    atomic_store(&a->board->words[10], 1);
    return account_leave(c, self, argc, argv);
}
MANTA_ACTOR(careful, "uly", account_new, account_free_slowly, {"linger", "l>l", account_linger},
            {"leave", ">l", account_leave_first});
MANTA_ACTOR(plain, "uly", account_new, account_free, {"add", "l>l", account_add}, {"leave", ">l", account_leave});

/* Writes out what it has, say, and that takes longer than a second or two. */
static void account_free_at_leisure(void *self)
{
    test_sleep_ms(2500);
    account_free(self);
}
static manta_status account_pid(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, getpid());
}
MANTA_ACTOR(leisurely, "uly", account_new, account_free_at_leisure, {"pid", ">l", account_pid});

/* As one that hands on what a call of another actor gave it. */
static manta_status gives_up_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    return MANTA_EACTOR_DIED;
}
MANTA_ACTOR(gives_up, "", gives_up_new, account_free, {"leave", ">l", account_leave});

static struct test_board *board;
static uint64_t           board_number;

static manta_actor *make(const char *type, const manta_actor_opts *opts, int64_t size)
{
    if (!board)
        board = test_board_new(&board_number);
    return manta_actor_new(type, opts, MANTA_ARGS(manta_u64(board_number), manta_i64(size), manta_bytes_of("", 0)));
}
static manta_ref *add(manta_actor *a, const char *method, int64_t x)
{
    return manta_actor_call(a, method, MANTA_ARGS(manta_i64(x)));
}
static void no_value(manta_ref *ref)
{
    manta_error e;
    manta_view  view;
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    manta_release(&view);
    manta_free(ref);
}

/* ---- cases ---- */

/* What another actor's death has cost ends the new one with that failure: it is no death of its own, which would be waited for. Nor
 * is what its function for create gives back as its code. */
static void case_create_failed(void)
{
    manta_error  e;
    manta_actor *dead = make("account", NULL, 0);
    CHECK_FAILS(manta_actor_call(dead, "die", MANTA_NO_ARGS), MANTA_EACTOR_DIED, &e);
    manta_ref   *lost = add(dead, "add", 2);
    manta_actor *a = manta_actor_new("plain", &(manta_actor_opts){.max_restarts = 1},
                                     MANTA_ARGS(manta_u64(board_number), manta_ref_arg(lost), manta_bytes_of("", 0)));
    CHECK_FAILS(add(a, "add", 3), MANTA_EACTOR_DIED, &e);
    manta_actor_free(a);
    a = manta_actor_new("gives_up", &(manta_actor_opts){.max_restarts = 1}, MANTA_NO_ARGS);
    CHECK_FAILS(manta_actor_call(a, "leave", MANTA_NO_ARGS), MANTA_EACTOR_DIED, &e);
    manta_actor_free(a);
    CHECK_FAILS(lost, MANTA_EACTOR_DIED, &e);
    manta_actor_free(dead);
}

/* Calls made before the end run; its destroy function has run when the ref is ready; later ones fail. */
static void case_end(void)
{
    static const char *const types[] = {"plain", "account"}; /* one thread; several */
    for (int t = 0; t < 2; t++) {
        manta_actor_opts o = {.max_restarts = -1};
        manta_actor     *a = make(types[t], &o, 0);
        manta_ref       *refs[CALLS], *slow[8], *end;
        manta_error      e;
        for (int i = 0; i < CALLS; i++)
            refs[i] = add(a, "add", 1);
        for (int i = 0; i < 8; i++)
            slow[i] = add(a, t ? "slowly" : "add", 1);
        end = manta_actor_end(a);
        no_value(end);
        CHECK_EQ(atomic_load(&board->words[8]), t + 1);
        for (int i = 0; i < CALLS; i++) {
            manta_status code = manta_get_i64(refs[i], TEST_WAIT_MS, &(int64_t){0}, &e);
            CHECK_CODE(code, MANTA_OK, &e);
            manta_free(refs[i]);
        }
        for (int i = 0; i < 8; i++) {
            CHECK_CODE(manta_get_i64(slow[i], TEST_WAIT_MS, &(int64_t){0}, &e), MANTA_OK, &e);
            manta_free(slow[i]);
        }
        CHECK_FAILS(add(a, "add", 1), MANTA_EACTOR_DIED, &e);
        CHECK_SAYS(e.message, "of its own will");
        CHECK_EQ(e.outcome, MANTA_NOT_DONE);
        CHECK_FAILS(manta_actor_end(a), MANTA_EACTOR_DIED, &e);
        manta_actor_free(a);
    }
    manta_error e;
    CHECK_FAILS(manta_actor_end(NULL), MANTA_EINVAL, &e);
}

static void case_exit(void)
{
    static const char *const types[] = {"plain", "account"};
    for (int t = 0; t < 2; t++) {
        manta_actor_opts o = {.max_restarts = -1};
        manta_actor     *a = make(types[t], &o, 0);
        manta_error      e;
        CHECK_I64(add(a, "add", 5), 5);
        CHECK_I64(manta_actor_call(a, "leave", MANTA_NO_ARGS), 5);
        CHECK_FAILS(add(a, "add", 1), MANTA_EACTOR_DIED, &e);
        CHECK(test_board_wait(&board->words[8], t + 1));
        manta_actor_free(a);
    }
}

/* However many threads see that the actor ends, it is destroyed once. */
static void case_exit_once(void)
{
    manta_actor_opts o = {.max_concurrency = LINGER + 1};
    manta_actor     *a = make("careful", &o, 0);
    manta_ref       *refs[LINGER], *end;
    for (int i = 0; i < LINGER; i++)
        refs[i] = add(a, "linger", 20 * i);
    end = manta_actor_call(a, "leave", MANTA_NO_ARGS);
    for (int i = 0; i < LINGER; i++)
        no_value(refs[i]);
    no_value(end);
    manta_actor_free(a); /* its lease ends, too: one more reason to go */
    CHECK(test_board_wait(&board->words[8], 1));
    CHECK_EQ(atomic_load(&board->words[9]), 1);
}

/* A restarted actor has its state again, from memory or, where it is large, from the store. */
static void snapshots(int64_t size)
{
    manta_actor_opts o = {.max_restarts = 3, .max_task_retries = 1, .save_every = 1};
    manta_actor     *a = make("account", &o, size);
    for (int i = 1; i <= 10; i++)
        CHECK_I64(add(a, "add", 1), i);
    no_value(manta_actor_call(a, "die", MANTA_NO_ARGS));
    CHECK_I64(add(a, "add", 1), 11);
    manta_actor_kill(a, true);
    CHECK_I64(add(a, "add", 0), 11);
    manta_actor_free(a);
}
static void case_save_small(void)
{
    snapshots(0);
}
static void case_save_large(void)
{
    snapshots(LARGE);
}

static void case_save_on_demand(void)
{
    manta_actor_opts o = {.max_restarts = 3, .max_task_retries = 1};
    manta_actor     *a = make("account", &o, 0);
    CHECK_I64(add(a, "add", 1), 1);
    CHECK_I64(add(a, "add_and_save", 1), 2);
    CHECK_I64(add(a, "add", 1), 3); /* in no snapshot */
    no_value(manta_actor_call(a, "die", MANTA_NO_ARGS));
    CHECK_I64(add(a, "add", 0), 2);
    manta_actor_free(a);
}

static void case_save_refused(void)
{
    manta_actor_opts o = {.save_every = 1}, negative = {.save_every = -1};
    manta_error      e;
    manta_actor     *a = make("plain", &o, 0), *b = make("account", &negative, 0);
    CHECK_FAILS(add(a, "add", 1), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "save_every");
    CHECK_FAILS(add(b, "add", 1), MANTA_EINVAL, &e);
    manta_actor_free(a);
    manta_actor_free(b);
}

/* Large arguments of create, and a reference among them, are there again after a restart. */
static void case_large_create(void)
{
    manta_actor_opts o = {.max_restarts = 1, .max_task_retries = 1};
    unsigned char   *bytes = malloc(LARGE);
    memset(bytes, 1, LARGE);
    board = test_board_new(&board_number);
    manta_ref   *value = manta_put(bytes, LARGE);
    manta_actor *a = manta_actor_new("account", &o,
                                     MANTA_ARGS(manta_u64(board_number), manta_i64(0), manta_bytes_of(bytes, LARGE)));
    manta_actor *b = manta_actor_new("account", &o, MANTA_ARGS(manta_u64(board_number), manta_i64(0), manta_ref_arg(value)));
    free(bytes);
    manta_free(value);
    manta_actor *both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        CHECK_I64(add(both[i], "add", 1), LARGE + 1);
        no_value(manta_actor_call(both[i], "die", MANTA_NO_ARGS));
        CHECK_I64(add(both[i], "add", 1), LARGE + 1);
        manta_actor_free(both[i]);
    }
}

MANTA_TASK(int64_t, same_account, (int64_t, number))
{
    manta_actor_opts o = {.name = "joint", .get_if_exists = true, .name_space = "bank"};
    board_number = (uint64_t)number;
    board = test_board_map(board_number);
    manta_actor *a = make("account", &o, 0);
    manta_error  e;
    int64_t      got = -1;
    manta_ref   *ref = add(a, "add", 1);
    if (manta_get_i64(ref, TEST_WAIT_MS, &got, &e))
        got = -e.code;
    manta_free(ref);
    manta_actor_free(a);
    return got;
}

static void case_names(void)
{
    manta_actor_opts o = {.name = "joint", .get_if_exists = true, .name_space = "bank"}, plain = {.name = "joint"};
    manta_actor     *a = make("account", &o, 0), *b = make("account", &o, 0), *c = make("account", &plain, 0), *d, *found;
    manta_error      e;
    CHECK_I64(add(a, "add", 1), 1);
    CHECK_I64(add(b, "add", 1), 2); /* the same actor */
    CHECK_I64(add(c, "add", 1), 1); /* another name space */
    CHECK_I64(same_account_remote(NULL, (int64_t)board_number), 3);
    d = make("account", &plain, 0);
    CHECK_FAILS(add(d, "add", 1), MANTA_EEXIST, &e);
    found = manta_actor_find_in("bank", "joint", TEST_WAIT_MS, &e);
    CHECK(found != NULL);
    CHECK_I64(add(found, "add", 1), 4);
    CHECK(manta_actor_find_in("vault", "joint", TEST_WAIT_MS, &e) == NULL);
    CHECK_EQ(e.code, MANTA_ENOENT);
    CHECK_SAYS(e.message, "vault");
    o.name = NULL;
    manta_actor *bad = make("account", &o, 0);
    CHECK_FAILS(add(bad, "add", 1), MANTA_EINVAL, &e);
    manta_actor *all[] = {a, b, c, d, found, bad};
    for (int i = 0; i < 6; i++)
        manta_actor_free(all[i]);
}

/* ---- groups ---- */

struct deaths {
    _Atomic int count, last;
};
static void on_member_death(void *user, int index, const manta_death *death)
{
    struct deaths *d = user;
    (void)death;
    atomic_store(&d->last, index);
    atomic_fetch_add(&d->count, 1);
}

static void case_group(void)
{
    enum { MEMBERS = 5, ITEMS = 300 };
    manta_actor_opts o = {.max_restarts = 0};
    manta_error      e;
    manta_view       views[MEMBERS];
    manta_ref       *refs[ITEMS];
    manta_arg        items[ITEMS];
    struct deaths    deaths = {0, -1};
    int64_t          got, total = 0;
    int              failed = -1;
    board = test_board_new(&board_number);
    manta_group *g = manta_group_new("account", &o, MEMBERS,
                                     MANTA_ARGS(manta_u64(board_number), manta_i64(0), manta_bytes_of("", 0)), &e);
    CHECK(g && manta_group_size(g) == MEMBERS && !manta_group_actor(g, MEMBERS) && !manta_group_actor(g, -1));
    CHECK_CODE(manta_group_gather(g, "add", MANTA_ARGS(manta_i64(7)), TEST_WAIT_MS, views, &failed, &e), MANTA_OK, &e);
    for (int i = 0; i < MEMBERS; i++) {
        memcpy(&got, views[i].data, sizeof got);
        CHECK_EQ(got, 7);
        manta_release(&views[i]);
    }
    for (int i = 0; i < ITEMS; i++)
        items[i] = manta_i64(1);
    CHECK_CODE(manta_group_map(g, "add", items, ITEMS, refs, &e), MANTA_OK, &e);
    for (int i = 0; i < ITEMS; i++) {
        CHECK_CODE(manta_get_i64(refs[i], TEST_WAIT_MS, &got, &e), MANTA_OK, &e);
        manta_free(refs[i]);
    }
    CHECK_EQ(manta_group_call(g, "add", MANTA_ARGS(manta_i64(0)), refs), MANTA_OK);
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_CODE(manta_get_i64(refs[i], TEST_WAIT_MS, &got, &e), MANTA_OK, &e);
        total += got;
        manta_free(refs[i]);
    }
    CHECK_EQ(total, 7 * MEMBERS + ITEMS); /* each item once */
    CHECK_CODE(manta_group_watch(g, on_member_death, &deaths, &e), MANTA_OK, &e);
    CHECK_CODE(manta_group_watch(g, on_member_death, &deaths, &e), MANTA_EEXIST, &e);
    manta_actor_kill(manta_group_actor(g, 3), false);
    CHECK_SOON(atomic_load(&deaths.count));
    CHECK_EQ(atomic_load(&deaths.last), 3);
    CHECK_CODE(manta_group_gather(g, "add", MANTA_ARGS(manta_i64(7)), TEST_WAIT_MS, views, &failed, &e), MANTA_EACTOR_DIED, &e);
    CHECK_EQ(failed, 3);
    manta_group_unwatch(g);
    CHECK_CODE(manta_group_end(g, TEST_WAIT_MS, &e), MANTA_OK, &e);
    CHECK_EQ(atomic_load(&board->words[8]), MEMBERS - 1);
    manta_group_free(g);

    o.name = "one";
    CHECK(!manta_group_new("account", &o, 2, MANTA_NO_ARGS, &e) && e.code == MANTA_EINVAL);
    CHECK(!manta_group_new("account", NULL, 0, MANTA_NO_ARGS, &e) && e.code == MANTA_EINVAL);
    CHECK(!manta_group_of((manta_actor *[]){NULL}, 1, &e) && e.code == MANTA_EINVAL);
    CHECK_EQ(manta_group_map(NULL, "add", items, 1, refs, &e), MANTA_EINVAL);
    manta_group_free(NULL);
}

/* Its creator lets it go. It may be slow to hear of that, on a crowded machine, and its destroy function may take its time: that
 * runs to its end all the same. */
static void case_slow_end(void)
{
    manta_actor *a = make("leisurely", NULL, 0);
    pid_t        pid = (pid_t)test_i64(manta_actor_call(a, "pid", MANTA_NO_ARGS), __FILE__, __LINE__);
    CHECK(pid > 0);
    CHECK_EQ(kill(pid, SIGSTOP), 0);
    manta_actor_free(a);
    test_sleep_ms(1000);
    CHECK_EQ(kill(pid, SIGCONT), 0);
    CHECK(test_board_wait(&board->words[8], 1));
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {.name = "graceful_end", .run = case_end, .opts = {.num_cpus = 2}},
        {.name = "slow_end", .run = case_slow_end, .opts = {.num_cpus = 2}},
        {.name = "create_failed", .run = case_create_failed, .opts = {.num_cpus = 2}},
        {.name = "exit_inside", .run = case_exit, .opts = {.num_cpus = 2}},
        {.name = "exit_once", .run = case_exit_once, .opts = {.num_cpus = 2}},
        {.name = "save_small", .run = case_save_small, .opts = {.num_cpus = 2}},
        {.name = "save_large", .run = case_save_large, .opts = {.num_cpus = 2}},
        {.name = "save_on_demand", .run = case_save_on_demand, .opts = {.num_cpus = 2}},
        {.name = "save_refused", .run = case_save_refused, .opts = {.num_cpus = 2}},
        {.name = "large_create", .run = case_large_create, .opts = {.num_cpus = 2}},
        {.name = "name_spaces", .run = case_names, .opts = {.num_cpus = 2}},
        {.name = "group", .run = case_group, .opts = {.num_cpus = 2}},
        {.name = NULL},
    };
    return test_main(argc, argv, cases);
}
