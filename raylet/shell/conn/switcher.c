/* SPDX-License-Identifier: Apache-2.0
 *
 * switcher.c - the switch and its thread: the only consumer of every up ring, the only producer of every down ring.
 *
 * The thread looks through the rings. The loop carries out itself what the core orders, so that nobody is woken for it. It does not
 * wait where the thread is in the switch: it leaves the order in a queue, and the thread carries it out.
 *
 * Owns: the switch, its thread, its park page, and the two queues between it and the loop.
 * Thread: sh_switcher_* on the loop; switcher_main on the switch thread; the rest on whoever is in the switch, by `in_switch`.
 * Always: both queues keep their order; the thread never blocks but in its park page, and where the loop is in the switch; it stops
 * reading up rings while SWITCHER_EVENTS_MAX events wait for the loop, so a busy process cannot fill the raylet's memory.
 */
#include "raylet/shell/conn/conn.h"
#include "raylet/switch/switch.h"

#include "objectstore/system/memory.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    SWITCHER_EVENTS_MAX = 65536,
    SWITCHER_SPINS = 64,      /* rounds without work, yielding, before it sleeps */
    SWITCHER_SLEEP_MS = 1000, /* looks around at least this often, should a wake-up be lost */
};

/* From the loop: an RLT_A_SW_ action, or a process to add. */
struct sh_order {
    struct sh_order  *next;
    struct lane_park *park; /* of the process to add; NULL: it is an action */
    uint64_t          conn; /* of that process */
    void             *lane; /* of either */
    struct rlt_action action;
    uint64_t          data[]; /* what the action points to */
};

/* To the loop. */
struct sh_news {
    struct io_msg       msg;
    struct sh_switcher *switcher;
    struct rlt_event    event;
    uint64_t            data[]; /* what the event points to */
};

struct sh_switcher {
    struct sw_out     out;
    struct sh        *sh;
    struct sw        *sw;
    struct lane_park *park;
    int               park_fd;
    pthread_t         thread;
    pthread_mutex_t   in_switch; /* held by whoever is in sw, and before `mutex` */
    pthread_mutex_t   mutex;     /* guards orders, orders_end */
    struct sh_order  *orders, **orders_end;
    atomic_bool       want_stop;
    atomic_uint       events_under_way;
    atomic_uint       crowd; /* what the park page is to say: any process may have written over it */
};

/* ---- to the loop ------------------------------------------------------------------------------------------------- */

static void news_free(void *memory)
{
    struct sh_news *news = memory;
    atomic_fetch_sub_explicit(&news->switcher->events_under_way, 1, memory_order_relaxed);
    free(news);
}

static void news_run(struct io_msg *msg)
{
    struct sh_news *news = mt_container_of(msg, struct sh_news, msg);
    struct sh      *sh = news->switcher->sh;
    if (sh->is_exiting) {
        news_free(news); /* its switch goes now */
        return;
    }
    sh_post(sh, &news->event);
    sh_keep_this(sh, news, news_free);
}

/* What an event of the switch points to; NULL: nothing. */
static const void *pointed(const struct rlt_event *e, size_t *out_size)
{
    switch (e->kind) {
    case RLT_EV_UP: *out_size = e->up.record.length - LANE_RECORD_SIZE; return e->up.payload;
    case RLT_EV_UNDELIVERED: *out_size = e->undelivered.record.length - LANE_RECORD_SIZE; return e->undelivered.payload;
    case RLT_EV_OUT: *out_size = e->out.size; return e->out.bytes;
    case RLT_EV_PROC_DRAINED:
        *out_size = e->proc_drained.crash ? strlen(e->proc_drained.crash) + 1 : 0;
        return e->proc_drained.crash;
    default: *out_size = 0; return NULL; /* the others of the switch say all themselves */
    }
}

static void point(struct rlt_event *e, const void *copy)
{
    switch (e->kind) {
    case RLT_EV_UP: e->up.payload = copy; break;
    case RLT_EV_UNDELIVERED: e->undelivered.payload = copy; break;
    case RLT_EV_OUT: e->out.bytes = copy; break;
    case RLT_EV_PROC_DRAINED: e->proc_drained.crash = copy; break;
    default: break;
    }
}

/* Records for another node: this thread sends them itself, so that the loop is not woken. Not where something that was said
 * before still waits for the loop: they would overtake it. */
static bool is_out(struct sh_switcher *s, const struct rlt_event *event)
{
    return event->kind == RLT_EV_OUT && atomic_load_explicit(&s->events_under_way, memory_order_relaxed) == 0 &&
           s->sh->records_out(s->sh, &event->out);
}

