/* SPDX-License-Identifier: Apache-2.0
 *
 * silent.c - see silent.h.
 *
 * Owns:    the descriptors in its table, and an epoll descriptor that tells of all of them by one watch: adding a connection is one
 * system call, and closing it takes it out. (A watch of libuv costs four, and two allocations.)
 * Always:  a place is in the list by age and has a descriptor, or is in that of the unused and has none; the list by age is in
 * order of since_ms. Each change of a list checks what it changes.
 */
#include "core/io/listen/silent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    NONE = UINT16_MAX,
    TURN = 32, /* handed over before others on the loop get theirs */
    LOOKS = 4, /* at a place in its time */
};

struct io_silent_place {
    int            fd;           /* -1: unused */
    uint16_t       older, newer; /* newer: of an unused one, the next unused */
    struct io_peer peer;
};

static void some_ready(struct io_watch *watch, unsigned events);
static void sweep(struct io_timer *timer);

static_assert((int)MT_SILENT_MAX < (int)NONE, "numbers of places");

mt_status io_silent_open(struct io_loop *loop, struct io_silent *s)
{
    MT_ASSERT(s->greeting_bytes > 0 && s->greeting_bytes <= MT_GREETING_BYTES_MAX);
    MT_ASSERT(s->places_max > 0 && s->places_max <= MT_SILENT_MAX);
    s->places = calloc(s->places_max, sizeof *s->places);
    if (!s->places)
        return mt_error(MT_ENOMEM, 0, "places of silent connections");
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    mt_status st = s->epoll_fd < 0 ? mt_error(MT_ESYS, errno, "epoll_create1") : mt_ok();
    s->watch.ready = some_ready;
    s->sweep.fire = sweep;
    if (!st.code)
        st = io_watch_start(loop, &s->watch, s->epoll_fd, IO_READABLE);
    if (st.code) {
        if (s->epoll_fd >= 0)
            close(s->epoll_fd);
        free(s->places);
        return st;
    }
    for (uint16_t i = 0; i < s->places_max; i++)
        s->places[i] = (struct io_silent_place){.fd = -1, .newer = i + 1u < s->places_max ? i + 1 : NONE};
    s->unused = 0;
    s->oldest = s->newest = NONE;
    s->count = 0;
    s->is_resting = false;
    s->loop = loop;
    return st;
}

/* Out of the list; the descriptor is the caller's. */
static int leave(struct io_silent *s, uint16_t number)
{
    struct io_silent_place *p = &s->places[number];
    uint16_t               *to_it = p->older == NONE ? &s->oldest : &s->places[p->older].newer;
    uint16_t               *back_to_it = p->newer == NONE ? &s->newest : &s->places[p->newer].older;
    int                     fd = p->fd;
    MT_ASSERT(fd >= 0 && *to_it == number && *back_to_it == number);
    *to_it = p->newer;
    *back_to_it = p->older;
    p->fd = -1;
    p->newer = s->unused;
    s->unused = number;
    s->count--;
    return fd;
}

void io_silent_close(struct io_silent *s)
{
    if (!s->loop)
        return;
    IO_ON_LOOP(s->loop);
    io_timer_stop(&s->sweep);
    io_watch_stop(&s->watch);
    while (s->oldest != NONE)
        close(leave(s, s->oldest));
    close(s->epoll_fd);
    free(s->places);
    s->loop = NULL;
}

enum io_greeting io_silent_look(const struct io_silent *s, int fd)
{
    char    bytes[MT_GREETING_BYTES_MAX];
    ssize_t got = recv(fd, bytes, s->greeting_bytes, MSG_PEEK | MSG_DONTWAIT);
    if (got == (ssize_t)s->greeting_bytes)
        return IO_GREETING_WHOLE;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)) ? IO_GREETING_AWAITED : IO_GREETING_NEVER;
}

static uint64_t limit_ms(const struct io_silent *s)
{
    return s->count >= (s->places_max + 1) / 2 && s->short_ms < s->long_ms ? s->short_ms : s->long_ms;
}

