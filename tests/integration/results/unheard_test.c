/* SPDX-License-Identifier: Apache-2.0
 *
 * unheard_test.c - errors of calls that nobody asks for: to the program's own function, or to the log.
 */
#include "tests/integration/harness.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static manta_status fails(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_fail(c, (int)argv[0].l, "failed with %lld", (long long)argv[0].l);
}
MANTA_REGISTER(fails, "l>l");
MANTA_TASK(int64_t, pass, (int64_t, x))
{
    return x;
}
MANTA_TASK(int64_t, slow, (int64_t, ms))
{
    test_sleep_ms((int)ms);
    return ms;
}
/* It calls another one and does not ask. */
static manta_status parent(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    for (int64_t i = 0; i < argv[0].l; i++)
        manta_free(manta_call("fails", NULL, MANTA_ARGS(manta_i64(77))));
    test_sleep_ms(200);
    return manta_return_i64(c, getpid());
}
MANTA_REGISTER(parent, "l>l");

static manta_status idle_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    return MANTA_OK;
}
static manta_status idle_no(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, 0);
}
MANTA_ACTOR_TYPE(idle, .signature = "", .create = idle_new, .methods = {{"no", ">l", idle_no}});

/* ---- what was heard ---- */
enum { HEARD_MAX = 128 };
static struct {
    pthread_mutex_t lock;
    int             calls;
    uint64_t        count;
    manta_error     errors[HEARD_MAX];
    uint64_t        counts[HEARD_MAX];
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void hear(void *user, const manta_error *first, uint64_t count)
{
    pthread_mutex_lock(&heard.lock);
    CHECK(user == &heard);
    if (heard.calls < HEARD_MAX) {
        heard.errors[heard.calls] = *first;
        heard.counts[heard.calls] = count;
    }
    heard.calls++;
    heard.count += count;
    pthread_mutex_unlock(&heard.lock);
}
static uint64_t heard_of(const char *function)
{
    uint64_t count = 0;
    pthread_mutex_lock(&heard.lock);
    for (int i = 0; i < heard.calls && i < HEARD_MAX; i++)
        count += strcmp(heard.errors[i].function, function) == 0 ? heard.counts[i] : 0;
    pthread_mutex_unlock(&heard.lock);
    return count;
}
static uint64_t heard_count(void)
{
    pthread_mutex_lock(&heard.lock);
    uint64_t count = heard.count;
    pthread_mutex_unlock(&heard.lock);
    return count;
}
static void await_heard(uint64_t wanted)
{
    CHECK_SOON(heard_count() >= wanted);
    CHECK_EQ(heard_count(), wanted);
}
static const manta_init_opts hears = {.num_cpus = 2, .on_error = hear, .on_error_user = &heard};

static void told(void)
{
    for (int i = 0; i < 100; i++)
        manta_free(manta_call("fails", NULL, MANTA_ARGS(manta_i64(42)))); /* before it has failed */
    await_heard(100);
    CHECK_EQ(heard.errors[0].code, MANTA_ETASK);
    CHECK_EQ(heard.errors[0].user_code, 42);
    CHECK_STR(heard.errors[0].function, "fails");
    CHECK_STR(heard.errors[0].message, "failed with 42");
    CHECK(heard.errors[0].pid > 0 && heard.errors[0].task[0]);
    manta_ref  *r = manta_call("fails", NULL, MANTA_ARGS(manta_i64(43)));
    manta_error e;
    CHECK_EQ(manta_wait(&r, 1, 1, TEST_WAIT_MS, NULL, &e), 1);
    test_sleep_ms(20);
    CHECK_EQ(heard_count(), 100); /* somebody has it, and may ask */
    manta_free(r);
    await_heard(101);
    manta_free(manta_call("no such function", NULL, MANTA_NO_ARGS)); /* it can't be made at all */
    await_heard(102);
    CHECK_EQ(heard_of("no such function"), 1);
}

static void ready(void *user, manta_ref *ref)
{
    (void)ref;
    atomic_store((_Atomic int *)user, 1);
}
static void heard_otherwise(void)
{
    _Atomic int is_ready = 0;
    manta_error e;
    int64_t     x, items[4] = {1, 2, 3, 4}, results[4];
    manta_view  view;
    CHECK_FAILS(manta_call("fails", NULL, MANTA_ARGS(manta_i64(1))), MANTA_ETASK, &e); /* asked */
    manta_ref *r = manta_call("fails", NULL, MANTA_ARGS(manta_i64(2)));                /* a callback */
    CHECK_CODE(manta_on_ready(r, ready, &is_ready, &e), MANTA_OK, &e);
    manta_free(r);
    r = manta_call("fails", NULL, MANTA_ARGS(manta_i64(3))); /* a task that takes it, and is asked */
    manta_ref *next = manta_call("pass", NULL, MANTA_ARGS(manta_ref_arg(r)));
    manta_free(r);
    CHECK_CODE(manta_get_i64(next, TEST_WAIT_MS, &x, &e), MANTA_ETASK, &e);
    manta_free(next);
    r = slow_remote(NULL, 10000); /* cancelled */
    manta_cancel(r, &(manta_cancel_opts){.force = true}, &e);
    manta_free(r);
    manta_actor_opts large = {.num_cpus = 2};
    manta_actor *first = manta_actor_new("idle", &large, MANTA_NO_ARGS), *second = manta_actor_new("idle", &large, MANTA_NO_ARGS);
    CHECK_EQ(manta_get_i64(r = manta_actor_call(first, "no", MANTA_NO_ARGS), TEST_WAIT_MS, &x, &e), MANTA_OK);
    manta_free(r);
    manta_free(manta_actor_call(second, "no", MANTA_NO_ARGS)); /* killed before it has found room */
    CHECK_EQ(manta_actor_kill(second, false), MANTA_OK);
    CHECK_EQ(manta_actor_kill(first, false), MANTA_OK);
    manta_actor_free(first);
    manta_actor_free(second);
    manta_generator *g = manta_call_stream("fails", NULL, MANTA_ARGS(manta_i64(4))); /* its end */
    CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_ETASK, &e);
    manta_generator_free(g);
    CHECK_CODE(manta_map("fails", NULL, items, 4, 8, 1, results, 8, &e), MANTA_ETASK, &e); /* its first */
    while (!atomic_load(&is_ready))
        test_sleep_ms(1);
    test_sleep_ms(100);
    CHECK_EQ(heard_count(), 0);
    /* of a chain that nobody asks only the end is told, for all of it */
    r = manta_call("fails", NULL, MANTA_ARGS(manta_i64(5)));
    next = manta_call("pass", NULL, MANTA_ARGS(manta_ref_arg(r)));
    manta_free(r);
    manta_free(next);
    await_heard(1);
    test_sleep_ms(20);
    CHECK_EQ(heard_count(), 1);
}

