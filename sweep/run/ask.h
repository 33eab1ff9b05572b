/* SPDX-License-Identifier: Apache-2.0
 *
 * ask.h - another program as sampler: questions on its standard input, answers on its standard output, a line of JSON each.
 *
 *   driver: {"space":{...},"maximize":false,"seed":1}          once, first; the space as in the journal
 *   driver: {"suggest":N}                   program: {"params":{...}}  or {"end":true}
 *   driver: {"restore":N,"params":{...}}    a trial drawn before this program was started; no answer
 *   driver: {"tell":N,"state":"complete","value":0.5,"step":9}        no answer; state: complete, pruned, failed
 *
 * Thread: one at a time. A question waits for its answer, MT_SWEEP_ASK_MS at most.
 */
#ifndef SWP_ASK_H
#define SWP_ASK_H

#include "sweep/run/driver.h"

struct swp_ask;

/* `command`: program and arguments with blanks between them. EINVAL, ENOENT, ENOMEM, ESYS: *out_problem says why. */
MT_MUST_USE mt_status swp_ask_new(const char *command, const struct swp_space *space, bool maximize, uint64_t seed,
                                  struct swp_ask **out, struct swp_problem *out_problem);
void                  swp_ask_free(struct swp_ask *ask);
struct swp_source     swp_ask_source(struct swp_ask *ask);
/* What its last failure was. */
const char *swp_ask_text(const struct swp_ask *ask);

#endif
