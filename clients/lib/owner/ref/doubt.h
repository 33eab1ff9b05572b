/* SPDX-License-Identifier: Apache-2.0
 *
 * doubt.h - door: the question of a reader who has missed a value (own_doubt_begin, lineage.h), ended or left for the next reader.
 *
 * Thread: as own.h.
 */
#ifndef OWN_DOUBT_H
#define OWN_DOUBT_H

#include "clients/lib/owner/ref/ref.h"

void own_doubt_end(struct own *own, const struct own_doubt *doubt);
/* Instead of that, by a reader who gives up: the ref's next reader finds the question under way, or its answer. */
void own_doubt_leave(struct own *own, const struct own_doubt *doubt, struct own_ref *ref);
bool own_doubt_is_left(struct own *own, const struct own_ref *ref);
/* Takes it, as if it had begun it: own_doubt_end, or leave, is due. False: there is none. */
bool own_doubt_resume(struct own *own, struct own_doubt *doubt, const struct own_ref *ref);
/* With the ref. */
void own_doubt_forget(struct own *own, struct own_extra *extra);

#endif
