/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.h - waiting, and requests to the raylet that a thread waits for.
 *
 * Thread: any, under the owner lock, which is released while sleeping.
 *
 * Whoever waits leads, that is, serves everyone's completions while it waits; others that wait meanwhile follow (they sleep on
 * `followers`). When nobody waits, the helper thread looks (helper/).
 *
 *   waits ---- nobody leads ----> leads: pump, spin, park ---- ready, deadline, broken ----> goes on; the followers are woken
 *     '------ another leads ----> follows ---- woken, or a while is over ----> asks again who leads
 */
#ifndef LIB_WAIT_H
#define LIB_WAIT_H

#include "clients/lib/shell/state/state.h"

typedef bool (*lib_ready)(void *arg);
/* Until ready(arg), or the deadline (lib_now_ns; INT64_MAX: none). True: ready. Inside a task the CPU is given back. With
 * MANTA_INLINE=1 nothing can come: it looks once. */
bool lib_wait(lib_ready ready, void *arg, int64_t deadline_ns);
/* Those whom we wait for, and our owners, see on which cpu we are; a worker leaves it that was asked to. A store only where it has
 * changed: they read this cache line. */
void lib_note_cpu(void);
/* The same of a worker that has had no pause for a while. An actor whose callers crowd on its cpu leaves it, once a tick at most:
 * the kernel does not part those who ran a moment ago. */
void lib_part(uint64_t now_ns);
/* The helper's two: a look at the clock, and a sleep in the park page. `ready` may be NULL. */
void lib_tick(uint64_t now_ns);
void lib_park(lib_ready ready, void *arg, int64_t deadline_ns, uint64_t now_ns);

/* ---- cells of values that go from worker to worker: board.c ---- */
enum { LIB_BOARD_BYTES = OWN_EDGE_CELLS * LANE_CELL_BYTES };
/* At each tick: their memory is asked for once a task could be sent ahead, and taken over when it comes. */
void lib_board_tick(void);
/* The job is over, and own_close has been called: it is unmapped. */
void lib_board_end(void);
/* What the raylet gave. NULL: nothing, or it can't be mapped. */
void *lib_board_map(struct lib_request *request, struct ctl_segment *got);

/* ---- requests: ask.c, request.c ---- */
/* It is numbered and waited for; the caller sends it. */
manta_status lib_call_begin(struct lib_request *request, manta_error *e);
/* Sends a request and waits for its answer. EPROTO, ETIMEDOUT, or the code of a CTL_REPLY (text then in *e). */
manta_status lib_call(struct lib_request *request, uint16_t kind, const void *payload, size_t size, int64_t timeout_ms,
                      manta_error *e);
/* Around a wait for the raylet, as lib_call's: what of CPUs is lent meanwhile. Both under the lock, by the thread that waits. */
manta_ctx *lib_asks_begin(bool is_for_room);
void       lib_asks_end(manta_ctx *running);
/* The same from a public call, without the lock, any thread. *out: the answer, the caller frees it; NULL: the code says why. */
manta_status lib_ask(uint16_t kind, const void *payload, size_t size, struct lib_request **out, manta_error *e);
/* The two halves of lib_call, for who does something else meanwhile; or the answer is wanted no more. Not inline. */
manta_status lib_call_send(struct lib_request *request, uint16_t kind, const void *payload, size_t size, manta_error *e);
manta_status lib_call_await(struct lib_request *request, int64_t timeout_ms, manta_error *e);
void         lib_call_forget(const struct lib_request *request);
/* The same on the socket, with a descriptor (-1: none; it stays the caller's). */
manta_status lib_call_socket(struct lib_request *request, uint16_t kind, const void *payload, size_t size, const void *more,
                             size_t more_size, int fd, int64_t timeout_ms, manta_error *e);

#endif
