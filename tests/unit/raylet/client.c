/* SPDX-License-Identifier: Apache-2.0
 *
 * client.c - see client.h. Thread: one.
 */
#include "tests/unit/base/test.h"
#include "tests/unit/raylet/client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>

bool client_zygote_dies;

static uint64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static bool send_packet(int fd, const void *bytes, size_t size, const int *fds, int fd_count)
{
    union {
        struct cmsghdr align;
        char           space[CMSG_SPACE(sizeof(int) * 4)];
    } control = {0};
    struct iovec  iov = {(void *)(uintptr_t)bytes, size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd_count) {
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        struct cmsghdr *h = CMSG_FIRSTHDR(&msg);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(h), fds, sizeof(int) * fd_count);
    }
    return sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)size;
}

static bool receive(int fd, struct client_message *m, int flags)
{
    union {
        struct cmsghdr align;
        char           space[CMSG_SPACE(sizeof(int) * 4)];
    } control;
    struct iovec  iov[2] = {{&m->record, sizeof m->record}, {m->payload, sizeof m->payload}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t       n = recvmsg(fd, &msg, flags | MSG_CMSG_CLOEXEC);
    m->fd_count = 0;
    if (n < LANE_RECORD_SIZE)
        return false;
    struct cmsghdr *h = CMSG_FIRSTHDR(&msg);
    if (h && h->cmsg_type == SCM_RIGHTS) {
        m->fd_count = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(m->fds, CMSG_DATA(h), sizeof(int) * m->fd_count);
    }
    return true;
}

static void *map_fd(int fd, uint64_t at, size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)at);
    return p == MAP_FAILED ? NULL : p;
}

static bool hello_send(struct client *c, enum ctl_role role, uint16_t version)
{
    uint8_t             packet[LANE_RECORD_SIZE + sizeof(struct ctl_hello) + 256] = {0};
    struct lane_record *r = (struct lane_record *)(void *)packet;
    struct ctl_hello   *h = (struct ctl_hello *)(void *)(packet + LANE_RECORD_SIZE);
    char               *text = (char *)(h + 1);
    int                 exe = -1, fds = 0;
    h->magic = CTL_MAGIC;
    h->version_min = h->version_max = version;
    h->role = role;
    h->process = c->process;
    h->job = c->job;
    snprintf(h->job_name, sizeof h->job_name, "test");
    if (role == CTL_DRIVER) {
        h->argc = 1;
        h->envc = 1;
        const char *life = client_zygote_dies ? "dies" : "lives";
        h->strings_size = (uint32_t)(snprintf(text, 256, "driver%cTEST_ZYGOTE=%s%c/tmp", 0, life, 0) + 1);
        exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        fds = 1;
    }
    r->kind = CTL_HELLO;
    r->length = (uint32_t)(LANE_RECORD_SIZE + sizeof *h + h->strings_size);
    bool sent = send_packet(c->fd, packet, r->length, &exe, fds);
    if (exe >= 0)
        close(exe);
    return sent;
}

int client_hello(struct client *c, int fd, enum ctl_role role, uint64_t job, uint16_t version)
{
    struct client_message m;
    memset(c, 0, sizeof *c);
    c->fd = fd;
    c->job = job;
    if (getrandom(&c->process, sizeof c->process, 0) < 0 || !hello_send(c, role, version))
        return -1;
    if (!receive(fd, &m, 0) || m.record.kind != CTL_WELCOME)
        return -1;
    memcpy(&c->welcome, m.payload, sizeof c->welcome);
    if (c->welcome.code || role == CTL_ZYGOTE)
        return c->welcome.code;
    if (m.fd_count != 4)
        return -1;
    c->control = map_fd(m.fds[0], 0, LANE_BYTES);
    c->park = map_fd(m.fds[1], m.record.slot * sizeof(struct lane_park), sizeof(struct lane_park));
    c->switch_park = map_fd(m.fds[3], 0, sizeof(struct lane_park));
    for (int i = 0; i < 4; i++)
        close(m.fds[i]);
    if (!c->control || !c->park || !c->switch_park)
        return -1;
    lane_producer_init(&c->up, &lane_header_of(c->control)->forward, lane_forward_of(c->control));
    lane_consumer_init(&c->down, &lane_header_of(c->control)->back, lane_back_of(c->control));
    return 0;
}

