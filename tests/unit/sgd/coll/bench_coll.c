/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_coll.c - all-reduce over shared memory between two processes that do nothing else, beside a copy past the caches
 * of the same run. Not a test. By hand: build/release/tests/unit/sgd/bench_coll
 */
#include "sgd/coll/shm/shm.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS_SMALL = 20000, ROUNDS_LARGE = 20 };
static const size_t LARGE = 64 << 20;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(struct coll_shm *g, const char *what, void *in, void *out, size_t bytes, int rounds)
{
    struct coll_call call = {.kind = COLL_ALL_REDUCE, .count = bytes / 4, .in = in, .out = out};
    struct coll_call barrier = {.kind = COLL_BARRIER};
    double          *us = calloc((size_t)rounds, sizeof *us);
    for (int i = -2; i < rounds; i++) {
        double start = now_us();
        if (bytes >= 1 << 20) {
            if (coll_shm_run(g, &barrier).code)
                _exit(2);
            start = now_us();
        }
        if (coll_shm_run(g, &call).code)
            _exit(2);
        if (i >= 0)
            us[i] = now_us() - start;
    }
    qsort(us, (size_t)rounds, sizeof *us, by_value);
    double p50 = us[rounds / 2];
    if (g->rank == 0)
        printf("%-16s %9zu B  p50 %10.2f us  p99 %10.2f us  %6.2f GB/s\n", what, bytes, p50, us[rounds * 99 / 100],
               (double)bytes / p50 * 1e-3);
    free(us);
}

static void copies(struct coll_shm *g, char *in, char *out)
{
    struct coll_call barrier = {.kind = COLL_BARRIER};
    for (int stream = 0; stream < 2; stream++) {
        double best = 1e18;
        for (int i = 0; i < 5; i++) {
            if (coll_shm_run(g, &barrier).code)
                _exit(2);
            double start = now_us();
            coll_copy(g->loops, out, in, LARGE, stream);
            double us = now_us() - start;
            best = us < best ? us : best;
        }
        if (g->rank == 0)
            printf("%-16s %9zu B  best %9.2f us  (both at once)  %6.2f GB/s\n", stream ? "copy past caches" : "memcpy", LARGE, best,
                   (double)LARGE / best * 1e-3);
    }
}

static void member(uint32_t rank, uint32_t members, void *region, size_t size, struct coll_shm_plan plan)
{
    struct coll_shm        g;
    struct coll_shm_config config = {
        .region = region, .region_size = size, .plan = plan, .generation = 1, .rank = rank, .members = members, .name = "bench"};
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(rank % (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), &one);
    sched_setaffinity(0, sizeof one, &one);
    char *in = aligned_alloc(4096, LARGE), *out = aligned_alloc(4096, LARGE);
    if (!in || !out || coll_shm_join(&g, &config).code)
        _exit(2);
    for (size_t i = 0; i < LARGE / sizeof(float); i++)
        ((float *)(void *)in)[i] = (float)(i % 1000);
    memset(out, 1, LARGE);
    void *heap_in = coll_shm_alloc(&g, LARGE), *heap_out = coll_shm_alloc(&g, LARGE);
    memcpy(heap_in, in, LARGE), memset(heap_out, 1, LARGE);
    for (size_t bytes = 4; bytes <= 1 << 16; bytes *= 4)
        measure(&g, "private", in, out, bytes, ROUNDS_SMALL);
    for (size_t bytes = 1 << 18; bytes <= 1 << 24; bytes *= 4)
        measure(&g, "private", in, out, bytes, 100);
    measure(&g, "private", in, out, LARGE, ROUNDS_LARGE);
    measure(&g, "private in place", in, in, LARGE, ROUNDS_LARGE);
    measure(&g, "heap", heap_in, heap_out, LARGE, ROUNDS_LARGE);
    measure(&g, "heap in place", heap_in, heap_in, LARGE, ROUNDS_LARGE);
    copies(&g, in, out);
    coll_shm_fini(&g);
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv)
{
    uint32_t             members = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2;
    struct coll_shm_plan plan = {.members_max = members, .heap_size = 2 * LARGE * members};
    size_t               size;
    int                  failed = 0;
    if (coll_shm_size(&plan, &size).code)
        return 2;
    void *region = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (region == MAP_FAILED)
        return perror("mmap"), 2;
    coll_shm_lay(region, &plan);
    for (uint32_t rank = 0; rank < members; rank++)
        if (fork() == 0)
            member(rank, members, region, size, plan);
    for (int status; wait(&status) > 0;)
        failed |= status != 0;
    return failed;
}
