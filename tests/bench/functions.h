/* SPDX-License-Identifier: Apache-2.0
 *
 * functions.h - the remote functions of manta-bench, from the driver's side.
 *
 *   bench_noop    (x) -> bench_mix(x)                  bench_client_task  (count, actors...) -> calls that came back right
 *   bench_block   (x, size) -> bytes                   bench_victim       (board) -> pid; its first attempt waits to be killed
 *   bench_fail    (board) -> an error, once board.may_fail
 *   bench_actor   mix(x), pid(), calls(), client(count, actors...), size(bytes)
 */
#ifndef BENCH_FUNCTIONS_H
#define BENCH_FUNCTIONS_H

#include "tests/bench/bench.h"

enum { BENCH_FAIL_CODE = 77 }; /* of bench_fail's error */

/* Keeps a CPU until it is cancelled. */
manta_ref *bench_hold_task(void);
/* Does `count` puts of `size` bytes in a worker; how many were read back right. */
manta_ref *bench_puts_task(int64_t count, int64_t size);
/* Nanoseconds that a worker's get of `ref` took; < 0 where it is not the block that bench_block makes. */
manta_ref *bench_fetch_task(manta_ref *ref, int64_t x, int64_t size);
/* Whether a view holds what bench_block(x, size) makes. */
bool bench_block_is(const manta_view *view, int64_t x, size_t size);

#endif
