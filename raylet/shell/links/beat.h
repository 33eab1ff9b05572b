/* SPDX-License-Identifier: Apache-2.0
 *
 * beat.h - datagrams to the head, while its stream is open: head.c begins and ends them, shell.c sends what the core says.
 * Loop thread.
 */
#ifndef SH_LINKS_BEAT_H
#define SH_LINKS_BEAT_H

#include "raylet/shell/ground/ground.h"

struct rpc_stream;

/* By these terms, to where that stream leads. */
void sh_beats_begin(struct sh *sh, const Manta__V1__BeatTerms *terms, const struct rpc_stream *stream);
void sh_beats_end(struct sh *sh); /* nothing where none were begun */
void sh_beat(struct sh *sh, uint64_t counter, uint64_t echo, uint64_t report);
/* When the head last answered one; 0: it has not. */
uint64_t sh_beats_heard_ms(const struct sh *sh);

#endif
