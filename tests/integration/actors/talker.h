/* SPDX-License-Identifier: Apache-2.0
 *
 * talker.h - actors that pass a token on to the next one of a ring, for the tests of manta_group_quiet. A test registers its type
 * over these functions: "know" and "pass". The board counts the hops.
 */
#ifndef INTEGRATION_TALKER_H
#define INTEGRATION_TALKER_H

#include "tests/integration/harness.h"

enum { TALKERS = 4, TALKER_TOKENS = 3, TALKER_HOPS = 0 /* word of the board */ };

struct talker {
    struct test_board *board;
    manta_actor       *next, *child; /* child: of the test's own methods */
};

manta_status talker_new(manta_ctx *c, void **self, int argc, const manta_arg *argv); /* "u": the board's number */
void         talker_free(void *self);
/* "A": whom it passes on to. */
manta_status talker_know(manta_ctx *c, void *self, int argc, const manta_arg *argv);
/* "ll": so many more hops; every so many it takes its time. Nobody waits for any of these calls. */
manta_status talker_pass(manta_ctx *c, void *self, int argc, const manta_arg *argv);

/* Each of the group knows the next one. */
void talkers_join(manta_group *g);
void talkers_send(manta_group *g, int to, int64_t hops, int64_t rest);
/* Long talks and short ones, of at most `most` hops, with pauses in which all but one are at rest. After each the group is quiet,
 * and all of it is on the board. */
void talkers_talk(manta_group *g, const struct test_board *board, int64_t most);

#endif
