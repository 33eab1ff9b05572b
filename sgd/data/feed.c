/* SPDX-License-Identifier: Apache-2.0
 *
 * feed.c - gathering records ahead.
 *
 * Owns:   the places and the thread. A place is the thread's until it is ready, then the taker's until the next take.
 * Always: with the thread, taken <= ready <= taken + SGD_FEED_PLACES - 1 (holds). Place n % SGD_FEED_PLACES holds the n-th portion
 * of this round.
 */
#include "sgd/data/feed.h"

#include "core/base/clock.h"
#include "sgd/ground/team.h"

#include <stdlib.h>
#include <string.h>

mt_status sgd_feed_init(struct sgd_feed *feed, const struct sgd_sampler *sampler, const struct sgd_dataset *set)
{
    size_t   micro = sampler->micro_batch, records = (micro * set->record_size + 63) / 64 * 64;
    size_t   labels = (micro + 63) / 64 * 64, indices = micro * sizeof(uint64_t), each = records + labels + indices;
    uint8_t *memory = aligned_alloc(64, (SGD_FEED_PLACES * each + 63) / 64 * 64);

    if (!memory)
        return mt_error(MT_ENOMEM, 0, "records of the next steps");
    *feed = (struct sgd_feed){.sampler = *sampler, .set = set, .memory = memory, .lane = {0, sampler->vranks, false}};
    for (int i = 0; i < SGD_FEED_PLACES; i++) { /* all records, all labels, all indices: each begins on a cache line */
        feed->places[i].records = memory + (size_t)i * records;
        feed->places[i].labels = memory + SGD_FEED_PLACES * records + (size_t)i * labels;
        feed->places[i].indices = (uint64_t *)(void *)(memory + SGD_FEED_PLACES * (records + labels) + (size_t)i * indices);
    }
    pthread_mutex_init(&feed->lock, NULL);
    pthread_cond_init(&feed->changed, NULL);
    return mt_ok();
}

void sgd_feed_fini(struct sgd_feed *feed)
{
    if (!feed->memory)
        return;
    pthread_mutex_lock(&feed->lock);
    feed->is_ending = true;
    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    if (feed->has_thread)
        pthread_join(feed->thread, NULL);
    pthread_cond_destroy(&feed->changed);
    pthread_mutex_destroy(&feed->lock);
    free(feed->memory);
    memset(feed, 0, sizeof *feed);
}

static void fill(const struct sgd_feed *feed, const struct sgd_feed_at *at, const struct sgd_portion *to)
{
    sgd_sampler_batch(&feed->sampler, at->samples, at->v, to->indices);
    sgd_dataset_gather(feed->set, to->indices, feed->sampler.micro_batch, to->records, to->labels);
}

static void advance(const struct sgd_feed *feed, struct sgd_feed_at *at)
{
    const struct sgd_lane *lane = &feed->lane;
    uint32_t               done = sgd_lane_before(lane, at->v) + 1;
    if (done >= sgd_lane_length(lane)) {
        done = 0;
        at->samples += sgd_sampler_step_size(&feed->sampler);
    }
    at->v = sgd_lane_vrank(lane, done);
}

static bool is_same(const struct sgd_feed_at *a, const struct sgd_feed_at *b)
{
    return a->samples == b->samples && a->v == b->v;
}

/* The lock is held, and there is the thread. */
static void holds(const struct sgd_feed *feed)
{
    MT_ASSERT(feed->ready - feed->taken < SGD_FEED_PLACES);
}

/* Fills places as they become free. What was begun in an earlier round does not count. */
static void *feed_main(void *arg)
{
    struct sgd_feed *feed = arg;
    (void)pthread_setname_np(pthread_self(), SGD_COMPUTES "feed");
    pthread_mutex_lock(&feed->lock);
    while (!feed->is_ending) {
        if (feed->ready == feed->taken + SGD_FEED_PLACES - 1) {
            pthread_cond_wait(&feed->changed, &feed->lock);
            continue;
        }
        struct sgd_feed_at at = feed->next_fill;
        uint32_t           round = feed->round, place = feed->ready % SGD_FEED_PLACES;
        pthread_mutex_unlock(&feed->lock);
        fill(feed, &at, &feed->places[place]);
        pthread_mutex_lock(&feed->lock);
        if (round != feed->round)
            continue;
        feed->ready++;
        holds(feed);
        advance(feed, &feed->next_fill);
        pthread_cond_broadcast(&feed->changed);
    }
    pthread_mutex_unlock(&feed->lock);
    return NULL;
}

void sgd_feed_share(struct sgd_feed *feed, struct sgd_lane lane)
{
    pthread_mutex_lock(&feed->lock);
    if (feed->lane.first != lane.first || feed->lane.last != lane.last || feed->lane.turn != lane.turn) {
        feed->lane = lane;
        feed->next_take.v = UINT32_MAX; /* whatever is taken next begins anew */
    }
    pthread_mutex_unlock(&feed->lock);
}

/* The lock is held. The place that is in use stays out of the new round's way: it is the one before its first. */
static void begin_at(struct sgd_feed *feed, const struct sgd_feed_at *at)
{
    if (feed->has_thread && is_same(&feed->next_take, at))
        return;
    feed->round++;
    feed->ready = feed->taken;
    feed->next_take = feed->next_fill = *at;
    if (!feed->has_thread)
        feed->has_thread = pthread_create(&feed->thread, NULL, feed_main, feed) == 0;
    pthread_cond_broadcast(&feed->changed);
}

const struct sgd_portion *sgd_feed_take(struct sgd_feed *feed, const struct sgd_feed_at *at)
{
    const struct sgd_portion *portion = &feed->places[0];
    int64_t                   begun = mt_now_ns();

    if (feed->set->mapped) {
        pthread_mutex_lock(&feed->lock);
        begin_at(feed, at);
        while (feed->has_thread && feed->ready == feed->taken)
            pthread_cond_wait(&feed->changed, &feed->lock);
        portion = &feed->places[feed->taken % SGD_FEED_PLACES];
        feed->taken++;
        if (feed->has_thread)
            holds(feed);
        advance(feed, &feed->next_take);
        pthread_cond_broadcast(&feed->changed);
        pthread_mutex_unlock(&feed->lock);
    }
    if (!feed->has_thread) /* the set is in memory, or there are no threads to be had */
        fill(feed, at, portion);
    feed->waited_ns += (uint64_t)(mt_now_ns() - begun);
    return portion;
}
