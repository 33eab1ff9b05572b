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
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAGIC = 0x6c6f636d, BACKLOG = 128, WELCOME = 0x4d };

/* ---- addresses ---- */

static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};

mt_status coll_at_read(const char *host, struct coll_at *out)
{
    static const unsigned char loopback_6[16] = {[15] = 1};
    *out = (struct coll_at){.port = 0};
    if (!host[0])
        return mt_ok();
    if (inet_pton(AF_INET, host, out->ip + sizeof mapped) == 1)
        memcpy(out->ip, mapped, sizeof mapped);
    else if (inet_pton(AF_INET6, host, out->ip) != 1)
        return mt_error(MT_EINVAL, 0, "group: that is not an address of a node");
    bool is_mapped = memcmp(out->ip, mapped, sizeof mapped) == 0;
    if ((is_mapped && out->ip[12] == 127) || memcmp(out->ip, loopback_6, sizeof loopback_6) == 0)
        *out = (struct coll_at){.port = 0};
    else
        out->is_far = 1;
    return mt_ok();
}

/* Its size. */
static socklen_t name_of(const struct coll_at *at, uint16_t port, struct sockaddr_storage *out)
{
    static const unsigned char none[16];
    struct sockaddr_in         in = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6        in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    memset(out, 0, sizeof *out);
    if (memcmp(at->ip, none, sizeof none) && memcmp(at->ip, mapped, sizeof mapped)) {
        memcpy(&in6.sin6_addr, at->ip, sizeof at->ip);
        memcpy(out, &in6, sizeof in6);
        return sizeof in6;
    }
    if (memcmp(at->ip, mapped, sizeof mapped) == 0)
        memcpy(&in.sin_addr, at->ip + sizeof mapped, sizeof in.sin_addr);
    memcpy(out, &in, sizeof in);
    return sizeof in;
}

/* Names the key of one listener in one generation: whoever is led to another door, or comes too late, is refused there. */
static void key_make(struct tls_psk *key, const struct coll_hello *hello, uint32_t to)
{
    memcpy(key->secret, hello->secret, sizeof key->secret);
    snprintf(key->name, sizeof key->name, "manta-coll 1 group %016llx generation %u to %u", (unsigned long long)hello->group,
             hello->generation, to);
}

/* Before the handshake: its last words and the hello are two small packets, and the second would wait 40 ms for the first one's
 * acknowledgement. */
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

mt_status coll_door_open(struct coll_door *door, struct coll_at *at)
{
    struct sockaddr_storage name;
    socklen_t               size = name_of(at, 0, &name);

    memset(door, 0, sizeof *door);
    door->is_far = at->is_far;
    door->listener = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (door->listener < 0)
        return mt_error(MT_ESYS, errno, "group: open a listener");
    if (bind(door->listener, (struct sockaddr *)&name, size) != 0 || listen(door->listener, BACKLOG) != 0 ||
        getsockname(door->listener, (struct sockaddr *)&name, &size) != 0) {
        int sys = errno;
        close(door->listener);
        door->listener = -1;
        return mt_error(MT_ESYS, sys, at->is_far ? "group: listen at this node's address" : "group: listen on loopback");
    }
    at->port = ntohs(name.ss_family == AF_INET ? ((struct sockaddr_in *)(void *)&name)->sin_port
                                               : ((struct sockaddr_in6 *)(void *)&name)->sin6_port);
    return mt_ok();
}

void coll_door_await(struct coll_door *door, const struct coll_hello *mine, uint32_t rank)
{
    door->mine = *mine;
    door->mine.magic = MAGIC;
    key_make(&door->key, mine, rank);
    if (door->is_far) /* the handshake shows it */
        memset(door->mine.secret, 0, sizeof door->mine.secret);
}

static void stranger_drop(struct coll_door *door, int i)
{
    coll_socket_close(&door->strangers[i].socket);
    door->strangers[i].socket.fd = 0;
}

void coll_door_close(struct coll_door *door)
{
    for (int i = 0; i < MT_COLL_STRANGERS_MAX; i++)
        if (door->strangers[i].socket.fd > 0)
            stranger_drop(door, i);
    if (door->listener >= 0)
        close(door->listener);
    memset(door, 0, sizeof *door);
    door->listener = -1;
}

