/* SPDX-License-Identifier: Apache-2.0
 *
 * socket.c - see socket.h.
 */
#include "clients/lib/shell/socket/socket.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

mt_status lib_socket_open(const char *path, int *out_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int                fd;
    if (strlen(path) >= sizeof address.sun_path)
        return mt_error(MT_EINVAL, 0, "the runtime folder's path is too long for a unix socket");
    memcpy(address.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return mt_error(MT_ESYS, errno, "socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) {
        int err = errno;
        close(fd);
        return mt_error(MT_ECONN, err, "connect to the raylet's socket");
    }
    *out_fd = fd;
    return mt_ok();
}

mt_status lib_socket_send(int fd, uint16_t kind, mt_id id, const void *payload, size_t size, const void *more, size_t more_size,
                          int fd_to_pass)
{
    struct lane_record record = {.length = (uint32_t)(LANE_RECORD_SIZE + size + more_size), .kind = kind, .id = id};
    struct iovec iov[3] = {{&record, sizeof record}, {(void *)(uintptr_t)payload, size}, {(void *)(uintptr_t)more, more_size}};
    union {
        struct cmsghdr head;
        char           room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 3};
    if (fd_to_pass >= 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.room;
        message.msg_controllen = sizeof control.room;
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.head), &fd_to_pass, sizeof(int));
    }
    if (sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
        return mt_error(MT_ECONN, errno, "send to the raylet");
    return mt_ok();
}

mt_status lib_socket_receive(int fd, void *bytes, size_t room, size_t *out_size, int *fds, int *out_fd_count)
{
    struct iovec iov = {bytes, room};
    union {
        struct cmsghdr head;
        char           room[CMSG_SPACE(sizeof(int) * CTL_FDS_MAX)];
    } control;
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    ssize_t       n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    *out_fd_count = 0;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? mt_error(MT_EAGAIN, 0, "nothing there")
                                                 : mt_error(MT_ECONN, errno, "receive from the raylet");
    if (n == 0)
        return mt_error(MT_ECONN, 0, "the raylet closed the connection");
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        *out_fd_count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds, CMSG_DATA(c), sizeof(int) * (size_t)*out_fd_count);
    }
    *out_size = (size_t)n;
    return mt_ok();
}

void lib_socket_give_up(int fd, int32_t code, const char *text)
{
    struct ctl_reply why = {.code = code};
    snprintf(why.text, sizeof why.text, "%s", text);
    (void)lib_socket_send(fd, CTL_ZYGOTE_FAILED, (mt_id){0, 0}, &why, sizeof why, NULL, 0, -1).code;
}

void *lib_map(int fd, uint64_t at_byte, size_t size, bool writable)
{
    void *at = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, (off_t)at_byte);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}
