/* SPDX-License-Identifier: Apache-2.0
 *
 * together.c - bare processes that begin at the same moment: the frame of bare.c and lanes.c.
 *
 * Owns: its processes and the page on which they meet, for one graph. Thread: the main one.
 */
#include "tests/bench/metg/metg.h"

#include "core/lane/shm.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_S = 60 };

struct meeting {
    shm_u32  ready, go;
    uint64_t ended_ns[GRAPH_WIDTH_MAX];
};

static void child(const struct metg_crew *c, struct meeting *at, int number)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(LIMIT_S);
    bench_core_choose(0, number >= c->count / 2);
    if (c->open)
        c->open(c->arg, number);
    shm_add32(&at->ready, 1);
    while (!shm_load32_acquire(&at->go))
        sched_yield();
    bool ok = c->run(c->arg, number);
    at->ended_ns[number] = bench_now_ns();
    _exit(ok ? 0 : 1);
}

static double run(const struct metg_crew *c, struct meeting *at)
{
    int      status, running = 0;
    bool     ok = true;
    uint64_t start, end = 0;
    for (; ok && running < c->count; running += ok) {
        pid_t pid = fork();
        if (pid == 0)
            child(c, at, running);
        ok = pid > 0;
    }
    while (ok && shm_load32_acquire(&at->ready) < (uint32_t)c->count)
        sched_yield();
    start = bench_now_ns();
    shm_store32_release(&at->go, 1);
    for (int i = 0; i < running; i++)
        ok = wait(&status) > 0 && status == 0 && ok;
    for (int i = 0; i < running; i++)
        end = at->ended_ns[i] > end ? at->ended_ns[i] : end;
    return ok ? (double)(end - start) * 1e-9 : -1;
}

double metg_together(const struct metg_crew *c)
{
    struct meeting *at = mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return -1;
    double seconds = run(c, at);
    munmap(at, sizeof *at);
    return seconds;
}
