/* SPDX-License-Identifier: Apache-2.0
 *
 * shepherd.h - a process that does nothing but hold one rank: it starts the program, passes signals on, and leaves nothing behind.
 *
 *   supervisor (an actor) <--socket--> shepherd --starts--> the rank, in a session of its own
 *
 * It is the subreaper of all that the rank starts, so also of what has left the rank's process group or session. When the rank
 * has ended, what it left is killed; then its end is told. When the supervisor is gone (the end of the socket), all is killed.
 * Should the shepherd itself be killed, the rank dies with it, and the rest is the supervisor's, a subreaper too. One that stands
 * still (SIGSTOP) goes on with the next signal for its rank, and when the supervisor is gone.
 *
 * It is this very program once more, under another name: what runs on a node has no other file there.
 */
#ifndef GNG_SHEPHERD_H
#define GNG_SHEPHERD_H

#include <stdint.h>

#define GNG_SHEPHERD_NAME "manta-gang-rank" /* argv[0]; the program and its arguments follow */

enum { GNG_SHEPHERD_FD = 3 /* its socket */, GNG_SHEPHERD_RANK_FD = 4 /* the rank's, where one of these variables is set */ };
#define GNG_SHEPHERD_PMI   "PMI_FD"         /* a connection to the server of PMI */
#define GNG_SHEPHERD_MEETS "MANTA_TORCH_FD" /* a socket for lines (plan/meet.h) */

enum gng_shepherd_kind {
    GNG_SHEPHERD_STARTED = 1 /* value: pid */,
    GNG_SHEPHERD_REFUSED /* errno */,
    GNG_SHEPHERD_ENDED /* as waitpid */
};
struct gng_shepherd_word { /* shepherd to supervisor; the other way an int32_t: a signal */
    int32_t kind, value;
};

/* The shepherd's main. */
int gng_shepherd_main(int argc, char **argv);

#endif
