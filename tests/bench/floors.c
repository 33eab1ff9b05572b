/* SPDX-License-Identifier: Apache-2.0
 *
 * floors.c - what this machine can do at best, measured in the same run: the rows beside which the others stand.
 *
 * Each floor is measured once, when a case first needs it. The second process is a fork of this one that touches
 * nothing but the page they share; the two run on the first and the last core that we may use.
 */
#include "tests/bench/bench.h"

#include "core/lane/park.h"
#include "core/lane/ring.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    ROUNDS_RING = 200000,
    ROUNDS_FUTEX = 20000,
    ROUNDS_TCP = 20000,
    TCP_BYTES = 64, /* a record without arguments */
    ROUNDS_FORK = 500,
    ROUNDS_RATE = 20 * 1000 * 1000,
    RATE_BATCH = 8,     /* records per publish */
    YIELD_EVERY = 4096, /* fruitless looks; on one core the other side has to run too */
};
static const uint64_t FLOOR_LIMIT_NS = 20ull * 1000 * 1000 * 1000; /* a side that hears nothing so long gives up */
static const size_t   COPY_BYTES = 1ull << 30;

const struct bench_floor_text bench_floor_texts[FLOOR_COUNT] = {
    [FLOOR_NONE] = {"", ""},
    [FLOOR_RING_RTT] = {"ring_rtt", "us"},
    [FLOOR_RING_RATE] = {"ring_rate", "1/s"},
    [FLOOR_FUTEX_RTT] = {"futex_rtt", "us"},
    [FLOOR_TCP_RTT] = {"tcp_rtt", "us"},
    [FLOOR_MEMCPY] = {"memcpy", "GB/s"},
    [FLOOR_NT_COPY] = {"nt_copy", "GB/s"},
    [FLOOR_MEMCPY_1K] = {"memcpy_1k", "1/s"},
    [FLOOR_FORK] = {"fork", "us"},
    [FLOOR_GRPC] = {"grpc_stream", "1/s"},
    [FLOOR_POTRF] = {"openblas", "GFLOP/s"},
    [FLOOR_VIEWS] = {"views_once", "MB"},
    [FLOOR_TLS] = {"tls_stream", "GB/s"},
    [FLOOR_TCP] = {"tcp_stream", "GB/s"},
    [FLOOR_REDIS] = {"redis_bench", "commits/s"},
    [FLOOR_GEMM] = {"gemm", "GFLOP/s"},
    [FLOOR_BARE] = {"bare_metg", "us"},
    [FLOOR_BARE_TCP] = {"bare_tcp", "us"},
};

struct pair { /* shared */
    struct lane_ring_words there_words, back_words;
    struct lane_park       parks[2];
    shm_u32                turns[2];
    uint8_t                there[LANE_RING_BYTES], back[LANE_RING_BYTES];
    int                    sockets[2]; /* the two ends of tcp_rtt's connection */
};

static struct pair *pair_new(void)
{
    void *memory = mmap(NULL, sizeof(struct pair), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void bench_core_choose(int pid, bool last)
{
    cpu_set_t all, one;
    int       chosen = -1;
    if (sched_getaffinity(pid, sizeof all, &all) != 0)
        return;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &all) && (last || chosen < 0))
            chosen = i;
    }
    CPU_ZERO(&one);
    CPU_SET(chosen, &one);
    sched_setaffinity(pid, sizeof one, &one);
}

