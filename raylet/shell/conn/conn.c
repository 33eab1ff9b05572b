/* SPDX-License-Identifier: Apache-2.0
 *
 * conn.c - unix sockets of the processes of this node, their descriptors, and the end of their processes.
 *
 * Owns: every struct sh_conn. Thread: the loop only.
 * Always: the core hears of a connection's end at most once; what it sends after that goes nowhere.
 *
 * One message is one SOCK_SEQPACKET packet: a lane_record and its payload. Whatever else arrives (too short, too long,
 * cut off, a length that is not the packet's, more than one descriptor) ends the connection, and only that one.
 */
#include "raylet/shell/conn/conn.h"

#include "core/base/log.h"
#include "core/sys/process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MESSAGE_MAX = LANE_RECORD_SIZE + (int)sizeof(struct ctl_hello) + CTL_HELLO_STRINGS_MAX,
    READ_BURST = 64, /* messages taken from one connection before the others get their turn */
};

struct sh_conn *sh_conn_find(const struct sh *sh, uint64_t conn)
{
    return mt_map_ptr(&sh->conns, mt_map_key(conn));
}

static void conn_ended(struct sh_conn *c)
{
    struct rlt_event e;
    if (c->is_shut)
        return;
    c->is_shut = true;
    io_watch_stop(&c->watch);
    sh_event(&e, RLT_EV_CLOSED);
    e.closed.conn = c->conn;
    sh_post(c->sh, &e);
}

/* ---- receiving ------------------------------------------------------------------------------------------------- */

/* The descriptors of one packet. All but the first are closed; returns how many there were. */
static int take_fds(struct msghdr *msg, int *out_fd)
{
    int count = 0;
    *out_fd = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (count++ == 0)
                *out_fd = fd;
            else
                close(fd);
        }
    }
    return count;
}

static const uint8_t *keep_payload(struct sh *sh, const uint8_t *payload, size_t size)
{
    uint8_t *kept = sh_keep(sh, size ? size : 1);
    if (!kept)
        abort(); /* a lost message would be a lost task */
    return memcpy(kept, payload, size);
}

/* One packet. False: nothing is there, or the connection has ended. */
static bool read_one(struct sh_conn *c)
{
    static uint64_t buffer[MESSAGE_MAX / 8 + 1]; /* one loop thread, one packet at a time */
    union {
        struct cmsghdr align;
        char           space[CMSG_SPACE(sizeof(int) * CTL_FDS_MAX)];
    } control;
    struct iovec     iov = {buffer, MESSAGE_MAX};
    struct msghdr    msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct rlt_event e;
    ssize_t          n = recvmsg(c->fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    int              fd, fds;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        conn_ended(c);
        return false;
    }
    fds = take_fds(&msg, &fd);
    sh_event(&e, RLT_EV_SOCKET);
    memcpy(&e.socket.record, buffer, sizeof e.socket.record);
    if (n < LANE_RECORD_SIZE || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || fds > 1 || e.socket.record.length != (uint64_t)n ||
        e.socket.record.kind < LANE_CTL) {
        if (fd >= 0)
            close(fd);
        conn_ended(c);
        return false;
    }
    e.socket.conn = c->conn;
    e.socket.payload = keep_payload(c->sh, (const uint8_t *)buffer + LANE_RECORD_SIZE, (size_t)n - LANE_RECORD_SIZE);
    e.socket.fd = fd;
    sh_post(c->sh, &e);
    return true;
}

static bool flush_unsent(struct sh_conn *c);

static void conn_ready(struct io_watch *watch, unsigned events)
{
    struct sh_conn *c = mt_container_of(watch, struct sh_conn, watch);
    if ((events & IO_WRITABLE) && flush_unsent(c))
        io_watch_set(&c->watch, IO_READABLE);
    for (int i = 0; i < READ_BURST && !c->is_shut; i++)
        if (!read_one(c))
            break;
    if (!(events & IO_HANGUP))
        return;
    while (!c->is_shut && read_one(c))
        ; /* what it said before it went */
    conn_ended(c);
}

/* ---- sending --------------------------------------------------------------------------------------------------- */

static ssize_t send_packet(int fd, const void *bytes, size_t size, const int *fds, uint32_t fd_count)
{
    union {
        struct cmsghdr align;
        char           space[CMSG_SPACE(sizeof(int) * CTL_FDS_MAX)];
    } control;
    struct iovec  iov = {(void *)(uintptr_t)bytes, size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd_count) {
        memset(&control, 0, sizeof control);
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * fd_count);
    }
    return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Nobody reads there any more: its end is on the way. Anything else (no room, no memory, too many descriptors under way) will
 * pass, and what is dropped meanwhile would be missed for ever. */
