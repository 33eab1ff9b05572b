/* SPDX-License-Identifier: Apache-2.0
 *
 * pin_test.c - tasks and actors whose threads are bound to CPUs of their own.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/harness.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

/* The CPUs of every thread of this process, where they are the same for all; else -1. */
static int64_t cpus_of_threads(void)
{
    int64_t all = 0;
    DIR    *folder = opendir("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(folder));) {
        cpu_set_t set;
        int64_t   mask = 0;
        if (entry->d_name[0] == '.' || sched_getaffinity((pid_t)strtol(entry->d_name, NULL, 10), sizeof set, &set))
            continue;
        for (int cpu = 0; cpu < 62; cpu++)
            mask |= (int64_t)CPU_ISSET(cpu, &set) << cpu;
        all = all == 0 || all == mask ? mask : -1;
    }
    closedir(folder);
    return all;
}

static manta_status cpus(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, cpus_of_threads());
}
MANTA_REGISTER(cpus, ">l");

/* The same, while the other one runs. */
static manta_status cpus_together(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    atomic_fetch_add(&board->words[0], 1);
    if (!test_board_wait(&board->words[0], 2))
        return manta_fail(c, 0, "alone");
    return manta_return_i64(c, cpus_of_threads());
}
MANTA_REGISTER(cpus_together, "u>l");

/* Waits for a task, so its library has a thread of its own by then. */
static manta_status cpus_with_helper(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_ref  *r = manta_call("cpus", NULL, MANTA_NO_ARGS);
    int64_t     x;
    manta_error e;
    (void)argc, (void)argv;
    manta_get_i64(r, TEST_WAIT_MS, &x, &e);
    manta_free(r);
    return manta_return_i64(c, cpus_of_threads());
}
MANTA_REGISTER(cpus_with_helper, ">l");

static manta_status bound_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = NULL;
    return MANTA_OK;
}
static manta_status bound_cpus(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self;
    return cpus(c, argc, argv);
}
MANTA_ACTOR(bound, "", bound_new, NULL, {"cpus", ">l", bound_cpus});

static int64_t get(manta_ref *take_ref)
{
    int64_t     x;
    manta_error e;
    CHECK_CODE(manta_get_i64(take_ref, TEST_WAIT_MS, &x, &e), MANTA_OK, &e);
    manta_free(take_ref);
    return x;
}

static void needs_cpus(int count)
{
    if (__builtin_popcountll((unsigned long long)cpus_of_threads()) >= count)
        return;
    manta_shutdown();
    test_skip("fewer than %d CPUs here", count);
}

static void pin_each_its_own(void)
{
    manta_task_opts pinned = {.pin = true};
    uint64_t        number;
    int64_t         machine = cpus_of_threads(), seen[2];
    manta_ref      *refs[2];
    needs_cpus(2);
    for (int round = 0; round < 5; round++) {
        struct test_board *board = test_board_new(&number);
        for (int i = 0; i < 2; i++)
            refs[i] = manta_call("cpus_together", &pinned, MANTA_ARGS(manta_u64(number)));
        for (int i = 0; i < 2; i++) {
            seen[i] = get(refs[i]);
            CHECK_EQ(__builtin_popcountll((unsigned long long)seen[i]), 1);
            CHECK_EQ(seen[i] & ~machine, 0);
        }
        CHECK_EQ(seen[0] & seen[1], 0);
        (void)board;
    }
    CHECK_EQ(__builtin_popcountll((unsigned long long)get(manta_call("cpus_with_helper", &pinned, MANTA_NO_ARGS))), 1);
    test_sleep_ms(400); /* its leases go back, and its workers serve others, who are not bound */
    CHECK_EQ(get(manta_call("cpus", NULL, MANTA_NO_ARGS)), machine);
}

static void pin_several(void)
{
    manta_task_opts  two = {.pin = true, .num_cpus = 2};
    manta_actor_opts one = {.pin = true, .num_cpus = 1};
    needs_cpus(2);
    CHECK_EQ(__builtin_popcountll((unsigned long long)get(manta_call("cpus", &two, MANTA_NO_ARGS))), 2);
    manta_actor *a = manta_actor_new("bound", &one, MANTA_NO_ARGS), *b = manta_actor_new("bound", &one, MANTA_NO_ARGS);
    int64_t      at_a = get(manta_actor_call(a, "cpus", MANTA_NO_ARGS)), at_b = get(manta_actor_call(b, "cpus", MANTA_NO_ARGS));
    CHECK_EQ(__builtin_popcountll((unsigned long long)at_a), 1);
    CHECK_EQ(__builtin_popcountll((unsigned long long)at_b), 1);
    CHECK_EQ(at_a & at_b, 0);
    manta_actor_free(a), manta_actor_free(b);
}

static void pin_bad(void)
{
    manta_error      e;
    manta_task_opts  half = {.pin = true, .num_cpus = 0.5}, none = {.pin = true, .no_cpu = true};
    manta_actor_opts no_cpus = {.pin = true};
    CHECK_FAILS(manta_call("cpus", &half, MANTA_NO_ARGS), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "pin binds to whole CPUs, and num_cpus is 0.5");
    CHECK_FAILS(manta_call("cpus", &none, MANTA_NO_ARGS), MANTA_EINVAL, &e);
    manta_actor *a = manta_actor_new("bound", &no_cpus, MANTA_NO_ARGS);
    CHECK_FAILS(manta_actor_call(a, "cpus", MANTA_NO_ARGS), MANTA_EINVAL, &e);
    manta_actor_free(a);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"pin_each_its_own", pin_each_its_own, {.num_cpus = 2}, false, 0},
        {"pin_several", pin_several, {.num_cpus = 2}, false, 0},
        {"pin_bad", pin_bad, {.num_cpus = 1}, false, 0},
        {NULL, NULL, {0}, false, 0},
    };
    return test_main(argc, argv, cases);
}
