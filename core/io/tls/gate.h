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
/* Takes an accepted socket, also when it fails, and gives the plain end: non-blocking, close-on-exec, the caller's; and what will
 * know the peer (NULL: nobody asks). ENOMEM, ESYS (no descriptors). Any thread. */
struct io_gate_peer;
MT_MUST_USE mt_status io_gate_take(struct io_gate *gate, int take_fd, int *out_fd, struct io_gate_peer **out_peer);
/* Whom the peer has shown to be: always, once a byte of his has come out of the plain end. Outlives the connection; the caller's
 * to free, NULL is allowed. Any thread. */
bool io_gate_peer_who(const struct io_gate_peer *peer, struct io_tls_who *out);
void io_gate_peer_free(struct io_gate_peer *peer);
/* Ends the connections of those who were revoked (io_tls_revoke) since they came. Any thread. */
void io_gate_drop_revoked(struct io_gate *gate);
/* Connections so far whose peer has not shown that it is a node of this cluster. Any thread. */
uint64_t io_gate_refused(const struct io_gate *gate);

#endif
