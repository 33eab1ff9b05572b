/* SPDX-License-Identifier: Apache-2.0
 *
 * loop.c - the loop, messages to it, and its timers.
 *
 * Owns:    the uv loop with three handles: bell (messages), alarm (first timer), prepare (the daemon's tick).
 * Thread:  io_loop_post, io_loop_stop and the clocks from any; all else on the loop's own.
 * Always:  a message is in the inbox, in `ready`, or its owner's; whoever finds the inbox empty rings the
 * bell, so a message that waits has a ring behind it.
 */
#include "core/io/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

static void             loop_ring(uv_async_t *bell);
static void             loop_alarm(uv_timer_t *alarm);
static void             loop_prepare(uv_prepare_t *prepare);
static void             loop_set_alarm(struct io_loop *loop);
static void             inbox_take(struct io_loop *loop);
static size_t           ready_run(struct io_loop *loop, size_t max);
static struct io_timer *heap_meld(struct io_timer *a, struct io_timer *b);
static struct io_timer *heap_meld_pairs(struct io_timer *first);
static void             heap_remove(struct io_loop *loop, struct io_timer *timer);

mt_status io_uv_error(int err, const char *what)
{
    switch (err) {
    case UV_ENOMEM: return mt_error(MT_ENOMEM, ENOMEM, what);
    case UV_EEXIST: return mt_error(MT_EEXIST, EEXIST, what);
    case UV_EINVAL: return mt_error(MT_EINVAL, EINVAL, what);
    default: return mt_error(MT_ESYS, -err, what);
    }
}

mt_status io_loop_new(struct io_loop **out_loop)
{
    struct io_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return mt_error(MT_ENOMEM, 0, "io loop");
    int err = uv_loop_init(&loop->uv);
    if (err) {
        free(loop);
        return io_uv_error(err, "uv_loop_init");
    }
    err = uv_async_init(&loop->uv, &loop->bell, loop_ring);
    if (err) {
        uv_loop_close(&loop->uv);
        free(loop);
        return io_uv_error(err, "uv_async_init");
    }
    uv_timer_init(&loop->uv, &loop->alarm); /* these two cannot fail: they only fill in the handle */
    uv_prepare_init(&loop->uv, &loop->prepare);
    loop->alarm_due_ms = UINT64_MAX;
    loop->ready_end = &loop->ready;
    *out_loop = loop;
    return mt_ok();
}

void io_loop_free(struct io_loop *loop)
{
    io_loop_drain(loop);
    uv_close((uv_handle_t *)&loop->bell, NULL);
    uv_close((uv_handle_t *)&loop->alarm, NULL);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT); /* ends when the last handle is closed */
    int err = uv_loop_close(&loop->uv);
    MT_ASSERT(err == 0);
    free(loop);
}

void io_loop_run(struct io_loop *loop)
{
    atomic_store(&loop->thread, pthread_self());
    atomic_store(&loop->is_running, true);
    loop_set_alarm(loop);
    if (!atomic_exchange(&loop->want_stop, false)) {
        uv_run(&loop->uv, UV_RUN_DEFAULT);
        atomic_store(&loop->want_stop, false);
    }
    atomic_store(&loop->is_running, false);
}

void io_loop_stop(struct io_loop *loop)
{
    atomic_store(&loop->want_stop, true);
    uv_async_send(&loop->bell);
}

bool io_loop_is_mine(const struct io_loop *loop)
{
    struct io_loop *l = (struct io_loop *)loop; /* C11 atomic loads take no const */
    return !atomic_load(&l->is_running) || pthread_equal(atomic_load(&l->thread), pthread_self());
}

void io_loop_set_tick(struct io_loop *loop, struct io_tick *tick)
{
    IO_ON_LOOP(loop);
    loop->tick = tick;
    if (tick)
        uv_prepare_start(&loop->prepare, loop_prepare);
    else
        uv_prepare_stop(&loop->prepare);
}

static void loop_prepare(uv_prepare_t *prepare)
{
    struct io_loop *loop = mt_container_of(prepare, struct io_loop, prepare);
    loop->tick->run(loop->tick);
}

/* ---- messages ---- */

void io_loop_post(struct io_loop *loop, struct io_msg *msg)
{
    struct io_msg *first = atomic_load_explicit(&loop->inbox, memory_order_relaxed);
    do
        msg->next = first;
    while (!atomic_compare_exchange_weak(&loop->inbox, &first, msg));
    if (!first)
        uv_async_send(&loop->bell);
}

void io_loop_drain(struct io_loop *loop)
{
    IO_ON_LOOP(loop);
    while (ready_run(loop, SIZE_MAX))
        ;
}

static void loop_ring(uv_async_t *bell)
{
    struct io_loop *loop = mt_container_of(bell, struct io_loop, bell);
    ready_run(loop, MT_LOOP_BATCH_MAX);
    if (loop->ready)
        uv_async_send(bell); /* the rest after descriptors and timers */
    if (atomic_load(&loop->want_stop))
        uv_stop(&loop->uv);
}

