/* SPDX-License-Identifier: Apache-2.0
 *
 * coll.c - all-reduce between two processes over the sockets that members on two machines have: TLS keyed by the group's secret.
 *
 * The floor is what one of these sockets carries one way, each process on a core of its own. An all-reduce of n bytes between two
 * moves n each way, so each side encrypts as many as it decrypts: coll_tls.both is that stream in both directions at once, and no
 * sum can be faster.
 *
 * Thread: each process's main one.
 */
#include "tests/bench/cluster/coll.h"

#include "sgd/coll/tcp/tcp.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MEMBERS = 2, LARGE = 64 << 20, LARGE_CALLS = 9, SMALL = 64, SMALL_CALLS = 5000, WARM_CALLS = 3, WAIT_MS = 60000 };

/* Where the two tell each other their ports. */
struct meeting {
    struct coll_at at[MEMBERS];
    _Atomic int    there;
};

struct member {
    struct coll_tcp tcp;
    uint32_t        rank;
    float          *in, *out;
};

static bool fail(const struct member *m, const char *what, mt_status st)
{
    fprintf(stderr, "coll_tls, rank %u: %s: %s %s\n", m->rank, what, st.what ? st.what : "", m->tcp.text);
    return false;
}

static bool join(struct member *m, struct meeting *meeting)
{
    static const unsigned char secret[COLL_SECRET_BYTES] = "of this run alone";
    struct coll_tcp_config     config = {.group = 1,
                                         .generation = 1,
                                         .rank = m->rank,
                                         .members = MEMBERS,
                                         .wait_limit_ms = WAIT_MS,
                                         .name = "bench",
                                         .secret = secret,
                                         .at.is_far = true};
    mt_status                  st = coll_tcp_open(&m->tcp, &config, &meeting->at[m->rank]);
    if (st.code)
        return fail(m, "open", st);
    for (meeting->there++; meeting->there < MEMBERS;)
        sched_yield();
    st = coll_tcp_join(&m->tcp, meeting->at);
    return st.code ? fail(m, "join", st) : true;
}

static bool barrier(struct member *m)
{
    mt_status st = coll_tcp_run(&m->tcp, &(struct coll_call){.kind = COLL_BARRIER});
    return st.code ? fail(m, "barrier", st) : true;
}

/* Bytes from this side and to it, at the same time; microseconds, < 0: failed. */
static double stream(struct member *m, size_t to_send, size_t to_take)
{
    struct coll_socket *socket = &m->tcp.peers[1 - m->rank].sockets[COLL_DATA];
    if (!barrier(m))
        return -1;
    uint64_t start = bench_now_ns();
    for (size_t sent = 0, took = 0; sent < to_send || took < to_take;) {
        size_t    out = 0, in = 0;
        mt_status st = mt_ok();
        if (sent < to_send)
            st = coll_socket_send(socket, (const char *)m->in + sent, to_send - sent, &out);
        if (st.code == MT_OK && took < to_take)
            st = coll_socket_receive(socket, (char *)m->out + took, to_take - took, &in);
        if (st.code)
            return fail(m, "stream", st), -1;
        sent += out;
        took += in;
        struct pollfd p = {.fd = socket->fd, .events = coll_socket_events(socket, sent < to_send, took < to_take)};
        if (!out && !in && poll(&p, 1, WAIT_MS) <= 0)
            return fail(m, "stream: nothing moves", mt_ok()), -1;
    }
    return barrier(m) ? (double)(bench_now_ns() - start) * 1e-3 : -1;
}

static double one_way(struct member *m, size_t bytes)
{
    return stream(m, m->rank == 0 ? bytes : 0, m->rank == 0 ? 0 : bytes);
}

static double both_ways(struct member *m, size_t bytes)
{
    return stream(m, bytes, bytes);
}

