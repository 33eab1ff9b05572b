/* SPDX-License-Identifier: Apache-2.0
 *
 * saver.c - the thread that writes checkpoints.
 *
 * Owns:   the copy of the state and the thread. The copy is the thread's while BUSY, else the trainer's.
 */
#include "sgd/saver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { SAVER_NICE = 10 };

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
        pthread_mutex_unlock(&saver->lock);
        mt_status st = sgd_trainer_save(&saver->copy, saver->folder, &saver->keep, saver->generation);
        pthread_mutex_lock(&saver->lock);
        saver->result = st;
        saver->state = SGD_SAVER_DONE;
        pthread_cond_broadcast(&saver->changed);
    }
    pthread_mutex_unlock(&saver->lock);
    return NULL;
}

mt_status sgd_saver_init(struct sgd_saver *saver, const struct sgd_trainer *trainer, const char *folder,
                         const struct sgd_keep *keep)
{
    *saver = (struct sgd_saver){.folder = folder, .keep = *keep, .copy = *trainer};
    struct sgd_state *state = sgd_state_allocate(trainer->state_size);
    if (!state) {
        saver->copy.state = NULL;
        return mt_error(MT_ENOMEM, 0, "copy of the state for checkpoints");
    }
    sgd_trainer_attach(&saver->copy, state);
    saver->copy.zero = (struct sgd_zero){.given_up = &saver->is_given_up};
    pthread_mutex_init(&saver->lock, NULL);
    pthread_cond_init(&saver->changed, NULL);
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

/* Of a state in shards: this member's, and in rank 0 the parameters, which it alone writes. */
static bool state_copy(struct sgd_trainer *copy, const struct sgd_trainer *trainer)
{
    bool is_zero = trainer->config.zero, has_params = !is_zero || trainer->zero.now.rank == 0;
    if (is_zero && sgd_zero_copy(copy, trainer).code != MT_OK)
        return false;
    memcpy(copy->state, trainer->state, has_params ? trainer->state_size : sizeof *trainer->state);
    copy->has_state = trainer->has_state;
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

bool sgd_saver_offer(struct sgd_saver *saver, const struct sgd_trainer *trainer, uint64_t generation)
{
    bool is_taken = false;
    pthread_mutex_lock(&saver->lock);
    thread_start(saver);
    while (saver->has_thread && saver->state == SGD_SAVER_FRESH)
        pthread_cond_wait(&saver->changed, &saver->lock);
    if (saver->has_thread && saver->state == SGD_SAVER_IDLE && state_copy(&saver->copy, trainer)) {
        atomic_store(&saver->is_given_up, false);
        saver->generation = generation;
        saver->state = SGD_SAVER_BUSY;
        pthread_cond_broadcast(&saver->changed);
        is_taken = true;
    }
    pthread_mutex_unlock(&saver->lock);
    return is_taken;
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
