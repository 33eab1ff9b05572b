/* SPDX-License-Identifier: Apache-2.0
 *
 * attach.c - a driver's side of a run that outlives it (detach.h).
 *
 * Owns: the handle of the actor, for one call. Thread: the caller's.
 */
#include "sgd/run/detach.h"

#include "core/base/clock.h"
#include "sgd/run/setup.h"
#include "sgd/run/track/track.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 2 };

struct following {
    const char  *run; /* its name */
    manta_actor *actor;
    int (*on_event)(void *user, const manta_sgd_event *event);
    void            *user;
    uint64_t         cursor, life; /* the next event, of that life of the actor; 0: none heard of yet */
    bool             has_news;     /* it has answered */
    struct sgd_track track;
};

static bool control_name(const char *run, char out[SGD_CONTROL_NAME])
{
    int n = snprintf(out, SGD_CONTROL_NAME, SGD_CONTROL_PREFIX "%s", run ? run : "");
    return run && run[0] && n > 0 && n < MT_NAME_BYTES_MAX;
}

/* Waits for an answer, and frees the ref. */
static manta_status answer(manta_ref *ref, manta_view *view, manta_error *e)
{
    manta_status code = manta_get(ref, MT_TRAIN_NEWS_LIMIT_MS, view, e);
    manta_free(ref);
    return code;
}

/* An actor that has died may be on its way back; its name goes when it is not, if not at once. */
static manta_status death_judge(const struct following *f, manta_error *e)
{
    char        name[SGD_CONTROL_NAME];
    manta_error why;
    (void)control_name(f->run, name);
    manta_actor *again = manta_actor_find(name, MT_TRAIN_NEWS_LIMIT_MS, &why);
    if (again) {
        manta_actor_free(again);
        mt_sleep_ms(LOOK_MS);
        return MANTA_OK;
    }
    return f->has_news ? e->code
                       : sgd_fail(e, MANTA_ENOENT,
                                  "the detached run \"%.100s\" has ended, and another driver has "
                                  "its result",
                                  f->run);
}

static void stop_ask(const struct following *f)
{
    manta_free(manta_actor_call(f->actor, "stop", MANTA_NO_ARGS));
}

static manta_status events_tell(struct following *f, const manta_view *view, uint32_t count, manta_error *e)
{
    struct sgd_event_room room;
    size_t                at = sizeof(struct sgd_control_news);
    for (uint32_t i = 0; i < count; i++) {
        manta_sgd_event event;
        size_t          size = sgd_event_unpack((const char *)view->data + at, view->size - at, &room, &event);
        if (size == 0)
            return sgd_fail(e, MANTA_EVERSION, "the run \"%.100s\" is driven by another build of this program", f->run);
        at += size;
        (void)sgd_track_event(&f->track, &event);
        if (f->on_event && f->on_event(f->user, &event))
            stop_ask(f);
    }
    return MANTA_OK;
}

/* One question for news. *out_done: the run has ended, and *out_result is set. */
static manta_status news_take(struct following *f, bool *out_done, manta_sgd_result *out_result, manta_error *e)
{
    struct sgd_control_news news;
    manta_view              view = {0};
    manta_arg               arguments[] = {manta_u64(f->cursor), manta_u64(MT_TRAIN_NEWS_MS), manta_u64(f->life)};
    manta_status            code = answer(manta_actor_call(f->actor, "next", 3, arguments), &view, e);

    *out_done = false;
    if (code == MANTA_EACTOR_DIED)
        return death_judge(f, e);
    if (code != MANTA_OK)
        return code;
    if (view.size < sizeof news)
        code = sgd_fail(e, MANTA_EVERSION, "the run \"%.100s\" is driven by another build of this program", f->run);
    if (code == MANTA_OK) {
        memcpy(&news, view.data, sizeof news);
        f->cursor = news.cursor;
        f->life = news.life;
        f->has_news = true;
        code = events_tell(f, &view, news.events, e);
    }
    manta_release(&view);
    if (code != MANTA_OK || !news.is_done)
        return code;
    *out_done = true;
    *out_result = news.result;
    news.message[sizeof news.message - 1] = 0;
    return news.code ? sgd_fail(e, news.code, "%s", news.message) : MANTA_OK;
}

/* Until the end. Frees the handle. */
static manta_status follow(struct following *f, manta_sgd_result *out_result, manta_error *e)
{
    manta_sgd_result result = {0};
    manta_status     code = MANTA_OK;
    bool             is_done = false;
    while (code == MANTA_OK && !is_done)
        code = news_take(f, &is_done, &result, e);
    if (is_done)
        (void)sgd_track_end(&f->track, code, result.stopped, e);
    if (is_done) { /* it has arrived: the name is free for the next run */
        manta_view  view = {0};
        manta_error ignored;
        if (answer(manta_actor_call(f->actor, "leave", MANTA_NO_ARGS), &view, &ignored) == MANTA_OK)
            manta_release(&view);
        if (out_result)
            *out_result = result;
    }
    manta_actor_free(f->actor);
    return code;
}

