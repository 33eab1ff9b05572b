/* SPDX-License-Identifier: Apache-2.0
 *
 * redis.c - see redis.h.
 */
#include "tests/sim/twins/redis.h"

#include "core/base/plant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void take(struct twin_redis *r, const struct head_item *change)
{
    struct head_item *copy = head_item_new(change->field, change->value);
    if (!copy || head_shelf_reserve(&r->records, 1).code != 0)
        abort();
    copy->is_dropped = change->value.size == 0;
    head_shelf_take(&r->records, copy);
}

static void hold(struct twin_redis *r)
{
    if (!r->has_lock)
        return;
    snprintf(r->holder, sizeof r->holder, "%s", r->me);
    r->held_until = r->now + TWIN_LOCK_MS;
}

static void stand(struct twin_redis *r, const struct head_position *at)
{
    hold(r);
    r->at = *at;
    r->past[at->seq % HEAD_PAST].seq = at->seq;
    r->past[at->seq % HEAD_PAST].digest = at->digest;
    r->count = r->records.count;
}

static enum head_word lead(struct twin_redis *r, const struct head_ask *ask)
{
    struct head_position next = {r->at.fence + !MT_PLANT(MT_PLANT_FENCE_STAYS), ask->at.run, r->at.seq, r->at.digest};
    if (r->is_there && r->at.run == ask->at.run)
        return HEAD_WORD_OK;
    if (r->has_lock && r->holder[0] && strcmp(r->holder, r->me) != 0 && (ask->was.run == 0 || ask->was.run != r->at.run))
        return HEAD_WORD_BUSY;
    if (!r->is_there && !ask->may_make)
        return HEAD_WORD_EMPTY;
    if (r->is_there && r->at.fence < ask->at.fence)
        return HEAD_WORD_OLDER;
    if (r->is_there && r->count != r->records.count)
        return HEAD_WORD_BROKEN;
    if (!r->is_there)
        snprintf(r->cluster, sizeof r->cluster, "%s", ask->new_cluster);
    r->is_there = true;
    stand(r, &next);
    return HEAD_WORD_OK;
}

static enum head_word rewrite(struct twin_redis *r, const struct head_ask *ask)
{
    if (r->at.run != ask->was.run || (r->is_there && memcmp(&r->at, &ask->was, sizeof r->at) != 0))
        return HEAD_WORD_MOVED;
    head_shelf_fini(&r->records);
    for (const struct head_item *item = NULL; (item = head_shelf_next(ask->all, item));)
        take(r, item);
    r->is_there = true;
    snprintf(r->cluster, sizeof r->cluster, "%s", ask->cluster);
    stand(r, &ask->at);
    return HEAD_WORD_OK;
}

static enum head_word apply(struct twin_redis *r, const struct head_ask *ask)
{
    bool is_ours = r->at.run == ask->at.run || MT_PLANT(MT_PLANT_STORE_UNFENCED);
    if (!r->is_there)
        return HEAD_WORD_EMPTY;
    if (!is_ours)
        return r->at.fence < ask->at.fence ? HEAD_WORD_OLDER : HEAD_WORD_FENCED;
    if (r->count != r->records.count)
        return HEAD_WORD_BROKEN;
    if (ask->kind != HEAD_ASK_LOAD && r->at.seq == ask->at.seq && r->at.digest == ask->at.digest)
        hold(r);
    if (ask->kind == HEAD_ASK_LOAD || (r->at.seq == ask->at.seq && r->at.digest == ask->at.digest))
        return HEAD_WORD_OK;
    bool is_next = r->at.seq == ask->was.seq && r->at.digest == ask->was.digest;
    if (ask->kind != HEAD_ASK_APPLY || !(is_next || MT_PLANT(MT_PLANT_STORE_UNORDERED)))
        return HEAD_WORD_BEHIND;
    for (const struct head_item *item = ask->changes; item; item = item->next)
        take(r, item);
    stand(r, &ask->at);
    return HEAD_WORD_OK;
}

void twin_redis_do(struct twin_redis *r, const struct head_ask *ask, struct head_said *said)
{
    memset(said, 0, sizeof *said);
    if (r->has_lock && r->now >= r->held_until)
        r->holder[0] = '\0';
    if (ask->kind == HEAD_ASK_LEAVE && r->has_lock && strcmp(r->holder, r->me) == 0)
        r->holder[0] = '\0';
    if (ask->kind == HEAD_ASK_LEAVE)
        said->word = HEAD_WORD_OK;
    else if (!r->is_there && r->records.count > 0)
        said->word = HEAD_WORD_FOREIGN;
    else if (r->is_there && ask->cluster && ask->cluster[0] && strcmp(ask->cluster, r->cluster) != 0)
        said->word = HEAD_WORD_OTHER;
    else if (ask->kind == HEAD_ASK_LOOK)
        said->word = r->is_there ? HEAD_WORD_OK : HEAD_WORD_EMPTY;
    else if (ask->kind == HEAD_ASK_LEAD)
        said->word = lead(r, ask);
    else
        said->word = ask->kind == HEAD_ASK_REWRITE ? rewrite(r, ask) : apply(r, ask);
    said->at = r->at;
    memcpy(said->cluster, r->cluster, sizeof said->cluster);
    snprintf(said->holder, sizeof said->holder, "%s", r->holder);
}

void twin_redis_clear(struct twin_redis *r)
{
    head_shelf_fini(&r->records);
    memset(r, 0, sizeof *r);
}

void twin_redis_copy(struct twin_redis *to, const struct twin_redis *from)
{
    twin_redis_clear(to);
    for (const struct head_item *item = NULL; (item = head_shelf_next(&from->records, item));)
        take(to, item);
    to->is_there = from->is_there;
    memcpy(to->cluster, from->cluster, sizeof to->cluster);
    to->at = from->at;
    memcpy(to->past, from->past, sizeof to->past);
    to->count = from->count;
    to->has_lock = from->has_lock;
    memcpy(to->holder, from->holder, sizeof to->holder);
    to->held_until = from->held_until;
    to->now = from->now;
}
