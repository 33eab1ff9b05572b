/* SPDX-License-Identifier: Apache-2.0
 *
 * link.h - the connection to the raylet: made, served, undone; and the pump that carries out what the two halves want.
 *
 * Owns: every mapping that is shared with the raylet or a peer. Thread: any, under the owner lock once connected.
 */
#ifndef LIB_LINK_H
#define LIB_LINK_H

#include "clients/lib/shell/state/state.h"

#define LIB_SOCKET "MANTA_SOCKET" /* in the environment of a submitted driver that runs as another user than the raylet */
#define LIB_WARDEN "MANTA_WARDEN" /* in the environment of a warden: restarts so far, then what it is to make, as hex */

/* ---- connect.c ---- */
mt_status lib_hello(int fd, enum ctl_role role, uint64_t process, uint64_t job, int argc, char **argv, const char *job_name);
/* Waits for CTL_WELCOME and maps what it brings; lib is ready afterwards. The text of a refusal in `text`. */
mt_status lib_welcome(int fd, uint64_t process, int64_t timeout_ms, char text[256]);
/* A late step of a shutdown: nothing may look at shared memory afterwards. */
void lib_unmap_shared(void);
void lib_unmap_lane(void *lane);
/* What own_prepare does, for the shell's tables. */
mt_status lib_prepare(void);

/* ---- pump.c ---- */
/* Carries out what the halves want done: records up, wake-ups, unmapping. */
void lib_act(void);
/* Looks at everything that may have come: control lane, socket, completions. True: something was there. Without a raylet
 * (MANTA_INLINE=1) nothing comes. */
bool lib_pump(void);
/* What stands in the socket, whatever the park page says. */
void lib_socket_take(void);

#endif
