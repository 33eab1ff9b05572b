/* SPDX-License-Identifier: Apache-2.0
 *
 * misuse_test.c - what a program can do wrong with the library: each is told by a typed error that names it. Nothing crashes,
 * hangs or gives rubbish, and the library goes on.
 *
 * Thread: the driver's main one. Each case is a process of its own (harness.h).
 */
#include "tests/integration/bad_input/misuse.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

manta_ref *misuse_other_call(int64_t x);

/* ---- what functions return ---- */

static manta_status returns_nothing(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    return MANTA_OK;
}
MANTA_REGISTER(returns_nothing, ">l");

static manta_status returns_double(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    (void)manta_return_f64(c, 1.5); /* and does not look at what that says */
    return MANTA_OK;
}
MANTA_REGISTER(returns_double, ">l");

static manta_status returns_large_string(manta_ctx *c, int argc, const manta_arg *argv)
{
    static char text[100000];
    (void)argc, (void)argv;
    memset(text, 'x', sizeof text - 1);
    return manta_return_str(c, text);
}
MANTA_REGISTER(returns_large_string, ">y");

static manta_status returns_uninvited(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, 1);
}
MANTA_REGISTER(returns_uninvited, "l>");

static manta_status map_double(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_f64(c, (double)argv[0].l);
}
MANTA_REGISTER(map_double, "l>l");

static void result_missing(void)
{
    manta_error e;
    CHECK_FAILS(manta_call("returns_nothing", NULL, MANTA_NO_ARGS), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "returns_nothing returned no value");
    goes_on();
}
static void result_of_another_type(void)
{
    manta_error e;
    CHECK_FAILS(manta_call("returns_double", NULL, MANTA_NO_ARGS), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "returned 'd'");
    CHECK_SAYS(e.message, ">l");
    goes_on();
}
static void result_of_another_type_in_the_store(void)
{
    manta_error e;
    CHECK_FAILS(manta_call("returns_large_string", NULL, MANTA_NO_ARGS), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "returned 's'");
    goes_on();
}
static void result_uninvited(void)
{
    manta_error e;
    CHECK_FAILS(manta_call("returns_uninvited", NULL, MANTA_ARGS(manta_i64(1))), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "no value");
    goes_on();
}
static void result_of_another_type_in_map(void)
{
    manta_error e;
    int64_t     items[10] = {0}, results[10];
    CHECK_CODE(manta_map("map_double", NULL, items, 10, sizeof items[0], 0, results, sizeof results[0], &e), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "returned 'd'");
    goes_on();
}

static void result_of_a_method(void)
{
    manta_error  e;
    manta_actor *a = manta_actor_new("thing", NULL, MANTA_NO_ARGS);
    CHECK_FAILS(manta_actor_call(a, "wrong", MANTA_NO_ARGS), MANTA_ETYPE, &e);
    CHECK_SAYS(e.message, "returned 's'");
    CHECK_FAILS(manta_actor_call(a, "silent", MANTA_NO_ARGS), MANTA_ETYPE, &e);
    CHECK_I64(manta_actor_call(a, "one", MANTA_NO_ARGS), 1);
    manta_actor_free(a);
}

/* ---- what is registered ---- */

