/* SPDX-License-Identifier: Apache-2.0
 *
 * never_hang.c - awaits on actors that are killed at random points: each ends, with its value or with an error that names
 * the actor, the node and the cause in two lines.
 *
 * NEVER_HANG_AWAITS (default 500) says how many, NEVER_HANG_SEED which.
 * Thread: each has actors and random numbers of its own.
 */
#include "tests/integration/harness.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 4, CALLS_MAX = 8, HANG_MS = 30 * 1000 };

enum death {
    BY_SIGNAL, /* from outside, whatever it does just then */
    BY_ITSELF, /* in a method */
    BY_EXIT,
    BY_KILL,
    BY_KILL_RESTART,
    IN_CREATE,
    BY_ZYGOTE, /* with all others of the job */
    BY_DROP,   /* its last handle goes while calls are under way: those still end */
    DEATHS,
};

static struct {
    int64_t         wanted;
    _Atomic int64_t awaited, died, hung;
} all;

static uint64_t draw(uint64_t *random, uint64_t below)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (*random >> 33) % below;
}

/* ---- the actor ---- */
static manta_status mortal_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc;
    *self = NULL;
    if (argv[0].b)
        raise(SIGKILL);
    return MANTA_OK;
}
/* Sleeps, then dies in the way that is asked for. */
static manta_status mortal_live(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    if (argv[0].l)
        usleep((useconds_t)argv[0].l);
    if (argv[1].l > 0)
        raise((int)argv[1].l);
    if (argv[1].l < 0)
        _exit(3);
    return manta_return_i64(c, argv[0].l);
}
static manta_status mortal_pid(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, getpid());
}
MANTA_ACTOR(mortal, "b", mortal_new, NULL, {"live", "ll>l", mortal_live}, {"pid", ">l", mortal_pid});

/* ---- one await ---- */
static bool names_all(const manta_error *e)
{
    static const char *const causes[] = {"SIGKILL",    "SIGSEGV",   "SIGABRT", "exited with", "was ended",
                                         "was killed", "has ended", "zygote",  "gave it up",  "creator"};
    bool                     has_cause = false;
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++)
        has_cause |= strstr(e->message, causes[i]) != NULL;
    if (TEST_SLOWER > 1) /* a sanitizer's memory takes long to give back: the wait status comes too late to be told */
        has_cause |= strstr(e->message, ") ended") != NULL;
    return has_cause && strstr(e->function, "mortal") && e->node[0] && !strchr(e->message, '\n') &&
           (e->outcome == MANTA_NOT_DONE || e->outcome == MANTA_UNKNOWN);
}

static manta_ref *live(manta_actor *a, int64_t us, int64_t how)
{
    return manta_actor_call(a, "live", MANTA_ARGS(manta_i64(us), manta_i64(how)));
}

/* Whether it ended as it may. */
static bool await(manta_ref *take_ref, int64_t wanted)
{
    manta_error  e;
    int64_t      x = -1;
    manta_status code = manta_get_i64(take_ref, HANG_MS, &x, &e);
    manta_free(take_ref);
    atomic_fetch_add(&all.awaited, 1);
    if (code == MANTA_OK)
        return x == wanted;
    atomic_fetch_add(&all.died, 1);
    if (code == MANTA_ETIMEDOUT)
        atomic_fetch_add(&all.hung, 1);
    if (code == MANTA_EACTOR_DIED && names_all(&e))
        return true;
    fprintf(stderr, "not a good end:\n");
    manta_perror(&e);
    return false;
}

/* The same from another process, which has borrowed the handle. */
static manta_status borrower(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_ref *refs[CALLS_MAX];
    int64_t    bad = 0;
    (void)argc;
    for (int64_t i = 0; i < argv[1].l; i++)
        refs[i] = live(argv[0].A, 300 * i, 0);
    for (int64_t i = 0; i < argv[1].l; i++)
        bad += !await(refs[i], 300 * i);
    return manta_return_i64(c, bad);
}
MANTA_REGISTER(borrower, "Al>l");