static bool is_other_end_gone(int err)
{
    return err == EPIPE || err == ECONNRESET || err == ENOTCONN || err == EBADF;
}

static void unsent_free(struct sh_unsent *u)
{
    for (uint32_t i = 0; i < u->fd_count; i++)
        close(u->fds[i]);
    free(u);
}

static void ring_bell(struct sh_conn *c)
{
    if (!c->park)
        return;
    shm_add32(&c->park->socket_count, 1);
    if (lane_park_must_wake(c->park))
        lane_park_wake(c->park);
}

/* True: nothing is left. */
static bool flush_unsent(struct sh_conn *c)
{
    while (c->unsent) {
        struct sh_unsent *u = c->unsent;
        if (send_packet(c->fd, u->bytes, u->size, u->fds, u->fd_count) < 0 && !is_other_end_gone(errno))
            return false;
        c->unsent = u->next;
        if (!c->unsent)
            c->unsent_end = &c->unsent;
        c->unsent_count--;
        unsent_free(u);
        ring_bell(c);
    }
    return true;
}

static void keep_unsent(struct sh_conn *c, const uint8_t *bytes, size_t size, const int *fds, uint32_t fd_count)
{
    struct sh_unsent *u = c->unsent_count < SH_SEND_QUEUE_MAX ? calloc(1, sizeof *u + size) : NULL;
    if (!u) {
        mt_log(MT_LOG_WARN, "process_dropped", "conn=%llu why=\"it does not read its socket\" waiting=%u",
               (unsigned long long)c->conn, c->unsent_count);
        conn_ended(c);
        return;
    }
    memcpy(u->bytes, bytes, size);
    u->size = size;
    for (uint32_t i = 0; i < fd_count; i++) {
        int copy = dup(fds[i]);
        if (copy < 0) {
            mt_log(MT_LOG_WARN, "process_dropped", "conn=%llu why=\"no descriptor to keep for it\" errno=%d",
                   (unsigned long long)c->conn, errno);
            unsent_free(u);
            conn_ended(c);
            return;
        }
        u->fds[u->fd_count++] = copy;
    }
    *c->unsent_end = u;
    c->unsent_end = &u->next;
    c->unsent_count++;
    io_watch_set(&c->watch, IO_READABLE | IO_WRITABLE);
}

void sh_conn_send(struct sh_conn *c, const struct lane_record *record, const void *payload, const int *fds, uint32_t fd_count)
{
    uint64_t packet[LANE_RECORD_MAX / 8];
    size_t   size = record->length;
    if (c->is_shut)
        return;
    MT_ASSERT(size <= sizeof packet);
    memcpy(packet, record, LANE_RECORD_SIZE);
    if (size > LANE_RECORD_SIZE)
        memcpy((uint8_t *)packet + LANE_RECORD_SIZE, payload, size - LANE_RECORD_SIZE);
    if (c->unsent) {
        keep_unsent(c, (const uint8_t *)packet, size, fds, fd_count);
    } else if (send_packet(c->fd, packet, size, fds, fd_count) >= 0) {
        ring_bell(c);
    } else if (!is_other_end_gone(errno)) {
        keep_unsent(c, (const uint8_t *)packet, size, fds, fd_count);
    }
}

/* ---- processes ------------------------------------------------------------------------------------------------- */

/* Whoever takes the event without a status reaps before: that of a child of ours tells more. */
static void process_ended(struct sh_conn *c, int status)
{
    struct rlt_event e;
    sh_event(&e, RLT_EV_EXITED);
    e.exited.conn = c->conn;
    e.exited.has_status = status != 0;
    e.exited.status = status;
    sh_post(c->sh, &e);
}

static void pid_ready(struct io_watch *watch, unsigned events)
{
    struct sh_conn *c = mt_container_of(watch, struct sh_conn, pid_watch);
    (void)events;
    io_watch_stop(&c->pid_watch);
    process_ended(c, 0);
}

static void pid_set(struct sh_conn *c, int32_t pid)
{
    c->pid = pid;
    if (c->ring)
        c->ring->pid = pid;
}

