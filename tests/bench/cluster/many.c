/* SPDX-License-Identifier: Apache-2.0
 *
 * many.c - collectives among up to 64 members, each taken as its own machine: the coll_many rows. See coll.h.
 *
 * Each member is a process with the sockets that members on two machines have (TLS). The sum's bits are compared with the tree's
 * over all inputs, which this process makes first; the bytes are what the kernel says that its sockets have sent.
 *
 * Owns: the children. Thread: each process's main one.
 */
#include "tests/bench/cluster/coll.h"

#include "core/base/rng.h"
#include "sgd/coll/tcp/tcp.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MEMBERS = MT_GROUP_MEMBERS_MAX, FLOATS = 1 << 20, DEATHS = 5, WAIT_MS = 60000, WORK_FLOATS = 10000 };

/* What the members and this process tell each other. */
struct many {
    uint32_t       members;
    struct coll_at at[MEMBERS];
    _Atomic int    there, joined;
    uint64_t       ended_ns[MEMBERS], sent[MEMBERS];
    uint32_t       connections[MEMBERS], wrong[MEMBERS];
    pid_t          pids[MEMBERS];
    float          tree[FLOATS];
};

struct found {
    uint32_t connections, wrong; /* of the member with the most; members whose bits are not the tree's */
    double   bytes;              /* of the member that sends most, over the formula */
    double   abort_ms;
};

static bool fail(uint32_t rank, const struct coll_tcp *tcp, const char *what)
{
    fprintf(stderr, "coll_many, rank %u: %s: %s\n", rank, what, tcp->text);
    return false;
}

/* Sums of these have other bits in each order of additions. */
static void input_of(uint32_t rank, float *out)
{
    mt_rng rng = {rank + 1};
    for (size_t i = 0; i < FLOATS; i++)
        out[i] = ((float)mt_rng_below(&rng, 2000001) - 1e6f) * (i % 3 ? 1e-3f : 1e3f);
}

static bool tree_make(struct many *w)
{
    float      *inputs = malloc(sizeof(float) * FLOATS * w->members);
    const void *in[MEMBERS];
    if (!inputs)
        return false;
    for (uint32_t m = 0; m < w->members; m++)
        in[m] = inputs + (size_t)m * FLOATS, input_of(m, inputs + (size_t)m * FLOATS);
    coll_reduce(coll_loops_choose(NULL), COLL_F32, COLL_SUM, in, w->members, FLOATS, w->tree, false, NULL);
    free(inputs);
    return true;
}

/* ---- a member ---- */

static bool join(struct many *w, struct coll_tcp *tcp, uint32_t rank)
{
    static const unsigned char secret[COLL_SECRET_BYTES] = "of this run alone";
    struct coll_tcp_config     config = {.group = 1,
                                         .generation = 1,
                                         .rank = rank,
                                         .members = w->members,
                                         .wait_limit_ms = WAIT_MS,
                                         .name = "bench",
                                         .secret = secret,
                                         .at.is_far = true};
    if (coll_tcp_open(tcp, &config, &w->at[rank]).code)
        return fail(rank, tcp, "open");
    for (w->there++; w->there < (int)w->members;)
        bench_sleep_us(200);
    if (coll_tcp_join(tcp, w->at).code)
        return fail(rank, tcp, "join");
    w->joined++;
    return true;
}

/* What its sockets have sent, and how many they are. */
static uint64_t sent_by(const struct coll_tcp *tcp, uint32_t *out_connections)
{
    uint64_t bytes = 0;
    *out_connections = 0;
    for (uint32_t r = 0; r < tcp->config.members; r++)
        for (int channel = 0; channel < COLL_SOCKETS; channel++) {
            struct tcp_info info = {0};
            socklen_t       size = sizeof info;
            int             fd = tcp->peers[r].sockets[channel].fd;
            if (fd < 0)
                continue;
            (*out_connections)++;
            if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
                bytes += info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
        }
    return bytes;
}

static bool sum_once(struct many *w, struct coll_tcp *tcp, uint32_t rank)
{
    struct coll_call barrier = {.kind = COLL_BARRIER};
    struct coll_call call = {.kind = COLL_ALL_REDUCE, .type = COLL_F32, .op = COLL_SUM, .count = FLOATS};
    float           *data = malloc(2 * sizeof(float) * FLOATS);
    uint32_t         connections;
    if (!data)
        return fail(rank, tcp, "no memory");
    input_of(rank, data);
    call.in = data, call.out = data + FLOATS;
    uint64_t before = sent_by(tcp, &connections);
    if (coll_tcp_run(tcp, &call).code || coll_tcp_run(tcp, &barrier).code) /* when all have it, all is sent */
        return fail(rank, tcp, "sum");
    w->sent[rank] = sent_by(tcp, &w->connections[rank]) - before;
    w->wrong[rank] = memcmp(call.out, w->tree, sizeof w->tree) != 0;
    free(data);
    return true;
}