/* ---- one life ---- */
static void kill_zygote(void)
{
    int pids[256], raylets[4], count = test_find(getpid(), "manta-raylet", raylets, 4);
    for (int i = 0; i < count; i++) {
        int below = test_find(raylets[i], NULL, pids, 256);
        for (int k = 0; k < below; k++) {
            char path[64], text[256] = "";
            snprintf(path, sizeof path, "/proc/%d/stat", pids[k]);
            FILE *f = fopen(path, "re");
            char *end = f && fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;
            int   parent = end ? (int)strtol(end + 4, NULL, 10) : 0;
            if (f)
                fclose(f);
            if (parent == raylets[i])
                kill(pids[k], SIGKILL);
        }
    }
}

static void end_it(enum death how, manta_actor *a, int64_t pid)
{
    switch (how) {
    case BY_SIGNAL: kill((pid_t)pid, SIGKILL); break;
    case BY_KILL: manta_actor_kill(a, false); break;
    case BY_KILL_RESTART: manta_actor_kill(a, true); break;
    case BY_ZYGOTE: kill_zygote(); break;
    default: break;
    }
}

static bool one_life(uint64_t *random)
{
    static const int signals[] = {SIGKILL, SIGSEGV, SIGABRT};
    enum death       how = (enum death)draw(random, DEATHS);
    if (how == BY_ZYGOTE && draw(random, 8)) /* it is everybody's */
        how = BY_SIGNAL;
    manta_actor_opts opts = {.max_restarts = (int)draw(random, 3), .max_task_retries = draw(random, 3) ? 0 : 2};
    manta_actor     *a = manta_actor_new("mortal", &opts, MANTA_ARGS(manta_bool(how == IN_CREATE)));
    int64_t          count = 1 + (int64_t)draw(random, CALLS_MAX), pid = 0, us[CALLS_MAX];
    manta_ref       *refs[CALLS_MAX], *other = NULL;
    bool             good = true;
    if (how == BY_SIGNAL) {
        manta_ref *ref = manta_actor_call(a, "pid", MANTA_NO_ARGS);
        if (manta_get_i64(ref, HANG_MS, &pid, NULL) != MANTA_OK)
            how = BY_KILL; /* gone with the zygote */
        manta_free(ref);
    }
    if (draw(random, 4) == 0) {
        manta_arg args[] = {manta_actor_arg(a), manta_i64(count)};
        other = manta_call("borrower", NULL, 2, args);
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t end = how == BY_ITSELF ? signals[draw(random, 3)] : how == BY_EXIT ? -1 : 0;
        us[i] = (int64_t)draw(random, 1500);
        refs[i] = live(a, us[i], i == count / 2 ? end : 0);
    }
    usleep((useconds_t)draw(random, 4000));
    end_it(how, a, pid);
    if (how == BY_DROP)
        manta_actor_free(a);
    for (int64_t i = 0; i < count; i++)
        good &= await(refs[i], us[i]);
    if (other) { /* its errors are its own; that it may be lost with the zygote is not what is asked here */
        int64_t      bad = 0;
        manta_error  e;
        manta_status code = manta_get_i64(other, HANG_MS, &bad, &e);
        if (code == MANTA_ETIMEDOUT || bad)
            good = false, fprintf(stderr, "a borrower: error %d, %lld bad ends\n", code, (long long)bad);
        atomic_fetch_add(&all.awaited, count);
        manta_free(other);
    }
    if (how != BY_DROP)
        manta_actor_free(a);
    return good;
}

static void *lives(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg * 7919;
    while (atomic_load(&all.awaited) < all.wanted && !all.hung)
        if (!one_life(&random))
            return "bad";
    return NULL;
}

static void never_hang(void)
{
    pthread_t   threads[THREADS];
    const char *many = getenv("NEVER_HANG_AWAITS"), *seed = getenv("NEVER_HANG_SEED");
    uintptr_t   first = seed ? (uintptr_t)strtoul(seed, NULL, 10) * THREADS : 1;
    bool        good = true;
    all.wanted = many ? strtol(many, NULL, 10) : 500;
    if (many)
        alarm(0); /* as long as it takes; each await has its own limit */
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, lives, (void *)(first + i)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        good &= result == NULL;
    }
    printf("%lld awaits, %lld errors, %lld hangs\n", (long long)all.awaited, (long long)all.died, (long long)all.hung);
    CHECK(good);
    CHECK_EQ(all.hung, 0);
}

static const struct test_case cases[] = {
    {"never_hang", never_hang, {.num_cpus = 4}, false, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
