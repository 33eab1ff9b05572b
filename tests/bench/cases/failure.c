/* SPDX-License-Identifier: Apache-2.0
 *
 * failure.c - how soon after a SIGKILL life goes on.
 *
 * Thread: the main one; on_death runs on libmanta's helper thread.
 */
#include "tests/bench/functions.h"

#include "core/base/status.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

struct failure_step {
    struct bench_step   step;
    struct bench_board *board;
    uint64_t            number; /* of the board */
};

/* ---- a task's worker ---- */
static bool board_wait(const volatile int64_t *word)
{
    uint64_t limit = bench_now_ns() + BENCH_WAIT_MS * 1000000ull;
    while (*word == 0) {
        if (bench_now_ns() > limit)
            return false;
        bench_sleep_us(50);
    }
    return true;
}

static double step_retry(struct bench_step *step)
{
    struct failure_step *f = mt_container_of(step, struct failure_step, step);
    f->board->pid = 0;
    f->board->started_ns = 0;
    manta_ref *ref = manta_call("bench_victim", NULL, MANTA_ARGS(manta_u64(f->number)));
    int64_t    killed_ns = 0, pid = 0, again = 0;
    if (board_wait(&f->board->pid)) {
        pid = f->board->pid;
        killed_ns = (int64_t)bench_now_ns();
        if (pid != getpid())
            kill((pid_t)pid, SIGKILL);
    }
    manta_error  e;
    manta_status code = manta_get_i64(ref, BENCH_WAIT_MS, &again, &e);
    manta_free(ref);
    if (code != MANTA_OK)
        return bench_say(&e, "retry_after_kill") - 1;
    return again != pid && f->board->started_ns > killed_ns ? (double)(f->board->started_ns - killed_ns) / 1e6 : -1;
}

static bool run_retry(struct bench *b, struct bench_row *row)
{
    struct failure_step f = {.step = {step_retry, b}};
    row->more = BENCH_AND_P99;
    f.board = bench_board_new(&f.number);
    bool ok = f.board && bench_latency(&f.step, row, 0.5, 200);
    bench_board_free(f.board);
    return ok;
}

/* ---- an actor ---- */
struct death {
    _Atomic(uint64_t) told_ns;
    int               pid;
};

static void on_death(void *user, const manta_death *death)
{
    struct death *d = user;
    d->pid = death->pid;
    atomic_store(&d->told_ns, bench_now_ns());
}

static double death_measure(manta_actor *actor, int64_t pid)
{
    struct death d = {.pid = 0};
    uint64_t     watch;
    manta_error  e;
    if (manta_actor_watch(actor, on_death, &d, &watch, &e) != MANTA_OK)
        return bench_say(&e, "watch") - 1;
    bench_sleep_us(2000);
    uint64_t start = bench_now_ns(), limit = start + BENCH_WAIT_MS * 1000000ull;
    kill((pid_t)pid, SIGKILL);
    while (atomic_load(&d.told_ns) == 0 && bench_now_ns() < limit)
        bench_sleep_us(20);
    manta_unwatch(watch);
    uint64_t told = atomic_load(&d.told_ns);
    if (told == 0 || d.pid != pid)
        fprintf(stderr, "manta-bench: nobody told of the death of %d\n", (int)pid);
    return told > start && d.pid == pid ? (double)(told - start) / 1e6 : -1;
}

static double step_death(struct bench_step *step)
{
    manta_error  e;
    int64_t      pid = 0;
    manta_actor *actor = manta_actor_new("bench_actor", NULL, MANTA_NO_ARGS);
    manta_ref   *ref = manta_actor_call(actor, "pid", MANTA_NO_ARGS);
    double       ms = -1;
    (void)step;
    if (manta_get_i64(ref, BENCH_WAIT_MS, &pid, &e) != MANTA_OK)
        bench_say(&e, "death_to_monitor");
    else if (pid > 1 && pid != getpid())
        ms = death_measure(actor, pid);
    manta_free(ref);
    manta_actor_free(actor);
    return ms;
}

static bool run_death(struct bench *b, struct bench_row *row)
{
    struct failure_step f = {.step = {step_death, b}};
    row->more = BENCH_AND_P50;
    return bench_latency(&f.step, row, 0.99, 1000);
}

const struct bench_case bench_failure_cases[] = {
    {"retry_after_kill", "ms", FLOOR_FORK, true, run_retry},
    {"death_to_monitor", "ms", FLOOR_FUTEX_RTT, true, run_death},
    {.id = NULL},
};
