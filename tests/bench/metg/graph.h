/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.h - the task graphs of METG, after Task Bench (Slaughter et al., SC'20): rows of tasks, and who needs whom.
 *
 * A graph has GRAPH_STEPS rows of `width` places. Task (step, place) needs tasks of row step - 1, works for a while, and gives a
 * number that is a function of its place in the graph alone. So whoever takes a number can check it. Shared with the MPI
 * program of scripts/peers.sh --metg: nothing here knows of Manta.
 */
#ifndef BENCH_METG_GRAPH_H
#define BENCH_METG_GRAPH_H

#include <stdint.h>

enum { GRAPH_STEPS = 1000, GRAPH_WIDTH_MAX = 64, GRAPH_RADIX = 5, GRAPH_NEEDS_MAX = 5 };

/* trivial: nothing. stencil: the neighbours and oneself. nearest: the GRAPH_RADIX nearest. fft: oneself and the two at a distance
 * that doubles with each row. spread: GRAPH_RADIX places far apart, which move with each row. */
enum graph_pattern { GRAPH_TRIVIAL, GRAPH_STENCIL, GRAPH_NEAREST, GRAPH_FFT, GRAPH_SPREAD, GRAPH_PATTERNS };
static const char *const graph_names[GRAPH_PATTERNS] = {"trivial", "stencil", "nearest", "fft", "spread"};

static inline int graph_add(int *places, int count, int place, int width)
{
    if (place < 0 || place >= width)
        return count;
    for (int i = 0; i < count; i++)
        if (places[i] == place)
            return count;
    places[count] = place;
    return count + 1;
}

/* Places of row step - 1 that task (step, place) needs, each once; how many. None in row 0. */
static inline int graph_needs(enum graph_pattern pattern, int width, int step, int place, int places[GRAPH_NEEDS_MAX])
{
    int count = 0, reach = pattern == GRAPH_NEAREST ? GRAPH_RADIX / 2 : 1, bits = 0;
    if (step == 0 || pattern == GRAPH_TRIVIAL)
        return 0;
    if (pattern == GRAPH_SPREAD) {
        for (int i = 0; i < GRAPH_RADIX; i++)
            count = graph_add(places, count, (place + i * width / GRAPH_RADIX + (i ? step : 0)) % width, width);
        return count;
    }
    if (pattern == GRAPH_FFT) {
        while (2 << bits < width)
            bits++;
        reach = 1 << (step - 1) % (bits + 1);
        for (int i = -1; i <= 1; i++)
            count = graph_add(places, count, place + i * reach, width);
        return count;
    }
    for (int i = -reach; i <= reach; i++)
        count = graph_add(places, count, place + i, width);
    return count;
}

/* Places of row step + 1 that need task (step, place); how many. */
static inline int graph_feeds(enum graph_pattern pattern, int width, int step, int place, int places[GRAPH_WIDTH_MAX])
{
    int count = 0, needs[GRAPH_NEEDS_MAX];
    if (step + 1 >= GRAPH_STEPS)
        return 0;
    for (int to = 0; to < width; to++) {
        int n = graph_needs(pattern, width, step + 1, to, needs);
        for (int i = 0; i < n; i++)
            if (needs[i] == place)
                places[count++] = to;
    }
    return count;
}

/* What task (step, place) gives. Never 0. */
static inline int64_t graph_value(int step, int place)
{
    uint64_t x = ((uint64_t)step << 32 | (uint32_t)place) + 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    return (int64_t)(x ^ x >> 27) | 1;
}

/* A chain of multiplications: so many iterations take a time that only the core's clock decides. */
static inline double graph_work(int64_t iterations)
{
    double x = 1.0;
    for (int64_t i = 0; i < iterations; i++) {
        x = x * 0.999999 + 1e-6;
        __asm__ volatile("" : "+x"(x)); /* the chain stays one */
    }
    return x;
}

#endif