/* ---- public ---- */

manta_status manta_sgd_attach(const char *run_name, int (*on_event)(void *user, const manta_sgd_event *event), void *user,
                              manta_sgd_result *out_result, manta_error *e)
{
    char             name[SGD_CONTROL_NAME];
    manta_error      error = {0};
    struct following f = {.run = run_name, .on_event = on_event, .user = user};
    manta_status     code = MANTA_EINVAL;

    if (!control_name(run_name, name)) {
        (void)sgd_fail(&error, code, "the name of a run has 1 to %d bytes", MT_NAME_BYTES_MAX - 5);
    } else if (!(f.actor = manta_actor_find(name, MT_TRAIN_NEWS_LIMIT_MS, &error))) {
        code = error.code;
        if (code == MANTA_ENOENT)
            (void)sgd_fail(&error, code, "no detached run is named \"%.100s\"", run_name);
    } else {
        code = follow(&f, out_result, &error);
    }
    if (e)
        *e = error;
    return code;
}

/* The run that is there must be the one that is asked for. */
static manta_status same_check(const struct following *f, const mt_buf *packed, manta_error *e)
{
    manta_view   view = {0};
    manta_ref   *ref = manta_actor_call(f->actor, "differs", MANTA_ARGS(manta_bytes_of(packed->data, packed->size)));
    manta_status code = answer(ref, &view, e);
    if (code != MANTA_OK)
        return code;
    if (view.size > 1)
        code = sgd_fail(e, MANTA_EEXIST, "a detached run \"%.100s\" is there, with other options: %.*s differs", f->run,
                        (int)view.size - 1, (const char *)view.data);
    manta_release(&view);
    return code;
}

/* The actor of this run: the one that is there, or a new one. */
static manta_status find_or_make(struct following *f, const char *name, const mt_buf *packed, manta_error *e)
{
    manta_actor_opts opts = {.name = name,
                             .detached = true,
                             .get_if_exists = true,
                             .max_restarts = MT_TRAIN_CONTROL_RESTARTS,
                             .max_concurrency = MT_TRAIN_FOLLOWERS_MAX};
    f->actor = manta_actor_new(SGD_CONTROL_TYPE, &opts, MANTA_ARGS(manta_bytes_of(packed->data, packed->size)));
    manta_status code = same_check(f, packed, e);
    if (code != MANTA_OK)
        manta_actor_free(f->actor);
    return code;
}

/* One that has just ended is still found for a moment. */
static manta_status fit_detached(const char *op, const manta_sgd_opts *opts, manta_sgd_result *out_result, manta_error *e)
{
    char             name[SGD_CONTROL_NAME];
    mt_buf           packed = {0};
    struct following f = {.run = opts->run.name ? opts->run.name : "train",
                          .on_event = opts->on_event,
                          .user = opts->user,
                          .track = {.hook = opts->tracker, .user = opts->tracker_user, .op = op, .opts = opts}};

    if (!control_name(f.run, name))
        return sgd_fail(e, MANTA_EINVAL, "run.name of a detached run has 1 to %d bytes", MT_NAME_BYTES_MAX - 5);
    manta_status code = sgd_opts_pack(op, opts, &packed, e);
    for (int64_t limit = mt_now_ns() + MT_TRAIN_NEWS_LIMIT_MS * 1000000ll; code == MANTA_OK; mt_sleep_ms(LOOK_MS)) {
        code = find_or_make(&f, name, &packed, e);
        if (code == MANTA_OK)
            code = follow(&f, out_result, e);
        bool was_leaving = !f.has_news && (code == MANTA_EACTOR_DIED || code == MANTA_ENOENT);
        if (!was_leaving || mt_now_ns() > limit)
            break;
        code = MANTA_OK;
    }
    mt_buf_fini(&packed);
    return code;
}

manta_status manta_sgd_fit(const char *name, const manta_sgd_opts *opts, manta_sgd_result *out_result, manta_error *e)
{
    manta_error error = {0};
    if (!name)
        return sgd_fail(e, MANTA_EINVAL, "manta_sgd_fit: name is NULL: which operator trains?");
    if (sgd_opts_known(opts, "manta_sgd_fit", e) != MANTA_OK)
        return MANTA_EINVAL;
    if (!opts || !opts->run.detached)
        return sgd_fit_here(name, opts, out_result, e);
    manta_status code = fit_detached(name, opts, out_result, &error);
    if (e)
        *e = error;
    return code;
}
