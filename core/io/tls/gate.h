/* SPDX-License-Identifier: Apache-2.0
 *
 * gate.h - TLS in front of somebody who wants a plain socket (gRPC takes no TLS on descriptors).
 *
 *     peer --TLS--> [fd  gate's thread  socketpair] --plain--> whoever gets the other end
 *
 * One thread for all connections of a gate. A connection whose peer does not show who it is ends; its plain end has seen no byte
 * then. The end of either side ends the other, and so does shutdown() of the plain end.
 */
#ifndef MT_IO_GATE_H
#define MT_IO_GATE_H

#include "core/io/tls/tls.h"

struct io_gate;

/* Starts the thread. `tls` is borrowed until io_gate_free. ENOMEM, ESYS. Any thread. */
MT_MUST_USE mt_status io_gate_new(const struct io_tls *tls, struct io_gate **out_gate);
/* Ends every connection, after what was sent through it as far as that does not wait; then the thread. Blocks until that is
 * done. The thread that made it. NULL is allowed. */
void io_gate_free(struct io_gate *gate);
/* Takes an accepted socket, also when it fails, and gives the plain end: non-blocking, close-on-exec, the caller's.
 * ENOMEM, ESYS (no descriptors). Any thread. */
MT_MUST_USE mt_status io_gate_take(struct io_gate *gate, int take_fd, int *out_fd);
/* Connections so far whose peer has not shown that it is a node of this cluster. Any thread. */
uint64_t io_gate_refused(const struct io_gate *gate);

#endif
