/* SPDX-License-Identifier: Apache-2.0
 *
 * scene.c - a driver with something to look at: scene NAME [WORD...] sets it up, prints "ready" and stays until its standard
 * input ends.
 *
 * Thread: main.
 */
#include <manta.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

MANTA_TASK(int64_t, add, (int64_t, a), (int64_t, b))
{
    return a + b;
}
/* Until the file is there. */
MANTA_TASK(int64_t, wait_for_file, (const char *, path))
{
    while (access(path, F_OK))
        usleep(10 * 1000);
    return 1;
}
MANTA_TASK(int64_t, say_when, (const char *, path), (const char *, line))
{
    while (access(path, F_OK))
        usleep(10 * 1000);
    printf("%s\n", line);
    return 1;
}
MANTA_TASK(int64_t, die, (int64_t, x))
{
    if (x)
        abort();
    return x;
}
MANTA_TASK(int64_t, say, (const char *, line), (int64_t, times))
{
    for (int64_t i = 0; i < times; i++)
        printf("%s\n", line);
    usleep(300 * 1000); /* so that others are at work beside it */
    return getpid();
}
/* Busy in a function of its own, until the file is there. */
__attribute__((noinline)) static int64_t spin_here(const char *path)
{
    volatile int64_t n = 0;
    while (n % 1000000 || access(path, F_OK))
        n++;
    return 1;
}
MANTA_TASK(int64_t, spin, (const char *, path))
{
    return spin_here(path);
}
MANTA_TASK(int64_t, parent, (int64_t, x))
{
    int64_t    got = 0;
    manta_ref *child = add_remote(NULL, x, 1);
    manta_get_i64(child, MANTA_FOREVER, &got, NULL);
    manta_free(child);
    return got;
}
static manta_status fail(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_fail(c, 7, "on purpose"), MANTA_ETASK;
}
MANTA_REGISTER(fail, ">l");

struct tally {
    int64_t sum;
};
static manta_status tally_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = calloc(1, sizeof(struct tally));
    return *self ? MANTA_OK : MANTA_ENOMEM;
}
static void tally_free(void *self)
{
    free(self);
}
static manta_status tally_add(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct tally *t = self;
    (void)argc;
    return manta_return_i64(c, t->sum += argv[0].l);
}
MANTA_ACTOR(tally, "", tally_new, tally_free, {"add", "l>l", tally_add});

