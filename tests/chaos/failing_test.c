/* SPDX-License-Identifier: Apache-2.0
 *
 * failing_test.c - every n-th malloc, write, fsync, fork, memfd_create or mmap of driver and workers, of the raylet or of the
 * head fails: what is asked for is done or ends with a typed error, nothing crashes, hangs or is left over.
 *
 * Each case runs this program again as a driver whose library, raylet or head has failing.c preloaded.
 */
#include "tests/integration/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 60, WAIT_MS = 15 * 1000 };

MANTA_TASK(int64_t, twice, (int64_t, x))
{
    return 2 * x;
}
static manta_status grow(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_bytes(c, argv[0].y.data, argv[0].y.size / 2);
}
MANTA_REGISTER(grow, "y>y");
/* A worker that owns: it submits, and holds a value of the driver's. */
static manta_status nested(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_error  e;
    manta_view   view;
    int64_t      got;
    manta_ref   *ref = twice_remote(NULL, 4);
    manta_status code = manta_get_i64(ref, WAIT_MS, &got, &e);
    (void)argc;
    manta_free(ref);
    if (code == MANTA_OK && (code = manta_get(argv[0].r, WAIT_MS, &view, &e)) == MANTA_OK)
        manta_release(&view);
    if (code)
        return manta_fail(c, 0, "%s", e.message), code;
    return manta_return_i64(c, got);
}
MANTA_REGISTER(nested, "r>l");
static manta_status keeper_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = NULL;
    return MANTA_OK;
}
static manta_status keeper_add(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    return manta_return_i64(c, argv[0].l + 1);
}
MANTA_ACTOR(keeper, "", keeper_new, NULL, {"add", "l>l", keeper_add});

static int         failures;
static _Atomic int deaths;

static void died(void *user, const manta_death *death)
{
    (void)user;
    CHECK(death->message[0]);
    deaths++;
}

/* A value, or an error that says something. */
static void settle(manta_ref *take_ref)
{
    manta_error  e;
    manta_view   view;
    manta_status code = manta_get(take_ref, WAIT_MS, &view, &e);
    if (code == MANTA_OK)
        manta_release(&view);
    failures += code != MANTA_OK;
    if (code && (code == MANTA_ETIMEDOUT || code == MANTA_EINTERNAL || code != e.code || !e.message[0]))
        test_fail(__FILE__, __LINE__, "a bad end: error %d: %s", code, e.message);
    manta_free(take_ref);
}

/* A watch that was accepted tells of the death, unless the library says that it is broken. */
static void watched_death(manta_actor *a)
{
    manta_error  e;
    uint64_t     watch;
    int64_t      until = test_now_ms() + WAIT_MS;
    manta_status code = manta_actor_watch(a, died, NULL, &watch, &e);
    if (code) {
        CHECK(e.message[0]);
        return;
    }
    manta_actor_kill(a, false);
    while (!deaths && manta_wait(NULL, 0, 0, 0, NULL, &e) >= 0) {
        if (test_now_ms() > until)
            test_fail(__FILE__, __LINE__, "nobody told of the actor's death");
        test_sleep_ms(1);
    }
    manta_unwatch(watch);
}

static manta_ref *call_one(int i, manta_actor *a, const void *bytes, size_t size)
{
    manta_ref *put = i % 2 ? manta_put(bytes, size / (size_t)(1 + i % 5)) : NULL, *ref;
    if (i % 4 == 0)
        return manta_actor_call(a, "add", MANTA_ARGS(manta_i64(i)));
    if (i % 4 == 2)
        return twice_remote(NULL, i);
    ref = manta_call(i % 4 == 1 ? "grow" : "nested", NULL, MANTA_ARGS(manta_ref_arg(put)));
    manta_free(put);
    return ref;
}