bool client_up_id(struct client *c, enum ctl_kind kind, mt_id id, const void *payload, size_t size)
{
    struct lane_record r = {.length = (uint32_t)(LANE_RECORD_SIZE + size), .kind = (uint16_t)kind, .id = id};
    if (!lane_ring_push(&c->up, &r, payload))
        return false;
    lane_ring_publish(&c->up);
    if (lane_park_must_wake(c->switch_park))
        lane_park_wake(c->switch_park);
    return true;
}

mt_id client_up(struct client *c, enum ctl_kind kind, const void *payload, size_t size)
{
    mt_id id = mt_id_make(c->process, ++c->next_id, 0);
    client_up_id(c, kind, id, payload, size);
    return id;
}

static bool next_now(struct client *c, struct client_message *out)
{
    const uint8_t *payload;
    bool           found = false;
    if (c->control && lane_ring_peek(&c->down, &out->record, &payload, &found).code == 0 && found) {
        memcpy(out->payload, payload, out->record.length - LANE_RECORD_SIZE);
        out->fd_count = 0;
        lane_ring_consume(&c->down);
        lane_ring_release(&c->down);
        return true;
    }
    return receive(c->fd, out, MSG_DONTWAIT);
}

bool client_next(struct client *c, struct client_message *out, int timeout_ms)
{
    uint64_t end = now_ms() + (uint64_t)timeout_ms;
    while (!next_now(c, out)) {
        if (now_ms() >= end)
            return false;
        usleep(200);
    }
    return true;
}

bool client_expect(struct client *c, enum ctl_kind kind, struct client_message *out, int timeout_ms)
{
    uint64_t end = now_ms() + (uint64_t)timeout_ms;
    for (int i = 0; i < c->kept_count; i++)
        if (c->kept[i]->record.kind == kind) {
            *out = *c->kept[i];
            free(c->kept[i]);
            memmove(&c->kept[i], &c->kept[i + 1], (size_t)(--c->kept_count - i) * sizeof c->kept[0]);
            return true;
        }
    while (now_ms() < end && client_next(c, out, (int)(end - now_ms()))) {
        if (out->record.kind == kind)
            return true;
        if (c->kept_count == 32)
            return false;
        c->kept[c->kept_count] = malloc(sizeof *out);
        *c->kept[c->kept_count++] = *out;
    }
    return false;
}

struct client_lane *client_lane_map(struct client *c, const struct client_message *m, bool is_worker)
{
    struct client_lane *lane = &c->lanes[c->lane_count];
    struct ctl_grant    g;
    if (m->fd_count != 2 || c->lane_count == 64)
        return NULL;
    c->lane_count++;
    memcpy(&g, m->payload, sizeof g);
    lane->lease = g.lease;
    lane->memory = map_fd(m->fds[0], 0, LANE_BYTES);
    lane->peer = map_fd(m->fds[1], m->record.slot * sizeof(struct lane_park), sizeof(struct lane_park));
    close(m->fds[0]);
    close(m->fds[1]);
    struct lane_header *h = lane_header_of(lane->memory);
    if (is_worker) {
        lane_consumer_init(&lane->from, &h->forward, lane_forward_of(lane->memory));
        lane_producer_init(&lane->to, &h->back, lane_back_of(lane->memory));
    } else {
        lane_producer_init(&lane->to, &h->forward, lane_forward_of(lane->memory));
        lane_consumer_init(&lane->from, &h->back, lane_back_of(lane->memory));
    }
    return lane;
}

