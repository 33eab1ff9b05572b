/* SPDX-License-Identifier: Apache-2.0
 *
 * control.c - the detached actor that drives a run (detach.h).
 *
 * Owns:   the run's thread, its options, the ring of events. Thread: methods run beside each other and beside the run's
 *         thread; all that they share stands under one lock.
 */
#include "sgd/run/detach.h"

#include "core/base/cond.h"
#include "core/base/rng.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct kept_event {
    char  *bytes;
    size_t size;
};

struct control {
    char             *packed; /* the options, to which the next three point */
    size_t            packed_size;
    const char       *op;
    const char       *config[MT_TRAIN_CONFIG_MAX + 1];
    manta_sgd_opts    opts;
    pthread_t         thread;
    pthread_mutex_t   lock;
    pthread_cond_t    changed;
    struct kept_event events[MT_TRAIN_EVENTS_KEPT]; /* event n is in place n % MT_TRAIN_EVENTS_KEPT */
    uint64_t          count;                        /* events so far */
    uint64_t          life;                         /* drawn; never 0 */
    bool              wants_stop, is_done;
    manta_status      code; /* once done */
    manta_sgd_result  result;
    manta_error       error;
};

/* ---- the run's thread ---- */

static int on_event(void *user, const manta_sgd_event *event)
{
    struct control *c = user;
    char            bytes[MT_TRAIN_EVENT_BYTES];
    size_t          size = sgd_event_pack(event, bytes);
    char           *copy = malloc(size);

    pthread_mutex_lock(&c->lock);
    struct kept_event *place = &c->events[c->count % MT_TRAIN_EVENTS_KEPT];
    if (copy) {
        free(place->bytes);
        *place = (struct kept_event){memcpy(copy, bytes, size), size};
        c->count++;
        pthread_cond_broadcast(&c->changed);
    }
    bool wants_stop = c->wants_stop;
    pthread_mutex_unlock(&c->lock);
    return wants_stop;
}

static void *run(void *arg)
{
    struct control  *c = arg;
    manta_sgd_result result = {0};
    manta_error      error = {0};
    manta_status     code = sgd_fit_here(c->op, &c->opts, &result, &error);

    pthread_mutex_lock(&c->lock);
    c->code = code;
    c->result = result;
    c->error = error;
    c->is_done = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* ---- life ---- */

static void control_free(void *self)
{
    struct control *c = self;
    pthread_mutex_lock(&c->lock);
    c->wants_stop = true;
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    for (int i = 0; i < MT_TRAIN_EVENTS_KEPT; i++)
        free(c->events[i].bytes);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c->packed);
    free(c);
}

static manta_status control_new(manta_ctx *ctx, void **self, int argc, const manta_arg *argv)
{
    struct control *c = calloc(1, sizeof *c);
    (void)argc;
    if (!c || !(c->packed = malloc(argv[0].y.size + 1)))
        goto err;
    c->packed_size = argv[0].y.size;
    memcpy(c->packed, argv[0].y.data, c->packed_size);
    if (!sgd_opts_unpack(c->packed, c->packed_size, &c->op, &c->opts, c->config)) {
        (void)manta_fail(ctx, MANTA_EVERSION, "the run's options are of another build");
        goto err;
    }
    if (mt_random_bytes(&c->life, sizeof c->life).code)
        goto err;
    c->life |= 1;
    c->opts.on_event = on_event;
    c->opts.user = c;
    pthread_mutex_init(&c->lock, NULL);
    mt_cond_init(&c->changed);
    if (pthread_create(&c->thread, NULL, run, c) == 0) {
        *self = c;
        return MANTA_OK;
    }
err:
    if (c)
        free(c->packed);
    free(c);
    return MANTA_ETASK;
}

/* ---- what drivers ask ---- */

/* "" where the caller's options are this run's, else what differs first. */
static manta_status control_differs(manta_ctx *ctx, void *self, int argc, const manta_arg *argv)
{
    const struct control *c = self;
    const char           *what = sgd_opts_differ(c->packed, c->packed_size, argv[0].y.data, argv[0].y.size);
    (void)argc;
    return manta_return_bytes(ctx, what ? what : "", what ? strlen(what) + 1 : 1);
}

/* Waits for an event from `cursor` on, or the end. The lock is held. */
static void news_wait(struct control *c, uint64_t cursor, uint64_t wait_ms)
{
    struct timespec until = mt_cond_until((int64_t)(wait_ms < MT_TRAIN_NEWS_MS ? wait_ms : MT_TRAIN_NEWS_MS));
    while (c->count <= cursor && !c->is_done)
        if (pthread_cond_timedwait(&c->changed, &c->lock, &until) == ETIMEDOUT)
            break;
}

/* As many events as fit behind `news`; returns the size of all. The lock is held. */
static size_t news_fill(struct control *c, uint64_t cursor, struct sgd_control_news *news, char *bytes, size_t room)
{
    size_t   used = sizeof *news;
    uint64_t oldest = c->count > MT_TRAIN_EVENTS_KEPT ? c->count - MT_TRAIN_EVENTS_KEPT : 0;

    for (news->cursor = cursor < oldest ? oldest : cursor; news->cursor < c->count; news->cursor++, news->events++) {
        const struct kept_event *event = &c->events[news->cursor % MT_TRAIN_EVENTS_KEPT];
        if (event->size > room - used)
            break;
        memcpy(bytes + used, event->bytes, event->size);
        used += event->size;
    }
    news->is_done = c->is_done && news->cursor >= c->count;
    if (news->is_done) {
        news->code = c->code;
        news->result = c->result;
        memcpy(news->message, c->error.message, sizeof news->message);
    }
    return used;
}

static manta_status control_next(manta_ctx *ctx, void *self, int argc, const manta_arg *argv)
{
    struct control         *c = self;
    uint64_t                cursor = argv[2].u == c->life ? argv[0].u : 0; /* a call may have waited while we were made again */
    struct sgd_control_news news = {.life = c->life};
    char                    bytes[MANTA_INLINE_MAX];
    (void)argc;

    static_assert(sizeof news + MT_TRAIN_EVENT_BYTES <= sizeof bytes, "one event fits in any case");
    pthread_mutex_lock(&c->lock);
    news_wait(c, cursor, argv[1].u);
    size_t size = news_fill(c, cursor, &news, bytes, sizeof bytes);
    pthread_mutex_unlock(&c->lock);
    memcpy(bytes, &news, sizeof news);
    return manta_return_bytes(ctx, bytes, size);
}

static manta_status control_stop(manta_ctx *ctx, void *self, int argc, const manta_arg *argv)
{
    struct control *c = self;
    (void)ctx, (void)argc, (void)argv;
    pthread_mutex_lock(&c->lock);
    c->wants_stop = true;
    pthread_mutex_unlock(&c->lock);
    return MANTA_OK;
}

static manta_status control_leave(manta_ctx *ctx, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    manta_actor_exit(ctx);
    return MANTA_OK;
}

MANTA_ACTOR(manta_sgd_control, "y", control_new, control_free, {"differs", "y>y", control_differs}, {"next", "uuu>y", control_next},
            {"stop", "", control_stop}, {"leave", "", control_leave});
