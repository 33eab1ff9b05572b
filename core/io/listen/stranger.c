/* SPDX-License-Identifier: Apache-2.0
 *
 * stranger.c - see stranger.h.
 *
 * Owns: the list, the strangers are their connections'. Thread: the loop's.
 * Always: the listener rests while all places are taken, and goes on with the first that is free again.
 */
#include "core/io/listen/stranger.h"

#include <sys/socket.h>

static void sweep(struct io_timer *timer);

bool io_strangers_are_full(const struct io_strangers *all)
{
    return all->count >= MT_CONNS_STRANGER_MAX;
}

static void watch_time(struct io_strangers *all)
{
    all->sweep.fire = sweep;
    if (all->count >= MT_CONNS_STRANGER_MAX / 2 && !io_timer_is_started(&all->sweep))
        io_timer_start(all->loop, &all->sweep, MT_CONN_SWEEP_MS);
}

void io_stranger_add(struct io_strangers *all, struct io_stranger *stranger, int fd, const struct io_origin *from)
{
    stranger->all = all;
    stranger->fd = fd;
    stranger->from = *from;
    stranger->since_ms = io_now_ms(); /* not since accept: it may have waited for a place here */
    stranger->next = all->first;
    stranger->link = &all->first;
    if (stranger->next)
        stranger->next->link = &stranger->next;
    all->first = stranger;
    if (++all->count == MT_CONNS_STRANGER_MAX)
        io_listener_pause(all->listener); /* the others wait in the kernel, which costs nothing here */
    watch_time(all);
}

void io_stranger_leave(struct io_stranger *stranger)
{
    struct io_strangers *all = stranger->all;
    if (!all)
        return;
    stranger->all = NULL;
    *stranger->link = stranger->next;
    if (stranger->next)
        stranger->next->link = stranger->link;
    if (all->count-- == MT_CONNS_STRANGER_MAX)
        io_listener_resume(all->listener);
}

void io_stranger_known(struct io_stranger *stranger)
{
    if (stranger->all)
        io_listener_know(stranger->all->listener, &stranger->from);
    io_stranger_leave(stranger);
}

static bool has_unread(const struct io_stranger *stranger)
{
    char byte;
    return recv(stranger->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static void sweep(struct io_timer *timer)
{
    struct io_strangers *all = mt_container_of(timer, struct io_strangers, sweep);
    uint64_t             now = io_now_ms();
    for (struct io_stranger *stranger = all->first, *next; stranger; stranger = next) {
        next = stranger->next;
        io_timer_forgive(timer, now, &stranger->since_ms);
        if (now - stranger->since_ms >= all->short_ms && !has_unread(stranger))
            stranger->over(stranger);
    }
    watch_time(all);
}

void io_strangers_stop(struct io_strangers *all)
{
    io_timer_stop(&all->sweep);
}
