/* SPDX-License-Identifier: Apache-2.0
 *
 * patience.h - how long a class that waits counts on a lease that was asked back. A door of this room.
 */
#ifndef RLT_PATIENCE_H
#define RLT_PATIENCE_H

#include "raylet/core/state/state.h"

uint64_t rlt_class_patience(const struct rlt_class *c);           /* in ns from the moment it was asked back */
void rlt_classes_learn(struct rlt *r, const struct rlt_lease *l); /* one that was asked back has come: those who waited for it */

#endif
