/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.c - see crew.h. Owns: actor handles and the refs of their calls.
 */
#include "clients/gang/crew.h"

#include "clients/gang/rank/supervise.h"
#include "core/base/clock.h"

#include <stdio.h>
#include <stdlib.h>

static_assert((int)MT_GANG_PIECE_BYTES < (int)MANTA_INLINE_MAX, "what is larger goes through an object store");

static void bury(struct gng_hand *h)
{
    manta_free(h->ready);
    manta_free(h->news);
    manta_actor_free(h->actor);
    mt_buf_fini(&h->words);
    mt_buf_fini(&h->come);
    *h = (struct gng_hand){.is_down = true};
}

void gng_crew_dismiss(struct gng_crew *crew)
{
    for (int i = 0; i < crew->count; i++) {
        if (crew->hands[i].actor)
            manta_actor_kill(crew->hands[i].actor, false);
        bury(&crew->hands[i]);
    }
    free(crew->hands);
    free(crew->refs);
    free(crew->whose);
    free(crew->is_there);
    *crew = (struct gng_crew){0};
}

mt_status gng_crew_hire(struct gng_crew *crew, const struct gng_berth *berths, int count, double cpus, double gpus,
                        const manta_env *env, bool wants_port)
{
    size_t n = (size_t)count;
    *crew = (struct gng_crew){.hands = calloc(n, sizeof *crew->hands),
                              .refs = calloc(2 * n, sizeof(manta_ref *)),
                              .whose = calloc(2 * n, sizeof(int)),
                              .is_there = calloc(2 * n, 1)};
    if (!crew->hands || !crew->refs || !crew->whose || !crew->is_there) {
        gng_crew_dismiss(crew);
        return mt_error(MT_ENOMEM, 0, "make a gang");
    }
    crew->count = count;
    for (int i = 0; i < count; i++) {
        manta_actor_opts o = {
            .num_cpus = cpus, .num_gpus = gpus, .env = env, .pg = berths[i].pg, .bundle = berths[i].bundle, .node = berths[i].node};
        crew->hands[i].actor = manta_actor_new(GNG_SUPERVISOR_TYPE, &o, MANTA_NO_ARGS);
    }
    gng_crew_gather(crew, wants_port);
    return mt_ok();
}

void gng_crew_gather(struct gng_crew *crew, bool wants_port)
{
    for (int i = 0; i < crew->count; i++)
        if (!crew->hands[i].is_down)
            crew->hands[i].ready = manta_actor_call(crew->hands[i].actor, "ready", MANTA_ARGS(manta_bool(wants_port)));
}

mt_status gng_crew_write(struct gng_crew *crew, int member, const struct gng_wire *word)
{
    return crew->hands[member].is_down ? mt_ok() : gng_wire_put(&crew->hands[member].words, word);
}

/* In pieces that go with the call: a store that is full would lose them, and nobody looks at these calls' results. */
static void words_send(struct gng_hand *h)
{
    for (size_t at = 0; at < h->words.size; at += MT_GANG_PIECE_BYTES) {
        size_t left = h->words.size - at, piece = left < MT_GANG_PIECE_BYTES ? left : MT_GANG_PIECE_BYTES;
        manta_free(manta_actor_call(h->actor, "tell", MANTA_ARGS(manta_bytes_of(h->words.data + at, piece))));
    }
    h->words.size = 0;
}

void gng_crew_send(struct gng_crew *crew)
{
    for (int i = 0; i < crew->count; i++)
        words_send(&crew->hands[i]);
}

/* ---- news ---- */

static mt_status down(struct gng_crew *crew, int member, const manta_error *e, gng_news_fn fn, void *user)
{
    struct gng_hand *h = &crew->hands[member];
    if (h->actor)
        manta_actor_kill(h->actor, false);
    bury(h);
    return fn(user, &(struct gng_news){.kind = GNG_NEWS_DOWN, .member = member, .why = e});
}

static mt_status ready_take(struct gng_crew *crew, int member, gng_news_fn fn, void *user)
{
    struct gng_hand *h = &crew->hands[member];
    manta_view       view = {0};
    manta_error      e = {.code = MANTA_EPROTO, .message = "a supervisor of another version"};
    struct gng_seat  seat;
    manta_status     code = manta_get(h->ready, 0, &view, &e);
    if (code != MANTA_OK || view.size != sizeof seat) {
        manta_release(&view);
        return down(crew, member, &e, fn, user);
    }
    memcpy(&seat, view.data, sizeof seat);
    manta_release(&view);
    h->heard_ns = mt_now_ns();
    manta_free(h->ready);
    h->ready = NULL;
    if (!h->news)
        h->news = manta_actor_call(h->actor, "poll", MANTA_NO_ARGS);
    return fn(user, &(struct gng_news){.kind = GNG_NEWS_READY, .member = member, .seat = &seat});
}

static mt_status news_take(struct gng_crew *crew, int member, gng_news_fn fn, void *user)
{
    struct gng_hand *h = &crew->hands[member];
    manta_view       view = {0};
    manta_error      e;
    struct gng_wire  word;
    size_t           at = 0;
    if (manta_get(h->news, 0, &view, &e) != MANTA_OK)
        return down(crew, member, &e, fn, user);
    h->heard_ns = mt_now_ns();
    manta_free(h->news);
    h->news = manta_actor_call(h->actor, "poll", MANTA_NO_ARGS); /* while what came is looked at */
    mt_status st = mt_buf_append(&h->come, view.data, view.size);
    manta_release(&view);
    while (st.code == 0 && gng_wire_next(&h->come, &at, &word))
        st = fn(user, &(struct gng_news){.kind = GNG_NEWS_WORD, .member = member, .word = &word});
    gng_wire_taken(&h->come, at);
    return st;
}

mt_status gng_crew_look(struct gng_crew *crew, int wait_ms, gng_news_fn fn, void *user)
{
    size_t      count = 0;
    manta_error e;
    for (int i = 0; i < crew->count; i++) {
        manta_ref *of[2] = {crew->hands[i].ready, crew->hands[i].news};
        for (int k = 0; k < 2; k++)
            if (of[k]) {
                crew->refs[count] = of[k];
                crew->whose[count++] = i;
            }
    }
    if (count == 0) {
        mt_sleep_ms(wait_ms);
        return mt_ok();
    }
    int n = manta_wait(crew->refs, count, 1, wait_ms, crew->is_there, &e);
    if (n < 0)
        return mt_error(-n, 0, "wait for ranks");
    for (size_t i = 0; i < count && n > 0; i++) {
        struct gng_hand *h = &crew->hands[crew->whose[i]];
        if (!crew->is_there[i] || h->is_down)
            continue;
        MT_TRY((crew->refs[i] == h->ready ? ready_take : news_take)(crew, crew->whose[i], fn, user));
    }
    return mt_ok();
}

mt_status gng_crew_end_silent(struct gng_crew *crew, int64_t since_ns, gng_news_fn fn, void *user)
{
    manta_error e = {.code = MANTA_ETIMEDOUT};
    for (int i = 0; i < crew->count; i++) {
        const struct gng_hand *h = &crew->hands[i];
        if (h->is_down || !h->news || h->heard_ns >= since_ns)
            continue;
        snprintf(e.message, sizeof e.message, "its supervisor has said nothing for %.1f s, so it was killed (--hang-after)",
                 (double)(mt_now_ns() - h->heard_ns) * 1e-9);
        MT_TRY(down(crew, i, &e, fn, user));
    }
    return mt_ok();
}