static void init_refuses(const char *first, const char *second)
{
    manta_error e;
    CHECK_CODE(manta_init(&test_argc, &test_argv, NULL, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, first);
    CHECK_SAYS(e.message, second);
    CHECK(!manta_is_initialized());
    CHECK_FAILS(add_remote(NULL, 1, 2), MANTA_EINVAL, &e);
}
static void refuses_signature(const char *signature, const char *says)
{
    static manta_entry entry = {"signed_wrong", NULL, returns_nothing, "mine.c", 12, {0}, {0}};
    entry.signature = signature;
    manta_register(&entry);
    init_refuses(says, "mine.c:12");
}
static void signature_unknown_letter(void)
{
    refuses_signature("i>i", "'i' can't stand at place 1");
}
static void signature_unknown_result(void)
{
    refuses_signature("l>r", "'r' can't stand at place 3");
}
static void signature_star_inside(void)
{
    refuses_signature("*l>l", "'*' can't stand at place 1");
}
static void signature_too_long(void)
{
    char signature[MANTA_ARGS_MAX + 4] = "";
    memset(signature, 'l', MANTA_ARGS_MAX + 1);
    memcpy(signature + MANTA_ARGS_MAX + 1, ">l", 3);
    refuses_signature(signature, "takes 257 arguments, and 256 is the most");
}
static void signature_of_three_parts(void)
{
    refuses_signature("l>l>l", "'>' can't stand at place 4");
}
static void signature_none(void)
{
    refuses_signature(NULL, "has no signature");
}
static void function_without_a_body(void)
{
    static manta_entry entry = {"bodiless", ">l", NULL, "mine.c", 13, {0}, {0}};
    manta_register(&entry);
    init_refuses("bodiless", "mine.c:13");
}
/* Two files, each with a static function of that name. */
static void name_of_two_functions(void)
{
    static manta_entry entry = {"add", "ll>l", returns_nothing, "other.c", 7, {0}, {0}};
    manta_register(&entry);
    init_refuses("misuse.h:", "other.c:7");
}
static void name_of_two_actor_types(void)
{
    static manta_actor_type type = {.name = "thing", .signature = "l", .create = thing_new, .file = "other.c", .line = 8};
    type.create = (manta_status(*)(manta_ctx *, void **, int, const manta_arg *))(void (*)(void))thing_one;
    manta_register_actor(&type);
    init_refuses("misuse.h:", "other.c:8");
}
static void name_of_two_methods(void)
{
    static manta_actor_type type = {.name = "twice",
                                    .signature = "",
                                    .create = thing_new,
                                    .file = "other.c",
                                    .line = 9,
                                    .methods = {{"one", ">l", thing_one}, {"one", ">l", thing_silent}}};
    manta_register_actor(&type);
    init_refuses("two methods one", "other.c:9");
}
static void method_without_a_body(void)
{
    static manta_actor_type type = {
        .name = "bodiless", .signature = "", .create = thing_new, .file = "other.c", .line = 10, .methods = {{"one", ">l", NULL}}};
    manta_register_actor(&type);
    init_refuses("method one", "other.c:10");
}
static void method_with_a_star_inside(void)
{
    static manta_actor_type type = {.name = "starred",
                                    .signature = "",
                                    .create = thing_new,
                                    .file = "other.c",
                                    .line = 13,
                                    .methods = {{"one", "*l>l", thing_one}}};
    manta_register_actor(&type);
    init_refuses("'*' can't stand at place 1", "other.c:13");
}
static void actor_type_without_a_signature(void)
{
    static manta_actor_type type = {.name = "unsigned", .create = thing_new, .file = "other.c", .line = 11};
    manta_register_actor(&type);
    init_refuses("has no signature", "other.c:11");
}
static void actor_type_without_create(void)
{
    static manta_actor_type type = {.name = "uncreated", .signature = "", .file = "other.c", .line = 12};
    manta_register_actor(&type);
    init_refuses("has no create", "other.c:12");
}
static void register_of_nothing(void)
{
    static manta_entry      entry;
    static manta_actor_type type;
    manta_error             e;
    manta_register(NULL);
    manta_register(&entry);
    manta_register_actor(NULL);
    manta_register_actor(&type);
    CHECK_CODE(manta_init(&test_argc, &test_argv, NULL, &e), MANTA_OK, &e);
    goes_on();
    manta_shutdown();
}
/* A header with a task, in two files: no misuse. */
static void name_of_one_function_in_two_files(void)
{
    CHECK_I64(misuse_shared_remote(NULL, 1), 2);
    CHECK_I64(misuse_other_call(2), 3);
}

/* ---- before manta_init, and after manta_shutdown ---- */

static void everything_fails(manta_status code, manta_ref *ref, manta_actor *a)
{
    manta_error    e;
    manta_view     view;
    manta_buffer   buffer;
    manta_region   region;
    uint64_t       watch;
    manta_ref     *many[2];
    manta_resource cpu = {"CPU", 1};
    manta_bundle   bundle = {.resources = &cpu, .resource_count = 1};
    int64_t        items[2] = {1, 2}, results[2];
    CHECK_FAILS(add_remote(NULL, 1, 2), code, &e);
    CHECK_FAILS(manta_call("no such function", NULL, MANTA_NO_ARGS), code, &e);
    CHECK_FAILS(manta_put("x", 1), code, &e);
    CHECK_FAILS(manta_put_refs("x", 1, &ref, 1), code, &e);
    CHECK_FAILS(manta_actor_call(manta_actor_new("thing", NULL, MANTA_NO_ARGS), "one", MANTA_NO_ARGS), code, &e);
    CHECK_FAILS(manta_actor_call(a, "one", MANTA_NO_ARGS), code, &e);
    CHECK_FAILS(manta_actor_end(a), code, &e);
    if (code != MANTA_ECONN) { /* what is in this process can be read when the job is over */
        CHECK_EQ(manta_get(ref, 0, &view, &e), code);
        CHECK_EQ(manta_get_i64(ref, 0, items, &e), code);
    }
    CHECK_EQ(manta_wait(&ref, 1, 1, 0, NULL, &e), -code);
    CHECK_EQ(manta_cancel(ref, NULL, &e), code);
    CHECK_EQ(manta_free_now(&ref, 1, &e), code);
    CHECK_EQ(manta_on_ready(ref, nothing, NULL, &e), code);
    CHECK_EQ(manta_on_free(ref, (manta_free_fn)(void (*)(void))nothing, NULL, &e), code);
    CHECK_EQ(manta_event_fd(&e), -code);
    CHECK_EQ(manta_create(100, &buffer, &e), code);
    CHECK_EQ(manta_region_open(100, 0, &region, &e), code);
    CHECK_EQ(manta_nodes(NULL, 0, &e), -code);
    CHECK(!manta_nodes_news(MANTA_NEWS_FREE, &e));
    CHECK_EQ(e.code, code);
    CHECK_EQ(manta_node_watch(1, (manta_death_fn)(void (*)(void))nothing, NULL, &watch, &e), code);
    CHECK_EQ(manta_actor_watch(a, (manta_death_fn)(void (*)(void))nothing, NULL, &watch, &e), code);
    CHECK(!manta_actor_find("x", 0, &e));
    CHECK_EQ(e.code, code);
    CHECK(!manta_pg_new(&bundle, 1, NULL, &e));
    CHECK_EQ(e.code, code);
    CHECK(!manta_pg_find(NULL, "x", &e));
    CHECK_EQ(e.code, code);
    CHECK(!manta_env_new(&(manta_runtime_env){0}, &e));
    CHECK_EQ(e.code, code);
    CHECK_EQ(manta_map("map_double", NULL, items, 2, 8, 0, results, 8, &e), code);
    manta_generator *g = manta_call_stream("counts", NULL, MANTA_ARGS(manta_i64(1)));
    CHECK_EQ(manta_next(g, 0, &view, &e), code);
    manta_generator_free(g);
    manta_call_n("add", NULL, MANTA_ARGS(manta_i64(1), manta_i64(2)), many, 2);
    CHECK_FAILS(many[0], code, &e);
    CHECK_FAILS(many[1], code, &e);
    CHECK(!manta_is_initialized());
    manta_unwatch(1);
    manta_progress();
    manta_actor_kill(a, false);
}
static void before_the_beginning(void)
{
    everything_fails(MANTA_EINVAL, (manta_ref *)(uintptr_t)0x100000201, (manta_actor *)(uintptr_t)0x100000001);
    CHECK_EQ(manta_shutdown(), 0);
    CHECK_EQ(manta_free((manta_ref *)(uintptr_t)0x100000201), MANTA_EINVAL);
}
/* What manta_init's comment allows before it. */
static int set_before; /* by main, of every process of this program */
MANTA_TASK(int64_t, was_set_before, (int64_t, x))
{
    return x + set_before;
}
static void allowed_before_init(void)
{
    manta_error e;
    manta_view  none = {.hold = NULL};
    manta_arg   args[] = {manta_i64(1), manta_u64(2), manta_f64(3), manta_bool(true), manta_str("x"), manta_bytes_of("x", 1)};
    CHECK(args[5].y.size == 1);
    CHECK(!manta_is_initialized());
    CHECK(!strcmp(manta_status_name(MANTA_EHANDLE), "EHANDLE"));
    CHECK(!strcmp(manta_status_name(-7), "UNKNOWN"));
    for (int i = 0; i < 2; i++) {
        manta_ref *failed = manta_call("add", NULL, 2, args);
        CHECK_EQ(manta_get(failed, 0, &none, &e), MANTA_EINVAL);
        CHECK_SAYS(e.message, "manta_init");
        CHECK_EQ(manta_free(failed), MANTA_OK);
        CHECK_EQ(manta_free(NULL), MANTA_OK);
        CHECK_EQ(manta_release(&none), MANTA_OK);
        CHECK_EQ(manta_actor_free(NULL), MANTA_OK);
        CHECK_EQ(manta_generator_free(NULL), MANTA_OK);
        CHECK_EQ(manta_group_free(NULL), MANTA_OK);
        CHECK_EQ(manta_pg_free(NULL), MANTA_OK);
        CHECK_EQ(manta_env_free(NULL), MANTA_OK);
        CHECK_EQ(manta_shutdown(), 0);
        CHECK(!manta_group_new("thing", NULL, 2, MANTA_NO_ARGS, &e) && e.code == MANTA_EINVAL);
    }
    CHECK_CODE(manta_init(&test_argc, &test_argv, NULL, &e), MANTA_OK, &e);
    CHECK_I64(was_set_before_remote(NULL, 1), 43);
    CHECK_EQ(manta_shutdown(), 0);
}
static void after_the_end(void)
{
    manta_error      e;
    manta_view       view;
    manta_buffer     buffer;
    manta_ref       *ref = ready_ref(), *pending = add_remote(NULL, 1, 2);
    manta_actor     *a = manta_actor_new("thing", NULL, MANTA_NO_ARGS);
    manta_generator *g = manta_call_stream("counts", NULL, MANTA_ARGS(manta_i64(10)));
    int64_t          x = 0;
    manta_status     code;
    CHECK_CODE(manta_create(10000, &buffer, &e), MANTA_OK, &e);
    CHECK_CODE(manta_get(ref, 0, &view, &e), MANTA_OK, &e);
    manta_shutdown();
    everything_fails(MANTA_ECONN, ref, a);
    code = manta_get_i64(pending, TEST_WAIT_MS, &x, &e); /* its answer may have come */
    CHECK(code == MANTA_ECONN || (code == MANTA_OK && x == 3));
    CHECK(manta_next(g, 0, &(manta_view){0}, &e) != MANTA_OK);
    CHECK_FAILS(manta_seal(&buffer), MANTA_ECONN, &e);
    CHECK_EQ(manta_release(&view), MANTA_OK);
    CHECK_I64(manta_dup(ref), 3);
    CHECK_EQ(manta_free(ref), MANTA_OK);
    CHECK_EQ(manta_free(ref), MANTA_EHANDLE);
    CHECK_EQ(manta_get(ref, 0, &view, &e), MANTA_EHANDLE);
    CHECK_EQ(manta_actor_free(a), MANTA_OK);
    CHECK_EQ(manta_actor_free(a), MANTA_EHANDLE);
    CHECK_EQ(manta_generator_free(g), MANTA_OK);
    CHECK_EQ(manta_generator_free(g), MANTA_EHANDLE);
    CHECK_EQ(manta_free(pending), MANTA_OK);
    CHECK_EQ(manta_shutdown(), 0);
}
/* Handles of the job before are right if they were, and wrong if they were. */
static void handles_of_the_job_before(void)
{
    manta_error  e;
    manta_ref   *kept = ready_ref(), *freed = ready_ref();
    manta_actor *a = manta_actor_new("thing", NULL, MANTA_NO_ARGS);
    CHECK_EQ(manta_free(freed), MANTA_OK);
    manta_shutdown();
    CHECK_CODE(manta_init(&test_argc, &test_argv, NULL, &e), MANTA_OK, &e);
    manta_ref *others[1000];
    for (int i = 0; i < 1000; i++)
        others[i] = add_remote(NULL, i, i);
    CHECK_EQ(manta_get(freed, 0, &(manta_view){0}, &e), MANTA_EHANDLE);
    CHECK_EQ(manta_free(freed), MANTA_EHANDLE);
    CHECK_FAILS(manta_actor_call(a, "one", MANTA_NO_ARGS), MANTA_EACTOR_DIED, &e);
    CHECK_EQ(manta_actor_free(a), MANTA_OK);
    CHECK_EQ(manta_actor_free(a), MANTA_EHANDLE);
    CHECK_I64(kept, 3);
    for (int i = 0; i < 1000; i++)
        CHECK_I64(others[i], 2 * i);
}

/* ---- fork ---- */

static void in_a_child(void (*fn)(void *), void *arg)
{
    int   status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        fn(arg);
        _exit(42);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 42);
}
struct parents {
    manta_ref       *ref, *pending;
    manta_actor     *a;
    manta_generator *g;
};
static void child_calls(void *arg)
{
    struct parents *p = arg;
    manta_error     e;
    everything_fails(MANTA_EFORKED, p->ref, p->a);
    CHECK_EQ(manta_get(p->ref, TEST_WAIT_MS, &(manta_view){0}, &e), MANTA_EFORKED);
    CHECK_SAYS(e.message, "forked");
    CHECK_EQ(manta_get(p->pending, TEST_WAIT_MS, &(manta_view){0}, &e), MANTA_EFORKED);
    CHECK_EQ(manta_next(p->g, 0, &(manta_view){0}, &e), MANTA_EFORKED);
    CHECK_EQ(manta_free(p->ref), MANTA_EFORKED);
    CHECK_EQ(manta_actor_free(p->a), MANTA_EFORKED);
    CHECK_EQ(manta_init(&test_argc, &test_argv, NULL, &e), MANTA_EFORKED);
    CHECK_EQ(manta_node(), 0);
}
static void child_shuts_down(void *arg)
{
    (void)arg;
    CHECK_EQ(manta_shutdown(), MANTA_EFORKED);
    exit(42);
}
static void fork_and_call(void)
{
    struct parents p = {ready_ref(), add_remote(NULL, 1, 2), manta_actor_new("thing", NULL, MANTA_NO_ARGS),
                        manta_call_stream("counts", NULL, MANTA_ARGS(manta_i64(10)))};
    for (int i = 0; i < 5; i++) {
        in_a_child(child_calls, &p);
        goes_on();
    }
    CHECK_I64(p.ref, 3);
    CHECK_I64(p.pending, 3);
    CHECK_I64(manta_actor_call(p.a, "one", MANTA_NO_ARGS), 1);
    manta_actor_free(p.a);
    manta_generator_free(p.g);
}
static void fork_and_shut_down(void)
{
    in_a_child(child_shuts_down, NULL);
    for (int i = 0; i < 100; i++)
        goes_on();
}
/* There is nothing of the parent's left, so the child may have a cluster of its own. */
static void child_begins_anew(void *unused)
{
    manta_error e;
    (void)unused;
    CHECK_CODE(manta_init(&test_argc, &test_argv, NULL, &e), MANTA_OK, &e);
    goes_on();
    CHECK_EQ(manta_shutdown(), MANTA_OK);
}
static void fork_after_the_end(void)
{
    goes_on();
    manta_shutdown();
    in_a_child(child_begins_anew, NULL);
}
/* A child that no handler of fork was told of. */
static void fork_by_the_bare_call(void)
{
    struct parents p = {ready_ref(), add_remote(NULL, 1, 2), manta_actor_new("thing", NULL, MANTA_NO_ARGS),
                        manta_call_stream("counts", NULL, MANTA_ARGS(manta_i64(10)))};
    for (int i = 0; i < 5; i++) {
        int   status;
        pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        CHECK(pid >= 0);
        if (pid == 0) {
            child_calls(&p);
            CHECK_EQ(manta_shutdown(), MANTA_EFORKED);
            _exit(42);
        }
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), 42);
        goes_on();
    }
    CHECK_I64(p.ref, 3);
    CHECK_I64(p.pending, 3);
    CHECK_I64(manta_actor_call(p.a, "one", MANTA_NO_ARGS), 1);
    manta_actor_free(p.a);
    manta_generator_free(p.g);
}
/* Another thread may be anywhere in the library, with its lock. */
static void *keeps_calling(void *arg)
{
    while (!*(atomic_int *)arg)
        goes_on();
    return NULL;
}
static void child_gets(void *arg)
{
    manta_error e;
    CHECK_EQ(manta_get(arg, TEST_WAIT_MS, &(manta_view){0}, &e), MANTA_EFORKED);
}
static void fork_beside_a_thread(void)
{
    atomic_int is_over = 0;
    pthread_t  thread;
    manta_ref *ref = ready_ref();
    CHECK_EQ(pthread_create(&thread, NULL, keeps_calling, &is_over), 0);
    for (int i = 0; i < 50; i++)
        in_a_child(child_gets, ref);
    is_over = 1;
    pthread_join(thread, NULL);
    manta_free(ref);
}
/* The child of a task comes back from the function as its parent does: it must not answer in its place. */
static manta_status forks(manta_ctx *c, int argc, const manta_arg *argv)
{
    int   status;
    pid_t pid = fork();
    (void)argc, (void)argv;
    if (pid == 0)
        return manta_return_i64(c, 1);
    return manta_return_i64(c, waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? 100 + WEXITSTATUS(status) : 0);
}
MANTA_REGISTER(forks, ">l");
static void fork_in_a_task(void)
{
    for (int i = 0; i < 5; i++)
        CHECK_I64(manta_call("forks", NULL, MANTA_NO_ARGS), 100 + MANTA_EFORKED);
    goes_on();
}