bool bench_tcp_pair(int out[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t          size = sizeof at;
    int                listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    out[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0 &&
              getsockname(listener, (struct sockaddr *)&at, &size) == 0 && connect(out[0], (struct sockaddr *)&at, size) == 0;
    out[1] = ok ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    close(listener);
    for (int i = 0; i < 2; i++)
        ok = ok && setsockopt(out[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
    return ok;
}

/* Runs `other` in a second process and `mine` here, each on its core; what `mine` returns, 0 where something failed. */
static double pair_run(bool (*other)(struct pair *), double (*mine)(struct pair *))
{
    struct pair *pair = pair_new();
    cpu_set_t    before;
    if (!pair || !bench_tcp_pair(pair->sockets) || sched_getaffinity(0, sizeof before, &before) != 0)
        return 0;
    double result = 0;
    pid_t  child = fork();
    if (child == 0) {
        bench_core_choose(0, true);
        _exit(other(pair) ? 0 : 1);
    }
    bench_core_choose(0, false);
    if (child > 0) {
        int status;
        result = mine(pair);
        if (result <= 0)
            kill(child, SIGKILL);
        if (waitpid(child, &status, 0) != child || status != 0)
            result = 0;
    }
    sched_setaffinity(0, sizeof before, &before);
    close(pair->sockets[0]);
    close(pair->sockets[1]);
    munmap(pair, sizeof *pair);
    return result;
}

/* Polls for the next record; its sequence, 0 where the limit passed or the ring is broken. */
static uint64_t ring_next(struct lane_consumer *c)
{
    struct lane_record record;
    const uint8_t     *payload;
    bool               found = false;
    uint64_t           limit = 0;
    for (uint32_t looks = 1;; looks++) {
        if (lane_ring_peek(c, &record, &payload, &found).code != MT_OK)
            return 0;
        if (found) {
            lane_ring_consume(c);
            return record.sequence;
        }
        lane_ring_release(c);
        shm_pause();
        if (looks % YIELD_EVERY == 0) {
            uint64_t now = bench_now_ns();
            limit = limit ? limit : now + FLOOR_LIMIT_NS;
            if (now > limit)
                return 0;
            sched_yield();
        }
    }
}

static bool ring_send(struct lane_producer *p, uint64_t sequence)
{
    struct lane_record record = {.length = LANE_RECORD_SIZE, .kind = LANE_TASK, .sequence = sequence};
    return lane_ring_push(p, &record, NULL);
}

static bool ring_echo(struct pair *pair)
{
    struct lane_consumer c;
    struct lane_producer p;
    lane_consumer_init(&c, &pair->there_words, pair->there);
    lane_producer_init(&p, &pair->back_words, pair->back);
    for (uint64_t i = 1; i <= ROUNDS_RING; i++) {
        if (ring_next(&c) != i || !ring_send(&p, i))
            return false;
        lane_ring_publish(&p);
        lane_ring_release(&c);
    }
    return true;
}

static double ring_rtt(struct pair *pair)
{
    struct lane_producer p;
    struct lane_consumer c;
    struct bench_samples samples;
    struct bench_row     row = {0};
    lane_producer_init(&p, &pair->there_words, pair->there);
    lane_consumer_init(&c, &pair->back_words, pair->back);
    if (!bench_samples_init(&samples))
        return 0;
    bool ok = true;
    for (uint64_t i = 1; ok && i <= ROUNDS_RING; i++) {
        uint64_t start = bench_now_ns();
        ok = ring_send(&p, i);
        lane_ring_publish(&p);
        ok = ok && ring_next(&c) == i;
        lane_ring_release(&c);
        bench_samples_add(&samples, (double)(bench_now_ns() - start) / 1000);
    }
    ok &= bench_samples_row(&samples, 0.5, &row);
    return ok ? row.value : 0;
}

static bool ring_drain(struct pair *pair)
{
    struct lane_consumer c;
    lane_consumer_init(&c, &pair->there_words, pair->there);
    for (uint64_t i = 1; i <= ROUNDS_RATE; i++) {
        if (ring_next(&c) != i)
            return false;
        if (i % 64 == 0)
            lane_ring_release(&c);
    }
    lane_ring_release(&c);
    shm_store32_release(&pair->turns[0], 1);
    return true;
}

static double ring_rate(struct pair *pair)
{
    struct lane_producer p;
    uint64_t             start = bench_now_ns(), limit = start + FLOOR_LIMIT_NS;
    lane_producer_init(&p, &pair->there_words, pair->there);
    for (uint64_t i = 1; i <= ROUNDS_RATE; i++) {
        for (uint32_t looks = 1; !ring_send(&p, i); looks++) {
            lane_ring_publish(&p);
            shm_pause();
            if (looks % YIELD_EVERY == 0 && (sched_yield(), bench_now_ns()) > limit)
                return 0;
        }
        if (i % RATE_BATCH == 0)
            lane_ring_publish(&p);
    }
    lane_ring_publish(&p);
    while (shm_load32_acquire(&pair->turns[0]) == 0) {
        if (bench_now_ns() > limit)
            return 0;
        sched_yield();
    }
    return (double)ROUNDS_RATE * 1e9 / (double)(bench_now_ns() - start);
}

/* Waits for turn `wanted` of `side`, asleep, as a process without work does. */
static bool futex_turn(struct pair *pair, int side, uint32_t wanted)
{
    struct lane_park *park = &pair->parks[side];
    while (shm_load32_acquire(&pair->turns[side]) != wanted) {
        uint32_t bell = lane_park_prepare(park);
        if (shm_load32_acquire(&pair->turns[side]) == wanted) {
            lane_park_cancel(park);
            return true;
        }
        uint64_t before = bench_now_ns();
        lane_park_sleep(park, bell, (int64_t)FLOOR_LIMIT_NS);
        if (bench_now_ns() - before >= FLOOR_LIMIT_NS)
            return false;
    }
    return true;
}

static void futex_give(struct pair *pair, int side, uint32_t turn)
{
    shm_store32_release(&pair->turns[side], turn);
    if (lane_park_must_wake(&pair->parks[side]))
        lane_park_wake(&pair->parks[side]);
}

static bool futex_echo(struct pair *pair)
{
    for (uint32_t i = 1; i <= ROUNDS_FUTEX; i++) {
        if (!futex_turn(pair, 1, i))
            return false;
        futex_give(pair, 0, i);
    }
    return true;
}

static double futex_rtt(struct pair *pair)
{
    struct bench_samples samples;
    struct bench_row     row = {0};
    bool                 ok = bench_samples_init(&samples);
    for (uint32_t i = 1; ok && i <= ROUNDS_FUTEX; i++) {
        uint64_t start = bench_now_ns();
        futex_give(pair, 1, i);
        ok = futex_turn(pair, 0, i);
        bench_samples_add(&samples, (double)(bench_now_ns() - start) / 1000);
    }
    return ok && bench_samples_row(&samples, 0.5, &row) ? row.value : 0;
}

/* ---- TCP ---- */
static bool tcp_echo(struct pair *pair)
{
    char bytes[TCP_BYTES];
    for (int i = 0; i < ROUNDS_TCP; i++)
        if (recv(pair->sockets[1], bytes, sizeof bytes, MSG_WAITALL) != sizeof bytes ||
            send(pair->sockets[1], bytes, sizeof bytes, MSG_NOSIGNAL) != sizeof bytes)
            return false;
    return true;
}

static double tcp_rtt(struct pair *pair)
{
    struct bench_samples samples;
    struct bench_row     row = {0};
    struct timeval       limit = {.tv_sec = (time_t)(FLOOR_LIMIT_NS / 1000000000)};
    char                 bytes[TCP_BYTES] = {0};
    bool                 ok = bench_samples_init(&samples);
    ok = ok && setsockopt(pair->sockets[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0;
    for (int i = 0; ok && i < ROUNDS_TCP; i++) {
        uint64_t start = bench_now_ns();
        ok = send(pair->sockets[0], bytes, sizeof bytes, MSG_NOSIGNAL) == sizeof bytes &&
             recv(pair->sockets[0], bytes, sizeof bytes, MSG_WAITALL) == sizeof bytes;
        bench_samples_add(&samples, (double)(bench_now_ns() - start) / 1000);
    }
    return ok && bench_samples_row(&samples, 0.5, &row) ? row.value : 0;
}

/* ---- copies ---- */
static void copy_streaming(void *to, const void *from, size_t size)
{
#if defined(__x86_64__)
    const __m128i *s = from;
    __m128i       *d = to;
    for (size_t i = 0; i < size / sizeof *s; i += 4) {
        __m128i a = _mm_load_si128(s + i), b = _mm_load_si128(s + i + 1);
        __m128i c = _mm_load_si128(s + i + 2), e = _mm_load_si128(s + i + 3);
        _mm_stream_si128(d + i, a);
        _mm_stream_si128(d + i + 1, b);
        _mm_stream_si128(d + i + 2, c);
        _mm_stream_si128(d + i + 3, e);
    }
    _mm_sfence();
#else
    memcpy(to, from, size);
#endif
}

static void copy_plain(void *to, const void *from, size_t size)
{
    memcpy(to, from, size);
}

/* The best of five, in GB/s, into shared memory whose pages are there. */
static double copy_rate(void (*copy)(void *, const void *, size_t))
{
    char  *from = mmap(NULL, COPY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char  *to = mmap(NULL, COPY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double best = 0;
    if (from != MAP_FAILED && to != MAP_FAILED) {
        memset(from, 1, COPY_BYTES);
        memset(to, 2, COPY_BYTES);
        for (int i = 0; i < 5; i++) {
            uint64_t start = bench_now_ns();
            copy(to, from, COPY_BYTES);
            double rate = (double)COPY_BYTES / (double)(bench_now_ns() - start);
            best = rate > best ? rate : best;
        }
        if (memcmp(from, to, COPY_BYTES) != 0)
            best = 0;
    }
    if (from != MAP_FAILED)
        munmap(from, COPY_BYTES);
    if (to != MAP_FAILED)
        munmap(to, COPY_BYTES);
    return best;
}

static double copy_small_rate(void)
{
    enum { SMALL = 1024, ROOM = 8 << 20, ROUNDS = 2 * 1000 * 1000 };
    char *to = malloc(ROOM), from[SMALL];
    if (!to)
        return 0;
    memset(to, 1, ROOM);
    memset(from, 2, sizeof from);
    uint64_t start = bench_now_ns();
    for (size_t i = 0; i < ROUNDS; i++) {
        memcpy(to + i * SMALL % ROOM, from, SMALL);
        __asm__ volatile("" : : "r"(to) : "memory"); /* each copy happens */
    }
    double rate = ROUNDS * 1e9 / (double)(bench_now_ns() - start);
    free(to);
    return rate;
}

static double fork_time(void)
{
    struct bench_samples samples;
    struct bench_row     row = {0};
    if (!bench_samples_init(&samples))
        return 0;
    for (int i = 0; i < ROUNDS_FORK; i++) {
        int      status;
        uint64_t start = bench_now_ns();
        pid_t    child = fork();
        if (child == 0)
            _exit(0);
        if (child < 0 || waitpid(child, &status, 0) != child)
            break;
        bench_samples_add(&samples, (double)(bench_now_ns() - start) / 1000);
    }
    return bench_samples_row(&samples, 0.5, &row) ? row.value : 0;
}

double bench_floor(struct bench *b, enum bench_floor which)
{
    double *floor = &b->floors[which];
    if (*floor > 0)
        return *floor;
    switch (which) {
    case FLOOR_RING_RTT: return *floor = pair_run(ring_echo, ring_rtt);
    case FLOOR_RING_RATE: return *floor = pair_run(ring_drain, ring_rate);
    case FLOOR_FUTEX_RTT: return *floor = pair_run(futex_echo, futex_rtt);
    case FLOOR_TCP_RTT: return *floor = pair_run(tcp_echo, tcp_rtt);
    case FLOOR_MEMCPY: return *floor = copy_rate(copy_plain);
    case FLOOR_NT_COPY: return *floor = copy_rate(copy_streaming);
    case FLOOR_MEMCPY_1K: return *floor = copy_small_rate();
    case FLOOR_FORK: return *floor = fork_time();
    case FLOOR_GRPC: return *floor = bench_grpc_floor(b);
    case FLOOR_POTRF:
    case FLOOR_TLS:
    case FLOOR_VIEWS:
    case FLOOR_TCP:
    case FLOOR_REDIS:
    case FLOOR_GEMM:
    case FLOOR_BARE:
    case FLOOR_BARE_TCP:
    case FLOOR_NONE:
    case FLOOR_COUNT: break;
    }
    return 0;
}

static bool floor_run(struct bench *b, struct bench_row *row)
{
    row->value = bench_floor(b, row->floor);
    row->n = row->value > 0;
    row->floor_value = row->value;
    return true;
}

const struct bench_case bench_floor_cases[] = {
    {"floor_ring_rtt", "us", FLOOR_RING_RTT, false, floor_run},    {"floor_ring_rate", "1/s", FLOOR_RING_RATE, false, floor_run},
    {"floor_futex_rtt", "us", FLOOR_FUTEX_RTT, false, floor_run},  {"floor_tcp_rtt", "us", FLOOR_TCP_RTT, false, floor_run},
    {"floor_memcpy", "GB/s", FLOOR_MEMCPY, false, floor_run},      {"floor_nt_copy", "GB/s", FLOOR_NT_COPY, false, floor_run},
    {"floor_memcpy_1k", "1/s", FLOOR_MEMCPY_1K, false, floor_run}, {"floor_fork", "us", FLOOR_FORK, false, floor_run},
    {"floor_grpc_stream", "1/s", FLOOR_GRPC, false, floor_run},    {.id = NULL},
};