/* The driver whose calls, or whose daemons' calls, fail. */
static void work(void)
{
    static char     bytes[200000];
    manta_error     e;
    manta_init_opts opts = {.num_cpus = 2, .timeout_ms = 15000};
    manta_status    code = manta_init(&test_argc, &test_argv, &opts, &e);
    if (code) { /* also an end; it says why */
        CHECK(e.message[0]);
        printf("init: error %d: %s\n", code, e.message);
        return;
    }
    manta_ref   *refs[TASKS];
    manta_actor *a = manta_actor_new("keeper", &(manta_actor_opts){.max_restarts = 3}, MANTA_NO_ARGS);
    for (int i = 0; i < TASKS; i++)
        refs[i] = call_one(i, a, bytes, sizeof bytes);
    for (int i = 0; i < TASKS; i++)
        settle(refs[i]);
    watched_death(a);
    manta_actor_free(a);
    manta_shutdown();
    printf("%d of %d failed\n", failures, TASKS);
}

static void fail_in(const char *program, const char *call, const char *const *every)
{
    char said[4000];
    setenv("LD_PRELOAD", FAILING_SO, 1);
    setenv("FAIL_IN", program, 1);
    setenv("FAIL_CALL", call, 1);
    for (; *every; every++) {
        setenv("FAIL_EVERY", *every, 1);
        char *argv[] = {"/proc/self/exe", "--run", "work", NULL};
        printf("every %s-th %s in %s\n", *every, call, program);
        fflush(stdout);
        int status = test_program(argv, said, sizeof said);
        if (status != 0)
            test_fail(__FILE__, __LINE__, "every %s-th %s in %s fails: exit status %d: %s", *every, call, program, status, said);
    }
    unsetenv("LD_PRELOAD");
}

#define EVERY(...) \
    (const char *const[]) \
    { \
        __VA_ARGS__, NULL \
    }
static void library_memory(void)
{
    fail_in("exe", "malloc", EVERY("1", "2", "3", "7", "13", "50", "300", "1000"));
}
static void library_calls(void)
{
    fail_in("exe", "mmap", EVERY("1", "2", "5", "11"));
    fail_in("exe", "memfd_create", EVERY("1", "2"));
    fail_in("exe", "write", EVERY("1", "3"));
    fail_in("exe", "fork", EVERY("2", "3"));
}
static void raylet_calls(void)
{
    fail_in("manta-raylet", "memfd_create", EVERY("3", "5", "9"));
    fail_in("manta-raylet", "mmap", EVERY("3", "5", "9"));
    fail_in("manta-raylet", "write", EVERY("5", "50"));
    fail_in("manta-raylet", "posix_spawn", EVERY("1", "2"));
}
/* A daemon without memory ends with a message; whoever needs it hears of it. */
static void raylet_memory(void)
{
    fail_in("manta-raylet", "malloc", EVERY("1", "2", "3", "7", "13", "50", "300", "1000", "4000"));
}
static void head_memory(void)
{
    fail_in("manta-head", "malloc", EVERY("1", "3", "7", "13", "50", "300", "1000"));
}
static void head_calls(void)
{
    fail_in("manta-head", "write", EVERY("3", "20"));
    fail_in("manta-head", "fsync", EVERY("1", "2"));
    fail_in("manta-head", "mmap", EVERY("2"));
}

#define NO_INIT {0}, true, 0
static const struct test_case cases[] = {
    {"library_memory", library_memory, NO_INIT},
    {"library_calls", library_calls, NO_INIT},
    {"raylet_calls", raylet_calls, NO_INIT},
    {"head_calls", head_calls, NO_INIT},
    {"raylet_memory", raylet_memory, NO_INIT},
    {"head_memory", head_memory, NO_INIT},
    {NULL, NULL, {0}, false, 0},
    {"work", work, NO_INIT}, /* started by the others */
};

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[2], "work") == 0)
        return test_main(argc, argv, &cases[sizeof cases / sizeof cases[0] - 1]);
    if (getenv("MANTA_ROLE"))
        return test_main(argc, argv, &cases[sizeof cases / sizeof cases[0] - 1]);
    return test_main(argc, argv, cases);
}