/* Sums until somebody dies. */
static bool sum_on(struct many *w, struct coll_tcp *tcp, uint32_t rank)
{
    static float     data[WORK_FLOATS];
    struct coll_call call = {
        .kind = COLL_ALL_REDUCE, .type = COLL_F32, .op = COLL_MAX, .count = WORK_FLOATS, .in = data, .out = data};
    mt_status st;
    do
        st = coll_tcp_run(tcp, &call);
    while (st.code == MT_OK);
    w->ended_ns[rank] = bench_now_ns();
    return st.code == MT_EWORKER_DIED || fail(rank, tcp, "not told of the death");
}

static void member_hire(struct many *w, uint32_t rank, bool (*life)(struct many *w, struct coll_tcp *tcp, uint32_t rank))
{
    static struct coll_tcp tcp;
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0) {
        w->pids[rank] = pid; /* shared memory: not the child's to write */
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bool ok = join(w, &tcp, rank) && life(w, &tcp, rank);
    coll_tcp_fini(&tcp);
    _exit(ok ? 0 : 1);
}

/* ---- this process ---- */

static struct many *many_new(uint32_t members)
{
    struct many *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (w == MAP_FAILED)
        return NULL;
    w->members = members;
    return w;
}

/* Waits for all; the one that was killed may fail. */
static bool all_end(struct many *w, uint32_t killed)
{
    bool ok = true;
    for (uint32_t r = 0; r < w->members; r++) {
        int status = 1;
        if (w->pids[r] <= 0 || waitpid(w->pids[r], &status, 0) != w->pids[r] || (status != 0 && r != killed))
            ok = false;
    }
    return ok;
}

static bool sums_measure(uint32_t members, struct found *found)
{
    struct many *w = many_new(members);
    if (!w || !tree_make(w))
        return false;
    for (uint32_t r = 0; r < members; r++)
        member_hire(w, r, sum_once);
    bool   ok = all_end(w, members);
    double formula = 2.0 * (members - 1) / members * sizeof w->tree;
    for (uint32_t r = 0; r < members; r++) {
        double bytes = (double)w->sent[r] / formula;
        found->bytes = bytes > found->bytes ? bytes : found->bytes;
        found->connections = w->connections[r] > found->connections ? w->connections[r] : found->connections;
        found->wrong += w->wrong[r];
    }
    munmap(w, sizeof *w);
    return ok;
}

/* From the kill until the last of the others knows. */
static bool death_measure(uint32_t killed, struct found *found)
{
    struct many *w = many_new(MEMBERS);
    if (!w)
        return false;
    for (uint32_t r = 0; r < MEMBERS; r++)
        member_hire(w, r, sum_on);
    for (uint64_t until = bench_now_ns() + WAIT_MS * 1000000ull; w->joined < MEMBERS && bench_now_ns() < until;)
        bench_sleep_us(1000);
    bench_sleep_us(100000);
    uint64_t start = bench_now_ns();
    kill(w->pids[killed], SIGKILL);
    bool ok = all_end(w, killed);
    for (uint32_t r = 0; r < MEMBERS; r++) {
        double ms = r == killed ? 0 : ((double)w->ended_ns[r] - (double)start) * 1e-6;
        found->abort_ms = ms > found->abort_ms ? ms : found->abort_ms;
    }
    munmap(w, sizeof *w);
    return ok;
}

bool bench_coll_many(struct bench *b)
{
    static const uint32_t sizes[] = {2, 3, 5, 8, MEMBERS};
    struct found          found = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!sums_measure(sizes[i], &found))
            return false;
    for (uint32_t i = 0; i < DEATHS; i++)
        if (!death_measure((i * 29 + 1) % MEMBERS, &found))
            return false;
    bench_print_value(b, "coll_many", "connections", found.connections, MEMBERS);
    bench_print_value(b, "coll_many.b", "members", found.wrong, 2 + 3 + 5 + 8 + MEMBERS);
    bench_print_value(b, "coll_many.c", "x", found.bytes, sizeof sizes / sizeof *sizes);
    bench_print_value(b, "coll_many.d", "ms", found.abort_ms, DEATHS);
    return true;
}
