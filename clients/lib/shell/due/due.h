/* SPDX-License-Identifier: Apache-2.0
 *
 * due.h - what user code is to be told: callbacks and deaths that are due, and the descriptor that rings for them.
 *
 * Thread: any, under the owner lock. Nothing of the user's is called here: helper/ does that.
 */
#ifndef LIB_DUE_H
#define LIB_DUE_H

#include "clients/lib/shell/state/state.h"

/* A death whose callbacks are due. */
void lib_news(const struct own_death *news);
void lib_callbacks_take(struct own_out *out);
void lib_callbacks_end(void);
/* With an event descriptor callbacks run in manta_progress alone. */
bool lib_has_events(void);
/* Makes the descriptor readable, if something came since manta_progress looked last. */
void lib_events_ring(void);
void lib_events_seen(void);

#endif