static double all_reduce(struct member *m, size_t bytes)
{
    size_t           count = bytes / sizeof(float);
    struct coll_call call = {.kind = COLL_ALL_REDUCE, .type = COLL_F32, .op = COLL_SUM, .count = count, .in = m->in, .out = m->out};
    if (bytes == LARGE && !barrier(m))
        return -1;
    uint64_t  start = bench_now_ns();
    mt_status st = coll_tcp_run(&m->tcp, &call);
    double    us = (double)(bench_now_ns() - start) * 1e-3;
    if (st.code)
        return fail(m, "all-reduce", st), -1;
    for (size_t i = 0; i < count; i += 997)
        if (m->out[i] != 2 * m->in[i])
            return fail(m, "the sum is wrong", mt_ok()), -1;
    return us;
}

/* The median of rank 0; the row's value is a rate where the size is the large one. False: failed. */
static bool measure(struct member *m, double (*run)(struct member *m, size_t bytes), size_t bytes, struct bench_row *row)
{
    size_t               calls = bytes == LARGE ? LARGE_CALLS : SMALL_CALLS;
    struct bench_samples samples;
    if (!bench_samples_init(&samples))
        return fail(m, "no memory", mt_ok());
    for (size_t i = 0; i < calls + WARM_CALLS; i++) {
        double us = run(m, bytes);
        if (us < 0)
            return false;
        if (i >= WARM_CALLS)
            bench_samples_add(&samples, us);
    }
    if (!bench_samples_row(&samples, 0.5, row))
        return fail(m, "no samples", mt_ok());
    row->more = BENCH_ONE_ROW;
    row->unit = bytes == LARGE ? "GB/s" : "us";
    if (bytes == LARGE) {
        double us = row->value;
        row->value = (double)bytes / us * 1e-3;
        row->sd = row->value * row->sd / us;
    }
    return true;
}

/* What both members do, in the same order; rank 0 prints, with `b`. */
static bool life(struct member *m, struct bench *b)
{
    struct bench_row sum = {.id = "coll_tls", .floor = FLOOR_TLS}, both = {.id = "coll_tls.both", .floor = FLOOR_TLS};
    struct bench_row small = {.id = "coll_tls.b", .floor = FLOOR_TCP_RTT}, stream_row = {0};
    bench_core_choose(0, m->rank == 1);
    for (size_t i = 0; i < LARGE / sizeof(float); i++)
        m->in[i] = (float)(i % 1000);
    memset(m->out, 0, LARGE);
    if (!measure(m, one_way, LARGE, &stream_row) || !measure(m, all_reduce, LARGE, &sum) || !measure(m, both_ways, LARGE, &both) ||
        !measure(m, all_reduce, SMALL, &small))
        return false;
    if (!b)
        return true;
    sum.floor_value = both.floor_value = stream_row.value;
    small.floor_value = bench_floor(b, FLOOR_TCP_RTT);
    bench_print_row(b, &sum);
    bench_print_row(b, &small);
    bench_print_row(b, &both);
    return true;
}

static bool member_run(struct meeting *meeting, uint32_t rank, struct bench *b)
{
    static struct member m;
    m = (struct member){.rank = rank, .in = aligned_alloc(4096, LARGE), .out = aligned_alloc(4096, LARGE)};
    bool ok = m.in && m.out && join(&m, meeting) && life(&m, b);
    coll_tcp_fini(&m.tcp);
    free(m.in);
    free(m.out);
    return ok;
}

bool bench_coll_tls(struct bench *b)
{
    struct meeting *meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int             status = 0;
    if (meeting == MAP_FAILED)
        return false;
    fflush(NULL);
    pid_t other = fork();
    if (other == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(member_run(meeting, 1, NULL) ? 0 : 1);
    }
    bool ok = other > 0 && member_run(meeting, 0, b);
    if (other > 0 && !ok)
        kill(other, SIGKILL); /* it may wait for us */
    if (other > 0 && waitpid(other, &status, 0) == other && status != 0)
        ok = false;
    munmap(meeting, sizeof *meeting);
    return ok;
}