/* ---- signal handlers ---- */

static manta_ref         *handler_ref;
static struct test_board *handler_board; /* word 0: the handler was told that it may not wait */
static volatile int       handler_codes[MANTA_EUNSUPPORTED + 1], handler_calls;
static void               on_signal(int number)
{
    int          before = errno;
    int64_t      x;
    manta_status code = manta_get_i64(handler_ref, 100, &x, NULL);
    (void)number;
    if (code == MANTA_EDEADLK && handler_board)
        atomic_store(&handler_board->words[0], 1);
    errno = before;
    handler_codes[code]++;
    handler_calls++;
}
static void signals_begin(long us)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, us}, {0, us}};
    CHECK_EQ(sigaction(SIGALRM, &act, NULL), 0);
    CHECK_EQ(setitimer(ITIMER_REAL, &every, NULL), 0);
}
static void signals_end(void)
{
    CHECK_EQ(setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL), 0);
}
static manta_status sleeps(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    test_sleep_ms((int)argv[0].l);
    return manta_return_i64(c, 5);
}
MANTA_REGISTER(sleeps, "l>l");
static manta_status until_told(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, test_board_wait(&test_board_map(argv[0].u)->words[0], 1) ? 5 : 0);
}
MANTA_REGISTER(until_told, "u>l");
/* The handler comes while its thread waits in the library: it is told, and neither waits for the other. The wait lasts until it was
 * told. */
