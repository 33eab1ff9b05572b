/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.c - descriptors and signals on the loop.
 *
 * Owns:    one heap block per started watch or signal. libuv frees a handle only in a later round; the block
 * lives until then, so the caller's struct and descriptor are free at once. Thread:  the loop's.
 */
#include "core/io/loop.h"

#include <errno.h>
#include <stdlib.h>

struct io_watch_impl {
    uv_poll_t        poll;
    struct io_watch *watch; /* NULL once stopped */
};

struct io_signal_impl {
    uv_signal_t       handle;
    struct io_signal *signal; /* NULL once stopped */
};

static void poll_ready(uv_poll_t *poll, int status, int events);
static void poll_closed(uv_handle_t *handle);
static int  poll_events(unsigned events);
static void signal_caught(uv_signal_t *handle, int number);
static void signal_closed(uv_handle_t *handle);

mt_status io_watch_start(struct io_loop *loop, struct io_watch *watch, int fd, unsigned events)
{
    IO_ON_LOOP(loop);
    MT_ASSERT(!watch->impl);
    struct io_watch_impl *impl = calloc(1, sizeof *impl);
    if (!impl)
        return mt_error(MT_ENOMEM, 0, "io watch");
    int err = uv_poll_init(&loop->uv, &impl->poll, fd);
    if (err) {
        free(impl);
        return io_uv_error(err, "watch a descriptor");
    }
    impl->watch = watch;
    watch->impl = impl;
    io_watch_set(watch, events);
    return mt_ok();
}

void io_watch_set(struct io_watch *watch, unsigned events)
{
    if (events)
        uv_poll_start(&watch->impl->poll, poll_events(events), poll_ready); /* fails only for a closing handle */
    else
        uv_poll_stop(&watch->impl->poll);
}

void io_watch_stop(struct io_watch *watch)
{
    struct io_watch_impl *impl = watch->impl;
    if (!impl)
        return;
    impl->watch = NULL;
    watch->impl = NULL;
    uv_close((uv_handle_t *)&impl->poll, poll_closed); /* takes the descriptor out of epoll now */
}

static void poll_ready(uv_poll_t *poll, int status, int events)
{
    struct io_watch *watch = mt_container_of(poll, struct io_watch_impl, poll)->watch;
    if (!watch)
        return;
    unsigned ours = (events & UV_READABLE ? IO_READABLE : 0u) | (events & UV_WRITABLE ? IO_WRITABLE : 0u) |
                    (events & UV_DISCONNECT || status < 0 ? IO_HANGUP : 0u);
    if (ours)
        watch->ready(watch, ours);
}

static void poll_closed(uv_handle_t *handle)
{
    free(mt_container_of(handle, struct io_watch_impl, poll));
}

static int poll_events(unsigned events)
{
    return (events & IO_READABLE ? UV_READABLE : 0) | (events & IO_WRITABLE ? UV_WRITABLE : 0) |
           (events & IO_HANGUP ? UV_DISCONNECT : 0);
}

mt_status io_signal_start(struct io_loop *loop, struct io_signal *signal, int number)
{
    IO_ON_LOOP(loop);
    MT_ASSERT(!signal->impl);
    struct io_signal_impl *impl = calloc(1, sizeof *impl);
    if (!impl)
        return mt_error(MT_ENOMEM, 0, "io signal");
    int err = uv_signal_init(&loop->uv, &impl->handle);
    if (err) {
        free(impl);
        return io_uv_error(err, "uv_signal_init");
    }
    impl->signal = signal;
    err = uv_signal_start(&impl->handle, signal_caught, number);
    if (err) {
        uv_close((uv_handle_t *)&impl->handle, signal_closed);
        return io_uv_error(err, "uv_signal_start");
    }
    signal->impl = impl;
    return mt_ok();
}

void io_signal_stop(struct io_signal *signal)
{
    if (!signal->impl)
        return;
    signal->impl->signal = NULL;
    uv_close((uv_handle_t *)&signal->impl->handle, signal_closed);
    signal->impl = NULL;
}

static void signal_caught(uv_signal_t *handle, int number)
{
    struct io_signal *signal = mt_container_of(handle, struct io_signal_impl, handle)->signal;
    if (signal)
        signal->caught(signal, number);
}

static void signal_closed(uv_handle_t *handle)
{
    free(mt_container_of(handle, struct io_signal_impl, handle));
}
