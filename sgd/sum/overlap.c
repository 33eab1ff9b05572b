/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap.c - a thread that sums buckets of ranges.
 *
 * Owns: the thread and the list of ranges. `lock` guards everything else.
 */
#include "sgd/sum/overlap.h"

#include "sgd/ground/team.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct sgd_overlap {
    const struct k_ops   *ops;
    struct sgd_trace_row *trace; /* the trainer's; NULL: none */
    pthread_t             thread;
    pthread_mutex_t       lock;
    pthread_cond_t        work, done;
    struct sgd_group     *group;  /* NULL: no step is under way */
    struct sgd_range     *ranges; /* in the order in which they became ready */
    size_t                count, room;
    size_t                open_floats;
    size_t                closed; /* ranges before this one are in closed buckets */
    size_t                summed; /* and before this one are summed */
    bool                  is_complete, is_ending;
    mt_status             st;
    uint32_t              devices;
    struct sgd_range     *said; /* by the device that is furthest, in its order */
    size_t                said_count, said_room;
    size_t                told[MT_TRAIN_DEVICES_MAX]; /* of these, by each device */
};

/* ---- the list ---- */

/* False: there is no memory, and o->st says so. */
static bool append(struct sgd_overlap *o, struct sgd_range **list, size_t *count, size_t *room, struct sgd_range range)
{
    if (*count == *room) {
        size_t            wanted = *room ? 2 * *room : 256;
        struct sgd_range *more = realloc(*list, wanted * sizeof *more);
        if (!more) {
            o->st = mt_error(MT_ENOMEM, 0, "no memory for a list of gradients");
            return false;
        }
        *list = more;
        *room = wanted;
    }
    (*list)[(*count)++] = range;
    return true;
}

static void range_add(struct sgd_overlap *o, size_t begin, size_t end)
{
    if (begin >= end || o->st.code != MT_OK || !append(o, &o->ranges, &o->count, &o->room, (struct sgd_range){begin, end}))
        return;
    o->open_floats += end - begin;
    if (o->open_floats >= MT_TRAIN_BUCKET_BYTES / sizeof(float)) {
        o->closed = o->count;
        o->open_floats = 0;
    }
}

static size_t told_by_all(const struct sgd_overlap *o)
{
    size_t least = o->told[0];
    for (uint32_t d = 1; d < o->devices; d++)
        least = o->told[d] < least ? o->told[d] : least;
    return least;
}

/* What the last of the devices says is final in all of them. */
static void tell(struct sgd_overlap *o, uint32_t device, struct sgd_range range)
{
    size_t *told = &o->told[device], before = told_by_all(o);
    if (o->st.code != MT_OK)
        return;
    if (*told == o->said_count && !append(o, &o->said, &o->said_count, &o->said_room, range))
        return;
    const struct sgd_range *said = &o->said[(*told)++];
    if (said->begin != range.begin || said->end != range.end)
        o->st = mt_error(MT_EINVAL, 0, "the devices of a worker say in different orders which of their gradients are ready");
    for (size_t i = before; i < told_by_all(o); i++)
        range_add(o, o->said[i].begin, o->said[i].end);
}

