/* SPDX-License-Identifier: Apache-2.0
 *
 * replay.h - the points and turns of one trial of an earlier PBT sweep, for who wants to go that way again.
 */
#ifndef SWP_REPLAY_H
#define SWP_REPLAY_H

#include "sweep/manta_sweep.h"
#include "sweep/decide/scheduler.h"

struct swp_replay {
    struct swp_point first;
    struct swp_turn *turns; /* in order; freed by the caller */
    uint32_t         count;
};
/* `what`: "NAME" or "NAME:TRIAL". EINVAL: it is not so written, the sweep has no such trial, another space or metric; ENOENT: no
 * such sweep; ENOMEM. */
manta_status swp_replay_read(const char *storage, const char *what, const char *metric, const struct swp_space *space,
                             struct swp_replay *out, manta_error *e);

#endif