/* More functions than are told apart, and more errors than anybody reads: the number is right, and nothing is lost. */
static void many_functions(void)
{
    char name[16];
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "none%d", i % 100);
        manta_free(manta_call(name, NULL, MANTA_NO_ARGS));
    }
    await_heard(2000);
}

static void at_shutdown(void)
{
    manta_ref  *refs[10];
    manta_error e;
    for (int i = 0; i < 10; i++)
        refs[i] = manta_call("fails", NULL, MANTA_ARGS(manta_i64(6)));
    CHECK_EQ(manta_wait(refs, 10, 10, TEST_WAIT_MS, NULL, &e), 10);
    for (int i = 0; i < 10; i++)
        manta_free(refs[i]);
    manta_free(slow_remote(NULL, 10000)); /* unfinished work is no error */
    manta_shutdown();
    CHECK_EQ(heard_count(), 10);
}

/* ---- the log ---- */
static char *printed; /* what has come to standard error */
static void  read_printed(int fd)
{
    static char text[256 * 1024];
    ssize_t     n = pread(fd, text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = 0;
    printed = text;
}
static int count_of(const char *what)
{
    int n = 0;
    for (const char *at = printed; (at = strstr(at, what)); at++)
        n++;
    return n;
}
/* The sum of all that the driver has said of further errors of "fails". (A worker's lines begin with its name.) */
static int64_t further(void)
{
    int64_t sum = 0, many;
    int     all = 0;
    for (const char *line = printed; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (sscanf(line, "(manta) %" SCNd64 " further errors of fails that nobody has asked for%n", &many, &all) == 1 && all)
            sum += many;
        all = 0;
    }
    return sum;
}
static void await_printed(int fd, const char *what)
{
    int64_t until = test_now_ms() + TEST_WAIT_MS;
    do {
        test_sleep_ms(5);
        read_printed(fd);
    } while (!strstr(printed, what) && test_now_ms() < until);
    CHECK_SAYS(printed, what);
}

static void logged(int log_to_driver)
{
    const manta_init_opts opts = {.num_cpus = 2, .log_to_driver = log_to_driver};
    int                   fd = memfd_create("printed", MFD_CLOEXEC), before = dup(STDERR_FILENO);
    manta_error           e;
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
    fflush(stderr);
    dup2(fd, STDERR_FILENO);
    manta_ref *refs[50];
    for (int i = 0; i < 50; i++)
        refs[i] = manta_call("fails", NULL, MANTA_ARGS(manta_i64(42)));
    CHECK_EQ(manta_wait(refs, 50, 50, TEST_WAIT_MS, NULL, &e), 50); /* what fails after the end is told nobody */
    for (int i = 0; i < 50; i++)
        manta_free(refs[i]);
    manta_ref *last = manta_call("parent", NULL, MANTA_ARGS(manta_i64(3)));
    int64_t    pid = test_i64(last, __FILE__, __LINE__);
    if (log_to_driver > 0)
        await_printed(fd, "failed with 77");
    manta_shutdown();
    dup2(before, STDERR_FILENO);
    close(before);
    read_printed(fd);
    close(fd);
    if (log_to_driver < 0) {
        CHECK_STR(printed, "");
        return;
    }
    CHECK_SAYS(printed, "(manta) fails (");
    CHECK_SAYS(printed, "unheard_test.c:");
    CHECK_SAYS(printed, "failed, and nobody has asked for its result: error 8: failed with 42 [node 1, pid ");
    CHECK_EQ(count_of("failed with 42"), 1);
    CHECK_EQ(further(), 49); /* in one line, or in several where the driver was slow */
    char from[64];
    snprintf(from, sizeof from, "pid=%lld, node=1) (manta) fails (", (long long)pid);
    CHECK_SAYS(printed, from); /* a worker's, on its own standard error */
    CHECK_EQ(count_of("failed with 77"), 1);
}
static void log_shown(void)
{
    logged(1);
}
static void log_silent(void)
{
    logged(-1);
}

int main(int argc, char **argv)
{
    const struct test_case cases[] = {
        {.name = "unheard_told", told, .opts = hears},
        {.name = "unheard_heard_otherwise", heard_otherwise, .opts = hears},
        {.name = "unheard_many_functions", many_functions, .opts = hears},
        {.name = "unheard_at_shutdown", at_shutdown, .opts = hears},
        {.name = "unheard_log", log_shown, .no_init = true},
        {.name = "unheard_log_silent", log_silent, .no_init = true},
        {.name = NULL},
    };
    return test_main(argc, argv, cases);
}
