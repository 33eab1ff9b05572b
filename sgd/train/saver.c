/* SPDX-License-Identifier: Apache-2.0
 *
 * saver.c - the thread that writes checkpoints.
 *
 * Owns:   the copy of the state and the thread. The copy is the thread's while FRESH and BUSY, else the trainer's and its devices'.
 */
#include "sgd/train/saver.h"

#include "core/base/machine.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { SAVER_NICE = 10 };

/* ---- states ---- */

static const char *const saver_names[] = {[SGD_SAVER_FRESH] = "FRESH",
                                          [SGD_SAVER_IDLE] = "IDLE",
                                          [SGD_SAVER_COPYING] = "COPYING",
                                          [SGD_SAVER_BUSY] = "BUSY",
                                          [SGD_SAVER_DONE] = "DONE"};
/* Drawn in saver.h. */
static const uint32_t saver_next[] = {
    [SGD_SAVER_FRESH] = MT_STATE(SGD_SAVER_IDLE),   [SGD_SAVER_IDLE] = MT_STATE(SGD_SAVER_COPYING) | MT_STATE(SGD_SAVER_BUSY),
    [SGD_SAVER_COPYING] = MT_STATE(SGD_SAVER_BUSY), [SGD_SAVER_BUSY] = MT_STATE(SGD_SAVER_DONE),
    [SGD_SAVER_DONE] = MT_STATE(SGD_SAVER_IDLE),
};
static const struct mt_machine saver_machine = MT_MACHINE("saver", saver_names, saver_next);

/* The lock is held. Who waits for a change is woken. */
static void sgd_saver_set_state(struct sgd_saver *saver, enum sgd_saver_state next)
{
    MT_TRANSITION(&saver_machine, saver->state, next);
    MT_ASSERT(next != SGD_SAVER_BUSY || atomic_load(&saver->missing) == 0); /* the thread writes whole copies */
    saver->state = next;
    pthread_cond_broadcast(&saver->changed);
}

/* ---- the copy ---- */

/* Parameters and moments of one block. What stands behind the last in its line is copied along: nobody reads it. */
static void block_copy(struct sgd_saver *saver, size_t begin, size_t end)
{
    size_t lines = ((end - begin) * sizeof(float) + 63) / 64;
    saver->loops->stream(saver->copy.params + begin, saver->trainer->params + begin, lines);
    for (uint32_t m = 0; m < sgd_optimizer_moments(&saver->trainer->config.optimizer); m++)
        saver->loops->stream(saver->copy.moments[m] + begin, saver->trainer->moments[m] + begin, lines);
}

static void copy_end(struct sgd_saver *saver)
{
    pthread_mutex_lock(&saver->lock);
    sgd_saver_set_state(saver, SGD_SAVER_BUSY);
    pthread_mutex_unlock(&saver->lock);
}

/* The trainer's: a block at a time while one is missing. */
static size_t settle(void *user, size_t begin, size_t end)
{
    struct sgd_saver *saver = user;
    size_t            block = begin / SGD_SHARD_BLOCK, next = (block + 1) * SGD_SHARD_BLOCK;
    if (atomic_load_explicit(&saver->missing, memory_order_relaxed) == 0)
        return end;
    end = next < end ? next : end;
    if (saver->has[block])
        return end;
    block_copy(saver, begin, end);
    saver->has[block] = 1;
    coll_copies_end();
    if (atomic_fetch_sub(&saver->missing, 1) == 1)
        copy_end(saver);
    return end;
}

/* ---- the thread ---- */

static void *saver_main(void *arg)
{
    struct sgd_saver *saver = arg;
    (void)setpriority(PRIO_PROCESS, 0, SAVER_NICE); /* of this thread, on Linux */
    if (!saver->copy.config.zero)                   /* so that the first copy does not wait for fresh pages */
        memset(saver->copy.state, 0, saver->copy.state_size);
    pthread_mutex_lock(&saver->lock);
    sgd_saver_set_state(saver, SGD_SAVER_IDLE);
    for (;;) {
        while (saver->state != SGD_SAVER_BUSY && !saver->is_ending)
            pthread_cond_wait(&saver->changed, &saver->lock);
        if (saver->state != SGD_SAVER_BUSY)
            break;
        pthread_mutex_unlock(&saver->lock);
        sgd_trace_open(saver->copy.trace, SGD_TRACK_SAVER, SGD_SPAN_SAVE, saver->copy.state->step);
        mt_status st = sgd_trainer_save(&saver->copy, saver->folder, &saver->keep, saver->generation);
        sgd_trace_close(saver->copy.trace, SGD_TRACK_SAVER);
        pthread_mutex_lock(&saver->lock);
        saver->result = st;
        sgd_saver_set_state(saver, SGD_SAVER_DONE);
    }
    pthread_mutex_unlock(&saver->lock);
    return NULL;
}

