/* SPDX-License-Identifier: Apache-2.0
 *
 * load.c - a driver that works until its standard input ends, while the cluster below it is replaced: upgrade_load NODE_FOLDER
 *
 * Each round: some tasks, and a call of an actor that keeps a sum. On a thread of its own: placement groups, which only the head
 * can give. Prints what was done, what failed, and for how long nothing came.
 */
#include <manta.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TASKS = 32, WAIT_MS = 60000, TOLD = 5 };

static struct {
    atomic_bool is_over;
    atomic_int  failures;
    int64_t     tasks, calls, groups, longest_work_ms, longest_head_ms;
} load;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void failed(const char *what, const manta_error *e)
{
    if (atomic_fetch_add(&load.failures, 1) < TOLD)
        fprintf(stderr, "upgrade_load: %s: %s\n", what, e->message);
}

static void wrong(const char *what, int64_t got, int64_t wanted)
{
    if (atomic_fetch_add(&load.failures, 1) < TOLD)
        fprintf(stderr, "upgrade_load: %s: %lld instead of %lld\n", what, (long long)got, (long long)wanted);
}

/* ---- what runs on the nodes ---- */

MANTA_TASK(int64_t, twice, (int64_t, x))
{
    return 2 * x;
}

static manta_status sum_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    *self = calloc(1, sizeof(int64_t));
    return *self ? MANTA_OK : manta_fail(c, 1, "no memory");
}
static manta_status sum_save(manta_ctx *c, void *self)
{
    return manta_return_bytes(c, self, sizeof(int64_t));
}
static manta_status sum_load(manta_ctx *c, void *self, const void *data, size_t size)
{
    if (size != sizeof(int64_t))
        return manta_fail(c, 1, "another state");
    memcpy(self, data, size);
    return MANTA_OK;
}
static manta_status sum_add(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, *(int64_t *)self += argv[0].l);
}
MANTA_ACTOR_TYPE(sum, .signature = "", .create = sum_new, .destroy = free, .save = sum_save, .load = sum_load,
                 .methods = {{"add", "l>l", sum_add}});

/* ---- the driver ---- */

static void expect(manta_ref *take_ref, const char *what, int64_t wanted)
{
    manta_error e;
    int64_t     got;
    if (manta_get_i64(take_ref, WAIT_MS, &got, &e) != MANTA_OK)
        failed(what, &e);
    else if (got != wanted)
        wrong(what, got, wanted);
    manta_free(take_ref);
}

static void work(manta_actor *sum)
{
    manta_ref *refs[TASKS];
    int64_t    begun = now_ms(), took;
    for (int i = 0; i < TASKS; i++)
        refs[i] = twice_remote(NULL, load.tasks + i);
    manta_ref *call = manta_actor_call(sum, "add", MANTA_ARGS(manta_i64(1)));
    for (int i = 0; i < TASKS; i++)
        expect(refs[i], "a task", 2 * (load.tasks + i));
    load.tasks += TASKS;
    expect(call, "a call of the actor", ++load.calls);
    took = now_ms() - begun;
    load.longest_work_ms = took > load.longest_work_ms ? took : load.longest_work_ms;
}

static void *ask_head(void *unused)
{
    const manta_bundle bundle = {.num_cpus = 0.001};
    while (!load.is_over) {
        manta_error e;
        int64_t     begun = now_ms(), took;
        manta_pg   *pg = manta_pg_new(&bundle, 1, NULL, &e);
        if (!pg || manta_pg_wait(pg, WAIT_MS, &e) != MANTA_OK || manta_pg_remove(pg, &e) != MANTA_OK)
            failed("a placement group", &e);
        manta_pg_free(pg);
        took = now_ms() - begun;
        load.longest_head_ms = took > load.longest_head_ms ? took : load.longest_head_ms;
        load.groups++;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    return unused;
}

int main(int argc, char **argv)
{
    manta_error     e;
    pthread_t       asker;
    struct pollfd   input = {.fd = 0, .events = POLLIN};
    manta_init_opts opts = {.address = argc > 1 ? argv[1] : NULL};
    if (manta_init(&argc, &argv, &opts, &e) != MANTA_OK)
        return manta_perror(&e);
    manta_actor_opts how = {.num_cpus = 0.5, .max_restarts = MANTA_WITHOUT_LIMIT, .max_task_retries = MANTA_WITHOUT_LIMIT};
    manta_actor     *sum = manta_actor_new("sum", &how, MANTA_NO_ARGS);
    expect(manta_actor_call(sum, "add", MANTA_ARGS(manta_i64(0))), "the first call", 0);
    if (pthread_create(&asker, NULL, ask_head, NULL) != 0)
        return 1;
    printf("ready\n");
    fflush(stdout);
    while (poll(&input, 1, 0) == 0)
        work(sum);
    load.is_over = true;
    pthread_join(asker, NULL);
    manta_actor_free(sum);
    printf("{\"tasks\": %lld, \"calls\": %lld, \"groups\": %lld, \"failures\": %d, \"longest_work_ms\": %lld, \"longest_head_ms\": "
           "%lld}\n",
           (long long)load.tasks, (long long)load.calls, (long long)load.groups, load.failures, (long long)load.longest_work_ms,
           (long long)load.longest_head_ms);
    return manta_shutdown();
}
