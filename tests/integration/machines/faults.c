/* SPDX-License-Identifier: Apache-2.0
 *
 * faults.c - a driver for machines that fall silent (faults_test.py): it prints "ready" when the load runs, and goes on until its
 * standard input ends.
 *
 *   machines_faults blackout NODE   tasks on NODE and calls of an actor there, one of each in turn:
 *                                   "rounds N failed N longest MS"
 *   machines_faults hung            one task that reports to an actor of this node which attempt it is, again and again:
 *                                   "attempts N gap MS late N": until the last attempt's first report, from the report before it;
 *                                   and reports of an attempt that came after one of a later attempt
 */
#include <manta.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS = 60000, TURN_MS = 20 };

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* A turn's pause; false: standard input has ended. */
static bool goes_on(void)
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    char          c;
    return poll(&input, 1, TURN_MS) <= 0 || read(STDIN_FILENO, &c, 1) > 0;
}

static bool result(manta_ref *ref, int64_t *out)
{
    manta_error  e;
    manta_status code = manta_get_i64(ref, WAIT_MS, out, &e);
    if (code)
        manta_perror(&e);
    manta_free(ref);
    return code == MANTA_OK;
}

/* ---- blackout ---- */

MANTA_TASK(int64_t, twice, (int64_t, x))
{
    return 2 * x;
}

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

static void blackout(uint32_t node)
{
    manta_task_opts there = {.node = node, .max_retries = MANTA_NO_RETRY};
    manta_actor    *counter = manta_actor_new("counter", &(manta_actor_opts){.node = node}, 0, NULL);
    int64_t         rounds = 0, failed = 0;
    double          longest = 0;
    do {
        int64_t    doubled = 0, count = 0;
        double     begun = now_ms();
        manta_ref *task = twice_remote(&there, rounds), *call = manta_actor_call(counter, "add", MANTA_ARGS(manta_i64(1)));
        failed += !result(task, &doubled) || doubled != 2 * rounds;
        failed += !result(call, &count) || count != rounds + 1;
        longest = now_ms() - begun > longest && rounds ? now_ms() - begun : longest;
        if (rounds++ == 0)
            printf("ready\n"), fflush(stdout);
    } while (goes_on());
    printf("rounds %lld failed %lld longest %.0f\n", (long long)rounds, (long long)failed, longest);
    manta_actor_free(counter);
}

/* ---- hung ---- */

struct ledger {
    int64_t attempt, late, is_over;
    double  last, gap; /* when somebody reported last; before the present attempt's first report */
};

static manta_status ledger_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = calloc(1, sizeof(struct ledger));
    return MANTA_OK;
}
/* (attempt) -> whether it is to end */
static manta_status ledger_note(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct ledger *l = self;
    double         now = now_ms();
    (void)argc;
    l->late += argv[0].l < l->attempt;
    if (argv[0].l > l->attempt) {
        l->attempt = argv[0].l;
        l->gap = now - l->last;
    }
    l->last = now;
    return manta_return_i64(c, l->is_over);
}
static manta_status ledger_end(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct ledger *l = self;
    (void)argc, (void)argv;
    l->is_over = 1;
    return manta_return_i64(c, (int64_t)l->gap);
}
static manta_status ledger_late(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, ((struct ledger *)self)->late);
}
MANTA_ACTOR(ledger, "", ledger_new, free, {"note", "l>l", ledger_note}, {"end", ">l", ledger_end}, {"late", ">l", ledger_late});

static manta_status report(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t is_over = 0;
    (void)argc;
    while (!is_over) {
        if (!result(manta_actor_call(argv[0].A, "note", MANTA_ARGS(manta_i64(manta_attempt(c)))), &is_over))
            return manta_fail(c, 1, "the ledger does not answer");
        usleep(TURN_MS * 1000);
    }
    return manta_return_i64(c, manta_attempt(c));
}
MANTA_REGISTER(report, "A>l");

static void hung(void)
{
    manta_actor *ledger = manta_actor_new("ledger", &(manta_actor_opts){.node = manta_node()}, 0, NULL);
    manta_ref   *task = manta_call("report", NULL, MANTA_ARGS(manta_actor_arg(ledger)));
    int64_t      attempt = -1, gap = -1, late = -1;
    printf("ready\n"), fflush(stdout);
    while (goes_on())
        ;
    bool ok = result(manta_actor_call(ledger, "end", 0, NULL), &gap) && result(task, &attempt) &&
              result(manta_actor_call(ledger, "late", 0, NULL), &late);
    printf("%s %lld gap %lld late %lld\n", ok ? "attempts" : "failed", (long long)attempt + 1, (long long)gap, (long long)late);
    manta_actor_free(ledger);
}

int main(int argc, char **argv)
{
    manta_error e;
    if (manta_init(&argc, &argv, NULL, &e))
        return manta_perror(&e);
    if (argc == 3 && !strcmp(argv[1], "blackout"))
        blackout((uint32_t)strtoul(argv[2], NULL, 10));
    else if (argc == 2 && !strcmp(argv[1], "hung"))
        hung();
    else
        return 2;
    return manta_shutdown();
}