static void switcher_event(struct sw_out *out, const struct rlt_event *event)
{
    struct sh_switcher *s = mt_container_of(out, struct sh_switcher, out);
    if (is_out(s, event))
        return;
    size_t          size;
    const void     *from = pointed(event, &size);
    struct sh_news *news = malloc(sizeof *news + size);
    if (!news)
        abort(); /* a lost record would be a lost task: the node dies instead, and its peers know what to do */
    news->msg.run = news_run;
    news->switcher = s;
    news->event = *event;
    if (from && size)
        point(&news->event, memcpy(news->data, from, size));
    atomic_fetch_add_explicit(&s->events_under_way, 1, memory_order_relaxed);
    io_loop_post(s->sh->loop, &news->msg);
}

static void switcher_wake(struct sw_out *out, struct lane_park *park)
{
    (void)out;
    lane_park_wake(park);
}

/* ---- the thread ---------------------------------------------------------------------------------------------------- */

/* Those that are in the queue. True: there is more to do for the thread. */
static bool switcher_orders(struct sh_switcher *s)
{
    pthread_mutex_lock(&s->mutex);
    struct sh_order *order = s->orders;
    s->orders = NULL;
    s->orders_end = &s->orders;
    pthread_mutex_unlock(&s->mutex);
    bool more = false;
    while (order) {
        struct sh_order *next = order->next;
        if (!order->park)
            more |= sw_act(s->sw, &order->action, order->lane, &s->out);
        else if (sw_process_add(s->sw, order->conn, order->lane, order->park).code)
            abort();
        more |= order->park != NULL;
        free(order);
        order = next;
    }
    return more;
}

static bool switcher_has_orders(struct sh_switcher *s)
{
    pthread_mutex_lock(&s->mutex);
    bool any = s->orders != NULL;
    pthread_mutex_unlock(&s->mutex);
    return any;
}

static bool switcher_round(struct sh_switcher *s, bool is_held_up)
{
    pthread_mutex_lock(&s->in_switch);
    bool worked = switcher_orders(s);
    if (!is_held_up)
        worked |= sw_poll(s->sw, &s->out);
    pthread_mutex_unlock(&s->in_switch);
    return worked;
}

/* After lane_park_prepare: how long it may sleep; 0: it may not. */
static int64_t switcher_sleep_ns(struct sh_switcher *s)
{
    int64_t ns = 0;
    pthread_mutex_lock(&s->in_switch);
    if (!atomic_load(&s->want_stop) && !switcher_has_orders(s) && !sw_has_work(s->sw))
        ns = sw_has_backlog(s->sw) ? MT_SW_BACKLOG_US * INT64_C(1000) : SWITCHER_SLEEP_MS * INT64_C(1000000);
    pthread_mutex_unlock(&s->in_switch);
    return ns;
}

static void *switcher_main(void *arg)
{
    struct sh_switcher *s = arg;
    unsigned            idle = 0;
    while (!atomic_load(&s->want_stop)) {
        bool is_held_up = atomic_load_explicit(&s->events_under_way, memory_order_relaxed) > SWITCHER_EVENTS_MAX;
        if (switcher_round(s, is_held_up)) {
            idle = 0;
            shm_store32(&s->park->state, LANE_BUSY);
        } else if (++idle < SWITCHER_SPINS || is_held_up) {
            shm_store32(&s->park->state, LANE_HUNGRY); /* owners publish at once, and need no system call for it */
            sched_yield();
        } else {
            uint32_t bell = lane_park_prepare(s->park);
            shm_store32(&s->park->crowd, atomic_load_explicit(&s->crowd, memory_order_relaxed));
            int64_t ns = switcher_sleep_ns(s);
            if (ns)
                lane_park_sleep(s->park, bell, ns);
            else
                lane_park_cancel(s->park);
            idle = SWITCHER_SPINS; /* one look after each wake-up, not a whole round of yields */
        }
    }
    return NULL;
}

/* ---- from the loop --------------------------------------------------------------------------------------------------- */

static void ring(struct sh_switcher *s)
{
    if (lane_park_must_wake(s->park))
        lane_park_wake(s->park);
}

/* With room for so many bytes. */
static struct sh_order *order_new(size_t size)
{
    return calloc(1, sizeof(struct sh_order) + size);
}

