/* SPDX-License-Identifier: Apache-2.0
 *
 * saver.c - the thread that writes checkpoints.
 *
 * Owns:   the copy of the state and the thread. The copy is the thread's while BUSY, else the trainer's.
 */
#include "sgd/saver.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { SAVER_NICE = 10, PIECE_BYTES = 1 << 20 };

/* ---- the copy, by both threads ---- */

/* With the lock held; gives it back while it copies. False: there is nothing left to claim. */
static bool piece_copy(struct sgd_saver *saver)
{
    size_t at = saver->claimed, left = saver->copy.state_size - at, size = left < PIECE_BYTES ? left : PIECE_BYTES;
    if (size == 0)
        return false;
    saver->claimed += size;
    pthread_mutex_unlock(&saver->lock);
    memcpy((char *)saver->copy.state + at, (const char *)saver->trainer->state + at, size);
    pthread_mutex_lock(&saver->lock);
    saver->copied += size;
    if (saver->copied == saver->copy.state_size)
        pthread_cond_broadcast(&saver->changed);
    return true;
}

/* With the lock held: all is copied. */
static void copy_end(struct sgd_saver *saver)
{
    while (piece_copy(saver))
        ;
    while (saver->copied < saver->copy.state_size)
        pthread_cond_wait(&saver->changed, &saver->lock);
}

static void settle(void *user)
{
    struct sgd_saver *saver = user;
    pthread_mutex_lock(&saver->lock);
    if (saver->state == SGD_SAVER_BUSY)
        copy_end(saver);
    pthread_mutex_unlock(&saver->lock);
}

/* ---- the thread ---- */

static void *saver_main(void *arg)
{
    struct sgd_saver *saver = arg;
    (void)setpriority(PRIO_PROCESS, 0, SAVER_NICE); /* of this thread, on Linux */
    if (!saver->copy.config.zero) /* so that the first copy does not wait for fresh pages */
        memset(saver->copy.state, 0, saver->copy.state_size);
    pthread_mutex_lock(&saver->lock);
    saver->state = SGD_SAVER_IDLE;
    pthread_cond_broadcast(&saver->changed);
    for (;;) {
        while (saver->state != SGD_SAVER_BUSY && !saver->is_ending)
            pthread_cond_wait(&saver->changed, &saver->lock);
        if (saver->state != SGD_SAVER_BUSY)
            break;
        copy_end(saver);
        pthread_mutex_unlock(&saver->lock);
        sgd_trace_open(saver->copy.trace, SGD_TRACK_SAVER, SGD_SPAN_SAVE, saver->copy.state->step);
        mt_status st = sgd_trainer_save(&saver->copy, saver->folder, &saver->keep, saver->generation);
        sgd_trace_close(saver->copy.trace, SGD_TRACK_SAVER);
        pthread_mutex_lock(&saver->lock);
        saver->result = st;
        saver->state = SGD_SAVER_DONE;
        pthread_cond_broadcast(&saver->changed);
    }
    pthread_mutex_unlock(&saver->lock);
    return NULL;
}

/* ---- the trainer's calls ---- */

mt_status sgd_saver_init(struct sgd_saver *saver, struct sgd_trainer *trainer, const char *folder, const struct sgd_keep *keep)
{
    *saver = (struct sgd_saver){.folder = folder, .keep = *keep, .trainer = trainer, .copy = *trainer};
    struct sgd_state *state = sgd_state_allocate(trainer->state_size);
    if (!state) {
        saver->copy.state = NULL;
        return mt_error(MT_ENOMEM, 0, "copy of the state for checkpoints");
    }
    sgd_trainer_attach(&saver->copy, state);
    saver->copy.resident = NULL; /* it is a copy of the host's floats */
    saver->copy.zero = (struct sgd_zero){.given_up = &saver->is_given_up};
    pthread_mutex_init(&saver->lock, NULL);
    pthread_cond_init(&saver->changed, NULL);
    trainer->settle = settle;
    trainer->settle_user = saver;
    return mt_ok();
}

