/* SPDX-License-Identifier: Apache-2.0
 *
 * feed.h - the records of the next micro-batches, gathered by a thread while this one computes.
 *
 *   take (step, virtual rank) --> the oldest of the ready ones, if it is that; else the thread begins anew there
 *
 * What comes next is a pure function of the sampler (sampler.h), so a step that is repeated, or another share of the virtual
 * ranks, costs one wait and nothing else. Sets in memory are gathered on the spot: handing over to a thread takes longer.
 * Each of a worker's devices has a feed of its own. Thread: one takes; the feed's own is started by the first take from a
 * mapped file.
 */
#ifndef SGD_FEED_H
#define SGD_FEED_H

#include "sgd/data/data.h"
#include "sgd/data/sampler.h"
#include "sgd/tree/tree.h"

#include <pthread.h>

enum { SGD_FEED_PLACES = 4 }; /* one in use, the others ahead */

struct sgd_portion {
    uint8_t  *records, *labels; /* of one micro-batch; labels where the set has them */
    uint64_t *indices;
};

/* Where in the run: the step that begins at sample `samples`, a virtual rank. */
struct sgd_feed_at {
    uint64_t samples;
    uint32_t v;
};

struct sgd_feed {
    struct sgd_sampler        sampler;
    const struct sgd_dataset *set;
    struct sgd_portion        places[SGD_FEED_PLACES];
    void                     *memory;
    uint64_t                  waited_ns; /* in all, by whoever takes */
    bool                      has_thread;
    pthread_t                 thread;
    pthread_mutex_t           lock; /* of all below */
    pthread_cond_t            changed;
    bool                      is_ending;
    struct sgd_lane           lane;         /* of whoever takes */
    uint32_t                  round;        /* one more when the thread must begin anew */
    uint32_t                  taken, ready; /* of this round: places handed out, and filled */
    struct sgd_feed_at        next_take, next_fill;
};

/* ENOMEM. Sampler and set are kept until sgd_feed_fini. */
MT_MUST_USE mt_status sgd_feed_init(struct sgd_feed *feed, const struct sgd_sampler *sampler, const struct sgd_dataset *set);
void                  sgd_feed_fini(struct sgd_feed *feed);

/* Which virtual ranks are taken in each step, in this order; all, unless told. What is taken otherwise comes
 * all the same, after a wait. */
void sgd_feed_share(struct sgd_feed *feed, struct sgd_lane lane);

/* The records of a micro-batch, until the next take. */
const struct sgd_portion *sgd_feed_take(struct sgd_feed *feed, const struct sgd_feed_at *at);

#endif
