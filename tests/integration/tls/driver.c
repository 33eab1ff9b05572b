/* SPDX-License-Identifier: Apache-2.0
 *
 * driver.c - driver NODE MIB MARK: tasks, an actor and large values between this node and another one; prints what it found.
 * Each value is full of the text MARK, which stands in no program.
 */
#include <manta.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 60000, TASKS = 50 };

static void fill(char *data, size_t size, const char *mark)
{
    size_t length = strlen(mark);
    for (size_t i = 0; i < size; i++)
        data[i] = mark[i % length];
}

static bool is_filled(const void *data, size_t size, const char *mark)
{
    size_t length = strlen(mark);
    for (size_t i = 0; i < size; i++)
        if (((const char *)data)[i] != mark[i % length])
            return false;
    return true;
}

MANTA_TASK(int64_t, where, (int64_t, x))
{
    return x * 1000 + manta_node();
}

static manta_status look(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    bool is_good = is_filled(argv[0].y.data, argv[0].y.size, (const char *)argv[1].y.data);
    return manta_return_i64(c, is_good ? (int64_t)argv[0].y.size : -1);
}
MANTA_REGISTER(look, "ys>l");

static manta_status make(manta_ctx *c, int argc, const manta_arg *argv)
{
    size_t size = (size_t)argv[0].l;
    char  *data = malloc(size + 1);
    (void)argc;
    fill(data, size, (const char *)argv[1].y.data);
    manta_status code = manta_return_bytes(c, data, size);
    free(data);
    return code;
}
MANTA_REGISTER(make, "ls>y");

static manta_status counter_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = calloc(1, sizeof(int64_t));
    return MANTA_OK;
}
static manta_status counter_add(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, *(int64_t *)self += argv[0].l);
}
MANTA_ACTOR(counter, "", counter_new, free, {"add", "l>l", counter_add});

static int64_t result(manta_ref *ref)
{
    manta_error e;
    int64_t     value = 0;
    if (manta_get_i64(ref, WAIT_MS, &value, &e)) {
        manta_perror(&e);
        exit(1);
    }
    manta_free(ref);
    return value;
}

static void tasks_cross(const manta_task_opts *there)
{
    manta_ref *refs[TASKS];
    int64_t    sum = 0;
    for (int64_t i = 0; i < TASKS; i++)
        refs[i] = where_remote(there, i);
    for (int i = 0; i < TASKS; i++)
        sum += result(refs[i]);
    printf("tasks %lld\n", (long long)sum);
}

static void calls_cross(uint32_t node)
{
    manta_actor *counter = manta_actor_new("counter", &(manta_actor_opts){.node = node}, 0, NULL);
    for (int i = 0; i < TASKS - 1; i++)
        manta_free(manta_actor_call(counter, "add", MANTA_ARGS(manta_i64(2))));
    printf("actor %lld\n", (long long)result(manta_actor_call(counter, "add", MANTA_ARGS(manta_i64(2)))));
    manta_actor_free(counter);
}

static void values_cross(const manta_task_opts *there, size_t size, const char *mark)
{
    manta_error e;
    manta_view  view;
    char       *data = malloc(size);
    fill(data, size, mark);
    manta_ref *here = manta_put(data, size);
    printf("value there %lld\n", (long long)result(manta_call("look", there, MANTA_ARGS(manta_ref_arg(here), manta_str(mark)))));
    manta_ref *made = manta_call("make", there, MANTA_ARGS(manta_i64((int64_t)size), manta_str(mark)));
    if (manta_get(made, WAIT_MS, &view, &e)) {
        manta_perror(&e);
        exit(1);
    }
    printf("value here %lld\n", is_filled(view.data, view.size, mark) ? (long long)view.size : -1);
    manta_release(&view);
    manta_free(made);
    manta_free(here);
    free(data);
}

/* Collectives are of one machine: training is to know which nodes are not. */
static void nodes_are_told(uint32_t other)
{
    manta_node_info info[4];
    manta_error     e;
    int             count = manta_nodes(info, 4, &e);
    for (int i = 0; i < count; i++)
        if (info[i].node == other || info[i].node == manta_node())
            printf("node %s %s\n", info[i].node == other ? "there" : "here", info[i].remote ? "is remote" : "is near");
}

int main(int argc, char **argv)
{
    manta_error e;
    if (manta_init(&argc, &argv, NULL, &e))
        return manta_perror(&e);
    if (argc != 4)
        return 2;
    manta_task_opts there = {.node = (uint32_t)strtoul(argv[1], NULL, 10)};
    tasks_cross(&there);
    calls_cross(there.node);
    values_cross(&there, strtoul(argv[2], NULL, 10) << 20, argv[3]);
    nodes_are_told(there.node);
    return manta_shutdown();
}
