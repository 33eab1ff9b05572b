/* SPDX-License-Identifier: Apache-2.0
 *
 * dial.h - a connection over TCP to another daemon.
 */
#ifndef MT_IO_DIAL_H
#define MT_IO_DIAL_H

#include "core/base/status.h"

/* Begins to connect: the descriptor (non-blocking, close-on-exec, without Nagle's delay) is the caller's, and writable once it is
 * connected or has failed (SO_ERROR). `host` is a number, without brackets, or "localhost". EINVAL: no such address; ECONN: nobody
 * listens there; ESYS. Does not block. Any thread. */
MT_MUST_USE mt_status io_dial(const char *host, uint16_t port, int *out_fd);
/* What has become of it, once it is writable. ECONN; `sys` is ECONNREFUSED where nobody listens. */
MT_MUST_USE mt_status io_dialled(int fd);

#endif