static void order_give(struct sh_switcher *s, struct sh_order *take_order)
{
    pthread_mutex_lock(&s->mutex);
    *s->orders_end = take_order;
    s->orders_end = &take_order->next;
    pthread_mutex_unlock(&s->mutex);
    ring(s);
}

/* Carries it out here and now, behind those that wait. False: the thread is in the switch. */
static bool do_action(struct sh_switcher *s, const struct rlt_action *a, void *lane)
{
    if (pthread_mutex_trylock(&s->in_switch))
        return false;
    bool more = switcher_orders(s);
    more |= sw_act(s->sw, a, lane, &s->out);
    pthread_mutex_unlock(&s->in_switch);
    if (more)
        ring(s);
    return true;
}

mt_status sh_switcher_add(struct sh *sh, uint64_t conn, void *lane, struct lane_park *park)
{
    struct sh_order *order = order_new(0);
    if (!order)
        return mt_error(MT_ENOMEM, 0, "order for the switch");
    order->conn = conn;
    order->lane = lane;
    order->park = park;
    order_give(sh->switcher, order);
    return mt_ok();
}

void sh_switcher_act(struct sh *sh, const struct rlt_action *a, void *lane)
{
    const struct rlt_a_sw_down  *down = a->kind == RLT_A_SW_DOWN ? &a->sw_down : NULL;
    const struct rlt_a_sw_frame *frame = a->kind == RLT_A_SW_FRAME ? &a->sw_frame : NULL;
    size_t                       size = frame ? frame->size : down ? down->record.length - LANE_RECORD_SIZE : 0;
    if (!sh->switcher)
        return; /* the end: the store still gives places back, and nobody is left to hear of it */
    if (do_action(sh->switcher, a, lane))
        return;
    struct sh_order *order = order_new(size);
    if (!order)
        abort();
    order->action = *a;
    order->lane = lane;
    if (frame && size)
        order->action.sw_frame.bytes = memcpy(order->data, frame->bytes, size);
    else if (size)
        order->action.sw_down.payload = memcpy(order->data, down->payload, size);
    order_give(sh->switcher, order);
}

void sh_switcher_crowd(struct sh *sh, uint32_t crowd)
{
    atomic_store_explicit(&sh->switcher->crowd, crowd, memory_order_relaxed);
    shm_store32(&sh->switcher->park->crowd, crowd);
}

int sh_switcher_park_fd(const struct sh *sh)
{
    return sh->switcher->park_fd;
}

mt_status sh_switcher_start(struct sh *sh)
{
    struct sh_switcher *s = calloc(1, sizeof *s);
    void               *park = NULL;
    mt_status           st = mt_error(MT_ENOMEM, 0, "switch");
    int                 err;
    if (!s)
        return st;
    s->sh = sh;
    s->out.event = switcher_event;
    s->out.wake = switcher_wake;
    s->orders_end = &s->orders;
    pthread_mutex_init(&s->in_switch, NULL);
    pthread_mutex_init(&s->mutex, NULL);
    s->sw = sw_new();
    if (!s->sw)
        goto err_free;
    MT_TRY_GOTO(st, os_memory_create("manta-switch", sizeof(struct lane_park), &s->park_fd, NULL), err_sw);
    MT_TRY_GOTO(st, os_memory_map(s->park_fd, sizeof(struct lane_park), true, &park), err_fd);
    s->park = park;
    err = pthread_create(&s->thread, NULL, switcher_main, s);
    if (err) {
        st = mt_error(MT_ESYS, err, "switch thread");
        goto err_unmap;
    }
    sh->switcher = s;
    return mt_ok();
err_unmap:
    os_memory_unmap(park, sizeof(struct lane_park));
err_fd:
    close(s->park_fd);
err_sw:
    sw_free(s->sw);
err_free:
    free(s);
    return st;
}

void sh_switcher_stop(struct sh *sh)
{
    struct sh_switcher *s = sh->switcher;
    if (!s)
        return;
    atomic_store(&s->want_stop, true);
    lane_park_wake(s->park);
    pthread_join(s->thread, NULL);
    while (s->orders) {
        struct sh_order *order = s->orders;
        s->orders = order->next;
        free(order);
    }
    sw_free(s->sw);
    os_memory_unmap(s->park, sizeof(struct lane_park));
    close(s->park_fd);
    pthread_mutex_destroy(&s->mutex);
    pthread_mutex_destroy(&s->in_switch);
    sh->is_exiting = true; /* what is still posted to the loop is dropped */
    io_loop_drain(sh->loop);
    free(s);
    sh->switcher = NULL;
}