/* Wakes when the oldest has had its time; not more often than twice in the shortest that one has, and a few times in a longer one:
 * how late it is then says how long nobody could be heard. */
static void plan_sweep(struct io_silent *s, uint64_t now_ms)
{
    if (s->oldest == NONE)
        return;
    uint64_t limit = limit_ms(s), due = s->places[s->oldest].peer.since_ms + limit;
    uint64_t in_ms = due > now_ms + MT_CONN_SWEEP_MS ? due - now_ms : MT_CONN_SWEEP_MS;
    if (in_ms > limit / LOOKS && limit / LOOKS > MT_CONN_SWEEP_MS)
        in_ms = limit / LOOKS;
    if (!io_timer_is_started(&s->sweep) || s->sweep.due_ms > now_ms + in_ms + 1)
        io_timer_start(s->loop, &s->sweep, in_ms);
}

void io_silent_add(struct io_silent *s, int take_fd, const struct io_peer *peer)
{
    if (s->unused == NONE) {
        close(leave(s, s->oldest));
        s->dropped++;
    }
    uint16_t                number = s->unused;
    struct io_silent_place *p = &s->places[number];
    struct epoll_event      event = {.events = EPOLLIN | EPOLLRDHUP, .data = {.u32 = number}};
    MT_ASSERT(p->fd < 0 && (s->newest == NONE || s->places[s->newest].peer.since_ms <= peer->since_ms));
    if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, take_fd, &event) < 0) { /* no memory: the peer is told by the end */
        close(take_fd);
        s->dropped++;
        return;
    }
    s->unused = p->newer;
    *p = (struct io_silent_place){.fd = take_fd, .older = s->newest, .newer = NONE, .peer = *peer};
    *(s->newest == NONE ? &s->oldest : &s->places[s->newest].newer) = number;
    s->newest = number;
    s->count++;
    plan_sweep(s, peer->since_ms);
}

static void hand_over(struct io_silent *s, uint16_t number)
{
    struct io_peer peer = s->places[number].peer;
    int            fd = leave(s, number);
    epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    s->spoke(s, fd, &peer);
}

static void some_ready(struct io_watch *watch, unsigned events)
{
    struct io_silent  *s = mt_container_of(watch, struct io_silent, watch);
    struct epoll_event ready[TURN];
    (void)events;
    int count = epoll_wait(s->epoll_fd, ready, TURN, 0);
    for (int i = 0; i < count && s->loop && !s->is_resting; i++) {
        uint16_t         number = (uint16_t)ready[i].data.u32;
        enum io_greeting greeting = io_silent_look(s, s->places[number].fd);
        if (greeting == IO_GREETING_WHOLE)
            hand_over(s, number);
        else if (greeting == IO_GREETING_NEVER || (ready[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
            close(leave(s, number));
    }
}

/* Who has spoken is not to blame: this loop is late, or whoever it is handed to. */
static void sweep(struct io_timer *timer)
{
    struct io_silent *s = mt_container_of(timer, struct io_silent, sweep);
    uint64_t          now = io_now_ms();
    uint64_t          limit = limit_ms(s);
    for (uint16_t i = s->oldest; i != NONE; i = s->places[i].newer)
        io_timer_forgive(timer, now, &s->places[i].peer.since_ms);
    for (uint16_t i = s->oldest, newer; i != NONE && now - s->places[i].peer.since_ms >= limit; i = newer) {
        newer = s->places[i].newer;
        if (io_silent_look(s, s->places[i].fd) == IO_GREETING_WHOLE)
            continue;
        close(leave(s, i));
        s->dropped++;
    }
    plan_sweep(s, now);
}

void io_silent_rest(struct io_silent *s)
{
    s->is_resting = true;
    io_watch_set(&s->watch, 0);
}

void io_silent_go_on(struct io_silent *s)
{
    s->is_resting = false;
    io_watch_set(&s->watch, IO_READABLE);
}