void sgd_saver_fini(struct sgd_saver *saver)
{
    if (!saver->copy.state)
        return;
    pthread_mutex_lock(&saver->lock);
    saver->is_ending = true;
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
    sgd_saver_give_up(saver);
    if (saver->has_thread)
        pthread_join(saver->thread, NULL);
    saver->trainer->settle = NULL;
    pthread_cond_destroy(&saver->changed);
    pthread_mutex_destroy(&saver->lock);
    sgd_zero_free(&saver->copy);
    free(saver->copy.state);
    memset(saver, 0, sizeof *saver);
}

void sgd_saver_give_up(struct sgd_saver *saver)
{
    atomic_store(&saver->is_given_up, true);
}

/* A state in shards is copied at once: this member's shard, and in rank 0 the parameters, which it alone writes. */
static bool shard_copy(struct sgd_saver *saver)
{
    const struct sgd_trainer *trainer = saver->trainer;
    if (!trainer->config.zero)
        return true;
    if (sgd_zero_copy(&saver->copy, trainer).code != MT_OK)
        return false;
    if (trainer->zero.now.rank == 0)
        memcpy(saver->copy.state, trainer->state, trainer->state_size);
    return true;
}

bool sgd_saver_is_busy(struct sgd_saver *saver)
{
    pthread_mutex_lock(&saver->lock);
    bool is_busy = saver->state == SGD_SAVER_BUSY;
    pthread_mutex_unlock(&saver->lock);
    return is_busy;
}

/* The lock is held. */
static void thread_start(struct sgd_saver *saver)
{
    if (!saver->has_thread)
        saver->has_thread = pthread_create(&saver->thread, NULL, saver_main, saver) == 0;
}

void sgd_saver_start(struct sgd_saver *saver)
{
    pthread_mutex_lock(&saver->lock);
    thread_start(saver);
    pthread_mutex_unlock(&saver->lock);
}

/* Whether a copy can be taken now; only the trainer's own calls change that from true. */
static bool is_free(struct sgd_saver *saver)
{
    pthread_mutex_lock(&saver->lock);
    thread_start(saver);
    while (saver->has_thread && saver->state == SGD_SAVER_FRESH)
        pthread_cond_wait(&saver->changed, &saver->lock);
    bool is = saver->has_thread && saver->state == SGD_SAVER_IDLE;
    pthread_mutex_unlock(&saver->lock);
    return is;
}

bool sgd_saver_offer(struct sgd_saver *saver, uint64_t generation)
{
    if (!is_free(saver) || sgd_resident_pull(saver->trainer).code != MT_OK || !shard_copy(saver))
        return false;
    pthread_mutex_lock(&saver->lock);
    atomic_store(&saver->is_given_up, false);
    saver->claimed = saver->copied = offsetof(struct sgd_state, floats); /* what comes before changes at any time */
    memcpy(saver->copy.state, saver->trainer->state, saver->copied);
    if (saver->copy.config.zero)
        saver->claimed = saver->copied = saver->copy.state_size;
    saver->copy.has_state = saver->trainer->has_state;
    saver->generation = generation;
    saver->state = SGD_SAVER_BUSY;
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
    return true;
}

bool sgd_saver_take(struct sgd_saver *saver, bool wait, uint64_t *out_step, mt_status *out_result)
{
    bool is_done;
    if (!saver->has_thread) /* the trainer's own field: nothing was ever offered */
        return false;
    pthread_mutex_lock(&saver->lock);
    while (wait && saver->state == SGD_SAVER_BUSY)
        pthread_cond_wait(&saver->changed, &saver->lock);
    is_done = saver->state == SGD_SAVER_DONE;
    if (is_done) {
        saver->state = SGD_SAVER_IDLE;
        *out_step = saver->copy.state->step;
        *out_result = saver->result;
    }
    pthread_mutex_unlock(&saver->lock);
    return is_done;
}
