/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.h - which waiting job is looked at first, and what a job's end means for those that wait for it. Pure, as policy.h.
 */
#ifndef POLICY_QUEUE_H
#define POLICY_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct policy_turn {
    int32_t  priority; /* the higher, the sooner */
    double   share;    /* of its user (share.h): the less, the sooner; the same for all jobs of a user */
    uint64_t order;    /* of submission: the lower, the sooner */
};
/* < 0: a is looked at before b. 0 for equal orders only. */
int policy_turn_compare(const struct policy_turn *a, const struct policy_turn *b);

enum policy_after {                          /* JobAfter.kind on the wire */
                    POLICY_AFTER_OK = 1,     /* every one of them has succeeded */
                    POLICY_AFTER_ANY = 2,    /* they have ended, however */
                    POLICY_AFTER_NOT_OK = 3, /* one of them has not succeeded */
};
enum policy_answer { POLICY_NOT_YET, POLICY_MET, POLICY_NEVER };

/* What follows, for who waits for a job or for all jobs of an array, from the end of one of them: whether it has succeeded, and
 * whether all have ended now. Asked at each end, so an earlier one that has not succeeded was told before. */
enum policy_answer policy_after_judge(enum policy_after kind, bool has_succeeded, bool have_all_ended);
/* "succeeds", "ends", "fails": for people. */
const char *policy_after_text(enum policy_after kind);

#endif
