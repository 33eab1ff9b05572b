/* SPDX-License-Identifier: Apache-2.0
 *
 * port.h - a port for a server that is still to begin, or to come back: nobody else is given it meanwhile.
 *
 * Between a look for a free port and the server that listens there, any connection of this machine may be given it. So it stays
 * bound here, by a socket that never listens: one with SO_REUSEADDR, as servers set it, may listen beside that.
 */
#ifndef TESTS_PORT_H
#define TESTS_PORT_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

/* A descriptor that holds this port of 127.0.0.1 (0: any) as long as it is open; -1: somebody has it. */
static inline int port_hold_this(uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)(const void *)&at, sizeof at) == 0)
        return fd;
    close(fd);
    return -1;
}

static inline int port_hold(void)
{
    return port_hold_this(0);
}

/* The port that such a descriptor holds; 0: it is none. */
static inline uint16_t port_of(int fd)
{
    struct sockaddr_in at = {.sin_port = 0};
    socklen_t          size = sizeof at;
    return getsockname(fd, (struct sockaddr *)(void *)&at, &size) == 0 ? ntohs(at.sin_port) : 0;
}

#endif
