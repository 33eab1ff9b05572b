/* SPDX-License-Identifier: Apache-2.0
 *
 * listen.c - see listen.h. Owns: the listening socket, and the connections.
 */
#include "clients/gang/horovod/listen.h"

#include "core/base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct gng_guest {
    int                fd;     /* 0: the place is free */
    uint64_t           number; /* a lower one has come earlier */
    size_t             sent;   /* of its answer */
    struct gng_request request;
};

void gng_listen_init(struct gng_listen *l)
{
    *l = (struct gng_listen){.epoll = -1, .listener = -1};
}

static bool address_take(mt_view text, uint32_t port, struct sockaddr_in *out)
{
    char address[64];
    snprintf(address, sizeof address, "%.*s", (int)text.size, (const char *)text.data);
    *out = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return inet_pton(AF_INET, address, &out->sin_addr) == 1;
}

static void guest_drop(struct gng_guest *g)
{
    if (g->fd)
        close(g->fd);
    gng_request_fini(&g->request);
    *g = (struct gng_guest){0};
}

void gng_listen_end(struct gng_listen *l)
{
    for (int i = 0; l->guests && i < MT_GANG_HTTP_CONNS; i++)
        guest_drop(&l->guests[i]);
    free(l->guests);
    gng_rendezvous_fini(&l->space);
    if (l->listener >= 0)
        close(l->listener);
    if (l->epoll >= 0)
        close(l->epoll);
    gng_listen_init(l);
}

/* `place`: of a guest; MT_GANG_HTTP_CONNS: the listener. */
static bool watch(const struct gng_listen *l, int op, int fd, uint32_t events, uint32_t place)
{
    struct epoll_event ev = {.events = events, .data.u32 = place};
    return epoll_ctl(l->epoll, op, fd, &ev) == 0;
}

mt_status gng_listen_begin(struct gng_listen *l, const struct gng_horovod *where, int size)
{
    struct sockaddr_in a;
    int                one = 1;
    gng_listen_end(l);
    if (!address_take(where->host, where->port, &a))
        return mt_error(MT_ESYS, EAFNOSUPPORT, "serve Horovod's rendezvous");
    gng_rendezvous_init(&l->space, size, where->secret, (int)where->port);
    l->guests = calloc(MT_GANG_HTTP_CONNS, sizeof *l->guests);
    if (!l->guests)
        return mt_error(MT_ENOMEM, 0, "serve Horovod's rendezvous");
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->listener >= 0)
        setsockopt(l->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (l->epoll >= 0 && l->listener >= 0 && bind(l->listener, (struct sockaddr *)&a, sizeof a) == 0 &&
        listen(l->listener, MT_GANG_RANKS_MAX) == 0 && watch(l, EPOLL_CTL_ADD, l->listener, EPOLLIN, MT_GANG_HTTP_CONNS))
        return mt_ok();
    int sys = errno;
    gng_listen_end(l);
    return mt_error(MT_ESYS, sys, "serve Horovod's rendezvous");
}

/* ---- connections ---- */

/* Where a new one goes: a free place, else that of the oldest that has not shown the secret, else of the oldest. */
static struct gng_guest *place_find(struct gng_listen *l)
{
    struct gng_guest *out = NULL;
    for (int i = 0; i < MT_GANG_HTTP_CONNS; i++) {
        struct gng_guest *g = &l->guests[i];
        if (!g->fd)
            return g;
        bool is_less = out && !g->request.is_known && out->request.is_known;
        if (!out || is_less || (g->request.is_known == out->request.is_known && g->number < out->number))
            out = g;
    }
    guest_drop(out);
    return out;
}

static void guests_take(struct gng_listen *l)
{
    int fd;
    while ((fd = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct gng_guest *g = place_find(l);
        if (fd == 0 || !watch(l, EPOLL_CTL_ADD, fd, EPOLLIN, (uint32_t)(g - l->guests)))
            close(fd);
        else
            *g = (struct gng_guest){.fd = fd, .number = l->come++};
    }
}

/* What of its answer goes now; the rest when there is room. All of it: the connection ends. */
static void guest_answer(struct gng_listen *l, struct gng_guest *g)
{
    const mt_buf *out = &g->request.out;
    while (g->sent < out->size) {
        ssize_t n = send(g->fd, out->data + g->sent, out->size - g->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN && watch(l, EPOLL_CTL_MOD, g->fd, EPOLLOUT, (uint32_t)(g - l->guests)))
            return;
        if (n <= 0)
            break;
        g->sent += (size_t)n;
    }
    guest_drop(g);
}

static mt_status guest_serve(struct gng_listen *l, struct gng_guest *g)
{
    uint8_t bytes[MT_GANG_PART_BYTES];
    if (!g->request.is_done) {
        ssize_t n = recv(g->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return mt_ok();
        if (n <= 0) {
            guest_drop(g);
            return mt_ok();
        }
        MT_TRY(gng_request_take(&l->space, &g->request, mt_view_of(bytes, (size_t)n)));
    }
    if (g->request.is_done)
        guest_answer(l, g);
    return mt_ok();
}

mt_status gng_listen_serve(struct gng_listen *l)
{
    struct epoll_event events[64];
    int                count = l->epoll >= 0 ? epoll_wait(l->epoll, events, 64, 0) : 0;
    bool               has_new = false;
    for (int i = 0; i < count; i++) {
        if (events[i].data.u32 == MT_GANG_HTTP_CONNS)
            has_new = true; /* after the others: it may take the place of one */
        else if (l->guests[events[i].data.u32].fd)
            MT_TRY(guest_serve(l, &l->guests[events[i].data.u32]));
    }
    if (has_new)
        guests_take(l);
    return mt_ok();
}

/* ---- on every node ---- */

void gng_listen_wait(const struct gng_horovod *where)
{
    struct sockaddr_in a;
    int64_t            until_ns = mt_now_ns() + MT_GANG_HTTP_WAIT_MS * INT64_C(1000000);
    bool               is_there = !address_take(where->host, where->port, &a);
    while (!is_there && mt_now_ns() < until_ns) {
        struct timeval limit = {1, 0};
        int            fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        is_there = connect(fd, (struct sockaddr *)&a, sizeof a) == 0;
        close(fd);
        if (!is_there)
            mt_sleep_ms(5);
    }
}

void gng_interface_of(mt_view address, char *out, size_t size)
{
    struct sockaddr_in a;
    struct ifaddrs    *all = NULL;
    out[0] = 0;
    if (!address_take(address, 0, &a) || getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *i = all; i && !out[0]; i = i->ifa_next) {
        const struct sockaddr_in *its = (const struct sockaddr_in *)(const void *)i->ifa_addr;
        if (its && its->sin_family == AF_INET && its->sin_addr.s_addr == a.sin_addr.s_addr)
            snprintf(out, size, "%s", i->ifa_name);
    }
    freeifaddrs(all);
}
