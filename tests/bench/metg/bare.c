/* SPDX-License-Identifier: Apache-2.0
 *
 * bare.c - the same graphs by processes that share a page and nothing else: the METG of this machine itself, beside ours.
 *
 * On one node: a process for each place, as with actors, half of them on each core. A place says in a word of its own how many
 * rows it has done; who needs that yields until it is so. No messages, no calls.
 *
 * On two nodes: what a record has to pass between two nodes that are machines of their own. A worker cannot reach the other node's
 * memory, so its node sends and the other one receives:
 *
 *   worker 0 --word--> sender 0 --TCP--> receiver 1 --word--> worker 1     and the same back, at once; a core for each node
 *
 * They all sleep while they wait, or all yield.
 *
 * Owns: their page, for one graph. Thread: the main one.
 */
#include "tests/bench/metg/metg.h"

#include "core/lane/park.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RECORD_BYTES = 64, LOOKS = 64, ROLES = 3 };

struct post { /* of one node: how many records are there to be sent, or have come */
    struct lane_park park;
    _Alignas(64) shm_u32 count;
};

struct bare {
    struct {
        _Alignas(64) shm_u32 rows; /* that it has done */
    } places[GRAPH_WIDTH_MAX];
    struct post out[2], in[2];
    int         sockets[2][2]; /* [from]: where that node writes, where the other one reads */
};

static void await(const struct metg_bare *m, struct post *post, uint32_t wanted)
{
    while (shm_load32_acquire(&post->count) < wanted) {
        if (!m->sleeps) {
            sched_yield();
            continue;
        }
        uint32_t bell = lane_park_prepare(&post->park);
        if (shm_load32_acquire(&post->count) >= wanted)
            lane_park_cancel(&post->park);
        else
            lane_park_sleep(&post->park, bell, INT64_C(1000000000));
    }
}

static void give(struct post *post, uint32_t count)
{
    shm_store32_release(&post->count, count);
    if (lane_park_must_wake(&post->park))
        lane_park_wake(&post->park);
}

static void place_run(const struct metg_bare *m, struct bare *b, int place, int64_t iterations)
{
    for (int step = 0; step < GRAPH_STEPS; step++) {
        int needs[GRAPH_NEEDS_MAX], count = graph_needs(m->pattern, m->width, step, place, needs);
        for (int i = 0; i < count; i++)
            for (int looks = 1; shm_load32_acquire(&b->places[needs[i]].rows) < (uint32_t)step; looks++)
                if (m->width > m->cores || looks % LOOKS == 0)
                    sched_yield();
                else
                    shm_pause();
        (void)graph_work(iterations);
        shm_store32_release(&b->places[place].rows, (uint32_t)step + 1);
    }
}

static bool node_run(const struct metg_bare *m, struct bare *b, int node, int role, int64_t iterations)
{
    char record[RECORD_BYTES] = {0};
    for (uint32_t step = 1; step <= GRAPH_STEPS; step++) {
        if (role == 0) {
            await(m, &b->in[node], step - 1);
            (void)graph_work(iterations);
            give(&b->out[node], step);
        } else if (role == 1) {
            await(m, &b->out[node], step);
            if (send(b->sockets[node][0], record, sizeof record, MSG_NOSIGNAL) != sizeof record)
                return false;
        } else {
            size_t got = 0;
            while (got < sizeof record) {
                ssize_t n = recv(b->sockets[1 - node][1], record, sizeof record - got, m->sleeps ? 0 : MSG_DONTWAIT);
                if (n == 0)
                    return false;
                got += n > 0 ? (size_t)n : 0;
                if (n < 0)
                    sched_yield();
            }
            give(&b->in[node], step);
        }
    }
    return true;
}

struct bare_graph {
    const struct metg_bare *m;
    struct bare            *b;
    int64_t                 iterations;
};

static bool run_one(void *arg, int number)
{
    const struct bare_graph *g = arg;
    if (g->m->two_nodes)
        return node_run(g->m, g->b, number / ROLES, number % ROLES, g->iterations);
    place_run(g->m, g->b, number, g->iterations);
    return true;
}

double metg_bare_run(void *arg, int64_t iterations)
{
    const struct metg_bare *m = arg;
    struct bare            *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool                    ok = b != MAP_FAILED;
    for (int i = 0; ok && m->two_nodes && i < 2; i++)
        ok = bench_tcp_pair(b->sockets[i]);
    struct metg_crew crew = {m->two_nodes ? 2 * ROLES : m->width, NULL, run_one, &(struct bare_graph){m, b, iterations}};
    double           seconds = ok ? metg_together(&crew) : -1;
    for (int i = 0; b != MAP_FAILED && m->two_nodes && i < 4; i++)
        close(b->sockets[i / 2][i % 2]);
    if (b != MAP_FAILED)
        munmap(b, sizeof *b);
    return seconds;
}
