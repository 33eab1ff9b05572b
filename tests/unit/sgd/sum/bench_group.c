/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_group.c - not a test: cost of a barrier, of a reduction, and from a SIGKILL until a survivor is back
 * from its collective, beside floors of the same run (a futex round trip, and reading the slots once).
 */
#include "sgd/sum/collective.h"
#include "sgd/ground/futex.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { MEMBERS = 2, VRANKS = 8, FLOATS = 101770 + 3, BARRIERS = 20000, REDUCTIONS = 300, KILLS = 200, TRIPS = 5000 };

struct board {
    _Atomic uint32_t ping, pong;
    _Atomic uint64_t released_at; /* when the survivor came back; 0: not yet */
    _Atomic uint32_t is_waiting;
};

static struct sgd_group_config join = {.plan = {.vranks = VRANKS, .slot_floats = FLOATS}, .members = MEMBERS};
static struct board           *board;
static const struct k_ops     *ops;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void check(mt_status st)
{
    if (st.code == 0)
        return;
    fprintf(stderr, "%s: %s\n", mt_code_name(st.code), st.what);
    _exit(1);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void print_quantiles(const char *name, uint64_t *ns, size_t count)
{
    qsort(ns, count, sizeof *ns, by_value);
    printf("%-44s p50 %9.1f us  p99 %9.1f us  n %zu\n", name, (double)ns[count / 2] / 1e3, (double)ns[count * 99 / 100] / 1e3,
           count);
    fflush(stdout);
}

/* The child answers each ping; both sleep in between. */
static void futex_floor(void)
{
    static uint64_t ns[TRIPS];
    pid_t           pid = fork();
    for (uint32_t i = 1; i <= TRIPS; i++) {
        if (pid == 0) {
            while (atomic_load(&board->ping) < i)
                sgd_futex_wait(&board->ping, i - 1, 1000);
            atomic_store(&board->pong, i);
            sgd_futex_wake_all(&board->pong);
            continue;
        }
        uint64_t start = now_ns();
        atomic_store(&board->ping, i);
        sgd_futex_wake_all(&board->ping);
        while (atomic_load(&board->pong) < i)
            sgd_futex_wait(&board->pong, i - 1, 1000);
        ns[i - 1] = now_ns() - start;
    }
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    print_quantiles("floor: futex round trip", ns, TRIPS);
}

static void member(uint32_t rank)
{
    static uint64_t  ns[BARRIERS];
    struct sgd_group group;
    const float     *sum;
    join.rank = rank;
    check(sgd_group_join(&group, &join));
    for (int i = 0; i < BARRIERS; i++) {
        uint64_t start = now_ns();
        check(sgd_group_barrier(&group));
        ns[i] = now_ns() - start;
    }
    if (rank == 0)
        print_quantiles("barrier, 2 members", ns, BARRIERS);
    if (rank == 0) { /* the other waits asleep meanwhile */
        volatile uint64_t total = 0;
        for (int i = 0; i < 50; i++) {
            uint64_t        start = now_ns();
            const uint64_t *words = (const uint64_t *)(const void *)group.slots;
            uint64_t        t = 0;
            for (size_t w = 0; w < VRANKS * group.stride / 2; w++)
                t += words[w];
            total += t;
            ns[i] = now_ns() - start;
        }
        print_quantiles("floor: reading the slots of 8 x 101773 floats", ns, 50);
    }
    for (int i = 0; i < REDUCTIONS; i++) {
        check(sgd_group_barrier(&group));
        uint64_t start = now_ns();
        check(sgd_group_reduce(&group, ops, &sum));
        ns[i] = now_ns() - start;
    }
    if (rank == 0)
        print_quantiles("reduce, 2 members", ns, REDUCTIONS);
}

static void run_pair(void)
{
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
        if (fork() == 0) {
            member(rank);
            _exit(0);
        }
    }
    while (wait(NULL) > 0)
        ;
}

/* Rank 1 joins and then never comes to the barrier in which rank 0 waits. */
static void mortal_pair(uint32_t rank)
{
    struct sgd_group group;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    join.rank = rank;
    check(sgd_group_join(&group, &join));
    if (rank == 1)
        for (;;)
            pause();
    atomic_store(&board->is_waiting, 1);
    if (sgd_group_barrier(&group).code != MT_EWORKER_DIED)
        _exit(1);
    atomic_store(&board->released_at, now_ns());
    _exit(0);
}

static void abort_latency(bool is_asleep)
{
    static uint64_t ns[KILLS];
    for (int i = 0; i < KILLS; i++) {
        pid_t pids[MEMBERS];
        join.generation++;
        atomic_store(&board->is_waiting, 0);
        for (uint32_t rank = 0; rank < MEMBERS; rank++)
            if ((pids[rank] = fork()) == 0)
                mortal_pair(rank);
        while (!atomic_load(&board->is_waiting))
            ;
        if (is_asleep)
            usleep(2000);
        uint64_t start = now_ns();
        kill(pids[1], SIGKILL);
        waitpid(pids[1], NULL, 0);
        sgd_group_abort(join.region, join.generation, MT_EWORKER_DIED, 1);
        waitpid(pids[0], NULL, 0);
        ns[i] = atomic_load(&board->released_at) - start;
    }
    print_quantiles(is_asleep ? "SIGKILL to survivor back, it slept" : "SIGKILL to survivor back, it polled", ns, KILLS);
}

int main(void)
{
    struct k_config kernels = {.kind = K_CPU};
    check(k_ops_choose(&kernels, &ops));
    check(sgd_group_region_size(&join.plan, &join.region_size));
    join.region = mmap(NULL, join.region_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (join.region == MAP_FAILED || board == MAP_FAILED)
        return 1;
    memset(join.region, 0, join.region_size); /* faults its pages in */
    join.generation = 1;
    futex_floor();
    run_pair();
    abort_latency(false);
    abort_latency(true);
    return 0;
}