static void get_in_a_signal_handler(void)
{
    uint64_t    number;
    int64_t     x;
    manta_error e;
    handler_board = test_board_new(&number);
    handler_ref = manta_call("until_told", NULL, MANTA_ARGS(manta_u64(number)));
    signals_begin(20 * 1000);
    CHECK_CODE(manta_get_i64(handler_ref, TEST_WAIT_MS, &x, &e), MANTA_OK, &e);
    signals_end();
    CHECK_EQ(x, 5);
    CHECK(handler_codes[MANTA_EDEADLK] > 0);
    manta_free(handler_ref);
    goes_on();
}
/* The handler comes wherever its thread is in many short calls. */
static void get_in_signal_handlers_anywhere(void)
{
    static char data[2000];
    handler_ref = ready_ref();
    signals_begin(500);
    for (int64_t until = test_now_ms() + 1000; test_now_ms() < until;) {
        manta_error e;
        manta_view  view;
        manta_ref  *ref = manta_put(data, sizeof data);
        CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        manta_release(&view);
        manta_free(ref);
    }
    signals_end();
    CHECK(handler_calls > 0);
    CHECK_EQ(handler_codes[MANTA_EDEADLK] + handler_codes[MANTA_OK], handler_calls);
    manta_free(handler_ref);
    goes_on();
}

