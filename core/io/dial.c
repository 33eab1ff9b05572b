/* SPDX-License-Identifier: Apache-2.0
 *
 * dial.c - see dial.h.
 */
#include "core/io/dial.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

mt_status io_dial(const char *host, uint16_t port, int *out_fd)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *found;
    char            service[8];
    snprintf(service, sizeof service, "%u", port);
    if (getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, service, &hints, &found) != 0)
        return mt_error(MT_EINVAL, 0, "dial: no such address");
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    int on = 1;
    int err = fd < 0 ? errno : 0;
    if (fd >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (connect(fd, found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS)
            err = errno;
    }
    freeaddrinfo(found);
    if (err != 0) {
        if (fd >= 0)
            close(fd);
        return mt_error(err == ECONNREFUSED ? MT_ECONN : MT_ESYS, err, "dial: connect");
    }
    *out_fd = fd;
    return mt_ok();
}

mt_status io_dialled(int fd)
{
    int       err = 0;
    socklen_t size = sizeof err;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size);
    return err ? mt_error(MT_ECONN, err, "dial: connect") : mt_ok();
}