static int by_begin(const void *a, const void *b)
{
    const struct sgd_range *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* What nobody announced, in pieces of a bucket at most. */
static void rest_add(struct sgd_overlap *o)
{
    size_t            floats = o->group->plan.slot_floats, at = 0, known = o->count;
    struct sgd_range *sorted = calloc(known + 1, sizeof *sorted);
    if (!sorted) {
        o->st = mt_error(MT_ENOMEM, 0, "no memory for a list of gradients");
        return;
    }
    if (known)
        memcpy(sorted, o->ranges, known * sizeof *sorted);
    qsort(sorted, known, sizeof *sorted, by_begin);
    sorted[known] = (struct sgd_range){floats, floats};
    for (size_t i = 0; i <= known; i++) {
        for (size_t n; at < sorted[i].begin; at += n) {
            n = sorted[i].begin - at;
            n = n < MT_TRAIN_BUCKET_BYTES / sizeof(float) ? n : MT_TRAIN_BUCKET_BYTES / sizeof(float);
            range_add(o, at, at + n);
        }
        at = sorted[i].end > at ? sorted[i].end : at;
    }
    free(sorted);
    o->closed = o->count;
}

/* ---- the thread ---- */

/* Ranges of the next bucket: from `summed` on, as range_add closed them. */
static size_t bucket_end(const struct sgd_overlap *o)
{
    size_t floats = 0, i = o->summed;
    while (i < o->closed && floats < MT_TRAIN_BUCKET_BYTES / sizeof(float)) {
        floats += o->ranges[i].end - o->ranges[i].begin;
        i++;
    }
    return i;
}

static uint64_t bytes_of(const struct sgd_range *ranges, size_t count)
{
    size_t floats = 0;
    for (size_t i = 0; i < count; i++)
        floats += ranges[i].end - ranges[i].begin;
    return floats * sizeof(float);
}

/* With the lock held; gives it back while it sums. */
static void bucket_sum(struct sgd_overlap *o)
{
    size_t            from = o->summed, count = bucket_end(o) - from;
    struct sgd_group *group = o->group;
    struct sgd_range *copy = malloc(count * sizeof *copy); /* the list may move meanwhile */
    if (!copy) {
        o->st = mt_error(MT_ENOMEM, 0, "no memory for a bucket");
        return;
    }
    memcpy(copy, o->ranges + from, count * sizeof *copy);
    qsort(copy, count, sizeof *copy, by_begin);
    pthread_mutex_unlock(&o->lock);
    sgd_trace_open(o->trace, SGD_TRACK_SUMS, SGD_SPAN_BUCKET, bytes_of(copy, count));
    mt_status st = sgd_group_reduce_ranges(group, o->ops, copy, count);
    sgd_trace_close(o->trace, SGD_TRACK_SUMS);
    pthread_mutex_lock(&o->lock);
    free(copy);
    o->summed = from + count;
    if (o->st.code == MT_OK)
        o->st = st;
}

static bool is_through(const struct sgd_overlap *o)
{
    return !o->group || o->st.code != MT_OK || o->summed == o->closed;
}

static void *serve(void *arg)
{
    struct sgd_overlap *o = arg;
    (void)pthread_setname_np(pthread_self(), SGD_COMPUTES "sums");
    pthread_mutex_lock(&o->lock);
    while (!o->is_ending) {
        if (!is_through(o)) {
            bucket_sum(o);
            continue;
        }
        if (o->is_complete) {
            o->group = NULL;
            o->is_complete = false;
            pthread_cond_signal(&o->done);
        }
        pthread_cond_wait(&o->work, &o->lock);
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

/* ---- the trainer's calls ---- */

struct sgd_overlap *sgd_overlap_new(const struct k_ops *ops, struct sgd_trace_row *trace)
{
    struct sgd_overlap *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->ops = ops;
    o->trace = trace;
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->work, NULL);
    pthread_cond_init(&o->done, NULL);
    if (pthread_create(&o->thread, NULL, serve, o) == 0)
        return o;
    free(o);
    return NULL;
}

void sgd_overlap_free(struct sgd_overlap *o)
{
    if (!o)
        return;
    pthread_mutex_lock(&o->lock);
    MT_ASSERT(!o->group);
    o->is_ending = true;
    pthread_cond_signal(&o->work);
    pthread_mutex_unlock(&o->lock);
    pthread_join(o->thread, NULL);
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->work);
    pthread_cond_destroy(&o->done);
    free(o->ranges);
    free(o->said);
    free(o);
}

void sgd_overlap_begin(struct sgd_overlap *o, struct sgd_group *group, uint32_t devices)
{
    MT_ASSERT(devices >= 1 && devices <= MT_TRAIN_DEVICES_MAX);
    pthread_mutex_lock(&o->lock);
    MT_ASSERT(!o->group);
    o->devices = devices;
    o->said_count = 0;
    memset(o->told, 0, devices * sizeof *o->told);
    o->group = group;
    o->count = o->closed = o->summed = o->open_floats = 0;
    o->is_complete = false;
    o->st = mt_ok();
    pthread_mutex_unlock(&o->lock);
}

void sgd_overlap_ready(struct sgd_overlap *o, uint32_t device, size_t begin, size_t end)
{
    pthread_mutex_lock(&o->lock);
    size_t closed = o->closed;
    if (o->devices == 1)
        range_add(o, begin, end);
    else
        tell(o, device, (struct sgd_range){begin, end});
    if (o->closed > closed)
        pthread_cond_signal(&o->work);
    pthread_mutex_unlock(&o->lock);
}

mt_status sgd_overlap_end(struct sgd_overlap *o)
{
    pthread_mutex_lock(&o->lock);
    rest_add(o);
    o->is_complete = true;
    pthread_cond_signal(&o->work);
    while (o->group)
        pthread_cond_wait(&o->done, &o->lock);
    mt_status st = o->st;
    pthread_mutex_unlock(&o->lock);
    return st;
}