/* ---- calls where they may not be made ---- */

static void waits_there(void *user, manta_ref *ref)
{
    manta_error e;
    int64_t     x;
    manta_ref  *slow = manta_call("sleeps", NULL, MANTA_ARGS(manta_i64(200)));
    (void)ref;
    *(atomic_int *)user = manta_get_i64(slow, TEST_WAIT_MS, &x, &e);
    manta_free(slow);
}
static void wait_inside_a_callback(void)
{
    atomic_int  code = 0;
    manta_error e;
    manta_ref  *ref = ready_ref();
    CHECK_CODE(manta_on_ready(ref, waits_there, &code, &e), MANTA_OK, &e);
    for (int i = 0; !code && i < TEST_WAIT_MS; i++, test_sleep_ms(1))
        manta_progress();
    CHECK_EQ(code, MANTA_EDEADLK);
    manta_free(ref);
    goes_on();
}
static void shutdown_inside_a_task(void)
{
    goes_on();
    CHECK_I64(manta_call("shuts_down", NULL, MANTA_NO_ARGS), 0);
    goes_on();
}
static manta_status shuts_down(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, manta_shutdown());
}
MANTA_REGISTER(shuts_down, ">l");
static manta_status inits_again(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_error e;
    (void)argc, (void)argv;
    return manta_return_i64(c, manta_init(NULL, NULL, NULL, &e));
}
MANTA_REGISTER(inits_again, ">l");
static void init_inside_a_task(void)
{
    CHECK_I64(manta_call("inits_again", NULL, MANTA_NO_ARGS), MANTA_EINVAL);
    goes_on();
}
static manta_status without_a_context(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    bool all = manta_return_i64(NULL, 1) == MANTA_EINVAL && manta_return_str(NULL, "x") == MANTA_EINVAL &&
               manta_return_bytes(NULL, "x", 1) == MANTA_EINVAL && manta_return_at(NULL, 0, manta_i64(1)) == MANTA_EINVAL &&
               manta_yield(NULL, manta_i64(1)) == MANTA_EINVAL && !manta_is_cancelled(NULL) && manta_attempt(NULL) == 0 &&
               manta_fail(NULL, 1, "x") == MANTA_ETASK;
    manta_actor_exit(NULL);
    manta_actor_save(NULL);
    return manta_return_i64(c, all);
}
MANTA_REGISTER(without_a_context, ">l");
static void context_of_nothing(void)
{
    CHECK_I64(manta_call("without_a_context", NULL, MANTA_NO_ARGS), 1);
    goes_on();
}
static void entry_of_nothing(void)
{
    static manta_entry never = {"never", ">l", NULL, "mine.c", 14, {0}, {0}};
    manta_error        e;
    CHECK_FAILS(manta_call_entry(NULL, NULL, MANTA_NO_ARGS), MANTA_ENOFUNC, &e);
    CHECK_FAILS(manta_call_entry(&never, NULL, MANTA_NO_ARGS), MANTA_ENOFUNC, &e);
    goes_on();
}
static void results_of_a_wrong_number(void)
{
    manta_error e;
    manta_ref  *many[3];
    CHECK_EQ(manta_call_n("add", NULL, MANTA_ARGS(manta_i64(1), manta_i64(2)), NULL, 1), MANTA_EINVAL);
    CHECK_EQ(manta_call_n("add", NULL, MANTA_ARGS(manta_i64(1), manta_i64(2)), many, 0), MANTA_EINVAL);
    manta_call_n("add", NULL, MANTA_ARGS(manta_i64(1), manta_i64(2)), many, 3);
    for (int i = 0; i < 3; i++)
        CHECK_FAILS(many[i], MANTA_ETYPE, &e);
    goes_on();
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(result_missing),
        CASE(result_of_another_type),
        CASE(result_of_another_type_in_the_store),
        CASE(result_uninvited),
        CASE(result_of_another_type_in_map),
        CASE(result_of_a_method),
        CASE(signature_unknown_letter, .no_init = true),
        CASE(signature_unknown_result, .no_init = true),
        CASE(signature_star_inside, .no_init = true),
        CASE(signature_too_long, .no_init = true),
        CASE(signature_of_three_parts, .no_init = true),
        CASE(signature_none, .no_init = true),
        CASE(function_without_a_body, .no_init = true),
        CASE(name_of_two_functions, .no_init = true),
        CASE(name_of_two_actor_types, .no_init = true),
        CASE(name_of_two_methods, .no_init = true),
        CASE(method_without_a_body, .no_init = true),
        CASE(method_with_a_star_inside, .no_init = true),
        CASE(actor_type_without_a_signature, .no_init = true),
        CASE(actor_type_without_create, .no_init = true),
        CASE(register_of_nothing, .no_init = true),
        CASE(name_of_one_function_in_two_files),
        CASE(before_the_beginning, .no_init = true),
        CASE(allowed_before_init, .no_init = true),
        CASE(after_the_end),
        CASE(handles_of_the_job_before),
        CASE(fork_and_call),
        CASE(fork_and_shut_down),
        CASE(fork_after_the_end),
        CASE(fork_by_the_bare_call),
        CASE(fork_beside_a_thread),
        CASE(fork_in_a_task),
        CASE(get_in_a_signal_handler),
        CASE(get_in_signal_handlers_anywhere),
        CASE(wait_inside_a_callback),
        CASE(shutdown_inside_a_task),
        CASE(init_inside_a_task),
        CASE(context_of_nothing),
        CASE(entry_of_nothing),
        CASE(results_of_a_wrong_number),
        {.name = NULL},
    };
    set_before = 42;
    return test_main(argc, argv, cases);
}
