/* SPDX-License-Identifier: Apache-2.0
 *
 * port.c - see port.h. Owns: the socket that keeps a port.
 */
#include "clients/gang/rank/port.h"

#include "core/base/clock.h"
#include "core/base/limits/gang.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The first port that the kernel chooses by itself for who names none. */
static int ephemeral_min(void)
{
    int   low = 32768;
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (f && fscanf(f, "%d", &low) != 1)
        low = 32768;
    if (f)
        fclose(f);
    return low > MT_GANG_PORT_MIN ? low : 65536; /* a range that begins so low leaves nothing below it */
}

/* Does nobody listen there, on any address? */
static bool is_free(int port)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in  any4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int                 one = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool                is_v6 = fd >= 0;
    if (!is_v6)
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bool ok = is_v6 ? bind(fd, (struct sockaddr *)&any, sizeof any) == 0 : bind(fd, (struct sockaddr *)&any4, sizeof any4) == 0;
    ok = ok && listen(fd, 1) == 0; /* two may be bound, one may listen */
    close(fd);
    return ok;
}

static bool hold(struct gng_port *port, int number)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int                n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "manta-gang-port-%d", number);
    int                fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    if (bind(fd, (struct sockaddr *)&name, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) != 0 ||
        !is_free(number)) {
        close(fd);
        return false;
    }
    *port = (struct gng_port){number, fd};
    return true;
}

mt_status gng_port_take(struct gng_port *port)
{
    int      top = ephemeral_min(), count = top - MT_GANG_PORT_MIN;
    uint64_t from = (uint64_t)mt_now_ns() / 1000 * 7919 + (uint64_t)getpid() * 104729;
    *port = (struct gng_port){0, -1};
    for (int i = 0; i < MT_GANG_PORT_TRIES; i++)
        if (hold(port, MT_GANG_PORT_MIN + (int)((from + (uint64_t)i) % (uint64_t)count)))
            return mt_ok();
    return mt_error(MT_EAGAIN, errno, "find a free port");
}

void gng_port_drop(struct gng_port *port)
{
    if (port->number && port->held >= 0)
        close(port->held);
    *port = (struct gng_port){0, -1};
}
