/* SPDX-License-Identifier: Apache-2.0
 *
 * flood_source.c - opens connections that say nothing, at a steady rate, as cheaply as it can.
 *
 * flood_source ADDRESS RATE PORT...: from that address to each port of 127.0.0.1, RATE a second, until its standard input ends;
 * then it prints how many it made. It holds HELD of them at a time and closes the oldest by a reset.
 *
 * Thread: one.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HELD = 2000 };

static int  held[HELD];
static long made;

static void open_one(const struct sockaddr_in *from, long port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct linger      reset = {.l_onoff = 1, .l_linger = 0};
    int               *place = &held[made++ % HELD], on = 1;
    if (*place)
        close(*place);
    *place = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*place < 0)
        exit(3);
    setsockopt(*place, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    setsockopt(*place, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (bind(*place, (const struct sockaddr *)from, sizeof *from) < 0)
        exit(4);
    (void)!connect(*place, (struct sockaddr *)&to, sizeof to);
}

int main(int argc, char **argv)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct pollfd      end = {0, POLLIN, 0};
    struct timespec    next;
    double             rate = argc > 3 ? strtod(argv[2], NULL) : 0;
    struct rlimit      fds = {HELD + 100, HELD + 100};
    if (rate <= 0 || inet_pton(AF_INET, argv[1], &from.sin_addr) != 1 || setrlimit(RLIMIT_NOFILE, &fds) < 0)
        return 2;
    clock_gettime(CLOCK_MONOTONIC, &next);
    while (poll(&end, 1, 0) == 0) {
        for (int i = 3; i < argc; i++)
            open_one(&from, strtol(argv[i], NULL, 10));
        next.tv_nsec += (long)(1e9 / rate);
        next.tv_sec += next.tv_nsec / 1000000000;
        next.tv_nsec %= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    printf("%ld\n", made);
    return 0;
}