void sh_conn_watch_pid(struct sh_conn *c, int take_pidfd, int32_t pid)
{
    pid_set(c, pid);
    if (c->pidfd >= 0 || take_pidfd < 0) {
        if (take_pidfd >= 0)
            close(take_pidfd);
        return;
    }
    c->pidfd = take_pidfd;
    c->pid_watch.ready = pid_ready;
    if (io_watch_start(c->sh->loop, &c->pid_watch, take_pidfd, IO_READABLE).code)
        conn_ended(c);
}

/* What was read of the number is the process's where that is there still afterwards: its zygote may have reaped it, and the number
 * be another's. */
void sh_conn_know_pid(struct sh_conn *c, int take_pidfd, int32_t pid)
{
    uint64_t start = take_pidfd < 0 || c->pidfd >= 0 || c->start ? 0 : mt_process_start(pid);
    if (!start || syscall(SYS_pidfd_send_signal, take_pidfd, 0, NULL, 0) < 0) {
        sh_conn_watch_pid(c, take_pidfd, pid); /* it has ended, or can't be known */
        return;
    }
    pid_set(c, pid);
    c->start = start;
    close(take_pidfd);
}

void sh_conn_look(struct sh_conn *c)
{
    if (!c->start || c->is_over || mt_process_is(c->pid, c->start) != MT_PROCESS_ENDED)
        return;
    int status = mt_process_status(c->pid, c->start);
    c->start = 0;
    process_ended(c, status);
}

void sh_conn_status(struct sh_conn *c)
{
    int status = c->start ? mt_process_status(c->pid, c->start) : 0;
    if (status && !c->is_over)
        process_ended(c, status);
}

int sh_conn_signal(struct sh_conn *c, int number)
{
    if (c->pidfd >= 0)
        return syscall(SYS_pidfd_send_signal, c->pidfd, number, NULL, 0) == 0 ? 0 : errno;
    return c->start ? mt_process_signal(c->pid, c->start, number) : ESRCH;
}

void sh_conn_kill(struct sh_conn *c)
{
    int err = sh_conn_signal(c, SIGKILL);
    c->is_to_die = err && err != ESRCH;
    if (c->is_to_die)
        mt_log(MT_LOG_WARN, "kill_later", "pid=%d errno=%d", (int)c->pid, err);
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

mt_status sh_conn_open(struct sh *sh, uint64_t conn, int take_fd, struct sh_conn **out_conn)
{
    struct sh_conn *c = calloc(1, sizeof *c);
    mt_status       st = mt_error(MT_ENOMEM, 0, "connection");
    if (!c)
        goto err_close;
    c->sh = sh;
    c->conn = conn;
    c->fd = take_fd;
    c->pidfd = c->lane_fd = c->pins_fd = -1;
    c->unsent_end = &c->unsent;
    c->watch.ready = conn_ready;
    MT_TRY_GOTO(st, io_watch_start(sh->loop, &c->watch, take_fd, IO_READABLE), err_free);
    MT_TRY_GOTO(st, mt_map_put_ptr(&sh->conns, mt_map_key(conn), c), err_unwatch);
    *out_conn = c;
    return mt_ok();

err_unwatch:
    io_watch_stop(&c->watch);
err_free:
    free(c);
err_close:
    close(take_fd);
    return st;
}

void sh_conn_close(struct sh_conn *c)
{
    struct sh *sh = c->sh;
    io_watch_stop(&c->watch);
    io_watch_stop(&c->pid_watch);
    while (c->unsent) {
        struct sh_unsent *u = c->unsent;
        c->unsent = u->next;
        unsent_free(u);
    }
    close(c->fd);
    if (c->pidfd >= 0)
        close(c->pidfd);
    if (c->is_accepted)
        io_listener_release(&sh->listener);
    mt_map_remove(&sh->conns, mt_map_key(c->conn));
    free(c);
}

void sh_conn_accepted(struct io_listener *listener, int fd, const struct io_peer *peer)
{
    struct sh       *sh = mt_container_of(listener, struct sh, listener);
    struct sh_conn  *c;
    struct rlt_event e;
    if (sh_conn_open(sh, sh->next_conn++, fd, &c).code) {
        io_listener_release(listener);
        return;
    }
    c->is_accepted = true;
    sh_event(&e, RLT_EV_ACCEPTED);
    e.accepted.conn = c->conn;
    e.accepted.pid = peer->pid;
    mt_process_line(peer->pid, e.accepted.line, RLT_LINE_MAX);
    sh_post(sh, &e);
    /* told by its pidfd too: its socket may live on in a child */
    sh_conn_watch_pid(c, (int)syscall(SYS_pidfd_open, peer->pid, 0), peer->pid);
}