static void stay(void)
{
    char byte;
    printf("ready\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
}

static void must(manta_status code, const manta_error *e)
{
    if (code == MANTA_OK)
        return;
    fprintf(stderr, "scene: %s\n", e->message);
    exit(1);
}

static int64_t value(manta_ref *take_ref)
{
    manta_error e;
    int64_t     got;
    must(manta_get_i64(take_ref, 30 * 1000, &got, &e), &e);
    manta_free(take_ref);
    return got;
}

/* Two CPUs and a GPU: 20 finished, 2 failed, one runs, one waits for its argument, one for the GPU, and an actor. */
static void mixed(char **words)
{
    const manta_task_opts gpu = {.num_gpus = 1, .no_cpu = true}, once = {.max_retries = MANTA_NO_RETRY};
    manta_error           e;
    manta_view            view;
    for (int64_t i = 0; i < 20; i++)
        if (value(add_remote(NULL, i, 1)) != i + 1)
            exit(1);
    manta_ref *failed = manta_call("fail", NULL, MANTA_NO_ARGS), *died = die_remote(&once, 1);
    if (manta_get(failed, 30 * 1000, &view, &e) != MANTA_ETASK || manta_get(died, 30 * 1000, &view, &e) != MANTA_EWORKER_DIED)
        exit(1);
    manta_ref   *hog = wait_for_file_remote(&gpu, words[0]), *second = wait_for_file_remote(&gpu, words[0]);
    manta_ref   *child = manta_call("add", NULL, MANTA_ARGS(manta_ref_arg(hog), manta_i64(1)));
    manta_actor *a = manta_actor_new("tally", &(manta_actor_opts){.name = "counts"}, MANTA_NO_ARGS);
    manta_actor *odd = manta_actor_new("tally", &(manta_actor_opts){.name = "a \"quote\", a \\, \xc3\xbc"}, MANTA_NO_ARGS);
    manta_ref   *sum = manta_actor_call(a, "add", MANTA_ARGS(manta_i64(5)));
    if (value(manta_actor_call(odd, "add", MANTA_ARGS(manta_i64(1)))) != 1)
        exit(1);
    if (value(sum) != 5)
        exit(1);
    static char big[1 << 20];
    manta_ref  *put = manta_put(big, sizeof big);
    must(manta_get(put, 30 * 1000, &view, &e), &e);
    stay();
    value(child);
    value(hog);
    value(second);
    manta_release(&view);
    manta_free(put);
    manta_actor_free(a);
    manta_actor_free(odd);
    manta_free(failed);
    manta_free(died);
}

/* Tasks and their children. */
static void nested(char **words)
{
    manta_ref *refs[10];
    (void)words;
    for (int i = 0; i < 10; i++)
        refs[i] = parent_remote(NULL, i);
    for (int i = 0; i < 10; i++)
        if (value(refs[i]) != i + 1)
            exit(1);
    stay();
}

/* scene many COUNT FILE: so many have ended; where FILE is not "-", one runs until it is there. */
static void many(char **words)
{
    enum { AT_ONCE = 1000 };
    manta_ref *last = NULL, *refs[AT_ONCE];
    for (long left = strtol(words[0], NULL, 10); left > 0; left -= AT_ONCE) {
        long count = left < AT_ONCE ? left : AT_ONCE;
        for (long i = 0; i < count; i++)
            refs[i] = add_remote(NULL, i, 1);
        for (long i = 0; i < count; i++)
            if (value(refs[i]) != i + 1)
                exit(1);
    }
    if (strcmp(words[1], "-") != 0)
        last = wait_for_file_remote(NULL, words[1]);
    stay();
    if (last)
        value(last);
}

/* One task is busy, one sleeps. */
static void busy(char **words)
{
    manta_ref *a = spin_remote(NULL, words[0]), *b = wait_for_file_remote(NULL, words[0]);
    stay();
    value(a);
    value(b);
}

/* Every worker prints the same line so often: scene print LINE TIMES TASKS. */
static void print(char **words)
{
    manta_ref *refs[64];
    int        count = (int)strtol(words[2], NULL, 10);
    for (int i = 0; i < count && i < 64; i++)
        refs[i] = say_remote(NULL, words[0], strtoll(words[1], NULL, 10));
    for (int i = 0; i < count && i < 64; i++)
        value(refs[i]);
    stay();
}

/* A worker prints a line when that file is there, and this process leaves at once: scene last FILE LINE. */
static void last(char **words)
{
    manta_ref *said = say_when_remote(NULL, words[0], words[1]);
    stay();
    value(said);
}

/* One group stands, one waits for room, one can never be. */
static void groups(char **words)
{
    manta_error   e;
    manta_bundle  both[] = {{.num_cpus = 1}, {.num_cpus = 0.5, .memory = 1 << 20}};
    manta_bundle  whole = {.num_cpus = 2}, large = {.num_cpus = 64};
    manta_pg_opts named = {.name = "standing", .strategy = MANTA_PG_STRICT_PACK};
    manta_pg     *pg[] = {manta_pg_new(both, 2, &named, &e), manta_pg_new(&whole, 1, NULL, &e), manta_pg_new(&large, 1, NULL, &e)};
    (void)words;
    for (int i = 0; i < 3; i++)
        must(pg[i] ? MANTA_OK : e.code, &e);
    must(manta_pg_wait(pg[0], 20000, &e), &e);
    if (manta_pg_wait(pg[2], 20000, &e) != MANTA_EUNSCHEDULABLE)
        exit(1);
    stay();
    for (int i = 0; i < 3; i++)
        manta_pg_free(pg[i]);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(char **words);
    } scenes[] = {{"mixed", mixed}, {"nested", nested}, {"many", many}, {"print", print},
                  {"busy", busy},   {"groups", groups}, {"last", last}};
    manta_error e;
    must(manta_init(&argc, &argv, NULL, &e), &e);
    for (size_t i = 0; argc > 1 && i < sizeof scenes / sizeof scenes[0]; i++)
        if (strcmp(argv[1], scenes[i].name) == 0)
            scenes[i].run(argv + 2);
    return manta_shutdown();
}
