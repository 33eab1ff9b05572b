/* SPDX-License-Identifier: Apache-2.0
 *
 * start.h - what the files of this room share: a job begins and ends, the embedded cluster, a warden's life.
 *
 * Thread: the one in manta_init or manta_shutdown.
 */
#ifndef LIB_START_H
#define LIB_START_H

#include "clients/lib/shell/state/state.h"

/* ---- private.c: the embedded cluster ---- */
mt_status lib_private_start(const manta_init_opts *opts, int *out_fd, char text[256]);
void      lib_private_up(void); /* the raylet serves: the folder is held by it from now on */
void      lib_private_stop(void);

/* ---- shutdown.c ---- */
/* What was of the job goes; handles that the user holds stay, as own_close leaves them. Under the lock. */
void lib_session_end(const char *why);

/* ---- warden.c ---- */
bool             lib_is_warden(void);
char            *lib_warden_text(void); /* takes it out of the environment; malloc; NULL: this process is no warden */
MT_NORETURN void lib_warden_serve(char *take_text);

#endif
