/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead.h - what a generation needs, made beside the one that computes: a leader's connections with the other nodes, and the pages
 * of memory that its first step would touch for the first time.
 *
 *   NONE --make--> MAKING --all are connected--> MADE --take, drop--> NONE
 *                     '--an error, not wanted any more-------------->'
 *
 * Thread: one that makes, beside one that takes and drops.
 */
#ifndef SGD_AHEAD_H
#define SGD_AHEAD_H

#include "sgd/sum/group.h"

#include <pthread.h>
#include <stdatomic.h>

enum sgd_ahead_state { SGD_AHEAD_NONE, SGD_AHEAD_MAKING, SGD_AHEAD_MADE };

struct sgd_ahead {
    pthread_mutex_t       lock;
    pthread_cond_t        changed;
    enum sgd_ahead_state  state;
    uint32_t              generation;
    _Atomic bool          is_unwanted;
    const void           *region; /* of this member's node; where a generation from `ends_at` on ends, this is over too */
    uint32_t              ends_at;
    struct sgd_group_made made;
    unsigned char         secret[COLL_SECRET_BYTES];
};

mt_status sgd_ahead_init(struct sgd_ahead *ahead);
void      sgd_ahead_fini(struct sgd_ahead *ahead);

/* Blocks until all leaders are connected, at most config->wait_limit_ms; of a member that is none, until its pages are there. The
 * region is not joined, so another generation may compute in it. The door is used: nobody else joins meanwhile. `present`: the
 * generation that computes; its end, or a later one's, ends this. */
MT_MUST_USE mt_status sgd_ahead_make(struct sgd_ahead *ahead, const struct sgd_group_config *config, uint32_t present);
/* Moves out what was made for this generation, for sgd_group_join; false: nothing was. Anything else that was made, or is being
 * made, is dropped: this waits until nobody makes anything. What comes after may be made at once. */
bool sgd_ahead_take(struct sgd_ahead *ahead, uint32_t generation, struct sgd_group_made *out);

#endif