/* Appends the inbox to `ready`, oldest first. */
static void inbox_take(struct io_loop *loop)
{
    struct io_msg *msg = atomic_exchange(&loop->inbox, NULL), *fifo = NULL, **end = NULL;
    while (msg) {
        struct io_msg *next = msg->next;
        if (!fifo)
            end = &msg->next;
        msg->next = fifo;
        fifo = msg;
        msg = next;
    }
    if (fifo) {
        *loop->ready_end = fifo;
        loop->ready_end = end;
    }
}

/* Runs at most `max` messages and says how many. `ready` is kept in the loop, not here, so that a message
 * whose run drains (io_loop_drain) sees the ones behind it too. */
static size_t ready_run(struct io_loop *loop, size_t max)
{
    size_t count = 0;
    inbox_take(loop);
    while (loop->ready && count < max) {
        struct io_msg *msg = loop->ready;
        loop->ready = msg->next;
        if (!loop->ready)
            loop->ready_end = &loop->ready;
        msg->run(msg);
        count++;
    }
    return count;
}

/* ---- timers ---- */

uint64_t io_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t io_now_ms(void)
{
    return io_now_ns() / 1000000u;
}

void io_timer_start(struct io_loop *loop, struct io_timer *timer, uint64_t timeout_ms)
{
    IO_ON_LOOP(loop);
    if (timer->loop)
        heap_remove(timer->loop, timer);
    timer->loop = loop;
    /* The + 1 is for the part of a millisecond that has passed: never early. At least 1, so that a timer that
     * starts itself again cannot hold up the round. */
    timer->due_ms = io_now_ms() + (timeout_ms ? timeout_ms : 1) + 1;
    timer->child = timer->sibling = timer->back = NULL;
    loop->timers = heap_meld(loop->timers, timer);
    loop_set_alarm(loop);
}

void io_timer_stop(struct io_timer *timer)
{
    if (!timer->loop)
        return;
    IO_ON_LOOP(timer->loop);
    heap_remove(timer->loop, timer);
    timer->loop = NULL; /* the alarm may ring for nothing; that is cheaper than setting it each time */
}

void io_timer_forgive(const struct io_timer *timer, uint64_t now_ms, uint64_t *since_ms)
{
    uint64_t late = now_ms - timer->due_ms;
    *since_ms = now_ms - *since_ms > late ? *since_ms + late : now_ms;
}

static void loop_alarm(uv_timer_t *alarm)
{
    struct io_loop *loop = mt_container_of(alarm, struct io_loop, alarm);
    uint64_t        now = io_now_ms();
    loop->alarm_due_ms = UINT64_MAX;
    while (loop->timers && loop->timers->due_ms <= now) {
        struct io_timer *timer = loop->timers;
        heap_remove(loop, timer);
        timer->loop = NULL;
        timer->fire(timer);
    }
    loop_set_alarm(loop);
}

static void loop_set_alarm(struct io_loop *loop)
{
    if (!loop->timers || loop->timers->due_ms >= loop->alarm_due_ms)
        return;
    uint64_t now = io_now_ms(), due = loop->timers->due_ms;
    loop->alarm_due_ms = due;
    uv_update_time(&loop->uv);
    uv_timer_start(&loop->alarm, loop_alarm, due > now ? due - now : 0, 0);
}

/* Pairing heap: `child` is the first child, `sibling` the next one, `back` the parent (for a first child) or
 * the sibling in front. */
static struct io_timer *heap_meld(struct io_timer *a, struct io_timer *b)
{
    if (!a)
        return b;
    if (!b)
        return a;
    if (b->due_ms < a->due_ms) {
        struct io_timer *t = a;
        a = b;
        b = t;
    }
    b->back = a;
    b->sibling = a->child;
    if (a->child)
        a->child->back = b;
    a->child = b;
    return a;
}

/* Melds siblings in pairs from the left, then the pairs from the right. */
static struct io_timer *heap_meld_pairs(struct io_timer *first)
{
    struct io_timer *pairs = NULL, *root = NULL;
    while (first) {
        struct io_timer *a = first, *b = a->sibling;
        first = b ? b->sibling : NULL;
        a->sibling = a->back = NULL;
        if (b)
            b->sibling = b->back = NULL;
        a = heap_meld(a, b);
        a->sibling = pairs;
        pairs = a;
    }
    while (pairs) {
        struct io_timer *next = pairs->sibling;
        pairs->sibling = NULL;
        root = heap_meld(root, pairs);
        pairs = next;
    }
    return root;
}

static void heap_remove(struct io_loop *loop, struct io_timer *timer)
{
    struct io_timer *rest = heap_meld_pairs(timer->child);
    if (timer == loop->timers) {
        loop->timers = rest;
    } else {
        if (timer->back->child == timer)
            timer->back->child = timer->sibling;
        else
            timer->back->sibling = timer->sibling;
        if (timer->sibling)
            timer->sibling->back = timer->back;
        loop->timers = heap_meld(loop->timers, rest);
    }
    timer->child = timer->sibling = timer->back = NULL;
}
