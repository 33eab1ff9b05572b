/* SPDX-License-Identifier: Apache-2.0
 *
 * floor.c - see floor.h.
 *
 * A child answers what has come each REST_MS, in batches, as core/io/beat.c does, and looks at nothing of it.
 *
 * Owns: the child and both sockets. Thread: the main one.
 */
#include "tests/bench/cluster/crowd/floor.h"

#include "tests/bench/bench.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 64, BYTES = 56, REST_MS = 10, TURNS = 300 };

struct batch {
    struct mmsghdr     heads[BATCH];
    struct iovec       parts[BATCH];
    struct sockaddr_in peers[BATCH];
    char               bytes[BATCH][BYTES];
};

static void batch_init(struct batch *b)
{
    for (int i = 0; i < BATCH; i++) {
        b->parts[i] = (struct iovec){b->bytes[i], BYTES};
        b->heads[i].msg_hdr = (struct msghdr){
            .msg_name = &b->peers[i], .msg_namelen = sizeof b->peers[i], .msg_iov = &b->parts[i], .msg_iovlen = 1};
    }
}

static void answer_for_ever(int fd)
{
    static struct batch b;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    batch_init(&b);
    for (;;) {
        int got;
        bench_sleep_us(REST_MS * 1000);
        while ((got = recvmmsg(fd, b.heads, BATCH, MSG_DONTWAIT, NULL)) > 0)
            (void)sendmmsg(fd, b.heads, (unsigned)got, MSG_DONTWAIT);
    }
}

/* A hundredth of a second's datagrams, and what was answered before. */
static void turn(int fd, struct batch *b, uint32_t count)
{
    for (uint32_t left = count / (1000 / REST_MS), n; left; left -= n) {
        n = left < BATCH ? left : BATCH;
        for (uint32_t i = 0; i < n; i++)
            b->heads[i].msg_hdr.msg_name = NULL;
        (void)sendmmsg(fd, b->heads, n, MSG_DONTWAIT);
    }
    while (recvmmsg(fd, b->heads, BATCH, MSG_DONTWAIT, NULL) > 0)
        ;
}

static bool sockets_make(int *out_server, int *out_client)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t          size = sizeof at;
    *out_server = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    *out_client = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return *out_server >= 0 && *out_client >= 0 && bind(*out_server, (const struct sockaddr *)&at, size) == 0 &&
           getsockname(*out_server, (struct sockaddr *)&at, &size) == 0 &&
           connect(*out_client, (const struct sockaddr *)&at, size) == 0;
}

double crowd_floor(uint32_t count)
{
    static struct batch b;
    int                 server, client, status;
    struct rusage       used = {0};
    pid_t               pid = sockets_make(&server, &client) ? fork() : -1;
    if (pid == 0)
        answer_for_ever(server);
    if (pid > 0) {
        uint64_t begun = bench_now_ns();
        batch_init(&b);
        for (uint64_t i = 1; i <= TURNS; i++) {
            turn(client, &b, count);
            uint64_t due = begun + i * REST_MS * 1000000, now = bench_now_ns();
            bench_sleep_us(due > now ? (int)((due - now) / 1000) : 0);
        }
        kill(pid, SIGKILL);
        (void)wait4(pid, &status, 0, &used);
    }
    if (server >= 0)
        close(server);
    if (client >= 0)
        close(client);
    double cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    return pid > 0 ? 100 * cpu_s / (TURNS * REST_MS / 1e3) : -1;
}