void client_lane_drop(struct client_lane *lane)
{
    if (!lane->memory)
        return;
    munmap(lane->memory, LANE_BYTES);
    munmap(lane->peer, sizeof(struct lane_park));
    lane->memory = NULL;
}

void client_close(struct client *c)
{
    for (int i = 0; i < c->lane_count; i++)
        client_lane_drop(&c->lanes[i]);
    if (c->control) {
        munmap(c->control, LANE_BYTES);
        munmap(c->park, sizeof(struct lane_park));
        munmap(c->switch_park, sizeof(struct lane_park));
    }
    for (int i = 0; i < c->kept_count; i++) {
        for (int k = 0; k < c->kept[i]->fd_count; k++)
            close(c->kept[i]->fds[k]);
        free(c->kept[i]);
    }
    c->kept_count = 0;
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

int client_connect(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int                fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

static void push(struct client_lane *lane, struct lane_record *r)
{
    r->length = LANE_RECORD_SIZE;
    lane_ring_push(&lane->to, r, NULL);
    lane_ring_publish(&lane->to);
    if (lane_park_must_wake(lane->peer))
        lane_park_wake(lane->peer);
}

void client_task(struct client_lane *lane, uint32_t slot, uint64_t function, uint64_t argument)
{
    static uint64_t    sequence;
    struct lane_record r = {.kind = LANE_TASK, .slot = slot, .sequence = ++sequence, .aux = function, .trace = argument};
    r.id = mt_id_make(1, sequence, 0);
    lane_claim_set(&lane_claims_of(lane->memory)[slot], r.sequence, 0);
    push(lane, &r);
}

void client_revoke(struct client_lane *lane, uint32_t slot)
{
    uint64_t           word = shm_load64(&lane_claims_of(lane->memory)[slot]);
    struct lane_record r = {.kind = LANE_REVOKE, .slot = slot, .sequence = word >> 24, .id = {1, (word >> 24) << 16}};
    push(lane, &r);
}

bool client_outcome(struct client_lane *lane, struct lane_record *out, int timeout_ms)
{
    uint64_t       end = now_ms() + (uint64_t)timeout_ms;
    const uint8_t *payload;
    bool           found = false;
    while (lane_ring_peek(&lane->from, out, &payload, &found).code == 0 && !found && now_ms() < end)
        usleep(200);
    if (!found)
        return false;
    lane_ring_consume(&lane->from);
    lane_ring_release(&lane->from);
    return true;
}

uint64_t client_call(struct client_lane *lane, uint64_t function, uint64_t argument)
{
    struct lane_record out;
    client_task(lane, 0, function, argument);
    assert_true(client_outcome(lane, &out, 15000));
    assert_int_equal(out.kind, LANE_DONE);
    lane_claim_clear(&lane_claims_of(lane->memory)[0]);
    return out.trace;
}

/* ---- zygote and worker --------------------------------------------------------------------------------------------- */

static void run_task(struct client *c, struct client_lane *lane, const struct lane_record *task)
{
    shm_u64           *slot = &lane_claims_of(lane->memory)[task->slot];
    struct lane_record done = *task;
    if (!lane_claim_take(slot, task->sequence, task->attempt, LANE_RUNNING))
        return;
    done.kind = LANE_DONE;
    switch (task->aux) {
    case TASK_DOUBLE: done.trace = task->trace * 2; break;
    case TASK_PID: done.trace = (uint64_t)getpid(); break;
    case TASK_CRASH:
        memcpy(c->park->crash, "at frobnicate (test)", 21);
        signal(SIGSEGV, SIG_DFL); /* a sanitizer has its own handler */
        raise(SIGSEGV);
        break;
    case TASK_BLOCK:
        client_up(c, CTL_BLOCKED, NULL, 0);
        usleep((useconds_t)task->trace * 1000);
        client_up(c, CTL_UNBLOCKED, NULL, 0);
        break;
    case TASK_SLOW: usleep((useconds_t)task->trace * 1000); break;
    case TASK_HOLD: /* as long as there is such a process */
        while (kill((pid_t)task->trace, 0) == 0)
            usleep(1000);
        break;
    default: break;
    }
    lane_claim_finish(slot, task->sequence, task->attempt);
    push(lane, &done);
}

static void serve_lane(struct client *c, struct client_lane *lane)
{
    struct lane_record r;
    const uint8_t     *payload;
    bool               found;
    while (lane_ring_peek(&lane->from, &r, &payload, &found).code == 0 && found) {
        lane_ring_consume(&lane->from);
        lane_ring_release(&lane->from);
        shm_u64 *slot = &lane_claims_of(lane->memory)[r.slot];
        if (shm_load32_acquire(&lane_header_of(lane->memory)->recall)) {
            if (lane_claim_take(slot, r.sequence, r.attempt, LANE_RETURNED_CLAIM)) {
                r.kind = LANE_RETURNED;
                push(lane, &r);
            }
        } else {
            run_task(c, lane, &r);
        }
    }
    if (shm_load32_acquire(&lane_header_of(lane->memory)->recall)) {
        struct lane_record end = {.kind = LANE_END};
        struct ctl_lease   lease = {lane->lease};
        push(lane, &end);
        client_up(c, CTL_DRAINED, &lease, sizeof lease);
        client_lane_drop(lane);
    }
}

static void serve_as_worker(int fd, uint64_t job)
{
    static struct client         c;
    static struct client_message m;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (client_hello(&c, fd, CTL_WORKER, job, mt_release.wire.max))
        _exit(3);
    for (;;) {
        char byte;
        if (next_now(&c, &m)) {
            if (m.record.kind == CTL_LANE)
                client_lane_map(&c, &m, true);
            else if (m.record.kind == CTL_SHUTDOWN)
                _exit(0);
        } else if (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
            _exit(0);
        }
        for (int i = 0; i < c.lane_count; i++)
            if (c.lanes[i].memory)
                serve_lane(&c, &c.lanes[i]);
        usleep(200);
    }
}

static void report_exits(int fd)
{
    int   status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct {
            struct lane_record    r;
            struct ctl_child_exit e;
        } packet = {.r = {.length = sizeof packet, .kind = CTL_CHILD_EXIT}, .e = {pid, status}};
        send_packet(fd, &packet, sizeof packet, NULL, 0);
    }
}

void client_serve_as_zygote(int fd)
{
    static struct client         z;
    static struct client_message m;
    struct pollfd                p = {fd, POLLIN, 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (strcmp(getenv("TEST_ZYGOTE"), "dies") == 0)
        _exit(7);
    uint64_t job = strtoull(getenv("MANTA_JOB") ? getenv("MANTA_JOB") : "0", NULL, 16);
    if (client_hello(&z, fd, CTL_ZYGOTE, job, mt_release.wire.max))
        _exit(3);
    for (;;) {
        if (poll(&p, 1, 2) < 0 && errno != EINTR)
            _exit(4);
        report_exits(fd);
        if (!(p.revents & (POLLIN | POLLHUP)))
            continue;
        if (!receive(fd, &m, 0))
            _exit(0);
        if (m.record.kind != CTL_FORK)
            continue;
        pid_t pid = fork();
        if (pid == 0) {
            close(fd);
            serve_as_worker(m.fds[0], job);
        }
        close(m.fds[0]);
        struct {
            struct lane_record r;
            struct ctl_forked  f;
        } packet = {.r = {.length = sizeof packet, .kind = CTL_FORKED}};
        memcpy(&packet.f.token, m.payload, sizeof packet.f.token);
        packet.f.pid = pid;
        int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        send_packet(fd, &packet, sizeof packet, &pidfd, 1);
        close(pidfd);
    }
}
