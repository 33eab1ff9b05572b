/* SPDX-License-Identifier: Apache-2.0
 *
 * pull_bench.c - a large value fetched from another node's raylet over loopback, beside raw TCP over loopback.
 *
 *   pull_bench              1 GiB, a head and two raylets of its own; prints, and passes whatever the figures are
 *   TEST_TLS=1 pull_bench   the same with TLS between the nodes; the floor stays in clear
 *
 * The value is a task's result on the other node; what is timed is manta_get of it: request, transfer into the segment,
 * map, pin. The first lands in fresh memory, the others in warm. The floor is one TCP connection between two processes,
 * from warm memory into warm memory, and (for the first) into fresh memory.
 */
#include "tests/integration/cluster/nodes.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REPEATS = 5, SMALL_COUNT = 500, STORE_MIB = 2300, CHUNK = 1 << 20, BEGIN = 1 };
static const size_t LARGE = (size_t)1 << 30;

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* ---- the floor ---- */
static void send_all(int fd, const char *data)
{
    char begin;
    while (recv(fd, &begin, 1, 0) == 1) {
        for (size_t at = 0; at < LARGE;) {
            ssize_t n = send(fd, data + at, LARGE - at < CHUNK ? LARGE - at : CHUNK, MSG_NOSIGNAL);
            if (n <= 0)
                _exit(1);
            at += (size_t)n;
        }
    }
    _exit(0);
}

static double receive_all(int fd, char *data)
{
    double start = now();
    CHECK_EQ(send(fd, &(char){BEGIN}, 1, MSG_NOSIGNAL), 1);
    for (size_t at = 0; at < LARGE;) {
        ssize_t n = recv(fd, data + at, LARGE - at < CHUNK ? LARGE - at : CHUNK, 0);
        CHECK(n > 0);
        at += (size_t)n;
    }
    return (double)LARGE / (now() - start) / 1e9;
}

static char *memory_new(void)
{
    char *data = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(data != MAP_FAILED);
    return data;
}

struct floor {
    int   fd;
    pid_t child;
    char *from, *to;
};
static void floor_open(struct floor *f)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t          size = sizeof at;
    int                listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(listener, (struct sockaddr *)&at, size), 0);
    CHECK_EQ(listen(listener, 1), 0);
    CHECK_EQ(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    f->from = memory_new(), f->to = memory_new();
    memset(f->from, 1, LARGE);
    f->child = fork();
    if (f->child == 0)
        send_all(accept(listener, NULL, NULL), f->from);
    f->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(f->fd, (struct sockaddr *)&at, size), 0);
    close(listener);
}
static void floor_close(struct floor *f)
{
    int status;
    close(f->fd);
    CHECK_EQ(waitpid(f->child, &status, 0), f->child);
    CHECK_EQ(status, 0);
    munmap(f->from, LARGE);
    munmap(f->to, LARGE);
}

/* ---- figures ---- */
struct rate {
    double sum, best;
    int    n;
};
static void rate_add(struct rate *r, double x)
{
    r->sum += x;
    r->best = x > r->best ? x : r->best;
    r->n++;
}
static void report(const char *name, const struct rate *ours, const struct rate *tcp)
{
    printf("%-16s mean %5.2f best %5.2f GB/s   TCP mean %5.2f best %5.2f   ratio %.2f %.2f\n", name, ours->sum / ours->n,
           ours->best, tcp->sum / tcp->n, tcp->best, ours->sum / ours->n / (tcp->sum / tcp->n), ours->best / tcp->best);
}

/* ---- the value ---- */
static manta_status make(manta_ctx *c, int argc, const manta_arg *argv)
{
    static char *data; /* of this worker, for all its tasks */
    size_t       size = (size_t)argv[0].l;
    (void)argc;
    if (!data && !(data = malloc(LARGE)))
        return manta_fail(c, 1, "no memory");
    memset(data, (int)argv[1].l, size);
    return manta_return_bytes(c, data, size);
}
MANTA_REGISTER(make, "ll>y");

static manta_ref *made(size_t size, int seed)
{
    manta_error   e;
    unsigned char ready;
    manta_ref    *ref = manta_call("make", &(manta_task_opts){AT(1)}, MANTA_ARGS(manta_i64((int64_t)size), manta_i64(seed)));
    CHECK_EQ(manta_wait(&ref, 1, 1, 4 * TEST_WAIT_MS, &ready, &e), 1);
    return ref;
}

/* Seconds of one get; the value is verified after. */
static double get(manta_ref *ref, size_t size, int seed)
{
    manta_error e;
    manta_view  view;
    double      start = now();
    CHECK_CODE(manta_get(ref, 4 * TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    double seconds = now() - start;
    CHECK_EQ(view.size, size);
    for (size_t i = 0; i < size; i += 4096)
        CHECK_EQ(((const char *)view.data)[i], (char)seed);
    CHECK_EQ(((const char *)view.data)[size - 1], (char)seed);
    manta_release(&view);
    return seconds;
}

static void small(void)
{
    static manta_ref *refs[SMALL_COUNT];
    double            seconds = 0;
    for (int i = 0; i < SMALL_COUNT; i++)
        refs[i] = made(8192, i);
    for (int i = 0; i < SMALL_COUNT; i++) {
        seconds += get(refs[i], 8192, i);
        manta_free(refs[i]);
    }
    printf("%-16s %8.1f us, one after the other\n", "get_remote_8k", seconds / SMALL_COUNT * 1e6);
}

/* Ours and the floor in turn: what else the machine does hits both. */
static void pull_bench(void)
{
    struct nodes n;
    struct floor f;
    struct rate  ours[2], tcp[2]; /* fresh, warm */
    nodes_start_store(&n, 2, "1", STORE_MIB);
    memset(ours, 0, sizeof ours);
    memset(tcp, 0, sizeof tcp);
    floor_open(&f);
    for (int i = 0; i <= REPEATS; i++) {
        manta_ref *ref = made(LARGE, i);
        rate_add(&tcp[i > 0], receive_all(f.fd, f.to));
        rate_add(&ours[i > 0], (double)LARGE / get(ref, LARGE, i) / 1e9);
        manta_free(ref);
    }
    floor_close(&f);
    report("pull_1g_fresh", &ours[0], &tcp[0]);
    report("pull_1g_warm", &ours[1], &tcp[1]);
    small();
    nodes_stop(&n);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {{"pull_bench", pull_bench, {0}, true, 0}, {NULL, NULL, {0}, false, 0}};
    return test_main(argc, argv, cases);
}
