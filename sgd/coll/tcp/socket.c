/* SPDX-License-Identifier: Apache-2.0
 *
 * socket.c - listening, dialling and the secret; the one file of sgd that opens sockets.
 *
 * Owns: the listener and the strangers' descriptors of a door.
 */
#include "sgd/coll/tcp/socket.h"

#include "core/base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAGIC = 0x6c6f636d, BACKLOG = 128, WELCOME = 0x4d };

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void tune(int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    /* What is on the way should still be in the second cache when its receiver copies it. */
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){MT_COLL_SEND_BYTES}, sizeof(int));
}

/* Takes the same time whatever differs. */
static bool secret_equals(const unsigned char *a, const unsigned char *b)
{
    volatile unsigned char differs = 0;
    for (int i = 0; i < COLL_SECRET_BYTES; i++)
        differs = (unsigned char)(differs | (a[i] ^ b[i]));
    return differs == 0;
}

/* ---- the listener's side ---- */

mt_status coll_door_open(struct coll_door *door, const struct coll_hello *mine, uint16_t *out_port)
{
    struct sockaddr_in at = loopback(0);
    socklen_t          size = sizeof at;

    memset(door, 0, sizeof *door);
    coll_door_await(door, mine);
    door->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (door->listener < 0)
        return mt_error(MT_ESYS, errno, "group: open a listener");
    if (bind(door->listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(door->listener, BACKLOG) != 0 ||
        getsockname(door->listener, (struct sockaddr *)&at, &size) != 0) {
        int sys = errno;
        close(door->listener);
        door->listener = -1;
        return mt_error(MT_ESYS, sys, "group: listen on loopback");
    }
    *out_port = ntohs(at.sin_port);
    return mt_ok();
}

void coll_door_await(struct coll_door *door, const struct coll_hello *mine)
{
    door->mine = *mine;
    door->mine.magic = MAGIC;
}

void coll_door_close(struct coll_door *door)
{
    for (int i = 0; i < MT_COLL_STRANGERS_MAX; i++)
        if (door->strangers[i].fd > 0)
            close(door->strangers[i].fd);
    if (door->listener >= 0)
        close(door->listener);
    memset(door, 0, sizeof *door);
    door->listener = -1;
}

static void stranger_drop(struct coll_door *door, int i)
{
    close(door->strangers[i].fd);
    door->strangers[i].fd = 0;
}

static void admit(struct coll_door *door)
{
    int fd = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), oldest = 0;
    if (fd < 0)
        return;
    for (int i = 0; i < MT_COLL_STRANGERS_MAX; i++) {
        if (door->strangers[i].fd == 0) {
            oldest = i;
            break;
        }
        if (door->strangers[i].until_ns < door->strangers[oldest].until_ns)
            oldest = i;
    }
    if (door->strangers[oldest].fd > 0)
        stranger_drop(door, oldest); /* whoever has been silent longest makes room */
    door->strangers[oldest].fd = fd;
    door->strangers[oldest].got = 0;
    door->strangers[oldest].until_ns = mt_now_ns() + MT_HANDSHAKE_MS * 1000000ull;
}

static bool is_member(const struct coll_hello *hello, const struct coll_hello *mine)
{
    return secret_equals(hello->secret, mine->secret) && hello->magic == mine->magic && hello->group == mine->group &&
           hello->generation == mine->generation && hello->rank <= mine->rank && hello->channel < COLL_CHANNELS;
}

/* Reads on; true: this one is a member, and no stranger any more. */
static bool stranger_step(struct coll_door *door, int i)
{
    char      welcome = WELCOME;
    size_t    moved = 0, got = door->strangers[i].got;
    mt_status st = coll_socket_receive(door->strangers[i].fd, (char *)&door->strangers[i].hello + got,
                                       sizeof(struct coll_hello) - got, &moved);
    door->strangers[i].got += moved;
    if (st.code != MT_OK || (uint64_t)mt_now_ns() > door->strangers[i].until_ns) {
        stranger_drop(door, i);
        return false;
    }
    if (door->strangers[i].got < sizeof(struct coll_hello))
        return false;
    if (!is_member(&door->strangers[i].hello, &door->mine) || send(door->strangers[i].fd, &welcome, 1, MSG_NOSIGNAL) != 1) {
        stranger_drop(door, i);
        return false;
    }
    return true;
}

