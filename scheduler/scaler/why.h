/* SPDX-License-Identifier: Apache-2.0
 *
 * why.h - why a demand is not met, made when somebody asks.
 */
#ifndef SCL_WHY_H
#define SCL_WHY_H

#include "scheduler/scaler/private.h"

struct scl_reason {
    char text[MT_SCL_WHY_SIZE];
    bool is_soon, is_never; /* what is unmet is started shortly, or can't be by any type */
};
void scl_note_left(struct scl *s, const struct plan *plan); /* after a packing, before anything follows from it */
void scl_say_why(const struct scl *s, const char *const *kinds, const struct held_demand *d, struct scl_reason *out);

#endif