static void admit(struct coll_door *door)
{
    struct coll_socket socket = {.fd = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    int                oldest = 0;
    if (socket.fd < 0)
        return;
    tune(socket.fd);
    for (int i = 0; i < MT_COLL_STRANGERS_MAX; i++) {
        if (door->strangers[i].socket.fd == 0) {
            oldest = i;
            break;
        }
        if (door->strangers[i].until_ns < door->strangers[oldest].until_ns)
            oldest = i;
    }
    if (door->strangers[oldest].socket.fd > 0)
        stranger_drop(door, oldest); /* whoever has been silent longest makes room */
    if (door->is_far && tls_psk_accept(&door->key, socket.fd, &socket.tls).code) {
        coll_socket_close(&socket);
        return;
    }
    door->strangers[oldest].socket = socket;
    door->strangers[oldest].got = 0;
    door->strangers[oldest].until_ns = mt_now_ns() + MT_HANDSHAKE_MS * 1000000ull;
}

static bool is_member(const struct coll_hello *hello, const struct coll_hello *mine)
{
    return secret_equals(hello->secret, mine->secret) && hello->magic == mine->magic && hello->group == mine->group &&
           hello->generation == mine->generation && hello->rank <= mine->rank && hello->channel < COLL_CHANNELS;
}

/* Reads on; true: this one is a member, and no stranger any more. The time binds who has not spoken: this member may have stood
 * still since. */
static bool stranger_step(struct coll_door *door, int i)
{
    char                welcome = WELCOME;
    size_t              moved = 0, got = door->strangers[i].got;
    struct coll_socket *socket = &door->strangers[i].socket;
    mt_status st = coll_socket_receive(socket, (char *)&door->strangers[i].hello + got, sizeof(struct coll_hello) - got, &moved);
    door->strangers[i].got += moved;
    bool is_whole = door->strangers[i].got == sizeof(struct coll_hello);
    if (st.code != MT_OK || (!is_whole && (uint64_t)mt_now_ns() > door->strangers[i].until_ns)) {
        stranger_drop(door, i);
        return false;
    }
    if (!is_whole)
        return false;
    /* One byte into an empty buffer goes at once. */
    if (!is_member(&door->strangers[i].hello, &door->mine) || coll_socket_send(socket, &welcome, 1, &moved).code || moved != 1) {
        stranger_drop(door, i);
        return false;
    }
    return true;
}

uint32_t coll_door_polls(const struct coll_door *door, struct pollfd out[COLL_DOOR_POLLS])
{
    uint32_t count = 1;
    out[0] = (struct pollfd){.fd = door->listener, .events = POLLIN};
    for (int i = 0; i < MT_COLL_STRANGERS_MAX; i++)
        if (door->strangers[i].socket.fd > 0)
            out[count++] = (struct pollfd){.fd = door->strangers[i].socket.fd,
                                           .events = coll_socket_events(&door->strangers[i].socket, false, true)};
    return count;
}

mt_status coll_door_accept(struct coll_door *door, int wait_ms, struct coll_socket *out, uint32_t *out_rank, uint32_t *out_channel)
{
    struct pollfd p[COLL_DOOR_POLLS];
    nfds_t        count = coll_door_polls(door, p);

    *out = (struct coll_socket){.fd = -1};
    if (poll(p, count, wait_ms) < 0 && errno != EINTR)
        return mt_error(MT_ESYS, errno, "group: wait for members");
    for (int i = 0; i < MT_COLL_STRANGERS_MAX; i++) {
        if (door->strangers[i].socket.fd == 0 || !stranger_step(door, i))
            continue;
        *out = door->strangers[i].socket;
        *out_rank = door->strangers[i].hello.rank;
        *out_channel = door->strangers[i].hello.channel;
        door->strangers[i].socket = (struct coll_socket){0};
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

static mt_status refused(const struct coll_socket *socket, mt_status st)
{
    return socket->tls && tls_is_refused(socket->tls)
               ? mt_error(MT_EAUTH, 0, "group: a member has another secret, or is another one")
               : st;
}

/* The first calls of a TLS connection are its handshake. */
static mt_status hello_send(struct coll_socket *socket, const struct coll_hello *hello, const struct coll_patience *patience,
                            uint64_t until_ns)
{
    size_t moved, done = 0;
    while (done < sizeof *hello) {
        mt_status st = coll_socket_send(socket, (const char *)hello + done, sizeof *hello - done, &moved);
        if (st.code)
            return refused(socket, st);
        done += moved;
        if (done < sizeof *hello)
            MT_TRY(wait_for(socket->fd, coll_socket_events(socket, true, false), patience, until_ns));
    }
    return mt_ok();
}

static mt_status greet(struct coll_socket *socket, const struct coll_hello *hello, const struct coll_patience *patience)
{
    uint64_t          until_ns = mt_now_ns() + (uint64_t)patience->wait_ms * 1000000u;
    struct coll_hello mine = *hello;
    int               sys = 0;
    socklen_t         size = sizeof sys;
    char              welcome = 0;
    size_t            moved = 0;

    mine.magic = MAGIC;
    if (socket->tls)
        memset(mine.secret, 0, sizeof mine.secret);
    MT_TRY(wait_for(socket->fd, POLLOUT, patience, until_ns));
    if (getsockopt(socket->fd, SOL_SOCKET, SO_ERROR, &sys, &size) != 0 || sys != 0)
        return mt_error(MT_ECONN, sys, "group: connect to a member");
    MT_TRY(hello_send(socket, &mine, patience, until_ns));
    while (moved == 0) {
        MT_TRY(wait_for(socket->fd, coll_socket_events(socket, false, true), patience, until_ns));
        mt_status st = coll_socket_receive(socket, &welcome, 1, &moved);
        if (st.code)
            return refused(socket, st);
    }
    return welcome == WELCOME ? mt_ok() : mt_error(MT_EAUTH, 0, "group: a member refused the connection");
}

mt_status coll_socket_dial(const struct coll_at *at, uint32_t to, const struct coll_hello *hello,
                           const struct coll_patience *patience, struct coll_socket *out)
{
    struct sockaddr_storage name;
    struct tls_psk          key; /* looked at while the handshake lasts */
    socklen_t               size = name_of(at, at->port, &name);
    struct coll_socket      made = {.fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (made.fd < 0)
        return mt_error(MT_ESYS, errno, "group: open a connection");
    mt_status st = mt_ok();
    tune(made.fd);
    key_make(&key, hello, to);
    if (connect(made.fd, (struct sockaddr *)&name, size) != 0 && errno != EINPROGRESS)
        st = mt_error(MT_ECONN, errno, "group: connect to a member");
    if (st.code == MT_OK && at->is_far)
        st = tls_psk_dial(&key, made.fd, &made.tls);
    if (st.code == MT_OK)
        st = greet(&made, hello, patience);
    if (st.code != MT_OK) {
        coll_socket_close(&made);
        return st;
    }
    *out = made;
    return mt_ok();
}

/* ---- moving bytes ---- */

mt_status coll_socket_send(struct coll_socket *socket, const void *data, size_t size, size_t *out_moved)
{
    ssize_t n = socket->tls ? tls_send(socket->tls, data, size) : send(socket->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    *out_moved = n > 0 ? (size_t)n : 0;
    if (n >= 0 || errno == EAGAIN || errno == EINTR)
        return mt_ok();
    return mt_error(MT_ECONN, errno, "group: send to a member");
}

mt_status coll_socket_receive(struct coll_socket *socket, void *data, size_t size, size_t *out_moved)
{
    *out_moved = 0;
    if (size == 0)
        return mt_ok();
    ssize_t n = socket->tls ? tls_recv(socket->tls, data, size) : recv(socket->fd, data, size, MSG_DONTWAIT);
    *out_moved = n > 0 ? (size_t)n : 0;
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return mt_ok();
    return mt_error(MT_ECONN, n < 0 ? errno : 0, "group: a member closed its connection");
}

short coll_socket_events(const struct coll_socket *socket, bool sends, bool takes)
{
    if (socket->tls && !tls_is_up(socket->tls)) /* a handshake may want the other direction first */
        return tls_wants_write(socket->tls) ? POLLOUT : POLLIN;
    return (short)((sends ? POLLOUT : 0) | (takes ? POLLIN : 0));
}

void coll_socket_close(struct coll_socket *socket)
{
    tls_end(socket->tls);
    if (socket->fd >= 0)
        close(socket->fd);
    *socket = (struct coll_socket){.fd = -1};
}