mt_status coll_door_accept(struct coll_door *door, int wait_ms, int *out_fd, uint32_t *out_rank, uint32_t *out_channel)
{
    struct pollfd p[MT_COLL_STRANGERS_MAX + 1] = {{.fd = door->listener, .events = POLLIN}};
    nfds_t        count = 1;

    *out_fd = -1;
    for (int i = 0; i < MT_COLL_STRANGERS_MAX; i++)
        if (door->strangers[i].fd > 0)
            p[count++] = (struct pollfd){.fd = door->strangers[i].fd, .events = POLLIN};
    if (poll(p, count, wait_ms) < 0 && errno != EINTR)
        return mt_error(MT_ESYS, errno, "group: wait for members");
    for (int i = 0; i < MT_COLL_STRANGERS_MAX; i++) {
        if (door->strangers[i].fd == 0 || !stranger_step(door, i))
            continue;
        *out_fd = door->strangers[i].fd;
        *out_rank = door->strangers[i].hello.rank;
        *out_channel = door->strangers[i].hello.channel;
        door->strangers[i].fd = 0;
        tune(*out_fd);
        return mt_ok();
    }
    if (p[0].revents & POLLIN)
        admit(door);
    return mt_ok();
}

/* ---- the dialler's side ---- */

static mt_status wait_for(int fd, short events, const struct coll_patience *patience, uint64_t until_ns)
{
    struct pollfd p = {.fd = fd, .events = events};
    for (;;) {
        if ((uint64_t)mt_now_ns() >= until_ns)
            return mt_error(MT_ETIMEDOUT, 0, "group: a member does not answer");
        if (patience->look)
            MT_TRY(patience->look(patience->user));
        int n = poll(&p, 1, patience->each_ms);
        if (n > 0)
            return mt_ok();
        if (n < 0 && errno != EINTR)
            return mt_error(MT_ESYS, errno, "group: wait for a connection");
    }
}

static mt_status greet(int fd, const struct coll_hello *hello, const struct coll_patience *patience)
{
    uint64_t          until_ns = mt_now_ns() + (uint64_t)patience->wait_ms * 1000000u;
    struct coll_hello mine = *hello;
    int               sys = 0;
    socklen_t         size = sizeof sys;
    char              welcome = 0;
    size_t            moved = 0;

    mine.magic = MAGIC;
    MT_TRY(wait_for(fd, POLLOUT, patience, until_ns));
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys, &size) != 0 || sys != 0)
        return mt_error(MT_ECONN, sys, "group: connect to a member");
    /* 64 bytes into an empty buffer go at once or not at all. */
    if (send(fd, &mine, sizeof mine, MSG_NOSIGNAL) != (ssize_t)sizeof mine)
        return mt_error(MT_ECONN, errno, "group: greet a member");
    MT_TRY(wait_for(fd, POLLIN, patience, until_ns));
    MT_TRY(coll_socket_receive(fd, &welcome, 1, &moved));
    return moved == 1 && welcome == WELCOME ? mt_ok() : mt_error(MT_EAUTH, 0, "group: a member refused the connection");
}

mt_status coll_socket_dial(uint16_t port, const struct coll_hello *hello, const struct coll_patience *patience, int *out_fd)
{
    struct sockaddr_in to = loopback(port);
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return mt_error(MT_ESYS, errno, "group: open a connection");
    mt_status st = mt_ok();
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS)
        st = mt_error(MT_ECONN, errno, "group: connect to a member");
    if (st.code == MT_OK)
        st = greet(fd, hello, patience);
    if (st.code != MT_OK) {
        close(fd);
        return st;
    }
    tune(fd);
    *out_fd = fd;
    return mt_ok();
}

/* ---- moving bytes ---- */

mt_status coll_socket_send(int fd, const void *data, size_t size, size_t *out_moved)
{
    ssize_t n = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    *out_moved = n > 0 ? (size_t)n : 0;
    if (n >= 0 || errno == EAGAIN || errno == EINTR)
        return mt_ok();
    return mt_error(MT_ECONN, errno, "group: send to a member");
}

mt_status coll_socket_receive(int fd, void *data, size_t size, size_t *out_moved)
{
    ssize_t n = recv(fd, data, size, MSG_DONTWAIT);
    *out_moved = n > 0 ? (size_t)n : 0;
    if (n > 0 || size == 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return mt_ok();
    return mt_error(MT_ECONN, n < 0 ? errno : 0, "group: a member closed its connection");
}

void coll_socket_close(int fd)
{
    if (fd >= 0)
        close(fd);
}
