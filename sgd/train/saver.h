/* SPDX-License-Identifier: Apache-2.0
 *
 * saver.h - checkpoints beside the training: a thread that writes a copy of the state.
 *
 * A step waits only for the copy, never for the disk. And parameters and moments stay as they are until the next update, so the
 * copy is made there: each block goes past the caches into the copy just before it is updated (the trainer's `settle`), which
 * reads it anyway. The thread has touched the copy's memory before the first one, and writes when nobody else has work for the
 * processor. One save at a time; who comes while it runs is told so and comes again later.
 *
 *   FRESH --thread--> IDLE --sgd_saver_offer--> COPYING --last block--> BUSY --written, or failed--> DONE --sgd_saver_take--> IDLE
 *
 * A state in shards is copied at once: IDLE --> BUSY.
 *
 * Who waits for a save makes what is left of its copy. Memory: one more state, kept; a byte for each block.
 *
 * Thread: the trainer's calls everything here, `settle` also its devices'; the saver's own is started by the first offer.
 */
#ifndef SGD_SAVER_H
#define SGD_SAVER_H

#include "sgd/coll/math/math.h"
#include "sgd/train/trainer.h"

#include <pthread.h>

enum sgd_saver_state { SGD_SAVER_FRESH, SGD_SAVER_IDLE, SGD_SAVER_COPYING, SGD_SAVER_BUSY, SGD_SAVER_DONE };

struct sgd_saver {
    const char              *folder; /* kept */
    struct sgd_keep          keep;
    pthread_t                thread;
    bool                     has_thread;
    pthread_mutex_t          lock;
    pthread_cond_t           changed;
    enum sgd_saver_state     state;     /* under lock */
    bool                     is_ending; /* under lock */
    struct sgd_trainer      *trainer;
    const struct coll_loops *loops;
    _Atomic size_t           missing; /* blocks of the copy; more than 0 while COPYING only */
    uint8_t                 *has;     /* for each block: it is copied. Of the thread that changes the block */
    struct sgd_trainer       copy;    /* with a state of its own; the rest is the trainer's and does not change */
    uint64_t                 generation;
    mt_status                result;
    _Atomic bool             is_given_up; /* of a state in shards: the others' parts will not come */
};

/* `folder`, the trainer and its model are kept until sgd_saver_fini, which comes before the trainer's. ENOMEM. */
MT_MUST_USE mt_status sgd_saver_init(struct sgd_saver *saver, struct sgd_trainer *trainer, const char *folder,
                                     const struct sgd_keep *keep);
/* Waits for a save that is running. */
void sgd_saver_fini(struct sgd_saver *saver);

/* Starts the thread, where it does not run: whoever will offer calls this some time before. */
void sgd_saver_start(struct sgd_saver *saver);

/* Has the trainer's state saved as it is now; it is copied by the time its floats change. Waits for a thread that is not ready yet.
 * False: the last save still runs or was not taken, or there is no thread to be had; come again. */
bool sgd_saver_offer(struct sgd_saver *saver, uint64_t generation);

/* A save that waits for other members' parts ends: their generation is over. */
void sgd_saver_give_up(struct sgd_saver *saver);

/* A save runs, or the thread is not ready for one yet: it touches the copy's memory, which takes longer than a worker may show
 * nothing, where others have the processors. Who asks is waiting for it: makes what is left of the copy. */
bool sgd_saver_is_busy(struct sgd_saver *saver);

/* The outcome of a save that has ended, once; false: there is none. With `wait`, waits for one that runs. */
bool sgd_saver_take(struct sgd_saver *saver, bool wait, uint64_t *out_step, mt_status *out_result);

#endif