/* ---- the trainer's calls ---- */

mt_status sgd_saver_init(struct sgd_saver *saver, struct sgd_trainer *trainer, const char *folder, const struct sgd_keep *keep)
{
    *saver = (struct sgd_saver){.folder = folder, .keep = *keep, .trainer = trainer, .copy = *trainer};
    struct sgd_state *state = sgd_state_allocate(trainer->state_size);
    saver->has = malloc(sgd_shard_blocks(trainer->config.model->params.floats));
    if (!state || !saver->has) {
        saver->copy.state = NULL;
        free(saver->has);
        free(state);
        return mt_error(MT_ENOMEM, 0, "copy of the state for checkpoints");
    }
    sgd_trainer_attach(&saver->copy, state);
    saver->copy.resident = NULL; /* it is a copy of the host's floats */
    saver->loops = coll_loops_choose(NULL);
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
    sgd_trainer_settle(saver->trainer);
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
    free(saver->has);
    memset(saver, 0, sizeof *saver);
}

void sgd_saver_give_up(struct sgd_saver *saver)
{
    atomic_store(&saver->is_given_up, true);
}

/* A state in shards is copied at once: this member's shard, and the parameters in those who write them. */
static bool shard_copy(struct sgd_saver *saver)
{
    const struct sgd_trainer *trainer = saver->trainer;
    if (!trainer->config.zero)
        return true;
    if (sgd_zero_copy(&saver->copy, trainer).code != MT_OK)
        return false;
    saver->copy.zero.apart = trainer->zero.apart;
    if (trainer->zero.now.rank == 0 || trainer->zero.apart.keeps)
        memcpy(saver->copy.state, trainer->state, trainer->state_size);
    return true;
}

bool sgd_saver_is_busy(struct sgd_saver *saver)
{
    sgd_trainer_settle(saver->trainer);
    pthread_mutex_lock(&saver->lock);
    bool is_busy = saver->state == SGD_SAVER_BUSY || (saver->has_thread && saver->state == SGD_SAVER_FRESH);
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

/* The lock is held. */
static void copy_begin(struct sgd_saver *saver)
{
    size_t blocks = sgd_shard_blocks(saver->copy.config.model->params.floats);
    sgd_saver_set_state(saver, saver->copy.config.zero ? SGD_SAVER_BUSY : SGD_SAVER_COPYING);
    if (saver->state == SGD_SAVER_BUSY)
        return;
    memset(saver->has, 0, blocks);
    atomic_store(&saver->missing, blocks);
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
    memcpy(saver->copy.state, saver->trainer->state, offsetof(struct sgd_state, floats)); /* this changes at any time */
    saver->copy.has_state = saver->trainer->has_state;
    saver->generation = generation;
    copy_begin(saver);
    pthread_mutex_unlock(&saver->lock);
    if (saver->trainer->resident) /* updates are the device's: none would make the copy */
        sgd_trainer_settle(saver->trainer);
    return true;
}

bool sgd_saver_take(struct sgd_saver *saver, bool wait, uint64_t *out_step, mt_status *out_result)
{
    bool is_done;
    if (!saver->has_thread) /* the trainer's own field: nothing was ever offered */
        return false;
    if (wait)
        sgd_trainer_settle(saver->trainer);
    pthread_mutex_lock(&saver->lock);
    while (wait && saver->state == SGD_SAVER_BUSY)
        pthread_cond_wait(&saver->changed, &saver->lock);
    is_done = saver->state == SGD_SAVER_DONE;
    if (is_done) {
        sgd_saver_set_state(saver, SGD_SAVER_IDLE);
        *out_step = saver->copy.state->step;
        *out_result = saver->result;
    }
    pthread_mutex_unlock(&saver->lock);
    return is_done;
}
